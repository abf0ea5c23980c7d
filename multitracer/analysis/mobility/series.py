"""Time series: steps hold their values until the next row, samples do not. Quartiles of groups.

A log whose clock stepped backwards (a correction of seconds, or an hour of daylight saving time in local
time) has rows without a common order in time. The rows before and after the step belong to two blocks;
nothing is joined, interpolated or compared across blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Table, Times


class Samples(NamedTuple):
    """Values at instants, such as round-trip times."""

    time_ns: Times
    """Shape (n,), ns since 1970, in any order."""
    value: Array
    """Shape (n,), float64; NaN where there is no sample."""

    def known(self) -> Samples:
        """Return the rows that have a time and a value, sorted by time."""
        rows = np.flatnonzero((self.time_ns != NOT_A_TIME) & np.isfinite(self.value))
        rows = rows[np.argsort(self.time_ns[rows], kind="stable")]
        return Samples(self.time_ns[rows], np.asarray(self.value[rows], dtype=np.float64))


@dataclass(frozen=True)
class Steps:
    """A quantity whose values hold from one row to the next, such as a rate.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n,)
        In any order; of rows with equal times the last one counts.
    value : ndarray of float64, shape (n,)
        NaN: unknown from this time on.
    hold_ns : int, optional
        Maximum time for which a value holds; None for a series with a row for each change (RATES).
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
        """Return three arrays with an element for each time at which the value changes.

        They are the time (s after the first row), the integral of the value up to then, and the covered time (s).
        """
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
        """Return the means over intervals, and the share of each interval that the series covers.

        Parameters
        ----------
        begin_ns, end_ns : ndarray of int64, ns since 1970, shape (n_intervals,)

        Returns
        -------
        mean : ndarray of float64, shape (n_intervals,)
            Mean over the covered time; NaN where nothing is covered.
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


def payload_rate(
    time_ns: Times, payload_bytes: Numbers, *, step_ns: int = NS_PER_S, of: Mask | None = None, is_utc: bool = False
) -> Steps | None:
    """Return the rate of TCP payload in a capture, both directions, per interval; None without a time.

    Parameters
    ----------
    time_ns, payload_bytes : ndarray of int64, shape (n_segments,)
        Of its segments; segments without a time or a payload do not count.
    step_ns : int
        Length of an interval.
    of : ndarray of bool, shape (n_segments,), optional
        The segments that count; the intervals are those of all segments, so that rates of parts add up.
    is_utc : bool
        Whether the intervals are those of UTC; by default the first one begins with the first payload.

    Returns
    -------
    Steps
        bit/s; an interval without payload is 0.
    """
    rows = np.flatnonzero((time_ns != NOT_A_TIME) & (payload_bytes > 0))
    if not len(rows):
        return None
    first_ns = int(time_ns[rows].min())
    first_ns -= first_ns % step_ns if is_utc else 0
    number = (time_ns[rows] - first_ns) // step_ns
    if int(number.max()) * step_ns > _LONGEST_S * NS_PER_S:
        return None
    counted = payload_bytes[rows] if of is None else payload_bytes[rows] * of[rows]
    payload = np.bincount(number, weights=counted)
    edges = first_ns + np.arange(len(payload)) * step_ns
    return Steps(edges, payload * BITS_PER_BYTE * (NS_PER_S / step_ns), step_ns)


_LONGEST_S = 10 * 86_400
"""Maximum duration of a drive in s, ten days: a longer capture would need too much memory."""


def quartiles(group: Numbers, value: Array, groups: int) -> Array:
    """Return the quartiles of each group, as numpy.quantile (method linear) gives them.

    Parameters
    ----------
    group : ndarray of int64, shape (n,)
        From 0 to groups - 1; rows with a negative number are ignored.
    value : ndarray of float64, shape (n,)
        Rows with NaN are ignored.
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
    """Return the median and the number of the samples in each interval.

    Parameters
    ----------
    samples : Samples
        Sorted by time, without unknown ones (`Samples.known`).
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
        place = np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size) + np.repeat(first[chosen], size)
        median[chosen] = quartiles(group, value[place], len(chosen))[1]
    return median, count


_AT_ONCE = 1_000_000
"""Maximum number of samples sorted together: 8 MB a column."""


BACK_NS = 5 * NS_PER_S
"""Minimum backward step of a clock, ns; loggers write some rows of one second in another order, as do diagnostic logs.
"""
_MOST = 5
"""Maximum number of backward steps; a log with more has unsorted rows, not a clock that was set so often. Not measured.
"""


def chunks_of(table: Table) -> Numbers:
    """Return the number of the block of each row; a new block begins where the clock stepped backwards.

    Parameters
    ----------
    table : Table
        A table with `time_ns` and `line`, in any order. Without the path of its log in the provenance, it may
        come from several logs, whose lines have no common order; it is then one block.

    Returns
    -------
    ndarray of int64, shape (n_rows,)
    """
    chunk = np.zeros(len(table), dtype=np.int64)
    timed = np.flatnonzero(table["time_ns"] != NOT_A_TIME)
    timed = timed[np.argsort(table["line"][timed], kind="stable")]
    back = np.diff(table["time_ns"][timed]) < -BACK_NS
    if is_newest_first(table["time_ns"][timed]):
        return chunk
    if "path" in table.provenance and 0 < int(back.sum()) <= _MOST:
        chunk[timed[1:]] = np.cumsum(back)
    return chunk


def is_newest_first(time_ns: Times) -> bool:
    """Return whether a log has its newest line first.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n_rows,)
        In the order of its lines.
    """
    steps = np.diff(time_ns)
    return int((steps < 0).sum()) > int((steps > 0).sum())


def overtaken(time_ns: Times, chunk: Numbers) -> Mask:
    """Return which rows have a time that lies in the time range of a later block.

    Two blocks overlap in time if the clock stepped backwards between them. Of two rows of equal time the
    later one counts.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n_rows,)
        NOT_A_TIME lies in no range.
    chunk : ndarray of int64, shape (n_rows,)
    """
    result = np.zeros(len(time_ns), dtype=bool)
    for later in range(1, int(chunk.max(initial=0)) + 1):
        times = time_ns[(chunk == later) & (time_ns != NOT_A_TIME)]
        result |= (chunk < later) & (time_ns >= times.min()) & (time_ns <= times.max())
    return result
