/* Draws the route of a drive from the packed points in the page: a canvas of our own, no tiles, no network.

   The page carries points in metres around the middle of the route, and for each quantity the class of each
   point. What is drawn is chosen anew for each frame: points that fall onto the pixel of the one before, in
   the same colour, are left out. Time links the map with the figure: both send and hear "cursor" and "view". */
"use strict";

const RouteMap = (() => {
  const MARGIN = 28;
  const NEAR_PX = 16;
  const MOST_ZOOM = 40; // pixels for a metre
  const DOT_PX = 0.01; // a line of no length is not drawn
  const [LINE_PX, SPOT_PX] = [5, 16]; // a route, and the one place of who stood all the time
  const SIGNS = { handover: "◆", marker: "⚑", outage: "✕", gap: "…" };

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function mount(root, data) {
    const canvas = root.querySelector("canvas");
    const context = canvas.getContext("2d");
    const choice = root.querySelector("select");
    const legend = root.querySelector(".classes");
    const status = root.querySelector(".status");
    const track = Columns.unpack(data.track);
    const { time, joined } = track;
    const [x, y, along] = [track.x, track.y, track.along].map((units) => units.map((n) => n * data.track.unit_m));
    const base = data.base && Columns.unpack(data.base);
    const quantities = data.quantities.map((each) => ({
      ...each,
      class: Columns.unpack(each.classes).value,
      value: each.values ? Columns.unpack(each.values).value : null,
    }));
    const hidden = new Set();
    let chosen = quantities[0];
    let stretch = null;
    let cursor = null;
    let size = { width: 0, height: 0 };
    let place = null; // pixels for a metre, and the metres at the middle of the canvas
    let onScreen = null; // the place, while the page is on paper
    let waiting = false;
    let badges = []; // where the numbers of this frame are

    const ends = (column) => column.reduce(([low, high], n) => [Math.min(low, n), Math.max(high, n)], [Infinity, -Infinity]);
    const [[west, east], [south, north]] = [ends(x), ends(y)];
    const wide = west === east && south === north ? SPOT_PX : LINE_PX;

    function whole() {
      const wide = Math.max(east - west, 20);
      const high = Math.max(north - south, 20);
      const zoom = Math.min((size.width - 2 * MARGIN) / wide, (size.height - 2 * MARGIN) / high);
      return { zoom: Math.min(Math.max(zoom, 1e-7), MOST_ZOOM), x: (west + east) / 2, y: (south + north) / 2 };
    }

    const toX = (metres) => size.width / 2 + (metres - place.x) * place.zoom;
    const toY = (metres) => size.height / 2 - (metres - place.y) * place.zoom;

    /* The lines of each class, in pixels; class -1 is a missing value. */
    function lines() {
      const paths = new Map();
      let [lastX, lastY, lastClass] = [NaN, NaN, null];
      const pathOf = (kind) => paths.get(kind) ?? paths.set(kind, new Path2D()).get(kind);
      for (let i = 0; i < x.length; i++) {
        const px = toX(x[i]);
        const py = toY(y[i]);
        const kind = i ? chosen.class[i - 1] : chosen.class[0];
        const near = Math.abs(px - lastX) < 0.7 && Math.abs(py - lastY) < 0.7;
        if (joined[i] && near && kind === lastClass && i < x.length - 1) continue;
        if (joined[i]) {
          const path = pathOf(kind);
          path.moveTo(lastX, lastY);
          path.lineTo(px, py);
        } else {
          const spot = pathOf(chosen.class[i]); // a place without a way from it is seen, too
          spot.moveTo(px, py);
          spot.lineTo(px + DOT_PX, py);
        }
        lastX = px;
        lastY = py;
        lastClass = kind;
      }
      return paths;
    }

    function draw() {
      waiting = false;
      if (!place || !size.width) return;
      const ratio = window.devicePixelRatio || 1;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, size.width, size.height);
      context.lineCap = "round";
      context.lineJoin = "round";
      if (base) drawBase();
      const paths = lines();
      for (const each of data.bad ?? []) drawPart([each.from, each.to], 13, "--poor", 0.35);
      if (stretch) drawPart(stretch, 15, "--accent", 0.4);
      stroke(paths, wide + 2, () => style("--ink"));
      stroke(paths, wide, (kind) => chosen.colours[kind] ?? data.missing);
      for (const event of data.events) if (!hidden.has(event.kind)) drawEvent(event);
      badges = [];
      data.bad?.forEach(drawBadge);
      if (cursor !== null) drawCursor();
      drawScale();
      drawNorth();
    }

    function stroke(paths, width, colour) {
      context.lineWidth = width;
      for (const [kind, path] of paths) {
        context.strokeStyle = colour(kind);
        context.stroke(path);
      }
    }

    /* The lines of the base map, without those outside of the picture and steps below a pixel. */
    function drawBase() {
      const path = new Path2D();
      const [wide, high] = [size.width, size.height];
      let [lastX, lastY] = [NaN, NaN];
      let open = false;
      for (let i = 0; i < base.x.length; i++) {
        const [px, py] = [toX(base.x[i]), toY(base.y[i])];
        const near = base.joined[i] && Math.abs(px - lastX) < 1 && Math.abs(py - lastY) < 1;
        if (near && base.joined[i + 1]) continue;
        const out = (px < 0 && lastX < 0) || (py < 0 && lastY < 0) || (px > wide && lastX > wide) || (py > high && lastY > high);
        if (base.joined[i] && !out) {
          if (!open) path.moveTo(lastX, lastY);
          path.lineTo(px, py);
        }
        open = base.joined[i] && !out;
        [lastX, lastY] = [px, py];
      }
      context.lineWidth = 1;
      context.strokeStyle = style("--muted");
      context.stroke(path);
    }

    /* A part of the route, below it: what the figure shows, or a bad stretch. */
    function drawPart([from, to], width, colour, alpha) {
      const [first, end] = [position(from), position(to)];
      context.beginPath();
      for (let i = Math.max(first, 1); i <= Math.min(end, x.length - 1); i++) {
        if (!joined[i]) continue;
        context.moveTo(toX(x[i - 1]), toY(y[i - 1]));
        context.lineTo(toX(x[i]), toY(y[i]));
      }
      context.lineWidth = width;
      context.globalAlpha = alpha;
      context.strokeStyle = style(colour);
      context.stroke();
      context.globalAlpha = 1;
    }

    function drawEvent(event) {
      const [px, py] = [toX(event.x), toY(event.y)];
      if (px < -20 || py < -20 || px > size.width + 20 || py > size.height + 20) return;
      context.font = "16px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.lineWidth = 4;
      context.strokeStyle = style("--paper");
      context.strokeText(SIGNS[event.kind] ?? "•", px, py);
      context.fillStyle = event.kind === "outage" ? style("--poor") : style("--ink");
      context.fillText(SIGNS[event.kind] ?? "•", px, py);
    }

    /* The number of a bad stretch, beside its middle; one that another hides is not drawn. */
    function drawBadge(bad, index) {
      const i = Math.min(position((bad.from + bad.to) / 2), x.length - 1);
      const spot = [toX(x[i]) + 15, toY(y[i]) - 15];
      if (badges.some(([px, py]) => Math.hypot(px - spot[0], py - spot[1]) < 20)) return;
      badges.push(spot);
      context.beginPath();
      context.arc(...spot, 10, 0, 2 * Math.PI);
      context.fillStyle = style("--poor");
      context.fill();
      context.fillStyle = style("--paper");
      context.font = "600 12px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(index + 1, ...spot);
    }

    function drawCursor() {
      const at = Math.min(position(cursor), x.length - 1);
      context.beginPath();
      context.arc(toX(x[at]), toY(y[at]), 9, 0, 2 * Math.PI);
      context.lineWidth = 3;
      context.strokeStyle = style("--ink");
      context.stroke();
    }

    function drawScale() {
      const most = 140 / place.zoom;
      const power = 10 ** Math.floor(Math.log10(most));
      const metres = [5, 2, 1].map((n) => n * power).find((n) => n <= most) ?? power;
      const long = metres * place.zoom;
      const [left, base] = [14, size.height - 16];
      context.lineWidth = 2;
      context.strokeStyle = context.fillStyle = style("--ink");
      context.beginPath();
      context.moveTo(left, base - 6);
      context.lineTo(left, base);
      context.lineTo(left + long, base);
      context.lineTo(left + long, base - 6);
      context.stroke();
      context.font = "12px system-ui, sans-serif";
      context.textAlign = "left";
      context.textBaseline = "alphabetic";
      context.fillText(metres >= 1000 ? `${metres / 1000} km` : `${Number(metres.toPrecision(1))} m`, left + 6, base - 6);
    }

    function drawNorth() {
      const [right, top] = [size.width - 24, 16];
      context.fillStyle = style("--ink");
      context.beginPath();
      context.moveTo(right, top);
      context.lineTo(right - 6, top + 16);
      context.lineTo(right, top + 12);
      context.lineTo(right + 6, top + 16);
      context.fill();
      context.font = "600 12px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "top";
      context.fillText("N", right, top + 18);
    }

    /* The last point at or before a time, or a distance. */
    function position(wanted, column = time) {
      let low = 0;
      let high = column.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (column[middle] <= wanted) low = middle + 1;
        else high = middle;
      }
      return Math.max(low - 1, 0);
    }

    function soon() {
      if (!waiting) requestAnimationFrame(draw);
      waiting = true;
    }

    function resize() {
      const box = canvas.getBoundingClientRect();
      const ratio = window.devicePixelRatio || 1;
      const first = !size.width;
      size = { width: box.width, height: box.height };
      canvas.width = Math.round(box.width * ratio);
      canvas.height = Math.round(box.height * ratio);
      if (first || !place) place = whole();
      draw();
    }

    /* On paper the canvas has a size of its own (page.css): the same middle, and all that was seen of it. */
    function recolour() {
      const [paper, before] = ["print" in document.documentElement.dataset, size];
      if (!paper && onScreen) [place, onScreen] = [onScreen, null];
      resize();
      if (!paper || onScreen || !before.width) return;
      onScreen = place;
      place = { ...place, zoom: place.zoom * Math.min(size.width / before.width, size.height / before.height) };
      draw();
    }

    function zoom(factor, px = size.width / 2, py = size.height / 2) {
      const wanted = Math.min(Math.max(place.zoom * factor, whole().zoom / 4), MOST_ZOOM);
      const [dx, dy] = [(px - size.width / 2) / place.zoom, (py - size.height / 2) / place.zoom];
      const rest = 1 - place.zoom / wanted;
      place = { zoom: wanted, x: place.x + dx * rest, y: place.y - dy * rest };
      soon();
    }

    function pan(px, py) {
      place = { ...place, x: place.x - px / place.zoom, y: place.y + py / place.zoom };
      soon();
    }

    function nearest(px, py) {
      let best = -1;
      let least = NEAR_PX ** 2;
      for (let i = 0; i < x.length; i++) {
        const away = (toX(x[i]) - px) ** 2 + (toY(y[i]) - py) ** 2;
        if (away < least) [best, least] = [i, away];
      }
      return best;
    }

    function words(i) {
      const kind = chosen.class[i];
      const exact = chosen.value && !Number.isNaN(chosen.value[i]);
      const number = exact ? `${Number((chosen.value[i] * chosen.scale).toPrecision(4))} ${chosen.unit}`.trim() : null;
      const said = number ?? (kind < 0 ? "no value" : chosen.words[kind]);
      const beside = data.events.filter((e) => !hidden.has(e.kind) && Math.hypot(e.x - x[i], e.y - y[i]) * place.zoom < NEAR_PX);
      const events = beside.slice(0, 3).map((e) => `; ${SIGNS[e.kind] ?? ""} ${e.words}`).join("");
      const bad = (data.bad ?? []).map((each, number) => [each, number + 1]).filter(([each]) => each.from <= time[i] && time[i] <= each.to);
      const why = bad.slice(0, 1).map(([each, number]) => `; bad stretch ${number}: ${each.words}`).join("");
      return `${Axes.clock(time[i], 1)}, ${chosen.title}: ${said}${why}${events}`;
    }

    function show(seconds, tell) {
      cursor = seconds;
      if (seconds !== null && tell) status.textContent = words(position(seconds));
      soon();
    }

    /* Where along the route the car was from one time to another, in metres; null before and after the route. */
    function between(from, to) {
      if (from === null || to < time[0] || from > time[time.length - 1]) return null;
      return [from, to].map((seconds) => along[position(seconds)]);
    }

    /* When the car was that far along the route. */
    const when = (metres) => time[position(metres, along)];

    function send(name, detail) {
      document.dispatchEvent(new CustomEvent(name, { detail: { ...detail, from: "map" } }));
    }

    function point(px, py) {
      const i = nearest(px, py);
      if (i < 0) return;
      show(time[i], true);
      send("cursor", { seconds: time[i], metres: along[i] });
    }

    function step(by) {
      const at = cursor === null ? 0 : position(cursor) + by;
      const i = Math.min(Math.max(at, 0), time.length - 1);
      show(time[i], true);
      send("cursor", { seconds: time[i], metres: along[i] });
    }

    function drawLegend() {
      const shown = chosen.words.map((text, i) => [text, chosen.colours[i], i]);
      const rows = chosen.value ? shown : shown.filter(([, , i]) => chosen.class.includes(i)); // a scale is told whole
      if (chosen.class.includes(-1)) rows.push(["no value", data.missing]);
      legend.replaceChildren(
        ...rows.map(([text, colour]) => {
          const item = document.createElement("span");
          const box = document.createElement("i");
          box.style.background = colour;
          item.append(box, text);
          return item;
        }),
      );
      const title = document.createElement("b");
      title.textContent = chosen.unit ? `${chosen.title}, ${chosen.unit}` : chosen.title;
      legend.prepend(title);
    }

    MapGestures.listen(canvas, root, { zoom, pan, point, step, whole: () => soon((place = whole())) });
    for (const box of root.querySelectorAll("input[data-kind]")) {
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(box.dataset.kind);
        else hidden.add(box.dataset.kind);
        soon();
      });
    }
    choice?.addEventListener("change", () => {
      chosen = quantities[Number(choice.value)];
      drawLegend();
      soon();
    });
    document.addEventListener("themechange", recolour); // at once: paper waits for no frame
    document.addEventListener("cursor", ({ detail }) => {
      if (detail.from !== "map") show(detail.seconds ?? when(detail.metres), true);
    });
    document.addEventListener("view", ({ detail }) => {
      if (detail.from === "map") return;
      const [from, to] = detail.seconds ?? detail.metres.map(when);
      const all = from <= time[0] && to >= time[time.length - 1];
      stretch = all ? null : [from, to];
      soon();
    });
    drawLegend();
    new ResizeObserver(resize).observe(canvas);
    return { draw, pan, zoom, words, between, place: () => ({ ...place }), cursor: () => cursor, stretch: () => stretch };
  }

  return { mount };
})();
