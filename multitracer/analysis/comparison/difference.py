"""One quantity on two sides: the difference of their means, with a 95 % interval and a p value.

A permutation test gives the p value: units (sessions that are independent of each other) change sides at
random. The statistic is the score of `side` in a regression with a level for each cell, divided by its
standard error, which sums squares over units. Because of this division the level is also right where the two
sides have different variances, if there are many units (Janssen 1997, Statistics and Probability Letters 36;
Chung and Romano 2013, Annals of Statistics 41).

For repeated runs, `spread` returns their median and range, and `share` the ratio of their mean to the mean of
other variants in the same runs.
"""

from __future__ import annotations

from itertools import combinations, product
from math import comb, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.tables import Array, Mask, Numbers

LEVEL = 0.05
"""The significance level of the intervals, and of all claims of a comparison together; a convention."""
SEED = 20_261_123  # the same sessions give the same numbers; the value has no meaning
_DOUBLINGS = 16
"""The maximum number of doublings in the search for an end of an interval; an end beyond e**32 or 32 spreads counts as
infinite."""
_HALVINGS = 30
"""The number of halvings in the search for an end of an interval: ends are exact to nine digits."""
FIRST = 1e-3
"""The first step of the search: a thousandth of the ratio, or of the spread of values. Not measured."""
_MOST_WORK, _FEWEST, _MOST = 20_000_000, 1_999, 9_999
"""The maximum of entries times permutations (some seconds), and the minimum and maximum number of permutations.

With 1,999 permutations, a p value of 0.05 is known to 0.005 (one standard deviation), with 9,999 to 0.002."""


class SideDifference(NamedTuple):
    """The difference between the second side and the first one, with its 95 % interval and p value.

    Attributes
    ----------
    value, low, high : float
        A relative difference is second / first - 1, at least -1; else second - first. NaN where there is no
        value. An end without a bound is infinite (the low end of a relative difference is then -1).
    p_value : float
        The probability of at least this difference by chance alone; NaN without a value.
    """

    value: float
    low: float
    high: float
    p_value: float


NOTHING = SideDifference(*[float("nan")] * 4)
"""The result where there is no value."""


def difference(entries: CellMeans, *, relative: bool, draws: int | None = None, seed: int = SEED) -> SideDifference:
    """Return the difference (or the ratio) of two sides, with its 95 % interval and p value.

    Parameters
    ----------
    entries : CellMeans
        With units on both sides.
    relative : bool
        The second side's values are modelled as the first's times a factor, else as the first's plus a number.
    draws : int, optional
        Number of permutations; by default as many as some seconds allow.
    seed : int
        Seed of the permutations.
    """
    held, second = entries.value, entries.side[entries.unit]
    if not entries.side.any() or entries.side.all():
        return NOTHING
    if relative:
        base, step = np.where(second, 0.0, held), np.where(second, held, 0.0)
    else:
        base, step = held, -second.astype(np.float64)
    if draws is None:
        draws = int(np.clip(_MOST_WORK // len(held), _FEWEST, _MOST))
    chance = np.random.default_rng(seed)
    test = Relabelled(entries, base, step, draws=draws, chance=chance)
    return _factor(test) if relative else _added(test, held)


def paired(first: Array, second: Array) -> CellMeans:
    """Return the entries of paired values; the permutation test swaps the two values of a pair.

    Parameters
    ----------
    first, second : ndarray of float64, shape (n_pairs,)
    """
    pair = np.tile(np.arange(len(first)), 2)
    unit = np.arange(len(pair))
    values = np.concatenate([first, second])
    return CellMeans(unit, pair, np.ones(len(pair)), values, unit >= len(first), pair)


def _factor(test: Relabelled) -> SideDifference:
    """Return the difference in a ratio model, which is ratio - 1.

    In `test`, the assumed difference u is the inverse of the ratio.
    """
    u = test.estimate
    if not u > 0:
        return NOTHING
    low, high = (end_of(lambda distance: test.p_value(u * np.exp(distance)), sign * FIRST) for sign in (1, -1))
    ratio = 1 / u
    return SideDifference(ratio - 1, ratio * np.exp(-low) - 1, ratio * np.exp(-high) - 1, test.p_value(1.0))


def _added(test: Relabelled, held: Array) -> SideDifference:
    u = test.estimate
    scale = float(np.ptp(held)) * FIRST
    if not np.isfinite(u):
        return NOTHING
    if not scale:  # all are equal: chance has nothing to go by
        return SideDifference(0.0, -np.inf, np.inf, 1.0)
    low, high = (end_of(lambda distance: test.p_value(u + distance), sign * scale) for sign in (-1, 1))
    return SideDifference(u, u + low, u + high, test.p_value(0.0))


def end_of(p_value: Callable[[float], float], step: float) -> float:
    """Return how far the bound of the interval is from the estimate: p is below the level from there on.

    It is infinite if p never is below the level.

    Parameters
    ----------
    p_value : callable
        Returns the p value of a distance.
    step : float
        The first distance that is tried; its sign is the direction.
    """
    inside, outside = 0.0, step
    for _ in range(_DOUBLINGS):
        if p_value(outside) < LEVEL:
            break
        inside, outside = outside, 2 * outside
    else:
        return float(np.copysign(np.inf, step))
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if p_value(middle) < LEVEL else (middle, outside)
    return inside


_CELLS = 1_000_000
"""The maximum number of values processed together: 8 MB in each of some temporary arrays. Not measured."""
_FEWEST_ROWS = 16
"""The minimum number of permutations processed together: smaller blocks use the cache badly. Not measured."""
_TIE = 1e-9
"""Relative tolerance: statistics that differ by less are equal (rounding of float64 sums)."""
_ZERO = 1e-20
"""A square is zero if it is smaller than this part of the squares it was subtracted from (rounding)."""


class CellMeans(NamedTuple):
    """The mean of each unit in each cell, and its weight in the cell.

    Attributes
    ----------
    unit, cell : ndarray of int64, shape (n_entries,)
        Numbers from 0, without gaps; each pair of unit and cell occurs once.
    weight, value : ndarray of float64, shape (n_entries,)
        The weight, > 0, and the mean.
    side : ndarray of bool, shape (n_units,)
        Whether a unit is on the second side.
    stratum : ndarray of int64, shape (n_units,)
        Numbers from 0. Units change sides only with units of their own stratum.
    """

    unit: Numbers
    cell: Numbers
    weight: Array
    value: Array
    side: Mask
    stratum: Numbers


class Relabelled:
    """The test statistic of each permutation of the units, as a function of an assumed difference u.

    With this assumption a value is `base + u * step`. The square of the statistic is then a quotient of
    polynomials in u, whose coefficients are stored. The first permutation is the observed one.

    Parameters
    ----------
    entries : CellMeans
    base, step : ndarray of float64, shape (n_entries,)
    draws : int
        Number of random permutations; if there are no more in total, each one is taken once.
    chance : numpy.random.Generator
    """

    def __init__(
        self, entries: CellMeans, base: Array, step: Array, *, draws: int, chance: np.random.Generator
    ) -> None:
        scores = _Scores(entries, base, step)
        rows = max(_FEWEST_ROWS, _CELLS // len(entries.unit))
        chunks = [scores.of(labels) for labels in _labels(entries, draws, rows, chance)]
        self._sums = np.concatenate(chunks, axis=1)

    @property
    def estimate(self) -> float:
        """Return the assumed difference u for which the statistic is 0; NaN if there is none."""
        base, step = self._sums[:2, 0]
        return float(-base / step) if step else float("nan")

    def p_value(self, u: float) -> float:
        """Return the p value of the hypothesis that the difference is u, 0 to 1.

        It is the share of permutations with a statistic at least as far from 0 as the observed one.
        """
        base, step, base_2, both, step_2 = self._sums
        square = (base + u * step) ** 2
        square = np.where(square > _ZERO * (base_2 + u * u * step_2), square, 0.0)
        error = base_2 + 2 * u * both + u * u * step_2
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.nan_to_num(square / error, nan=0.0, posinf=np.inf)
        return float(np.mean(statistic >= statistic[0] * (1 - _TIE)))


class _Scores:
    """Computes the sums that the test statistic consists of, for any permutation of the units."""

    def __init__(self, entries: CellMeans, base: Array, step: Array) -> None:
        self._units, self._weight = len(entries.side), entries.weight
        self._unit, self._cell = entries.unit, entries.cell
        self._in_cell = np.bincount(entries.cell, entries.weight)
        self._by_cell = np.argsort(entries.cell, kind="stable")
        self._by_unit = np.argsort(entries.unit, kind="stable")
        self._cell_starts = _starts(entries.cell[self._by_cell])
        self._unit_starts = _starts(entries.unit[self._by_unit])
        self._rests = [self._rest(values) for values in (base, step)]
        self._totals = [np.bincount(self._unit, rest, self._units)[:, None] for rest in self._rests]

    def _rest(self, values: Array) -> Array:
        """Return each value minus the weighted mean of its cell."""
        means = np.bincount(self._cell, self._weight * values) / self._in_cell
        rest: Array = self._weight * (values - means[self._cell])
        return rest

    def of(self, labels: Array) -> Array:
        """Return five sums for each row of labels, shape (5, n_rows).

        The score of a unit is the sum of its residuals times (label - share of label 1 in the cell).
        """
        by_cell, by_unit = self._by_cell, self._by_unit
        columns = np.ascontiguousarray(labels.T)
        inside = columns[self._unit[by_cell]] * self._weight[by_cell, None]
        share = np.add.reduceat(inside, self._cell_starts, axis=0) / self._in_cell[:, None]
        expected = share[self._cell[by_unit]]
        base, step = (
            columns * total - np.add.reduceat(expected * rest[by_unit, None], self._unit_starts, axis=0)
            for rest, total in zip(self._rests, self._totals, strict=True)
        )
        return np.array(
            [
                base.sum(axis=0), step.sum(axis=0),
                (base * base).sum(axis=0), (base * step).sum(axis=0), (step * step).sum(axis=0),
            ]
        )  # fmt: skip


def _starts(ordered: Numbers) -> Numbers:
    return np.flatnonzero(np.diff(ordered, prepend=-1))


def _labels(entries: CellMeans, draws: int, rows: int, chance: np.random.Generator) -> Iterator[Array]:
    """Yield permutations of the units in blocks: arrays of labels 0 or 1, with at most `rows` rows.

    Label 1 means the second side; a row has a label for each unit. If there are few permutations, all are
    yielded once; else random ones. The first row is always the observed assignment.
    """
    side, stratum = entries.side, entries.stratum
    order = np.argsort(stratum, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1)
    chosen = [int(side[each].sum()) for each in members]
    if prod(comb(len(each), count) for each, count in zip(members, chosen, strict=True)) <= draws:
        yield _first(_every(members, chosen, len(side)), side)
        return
    yield side[None].astype(np.float64)
    pattern = side[np.lexsort((~side, stratum))].astype(np.float64)  # within a stratum the chosen come first
    for begin in range(0, draws, rows):
        keys = chance.random((min(rows, draws - begin), len(side))) + stratum
        drawn = np.empty_like(keys)
        np.put_along_axis(drawn, np.argsort(keys, axis=1), np.broadcast_to(pattern, keys.shape), axis=1)
        yield drawn


def _every(members: list[Numbers], chosen: list[int], units: int) -> Array:
    """Return every permutation that keeps the number of units with label 1 in each stratum."""
    choices = [list(combinations(each.tolist(), count)) for each, count in zip(members, chosen, strict=True)]
    taken = [[unit for each in picked for unit in each] for picked in product(*choices)]
    labels = np.zeros((len(taken), units))
    for row, places in enumerate(taken):
        labels[row, places] = 1
    return labels


def _first(labels: Array, side: Mask) -> Array:
    """Return the rows of labels, with the observed assignment moved to the first row."""
    is_true = (labels == side).all(axis=1)
    return np.concatenate([labels[is_true], labels[~is_true]])


MIN_SESSIONS = 6
"""Minimum number of sessions per side for a factor and an interval in a sentence. A test is possible from four on (the
most extreme order of 4 and 4 has a probability of 2 in 70 by chance), but one session more can change its result."""
MIN_PAIRS = 6
"""The minimum number of pairs: five pairs have 32 permutations, so even the most extreme p value is 6 %."""


class Spread(NamedTuple):
    """Median, minimum and maximum of some runs; None where no run has a value."""

    median: float | None
    minimum: float | None
    most: float | None


class Share(NamedTuple):
    """A ratio of means with its 95 % interval; a field is None where it cannot be computed."""

    value: float | None
    low: float | None
    high: float | None


def spread(values: Sequence[float | None]) -> Spread:
    """Return the median and the range of the known values."""
    known = [value for value in values if value is not None]
    if not known:
        return Spread(None, None, None)
    return Spread(float(np.median(known)), min(known), max(known))


def share(values: Sequence[float | None], base: Sequence[float | None]) -> Share:
    """Return the mean of `values` divided by the mean of `base`, over the pairs with both values known.

    The permutation test swaps the two values of a pair: 2^n permutations for n pairs.
    """
    pairs = [(one, other) for one, other in zip(values, base, strict=True) if one is not None and other]
    if not pairs:
        return Share(None, None, None)
    of, against = np.array(pairs, dtype=np.float64).T
    ratio = float(of.mean() / against.mean())
    if len(pairs) < MIN_PAIRS:
        return Share(ratio, None, None)
    relative = difference(paired(against, of), relative=True)
    return Share(ratio, relative.low + 1, relative.high + 1)
