"""The picture and tables of utilization.md from data/figure6.csv, for `docs.papers.programs.figure6 draw`."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docs.papers.programs.figure6 import REPEATED, ROOT, read_rows, repeated, worst
from multitracer.diagnosis.account.link_account import link_account
from multitracer.diagnosis.account.uses import LOST, Use
from multitracer.figures.utilization import rounded_up, utilization_histogram
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.report.chromium import Browser

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = ROOT / "docs" / "papers" / "utilization.md"
PICTURE = ROOT / "docs" / "papers" / "images" / "utilization.png"
_WIDTH_PX = 860
_MARGIN_PX = 16
"""Margin of a page in Chromium: 8 pixels above and below."""
_S_PER_H = 3_600
_HOURS = {"good": 4, "poor": 2}
"""Of the paper's traces (section 4.1)."""
_EARLY_S = 10
"""Of a connection: the paper's two spurious timeouts came before the timer had converged. In this time the
queue fills, so that each round trip is longer than all before."""

Rows = list[dict[str, str]]


def complete() -> Rows:
    """Return the runs whose call was not dropped."""
    return [row for row in read_rows() if row["outcome"] == "complete"]


def six_hours() -> Rows:
    """Return the first complete runs that fill the paper's four hours of good radio and two of poor."""
    chosen = []
    left_s = {radio: float(hours * _S_PER_H) for radio, hours in _HOURS.items()}
    for row in complete():
        if left_s[row["radio"]] > 0:
            left_s[row["radio"]] -= float(row["total_s"])
            chosen.append(row)
    return chosen


def percent(rows: Rows) -> list[int]:
    """Return their rounded-up utilization."""
    utilization = np.array([float(row["utilization"]) for row in rows])
    return [int(each) for each in rounded_up(utilization).tolist()]


def parts() -> dict[str, str]:
    """Return the generated parts of the page by name."""
    return {"recorded": _recorded(), "beside": _beside(), "bins": _bins(), "worst": _worst(), "repeated": _repeated()}


def _between(made: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match[1] + made + match[2]


def filled(text: str) -> str:
    """Return the page's text with every generated part as it is to be."""
    for name, made in parts().items():
        pattern = f"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, found = re.subn(pattern, _between(made), text, flags=re.S)
        if not found:
            raise LookupError(f"{PAGE}: has no part {name}")
    return text


def draw() -> None:
    """Write the picture and the tables."""
    rows = complete()
    drawn = utilization_histogram(
        np.array([float(row["utilization"]) for row in rows]),
        np.array([float(row["throughput_kbps"]) * 125 for row in rows]),
        excluded=len(read_rows()) - len(rows),
    )
    PAGE.write_text(filled(PAGE.read_text("utf-8")), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder) / "profile") as browser:
        page = Path(folder) / "figure6.html"
        drawn.write_html(page, include_plotlyjs=True, config={"displayModeBar": False})
        browser.resize(_WIDTH_PX, drawn.layout.height + _MARGIN_PX)
        browser.open(page)
        browser.evaluate("new Promise((done) => setTimeout(done, 500))")
        browser.screenshot(PICTURE)


def _recorded() -> str:
    """Return the accounts of the recorded data calls."""
    head = "| session | utilization, % | strict, % | T, s | lost, s | largest losses, s |\n"
    head += "|---|---|---|---|---|---|\n"
    folders = sorted(path.parent for path in (ROOT / "sample_traces").glob("*/scenario.toml"))
    return head + "".join(map(_recorded_line, folders))


def _recorded_line(folder: Path) -> str:
    books = link_account(Transfer.of(read(folder)))
    available_s = books.total_s - books.seconds[Use.IDLE_APP]
    strict = 1 - (books.lost_s + books.far_buffer_s) / available_s
    losses = sorted(((books.seconds[use], use.label) for use in LOST), reverse=True)
    shown = ", ".join(f"`{label}` {seconds:.1f}" for seconds, label in losses[:3] if seconds >= 0.5)
    return (
        f"| `{folder.name}` | {100 * books.utilization:.1f} | {100 * strict:.1f} | {books.total_s:.0f} | "
        f"{books.lost_s:.1f} | {shown} |\n"
    )


_CLAIMS = (
    ("transfers", "not given"), ("of these recorded, not virtual", "all"), ("left out: the call was dropped", "some"),
    ("hours in a good radio", "4"), ("hours in a poor radio", "2"), ("98 or more", "almost 85 %"), ("the least", "91"),
    ("link resets, all in a poor radio", "14"), ("link resets in an hour of it", "7"),
    ("spurious timeouts in the first 10 s of a connection", "2"), ("spurious timeouts after them", "none"),
    ("competing retransmissions after them", "none"), ("95 or less", "not given"),
    ("of these with a reset and header compression", "all"), ("of these with a reset", "all"),
)  # fmt: skip
"""What the paper says of its traces."""


def _beside() -> str:
    everything = read_rows()
    paper = six_hours()
    columns = _claims(paper, paper), _claims(complete(), everything)
    lines = [f"| {' | '.join(row)} |\n" for row in zip(*zip(*_CLAIMS, strict=True), *columns, strict=True)]
    return f"| | paper 004 | six hours | all runs |\n|---|---|---|---|\n{''.join(lines)}"


def _claims(rows: Rows, everything: Rows) -> list[str]:
    """Return our values of `_CLAIMS`: of complete transfers, and of all with those that were dropped."""
    marks = percent(rows)
    hours = {radio: _hours([row for row in rows if row["radio"] == radio]) for radio in _HOURS}
    resets = sum(int(row["resets"]) for row in rows if row["radio"] == "poor")
    early, later = _spurious(everything)
    low = worst(rows)
    with_reset = [row for row in low if int(row["resets"]) > 0]
    return [
        f"{len(everything)}, {sum(row['radio'] == 'poor' for row in everything)} of them in a poor radio",
        str(sum(row["run"].startswith("rec") for row in everything)),
        str(len(everything) - len(rows)) if everything is not rows else "",
        *(f"{hours[radio]:.1f}" for radio in _HOURS),
        f"{100 * np.mean(np.array(marks) >= 98):.0f} %",
        str(min(marks)),
        str(resets),
        f"{resets / hours['poor']:.1f}",
        str(early),
        str(later),
        str(sum("competing-retransmission" in row["causes"] and _spurious([row])[1] > 0 for row in everything)),
        str(len(low)),
        str(sum(row["header_compression"] != "none" for row in with_reset)),
        str(len(with_reset)),
    ]


def _hours(rows: Rows) -> float:
    return sum(float(row["total_s"]) for row in rows) / _S_PER_H


def _spurious(rows: Rows) -> tuple[int, int]:
    """Return how many spurious timeouts came early in a connection, and how many later.

    A competing retransmission is one of them: the link still repeats frames of the first copy.
    """
    early = [float(at_s) < _EARLY_S for row in rows for at_s in row["spurious_s"].split()]
    return sum(early), len(early) - sum(early)


def _repeated() -> str:
    """Return the worst runs, and what became of them with one thing changed."""
    made = {row["run"]: row for row in read_rows(REPEATED)}
    names = list(repeated(0))
    lines = [
        [row["run"], _compression(row), *(_cell(each) for each in (row, *(made[f"{row['run']}, {n}"] for n in names)))]
        for row in sorted(worst(complete()), key=lambda row: float(row["utilization"]))
    ]
    head = ["run", "compressed", "as it was: %, resets", *names]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *lines))


def _compression(row: dict[str, str]) -> str:
    return "yes" if row["header_compression"] != "none" else "no"


def _cell(row: dict[str, str]) -> str:
    return f"{percent([row])[0]}, {row['resets']}"


def _bins() -> str:
    rows = complete()
    marks = np.array(percent(rows))
    kbps = np.array([float(row["throughput_kbps"]) for row in rows])
    lines = [
        f"| {mark} | {np.count_nonzero(marks == mark)} | {kbps[marks == mark].min():.1f} to "
        f"{kbps[marks == mark].max():.1f} |\n"
        for mark in sorted(set(marks.tolist()), reverse=True)
    ]
    return "| utilization, % | transfers | throughput, kbit/s |\n|---|---|---|\n" + "".join(lines)


def _worst() -> str:
    lines = [
        f"| {row['run']} | {percent([row])[0]} | {row['radio']} | {int(row['bytes']) // 1000} KB {row['direction']} | "
        f"{_compression(row)} | {row['resets']} | "
        f"{float(row['lost_s']):.0f} of {float(row['total_s']):.0f} s | {row['causes']} |\n"
        for row in sorted(worst(complete()), key=lambda row: float(row["utilization"]))
    ]
    head = "| run | % | radio | transfer | compressed | resets | lost | findings, largest cost first |\n"
    return head + "|---|---|---|---|---|---|---|---|\n" + "".join(lines)
