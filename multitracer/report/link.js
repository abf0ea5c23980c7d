/* Links the figure with what else of the page has a time: one cursor, and the stretch that is in view.

   A figure over distance sends and hears metres along the route instead of seconds; the map knows both. */
"use strict";

const Link = (() => {
  const send = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail: { ...detail, from: "figure" } }));

  const KM = 1000;

  /* Tell the page what of its time, or of its route, a figure shows. */
  const shows = (view, unit) =>
    send("view", unit === "km" ? { metres: view.map((km) => km * KM) } : { seconds: [...view] });

  /* Draw the cursor over all panels of a plot, and tell the page where the pointer is. */
  function cursor(plot, unit) {
    const line = document.createElement("div");
    line.className = "cursor";
    line.hidden = true;
    plot.append(line);
    plot.on("plotly_hover", ({ xvals, points }) => {
      const x = xvals?.[0] ?? points[0].x;
      send("cursor", unit() === "km" ? { metres: x * KM } : { seconds: x });
    });
    document.addEventListener("cursor", ({ detail }) => {
      if (detail.from === "figure") return;
      const axis = plot._fullLayout?.xaxis;
      const at = axis ? axis._offset + axis.d2p(unit() === "km" ? detail.metres / KM : detail.seconds) : NaN;
      line.hidden = !(at >= axis?._offset && at <= axis._offset + axis._length);
      line.style.left = `${at}px`;
    });
    document.addEventListener("view", () => (line.hidden = true));
  }

  return { shows, cursor };
})();
