/* The messages of one card: its columns, and which of them a search finds.

   What differs between messages only in time, cell and frame is a kind, of which a drive has a few hundred: a search
   looks at kinds and cells, and only looks up each message. */
"use strict";

const Messages = (() => {
  const [RAT, PROTOCOL, DIRECTION, CHANNEL, NAME, CAUSE, BAD, UNNAMED] = [0, 1, 2, 3, 4, 5, 6, 7];
  const UNTIMED = 1;
  const NEW_CLOCK = 2;
  const WAYS = { up: "↑", down: "↓" };
  const rest = () => new Promise((done) => setTimeout(done));

  const textsOf = ({ lines }, all) => lines.map((line) => all[line]);

  /* Turn what the page holds of a group into columns. */
  async function read(group, texts) {
    const { tick_s: tick, ...stored } = group.messages;
    const columns = await Decoder.columns(stored, textsOf(stored, texts), rest);
    const time = columns.time.map((ticks) => ticks * tick);
    const strips = [];
    for (const strip of group.strips) strips.push(await spans(strip, texts));
    return { ...group, ...columns, time, count: stored.points, strips, order: null };
  }

  async function spans(strip, texts) {
    const { tick_s: tick, ...stored } = strip.spans;
    const { begin, until, label, lane } = await Decoder.columns(stored, textsOf(stored, texts), rest);
    const end = begin.map((ticks, i) => (ticks + until[i]) * tick);
    return { ...strip, begin: begin.map((ticks) => ticks * tick), end, label, lane };
  }

  const kindOf = (group, row) => group.kinds[group.kind[row]];
  const isUntimed = (group, row) => (group.flags[row] & UNTIMED) !== 0;

  /* All that the page says of a message, as texts. */
  function facts(group, row) {
    const kind = kindOf(group, row);
    return {
      rat: kind[RAT],
      protocol: kind[PROTOCOL],
      way: WAYS[kind[DIRECTION]] ?? "",
      direction: kind[DIRECTION],
      channel: kind[CHANNEL],
      name: kind[NAME],
      cause: kind[CAUSE],
      cell: group.cells[group.cell[row]],
      isBad: kind[BAD] === 1,
      isUnnamed: kind[UNNAMED] === 1,
      isNewClock: (group.flags[row] & NEW_CLOCK) !== 0,
      isUntimed: isUntimed(group, row),
      frame: group.frame[row],
      log: group.log ? group.log[row] : group.only,
      time: group.time[row],
    };
  }

  const words = (kind) => kind.slice(RAT, CAUSE + 1).join(" ").toLowerCase();

  /* The rows that a search finds, as an array of row numbers; null for all. */
  function found(group, { search = "", protocol = "", name = "", cause = "", onlyBad = false, from = null, to = null }) {
    const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
    if (!wanted.length && !protocol && !name && !cause && !onlyBad && from === null) return null;
    const fits = (kind) =>
      (!protocol || kind[PROTOCOL] === protocol) &&
      (!name || kind[NAME] === name) &&
      (!cause || (cause === "any" ? kind[CAUSE] !== "" : kind[CAUSE] === cause.slice(1))) &&
      (!onlyBad || kind[BAD] === 1);
    const chosen = group.kinds.map(fits);
    const kinds = group.kinds.map(words);
    const cells = group.cells.map((cell) => cell.toLowerCase());
    const inKinds = wanted.map((word) => kinds.map((text) => text.includes(word)));
    const inCells = wanted.map((word) => cells.map((text) => text.includes(word)));
    const [first, end] = from === null ? [0, group.count] : Columns.within(group, [from, to]);
    const rows = new Int32Array(end - first);
    let count = 0;
    for (let row = first; row < end; row++) {
      const kind = group.kind[row];
      if (!chosen[kind]) continue;
      let isThere = true;
      for (let i = 0; isThere && i < wanted.length; i++) isThere = inKinds[i][kind] || inCells[i][group.cell[row]];
      if (isThere) rows[count++] = row;
    }
    return rows.subarray(0, count);
  }

  /* How many messages have each value of a column of kinds, the most first. */
  function counts(group, column) {
    const perKind = new Uint32Array(group.kinds.length);
    for (let row = 0; row < group.count; row++) perKind[group.kind[row]]++;
    const sums = new Map();
    for (const [i, kind] of group.kinds.entries()) {
      if (perKind[i] && kind[column]) sums.set(kind[column], (sums.get(kind[column]) ?? 0) + perKind[i]);
    }
    return [...sums].sort((one, other) => other[1] - one[1]);
  }

  /* The position in `rows` (null: all) of the message that is nearest to a time; -1 without messages. */
  function nearest(group, rows, seconds) {
    const count = rows ? rows.length : group.count;
    if (!count) return -1;
    const at = (position) => group.time[rows ? rows[position] : position];
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at(middle) < seconds) low = middle + 1;
      else high = middle;
    }
    return low > 0 && seconds - at(low - 1) < at(low) - seconds ? low - 1 : low;
  }

  return { read, facts, found, counts, nearest, kindOf, isUntimed, PROTOCOL, DIRECTION, NAME, CAUSE, BAD, WAYS };
})();
