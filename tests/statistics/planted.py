"""Pairs of series whose dependence is known: planted with so many bits, or none at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.special import entr

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Array

_BURN_IN = 1000


def autoregressive(chance: np.random.Generator, points: int, correlation: float) -> Array:
    """Return a first-order autoregressive series of variance 1; a random walk for a correlation of 1."""
    steps = chance.standard_normal(points + _BURN_IN)
    if correlation == 1:
        return np.cumsum(steps[_BURN_IN:])
    series = lfilter([1.0], [1.0, -correlation], steps)[_BURN_IN:]
    return np.asarray(series * np.sqrt(1 - correlation**2))


def planted(
    shape: str, chance: np.random.Generator, *, points: int, lag: int, bits: float, correlation: float = 0.5
) -> tuple[Array, Array]:
    """Return x, with a correlation between neighbours, and y that follows it by `lag` points."""
    driver = autoregressive(chance, points + 2 * abs(lag), correlation)
    begin = abs(lag)
    x, cause = driver[begin : begin + points], driver[begin - lag : begin - lag + points]
    return x, SHAPES[shape](cause, chance, bits)


def _linear(cause: Array, chance: np.random.Generator, bits: float) -> Array:
    correlation = np.sqrt(1 - 2 ** (-2 * bits))  # I = -1/2 log2(1 - r^2)
    return correlation * cause + np.sqrt(1 - correlation**2) * chance.standard_normal(len(cause))


def _threshold(cause: Array, chance: np.random.Generator, bits: float) -> Array:
    return _of_states(cause > 0, chance, bits)


def _non_monotone(cause: Array, chance: np.random.Generator, bits: float) -> Array:
    return _of_states(np.abs(cause) > 0.6744897501960817, chance, bits)  # the quartile of a normal series


def _of_states(state: Array, chance: np.random.Generator, bits: float) -> Array:
    """Return two levels with noise that does not mix them; a state is wrong so often that `bits` remain."""
    wrong = brentq(lambda q: 1 - (entr(q) + entr(1 - q)) / np.log(2) - bits, 1e-6, 0.5)
    return 10.0 * (state ^ (chance.random(len(state)) < wrong)) + chance.standard_normal(len(state))


SHAPES: dict[str, Callable[[Array, np.random.Generator, float], Array]] = {
    "linear": _linear,
    "threshold": _threshold,
    "non-monotone": _non_monotone,
}
