"""Steps of the capture's clock, seen against the clocks of TCP timestamps (RFC 7323, section 5.4).

A sender's timestamps run on at a constant rate, between 1 Hz and 1 kHz, whatever somebody does to the clock
of the capturing host. Between two segments of one sender the two clocks must have advanced alike.

How fast a sender's timestamps tick is known by the time and the ticks between its segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from multitracer.analysis.segments.stamp_spread import stamps_of
from multitracer.native import kernel
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis.connections import Partition
    from multitracer.capture import Capture
    from multitracer.native import Kernel
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


class StampRate(NamedTuple):
    """The clock of a sender's timestamps."""

    measured_hz: float
    nominal_hz: int
    """The usual rate that is nearest."""

    @property
    def limits(self) -> dict[str, float]:
        """By how much the time between two stamped segments may differ from what their ticks say."""
        return {
            "tick_ns": NS_PER_S / self.nominal_hz,
            "least_ns": SMALLEST_STEP_NS,
            "skew": _LARGEST_SKEW,
            "resolution_ns": 2 * NS_PER_S / self.measured_hz,
        }


def stamp_rate(calm: int, spent_ns: int, ticked: int) -> StampRate | None:
    """Return the rate that pauses without room for a step show; None if it is not known.

    Parameters
    ----------
    calm : int
        How many such pauses there are.
    spent_ns, ticked : int
        The sums of their time, and of their ticks.
    """
    rate_hz = ticked * NS_PER_S / spent_ns if spent_ns > 0 else 0.0
    nominal = _nominal(rate_hz)
    return None if calm < _LEAST_CALM or nominal is None else StampRate(rate_hz, nominal)


def _nominal(rate_hz: float) -> int | None:
    """Return the usual rate nearest to the measured one, which queues make too low or too high; None far off.

    The short gaps of packets that a link bunches are those in which ticks seem to run fast: 2 Hz as 3.1 Hz.
    """
    nearest = min(_USUAL_RATES_HZ, key=lambda usual: abs(usual - rate_hz))
    return nearest if abs(nearest - rate_hz) < _QUEUE_SKEW * nearest else None


_AT_ONCE = 1 << 16
"""Segments looked at together, so that a long transfer needs no more memory for this."""


class StampedGaps(Protocol):
    """What passed between a sender's stamped segments: time of the capture's clock, and ticks of its own."""

    def calm(self) -> tuple[int, int, int]:
        """Return of those without room for a step how many there are, and the sums of time and ticks."""

    def odd(self, limits: dict[str, float]) -> Array:
        """Return which of them differ by more than limits say: int64, shape (n,), ascending."""

    def each(self) -> Iterator[tuple[Array, Array]]:
        """Yield the times in ns, and the ticks, both int64; some at a time."""


def clock_steps(capture: Capture, parts: Partition, directions: Table) -> Array:
    """Return by how many ns the capture's clock stepped, as the busiest senders of timestamps show it.

    A step shows in the timestamps of both hosts of a connection; what only one of them shows is its queue.

    Returns
    -------
    ndarray of int64, ns, shape (n_steps,)
        Below 0 where the clock was set back; empty where nothing can be seen.
    """
    return steps_by(directions, _pauses_in(capture, parts))


def steps_by(directions: Table, pauses: Callable[[int], StampedGaps]) -> Array:
    """Return what `clock_steps` does.

    Parameters
    ----------
    directions : Table
        DIRECTIONS of a capture.
    pauses : callable
        What returns those between the stamped segments of a direction.
    """
    busiest, packets = busiest_sender(directions)
    if packets < LEAST_SEGMENTS:
        return np.empty(0, dtype=np.int64)
    return _steps_of(directions, pauses, busiest)


def busiest_sender(directions: Table) -> tuple[int, int]:
    """Return the direction with most segments among those with timestamps, and how many; 0 without any."""
    packets = np.where(directions["timestamps"], directions["packets"], 0)
    busiest = int(np.argmax(packets)) if len(packets) else 0
    return busiest, int(packets[busiest]) if len(packets) else 0


def steps_of(capture: Capture, parts: Partition, directions: Table, direction: int) -> Array:
    """Return the steps that the senders of a direction's connection show: int64, ns, shape (n_steps,)."""
    return _steps_of(directions, _pauses_in(capture, parts), direction)


def _pauses_in(capture: Capture, parts: Partition) -> Callable[[int], StampedGaps]:
    return lambda direction: pauses_of(*stamps_of(parts.rows_sent(direction), capture))


def _steps_of(directions: Table, pauses: Callable[[int], StampedGaps], direction: int) -> Array:
    packets = np.where(directions["timestamps"], directions["packets"], 0)
    senders = [d for d in (direction, direction ^ 1) if packets[d] >= LEAST_SEGMENTS]
    by_sender = [steps for d in senders if (steps := _seen_by(pauses(d))) is not None]
    return min(by_sender, key=len, default=np.empty(0, dtype=np.int64))


def _seen_by(pauses: StampedGaps) -> Array | None:
    """Return the steps that the timestamps of a direction show; None if their rate is not known.

    That is where the time differs from the ticks by more than rates and resolution explain.
    """
    rate = stamp_rate(*pauses.calm())
    if rate is None:
        return None
    limits = rate.limits
    at = pauses.odd(limits)
    if not len(at):
        return np.empty(0, dtype=np.int64)
    differs = [elapsed - ticks * limits["tick_ns"] for elapsed, ticks in pauses.each()]
    return _lasting(np.concatenate(differs), at).astype(np.int64)


def pauses_of(time_ns: Array, stamp: Array) -> StampedGaps:
    """Return what passed between segments of which times and timestamps are known."""
    native = kernel()
    return _Pauses(time_ns, stamp) if native is None else _PausesByKernel(time_ns, stamp, native)


@dataclass(frozen=True)
class _Pauses:
    time_ns: Array
    stamp: Array

    def calm(self) -> tuple[int, int, int]:
        calm = spent = ticked = 0
        for elapsed, ticks in self.each():
            short = np.abs(elapsed) < SMALLEST_STEP_NS
            calm += int(np.count_nonzero(short))
            spent, ticked = spent + int(elapsed[short].sum()), ticked + int(ticks[short].sum())
        return calm, spent, ticked

    def odd(self, limits: dict[str, float]) -> Array:
        at = [np.empty(0, dtype=np.int64)]
        for number, (elapsed, ticks) in enumerate(self.each()):
            expected = ticks * limits["tick_ns"]
            bound = limits["least_ns"] + limits["skew"] * np.abs(expected) + limits["resolution_ns"]
            step = (np.abs(elapsed - expected) > bound) & (ticks >= 0)
            at.append(np.flatnonzero(step) + number * _AT_ONCE)
        return np.concatenate(at)

    def each(self) -> Iterator[tuple[Array, Array]]:
        for begin in range(0, len(self.time_ns) - 1, _AT_ONCE):
            here = slice(begin, begin + _AT_ONCE + 1)
            yield np.diff(self.time_ns[here]), np.diff(self.stamp[here]).view(np.int32).astype(np.int64)


@dataclass(frozen=True)
class _PausesByKernel(_Pauses):
    native: Kernel

    def calm(self) -> tuple[int, int, int]:
        return self.native.calm_stamps(self.time_ns, self.stamp, SMALLEST_STEP_NS)

    def odd(self, limits: dict[str, float]) -> Array:
        return self.native.stamp_disagreements(self.time_ns, self.stamp, **limits)


def _lasting(differs: Array, at: Array) -> Array:
    """Return those of the jumps at `at` after which even the least delayed segments are off by as much.

    A queue that fills or drains delays the segments behind it, but not for good: its least delay stays.
    """
    offset = np.concatenate([[0.0], np.cumsum(differs)])
    least = np.minimum.reduceat(offset, np.concatenate([[0], at + 1]))
    kept = np.abs(np.diff(least) - differs[at]) < np.abs(differs[at]) / 2
    lasting: Array = differs[at[kept]]
    return lasting
