"""How equally flows share a link: the gap of paper 003, Jain's index, and the share of each flow.

Flows are compared over an interval in which all of them had data to send; the caller chooses the interval.
Gap: K. Mattar et al., "TCP over CDMA2000 Networks: A Cross-Layer Measurement Study" (paper 003), equation 2.
Index: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness", DEC-TR-301, 1984.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Array

NO_FLOW = "no flow"
UNKNOWN_RATE = "the rate of a flow is not known"
ALL_STOOD = "no flow delivered anything"
ONE_STOOD = "the slowest flow delivered nothing, or next to nothing"


class Fairness(NamedTuple):
    """Fairness measures of flows that share a link.

    Attributes
    ----------
    flows : int
        Number of flows that were compared.
    gap : float
        (largest - smallest) / smallest rate, 0 for equal rates; NaN if it is not defined.
    jain : float
        (sum of rates)^2 / (flows x sum of squares), from 1 / flows to 1 for equal rates; NaN if not defined.
    reason : str
        Why the gap is NaN, or both are; empty if both are known.
    """

    flows: int
    gap: float
    jain: float
    reason: str


def fairness(rates: Array | Sequence[float]) -> Fairness:
    """Return how equally flows share a link: the rate gap and Jain's index.

    Parameters
    ----------
    rates : array of float64, shape (n_flows,)
        Rate of each flow over the same time, in any unit, not negative; NaN if unknown.

    Returns
    -------
    Fairness
        Gap and index are NaN with fewer than two flows, with an unknown rate, or if all rates are 0. Only the
        gap is NaN if only the smallest rate is 0.

    Raises
    ------
    InputError
        If a rate is negative or infinite, or `rates` is not a list of numbers.

    Examples
    --------
    >>> fairness([300_000, 100_000])
    Fairness(flows=2, gap=2.0, jain=0.8, reason='')
    """
    rate = _checked(rates, dimensions=1)
    reason = _undefined(rate)
    if reason:
        return Fairness(len(rate), np.nan, np.nan, reason)
    scaled = (rate / rate.max()).tolist()  # squares of large rates stay finite
    gap, why = fairness_gap(scaled)
    jain = jain_index(scaled)
    if len(rate) < 2:
        return Fairness(len(rate), np.nan, np.nan, why or "")
    if gap is not None and np.isinf(gap):
        gap, why = None, ONE_STOOD
    return Fairness(len(rate), np.nan if gap is None else gap, min(jain or np.nan, 1.0), why or "")


def shares(amounts: Array | Sequence[Sequence[float]]) -> Array:
    """Return the share of each flow in each interval.

    Parameters
    ----------
    amounts : array of float64, shape (n_flows, n_intervals)
        Amount that each flow carried, in any unit, not negative; NaN while a flow did not take part.

    Returns
    -------
    ndarray of float64, shape (n_flows, n_intervals)
        Shares from 0 to 1; NaN where the flow did not take part, and where no flow carried anything.

    Raises
    ------
    InputError
        If an amount is negative or infinite, or `amounts` is not a list of lists of numbers.

    Examples
    --------
    >>> shares([[3.0, 0.0], [1.0, 0.0]]).tolist()
    [[0.75, nan], [0.25, nan]]
    """
    amount = _checked(amounts, dimensions=2)
    largest = np.fmax.reduce(amount, axis=0, initial=0.0)
    scaled = np.divide(amount, largest, out=np.full_like(amount, np.nan), where=largest > 0)
    complete = np.nansum(scaled, axis=0)
    parts: Array = np.divide(scaled, complete, out=np.full_like(amount, np.nan), where=complete > 0)
    return parts


def jain_index(rates: Sequence[float]) -> float | None:
    """Return Jain's fairness index of the rates: 1 if all are equal, 1/n if one of n flows has everything.

    Source: Jain, Chiu and Hawe 1984, "A Quantitative Measure of Fairness", equation 1. The result is None if
    no rate is above 0.
    """
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares > 0 else None


def fairness_gap(rates: Sequence[float]) -> tuple[float | None, str | None]:
    """Return (maximum - minimum) / minimum of the rates and None; or None and the reason.

    Source: paper 003, equation 2. The gap of equal rates is 0; it is not defined if the minimum is 0.
    """
    if len(rates) < 2:
        return None, "a gap is between two flows or more"
    if min(rates) <= 0:
        return None, "the slowest flow delivered nothing"
    return (max(rates) - min(rates)) / min(rates), None


def _checked(values: object, *, dimensions: int) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("fairness: the rates must be numbers; give one rate for each flow") from None
    if array.ndim != dimensions:
        raise InputError(f"fairness: the array of rates must have {dimensions} dimensions, but has {array.ndim}")
    if bool((array < 0).any()) or bool(np.isinf(array).any()):
        raise InputError("fairness: each rate must be finite and not negative")
    return array


def _undefined(rate: Array) -> str:
    """Return the reason why both the gap and Jain's index are undefined; empty if one of them is defined."""
    if not len(rate):
        return NO_FLOW
    if np.isnan(rate).any():
        return UNKNOWN_RATE
    return "" if rate.max() > 0 else ALL_STOOD
