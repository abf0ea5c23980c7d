"""How many packets of ours were ahead of a packet in the queue of the slowest link.

A queue that holds so many packets, and not so much time, is full at another wait whenever the link has
another rate, as that of a radio. How many were ahead then tells more than how long they took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import in_order, places

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.packet_delays import PacketDelays
    from multitracer.tables import Array

_MOST = 0.995  # quantile of what was ahead that is the most: single ones are noise. Not measured
_AS_MANY = 0.8
"""Part of the most that were ever ahead from which on the queue may have been full."""
_NEXT_TO_ALL, _RANK, _QUARTILE = 0.9, 0.89, 0.25
"""Of the most, and among all, what three in four lost ones must reach, as for waits in `losses`."""
_LEAST = 4
"""Packets that a queue holds at the least, where fewer ahead of a lost one may be chance. Not measured"""


def packets_ahead(delays: PacketDelays, place: Array, sent_ns: Array) -> Array:
    """Return how many segments had left before and were not through the slowest link.

    Parameters
    ----------
    delays : PacketDelays
        One way, in order of sending.
    place : ndarray of int64, shape (n,)
        Places of segments, also of lost ones.
    sent_ns : ndarray of int64, shape (n,)
        When they left.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    through_ns = np.maximum.accumulate(delays.time_ns + delays.queue_ns)  # but for a constant
    before = places(delays.place, place)
    return np.asarray(before - np.minimum(before, places(through_ns, sent_ns, "right")))


def may_be_full(delays: PacketDelays, place: Array, sent_ns: Array) -> Array:
    """Return whether about as many were ahead of each segment as ever: bool, shape (n,)."""
    ahead = packets_ahead(delays, place, sent_ns)
    return np.asarray((ahead >= _AS_MANY * most_ahead(delays)) & (ahead >= _LEAST))


def most_ahead(delays: PacketDelays) -> float:
    """Return how many were ahead of next to no segment that came through, at the most: 0 or more."""
    return _most(delays.once(_of_all))


def is_full(delays: PacketDelays, place: Array, sent_ns: Array) -> bool:
    """Return whether most segments had as many ahead of them as few others had."""
    everywhere = in_order(delays.once(_of_all))
    ahead = float(np.quantile(packets_ahead(delays, place, sent_ns), _QUARTILE))
    below, up_to = (np.searchsorted(everywhere, ahead, side=side) for side in ("left", "right"))
    rank = (below + up_to) / (2 * len(everywhere))
    return bool(ahead >= max(_LEAST, _NEXT_TO_ALL * _most(everywhere)) and rank >= _RANK)


def _of_all(delays: PacketDelays) -> Array:
    return packets_ahead(delays, delays.place, delays.time_ns)


def _most(ahead: Array) -> float:
    return float(np.quantile(ahead, _MOST))
