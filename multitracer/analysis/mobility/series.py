"""Series over time: steps, which hold their value, and samples, which do not; quartiles of groups.

Where the clock of a log was set back: its rows before and after have no order in time.
A clock is corrected by seconds, or by an hour of daylight saving that the logger writes into local time. What
was read before and after belongs to two pieces; nothing is joined, interpolated or compared across them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Table, Times


class Samples(NamedTuple):
    """Values at instants, such as round-trip times."""

    time_ns: Times
    """Shape (n,), ns since 1970, in any order."""
    value: Array
    """Shape (n,), float64; NaN is no sample."""

    def known(self) -> Samples:
        """Return the rows that have a time and a value, in order of time."""
        rows = np.flatnonzero((self.time_ns != NOT_A_TIME) & np.isfinite(self.value))
        rows = rows[np.argsort(self.time_ns[rows], kind="stable")]
        return Samples(self.time_ns[rows], np.asarray(self.value[rows], dtype=np.float64))


@dataclass(frozen=True)
class Steps:
    """A quantity that holds from one row to the next, such as a rate.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n,)
        In any order; of rows with one time the last counts.
    value : ndarray of float64, shape (n,)
        NaN from its time on: not known.
    hold_ns : int, optional
        A value holds at most so long; None for a series that says each change itself (RATES).
    """

    time_ns: Times
    value: Array
    hold_ns: int | None = None
    _origin_ns: int = field(init=False, default=0)

    @cached_property
    def _ordered(self) -> tuple[Times, Array]:
        rows = np.flatnonzero(self.time_ns != NOT_A_TIME)
        rows = rows[np.argsort(self.time_ns[rows], kind="stable")]
        time = self.time_ns[rows]
        last = np.append(time[1:] != time[:-1], True)[: len(time)]
        return time[last], np.asarray(self.value[rows][last], dtype=np.float64)

    @cached_property
    def _integrals(self) -> tuple[Array, Array, Array]:
        """Return knots in seconds after the first row, and up to each the integral and the time covered."""
        time, value = self._ordered
        begin = (time - time[0]) / NS_PER_S
        end = np.append(begin[1:], begin[-1:])
        if self.hold_ns is not None:
            end = np.minimum(np.append(begin[1:], np.inf), begin + self.hold_ns / NS_PER_S)
        known = np.isfinite(value)
        span = np.where(known, end - begin, 0.0)
        knots = np.stack([begin, end], axis=1).reshape(-1)
        zero = np.zeros(len(span))
        covered = np.cumsum(np.stack([zero, span], axis=1).reshape(-1))
        total = np.cumsum(np.stack([zero, span * np.where(known, value, 0.0)], axis=1).reshape(-1))
        return knots, total, covered

    def mean(self, begin_ns: Times, end_ns: Times) -> tuple[Array, Array]:
        """Return the means over intervals, and how much of each the series covers.

        Parameters
        ----------
        begin_ns, end_ns : ndarray of int64, ns since 1970, shape (n_intervals,)

        Returns
        -------
        mean : ndarray of float64, shape (n_intervals,)
            Over the time that is covered; NaN where none is.
        covered : ndarray of float64, shape (n_intervals,)
            Share of the interval, 0 to 1; 0 for an empty one.
        """
        time, _ = self._ordered
        if not len(time):
            return np.full(len(begin_ns), np.nan), np.zeros(len(begin_ns))
        knots, total, covered = self._integrals
        low, high = ((each - time[0]) / NS_PER_S for each in (begin_ns, end_ns))
        amount = np.interp(high, knots, total) - np.interp(low, knots, total)
        seconds = np.interp(high, knots, covered) - np.interp(low, knots, covered)
        some = seconds > 1e-9  # a nanosecond: less is the rounding of the sums
        mean = np.where(some, amount / np.where(some, seconds, 1.0), np.nan)
        return mean, np.where(high > low, seconds / np.where(high > low, high - low, 1.0), 0.0)


def quartiles(group: Numbers, value: Array, groups: int) -> Array:
    """Return the quartiles of each group, as numpy.quantile (method linear) gives them.

    Parameters
    ----------
    group : ndarray of int64, shape (n,)
        From 0 to groups - 1; a negative group belongs to none.
    value : ndarray of float64, shape (n,)
        NaN belongs to none.
    groups : int

    Returns
    -------
    ndarray of float64, shape (3, groups)
        NaN for a group without a value.
    """
    kept: Mask = (group >= 0) & np.isfinite(value)
    group, value = group[kept], value[kept]
    order = np.lexsort([value, group])
    group, value = group[order], value[order]
    counts = np.bincount(group, minlength=groups)
    first = np.cumsum(counts) - counts
    result = np.full((3, groups), np.nan)
    some = counts > 0
    for number, share in enumerate((0.25, 0.5, 0.75)):
        place = first[some] + share * (counts[some] - 1)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, first[some] + counts[some] - 1)
        result[number, some] = value[low] + (place - low) * (value[high] - value[low])
    return result


def medians(samples: Samples, begin_ns: Times, end_ns: Times) -> tuple[Array, Numbers]:
    """Return the median of the samples in each interval, and how many there are.

    Parameters
    ----------
    samples : Samples
        By time, all known (`Samples.known`).
    begin_ns, end_ns : ndarray of int64, ns since 1970, shape (n_intervals,)
        The end does not belong to the interval; intervals may overlap.

    Returns
    -------
    median : ndarray of float64, shape (n_intervals,)
        NaN without a sample.
    count : ndarray of int64, shape (n_intervals,)
    """
    time, value = samples
    first, last = np.searchsorted(time, begin_ns), np.searchsorted(time, end_ns)
    count = np.maximum(last - first, 0)
    median = np.full(len(count), np.nan)
    rows = np.flatnonzero(count)
    chunks = np.flatnonzero(np.diff(np.cumsum(count[rows]) // _AT_ONCE) > 0) + 1
    for chosen in np.split(rows, chunks):
        size = count[chosen]
        group = np.repeat(np.arange(len(chosen)), size)
        place = (
            np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size) + np.repeat(first[chosen], size)
        )
        median[chosen] = quartiles(group, value[place], len(chosen))[1]
    return median, count


_AT_ONCE = 1_000_000
"""Samples that are sorted at once: 8 MB a column."""


BACK_NS = 5 * NS_PER_S
"""As for the messages of a diagnostic log: loggers write some rows of one second in another order."""
_MOST = 5
"""A log with more of them has rows in no order, not a clock that was set so often. Not measured."""


def pieces_of(table: Table) -> Numbers:
    """Return the number of the piece of each row, which rises where the time goes back from line to line.

    Parameters
    ----------
    table : Table
        With `time_ns` and `line`, in any order. One without the path of its log in its provenance may be of
        several, whose lines have no order: it is one piece.

    Returns
    -------
    ndarray of int64, shape (n_rows,)
    """
    piece = np.zeros(len(table), dtype=np.int64)
    timed = np.flatnonzero(table["time_ns"] != NOT_A_TIME)
    timed = timed[np.argsort(table["line"][timed], kind="stable")]
    back = np.diff(table["time_ns"][timed]) < -BACK_NS
    if is_newest_first(table["time_ns"][timed]):
        return piece
    if "path" in table.provenance and 0 < int(back.sum()) <= _MOST:
        piece[timed[1:]] = np.cumsum(back)
    return piece


def is_newest_first(time_ns: Times) -> bool:
    """Return whether a log was written, or exported, with its newest line first.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n_rows,)
        In the order of its lines.
    """
    steps = np.diff(time_ns)
    return int((steps < 0).sum()) > int((steps > 0).sum())


def overtaken(time_ns: Times, piece: Numbers) -> Mask:
    """Return which rows lie in the time of a later piece: of two rows of one time the later one counts.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n_rows,)
        NOT_A_TIME lies in none.
    piece : ndarray of int64, shape (n_rows,)
    """
    result = np.zeros(len(time_ns), dtype=bool)
    for later in range(1, int(piece.max(initial=0)) + 1):
        times = time_ns[(piece == later) & (time_ns != NOT_A_TIME)]
        result |= (piece < later) & (time_ns >= times.min()) & (time_ns <= times.max())
    return result
