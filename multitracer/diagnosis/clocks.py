"""The receiver's clock as seen by the sender's, from what one transfer shows of both.

Two sources, the better first: the slots of the link, if both logs number the same ones; else the fastest
packets of both directions, which bound the offset from both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.estimate import FORWARD, TOGETHER, Estimate, Evidence
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.transfer import Pairs
    from multitracer.tables import Array, Table

_FEWEST_SLOTS = 10
_PPM = 1e6
_LONG_NS = 60 * 10**9
"""Shorter recordings do not show a skew apart from noise."""


def clock_of_slots(far: Table, near: Table) -> Estimate | None:
    """Return the clock of the side `far` as seen by `near`, by slots that both logs stamped.

    Parameters
    ----------
    far, near : Table
        LINK_FRAMES of both sides, which number the slots of one call alike.

    Returns
    -------
    Estimate or None
        From `far`'s stamps to `near`'s; None if they share fewer than ten slots.
    """
    far_tick, far_ns = _first_stamps(far)
    near_tick, near_ns = _first_stamps(near)
    _, at_far, at_near = np.intersect1d(far_tick, near_tick, assume_unique=True, return_indices=True)
    if len(at_far) < _FEWEST_SLOTS:
        return None
    return _fitted(far_ns[at_far], near_ns[at_near], "slots of the link")


def _first_stamps(frames: Table) -> tuple[Array, Array]:
    """Return the slots that a log numbers, ascending, and when each was first stamped."""
    rows = np.flatnonzero(frames["tick"] != NA)
    tick, first = np.unique(frames["tick"][rows], return_index=True)
    return tick, frames["time_ns"][rows[first]]


def _fitted(from_ns: Array, to_ns: Array, method: str) -> Estimate:
    """Return the line through stamps of the same instants; the middle half of the residuals is its error."""
    first = int(from_ns[0])
    x, y = (from_ns - first).astype(np.float64), (to_ns - from_ns).astype(np.float64)
    long_enough = x[-1] - x[0] >= _LONG_NS
    skew = _slope(x, y) if long_enough else 0.0
    offset = float(np.median(y - skew * x))
    spread = float(np.percentile(np.abs(y - skew * x - offset), 95))
    away = 2 * spread / max(float(x[-1] - x[0]), 1.0) if long_enough else 0.0
    together = np.full(len(x), TOGETHER, dtype=np.int8)
    return Estimate(
        first, int(from_ns[-1]), round(offset), skew * _PPM, spread, away * _PPM, method, len(x),
        points=Evidence(from_ns, to_ns, together),
    )  # fmt: skip


def _slope(x: Array, y: Array) -> float:
    """Return the slope between the medians of the first and last third; a few late stamps do not tilt it."""
    third = max(1, len(x) // 3)
    rise = np.median(y[-third:]) - np.median(y[:third])
    run = np.median(x[-third:]) - np.median(x[:third])
    return float(rise / run) if run > 0 else 0.0


def clock_of_captures(data: Pairs | None, acks: Pairs | None) -> Estimate | None:
    """Return the receiver's clock as seen by the sender's, by the fastest packet each way.

    Half the sum of both ways' shortest delays is the error that asymmetry may hide.

    Parameters
    ----------
    data, acks : Pairs or None
        The packets of both directions at both captures; None without one at the receiver.
    """
    if data is None or acks is None:
        return None
    there, back = (_matched(pairs) for pairs in (data, acks))
    if not len(there[0]) or not len(back[0]):
        return None
    most = int((there[1] - there[0]).min())  # receiver - sender: at most this
    least = -int((back[1] - back[0]).min())
    middle, half = (most + least) // 2, abs(most - least) / 2
    first, last = int(there[1].min()), int(there[1].max())
    points = Evidence(there[1], there[0], np.full(len(there[0]), -FORWARD, dtype=np.int8))
    return Estimate(
        first, last, -middle, 0.0, half, 0.0, "fastest packets of both captures",
        len(there[0]) + len(back[0]), points=points,
    )  # fmt: skip


def _matched(pairs: Pairs) -> tuple[Array, Array]:
    both = pairs.table["outcome"] == 0
    return pairs.table["near_ns"][both], pairs.table["far_ns"][both]
