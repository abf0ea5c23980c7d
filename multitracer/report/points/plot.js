/* Panels above each other over one axis, on one canvas: where each lies, its ticks and words, and pointing at it. */
"use strict";

const Plot = (() => {
  const NARROW = window.matchMedia("(max-width: 640px)");
  const ABOVE_PX = 22; // of a panel, for its title
  const BELOW_PX = 44; // of all, for the ticks and the title of the shared axis
  const PX_PER_TICK = 90;
  const PX_PER_VALUE_TICK = 36;
  const MANY_SHARES = 8.5; // of the height of panels; with more of them the plot grows
  const SHARE_PX = 110;
  const SHADE_ALPHA = 0.16;
  const DRAG_PX = 4; // a press that moves less is no drag
  const REACH_PX = 24; // how far the pointer may be from a mark that it names
  const MOST_COMPARED = 2000; // points of a series that one place of the pointer looks at

  function text(name, words, style = "") {
    const element = document.createElement(name);
    element.textContent = words;
    element.className = style;
    return element;
  }

  /* Fill `root` with a canvas for the panels, and words above them; `onZoom` gets a window, or null for all. */
  function mount(root, { hidden, onZoom, onPoint, onPick }) {
    const canvas = document.createElement("canvas");
    const words = text("div", "", "words");
    const brush = text("div", "", "brush");
    const cursor = text("div", "", "cursor");
    const hover = text("div", "", "hover");
    const marked = text("div", "", "mark");
    brush.hidden = cursor.hidden = hover.hidden = marked.hidden = true;
    hover.setAttribute("role", "tooltip");
    root.replaceChildren(canvas, words, marked, brush, cursor, hover);
    let figure = null;
    let view = null;
    let drawn = []; // of each panel: { panel, box, range, parts }
    let mark = null;
    let waiting = 0;
    let flat = false; // whether the panel of bytes is drawn less its trend

    const colours = () => figure.themes[document.documentElement.dataset.theme];
    const colourOf = (series) => series.look[document.documentElement.dataset.theme];
    const margins = () => (NARROW.matches ? { left: 58, right: 8 } : { left: 76, right: 16 });

    /* The panels that are drawn here: those that data-panels names, else all. */
    function panels() {
      const names = (root.dataset.panels ?? "").split(",").filter(Boolean);
      return names.length ? figure.panels.filter((panel) => names.includes(panel.key)) : figure.panels;
    }

    function boxes() {
      const { left, right } = margins();
      const chosen = panels();
      const shares = chosen.reduce((sum, panel) => sum + panel.share, 0);
      const free = root.clientHeight - BELOW_PX - ABOVE_PX * chosen.length;
      let top = 0;
      return chosen.map((panel) => {
        const height = Math.max(8, Math.floor((free * panel.share) / shares));
        top += ABOVE_PX + height;
        const width = Math.max(1, Math.floor(root.clientWidth - left - right));
        return { panel, box: { left, top: top - height, width, height } };
      });
    }

    const seriesOf = (panel) => figure.series.filter((s) => s.panel === panel.key && !hidden.has(s.key));

    /* The panel of bytes less its trend: its series with other tables, and its title with the rate. */
    function flattened(panel) {
      const rate = Trend.rate(figure.series.filter((s) => s.panel === panel.key));
      const title = `${panel.title}, less its mean rate of ${Axes.words(rate, "B/s")}`;
      const sloping = (look) => ({ ...look, mark: look.mark === "step" ? "line" : look.mark });
      const series = seriesOf(panel).map((s) => ({ ...s, look: sloping(s.look), table: s.flat.table }));
      return { panel: { ...panel, title }, series };
    }

    function layout() {
      drawn = boxes().map((each) => {
        const { box } = each;
        const isFlat = flat && each.panel.key === "sequence" && seriesOf(each.panel).length > 0;
        const { panel, series } = isFlat ? flattened(each.panel) : { panel: each.panel, series: seriesOf(each.panel) };
        const parts = series.map((one) => PanelPen.part(one, view, box.width));
        return { panel, box, parts, ...PanelPen.scale(panel, parts, view) };
      });
    }

    function cleared() {
      const density = window.devicePixelRatio || 1;
      const [width, height] = [root.clientWidth * density, root.clientHeight * density].map(Math.round);
      if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
      const pen = canvas.getContext("2d");
      pen.setTransform(density, 0, 0, density, 0, 0);
      pen.fillStyle = colours().paper;
      pen.fillRect(0, 0, root.clientWidth, root.clientHeight);
      return pen;
    }

    function paint() {
      waiting = 0;
      const shares = panels().reduce((sum, panel) => sum + panel.share, 0);
      if (!root.dataset.panels) root.style.minHeight = shares > MANY_SHARES ? `${Math.round(shares * SHARE_PX)}px` : "";
      layout();
      drawWords();
      placeMark();
      if (!root.clientWidth || !root.clientHeight) return; // folded away; it is drawn when it opens
      const pen = cleared();
      drawShades(pen);
      for (const each of drawn) drawPanel(pen, each);
    }

    /* Behind all panels, the colours of the times that a panel of shades names. */
    function drawShades(pen) {
      for (const { panel, box, parts, range } of drawn.filter(({ panel }) => panel.shades)) {
        const place = PanelPen.placing(box, view, range);
        for (const one of parts) {
          pen.fillStyle = colourOf(one.series);
          for (const [from, to] of PanelPen.shades(one, view)) {
            const left = Math.max(place.x(from), box.left);
            const width = Math.max(0, Math.min(place.x(to), box.left + box.width) - left);
            pen.globalAlpha = 1;
            pen.fillRect(left, box.top, width, box.height);
            pen.globalAlpha = one.series.rare ? SHADE_ALPHA : 0;
            for (const below of drawn) if (below.panel !== panel) pen.fillRect(left, below.box.top, width, below.box.height);
          }
        }
      }
      pen.globalAlpha = 1;
    }

    function drawPanel(pen, { panel, box, range, parts }) {
      if (panel.shades) return;
      const density = window.devicePixelRatio || 1;
      if (parts.length) drawAxes(pen, panel, box, range);
      pen.save();
      pen.beginPath();
      pen.rect(box.left, box.top - 4, box.width, box.height + 8);
      pen.clip();
      for (const one of parts) PanelPen.draw(pen, one, { box, view, range, colour: colourOf(one.series), density });
      pen.restore();
    }

    function line(pen, fromX, fromY, toX, toY) {
      pen.beginPath();
      pen.moveTo(Math.round(fromX) + 0.5, Math.round(fromY) + 0.5);
      pen.lineTo(Math.round(toX) + 0.5, Math.round(toY) + 0.5);
      pen.stroke();
    }

    function drawAxes(pen, panel, box, range) {
      const place = PanelPen.placing(box, view, range);
      const bottom = box.top + box.height;
      pen.font = `${NARROW.matches ? 11 : 12}px ${getComputedStyle(root).fontFamily}`;
      pen.lineWidth = 1;
      const isOverTime = figure.unit === "s";
      const across = (isOverTime ? Axes.times : Axes.ticks)(...view, Math.max(2, Math.floor(box.width / PX_PER_TICK)));
      pen.strokeStyle = colours().grid;
      for (const seconds of across.values) line(pen, place.x(seconds), box.top, place.x(seconds), bottom);
      const up = Axes.ticks(...range, Math.max(2, Math.floor(box.height / PX_PER_VALUE_TICK)));
      [pen.textAlign, pen.textBaseline] = ["right", "middle"];
      for (const value of up.values) {
        pen.strokeStyle = colours().grid;
        line(pen, box.left, place.y(value), box.left + box.width, place.y(value));
        pen.fillStyle = colours().muted;
        pen.fillText(Axes.words(value, panel.unit), box.left - 6, place.y(value));
      }
      pen.strokeStyle = colours().axis;
      line(pen, box.left, box.top, box.left, bottom);
      line(pen, box.left, bottom, box.left + box.width, bottom);
      if (panel === drawn.at(-1).panel) drawTimes(pen, place, across, bottom, box);
    }

    function drawTimes(pen, place, { values, decimals }, bottom, box) {
      pen.fillStyle = colours().muted;
      [pen.textAlign, pen.textBaseline] = ["center", "top"];
      const isClock = figure.unit === "s" && figure.span[1] >= 60; // as the first screen writes times
      const label = (at) => (isClock ? Axes.clock(at, decimals) : at.toFixed(decimals));
      for (const at of values) pen.fillText(label(at), place.x(at), bottom + 6);
      const title = isClock ? figure.axis.replace("seconds", "minutes:seconds") : figure.axis;
      pen.fillText(title, box.left + box.width / 2, bottom + 24, box.width);
    }

    /* Titles, what is above a panel and why one is empty, as words of the page. */
    function drawWords() {
      words.replaceChildren(
        ...drawn.flatMap(({ panel, box, above, parts }) => [
          at(text("b", panel.title, "title"), box.left, box.top - ABOVE_PX + 2),
          ...(above ? [aside(text("span", above, "above"), box.top - ABOVE_PX + 2)] : []),
          ...(panel.shades && parts.length ? [aside(keyOf(parts), box.top - ABOVE_PX + 2)] : []),
          ...(figure.series.some((s) => s.panel === panel.key)
            ? []
            : [at(text("span", panel.empty, "empty"), box.left, box.top + box.height / 2 - 10)]),
        ]),
      );
    }

    function keyOf(parts) {
      const key = text("span", "", "key");
      for (const { series } of parts) {
        const square = text("i", "");
        square.style.background = colourOf(series);
        key.append(square, `${series.name} `);
      }
      return key;
    }

    function at(element, left_px, top_px) {
      element.style.left = `${left_px}px`;
      element.style.top = `${top_px}px`;
      return element;
    }

    function aside(element, top_px) {
      element.style.right = `${margins().right}px`;
      element.style.top = `${top_px}px`;
      return element;
    }

    /* The shared axis: where a time lies, and which time lies where. */
    function across() {
      const box = drawn[0]?.box ?? { left: 0, width: 1 };
      return {
        box,
        x: (seconds) => box.left + ((seconds - view[0]) / (view[1] - view[0])) * box.width,
        seconds: (x) => view[0] + ((x - box.left) / box.width) * (view[1] - view[0]),
      };
    }

    function placeMark() {
      marked.hidden = !mark || mark[1] < view[0] || mark[0] > view[1];
      if (marked.hidden) return;
      const { x, box } = across();
      const left = Math.max(x(mark[0]), box.left);
      marked.style.left = `${left}px`;
      marked.style.width = `${Math.max(2, Math.min(x(mark[1]), box.left + box.width) - left)}px`;
      marked.textContent = mark[2] ?? "";
    }

    /* The mark that is nearest to a place of the canvas. */
    function nearest(x_px, y_px) {
      const here = drawn.find(({ box }) => y_px >= box.top - 6 && y_px <= box.top + box.height + 6);
      if (!here || here.panel.shades) return null;
      const place = PanelPen.placing(here.box, view, here.range);
      const reach_s = across().seconds(x_px + REACH_PX) - across().seconds(x_px);
      const seconds = across().seconds(x_px);
      let best = { px: REACH_PX };
      for (const { series } of here.parts) {
        const [first, end] = Columns.within(series.table, [seconds - reach_s, seconds + reach_s]);
        const stride = Math.max(1, Math.ceil((end - first) / MOST_COMPARED));
        for (let i = first; i < end; i += stride) {
          const px = Math.hypot(place.x(series.table.time[i]) - x_px, place.y(series.table.value[i]) - y_px);
          if (px < best.px) best = { px, series, i, panel: here.panel, place };
        }
      }
      return best.series ? best : null;
    }

    function name(best) {
      hover.hidden = !best;
      if (!best) return;
      const { series, i, panel, place } = best;
      const { time, value } = series.table;
      const lines = Packets.lines(figure, series, panel, i);
      hover.replaceChildren(text("b", series.name), text("small", ` ${series.label}`), ...lines.map((each) => text("div", each)));
      const x = place.x(time[i]);
      hover.style.top = `${Math.max(0, place.y(value[i]) + 10)}px`;
      hover.style.left = x < root.clientWidth / 2 ? `${x + 10}px` : "";
      hover.style.right = x < root.clientWidth / 2 ? "" : `${root.clientWidth - x + 10}px`;
    }

    const placeOf = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };

    let pressed = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      pressed = placeOf(event);
      canvas.setPointerCapture?.(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!view) return;
      const [x, y] = placeOf(event);
      if (pressed) return drawBrush(x);
      const { box, seconds } = across();
      onPoint(x >= box.left && x <= box.left + box.width ? seconds(x) : null);
      return name(nearest(x, y));
    });
    canvas.addEventListener("pointerup", (event) => {
      const [from, to] = [pressed?.[0] ?? NaN, placeOf(event)[0]].sort((a, b) => a - b);
      pressed = null;
      brush.hidden = true;
      const { box, seconds } = across();
      if (to - from < DRAG_PX || Number.isNaN(from)) return;
      onZoom([seconds(Math.max(from, box.left)), seconds(Math.min(to, box.left + box.width))]);
    });
    canvas.addEventListener("click", (event) => {
      const best = nearest(...placeOf(event));
      name(best);
      if (best && event.pointerType !== "touch") onPick(best.series, best.i);
    });
    canvas.addEventListener("dblclick", () => onZoom(null));
    canvas.addEventListener("pointerleave", () => {
      name(null);
      onPoint(null);
    });

    function drawBrush(x) {
      brush.hidden = Math.abs(x - pressed[0]) < DRAG_PX;
      brush.style.left = `${Math.min(x, pressed[0])}px`;
      brush.style.width = `${Math.abs(x - pressed[0])}px`;
    }

    /* Paint with the next frame; many wishes at once are one painting. */
    function soon() {
      waiting ||= requestAnimationFrame(() => figure && view && paint());
    }

    new ResizeObserver(soon).observe(root);
    document.addEventListener("themechange", () => figure && view && paint());
    NARROW.addEventListener("change", soon);

    return {
      show: (next, window_s) => {
        [figure, view] = [next, window_s];
        name(null);
        paint();
      },
      soon,
      cursor: (seconds) => {
        const { x, box } = across();
        const left_px = seconds === null || !view ? NaN : x(seconds);
        cursor.hidden = !(left_px >= box.left && left_px <= box.left + box.width);
        cursor.style.left = `${left_px}px`;
      },
      mark: (from, to, said) => {
        mark = from === null ? null : [from, to, said];
        if (view) placeMark();
      },
      flatten: (wish) => {
        flat = wish;
        if (view) paint();
      },
      panels: () => drawn,
      across,
      canvas,
      paper: () => colours().paper,
    };
  }

  return { mount };
})();
