"""How long the slowest link of a way needs for a byte, told by arrivals that it spaced.

Two segments that leave the sender while the queue is not empty arrive as far apart as the link needs for the
second one (Keshav 1991, the packet pair). Bytes between two segments of one connection are counted by
sequence numbers, so that packets that a capture lacks do not pass for time without traffic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.clock.ways import Way

    Array = NDArray[Any]

_GROUPS = 24
_LEAST_PAIRS = 12
_LEAST_ERROR = 0.003
_FARTHEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Spacing:
    """What a busy link's arrivals tell of its rate."""

    ns_per_byte: float
    error: float
    """One standard error, relative."""
    pairs: int


def spacing(way: Way) -> Spacing | None:
    """Return seconds per byte of the slowest link, in ns; None if it was hardly ever busy."""
    order = np.argsort(way.row, kind="stable") if way.sign > 0 else np.argsort(way.sent_ns, kind="stable")
    sent, arrived = way.sent_ns[order], way.sent_ns[order] + way.delay_ns[order]
    carried = _carried_bytes(way, order)
    apart = np.diff(arrived)
    least = float(way.delay_ns.min())
    busy = (carried > 0) & (sent[1:] < arrived[:-1] - least) & (apart > 0)
    if int(busy.sum()) < _LEAST_PAIRS:
        return None
    return _pooled(apart, carried, busy)


def _pooled(apart: Array, carried: Array, busy: Array) -> Spacing | None:
    """Return the median of the rates of groups of pairs, and how far the groups differ."""
    chosen = np.flatnonzero(busy)
    groups = np.array_split(chosen, min(_GROUPS, len(chosen) // 4))
    rates = np.array([apart[g].sum() / carried[g].sum() for g in groups])
    rate = float(np.median(rates))
    apart_by = 1.4826 * float(np.median(np.abs(rates - rate))) / rate
    error = max(_LEAST_ERROR, 1.25 * apart_by / np.sqrt(len(rates)))
    return Spacing(rate, error, len(chosen)) if rate > 0 else None


def _carried_bytes(way: Way, order: Array) -> Array:
    """Return what the link carried from each packet's end to the next one's, headers included; 0 if unknown.

    Known is what lies between two segments of one connection, whether captured or not.
    """
    payload, flow = way.payload_bytes[order].astype(np.int64), way.flow[order]
    end = way.seq[order] + payload.astype(np.uint32)
    ahead = np.diff(end).view(np.int32).astype(np.int64)
    known = (np.diff(flow) == 0) & (payload[1:] > 0) & (payload[:-1] > 0) & (ahead >= payload[1:])
    known &= ahead < _FARTHEST_BYTES
    usual = float(np.median(payload[payload > 0])) if (payload > 0).any() else 1.0
    headers = way.size_bytes[order][1:] - payload[1:]
    packets = np.maximum(1.0, np.rint((ahead - payload[1:]) / usual) + 1)
    return np.where(known, ahead + packets * headers, 0.0)
