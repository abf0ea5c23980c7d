"""Clock steps hidden by full queues: no packet near the step shows it, but no line fits all packets.

Every packet has a positive delay. For two clocks without a step there is a line, ``B - A = offset + skew *
t``, on which all delays are positive. If there is no such line for any skew of a quartz, a clock stepped. The
size of the step comes from the minimum delays of all packets before and after: a step shifts those of the two
directions by the same amount with opposite signs. The place comes from the packets next to it, after the
queue of their own host is subtracted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.steps import CLOCKS, SMALLEST_STEP_NS, ClockLabel, Step, placed, rows_of, without
from multitracer.clock.model.skew_posterior import LARGEST_SKEW
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.clock.captures.directions import MatchedDirection, Ways
    from multitracer.tables import Array


_SKEWS = 41
"""Number of skews that are tried, 25 ppm apart: in ten minutes half of that changes a delay by 8 ms, less than the
smallest step."""
_BESIDE = 3
"""Number of packets on each side of a place whose median gives the step there."""
_PART = 0.6
"""Maximum unexplained share of a step at the best place; with more, that place is no better than others."""
_MOST_PLACES, _TRIED = 5_000, 40
"""Maximum number of places that are examined, and of the best ones that are fitted, to bound the time. Not measured."""
_RIVAL = 0.2
"""A place with at most this much more unexplained than the best one may be the true place."""
_ALIKE = 0.1
"""Maximum relative difference between the steps that the minimum delays of the two directions show at such a place."""
_MIN_ERROR_NS = NS_PER_MS


def missing_ns(ways: Ways) -> float:
    """Return the maximum time by which a packet seems to arrive before it was sent, ns.

    Offset and skew of the clocks are chosen so that this time is as small as possible.
    """
    skews = np.linspace(-LARGEST_SKEW, LARGEST_SKEW, _SKEWS)
    missing = np.inf
    for skew in sorted(skews.tolist(), key=abs):
        took = sum(float((w.delay_ns - w.sign * skew * w.time_ns).min()) for w in (ways.out, ways.back))
        missing = min(missing, -took)
        if missing <= 0:
            return 0.0
    return missing


def hidden_step(flat: Ways, free: Ways, skew: float, *, slot_ns: float) -> Step | None:
    """Return the clock step that explains why packets seem to arrive before they are sent.

    It is None if no step explains it.

    Parameters
    ----------
    flat : Ways
        The packets without the known steps, and without their transmission times.
    free : Ways
        The same, without the queue of their own host.
    skew : float
        Approximate skew of B relative to A.
    slot_ns : float
        Time between two slots of the link, 0 for none; it limits the accuracy of a step from minimum delays.
    """
    if min(len(flat.out), len(flat.back)) < 2 * _BESIDE:
        return None
    places = [place for clock in CLOCKS for place in _places(flat, free, clock, skew)]
    places = sorted(place for place in places if place[4] <= _PART * abs(place[3]))
    best = next(
        (place for place in places[:_TRIED] if missing_ns(without(flat, _step(place, slot_ns))) < SMALLEST_STEP_NS),
        None,
    )
    if best is None:
        return None
    cost, clock, _, shift, _ = best
    vague = cost > _PART * abs(shift)
    likely = [
        its_row
        for its_cost, its_clock, its_row, _, its_error in places
        if its_clock == clock and (vague or its_cost - cost <= _RIVAL * abs(shift)) and its_error <= _ALIKE * abs(shift)
    ]
    step = _step(best, slot_ns)
    finer = placed(flat, step)
    step = finer if finer.clock == clock and missing_ns(without(flat, finer)) < SMALLEST_STEP_NS else step
    return replace(step, first_row=min([*likely, step.zone[0]]), last_row=max([*likely, step.zone[1]]))


def _step(place: tuple[float, ClockLabel, int, float, float], slot_ns: float) -> Step:
    _, clock, row, shift, error = place
    return Step(clock, row, shift, max(error, _MIN_ERROR_NS, slot_ns))


def _places(
    flat: Ways, free: Ways, clock: ClockLabel, skew: float
) -> Iterator[tuple[float, ClockLabel, int, float, float]]:
    """Yield for each possible row of a step: residual, clock, row, size of the step, and its error.

    A queue that is computed from times of the clock that stepped contains the step.
    """
    chosen = (flat.out, free.back) if clock == "a" else (free.out, flat.back)
    courses = [_Course(way, clock, skew) for way in chosen]
    rows = np.unique(np.concatenate([course.row[_BESIDE : 1 - _BESIDE] for course in courses]))
    levels, jumps = [], []
    for course in courses:
        at = np.searchsorted(course.row, rows).clip(_BESIDE, len(course.row) - _BESIDE)
        levels.append(course.min_moves(at))
        jumps.append(course.jumps(at))
    shift = (levels[0] + levels[1]) / 2
    cost = np.abs(jumps[0] - shift) + np.abs(jumps[1] - shift)
    possible = np.flatnonzero(np.abs(shift) >= SMALLEST_STEP_NS)
    for k in possible[np.argsort(cost[possible], kind="stable")[:_MOST_PLACES]]:
        error = abs(float(levels[0][k] - levels[1][k]))
        yield float(cost[k]) + error, clock, int(rows[k]), float(shift[k]), error


class _Course:
    """The delays of one direction, in packet order of one clock's capture, to measure a step at any row."""

    def __init__(self, way: MatchedDirection, clock: ClockLabel, skew: float) -> None:
        order = np.argsort(rows_of(way, clock), kind="stable")
        self.row = rows_of(way, clock)[order]
        self.sign = way.sign
        self.delay = (way.delay_ns - way.sign * skew * way.time_ns)[order]

    def min_moves(self, at: Array) -> Array:
        """Return the step of B - A at each row in `at`, from the minimum delays before and after it.

        `at` is int64, shape (n,), in the order of the capture; the result is float64, ns, shape (n,). All
        packets before and after the row are used.
        """
        before = np.minimum.accumulate(self.delay)
        behind = np.minimum.accumulate(self.delay[::-1])[::-1]
        moved: Array = self.sign * (behind[at] - before[at - 1])
        return moved

    def jumps(self, at: Array) -> Array:
        """Return the step of B - A at each row in `at`, from the median delays of the packets next to it.

        Types are those of `min_moves`; rows must be at least `_BESIDE` packets away from both ends.
        """
        window = np.lib.stride_tricks.sliding_window_view(self.delay, _BESIDE)
        middle = np.median(window, axis=1)
        jumped: Array = self.sign * (middle[at] - middle[at - _BESIDE])
        return jumped
