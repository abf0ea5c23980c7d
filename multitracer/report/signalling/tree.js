/* The decoded tree of a message, as tshark says it: lines, each indented by its depth with tabs. */
"use strict";

const MessageTree = (() => {
  const OPEN_LINES = 60; // a tree of so many lines is open at first
  const OPEN_DEPTH = 8; // levels of a longer one that are open
  const MOST_DEPTH = 60;

  /* The trees of the page, read when one is unfolded for the first time: log and frame -> text. */
  function store({ line, of = [] }, texts) {
    let read = null;
    const places = new Map(of.map(([log, frame], i) => [`${log} ${frame}`, i]));
    return {
      has: (log, frame) => places.has(`${log} ${frame}`),
      async text(log, frame) {
        read ??= Decoder.inflated(texts[line]).then((bytes) => JSON.parse(new TextDecoder().decode(bytes)));
        return (await read)[places.get(`${log} ${frame}`)];
      },
    };
  }

  /* Elements for a text: a line with others below it can be folded. */
  function elements(text) {
    const root = document.createElement("div");
    const open = [root];
    const lines = text.split("\n").map((line) => {
      const words = line.trimStart();
      return { words, depth: Math.min(line.length - words.length, MOST_DEPTH) };
    });
    for (const [i, { words, depth }] of lines.entries()) {
      open.length = Math.min(open.length, depth + 1);
      const above = open.at(-1);
      if ((lines[i + 1]?.depth ?? 0) > depth) {
        const fold = document.createElement("details");
        fold.open = lines.length <= OPEN_LINES || depth < OPEN_DEPTH;
        const summary = document.createElement("summary");
        summary.textContent = words;
        fold.append(summary);
        above.append(fold);
        open.push(fold);
      } else {
        const leaf = document.createElement("p");
        leaf.textContent = words;
        above.append(leaf);
      }
    }
    return [...root.childNodes];
  }

  return { store, elements };
})();
