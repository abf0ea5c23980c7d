/* The viewer of messages: which card, what is searched for, lanes, and the list; all share the window and the cursor. */
"use strict";

const Signalling = (() => {
  const MOST_OPTIONS = 300; // of a menu; the search finds the rest
  const SHARE = 10; // a message that is looked for is shown with at most this part of the time
  const BUTTONS = [
    ["left", "◀", "Earlier"], ["right", "▶", "Later"], ["in", "+", "Zoom in"], ["out", "−", "Zoom out"],
    ["whole", "Fit all", "Fit all: show all of the time"], ["undo", "Back", "Back to the window before"],
  ];

  function element(name, properties = {}, ...children) {
    const made = document.createElement(name);
    const { role, label, ...rest } = properties;
    Object.assign(made, rest);
    if (role) made.setAttribute("role", role);
    if (label) made.setAttribute("aria-label", label);
    made.append(...children);
    return made;
  }

  const option = (value, words) => element("option", { value, textContent: words });
  const labelled = (words, control) => element("label", { className: "choice" }, element("span", { textContent: words }), control);

  /* Let the browser read all of the page before the columns at its end are looked for. */
  const parsed = () =>
    document.readyState === "loading" ? new Promise((done) => addEventListener("DOMContentLoaded", done)) : Promise.resolve();

  async function mount(section, data, isAlone) {
    const root = section.querySelector(".viewer");
    if (!root || !data.groups.length) return null;
    if (typeof DecompressionStream === "undefined") {
      root.textContent = "This browser has no DecompressionStream; the tables below show what failed.";
      root.hidden = false;
      return null;
    }
    await parsed();
    const texts = document.getElementById("messages").textContent.split("\n");
    const trees = MessageTree.store(data.trees, texts);
    const groups = new Map(); // that were read
    let group = null;
    let rows = null;
    let isOwnCursor = false;

    const card = element("select", { label: "Card" }, ...data.groups.map(({ name }, i) => option(i, name)));
    const search = element("input", { type: "search", placeholder: "name, cause, cell …", label: "Search messages", autocomplete: "off" });
    const protocol = element("select", { label: "Protocol" });
    const name = element("select", { label: "Message" });
    const cause = element("select", { label: "Cause" });
    const onlyBad = element("input", { type: "checkbox" });
    const onlyWindow = element("input", { type: "checkbox" });
    const clear = element("button", { type: "button", textContent: "Clear", title: "Show all messages again" });
    const moves = BUTTONS.map(([action, sign, says]) => {
      const made = element("button", { type: "button", textContent: sign, title: says, label: says });
      made.addEventListener("click", () => actions[action]());
      return made;
    });
    const laneBox = element("div", { className: "lanes-of", role: "img", label: "Messages and states over time; the list below has them as text" });
    const status = element("p", { className: "status", role: "status" });
    const listBox = element("div", { className: "list" });
    const about = element("p", { className: "muted about", textContent: data.about_trees });
    const group_of = (className, ...children) => element("div", { className }, ...children);
    const onPaper = element("p", { className: "on-paper" }); // which card the lanes are of
    root.replaceChildren(
      onPaper,
      group_of("bar", ...(data.groups.length > 1 ? [labelled("Card", card)] : []), group_of("group", ...moves)),
      laneBox,
      group_of(
        "bar filters", search, labelled("Protocol", protocol), labelled("Message", name), labelled("Cause", cause),
        element("label", { className: "choice" }, onlyBad, "Failures"),
        element("label", { className: "choice" }, onlyWindow, "In the window"), clear,
      ),
      status,
      listBox,
      ...(data.about_trees ? [about] : []),
    );
    root.hidden = false;

    const width = () => Timeline.window()[1] - Timeline.window()[0];
    const middle = () => (Timeline.window()[0] + Timeline.window()[1]) / 2;
    const zoom = (factor) => Timeline.zoom(middle() - (width() * factor) / 2, middle() + (width() * factor) / 2);
    const move = (share) => Timeline.zoom(...Timeline.window().map((edge) => edge + width() * share));
    const actions = {
      left: () => move(-0.4),
      right: () => move(0.4),
      in: () => zoom(0.5),
      out: () => zoom(2),
      whole: () => Timeline.zoom(...Timeline.bounds()),
      undo: () => Timeline.undo(),
    };

    /* Put the cursor and the window where a message is. */
    function look(seconds) {
      const [low, high] = Timeline.bounds();
      const wanted = Math.min(width(), (high - low) / SHARE);
      const [from, to] = Timeline.window();
      if (width() > wanted * 1.001 || seconds < from || seconds > to) Timeline.zoom(seconds - wanted / 2, seconds + wanted / 2);
      lanes.pick(seconds);
      Timeline.cursor(seconds);
    }

    function pick(row) {
      if (Messages.isUntimed(group, row)) {
        lanes.pick(null);
        return say("The log gives this message no time.");
      }
      const seconds = group.time[row];
      isOwnCursor = true;
      look(seconds);
      isOwnCursor = false;
      const [low, high] = Timeline.bounds();
      return seconds < low || seconds > high ? say("This message lies outside the time of the figure.") : say();
    }

    const lanes = Lanes.mount(laneBox, {
      onPick: (row) => {
        list.choose(row);
        pick(row);
      },
      onPoint: (seconds) => Timeline.cursor(seconds),
    });
    const list = MessageList.mount(listBox, { onPick: pick, unfolded });

    /* The tree of a message, or the command that prints it. */
    async function unfolded(row) {
      const { frame, log, protocol, name, channel, cell, cause: why, isNewClock } = Messages.facts(group, row);
      const words = [`Message ${frame}: ${protocol} ${name}`, channel, cell && `cell ${cell}`, why && `cause ${why}`];
      if (isNewClock) words.push("the clock of the log was set before it");
      const above = element("p", { className: "of-message", textContent: words.filter(Boolean).join(", ") });
      return [above, ...(await content(frame, log))];
    }

    async function content(frame, log) {
      if (trees.has(log, frame)) return MessageTree.elements(await trees.text(log, frame));
      const { command, name: file } = data.logs.find(({ number }) => number === log);
      const line = `${command} ${frame}`;
      const copy = element("button", { type: "button", textContent: "Copy" });
      copy.addEventListener("click", () => Packets.copy(line).then(() => say(`Copied: ${line}`)));
      const why = `This page does not hold the content of this message. Where ${file} is, this prints it:`;
      return [element("p", { textContent: why }), element("p", {}, element("code", { textContent: line }), copy)];
    }

    function say(more = "") {
      const found = list.count();
      const all = group.count.toLocaleString("en");
      const count = rows ? `${found.toLocaleString("en")} of ${all} messages` : `${all} messages`;
      status.textContent = [`${count}.`, more].filter(Boolean).join(" ");
    }

    function filter() {
      const [from, to] = onlyWindow.checked ? Timeline.window() : [null, null];
      rows = Messages.found(group, {
        search: search.value, protocol: protocol.value, name: name.value, cause: cause.value, onlyBad: onlyBad.checked, from, to,
      });
      lanes.filter(onlyWindow.checked ? null : rows);
      list.show(group, rows);
      say();
    }

    function fill(select, first, counted, prefix = "") {
      const shown = counted.slice(0, MOST_OPTIONS);
      select.replaceChildren(...first, ...shown.map(([words, n]) => option(`${prefix}${words}`, `${words} (${n.toLocaleString("en")})`)));
    }

    /* Show a card: nothing of another one stays. */
    async function choose(number) {
      card.value = String(number);
      for (const table of section.querySelectorAll(".of-group")) table.hidden = table.dataset.group !== String(number);
      if (!groups.has(number)) {
        const read = await Messages.read(data.groups[number], texts);
        groups.set(number, { ...read, only: data.groups[number].only_log });
      }
      if (card.value !== String(number)) return; // another one was chosen meanwhile
      group = groups.get(number);
      onPaper.textContent = data.groups.length > 1 ? `Messages and states of ${group.name}` : "";
      [search.value, onlyBad.checked, onlyWindow.checked] = ["", false, false];
      fill(protocol, [option("", "All")], Messages.counts(group, Messages.PROTOCOL));
      fill(name, [option("", "All")], Messages.counts(group, Messages.NAME));
      fill(cause, [option("", "All"), option("any", "Any cause")], Messages.counts(group, Messages.CAUSE), "=");
      const hasMessages = group.count > 0;
      for (const each of [listBox, status, root.querySelector(".filters"), about]) each.hidden = !hasMessages;
      lanes.show(group);
      lanes.pick(null);
      filter();
    }

    card.addEventListener("change", () => choose(Number(card.value)));
    search.addEventListener("input", filter);
    for (const each of [protocol, name, cause, onlyBad, onlyWindow]) each.addEventListener("change", filter);
    clear.addEventListener("click", () => {
      for (const each of [search, protocol, name, cause]) each.value = "";
      onlyBad.checked = onlyWindow.checked = false;
      filter();
    });
    for (const button of section.querySelectorAll("button[data-at]")) {
      button.addEventListener("click", () => {
        const position = Messages.nearest(group, null, Number(button.dataset.at));
        if (rows) clear.click();
        if (position >= 0) list.choose(position);
        look(Number(button.dataset.at));
        root.scrollIntoView({ block: "start" });
      });
    }
    if (isAlone && data.span) Timeline.whole(...data.span);
    await choose(0);
    performance.mark("multitracer-messages"); // what a benchmark waits for
    Timeline.on_cursor((seconds) => {
      if (group && !isOwnCursor) list.near(seconds, !listBox.matches(":hover"));
    });
    let isWaiting = false;
    Timeline.on_window(([from, to]) => {
      if (!group || isOwnCursor) return;
      if (onlyWindow.checked) {
        if (!isWaiting) requestAnimationFrame(() => ((isWaiting = false), filter()));
        isWaiting = true;
        return;
      }
      list.follow(from, to);
    });
    return { choose, lanes, list, group: () => group, rows: () => rows };
  }

  return { mount };
})();
