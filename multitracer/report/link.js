/* Links the figure with what else of the page has a time: one cursor, and the stretch that is in view. */
"use strict";

const Link = (() => {
  const send = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail: { ...detail, from: "figure" } }));

  /* Tell the page what of its time a figure shows. */
  const shows = (view) => send("view", { seconds: [...view] });

  /* Draw the cursor over all panels of a plot, and tell the page where the pointer is. */
  function cursor(plot) {
    const line = document.createElement("div");
    line.className = "cursor";
    line.hidden = true;
    plot.append(line);
    plot.on("plotly_hover", ({ xvals, points }) => send("cursor", { seconds: xvals?.[0] ?? points[0].x }));
    document.addEventListener("cursor", ({ detail }) => {
      if (detail.from === "figure") return;
      const axis = plot._fullLayout?.xaxis;
      const at = axis ? axis._offset + axis.d2p(detail.seconds) : NaN;
      line.hidden = !(at >= axis?._offset && at <= axis._offset + axis._length);
      line.style.left = `${at}px`;
    });
    document.addEventListener("view", () => (line.hidden = true));
  }

  return { shows, cursor };
})();
