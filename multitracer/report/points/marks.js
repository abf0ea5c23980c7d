/* The marks of single points: their shapes, as pictures that a canvas copies quickly and as swatches of a legend. */
"use strict";

const Marks = (() => {
  /* Paths within a circle of radius 1 around 0, 0; the filled ones are in FILLED. */
  const SHAPES = {
    circle: "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0Z",
    "circle-open": "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0Z",
    "x-thin": "M-1-1L1 1M-1 1L1-1",
    "cross-thin": "M0-1V1M-1 0H1",
    "line-ew": "M-1 0H1",
    "line-ns": "M0-1V1",
    asterisk: "M0-1V1M-1 0H1M-.7-.7L.7 .7M-.7 .7L.7-.7",
    "triangle-left-open": "M-1 0L.8-1V1Z",
    "triangle-right-open": "M1 0L-.8-1V1Z",
    "triangle-up-open": "M0-1L1 .8H-1Z",
    diamond: "M0-1L1 0L0 1L-1 0Z",
    "diamond-open": "M0-1L1 0L0 1L-1 0Z",
    "square-open": "M-.8-.8H.8V.8H-.8Z",
    "hash-open": "M-.4-1V1M.4-1V1M-1-.4H1M-1 .4H1",
  };
  const FILLED = new Set(["circle", "diamond"]);
  const STROKE_PX = 1.6;
  const DASHES = { dot: [2, 3], dash: [6, 4], dashdot: [6, 3, 2, 3] };
  const sprites = new Map();

  /* A small canvas with one mark in its middle, made once for each look and density of pixels. */
  function sprite(look, colour, size_px, density) {
    const key = `${look.symbol} ${colour} ${size_px} ${density}`;
    if (!sprites.has(key)) sprites.set(key, drawn(look.symbol, colour, size_px, density));
    return sprites.get(key);
  }

  function drawn(symbol, colour, size_px, density) {
    const canvas = document.createElement("canvas");
    const side_px = Math.ceil(size_px + 2 * STROKE_PX);
    canvas.width = canvas.height = side_px * density;
    const pen = canvas.getContext("2d");
    pen.scale(density, density);
    pen.translate(side_px / 2, side_px / 2);
    pen.scale(size_px / 2, size_px / 2);
    pen.lineWidth = (2 * STROKE_PX) / size_px;
    pen.fillStyle = pen.strokeStyle = colour;
    const path = new Path2D(SHAPES[symbol] ?? SHAPES.circle);
    if (FILLED.has(symbol)) pen.fill(path);
    else pen.stroke(path);
    return { canvas, side_px };
  }

  const SVG = "http://www.w3.org/2000/svg";

  /* A swatch for the legend: the mark, a piece of the line, or a square of the colour that shades the panels. */
  function swatch(look, colour, isShade = false) {
    const svg = document.createElementNS(SVG, "svg");
    const path = document.createElementNS(SVG, "path");
    svg.setAttribute("viewBox", "-12 -7 24 14");
    svg.setAttribute("aria-hidden", "true");
    svg.style.color = colour;
    svg.append(path);
    if (isShade) {
      path.setAttribute("d", "M-5-5H5V5H-5Z");
      path.setAttribute("fill", "currentColor");
    } else if (look.mark === "points") {
      path.setAttribute("d", SHAPES[look.symbol] ?? SHAPES.circle);
      path.setAttribute("transform", "scale(4.5)");
      path.setAttribute("vector-effect", "non-scaling-stroke");
      if (FILLED.has(look.symbol)) path.setAttribute("fill", "currentColor");
    } else if (look.mark === "bars") path.setAttribute("d", "M-5-5V5M0-3V5M5-6V3");
    else path.setAttribute("d", "M-11 0H11");
    path.setAttribute("stroke-dasharray", (DASHES[look.dash] ?? []).join(" "));
    return svg;
  }

  return { sprite, swatch, dash: (look) => DASHES[look.dash] ?? [] };
})();
