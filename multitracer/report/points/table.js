/* What can be asked of a series' table: columns of numbers in order of time, with blocks of their extremes. */
"use strict";

const Columns = (() => {
  /* Inverse of pack.py: columns of zigzag varint differences, one after the other; in seconds where a tick is given. */
  function unpack(pack) {
    const bytes = Uint8Array.from(atob(pack.data), (c) => c.charCodeAt(0));
    const columns = {};
    let at = 0;
    for (const name of pack.columns) {
      const column = new Float64Array(pack.points);
      let number = 0;
      for (let i = 0; i < pack.points; i++) {
        let zigzag = 0;
        let place = 1;
        for (;;) {
          const byte = bytes[at++];
          zigzag += (byte & 127) * place;
          if (byte < 128) break;
          place *= 128;
        }
        number += zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
        column[i] = number;
      }
      columns[name] = column;
    }
    return Decoder.scaled(columns, pack);
  }

  /* The table of a series whose points are in the page as they are. */
  const table = (series) => Decoder.withBlocks(unpack(series));

  /* The first position from `low` on whose time is >= seconds. */
  function position(time, seconds, low = 0, high = time.length) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (time[middle] < seconds) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /* Positions [first, end) of the points in a view, both ends of which belong to it. */
  function within({ time }, [from, to]) {
    const first = position(time, from);
    let end = position(time, to, first);
    while (end < time.length && time[end] === to) end++;
    return [first, end];
  }

  const extremes = { low: 0, high: 0 };

  /* The lowest and highest value of the points [first, end); one object for all calls, to spare memory. */
  function range(table, first, end) {
    extremes.low = Infinity;
    extremes.high = -Infinity;
    gather(table, -1, first, end);
    return extremes;
  }

  /* Go over the entries of a level (-1: the points), whole blocks of them by the next coarser level. */
  function gather(table, level, first, end) {
    const coarser = table.levels[level + 1];
    const begin = Math.ceil(first / Decoder.BLOCK);
    const close = Math.floor(end / Decoder.BLOCK);
    if (!coarser || begin >= close) return look(table, level, first, end);
    look(table, level, first, begin * Decoder.BLOCK);
    gather(table, level + 1, begin, close);
    return look(table, level, close * Decoder.BLOCK, end);
  }

  function look(table, level, first, end) {
    const { low, high } = level < 0 ? { low: table.value, high: table.until ?? table.value } : table.levels[level];
    for (let i = first; i < end; i++) {
      if (low[i] < extremes.low) extremes.low = low[i];
      if (high[i] > extremes.high) extremes.high = high[i];
      if (level < 0 && table.until && high[i] < extremes.low) extremes.low = high[i];
      if (level < 0 && table.until && low[i] > extremes.high) extremes.high = low[i];
    }
  }

  /* The value of a line at a time between the points `before` and `before + 1`; NaN outside. */
  function between({ time, value }, before, seconds, isStep) {
    if (before < 0 || before + 1 >= time.length) return NaN;
    if (isStep) return value[before];
    const share = (seconds - time[before]) / (time[before + 1] - time[before]);
    return value[before] + share * (value[before + 1] - value[before]);
  }

  const SAMPLES = 33; // of a column of pixels: their median is within a few percent of the whole one's
  const sampled = new Float64Array(SAMPLES);

  /* The median of the points [first, end), or of 33 that are spread evenly over them. */
  function median({ value }, first, end) {
    const count = Math.min(end - first, SAMPLES);
    for (let i = 0; i < count; i++) sampled[i] = value[first + Math.floor(((end - first) * (i + 0.5)) / count)];
    return sampled.subarray(0, count).sort()[count >> 1];
  }

  /* The frame, or the two frames, that a point comes from; "" for others. */
  function frames({ frame, answer, file }, i) {
    if (!frame) return "";
    const answered = answer ? `, answered by ${answer[i]}` : "";
    const where = file ? ` of file ${file[i] + 1}` : "";
    return `frame ${frame[i]}${answered}${where}`;
  }

  return { unpack, table, position, within, range, between, median, frames };
})();
