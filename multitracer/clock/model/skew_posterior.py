"""The skew under which the least delays of many moments lie densest on one level.

Where a link has slots or a queue that stands, a line below all delays follows the slots or the queue. The
skew that makes the least delays agree on *one* level, whichever that is, follows neither. Time is cut into
windows; of each the least delay counts, with a width that its own spacing tells. Both directions are judged
together: a skew has opposite signs in them, a queue has not.

The posterior of the skew is found on a grid that zooms in on the best place, first with blurred widths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.estimate import MOST_SKEW_PPM, PPM, ClockEvidence, Estimate, EventDirection
from multitracer.errors import ClockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Array

    Cloud = tuple[Array, Array]

LARGEST_SKEW = MOST_SKEW_PPM * PPM
"""No quartz is farther off."""
_WINDOWS, _PER_WINDOW = 72, 6
"""Of 6 packets or more each, so that each has a least delay, and many can agree. Not measured."""
_SLOPES = 81  # 12.5 ppm a step in the first round; each round looks `_ZOOM` times as close
_ZOOM = 8.0  # a round covers ten steps of the one before, so that its maximum is not lost
_ROUNDS = 9  # after nine rounds a step is far below 1e-6 ppm
_OUTLIER = 0.12  # share of windows that may say nothing (a queue all through). Not measured
_SHARP_NS = 2_000.0  # no stamp is sharper: keeps the density of equal delays finite
_LOWEST = 4  # delays of a window that show how dense its lowest ones lie. Not measured
_NARROWEST = 0.2  # of the usual width: a window's lowest delays may be close together by chance. Not measured
_LEVELS = (0.3, 1.2)  # widths below each low at which the level is tried. Not measured
_STEEP = 12
"""Below the level the density falls so many times as fast as above: no packet is faster. Not measured."""
_AREA = 1.1  # about 1 + 1 / `_STEEP`: the density's integral over both sides, in widths
_BROAD_WIDTHS = 10  # beyond the range of the data: a window that says nothing may lie there. Not measured
_NEGLIGIBLE = 60.0
"""In units of log-likelihood: e^-60 is lost in the rounding of any sum with 1."""
_NEAR = 3.0  # widths from a level to a window's low. Less makes the bound looser near it, more far off
_RESOLVED = 4  # steps of the grid within a standard deviation: the maximum is then not missed


@dataclass(frozen=True, slots=True)
class Lows:
    """The least delay of each window of one direction.

    Parameters
    ----------
    sign : int
        Of the skew in this direction's delays.
    time_ns, delay_ns, width_ns : ndarray, shape (n_windows,)
    """

    sign: int
    time_ns: Array
    delay_ns: Array
    width_ns: Array


def window_lows(sign: int, time_ns: Array, delay_ns: Array, *, slope: float) -> Lows:
    """Return the least delay of windows of equally many packets, under a skew that is about right.

    Parameters
    ----------
    sign : int
        The sign of the skew in the delays of this direction, 1 or -1.
    time_ns, delay_ns : ndarray of float64, ns, shape (n_packets,)
        When each packet was sent, and its delay by the two clocks.
    slope : float
        The skew.
    """
    order = np.argsort(time_ns, kind="stable")
    x, y = time_ns[order], delay_ns[order] - sign * slope * time_ns[order]
    count = int(np.clip(len(x) // _PER_WINDOW, min(len(x), 3), _WINDOWS))
    bounds = np.linspace(0, len(x), count + 1).astype(np.int64)
    at, width = np.empty(count, dtype=np.int64), np.empty(count)
    for i in range(count):
        part = y[bounds[i] : bounds[i + 1]]
        at[i] = bounds[i] + int(np.argmin(part))
        k = min(len(part), _LOWEST)
        low = np.partition(part, k - 1)[:k]
        width[i] = (low.max() - low.min()) / (k - 1) if k > 1 else np.nan
    typical = np.nanmedian(width) if np.isfinite(width).any() else 1e6
    width = np.maximum(np.where(np.isfinite(width), width, typical), _NARROWEST * typical) + _SHARP_NS
    return Lows(sign, x[at], y[at] + sign * slope * x[at], width)


def skew_posterior(lows: list[Lows], starts: list[float]) -> tuple[Array, Array]:
    """Return candidate skews and their probabilities.

    Parameters
    ----------
    lows : list of Lows
        Of both directions.
    starts : list of float
        Skews to look at besides the whole range, such as the envelopes'.

    Returns
    -------
    skews, probabilities : ndarray of float64, shape (n_candidates,)
        Skews without unit, within the largest one that is possible; probabilities sum to 1.
    """
    span = max(float(np.ptp(low.time_ns)) for low in lows)
    half, centre, negligible = LARGEST_SKEW, 0.0, _NEGLIGIBLE
    for _ in range(_ROUNDS):
        grid = np.unique(np.concatenate([centre + half * np.linspace(-1, 1, _SLOPES), starts]))
        step = 2 * half / (_SLOPES - 1)
        likely = _likelihood(lows, grid, blur_ns=step * span / 2, negligible=negligible)
        centre = float(grid[np.argmax(likely)])
        if half < LARGEST_SKEW and _spread(grid, likely) > _RESOLVED * step:
            break
        if np.count_nonzero(likely) > len(grid) / 2:  # the closer the skews, the less a bound tells
            negligible = np.inf
        half /= _ZOOM
    grid = np.clip(centre + half * np.linspace(-1, 1, 4 * _SLOPES), -LARGEST_SKEW, LARGEST_SKEW)
    likely = _likelihood(lows, grid, blur_ns=0.0)
    return grid, likely / likely.sum()


def _spread(grid: Array, likely: Array) -> float:
    mean = (grid * likely).sum() / likely.sum()
    return float(np.sqrt((likely * (grid - mean) ** 2).sum() / likely.sum()))


def _likelihood(lows: list[Lows], slopes: Array, *, blur_ns: float, negligible: float = np.inf) -> Array:
    """Return the likelihood of each skew, the levels integrated out; the largest is about 1.

    It is 0 where a bound shows that its logarithm is by more than `negligible` below the largest.
    """
    sides = [_Side.of(low, slopes, blur_ns) for low in lows]
    chosen = np.arange(len(slopes))
    if negligible < np.inf:
        most = sum(side.bound() for side in sides)
        reached = sum(side.log_likelihood(np.array([np.argmax(most)]))[0] for side in sides)
        chosen = np.flatnonzero(most > reached - negligible)
    total = np.zeros(len(chosen))
    for side in sides:
        total += side.log_likelihood(chosen)
    likely = np.zeros(len(slopes))
    likely[chosen] = np.exp(total - total.max())
    return likely


@dataclass(frozen=True, slots=True)
class _Side:
    """One direction under each skew.

    Parameters
    ----------
    flat_ns : ndarray of float64, shape (n_slopes, n_windows)
        The least delays without the skew.
    width_ns : ndarray of float64, shape (n_windows,)
    floor : float
        The density of a window that says nothing.
    """

    flat_ns: Array
    width_ns: Array
    floor: float

    @classmethod
    def of(cls, low: Lows, slopes: Array, blur_ns: float) -> _Side:
        flat = low.delay_ns[None, :] - low.sign * slopes[:, None] * low.time_ns[None, :]
        width = low.width_ns + blur_ns
        broad = float(np.ptp(flat)) + _BROAD_WIDTHS * float(width.max()) + 1.0
        return cls(flat, width, _OUTLIER / broad)

    def bound(self) -> Array:
        """Return what the log-likelihood of each skew does not exceed.

        At the best level, as many windows as can be within some widths of one level count as if they were on
        it, all others as if they were just so far off.
        """
        width, area = self.width_ns, _AREA * self.width_ns
        near, off = (np.log((1 - _OUTLIER) * np.exp(-far) / area + self.floor) for far in (0, _NEAR))
        left, right = self.flat_ns - _NEAR * width, self.flat_ns + _NEAR / _STEEP * width
        order = np.argsort(np.concatenate([left, right], axis=1), axis=1)
        gain = np.concatenate([near - off, off - near])[order]
        most: Array = off.sum() + np.cumsum(gain, axis=1).max(axis=1)
        return most

    def log_likelihood(self, chosen: Array) -> Array:
        """Return the log-likelihood of the skews with these indexes.

        Candidates for the level are the windows' own lows, each with a half, one and three widths below it.
        """
        windows, result = len(self.width_ns), np.empty(len(chosen))
        width, lower = self.width_ns[:, None], np.multiply.outer(_LEVELS, self.width_ns)
        area = _AREA * width / (1 - _OUTLIER)
        each, other = np.empty((2, windows, lower.size))  # not anew for each slope; candidates in a row
        for i, flat in enumerate(self.flat_ns[chosen]):
            np.subtract((flat - lower).ravel(), flat[:, None], out=each)
            each /= width
            np.minimum(each, np.multiply(each, -_STEEP, out=other), out=each)
            np.divide(np.exp(each, out=each), area, out=each)
            each += self.floor
            logs = _sum_of_logs(each)
            most = logs.max()
            result[i] = most + np.log(np.exp(logs - most).sum() / len(logs))
        return result


def _sum_of_logs(values: Array) -> Array:
    """Return the sum of each column's logarithms, by those of products: a product takes less time.

    Three halvings make products of up to eight densities, each of which is 1e-20 or more.
    """
    for _ in range(3):
        half = len(values) // 2
        values[:half] *= values[-half:]
        values = values[: len(values) - half]
    total: Array = np.log(values).sum(axis=0)
    return total


# The line below all delays: lower convex hull, and of its edges the one over the mean time.
#
# That edge is the optimum of the linear programme of Moon, Skelly and Towsley (INFOCOM 1999): of all lines
# that lie below every point, the one with the least sum of vertical distances. Zhang, Liu and Xia (INFOCOM
# 2002) find it in linear time by the hull.


_BLOCK = 64
"""Points a block: the square root of some thousand, at which both passes cost about the same."""
_MANY_BLOCKS = 50  # with fewer points the hull itself is quick; no effect on the result. Not measured
_LITTLE_LESS = 0.9  # a pass that keeps more of the points does not pay for itself. Not measured


def lower_hull(time_ns: Array, delay_ns: Array) -> Array:
    """Return the indexes of the vertices of the lower convex hull, in order of time.

    Parameters
    ----------
    time_ns, delay_ns : ndarray of float64 or int64, shape (n,)
        The points; never NA.

    Returns
    -------
    ndarray of int64, shape (n_vertices,)
    """
    candidates = _candidates(time_ns, delay_ns)
    hull: list[int] = []
    x, y = time_ns[candidates].tolist(), delay_ns[candidates].tolist()
    for i in range(len(x)):
        while len(hull) > 1 and _turns_right(x, y, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    vertices: Array = candidates[hull]
    return vertices


def _candidates(time_ns: Array, delay_ns: Array) -> Array:
    """Return indexes in order of time; of many points only those that can be vertices."""
    order = np.argsort(time_ns, kind="stable")
    if len(order) > _MANY_BLOCKS * _BLOCK:
        order = order[_below_chords(time_ns[order], delay_ns[order])]
    order = order[np.lexsort((delay_ns[order], time_ns[order]))]
    order = order[np.diff(time_ns[order], prepend=-np.inf) > 0]
    while len(order) > _MANY_BLOCKS * _BLOCK:
        kept = _below_chords(time_ns[order], delay_ns[order])
        if kept.sum() > _LITTLE_LESS * len(order):
            break
        order = order[kept]
    return order


def _below_chords(x: Array, y: Array) -> Array:
    """Return which points are below the chord between the least points of the two neighbouring blocks.

    One on it is no vertex either: where nothing ever queued all delays are alike.
    """
    starts = np.arange(0, len(x), _BLOCK)
    block = np.arange(len(x)) // _BLOCK
    blocks = np.full((len(starts), _BLOCK), np.inf)
    blocks.flat[: len(y)] = y
    least = starts + blocks.argmin(axis=1)
    left, right = least[np.maximum(block - 1, 0)], least[np.minimum(block + 1, len(starts) - 1)]
    span = x[right] - x[left]
    inside = (block > 0) & (block < len(starts) - 1) & (span > 0)
    chord = y[left] + (y[right] - y[left]) * (x - x[left]) / np.where(span > 0, span, 1.0)
    kept: Array = ~inside | (y < chord)
    return kept


def _turns_right(x: list[float], y: list[float], a: int, b: int, c: int) -> bool:
    """Return whether b lies on or above the line from a to c."""
    return (x[b] - x[a]) * (y[c] - y[a]) <= (y[b] - y[a]) * (x[c] - x[a])


def envelope(time_ns: Array, delay_ns: Array) -> tuple[float, float]:
    """Return slope and value at time 0 of the line below all points that is nearest to them on average.

    Parameters
    ----------
    time_ns, delay_ns : ndarray of float64 or int64, shape (n,)
        The points, at least one; never NA.
    """
    hull = lower_hull(time_ns, delay_ns)
    x, y = time_ns[hull], delay_ns[hull]
    if len(hull) < 2:
        return 0.0, float(y[0])
    edge = int(np.searchsorted(x, time_ns.mean()).clip(1, len(hull) - 1))
    slope = (y[edge] - y[edge - 1]) / (x[edge] - x[edge - 1])
    return float(slope), float(y[edge] - slope * x[edge])


# The lines that run between two clouds of points: one bounds them from above, the other from below.
#
# An event that reached clock `from` before clock `to` says that the offset is at most ``to - from``, one that
# went the other way that it is at least that. With delays of microseconds or milliseconds between the two,
# all lines that contradict nobody are a narrow bundle: its middle is the estimate, its width the error.
# Nothing is assumed of the delays but their sign.


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
        points=ClockEvidence(from_ns, to_ns, direction),
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
