/* What the page says of one packet, what a press on it copies, and how a packet or a place is found again. */
"use strict";

const Packets = (() => {
  const fileOf = ({ packets }, { file }, i) => packets?.files[file ? file[i] : 0];

  /* The lines of a hover text: when, how much, which packet, and the verdict on it. */
  function lines(figure, series, panel, i) {
    const { time, value, until, frame, file } = series.table;
    const ends = [value[i], ...(until ? [until[i]] : [])].map((each) => Axes.words(each, panel.unit, 12));
    const where = frame && fileOf(figure, series.table, i);
    const verdict = frame && series.rare && figure.packets?.verdicts[`${file ? file[i] : 0} ${frame[i]}`];
    return [
      `${time[i].toFixed(6)} ${figure.unit}`,
      ends.join(" to "),
      Columns.frames(series.table, i) + (where ? ` (${where.name})` : ""),
      verdict ? `verdict: ${verdict}` : "",
    ].filter(Boolean);
  }

  /* A display filter for Wireshark, and the command that prints the packet; "" for a point without a packet. */
  function command(figure, series, i) {
    const { frame, answer } = series.table;
    const where = frame && fileOf(figure, series.table, i);
    if (!where) return "";
    const filter = [frame[i], ...(answer ? [answer[i]] : [])].map((each) => `frame.number == ${each}`).join(" || ");
    return `${filter}\ntshark -r ${where.quoted} -Y '${filter}'`;
  }

  /* Put text onto the clipboard; where the browser has none for files, by the old way. */
  async function copy(words) {
    try {
      await navigator.clipboard.writeText(words);
    } catch {
      const area = document.createElement("textarea");
      area.value = words;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  /* The time of a frame of the file, in the first series that has it; NaN if there is none. */
  function timeOfFrame(figure, number) {
    for (const { table } of figure.series) {
      const i = table.frame ? table.frame.indexOf(number) : -1;
      if (i >= 0) return table.time[i];
    }
    return NaN;
  }

  /* The button that shows the first row or finding with these words: a finding's name, a port, a cell. */
  function buttonOf(words) {
    const wanted = words.toLowerCase();
    return [...document.querySelectorAll("button[data-show]")].find((button) =>
      button.closest("tr, li")?.textContent.toLowerCase().includes(wanted),
    );
  }

  /* What an entry of the search field means: { time } in seconds, { button } to press, or {} for nothing. */
  function find(figure, entry) {
    const words = entry.trim();
    const [, frame] = words.match(/^(?:frame|#)\s*(\d+)$/i) ?? [];
    if (frame) return { time: timeOfFrame(figure, Number(frame)) };
    const [, seconds] = words.match(/^(\d+(?:\.\d*)?|\.\d+)\s*s?$/i) ?? [];
    if (seconds && Number(seconds) <= figure.span[1]) return { time: Number(seconds) };
    const [, hours, minutes, rest] = words.match(/^(?:(\d+):(?=\d+:))?(\d+):(\d\d(?:\.\d*)?)$/) ?? [];
    const clock = Number(hours ?? 0) * 3600 + Number(minutes) * 60 + Number(rest); // as the page writes times
    if (clock <= figure.span[1]) return { time: clock };
    return words ? { button: buttonOf(words) } : {};
  }

  return { lines, command, copy, find };
})();
