"""A value for each lag, the same of surrogates, and what follows from both: baseline, p values, the peak.

A pair of series in bins: their codes at each lag, and what follows from the counts alone.

Bins of a series: how many, and which point falls into which.
A bin's number is a code from 0 on, without holes; a missing point has code -1. Equal values share a bin, so
that levels such as CQI or MCS stay levels.

What the data leave open of a peak's lag: where the peak of the same pair lies in resampled time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import iqr, rankdata

from multitracer.analysis.statistics.entropy import conditional, entropies, normalised
from multitracer.analysis.statistics.grid import moved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis.statistics.entropy import Choices, Normaliser
    from multitracer.analysis.statistics.grid import SampleGrid
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
    from multitracer.analysis.statistics.correlations import information_of_neighbours, linfoot  # noqa: PLC0415

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


def binned(grid: SampleGrid, lags: list[int], choices: Choices, *, points: int) -> Binned:
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


def stratified(
    grid: SampleGrid, given: Array, lags: list[int], choices: Choices, *, least: int
) -> Stratified:
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


_COUNT = 199
"""Resamples: the interval leaves out four or five at each end. Not measured."""
_ROWS = 20
"""Resamples that are made at once: 12 MB for an hour of seconds and 21 lags."""
_ENDS = (0.025, 0.975)
"""Of 95 %, as all intervals here; a convention."""


def lags_of_peak(
    bins: Binned, usual: Array | float, session: Numbers, *, block: int, seed: int
) -> tuple[int, int]:
    """Return the first and the last lag at which the peak may be: 95 % of the peaks of resampled pairs.

    A resample is made of blocks of time, drawn with replacement within each session (a circular block
    bootstrap: Politis and Romano 1992). The points of all lags move together, so that neighbouring lags
    of a slow series stay as alike as they are.

    Parameters
    ----------
    bins : Binned
    usual : ndarray of float64, shape (n_lags,), or float
        What is subtracted from the values before the largest is taken, as for the peak itself.
    session : ndarray of int64, shape (n_held,)
        Of each point of `bins.y`; those of a session are neighbours.
    block : int
        Points of a block.
    seed : int

    Returns
    -------
    tuple of int
        Positions among the lags.
    """
    peaks = [
        np.argmax(bins.measure([x[rows] for x in bins.partners], bins.y[rows]).T - usual, axis=1)
        for rows in _resampled(session, block, np.random.default_rng(seed))
    ]
    low, high = np.quantile(np.concatenate(peaks), _ENDS, method="inverted_cdf")
    return int(low), int(high)


def _resampled(session: Numbers, block: int, chance: np.random.Generator) -> Iterator[Numbers]:
    """Yield positions of points, shape (some rows, n_points)."""
    edges = np.flatnonzero(np.diff(session, prepend=session[0] - 1, append=session[-1] + 1))
    for begin in range(0, _COUNT, _ROWS):
        rows = min(_ROWS, _COUNT - begin)
        drawn = (_drawn(rows, high - low, block, chance) + low for low, high in pairwise(edges.tolist()))
        yield np.concatenate(list(drawn), axis=1)


def _drawn(rows: int, points: int, block: int, chance: np.random.Generator) -> Numbers:
    """Return the points of one session in blocks that begin anywhere, shape (rows, points)."""
    length = min(block, points)
    begins = chance.integers(0, points, (rows, -(-points // length), 1))
    drawn: Numbers = (begins + np.arange(length)) % points
    return drawn.reshape(rows, -1)[:, :points]
