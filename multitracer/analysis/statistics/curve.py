"""A value for each lag, the same of surrogates, and what follows from both: baseline, p values, the peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.statistics.entropy import entropies, normalised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis.statistics.entropy import Normaliser
    from multitracer.tables import Array, Numbers

    Measure = Callable[[list[Array], Array], Array]
    """From x at each lag, (n_points,) or a row of its own for each of y, (rows, n_points), to values,
    (n_lags, rows)."""

_CELLS = 1_000_000
"""Counts whose entropies are taken at once, 8 MB. Not measured."""
_TIE = 1e-12
"""Values that differ by less are equal: the same counts, summed in another order (float64)."""


def by_bins(bins: int, bins_y: int, normaliser: Normaliser, *, corrected: bool) -> Measure:
    """Return the measure on codes: normalised mutual information of the counts.

    Points of x that are missing (code -1) are left out; y has none.
    """

    def measure(partners: list[Numbers], orders: Numbers) -> Array:
        together = max(1, _CELLS // (len(orders) * bins * bins_y))
        pieces = []
        for begin in range(0, len(partners), together):
            counts = np.array(list(joint_counts(partners[begin : begin + together], orders, bins, bins_y)))
            pieces.append(normalised(entropies(counts, corrected=corrected), normaliser))
        return np.concatenate(pieces)

    return measure


def joint_counts(partners: list[Numbers], orders: Numbers, bins: int, bins_y: int) -> Iterator[Numbers]:
    """Yield, for each lag, how often each pair of bins occurs in each row of codes of y.

    Parameters
    ----------
    partners : list of ndarray of int64, each of shape (n_points,), or (rows, n_points)
        Codes of x for each lag, the same for all rows or of each; -1 where missing.
    orders : ndarray of int64, shape (rows, n_points)
        Codes of y.

    Yields
    ------
    ndarray of int64, shape (rows, bins, bins_y)
    """
    rows, cells = len(orders), (bins + 1) * bins_y  # the missing points of x have cells of their own
    place = orders + (np.arange(rows) * cells + bins_y)[:, None]
    both = np.empty_like(place)
    for x in partners:
        np.add(place, x * bins_y, out=both)
        counts = np.bincount(both.ravel(), minlength=rows * cells)
        yield counts.reshape(rows, bins + 1, bins_y)[:, 1:]


def by_neighbours(partners: list[Array], orders: Array) -> Array:
    """Return Linfoot's correlation of values, from the information of nearest neighbours."""
    # scikit-learn takes a second to import, and bins do without it
    from multitracer.analysis.statistics.neighbours import information_of_neighbours, linfoot  # noqa: PLC0415

    return linfoot(
        np.array(
            [
                [information_of_neighbours(x[there], row[there]) for row in orders]
                for x, there in ((x, np.isfinite(x)) for x in partners)
            ]
        )
    )


@dataclass(frozen=True, slots=True)
class Curve:
    """What was measured at each lag, and what it means.

    Attributes
    ----------
    values, usual, p95, p_value, p_corrected : ndarray of float64, shape (n_lags,)
        `usual` is the mean of the surrogates, above which a value stands out.
    peak : int
    permutations : int
    """

    values: Array
    usual: Array
    p95: Array
    p_value: Array
    p_corrected: Array
    peak: int
    permutations: int


def curve(measure: Measure, partners: list[Array], y: Array, orders: Iterator[Numbers]) -> Curve:
    """Return the values at each lag beside those of surrogates.

    The p values are (b + 1) / (m + 1), with b of m surrogates that reach the value: Phipson and Smyth (2010).
    The correction for the search takes, of each surrogate, the lag that stands out most from its mean:
    Westfall and Young (1993), single step.

    Parameters
    ----------
    measure : Measure
    partners : list of ndarray, each of shape (n_points,)
        For each lag, the point of x that belongs to each point of y.
    y : ndarray, shape (n_points,)
    orders : iterator of ndarray of int64, shape (some rows, n_points)
    """
    values = measure(partners, y[None])[:, 0]
    permuted = np.concatenate([measure(partners, y[rows]) for rows in orders], axis=1)
    count = permuted.shape[1]
    usual = permuted.mean(axis=1)
    above, most = values - usual, (permuted - usual[:, None]).max(axis=0)
    reached = (permuted >= values[:, None] - _TIE).sum(axis=1)
    exceeded = (most >= above[:, None] - _TIE).sum(axis=1)
    return Curve(
        values,
        usual,
        np.quantile(permuted, 0.95, axis=1),
        (reached + 1) / (count + 1),
        (exceeded + 1) / (count + 1),
        int(np.argmax(above)),
        count,
    )
