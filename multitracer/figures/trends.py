"""Trendlines in a figure: least-squares lines whose slopes are throughputs (paper 004, section 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.series.throughput import trendline
from multitracer.errors import InputError
from multitracer.figures.series import Series
from multitracer.figures.stack import BYTES
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.figures.stack import Panel

_WITH_TREND = frozenset({"data", "received", "link_data"})
"""Roles that get a line unasked: one of each group."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A requested line.

    Parameters
    ----------
    label : str
        Of the series that it is fitted to.
    from_ns, to_ns : int, optional
        Fit only to this interval, both ends included; None leaves a side open.
    named : bool
        Whether the interval is told in the line's label.
    """

    label: str
    from_ns: int | None = None
    to_ns: int | None = None
    named: bool = False


def default_trends(drawn: Iterable[Series]) -> list[Series]:
    """Return a line through each group's data, where a line is determined."""
    return [
        _line(series, f"{series.label} trend")
        for series in drawn
        if series.role in _WITH_TREND and len(series) and series.time_ns[0] != series.time_ns[-1]
    ]


def add_trends(
    panels: list[Panel], fits: Iterable[Fit], *, origin_ns: int, from_ns: int | None, to_ns: int | None
) -> None:
    """Add the requested lines to the panels of their series.

    Parameters
    ----------
    panels : list of Panel
        With all points of their series, also those out of view.
    fits : iterable of Fit
    origin_ns : int
        What the time axis calls 0.
    from_ns, to_ns : int or None
        The interval that is in view.

    Raises
    ------
    InputError
        If no drawn series has that label, or its interval has no two points to put a line through.
    """
    for fit in fits:
        series, panel = _drawn(panels, fit.label)
        within = series.between(fit.from_ns, fit.to_ns)
        name = f"{fit.label} trend{_interval(fit, origin_ns) if fit.named else ''}"
        if not len(within) or within.time_ns[0] == within.time_ns[-1]:
            raise InputError(f"{name}: fewer than two points give no line; choose a longer interval")
        panel.series.append(_line(within, name, from_ns=from_ns, to_ns=to_ns))


def _drawn(panels: list[Panel], label: str) -> tuple[Series, Panel]:
    counted = [(series, panel) for panel in panels if panel.unit is BYTES for series in panel.drawn]
    for series, panel in counted:
        if series.label == label:
            return series, panel
    there = ", ".join(series.label for series, _ in counted if series.role != "trend")
    raise InputError(f"trend: no series {label!r} in bytes is drawn; there are {there or 'none'}")


def _interval(fit: Fit, origin_ns: int) -> str:
    ends = (None if ns is None else f"{(ns - origin_ns) / NS_PER_S:g}" for ns in (fit.from_ns, fit.to_ns))
    begin, end = ends
    return f" {begin or 'start'} to {end or 'end'} s"


def _line(series: Series, name: str, *, from_ns: int | None = None, to_ns: int | None = None) -> Series:
    """Return the line over the whole view; its label shows its slope."""
    line = trendline(series.time_ns, series.value)
    begin = line.begin_ns if from_ns is None else max(line.begin_ns, from_ns)
    end = line.end_ns if to_ns is None else min(line.end_ns, to_ns)
    ends = np.array([begin, end] if begin < end else [line.begin_ns, line.end_ns])
    value = np.rint([line.at(int(ns)) for ns in ends]).astype(np.int64)
    doc = f"least-squares line through {line.points:,} points of {series.label}; its slope is a throughput"
    return Series(f"{name}: {line.slope_per_s:,.0f} B/s", "trend", ends, value, doc=doc)
