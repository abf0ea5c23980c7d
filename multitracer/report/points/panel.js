/* One panel of a figure on a canvas: the scale of its values, its lines, its marks and its envelopes.

   Where a view holds more points than pixels, a series is drawn as its envelope: for each column of pixels the
   lowest and the highest value, and for points their median. Rare events are always drawn one by one. */
"use strict";

const PanelPen = (() => {
  const DOTS_PER_PX = 1.5; // of a series of points; with more of them in a view it becomes an envelope
  const NODES_PER_PX = 4; // of a line
  const CROWDED_PER_PX = 0.1; // marks; denser ones are drawn smaller, so that what is below shines through
  const SMALLER = 0.5;
  const CELL_PX = 2; // of events of one kind that fall into one such square, one is drawn
  const ENVELOPE_ALPHA = 0.3;
  const THINNEST_PX = 1.5;
  const ROOM = 0.05; // free share of the value axis above and below

  /* Which points of a series a view holds, and whether it shows them one by one. */
  function part(series, view, width_px) {
    const [first, end] = Columns.within(series.table, view);
    const isLine = series.look.mark === "line" || series.look.mark === "step";
    const most = width_px * (series.look.mark === "points" ? DOTS_PER_PX : NODES_PER_PX);
    return { series, first, end, isLine, single: series.rare || end - first <= most };
  }

  function extremesOf({ series, first, end, isLine }, view) {
    const { low, high } = Columns.range(series.table, first, end);
    if (!isLine) return { low, high };
    const isStep = series.look.mark === "step";
    const edges = [[first - 1, view[0]], [end - 1, view[1]]]
      .map(([before, seconds]) => Columns.between(series.table, before, seconds, isStep))
      .filter((value) => !Number.isNaN(value));
    return { low: Math.min(low, ...edges), high: Math.max(high, ...edges) };
  }

  function ends(parts, view) {
    const each = parts.map((one) => extremesOf(one, view));
    const low = Math.min(...each.map((one) => one.low));
    const high = Math.max(...each.map((one) => one.high));
    return low <= high ? { low, high } : null;
  }

  /* The range of a panel's axis in this view, and what to say of a bound that lies above it; the rule is that
     of value_range in figures/stack.py. */
  function scale(panel, parts, view) {
    if (panel.shades) return { range: [0, 1], above: "" };
    const bound = ends(parts.filter(({ series }) => series.bound), view);
    const rest = ends(parts.filter(({ series }) => !series.bound), view) ?? bound;
    if (!rest) return { range: [0, 1], above: "" };
    const low = panel.from_zero ? Math.min(rest.low, 0) : rest.low;
    const height = (panel.from_zero ? 2 : 1) * (rest.high - low);
    const most = height > 0 ? rest.high + height : Infinity;
    const high = bound && bound.high <= most ? Math.max(rest.high, bound.high) : rest.high;
    const room = (high - low) * ROOM || Math.abs(high) * ROOM || 1;
    const range = [panel.from_zero && low === 0 ? 0 : low - room, high + room];
    return { range, above: bound && bound.high > range[1] ? aboveWords(panel, parts, view, range[1]) : "" };
  }

  function aboveWords(panel, parts, view, top) {
    const hidden = parts.filter((one) => one.series.bound && extremesOf(one, view).high > top);
    const highest = Math.max(...hidden.map((one) => extremesOf(one, view).high));
    return `${hidden.map(({ series }) => series.name).join(", ")} above, up to ${Axes.words(highest, panel.unit, 3)}`;
  }

  /* Where a time and a value lie on the canvas. */
  function placing(box, view, range) {
    const across = box.width / (view[1] - view[0]);
    const up = box.height / (range[1] - range[0]);
    return {
      x: (seconds) => box.left + (seconds - view[0]) * across,
      y: (value) => box.top + box.height - (value - range[0]) * up,
    };
  }

  /* For each column of pixels that has points: its number, where they begin, and where they end. */
  function* columnsOf({ series, first, end }, view, width_px) {
    const { time } = series.table;
    const width_s = (view[1] - view[0]) / width_px;
    for (let at = first; at < end; ) {
      const column = Math.min(width_px - 1, Math.max(0, Math.floor((time[at] - view[0]) / width_s)));
      const next = Math.max(at + 1, Columns.position(time, view[0] + (column + 1) * width_s, at, end));
      yield [column, at, next];
      at = next;
    }
  }

  function drawEnvelope(pen, one, place, box, view) {
    const { series } = one;
    const { table } = series;
    let last = NaN; // a line goes on from the column before, so that it has no gaps
    let beyond = 0;
    for (const [column, first, end] of columnsOf(one, view, box.width)) {
      const { low, high } = Columns.range(table, first, end);
      if (low > high) continue;
      if (one.isLine && column > beyond && !Number.isNaN(last)) {
        pen.fillRect(box.left + beyond, place.y(last) - THINNEST_PX / 2, column - beyond, THINNEST_PX);
      }
      beyond = column + 1;
      const top = place.y(one.isLine && last > high ? last : high);
      const bottom = place.y(one.isLine && last < low ? last : low);
      const middle = (top + bottom) / 2;
      const height = Math.max(bottom - top, THINNEST_PX);
      pen.globalAlpha = one.isLine ? 1 : ENVELOPE_ALPHA;
      pen.fillRect(box.left + column, middle - height / 2, 1, height);
      last = table.value[end - 1];
      if (one.isLine || series.look.mark === "bars") continue;
      pen.globalAlpha = 1;
      pen.fillRect(box.left + column, place.y(Columns.median(table, first, end)) - THINNEST_PX / 2, 1, THINNEST_PX);
    }
    pen.globalAlpha = 1;
  }

  function drawLine(pen, { series, first, end }, place) {
    const { time, value } = series.table;
    const isStep = series.look.mark === "step";
    let before = NaN;
    pen.beginPath();
    for (let i = Math.max(first - 1, 0); i < Math.min(end + 1, time.length); i++) {
      if (!Number.isNaN(value[i])) {
        if (Number.isNaN(before)) pen.moveTo(place.x(time[i]), place.y(value[i]));
        else if (isStep) pen.lineTo(place.x(time[i]), place.y(before));
        pen.lineTo(place.x(time[i]), place.y(value[i]));
      }
      before = value[i];
    }
    pen.lineWidth = series.look.size;
    pen.setLineDash(Marks.dash(series.look));
    pen.stroke();
    pen.setLineDash([]);
  }

  /* Readings of a line as dots, too: one between two gaps would be no line. */
  function drawDots(pen, { series, first, end }, place) {
    const { time, value } = series.table;
    for (let i = first; i < end; i++) pen.fillRect(place.x(time[i]) - 1.5, place.y(value[i]) - 1.5, 3, 3);
  }

  function drawBars(pen, { series, first, end }, place) {
    const { time, value, until } = series.table;
    pen.beginPath();
    for (let i = first; i < end; i++) {
      pen.moveTo(place.x(time[i]), place.y(value[i]));
      pen.lineTo(place.x(time[i]), place.y(until[i]));
    }
    pen.lineWidth = series.look.size;
    pen.stroke();
  }

  function drawMarks(pen, { series, first, end }, place, box, density) {
    const { time, value } = series.table;
    const crowded = series.rare && end - first > CROWDED_PER_PX * box.width;
    const size_px = series.look.size * (crowded ? SMALLER : 1);
    const { canvas, side_px } = Marks.sprite(series.look, pen.fillStyle, size_px, density);
    let seen = new Set();
    let column = NaN;
    for (let i = first; i < end; i++) {
      const x = place.x(time[i]);
      const y = place.y(value[i]);
      const cell = Math.round(x / CELL_PX);
      if (cell !== column) seen = new Set();
      column = cell;
      if (crowded && seen.has(Math.round(y / CELL_PX))) continue;
      seen.add(Math.round(y / CELL_PX));
      pen.drawImage(canvas, x - side_px / 2, y - side_px / 2, side_px, side_px);
    }
  }

  /* One series in the box of its panel. */
  function draw(pen, one, { box, view, range, colour, density }) {
    const place = placing(box, view, range);
    pen.fillStyle = pen.strokeStyle = colour;
    if (!one.single) return drawEnvelope(pen, one, place, box, view);
    if (one.series.look.mark === "points") return drawMarks(pen, one, place, box, density);
    if (one.series.look.mark === "bars") return drawBars(pen, one, place);
    drawLine(pen, one, place);
    if (one.series.look.readings) drawDots(pen, one, place);
    return undefined;
  }

  /* The stretches of a view in which a series of a panel of shades is 1. */
  function shades({ series, first, end }, view) {
    const { time, value } = series.table;
    const stretches = [];
    for (let i = Math.max(first - 1, 0); i < Math.min(end, time.length - 1); i++) {
      if (value[i] === 1 && time[i + 1] >= view[0]) stretches.push([time[i], time[i + 1]]);
    }
    return stretches;
  }

  return { part, scale, placing, columnsOf, draw, shades };
})();
