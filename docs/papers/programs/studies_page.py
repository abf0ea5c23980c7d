"""The tables and pictures of studies.md from data/studies; `docs.papers.programs.studies draw` uses it."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING

from docs.papers.programs.studies import kept
from docs.papers.programs.studies_arms import FOLDER, STUDIES, recorded
from docs.papers.programs.studies_figures import figures
from multitracer.report.plot_page import plot_page
from tests.report.chromium import Browser

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

PAGE: Path = FOLDER.parents[1] / "studies.md"
IMAGES: Path = FOLDER.parents[1] / "images"
_NO_BUTTONS = "for (const each of document.querySelectorAll('.modebar-container, h1')) each.remove()"
_WIDTH_PX = 860

Runs = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: a number of the runs of an arm."""

    head: str
    name: str
    """Column of the CSV."""
    digits: int = 0
    total: bool = False
    """The sum over the runs, not median and range."""

    def cell(self, runs: Runs) -> str:
        """Return median and range over the runs that have the number, or the sum."""
        values = [float(run[self.name]) for run in runs if run[self.name] != ""]
        if not values:
            return "–"
        if self.total:
            return f"{sum(values):.0f}"
        low, middle, high = (self._shown(value) for value in (min(values), median(values), max(values)))
        return middle if low == high else f"{middle} ({low} to {high})"

    def _shown(self, value: float) -> str:
        return f"{value:.{self.digits}f}"


_GOODPUT = Column("goodput, B/s", "goodput_bytes_per_s")
_TIMEOUTS = Column("timeouts", "timeouts", total=True)
_SPURIOUS = Column("of these spurious", "spurious_timeouts", total=True)
_NEEDLESS = Column("needless segments", "needless_segments", total=True)
_DELAY = Column("a segment takes, s", "delay_median_s", 1)
_HOLE = Column("longest hole, s", "hole_s", 1)
_COMPLETE = Column("complete", "complete", total=True)

TABLES: dict[str, tuple[Column, ...]] = {
    "persistence": (
        _GOODPUT, Column("link resets", "link_resets", total=True), _TIMEOUTS, _SPURIOUS, _NEEDLESS,
        Column("checksum errors", "checksum_errors", total=True), _HOLE,
    ),
    "frames": (_COMPLETE, _GOODPUT, Column("frames resent", "rlp_resent"), _TIMEOUTS, _SPURIOUS, _HOLE),
    "timing": (_GOODPUT, _TIMEOUTS, _SPURIOUS, _NEEDLESS),
    "buffers": (
        _GOODPUT, Column("download, B/s", "return_goodput_bytes_per_s"), _DELAY,
        Column("request of 1 KB, s", "second_s", 1), Column("SYNs of 20 requests", "second_syns", total=True),
        _TIMEOUTS, Column("resent segments", "resent_segments", total=True),
    ),
    "aborted": (
        Column("next download, s", "second_s", 1), Column("its SYNs", "second_syns", total=True),
        Column("stale bytes", "stale_bytes"), _DELAY,
    ),
    "adaptive": (
        _GOODPUT, Column("link resets", "link_resets", total=True), _TIMEOUTS,
        Column("datagrams", "datagrams", total=True), Column("of these arrived", "datagrams_arrived", total=True),
        Column("a datagram takes, s", "datagram_median_s", 2), Column("the longest, s", "datagram_most_s", 1),
    ),
    "umts": (_GOODPUT, Column("frames resent", "rlp_resent"), _TIMEOUTS, _SPURIOUS, _DELAY, _HOLE),
}  # fmt: skip
"""Study -> what its table shows of each arm."""


def runs_of(study: str) -> dict[str, Runs]:
    """Return the kept runs of a study by arm, in the order of its arms."""
    transports: dict[str, Runs] = {transport: [] for transport in STUDIES[study]()}
    for run in kept(study):
        transports[run["arm"]].append(run)
    return transports


def table(study: str) -> str:
    """Return the table of a study as Markdown."""
    columns = TABLES[study]
    heads = ["", *(column.head for column in columns)]
    lines = [[transport, *(column.cell(runs) for column in columns)] for transport, runs in runs_of(study).items()]
    rule = "|".join("---" for _ in heads)
    body = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    return f"| {' | '.join(heads)} |\n|{rule}|\n{body}"


def radio() -> str:
    """Return what the recorded radio is."""
    trace = recorded()
    failed = {"up": trace.up, "down": trace.down}
    words = " and ".join(
        f"{sum(count for _, count in runs)} frames in {len(runs)} runs {name}" for name, runs in failed.items()
    )
    longest = max(count for runs in failed.values() for _, count in runs)
    minutes = trace.slots * trace.slot_ns / 60e9
    said = f"In {minutes:.0f} minutes the radio destroyed {words}; the longest run has {longest}."
    return fill(said, 100, break_on_hyphens=False) + "\n"


def parts() -> dict[str, Callable[[], str]]:
    """Return every generated part of the page by its name."""
    return {**{study: partial(table, study) for study in STUDIES}, "radio": radio}


def part(text: str, name: str) -> str:
    """Return a generated part of the page as it is written there."""
    return text.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0]


def _between(made: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match[1] + made + match[2]


def filled(text: str) -> str:
    """Return the page's text with every generated part as it is to be."""
    for name, made in parts().items():
        pattern = f"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, count = re.subn(pattern, _between(made()), text, flags=re.S)
        if not count:
            raise LookupError(f"{PAGE}: has no part {name}")
    return text


def draw(*, pictures: bool) -> None:
    """Write the tables, and the pictures if they are asked for."""
    missing = [transport for study in STUDIES for transport, runs in runs_of(study).items() if not runs]
    if missing:
        raise SystemExit(f"not there yet: {', '.join(missing)}; run docs.papers.programs.studies run")
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    if not pictures:
        return
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder) / "profile") as browser:
        browser.prefer("light")
        for name, made in figures(runs_of).items():
            picture(browser, Path(folder) / f"{name}.html", name, made())


def picture(browser: Browser, page: Path, name: str, figure: go.Figure) -> None:
    """Write a figure as a picture."""
    page.write_text(plot_page(figure, title=name, theme="light"), "utf-8")
    browser.resize(_WIDTH_PX, figure.layout.height)
    browser.open(page)
    browser.evaluate("window.plot.then(() => true)")
    browser.evaluate(_NO_BUTTONS)
    browser.screenshot(IMAGES / f"{name}.png")
