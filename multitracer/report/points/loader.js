/* Gets the points that are not in the overview: by a worker, or in slices here where none may run.

   The texts of a figure's columns are the lines of <script type="text/plain" id="points-N">. They stand at the
   end of the body, behind the code, so that the overview is drawn before the browser has read them. */
"use strict";

const Loader = (() => {
  const parsed = new Promise((done) => {
    if (document.readyState !== "loading") done();
    else document.addEventListener("DOMContentLoaded", done);
  });
  const rest = () => new Promise((done) => setTimeout(done));
  let worker;

  /* Runs in the worker, which knows only makeDecoder and this. */
  function serve(decoder) {
    self.onmessage = async ({ data: { number, stored, texts } }) => {
      try {
        const table = await decoder.table(stored, texts, () => undefined);
        const buffers = [table, ...table.levels].flatMap((held) => Object.values(held).map((column) => column.buffer));
        self.postMessage({ number, table }, buffers.filter(Boolean));
      } catch (error) {
        self.postMessage({ number, failed: String(error) });
      }
    };
  }

  const wanted = new Map();

  /* One worker for the page, made at the first need; null where the browser refuses it. */
  function made() {
    if (worker !== undefined) return worker;
    try {
      const code = `"use strict"; const makeDecoder = ${makeDecoder}; (${serve})(makeDecoder());`;
      const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
      worker = new Worker(address);
      worker.onmessage = ({ data }) => wanted.get(data.number)?.answered(data);
      worker.onerror = refused;
    } catch {
      worker = null;
    }
    return worker;
  }

  /* A policy may refuse a worker only after it was made: what waits for it is done here. */
  function refused(event) {
    event.preventDefault?.();
    worker = null;
    for (const each of wanted.values()) each.refused();
  }

  function byWorker(stored, texts) {
    const number = wanted.size;
    return new Promise((done, failed) => {
      wanted.set(number, {
        answered: ({ table, failed: why }) => (table ? done(table) : failed(new Error(why))),
        refused: () => done(Decoder.table(stored, texts, rest)),
      });
      worker.postMessage({ number, stored, texts });
    });
  }

  const tableOf = (stored, texts) => (made() ? byWorker(stored, texts) : Decoder.table(stored, texts, rest));

  /* Give the series of a figure all their points; `each` is called after each. */
  async function complete(figure, number, each) {
    const missing = figure.series.filter((series) => series.stored);
    if (!missing.length) return;
    if (typeof DecompressionStream === "undefined") throw new Error("this browser has no DecompressionStream");
    await parsed;
    const holder = document.getElementById(`points-${number}`);
    const lines = holder.textContent.split("\n");
    holder.textContent = "";
    await Promise.all(
      missing.map(async (series) => {
        const stored = { ...series.stored, scale: series.scale };
        series.table = await tableOf(stored, stored.lines.map((line) => lines[line]));
        series.points = stored.points;
        delete series.stored;
        each(series);
      }),
    );
  }

  return { complete };
})();
