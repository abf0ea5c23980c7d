"""What is set beside what: cells of place and hour that both sides were in.

A cell where only one side was says nothing about the other one. The kept share tells how much of the
comparison is left: of n units in a cell, a share p of them on the second side, n p (1 - p), as the squared
error of a difference is in proportion to its inverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers

LEAST_KEPT = 0.5
"""A comparison within cells is taken if it keeps half of what there is: its interval is at most 1.41 times as
wide as one that ignores place and hour, and free of their effects."""


class Matching(NamedTuple):
    """How the sides are matched.

    Attributes
    ----------
    by : str
        "place and hour", "place", "hour", or "" where they are not.
    kept : float
        Share of the comparison that is left, 0 to 1.
    cell : ndarray of int64, shape (n_rows,)
        Of each row; from 0, without holes.
    places : float
        What matching by place alone would keep; NaN where places are not known.
    """

    by: str
    kept: float
    cell: Numbers
    places: float


def matching(place: Numbers, hour: Numbers, weight: Array, side: Mask) -> Matching:
    """Return the narrowest cells that keep enough.

    Parameters
    ----------
    place, hour : ndarray of int64, shape (n_rows,)
        NA where not known; such a row is in no cell with others of the same place.
    weight : ndarray of float64, shape (n_rows,)
        What a row is of its session.
    side : ndarray of bool, shape (n_rows,)
    """
    choices = {"place and hour": _joint(place, hour), "place": place, "hour": hour}
    known = {name: _known(codes) for name, codes in choices.items()}
    kept = {name: kept_share(codes, weight, side) for name, codes in known.items()}
    are_places = bool(((place != NA) & side).any() and ((place != NA) & ~side).any())
    places = kept["place"] if are_places else float("nan")
    for name, codes in known.items():
        if kept[name] >= LEAST_KEPT:
            return Matching(name, kept[name], codes, places)
    return Matching("", 1.0, np.zeros(len(place), dtype=np.int64), places)


def kept_share(cell: Numbers, weight: Array, side: Mask) -> float:
    """Return which share of a comparison is left within cells."""
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
    """Return codes from 0 on; each row without one gets a cell of its own."""
    own = -1 - np.arange(len(codes))
    dense = np.unique(codes, return_inverse=True)[1]
    return np.unique(np.where(codes == NA, own, dense), return_inverse=True)[1].astype(np.int64)
