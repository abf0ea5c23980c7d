"""Steps of the capture's clock, seen against the clocks of TCP timestamps (RFC 7323, section 5.4).

A sender's timestamps run on at a constant rate, between 1 Hz and 1 kHz, whatever somebody does to the clock
of the capturing host. Between two segments of one sender the two clocks must have advanced alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.segments.stamp_spread import stamps_of
from multitracer.native import kernel
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis.counted import Counted
    from multitracer.analysis.segments.stamp_spread import Stamped
    from multitracer.tables import Array, Table

SMALLEST_STEP_NS = NS_PER_S // 2
"""Smaller steps are left to `time_steps_back`: ticks are coarse and hosts stamp before they queue."""
LEAST_SEGMENTS = 20  # with fewer a rate of ticks is not known well. Not measured
_LEAST_CALM = 10
"""So many segments have to follow each other without a long pause before the rate of the ticks is known."""
_LARGEST_SKEW = 0.01  # part of the time: far above the skew of any clock. Not measured
_USUAL_RATES_HZ = (1, 2, 10, 100, 250, 300, 500, 1000)
"""Rates in use: Linux ticks each ms, older kernels HZ times a second, others each 10, 100 or 500 ms."""
_QUEUE_SKEW = 0.1  # part of a usual rate: a queue that grows stretches the measured one. Not measured

_AT_ONCE = 1 << 16
"""Segments looked at together, so that a long transfer needs no more memory for this."""


def clock_steps(numbers: Counted) -> Array:
    """Return by how many ns the capture's clock stepped, as the busiest senders of timestamps show it.

    A step shows in the timestamps of both hosts of a connection; what only one of them shows is its queue.

    Returns
    -------
    ndarray of int64, ns, shape (n_steps,)
        Below 0 where the clock was set back; empty where nothing can be seen.
    """
    return steps_by(numbers.directions, _stamped_in(numbers))


def steps_by(directions: Table, stamped: Callable[[int], Stamped]) -> Array:
    """Return what `clock_steps` does.

    Parameters
    ----------
    directions : Table
        DIRECTIONS of a capture.
    stamped : callable
        What returns the times and timestamps of a direction's segments.
    """
    busiest, packets = busiest_sender(directions)
    if packets < LEAST_SEGMENTS:
        return np.empty(0, dtype=np.int64)
    return _steps_of(directions, stamped, busiest)


def busiest_sender(directions: Table) -> tuple[int, int]:
    """Return the direction with most segments among those with timestamps, and how many; 0 without any."""
    packets = np.where(directions["timestamps"], directions["packets"], 0)
    busiest = int(np.argmax(packets)) if len(packets) else 0
    return busiest, int(packets[busiest]) if len(packets) else 0


def steps_of(numbers: Counted, direction: int) -> Array:
    """Return the steps that the senders of a direction's connection show: int64, ns, shape (n_steps,)."""
    return _steps_of(numbers.directions, _stamped_in(numbers), direction)


def _stamped_in(numbers: Counted) -> Callable[[int], Stamped]:
    return lambda direction: stamps_of(numbers.partition.rows_sent(direction), numbers.capture)


def _steps_of(directions: Table, stamped: Callable[[int], Stamped], direction: int) -> Array:
    packets = np.where(directions["timestamps"], directions["packets"], 0)
    senders = [d for d in (direction, direction ^ 1) if packets[d] >= LEAST_SEGMENTS]
    by_sender = [steps for d in senders if (steps := _seen_by(*stamped(d))) is not None]
    return min(by_sender, key=len, default=np.empty(0, dtype=np.int64))


def _seen_by(time_ns: Array, stamp: Array) -> Array | None:
    """Return the steps that the timestamps of a direction show; None if their rate is not known."""
    calm, spent, ticked = _calm(time_ns, stamp)
    rate = ticked * NS_PER_S / spent if spent > 0 else 0.0
    nominal = _nominal(rate)
    if calm < _LEAST_CALM or nominal is None:
        return None
    return _disagreements(time_ns, stamp, rate, nominal)


def _calm(time_ns: Array, stamp: Array) -> tuple[int, int, int]:
    """Return of pauses without room for a step how many there are, and the sums of their time and ticks."""
    if (native := kernel()) is not None:
        return native.calm_stamps(time_ns, stamp, SMALLEST_STEP_NS)
    calm = spent = ticked = 0
    for elapsed, ticks in _between(time_ns, stamp):
        short = np.abs(elapsed) < SMALLEST_STEP_NS
        calm += int(np.count_nonzero(short))
        spent, ticked = spent + int(elapsed[short].sum()), ticked + int(ticks[short].sum())
    return calm, spent, ticked


def _between(time_ns: Array, stamp: Array) -> Iterator[tuple[Array, Array]]:
    """Yield how much time passed between neighbours, and how many ticks, both int64; some at a time."""
    for begin in range(0, len(time_ns) - 1, _AT_ONCE):
        here = slice(begin, begin + _AT_ONCE + 1)
        yield np.diff(time_ns[here]), np.diff(stamp[here]).view(np.int32).astype(np.int64)


def _disagreements(time_ns: Array, stamp: Array, rate: float, nominal: int) -> Array:
    """Return where the time differs from the ticks by more than rates and resolution explain."""
    at = _odd_pauses(time_ns, stamp, NS_PER_S / nominal, 2 * NS_PER_S / rate)
    if not len(at):
        return np.empty(0, dtype=np.int64)
    each = [elapsed - ticks * (NS_PER_S / nominal) for elapsed, ticks in _between(time_ns, stamp)]
    return _lasting(np.concatenate(each), at).astype(np.int64)


def _odd_pauses(time_ns: Array, stamp: Array, tick_ns: float, resolution_ns: float) -> Array:
    """Return behind which segments time and ticks disagree: int64, shape (n,), ascending."""
    if (native := kernel()) is not None:
        limits = {"least_ns": SMALLEST_STEP_NS, "skew": _LARGEST_SKEW, "resolution_ns": resolution_ns}
        return native.stamp_disagreements(time_ns, stamp, tick_ns=tick_ns, **limits)
    at = [np.empty(0, dtype=np.int64)]
    for number, (elapsed, ticks) in enumerate(_between(time_ns, stamp)):
        expected = ticks * tick_ns
        bound = SMALLEST_STEP_NS + _LARGEST_SKEW * np.abs(expected) + resolution_ns
        step = (np.abs(elapsed - expected) > bound) & (ticks >= 0)
        at.append(np.flatnonzero(step) + number * _AT_ONCE)
    return np.concatenate(at)


def _nominal(rate_hz: float) -> int | None:
    """Return the usual rate nearest to the measured one, which queues make too low or too high; None far off.

    The short gaps of packets that a link bunches are those in which ticks seem to run fast: 2 Hz as 3.1 Hz.
    """
    nearest = min(_USUAL_RATES_HZ, key=lambda usual: abs(usual - rate_hz))
    return nearest if abs(nearest - rate_hz) < _QUEUE_SKEW * nearest else None


def _lasting(differs: Array, at: Array) -> Array:
    """Return those of the jumps at `at` after which even the least delayed segments are off by as much.

    A queue that fills or drains delays the segments behind it, but not for good: its least delay stays.
    """
    offset = np.concatenate([[0.0], np.cumsum(differs)])
    least = np.minimum.reduceat(offset, np.concatenate([[0], at + 1]))
    kept = np.abs(np.diff(least) - differs[at]) < np.abs(differs[at]) / 2
    lasting: Array = differs[at[kept]]
    return lasting
