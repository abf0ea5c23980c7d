"""A least-squares line through a series over an interval: its slope is a rate (paper 004, section 4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import InputError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array


@dataclass(frozen=True, slots=True)
class Trendline:
    """The line value = at_begin + slope_per_s (t - begin)."""

    begin_ns: int
    """First point used, ns since 1970."""
    end_ns: int
    """Last point used, ns since 1970."""
    slope_per_s: float
    """Units of the series per second; bytes per second for a sequence series."""
    at_begin: float
    """The line's value at `begin_ns`."""
    r_squared: float
    """Share of the series' variance that the line explains; NaN for a constant series."""
    points: int

    def at(self, time_ns: int) -> float:
        """Return the line's value at a time."""
        return self.at_begin + self.slope_per_s * (time_ns - self.begin_ns) / NS_PER_S


def trendline(
    time_ns: Array, value: Array, *, begin_ns: int | None = None, end_ns: int | None = None
) -> Trendline:
    """Return the least-squares line through the points with begin <= time <= end.

    Parameters
    ----------
    time_ns : ndarray of int64, shape (n,)
    value : ndarray, shape (n,)
    begin_ns, end_ns : int, optional
        The interval; None leaves a side open.

    Raises
    ------
    InputError
        If fewer than two different times lie in the interval: no line is determined.
    """
    chosen = np.ones(len(time_ns), dtype=bool)
    if begin_ns is not None:
        chosen &= time_ns >= begin_ns
    if end_ns is not None:
        chosen &= time_ns <= end_ns
    times, values = time_ns[chosen], np.asarray(value)[chosen].astype(np.float64)
    if not len(times) or times.min() == times.max():
        raise InputError(f"trendline: {len(times)} points at one time give no line; choose a longer interval")
    first = int(times.min())
    seconds = (times - first) / NS_PER_S
    slope, at_begin, r_squared = _least_squares(seconds, values)
    return Trendline(first, int(times.max()), slope, at_begin, r_squared, len(times))


def _least_squares(x: Array, y: Array) -> tuple[float, float, float]:
    """Return slope, value at 0 and share of variance; centred sums keep the digits of large values."""
    dx, dy = x - x.mean(), y - y.mean()
    slope = float(dx @ dy / (dx @ dx))
    total = float(dy @ dy)
    explained = slope * float(dx @ dy)
    return slope, float(y.mean() - slope * x.mean()), explained / total if total else float("nan")
