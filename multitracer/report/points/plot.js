/* Panels above each other over one axis: where each lies, its ticks and words, and pointing at it.

   Each panel has a canvas. Those in the window are drawn at once, the others when the browser is idle, or when they are
   scrolled to: of twelve panels a phone shows three. */
"use strict";

const Plot = (() => {
  const NARROW = window.matchMedia("(max-width: 640px)");
  const LINE_PX = 17; // of words, as in figure.css
  const ROOM_PX = 5; // above the words of a panel
  const TICK_PX = 6; // half the height of the words of a tick
  const NOTE_PX = 90; // of "above, up to 999 MB", without the names before it
  const TICKS_PX = 24; // below all panels, for the ticks of the shared axis
  const PX_PER_TICK = 90;
  const PX_PER_VALUE_TICK = 36;
  const SHARE_PX = 80; // of the height of panels; where they need more than there is, the plot grows
  const LEAST_PX = 96; // of a panel with a scale: four ticks
  const SHADES_PX = 18;
  const FIRST_SHARE = 2.4; // of the panel that stands first because it holds the evidence
  const SHADE_ALPHA = 0.16;
  const DRAG_PX = 4; // a press that moves less is no drag
  const REACH_PX = 24; // how far the pointer may be from a mark that it names
  const MOST_COMPARED = 2000; // points of a series that one place of the pointer looks at
  const BELOW_PX = 7; // of a panel's canvas, below its scale: half of the lowest value, and marks that stand on it
  const STEP_PX = 4; // canvases end at multiples of it, which are whole pixels of screens of 1.25 or 1.5 pixels per px
  const DENSEST = 2; // canvas pixels per px: of three, as phones have, a zoom copies 2.2 times as many
  const isPrinting = () => "print" in document.documentElement.dataset;
  const densityOf = () => Math.min(window.devicePixelRatio || 1, DENSEST);

  function text(name, words, style = "") {
    const element = document.createElement(name);
    element.textContent = words;
    element.className = style;
    return element;
  }

  /* Fill `root` with a canvas for the panels, and words above them; `onZoom` gets a window, or null for all. */
  function mount(root, { hidden, onZoom, onPoint, onPick }) {
    const sheet = text("div", "", "sheet"); // of the canvases
    const words = text("div", "", "words");
    const brush = text("div", "", "brush");
    const cursor = text("div", "", "cursor");
    const hover = text("div", "", "hover");
    const marked = text("div", "", "mark"); // one frame for each panel: the words between them stay free
    brush.hidden = cursor.hidden = hover.hidden = marked.hidden = true;
    hover.setAttribute("role", "tooltip");
    root.replaceChildren(sheet, words, marked, brush, cursor, hover);
    let figure = null;
    let view = null;
    let drawn = []; // of each panel: { panel, box, range, parts, canvas, from, to }
    let shades = []; // of all panels of shades: { panel, colour, isRare, left, width }
    let late = []; // panels that are still to be drawn
    let resting = 0; // the wish to draw them when the browser is idle
    const unseen = new Set(); // canvases outside the window
    const watcher = new IntersectionObserver((changes) => {
      for (const { target, isIntersecting } of changes) isIntersecting ? unseen.delete(target) : unseen.add(target);
      drawLate(({ canvas }) => !unseen.has(canvas));
    });
    let mark = null;
    let waiting = 0;
    let first = []; // the keys of the panels that stand first
    let size = null; // of the plot, px
    let said = ""; // what the words were made of
    let flat = false; // whether the panel of bytes is drawn less its trend

    const colours = () => figure.themes[document.documentElement.dataset.theme];
    const colourOf = (series) => series.look[document.documentElement.dataset.theme];
    const margins = () => (NARROW.matches ? { left: 62, right: 8 } : { left: 76, right: 16 });

    /* All panels; those with the evidence stand first, and the first of them with a scale is high enough to read. */
    function panels() {
      const evidence = first.map((key) => figure.panels.find((panel) => panel.key === key));
      const large = evidence.find((panel) => !panel.shades);
      const ordered = [...new Set([...evidence, ...figure.panels])];
      const higher = { ...large, share: Math.max(large?.share ?? 0, FIRST_SHARE) };
      return ordered.map((panel) => (panel === large ? higher : panel));
    }

    const isEmpty = (panel) => !figure.series.some((s) => s.panel === panel.key);
    const leftOf = (box_left) => (NARROW.matches ? 0 : box_left); // where the words above a panel begin

    /* The words above a panel: its title, and whether what lies above its scale is named beside it or below. */
    function headOf(panel, left, width) {
      const room = size.width ? left + width - leftOf(left) : Infinity;
      const title = Axes.wrapped(panel.title, room, fontOf("bold"));
      const bounds = figure.series.filter((s) => s.panel === panel.key && s.bound).map((s) => s.name).join(", ");
      const note = bounds ? Axes.wide(bounds, fontOf("normal")) + NOTE_PX : 0;
      const beside = title.length === 1 && Axes.wide(panel.title, fontOf("bold")) + note + 2 * LINE_PX < room;
      const lines = title.length + (bounds && !beside ? 1 : 0);
      const tick = NARROW.matches ? TICK_PX : 0; // a title that begins at the edge stands above the highest tick
      return { lines: title.length, beside, height: ROOM_PX + LINE_PX * lines + tick };
    }

    const fontOf = (weight) => `${weight} 13px ${family()}`;
    let known = "";
    const family = () => (known ||= getComputedStyle(root).fontFamily);

    /* How high a panel wants to be. */
    function heightOf(panel, width) {
      if (isEmpty(panel)) return LINE_PX * Axes.wrapped(panel.empty, width, fontOf("normal")).length + ROOM_PX;
      return panel.shades ? SHADES_PX : Math.max(LEAST_PX, panel.share * SHARE_PX);
    }

    const isClock = () => Axes.isClock(figure);
    const axisWords = () => (isClock() ? figure.axis.replace("seconds", "minutes:seconds") : figure.axis);

    /* Where each panel lies; the plot grows so that none of them is squeezed. */
    function boxes() {
      const { left, right } = margins();
      const width = Math.max(1, Math.floor(size.width - left - right));
      const all = panels().map((panel) => ({ panel, head: headOf(panel, left, width), high: heightOf(panel, width) }));
      const below = TICKS_PX + ROOM_PX + LINE_PX * Axes.wrapped(axisWords(), width, fontOf("normal")).length;
      const wanted = all.reduce((sum, { head, high }) => sum + head.height + high, below);
      root.style.minHeight = `${Math.ceil(wanted)}px`;
      const grows = all.filter(({ panel }) => !panel.shades && !isEmpty(panel));
      const shares = grows.reduce((sum, { panel }) => sum + panel.share, 0);
      const free = Math.max(0, size.height - wanted);
      let top = 0;
      return all.map((each) => {
        const { panel, head, high } = each;
        const height = Math.floor(high + (grows.includes(each) ? (free * panel.share) / shares : 0));
        top += head.height + height;
        return { panel, head, box: { left, top: top - height, width, height } };
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
        const { box, head } = each;
        const isFlat = flat && each.panel.key === "sequence" && seriesOf(each.panel).length > 0;
        const { panel, series } = isFlat ? flattened(each.panel) : { panel: each.panel, series: seriesOf(each.panel) };
        const parts = series.map((one) => PanelPen.part(one, view, box.width));
        return { panel, box, head, parts, ...PanelPen.scale(panel, parts, view) };
      });
    }

    /* Give each panel its canvas, from below the one before. */
    function spread() {
      for (const canvas of [...sheet.children].slice(drawn.length)) {
        watcher.unobserve(canvas);
        unseen.delete(canvas);
        canvas.remove();
      }
      let from = 0;
      for (const [i, each] of drawn.entries()) {
        const end = Math.ceil((each.box.top + each.box.height + BELOW_PX) / STEP_PX) * STEP_PX;
        const to = i + 1 < drawn.length ? end : size.height;
        const canvas = sheet.children[i] ?? sheet.appendChild(document.createElement("canvas"));
        watcher.observe(canvas); // again is no matter
        [canvas.style.top, canvas.style.height] = [`${from}px`, `${to - from}px`];
        Object.assign(each, { canvas, from, to });
        from = to;
      }
    }

    function cleared({ canvas, from, to }) {
      const density = densityOf();
      const [width, height] = [size.width * density, (to - from) * density].map(Math.round);
      if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
      const pen = canvas.getContext("2d");
      pen.setTransform(density, 0, 0, density, 0, -from * density);
      pen.fillStyle = colours().paper;
      pen.fillRect(0, from, size.width, to - from);
      return pen;
    }

    function paint() {
      waiting = 0;
      size ??= { width: root.clientWidth, height: root.clientHeight };
      layout();
      drawWords();
      placeMark();
      late = [];
      if (!size.width || !size.height) return; // folded away; it is drawn when it opens
      spread();
      shades = drawn.filter(({ panel }) => panel.shades).flatMap(shadesOf);
      late = [...drawn];
      drawLate(({ canvas }) => isPrinting() || !unseen.has(canvas));
      whenIdle();
    }

    function whenIdle() {
      if (!late.length || resting) return;
      resting = Timeline.idly(() => {
        resting = 0;
        drawLate((each) => each === late[0]);
        whenIdle();
      });
    }

    /* Draw those of the panels that are still to be drawn for which `isChosen` holds. */
    function drawLate(isChosen) {
      const chosen = late.filter(isChosen);
      late = late.filter((each) => !chosen.includes(each));
      for (const each of chosen) drawPanel(cleared(each), each);
    }

    /* The colours of the times that a panel of shades names. */
    function shadesOf({ panel, box, parts, range }) {
      const place = PanelPen.placing(box, view, range);
      return parts.flatMap((one) =>
        PanelPen.shades(one, view).map(([from, to]) => {
          const left = Math.max(place.x(from), box.left);
          const width = Math.max(0, Math.min(place.x(to), box.left + box.width) - left);
          return { panel, colour: colourOf(one.series), isRare: one.series.rare, left, width };
        }),
      );
    }

    /* In its own panel a shade is full; behind the others rare ones are faint. */
    function drawShades(pen, of, { top, height }) {
      for (const { panel, colour, isRare, left, width } of shades) {
        if (of !== panel && !isRare) continue;
        pen.fillStyle = colour;
        pen.globalAlpha = of === panel ? 1 : SHADE_ALPHA;
        pen.fillRect(left, top, width, height);
      }
      pen.globalAlpha = 1;
    }

    function drawPanel(pen, each) {
      const { panel, box, range, parts } = each;
      drawShades(pen, panel, box);
      if (each === drawn.at(-1)) drawTimes(pen, box);
      if (panel.shades) return;
      const density = densityOf();
      if (parts.length) drawAxes(pen, panel, box, range);
      pen.save();
      pen.beginPath();
      pen.rect(box.left, box.top - 1, box.width, box.height + 5); // what lies above is named, not drawn on its title
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
      pen.font = `${NARROW.matches ? 11 : 12}px ${family()}`;
      pen.lineWidth = 1;
      pen.strokeStyle = colours().grid;
      for (const seconds of timesOf(box).values) line(pen, place.x(seconds), box.top, place.x(seconds), bottom);
      const up = Axes.ticks(...range, Math.max(2, Math.floor(box.height / PX_PER_VALUE_TICK)));
      [pen.textAlign, pen.textBaseline] = ["right", "middle"];
      for (const value of up.values) {
        if (panel.unit === "B" && !Number.isInteger(value)) continue; // a byte has no parts
        pen.strokeStyle = colours().grid;
        line(pen, box.left, place.y(value), box.left + box.width, place.y(value));
        pen.fillStyle = colours().muted;
        pen.fillText(Axes.words(value, panel.unit), box.left - 6, place.y(value));
      }
      pen.strokeStyle = colours().axis;
      line(pen, box.left, box.top, box.left, bottom);
      line(pen, box.left, bottom, box.left + box.width, bottom);
    }

    /* The ticks of the shared axis. */
    function timesOf(box) {
      const most = Math.max(2, Math.floor(box.width / PX_PER_TICK));
      return (figure.unit === "s" ? Axes.times : Axes.ticks)(...view, most);
    }

    /* The shared axis below the last panel: its ticks and its title. */
    function drawTimes(pen, box) {
      const { values, decimals } = timesOf(box);
      const bottom = box.top + box.height;
      const { x } = across();
      pen.font = `${NARROW.matches ? 11 : 12}px ${family()}`;
      pen.fillStyle = colours().muted;
      [pen.textAlign, pen.textBaseline] = ["center", "top"];
      const label = (at) => (isClock() ? Axes.clock(at, decimals) : at.toFixed(decimals));
      for (const at of values) pen.fillText(label(at), x(at), bottom + 6);
      pen.font = fontOf("normal");
      for (const [i, words] of Axes.wrapped(axisWords(), box.width, pen.font).entries()) {
        pen.fillText(words, box.left + box.width / 2, bottom + TICKS_PX + i * LINE_PX);
      }
    }

    /* Titles, what is above a panel and why one is empty, as words of the page; made again only if they change. */
    function drawWords() {
      const now = JSON.stringify(drawn.map(({ panel, box, head, above }) => [panel.title, box, head, above]));
      if (said === now) return;
      said = now;
      words.replaceChildren(
        ...drawn.flatMap(({ panel, box, head, above }) => {
          const top = box.top - head.height + ROOM_PX - 1;
          const left = leftOf(box.left);
          const lower = head.beside ? top : top + LINE_PX * head.lines;
          return [
            sized(at(titleOf(panel), left, top), box.left + box.width - left),
            ...(above ? [aside(text("span", above, "above"), lower)] : []),
            ...(isEmpty(panel) ? [sized(at(text("span", panel.empty, "empty"), box.left, box.top), box.width)] : []),
          ];
        }),
      );
    }

    /* A title: what the panel shows, and after it, less loud, how. */
    function titleOf({ title }) {
      const [name] = title.split(/[,;(]/, 1);
      const element = text("div", "", "title");
      element.append(text("b", name), title.slice(name.length));
      return element;
    }

    function sized(element, width_px) {
      element.style.width = `${width_px}px`;
      return element;
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
      const full = drawn.filter(({ panel }) => !isEmpty(panel));
      const frames = full.map(({ box: { top, height } }) => `${top},${height}`);
      if (marked.dataset.frames === frames.join(" ")) return;
      marked.dataset.frames = frames.join(" ");
      marked.replaceChildren(
        ...frames.map((frame) => {
          const [top, height] = frame.split(",");
          const element = text("i", "");
          [element.style.top, element.style.height] = [`${top}px`, `${height}px`];
          return element;
        }),
      );
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
      hover.style.left = x < size.width / 2 ? `${x + 10}px` : "";
      hover.style.right = x < size.width / 2 ? "" : `${size.width - x + 10}px`;
    }

    /* All panels as one canvas. */
    function picture() {
      if (!size) paint();
      drawLate(() => true);
      const density = densityOf();
      const whole = document.createElement("canvas");
      [whole.width, whole.height] = [size.width * density, size.height * density].map(Math.round);
      const pen = whole.getContext("2d");
      for (const { canvas, from } of drawn) pen.drawImage(canvas, 0, Math.round(from * density));
      return whole;
    }

    const placeOf = (event) => {
      const box = sheet.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };

    let pressed = null;
    sheet.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      pressed = placeOf(event);
      sheet.setPointerCapture?.(event.pointerId);
    });
    sheet.addEventListener("pointermove", (event) => {
      if (!view) return;
      const [x, y] = placeOf(event);
      if (pressed) return drawBrush(x);
      const { box, seconds } = across();
      onPoint(x >= box.left && x <= box.left + box.width ? seconds(x) : null);
      return name(nearest(x, y));
    });
    sheet.addEventListener("pointerup", (event) => {
      const [from, to] = [pressed?.[0] ?? NaN, placeOf(event)[0]].sort((a, b) => a - b);
      pressed = null;
      brush.hidden = true;
      const { box, seconds } = across();
      if (to - from < DRAG_PX || Number.isNaN(from)) return;
      onZoom([seconds(Math.max(from, box.left)), seconds(Math.min(to, box.left + box.width))]);
    });
    sheet.addEventListener("click", (event) => {
      const best = nearest(...placeOf(event));
      name(best);
      if (best && event.pointerType !== "touch") onPick(best.series, best.i);
    });
    sheet.addEventListener("dblclick", () => onZoom(null));
    sheet.addEventListener("pointerleave", () => {
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

    /* Read the size again, which a browser can only tell after it laid out the page. */
    const measured = () => ([size, late] = [null, []]);
    new ResizeObserver(() => soon(measured())).observe(root);
    document.addEventListener("themechange", () => figure && view && paint(measured()));
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
      mark: (from, to) => {
        mark = from === null ? null : [from, to];
        if (view) placeMark();
      },
      /* Put those of these panels that have points first; none of them: the usual order. */
      first: (keys) => (first = keys.filter((key) => figure.series.some((s) => s.panel === key))),
      flatten: (wish) => {
        flat = wish;
        if (view) paint();
      },
      panels: () => drawn,
      across,
      picture,
      paper: () => colours().paper,
    };
  }

  return { mount };
})();
