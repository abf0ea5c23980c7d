/* Links a figure with the map: one cursor, and the stretch that is in view.

   A figure over distance sends and hears metres along the route instead of seconds; the map knows both. */
"use strict";

const Link = (() => {
  const KM = 1000;
  const send = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail: { ...detail, from: "figure" } }));
  const placeOf = (at, unit) => (unit === "km" ? { metres: at * KM } : { seconds: at });

  /* Tell the page what of its time, or of its route, a figure shows. */
  const shows = (view, unit) =>
    send("view", unit === "km" ? { metres: view.map((km) => km * KM) } : { seconds: [...view] });

  /* Tell the page where on its axis the pointer is; null: nowhere. */
  function points(at, unit) {
    if (unit !== "km") Timeline.cursor(at);
    if (at !== null) send("cursor", placeOf(at, unit));
  }

  /* Call `each` with the place of the cursor on the axis of a figure, whose unit may change. */
  function hears(each, unit) {
    document.addEventListener("cursor", ({ detail }) => {
      if (detail.from !== "figure") each(unit() === "km" ? detail.metres / KM : detail.seconds);
    });
  }

  return { shows, points, hears };
})();
