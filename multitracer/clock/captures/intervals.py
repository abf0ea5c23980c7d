"""The time between two jumps of a clock: what packets lie in it, and the jumps measured by all of these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.directions import MatchedDirection, Ways
from multitracer.clock.captures.steps import CLOCKS, ClockLabel, Step, after, certainly, least, stretches
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
"""Packets of a direction on each side of a jump; fewer do not tell how dense the least delays lie."""
_WIDTHS = 3
"""The least of n exponential delays lies within three mean distances in 95 % of cases (e^-3 = 5 %)."""
_JITTER_NS = 1e5
"""A host stamps the fastest packets as unequally as that. Not measured."""


def refined(ways: Ways, steps: list[Step], *, slot_ns: float) -> list[Step]:
    """Return the jumps by the least delays of the whole intervals before and after each, if that is better.

    Parameters
    ----------
    ways : Ways
        The packets without jumps and skew, as long as packets of no length would take.
    steps : list of Step
        The jumps as they were measured at their places. If both directions ask for the same correction, it is
        made: a queue that stood before a jump and not after it falsifies one of them only.
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
            (low, width), (high, height) = (least(part) for part in parts)
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
    """The time between two jumps.

    Parameters
    ----------
    first_ns, last_ns : float
        Of A's clock without its jumps, after `Ways.first_ns`.
    b_first_ns, b_last_ns : float
        Of B's clock without its jumps, after `Ways.first_ns` + `Ways.base_ns`.
    a_shift_ns, b_shift_ns : float
        By how much the jumps before it have moved each clock.
    error_ns : float
        Half-width of the 95 % interval of these shifts, as far as they are not certain.
    ways : Ways
        The packets that were certainly stamped in it, without the jumps.
    clouds : (Cloud, Cloud)
        Times and delays of both directions, as far as they bound an offset.
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
        """Return the least and the largest offset, without the jumps, with which effects follow causes."""
        return certain(*self.clouds, at)


def _cloud(way: MatchedDirection, steps: list[Step]) -> Cloud:
    """Return times and delays of a direction, of those in whole ns only what bounds an offset at any of them.

    Where jumps were taken off, times are not whole, and differences of them rounded.
    """
    if steps or (way.time_ns != np.rint(way.time_ns)).any():
        return way.time_ns, way.delay_ns
    hull = lower_hull(way.time_ns, way.delay_ns)
    return way.time_ns[hull], way.delay_ns[hull]


def intervals(ways: Ways, steps: list[Step], *, offset_ns: float, skew: float) -> list[JumpInterval]:
    """Return the intervals between jumps in order of time.

    Parameters
    ----------
    ways : Ways
        The packets without the jumps, as `find_steps` returns them.
    steps : list of Step
        The jumps.
    offset_ns, skew : float
        B - A at time 0, and how much faster B runs, without the jumps.
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
            JumpInterval(first, last, b_first, b_last, -shift["a"], shift["b"], error, parts[n], clouds[n]),
        )
    return estimated


def _extent(ways: Ways, moments: list[tuple[float, float]], clock: ClockLabel) -> list[tuple[float, float]]:
    """Return from when to when each interval lasts by one clock, whose jumps were at these moments."""
    times = np.concatenate([_stamps(way, clock) for way in (ways.out, ways.back)])
    lasts = [last for last, _ in moments] + [float(times.max())]
    firsts = [float(times.min())] + [first for _, first in moments]
    return [(first, max(first, last)) for first, last in zip(firsts, lasts, strict=True)]


def _stamps(way: MatchedDirection, clock: ClockLabel) -> Array:
    """Return the stamps that a clock gave to packets."""
    stamps: Array = way.time_ns if clock == "a" else way.time_ns + way.sign * way.delay_ns
    return stamps


def _part(ways: Ways, steps: list[Step], number: int) -> Ways:
    """Return the packets between two jumps: those that certainly are, if both directions have some."""
    both = (ways.out, ways.back)
    sure = [way.take(stretches(way, steps)[number]) for way in both]
    out, back = sure if all(map(len, sure)) else (_between(way, steps, number) for way in both)
    if not len(out) or not len(back):
        raise ClockError(
            "two captures: not determinable, because between two jumps of a clock there are packets of one "
            "direction only; what would help: a part of the captures without the jumps"
        )
    return Ways(out, back, ways.first_ns, ways.base_ns)


def _margins(
    parts: list[Ways], clouds: list[tuple[Cloud, Cloud]], offset_ns: float, skew: float
) -> tuple[float, float]:
    """Return how far below and above a line the true one may be, by causality alone."""
    below, above = 0.0, 0.0
    for part, both in zip(parts, clouds, strict=True):
        times = np.concatenate([part.out.time_ns, part.back.time_ns])
        for at in (float(times.min()), float(times.max())):
            least, most = certain(*both, at)
            here = offset_ns + skew * at
            below, above = max(below, here - least), max(above, most - here)
    return below, above


def _between(way: MatchedDirection, ordered: list[Step], number: int) -> MatchedDirection:
    """Return the packets that were stamped after so many of the jumps."""
    jumps = np.zeros(len(way), dtype=np.int64)
    for step in ordered:
        jumps += after(way, step)
    return way.take(jumps == number)


def _moments(
    ways: Ways, step: Step, offset_ns: float, skew: float, below: float, above: float
) -> list[tuple[float, float]]:
    """Return between which times, by A's clock and by B's without jumps, the jump was for certain.

    Whichever clock jumped, a packet stamped before it had been sent before, and one stamped after it arrived
    after it: so nothing hangs on which of the two clocks it was, where no packet was under way to tell. Times
    of the other clock are as uncertain as `below` and `above` say.
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
"""A clock that is off by more than a fifth is none: of packets that share a second, few are then paired."""
_THIRDS = 60  # the last range is far below a millionth of a millionth
_EDGE = 1.05  # of what a quartz can have: up to there the estimators are right. Not measured


def looseness_ns(ways: Ways, skew: float) -> float:
    """Return how far packets lie above the least delay of their direction, the means of both added.

    Parameters
    ----------
    ways : Ways
    skew : float
        How much faster clock B runs.
    """
    return sum(_Direction(way).above_ns(skew) for way in (ways.out, ways.back))


def gross_rates(ways: Ways) -> list[float]:
    """Return how much faster clock B may run, roughly, where that is more than a quartz can.

    One guess is where all packets lie lowest, the other where the quickest leave each other most room: the
    first is misled by a queue that grows, the second by a queue that never empties.
    """
    sides = [_Direction(way) for way in (ways.out, ways.back)]
    guesses = (
        _lowest(lambda skew: sum(side.above_ns(skew) for side in sides)),
        _lowest(lambda skew: -sum(side.least_ns(skew) for side in sides)),
    )
    return [rate for rate in guesses if _EDGE * LARGEST_SKEW < abs(rate) < LARGEST_RATE / _EDGE]


def _lowest(function: Callable[[float], float]) -> float:
    """Return the rate at which a convex function is least."""
    low, high = -LARGEST_RATE, LARGEST_RATE
    for _ in range(_THIRDS):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        if function(one) < function(other):
            high = other
        else:
            low = one
    return (low + high) / 2


class _Direction:
    """The packets of a direction, on lines of any slope."""

    def __init__(self, way: MatchedDirection) -> None:
        hull = lower_hull(way.time_ns, way.delay_ns)
        self._time, self._delay, self._sign = way.time_ns[hull], way.delay_ns[hull], way.sign
        self._mean = float(way.time_ns.mean()), float(way.delay_ns.mean())

    def least_ns(self, skew: float) -> float:
        """Return the least delay without a skew: concave in it."""
        return float((self._delay - self._sign * skew * self._time).min())

    def above_ns(self, skew: float) -> float:
        """Return how far the mean delay is above the least one: convex in the skew."""
        return self._mean[1] - self._sign * skew * self._mean[0] - self.least_ns(skew)


def slowed(capture: CaptureTables, begin_ns: int, rate: float) -> CaptureTables:
    """Return a capture as a clock would have stamped it that runs slower, from an instant on.

    Parameters
    ----------
    capture : CaptureTables
    begin_ns : int
        The stamp that stays as it is.
    rate : float
        How much faster the clock runs that did stamp it.
    """
    changed = capture.where(np.ones(len(capture.segments), dtype=bool))
    time_ns = capture.segments["time_ns"]
    known = np.where(time_ns == NOT_A_TIME, begin_ns, time_ns)
    excess = np.rint((known - begin_ns).astype(np.float64) * (rate / (1 + rate))).astype(np.int64)
    changed.segments.columns["time_ns"] = time_ns - excess
    return changed


def quickened(estimate: Estimate, begin_ns: int, rate: float) -> Estimate:
    """Return the relation to a clock as it was, of one to the clock that `slowed` made of it."""

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
