"""What a report of 5,000,000 points costs who makes it and who reads it: `python -m tests.benchmarks.page`.

The trace is recorded once, as root, into `.bench/` (`--record` does no more): an upload of 595 MB by the
kernel's TCP over the link of the bundled session at thirty times its rate, captured at both ends, with the
sender's state and the link's log. That takes two minutes; a small one of 2,000 packets takes seconds. Then
reports are made, and each is opened in a new Chromium: when the overview was there, when all points, what a
view costs that is zoomed to or moved to, and how large the process of the page grew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.benchmarks import goals
from tests.benchmarks.measure import Cost, cost, median
from tests.report.chromium import EXECUTABLE, Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

_BENCH = Path(__file__).parents[2] / ".bench"
_FASTER = 30
"""Times the rate of the bundled session's link: 60 Mbit/s, 5,000 packets a second, which Python carries."""
_LARGE_BYTES, _SMALL_BYTES = 595_000_000, 2_300_000
"""8.33 points for each 1,000 bytes (measured at 870 MB): 4.96 million; and 0.85 packets."""
_COLLECTORS = (
    "tcp_info.jsonl=python -m collectors.tcp_info --port 5001 --output {}",
    "tcp_probe.txt=python -m collectors.tcp_probe --address 10.0.3.2 --output {}",
)
_VIEWS = 40
_MB = 1e6
_WATCH = """
(() => {
  const seen = (window.seen = {});
  const step = () => {
    document.getElementById("figure")?.setAttribute("open", "");
    const canvas = document.querySelector(".plot canvas");
    const status = document.querySelector(".status")?.textContent ?? "";
    if (!seen.overview && canvas && canvas.width > 300 && status) seen.overview = performance.now();
    if (seen.overview && !status.includes("are being read")) seen.all = performance.now();
    else requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})();
"""
"""Runs before the page's own code: opens the figure, notes when its overview was drawn, and when all was."""
_LOOK = """
window.report.then(async (shown) => {
  const frame = () => new Promise(requestAnimationFrame);
  const [first, last] = shown.view();
  const took = [];
  let luck = 7;
  const next = () => (luck = (luck * 16807) % 2147483647) / 2147483647;
  for (let i = 0; i < VIEWS; i++) {
    const width = (last - first) * 10 ** (-4 * next());
    const from = first + next() * (last - first - width);
    const begin = performance.now();
    shown.look(from, from + width);
    took.push(performance.now() - begin);
    await frame();
    const moved = performance.now();
    shown.look(from + width / 10, from + width * 1.1);
    took.push(performance.now() - moved);
    await frame();
  }
  shown.look(first, last);
  return took;
})
""".replace("VIEWS", str(_VIEWS))
"""Zooms to windows from all to a ten-thousandth, and moves each by a tenth; painting is synchronous."""


class Seen(NamedTuple):
    """What one reader of a page saw."""

    overview_s: float
    all_s: float
    view_ms: float
    worst_view_ms: float
    renderer_bytes: int


def session(upload_bytes: int) -> Path:
    """Return a recorded session; record it if it is not there yet."""
    folder = _BENCH / f"page-{upload_bytes}"
    if not folder.exists():
        _BENCH.mkdir(exist_ok=True)
        unfinished = folder.with_suffix(".unfinished")
        subprocess.run(["rm", "-rf", unfinished], check=True)
        collectors = [word for each in _COLLECTORS for word in ("--collect", each)]
        program = [sys.executable, "-m", "sample_traces.recording.cellular_upload"]
        wanted = ["--bytes", str(upload_bytes), "--faster", str(_FASTER)]
        subprocess.run([*program, str(unfinished), *wanted, *collectors], check=True)
        unfinished.rename(folder)
    return folder


def points(page: Path) -> tuple[int, int, int]:
    """Return how many points the first figure has, how many of them are in the file, in how many panels."""
    held = re.search(r'id="figures">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    assert held is not None
    figure = json.loads(held[1])[0]
    there = sum(each.get("stored", each)["points"] for each in figure["series"])
    drawn = {each["panel"] for each in figure["series"]}
    return sum(each["of"] for each in figure["series"]), there, len(drawn - {"phase"})


def opened(page: Path) -> Seen:
    """Open a page in a new browser and look around."""
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        browser.resize(1440, 900)
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        browser.open(page)
        browser.wait("window.seen.all")
        seen = browser.evaluate("window.seen")
        took = browser.evaluate(_LOOK)
        size = _renderer_bytes(profile)
        assert browser.complaints == []
    return Seen(seen["overview"] / 1e3, seen["all"] / 1e3, statistics.median(took), max(took), size)


def _renderer_bytes(profile: str) -> int:
    """Return the resident memory of the largest process of that browser that shows a page (proc(5))."""
    sizes = [0]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            if "--type=renderer" in command and profile in command:
                resident = int((folder / "statm").read_text().split()[1])
                sizes.append(resident * os.sysconf("SC_PAGE_SIZE"))
        except OSError:  # ended meanwhile
            continue
    return max(sizes)


def small(_: object = None, *, runs: int) -> Iterator[goals.Row]:
    """Report of 2,000 packets: its size, and how long it takes to make."""
    page, made = _report(session(_SMALL_BYTES), runs)
    with page:
        size = page.path.stat().st_size / _MB
    yield _row("report, its file", "2,000 packets", size, 1.0, "MB")
    yield _row("`report`, wall", "2,000 packets", made.wall_s, 2.0, "s")


def large(_: object = None, *, runs: int, upload_bytes: int = _LARGE_BYTES) -> Iterator[goals.Row]:
    """Report of 5,000,000 points: what it costs to make, to open, and to look around in."""
    page, made = _report(session(upload_bytes), runs)
    with page:
        of, there, panels = points(page.path)
        on = f"{of:,} points, {panels} panels"
        yield replace(
            _row("report, its file", on, page.path.stat().st_size / _MB, 20.0, "MB"),
            result=f"{there / of:.0%} of the points",
        )
        yield _row("`report`, wall", on, made.wall_s, 30.0, "s")
        yield _row("`report`, peak memory", on, made.peak_bytes / _MB, 3_000.0, "MB")
        if EXECUTABLE is None:
            return
        seen = [opened(page.path) for _ in range(runs)]
    overview, all_, view, worst, size = (statistics.median(column) for column in zip(*seen, strict=True))
    yield _row("report, overview drawn", on, overview, 0.5, "s")
    yield _row("report, all points drawn", on, all_, 2.0, "s")
    yield _row("report, zoom and pan, median", on, view, 50.0, "ms")
    yield _row("report, zoom and pan, worst", on, worst, 200.0, "ms")
    yield _row("report, memory of its process", on, size / _MB, 500.0, "MB")


def _row(what: str, on: str, value: float, most: float, unit: str) -> goals.Row:
    ours = f"{value:.3g} {unit}"
    return goals.Row(what, on, ours, "", ours, f"≤ {most:g} {unit}", value <= most)


class _Page:
    """A page that is deleted after it was looked at."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "report.html"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def _report(folder: Path, runs: int) -> tuple[_Page, Cost]:
    page = _Page()
    program = [sys.executable, "-m", "multitracer", "report", "-o", str(page.path), str(folder)]
    return page, median([cost(program) for _ in range(runs)])


ALL: tuple[goals.Goal, ...] = (small, large)


def main() -> None:
    """Record what is missing, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--record", action="store_true", help="record the sessions and end")
    parser.add_argument("--bytes", type=int, default=_LARGE_BYTES, help="of the large upload; 0: none")
    options = parser.parse_args()
    for upload_bytes in filter(None, (_SMALL_BYTES, options.bytes)):
        session(upload_bytes)
    if options.record:
        return
    print(f"load {os.getloadavg()[0]:.1f}, medians of {options.runs} runs", file=sys.stderr)
    every = [small(runs=options.runs)]
    every += [large(runs=options.runs, upload_bytes=options.bytes)] if options.bytes else []
    for row in chain.from_iterable(every):
        cells = (row.what, row.on, row.ours, row.peer, row.result, row.goal, "yes" if row.met else "**no**")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
