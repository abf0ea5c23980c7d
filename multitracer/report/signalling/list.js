/* The list of messages: only the rows in view are elements, of a hundred thousand as of ten. One row unfolds. */
"use strict";

const MessageList = (() => {
  const NARROW = window.matchMedia("(max-width: 640px)");
  const [ROW_PX, NARROW_ROW_PX] = [32, 64];
  const SPARE = 6; // rows above and below those in view
  const MOST_PX = 12_000_000; // of an element: browsers end somewhere above
  const COLUMNS = ["Time", "Direction", "Channel", "Message", "Cause", "Cell", "No."];

  function text(name, words, style = "") {
    const element = document.createElement(name);
    element.textContent = words;
    element.className = style;
    return element;
  }

  function button(words, style, label) {
    const element = text("button", words, style);
    element.type = "button";
    element.tabIndex = -1;
    if (label) element.setAttribute("aria-label", label);
    return element;
  }

  /* `onPick` gets a row of the group; `unfolded` returns the elements of a row's tree. */
  function mount(root, { onPick, unfolded }) {
    const head = text("div", "", "head");
    head.setAttribute("role", "row");
    for (const words of COLUMNS) {
      const cell = text("span", words);
      cell.setAttribute("role", "columnheader");
      head.append(cell);
    }
    const rowsAbove = text("div", "", "rowgroup");
    rowsAbove.setAttribute("role", "rowgroup");
    rowsAbove.append(head);
    const sheet = text("div", "", "sheet");
    sheet.setAttribute("role", "rowgroup");
    root.replaceChildren(rowsAbove, sheet);
    root.setAttribute("role", "table");
    root.setAttribute("aria-label", "Messages");
    root.tabIndex = 0;
    let group = null;
    let rows = null; // found by a search; null: all
    let chosen = -1; // row of the group that was pressed
    let near = -1; // row of the group that is nearest to the cursor
    let open = -1; // position of the row that is unfolded
    let openHigh = 0;
    let waiting = 0;
    let isClock = true;
    const made = new Map(); // position -> element

    const count = () => (rows ? rows.length : group ? group.count : 0);
    const rowOf = (position) => (rows ? rows[position] : position);
    const rowHigh = () => (NARROW.matches ? NARROW_ROW_PX : ROW_PX);
    const whole = () => count() * rowHigh() + openHigh;
    const high = () => Math.min(whole(), MOST_PX);
    const viewHigh = () => root.clientHeight - rowsAbove.offsetHeight;
    /* Where in all rows the window begins: the element is lower than they are, if they are very many. */
    function first_px() {
      const room = Math.max(high() - viewHigh(), 1);
      return whole() <= MOST_PX ? root.scrollTop : (root.scrollTop / room) * (whole() - viewHigh());
    }
    const topOf = (position) => position * rowHigh() + (open >= 0 && position > open ? openHigh : 0);

    function positionAt(px) {
      if (open < 0 || px < topOf(open) + rowHigh()) return Math.floor(px / rowHigh());
      return Math.max(open, Math.floor((px - openHigh) / rowHigh()));
    }

    function positionOf(row) {
      if (!rows) return row;
      let [low, highest] = [0, rows.length];
      while (low < highest) {
        const middle = (low + highest) >> 1;
        if (rows[middle] < row) low = middle + 1;
        else highest = middle;
      }
      return rows[low] === row ? low : -1;
    }

    function show(next, found) {
      if (group !== next) chosen = near = -1;
      [group, rows] = [next, found];
      isClock = Timeline.bounds()[1] >= 60;
      if (positionOf(chosen) < 0) chosen = -1;
      [open, openHigh] = [-1, 0];
      clear();
      root.setAttribute("aria-rowcount", String(count() + 1));
      root.scrollTop = 0;
      draw();
    }

    function clear() {
      for (const element of made.values()) element.remove();
      made.clear();
    }

    function soon() {
      waiting ||= requestAnimationFrame(draw);
    }

    function draw() {
      waiting = 0;
      if (!group || !root.clientHeight) return;
      sheet.style.height = `${high()}px`;
      const begin_px = first_px();
      const first = Math.max(0, positionAt(begin_px) - SPARE);
      const last = Math.min(count() - 1, positionAt(begin_px + viewHigh()) + SPARE);
      for (const [position, element] of made) {
        if (position < first || position > last) {
          element.remove();
          made.delete(position);
        }
      }
      const shift = root.scrollTop - begin_px; // of rows against the element
      let after = null; // the elements stand in the order of their rows
      for (let position = last; position >= first; position--) {
        let element = made.get(position);
        if (!element) {
          element = rowElement(position);
          made.set(position, element);
          sheet.insertBefore(element, after);
        }
        after = element;
        element.style.transform = `translateY(${topOf(position) + shift}px)`;
        const row = rowOf(position);
        element.classList.toggle("chosen", row === chosen);
        element.classList.toggle("near", row === near);
        if (row === chosen) element.setAttribute("aria-current", "true");
        else element.removeAttribute("aria-current");
      }
    }

    const timeWords = ({ isUntimed, time }) =>
      isUntimed ? "no time" : isClock ? Axes.clock(time, 3) : `${time.toFixed(3).replace("-", "−")} s`;

    function rowElement(position) {
      const row = rowOf(position);
      const facts = Messages.facts(group, row);
      const element = text("div", "", "message");
      element.setAttribute("role", "row");
      element.setAttribute("aria-rowindex", String(position + 2));
      element.classList.toggle("bad", facts.isBad);
      element.classList.toggle("odd", position % 2 === 1);
      element.classList.toggle("new-clock", facts.isNewClock);
      const time = text("span", "", "time");
      const fold = button("", "unfold", `Unfold ${facts.name}`);
      fold.setAttribute("aria-expanded", String(position === open));
      fold.addEventListener("click", (event) => {
        event.stopPropagation();
        toggle(position);
      });
      const pick = button(timeWords(facts), "pick");
      if (facts.isNewClock) pick.title = "The clock of the log was set before this message";
      time.append(fold, pick);
      const name = text("span", "", "name");
      name.append(text("b", facts.protocol, `protocol ${facts.protocol}`), text("span", facts.name, facts.isUnnamed ? "unnamed" : ""));
      const direction = text("span", facts.way ? `${facts.way} ${facts.direction}` : "", "direction");
      const cells = [
        time,
        direction,
        text("span", facts.channel, "channel"),
        name,
        text("span", facts.cause, "cause"),
        text("span", facts.cell, "cell"),
        text("span", String(facts.frame), "frame"),
      ];
      for (const cell of cells) cell.setAttribute("role", "cell");
      element.append(...cells);
      element.addEventListener("click", (event) => {
        if (event.target.closest(".tree")) return;
        choose(row);
        onPick(row);
      });
      if (position === open) unfold(element, row);
      return element;
    }

    function choose(row) {
      chosen = row;
      draw();
    }

    /* Unfold a row; the one that was open folds. */
    function toggle(position) {
      const was = open;
      open = position === open ? -1 : position;
      openHigh = 0;
      for (const each of [was, position]) {
        made.get(each)?.remove();
        made.delete(each);
      }
      draw();
      made.get(position)?.querySelector(".unfold").focus({ preventScroll: true });
    }

    const watcher = new ResizeObserver(([{ target }]) => {
      if (open < 0 || !made.get(open)?.contains(target)) return;
      if (openHigh === target.offsetHeight) return;
      openHigh = target.offsetHeight;
      draw();
    });

    function unfold(element, row) {
      const tree = text("div", "", "tree");
      tree.setAttribute("role", "cell");
      tree.textContent = "…";
      element.append(tree);
      element.classList.add("open");
      watcher.observe(tree);
      unfolded(row).then((elements) => tree.replaceChildren(...elements));
    }

    /* Scroll so that a position is in view; in the middle, if it was not. */
    function reveal(position) {
      const [top, begin] = [topOf(position), first_px()];
      if (top >= begin && top + rowHigh() <= begin + viewHigh()) return;
      const wanted = Math.max(0, top - viewHigh() / 2 + rowHigh() / 2);
      root.scrollTop = whole() <= MOST_PX ? wanted : (wanted / (whole() - viewHigh())) * (high() - viewHigh());
    }

    function step(by) {
      const at = chosen >= 0 ? positionOf(chosen) : -1;
      const next = at < 0 ? Math.max(0, positionAt(first_px())) : Math.min(Math.max(at + by, 0), count() - 1);
      if (!count()) return;
      choose(rowOf(next));
      reveal(next);
      onPick(rowOf(next));
    }

    root.addEventListener("keydown", (event) => {
      if (event.target !== root || event.ctrlKey || event.metaKey || event.altKey) return;
      const keys = { ArrowDown: () => step(1), ArrowUp: () => step(-1), Enter: () => chosen >= 0 && toggle(positionOf(chosen)) };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    root.addEventListener("scroll", soon, { passive: true });
    new ResizeObserver(soon).observe(root);
    NARROW.addEventListener("change", () => {
      clear();
      soon();
    });

    return {
      show,
      choose(row) {
        const position = positionOf(row);
        choose(row);
        if (position >= 0) reveal(position);
        draw();
      },
      /* Let the message that is nearest to the cursor stand out; follow it where the pointer is elsewhere. */
      near(seconds, follows) {
        const position = seconds === null ? -1 : Messages.nearest(group, rows, seconds);
        near = position < 0 ? -1 : rowOf(position);
        if (position >= 0 && follows) reveal(position);
        soon();
      },
      /* Show the message that was chosen, if it lies in a window, else the first one of the window. */
      follow(from, to) {
        const isIn = chosen >= 0 && group.time[chosen] >= from && group.time[chosen] <= to && positionOf(chosen) >= 0;
        const position = isIn ? positionOf(chosen) : Messages.nearest(group, rows, from);
        if (position >= 0) reveal(position);
      },
      count,
      rowOf,
      toggle,
    };
  }

  return { mount };
})();
