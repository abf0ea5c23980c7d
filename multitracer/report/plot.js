/* Draws the one figure of a page that `multitracer plot` wrote. */
"use strict";

(() => {
  const figure = JSON.parse(document.getElementById("figure").textContent);
  const plot = document.getElementById("plot");
  const narrow = window.matchMedia("(max-width: 700px)");
  const paper_px = 680; /* what A4 and Letter leave room for, as in page.css */

  /* Beside the panels a legend leaves a phone no room for them, so there it goes below. */
  function layout() {
    if (!narrow.matches) return figure.layout;
    if (figure.layout.meta?.narrow) return figure.layout.meta.narrow;
    const rows = figure.data.filter((trace) => trace.showlegend !== false).length;
    const below = 21 * rows + 120;
    const height = (figure.layout.height ?? 900) + below;
    return {
      ...figure.layout,
      height,
      margin: { ...figure.layout.margin, l: 64, r: 8, b: below },
      legend: { ...figure.layout.legend, orientation: "h", x: 0, xanchor: "left", y: -60 / (height - below), yanchor: "top" },
      updatemenus: (figure.layout.updatemenus ?? []).map((menu) => ({ ...menu, type: "dropdown", direction: "down" })),
    };
  }

  /* What was recorded in the field stays where it is: no button uploads it. */
  const config = { responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };

  function draw() {
    return Plotly.react(plot, figure.data, layout(), config);
  }

  narrow.addEventListener("change", draw);
  window.addEventListener("beforeprint", () => Plotly.relayout(plot, { width: paper_px }));
  window.addEventListener("afterprint", () => Plotly.relayout(plot, { width: null, autosize: true }));
  window.plot = draw();
})();
