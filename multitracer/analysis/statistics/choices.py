"""What can be chosen of a comparison of two series, and which choices are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from multitracer.analysis.statistics.entropy import NORMALISERS, Normaliser
from multitracer.analysis.statistics.surrogates import BASELINES, Baseline
from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.tables import Array

Estimator = Literal["equal-count", "freedman-diaconis", "miller-madow", "ksg"]
ESTIMATORS: tuple[Estimator, ...] = ("equal-count", "freedman-diaconis", "miller-madow", "ksg")
_MOST_CELLS = 20_000_000
"""Lags times surrogates: 160 MB of float64."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Estimator, normaliser, number and kind of surrogates, and their seed."""

    estimator: Estimator
    normaliser: Normaliser
    permutations: int
    baseline: Baseline
    seed: int

    def check(self, lags: Array, step_s: float) -> None:
        """Raise an InputError about the first choice that cannot be used."""
        for name, value, known in (
            ("estimator", self.estimator, ESTIMATORS),
            ("normaliser", self.normaliser, NORMALISERS),
            ("baseline", self.baseline, BASELINES),
        ):
            if value not in known:
                raise InputError(f"{name}: {str(value)[:40]!r} is not known; choose of {', '.join(known)}")
        if lags.ndim != 1 or not len(lags) or lags.dtype.kind not in "iu":
            raise InputError("lags: no list of whole steps; name at least one")
        if not 0 < step_s < float("inf"):
            raise InputError(f"step: {step_s} is no width of a grid; name seconds above 0")
        if self.seed < 0:
            raise InputError(f"seed: {self.seed} is below 0; name a whole number from 0 on")
        most = _MOST_CELLS // len(lags)
        if not 1 <= self.permutations <= most:
            raise InputError(
                f"permutations: {self.permutations} is not 1 to {most}, the most with {len(lags)} lags"
            )
