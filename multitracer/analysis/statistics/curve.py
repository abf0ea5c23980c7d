"""The measure at each lag for a pair of series and for its surrogates: baseline, p values, peak.

Bins: a series is divided into bins, and each point has the code of its bin, from 0 without gaps; a missing
point has code -1. Equal values share a bin, so that levels such as CQI or MCS stay distinct levels. From the
codes of the pair at each lag, the measures use only the counts.

The interval of a peak's lag comes from resampled pairs (`lags_of_peak`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import iqr, rankdata

from multitracer.analysis.statistics.entropy import conditional, entropies, normalised
from multitracer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis.statistics.entropy import Choices, Normaliser
    from multitracer.tables import Array, Mask, Numbers

    Measure = Callable[[list[Array], Array], Array]
    """From x at each lag, (n_points,) or a row of its own for each of y, (rows, n_points), to values, (n_lags, rows).
    """


# Two or three series on one regular grid, and the pairs of their points at a lag, within a session.


def moved(values: Array, lag: int, session: Numbers, *, missing: float) -> Array:
    """Return, for each point t, the value at t + lag; `missing` if t + lag is not in the same session.

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
    """Return which points of x and of y have a partner at any lag, and the number of pairs at each lag.

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


@dataclass(frozen=True, slots=True)
class SampleGrid:
    """The series on their grid; float64, shape (n_points,), NaN where missing.

    Attributes
    ----------
    x, y : ndarray
    given : ndarray or None
        A third series, at the time of x.
    session : ndarray of int64, shape (n_points,)
        Session of each point; the points of a session are contiguous.
    """

    x: Array
    y: Array
    given: Array | None
    session: Numbers

    @classmethod
    def of(cls, x: Array, y: Array, given: Array | None, session: Numbers | None) -> SampleGrid:
        """Return the series as a grid: scaled to the range -1 to 1, with infinite values replaced by NaN.

        Raises
        ------
        InputError
            If shapes differ, there is no point, or the points of a session are not contiguous.
        """
        shape = np.shape(x)
        for name, values in (("y", y), ("given", given), ("session", session)):
            if values is not None and np.shape(values) != shape:
                raise InputError(
                    f"{name}: the array must have the same shape as x, {shape}, but has "
                    f"{np.shape(values)}; use the same grid for all arrays"
                )
        if len(shape) != 1 or not shape[0]:
            raise InputError(f"x: the array must have one dimension and at least one point, but has the shape {shape}")
        members = np.zeros(shape, np.int64) if session is None else np.asarray(session)
        if np.count_nonzero(np.diff(members)) + 1 != len(np.unique(members)):
            raise InputError(
                "session: the points of each session must be contiguous; sort the points by session, then by time"
            )
        return cls(_scaled(x), _scaled(y), None if given is None else _scaled(given), members)

    def differenced(self) -> SampleGrid:
        """Return x and y as differences from the previous point; NaN at gaps and at borders of sessions."""
        return replace(self, x=self.x - self._before(self.x), y=self.y - self._before(self.y))

    def _before(self, values: Array) -> Array:
        return moved(values, -1, self.session, missing=np.nan)

    def paired(self, lags: Numbers) -> tuple[SampleGrid, Numbers]:
        """Return the grid without points that have no partner at any lag, and the pairs at each lag.

        The second element has the number of pairs at each lag: int64, shape (n_lags,).
        """
        has_x, has_y, n = paired(self.x, self.y, lags, self.session)
        return replace(self, x=np.where(has_x, self.x, np.nan), y=np.where(has_y, self.y, np.nan)), n


def _scaled(values: Array) -> Array:
    """Return the values scaled to -1 to 1, so that their squares do not overflow."""
    scaled = np.array(values, dtype=np.float64)
    scaled[~np.isfinite(scaled)] = np.nan
    most = float(np.nanmax(np.abs(scaled), initial=0.0))
    return scaled / most if most > 0 else scaled


_CELLS = 1_000_000
"""Maximum number of counts whose entropies are computed together, 8 MB. Not measured."""
_TIE = 1e-12
"""Tolerance: values that differ by less are equal (rounding of float64 sums)."""


def by_bins(bins: int, bins_y: int, normaliser: Normaliser, *, corrected: bool) -> Measure:
    """Return a function that computes the normalised mutual information from codes of bins.

    Points where x is missing (code -1) are left out; y has no missing points.
    """

    def measure(partners: list[Numbers], orders: Numbers) -> Array:
        together = max(1, _CELLS // (len(orders) * bins * bins_y))
        chunks = []
        for begin in range(0, len(partners), together):
            counts = np.array(list(joint_counts(partners[begin : begin + together], orders, bins, bins_y)))
            chunks.append(normalised(entropies(counts, corrected=corrected), normaliser))
        return np.concatenate(chunks)

    return measure


def joint_counts(partners: list[Numbers], orders: Numbers, bins: int, bins_y: int) -> Iterator[Numbers]:
    """Yield, for each lag, the number of points in each pair of bins, for each row of codes of y.

    Parameters
    ----------
    partners : list of ndarray of int64, each of shape (n_points,), or (rows, n_points)
        Codes of x for each lag, either common to all rows or one row each; -1 where missing.
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
    """Return Linfoot's correlation for each lag and each row of `orders`, from nearest neighbours."""
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
    """The dependence between two series at each lag, with its significance.

    Attributes
    ----------
    values, typical, p95, p_value, p_corrected : ndarray of float64, shape (n_lags,)
        `typical` is the mean of the surrogates.
    peak : int
    permutations : int
    """

    values: Array
    typical: Array
    p95: Array
    p_value: Array
    p_corrected: Array
    peak: int
    permutations: int


def curve(measure: Measure, partners: list[Array], y: Array, orders: Iterator[Numbers]) -> Curve:
    """Return the dependence at each lag, with its significance from surrogates.

    The p value is (b + 1) / (m + 1) if b of m surrogates reach the value: Phipson and Smyth (2010). The
    correction for the search over lags uses, for each surrogate, the lag with the largest excess over the
    mean: Westfall and Young (1993), single step.

    Parameters
    ----------
    measure : Measure
    partners : list of ndarray, each of shape (n_points,)
        For each lag, the point of x that is paired with each point of y.
    y : ndarray, shape (n_points,)
    orders : iterator of ndarray of int64, shape (some rows, n_points)
    """
    values = measure(partners, y[None])[:, 0]
    permuted = np.concatenate([measure(partners, y[rows]) for rows in orders], axis=1)
    count = permuted.shape[1]
    typical = permuted.mean(axis=1)
    above, most = values - typical, (permuted - typical[:, None]).max(axis=0)
    reached = (permuted >= values[:, None] - _TIE).sum(axis=1)
    exceeded = (most >= above[:, None] - _TIE).sum(axis=1)
    return Curve(
        values,
        typical,
        np.quantile(permuted, 0.95, axis=1),
        (reached + 1) / (count + 1),
        (exceeded + 1) / (count + 1),
        int(np.argmax(above)),
        count,
    )


_ONE = 1 - 1e-9
"""A value above this is 1, except for rounding."""


@dataclass(frozen=True, slots=True)
class Binned:
    """Two series divided into bins.

    Attributes
    ----------
    of_x, of_y : int
        Number of bins of each series.
    y : ndarray of int64, shape (n_held,)
        Codes of the points of y that have a value.
    partners : list of ndarray of int64, each of shape (n_held,)
        For each lag, the code of the point of x that is paired with each point of y; -1 where it is missing.
    measure : Measure
    is_one_to_one : bool
        Whether, at some lag, each bin of one series is paired with only one bin of the other.
    """

    of_x: int
    of_y: int
    y: Numbers
    partners: list[Numbers]
    measure: Measure
    is_one_to_one: bool


def binned(grid: SampleGrid, lags: list[int], choices: Choices, *, points: int) -> Binned:
    """Return the two series in the bins of the chosen estimator; more `points` give more bins."""
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
    """Two series in the bins of a third one, which is taken at the time of x; fields as in `Binned`.

    Attributes
    ----------
    y : ndarray of int64, shape (n_held,)
    partners : list of ndarray of int64, each of shape (n_held,)
        Codes of the pairs of the third series and x.
    measure : Measure
        NaN where fewer than `minimum` points have all three values.
    """

    y: Numbers
    partners: list[Numbers]
    measure: Measure


def stratified(grid: SampleGrid, given: Array, lags: list[int], choices: Choices, *, minimum: int) -> Stratified:
    """Return the two series in bins of equal counts, within each bin of a third series.

    There are fewer bins than without a third series.
    """
    three = grid.x, grid.y, given
    bins = bin_count(int(np.isfinite(np.sum(three, axis=0)).sum()), series=3)
    x, y, z = (equal_count_codes(values, bins) for values in three)
    both = np.where((x != MISSING) & (z != MISSING), z * bins + x, MISSING)
    at = np.flatnonzero(np.isfinite(grid.y))

    def measure(partners: list[Numbers], orders: Numbers) -> Array:
        return np.array([value(each) for each in joint_counts(partners, orders, bins * bins, bins)])

    def value(counts: Numbers) -> Array:
        strata = counts.reshape(-1, bins, bins, bins)
        if strata[0].sum() < minimum:
            return np.full(len(strata), np.nan)
        return normalised(conditional(strata), choices.normaliser)

    partners = [moved(both, -lag, grid.session, missing=MISSING)[at] for lag in lags]
    return Stratified(y[at], partners, measure)


MISSING = -1
"""The code of a point without a value."""
_MIN_BINS = 2
"""Minimum number of bins: a series in one bin carries no information."""
_MOST_WIDTHS = 64
"""Maximum number of bins of equal width: outliers would need millions, and 64 by 64 counts stay small (not measured).
"""


def bin_count(points: int, series: int = 2) -> int:
    """Return the number of bins of each series: points ** (1 / (series + 1)), rounded down, at least 2.

    The rule is that of Palus (1995), Testing for nonlinearity using redundancies, Physica D 80, section 3:
    with more bins, empty cells dominate the estimate of the information.
    """
    return max(_MIN_BINS, int(points ** (1 / (series + 1)) + 1e-9))


def equal_count_codes(values: Array, bins: int) -> Numbers:
    """Return the bin of each point, with equal numbers of points in the bins as far as ties allow.

    Parameters
    ----------
    values : ndarray of float64, shape (n_points,)
        NaN where missing.
    bins : int
        Maximum number of bins; a series with no more different values has a bin for each value.

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
    """Return the bin of each point; the width is 2 IQR / cube root of n (Freedman and Diaconis 1981).

    There are at most 64 bins; the last one contains all values beyond. If the interquartile range is 0, there
    is no such width, and the bins have equal counts.
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
    """Return an array over all points: the codes where `there` is True, MISSING elsewhere."""
    spread = np.full(len(there), MISSING, dtype=np.int64)
    spread[there] = codes
    return spread


_COUNT = 199
"""Number of resamples: the interval omits four or five at each end. Not measured."""
_ROWS = 20
"""Number of resamples that are computed together: 12 MB for an hour of seconds and 21 lags."""
_ENDS = (0.025, 0.975)
"""Quantiles of the 95 % interval, as for all intervals of the product; a convention."""


def lags_of_peak(bins: Binned, typical: Array | float, session: Numbers, *, block: int, seed: int) -> tuple[int, int]:
    """Return the first and the last lag of the 95 % interval of the peak, from resampled pairs.

    A resample is made of blocks of time, drawn with replacement within each session (a circular block
    bootstrap: Politis and Romano 1992). The points of all lags are drawn together, so the similarity of
    neighbouring lags in a slow series is preserved.

    Parameters
    ----------
    bins : Binned
    typical : ndarray of float64, shape (n_lags,), or float
        Baseline that is subtracted from the values before the maximum is taken, as for the peak itself.
    session : ndarray of int64, shape (n_held,)
        Session of each point of `bins.y`; the points of a session are contiguous.
    block : int
        Number of points in a block.
    seed : int

    Returns
    -------
    tuple of int
        Indices of lags.
    """
    peaks = [
        np.argmax(bins.measure([x[rows] for x in bins.partners], bins.y[rows]).T - typical, axis=1)
        for rows in _resampled(session, block, np.random.default_rng(seed))
    ]
    low, high = np.quantile(np.concatenate(peaks), _ENDS, method="inverted_cdf")
    return int(low), int(high)


def _resampled(session: Numbers, block: int, chance: np.random.Generator) -> Iterator[Numbers]:
    """Yield blocks of bootstrap samples: indices of points, shape (some rows, n_points).

    Each row is one sample of all sessions.
    """
    edges = np.flatnonzero(np.diff(session, prepend=session[0] - 1, append=session[-1] + 1))
    for begin in range(0, _COUNT, _ROWS):
        rows = min(_ROWS, _COUNT - begin)
        drawn = (_drawn(rows, high - low, block, chance) + low for low, high in pairwise(edges.tolist()))
        yield np.concatenate(list(drawn), axis=1)


def _drawn(rows: int, points: int, block: int, chance: np.random.Generator) -> Numbers:
    """Return bootstrap samples of one session: indices of points, shape (rows, points).

    Each row consists of blocks of `block` consecutive points with random begins.
    """
    length = min(block, points)
    begins = chance.integers(0, points, (rows, -(-points // length), 1))
    drawn: Numbers = (begins + np.arange(length)) % points
    return drawn.reshape(rows, -1)[:, :points]
