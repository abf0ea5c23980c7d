"""Steps of the capture's clock, seen against the clocks of TCP timestamps (RFC 7323, section 5.4).

A sender's timestamps run on at a constant rate, between 1 Hz and 1 kHz, whatever somebody does to the clock
of the capturing host. Between two segments of one sender the two clocks must have advanced alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.segments.stamp_spread import stamps_of
from multitracer.analysis.trust.stamp_rate import LEAST_SEGMENTS, SMALLEST_STEP_NS, stamp_rate
from multitracer.native import kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis.counted import Counted
    from multitracer.analysis.segments.stamp_spread import Stamped
    from multitracer.analysis.trust.stamp_rate import StampRate
    from multitracer.tables import Array, Table

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
    rate = stamp_rate(*_calm(time_ns, stamp))
    return None if rate is None else _disagreements(time_ns, stamp, rate)


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


def _disagreements(time_ns: Array, stamp: Array, rate: StampRate) -> Array:
    """Return where the time differs from the ticks by more than rates and resolution explain."""
    limits = rate.limits
    at = _odd_pauses(time_ns, stamp, limits)
    if not len(at):
        return np.empty(0, dtype=np.int64)
    each = [elapsed - ticks * limits["tick_ns"] for elapsed, ticks in _between(time_ns, stamp)]
    return _lasting(np.concatenate(each), at).astype(np.int64)


def _odd_pauses(time_ns: Array, stamp: Array, limits: dict[str, float]) -> Array:
    """Return behind which segments time and ticks disagree: int64, shape (n,), ascending."""
    if (native := kernel()) is not None:
        return native.stamp_disagreements(time_ns, stamp, **limits)
    at = [np.empty(0, dtype=np.int64)]
    for number, (elapsed, ticks) in enumerate(_between(time_ns, stamp)):
        expected = ticks * limits["tick_ns"]
        bound = limits["least_ns"] + limits["skew"] * np.abs(expected) + limits["resolution_ns"]
        step = (np.abs(elapsed - expected) > bound) & (ticks >= 0)
        at.append(np.flatnonzero(step) + number * _AT_ONCE)
    return np.concatenate(at)


def _lasting(differs: Array, at: Array) -> Array:
    """Return those of the jumps at `at` after which even the least delayed segments are off by as much.

    A queue that fills or drains delays the segments behind it, but not for good: its least delay stays.
    """
    offset = np.concatenate([[0.0], np.cumsum(differs)])
    least = np.minimum.reduceat(offset, np.concatenate([[0], at + 1]))
    kept = np.abs(np.diff(least) - differs[at]) < np.abs(differs[at]) / 2
    lasting: Array = differs[at[kept]]
    return lasting
