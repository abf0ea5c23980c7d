"""Time series of a session, resampled to bins of equal width on the session's clock.

A bin without data is NaN; nothing is interpolated. The value of a bin depends on the kind of the rows:

==========  ==========================================================================================
kind        value of a bin
==========  ==========================================================================================
reading     the mean of its readings; if readings are rarer than bins, the last valid one
steps       the time-weighted mean of a value that holds until the next row; half must be known
samples     the mean of the samples in it
amounts     their sum, per second; 0 in an empty bin between the first and the last amount
counter     the increase of a running total, per second; NaN in a gap of its readings
==========  ==========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.series import Samples, Steps
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.tables import Array, Times

_MIN_AMOUNTS = 8
"""The minimum number of amounts in a typical bin: one packet more or less then changes it by 12 %. Not measured."""
MIN_STEP_NS = NS_PER_S // 10
"""The minimum width of bins if the user chose none: phones read their radio no more often. Not measured."""
MOST_BINS = 200_000
"""The maximum number of bins: two days of seconds. The statistics of more bins take minutes. Not measured."""
_LATE = 0.95
"""Tolerance of the bin width: a logger polled each second answers every 1.00 to 1.05 s and gets bins of 1 s, not 2 s.
Not measured."""
_MIN_IN_STEP = 0.5  # resultant length, 1: all readings at one place of their bins, 0: anywhere; not measured
_MIN_COVERED = 0.5  # of a bin, so that its mean is one of that bin; as of the seconds of a drive


class QuantityKind(StrEnum):
    """What the rows of a quantity are; the table at the top of this file defines the value of a bin."""

    READING = "reading"
    STEPS = "steps"
    SAMPLES = "samples"
    AMOUNTS = "amounts"
    COUNTER = "counter"

    @property
    def words(self) -> str:
        """Return a text for users that describes how the value of a bin is computed."""
        return _WORDS[self]

    @property
    def is_rate(self) -> bool:
        """Return whether the value of a bin is a rate per second (kinds "amounts" and "counter")."""
        return self in (QuantityKind.AMOUNTS, QuantityKind.COUNTER)


_WORDS = {
    QuantityKind.READING: "mean of the readings in a bin",
    QuantityKind.STEPS: "mean over the time of a bin",
    QuantityKind.SAMPLES: "mean of the samples in a bin",
    QuantityKind.AMOUNTS: "sum over a bin, per second",
    QuantityKind.COUNTER: "rise over a bin, per second",
}


@dataclass(frozen=True)
class SessionQuantity:
    """A quantity of one session over time, on the session's clock.

    Attributes
    ----------
    name : str
        The name in tables and figures, for example `TcpSnd_goodput` or `radio.rsrp_dbm`.
    kind : QuantityKind
    time_ns : ndarray of int64, ns since 1970, shape (n,)
        In any order; NOT_A_TIME where missing.
    value : ndarray of float64, shape (n,)
        NaN where missing.
    unit : str
        Of `value`.
    hold_ns : int, optional
        Maximum time for which a reading, a step or a running total stays valid; None: until the next row.
    source : str
        The name of the log or capture that recorded it.
    host : str
        The host whose clock stamped the rows.
    bound_ns : float
        Half-width of the 95 % interval of its times on the session's clock; 0 if the host's clock is the
        session's clock.
    """

    name: str
    kind: QuantityKind
    time_ns: Times
    value: Array
    unit: str = ""
    hold_ns: int | None = None
    source: str = ""
    host: str = ""
    bound_ns: float = 0.0

    @cached_property
    def known(self) -> Samples:
        """The rows that have both a time and a value, sorted by time."""
        return Samples(self.time_ns, self.value).known()

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """The first and the last time with a known value, ns since 1970; None if no row has a value."""
        time = self.known.time_ns
        return (int(time[0]), int(time[-1])) if len(time) else None

    @property
    def typical_ns(self) -> float:
        """The median time between neighbouring rows, in ns; 0 if there are not two different times.

        For a quantity of kind "amounts" it is the mean time of 8 rows, because a rate needs about 8 rows. It is 0
        for steps that hold until the next row, because their value is known at each time between.
        """
        if self.kind is QuantityKind.STEPS and self.hold_ns is None:
            return 0.0
        time = self.known.time_ns
        apart = np.diff(time)
        apart = apart[apart > 0]
        if not len(apart):
            return 0.0
        if self.kind is QuantityKind.AMOUNTS:
            return _MIN_AMOUNTS * float(time[-1] - time[0]) / len(time)
        return float(np.median(apart))


class TimeBins(NamedTuple):
    """Consecutive bins of one width."""

    origin_ns: int
    """Start of the first bin, ns since 1970."""
    step_ns: int
    bins: int

    @property
    def edges_ns(self) -> Times:
        """The start of each bin and the end of the last one: int64, ns since 1970, shape (bins + 1,)."""
        return self.origin_ns + self.step_ns * np.arange(self.bins + 1, dtype=np.int64)


def step_ns_of(quantities: Sequence[SessionQuantity]) -> int:
    """Return the width of the bins for a comparison of quantities, in ns.

    It is a little longer than the longest typical interval between rows of any quantity, and rounded up.

    Returns
    -------
    int
        1, 2 or 5 times a power of ten, at least a tenth of a second.
    """
    slowest = max((each.typical_ns for each in quantities), default=0.0)
    minimum = max(round(_LATE * slowest), MIN_STEP_NS)
    power = 10 ** (len(str(minimum)) - 1)
    return int(next(step * power for step in (1, 2, 5, 10) if step * power >= minimum))


def grid_of(quantities: Sequence[SessionQuantity], step_ns: int, *, margin_ns: int = 0) -> tuple[TimeBins | None, str]:
    """Return a grid over the time that all quantities have in common, or the reason why there is none.

    Parameters
    ----------
    quantities : sequence of SessionQuantity
        At least one.
    step_ns : int
        Width of the bins, > 0. Their edges lie between the readings of the slowest quantity. Otherwise a
        reading that comes a little early leaves its bin empty, and the next bin gets two.
    margin_ns : int
        Extension of the grid beyond the common time on each side, for lags.

    Returns
    -------
    (TimeBins or None, str)
        The reason is empty if there is a grid.
    """
    spans = []
    for each in quantities:
        if each.span_ns is None:
            return None, f"{each.name} has no value with a time"
        spans.append((each.span_ns[0], each.span_ns[1] + (each.hold_ns or 0)))
    first, last = max(begin for begin, _ in spans), min(end for _, end in spans)
    if last < first:
        return None, f"{' and '.join(each.name for each in quantities)} have no time in common"
    phase_ns = _phase_ns(quantities, step_ns)
    low = (max(first - margin_ns, min(begin for begin, _ in spans)) - phase_ns) // step_ns
    high = (min(last + margin_ns, max(end for _, end in spans)) - phase_ns) // step_ns
    if high - low + 1 > MOST_BINS:
        return None, (
            f"the common time has {high - low + 1:,} bins of {step_ns / NS_PER_S:g} s, at most {MOST_BINS:,} "
            "can be compared; choose wider bins or a part of the time"
        )
    return TimeBins(int(low) * step_ns + phase_ns, step_ns, int(high - low) + 1), ""


def _phase_ns(quantities: Sequence[SessionQuantity], step_ns: int) -> int:
    """Return by how many ns all bin borders are shifted, so that readings lie in the middle of the bins.

    Without a shift, the borders are multiples of `step_ns`. The result is 0 if the readings lie at no typical
    position in their bins, for example because the logger's interval differs a little from `step_ns`.
    """
    readings = [each for each in quantities if each.kind is QuantityKind.READING]
    if not readings:
        return 0
    slowest = max(readings, key=lambda each: each.typical_ns)
    turn = np.exp(2j * np.pi * ((slowest.known.time_ns % step_ns) / step_ns)).mean()
    if abs(turn) < _MIN_IN_STEP:
        return 0
    place = float(np.angle(turn)) / (2 * np.pi)
    return round((place + 0.5) % 1.0 * step_ns) % step_ns


def on_grid(quantity: SessionQuantity, grid: TimeBins) -> Array:
    """Return the value of a quantity in each bin of a grid.

    Returns
    -------
    ndarray of float64, shape (grid.bins,)
        In the unit of the quantity; amounts and counters per second. NaN in a bin without a value.
    """
    time = quantity.known.time_ns
    if not len(time):
        return np.full(grid.bins, np.nan)
    return _BINNED[quantity.kind](quantity, grid)


def _means(time: Times, value: Array, grid: TimeBins) -> Array:
    """Return the mean of the values in each bin; NaN in an empty bin."""
    row = (time - grid.origin_ns) // grid.step_ns
    inside = (row >= 0) & (row < grid.bins)
    number = np.bincount(row[inside], minlength=grid.bins)
    total = np.bincount(row[inside], value[inside], minlength=grid.bins)
    mean: Array = np.divide(total, number, out=np.full(grid.bins, np.nan), where=number > 0)
    return mean


def _samples(quantity: SessionQuantity, grid: TimeBins) -> Array:
    return _means(*quantity.known, grid)


def _readings(quantity: SessionQuantity, grid: TimeBins) -> Array:
    """Return the mean of the readings in each bin: float64, shape (grid.bins,).

    A bin without a reading is NaN, unless the bins are narrower than the interval between readings: then it
    gets the last valid reading. In wider bins, a repeated reading would make all quantities of the same log
    constant at the same time, and they would seem to depend on each other.
    """
    time, value = quantity.known
    mean = _means(time, value, grid)
    if grid.step_ns >= _LATE * quantity.typical_ns:
        return mean
    begin = grid.edges_ns[:-1]
    before = np.searchsorted(time, begin, side="right") - 1
    last = np.maximum(before, 0)
    holds = before >= 0
    if quantity.hold_ns is not None:
        holds &= begin - time[last] <= quantity.hold_ns
    else:
        holds &= begin <= time[-1]
    return np.where(np.isnan(mean) & holds, value[last], mean)


def _steps(quantity: SessionQuantity, grid: TimeBins) -> Array:
    edges = grid.edges_ns
    mean, covered = Steps(*quantity.known, quantity.hold_ns).mean(edges[:-1], edges[1:])
    return np.where(covered >= _MIN_COVERED, mean, np.nan)


def _amounts(quantity: SessionQuantity, grid: TimeBins) -> Array:
    """Return the sum of the amounts in each bin, per second; NaN outside of the first and last amount."""
    time, value = quantity.known
    row = (time - grid.origin_ns) // grid.step_ns
    inside = (row >= 0) & (row < grid.bins)
    total = np.bincount(row[inside], value[inside], minlength=grid.bins) * (NS_PER_S / grid.step_ns)
    edges = grid.edges_ns
    complete = (edges[:-1] >= time[0]) & (edges[1:] <= time[-1])
    return np.where(complete, total, np.nan)


def _rises(quantity: SessionQuantity, grid: TimeBins) -> Array:
    """Return the increase of a running total in each bin, per second; NaN where the total fell (a reset)."""
    time, value = quantity.known
    last = np.append(time[1:] != time[:-1], True)
    time, value = time[last], value[last]
    edges = grid.edges_ns
    at_edges = np.interp((edges - time[0]).astype(np.float64), (time - time[0]).astype(np.float64), value)
    known = (edges >= time[0]) & (edges <= time[-1])
    rise = np.diff(at_edges) * (NS_PER_S / grid.step_ns)
    complete = known[:-1] & known[1:] & (rise >= 0)
    bad = np.diff(value) < 0
    if quantity.hold_ns is not None:
        bad |= np.diff(time) > quantity.hold_ns
    broken = np.flatnonzero(bad)
    begun = np.searchsorted(time[broken], edges[1:], side="left")
    over = np.searchsorted(time[broken + 1], edges[:-1], side="right")
    return np.where(complete & (begun <= over), rise, np.nan)


_BINNED: dict[QuantityKind, Callable[[SessionQuantity, TimeBins], Array]] = {
    QuantityKind.READING: _readings,
    QuantityKind.STEPS: _steps,
    QuantityKind.SAMPLES: _samples,
    QuantityKind.AMOUNTS: _amounts,
    QuantityKind.COUNTER: _rises,
}
