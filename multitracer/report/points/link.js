/* Links the time of the page with the map: one cursor, and the stretch that is in view.

   A figure over distance sends and hears metres along the route instead of seconds; the map knows both. */
"use strict";

const Link = (() => {
  const KM = 1000;
  const send = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail: { ...detail, from: "figure" } }));

  /* Tell the page what of its time, or of its route, a figure shows. */
  const shows = (view, unit) =>
    send("view", unit === "km" ? { metres: view.map((km) => km * KM) } : { seconds: [...view] });

  /* Tell the page where on its axis the pointer is; null: nowhere. */
  function points(at, unit) {
    if (unit !== "km") Timeline.cursor(at);
    else if (at !== null) send("cursor", { metres: at * KM });
  }

  let fromMap = false; // what it said it need not hear again
  Timeline.on_cursor((at) => at !== null && !fromMap && send("cursor", { seconds: at }));

  /* Call `each` with where on the route the map's cursor is, if a figure's unit is a length; all else hears of its time. */
  function hears(each, unit) {
    document.addEventListener("cursor", ({ detail }) => {
      if (detail.from === "figure") return;
      fromMap = true;
      Timeline.cursor(detail.seconds);
      fromMap = false;
      if (unit() === "km") each(detail.metres / KM);
    });
  }

  /* Where a stretch of time lies on the axis of a figure: its ends, or null twice where it has no place. */
  function onto(from, to, unit) {
    if (unit !== "km") return [from, to];
    return window.routeMap?.between(from, to)?.map((metres) => metres / KM) ?? [null, null];
  }

  return { shows, points, hears, onto };
})();
