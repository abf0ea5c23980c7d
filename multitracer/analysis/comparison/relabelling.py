"""What chance does: the statistic of a comparison when units change sides.

The statistic is the score of `side` in a regression with a level for each cell, over its standard error,
which sums squares over units (a unit is what is independent of the others). Divided so, it has the right
level also where the two sides scatter differently, if there are many units (Janssen 1997, Statistics and
Probability Letters 36; Chung and Romano 2013, Annals of Statistics 41).
"""

from __future__ import annotations

from itertools import combinations, product
from math import comb, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array, Mask, Numbers

_CELLS = 1_000_000
"""Numbers at once: 8 MB in each of some temporary arrays. Not measured."""
_FEWEST_ROWS = 16
"""Relabellings at once, also of many entries: fewer take longer each, since memory is read in lines."""
_TIE = 1e-9
"""Statistics that differ by less are equal: the same sum in another order (float64)."""
_ZERO = 1e-20
"""A square that is smaller, beside the squares of what it is a difference of, is what rounding leaves."""


class Entries(NamedTuple):
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
    entries : Entries
    base, step : ndarray of float64, shape (n_entries,)
    draws : int
        How many relabellings are drawn; if there are no more at all, each is taken once.
    chance : numpy.random.Generator
    """

    def __init__(
        self, entries: Entries, base: Array, step: Array, *, draws: int, chance: np.random.Generator
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

    def __init__(self, entries: Entries, base: Array, step: Array) -> None:
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


def _labels(entries: Entries, draws: int, rows: int, chance: np.random.Generator) -> Iterator[Array]:
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
