"""A clock whose rate is off by more than any quartz: of a simulation, a virtual machine, or in a wrong unit.

The estimators take two clocks to be at most 500 ppm apart. Where one runs 1 % fast, no such line fits, and
the one they choose is wrong by more than it says. Here that is seen, and the rate found, roughly: of all
slopes the one under which packets of both directions lie closest above the least delay of each. A queue
cannot feign that, since it lengthens the delays of one direction and does not shorten those of the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.envelope import lower_hull
from multitracer.clock.model.estimate import PPM
from multitracer.clock.model.skew_posterior import LARGEST_SKEW
from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.capture import Capture
    from multitracer.clock.captures.directions import Way, Ways
    from multitracer.clock.model.estimate import Estimate

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

    def __init__(self, way: Way) -> None:
        hull = lower_hull(way.time_ns, way.delay_ns)
        self._time, self._delay, self._sign = way.time_ns[hull], way.delay_ns[hull], way.sign
        self._mean = float(way.time_ns.mean()), float(way.delay_ns.mean())

    def least_ns(self, skew: float) -> float:
        """Return the least delay without a skew: concave in it."""
        return float((self._delay - self._sign * skew * self._time).min())

    def above_ns(self, skew: float) -> float:
        """Return how far the mean delay is above the least one: convex in the skew."""
        return self._mean[1] - self._sign * skew * self._mean[0] - self.least_ns(skew)


def slowed(capture: Capture, begin_ns: int, rate: float) -> Capture:
    """Return a capture as a clock would have stamped it that runs slower, from an instant on.

    Parameters
    ----------
    capture : Capture
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
