"""Repeated runs: what they reached, and what share that is of what others reached in the same runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.comparison.difference import difference, paired

if TYPE_CHECKING:
    from collections.abc import Sequence

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
