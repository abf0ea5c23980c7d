/* Draws the charts of a page: each comes in both themes, and with a layout for narrow screens. */
"use strict";

(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const root = document.documentElement;
  const narrow = window.matchMedia("(max-width: 700px)");
  const holders = [...document.querySelectorAll(".chart")];

  function draw(holder) {
    const { data, layout } = charts[Number(holder.dataset.chart)][root.dataset.theme];
    const slim = narrow.matches && !("print" in root.dataset);
    /* What was recorded in the field stays where it is: no button uploads it. */
    const config = { responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", displayModeBar: !slim };
    const seen = slim ? layout.meta.narrow : layout;
    /* Plotly keeps the arrays that it is given and writes into the layout, so each drawing gets its own. */
    return Plotly.react(holder, structuredClone(data), structuredClone(seen), config);
  }

  const drawAll = () => Promise.all(holders.map(draw));
  narrow.addEventListener("change", drawAll);
  document.addEventListener("themechange", drawAll);
  window.charts = drawAll();
})();
