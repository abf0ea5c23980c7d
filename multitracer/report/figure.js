/* Draws the figures of a report from the packed series in the page, with plotly.js and nothing else.

   Every point is stored once, with the level of the coarsest picture that needs it (figures/downsample.py).
   A view draws the deepest level whose points in that view stay below a limit, so a zoom brings more detail
   without a server. Only SVG traces are used: below the limits they draw in about half a second, and they
   work where WebGL is missing. */
"use strict";

const Figures = (() => {
  const MOST_POINTS = { points: 4500, bars: 6000, line: 9000, step: 9000 };
  const MOST_IN_VIEW = 45000;
  const CROWDED = 1500;
  const DEEPEST = 12;
  const MANY_SHARES = 8.5; // of the height of panels; with more of them the plot grows
  const SHARE_PX = 110;
  const BREAK = -(2 ** 50); // of figures/series.py: here a line is interrupted

  /* Inverse of pack.py: columns of zigzag varint differences, one after the other. */
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
    columns.time &&= columns.time.map((ticks) => ticks * pack.tick_s);
    columns.value &&= columns.value.map((number) => (number === BREAK ? NaN : number));
    return columns;
  }

  /* The first position whose time is >= seconds. */
  function position(time, seconds) {
    let low = 0;
    let high = time.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (time[middle] < seconds) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /* Which points of a series a view shows: the deepest level that stays below the limit. */
  function choose(series, [from, to], share) {
    const { time, level } = series.table;
    const first = position(time, from);
    let end = first;
    const count = new Array(DEEPEST + 1).fill(0);
    for (; end < time.length && time[end] <= to; end++) count[level[end]]++;
    let deepest = 0;
    let total = count[0];
    const most = MOST_POINTS[series.mark] * share;
    while (deepest < DEEPEST && total + count[deepest + 1] <= most) {
      deepest++;
      total += count[deepest];
    }
    const index = [];
    for (let i = first; i < end; i++) if (level[i] <= deepest) index.push(i);
    return { index, first, end, whole: total === end - first };
  }

  function words(series, i) {
    const { frame, answer, file } = series.table;
    if (!frame) return "";
    const answered = answer ? `, answered by ${answer[i]}` : "";
    const where = file ? ` of file ${file[i] + 1}` : "";
    return `frame ${frame[i]}${answered}${where}`;
  }

  /* A line is cut at the edges of the view, so that the value axis fits what is seen. */
  function edge(series, before, after, seconds) {
    const { time, value } = series.table;
    if (before < 0 || after >= time.length) return null;
    if (series.mark === "step") return value[before];
    const share = (seconds - time[before]) / (time[after] - time[before]);
    return value[before] + share * (value[after] - value[before]);
  }

  /* Marks that would cover each other are drawn smaller, and events so that what is below shines through. */
  function sparser(style, points) {
    if (!style.marker || points < CROWDED) return {};
    const opacity = style.marker.symbol === "circle" ? 1 : 0.45;
    return { marker: { ...style.marker, size: style.marker.size * 0.65, opacity } };
  }

  /* The lowest and highest value drawn; null if there is none. */
  function ends(drawn) {
    let low = Infinity;
    let high = -Infinity;
    for (const { y } of drawn) {
      for (const value of y) {
        if (value === null) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    return low <= high ? { low, high } : null;
  }

  function prefixed(value, unit) {
    for (const [factor, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"]]) {
      if (value >= factor) return `${Number((value / factor).toPrecision(3))} ${prefix}${unit}`;
    }
    return `${value} ${unit}`;
  }

  /* The range of a panel's axis in this view, and what to say of a bound that lies above it; the rule is that
     of value_range in figures/stack.py. */
  function scale(panel, series, drawn) {
    const own = series.map((s, i) => [s, drawn[i]]).filter(([s, d]) => d && s.panel === panel.key);
    const bound = ends(own.filter(([s]) => s.bound).map(([, d]) => d));
    const rest = ends(own.filter(([s]) => !s.bound).map(([, d]) => d)) ?? bound;
    if (!rest) return {};
    const low = panel.from_zero ? Math.min(rest.low, 0) : rest.low;
    const height = (panel.from_zero ? 2 : 1) * (rest.high - low);
    const most = height > 0 ? rest.high + height : Infinity;
    const high = bound && bound.high <= most ? Math.max(rest.high, bound.high) : rest.high;
    const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
    const range = [panel.from_zero && low === 0 ? 0 : low - room, high + room];
    const above = bound && bound.high > range[1];
    const names = own.filter(([s, d]) => s.bound && ends([d])?.high > range[1]).map(([s]) => s.label);
    return { range, above: above ? `${names.join(", ")} above, up to ${prefixed(bound.high, panel.unit)}` : "" };
  }

  function points(series, view, share) {
    const { time, value, until } = series.table;
    const { index, first, end, whole } = choose(series, view, share);
    const x = [];
    const y = [];
    const customdata = [];
    const add = (seconds, number, text) => {
      x.push(seconds);
      y.push(number === null || Number.isNaN(number) ? null : number * series.scale);
      customdata.push(text);
    };
    const line = series.mark === "line" || series.mark === "step";
    const left = line ? edge(series, first - 1, first, view[0]) : null;
    const right = line ? edge(series, end - 1, end, view[1]) : null;
    if (left !== null) add(view[0], left, words(series, first - 1));
    for (const i of index) {
      add(time[i], value[i], words(series, i));
      if (series.mark === "bars") {
        add(time[i], value[i] + until[i], words(series, i));
        add(time[i], null, "");
      }
    }
    if (right !== null) add(view[1], right, words(series, end - 1));
    return { x, y, customdata, shown: index.length, whole: whole && series.points === series.of };
  }

  /* One figure element of the page: its plot, its buttons and its legend. */
  function mount(root, figures, opened) {
    const plot = root.querySelector(".plot");
    const status = root.querySelector(".status");
    const legend = root.querySelector(".legend");
    const places = root.querySelector(".places");
    const docs = root.querySelector(".docs");
    const choice = root.querySelector("select");
    const hidden = new Set();
    const narrow = window.matchMedia("(max-width: 640px)");
    const touch = window.matchMedia("(pointer: coarse)");
    let figure = null;
    let view = null;

    const theme = () => document.documentElement.dataset.theme;

    function open(number) {
      figure = figures[number];
      for (const series of figure.series) series.table ??= unpack(series);
      view = [...figure.view];
      if (choice) choice.value = String(number);
      drawPlaces();
      opened(number);
      return draw();
    }

    const aside = (i) => ({
      x: 1,
      xanchor: "right",
      yanchor: narrow.matches ? "top" : "bottom",
      yref: i ? `y${i + 1} domain` : "y domain",
    });

    function layout(drawn) {
      const base = figure.themes[theme()].layout;
      const small = narrow.matches;
      const axes = {};
      const notes = [];
      figure.panels.forEach((panel, i) => {
        const name = i ? `yaxis${i + 1}` : "yaxis";
        const { range, above } = scale(panel, figure.series, drawn);
        axes[name] = { ...base[name], fixedrange: true, range: panel.fixed ? [0, 1] : (range ?? [0, 1]) };
        if (above) notes.push({ ...base.annotations[0], ...aside(i), text: above });
      });
      return {
        ...base,
        ...axes,
        annotations: [...base.annotations.filter((note) => note.name !== "bound"), ...notes],
        margin: small ? { l: 60, r: 8, t: 24, b: 40 } : base.margin,
        font: small ? { size: 11 } : {},
        dragmode: touch.matches ? false : "zoom",
        showlegend: false,
        autosize: true,
        xaxis: { ...base.xaxis, range: [...view], nticks: small ? 5 : 12 },
      };
    }

    /* The points of all series; fewer of each where they would be too many together. */
    function select() {
      for (let share = 1; ; share *= 0.8) {
        const drawn = figure.series.map((s) => (hidden.has(s.key) ? null : points(s, view, share)));
        const total = drawn.reduce((sum, one) => sum + (one?.shown ?? 0), 0);
        if (total <= MOST_IN_VIEW || share < 0.05) return drawn;
      }
    }

    function draw() {
      const look = figure.themes[theme()];
      const drawn = select();
      const traces = look.traces.map((style, i) => {
        if (i >= drawn.length) return style;
        if (!drawn[i]) return { ...style, visible: false, x: [], y: [] };
        const { x, y, customdata } = drawn[i];
        return { ...style, ...sparser(style, x.length), x, y, customdata, visible: true };
      });
      drawLegend();
      tell(drawn.filter(Boolean));
      const config = { displaylogo: false, displayModeBar: false, responsive: true, doubleClick: false };
      const shares = figure.panels.reduce((sum, panel) => sum + panel.share, 0);
      plot.style.minHeight = shares > MANY_SHARES ? `${Math.round(shares * SHARE_PX)}px` : "";
      Link.shows(view, figure.unit);
      return Plotly.react(plot, traces, layout(drawn), config).then(() => view);
    }

    function tell(drawn) {
      const shown = drawn.reduce((sum, one) => sum + one.shown, 0);
      const from = Math.max(view[0], figure.span[0]).toFixed(3);
      const to = Math.min(view[1], figure.span[1]).toFixed(3);
      const all = drawn.every((one) => one.whole);
      const finest = !all && shown < 2000 && figure.unit === "s";
      const detail = all
        ? `every ${figure.point ?? "packet"} of this interval is drawn`
        : finest
          ? `the finest in this file; for every packet make it again with ${figure.options} --from ${from} --to ${to}`
          : "thinned to what the screen can show; zoom in for more";
      status.textContent = `${from} ${figure.unit} to ${to} ${figure.unit}: ${shown.toLocaleString("en")} points, ${detail}.`;
    }

    function look(from, to) {
      const [first, last] = figure.view;
      const width = Math.max(to - from, 1e-6);
      const start = Math.min(Math.max(from, first), last - width);
      view = width < last - first ? [start, start + width] : [first, last];
      return draw();
    }

    const middle = () => (view[0] + view[1]) / 2;
    const width = () => view[1] - view[0];
    const zoom = (factor) => look(middle() - (width() * factor) / 2, middle() + (width() * factor) / 2);
    const move = (share) => look(view[0] + width() * share, view[1] + width() * share);
    const actions = {
      in: () => zoom(0.5),
      out: () => zoom(2),
      left: () => move(-0.4),
      right: () => move(0.4),
      whole: () => look(...figure.view),
      save: () => Plotly.downloadImage(plot, { format: "svg", filename: figure.filename, width: 1400, height: 900 }),
    };
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "whole" };

    function drawPlaces() {
      places.replaceChildren(
        ...figure.places.map((place) => {
          const button = document.createElement("button");
          button.type = "button";
          button.textContent = place.title;
          button.addEventListener("click", () => look(place.from, place.to));
          return button;
        }),
      );
    }

    function drawLegend() {
      if (legend.dataset.of === `${figure.id} ${theme()}`) return;
      legend.dataset.of = `${figure.id} ${theme()}`;
      const groups = figure.panels.map((panel) => {
        const entries = document.createElement("div");
        entries.append(...figure.series.flatMap((s, i) => (s.panel === panel.key ? [entry(s, i)] : [])));
        return entries.childElementCount ? [text("span", panel.title), entries] : [];
      });
      legend.replaceChildren(...groups.flat());
      docs.replaceChildren(
        ...figure.series.flatMap((series) => [text("dt", series.label), text("dd", series.doc)]),
      );
    }

    function text(name, words) {
      const element = document.createElement(name);
      element.textContent = words;
      return element;
    }

    function entry(series, i) {
      const button = document.createElement("button");
      button.type = "button";
      button.title = series.doc;
      button.dataset.series = series.key;
      button.setAttribute("aria-pressed", String(!hidden.has(series.key)));
      button.append(Swatch.draw(figure.themes[theme()].traces[i], series.mark), series.label);
      button.addEventListener("click", () => {
        if (!hidden.delete(series.key)) hidden.add(series.key);
        button.setAttribute("aria-pressed", String(!hidden.has(series.key)));
        draw();
      });
      return button;
    }

    for (const button of root.querySelectorAll("[data-action]")) {
      button.addEventListener("click", () => actions[button.dataset.action]());
    }
    plot.addEventListener("keydown", (event) => {
      const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
      if (!action) return;
      event.preventDefault();
      actions[action]();
    });
    choice?.addEventListener("change", () => open(Number(choice.value)));
    document.addEventListener("themechange", draw);
    narrow.addEventListener("change", draw);
    if (narrow.matches) root.querySelector(".series").open = false;

    return open(0).then(() => {
      plot.on("plotly_relayout", (change) => {
        const from = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0];
        const to = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
        if (from !== undefined && to !== undefined) look(Number(from), Number(to));
      });
      plot.on("plotly_doubleclick", actions.whole);
      Link.cursor(plot, () => figure.unit);
      return { open, look, view: () => [...view] };
    });
  }

  return { mount, unpack };
})();

/* Small pictures of the marks, for the legend. */
const Swatch = (() => {
  const SHAPES = {
    circle: '<circle cx="12" cy="7" r="3.2" fill="currentColor"/>',
    "circle-open": '<circle cx="12" cy="7" r="3.6"/>',
    "x-thin": '<path d="M8 3l8 8M16 3l-8 8"/>',
    "cross-thin": '<path d="M12 2v10M7 7h10"/>',
    "line-ew": '<path d="M7 7h10"/>',
    "line-ns": '<path d="M12 2v10"/>',
    asterisk: '<path d="M12 1v12M6 7h12M7.8 2.8l8.4 8.4M16.2 2.8l-8.4 8.4"/>',
    "triangle-left-open": '<path d="M7.5 7l8.5-4.6v9.2z"/>',
    "triangle-right-open": '<path d="M16.5 7L8 2.4v9.2z"/>',
    "triangle-up-open": '<path d="M12 2.5l4.6 8.5H7.4z"/>',
    diamond: '<path d="M12 2l5 5-5 5-5-5z" fill="currentColor"/>',
    "diamond-open": '<path d="M12 2l5 5-5 5-5-5z"/>',
    "square-open": '<path d="M8 3h8v8H8z"/>',
    "hash-open": '<path d="M10 2v10M14 2v10M7 5h10M7 9h10"/>',
  };
  const DASHES = { dot: "2 3", dash: "6 3" };

  function draw(trace, mark) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 24 14");
    svg.setAttribute("aria-hidden", "true");
    svg.style.color = (trace.marker ?? trace.line).color;
    if (mark === "points") svg.innerHTML = SHAPES[trace.marker.symbol] ?? SHAPES.circle;
    else if (mark === "bars") svg.innerHTML = '<path d="M7 2v10M12 4v8M17 1v9"/>';
    else svg.innerHTML = `<path d="M1 7h22" stroke-dasharray="${DASHES[trace.line.dash] ?? ""}"/>`;
    return svg;
  }

  return { draw };
})();
