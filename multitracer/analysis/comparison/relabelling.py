"""What chance does: the statistic of a comparison when units change sides.

The statistic is the score of `side` in a regression with a level for each cell, over its standard error,
which sums squares over units (a unit is what is independent of the others). Divided so, it has the right
level also where the two sides scatter differently, if there are many units (Janssen 1997, Statistics and
Probability Letters 36; Chung and Romano 2013, Annals of Statistics 41).
"""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array, Mask, Numbers

_CELLS = 1_000_000
"""Numbers at once: 8 MB in each of some temporary arrays. Not measured."""
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
    """

    unit: Numbers
    cell: Numbers
    weight: Array
    value: Array
    side: Mask


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
        rows = max(1, _CELLS // len(entries.unit))
        pieces = [scores.of(labels) for labels in _labels(entries.side, draws, rows, chance)]
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
        self._totals = [np.bincount(self._unit, rest, self._units) for rest in self._rests]

    def _rest(self, values: Array) -> Array:
        """Return each value less the mean of its cell, weighted."""
        means = np.bincount(self._cell, self._weight * values) / self._in_cell
        rest: Array = self._weight * (values - means[self._cell])
        return rest

    def of(self, labels: Array) -> Array:
        """Return five sums for each row of labels, shape (5, n_rows)."""
        order = self._by_cell
        inside = labels[:, self._unit[order]] * self._weight[order]
        share = np.add.reduceat(inside, self._cell_starts, axis=1) / self._in_cell
        base, step = (
            self._of_units(labels, share, rest, total)
            for rest, total in zip(self._rests, self._totals, strict=True)
        )
        return np.array(
            [
                base.sum(axis=1), step.sum(axis=1),
                (base * base).sum(axis=1), (base * step).sum(axis=1), (step * step).sum(axis=1),
            ]
        )  # fmt: skip

    def _of_units(self, labels: Array, share: Array, rest: Array, total: Array) -> Array:
        """Return the score of each unit: its values' rests, times label less the cell's share of labels."""
        order = self._by_unit
        expected = share[:, self._cell[order]] * rest[order]
        score: Array = labels * total - np.add.reduceat(expected, self._unit_starts, axis=1)
        return score


def _starts(ordered: Numbers) -> Numbers:
    return np.flatnonzero(np.diff(ordered, prepend=-1))


def _labels(side: Mask, draws: int, rows: int, chance: np.random.Generator) -> Iterator[Array]:
    """Yield labels, 0 or 1, in pieces of so many rows; the true ones first, and again if all are taken."""
    yield side[None].astype(np.float64)
    units, chosen = len(side), int(side.sum())
    if comb(units, chosen) <= draws:
        every = np.zeros((comb(units, chosen), units))
        for row, places in enumerate(combinations(range(units), chosen)):
            every[row, list(places)] = 1
        every = every[(every != side).any(axis=1)]
        yield from (every[begin : begin + rows] for begin in range(0, len(every), rows))
        return
    for begin in range(0, draws, rows):
        drawn = np.zeros((min(rows, draws - begin), units))
        order = np.argpartition(chance.random(drawn.shape), chosen - 1, axis=1)[:, :chosen]
        np.put_along_axis(drawn, order, 1.0, axis=1)
        yield drawn
