"""Fewer points, the same picture: M4 per bin of time, rare events kept.

M4 keeps the first, last, lowest and highest point of every bin, so that a line drawn through the kept points
covers the same pixels as the line through all of them (Jugel et al., "M4: a visualization-oriented time
series data aggregation", VLDB 2014). Written in NumPy, because tsdownsample 0.1.5 panics on some times that a
hostile capture can hold, and is no faster here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.figures.series import Series
    from multitracer.tables import Array

BINS = 1024
"""About one per pixel of a wide screen."""

RARE_LIMIT = 20_000
"""Up to so many points, a series of rare events is kept whole; above, its events are not rare."""

_PER_BIN = 4
_SPAN_BITS = 41
"""Of the time span when it is cut into bins: with up to 2^21 bins the products stay below 2^62."""


def thin(series: Series, *, bins: int = BINS) -> Series:
    """Return the series with at most 4 points (8 if it has bars) in each of `bins` bins of time.

    A rare series of up to `RARE_LIMIT` points is returned whole.
    """
    if series.rare and len(series) <= RARE_LIMIT:
        return series
    return series.take(_m4(series, bins))


def _m4(series: Series, bins: int) -> Array:
    """Return the sorted positions that M4 keeps, of `value` and, where there are bars, of `until`."""
    points = len(series)
    if points <= _PER_BIN * bins:
        return np.arange(points)
    starts = _starts(series.time_ns, bins)
    ends = np.append(starts[1:], points)
    value, breaks = _without_breaks(series)
    columns = [value] if series.until is None else [value, series.until]
    extremes = [
        _first_at(column, extreme, starts, ends - starts)
        for column in columns
        for extreme in (np.minimum, np.maximum)
    ]
    return _distinct(np.sort(np.concatenate([starts, ends - 1, breaks, *extremes])))


def _without_breaks(series: Series) -> tuple[Array, Array]:
    """Return the values, each break with that of the point before it, and the positions of the breaks."""
    breaks = np.flatnonzero(~series.is_drawn)
    value = series.value
    if len(breaks):
        value = value.copy()
        value[breaks] = value[np.maximum(breaks - 1, 0)]
    return value, breaks


def _starts(time_ns: Array, bins: int) -> Array:
    """Return where each bin that has points begins; points of one moment are cut into bins by position."""
    since = (time_ns - time_ns[0]).view(np.uint64)
    span = int(since[-1])
    if span == 0:
        return np.arange(bins) * len(time_ns) // bins
    shift = max(0, span.bit_length() - _SPAN_BITS)
    edges = np.arange(bins, dtype=np.int64) * (span >> shift) // bins
    return _distinct(np.searchsorted(since >> np.uint64(shift), edges.astype(np.uint64)))


def _distinct(ordered: Array) -> Array:
    """Return sorted numbers without repeats; `numpy.unique` hashes, which costs five times as much."""
    kept: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return kept


def _first_at(value: Array, extreme: np.ufunc, starts: Array, counts: Array) -> Array:
    """Return the first position of the extreme of each bin."""
    at_extreme = np.flatnonzero(value == np.repeat(extreme.reduceat(value, starts), counts))
    positions: Array = at_extreme[np.searchsorted(at_extreme, starts)]
    return positions
