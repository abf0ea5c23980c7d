/* Lanes of messages by protocol and direction, and strips of states and procedures, over the time of the page. */
"use strict";

const Lanes = (() => {
  const NARROW = window.matchMedia("(max-width: 640px)");
  const LANE_PX = 18;
  const STRIP_PX = 22;
  const SUB_PX = 9; // of procedures at the same time
  const GAP_PX = 5; // between lanes
  const AXIS_PX = 26;
  const REACH_PX = 12; // how far the pointer may be from what it names
  const DRAG_PX = 4;
  const PX_PER_TICK = 90;
  const LEAST_WORDS_PX = 26; // of a stretch that can hold a word
  const TONES = {
    light: { on: "#8cc3a5", more: "#5aa0d6", half: "#e2c987", busy: "#f0ab5c", off: "#c9d0d9", bad: "#d5573f", ink: "#10161e", onBad: "#ffffff" },
    dark: { on: "#2f6d52", more: "#2f6a9c", half: "#6b5b2a", busy: "#86551c", off: "#3a4452", bad: "#c2472f", ink: "#f2f5f9", onBad: "#ffffff" },
  };
  const MARKS = {
    light: { RRC: "#0a62a8", NAS: "#8a4a9e", bad: "#c4311a", other: "#56616f" },
    dark: { RRC: "#6cb8f2", NAS: "#d49be6", bad: "#ff8a6e", other: "#a5b0be" },
  };
  const ORDER = ["RRC", "NAS", "SMS", "RR", "RLC/MAC"];
  const WAYS = { up: "up, from the phone", down: "down, from the network", "": "as logged by the modem" };
  const theme = () => document.documentElement.dataset.theme;
  const density = () => Math.min(window.devicePixelRatio || 1, 2);

  function text(name, words, style = "") {
    const element = document.createElement(name);
    element.textContent = words;
    element.className = style;
    return element;
  }

  /* The lanes of a group: for each protocol and direction that occurs, the kinds in it. */
  function lanesOf(group) {
    const known = new Map();
    for (const [i, kind] of group.kinds.entries()) {
      const [protocol, direction] = [kind[Messages.PROTOCOL], kind[Messages.DIRECTION]];
      const key = `${protocol} ${direction}`;
      if (!known.has(key)) known.set(key, { protocol, direction, kinds: [] });
      known.get(key).kinds.push(i);
    }
    const rank = ({ protocol, direction }) =>
      (ORDER.indexOf(protocol) + 1 || 9) * 4 + ["up", "down", ""].indexOf(direction);
    return [...known.values()].sort((one, other) => rank(one) - rank(other)).slice(0, 16);
  }

  function mount(root, { onPick, onPoint }) {
    const [ground, canvas] = ["canvas", "canvas"].map((name) => document.createElement(name)); // strips, and messages above
    const [brush, cursor, picked] = ["brush", "cursor", "picked"].map((style) => text("div", "", style));
    const hover = text("div", "", "hover");
    for (const each of [brush, cursor, picked, hover]) each.hidden = true;
    root.replaceChildren(ground, canvas, brush, picked, cursor, hover);
    let group = null;
    let rows = null; // that a search found; null: all
    let lanes = [];
    let placed = []; // of each lane or strip: { top, height, lane or strip }
    let laneOfKind = [];
    let waiting = 0;
    let isSame = false; // whether only the messages that a search finds have changed
    let mark = null; // time of the message that was chosen
    let pointed = null; // time of the page's cursor

    const margins = () => (NARROW.matches ? { left: 62, right: 8 } : { left: 76, right: 16 });
    const inside = () => {
      const { left, right } = margins();
      return { left, width: Math.max(1, Math.floor(root.clientWidth - left - right)) };
    };
    function across() {
      const { left, width } = inside();
      const [from, to] = Timeline.window();
      return {
        left,
        width,
        x: (seconds) => left + ((seconds - from) / (to - from)) * width,
        seconds: (x) => from + ((x - left) / width) * (to - from),
      };
    }

    function place() {
      placed = [];
      let top = GAP_PX;
      for (const lane of lanes) {
        placed.push({ top, height: LANE_PX, lane });
        top += LANE_PX + GAP_PX;
      }
      for (const strip of group.strips) {
        const height = Math.max(STRIP_PX, strip.lanes * SUB_PX + 2);
        placed.push({ top, height, strip });
        top += height + GAP_PX;
      }
      root.style.height = `${top + AXIS_PX}px`;
    }

    function show(next) {
      group = next;
      rows = null;
      isSame = false;
      lanes = lanesOf(group);
      laneOfKind = new Int8Array(group.kinds.length);
      for (const [i, { kinds }] of lanes.entries()) for (const kind of kinds) laneOfKind[kind] = i;
      place();
      draw();
    }

    function filter(found) {
      rows = found;
      if (!waiting) isSame = true;
      soon();
    }

    function soon() {
      waiting ||= requestAnimationFrame(draw);
    }

    const redraw = () => {
      isSame = false;
      soon();
    };

    function cleared(sheet) {
      const scale = density();
      const [width, height] = [root.clientWidth, root.clientHeight].map((px) => Math.round(px * scale));
      if (sheet.width !== width || sheet.height !== height) [sheet.width, sheet.height] = [width, height];
      const pen = sheet.getContext("2d");
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      pen.clearRect(0, 0, root.clientWidth, root.clientHeight);
      return pen;
    }

    function draw() {
      waiting = 0;
      if (!group || !root.clientWidth) return;
      if (!isSame) drawBelow();
      isSame = false;
      drawMessages({ pen: cleared(canvas) });
      put(picked, mark);
      put(cursor, pointed);
    }

    function drawBelow() {
      const style = getComputedStyle(root);
      const paper = { pen: cleared(ground), style, family: style.fontFamily };
      drawGround(paper);
      drawAxis(paper, root.clientHeight);
      for (const each of placed) if (each.strip) drawStrip(paper, each);
    }

    function drawGround({ pen, style, family }) {
      const { left, width } = inside();
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      for (const { top, height, lane, strip } of placed) {
        pen.fillStyle = style.getPropertyValue("--ground");
        pen.fillRect(left, top, width, height);
        pen.fillStyle = style.getPropertyValue("--muted");
        pen.font = `${NARROW.matches ? 11 : 12}px ${family}`;
        const name = lane ? `${lane.protocol} ${Messages.WAYS[lane.direction] ?? ""}`.trim() : strip.key;
        pen.fillText(name, left - 6, top + height / 2, left - 8);
      }
    }

    /* A line for each message; those of one pixel are one line, red if one of them says that something failed. */
    function drawMessages({ pen }) {
      const { left, width } = inside();
      const [from, to] = Timeline.window();
      const [first, end] = Columns.within(group, [from, to]);
      const tone = lanes.map(() => new Uint8Array(width + 1));
      const bad = group.kinds.map((kind) => kind[Messages.BAD]);
      const perSecond = width / (to - from);
      const { time, kind, flags } = group;
      const note = (row) => {
        if (flags[row] & 1) return; // without a time of its own
        const column = ((time[row] - from) * perSecond) | 0;
        const held = tone[laneOfKind[kind[row]]];
        const now = 1 + bad[kind[row]];
        if (held[column] < now) held[column] = now;
      };
      if (rows) {
        let low = 0;
        let high = rows.length;
        while (low < high) {
          const middle = (low + high) >> 1;
          if (rows[middle] < first) low = middle + 1;
          else high = middle;
        }
        for (let i = low; i < rows.length && rows[i] < end; i++) note(rows[i]);
      } else for (let row = first; row < end; row++) note(row);
      const colours = MARKS[theme()];
      const wide = end - first < width / 6 ? 2 : 1;
      for (const [i, { top, height, lane }] of placed.entries()) {
        if (!lane) break;
        for (const wanted of [1, 2]) {
          pen.fillStyle = wanted === 2 ? colours.bad : (colours[lane.protocol] ?? colours.other);
          const [above, high] = wanted === 2 ? [top - 2, height + 4] : [top + 2, height - 4];
          for (let x = 0; x <= width; x++) if (tone[i][x] === wanted) pen.fillRect(left + x, above, wanted === 2 ? 2 : wide, high);
        }
      }
    }

    function drawStrip({ pen, style, family }, { top, height, strip }) {
      const { left, width, x } = across();
      const [from, to] = Timeline.window();
      const colours = TONES[theme()];
      const high = strip.lanes > 1 ? SUB_PX - 2 : height;
      pen.font = `${NARROW.matches ? 11 : 12}px ${family}`;
      [pen.textAlign, pen.textBaseline] = ["left", "middle"];
      const ends = { lane: -1, right: -Infinity, bad: { lane: -1, right: -Infinity } };
      for (let i = 0; i < strip.begin.length; i++) {
        if (strip.end[i] < from || strip.begin[i] > to) continue;
        const [begin, end] = [Math.max(x(strip.begin[i]), left), Math.min(x(strip.end[i]), left + width)];
        const [words, tone] = strip.labels[strip.label[i]];
        const lane = strip.lane ? strip.lane[i] : 0;
        if (end - begin < 1 && tone !== "bad" && lane === ends.lane && end <= ends.right) continue; // it would be hidden
        [ends.lane, ends.right] = [lane, Math.max(end, begin + 1)];
        const low = top + (strip.lanes > 1 ? 2 + lane * SUB_PX : 0);
        const wide = Math.max(end - begin, tone === "bad" ? 3 : 1);
        if (tone === "bad" && lane === ends.bad.lane && begin + wide <= ends.bad.right) continue;
        if (tone === "bad") ends.bad = { lane, right: begin + wide };
        pen.fillStyle = colours[tone] ?? colours.half;
        pen.fillRect(begin, low, wide, high);
        if (wide > 3) {
          pen.fillStyle = style.getPropertyValue("--paper");
          pen.fillRect(begin + wide - 1, low, 1, high);
        }
        if (strip.lanes === 1 && wide > LEAST_WORDS_PX) {
          pen.fillStyle = tone === "bad" ? colours.onBad : colours.ink;
          const room = wide - 8;
          const shown = Axes.wide(words, pen.font) <= room ? words : cut(words, room, pen.font);
          if (shown) pen.fillText(shown, begin + 4, top + height / 2 + 0.5);
        }
      }
    }

    function cut(words, room, font) {
      const fits = Math.floor((words.length * room) / Axes.wide(words, font)) - 1;
      return fits < 4 ? "" : `${words.slice(0, fits)}…`;
    }

    function drawAxis({ pen, style, family }, height) {
      const { width, x, left } = across();
      const { values, decimals } = Axes.times(...Timeline.window(), Math.max(2, Math.floor(width / PX_PER_TICK)));
      pen.font = `${NARROW.matches ? 11 : 12}px ${family}`;
      [pen.textAlign, pen.textBaseline] = ["center", "top"];
      const isClock = Timeline.bounds()[1] >= 60;
      for (const at of values) {
        pen.fillStyle = style.getPropertyValue("--line");
        pen.fillRect(Math.round(x(at)), GAP_PX, 1, height - AXIS_PX - GAP_PX);
        pen.fillStyle = style.getPropertyValue("--muted");
        const words = isClock ? Axes.clock(at, decimals) : `${at.toFixed(decimals)} s`;
        const half = Axes.wide(words, pen.font) / 2;
        pen.fillText(words, Math.min(Math.max(x(at), half), left + width + 8 - half), height - AXIS_PX + 8);
      }
    }

    /* What is below a place: a message of its lane, or a stretch of its strip. */
    function at(x_px, y_px) {
      const here = placed.find(({ top, height }) => y_px >= top - 2 && y_px <= top + height + 2);
      const { left, width, x, seconds } = across();
      if (!here || x_px < left - REACH_PX || x_px > left + width + REACH_PX) return null;
      const time = seconds(x_px);
      if (here.strip) return stretchAt(here, time, y_px);
      const first = Messages.nearest(group, rows, time);
      for (let step = 0; step < 400; step++) {
        const position = first + (step % 2 ? -(step + 1) / 2 : step / 2);
        const row = rows ? rows[position] : position;
        if (row === undefined || !(row >= 0 && row < group.count)) continue;
        if (Math.abs(x(group.time[row]) - x_px) > REACH_PX) continue;
        if (lanes[laneOfKind[group.kind[row]]] === here.lane && !Messages.isUntimed(group, row)) return { row };
      }
      return { words: `${here.lane.protocol}, ${WAYS[here.lane.direction]}` };
    }

    function stretchAt({ strip, top }, time, y_px) {
      const lane = strip.lanes > 1 ? Math.floor((y_px - top - 2) / SUB_PX) : 0;
      const [from, to] = Timeline.window();
      const reach = ((to - from) / across().width) * 3;
      let best = null;
      for (let i = 0; i < strip.begin.length; i++) {
        if ((strip.lane ? strip.lane[i] : 0) !== lane) continue;
        if (time < strip.begin[i] - reach || time > strip.end[i] + reach) continue;
        if (best === null || strip.end[i] - strip.begin[i] < strip.end[best] - strip.begin[best]) best = i;
      }
      if (best === null) return { words: `${strip.title}: not known here` };
      const took = strip.end[best] - strip.begin[best];
      return { words: `${strip.labels[strip.label[best]][2]}, ${Axes.words(took, "s", 3)}`, from: strip.begin[best] };
    }

    function name(found, x_px, y_px) {
      const words = found && (found.words ?? describe(found.row));
      hover.hidden = !words;
      if (!words) return;
      hover.textContent = words;
      const isLeft = x_px < root.clientWidth / 2;
      hover.style.left = isLeft ? `${x_px + 12}px` : "";
      hover.style.right = isLeft ? "" : `${root.clientWidth - x_px + 12}px`;
      hover.style.top = `${y_px + 14}px`;
    }

    function describe(row) {
      const { way, protocol, name: called, cause, cell, channel, frame } = Messages.facts(group, row);
      return [`${protocol} ${way} ${called}`, cause && `cause ${cause}`, channel, cell, `message ${frame}`].filter(Boolean).join(", ");
    }

    /* Put a line at a time; null, or a time outside of the window, hides it. */
    function put(line, seconds) {
      const { left, width, x } = across();
      const left_px = seconds === null ? NaN : x(seconds);
      line.hidden = !(left_px >= left && left_px <= left + width);
      line.style.left = `${left_px}px`;
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
      if (!group) return;
      const [x, y] = placeOf(event);
      if (pressed) {
        brush.hidden = Math.abs(x - pressed[0]) < DRAG_PX;
        brush.style.left = `${Math.min(x, pressed[0])}px`;
        brush.style.width = `${Math.abs(x - pressed[0])}px`;
        return;
      }
      const { left, width, seconds } = across();
      const isInside = x >= left && x <= left + width;
      onPoint(isInside ? seconds(x) : null);
      name(at(x, y), x, y);
    });
    canvas.addEventListener("pointerup", (event) => {
      const [from, to] = [pressed?.[0] ?? NaN, placeOf(event)[0]].sort((a, b) => a - b);
      pressed = null;
      brush.hidden = true;
      if (Number.isNaN(from) || to - from < DRAG_PX) return;
      const { left, width, seconds } = across();
      Timeline.zoom(seconds(Math.max(from, left)), seconds(Math.min(to, left + width)));
    });
    canvas.addEventListener("click", (event) => {
      if (!group) return;
      const [x, y] = placeOf(event);
      const found = at(x, y);
      name(found, x, y);
      if (found?.row !== undefined) onPick(found.row);
    });
    canvas.addEventListener("dblclick", () => Timeline.zoom(...Timeline.bounds()));
    canvas.addEventListener("pointerleave", () => {
      hover.hidden = true;
      onPoint(null);
    });

    Timeline.on_window(redraw);
    Timeline.on_cursor((seconds) => {
      pointed = seconds;
      if (group) put(cursor, pointed);
    });
    new ResizeObserver(redraw).observe(root);
    document.addEventListener("themechange", () => {
      isSame = false;
      draw();
    });

    return {
      show,
      filter,
      draw,
      pick: (seconds) => {
        mark = seconds;
        put(picked, mark);
      },
      /* What tests, and the words for readers, ask: the lanes by name, and the strips with their stretches in view. */
      names: () => placed.map(({ lane, strip }) => (lane ? `${lane.protocol} ${lane.direction}`.trim() : strip.key)),
      at: (x, y) => at(x, y),
      placed: () => placed,
      across,
    };
  }

  return { mount };
})();
