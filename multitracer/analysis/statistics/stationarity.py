"""Whether a series can be told from a random walk: without that, no baseline of shifts holds for it.

Two independent random walks look dependent nearly always (Granger and Newbold 1974). The test is that of Said
and Dickey (1984), with a constant and a fixed number of differences, in each session; Im, Pesaran and Shin
(2003) join the sessions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array, Numbers

_MEAN, _DEVIATION = -1.533, 0.841
"""Of t in a random walk of many points: Im, Pesaran and Shin (2003), table 1; 0.841 is the root of 0.706."""
_QUANTILE = 1.96
"""2.5 % of random walks pass; with both series tested, under one pair in a thousand does."""
_LEAST_POINTS = 30
"""A session with fewer is not tested: it has hardly more points than the regression has unknowns (ours)."""
_ROUNDING = 1e-12
"""Of float64, 2e-16, over sums of thousands of points."""


def is_random_walk(values: Array, session: Numbers) -> bool:
    """Return whether a series cannot be told from a random walk, at a level of 2.5 %.

    Parameters
    ----------
    values : ndarray of float64, shape (n_points,)
        NaN where missing.
    session : ndarray of int64, shape (n_points,)

    Returns
    -------
    bool
        Also True if no session is long enough to be tested.
    """
    each = [_statistic(values[session == one]) for one in np.unique(session)]
    tested = [value for value in each if not np.isnan(value)]
    if not tested:
        return True
    least = _MEAN - _QUANTILE * _DEVIATION / math.sqrt(len(tested))
    return float(np.mean(tested)) > least


def _statistic(values: Array) -> float:
    """Return Dickey and Fuller's t of one session, NaN if it is too short; gaps are closed up."""
    held = values[np.isfinite(values)]
    if len(held) < _LEAST_POINTS:
        return float("nan")
    order = int(4 * (len(held) / 100) ** 0.25)  # Schwert (1989), l4
    slope_t = _slope_t(held, order)
    return _slope_t(held, 0) if np.isnan(slope_t) else slope_t


def _slope_t(held: Array, order: int) -> float:
    """Return the t of the level in a regression of the next difference on it and on `order` differences.

    NaN if the regressors are not independent. A series without chance in it has no t: minus infinity if it
    goes back to its level, else 0.
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
