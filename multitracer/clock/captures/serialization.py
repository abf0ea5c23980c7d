"""How long the slowest link of a direction needs for a byte, by the arrivals that it spaced.

Two segments that leave the sender while the queue is not empty arrive as far apart as the link needs for the
second one (Keshav 1991, the packet pair). Bytes between two segments of one connection are counted by
sequence numbers, so that packets that a capture lacks do not pass for time without traffic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.ip_lengths import unseen_bytes

if TYPE_CHECKING:
    from multitracer.clock.captures.directions import Way
    from multitracer.tables import Array


_GROUPS = 24  # a median over 24 groups, so that up to half of them may lie in disturbed times
_LEAST_PAIRS = 12  # three groups of four: with fewer nothing tells how far groups differ
_LEAST_ERROR = 0.003  # relative, for bytes that are not seen: 4 in 1,400. Not measured
_LARGEST_DIFFERENCE = 0.02
"""Between groups of pairs, relative: jitter and a sender's own pace make for more, a busy link does not."""
_JITTER_NS = 1e8
"""A link that repeats frames hands over what it held at once; some GSM slots. Not measured."""
_DEEP = 0.4
"""Of the usual largest wait: a packet that waited less may have been late by jitter only."""
_USUAL_LARGEST = 0.9  # quantile of the waits: the largest of all may be an outage. Not measured
_SIGMAS = 3  # standard errors by which the rate may be too slow
_BORROWED_PACKETS = 4
"""Of the largest size: a link may hand over so many at once after their time. Not measured."""
_PAIRS_A_GROUP = 4  # so that a group has an average, and `_LEAST_PAIRS` make three groups
_MAD_SIGMA = 1.4826  # standard deviation of a normal distribution by its median absolute deviation
_MEDIAN_ERROR = 1.25  # sqrt(pi / 2): standard error of a median over that of a mean


@dataclass(frozen=True, slots=True)
class Spacing:
    """What a busy link's arrivals show of its rate."""

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
    excess = arrived - sent - float(way.delay_ns.min())
    deep = _DEEP * float(np.quantile(excess, _USUAL_LARGEST))
    busy = (carried > 0) & (apart > 0) & (sent[1:] < arrived[:-1] - excess.min() - way.delay_ns.min())
    busy &= (excess[:-1] > deep) & (excess[1:] > deep)
    if int(busy.sum()) < _LEAST_PAIRS:
        return None
    pooled = _pooled(apart, carried, busy)
    return pooled if pooled is not None and _bears(pooled, arrived, way.size_bytes[order]) else None


def _bears(spacing: Spacing, arrived: Array, size_bytes: Array) -> bool:
    """Return whether all that arrived could have come through a link of that rate.

    Of any stretch of time the link needs no less than its bytes take; jitter lends some tenth of a second.
    """
    rate = spacing.ns_per_byte * (1 - _SIGMAS * spacing.error)
    order = np.argsort(arrived, kind="stable")
    ahead = np.cumsum(size_bytes[order]) * rate - arrived[order]
    borrowed = float((ahead - np.minimum.accumulate(ahead)).max())
    return borrowed <= _JITTER_NS + _BORROWED_PACKETS * rate * float(size_bytes.max())


def _pooled(apart: Array, carried: Array, busy: Array) -> Spacing | None:
    """Return the median of the rates of groups of pairs, and how far the groups differ."""
    chosen = np.flatnonzero(busy)
    groups = np.array_split(chosen, min(_GROUPS, len(chosen) // _PAIRS_A_GROUP))
    rates = np.array([apart[g].sum() / carried[g].sum() for g in groups])
    rate = float(np.median(rates))
    differ = _MAD_SIGMA * float(np.median(np.abs(rates - rate))) / rate
    if differ > _LARGEST_DIFFERENCE:
        return None
    return Spacing(rate, float(max(_LEAST_ERROR, _MEDIAN_ERROR * differ / np.sqrt(len(rates)))), len(chosen))


def _carried_bytes(way: Way, order: Array) -> Array:
    """Return what the link carried from each packet's end to the next one's, headers included; 0 if unknown.

    Known is what lies between two segments of one connection, whether captured or not.
    """
    flow, payload, size = way.flow[order], way.payload_bytes[order], way.size_bytes[order]
    known = (np.diff(flow) == 0) & (payload[1:] > 0) & (payload[:-1] > 0)
    unseen = unseen_bytes(flow, way.seq[order], payload, size)
    return np.where(known, size[1:] + unseen[1:], 0.0)


def slowest_ns_per_byte(arrived_ns: Array, size_bytes: Array) -> float:
    """Return the largest time per byte with which all packets could have arrived when they did.

    Parameters
    ----------
    arrived_ns, size_bytes : ndarray of int64 or float64, shape (n_packets,)
        Of one direction. But for jitter, any stretch of time is at least as long as its bytes take.
    """
    order = np.argsort(arrived_ns, kind="stable")
    arrived, total = arrived_ns[order], np.cumsum(size_bytes[order])
    slowest, count = np.inf, len(arrived) - 1
    while count >= _LEAST_PAIRS:
        took = arrived[count:] - arrived[:-count] + _JITTER_NS / 2
        slowest = min(slowest, float((took / (total[count:] - total[:-count])).min()))
        count //= 2
    return slowest
