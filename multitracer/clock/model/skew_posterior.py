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

from multitracer.clock.model.estimate import MOST_SKEW_PPM, PPM

if TYPE_CHECKING:
    from multitracer.tables import Array


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
