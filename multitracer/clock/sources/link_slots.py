"""Clocks of the two sides of a link, by the slots that both of their logs number.

A slot (20 ms of a GSM data call) is the same piece of time on both sides, whatever clock stamps it: no model
of a path is needed. What remains open is where within a slot each side takes its stamp.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.sources.paired_stamps import fitted
from multitracer.errors import ClockError
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.clock.model.estimate import Estimate
    from multitracer.tables import Array, Table

METHOD = "slots of the link"
PHASE_SHARE = 0.05
"""Both sides are taken to stamp a slot at the same place in it, to this share of its length (assumption)."""
_FEWEST = 50  # one second of 20 ms slots
_WINDOWS = 200  # parts whose medians make the line; each has ten slots or more. Not measured
_SIGMAS = 1.96  # 95 % of a normal distribution
_MAD_SIGMA = 1.4826
"""From the median deviation to the standard deviation of normal noise."""
_OF_A_MEDIAN = 1.2533
"""Its standard error over that of a mean."""


def relate_slots(near: Table, far: Table) -> list[Estimate]:
    """Return the relation of the far side's clock to the near side's, for each interval between steps.

    Parameters
    ----------
    near, far : Table
        LINK_FRAMES of the two sides of one call.

    Raises
    ------
    ClockError
        If they number too few slots in common.
    """
    near_tick, near_ns = _stamped(near)
    far_tick, far_ns = _stamped(far)
    _, one, other = np.intersect1d(near_tick, far_tick, assume_unique=True, return_indices=True)
    if len(one) < _FEWEST:
        raise ClockError(
            f"{METHOD}: not determinable, because the two logs number {len(one)} slots in common, fewer than "
            f"{_FEWEST}; what would help: logs of the same call, of some seconds at least"
        )
    start, end, error = _levels(near_ns[one], far_ns[other])
    phase_ns = PHASE_SHARE * _slot_ns(near_tick, near_ns)
    return [
        _with_phase(estimate, phase_ns, near_ns[one]) for estimate in fitted(start, end, error, method=METHOD)
    ]


def _stamped(frames: Table) -> tuple[Array, Array]:
    """Return the slots that a log numbers, ascending, and the first stamp of each."""
    rows = np.flatnonzero(frames["tick"] != NA)
    tick, first = np.unique(frames["tick"][rows], return_index=True)
    return tick, frames["time_ns"][rows[first]]


def _levels(near_ns: Array, far_ns: Array) -> tuple[Array, Array, Array]:
    """Return the middles of some hundred stretches: both clocks, and how sure the difference is."""
    parts = np.array_split(np.arange(len(near_ns)), min(_WINDOWS, len(near_ns) // 10))
    start = np.array([int(np.median(near_ns[part])) for part in parts], dtype=np.int64)
    difference = far_ns - near_ns
    middle = np.array([int(np.median(difference[part])) for part in parts], dtype=np.int64)
    spread = np.array([np.median(np.abs(difference[p] - m)) for p, m in zip(parts, middle, strict=True)])
    lengths = np.array([len(part) for part in parts])
    error = _SIGMAS * _OF_A_MEDIAN * _MAD_SIGMA * spread / np.sqrt(lengths)
    return start, start + middle, np.maximum(np.rint(error), 1).astype(np.int64)


def _slot_ns(tick: Array, time_ns: Array) -> float:
    lasted = np.diff(time_ns) / np.diff(tick)
    return float(np.median(lasted))


def _with_phase(estimate: Estimate, phase_ns: float, stamps: Array) -> Estimate:
    """Return the estimate with the uncertainty of the phase within a slot; its evidence is slots."""
    return replace(
        estimate,
        uncertainty_ns=float(np.hypot(estimate.uncertainty_ns, phase_ns)),
        evidence=int(np.count_nonzero(estimate.covers(stamps))),
        notes=(f"both sides are assumed to stamp the same point of a slot, to {phase_ns / 1e6:.1f} ms",),
    )
