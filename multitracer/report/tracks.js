/* The rows of the first screen, and all tables, share the cursor, the window and the marks of the figure.

   A drag over the rows zooms, as it does in the figure. A row of a table or a list that leads to a stretch of
   time stands out while that stretch is in the window, or below the cursor. */
"use strict";

const Tracks = (() => {
  const DRAG_PX = 4; // a press that moves less is no drag
  const tracks = document.querySelector(".tracks");
  const layer = tracks?.querySelector(".over div");
  const told = document.querySelector(".marked");
  const untouched = told?.textContent;
  const ends = [Number(tracks?.dataset.begin), Number(tracks?.dataset.end)];
  const [shown, stretch, brush, cursor] = ["window", "mark", "brush", "cursor"].map(strip);
  layer?.append(shown, stretch, brush, cursor);

  function strip(style) {
    const element = document.createElement("i");
    element.className = style;
    element.hidden = true;
    return element;
  }

  const share = (seconds) => Math.min(Math.max((seconds - ends[0]) / (ends[1] - ends[0]), 0), 1);

  /* Put a strip from one time to another; it is hidden where there is none. */
  function put(element, from, to) {
    element.hidden = from === null;
    element.style.left = `${(100 * share(from)).toFixed(3)}%`;
    element.style.right = `${(100 - 100 * share(to)).toFixed(3)}%`;
  }

  /* Mark a stretch of time across all rows and in the figure; null takes the mark away. */
  function mark(from, to, words) {
    Timeline.mark(from, to, words);
    if (!tracks) return;
    put(stretch, from, to);
    told.textContent = words ?? untouched;
    for (const button of tracks.querySelectorAll(".marks")) {
      const { markFrom, markTo } = button.dataset;
      button.setAttribute("aria-pressed", String(from !== null && Number(markFrom) === from && Number(markTo) === to));
    }
  }

  for (const button of document.querySelectorAll(".marks")) {
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-pressed") === "true") return mark(null, null, null);
      mark(Number(button.dataset.markFrom), Number(button.dataset.markTo), button.dataset.words);
    });
  }

  /* The time below a pointer; null beside the rows. */
  function timeAt({ clientX }) {
    const { left, width } = layer.getBoundingClientRect();
    return clientX < left || clientX > left + width ? null : ends[0] + ((clientX - left) / width) * (ends[1] - ends[0]);
  }

  let pressed = null; // { x, seconds } where a drag began

  function begin(event) {
    const seconds = timeAt(event);
    if (event.button !== 0 || event.pointerType === "touch" || seconds === null || event.target.closest("button")) return;
    pressed = { x: event.clientX, seconds };
    event.preventDefault(); // a drag selects no text
  }

  function move(event) {
    const seconds = timeAt(event);
    Timeline.cursor(seconds);
    const isDrag = pressed && seconds !== null && Math.abs(event.clientX - pressed.x) >= DRAG_PX;
    if (pressed) put(brush, ...(isDrag ? ordered(pressed.seconds, seconds) : [null, null]));
  }

  function end(event) {
    const [from, seconds, x] = [pressed?.seconds, timeAt(event), pressed?.x];
    pressed = null;
    brush.hidden = true;
    if (from === undefined || seconds === null || Math.abs(event.clientX - x) < DRAG_PX) return;
    Timeline.zoom(...ordered(from, seconds));
  }

  const ordered = (one, other) => (one < other ? [one, other] : [other, one]);

  if (tracks) {
    tracks.addEventListener("pointerdown", begin);
    tracks.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end);
    tracks.addEventListener("pointerleave", () => Timeline.cursor(null));
    tracks.addEventListener("dblclick", (event) => event.target.closest("button") ?? Timeline.zoom(...Timeline.bounds()));
    Timeline.on_cursor((at) => put(cursor, at, at));
    Timeline.on_window(([from, to]) => put(shown, ...(isWhole(from, to) ? [null, null] : [from, to])));
  }

  const isWhole = (from, to) => from <= Timeline.bounds()[0] && to >= Timeline.bounds()[1];

  /* The rows of tables and lists that a button leads to the figure from, with their times. */
  const timed = [...document.querySelectorAll("button[data-from]")].map((button) => {
    const { from, to, markFrom = from, markTo = to } = button.dataset;
    return { row: button.closest("tr, li"), from: Number(markFrom), to: Number(markTo) };
  });

  for (const { row, from } of timed) {
    row.addEventListener("pointerenter", () => Timeline.cursor(from));
    row.addEventListener("pointerleave", () => Timeline.cursor(null));
  }
  Timeline.on_window(([from, to]) => {
    const whole = isWhole(from, to);
    for (const each of timed) each.row.classList.toggle("inside", !whole && each.from <= to && each.to >= from);
  });
  Timeline.on_cursor((at) => {
    for (const each of timed) each.row.classList.toggle("here", at !== null && each.from <= at && at <= each.to);
  });

  return { mark };
})();
