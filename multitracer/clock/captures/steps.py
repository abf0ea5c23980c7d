"""Clock steps between two captures: the place, the size, and the clock of each.

Rules of the file
-----------------
- A clock step shifts ``B - A`` of both directions by the same amount with the same sign, at one place in the
  clock's own capture, and permanently. A queue that fills or a radio outage shifts the two directions with
  opposite signs; a queue that drains shifts one direction, and over many packets.
- Steps of A are searched in the packet order of capture A, those of B in that of B: a packet on the path
  during a step of the other clock is on the other side of the step for one of the two clocks.
- The largest step is found first and corrected; then the next one is searched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from multitracer.clock.captures.directions import MatchedDirection, Ways

if TYPE_CHECKING:
    from multitracer.tables import Array


ClockLabel = Literal["a", "b"]
CLOCKS: tuple[ClockLabel, ClockLabel] = ("a", "b")

SMALLEST_STEP_NS = 20e6
"""Minimum size of a step, ns: drift and queues look like smaller ones."""
MOST_STEPS = 64
"""Maximum number of steps, to bound the time; the doctor reports a clock that is set more often as a saw-tooth."""
_BESIDE, _LASTING, _AROUND = 5, 15, 60
"""Number of packets on each side of a place: to measure a step, to check that it persists, and to measure the noise."""
_FEWEST = 3  # packets on a side: the median of three survives one that is wrong
_CANDIDATES = 80
"""Maximum number of candidates, to bound the time: the largest changes come first, and they are searched again after
each step."""
_MOST_PLACES = 24  # bounds the time, as above; a jump is among the first few or not found at all
_SIGMAS, _SURE = 5.0, 20.0
"""Minimum ratio of a step to the noise of the direction that shows it more clearly: for a candidate, and for a certain
step."""
_ALIKE = 0.04
"""Maximum relative difference between the steps that the minimum delays of the two directions show."""
_PART = 0.5
"""Minimum share of a step that must be visible in the packets next to it, and in the minimum delays of a minute."""
_MINUTE_NS = 60e9  # a queue drains within a minute, a clock that was set stays
_MAD_SIGMA = 1.4826  # standard deviation of a normal distribution by its median absolute deviation
_WINDOWS = (1, 2, 5, 20, 80, 320)
"""Numbers of packets in a window, each about four times the previous one: from next to the step to beyond a long queue.
"""
_CLEAR = 3  # standard deviations: what exceeds them is noise in 3 of 1,000 cases
_WIDTHS = 3  # mean distances: the least of n exponential delays lies within three in 95 % of cases
_STAMP_NS, _MIN_STAMP_NS = 5e3, 2e4
"""Uncertainty of a single time, and of a minimum delay, ns. Not measured."""
_LOWEST = 5  # values that show how dense the least delays lie. Not measured
_REST_PART = 20  # 1 ms: a direction without any noise may still move so much. Not measured


@dataclass(frozen=True, slots=True)
class Step:
    """A step of one clock.

    Parameters
    ----------
    clock : {"a", "b"}
        The clock that stepped.
    row : int
        First row of that clock's capture after the step.
    shift_ns : float
        Increase of ``B - A`` at the step.
    error_ns : float
        Half-width of the 95 % interval of `shift_ns`.
    first_row, last_row : int, optional
        The range that certainly contains `row`, if the place is uncertain.
    """

    clock: ClockLabel
    row: int
    shift_ns: float
    error_ns: float
    first_row: int | None = None
    last_row: int | None = None

    @property
    def zone(self) -> tuple[int, int]:
        """The range (first row, last row) that certainly contains the first row after the step."""
        first, last = (self.row if row is None else row for row in (self.first_row, self.last_row))
        return first, last


def find_steps(ways: Ways) -> tuple[list[Step], Ways]:
    """Return the steps of both clocks, in the order in which they were found.

    The second element has the packets with their delays corrected for all steps.
    """
    steps: list[Step] = []
    while len(steps) < MOST_STEPS:
        step = _largest(ways, steps)
        if step is None or _is_known((0.0, step.clock, step.row), steps):
            break
        steps.append(step)
        ways = without(ways, step)
    return steps, ways


def _largest(ways: Ways, known: list[Step]) -> Step | None:
    """Return the most certain step that is not yet in `known`; None if no step is certain enough.

    Row and clock of the step are those that explain the delays of the packets best.
    """
    places = [place for clock in CLOCKS for place in _places(ways, clock) if not _is_known(place, known)]
    if not places:
        return None
    best = max(score for score, _, _ in places)
    likely = [(clock, row) for score, clock, row in places if score > best / 2]
    steps = [Step(clock, row, *_measured(_courses(ways, clock), row)) for clock, row in likely]
    step = min(steps, key=lambda one: _roughness(_near(ways, one), one))
    return placed(ways, step) if abs(step.shift_ns) >= SMALLEST_STEP_NS else None


def _near(ways: Ways, step: Step) -> Ways:
    """Return the packets of both directions that were captured near a step."""
    parts = []
    for way in (ways.out, ways.back):
        i = int(np.argmax(after(way, step)))
        parts.append(way.take(np.arange(max(0, i - 2 * _AROUND), min(len(way), i + 2 * _AROUND))))
    return Ways(parts[0], parts[1], ways.first_ns, ways.base_ns)


def placed(ways: Ways, step: Step) -> Step:
    """Return the step, moved to the row and clock for which the delays near it are smoothest.

    If other rows are almost as good, the zone of the step includes them.
    """
    near = _near(ways, step)
    tried = [(_roughness(near, step), step)]
    best = tried[0]
    for clock in CLOCKS:
        rows = np.unique(np.concatenate([rows_of(way, clock) for way in (near.out, near.back)]))
        for row in rows[1:].tolist():
            other = Step(clock, row, step.shift_ns, step.error_ns)
            tried.append((_roughness(near, other), other))
            if tried[-1][0] < best[0] - abs(step.shift_ns):
                best = tried[-1]
    enough, clock = best[0] + abs(step.shift_ns), best[1].clock
    as_good = [one.row for rough, one in tried if rough <= enough and one.clock == clock]
    return replace(best[1], first_row=min(as_good), last_row=max(as_good))


def rows_of(way: MatchedDirection, clock: ClockLabel) -> Array:
    """Return for each packet its row in the capture that was made with `clock` ("a" or "b").

    Returns
    -------
    ndarray of int64, shape (n_packets,)
    """
    return way.row if clock == "a" else way.other_row


def _is_known(place: tuple[float, ClockLabel, int], known: list[Step]) -> bool:
    return any(step.clock == place[1] and step.row == place[2] for step in known)


def _places(ways: Ways, clock: ClockLabel) -> list[tuple[float, ClockLabel, int]]:
    """Return (score, clock, row) for the rows at which a clock most probably stepped."""
    courses = _courses(ways, clock)
    scored = [(_score(courses, row), clock, row) for row in _candidates(courses)]
    return sorted((place for place in scored if place[0] > 0), reverse=True)[:_MOST_PLACES]


def _roughness(near: Ways, step: Step) -> float:
    """Return how much neighbouring delays differ near a step, after the step is corrected.

    A packet that is assigned to the wrong side of the step has an error of the full step.
    """
    return sum(float(np.abs(np.diff(_without(way, step).delay_ns)).sum()) for way in (near.out, near.back))


def without(ways: Ways, step: Step) -> Ways:
    """Return the packets with their delays corrected for the step."""
    out, back = (_without(way, step) for way in (ways.out, ways.back))
    return Ways(out, back, ways.first_ns, ways.base_ns)


def after(way: MatchedDirection, step: Step) -> Array:
    """Return which packets were captured after the step, by the order of the stepping clock's capture.

    Returns
    -------
    ndarray of bool, shape (n_packets,)
    """
    later: Array = rows_of(way, step.clock) >= step.row
    return later


def certainly(way: MatchedDirection, step: Step) -> tuple[Array, Array]:
    """Return two masks: packets certainly captured before the step, and packets certainly captured after it.

    The row of a step may be uncertain; packets in its zone are in neither mask.

    Returns
    -------
    before, after : ndarray of bool, shape (n_packets,)
    """
    rows = rows_of(way, step.clock)
    first, last = step.zone
    return rows < first, rows >= last


def stretches(way: MatchedDirection, steps: list[Step]) -> list[Array]:
    """Return a mask for each interval between steps: packets that were certainly captured in it.

    Returns
    -------
    list of ndarray of bool, shape (n_packets,)
        One array more than there are steps.
    """
    number, known = np.zeros(len(way), dtype=np.int64), np.ones(len(way), dtype=bool)
    for step in steps:
        before, later = certainly(way, step)
        number, known = number + later, known & (before | later)
    return [known & (number == n) for n in range(len(steps) + 1)]


def _without(way: MatchedDirection, step: Step) -> MatchedDirection:
    shift = np.where(after(way, step), step.shift_ns, 0.0)
    time = way.time_ns + (shift if step.clock == "a" else 0.0)
    return way.shifted(way.delay_ns - way.sign * shift, time)


@dataclass(frozen=True, slots=True)
class _Course:
    """The delays of one direction in the order of one clock's capture."""

    sign: int
    row: Array
    time_ns: Array
    delay_ns: Array
    noise_ns: float

    def both_sides(self, row: int, count: int) -> tuple[Array, Array]:
        """Return two arrays: the delays of up to `count` packets before the row, and from the row on."""
        i = int(np.searchsorted(self.row, row))
        return self.delay_ns[max(0, i - count) : i], self.delay_ns[i : i + count]

    def jump(self, row: int, count: int) -> float:
        """Return the step of B - A at a row, ns: the difference of the median delays on its two sides.

        `count` is the number of packets on each side.
        """
        before, later = self.both_sides(row, count)
        return self.sign * float(np.median(later) - np.median(before))

    def local_noise(self, row: int) -> float:
        """Return how much the delay of a packet differs from those of its neighbours, near a row.

        It is a standard deviation in ns.
        """
        return _noise(np.concatenate(self.both_sides(row, _AROUND)))

    def restlessness(self, row: int) -> float:
        """Return the typical difference between the delays of packets n and n + 5 near a row, ns.

        It is large where a queue grows or drains.
        """
        parts = [part for part in self.both_sides(row, _AROUND) if len(part) > _BESIDE]
        apart = [np.abs(part[_BESIDE:] - part[:-_BESIDE]).mean() for part in parts]
        return float(max(apart, default=np.inf)) + SMALLEST_STEP_NS / _REST_PART

    def min_moves(self, row: int) -> float:
        """Return the step of B - A at a row, ns: the minimum delay of a minute after it minus that before."""
        i = int(np.searchsorted(self.row, row))
        at = self.time_ns[min(i, len(self.row) - 1)]
        first, last = np.searchsorted(self.time_ns, [at - _MINUTE_NS, at + _MINUTE_NS])
        before, later = self.delay_ns[min(first, i - 1) : i], self.delay_ns[i : max(last, i + 1)]
        return self.sign * float(later.min() - before.min())


def _noise(delays: Array) -> float:
    apart = np.abs(np.diff(delays))
    if not len(apart):
        return np.inf
    return float(max(_MAD_SIGMA * np.median(apart) / np.sqrt(2), apart.mean() / 2))


def _courses(ways: Ways, clock: ClockLabel) -> list[_Course]:
    return [_course(way, clock) for way in (ways.out, ways.back)]


def _course(way: MatchedDirection, clock: ClockLabel) -> _Course:
    rows = rows_of(way, clock)
    order = np.argsort(rows, kind="stable")
    delay = way.delay_ns[order]
    return _Course(way.sign, rows[order], np.maximum.accumulate(way.time_ns[order]), delay, _noise(delay))


def _candidates(courses: list[_Course]) -> list[int]:
    """Return the rows at which the delay of a direction changes most: possible clock steps."""
    rows: list[int] = []
    for course in courses:
        apart = np.abs(np.diff(course.delay_ns))
        large = np.flatnonzero(apart > max(SMALLEST_STEP_NS * _PART, _CLEAR * course.noise_ns))
        large = large[np.argsort(-apart[large], kind="stable")[:_CANDIDATES]]
        rows += course.row[large + 1].tolist()
        rows += (course.row[large] + 1).tolist()
    return sorted(set(rows))


def _score(courses: list[_Course], row: int) -> float:
    """Return by which factor a step at a row exceeds the noise of the delays; 0 if it is not a step.

    The direction with less noise decides. In it, the delay must change at that row and permanently, and so
    must the minimum delays of the minutes before and after. Those of a queue that grows or drains do not. The
    other direction must confirm the step, see `_agrees`.
    """
    if min(len(part) for course in courses for part in course.both_sides(row, _BESIDE)) < _FEWEST:
        return 0.0
    jumps = [course.jump(row, _BESIDE) for course in courses]
    sigmas = [abs(jump) / course.restlessness(row) for jump, course in zip(jumps, courses, strict=True)]
    first = int(np.argmax(sigmas))
    clear, other, jump = courses[first], courses[1 - first], jumps[first]
    own, minimum = clear.min_moves(row), other.min_moves(row)
    if abs(jump) < SMALLEST_STEP_NS or not _PART < own / jump < 2 - _PART:
        return 0.0
    at_once = [course.jump(row, 1) for course in courses]
    if abs(own - minimum) < _ALIKE * abs(own) and min(abs(j - own) for j in at_once) < _PART / 2 * abs(own):
        return sigmas[first] + _SIGMAS
    there = min(at_once[first], clear.jump(row, _LASTING), key=lambda part: part / jump) / jump
    if sigmas[first] < _SIGMAS or there < _PART:
        return 0.0
    if minimum / jump >= _PART or (sigmas[first] > _SURE and _agrees(clear, other, row, jump)):
        return sigmas[first]
    return 0.0


def _agrees(clear: _Course, other: _Course, row: int, jump: float) -> bool:
    """Return whether the delays of the noisier direction are compatible with the step `jump`.

    If the step lowers the delays below all earlier ones, no queue can be the cause, and the noisier direction
    must only not contradict. If it raises the delays, those of the noisier direction must rise too.
    """
    moved = other.jump(row, 1)
    possible = abs(moved - jump) < _CLEAR * other.restlessness(row) + _PART / 2 * abs(jump)
    return possible and (clear.sign * jump < 0 or moved / jump > _PART)


def _measured(courses: list[_Course], row: int) -> tuple[float, float]:
    """Return the size of a clock step at a row, and the half-width of its 95 % interval, ns.

    Each direction measures it by medians and by minimum delays of several widths. Queues falsify some of these, but
    rarely in the same way in both directions. So the two measures that agree best, relative to their errors, are used.
    """
    out, back = (_measures(course, row) for course in courses)
    _, (one, error), (other, wrong) = min(
        (abs(a[0] - b[0]) + 2 * min(a[1], b[1]) + max(a[1], b[1]), a, b) for a in out for b in back
    )
    weight = wrong**2 / (error**2 + wrong**2)
    shift = one * weight + other * (1 - weight)
    restless = min(
        float(np.abs(np.diff(part)).mean()) for course in courses for part in course.both_sides(row, _AROUND)
    )
    return float(shift), float(max(2 * min(error, wrong), abs(one - other), restless / 2))


def _measures(course: _Course, row: int) -> list[tuple[float, float]]:
    """Return several measurements of a step from one direction: (size, half-width of the interval), ns."""
    measures = []
    noise = course.local_noise(row) + _STAMP_NS
    for count in _WINDOWS:
        before, later = course.both_sides(row, count)
        if min(len(before), len(later)) == count:
            measures.append((course.jump(row, count), 2 * noise * np.sqrt(3 / count)))
        if min(len(before), len(later)) == count > _FEWEST:
            (low, width), (high, height) = minimum(before), minimum(later)
            measures.append((course.sign * (high - low), _WIDTHS * (width + height) + _MIN_STAMP_NS))
    return measures


def minimum(delays: Array) -> tuple[float, float]:
    """Return the minimum of the delays, and the mean distance between the lowest delays, ns.

    Parameters
    ----------
    delays : ndarray of int64 or float64, ns, shape (n,)
        At least one.
    """
    k = min(len(delays), _LOWEST)
    low = np.sort(np.partition(delays, k - 1)[:k])
    return float(low[0]), float(low[-1] - low[0]) / max(1, k - 2)
