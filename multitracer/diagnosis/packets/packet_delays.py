"""The queueing delay of packets, the packets ahead of each in the queue, and the lost packets.

- With a capture at both endpoints, the delay is the one-way delay of the data, with related clocks; a
  constant error cancels. Otherwise it is the round trip from exact ACKs (Karn's rule).
- Only segments of (nearly) full size count: small ones take less time to send, and would make all others look
  delayed.
- The queueing delay is the delay above the minimum of its path. Where the delay jumps faster than any queue
  can grow or drain, and does not return, another path begins, with its own minimum.
- Packets that were lost in a dead time, or never left the host, show nothing about a queue and are left out.
- The path carries segments (`WireSegments`). With segmentation offload a capture shows one packet for up to
  44 segments on the wire, and a receiver may join arriving segments (GSO, TSO, GRO, LRO). Packets that were
  divided or joined between two captures are divided here into full segments, and their arrival is found by
  bytes. Without offload each packet is one segment.
- A queue that is limited in packets, not in time, is full at a different delay whenever the rate of the link
  changes, as on a radio. The number of packets ahead (`packets_ahead`) then shows more than their delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct, indexes, places, repeated, span_minimum
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
        Row of `sender`; several segments share one that offload divided after the capture.
    payload_bytes : ndarray of int64, shape (n,)
    arrived : ndarray of int64, shape (n,)
        Row of `receiver` in which it arrived; NA if it did not, or if this is unknown.
    closes : ndarray of bool, shape (n,)
        Whether it is the last segment of that row, so that its arrival time is known. Earlier segments in the
        row waited to be joined.
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
    """Return the data segments as they were on the wire; packets that offload joined are split again.

    If no capture shows arrivals, the segments are those of the sender's capture. A segment that was acknowledged and
    never sent again was not lost: the receiver's capture lacks it.

    Parameters
    ----------
    transfer : Transfer
    full_bytes : int
        Payload of a full segment.
    offered_bytes : int or None
        The maximum segment that the receiver accepts (MSS, RFC 9293, section 3.7.1), if it is known: larger
        captured packets were joined.
    """
    pairs, receiver = transfer.data_pairs, transfer.receiver
    table, rows = transfer.sender, transfer.data
    payload = transfer.payload_bytes.astype(np.int64)
    if pairs is None or receiver is None:  # lost is what had to be sent again
        verdicts, nowhere = transfer.verdicts, repeated(NA, len(rows))
        needed = (verdicts["necessity"] == Necessity.NECESSARY.value) & (verdicts["earlier_row"] != NA)
        needed &= verdicts["cause"] != RetransmissionCause.LOCAL_DROP.value
        lost = np.zeros(len(table), dtype=bool)
        lost[verdicts["earlier_row"][needed]] = True
        return WireSegments(rows, payload, nowhere, nowhere != NA, lost[rows])

    # the outcome of each row of `sender`, and where it arrived
    sent = indexes(pairs.sent != NA)
    outcome = np.full(len(table), PacketOutcome.NOT_COVERED, dtype=np.uint8)
    arrived = np.full(len(table), NA, dtype=np.int64)
    outcome[pairs.sent[sent]] = pairs.table["outcome"][sent]
    arrived[pairs.sent[sent]] = pairs.arrived[sent]
    joined = outcome[rows] == PacketOutcome.RESEGMENTED
    if offered_bytes is not None:
        joined |= transfer.payload_bytes > offered_bytes
    if not joined.any():
        came = np.where(outcome[rows] == PacketOutcome.MATCHED, arrived[rows], NA)
        first = table["seq_bytes"][rows].astype(np.int64)
        lost = outcome[rows] == PacketOutcome.LOST
        lost[lost] = ~_surely_came(transfer, first[lost], (first + payload)[lost])
        return WireSegments(rows, payload, came, came != NA, lost)
    chunks = _cut(table, rows, np.where(joined, full_bytes, np.iinfo(np.int32).max))
    exact = outcome[chunks.row] == PacketOutcome.MATCHED
    came = np.where(exact, arrived[chunks.row], _by_bytes(transfer, chunks, pairs))
    lost = (came == NA) & (outcome[chunks.row] != PacketOutcome.NOT_COVERED)
    lost[lost] = ~_surely_came(transfer, chunks.begin[lost], chunks.end[lost])
    closes = (came != NA) & np.append(came[1:] != came[:-1], True)[: len(came)]
    return WireSegments(chunks.row, chunks.end - chunks.begin, came, closes, lost)


def _surely_came(transfer: Transfer, begin: Array, end: Array) -> Array:
    """Return for each segment from byte `begin` to `end` whether it was acknowledged and sent only once: bool."""
    if not len(begin):
        return np.zeros(0, dtype=bool)
    table, rows = transfer.sender, transfer.data
    acked = table["ack_bytes"][transfer.acks]
    first = table["seq_bytes"][rows].astype(np.int64)
    firsts, ends = np.sort(first), np.sort(first + table["payload_bytes"][rows])
    single = end > begin
    for byte in (begin, end - 1):  # how many segments hold it
        single &= np.searchsorted(firsts, byte, side="right") - np.searchsorted(ends, byte, side="right") == 1
    return np.asarray(single & (end <= acked.max(initial=0)))


def _cut(table: Table, rows: Array, full_bytes: Array) -> _Chunks:
    """Return the rows as chunks: each is split into segments of `full_bytes` and a rest."""
    payload = table["payload_bytes"][rows].astype(np.int64)
    many = np.maximum(-(-payload // full_bytes), 1)
    of = np.repeat(np.arange(len(rows)), many)
    number = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many)
    first = table["seq_bytes"][rows][of]
    begin = first + number * full_bytes[of]
    return _Chunks(rows[of], begin, np.minimum(begin + full_bytes[of], first + payload[of]))


def _by_bytes(transfer: Transfer, chunks: _Chunks, pairs: Pairs) -> Array:
    """Return the row in which the last byte of each chunk arrived; NA if it did not."""
    table, other = transfer.sender, transfer.receiver
    assert other is not None

    # what arrived with payload, in order, its bytes as the sender's capture counts them
    rows = distinct(pairs.arrived[pairs.arrived != NA])
    rows = rows[other["payload_bytes"][rows] > 0]
    both = indexes((pairs.sent != NA) & (pairs.arrived != NA))[:1]
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
"""Minimum part of the maximum number of packets ahead at which the queue may have been full."""
MIN_HELD = 4
"""Minimum number of packets in a full queue: fewer ahead of a lost packet may be chance. Not measured."""


def packets_ahead(delays: PacketDelays, place: Array, sent_ns: Array) -> Array:
    """Return for each segment how many earlier segments were still before the bottleneck when it was sent.

    Parameters
    ----------
    delays : PacketDelays
        One-way delays, in order of sending.
    place : ndarray of int64, shape (n,)
        Indexes of segments, also of lost ones.
    sent_ns : ndarray of int64, shape (n,)
        When they were sent.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    through_ns = np.maximum.accumulate(delays.time_ns + delays.queue_ns)  # but for a constant
    before = places(delays.place, place)
    return np.asarray(before - np.minimum(before, places(through_ns, sent_ns, "right")))


def may_be_full(delays: PacketDelays, place: Array, sent_ns: Array) -> Array:
    """Return for each segment whether the queue may have been full when it was sent: bool, shape (n,).

    It may if about as many segments were ahead of it as the maximum of all delivered segments.
    """
    ahead = packets_ahead(delays, place, sent_ns)
    return np.asarray((ahead >= _AS_MANY * most_ahead(delays)) & (ahead >= MIN_HELD))


def most_ahead(delays: PacketDelays) -> float:
    """Return how many segments were ahead of a delivered segment in the queue: the 99.5 % quantile.

    Extreme values above the quantile are ignored.
    """
    return float(np.quantile(delays.ahead, _MOST))


_FULL = 0.9
"""Minimum part of the largest payload for a segment of full size."""
_JUMP_NS = 10 * NS_PER_MS
"""Minimum step of the path's own delay, in ns, as in limits: Wi-Fi makes steps of 9 ms."""
_ONE_MORE, _NEAREST = 1.5, 0.05
"""A step must exceed `_ONE_MORE` times the link's own time for a segment, which is the quantile `_NEAREST` of
the gaps between arrivals. A segment sent directly after another waits for it, and this delay stays if the
window has grown; on a slow link it is large."""
_LASTS_NS = 3 * NS_PER_S
"""Time before and after a step over which the minimum delays are taken, in ns: a satellite keeps its path for 15 s, and
no sender keeps a queue of one length for seconds. The time that limits.md names."""
_SHORT_NS, _MOSTLY_EVEN = 3 * NS_PER_S // 2, 0.8
"""A step that lasts for this time only counts if of the delays before and after it, in this time, at least the share
`_MOSTLY_EVEN` differs from the minimum by less than `_EVEN` of the step: the queue of another flow is never so even."""
_LASTS = 0.8
"""Minimum change of the minimum delay, before to after a step, as part of the step."""
_KNOWN = 5
"""Minimum time before and after a step for which delays are known, in steps: a first window that fills the queue of
another flow's data makes one step within a round trip. Not measured."""
_EMPTY = 0.2
"""Maximum excess of the delays at a step over the minima before and after it, as part of the step."""
_AROUND = 8
"""Number of samples on each side of a step that must have similar delays."""
_EVEN = 0.3
"""Maximum range of these samples' delays, as part of the step."""


@dataclass(frozen=True)
class PacketDelays:
    """Delays of one direction in order of sending."""

    row: Array
    """Rows of the table of the sending endpoint."""
    place: Array
    """Indexes in the wire segments for data; equal to `row` for ACKs."""
    time_ns: Array
    """When each was sent, by the sending endpoint's clock, in ns."""
    queue_ns: Array
    """Delay above the minimum of its path, in ns."""
    min_ns: int
    """The minimum of all delays, in ns: a round trip, or a one-way delay with the error of the clocks."""
    changes: Array
    """Indexes in `row` at which another path begins."""
    steps_ns: Array
    """Change of the minimum delay at each of `changes`, in ns."""
    is_one_way: bool

    @cached_property
    def ordered_ns(self) -> Array:
        """`queue_ns` in ascending order."""
        return np.sort(self.queue_ns)

    @cached_property
    def ahead(self) -> Array:
        """Number of other segments of this transfer ahead of each one in the queue: int64, shape (n,)."""
        return packets_ahead(self, self.place, self.time_ns)


def data_delays(transfer: Transfer, segments: WireSegments, *, of_any_size: bool = False) -> PacketDelays | None:
    """Return the delays of full-size segments; None if no capture shows them.

    With `of_any_size`, the delays of all segments are returned, which needs captures at both endpoints. A
    small segment before a large one makes the large one look delayed by up to the time of one segment.
    """
    if transfer.data_pairs is not None and transfer.receiver is not None:
        minimum = 1 if of_any_size else _FULL * segments.payload_bytes.max(initial=0)
        place = indexes(segments.closes & (segments.payload_bytes >= minimum))
        rows, left_ns = segments.row[place], transfer.sender["time_ns"][segments.row[place]]
        came_ns = transfer.came_ns[segments.arrived[place]]
        return _delays(rows, place, left_ns, came_ns - left_ns, is_one_way=True)
    if of_any_size or transfer.vantage is Vantage.NEAR_RECEIVER:
        return None
    table, own = transfer.sender, transfer.data
    payload = table["payload_bytes"][own]
    place = indexes((payload >= _FULL * payload.max(initial=0)) & (table["rtt_ns"][own] > 0))
    rows = own[place]
    return _delays(rows, place, table["time_ns"][rows], table["rtt_ns"][rows], is_one_way=False)


def ack_delays(transfer: Transfer) -> PacketDelays | None:
    """Return the delays of the receiver's pure ACKs; None without captures at both endpoints."""
    pairs, receiver = transfer.ack_pairs, transfer.receiver
    if pairs is None or receiver is None:
        return None
    both = (pairs.table["outcome"] == PacketOutcome.MATCHED) & (pairs.sent != NA) & (pairs.arrived != NA)
    both &= receiver["payload_bytes"][pairs.sent] == 0
    sent, arrived = pairs.sent[both], pairs.arrived[both]
    left_ns = transfer.came_ns[sent]
    came_ns = transfer.sender["time_ns"][arrived]
    return _delays(sent, sent, left_ns, came_ns - left_ns, is_one_way=True)


def _delays(rows: Array, place: Array, time_ns: Array, delay_ns: Array, *, is_one_way: bool) -> PacketDelays | None:
    if not len(rows):
        return None
    changes = path_changes(time_ns, delay_ns)
    starts = np.concatenate([[0], changes])
    minimum = np.minimum.reduceat(delay_ns, starts)
    floor = np.repeat(minimum, np.diff(np.append(starts, len(rows))))
    steps_ns = np.diff(minimum)
    return PacketDelays(rows, place, time_ns, delay_ns - floor, int(minimum.min()), changes, steps_ns, is_one_way)


def path_changes(time_ns: Array, delay_ns: Array) -> Array:
    """Return the indexes at which the delay jumps for `_LASTS_NS` or more, by more than the time between two packets.

    The queue must be empty at the jump: the delays around it are (nearly) the minima before and after it. A
    queue that grows fast and then stays is no jump, and neither is one more segment in the queue.
    """
    if len(delay_ns) < 2 * _AROUND:
        return np.empty(0, dtype=np.int64)
    step = np.diff(delay_ns)
    size = np.abs(step)
    large = indexes(size > _JUMP_NS)
    if not len(large):
        return large
    step, size = step[large], size[large]
    before, after = _minima_around(time_ns, delay_ns, large, _LASTS_NS)
    lasts = np.sign(step) * (after - before) >= _LASTS * size
    near_before, near_after = _minima_around(time_ns, delay_ns, large, _SHORT_NS)
    for i in np.flatnonzero(~lasts & (np.sign(step) * (near_after - near_before) >= _LASTS * size)).tolist():
        if _is_even_around(time_ns, delay_ns, int(large[i]), float(size[i])):
            lasts[i], before[i], after[i] = True, near_before[i], near_after[i]
    empty = np.maximum(delay_ns[large] - before, delay_ns[large + 1] - after) <= _EMPTY * size
    came_ns = np.diff(time_ns + delay_ns)
    one_ns = _ONE_MORE * np.quantile(came_ns[came_ns > 0], _NEAREST) if (came_ns > 0).any() else 0.0
    apart_ns = np.diff(time_ns)[large]
    min_ns = np.maximum(np.maximum(apart_ns, one_ns - apart_ns), _JUMP_NS)
    # the samples on both sides of it must differ little from each other
    begins = []
    known_ns = np.minimum(time_ns[large] - time_ns[0], time_ns[-1] - time_ns[large + 1])
    for at in indexes((size > min_ns) & (known_ns >= _KNOWN * size) & lasts & empty).tolist():
        begin = int(large[at]) + 1
        sides = delay_ns[max(begin - _AROUND, 0) : begin], delay_ns[begin : begin + _AROUND]
        if all(len(side) == _AROUND and np.ptp(side) <= _EVEN * size[at] for side in sides):
            begins.append((begin, int(step[at]), int(after[at])))

    # a path takes no less than its least: where a longer one ends, packets only catch up with those before them
    changes = []
    for (begin, step_ns, floor_ns), (end, *_) in pairwise([*begins, (len(delay_ns), 0, 0)]):
        changes.append(begin)
        if step_ns > 0:
            ended = indexes(delay_ns[begin:end] < floor_ns - max(_JUMP_NS, _EMPTY * step_ns))[:1]
            changes += (begin + ended).tolist()
    return np.array(changes, dtype=np.int64)


def _minima_around(time_ns: Array, delay_ns: Array, at: Array, width_ns: int) -> tuple[Array, Array]:
    """Return the minimum delay in so much time before each step, which follows index `at`, and after it."""
    since = np.minimum(places(time_ns, time_ns[at] - width_ns), at)
    until = np.maximum(places(time_ns, time_ns[at + 1] + width_ns, "right"), at + 2)
    return span_minimum(delay_ns, since, at + 1), span_minimum(delay_ns, at + 1, until)


def _is_even_around(time_ns: Array, delay_ns: Array, at: int, size: float) -> bool:
    """Return whether most delays shortly before a step, which follows index `at`, are alike, and those after it."""
    since = int(np.searchsorted(time_ns, time_ns[at] - _SHORT_NS))
    until = int(np.searchsorted(time_ns, time_ns[at + 1] + _SHORT_NS, side="right"))
    sides = delay_ns[min(since, at) : at + 1], delay_ns[at + 1 : max(until, at + 2)]
    return all(float(np.mean(side - side.min() <= _EVEN * size)) >= _MOSTLY_EVEN for side in sides)


TRAIN = 3
"""Number of packets in a train whose rate is that of the link: the bucket of a policer passes this many at once."""
FASTEST = 0.98  # quantile of the rates: the highest are bunches in the capture. Not measured
HEADERS_BYTES = 40
"""Bytes of the IPv4 and TCP headers, without options."""
_ENDLESS = np.iinfo(np.int64).max


def train_rate(transfer: Transfer, *, until_ns: int = _ENDLESS) -> float:
    """Return the 98 % quantile of the rates of packets that arrived directly after each other, in bytes/s.

    If arrivals were not captured, ACKs are used.

    Parameters
    ----------
    transfer : Transfer
    until_ns : int, ns
        Later arrivals, by the sender's clock, do not count.
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
    if len(time_ns) <= TRAIN:
        return 0.0
    gone_s = (time_ns[TRAIN:] - time_ns[:-TRAIN]) * transfer.speed / NS_PER_S
    rates = (octets[TRAIN:] - octets[:-TRAIN])[gone_s > 0] / gone_s[gone_s > 0]
    return float(np.quantile(rates, FASTEST)) if len(rates) else 0.0
