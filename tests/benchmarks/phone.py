"""How quickly a phone shows and zooms a report, by the browser's own trace: `python -m tests.benchmarks.phone`.

Reports of bundled sessions are opened in Chromium as on a phone: 390 x 844 px of three times the density, and
a processor four times slower (`Emulation.setCPUThrottlingRate`). The first paint with content is that of a
page that was opened before (`firstContentfulPaint` of the trace). Each zoom and move is a key that is pressed;
the trace has its `EventTiming`, from the key to the next frame. Both are wall times, which other programs on
the machine lengthen; the processor time of the page's main thread beside them (the factor of four is in it)
does not depend on these.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from multitracer.recording.read import read
from multitracer.report.write import write_report
from tests.benchmarks import goals
from tests.conftest import SAMPLES
from tests.report.chromium import EXECUTABLE, Browser
from tests.report.signalling_pages import messages as messages_table
from tests.report.signalling_pages import page_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSIONS = ("typical-1450k", "rehearsed-drive")
"""A capture at both ends with 328,000 points in its figure, and a drive with a map and twelve panels."""
SLOWER = 4
KEYS = "++++p-+-n++-++-+u+-+"
"""Zooms in and out, and to findings and back."""
MESSAGES = 100_000
SEARCH = "reject cause 15"
"""What is typed into the search of messages, letter by letter."""
_CATEGORIES = ("toplevel", "loading", "devtools.timeline", "blink.user_timing")
_RENDERING = ("EventDispatch", "UpdateLayoutTree", "Layout", "PrePaint", "Paint", "Layerize", "FireAnimationFrame")
_PAUSE = "new Promise((done) => setTimeout(done, {}))"
_OPEN_FIGURE = """
(() => {
  document.getElementById("figure").open = true;
  const plot = document.querySelector(".plot");
  plot.scrollIntoView();
  plot.focus();
})()
"""
_ALL_READ = "!document.querySelector('.figure .status').textContent.includes('are being read')"
_PER_MS = 1000

Event = dict[str, Any]


class Seen(NamedTuple):
    """What the owner of a phone waits for, in ms; `cpu` is processor time of the main thread."""

    paint_ms: float
    paint_cpu_ms: float
    zoom_ms: float
    zoom_cpu_ms: float


def seen(page: Path, *, loads: int, keys: str = KEYS) -> Seen:
    """Open a page some times as on a phone, then zoom in its figure; each value is a median."""
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        browser.resize(390, 844, scale=3, mobile=True)
        browser.open(page)  # the first time is not warm
        browser.call("Emulation.setCPUThrottlingRate", rate=SLOWER)
        paints = [_first_paint(browser, page) for _ in range(loads)]
        zooms = _zooms(browser, keys)
        assert browser.complaints == []
    paint_ms, paint_cpu_ms = (statistics.median(column) for column in zip(*paints, strict=True))
    return Seen(paint_ms, paint_cpu_ms, *zooms)


def _first_paint(browser: Browser, page: Path, *, ready: str = "window.report") -> tuple[float, float]:
    """Load a page; return the time to its first paint with content, and the processor time till then, ms."""
    browser.open("about:blank")
    browser.trace(*_CATEGORIES)
    browser.open(page)
    browser.evaluate(f"{ready}.then(() => true)")
    browser.wait("performance.getEntriesByName('first-contentful-paint').length")
    events = browser.traced()
    paint = next(e for e in events if e["name"] == "firstContentfulPaint")
    begin = max(e["ts"] for e in events if e["name"] == "navigationStart" and e["ts"] < paint["ts"])
    spent = [
        e.get("tdur", 0) for e in events
        if e["name"] == "ThreadControllerImpl::RunTask" and e["tid"] == paint["tid"] and e["pid"] == paint["pid"]
        and begin <= e["ts"] < paint["ts"]
    ]  # fmt: skip
    return (paint["ts"] - begin) / _PER_MS, sum(spent) / _PER_MS


def _zooms(browser: Browser, keys: str) -> tuple[float, float]:
    """Press keys in the figure; return the medians of the times to the next frame, and of processor time, ms."""
    browser.evaluate(_OPEN_FIGURE)
    browser.wait(_ALL_READ)
    waits: list[float] = []
    costs: list[float] = []
    for key in keys:
        browser.trace(*_CATEGORIES)
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        browser.evaluate(_PAUSE.format(150))
        events = browser.traced()
        timed = [e["args"]["data"] for e in events if e["name"] == "EventTiming" and "data" in e["args"]]
        waits += [each["duration"] for each in timed if each["type"] == "keydown" and "duration" in each]
        costs.append(sum(e.get("tdur", 0) for e in events if e["name"] in _RENDERING) / _PER_MS)
        browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)
    assert len(waits) == len(keys), (len(waits), len(keys))
    return statistics.median(waits), statistics.median(costs)


class SeenMessages(NamedTuple):
    """What who searches messages waits for, in ms: the first paint, all messages read, and each letter of a search."""

    paint_ms: float
    ready_ms: float
    filter_ms: float
    filter_worst_ms: float


def seen_messages(page: Path, *, loads: int, slower: int = 1) -> SeenMessages:
    """Open a page of messages some times, then search; each value is a median, but for the slowest letter."""
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        browser.resize(1280, 900)
        browser.open(page)  # the first time is not warm
        browser.call("Emulation.setCPUThrottlingRate", rate=slower)
        paints, ready = [], []
        for _ in range(loads):
            paints.append(_first_paint(browser, page, ready="window.signalling")[0])
            ready.append(browser.evaluate("performance.getEntriesByName('multitracer-messages')[0].startTime"))
        waits = _letters(browser)
        assert browser.complaints == []
    return SeenMessages(statistics.median(paints), statistics.median(ready), statistics.median(waits), max(waits))


def _letters(browser: Browser) -> list[float]:
    """Type into the search of messages; return the time from each letter to the next frame, ms."""
    browser.evaluate("document.querySelectorAll('details.fold').forEach((each) => (each.open = true))")
    browser.evaluate("document.querySelector('.signalling').scrollIntoView()")
    browser.evaluate("document.querySelector('.filters input').focus()")
    waits: list[float] = []
    for letter in SEARCH:
        browser.trace(*_CATEGORIES)
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=letter, text=letter)
        browser.evaluate(_PAUSE.format(250))
        events = browser.traced()
        timed = [e["args"]["data"] for e in events if e["name"] == "EventTiming" and "data" in e["args"]]
        waits += [each["duration"] for each in timed if each["type"] == "keydown" and "duration" in each]
        browser.call("Input.dispatchKeyEvent", type="keyUp", key=letter)
    assert len(waits) == len(SEARCH), (len(waits), len(SEARCH))
    return waits


def messages(_: object = None, *, runs: int) -> Iterator[goals.Row]:
    """A page with 100,000 messages between phone and network: its size, first paint, and a search."""
    if EXECUTABLE is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        page = page_of(messages_table(MESSAGES), Path(folder) / "report.html")
        size_mb = page.stat().st_size / 1e6
        found = seen_messages(page, loads=runs)
    on = f"{MESSAGES:,} messages"
    yield goals.Row("page of messages, size", on, f"{size_mb:.1f} MB", "", "", "≤ 12 MB", size_mb <= 12)
    paint = f"{found.ready_ms:.0f} ms until all can be searched"
    yield goals.Row(
        "page of messages, first paint", on, f"{found.paint_ms:.0f} ms", "", paint, "≤ 500 ms", found.paint_ms <= 500
    )
    for what, wait_ms in (("filter, median", found.filter_ms), ("filter, slowest letter", found.filter_worst_ms)):
        yield goals.Row(f"page of messages, {what}", on, f"{wait_ms:.0f} ms", "", "", "≤ 100 ms", wait_ms <= 100)


def phone(_: object = None, *, runs: int) -> Iterator[goals.Row]:
    """Reports on a phone: first paint, and zooms of their figures."""
    if EXECUTABLE is None:
        return
    for session in SESSIONS:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "report.html"
            write_report(read(SAMPLES / session), page)
            found = seen(page, loads=runs)
        yield _row("report on a phone, first paint, warm", session, found.paint_ms, found.paint_cpu_ms, 300)
        yield _row("report on a phone, zoom, median", session, found.zoom_ms, found.zoom_cpu_ms, 50)


def _row(what: str, on: str, wall_ms: float, cpu_ms: float, most_ms: float) -> goals.Row:
    ours = f"{wall_ms:.0f} ms"
    return goals.Row(what, on, ours, "", f"{cpu_ms:.0f} ms of CPU", f"≤ {most_ms:g} ms", wall_ms <= most_ms)


ALL: tuple[goals.Goal, ...] = (phone, messages)


def main() -> None:
    """Measure, and print a table, or JSON of one page that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("page", type=Path, nargs="?", help="a report that was made before")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, medians of {options.runs} runs", file=sys.stderr)
    if options.page is not None:
        print(json.dumps(seen(options.page, loads=options.runs)._asdict()))
        return
    for row in chain(phone(runs=options.runs), messages(runs=options.runs)):
        cells = (row.what, row.on, row.ours, row.peer, row.result, row.goal, "yes" if row.met else "**no**")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
