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
    half, centre = LARGEST_SKEW, 0.0
    for _ in range(_ROUNDS):
        grid = np.unique(np.concatenate([centre + half * np.linspace(-1, 1, _SLOPES), starts]))
        step = 2 * half / (_SLOPES - 1)
        likely = _likelihood(lows, grid, blur_ns=step * span / 2)
        centre = float(grid[np.argmax(likely)])
        if half < LARGEST_SKEW and _spread(grid, likely) > _RESOLVED * step:
            break
        half /= _ZOOM
    grid = np.clip(centre + half * np.linspace(-1, 1, 4 * _SLOPES), -LARGEST_SKEW, LARGEST_SKEW)
    likely = _likelihood(lows, grid, blur_ns=0.0)
    return grid, likely / likely.sum()


def _spread(grid: Array, likely: Array) -> float:
    mean = (grid * likely).sum() / likely.sum()
    return float(np.sqrt((likely * (grid - mean) ** 2).sum() / likely.sum()))


def _likelihood(lows: list[Lows], slopes: Array, *, blur_ns: float) -> Array:
    """Return the likelihood of each skew, the levels integrated out; the largest is about 1."""
    total = np.zeros(len(slopes))
    for low in lows:
        total += _log_likelihood(low, slopes, blur_ns)
    likely: Array = np.exp(total - total.max())
    return likely


def _log_likelihood(low: Lows, slopes: Array, blur_ns: float) -> Array:
    """Return the log-likelihood of each skew for one direction.

    Candidates for the level are the windows' own lows, each with a half, one and three widths below it.
    """
    flat = low.delay_ns[None, :] - low.sign * slopes[:, None] * low.time_ns[None, :]
    width = low.width_ns + blur_ns
    below = np.concatenate([flat - f * width[None, :] for f in _LEVELS], axis=1)
    broad = float(np.ptp(flat)) + _BROAD_WIDTHS * float(width.max()) + 1.0
    result, area = np.empty(len(slopes)), _AREA * width
    each, other = np.empty((2, below.shape[1], flat.shape[1]))  # not anew for each slope
    for i in range(len(slopes)):
        np.subtract(flat[i][None, :], below[i][:, None], out=each)
        each /= width
        np.maximum(each, np.multiply(each, -_STEEP, out=other), out=each)
        np.divide(np.exp(np.negative(each, out=each), out=each), area, out=each)
        each *= 1 - _OUTLIER
        each += _OUTLIER / broad
        logs = np.log(each, out=each).sum(axis=1)
        most = logs.max()
        result[i] = most + np.log(np.exp(logs - most).sum() / len(logs))
    return result
