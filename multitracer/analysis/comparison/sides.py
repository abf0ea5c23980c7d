"""Comparison of all quantities of two sides, and the claims that hold together.

Matching: only values of the same cell (place and hour) are compared, since a cell in which only one side was
says nothing about the other. The kept share measures how much of the comparison is left: a cell of n units, a
share p of them on the second side, contributes n p (1 - p), because the squared error of a difference is in
proportion to the inverse of this number.

Several claims: `stands` decides which claims hold if the probability of any false claim must be at most 5 %.
Holm (1979), Scandinavian Journal of Statistics 6, section 4, with weights that are chosen before the data are
seen. The bound holds for any dependence between the claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.comparison.difference import LEVEL, NOTHING, SEED, CellMeans, SideDifference, difference
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from multitracer.tables import Array, Mask, Numbers


class ComparedQuantity(NamedTuple):
    """A quantity that is compared.

    Attributes
    ----------
    name : str
    relative : bool
        Whether it is compared as a ratio; else as a difference.
    weight : float
        Weight in the correction for several claims.
    """

    name: str
    relative: bool
    weight: float


class Sums(NamedTuple):
    """Weight and weighted total of a quantity in each row; float64, shape (n_rows,) each."""

    weight: Array
    total: Array


@dataclass(frozen=True, slots=True)
class Sides:
    """The data of both sides, summed by session, place and hour.

    Attributes
    ----------
    side : ndarray of bool, shape (n_sessions,)
        Whether a session is on the second side.
    session, place, hour : ndarray of int64, shape (n_rows,)
        For each row the session from 0, a code of the place, and the hour of the day; NA where not known.
    seconds : ndarray of float64, shape (n_rows,)
        Number of seconds in the row, > 0.
    sums : mapping of str to Sums
        Key: name of the quantity. The weight is 0 where the quantity is missing.
    """

    side: Mask
    session: Numbers
    place: Numbers
    hour: Numbers
    seconds: Array
    sums: Mapping[str, Sums]


@dataclass(frozen=True, slots=True)
class Judged:
    """The comparison of one quantity.

    Attributes
    ----------
    quantity : ComparedQuantity
    sessions : (int, int)
        Number of sessions with a value, for each side.
    means, medians : (float, float)
        Mean and median of the session means, for each side; NaN without a session.
    difference : SideDifference
    is_shown : bool
        Whether the difference may be claimed after the correction for several claims.
    """

    quantity: ComparedQuantity
    sessions: tuple[int, int]
    means: tuple[float, float]
    medians: tuple[float, float]
    difference: SideDifference
    is_shown: bool


class SideDifferences(NamedTuple):
    """The differences between two sides.

    Attributes
    ----------
    judged : list of Judged
        In the order of the quantities.
    matching : Matching
    are_places : bool
        Whether all sessions of one place count as one unit, because the two sides were at different places.
    """

    judged: list[Judged]
    matching: Matching
    are_places: bool

    def of(self, name: str) -> Judged:
        """Return the comparison of the quantity `name`."""
        return next(each for each in self.judged if each.quantity.name == name)


def compare(
    sides: Sides, quantities: Sequence[ComparedQuantity], *, draws: int | None = None, seed: int = SEED
) -> SideDifferences:
    """Compare two sides.

    Parameters
    ----------
    sides : Sides
    quantities : sequence of ComparedQuantity
        Their names are those of `sides.sums`.
    draws : int, optional
        Number of permutations for each quantity.
    seed : int
    """
    presence = np.max([sides.sums[each.name].weight > 0 for each in quantities], axis=0)
    rows = np.flatnonzero(presence)
    matched = _matched(sides, rows)
    are_places = not matched.by.startswith("place") and matched.places < MIN_KEPT
    unit = _by_place(sides) if are_places else np.arange(len(sides.side))
    cell = np.zeros(len(sides.session), dtype=np.int64)
    cell[rows] = matched.cell
    differences = []
    for each in quantities:
        entries = _entries(sides, sides.sums[each.name], cell, unit)
        value = NOTHING if entries is None else difference(
            entries, relative=each.relative, draws=draws, seed=seed
        )  # fmt: skip
        differences.append(value)
    p_values = np.array([each.p_value for each in differences])
    shown = stands(p_values, np.array([each.weight for each in quantities]), LEVEL)
    judged = [
        Judged(each, *_levels(sides, each), value, bool(is_shown))
        for each, value, is_shown in zip(quantities, differences, shown, strict=True)
    ]
    return SideDifferences(judged, matched, are_places)


def _matched(sides: Sides, rows: Numbers) -> Matching:
    """Return the cells in which the two sides are compared, from the rows that have any value.

    Each session has the total weight 1.
    """
    session, seconds = sides.session[rows], sides.seconds[rows]
    weight = seconds / np.bincount(session, seconds)[session]
    return matching(sides.place[rows], sides.hour[rows], weight, sides.side[session])


def _by_place(sides: Sides) -> Numbers:
    """Return the number of the unit of each session: int64, shape (n_sessions,).

    Sessions of one side form one unit if most of their data are from the same place.
    """
    unit = np.arange(len(sides.side))
    known = sides.place != NA
    codes, place = np.unique(sides.place, return_inverse=True)
    keys = sides.session * len(codes) + place
    pairs, which = np.unique(keys[known], return_inverse=True)
    order = np.argsort(np.bincount(which, sides.seconds[known]), kind="stable")
    mostly = np.full(len(unit), NA)
    mostly[pairs[order] // len(codes)] = pairs[order] % len(codes)
    there = np.flatnonzero(mostly != NA)
    _, first, of = np.unique(2 * mostly[there] + sides.side[there], return_index=True, return_inverse=True)
    unit[there] = there[first][of]
    return unit


def _entries(sides: Sides, sums: Sums, cell: Numbers, unit: Numbers) -> CellMeans | None:
    """Return the mean of a quantity for each unit and cell; the weights of a unit add up to 1.

    A unit is a session, or all sessions of one place. The result is None if one of the two sides has no value.
    """
    rows = np.flatnonzero(sums.weight > 0)
    session = sides.session[rows]
    complete = np.bincount(session, sums.weight[rows], len(sides.side))
    share = 1 / complete[session]
    of_unit = unit[session]
    cells = int(cell.max(initial=0)) + 1
    keys, place = np.unique(of_unit * cells + cell[rows], return_inverse=True)
    weight = np.bincount(place, share * sums.weight[rows])
    value = np.bincount(place, share * sums.total[rows]) / weight
    held, dense = np.unique(keys // cells, return_inverse=True)
    side = sides.side[held]
    if not len(held) or side.all() or not side.any():
        return None
    cells_held = np.unique(keys % cells, return_inverse=True)[1]
    sessions_of = np.bincount(dense, weight)  # a place weighs 1 however many sessions it has
    scaled = weight / sessions_of[dense]
    return CellMeans(dense, cells_held, scaled, value, side, strata(dense, cells_held, scaled, side))


def _levels(
    sides: Sides, quantity: ComparedQuantity
) -> tuple[tuple[int, int], tuple[float, float], tuple[float, float]]:
    """Return three pairs (first side, second side): number of sessions with a value, mean, median."""
    sums = sides.sums[quantity.name]
    weight = np.bincount(sides.session, sums.weight, len(sides.side))
    total = np.bincount(sides.session, sums.total, len(sides.side))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = total / weight
    first, second = (values[each & (weight > 0)] for each in (~sides.side, sides.side))
    return (
        (len(first), len(second)),
        (_of(np.mean, first), _of(np.mean, second)),
        (_of(np.median, first), _of(np.median, second)),
    )


def _of(function: Callable[[Array], float], values: Array) -> float:
    return float(function(values)) if len(values) else float("nan")


MIN_KEPT = 0.5
"""Minimum share of the comparison that matching must keep: the interval is then at most 1.41 times as wide as without
matching, and free of the effects of place and hour."""


class Matching(NamedTuple):
    """The cells in which the two sides are compared.

    Attributes
    ----------
    by : str
        "place and hour", "place" or "hour"; "" without matching.
    kept : float
        Share of the comparison that is left, 0 to 1.
    cell : ndarray of int64, shape (n_rows,)
        Cell of each row: numbers from 0, without gaps.
    places : float
        The share that matching by place alone would keep, 0 to 1; NaN where places are not known.
    """

    by: str
    kept: float
    cell: Numbers
    places: float


def matching(place: Numbers, hour: Numbers, weight: Array, side: Mask) -> Matching:
    """Return the narrowest cells (place and hour, place, or hour) that keep enough of the comparison.

    "Enough" is a minimum of `kept_share`; if no kind of cell reaches it, all rows are compared together.

    Parameters
    ----------
    place, hour : ndarray of int64, shape (n_rows,)
        NA where not known; such a row gets a cell of its own.
    weight : ndarray of float64, shape (n_rows,)
        The share of the row in its session.
    side : ndarray of bool, shape (n_rows,)
    """
    choices = {"place and hour": _joint(place, hour), "place": place, "hour": hour}
    known = {name: _known(codes) for name, codes in choices.items()}
    kept = {name: kept_share(codes, weight, side) for name, codes in known.items()}
    are_places = bool(((place != NA) & side).any() and ((place != NA) & ~side).any())
    places = kept["place"] if are_places else float("nan")
    for name, codes in known.items():
        if kept[name] >= MIN_KEPT:
            return Matching(name, kept[name], codes, places)
    return Matching("", 1.0, np.zeros(len(place), dtype=np.int64), places)


def kept_share(cell: Numbers, weight: Array, side: Mask) -> float:
    """Return the share of the comparison that is left if values are compared only within cells, 0 to 1.

    The module docstring defines this share.
    """
    total = np.bincount(cell, weight)
    second = np.bincount(cell, weight * side)
    overall = float(second.sum() / total.sum())
    most = float(total.sum()) * overall * (1 - overall)
    return float(np.sum(second * (1 - second / total)) / most) if most else 0.0


def _joint(place: Numbers, hour: Numbers) -> Numbers:
    both = (place != NA) & (hour != NA)
    of_place = np.unique(place, return_inverse=True)[1]
    return np.where(both, of_place * 24 + hour, NA)


def _known(codes: Numbers) -> Numbers:
    """Return the codes renumbered from 0; each row whose code is NA gets a number of its own."""
    own = -1 - np.arange(len(codes))
    dense = np.unique(codes, return_inverse=True)[1]
    return np.unique(np.where(codes == NA, own, dense), return_inverse=True)[1].astype(np.int64)


def strata(unit: Numbers, cell: Numbers, weight: Array, side: Mask) -> Numbers:
    """Return the group (stratum) of each unit; the permutation test exchanges sides only within a group.

    The smallest groups that keep enough of the comparison are used. Planned pairs remain pairs, since their
    two units could never have been on the same side.

    Parameters
    ----------
    unit, cell : ndarray of int64, shape (n_entries,)
        From 0, without holes.
    weight : ndarray of float64, shape (n_entries,)
    side : ndarray of bool, shape (n_units,)

    Returns
    -------
    ndarray of int64, shape (n_units,)
        The stratum is the cell with most of the unit's weight; if that keeps too little, the group of units
        that are connected through common cells; else 0 for all.
    """
    order = np.argsort(weight, kind="stable")
    mostly = np.zeros(len(side), dtype=np.int64)
    mostly[unit[order]] = cell[order]
    for codes in (mostly, _connected(unit, cell, len(side))):
        dense = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        if kept_share(dense, np.ones(len(side)), side) >= MIN_KEPT:
            return dense
    return np.zeros(len(side), dtype=np.int64)


def _connected(unit: Numbers, cell: Numbers, units: int) -> Numbers:
    """Return a group number for each unit; units with a common cell, directly or through others, are a group.

    The number is the smallest unit number in the group.
    """
    minimum = np.arange(units)
    while True:
        of_cell = np.full(int(cell.max()) + 1, units)
        np.minimum.at(of_cell, cell, minimum[unit])
        spread = minimum.copy()
        np.minimum.at(spread, unit, of_cell[cell])
        if (spread == minimum).all():
            return minimum
        minimum = spread


def stands(p_values: Array, weights: Array, level: float) -> Mask:
    """Return which claims hold together at a level (Holm's method with weights).

    Parameters
    ----------
    p_values : ndarray of float64, shape (n_claims,)
        NaN for a claim without a p value; it is not counted.
    weights : ndarray of float64, shape (n_claims,)
        Above 0; only their proportions count.
    level : float
        Maximum probability of at least one false claim.

    Returns
    -------
    ndarray of bool, shape (n_claims,)
    """
    held = np.isfinite(p_values)
    standing = np.zeros(len(p_values), dtype=bool)
    for place in np.argsort(np.where(held, p_values / weights, np.inf), kind="stable").tolist():
        rest = float(weights[held & ~standing].sum())
        if not held[place] or p_values[place] > level * weights[place] / rest:
            break
        standing[place] = True
    return standing
