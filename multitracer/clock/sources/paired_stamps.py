"""Stamps that two clocks gave to the same instants: bracketed readings, clapperboard tags, slots of a link.

Such pairs need no model of a path: each says the offset within its own error.

- Two clocks of one kernel (`rigid`) run at one rate, since what disciplines one disciplines both; their
  offset changes by steps only. The intervals that the readings allow have something in common until a step.
- Two clocks of their own run at rates up to 500 ppm apart (RFC 5905 takes no more); what changes faster is a
  step. Between steps the pairs are fitted with a straight line, weighted by their errors.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.estimate import MOST_SKEW_PPM, PPM, Estimate, EventDirection, Evidence
from multitracer.errors import ClockError
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.tables import Array

UNSEEN_SKEW_PPM = 100.0
"""What a single pair leaves open: the rate of a cheap quartz."""
_MOST_STEPS = 1_000
"""A clock that is set more often is none."""
_SIGMAS = 1.96  # 95 % of a normal distribution


def rigid(from_ns: Array, to_ns: Array, error_ns: Array, *, method: str) -> list[Estimate]:
    """Return the offsets of two clocks of one kernel, one for each interval between steps.

    Parameters
    ----------
    from_ns, to_ns : ndarray of int64, shape (n_pairs,)
        Stamps of the same instants, in the order in which they were taken.
    error_ns : ndarray of int64, shape (n_pairs,)
        By how much each difference may be off, at most.
    method : str
        The name of the estimates' method.

    Raises
    ------
    ClockError
        If there is no pair.
    """
    _check(len(from_ns), method)
    offset = to_ns - from_ns
    low, high = offset - error_ns, offset + error_ns
    parts, begin = [], 0
    ends = _agreement(low.tolist(), high.tolist())
    _check_steps(len(ends), method)
    for end in [*ends, len(offset)]:
        rows = slice(begin, end)
        least, most = int(low[rows].max()), int(high[rows].min())
        parts.append(
            Estimate(
                first_ns=int(from_ns[rows].min()),
                last_ns=int(from_ns[rows].max()),
                offset_ns=(least + most) // 2,
                skew_ppm=0.0,
                uncertainty_ns=(most - least) / 2,
                skew_uncertainty_ppm=0.0,
                method=method,
                evidence=end - begin,
                lower_ns=least,
                upper_ns=most,
                points=_evidence(from_ns[rows], to_ns[rows]),
            )
        )
        begin = end
    return parts


def _agreement(low: list[int], high: list[int]) -> list[int]:
    """Return where the intervals [low, high] no longer overlap with all earlier ones."""
    ends = []
    least, most = low[0], high[0]
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        if max(least, a) <= min(most, b):
            least, most = max(least, a), min(most, b)
        else:
            ends.append(i)
            least, most = a, b
    return ends


def fitted(from_ns: Array, to_ns: Array, error_ns: Array, *, method: str) -> list[Estimate]:
    """Return the relation of two clocks that run at rates of their own, for each interval between steps.

    Parameters
    ----------
    from_ns, to_ns : ndarray of int64, shape (n_pairs,)
        Stamps of the same instants, in any order.
    error_ns : ndarray of int64, shape (n_pairs,)
        Half-width of the 95 % interval of each difference.
    method : str
        The name of the estimates' method.

    Raises
    ------
    ClockError
        If there is no pair.
    """
    _check(len(from_ns), method)
    order = np.argsort(from_ns, kind="stable")
    start, end, error = (np.asarray(column)[order] for column in (from_ns, to_ns, error_ns))
    cuts = _steps(start, end, error)
    _check_steps(len(cuts), method)
    bounds = [0, *cuts.tolist(), len(start)]
    parts = [slice(a, b) for a, b in pairwise(bounds)]
    return [_line(start[part], end[part], error[part], method) for part in parts]


def _check(pairs: int, method: str) -> None:
    if not pairs:
        raise ClockError(
            f"{method}: not determinable, because there is no pair of readings; what would help: "
            "record clocks.jsonl, or clap in every log"
        )


def _check_steps(steps: int, method: str) -> None:
    if steps > _MOST_STEPS:
        raise ClockError(
            f"{method}: not determinable, because the clocks jump {steps:,} times against each other; what "
            "would help: a log whose stamps are of one clock"
        )


def _steps(from_ns: Array, to_ns: Array, error_ns: Array) -> Array:
    """Return the rows before which the offset changes faster than any clock drifts."""
    moved = np.abs(np.diff(to_ns - from_ns))
    drift = MOST_SKEW_PPM * PPM * np.abs(np.diff(from_ns))
    return np.flatnonzero(moved > drift + 2 * (error_ns[1:] + error_ns[:-1]) + NS_PER_MS) + 1


def _line(from_ns: Array, to_ns: Array, error_ns: Array, method: str) -> Estimate:
    first = int(from_ns[0])
    base = int(to_ns[0]) - first
    x = (from_ns - first).astype(np.float64)
    y = (to_ns - from_ns - base).astype(np.float64)
    weight = 1 / np.maximum(error_ns / _SIGMAS, 1.0) ** 2
    middle = float(np.average(x, weights=weight))
    spread = float(np.sum(weight * (x - middle) ** 2))
    height = float(np.average(y, weights=weight))
    slope = float(np.sum(weight * (x - middle) * (y - height))) / spread if spread > 0 else 0.0
    excess = _excess(weight * (y - height - slope * (x - middle)) ** 2)
    skew_error = _SIGMAS * excess / np.sqrt(spread) / PPM if spread > 0 else UNSEEN_SKEW_PPM
    return Estimate.around(
        first + round(middle),
        _SIGMAS * excess / float(np.sqrt(weight.sum())),
        first_ns=first,
        last_ns=int(from_ns[-1]),
        offset_ns=base + round(height - slope * middle),
        skew_ppm=slope / PPM,
        skew_uncertainty_ppm=min(float(skew_error), 2 * MOST_SKEW_PPM),
        method=method,
        evidence=len(x),
        points=_evidence(from_ns, to_ns),
    )


def _excess(squares: Array) -> float:
    """Return by how much the residuals exceed what the stated errors explain, at least 1."""
    freedom = len(squares) - 2
    return max(1.0, float(np.sqrt(squares.sum() / freedom))) if freedom > 0 else 1.0


def _evidence(from_ns: Array, to_ns: Array) -> Evidence:
    return Evidence(from_ns, to_ns, np.full(len(from_ns), EventDirection.TOGETHER, dtype=np.int8))
