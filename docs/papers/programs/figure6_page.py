"""The picture and tables of utilization.md from data/figure6.csv, for `docs.papers.programs.figure6 draw`."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docs.papers.programs.figure6 import ROOT, read_rows
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
_WORST = 95
_S_PER_H = 3_600
_EARLY_S = 10
"""Of a connection: the paper's two spurious timeouts came before the timer had converged. In this time the
queue fills, so that each round trip is longer than all before."""

Rows = list[dict[str, str]]


def complete() -> Rows:
    """Return the runs whose call was not dropped."""
    return [row for row in read_rows() if row["outcome"] == "complete"]


def percent(rows: Rows) -> list[int]:
    """Return their rounded-up utilization."""
    utilization = np.array([float(row["utilization"]) for row in rows])
    return [int(each) for each in rounded_up(utilization).tolist()]


def parts() -> dict[str, str]:
    """Return the generated parts of the page by name."""
    return {"recorded": _recorded(), "beside": _beside(), "bins": _bins(), "worst": _worst()}


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


def _beside() -> str:
    rows = complete()
    marks = percent(rows)
    everything = read_rows()
    high = 100 * np.mean(np.array(marks) >= 98)
    low = [row for row, mark in zip(rows, marks, strict=True) if mark <= _WORST]
    bad = [row for row in rows if row["radio"] == "poor"]
    poor_h = sum(float(row["total_s"]) for row in bad) / _S_PER_H
    resets = sum(int(row["resets"]) for row in bad)
    guilty = sum(int(row["resets"]) > 0 and row["header_compression"] != "none" for row in low)
    poor = sum(row["radio"] == "poor" for row in everything)
    lines = [
        ("transfers", "not given", f"{len(everything)}, {poor} of them in a poor radio"),
        ("of these recorded, not virtual", "all", str(sum(r["run"].startswith("rec") for r in everything))),
        ("left out: the call was dropped", "some", str(len(everything) - len(rows))),
        ("98 or more", "almost 85 %", f"{high:.0f} %"),
        ("the least", "91", str(min(marks))),
        ("hours in a poor radio", "2", f"{poor_h:.1f}"),
        ("link resets, all in a poor radio", "14", f"{resets}"),
        ("link resets in an hour of it", "7", f"{resets / poor_h:.1f}"),
        ("spurious timeouts", "2", _spurious(everything)),
        ("transfers with a competing retransmission", "none", _with("competing-retransmission", everything)),
        ("95 or less", "not given", str(len(low))),
        ("of these with a reset and header compression", "all", str(guilty)),
    ]
    table = "".join(f"| {what} | {paper} | {here} |\n" for what, paper, here in lines)
    return f"| | paper 004 | here |\n|---|---|---|\n{table}"


def _spurious(rows: Rows) -> str:
    """Return how many spurious timeouts there were, and how many of them early in a connection."""
    times = [float(at_s) for row in rows for at_s in row["spurious_s"].split()]
    early = sum(at_s < _EARLY_S for at_s in times)
    return f"{len(times)}, of them {early} in the first {_EARLY_S} s"


def _with(kind: str, rows: list[dict[str, str]]) -> str:
    """Return how many transfers had a finding."""
    return str(sum(kind in row["causes"] for row in rows))


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
    rows = complete()
    chosen = [(mark, row) for mark, row in zip(percent(rows), rows, strict=True) if mark <= _WORST]
    lines = [
        f"| {row['run']} | {mark} | {row['radio']} | {int(row['bytes']) // 1000} KB {row['direction']} | "
        f"{'yes' if row['header_compression'] != 'none' else 'no'} | {row['resets']} | "
        f"{float(row['lost_s']):.0f} of {float(row['total_s']):.0f} s | {row['causes']} |\n"
        for mark, row in sorted(chosen, key=lambda pair: pair[0])
    ]
    head = "| run | % | radio | transfer | compressed | resets | lost | findings, largest cost first |\n"
    return head + "|---|---|---|---|---|---|---|---|\n" + "".join(lines)
