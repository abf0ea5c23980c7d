"""One quantity on two sides: how far its means are apart, with a 95 % interval and a p value.

What chance does: the statistic of a comparison when units change sides.
The statistic is the score of `side` in a regression with a level for each cell, over its standard error,
which sums squares over units (a unit is what is independent of the others). Divided so, it has the right
level also where the two sides scatter differently, if there are many units (Janssen 1997, Statistics and
Probability Letters 36; Chung and Romano 2013, Annals of Statistics 41).

Repeated runs: what they reached, and what share that is of what others reached in the same runs.
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
"""Of the intervals, and of all claims of a comparison together; a convention."""
SEED = 20_261_123  # the same sessions give the same numbers; the value has no meaning
_DOUBLINGS = 16
"""Of the distance in the search for the end of an interval: beyond e**32 or 32 spreads there is none."""
_HALVINGS = 30
"""Of that distance: ends are exact to nine digits."""
FIRST = 1e-3
"""Where the search begins: a thousandth of the ratio, or of the spread of values. Not measured."""
_MOST_WORK, _FEWEST, _MOST = 20_000_000, 1_999, 9_999
"""Entries times relabellings, which take some seconds, and bounds of their number: with 1,999 a p value of
0.05 is known to 0.005 (one standard deviation), with 9,999 to 0.002."""


class SideDifference(NamedTuple):
    """How far the second side is from the first.

    Attributes
    ----------
    value, low, high : float
        Relative: second over first less 1, from -1. Else second less first. NaN where there is no value; an
        end is infinite (-1 for a low relative one) where these units give none.
    p_value : float
        That chance alone gives as much; NaN without a value.
    """

    value: float
    low: float
    high: float
    p_value: float


NOTHING = SideDifference(*[float("nan")] * 4)
"""Where there is no value."""


def difference(
    entries: CellMeans, *, relative: bool, draws: int | None = None, seed: int = SEED
) -> SideDifference:
    """Return the difference of two sides.

    Parameters
    ----------
    entries : CellMeans
        With units on both sides.
    relative : bool
        Suppose that the second side's values are the first's times a factor, not plus a number.
    draws : int, optional
        Relabellings; by default as many as some seconds allow.
    seed : int
        Of the relabellings.
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
    """Return the entries of values that belong together two by two: chance swaps the two of a pair.

    Parameters
    ----------
    first, second : ndarray of float64, shape (n_pairs,)
    """
    pair = np.tile(np.arange(len(first)), 2)
    unit = np.arange(len(pair))
    values = np.concatenate([first, second])
    return CellMeans(unit, pair, np.ones(len(pair)), values, unit >= len(first), pair)


def _factor(test: Relabelled) -> SideDifference:
    """Return the ratio less 1; u is its inverse."""
    u = test.estimate
    if not u > 0:
        return NOTHING
    low, high = (
        end_of(lambda distance: test.p_value(u * np.exp(distance)), sign * FIRST) for sign in (1, -1)
    )
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
    """Return the distance from the estimate at which p falls below the level; endless if it does not.

    Parameters
    ----------
    p_value : callable
        Of a distance.
    step : float
        The first distance that is tried, whose sign tells the direction.
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
"""Numbers at once: 8 MB in each of some temporary arrays. Not measured."""
_FEWEST_ROWS = 16
"""Relabellings at once, also of many entries: fewer take longer each, since memory is read in lines."""
_TIE = 1e-9
"""Statistics that differ by less are equal: the same sum in another order (float64)."""
_ZERO = 1e-20
"""A square that is smaller, beside the squares of what it is a difference of, is what rounding leaves."""


class CellMeans(NamedTuple):
    """A mean for each unit and cell, with what it weighs in its cell.

    Attributes
    ----------
    unit, cell : ndarray of int64, shape (n_entries,)
        From 0, without holes; a pair occurs once.
    weight, value : ndarray of float64, shape (n_entries,)
        Weights above 0.
    side : ndarray of bool, shape (n_units,)
        Whether a unit is on the second side.
    stratum : ndarray of int64, shape (n_units,)
        From 0: units change sides only with those of their stratum.
    """

    unit: Numbers
    cell: Numbers
    weight: Array
    value: Array
    side: Mask
    stratum: Numbers


class Relabelled:
    """The statistic for each relabelling of the units, as a function of a supposed difference u.

    Under the supposition a value is `base + u * step`: the statistic's square is a quotient of polynomials
    in u, whose coefficients are kept. The first relabelling is the true one.

    Parameters
    ----------
    entries : CellMeans
    base, step : ndarray of float64, shape (n_entries,)
    draws : int
        How many relabellings are drawn; if there are no more at all, each is taken once.
    chance : numpy.random.Generator
    """

    def __init__(
        self, entries: CellMeans, base: Array, step: Array, *, draws: int, chance: np.random.Generator
    ) -> None:
        scores = _Scores(entries, base, step)
        rows = max(_FEWEST_ROWS, _CELLS // len(entries.unit))
        pieces = [scores.of(labels) for labels in _labels(entries, draws, rows, chance)]
        self._sums = np.concatenate(pieces, axis=1)

    @property
    def estimate(self) -> float:
        """The u at which the statistic is 0; NaN if there is none."""
        base, step = self._sums[:2, 0]
        return float(-base / step) if step else float("nan")

    def p_value(self, u: float) -> float:
        """Return how often chance alone gives a statistic as far from 0, if the difference is u."""
        base, step, base_2, both, step_2 = self._sums
        square = (base + u * step) ** 2
        square = np.where(square > _ZERO * (base_2 + u * u * step_2), square, 0.0)
        error = base_2 + 2 * u * both + u * u * step_2
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.nan_to_num(square / error, nan=0.0, posinf=np.inf)
        return float(np.mean(statistic >= statistic[0] * (1 - _TIE)))


class _Scores:
    """The sums that the statistic is made of."""

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
        """Return each value less the mean of its cell, weighted."""
        means = np.bincount(self._cell, self._weight * values) / self._in_cell
        rest: Array = self._weight * (values - means[self._cell])
        return rest

    def of(self, labels: Array) -> Array:
        """Return five sums for each row of labels, shape (5, n_rows).

        The score of a unit: its values' rests, times label less the cell's share of labels.
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
    """Yield labels, 0 or 1, in pieces of so many rows; the true ones are there, all of them once or first."""
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
    """Return every relabelling that leaves as many of each stratum on the second side."""
    choices = [list(combinations(each.tolist(), count)) for each, count in zip(members, chosen, strict=True)]
    taken = [[unit for each in picked for unit in each] for picked in product(*choices)]
    labels = np.zeros((len(taken), units))
    for row, places in enumerate(taken):
        labels[row, places] = 1
    return labels


def _first(labels: Array, side: Mask) -> Array:
    """Return the rows with the true one first."""
    is_true = (labels == side).all(axis=1)
    return np.concatenate([labels[is_true], labels[~is_true]])


LEAST_PAIRS = 6
"""Five pairs can be swapped in 32 ways, so that even the two most extreme ones are no rarer than 6 %."""


class Spread(NamedTuple):
    """The middle of some runs, and the farthest of them; None where there was nothing to measure."""

    median: float | None
    least: float | None
    most: float | None


class Share(NamedTuple):
    """A ratio of means with its 95 % interval; None where there is nothing to compare, or no interval."""

    value: float | None
    low: float | None
    high: float | None


def spread(values: Sequence[float | None]) -> Spread:
    """Return median and range of the values that are known."""
    known = [value for value in values if value is not None]
    if not known:
        return Spread(None, None, None)
    return Spread(float(np.median(known)), min(known), max(known))


def share(values: Sequence[float | None], base: Sequence[float | None]) -> Share:
    """Return the mean of values as a share of another mean, of the pairs whose values are both known.

    Chance is what happens when the two of a pair change sides: 2^n ways for n pairs.
    """
    pairs = [(one, other) for one, other in zip(values, base, strict=True) if one is not None and other]
    if not pairs:
        return Share(None, None, None)
    of, against = np.array(pairs, dtype=np.float64).T
    ratio = float(of.mean() / against.mean())
    if len(pairs) < LEAST_PAIRS:
        return Share(ratio, None, None)
    relative = difference(paired(against, of), relative=True)
    return Share(ratio, relative.low + 1, relative.high + 1)
