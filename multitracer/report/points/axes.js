/* Numbers as an axis and a hover text write them, and the round places where an axis has its ticks. */
"use strict";

const Axes = (() => {
  const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
  const PLAIN_UNITS = new Set(["dBm", "dB", "%", ""]); // nobody says millidecibel

  /* A value with at most `digits` digits and the prefix of its size: 0.0123 s is 12.3 ms. */
  function words(value, unit, digits = 4) {
    const size = Math.abs(value);
    const [factor, prefix] = PLAIN_UNITS.has(unit) ? [1, ""] : (PREFIXES.find(([each]) => size >= each) ?? [1, ""]);
    return `${Number((value / factor).toPrecision(digits))} ${prefix}${unit}`.trimEnd();
  }

  /* The round step (1, 2 or 5 times a power of ten) that cuts a range into at most `most` parts. */
  function step(range, most) {
    const rough = range / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * ([1, 2, 5].find((each) => each * power >= rough * (1 - 1e-9)) ?? 10);
  }

  /* Ticks of [low, high]: their values, and the decimals that tell them apart. */
  function ticks(low, high, most) {
    if (!(high > low)) return { values: [], decimals: 0 };
    const ends = (width) => [Math.ceil(low / width - 1e-9), Math.floor(high / width + 1e-9)];
    let width = step(high - low, most);
    if (ends(width)[1] <= ends(width)[0]) width = step(high - low, 2 * most); // a single tick tells no scale
    const [first, last] = ends(width);
    const values = [];
    for (let i = first; i <= last; i++) values.push(i * width);
    return { values, decimals: Math.max(0, -Math.floor(Math.log10(width) + 1e-9)) };
  }

  // seconds, as in time_axis.py
  const CLOCK_STEPS = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18000, 36000,
    86400, 172800, 432000, 864000, 2592000, 8640000,
  ];

  /* Ticks of times: below a minute as of any number, else whole seconds, minutes or hours. */
  function times(low, high, most) {
    const width = CLOCK_STEPS.find((each) => each * most >= high - low);
    if (!(high >= 60) || !(high - low >= most) || !width) return ticks(low, high, most);
    const values = [];
    for (let i = Math.ceil(low / width - 1e-9); i <= Math.floor(high / width + 1e-9); i++) values.push(i * width);
    return values.length > 1 ? { values, decimals: 0 } : ticks(low, high, most);
  }

  /* Whether the times of a figure are written as minutes and seconds, as on the first screen. */
  const isClock = (figure) => figure.unit === "s" && figure.span[1] >= 60;

  /* Seconds as minutes and seconds, 12:05, or hours, 1:02:05. */
  function clock(seconds, decimals = 0) {
    const size = Math.abs(Number(seconds.toFixed(decimals)));
    const [hours, minutes, rest] = [Math.floor(size / 3600), Math.floor(size / 60) % 60, (size % 60).toFixed(decimals)];
    const long = hours ? `${hours}:${String(minutes).padStart(2, "0")}` : minutes;
    return `${seconds < 0 && size ? "−" : ""}${long}:${rest.padStart(decimals ? decimals + 3 : 2, "0")}`;
  }

  const pen = document.createElement("canvas").getContext?.("2d");
  const widths = new Map();

  /* How wide words are in a font, px. */
  function wide(words, font) {
    const key = `${font} ${words}`;
    if (!widths.has(key)) {
      pen.font = font;
      widths.set(key, pen.measureText(words).width);
    }
    return widths.get(key);
  }

  /* The lines of a text that are at most so wide, unless a single word is wider. */
  function wrapped(text, width_px, font) {
    const lines = [];
    for (const word of text.split(" ")) {
      const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
      if (lines.length && wide(longer, font) <= width_px) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines;
  }

  return { words, ticks, times, isClock, clock, wide, wrapped };
})();
