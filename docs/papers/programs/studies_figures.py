"""The pictures of studies.md: medians as lines, the range over the seeds as bars."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from docs.papers.programs.studies_arms import ABORTED_QUEUES, BITS_IN_20_MS, FRAME_BITS, N2, QUEUES, RADIOS
from multitracer.figures.palette import LOOKS, template

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Runs = list[dict[str, str]]
    RunsOf = Callable[[str], dict[str, Runs]]

_ROLES = ("data", "retransmission", "ack", "sack")
"""Roles whose colours and marks the lines of a panel have, in their order."""
_SYMBOLS = ("circle", "x", "square", "diamond")
_HEIGHT_PX = 400


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: what is drawn, and the arms of each of its lines."""

    title: str
    column: str
    lines: Mapping[str, Sequence[str]]
    """Name of a line -> the arm at each place of the horizontal axis."""
    log: bool = False


def sheet(runs: dict[str, Runs], panels: Sequence[Panel], places: Sequence[str], axis: str) -> go.Figure:
    """Return the panels side by side.

    Parameters
    ----------
    runs : mapping
        Arm -> its runs.
    panels : sequence of Panel
    places : sequence of str
        The marks of the horizontal axis.
    axis : str
        Its title.
    """
    mode = "lines+markers" if axis else "markers"  # between names there is nothing
    figure = make_subplots(rows=1, cols=len(panels), subplot_titles=[panel.title for panel in panels])
    for column, panel in enumerate(panels, 1):
        for role, (name, transports) in enumerate(panel.lines.items()):
            trace = _line(runs, panel.column, transports, places, role) | {"mode": mode}
            shown = column == 1 and len(panel.lines) > 1
            figure.add_trace(go.Scatter(**trace, name=name, showlegend=shown), row=1, col=column)
        figure.update_yaxes(type="log" if panel.log else "linear", row=1, col=column)
        if not panel.log:
            figure.update_yaxes(rangemode="tozero", row=1, col=column)
    base = template("light")
    axes = {"x": base.pop("xaxis"), "y": base.pop("yaxis")}
    figure.update_layout(**base, height=_HEIGHT_PX, margin={"l": 50, "r": 50, "t": 50, "b": 90})
    figure.update_layout(legend={"orientation": "h", "y": -0.3})
    figure.update_xaxes(**axes["x"], title=axis, type="category")
    figure.update_yaxes(**axes["y"])
    return figure


def _line(
    runs: dict[str, Runs], column: str, transports: Sequence[str], places: Sequence[str], role: int
) -> dict[str, Any]:
    """Return a trace of medians, with the range as error bars; a place without a number has none."""
    values = [[float(run[column]) for run in runs[transport] if run[column] != ""] for transport in transports]
    points = [(place, median(each), min(each), max(each)) for place, each in zip(places, values, strict=True) if each]
    colour = LOOKS[_ROLES[role]].colour("light")
    return {
        "x": [place for place, *_ in points],
        "y": [middle for _, middle, _, _ in points],
        "error_y": {
            "type": "data",
            "array": [high - middle for _, middle, _, high in points],
            "arrayminus": [middle - low for _, middle, low, _ in points],
            "thickness": 1,
            "width": 4,
            "color": colour,
        },
        "line": {"color": colour, "width": 1.5},
        "marker": {"color": colour, "symbol": _SYMBOLS[role], "size": 8},
    }


def _persistence(runs_of: RunsOf) -> go.Figure:
    lines = {
        name: [f"{words}, N2 {n2}" for n2 in N2] for name, words in (("header compression", "VJ"), ("without", "plain"))
    }
    panels = [
        Panel("goodput, B/s", "goodput_bytes_per_s", lines),
        Panel("link resets in a run", "link_resets", lines),
        Panel("longest hole, s", "hole_s", lines),
    ]
    return sheet(runs_of("persistence"), panels, [str(n2) for n2 in N2], "N2")


def _frames(runs_of: RunsOf) -> go.Figure:
    panels = [
        Panel(
            f"{radio} radio: goodput, B/s",
            "goodput_bytes_per_s",
            {code: [f"{radio}, {code}, {bits}" for bits in FRAME_BITS] for code in BITS_IN_20_MS if code != "none"},
        )
        for radio in RADIOS
    ]
    return sheet(runs_of("frames"), panels, [str(bits) for bits in FRAME_BITS], "bits of a frame")


def _buffers(runs_of: RunsOf) -> go.Figure:
    lines = {"": tuple(QUEUES)}
    panels = [
        Panel("a segment takes, s", "delay_median_s", lines),
        Panel("request of 1 KB, s", "second_s", lines),
        Panel("upload, B/s", "goodput_bytes_per_s", lines),
        Panel("download, B/s", "return_goodput_bytes_per_s", lines),
    ]
    return sheet(runs_of("buffers"), panels, tuple(QUEUES), "")


def _aborted(runs_of: RunsOf) -> go.Figure:
    lines = {window: [f"{window}, {queue}" for queue in ABORTED_QUEUES] for window in ("8 KB", "64 KB")}
    panels = [Panel("the next download, s", "second_s", lines), Panel("stale bytes", "stale_bytes", lines)]
    return sheet(runs_of("aborted"), panels, ABORTED_QUEUES, "")


def figures(runs_of: RunsOf) -> dict[str, Callable[[], go.Figure]]:
    """Return the pictures by name; `runs_of` gives the runs of a study by arm."""
    return {
        "study_persistence": partial(_persistence, runs_of),
        "study_frames": partial(_frames, runs_of),
        "study_buffers": partial(_buffers, runs_of),
        "study_aborted": partial(_aborted, runs_of),
    }
