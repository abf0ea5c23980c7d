"""The intervals between clock steps: their packets, and the steps measured with all packets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.directions import MatchedDirection, Ways
from multitracer.clock.captures.steps import CLOCKS, ClockLabel, Step, after, certainly, minimum, stretches
from multitracer.clock.model.estimate import PPM
from multitracer.clock.model.skew_posterior import LARGEST_SKEW, certain, lower_hull
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.capture import CaptureTables
    from multitracer.clock.model.estimate import Estimate
    from multitracer.clock.model.skew_posterior import Cloud
    from multitracer.tables import Array

_FEWEST = 5
"""Minimum number of packets of a direction on each side of a step; fewer do not show the density of the minimum delays.
"""
_WIDTHS = 3
"""The minimum of n exponential delays is within three mean distances in 95 % of cases (e^-3 = 5 %)."""
_JITTER_NS = 1e5
"""Jitter of a host's timestamps for the fastest packets, ns. Not measured."""


def refined(ways: Ways, steps: list[Step], *, slot_ns: float) -> list[Step]:
    """Return the steps with improved sizes: measured again with the minimum delays of complete intervals.

    A size is changed only if the new one is more certain.

    Parameters
    ----------
    ways : Ways
        The packets without steps and skew, and without their transmission times.
    steps : list of Step
        The steps as measured at their places. A correction is made only if both directions show the same one,
        since a queue before a step but not after it affects only one direction.
    slot_ns : float
        Time between two slots of the link, 0 for none.
    """
    both = (ways.out, ways.back)
    ordered = sorted(steps, key=lambda step: sum(int((~after(way, step)).sum()) for way in both))
    corrected = []
    for n, step in enumerate(ordered):
        moves = []
        for way in both:
            parts = [_between(way, ordered, n + k).delay_ns for k in (0, 1)]
            if min(map(len, parts)) < _FEWEST:
                break
            (low, width), (high, height) = (minimum(part) for part in parts)
            moves.append((way.sign * (high - low), _WIDTHS * (width + height) + _JITTER_NS + slot_ns))
        corrected.append(_corrected(step, moves) if len(moves) == 2 else step)
    return corrected


def _corrected(step: Step, moves: list[tuple[float, float]]) -> Step:
    (one, error), (other, wrong) = moves
    weight = wrong**2 / (error**2 + wrong**2)
    together = max(abs(one - other) / 2, min(error, wrong))
    if abs(one - other) > error + wrong or together >= step.error_ns:
        return step
    return replace(step, shift_ns=step.shift_ns + one * weight + other * (1 - weight), error_ns=together)


@dataclass(frozen=True, slots=True)
class JumpInterval:
    """The interval between two clock steps.

    Parameters
    ----------
    first_ns, last_ns : float
        Begin and end by A's clock without its steps, relative to `Ways.first_ns`.
    b_first_ns, b_last_ns : float
        Begin and end by B's clock without its steps, relative to `Ways.first_ns` + `Ways.base_ns`.
    a_shift_ns, b_shift_ns : float
        Total shift of each clock by the steps before.
    error_ns : float
        Half-width of the 95 % interval of these shifts.
    ways : Ways
        The packets that are certainly in the interval, without the steps.
    clouds : (Cloud, Cloud)
        Times and delays of the packets of each direction that bound the offset.
    """

    first_ns: float
    last_ns: float
    b_first_ns: float
    b_last_ns: float
    a_shift_ns: float
    b_shift_ns: float
    error_ns: float
    ways: Ways
    clouds: tuple[Cloud, Cloud]

    def bounds_ns(self, at: float) -> tuple[float, float]:
        """Return the minimum and the maximum offset, without steps, for which all delays are positive, ns.

        `at` is the time by A's clock without steps.
        """
        return certain(*self.clouds, at)


def _cloud(way: MatchedDirection, steps: list[Step]) -> Cloud:
    """Return times and delays of those packets of a direction that bound the offset at any time.

    If steps were subtracted, times are not whole ns, and their differences are rounded.
    """
    if steps or (way.time_ns != np.rint(way.time_ns)).any():
        return way.time_ns, way.delay_ns
    hull = lower_hull(way.time_ns, way.delay_ns)
    return way.time_ns[hull], way.delay_ns[hull]


def intervals(ways: Ways, steps: list[Step], *, offset_ns: float, skew: float) -> list[JumpInterval]:
    """Return the intervals between clock steps, sorted by time.

    Parameters
    ----------
    ways : Ways
        The packets without the steps, as `find_steps` returns them.
    steps : list of Step
        The clock steps.
    offset_ns, skew : float
        B - A at time 0, and the skew of B, without the steps.
    """
    parts = [_part(ways, steps, n) for n in range(len(steps) + 1)]
    clouds = [(_cloud(part.out, steps), _cloud(part.back, steps)) for part in parts]
    line = (offset_ns, skew, *_margins(parts, clouds, offset_ns, skew))
    moments = sorted(((_moments(ways, step, *line), step) for step in steps), key=lambda m: m[0])
    ordered = [step for _, step in moments]
    ends = [_extent(ways, [moment[k] for moment, _ in moments], CLOCKS[k]) for k in (0, 1)]
    error = float(np.sqrt(sum(step.error_ns**2 for step in ordered)))
    estimated = []
    for n, (here, there) in enumerate(zip(*ends, strict=True)):
        shift = {c: sum(s.shift_ns for s in ordered[:n] if s.clock == c) for c in ("a", "b")}
        (first, last), (b_first, b_last) = here, there
        estimated.append(
            JumpInterval(first, last, b_first, b_last, -shift["a"], shift["b"], error, parts[n], clouds[n])
        )
    return estimated


def _extent(ways: Ways, moments: list[tuple[float, float]], clock: ClockLabel) -> list[tuple[float, float]]:
    """Return begin and end of each interval by one clock, ns; `moments` are the times of the steps."""
    times = np.concatenate([_stamps(way, clock) for way in (ways.out, ways.back)])
    lasts = [last for last, _ in moments] + [float(times.max())]
    firsts = [float(times.min())] + [first for _, first in moments]
    return [(first, max(first, last)) for first, last in zip(firsts, lasts, strict=True)]


def _stamps(way: MatchedDirection, clock: ClockLabel) -> Array:
    """Return the capture time of each packet by one clock, ns."""
    stamps: Array = way.time_ns if clock == "a" else way.time_ns + way.sign * way.delay_ns
    return stamps


def _part(ways: Ways, steps: list[Step], number: int) -> Ways:
    """Return the packets in interval `number` between steps.

    Packets that may be on either side of a step are left out, if others remain in both directions.
    """
    both = (ways.out, ways.back)
    sure = [way.take(stretches(way, steps)[number]) for way in both]
    out, back = sure if all(map(len, sure)) else (_between(way, steps, number) for way in both)
    if not len(out) or not len(back):
        raise ClockError(
            "two captures: cannot determine the clock offset, because between two clock steps there "
            "are packets of one direction only; what would help: a part of the captures without the "
            "steps"
        )
    return Ways(out, back, ways.first_ns, ways.base_ns)


def _margins(
    parts: list[Ways], clouds: list[tuple[Cloud, Cloud]], offset_ns: float, skew: float
) -> tuple[float, float]:
    """Return how far below and above the line offset + skew * time the true offset may be, ns.

    The only condition is that all delays are positive.
    """
    below, above = 0.0, 0.0
    for part, both in zip(parts, clouds, strict=True):
        times = np.concatenate([part.out.time_ns, part.back.time_ns])
        for at in (float(times.min()), float(times.max())):
            minimum, most = certain(*both, at)
            here = offset_ns + skew * at
            below, above = max(below, here - minimum), max(above, most - here)
    return below, above


def _between(way: MatchedDirection, ordered: list[Step], number: int) -> MatchedDirection:
    """Return the packets that were captured after exactly `number` of the steps."""
    jumps = np.zeros(len(way), dtype=np.int64)
    for step in ordered:
        jumps += after(way, step)
    return way.take(jumps == number)


def _moments(
    ways: Ways, step: Step, offset_ns: float, skew: float, below: float, above: float
) -> list[tuple[float, float]]:
    """Return the time range that certainly contains the step: one range by A's clock, one by B's clock.

    Both clocks are without steps. A packet captured before the step was sent before it, and a packet captured
    after the step arrived after it. So the result does not depend on which clock stepped. Times of the other
    clock have the uncertainty `below` and `above`.
    """
    moments = []
    for clock in CLOCKS:
        last, first = -np.inf, np.inf
        early, late = (below, above) if clock == "b" else (above, below)
        for way in (ways.out, ways.back):
            earlier, later = certainly(way, step)
            own, other = _stamps(way, clock), _stamps(way, "a" if clock == "b" else "b")
            offset = offset_ns + skew * way.time_ns
            moved = other + offset if clock == "b" else other - offset
            sends = (way.sign > 0) == (clock == "a")
            sent, arrived = (own, moved + late) if sends else (moved - early, own)
            last = max(last, float(sent[earlier].max(initial=-np.inf)))
            first = min(first, float(arrived[later].min(initial=np.inf)))
        moments.append((min(last, first), first))
    return moments


# A clock whose rate is off by more than any quartz: of a simulation, a virtual machine, or in a wrong unit.
#
# The estimators take two clocks to be at most 500 ppm apart. Where one runs 1 % fast, no such line fits, and
# the one they choose is wrong by more than it says. Here that is seen, and the rate found, roughly: of all
# slopes the one under which packets of both directions lie closest above the least delay of each. A queue
# cannot feign that, since it lengthens the delays of one direction and does not shorten those of the other.


LARGEST_RATE = 0.2
"""Maximum rate error of a clock: with a larger one, too few packets of the same second can be paired."""
_THIRDS = 60  # the last range is far below a millionth of a millionth
_EDGE = 1.05  # of what a quartz can have: up to there the estimators are right. Not measured


def looseness_ns(ways: Ways, skew: float) -> float:
    """Return how far packets are above the minimum delay on average, both directions added, ns.

    Parameters
    ----------
    ways : Ways
    skew : float
        Skew of clock B.
    """
    return sum(_Direction(way).above_ns(skew) for way in (ways.out, ways.back))


def gross_rates(ways: Ways) -> list[float]:
    """Return up to two approximate rates of clock B relative to A that exceed the skew of a quartz.

    One is the rate with the lowest delays of all packets, the other the rate with the most space between the minimum
    delays of both directions. A growing queue misleads the first, a queue that never empties the second.
    """
    sides = [_Direction(way) for way in (ways.out, ways.back)]
    guesses = (
        _lowest(lambda skew: sum(side.above_ns(skew) for side in sides)),
        _lowest(lambda skew: -sum(side.min_ns(skew) for side in sides)),
    )
    return [rate for rate in guesses if _EDGE * LARGEST_SKEW < abs(rate) < LARGEST_RATE / _EDGE]


def _lowest(function: Callable[[float], float]) -> float:
    """Return the rate at which a convex function is minimal."""
    low, high = -LARGEST_RATE, LARGEST_RATE
    for _ in range(_THIRDS):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        if function(one) < function(other):
            high = other
        else:
            low = one
    return (low + high) / 2


class _Direction:
    """The packets of one direction, to compute their delays for any skew of the clocks."""

    def __init__(self, way: MatchedDirection) -> None:
        hull = lower_hull(way.time_ns, way.delay_ns)
        self._time, self._delay, self._sign = way.time_ns[hull], way.delay_ns[hull], way.sign
        self._mean = float(way.time_ns.mean()), float(way.delay_ns.mean())

    def min_ns(self, skew: float) -> float:
        """Return the minimum delay after a skew is removed: a concave function of the skew."""
        return float((self._delay - self._sign * skew * self._time).min())

    def above_ns(self, skew: float) -> float:
        """Return the mean delay minus the minimum delay: a convex function of the skew."""
        return self._mean[1] - self._sign * skew * self._mean[0] - self.min_ns(skew)


def slowed(capture: CaptureTables, begin_ns: int, rate: float) -> CaptureTables:
    """Return a capture with its times converted to a slower clock, from `begin_ns` on.

    Parameters
    ----------
    capture : CaptureTables
    begin_ns : int
        The time that does not change.
    rate : float
        How much faster the actual clock runs.
    """
    changed = capture.where(np.ones(len(capture.segments), dtype=bool))
    time_ns = capture.segments["time_ns"]
    known = np.where(time_ns == NOT_A_TIME, begin_ns, time_ns)
    excess = np.rint((known - begin_ns).astype(np.float64) * (rate / (1 + rate))).astype(np.int64)
    changed.segments.columns["time_ns"] = time_ns - excess
    return changed


def quickened(estimate: Estimate, begin_ns: int, rate: float) -> Estimate:
    """Return an estimate for the original clock of a capture, from an estimate for its `slowed` times."""

    def there(slow_ns: int) -> int:
        return slow_ns + round((slow_ns - begin_ns) * rate)

    first, wider = estimate.first_ns, 1 + rate
    lower, upper, begin, end = (
        None if each is None else there(each)
        for each in (
            None if estimate.lower_ns is None else first + estimate.lower_ns,
            None if estimate.upper_ns is None else first + estimate.upper_ns,
            estimate.to_first_ns,
            estimate.to_last_ns,
        )
    )
    return replace(
        estimate,
        offset_ns=there(first + estimate.offset_ns) - first,
        skew_ppm=((1 + estimate.skew_ppm * PPM) * wider - 1) / PPM,
        uncertainty_ns=estimate.uncertainty_ns * wider,
        skew_uncertainty_ppm=estimate.skew_uncertainty_ppm * wider,
        lower_ns=None if lower is None else lower - first,
        upper_ns=None if upper is None else upper - first,
        to_first_ns=begin,
        to_last_ns=end,
    )
