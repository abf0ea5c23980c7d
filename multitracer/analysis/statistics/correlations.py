"""Rank correlation, distance correlation, and mutual information from nearest neighbours.

Nearest neighbours need no bins: Kraskov, Stögbauer and Grassberger (2004).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

if TYPE_CHECKING:
    from multitracer.tables import Array, Numbers

if find_spec("sklearn") is None:  # imported where it is called: that takes longer than all the rest
    raise ModuleNotFoundError("sklearn is not installed", name="sklearn")


def rank_correlation(x: Array, y: Array) -> float:
    """Return Spearman's correlation of the points that both series have; NaN if a series is constant."""
    pair = _varying_pair(x, y)
    return float("nan") if pair is None else float(spearmanr(*pair).statistic)


def correlation_of_distances(x: Array, y: Array) -> float:
    """Return the distance correlation of the points that both series have; NaN if a series is constant.

    Szekely, Rizzo and Bakirov (2007), Annals of Statistics 35: it is 0 only for independent series, for any
    kind of dependence. The sums over all pairs of points take time n log n (Huo and Szekely 2016). It does not
    depend on origin and scale: those that lose no digit of a difference, and whose squares fit, are chosen.
    """
    pair = _varying_pair(x, y)
    if pair is None:
        return float("nan")
    x, y = (_centred(values) for values in pair)
    n, of_x, of_y = len(x), _distances(x), _distances(y)
    variance_x = _squared_covariance(2 * n * float(x @ x), of_x, of_x)
    variance_y = _squared_covariance(2 * n * float(y @ y), of_y, of_y)
    covariance = max(_squared_covariance(_products_of_distances(x, y), of_x, of_y), 0.0)  # rounding
    return min(float(np.sqrt(covariance / np.sqrt(variance_x * variance_y))), 1.0)


def _centred(values: Array) -> Array:
    """Return the values with a range of 1 and a mean of 0; between 1e9 and its neighbour there is no exact mean."""
    shifted = (values - values[0]) / np.ptp(values)
    return np.asarray(shifted - shifted.mean())


def _squared_covariance(products: float, of_x: Array, of_y: Array) -> float:
    """Return the squared distance covariance.

    Parameters
    ----------
    products : float
        Sum of |x_i - x_j| |y_i - y_j| over all ordered pairs of points.
    of_x, of_y : ndarray of float64, shape (n_points,)
        For each point, the sum of its distances to all points.
    """
    n = len(of_x)
    return products / n**2 - 2 * float(of_x @ of_y) / n**3 + float(of_x.sum() * of_y.sum()) / n**4


def _distances(values: Array) -> Array:
    """Return, for each value, the sum of its distances to all values."""
    order = np.argsort(values)
    ordered = values[order]
    distances = np.empty_like(values)
    below = np.cumsum(ordered) - ordered
    distances[order] = (2 * np.arange(len(values)) - len(values)) * ordered + ordered.sum() - 2 * below
    return distances


def _products_of_distances(x: Array, y: Array) -> float:
    """Return the sum of |x_i - x_j| |y_i - y_j| over all ordered pairs of points of two centred series.

    Without absolute values the sum would be 2 n (x @ y). A pair whose y falls where its x rises counts with the
    wrong sign there, so that the sum is twice that of the concordant pairs alone, minus it.
    """
    by_x = np.argsort(x)
    x, y = x[by_x], y[by_x]
    return 4 * _concordant(x, y) - 2 * len(x) * float(x @ y)


def _concordant(x: Array, y: Array) -> float:
    """Return the sum of (x_j - x_i) (y_j - y_i) over all i < j where y_i < y_j; x ascends.

    As in a merge sort, each pair is in exactly one step in the two halves of one block. Within a block, points are
    in the order of y: running sums over the points of the first half meet each point of the second half.
    """
    size = 1 << (len(x) - 1).bit_length()
    terms = np.zeros((4, size))  # a point that only fills up has zeros
    terms[:, : len(x)] = np.ones_like(x), x, y, x * y
    points: Numbers = np.append(np.argsort(y, kind="stable"), np.arange(len(x), size))
    total = 0.0
    while size > 1:
        half = size // 2
        of_points, is_second = terms[:, points].reshape(4, -1, size), (points & half) > 0
        n, sum_x, sum_y, sum_xy = np.cumsum(of_points * ~is_second.reshape(-1, size), axis=-1)
        one, each_x, each_y, each_xy = of_points * is_second.reshape(-1, size)
        total += float(np.sum(each_xy * n - each_x * sum_y - each_y * sum_x + one * sum_xy))
        halves = points[~is_second].reshape(-1, half), points[is_second].reshape(-1, half)
        points, size = np.stack(halves, axis=1).ravel(), half
    return total


def _varying_pair(x: Array, y: Array) -> tuple[Array, Array] | None:
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    return (x, y) if len(x) and np.ptp(x) > 0 and np.ptp(y) > 0 else None


_NEIGHBOURS = 3
"""Number of neighbours; Kraskov, Stögbauer and Grassberger recommend 2 to 4."""


def information_of_neighbours(x: Array, y: Array) -> float:
    """Return the mutual information of two series in nats, at least 0 (first KSG algorithm).

    Parameters
    ----------
    x, y : ndarray of float64, shape (n_points,)
        Without gaps. Noise of 1e-10 of their size (fixed seed) separates equal values.
    """
    from sklearn.feature_selection import mutual_info_regression  # noqa: PLC0415  # 0.7 s, and only `ksg` needs it

    information = mutual_info_regression(
        x[:, None], y, discrete_features=False, n_neighbors=_NEIGHBOURS, random_state=0
    )
    return float(information[0])


def linfoot(information: Array) -> Array:
    """Return Linfoot's informational correlation, sqrt(1 - exp(-2 I)), 0 to 1.

    Linfoot (1957), Information and Control 1. For two normal series it equals the absolute value of their correlation.
    """
    value: Array = np.sqrt(-np.expm1(-2 * np.asarray(information)))
    return value
