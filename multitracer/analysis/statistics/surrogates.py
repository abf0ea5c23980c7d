"""Surrogates: orders of the points of a series that keep its autocorrelation but no other dependence.

Each order is a row of positions, so the same rows serve values and bins. A point moves only within its
session, and only to places where the series has a value: gaps stay in place.

`is_random_walk` tests whether a series is distinguishable from a random walk; if it is not, surrogates by
shifts are not valid. Two independent random walks nearly always look dependent (Granger and Newbold 1974).
The test is that of Said and Dickey (1984), with a constant and a fixed number of differences, in each
session; the sessions are combined by Im, Pesaran and Shin (2003).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import irfft, next_fast_len, rfft

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array, Numbers

Baseline = Literal["shift", "block", "plain"]
BASELINES: tuple[Baseline, ...] = ("shift", "block", "plain")
_CELLS = 1 << 17
"""Number of positions that are computed together, 1 MB of int64: 2^15 to 2^19 take the same time within 15 %."""


def block_length(x: Array, y: Array, session: Numbers) -> int:
    """Return the length of a block in a block permutation: five correlation times of the slower series.

    Measured with pairs of independent first-order autoregressive series (r = 0.9 and 0.95, 600 points, 250
    pairs each): 6.4 and 5.2 % were significant at 5 %. With the rule of Carlstein (1986), which is meant for
    the variance of a mean, 9.2 and 8.4 % were significant.

    Parameters
    ----------
    x, y : ndarray of float64, shape (n_points,)
        NaN where missing.
    session : ndarray of int64, shape (n_points,)
    """
    return int(np.ceil(_TIMES * max(correlation_time(x, session), correlation_time(y, session))))


_TIMES = 5
"""Length of a block in correlation times (see `block_length`), and width of Sokal's window."""


def correlation_time(values: Array, session: Numbers) -> float:
    """Return the integrated autocorrelation time in points: 1 + 2 (r_1 + r_2 + ...), at least 1.

    The sum ends at the first lag that is five times the result: Sokal (1997), Monte Carlo methods in
    statistical mechanics, section 3. Each session is centred by itself; gaps and borders count as 0.
    """
    there = np.isfinite(values)
    members = np.unique(session, return_inverse=True)[1]
    held = np.maximum(np.bincount(members, there), 1)
    filled = np.where(there, values, 0.0)
    centred = np.where(there, filled - (np.bincount(members, filled) / held)[members], 0.0)
    size = next_fast_len(2 * len(values))
    products = irfft(np.abs(rfft(centred, size)) ** 2, size)[: len(values)]
    if not products[0] > 0:
        return 1.0
    times = 2 * np.cumsum(products / products[0]) - 1
    ends = np.flatnonzero(np.arange(len(times)) >= _TIMES * times)
    return max(1.0, float(times[ends[0] if len(ends) else -1]))


def surrogate_orders(session: Numbers, baseline: Baseline, *, count: int, block: int, seed: int) -> Iterator[Numbers]:
    """Yield random reorderings of the points of a series: rows of indices, in blocks of rows.

    Parameters
    ----------
    session : ndarray of int64, shape (n_points,)
        Session of each point that has a value; the points of a session are contiguous.
    baseline : "shift", "block", "plain"
        "shift" rotates each session (a single session in two parts), "block" rotates it and permutes its
        blocks, "plain" permutes its points.
    count : int
        Total number of rows.
    block : int
        Number of points in a block.
    seed : int

    Yields
    ------
    ndarray of int64, shape (some rows, n_points)
    """
    chance = np.random.default_rng(seed)
    edges = np.flatnonzero(np.diff(session, prepend=session[0] - 1, append=session[-1] + 1))
    rows = max(1, _CELLS // len(session))
    for begin in range(0, count, rows):
        orders = np.empty((min(rows, count - begin), len(session)), dtype=np.int64)
        for low, high in pairwise(edges.tolist()):
            orders[:, low:high] = low + _orders(len(orders), high - low, baseline, block, chance)
        if baseline == "shift" and len(edges) == 2:
            orders = _in_two_parts(orders, chance)
        yield orders


def _orders(rows: int, points: int, baseline: Baseline, block: int, chance: np.random.Generator) -> Numbers:
    """Return random reorderings of the points of one session: indices, shape (rows, points)."""
    if baseline == "plain":
        return chance.permuted(np.tile(np.arange(points), (rows, 1)), axis=1)
    round_twice = np.tile(np.arange(points), 2)
    turned = sliding_window_view(round_twice, points)[chance.integers(0, points, rows)]
    blocks = max(1, points // block)
    if baseline == "shift" or blocks == 1:
        return turned
    of_point = np.arange(points) * blocks // points
    places = np.argsort(chance.random((rows, blocks)), axis=1)[:, of_point]
    return np.take_along_axis(turned, np.argsort(places, axis=1, kind="stable"), axis=1)


def _in_two_parts(orders: Numbers, chance: np.random.Generator) -> Numbers:
    """Return the reorderings after a cut into two parts, each rotated by a random number of points.

    The cut is in the middle half. A single rotation has only as many outcomes as points, and rotations by a
    small shift keep the dependence to be tested: 7 % of them with 600 points and 21 lags.
    """
    rows, points = orders.shape
    cuts = chance.integers(points // 4, max(points // 4 + 1, 3 * points // 4), rows)
    turns = chance.integers(0, points, (2, rows)).T
    parted = np.empty_like(orders)
    for order, result, cut, by in zip(orders, parted, cuts.tolist(), turns.tolist(), strict=True):
        for low, high, turn in ((0, cut, by[0]), (cut, points, by[1])):
            first = high - low - turn % max(high - low, 1)
            result[low : low + first] = order[high - first : high]
            result[low + first : high] = order[low : high - first]
    return parted


_MEAN, _DEVIATION = -1.533, 0.841
"""Mean and standard deviation of t in a random walk of many points: Im, Pesaran and Shin (2003), table 1; 0.841 is the
square root of 0.706."""
_QUANTILE = 1.96
"""Quantile of the test: 2.5 % of random walks pass; if both series are tested, less than one pair in a thousand does.
"""
_MIN_POINTS = 30
"""Minimum number of points of a session that is tested: with fewer, the regression has almost as many unknowns as
points (our choice)."""
_ROUNDING = 1e-12
"""Relative rounding error of float64 (2e-16) in sums of thousands of points."""


def is_random_walk(values: Array, session: Numbers) -> bool:
    """Return whether a series cannot be distinguished from a random walk, at a level of 2.5 %.

    Parameters
    ----------
    values : ndarray of float64, shape (n_points,)
        NaN where missing.
    session : ndarray of int64, shape (n_points,)

    Returns
    -------
    bool
        True also if no session is long enough for the test.
    """
    each = [_statistic(values[session == one]) for one in np.unique(session)]
    tested = [value for value in each if not np.isnan(value)]
    if not tested:
        return True
    minimum = _MEAN - _QUANTILE * _DEVIATION / math.sqrt(len(tested))
    return float(np.mean(tested)) > minimum


def _statistic(values: Array) -> float:
    """Return the t value of the Dickey-Fuller test of one session; NaN if the session is too short.

    Missing values are left out before the test.
    """
    held = values[np.isfinite(values)]
    if len(held) < _MIN_POINTS:
        return float("nan")
    order = int(4 * (len(held) / 100) ** 0.25)  # Schwert (1989), l4
    slope_t = _slope_t(held, order)
    return _slope_t(held, 0) if np.isnan(slope_t) else slope_t


def _slope_t(held: Array, order: int) -> float:
    """Return the t value of the level in the regression of the Dickey-Fuller test.

    The regression explains the next difference by the level and by the last `order` differences. The result
    is NaN if the regressors are linearly dependent. A series without noise has no t value: the result is then
    minus infinity if it returns to its level, else 0.
    """
    step = np.diff(held)
    rows = np.arange(order, len(step))
    past = [step[rows - back] for back in range(1, order + 1)]
    known = np.column_stack([held[rows] - held.mean(), np.ones(len(rows)), *past])
    known = known / np.maximum(np.abs(known).max(axis=0), np.finfo(float).tiny)
    slopes, _, rank, _ = np.linalg.lstsq(known, step[rows], rcond=None)
    if rank < known.shape[1]:
        return float("nan")
    rest = step[rows] - known @ slopes
    variance = rest @ rest / (len(rows) - known.shape[1])
    if variance <= _ROUNDING * step.var():
        return float("-inf") if slopes[0] < -_ROUNDING * np.abs(step).max() else 0.0
    return float(slopes[0] / np.sqrt(variance * np.linalg.inv(known.T @ known)[0, 0]))
