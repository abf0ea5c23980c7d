"""A pair of series in bins: their codes at each lag, and what follows from the counts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.statistics.bins import MISSING, bin_count, equal_count_codes, equal_width_codes
from multitracer.analysis.statistics.curve import by_bins, joint_counts
from multitracer.analysis.statistics.entropy import conditional, entropies, normalised
from multitracer.analysis.statistics.pairs import moved

if TYPE_CHECKING:
    from multitracer.analysis.statistics.choices import Choices
    from multitracer.analysis.statistics.curve import Measure
    from multitracer.analysis.statistics.grid import Grid
    from multitracer.tables import Array, Numbers

_ONE = 1 - 1e-9
"""From here on a value is 1 but for rounding."""


@dataclass(frozen=True, slots=True)
class Binned:
    """Two series in bins.

    Attributes
    ----------
    of_x, of_y : int
        How many bins each has.
    y : ndarray of int64, shape (n_held,)
        Codes of the points of y that have a value.
    partners : list of ndarray of int64, each of shape (n_held,)
        For each lag, the code of the point of x that belongs to each of them; -1 where it is missing.
    measure : Measure
    is_one_to_one : bool
        Whether, at some lag, each bin of one series goes with one bin of the other.
    """

    of_x: int
    of_y: int
    y: Numbers
    partners: list[Numbers]
    measure: Measure
    is_one_to_one: bool


def binned(grid: Grid, lags: list[int], choices: Choices, *, points: int) -> Binned:
    """Return the series in the bins of the estimator that was chosen; `points` set their number."""
    at = np.flatnonzero(np.isfinite(grid.y))
    by_width = choices.estimator == "freedman-diaconis"
    x, y = (
        equal_width_codes(values) if by_width else equal_count_codes(values, bin_count(points))
        for values in (grid.x, grid.y)
    )
    partners = [moved(x, -lag, grid.session, missing=MISSING)[at] for lag in lags]
    sizes = int(x.max()) + 1, int(y.max()) + 1
    counts = np.concatenate(list(joint_counts(partners, y[at][None], *sizes)))
    return Binned(
        *sizes,
        y[at],
        partners,
        by_bins(*sizes, choices.normaliser, corrected=choices.estimator == "miller-madow"),
        bool((normalised(entropies(counts), "max") >= _ONE).any()),
    )


@dataclass(frozen=True, slots=True)
class Stratified:
    """Two series in the bins of a third one, which is taken at the time of x; as `Binned`.

    Attributes
    ----------
    y : ndarray of int64, shape (n_held,)
    partners : list of ndarray of int64, each of shape (n_held,)
        Codes of the pairs of the third series and x.
    measure : Measure
        NaN where fewer than `least` points have all three.
    """

    y: Numbers
    partners: list[Numbers]
    measure: Measure


def stratified(grid: Grid, given: Array, lags: list[int], choices: Choices, *, least: int) -> Stratified:
    """Return the series in bins of equal counts, fewer than without a third one."""
    three = grid.x, grid.y, given
    bins = bin_count(int(np.isfinite(np.sum(three, axis=0)).sum()), series=3)
    x, y, z = (equal_count_codes(values, bins) for values in three)
    both = np.where((x != MISSING) & (z != MISSING), z * bins + x, MISSING)
    at = np.flatnonzero(np.isfinite(grid.y))

    def measure(partners: list[Numbers], orders: Numbers) -> Array:
        return np.array([value(each) for each in joint_counts(partners, orders, bins * bins, bins)])

    def value(counts: Numbers) -> Array:
        strata = counts.reshape(-1, bins, bins, bins)
        if strata[0].sum() < least:
            return np.full(len(strata), np.nan)
        return normalised(conditional(strata), choices.normaliser)

    partners = [moved(both, -lag, grid.session, missing=MISSING)[at] for lag in lags]
    return Stratified(y[at], partners, measure)
