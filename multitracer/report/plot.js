/* Draws the one figure of a page that `multitracer plot` wrote. */
"use strict";

(() => {
  const figure = JSON.parse(document.getElementById("figure").textContent);
  const plot = document.getElementById("plot");
  const narrow = window.matchMedia("(max-width: 700px)");
  const BUTTONS_PX = 30; // of plotly's own row: beside it a phone has no room for a panel's title
  const [LINE_LETTERS, TITLE_PX] = [42, 18]; // of an axis title on a phone, and the height of its line
  const paper_px = 680; /* what A4 and Letter leave room for, as in page.css */

  const lines = (title = "") => title.match(new RegExp(`.{1,${LINE_LETTERS}}(\\s|$)`, "g")) ?? [];

  const broken = (words) => (words.name === "empty" ? { ...words, text: lines(words.text).join("<br>") } : words);

  /* Beside the panels a legend leaves a phone no room for them, so there it goes below. */
  function layout() {
    if (!narrow.matches) return figure.layout;
    if (figure.layout.meta?.narrow) return figure.layout.meta.narrow;
    const rows = figure.data.filter((trace) => trace.showlegend !== false).length;
    const title = lines(figure.layout.xaxis?.title?.text);
    const title_px = 60 + TITLE_PX * Math.max(title.length - 1, 0);
    const below = 21 * rows + 60 + title_px;
    const height = (figure.layout.height ?? 900) + below;
    return {
      ...figure.layout,
      height,
      font: { ...figure.layout.font, size: 11 },
      annotations: (figure.layout.annotations ?? []).filter(({ name }) => name !== "key").map(broken),
      margin: { ...figure.layout.margin, l: 66, r: 8, b: below, t: (figure.layout.margin?.t ?? 28) + BUTTONS_PX },
      xaxis: { ...figure.layout.xaxis, title: { ...figure.layout.xaxis?.title, text: title.join("<br>") } },
      legend: { ...figure.layout.legend, orientation: "h", x: 0, xanchor: "left", y: -title_px / (height - below), yanchor: "top" },
      updatemenus: (figure.layout.updatemenus ?? []).map((menu) => ({ ...menu, type: "dropdown", direction: "down" })),
    };
  }

  /* What was recorded in the field stays where it is: no button uploads it. */
  const config = { responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };

  function draw() {
    return Plotly.react(plot, figure.data, layout(), config);
  }

  /* Without the step between, the buttons of the other width would stay beside the new ones. */
  function redraw() {
    return Plotly.react(plot, figure.data, { ...layout(), updatemenus: [] }, config).then(draw);
  }

  narrow.addEventListener("change", () => (window.plot = window.plot.then(redraw)));
  window.addEventListener("beforeprint", () => Plotly.relayout(plot, { width: paper_px }));
  window.addEventListener("afterprint", () => Plotly.relayout(plot, { width: null, autosize: true }));
  window.plot = draw();
})();
