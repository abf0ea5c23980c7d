/* What moves a map: drag, pinch, wheel with Ctrl, double click, keys, and the buttons with `data-map`.

   A map gives `zoom(factor, px, py)`, `pan(px, py)`, `point(px, py)`, `step(by)` and `whole()`; pixels are those of
   its canvas. Without a place `zoom` keeps the middle. */
"use strict";

const MapGestures = (() => {
  function listen(canvas, root, map) {
    const here = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    drag(canvas, map, here);
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
        event.preventDefault();
        map.zoom(event.deltaY < 0 ? 1.25 : 0.8, ...here(event));
      },
      { passive: false },
    );
    canvas.addEventListener("dblclick", (event) => map.zoom(2, ...here(event)));
    const actions = { in: () => map.zoom(1.6), out: () => map.zoom(1 / 1.6), whole: () => map.whole() };
    canvas.addEventListener("keydown", (event) => press(event, keys(map, actions)));
    for (const button of root.querySelectorAll("[data-map]")) {
      button.addEventListener("click", () => actions[button.dataset.map]());
    }
  }

  function drag(canvas, map, here) {
    const pointers = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return map.point(...here(event));
      pointers.set(event.pointerId, event);
      const others = [...pointers.values()].filter((each) => each.pointerId !== event.pointerId);
      if (!others.length) return map.pan(event.clientX - before.clientX, event.clientY - before.clientY);
      const apart = (each) => Math.hypot(each.clientX - others[0].clientX, each.clientY - others[0].clientY);
      map.zoom(apart(event) / Math.max(apart(before), 1), ...here(others[0]));
    });
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => {
        pointers.delete(event.pointerId);
        if (name === "pointerup") map.point(...here(event));
      });
    }
  }

  function keys(map, actions) {
    return {
      "+": actions.in, "=": actions.in, "-": actions.out, 0: actions.whole,
      ArrowLeft: () => map.pan(60, 0), ArrowRight: () => map.pan(-60, 0),
      ArrowUp: () => map.pan(0, 60), ArrowDown: () => map.pan(0, -60),
      ",": () => map.step(-1), ".": () => map.step(1),
    };
  }

  function press(event, known) {
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : known[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  return { listen };
})();
