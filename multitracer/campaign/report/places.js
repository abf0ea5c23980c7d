/* Draws the map of a campaign: hexagons, or squares by heading, coloured by any quantity; no tiles, no network.

   The page carries the middle of each cell in metres and its values. In a square an arrow for each heading points
   where the cars went; its middle is for those that stood. */
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("places").textContent);
  const root = document.querySelector(".map");
  const canvas = root.querySelector("canvas");
  const context = canvas.getContext("2d");
  const [levelChoice, choice] = root.querySelectorAll("select");
  const legend = root.querySelector(".classes");
  const status = root.querySelector(".status");
  const HEADINGS = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"];
  const MARGIN = 28;
  const MOST_ZOOM = 4; // pixels for a metre
  let level = data.levels[0];
  let chosen = data.quantities[0];
  let place = null; // pixels for a metre, and the metres at the middle of the canvas
  let size = { width: 0, height: 0 };
  let marked = -1;
  let waiting = false;

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const toX = (metres) => size.width / 2 + (metres - place.x) * place.zoom;
  const toY = (metres) => size.height / 2 - (metres - place.y) * place.zoom;
  const ends = (column) => column.reduce(([low, high], n) => [Math.min(low, n), Math.max(high, n)], [Infinity, -Infinity]);

  function whole() {
    const [[west, east], [south, north]] = [ends(data.levels[0].x), ends(data.levels[0].y)];
    const room = data.levels[0].width_m;
    const wide = (size.width - 2 * MARGIN) / (east - west + room);
    const high = (size.height - 2 * MARGIN) / (north - south + room);
    return { zoom: Math.min(wide, high, MOST_ZOOM), x: (west + east) / 2, y: (south + north) / 2 };
  }

  function kind(i) {
    const value = level.values[chosen.key][i];
    if (value === null) return -1;
    return chosen.limits ? chosen.limits.filter((limit) => value >= limit).length : value;
  }

  /* The outline of a cell, in metres around its middle. */
  function outline(i) {
    const half = level.width_m / 2;
    if (!level.sector) {
      const long = level.width_m / Math.sqrt(3);
      return [0, 1, 2, 3, 4, 5].map((n) => [long * Math.sin((n * Math.PI) / 3), long * Math.cos((n * Math.PI) / 3)]);
    }
    const sector = level.sector[i];
    if (sector === null) return [[-6, -6], [6, -6], [6, 6], [-6, 6]];
    const [east, north] = [Math.sin((sector * Math.PI) / 4), Math.cos((sector * Math.PI) / 4)];
    const at = (ahead, right) => [half * (ahead * east + right * north), half * (ahead * north - right * east)];
    return [at(1, 0), at(0.1, 0.45), at(0.1, -0.45)];
  }

  function trace(i) {
    const corners = outline(i);
    const least = 1.2 / place.zoom / level.width_m; // what is far below a pixel is drawn as one
    const grown = Math.max(1, least);
    corners.forEach(([east, north], n) => {
      const [px, py] = [toX(level.x[i] + east * grown), toY(level.y[i] + north * grown)];
      if (n) context.lineTo(px, py);
      else context.moveTo(px, py);
    });
    context.closePath();
  }

  const isSeen = (i) => {
    const [px, py, room] = [toX(level.x[i]), toY(level.y[i]), level.width_m * place.zoom + 2];
    return px > -room && py > -room && px < size.width + room && py < size.height + room;
  };

  function draw() {
    waiting = false;
    if (!size.width) return;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    const groups = new Map();
    for (let i = 0; i < level.x.length; i++) {
      if (!isSeen(i)) continue;
      const code = kind(i);
      if (!groups.has(code)) groups.set(code, []);
      groups.get(code).push(i);
    }
    for (const [code, rows] of groups) {
      context.beginPath();
      rows.forEach(trace);
      context.fillStyle = chosen.colours[code] ?? data.missing;
      context.fill();
      if (level.width_m * place.zoom > 8) {
        context.lineWidth = 0.7;
        context.strokeStyle = style("--ink");
        context.stroke();
      }
    }
    if (marked >= 0) {
      context.beginPath();
      trace(marked);
      context.lineWidth = 3;
      context.strokeStyle = style("--ink");
      context.stroke();
    }
    drawScale();
  }

  function drawScale() {
    const most = 140 / place.zoom;
    const power = 10 ** Math.floor(Math.log10(most));
    const metres = [5, 2, 1].map((n) => n * power).find((n) => n <= most);
    const [left, base, long] = [14, size.height - 16, metres * place.zoom];
    context.lineWidth = 2;
    context.strokeStyle = context.fillStyle = style("--ink");
    context.beginPath();
    context.moveTo(left, base - 6);
    context.lineTo(left, base);
    context.lineTo(left + long, base);
    context.lineTo(left + long, base - 6);
    context.stroke();
    context.font = "12px system-ui, sans-serif";
    context.fillText(metres >= 1000 ? `${metres / 1000} km` : `${metres} m`, left + 6, base - 6);
  }

  function drawLegend() {
    const title = document.createElement("b");
    title.textContent = chosen.unit ? `${chosen.title}, ${chosen.unit}` : chosen.title;
    const rows = chosen.words.map((text, i) => [text, chosen.colours[i]]);
    if (level.values[chosen.key].includes(null)) rows.push(["no value", data.missing]);
    legend.replaceChildren(
      title,
      ...rows.map(([text, colour]) => {
        const item = document.createElement("span");
        const box = document.createElement("i");
        box.style.background = colour;
        item.append(box, text);
        return item;
      }),
    );
  }

  function nearest(px, py) {
    let best = -1;
    let least = Math.max(level.width_m * place.zoom * 0.6, 8) ** 2;
    for (let i = 0; i < level.x.length; i++) {
      let [x, y] = [level.x[i], level.y[i]];
      const sector = level.sector?.[i];
      if (level.sector && sector !== null) {
        x += (level.width_m / 4) * Math.sin((sector * Math.PI) / 4);
        y += (level.width_m / 4) * Math.cos((sector * Math.PI) / 4);
      }
      const away = (toX(x) - px) ** 2 + (toY(y) - py) ** 2;
      if (away < least) [best, least] = [i, away];
    }
    return best;
  }

  function words(i) {
    const value = level.values[chosen.key][i];
    const text = value === null ? "no value" : chosen.limits ? `${value} ${chosen.unit}`.trim() : chosen.words[value];
    const sector = level.sector?.[i];
    const way = level.sector ? (sector === null ? ", standing" : `, heading ${HEADINGS[sector]}`) : "";
    const where = `${level.lat_deg[i].toFixed(5)}, ${level.lon_deg[i].toFixed(5)}${way}`;
    return `${where}: ${chosen.title} ${text}; ${level.seconds[i]} s of ${level.sessions[i]} session(s)`;
  }

  function point(px, py) {
    marked = nearest(px, py);
    status.textContent = marked < 0 ? "Move the pointer over a cell to see its value." : words(marked);
    soon();
  }

  function soon() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  function zoom(factor, px = size.width / 2, py = size.height / 2) {
    const wanted = Math.min(Math.max(place.zoom * factor, whole().zoom / 4), MOST_ZOOM);
    const rest = 1 / place.zoom - 1 / wanted;
    place = { zoom: wanted, x: place.x + (px - size.width / 2) * rest, y: place.y - (py - size.height / 2) * rest };
    soon();
  }

  function pan(px, py) {
    place = { ...place, x: place.x - px / place.zoom, y: place.y + py / place.zoom };
    soon();
  }

  function step(by) {
    marked = Math.min(Math.max(marked + by, 0), level.x.length - 1);
    status.textContent = words(marked);
    soon();
  }

  MapGestures.listen(canvas, root, { zoom, pan, point, step, whole: () => soon((place = whole())) });

  function choose() {
    level = data.levels[Number(levelChoice.value)];
    chosen = data.quantities[Number(choice.value)];
    marked = -1;
    drawLegend();
    soon();
  }
  levelChoice.addEventListener("change", choose);
  choice.addEventListener("change", choose);
  document.addEventListener("themechange", () => draw());
  new ResizeObserver(() => {
    const box = canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    size = { width: box.width, height: box.height };
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    place ??= whole();
    draw();
  }).observe(canvas);
  drawLegend();
  window.campaignMap = { words, choose, level: () => level, place: () => ({ ...place }) };
})();
