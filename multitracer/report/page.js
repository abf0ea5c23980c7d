/* The page around the figures: theme, printing, and tables that sort and filter. */
"use strict";

(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function setTheme(theme) {
    if (root.dataset.theme === theme) return;
    root.dataset.theme = theme;
    document.dispatchEvent(new Event("themechange"));
  }

  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  document.querySelector(".theme")?.addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  });

  /* On paper: light colours, everything unfolded, and the figure as wide as A4 and Letter leave room for. */
  let screen = null;
  window.addEventListener("beforeprint", () => {
    screen = root.dataset.theme;
    root.dataset.print = "";
    for (const details of document.querySelectorAll("details")) details.open = true;
    root.dataset.theme = "light";
    document.dispatchEvent(new Event("themechange"));
  });
  window.addEventListener("afterprint", () => {
    delete root.dataset.print;
    root.dataset.theme = screen ?? root.dataset.theme;
    document.dispatchEvent(new Event("themechange"));
  });

  function sortable(table) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const key = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    heads.forEach((head, column) => {
      head.querySelector("button")?.addEventListener("click", () => {
        const number = head.classList.contains("number");
        const down = head.getAttribute("aria-sort") === (number ? "descending" : "ascending");
        const falling = number ? !down : down;
        const compare = (a, b) => (number ? Number(a) - Number(b) : a.localeCompare(b));
        const rows = [...body.rows].sort((one, other) => {
          const [a, b] = [key(one, column), key(other, column)];
          if (a === "" || b === "") return (a === "") - (b === "");  // what is missing comes last, either way
          return falling ? -compare(a, b) : compare(a, b);
        });
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        body.replaceChildren(...rows);
      });
    });
  }

  function filterable(input, table, told) {
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        left += row.hidden ? 0 : 1;
      }
      told.textContent = words.length ? `${left} of ${table.tBodies[0].rows.length} rows match` : "";
    });
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    sortable(table);
    const input = document.getElementById(table.dataset.filter ?? "");
    if (input) filterable(input, table, document.getElementById(`${input.id}-told`));
  }

  /* What an address or a link names is opened: `report.html#connections`. */
  function unfold(id) {
    const named = id && document.getElementById(id);
    for (let at = named; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    return named;
  }
  const named = () => unfold(location.hash.slice(1))?.scrollIntoView();
  addEventListener("hashchange", named);
  if (location.hash) named();

  /* What was folded away had no size to draw in. */
  for (const fold of document.querySelectorAll("details.fold")) {
    fold.addEventListener("toggle", () => window.dispatchEvent(new Event("resize")));
  }

  const route = document.getElementById("route");
  if (route) window.routeMap = RouteMap.mount(document.querySelector(".map"), JSON.parse(route.textContent));

  /* After the first screen is painted: what is below need not delay it. A hidden page is never painted. */
  const painted = new Promise((done) => (document.hidden ? done() : requestAnimationFrame(() => setTimeout(done))));

  const figure = document.querySelector(".figure");
  const data = document.getElementById("figures");
  const signalling = document.getElementById("signalling");
  const isAlone = !figure || !data; // no figure has a time of its own

  function mountSignalling() {
    const section = document.querySelector("section.signalling");
    return Signalling.mount(section, JSON.parse(signalling.textContent), isAlone);
  }

  if (signalling) {
    const before = isAlone ? painted : painted.then(() => window.report);
    window.signalling = before.then(mountSignalling);
  }
  if (isAlone) return;

  function mark(number) {
    for (const row of document.querySelectorAll("tr[data-figure]")) {
      row.classList.toggle("current", row.dataset.figure === String(number));
    }
  }

  /* What the row of a list says that a button belongs to: its name and its first sentence. */
  function sentenceOf(button) {
    const row = button.closest("li");
    const said = ["strong", "p"].map((each) => row?.querySelector(`:scope > ${each}`)?.textContent);
    return said.filter(Boolean).join(": ");
  }

  window.report = painted.then(() => Figures.mount(figure, JSON.parse(data.textContent), mark)).then((shown) => {
    for (const button of document.querySelectorAll("button[data-show]")) {
      button.addEventListener("click", () => {
        const { show, from, to, markFrom, markTo, panels = "" } = button.dataset;
        unfold("figure");
        shown.open(Number(show));
        if (markFrom !== undefined) Tracks.mark(Number(markFrom), Number(markTo), null);
        if (from !== undefined) shown.show(panels.split(" "), sentenceOf(button), [from, to].map(Number));
        // the evidence, not the buttons above it
        figure.querySelector(from === undefined ? ".bar" : ".drawing").scrollIntoView({ block: "start" });
        figure.querySelector(".plot").focus({ preventScroll: true });
      });
    }
    return shown;
  });
})();
