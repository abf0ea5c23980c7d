"""Mutual information from nearest neighbours, without bins: Kraskov, Stögbauer and Grassberger (2004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.feature_selection import mutual_info_regression

if TYPE_CHECKING:
    from multitracer.tables import Array

_NEIGHBOURS = 3
"""Kraskov, Stögbauer and Grassberger advise 2 to 4."""


def information_of_neighbours(x: Array, y: Array) -> float:
    """Return the mutual information of two series, nats, by their first algorithm; never below 0.

    Parameters
    ----------
    x, y : ndarray of float64, shape (n_points,)
        Without gaps. Equal values are pulled apart by noise of 1e-10 of their size, whose seed is fixed.
    """
    information = mutual_info_regression(
        x[:, None], y, discrete_features=False, n_neighbors=_NEIGHBOURS, random_state=0
    )
    return float(information[0])


def linfoot(information: Array) -> Array:
    """Return Linfoot's informational correlation, sqrt(1 - exp(-2 I)), 0 to 1.

    Linfoot (1957), Information and Control 1. Of two normal series it is the size of their correlation.
    """
    value: Array = np.sqrt(-np.expm1(-2 * np.asarray(information)))
    return value
