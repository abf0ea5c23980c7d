"""Two sides of many sessions: every quantity compared, and which differences may be claimed together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.comparison.difference import LEVEL, NOTHING, SEED, Difference, difference
from multitracer.analysis.comparison.family import stands
from multitracer.analysis.comparison.matching import LEAST_KEPT, Matching, matching
from multitracer.analysis.comparison.relabelling import Entries
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from multitracer.tables import Array, Mask, Numbers


class Quantity(NamedTuple):
    """What is compared.

    Attributes
    ----------
    name : str
    relative : bool
        Compared by a factor; else by a difference.
    weight : float
        In the judgement of several claims at once.
    """

    name: str
    relative: bool
    weight: float


class Sums(NamedTuple):
    """Sums of a quantity: what it weighs, and the weighted total; float64, shape (n_rows,) each."""

    weight: Array
    total: Array


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides, summed by session, place and hour.

    Attributes
    ----------
    side : ndarray of bool, shape (n_sessions,)
        Whether a session is on the second side.
    session, place, hour : ndarray of int64, shape (n_rows,)
        Of each row: the session from 0, a code of the place, the hour of the day; NA where not known.
    seconds : ndarray of float64, shape (n_rows,)
        That the row sums up, above 0.
    sums : mapping of str to Sums
        By the name of the quantity; a weight of 0 where it is missing.
    """

    side: Mask
    session: Numbers
    place: Numbers
    hour: Numbers
    seconds: Array
    sums: Mapping[str, Sums]


@dataclass(frozen=True, slots=True)
class Judged:
    """One quantity on both sides.

    Attributes
    ----------
    quantity : Quantity
    sessions : (int, int)
        With a value.
    means, medians : (float, float)
        Over the sessions of a side, of their means; NaN without any.
    difference : Difference
    is_shown : bool
        Whether the difference may be claimed, together with all others that may.
    """

    quantity: Quantity
    sessions: tuple[int, int]
    means: tuple[float, float]
    medians: tuple[float, float]
    difference: Difference
    is_shown: bool


class Comparison(NamedTuple):
    """What two sides differ in.

    Attributes
    ----------
    judged : list of Judged
        In the order of the quantities.
    matching : Matching
    are_places : bool
        Whether sessions of one place are taken for one, because the sides were at different ones.
    """

    judged: list[Judged]
    matching: Matching
    are_places: bool

    def of(self, name: str) -> Judged:
        """Return one of them."""
        return next(each for each in self.judged if each.quantity.name == name)


def compare(
    sides: Sides, quantities: Sequence[Quantity], *, draws: int | None = None, seed: int = SEED
) -> Comparison:
    """Compare two sides.

    Parameters
    ----------
    sides : Sides
    quantities : sequence of Quantity
        Their names are those of `sides.sums`.
    draws : int, optional
        Relabellings for each of them.
    seed : int
    """
    presence = np.max([sides.sums[each.name].weight > 0 for each in quantities], axis=0)
    rows = np.flatnonzero(presence)
    matched = _matched(sides, rows)
    are_places = not matched.by.startswith("place") and matched.places < LEAST_KEPT
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
    return Comparison(judged, matched, are_places)


def _matched(sides: Sides, rows: Numbers) -> Matching:
    """Return the cells of those rows that have any value; each session weighs 1."""
    session, seconds = sides.session[rows], sides.seconds[rows]
    weight = seconds / np.bincount(session, seconds)[session]
    return matching(sides.place[rows], sides.hour[rows], weight, sides.side[session])


def _by_place(sides: Sides) -> Numbers:
    """Return a unit for each session: sessions of a side that were mostly at one place share one."""
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


def _entries(sides: Sides, sums: Sums, cell: Numbers, unit: Numbers) -> Entries | None:
    """Return the entries of a quantity, each session with a weight of 1; None if a side has none."""
    rows = np.flatnonzero(sums.weight > 0)
    session = sides.session[rows]
    whole = np.bincount(session, sums.weight[rows], len(sides.side))
    share = 1 / whole[session]
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
    return Entries(dense, cells_held, weight / sessions_of[dense], value, side)


def _levels(
    sides: Sides, quantity: Quantity
) -> tuple[tuple[int, int], tuple[float, float], tuple[float, float]]:
    """Return, for both sides, how many sessions have a value, and mean and median of theirs."""
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
