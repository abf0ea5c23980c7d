/* From the text of a column to its numbers, and from these to the blocks that make far views quick.

   The inverse of points/columns.py: base64, gzip, byte planes, zigzag, differences. `makeDecoder` is one
   function because its text also becomes the worker: nothing outside of it may be named inside. */
"use strict";

const makeDecoder = () => {
  const BLOCK = 64; // points of a block, and blocks of the next coarser one
  const SLICE = 200_000; // numbers between two pauses on the main thread: some milliseconds
  const INT_BYTES = 4; // of what bitwise operators work on
  const BREAK = -(2 ** 50); // of figures/series.py: here a line is interrupted

  function bytesOf(text) {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
    return bytes;
  }

  async function inflated(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /* The numbers of one column: their zigzag-coded differences lie in planes, all lowest bytes first. */
  async function column(text, { points, planes }, pause) {
    const bytes = await inflated(bytesOf(text));
    if (bytes.length !== points * planes) throw new Error("a column has not the length that it states");
    const numbers = new Float64Array(points);
    const sum = planes <= INT_BYTES ? sumOfInts : sumOfDoubles;
    for (let first = 0; first < points; first += SLICE) {
      sum(bytes, numbers, first, Math.min(first + SLICE, points));
      await pause();
    }
    return numbers;
  }

  /* Add up the differences [first, end) of numbers, with the integers of a processor: a third quicker as a whole. */
  function sumOfInts(bytes, numbers, first, end) {
    const points = numbers.length;
    let number = first && numbers[first - 1];
    for (let i = first; i < end; i++) {
      let zigzag = 0;
      for (let at = i + bytes.length - points; at >= 0; at -= points) zigzag = (zigzag << 8) | bytes[at];
      number += (zigzag >>> 1) ^ -(zigzag & 1);
      numbers[i] = number;
    }
  }

  /* The same of differences that are wider than an integer of a processor. */
  function sumOfDoubles(bytes, numbers, first, end) {
    const points = numbers.length;
    let number = first && numbers[first - 1];
    for (let i = first; i < end; i++) {
      let zigzag = 0;
      for (let at = i + bytes.length - points; at >= 0; at -= points) zigzag = zigzag * 256 + bytes[at];
      number += zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
      numbers[i] = number;
    }
  }

  /* Turn the written whole numbers into seconds and values of the axis, in place. */
  function scaled(columns, { tick_s = 1, scale = 1 }) {
    const { time, value, until } = columns;
    if (time) for (let i = 0; i < time.length; i++) time[i] *= tick_s;
    if (until) for (let i = 0; i < until.length; i++) until[i] = (value[i] + until[i]) * scale;
    if (value) for (let i = 0; i < value.length; i++) value[i] = value[i] === BREAK ? NaN : value[i] * scale;
    return columns;
  }

  /* The lowest and highest value of each BLOCK entries of a level; NaN counts for nothing. */
  function coarser(low, high) {
    const blocks = Math.ceil(low.length / BLOCK);
    const level = { low: new Float64Array(blocks), high: new Float64Array(blocks) };
    for (let block = 0; block < blocks; block++) {
      const end = Math.min((block + 1) * BLOCK, low.length);
      let [least, most] = [Infinity, -Infinity];
      for (let i = block * BLOCK; i < end; i++) {
        if (low[i] < least) least = low[i];
        if (high[i] > most) most = high[i];
      }
      [level.low[block], level.high[block]] = [least, most];
    }
    return level;
  }

  /* Level 0 holds blocks of 64 points, level 1 of 64 times 64, and so on. */
  function pyramid({ value, until }) {
    const levels = [];
    let finer = { low: value, high: value };
    if (until) finer = { low: value.map((v, i) => Math.min(v, until[i])), high: value.map((v, i) => Math.max(v, until[i])) };
    while (finer.low.length > BLOCK) {
      finer = coarser(finer.low, finer.high);
      levels.push(finer);
    }
    return levels;
  }

  /* Columns by name. `texts` holds a text for each of them; `pause` lets others work. */
  async function columns(stored, texts, pause) {
    const read = {};
    for (const [i, name] of stored.columns.entries()) {
      read[name] = await column(texts[i], { points: stored.points, planes: stored.planes[i] }, pause);
    }
    return read;
  }

  /* A series as the page draws it. */
  const table = async (stored, texts, pause) => withBlocks(scaled(await columns(stored, texts, pause), stored));

  const withBlocks = (columns) => ({ ...columns, levels: pyramid(columns) });

  return { table, columns, inflated: (text) => inflated(bytesOf(text)), scaled, withBlocks, BLOCK };
};

const Decoder = makeDecoder();
