"""Bins of a series: how many, and which point falls into which.

A bin's number is a code from 0 on, without holes; a missing point has code -1. Equal values share a bin, so
that levels such as CQI or MCS stay levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import iqr, rankdata

if TYPE_CHECKING:
    from multitracer.tables import Array, Numbers

MISSING = -1
"""The code of a point without a value."""
_LEAST_BINS = 2
"""A series in one bin tells nothing."""
_MOST_WIDTHS = 64
"""Bins of equal width; outliers would ask for millions, and 64 by 64 counts stay small (not measured)."""


def bin_count(points: int, series: int = 2) -> int:
    """Return how many bins each series gets: points ** (1 / (series + 1)), rounded down, at least 2.

    The rule is of Palus (1995), Testing for nonlinearity using redundancies, Physica D 80, section 3: with
    more bins the estimate of the information of that many series is carried by empty cells.
    """
    return max(_LEAST_BINS, int(points ** (1 / (series + 1)) + 1e-9))


def equal_count_codes(values: Array, bins: int) -> Numbers:
    """Return the bin of each point, bins holding as equally many points as ties allow.

    Parameters
    ----------
    values : ndarray of float64, shape (n_points,)
        NaN where missing.
    bins : int
        At most so many; a series with no more different values than that has a bin for each value.

    Returns
    -------
    ndarray of int64, shape (n_points,)
    """
    there = np.isfinite(values)
    distinct, codes = np.unique(values[there], return_inverse=True)
    if len(distinct) > bins:
        middle = (rankdata(values[there]) - 0.5) / max(1, int(there.sum()))  # ties have their mean rank
        codes = np.unique((middle * bins).astype(np.int64), return_inverse=True)[1]
    return _spread(codes, there)


def equal_width_codes(values: Array) -> Numbers:
    """Return the bin of each point, bins as wide as Freedman and Diaconis (1981) say: 2 IQR / cube root of n.

    At most 64 bins: what lies beyond is in the last one. A series whose interquartile range is 0 has no such
    width; it gets bins of equal counts.
    """
    there = np.isfinite(values)
    held = values[there]
    width = 2 * float(iqr(held)) / len(held) ** (1 / 3) if len(held) else 0.0
    if not width > 0:
        return equal_count_codes(values, bin_count(len(held)))
    low = float(np.quantile(held, 0.5)) - width * _MOST_WIDTHS / 2
    low = max(low, float(held.min()))
    place = np.clip((held - low) / width, 0, _MOST_WIDTHS - 1).astype(np.int64)
    return _spread(np.unique(place, return_inverse=True)[1], there)


def _spread(codes: Array, there: Array) -> Numbers:
    """Return the codes of points that are there, among those that are not."""
    spread = np.full(len(there), MISSING, dtype=np.int64)
    spread[there] = codes
    return spread
