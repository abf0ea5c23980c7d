/* The one time window, cursor and mark that all parts of a page share. Times are seconds of the first figure.

   A part calls `zoom`, `cursor` or `mark`, and hears of each change, also of its own, through `on_window`,
   `on_cursor` and `on_mark`. The window stands in the URL's fragment (#from=1.5&to=2.5), so that a link leads to
   a view. What a fragment holds is hostile: only finite numbers count, and they are kept within the bounds. */
"use strict";

const Timeline = (() => {
  const NARROWEST_S = 1e-6; // finer than any capture's clock
  const MOST_UNDONE = 100;
  const LATEST = { timeout: 500 }; // ms
  const listeners = { window: [], cursor: [], mark: [] };
  const undone = [];
  let bounds = [0, 1];
  let shown = null;
  let forgetful = false; // whether the fragment is still to be written

  /* Do something when the browser is idle, at most half a second later. Safari does not say when it is. */
  const idly = (each) => (window.requestIdleCallback ? requestIdleCallback(each, LATEST) : setTimeout(each));

  const send = (what, ...facts) => listeners[what].forEach((each) => each(...facts));

  /* The window with these ends, moved and narrowed so that it lies within the bounds. */
  function kept(from_s, to_s) {
    const width = Math.max(to_s - from_s, NARROWEST_S);
    if (width >= bounds[1] - bounds[0]) return [...bounds];
    const start = Math.min(Math.max(from_s, bounds[0]), bounds[1] - width);
    return [start, start + width];
  }

  function show(next) {
    shown = next;
    if (!forgetful) idly(remember); // that takes as long as a panel
    forgetful = true;
    send("window", [...shown]);
  }

  function zoom(from_s, to_s) {
    const next = kept(from_s, to_s);
    if (!next.every(Number.isFinite)) return;
    if (shown && next.some((edge_s, i) => edge_s !== shown[i])) undone.push(shown);
    if (undone.length > MOST_UNDONE) undone.shift();
    show(next);
  }

  function undo() {
    if (undone.length) show(undone.pop());
  }

  /* Set the time that there is; the first time the window is that of the fragment, else all of it. */
  function whole(from_s, to_s) {
    bounds = [from_s, to_s];
    undone.length = 0;
    const linked = shown ? null : ofFragment();
    show(linked ? kept(...linked) : [...bounds]);
  }

  function ofFragment() {
    const facts = new URLSearchParams(location.hash.slice(1));
    const ends = ["from", "to"].map((name) => Number.parseFloat(facts.get(name)));
    return ends.every(Number.isFinite) && ends[0] < ends[1] ? ends : null;
  }

  /* A file cannot always replace its address (a frame without an origin); the view does not depend on it. */
  function remember() {
    if (!forgetful) return;
    forgetful = false;
    const isWhole = shown[0] === bounds[0] && shown[1] === bounds[1];
    if (isWhole && !ofFragment()) return; // the address may name a section
    const fragment = isWhole ? "" : `from=${+shown[0].toFixed(9)}&to=${+shown[1].toFixed(9)}`;
    try {
      history.replaceState(null, "", `#${fragment}`);
    } catch {
      return;
    }
  }

  window.addEventListener("hashchange", () => {
    const linked = ofFragment();
    if (linked) zoom(...linked);
    else forgetful = false; // the address names a section now
  });

  return {
    window: () => [...(shown ?? bounds)],
    bounds: () => [...bounds],
    whole,
    zoom,
    undo,
    depth: () => undone.length,
    idly,
    /* The address of the page with this window. */
    address: () => {
      remember();
      return location.href;
    },
    cursor: (time_s) => send("cursor", time_s),
    mark: (from_s, to_s, words) => send("mark", from_s, to_s, words),
    on_window: (each) => listeners.window.push(each),
    on_cursor: (each) => listeners.cursor.push(each),
    on_mark: (each) => listeners.mark.push(each),
  };
})();
