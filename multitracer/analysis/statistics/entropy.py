"""Entropies of counts, and mutual information normalised by one of them.

Counts of a pair of series are integers of shape (..., bins of x, bins of y): one or several tables of counts. Entropies
are plug-in estimates in nats; the correction of Miller (1955) and Madow adds (occupied cells - 1) / 2n to each.

`Choices` has the options of a comparison of two series, and checks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import xlogy

from multitracer.analysis.statistics.surrogates import BASELINES, Baseline
from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.tables import Array, Numbers

Normaliser = Literal["min", "max", "mean", "sqrt", "joint"]
NORMALISERS: tuple[Normaliser, ...] = ("min", "max", "mean", "sqrt", "joint")
_ROUNDING = 1e-12
"""An entropy or an information below this is 0, except for rounding of float64 sums."""


@dataclass(frozen=True, slots=True)
class Entropies:
    """Entropies of two series and of both together, nats; shape (...,) as the tables of counts."""

    x: Array
    y: Array
    joint: Array

    @property
    def information(self) -> Array:
        """Mutual information, nats; at least 0."""
        shared: Array = np.maximum(self.x + self.y - self.joint, 0.0)
        return shared


def entropies(counts: Numbers, *, corrected: bool = False) -> Entropies:
    """Return the entropies of tables of counts.

    Parameters
    ----------
    counts : ndarray of int64, shape (..., bins of x, bins of y)
        A table without a point has entropies of 0.
    corrected : bool
        Add the correction of Miller and Madow.
    """
    of_x, of_y = counts.sum(-1), counts.sum(-2)
    points = of_x.sum(-1)
    terms = _terms(int(points.max(initial=1)))
    in_all = counts.reshape(*counts.shape[:-2], -1)
    return Entropies(*(_entropy(each, points, terms, corrected=corrected) for each in (of_x, of_y, in_all)))


@lru_cache(maxsize=4)
def _terms(most: int) -> Array:
    """Return c log c for each count c from 0 to `most`; the natural logarithm is used, and 0 log 0 is 0."""
    count = np.arange(most + 1, dtype=np.float64)
    return np.asarray(xlogy(count, count))


def _entropy(counts: Numbers, points: Numbers, terms: Array, *, corrected: bool) -> Array:
    held = np.maximum(points, 1)
    entropy = np.log(held) - np.take(terms, counts).sum(-1) / held
    if corrected:
        entropy = entropy + (np.count_nonzero(counts, axis=-1) - 1) / (2 * held)
    return np.where(entropy < _ROUNDING, 0.0, entropy)


def normalised(of: Entropies, by: Normaliser) -> Array:
    """Return the mutual information divided by the minimum, maximum, mean ... of the entropies, 0 to 1.

    Vinh, Epps and Bailey (2010), Information theoretic measures for clusterings comparison, table 2, has all
    five. The result is 0 where an entropy is 0, since a constant series carries no information.
    """
    match by:
        case "min":
            divisor = np.minimum(of.x, of.y)
        case "max":
            divisor = np.maximum(of.x, of.y)
        case "mean":
            divisor = (of.x + of.y) / 2
        case "sqrt":
            divisor = np.sqrt(of.x * of.y)
        case "joint":
            divisor = of.joint
    varies = (of.x > 0) & (of.y > 0)
    return np.where(varies, np.clip(of.information / np.where(varies, divisor, 1.0), 0.0, 1.0), 0.0)


def conditional(counts: Numbers) -> Entropies:
    """Return the entropies of two series conditional on a third one: means over its bins.

    Cover and Thomas (1991), Elements of Information Theory, section 2.5.

    Parameters
    ----------
    counts : ndarray of int64, shape (..., bins of the third, bins of x, bins of y)
        Each table has at least one point.
    """
    each, points = entropies(counts), counts.sum((-1, -2))
    weight = points / points.sum(-1, keepdims=True)
    return Entropies(*((weight * part).sum(-1) for part in (each.x, each.y, each.joint)))


Estimator = Literal["equal-count", "freedman-diaconis", "miller-madow", "ksg"]
ESTIMATORS: tuple[Estimator, ...] = ("equal-count", "freedman-diaconis", "miller-madow", "ksg")
_MOST_CELLS = 20_000_000
"""Maximum of lags times surrogates: 160 MB of float64."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Estimator, normaliser, number and kind of surrogates, and their seed."""

    estimator: Estimator
    normaliser: Normaliser
    permutations: int
    baseline: Baseline
    seed: int

    def check(self, lags: Array, step_s: float) -> None:
        """Raise an InputError for the first option that is not valid."""
        for name, value, known in (
            ("estimator", self.estimator, ESTIMATORS),
            ("normaliser", self.normaliser, NORMALISERS),
            ("baseline", self.baseline, BASELINES),
        ):
            if value not in known:
                raise InputError(f"{name}: {str(value)[:40]!r} is not known; choose one of {', '.join(known)}")
        if lags.ndim != 1 or not len(lags) or lags.dtype.kind not in "iu":
            raise InputError("lags: the lags must be a list of at least one whole number of steps")
        if not 0 < step_s < float("inf"):
            raise InputError(f"step: the width of the grid must be above 0 s, but is {step_s}")
        if self.seed < 0:
            raise InputError(f"seed: the seed must be a whole number of at least 0, but is {self.seed}")
        most = _MOST_CELLS // len(lags)
        if not 1 <= self.permutations <= most:
            raise InputError(
                f"permutations: the number of permutations must be 1 to {most} for {len(lags)} lags, "
                f"but is {self.permutations}"
            )
