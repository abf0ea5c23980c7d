"""How often `dependence` finds what was planted, and how often it finds what is not there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multitracer.analysis.correlation import dependence
from tests.statistics.planted import autoregressive, planted

POINTS = 600
LAGS = np.arange(-10, 11)
LEVEL = 0.05
BITS = 0.3
PLANTED = (("linear", 0), ("threshold", 3), ("non-monotone", -4), ("linear", 7))
CORRELATIONS = (0.0, 0.5, 0.9, 0.95, 0.98)
SLOW = ((0.5, 0.3), (0.9, 0.3), (0.95, 0.1))
"""Correlation of neighbours, and bits: the slower and the weaker, the less is known of the lag."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Counts of pairs: how many, with a value, and significant (of what is planted: at its lag)."""

    pairs: int
    with_value: int
    significant: int

    @property
    def share(self) -> float:
        return self.significant / self.pairs


def power(shape: str, lag: int, seeds: range, *, permutations: int) -> Judged:
    """Return how often a planted dependence is the peak, at its lag, and significant."""
    counts = np.zeros(3, dtype=int)
    for seed in seeds:
        chance = np.random.default_rng([seed, lag + 100])
        x, y = planted(shape, chance, points=POINTS, lag=lag, bits=BITS)
        of = dependence(x, y, step_s=1.0, lags=LAGS, permutations=permutations, seed=seed)
        counts += (1, of.peak is not None, of.peak_lag_s == lag and of.peak_p_value <= LEVEL)
    return Judged(*counts.tolist())


def level(correlation: float, seeds: range, *, permutations: int, baseline: str = "shift") -> Judged:
    """Return how often two independent series are significant anywhere in the lags."""
    counts = np.zeros(3, dtype=int)
    for seed in seeds:
        chance = np.random.default_rng([seed, round(1000 * correlation)])
        x, y = (autoregressive(chance, POINTS, correlation) for _ in range(2))
        of = dependence(
            x, y, step_s=1.0, lags=LAGS, permutations=permutations, baseline=baseline, seed=seed  # type: ignore[arg-type]
        )  # fmt: skip
        counts += (1, of.peak is not None, of.peak_p_value <= LEVEL)
    return Judged(*counts.tolist())


@dataclass(frozen=True, slots=True)
class Lags:
    """Of significant pairs: how many, with the planted lag as the peak, and with it in the interval."""

    found: int
    at_peak: int
    covered: int
    width_s: float
    """Mean width of the interval, from the least lag to the largest."""


def lags(correlation: float, bits: float, seeds: range, *, permutations: int, lag: int = 3) -> Lags:
    """Return how often the interval of a peak holds the lag that was planted in a slow series."""
    found = []
    for seed in seeds:
        chance = np.random.default_rng([seed, round(1000 * correlation), lag])
        x, y = planted("linear", chance, points=POINTS, lag=lag, bits=bits, correlation=correlation)
        of = dependence(x, y, step_s=1.0, lags=LAGS, permutations=permutations, seed=seed)
        if of.peak_p_value <= LEVEL:
            found.append(of)
    width_s = float(np.mean([of.peak_high_s - of.peak_low_s for of in found]))
    covered = sum(of.peak_low_s <= lag <= of.peak_high_s for of in found)
    return Lags(len(found), sum(of.peak_lag_s == lag for of in found), covered, width_s)
