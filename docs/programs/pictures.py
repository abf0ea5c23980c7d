"""Make the pictures of README.md and docs/figures.md.

Run `python -m docs.programs.pictures` in a clone, with chromium.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

from multitracer.cli._program import run
from tests.report.chromium import Browser
from tests.report.signalling_pages import drive

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
EXPERIMENTS = ROOT / "docs" / "papers" / "data" / "experiments"
SAMPLE = ROOT / "sample_traces" / "cellular_upload"
PLOTS = (("cellular_upload", ()), ("typical-1450k", ("--to", "130")))
"""What `multitracer plot` draws as a picture: session, options."""
_PLOT = "document.querySelector('.plot')"


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        _run("report", str(SAMPLE), "-o", str(page))
        with Browser(Path(folder) / "profile") as browser:
            _desktop(browser, page)
            _answer(browser, page)
            _places(browser, page)
            _phone(browser, page)
            for name, options in PLOTS:
                _plot(browser, name, options, Path(folder) / "plot.html")
            _align(browser, Path(folder) / "clocks.html")
            _efficiency(browser, Path(folder))
            _drive(browser, Path(folder) / "drive.html")
            _measured(browser, Path(folder) / "measured.html")
            _messages(browser, Path(folder))


def _run(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        status = run(list(arguments))
    if status:
        raise ChildProcessError(f"{arguments}: exit status {status}")


def _plot(browser: Browser, name: str, options: tuple[str, ...], page: Path) -> None:
    """Draw a session as `multitracer plot` does, without the buttons that a picture has no use for."""
    _run("plot", str(ROOT / "sample_traces" / name), "-o", str(page), *options)
    browser.resize(1200, 1110)
    browser.prefer("light")
    browser.open(page)
    browser.evaluate("window.plot.then(() => true)")
    browser.evaluate("document.querySelector('.modebar-container').remove()")
    _save(browser, name)


def _align(browser: Browser, page: Path) -> None:
    """Draw what is left of the evidence of a session's clocks, as `multitracer align -o` does."""
    _run("align", "--no-keep", str(ROOT / "sample_traces" / "clock-shift"), "-o", str(page))
    browser.resize(1200, 760)
    browser.prefer("light")
    browser.open(page)
    browser.evaluate("window.plot.then(() => true)")
    browser.evaluate("document.querySelector('.modebar-container').remove()")
    _save(browser, "align")


def _efficiency(browser: Browser, folder: Path) -> None:
    """Draw the experiment of paper 000's figure 4 as `multitracer plot --figure efficiency` does."""
    session, page = folder / "CDPD", folder / "efficiency.html"
    session.mkdir()
    shutil.copy(EXPERIMENTS / "cdpd-cc.csv.gz", session / "transactions.csv.gz")
    _run("plot", "--figure", "efficiency", "--size", "8192", str(session), "-o", str(page))
    browser.resize(1100, 660)
    browser.prefer("light")
    browser.open(page)
    browser.evaluate("window.plot.then(() => true)")
    browser.evaluate("document.querySelector('.modebar-container').remove()")
    _save(browser, "efficiency")


def _measured(browser: Browser, page: Path) -> None:
    """Show a drive with transactions: efficiency with the radio, utilization, time and sequence."""
    session = str(ROOT / "sample_traces" / "measured-drive")
    for name, height_px, options in (
        ("measured_efficiency", 1280, ("--figure", "efficiency", "--size", "16384")),
        ("measured_utilization", 660, ("--figure", "utilization")),
        ("measured_sequence", 1110, ("--connection", "8")),
    ):
        _run("plot", session, "-o", str(page), *options)
        browser.resize(1200, height_px)
        browser.prefer("light")
        browser.open(page)
        browser.evaluate("window.plot.then(() => true)")
        browser.evaluate("document.querySelector('.modebar-container').remove()")
        _save(browser, name)


def _drive(browser: Browser, page: Path) -> None:
    """Show what the report of a drive says first, and its map, coloured by what limited the transfer."""
    _run("report", str(ROOT / "sample_traces" / "rehearsed-drive"), "-o", str(page))
    browser.resize(1000, 760)
    _open(browser, page, "light")
    browser.evaluate("document.querySelector('#stretches').open = true")
    browser.evaluate("document.querySelector('#stretches').scrollIntoView()")
    _save(browser, "drive")
    browser.resize(1000, 860)
    browser.evaluate("document.querySelector('#map').open = true")
    browser.evaluate(
        "(() => {const s = document.querySelector('.map select'); s.selectedIndex = s.options.length - 1;"
        " s.dispatchEvent(new Event('change')); s.closest('section').scrollIntoView()})()"
    )
    browser.wait("window.routeMap.place()")
    _save(browser, "drive_map")


def _messages(browser: Browser, folder: Path) -> None:
    """Show the messages of a made-up drive, with one that unfolds."""
    page = folder / "messages.html"
    _run("report", str(drive(folder / "drive.pcap")), "-o", str(page))
    browser.resize(1100, 1010)
    browser.prefer("light")
    browser.open(page)
    browser.evaluate("window.signalling.then((viewer) => (window.viewer = viewer))")
    browser.evaluate("document.querySelector('section.signalling').scrollIntoView()")
    browser.evaluate("document.querySelector('.of-group button[data-at]').click()")
    browser.evaluate("Timeline.zoom(...Timeline.bounds())")
    browser.evaluate("document.querySelector('section.signalling').scrollIntoView()")
    browser.evaluate("document.querySelector('.list .message.chosen .unfold').click()")
    browser.wait("document.querySelectorAll('.list .tree details').length > 1")
    _save(browser, "messages")


def _open(browser: Browser, page: Path, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(page)
    browser.evaluate("window.report.then(() => true)")


def _desktop(browser: Browser, page: Path) -> None:
    browser.resize(1100, 900)
    _open(browser, page, "light")
    _save(browser, "report")


def _answer(browser: Browser, page: Path) -> None:
    """Show what the report says first, alone."""
    browser.resize(1100, 720)
    _open(browser, page, "light")
    browser.evaluate("document.querySelector('.first').scrollIntoView()")
    _save(browser, "limits")


def _places(browser: Browser, page: Path) -> None:
    """Zoom into the two places that docs/figures.md explains."""
    browser.resize(1000, 900)
    _open(browser, page, "light")
    browser.evaluate("document.querySelector('#figure').open = true")
    for name, from_s, to_s in (("figure_loss", 9.6, 11.2), ("figure_outage", 15.5, 19.5)):
        browser.evaluate(f"window.report.then((shown) => shown.look({from_s}, {to_s}))")
        box = browser.evaluate(f"{_PLOT}.getBoundingClientRect().toJSON()")
        top = box["y"] + browser.evaluate("scrollY")
        _save(browser, name, clip={"x": box["x"], "y": top, "width": box["width"], "height": box["height"]})


def _phone(browser: Browser, page: Path) -> None:
    browser.resize(390, 1500, mobile=True)
    _open(browser, page, "dark")
    _save(browser, "report_phone")


def _save(browser: Browser, name: str, *, clip: dict[str, float] | None = None) -> None:
    more: dict[str, Any] = {"clip": clip | {"scale": 1}, "captureBeyondViewport": True} if clip else {}
    browser.screenshot(IMAGES / f"{name}.png", **more)


if __name__ == "__main__":
    main()
