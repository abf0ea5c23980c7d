"""The skew at which the minimum delays of many time windows are densest at one level.

If a link has slots or a persistent queue, a line below all delays follows the slots or the queue. The skew at
which the minimum delays agree on *one* level, at any height, follows neither. Time is divided into windows;
the minimum delay of each is used, with a width from its own spacing. Both directions are evaluated together:
a skew has opposite signs in them, a queue has not.

The posterior of the skew is computed on a grid that is refined at the best place, first with larger widths.
The file also has the other fits of lines: `envelope` (below all points) and `corridor` (between events).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.estimate import MOST_SKEW_PPM, PPM, ClockEvidence, Estimate, EventDirection
from multitracer.errors import ClockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Array, Mask

    Cloud = tuple[Array, Array]

LARGEST_SKEW = MOST_SKEW_PPM * PPM
"""Maximum skew of a quartz (no unit)."""
_WINDOWS, _PER_WINDOW = 72, 6
"""Number of windows, and minimum number of packets in each, so that each has a minimum delay, and many can agree. Not
measured."""
_SLOPES = 81  # 12.5 ppm a step in the first round; each round looks `_ZOOM` times as close
_ZOOM = 8.0  # a round covers ten steps of the one before, so that its maximum is not lost
_ROUNDS = 9  # after nine rounds a step is far below 1e-6 ppm
_OUTLIER = 0.12  # share of windows that may say nothing (a queue all through). Not measured
_SHARP_NS = 2_000.0  # no stamp is sharper: keeps the density of equal delays finite
_LOWEST = 4  # delays of a window that show how dense its lowest ones lie. Not measured
_NARROWEST = 0.2  # of the usual width: a window's lowest delays may be close together by chance. Not measured
_LEVELS = (0.3, 1.2)  # widths below each low at which the level is tried. Not measured
_STEEP = 12
"""Ratio of the slopes of the density below and above the level: no packet is faster than the level. Not measured."""
_AREA = 1.1  # about 1 + 1 / `_STEEP`: the density's integral over both sides, in widths
_BROAD_WIDTHS = 10  # beyond the range of the data: a window that says nothing may lie there. Not measured
_NEGLIGIBLE = 60.0
"""A difference of log-likelihoods from which a term is negligible: e^-60 is below the rounding of any sum with 1."""
_LOST = 39.0
"""A density of e^-39 of the floor is lost in their sum: half of a float64's last digit is 2^-54 = e^-37.4 or more."""
_CELLS = 16_384
"""Number of terms (window, skew, candidate) that are computed together: 128 KiB, which stays in the processor's cache.
"""
_NEAR = 3.0  # widths from a level to a window's low. Less makes the bound looser near it, more far off
_AT_THE_EDGE = 1e-3  # of the maximum: a posterior that is larger there goes on. Not measured
_RESOLVED = 4  # steps of the grid within a standard deviation: the maximum is then not missed


@dataclass(frozen=True, slots=True)
class Lows:
    """The minimum delay of each window of one direction.

    Parameters
    ----------
    sign : int
        Sign of the skew in this direction's delays.
    time_ns, delay_ns, width_ns : ndarray, shape (n_windows,)
    """

    sign: int
    time_ns: Array
    delay_ns: Array
    width_ns: Array

    def where(self, keep: Mask) -> Lows:
        """Return some of the windows."""
        return Lows(self.sign, self.time_ns[keep], self.delay_ns[keep], self.width_ns[keep])


def window_lows(sign: int, time_ns: Array, delay_ns: Array, *, slope: float) -> Lows:
    """Return the minimum delay in each of many time windows with equal numbers of packets.

    `slope` is removed from the delays before the minimum is searched.

    Parameters
    ----------
    sign : int
        The sign of the skew in the delays of this direction, 1 or -1.
    time_ns, delay_ns : ndarray of float64, ns, shape (n_packets,)
        Send time of each packet, and its delay by the two clocks.
    slope : float
        The approximate skew.
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
        The minimum delays of both directions.
    starts : list of float
        Skews to examine in addition to the full range, such as those of the envelopes.

    Returns
    -------
    skews, probabilities : ndarray of float64, shape (n_candidates,)
        Skews without unit, up to LARGEST_SKEW; the probabilities sum to 1.
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


def skew_near(lows: list[Lows], centre: float, half: float) -> float:
    """Return the mean of the skew's posterior, where it lies within `half` of a skew that is nearly right.

    That costs a tenth of the search over all skews, which is done where the posterior reaches further.
    """
    grid = centre + half * np.linspace(-1, 1, _SLOPES)
    likely = _likelihood(lows, grid, blur_ns=0.0)
    if max(likely[0], likely[-1]) > _AT_THE_EDGE:
        grid, likely = skew_posterior(lows, [centre])
    return float((grid * likely).sum() / likely.sum())


def _spread(grid: Array, likely: Array) -> float:
    mean = (grid * likely).sum() / likely.sum()
    return float(np.sqrt((likely * (grid - mean) ** 2).sum() / likely.sum()))


def _likelihood(lows: list[Lows], slopes: Array, *, blur_ns: float, negligible: float = np.inf) -> Array:
    """Return the likelihood of each skew in `slopes`, integrated over all levels; the maximum is about 1.

    It is 0 where a bound shows that its logarithm is more than `negligible` below the maximum.
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
    """The minimum delays of one direction, after each candidate skew is removed.

    Parameters
    ----------
    flat_ns : ndarray of float64, shape (n_slopes, n_windows)
        The minimum delays after the skew is removed.
    width_ns : ndarray of float64, shape (n_windows,)
    floor : float
        The density of a window without information.
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
        """Return an upper bound of the log-likelihood of each skew, which is fast to compute.

        The maximum number of windows that can be near one level counts as exactly on it; all other windows
        count as just outside.
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

        Candidates for the level are the minimum delays of the windows, and values a half, one and three
        widths below each.
        """
        windows, result = len(self.width_ns), np.empty(len(chosen))
        width, lower = self.width_ns[:, None, None], np.multiply.outer(_LEVELS, self.width_ns)
        area = _AREA * width / (1 - _OUTLIER)
        lost = np.log(self.floor * area) - _LOST
        together = max(_CELLS // (windows * lower.size), 1)
        both = np.empty((2, windows, min(together, len(chosen)), lower.size))  # windows, skews, candidates
        for first in range(0, len(chosen), together):
            flat = self.flat_ns[chosen[first : first + together]]
            each, other = both[:, :, : len(flat)]
            np.subtract((flat[:, None, :] - lower).reshape(len(flat), -1), flat.T[:, :, None], out=each)
            each /= width
            np.minimum(each, np.multiply(each, -_STEEP, out=other), out=each)
            other.fill(0.0)
            np.divide(np.exp(each, out=other, where=each > lost), area, out=other)
            other += self.floor
            logs = _sum_of_logs(other)
            most = logs.max(axis=1)
            mean = np.exp(logs - most[:, None]).sum(axis=1) / lower.size
            result[first : first + together] = most + np.log(mean)
        return result


def _sum_of_logs(values: Array) -> Array:
    """Return the sum of each column's logarithms, computed from products because that is faster.

    Three halvings make products of up to eight densities, each of which is at least 1e-20.
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
"""Number of points in a block: the square root of some thousand, at which both passes take about the same time."""
_MANY_BLOCKS = 50  # with fewer points the hull itself is quick; no effect on the result. Not measured
_LITTLE_LESS = 0.9  # a pass that keeps more of the points does not pay for itself. Not measured


def lower_hull(time_ns: Array, delay_ns: Array) -> Array:
    """Return the indexes of the vertices of the lower convex hull, sorted by time.

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
    """Return indexes of the points sorted by time; of many points only those that can be hull vertices."""
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
    """Return which points can be vertices of the lower hull: bool.

    They lie below the line between the lowest points of the two neighbouring blocks. A point on this line is
    not a vertex either: without queueing all delays are equal.
    """
    starts = np.arange(0, len(x), _BLOCK)
    block = np.arange(len(x)) // _BLOCK
    blocks = np.full((len(starts), _BLOCK), np.inf)
    blocks.flat[: len(y)] = y
    minimum = starts + blocks.argmin(axis=1)
    left, right = minimum[np.maximum(block - 1, 0)], minimum[np.minimum(block + 1, len(starts) - 1)]
    span = x[right] - x[left]
    inside = (block > 0) & (block < len(starts) - 1) & (span > 0)
    chord = y[left] + (y[right] - y[left]) * (x - x[left]) / np.where(span > 0, span, 1.0)
    kept: Array = ~inside | (y < chord)
    return kept


def _turns_right(x: list[float], y: list[float], a: int, b: int, c: int) -> bool:
    """Return whether point b is on or above the line from point a to point c."""
    return (x[b] - x[a]) * (y[c] - y[a]) <= (y[b] - y[a]) * (x[c] - x[a])


def envelope(time_ns: Array, delay_ns: Array) -> tuple[float, float]:
    """Return slope and value at time 0 of the highest line below all points.

    Of all lines below the points, it has the smallest mean distance to them.

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
_MOST_OUTLIERS = 3
"""Number of outliers (wrongly paired events) in addition to the share `_OUTLIER_PART`."""
_OUTLIER_PART = 100  # one event in a hundred. Not measured
_STAMPING_NS = 20_000.0  # hosts stamp packets some ten microseconds late; the same in `one_way`


def corridor(from_ns: Array, to_ns: Array, direction: Array, *, method: str, slack_ns: float) -> Estimate:
    """Return the line in the middle of all lines that no event contradicts.

    An event contradicts a line if, by the line, it arrives before it was sent.

    Parameters
    ----------
    from_ns, to_ns : ndarray of int64, shape (n_events,)
        Times of each event by the two clocks.
    direction : ndarray of int8, shape (n_events,)
        An `EventDirection`: FORWARD where `from` saw it first, BACKWARD where `to` did.
    method : str
        Name of the method, for the estimate.
    slack_ns : float
        Tolerance for contradictions, since times are not exact.

    Raises
    ------
    ClockError
        If one of the two directions is missing, or if the events contradict each other by more than the tolerance.
    """
    ahead, behind = direction == EventDirection.FORWARD.value, direction == EventDirection.BACKWARD.value
    if min(int(ahead.sum()), int(behind.sum())) < _FEWEST:
        raise ClockError(
            f"{method}: cannot determine the clock offset, because the {len(from_ns)} events that "
            "both logs contain bound the offset on one side only; what would help: logs of the same "
            "connection from begin to end"
        )
    first, base = int(from_ns.min()), int(to_ns[0] - from_ns[0])
    x, y = (from_ns - first).astype(np.float64), (to_ns - from_ns - base).astype(np.float64)
    above, below = (x[ahead], y[ahead]), (x[behind], -y[behind])
    for _ in range(_MOST_OUTLIERS + len(x) // _OUTLIER_PART):
        upper, lower = _vertices(*above), _vertices(*below)
        slope = _widest(upper, lower)
        width = _width(upper, lower, slope)
        if width >= -slack_ns or min(len(above[0]), len(below[0])) <= _FEWEST:
            break
        above, below = _without_outlier(above, below, slope)
    if width < -slack_ns:
        raise ClockError(
            f"{method}: cannot determine the clock offset, because the logs contradict each other by "
            f"{-width / 1e6:.1f} ms at any offset: a clock stepped, or the logs are from different "
            "connections; what would help: a part without the step"
        )
    minimum, most = (_edge(upper, lower, slope, sign) for sign in (-1, 1))
    top, bottom = _min(upper, slope), -_min(lower, -slope)
    pivot = float((x.min() + x.max()) / 2)
    half = (max(top - bottom, 0.0) + _STAMPING_NS) / 2
    return Estimate.around(
        first + round(pivot),
        half,
        first_ns=first,
        last_ns=int(from_ns.max()),
        offset_ns=base + round((top + bottom) / 2),
        skew_ppm=slope / PPM,
        skew_uncertainty_ppm=max(most - slope, slope - minimum) / PPM,
        method=method,
        evidence=len(x),
        lower_ns=base + round(min(bottom, top)),
        upper_ns=base + round(max(bottom, top)),
        points=ClockEvidence(from_ns, to_ns, direction),
    )


def certain(above: Cloud, below: Cloud, at: float) -> tuple[float, float]:
    """Return the minimum and maximum value at time `at` of all lines that no event contradicts.

    Unlike a confidence interval, this assumes only that delays are positive, and that no skew exceeds
    `LARGEST_SKEW`.

    Parameters
    ----------
    above, below : (ndarray, ndarray)
        Times and values of events above the line; times and negated values of events below it.
    at : float
        The time; it must be near the events.

    Returns
    -------
    (float, float)
        Minimum and maximum; the minimum exceeds the maximum if there is no such line.
    """
    upper, lower = _vertices(above[0] - at, above[1]), _vertices(below[0] - at, below[1])
    slope = _widest(upper, lower)
    edges = (_edge(upper, lower, slope, -1), _edge(upper, lower, slope, 1))
    most = _largest(lambda each: _min(upper, each), *edges)
    minimum = -_largest(lambda each: _min(lower, -each), *edges)
    return minimum, most


def _without_outlier(above: Cloud, below: Cloud, slope: float) -> tuple[Cloud, Cloud]:
    """Return the events above and below without the one event that contradicts the others most."""
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


def _min(cloud: Cloud, slope: float) -> float:
    return float((cloud[1] - slope * cloud[0]).min())


def _width(upper: Cloud, lower: Cloud, slope: float) -> float:
    """Return the distance between the highest and the lowest line with a slope that no event contradicts.

    It is a concave function of the slope.
    """
    return _min(upper, slope) + _min(lower, -slope)


def _widest(upper: Cloud, lower: Cloud) -> float:
    """Return the slope for which `_width` is largest."""
    return _highest(lambda slope: _width(upper, lower, slope), -LARGEST_SKEW, LARGEST_SKEW)


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the argument at which a concave function is maximal, by ternary search."""
    for _ in range(_HALVINGS):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        if function(one) < function(other):
            low = one
        else:
            high = other
    return (low + high) / 2


def _largest(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the maximum of a concave function."""
    return max(function(low), function(high), function(_highest(function, low, high)))


def _edge(upper: Cloud, lower: Cloud, slope: float, sign: int) -> float:
    """Return the maximum (`sign` 1) or minimum (`sign` -1) slope of a line that no event contradicts."""
    inside, outside = slope, sign * LARGEST_SKEW
    allowed = min(0.0, _width(upper, lower, slope))
    if _width(upper, lower, outside) >= allowed:
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if _width(upper, lower, middle) >= allowed else (inside, middle)
    return inside
