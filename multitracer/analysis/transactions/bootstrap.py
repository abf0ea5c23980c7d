"""How sure a median is: the percentile bootstrap (Efron 1979), drawn without making the resamples.

The k-th smallest of n values drawn with replacement from sorted x is x[ceil(n U) - 1], where U is the k-th
smallest of n uniform numbers, which is Beta(k, n - k + 1). So a resample's median costs one or two numbers
instead of n, exactly, and a million transactions need no more memory than a hundred. A value that is longer
than could be waited for is inf: it counts in every median, and enters no mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array

DRAWS = 10_000
"""Resamples behind each interval."""
CONFIDENCE = 0.95  # the usual level of an interval; a convention


class Interval(NamedTuple):
    """An estimate and its 95 % interval; `high` is inf where the data give no upper bound."""

    value: float
    low: float
    high: float


def quantile(ordered: Array, share: float) -> float:
    """Return the smallest of the sorted values that at least `share` of them do not exceed; NaN for none.

    Parameters
    ----------
    ordered : ndarray of float64, shape (n,)
        Ascending; inf sorts last, NaN must not occur.
    share : float
        From 0 to 1.
    """
    if not len(ordered):
        return float("nan")
    return float(ordered[max(0, int(np.ceil(share * len(ordered) - 1e-9)) - 1)])


def median(ordered: Array) -> float:
    """Return the middle of sorted values; inf if a middle one is, NaN for none.

    Parameters
    ----------
    ordered : ndarray of float64, shape (n,)
        Ascending; NaN must not occur.
    """
    if not len(ordered):
        return float("nan")
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


def median_draws(ordered: Array, random: np.random.Generator, draws: int = DRAWS) -> Array:
    """Return the medians of `draws` resamples of sorted values.

    Parameters
    ----------
    ordered : ndarray of float64, shape (n,)
        Sorted, n > 0; inf for a value that is only known to be too long.
    random : numpy.random.Generator
    draws : int

    Returns
    -------
    ndarray of float64, shape (draws,)
    """
    number = len(ordered)
    lower = (number + 1) // 2
    uniform = random.beta(lower, number - lower + 1, draws)
    low = _picked(ordered, uniform)
    if number % 2:
        return low
    next_one = uniform + (1 - uniform) * random.beta(1, number - lower, draws)
    middle: Array = (low + _picked(ordered, next_one)) / 2
    return middle


def _picked(ordered: Array, uniform: Array) -> Array:
    places = np.ceil(uniform * len(ordered)).astype(np.int64) - 1
    return np.asarray(ordered[np.clip(places, 0, len(ordered) - 1)], dtype=np.float64)


def interval(value: float, draws: Array) -> Interval:
    """Return an estimate with the middle 95 % of its draws; a draw that is NaN could be anything.

    Parameters
    ----------
    value : float
    draws : ndarray of float64, shape (n_draws,)
        In any order, in the unit of `value`.
    """
    tail = (1 - CONFIDENCE) / 2
    low = quantile(np.sort(np.where(np.isnan(draws), -np.inf, draws)), tail)
    high = quantile(np.sort(np.where(np.isnan(draws), np.inf, draws)), 1 - tail)
    return Interval(value, low, high)


def median_interval(ordered: Array, random: np.random.Generator) -> Interval:
    """Return the median of sorted values and its interval; NaN for none.

    Parameters
    ----------
    ordered : ndarray of float64, shape (n,)
        Ascending; NaN must not occur.
    random : numpy.random.Generator
    """
    if not len(ordered):
        return Interval(*[float("nan")] * 3)
    return interval(median(ordered), median_draws(ordered, random))
