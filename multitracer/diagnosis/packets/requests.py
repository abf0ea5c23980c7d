"""The requests of the peer, in the opposite direction of the data: its own wait, and the repair of losses.

An idle gap of the sender with a request of its peer has up to four parts: the transit of the data and of the request,
which is a round trip; the peer's own time; the repair of losses; and the sender's time until it begins to answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.group import has
from multitracer.analysis.intervals import distinct, indexes, places, repeated
from multitracer.captured import Flag
from multitracer.tables import NA
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Table


_TIMEOUT_NS = 200 * NS_PER_MS
"""Linux's minimum retransmission timeout above a round trip, in ns (TCP_RTO_MIN)."""
_ABOVE = 1.3
"""Factor for a timeout, because round trips vary. Not measured."""
_MOST_COPIES = 6  # lost in a row, of which each waits twice as long: more than 12 s. Not measured


class Requests(NamedTuple):
    """Segments of the peer with payload as they arrived at the sender, in order; int64, ns, shape (n,)."""

    time_ns: Array
    """When each arrived, in the time of the sender."""
    waited_ns: Array
    """Time from the last data that had reached the peer until it sent the request; NA without the peer's capture."""
    repair_ns: Array
    """The part of this time in which the request had to be sent again; an upper bound without the peer's capture."""


class _Peer(NamedTuple):
    """The peer's own capture."""

    table: Table
    time_ns: Array
    sent: Array
    """Rows that the peer sent."""
    came: Array
    """Rows of data that arrived at the peer."""


def requests_at_sender(transfer: Transfer, rows: Array, time_ns: Array, floor_ns: int) -> Requests:
    """Return the peer's requests from the sender's capture, and from the peer's capture if there is one.

    Of several copies, the first one that arrived is used. `rows` are the peer's segments with payload,
    `time_ns` their arrival times, `floor_ns` the shortest round trip.
    """
    table = transfer.sender
    new = table["new_bytes"][rows] > 0
    rows, time_ns = rows[new], time_ns[new]

    # for how long at most the peer's timers waited before each request, by numbers that are missing: where
    # the packet before had acknowledged all data, what is missing behind it was a copy of the request, as the
    # peer had nothing else to send
    numbered = transfer.acks[~has(table["flags"][transfer.acks], Flag.SYN)]
    at = places(numbered, rows)
    before = np.append(numbered, 0)[at - 1]
    ends = np.maximum.accumulate(np.append(0, table["end_bytes"][transfer.data]))
    is_all = (at > 0) & (table["ack_bytes"][before] >= ends[places(transfer.data, rows)])
    missing = missing_before(table, transfer.acks)[rows]
    copies = np.where(is_all, np.minimum(np.maximum(missing, 0), _MOST_COPIES), 0)
    timers_ns = np.asarray((2**copies - 1) * int(_ABOVE * (floor_ns + _TIMEOUT_NS)), dtype=np.int64)
    asks, data = transfer.ack_pairs, transfer.data_pairs
    if asks is None or data is None or transfer.receiver is None or not len(rows):
        return Requests(time_ns, repeated(NA, len(rows)), timers_ns)
    both = indexes((asks.sent != NA) & (asks.arrived != NA))
    left = np.full(len(table), NA, dtype=np.int64)
    left[asks.arrived[both]] = asks.sent[both]
    sent, came = (distinct(each[each != NA]) for each in (asks.sent, data.arrived))
    came = came[transfer.receiver["payload_bytes"][came] > 0]
    known = left[rows] != NA
    peer = _Peer(transfer.receiver, np.maximum.accumulate(transfer.came_ns), sent, came)
    waited_ns, repair_ns = _at_the_peer(peer, left[rows][known])
    all_waited_ns = np.full(len(rows), NA, dtype=np.int64)
    all_waited_ns[known], timers_ns[known] = waited_ns, repair_ns
    return Requests(time_ns, all_waited_ns, timers_ns)


def requests_at_receiver(transfer: Transfer, rows: Array, time_ns: Array) -> Requests:
    """Return the peer's requests from a capture at the peer, including all copies of each.

    All copies are needed, because the last one may be the one that arrived. `rows` and `time_ns` are as in
    `requests_at_sender`.
    """
    real = ~has(transfer.sender["kind"][rows], SegmentKind.KEEP_ALIVE)
    peer = _Peer(transfer.sender, transfer.time_ns, transfer.acks, transfer.data)
    return Requests(time_ns[real], *_at_the_peer(peer, rows[real]))


def _at_the_peer(peer: _Peer, rows: Array) -> tuple[Array, Array]:
    """Return for each of `rows` the peer's wait before it sent the row, and its repair time, in ns.

    The wait begins with the last data that had reached the peer. The repair time is the part of the wait
    after the first transmission, if the row is a retransmission; otherwise 0.
    """
    table, time = peer.table, peer.time_ns
    own = peer.sent[table["payload_bytes"][peer.sent] > 0]
    fresh = own[~has(table["kind"][own], SegmentKind.RETRANSMISSION)]
    again = has(table["kind"][rows], SegmentKind.RETRANSMISSION)
    at = np.searchsorted(np.maximum.accumulate(table["end_bytes"][fresh]), table["seq_bytes"][rows], "right")
    first = np.where(again & (at < len(fresh)), np.append(fresh, 0)[at], rows)
    first = np.minimum(first, rows)

    # since new data came to the peer, or what ended the handshake
    opened = indexes(~has(table["flags"], Flag.SYN) & ~table["reverse"].astype(bool))[:1]
    came = distinct(np.concatenate([opened, peer.came[table["new_bytes"][peer.came] > 0]]))
    before = places(came, first)
    since_ns = np.where(before > 0, np.append(time[came], 0)[before - 1], time[first])
    return time[rows] - since_ns, time[rows] - time[first]


_MOST_MISSING = 1 << 12
"""Minimum step of the packet numbers that is a reset or wrap-around: no queue loses this many packets in a row."""
_COUNTED = 0.8
"""Minimum share of successive captured packets with successive numbers, if a sender numbers its packets."""


def missing_before(table: Table, sent: Array) -> Array:
    """Return how many packets of an endpoint, just before each of its packets, were not captured.

    It is NA if unknown. Linux and others number the packets of a connection in the IPv4 identification (RFC
    6864 allows it).

    Parameters
    ----------
    table : Table
        TCP_SEGMENTS of a connection.
    sent : ndarray of int64
        Rows of that endpoint, in capture order.

    Returns
    -------
    ndarray of int64, a value for each row of `table`
    """
    rows = sent[~has(table["flags"][sent], Flag.SYN)]
    missing = np.full(len(table), NA, dtype=np.int64)
    number = table["ip_id"][rows].astype(np.int64)
    if len(rows) < 2 or (number < 0).any():
        return missing
    step = np.diff(number) & 0xFFFF
    if (step == 1).mean() < _COUNTED:
        return missing
    missing[rows[1:]] = np.where(step < _MOST_MISSING, step - 1, 0)
    return missing
