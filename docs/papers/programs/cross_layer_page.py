"""The tables and pictures of cross_layer.md; `docs.papers.programs.cross_layer draw` uses it."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from docs.papers.programs.cross_layer import kept
from docs.papers.programs.cross_layer_nmi import nmi_table
from docs.papers.programs.cross_layer_plan import FOLDER, SWEEPS
from docs.papers.programs.cross_layer_shapes import SHAPES
from docs.papers.programs.page_part import write_part
from docs.papers.programs.studies_figures import Panel, sheet
from docs.papers.programs.studies_page import Column, picture
from tests.report.chromium import Browser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import plotly.graph_objects as go

    from docs.papers.programs.cross_layer_plan import Sweep

PAGE: Path = FOLDER.parents[1] / "cross_layer.md"
Runs = list[dict[str, str]]

_DROPPED = Column("dropped at the buffer", "dropped")
_LOST = Column("lost on the radio", "lost_on_radio")
_RESENT = Column("sent again", "resent")
_TIMEOUTS = Column("timeouts", "timeouts")
_SPURIOUS = Column("of these spurious", "spurious_timeouts")
_DELAY = Column("a packet takes, s", "delay_median_s", 1)
_ONE = (Column("kb/s", "kbps"), _DROPPED, _LOST, _RESENT, _TIMEOUTS, _SPURIOUS, _DELAY)
_ASSIGNED = Column("assigned, kb/s", "assigned_kbps")
_TOGETHER = (
    Column("all, kb/s", "kbps"), Column("each, kb/s", "user_kbps"), Column("slowest", "slowest_kbps"),
    Column("fastest", "fastest_kbps"), Column("gap, %", "gap_percent"), Column("Jain", "jain", 2), _DROPPED,
)  # fmt: skip
COLUMNS: dict[str, tuple[Column, ...]] = {
    "window": (*_ONE, _ASSIGNED),
    "bursts": (*_ONE, _ASSIGNED),
    "options": _ONE,
    "pauses": _ONE,
    "load": _TOGETHER,
    "rules": (*_ONE, _ASSIGNED),
    "coupled": (*_ONE, _ASSIGNED),
    "speed": (*_ONE, _ASSIGNED),
    "highway": (Column("handoffs", "handoffs"), *_ONE, _ASSIGNED),
    "ecio": (*_ONE, _ASSIGNED),
}
"""Sweep -> what its table shows of each point: medians, and ranges over the seeds."""


def runs_of(sweep: str) -> dict[str, Runs]:
    """Return the kept runs of a sweep by `ARM VALUE`, in the order of its arms and values."""
    plan = SWEEPS[sweep]
    points: dict[str, Runs] = {name_of(transport, value): [] for transport in plan.curves for value in plan.values}
    for run in kept(sweep):
        points[name_of(run["arm"], float(run["value"]))].append(run)
    return points


def name_of(transport: str, value: float) -> str:
    """Return what a point is called."""
    return f"{transport} {value:g}"


def table(name: str) -> str:
    """Return the table of a sweep as Markdown."""
    plan, runs = SWEEPS[name], runs_of(name)
    columns = COLUMNS[name]
    lines = [
        [*([transport] if len(plan.curves) > 1 else []), f"{value:g}", *(column.cell(rows) for column in columns)]
        for transport in plan.curves
        for value in plan.values
        if (rows := runs[name_of(transport, value)])
    ]
    heads = [*(["TCP"] if len(plan.curves) > 1 else []), plan.axis, *(column.head for column in columns)]
    return markdown(heads, lines)


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, ["---"] * len(heads), *lines))


def shapes() -> str:
    """Return the table that puts the paper's statements beside ours."""
    lines = [(each.paper, *each.judge(runs_of)) for each in SHAPES]
    return markdown(
        ("paper 003", "ours", "comes back"), [(paper, ours, "yes" if ok else "**no**") for paper, ok, ours in lines]
    )


def parts() -> dict[str, Callable[[], str]]:
    """Return every generated part of the page by its name."""
    return {"shapes": shapes, **{name: partial(table, name) for name in SWEEPS}, "nmi": nmi_table}


def write_page() -> None:
    """Write every generated part."""
    for name, text in {name: make() for name, make in parts().items()}.items():
        write_part(PAGE, name, text)


def _lines(name: str) -> dict[str, list[str]]:
    plan = SWEEPS[name]
    return {transport: [name_of(transport, value) for value in plan.values] for transport in plan.curves}


def _sheet(sweep: Sweep, panels: Sequence[tuple[str, str]]) -> go.Figure:
    drawn = [Panel(title, column, _lines(sweep.name)) for title, column in panels]
    return sheet(runs_of(sweep.name), drawn, [f"{value:g}" for value in sweep.values], sweep.axis)


_RATE, _LOSSES = ("throughput, kb/s", "kbps"), ("packets dropped at the buffer", "dropped")
PICTURES: dict[str, tuple[tuple[str, str], ...]] = {
    "window": (_RATE, _LOSSES),
    "coupled": (_RATE,),
    "load": (("throughput of each, kb/s", "user_kbps"), ("fairness gap, %", "gap_percent")),
    "speed": (_RATE,),
    "ecio": (_RATE,),
}
"""Sweep -> the panels of its picture, as figures 5 to 7 of the paper have them: title and column."""


def draw(*, pictures: bool) -> None:
    """Write the tables, and the pictures if they are asked for."""
    write_page()
    if not pictures:
        return
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder) / "profile") as browser:
        browser.prefer("light")
        for name, panels in PICTURES.items():
            title = f"cross_layer_{name}"
            picture(browser, Path(folder) / f"{title}.html", title, _sheet(SWEEPS[name], panels))
