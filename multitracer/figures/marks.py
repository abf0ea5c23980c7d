"""Rectangles and trendlines that a user adds to a figure (paper 004, section 4.4).

A rectangle in the time/sequence panel shows the range of a second, zoomed figure (paper 004, Figure 5). A
trendline is a least-squares line whose slope is a throughput.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.series.throughput import trendline
from multitracer.errors import InputError
from multitracer.figures.palette import THEMES
from multitracer.figures.series import TREND_ROLES, Series, seconds_since
from multitracer.figures.stack import BYTES, plain
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import plotly.graph_objects as go

    from multitracer.figures.palette import ThemeName
    from multitracer.figures.stack import Panel

_ROOM = 0.012
"""Margin of a rectangle around its content, as a share of the panel's height."""


@dataclass(frozen=True, slots=True)
class FigureMark:
    """An interval that the figure shows with a rectangle, and its label.

    Times are ns since 1970; None means unbounded.
    """

    from_ns: int | None
    to_ns: int | None
    name: str = ""


def with_marks(
    figure: go.Figure, panels: list[Panel], marks: Sequence[FigureMark], *, origin_ns: int, theme: ThemeName
) -> go.Figure:
    """Return the figure with a rectangle around the content of the time/sequence panel in each interval.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
        Figure of these panels; changed in place.
    panels : list of Panel
        From top to bottom.
    marks : sequence of FigureMark
        Intervals to frame; intervals without drawn points are ignored.
    origin_ns : int
        Origin of the figure's time axis, ns.
    theme : "light" or "dark"
    """
    axis = next((i for i, panel in enumerate(panels, 1) if panel.key == "sequence"), None)
    if axis is None:
        return figure
    panel, ink = panels[axis - 1], THEMES[theme].ink
    for mark in marks:
        frame = _frame(panel, mark, origin_ns)
        if frame is None:
            continue
        place = {"xref": "x", "yref": "y" if axis == 1 else f"y{axis}"}
        figure.add_shape(type="rect", line={"color": ink, "width": 1.2}, **frame, **place)
        figure.add_annotation(
            x=frame["x0"], y=frame["y1"], text=plain(mark.name), showarrow=False,
            xanchor="left", yanchor="bottom", font={"color": ink}, **place,
        )  # fmt: skip
    return figure


def _frame(panel: Panel, mark: FigureMark, origin_ns: int) -> dict[str, object] | None:
    """Return the rectangle around the points of a panel in an interval; None without points.

    Bounds, such as windows, do not count.
    """
    inside = [s.between(mark.from_ns, mark.to_ns) for s in panel.drawn if not s.bound and s.role not in TREND_ROLES]
    values = [column for s in inside for column in (s.value, s.until) if column is not None and len(column)]
    if not values:
        return None
    shown = [column for s in panel.drawn if not s.bound for column in (s.value,)]
    room = _ROOM * (max(int(v.max()) for v in shown) - min(int(v.min()) for v in shown))
    low, high = min(int(v.min()) for v in values), max(int(v.max()) for v in values)
    first, last = (edge([int(s.time_ns[at]) for s in inside if len(s)]) for edge, at in ((min, 0), (max, -1)))
    edges = (first if mark.from_ns is None else mark.from_ns, last if mark.to_ns is None else mark.to_ns)
    begin, end = seconds_since(np.array(edges), origin_ns).tolist()
    return {"x0": begin, "x1": end, "y0": low - room, "y1": high + room}


_WITH_TREND = frozenset({"data", "received", "link_data"})
"""Roles that have a trendline by default: one role of each group."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A trendline that the user requested.

    Parameters
    ----------
    label : str
        Label of the series to fit.
    from_ns, to_ns : int, optional
        Fit only the points of this interval, both ends included; None: unbounded.
    named : bool
        Whether the label of the line shows the interval.
    """

    label: str
    from_ns: int | None = None
    to_ns: int | None = None
    named: bool = False


def add_trends(
    panels: list[Panel], fits: Iterable[Fit] | None, *, origin_ns: int, from_ns: int | None, to_ns: int | None
) -> None:
    """Add the requested lines to the panels of their series; the label of a line shows its slope.

    Parameters
    ----------
    panels : list of Panel
        Panels with all points of their series, also those outside the view.
    fits : iterable of Fit, optional
        Trendlines to add; None: one line through the data of each group in view that has enough points.
    origin_ns : int
        Time at 0 s of the time axis.
    from_ns, to_ns : int or None
        The interval that is in view.

    Raises
    ------
    InputError
        If no drawn series has the requested label, or the interval has fewer than two points.
    """
    counted = [(panel, series) for panel in panels if panel.unit is BYTES for series in panel.drawn]
    fitted: list[tuple[Panel, Series, str]] = []
    if fits is None:
        of_groups = [each for each in counted if each[0].key == "sequence" and each[1].role in _WITH_TREND]
        for panel, series in of_groups:
            within = series.between(from_ns, to_ns)
            if len(within) and within.time_ns[0] != within.time_ns[-1]:
                fitted.append((panel, within, f"{series.label} trend"))
    for fit in fits or ():
        labelled = next((each for each in counted if each[1].label == fit.label), None)
        if labelled is None:
            there = ", ".join(series.label for _, series in counted if series.role not in TREND_ROLES) or "none"
            raise InputError(
                f"trend: the figure draws no series {fit.label!r} in bytes; the series in bytes are {there}"
            )
        panel, series = labelled
        within, name = series.between(fit.from_ns, fit.to_ns), f"{fit.label} trend"
        if fit.named:
            ends = (fit.from_ns, fit.to_ns)
            first, last = (None if ns is None else f"{(ns - origin_ns) / NS_PER_S:g}" for ns in ends)
            name += f" {first or 'start'} to {last or 'end'} s"
        if not len(within) or within.time_ns[0] == within.time_ns[-1]:
            raise InputError(f"{name}: cannot fit a line to fewer than two points; choose a longer interval")
        fitted.append((panel, within, name))
    for (panel, points, name), role in zip(fitted, cycle(TREND_ROLES), strict=False):  # each over the whole view
        line = trendline(points.time_ns, points.value)
        begin = line.begin_ns if from_ns is None else max(line.begin_ns, from_ns)
        end = line.end_ns if to_ns is None else min(line.end_ns, to_ns)
        edges = np.array([begin, end] if begin < end else [line.begin_ns, line.end_ns])
        value = np.rint([line.at(int(ns)) for ns in edges]).astype(np.int64)
        doc = f"least-squares line through {line.points:,} points of {points.label}; its slope is a throughput"
        label = f"{name}: {line.slope_per_s:,.0f} B/s"
        panel.series.append(Series(label, role, edges, value, doc=doc))
