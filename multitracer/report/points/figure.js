/* A figure of the page: its plot, its buttons, its keys, its legend and the sentence that says what is drawn. */
"use strict";

const Figures = (() => {
  const KM = "km"; // a figure over distance has a window of its own
  const NARROWEST = 1e-6; // s or km
  const LEGEND_ABOVE = window.matchMedia("(max-width: 640px)"); // of the panels, not beside them, as in figure.css
  const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "whole", u: "undo",
    n: "next", p: "previous", "?": "help" };

  function text(name, words) {
    const element = document.createElement(name);
    element.textContent = words;
    return element;
  }

  /* Turn what the page holds of a figure into tables that can be drawn. */
  function prepared(figure) {
    for (const series of figure.series) series.table ??= Columns.table(series);
    return figure;
  }

  /* The points that a plot shows of each series of its panels; tests and the status read it. */
  function shown(plot) {
    return plot.panels().flatMap(({ parts, box }) =>
      parts.map((one) => ({ ...one, columns: one.single ? 0 : Math.min(box.width, one.end - one.first) })),
    );
  }

  /* What the page draws of a window, in a sentence. */
  function sentence(figure, view, parts) {
    const decimals = view[1] - view[0] < 0.01 ? 6 : 3;
    const ends = [Math.max(view[0], figure.span[0]), Math.min(view[1], figure.span[1])];
    const [from, to] = ends.map((each) => each.toFixed(decimals)); // as options take them
    const words = ends.map((each) => (Axes.isClock(figure) ? Axes.clock(each, decimals) : `${each.toFixed(decimals)} ${figure.unit}`));
    const count = parts.reduce((sum, one) => sum + one.end - one.first, 0).toLocaleString("en");
    const where = `${words.join(" to ")}: ${count} points`;
    if (figure.unread) return `${where} of the overview. All points cannot be read: ${figure.unread}.`;
    if (parts.some(({ series }) => series.stored)) return `${where} of the overview; all points are being read.`;
    if (parts.some(({ series }) => series.points < series.of)) {
      const again = figure.options === "" ? "" : `; for every packet make it again with ${figure.options} --from ${from} --to ${to}`;
      return `${where}, the finest in this file${again}. ${figure.reduced}`.trim();
    }
    const point = figure.point ?? "packet";
    if (parts.every((one) => one.single)) return `${where}, every ${point} of this interval is drawn.`;
    return `${where}; where they are denser than the screen, lowest, highest and median are drawn. Zoom in for every ${point}.`;
  }

  /* One figure element of the page: its plot, its buttons and its legend. */
  function mount(root, figures, opened) {
    if (!document.createElement("canvas").getContext?.("2d")) {
      // The picture stays; rows, tables and lists still share one window of time.
      const first = prepared(figures[0]);
      if (first.unit !== KM) Timeline.whole(...first.view);
      return new Promise(() => undefined);
    }
    root.classList.add("live");
    const holder = root.querySelector(".plot");
    const [status, legend, places, docs, evidence] = [".status", ".legend", ".places", ".docs", ".evidence"].map((each) =>
      root.querySelector(each),
    );
    const fold = root.querySelector(".series"); // of the legend
    const choice = root.querySelector("select");
    const hidden = new Set();
    let number = 0;
    let figure = null;
    let route = null; // the window of a figure over distance
    let found = -1; // the finding that was shown last
    let shownAt = 0; // how many views one could go back to when evidence was shown

    const isOverTime = () => figure.unit !== KM;
    const view = () => (isOverTime() ? Timeline.window() : [...route]);
    const plot = Plot.mount(holder, {
      hidden,
      onZoom: (next) => look(...(next ?? figure.view)),
      onPoint: (at) => Link.points(at, figure.unit),
      onPick: (series, i) => copied(Packets.command(figure, series, i)),
    });

    function open(next) {
      forget();
      if (figure === figures[next]) return look(...figure.view);
      number = next;
      figure = prepared(figures[number]);
      if (choice) choice.value = String(number);
      drawPlaces();
      drawLegend();
      opened(number);
      if (isOverTime()) Timeline.whole(...figure.view);
      else look(...figure.view);
      const asked = figure;
      Loader.complete(figure, number, () => asked === figure && plot.soon())
        .catch((error) => (asked.unread = error.message))
        .then(() => asked === figure && draw());
      return Promise.resolve(view());
    }

    /* Show a window, with the panel that holds the evidence of a sentence first: the first of `keys` that has points. */
    function show(keys, sentence, [from, to]) {
      plot.first(keys);
      say(sentence);
      if (LEGEND_ABOVE.matches) fold.open = false;
      const looked = look(from, to);
      shownAt = Timeline.depth();
      return looked;
    }

    /* Take the evidence away: its frames and its sentence, and the order of the panels. */
    function forget() {
      plot.first([]);
      Tracks.mark(null, null, null);
    }

    function whole() {
      forget();
      return look(...figure.view);
    }

    /* Show the view before; evidence stays only down to the view in which it was shown. */
    function undo() {
      if (!isOverTime()) return;
      const depth = Timeline.depth();
      if (depth && depth <= shownAt) forget();
      Timeline.undo();
    }

    /* Say above the panels what is marked in them. */
    function say(sentence) {
      evidence.textContent = sentence ?? "";
      evidence.hidden = !sentence;
    }

    function draw() {
      plot.show(figure, view());
      status.textContent = sentence(figure, view(), shown(plot));
      Link.shows(view(), figure.unit);
    }

    function look(from, to) {
      if (isOverTime()) Timeline.zoom(from, to);
      else {
        const [first, last] = figure.view;
        const width = Math.min(Math.max(to - from, NARROWEST), last - first);
        const start = Math.min(Math.max(from, first), last - width);
        route = [start, start + width];
        draw();
      }
      return Promise.resolve(view());
    }

    const middle = () => (view()[0] + view()[1]) / 2;
    const width = () => view()[1] - view()[0];
    const zoom = (factor) => look(middle() - (width() * factor) / 2, middle() + (width() * factor) / 2);
    const move = (share) => look(view()[0] + width() * share, view()[1] + width() * share);
    const actions = {
      in: () => zoom(0.5),
      out: () => zoom(2),
      left: () => move(-0.4),
      right: () => move(0.4),
      whole,
      undo,
      next: () => finding(1),
      previous: () => finding(-1),
      help,
      link: () => copied(Timeline.address()),
      trend,
      save,
    };

    function copied(words) {
      if (!words) return;
      Packets.copy(words).then(() => (status.textContent = `Copied: ${words.replace("\n", ", and ")}`));
    }

    /* Show the next finding that has a place in the figure, or the one before; an incident and its first part are one. */
    function finding(step) {
      const marks = new Map();
      for (const button of document.querySelectorAll("button[data-show][data-mark-from]")) {
        const place = `${button.dataset.markFrom} ${button.dataset.markTo}`;
        if (!marks.has(place)) marks.set(place, button);
      }
      const buttons = [...marks.values()];
      if (!buttons.length) return;
      found = (found + step + buttons.length) % buttons.length;
      buttons[found].click();
    }

    function trend() {
      const button = root.querySelector("[data-action=trend]");
      const wish = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(wish));
      plot.flatten(wish);
    }

    function help() {
      const how = root.querySelector(".how");
      how.open = true;
      how.scrollIntoView({ block: "nearest" });
    }

    /* Go to what the search field names; a time keeps the width of the window, at most a tenth of all. */
    function seek(entry) {
      const { time, button } = Packets.find(figure, entry);
      const half = Math.min(width(), (figure.view[1] - figure.view[0]) / 10) / 2;
      if (button) button.click();
      else if (Number.isFinite(time)) look(time - half, time + half);
      else if (entry.trim()) status.textContent = `Nothing here is called “${entry.trim()}”.`;
      if (Number.isFinite(time)) plot.cursor(time);
    }

    function save() {
      plot.picture().toBlob((picture) => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(picture);
        link.download = `${figure.filename}.png`;
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      });
    }

    function drawPlaces() {
      places.replaceChildren(
        ...figure.places.map((place) => {
          const button = text("button", place.title);
          button.type = "button";
          button.addEventListener("click", () => look(place.from, place.to));
          return button;
        }),
      );
    }

    function drawLegend() {
      const groups = figure.panels.map((panel) => {
        const entries = document.createElement("div");
        entries.append(...figure.series.filter((s) => s.panel === panel.key).map((s) => entry(s, panel)));
        return entries.childElementCount ? [text("h3", panel.short), entries] : [];
      });
      legend.replaceChildren(...groups.flat());
      docs.replaceChildren(...figure.series.flatMap((series) => [text("dt", series.name === series.label ? series.name : `${series.name} (${series.label})`), text("dd", series.doc)]));
    }

    function entry(series, panel) {
      const button = document.createElement("button");
      button.type = "button";
      button.title = `${series.label}: ${series.doc}`;
      button.dataset.series = series.key;
      button.setAttribute("aria-pressed", String(!hidden.has(series.key)));
      const colour = series.look[document.documentElement.dataset.theme];
      button.append(Marks.swatch(series.look, colour, panel.shades), series.name);
      button.addEventListener("click", () => {
        if (!hidden.delete(series.key)) hidden.add(series.key);
        button.setAttribute("aria-pressed", String(!hidden.has(series.key)));
        draw();
      });
      return button;
    }

    for (const button of root.querySelectorAll("[data-action]")) {
      button.addEventListener("click", () => actions[button.dataset.action]());
    }
    holder.addEventListener("keydown", (event) => {
      const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : KEYS[event.key];
      if (!action) return;
      event.preventDefault();
      actions[action]();
    });
    const search = root.querySelector(".seek");
    search?.addEventListener("keydown", (event) => event.key === "Enter" && seek(search.value));
    choice?.addEventListener("change", () => open(Number(choice.value)));
    document.addEventListener("themechange", drawLegend);
    if (window.matchMedia("(max-width: 900px)").matches) fold.open = false;
    Timeline.on_window(() => figure && isOverTime() && draw());
    Timeline.on_cursor((at) => figure && isOverTime() && plot.cursor(at));
    Timeline.on_mark((from, to, words) => {
      plot.mark(...Link.onto(from, to, figure?.unit));
      say(words);
      shownAt = 0; // a mark belongs to no view
    });
    Link.hears((at) => figure && plot.cursor(at), () => figure.unit);

    const drawn = () => shown(plot).map(({ series, first, end, single, columns }) => ({
      key: series.key,
      single,
      columns,
      points: end - first,
      time: single ? [...series.table.time.subarray(first, end)] : [],
      value: single ? [...series.table.value.subarray(first, end)] : [],
      frames: single ? Array.from({ length: end - first }, (_, i) => Columns.frames(series.table, first + i)) : [],
    }));
    return open(0).then(() => ({ open, look, show, view, drawn, plot }));
  }

  return { mount };
})();
