"""One quantity on two sides: how far its means are apart, with a 95 % interval and a p value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.comparison.relabelling import Entries, Relabelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Array

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


class Difference(NamedTuple):
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


NOTHING = Difference(*[float("nan")] * 4)
"""Where there is no value."""


def difference(entries: Entries, *, relative: bool, draws: int | None = None, seed: int = SEED) -> Difference:
    """Return the difference of two sides.

    Parameters
    ----------
    entries : Entries
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


def paired(first: Array, second: Array) -> Entries:
    """Return the entries of values that belong together two by two: chance swaps the two of a pair.

    Parameters
    ----------
    first, second : ndarray of float64, shape (n_pairs,)
    """
    pair = np.tile(np.arange(len(first)), 2)
    unit = np.arange(len(pair))
    values = np.concatenate([first, second])
    return Entries(unit, pair, np.ones(len(pair)), values, unit >= len(first), pair)


def _factor(test: Relabelled) -> Difference:
    """Return the ratio less 1; u is its inverse."""
    u = test.estimate
    if not u > 0:
        return NOTHING
    low, high = (
        end_of(lambda distance: test.p_value(u * np.exp(distance)), sign * FIRST) for sign in (1, -1)
    )
    ratio = 1 / u
    return Difference(ratio - 1, ratio * np.exp(-low) - 1, ratio * np.exp(-high) - 1, test.p_value(1.0))


def _added(test: Relabelled, held: Array) -> Difference:
    u = test.estimate
    scale = float(np.ptp(held)) * FIRST
    if not np.isfinite(u):
        return NOTHING
    if not scale:  # all are equal: chance has nothing to go by
        return Difference(0.0, -np.inf, np.inf, 1.0)
    low, high = (end_of(lambda distance: test.p_value(u + distance), sign * scale) for sign in (-1, 1))
    return Difference(u, u + low, u + high, test.p_value(0.0))


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
