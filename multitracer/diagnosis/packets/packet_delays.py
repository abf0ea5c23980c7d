"""How long packets waited: the delay of each beyond the least, those ahead of it, and which were lost.

- With a capture at both ends the delay is that of the way of the data, by the clocks as they are related;
  an error that is constant cancels. Without, it is the round trip by exact ACKs (Karn's rule).
- Only segments of (nearly) full size count: a small one takes less time to be sent, and would make all
  others look as if they had waited.
- The least delay is that of a path: where the delay jumps faster than any queue of ours can grow or drain
  and never comes back, another path begins, with a least of its own.
- Packets that were lost in a dead time, or never left the host, say nothing of a queue and are left out.
- What happens on a path happens to its segments (`WireSegments`). A device with segmentation offload shows
  its capture one packet for what leaves as up to 44 segments, and another joins what arrives (GSO, TSO,
  GRO, LRO): packets that were cut or joined between two captures are cut here into full segments, and what
  arrived is known by bytes. Without offload a segment is a packet.
- A queue that holds so many packets, and not so much time, is full at another wait whenever the link has
  another rate, as that of a radio. How many were ahead (`packets_ahead`) then shows more than how long they
  took.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct, places
from multitracer.analysis.ranges import spread
from multitracer.analysis.two_points import PacketOutcome, PointPackets, arrivals
from multitracer.analysis.verdicts import Necessity, RetransmissionCause
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.recording.transfer import Pairs, Transfer
    from multitracer.tables import Array, Table


class WireSegments(NamedTuple):
    """Segments with payload in the data direction, in the order of the sender's capture.

    Attributes
    ----------
    row : ndarray of int64, shape (n,)
        Row of `sender`; several segments share one that was cut behind the capture.
    payload_bytes : ndarray of int64, shape (n,)
    arrived : ndarray of int64, shape (n,)
        Row of `receiver` in which it arrived; NA if it did not, or nobody knows.
    closes : ndarray of bool, shape (n,)
        It is the last segment of that row: when it arrived is known. What came before it in the same row had
        to wait to be joined.
    lost : ndarray of bool, shape (n,)
    """

    row: Array
    payload_bytes: Array
    arrived: Array
    closes: Array
    lost: Array

    def __len__(self) -> int:
        return len(self.row)


class _Chunks(NamedTuple):
    row: Array
    begin: Array
    end: Array


def wire_segments(transfer: Transfer, full_bytes: int, offered_bytes: int | None) -> WireSegments:
    """Return the segments of a transfer; as its sender sent them if no capture shows what arrived.

    Parameters
    ----------
    transfer : Transfer
    full_bytes : int
        Payload of a full segment.
    offered_bytes : int or None
        The most that the receiver offered to take in one (MSS, RFC 9293, section 3.7.1), if that is known:
        what is larger was joined.
    """
    pairs, receiver = transfer.data_pairs, transfer.receiver
    table, rows = transfer.sender, transfer.data
    payload = transfer.payload_bytes.astype(np.int64)
    if pairs is None or receiver is None:  # lost is what had to be sent again
        verdicts, nowhere = transfer.verdicts, np.full(len(rows), NA, dtype=np.int64)
        needed = verdicts["necessity"] == Necessity.NECESSARY
        needed &= verdicts["cause"] != RetransmissionCause.LOCAL_DROP
        lost = np.isin(rows, verdicts["earlier_row"][needed])
        return WireSegments(rows, payload, nowhere, nowhere != NA, lost)

    # the outcome of each row of `sender`, and where it arrived
    sent = np.flatnonzero(pairs.sent != NA)
    outcome = np.full(len(table), PacketOutcome.NOT_COVERED, dtype=np.uint8)
    arrived = np.full(len(table), NA, dtype=np.int64)
    outcome[pairs.sent[sent]] = pairs.table["outcome"][sent]
    arrived[pairs.sent[sent]] = pairs.arrived[sent]
    joined = outcome[rows] == PacketOutcome.RESEGMENTED
    if offered_bytes is not None:
        joined |= transfer.payload_bytes > offered_bytes
    if not joined.any():
        came = np.where(outcome[rows] == PacketOutcome.MATCHED, arrived[rows], NA)
        return WireSegments(rows, payload, came, came != NA, outcome[rows] == PacketOutcome.LOST)
    chunks = _cut(table, rows, np.where(joined, full_bytes, np.iinfo(np.int32).max))
    exact = outcome[chunks.row] == PacketOutcome.MATCHED
    came = np.where(exact, arrived[chunks.row], _by_bytes(transfer, chunks, pairs))
    lost = (came == NA) & (outcome[chunks.row] != PacketOutcome.NOT_COVERED)
    closes = (came != NA) & np.append(came[1:] != came[:-1], True)[: len(came)]
    return WireSegments(chunks.row, chunks.end - chunks.begin, came, closes, lost)


def _cut(table: Table, rows: Array, full_bytes: Array) -> _Chunks:
    """Return the rows, each cut into segments of so many bytes and what is left of it."""
    payload = table["payload_bytes"][rows].astype(np.int64)
    many = np.maximum(-(-payload // full_bytes), 1)
    of = np.repeat(np.arange(len(rows)), many)
    number = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many)
    first = table["seq_bytes"][rows][of]
    begin = first + number * full_bytes[of]
    return _Chunks(rows[of], begin, np.minimum(begin + full_bytes[of], first + payload[of]))


def _by_bytes(transfer: Transfer, chunks: _Chunks, pairs: Pairs) -> Array:
    """Return the row in which the last byte of each piece arrived; NA where it did not."""
    table, other = transfer.sender, transfer.receiver
    assert other is not None

    # what arrived with payload, in order, its bytes as the sender's capture counts them
    rows = distinct(pairs.arrived[pairs.arrived != NA])
    rows = rows[other["payload_bytes"][rows] > 0]
    both = np.flatnonzero((pairs.sent != NA) & (pairs.arrived != NA))[:1]
    shift = table["seq_bytes"][pairs.sent[both]] - other["seq_bytes"][pairs.arrived[both]]
    begin = other["seq_bytes"][rows] + int(shift.sum())
    end = begin + other["payload_bytes"][rows]

    # each end of a piece that it holds the byte before of
    ends = distinct(chunks.end)
    first, last = (np.searchsorted(ends, each, side="right") for each in (begin, end))
    of, held = spread(first, last)
    sent = PointPackets(chunks.end, table["time_ns"][chunks.row])
    left, arrived = arrivals(sent, PointPackets(ends[held], transfer.came_ns[rows[of]]))
    arrival_rows = np.full(len(chunks.row), NA, dtype=np.int64)
    arrival_rows[left] = rows[of[arrived]]
    return arrival_rows


_MOST = 0.995  # quantile of what was ahead that is the most: single ones are noise. Not measured
_AS_MANY = 0.8
"""Part of the most that were ever ahead from which on the queue may have been full."""
MIN_HELD = 4
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
    return np.asarray((ahead >= _AS_MANY * most_ahead(delays)) & (ahead >= MIN_HELD))


def most_ahead(delays: PacketDelays) -> float:
    """Return how many were ahead of next to no segment that came through, at the most: 0 or more."""
    return float(np.quantile(delays.ahead, _MOST))


_FULL = 0.9
"""Part of the largest payload from which on a segment is of full size."""
_JUMP_NS = 10 * NS_PER_MS
"""Least step of the path's own delay that is told from noise, as in limits: Wi-Fi makes steps of 9 ms."""
_ONE_MORE, _NEAREST = 1.5, 0.05
"""Times the link's own time for a segment, by the nearest arrivals: one that is sent right behind another
waits for it, and where a window grew by it that queue stays. On a slow link that is a large step."""
_LASTS = 0.8
"""Part of a step by which the least delay after it must exceed (or fall short of) the least before."""
_EMPTY = 0.2
"""Part of a step by which the delays at it may exceed the least before and after it."""
_AROUND = 8
"""Samples on both sides of a step that must be even ..."""
_EVEN = 0.3
"""... up to this part of it."""


@dataclass(frozen=True)
class PacketDelays:
    """Delays of one direction in order of sending."""

    row: Array
    """Rows of the table of the end that sent them."""
    place: Array
    """Places in the wire segments, of data; of ACKs the rows."""
    time_ns: Array
    """When each left, by that end's clock."""
    queue_ns: Array
    """Delay beyond the least of its path."""
    min_ns: int
    """The least of all: a round trip, or one way up to the error of the clocks."""
    changes: Array
    """Places in `row` where another path begins ..."""
    steps_ns: Array
    """... and by how much the least delay grew there."""
    is_one_way: bool

    @cached_property
    def ordered_ns(self) -> Array:
        """The queues of all in ascending order."""
        return np.sort(self.queue_ns)

    @cached_property
    def ahead(self) -> Array:
        """How many of ours were ahead of each in the queue: int64, shape (n,)."""
        return packets_ahead(self, self.place, self.time_ns)


def data_delays(
    transfer: Transfer, segments: WireSegments, *, of_any_size: bool = False
) -> PacketDelays | None:
    """Return the delays of full segments; None if no capture shows them.

    Of segments of any size only a capture at both ends shows them. A small one before a large one makes this
    look as if it had waited for up to the time of one segment.
    """
    if transfer.data_pairs is not None and transfer.receiver is not None:
        minimum = 1 if of_any_size else _FULL * segments.payload_bytes.max(initial=0)
        place = np.flatnonzero(segments.closes & (segments.payload_bytes >= minimum))
        rows, left_ns = segments.row[place], transfer.sender["time_ns"][segments.row[place]]
        came_ns = transfer.came_ns[segments.arrived[place]]
        return _delays(rows, place, left_ns, came_ns - left_ns, is_one_way=True)
    if of_any_size or transfer.vantage is Vantage.NEAR_RECEIVER:
        return None
    table, own = transfer.sender, transfer.data
    payload = table["payload_bytes"][own]
    place = np.flatnonzero((payload >= _FULL * payload.max(initial=0)) & (table["rtt_ns"][own] > 0))
    rows = own[place]
    return _delays(rows, place, table["time_ns"][rows], table["rtt_ns"][rows], is_one_way=False)


def ack_delays(transfer: Transfer) -> PacketDelays | None:
    """Return the delays of the receiver's segments without payload; None without a capture at both ends."""
    pairs, receiver = transfer.ack_pairs, transfer.receiver
    if pairs is None or receiver is None:
        return None
    both = (pairs.table["outcome"] == PacketOutcome.MATCHED) & (pairs.sent != NA) & (pairs.arrived != NA)
    both &= receiver["payload_bytes"][pairs.sent] == 0
    sent, arrived = pairs.sent[both], pairs.arrived[both]
    left_ns = transfer.came_ns[sent]
    came_ns = transfer.sender["time_ns"][arrived]
    return _delays(sent, sent, left_ns, came_ns - left_ns, is_one_way=True)


def _delays(
    rows: Array, place: Array, time_ns: Array, delay_ns: Array, *, is_one_way: bool
) -> PacketDelays | None:
    if not len(rows):
        return None
    changes = path_changes(time_ns, delay_ns)
    starts = np.concatenate([[0], changes])
    minimum = np.minimum.reduceat(delay_ns, starts)
    floor = np.repeat(minimum, np.diff(np.append(starts, len(rows))))
    steps_ns = np.diff(minimum)
    return PacketDelays(
        rows, place, time_ns, delay_ns - floor, int(minimum.min()), changes, steps_ns, is_one_way
    )


def path_changes(time_ns: Array, delay_ns: Array) -> Array:
    """Return where the delay jumps for good: by more between two packets than their distance in time.

    The queue must have been empty: the delays around the jump are (nearly) the least of all before and of all
    after it. A queue that grows fast, and then stays, is no jump, nor is one segment more in it.
    """
    if len(delay_ns) < 2 * _AROUND:
        return np.empty(0, dtype=np.int64)
    step = np.diff(delay_ns)
    size = np.abs(step)
    if not (size > _JUMP_NS).any():
        return np.empty(0, dtype=np.int64)
    before = np.minimum.accumulate(delay_ns)[:-1]
    after = np.minimum.accumulate(delay_ns[::-1])[::-1][1:]
    lasts = np.sign(step) * (after - before) >= _LASTS * size
    empty = np.maximum(delay_ns[:-1] - before, delay_ns[1:] - after) <= _EMPTY * size
    came_ns = np.diff(time_ns + delay_ns)
    one_ns = _ONE_MORE * np.quantile(came_ns[came_ns > 0], _NEAREST) if (came_ns > 0).any() else 0.0
    apart_ns = np.diff(time_ns)
    min_ns = np.maximum(np.maximum(apart_ns, one_ns - apart_ns), _JUMP_NS)
    jumps = np.flatnonzero((size > min_ns) & lasts & empty) + 1
    changes = []
    for at in jumps.tolist():  # the samples on both sides of it must differ little from each other
        sides = delay_ns[max(at - _AROUND, 0) : at], delay_ns[at : at + _AROUND]
        if all(len(side) == _AROUND and np.ptp(side) <= _EVEN * size[at - 1] for side in sides):
            changes.append(at)
    return np.array(changes, dtype=np.int64)


_TRAIN = 3
"""Packets whose rate is that of the link: a policer's bucket lets so many pass at once."""
_FASTEST = 0.98  # quantile of the rates: the highest are bunches in the capture. Not measured
HEADERS_BYTES = 40
"""Of IPv4 and TCP, without options."""
_ENDLESS = np.iinfo(np.int64).max


def train_rate(transfer: Transfer, *, until_ns: int = _ENDLESS) -> float:
    """Return octets a second (98th percentile) of trains of packets, as they arrived or were acknowledged.

    Parameters
    ----------
    transfer : Transfer
    until_ns : int, ns
        What arrives later, by the sender's clock, does not count.
    """
    pairs = transfer.data_pairs
    if pairs is not None and transfer.receiver is not None:
        arrived = np.sort(pairs.arrived[pairs.arrived >= 0], kind="stable")  # they are about in order
        arrived = arrived[transfer.came_ns[arrived] <= until_ns]
        time_ns, payload = (transfer.receiver[name][arrived] for name in ("time_ns", "payload_bytes"))
        octets = np.cumsum(np.where(payload > 0, payload + HEADERS_BYTES, 0))
    else:
        acks = transfer.acks[transfer.sender["time_ns"][transfer.acks] <= until_ns]
        time_ns = transfer.sender["time_ns"][acks]
        data = transfer.payload_bytes + HEADERS_BYTES
        octets = np.arange(len(acks)) * (data.sum() / max(len(transfer.acks), 1))
    if len(time_ns) <= _TRAIN:
        return 0.0
    gone_s = (time_ns[_TRAIN:] - time_ns[:-_TRAIN]) * transfer.speed / NS_PER_S
    rates = (octets[_TRAIN:] - octets[:-_TRAIN])[gone_s > 0] / gone_s[gone_s > 0]
    return float(np.quantile(rates, _FASTEST)) if len(rates) else 0.0
