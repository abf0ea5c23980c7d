"""Points of one series beside points of another one, so many steps later, in the same session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers


def moved(values: Array, lag: int, session: Numbers, *, missing: float) -> Array:
    """Return, for each point t, the value at t + lag, and `missing` where that is in no or another session.

    Parameters
    ----------
    values : ndarray, shape (n_points,)
    lag : int, steps
    session : ndarray of int64, shape (n_points,)
    missing : float

    Returns
    -------
    ndarray of the dtype of `values`, shape (n_points,)
    """
    result = np.full(len(values), missing, dtype=values.dtype)
    if abs(lag) >= len(values):
        return result
    to, source = slice(max(0, -lag), len(values) - max(0, lag)), slice(max(0, lag), len(values) + min(0, lag))
    same = session[to] == session[source]
    result[to][same] = values[source][same]
    return result


def paired(x: Array, y: Array, lags: Numbers, session: Numbers) -> tuple[Mask, Mask, Numbers]:
    """Return which points of x and of y have a partner at any lag, and how many pairs there are at each.

    Parameters
    ----------
    x, y : ndarray of float64, shape (n_points,)
        NaN where missing.
    lags : ndarray of int64, shape (n_lags,), steps
    session : ndarray of int64, shape (n_points,)

    Returns
    -------
    tuple of ndarray of bool, shape (n_points,), twice, and ndarray of int64, shape (n_lags,)
    """
    of_x, of_y = np.isfinite(x), np.isfinite(y)
    has_x, has_y, counts = np.zeros(len(x), bool), np.zeros(len(y), bool), []
    for lag in lags.tolist():
        with_y = of_x & moved(of_y, lag, session, missing=False)
        has_x |= with_y
        has_y |= of_y & moved(of_x, -lag, session, missing=False)
        counts.append(int(with_y.sum()))
    return has_x, has_y, np.array(counts, dtype=np.int64)
