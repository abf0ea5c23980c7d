"""The lines that run between two clouds of points: one bounds them from above, the other from below.

An event that reached clock `from` before clock `to` says that the offset is at most ``to - from``, one that
went the other way that it is at least that. With delays of microseconds or milliseconds between the two, all
lines that contradict nobody are a narrow bundle: its middle is the estimate, its width the error. Nothing is
assumed of the delays but their sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.envelope import lower_hull
from multitracer.clock.model.estimate import PPM, Estimate, EventDirection, Evidence
from multitracer.clock.model.skew_posterior import LARGEST_SKEW
from multitracer.errors import ClockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Array

    Cloud = tuple[Array, Array]

_HALVINGS = 60  # halves any range of float64 down to its last digit
_FEWEST = 2  # two bounds on a side: one alone may be a mistaken pair
_MOST_STRAY = 3
"""Besides one in `_STRAY_PART`: events that were paired wrongly."""
_STRAY_PART = 100  # one event in a hundred. Not measured
_STAMPING_NS = 20_000.0  # hosts stamp packets some ten microseconds late; the same in `one_way`


def corridor(from_ns: Array, to_ns: Array, direction: Array, *, method: str, slack_ns: float) -> Estimate:
    """Return the middle of the lines that no event contradicts.

    Parameters
    ----------
    from_ns, to_ns : ndarray of int64, shape (n_events,)
        Stamps of each event by the two clocks.
    direction : ndarray of int8, shape (n_events,)
        An `EventDirection`: FORWARD where `from` saw it first, BACKWARD where `to` did.
    method : str
        The name of the estimate's method.
    slack_ns : float
        By how much events may contradict each other, since stamps are not exact.

    Raises
    ------
    ClockError
        If one of the two kinds is missing, or if they contradict each other by more.
    """
    ahead, behind = direction == EventDirection.FORWARD.value, direction == EventDirection.BACKWARD.value
    if min(int(ahead.sum()), int(behind.sum())) < _FEWEST:
        raise ClockError(
            f"{method}: not determinable, because the events of {len(from_ns)} that both logs tell of bound "
            "the offset on one side only; what would help: logs of the same connection over its whole time"
        )
    first, base = int(from_ns.min()), int(to_ns[0] - from_ns[0])
    x, y = (from_ns - first).astype(np.float64), (to_ns - from_ns - base).astype(np.float64)
    above, below = (x[ahead], y[ahead]), (x[behind], -y[behind])
    for _ in range(_MOST_STRAY + len(x) // _STRAY_PART):
        upper, lower = _vertices(*above), _vertices(*below)
        slope = _widest(upper, lower)
        width = _width(upper, lower, slope)
        if width >= -slack_ns or min(len(above[0]), len(below[0])) <= _FEWEST:
            break
        above, below = _without_stray(above, below, slope)
    if width < -slack_ns:
        raise ClockError(
            f"{method}: not determinable, because the logs contradict each other by {-width / 1e6:.1f} ms "
            "under any offset: a clock jumped, or they are not of the same connection; what would help: a "
            "part "
            "without the jump"
        )
    least, most = (_edge(upper, lower, slope, sign) for sign in (-1, 1))
    top, bottom = _least(upper, slope), -_least(lower, -slope)
    pivot = float((x.min() + x.max()) / 2)
    half = (max(top - bottom, 0.0) + _STAMPING_NS) / 2
    return Estimate.around(
        first + round(pivot),
        half,
        first_ns=first,
        last_ns=int(from_ns.max()),
        offset_ns=base + round((top + bottom) / 2),
        skew_ppm=slope / PPM,
        skew_uncertainty_ppm=max(most - slope, slope - least) / PPM,
        method=method,
        evidence=len(x),
        lower_ns=base + round(min(bottom, top)),
        upper_ns=base + round(max(bottom, top)),
        points=Evidence(from_ns, to_ns, direction),
    )


def certain(above: Cloud, below: Cloud, at: float) -> tuple[float, float]:
    """Return between which values every line lies at a time that has no event on its wrong side.

    Unlike an interval of confidence this asks for nothing but that effects follow causes, and that no clock
    is off by more than `LARGEST_SKEW`.

    Parameters
    ----------
    above, below : (ndarray, ndarray)
        Times and values that a line stays below; times and values, with the opposite sign, that it stays
        above.
    at : float
        The time, of which the events are not far away.

    Returns
    -------
    (float, float)
        The least and the largest; the least is the larger one if there is no such line.
    """
    upper, lower = _vertices(above[0] - at, above[1]), _vertices(below[0] - at, below[1])
    slope = _widest(upper, lower)
    edges = (_edge(upper, lower, slope, -1), _edge(upper, lower, slope, 1))
    most = _largest(lambda each: _least(upper, each), *edges)
    least = -_largest(lambda each: _least(lower, -each), *edges)
    return least, most


def _without_stray(above: Cloud, below: Cloud, slope: float) -> tuple[Cloud, Cloud]:
    """Return the clouds without the one event that stands out most."""
    flat = [cloud[1] - sign * slope * cloud[0] for cloud, sign in ((above, 1), (below, -1))]
    low = [np.partition(values, 1)[:2] for values in flat]
    if low[0][1] - low[0][0] > low[1][1] - low[1][0]:
        return _dropped(above, int(np.argmin(flat[0]))), below
    return above, _dropped(below, int(np.argmin(flat[1])))


def _dropped(cloud: Cloud, index: int) -> Cloud:
    return np.delete(cloud[0], index), np.delete(cloud[1], index)


def _vertices(x: Array, y: Array) -> Cloud:
    hull = lower_hull(x, y)
    return x[hull], y[hull]


def _least(cloud: Cloud, slope: float) -> float:
    return float((cloud[1] - slope * cloud[0]).min())


def _width(upper: Cloud, lower: Cloud, slope: float) -> float:
    """Return how wide the corridor is for lines of a slope; concave in the slope."""
    return _least(upper, slope) + _least(lower, -slope)


def _widest(upper: Cloud, lower: Cloud) -> float:
    """Return the slope of the widest corridor."""
    return _highest(lambda slope: _width(upper, lower, slope), -LARGEST_SKEW, LARGEST_SKEW)


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a concave function is largest, by thirds."""
    for _ in range(_HALVINGS):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        if function(one) < function(other):
            low = one
        else:
            high = other
    return (low + high) / 2


def _largest(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the largest value of a concave function."""
    return max(function(low), function(high), function(_highest(function, low, high)))


def _edge(upper: Cloud, lower: Cloud, slope: float, sign: int) -> float:
    """Return the steepest slope of a line that contradicts no event, upwards or downwards."""
    inside, outside = slope, sign * LARGEST_SKEW
    allowed = min(0.0, _width(upper, lower, slope))
    if _width(upper, lower, outside) >= allowed:
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if _width(upper, lower, middle) >= allowed else (inside, middle)
    return inside
