"""A transfer in the time of its sender, whatever it was seen from: what the rules of this folder work on.

The view of the receiver is brought into this form, too (`at_receiver.py`): a rule holds for all views. What a
capture cannot show well enough makes limits `weak`, with the reason. The sender's timestamps are its clock up
to a constant (RFC 7323): by them a segment has the time at which TCP made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import distinct, places, unwrapped
from multitracer.analysis.ranges import merged
from multitracer.captured import CaptureMark
from multitracer.diagnosis.limits.names import Limit, Viewpoint
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.packets.policing import Policing
from multitracer.schemas.tcp import WindowScaleBy
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from multitracer.analysis.intervals import Side
    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.diagnosis.packets.losses import Carried
    from multitracer.diagnosis.packets.packet_delays import WireSegments
    from multitracer.diagnosis.packets.policing import Policer
    from multitracer.diagnosis.packets.requests import Requests
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Table

_NOTHING = np.empty(0, dtype=np.int64)  # no packet


@dataclass(frozen=True)
class Sends:
    """Segments with payload in the data direction, in order of sending.

    Attributes
    ----------
    time_ns : ndarray of int64, shape (n,)
        When each was sent; ascending.
    begin, end : ndarray of int64, shape (n,), bytes
        Its payload.
    again : ndarray of bool, shape (n,)
        It repeats what was sent before, or fills a hole.
    needed : ndarray of bool, shape (n,)
        It is a repetition of which nothing says that it was not needed.
    by_timer : ndarray of bool, shape (n,)
        A timer made the sender repeat it.
    lost : ndarray of int8, shape (n,)
        1 it did not arrive, 0 it did, NA nobody knows.
    row : ndarray of int64, shape (n,)
        Row of the transfer's `sender` table.
    pushed : ndarray of bool, shape (n,)
        It carries PSH: with it a write ended (RFC 9293, section 3.9.1).
    missing : ndarray of int64, shape (n,)
        Packets of the sender that were not captured just before it; NA where it does not number them.
    """

    time_ns: Array
    begin: Array
    end: Array
    again: Array
    needed: Array
    by_timer: Array
    lost: Array
    row: Array
    pushed: Array
    missing: Array

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class Answers:
    """Segments of the peer as they reached the sender, in order.

    Attributes
    ----------
    time_ns : ndarray of int64, shape (n,)
        Ascending.
    ack : ndarray of int64, shape (n,), bytes
        Highest cumulative acknowledgment so far.
    delivered : ndarray of int64, shape (n,), bytes
        That and what is SACKed above it; never falls.
    edge : ndarray of int64, shape (n,), bytes
        Right edge of the window offered, as of this segment; NA where its scale is not known.
    payload : ndarray of int64, shape (n,), bytes
        What the peer itself sent in it.
    marked : ndarray of bool, shape (n,)
        It says that a router marked a segment (ECE, RFC 3168).
    row : ndarray of int64, shape (n,)
    lag_ns : ndarray of int64, shape (n,)
        What its way took above the shortest, as its timestamps tell; 0 where they do not.
    """

    time_ns: Array
    ack: Array
    delivered: Array
    edge: Array
    payload: Array
    marked: Array
    row: Array
    lag_ns: Array

    def __len__(self) -> int:
        return len(self.time_ns)


class DelaySamples(NamedTuple):
    """Samples of the way of a segment to the receiver, in order of sending.

    Attributes
    ----------
    time_ns : ndarray of int64, shape (n,)
        When the segment was sent.
    way_ns : ndarray of int64, shape (n,)
        What its way took, up to a constant.
    place : ndarray of int64, shape (n,)
        Its index in `sends`.
    unloaded_ns : int or None
        The way of the handshake's packets, which are small, up to the same constant; None if not among them.
    """

    time_ns: Array
    way_ns: Array
    place: Array
    unloaded_ns: int | None = None

    def where(self, chosen: Array) -> DelaySamples:
        """Return the samples that a mask or positions choose: bool, shape (n,), or int64."""
        return DelaySamples(self.time_ns[chosen], self.way_ns[chosen], self.place[chosen], self.unloaded_ns)


@dataclass(frozen=True)
class Observed:
    """A transfer in the time of its sender.

    Methods that take `times_ns` (int64, ns, shape (n,)) return int64 of the same shape; `side` says whether
    what happened exactly then counts (`right`) or not (`left`).

    Attributes
    ----------
    view : Viewpoint
    begin_ns, end_ns : int
        T: the first SYN of the connection, and the ACK of the last payload byte.
    opened_ns : int
        From when on the sender may send data.
    sends, answers, delays
    floor_ns : int
        Shortest round trip.
    mss_bytes : int
        Payload of a full segment.
    reaction_ns : int
        A sender that was woken by an answer sends within this time.
    state : Table or None
        The sender's variables, where they were logged.
    """

    view: Viewpoint
    begin_ns: int
    end_ns: int
    opened_ns: int
    sends: Sends
    answers: Answers
    delays: DelaySamples
    floor_ns: int
    mss_bytes: int
    reaction_ns: int
    requests: Requests | None = None
    """What the peer asked; None where nobody looked for it."""
    peer_begins: bool = False
    """The peer opened the connection, so that it may ask as soon as the sender may send."""
    slack_ns: int = 0
    """A send may seem to come by so much before the answer that woke it: times are in ticks."""
    segments: WireSegments | None = None
    """The data as the path carried them; None without a capture at both ends."""
    state: Table | None = None
    late_answer: Array | None = None
    """Per send: an answer that was due had not reached the sender yet; None where nobody knows."""
    echoed_answer: Array | None = None
    """Per send: it echoes an answer of the capture, so that which ones its sender had is known."""
    trip_ns: int = 0
    """A round trip that is seldom exceeded, queue included; 0 where nobody knows."""
    one_way: bool = False
    """Delays are of the way to the receiver alone, not of round trips."""
    weak: frozenset[Limit] = frozenset()
    """Limits of which this capture does not hold enough to be sure, whatever its view shows elsewhere."""
    coarse: bool = False
    """The sender's times are known to no better than 4 ms, or not at all."""
    dead_times: list[DeadTime] | None = None
    """When nothing came back, by the packets; None where nothing asked for them yet."""
    carried: Carried | None = None
    """The data as the path carried them, with delays and losses; None where nothing asked for them yet."""
    lost_answers_ns: Array | None = None
    """When answers were sent that did not arrive, by the receiver's capture; None without one."""

    @cached_property
    def policing(self) -> Policing | None:
        """Whether a policer lost segments; None where nothing asked for the losses."""
        return None if self.carried is None else Policing(self.carried)

    @property
    def policer(self) -> Policer | None:
        """The policer that lost segments, if one did."""
        return None if self.policing is None else self.policing.policer

    @cached_property
    def fresh(self) -> Array:
        """Indexes in `sends` of what was sent for the first time: int64, ascending."""
        return np.flatnonzero(~self.sends.again)

    @cached_property
    def moments_ns(self) -> Array:
        """When something was sent or answered: int64, ns, ascending, each time once."""
        return distinct(np.concatenate([self.sends.time_ns, self.answers.time_ns]))

    @cached_property
    def moments_sent(self) -> Array:
        """What `sent_by` returns of `moments_ns`."""
        return self.sent_by(self.moments_ns)

    @cached_property
    def moments_answer(self) -> Array:
        """What `last_answer` returns of `moments_ns`."""
        return self.last_answer(self.moments_ns)

    @cached_property
    def moments_acknowledged(self) -> Array:
        """What `acknowledged` returns of `moments_ns`."""
        return np.append(self.answers.ack, 1)[self.moments_answer]

    @cached_property
    def moments_edge(self) -> Array:
        """What `window_edge` returns of `moments_ns`."""
        return np.append(self.answers.edge, -1)[self.moments_answer]

    @cached_property
    def highest(self) -> Array:
        """Highest byte sent so far, at each send: int64, shape (n_sends,)."""
        ends = self.sends.end
        return np.maximum.accumulate(ends) if len(ends) else _NOTHING

    @cached_property
    def soonest_answer_ns(self) -> Array:
        """When the answer to each send could be back, seen from the receiver: int64, shape (n_sends,)."""
        soonest = self.sends.time_ns + self.floor_ns
        queue_ns = self.delays.way_ns
        soonest[self.delays.place] += queue_ns - queue_ns.min(initial=0)
        return soonest

    @cached_property
    def turn_ns(self) -> int:
        """From a new segment to the answer that covers it, held back or not; 95 % took less."""
        over = places(self.answers.ack, self.sends.end[self.fresh])
        known = over < len(self.answers)
        if not known.any():
            return 0
        turns = self.answers.time_ns[over[known]] - self.sends.time_ns[self.fresh][known]
        return int(np.quantile(turns, 0.95))

    def last_answer(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the last answer at (`right`) or before (`left`) each time; -1 before the first."""
        return places(self.answers.time_ns, times_ns, side) - 1

    def acknowledged(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the highest byte acknowledged by each time; 1 (the first byte) before any."""
        return np.append(self.answers.ack, 1)[self.last_answer(times_ns, side=side)]

    def window_edge(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the right edge of the window offered at each time; -1 before the first answer.

        NA where the scale of the window is not known.
        """
        return np.append(self.answers.edge, -1)[self.last_answer(times_ns, side=side)]

    def sent_by(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the highest byte sent by each time; 1 before any."""
        return np.asarray(np.append(self.highest, 1)[places(self.sends.time_ns, times_ns, side) - 1])

    def outstanding(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the bytes sent and not acknowledged at each time."""
        sent, acked = self.sent_by(times_ns, side=side), self.acknowledged(times_ns, side=side)
        return np.asarray(np.maximum(sent - np.maximum(acked, 1), 0))


ALL_BUT_HANDSHAKE = frozenset(limit for limit in Limit if limit is not Limit.HANDSHAKE)
NOT_CAPTURED = "the capture lost packets that the receiver got"


def weak_limits(transfer: Transfer, view: Viewpoint, *, coarse: bool = False) -> frozenset[Limit]:
    """Return the limits that are weak in this capture, whatever its view shows elsewhere.

    All but the handshake with coarse times of the sender, or options (SACK, timestamps) that were cut off;
    the link where a round trip cannot be parted into the ways of data and ACKs; the receiver's window where
    only what was sent tells its scale.
    """
    is_cut = has(transfer.sender["marks"], CaptureMark.HEADER_CUT)
    if coarse or 2 * int(np.count_nonzero(is_cut)) > len(is_cut):
        return ALL_BUT_HANDSHAKE
    weak = set()
    one_end = view in (Viewpoint.SENDER, Viewpoint.SENDER_STATE)
    if one_end and sent_by_stamps(transfer.sender, transfer.acks) is None:
        weak.add(Limit.LINK)
    if window_scale_by(transfer) is not WindowScaleBy.SYN:
        weak.add(Limit.RECEIVER_WINDOW)
    return frozenset(weak)


def window_scale_by(transfer: Transfer) -> WindowScaleBy:
    """Return how the scale of the receiver's window is known."""
    directions = transfer.at_sender.capture.analysis.directions
    receiver = 2 * (transfer.at_sender.connection - 1) + (not transfer.reverse)
    return WindowScaleBy(int(directions["window_shift_by"][receiver]))


def not_captured(seen: Observed) -> Spans:
    """Return from when until when the capture lost data that the receiver acknowledged.

    Data that are in no segment of the capture and were acknowledged all the same; from the segment before
    them to the one behind.
    """
    sends = seen.sends
    begin, end = merged(sends.begin, sends.end)
    known = begin[1:] <= (int(seen.answers.ack.max()) if len(seen.answers) else 0)
    after, before = begin[1:][known], end[:-1][known]
    first_behind = np.searchsorted(seen.highest, after, side="right")
    last_before = np.searchsorted(seen.highest, before, side="right") - 1
    some = (first_behind < len(sends)) & (last_before >= 0)
    return Spans.of(sends.time_ns[last_before[some]], sends.time_ns[first_behind[some]])


_TICKS_NS = np.array([NS_PER_US, NS_PER_MS, 4 * NS_PER_MS, 10 * NS_PER_MS, 100 * NS_PER_MS, NS_PER_S // 2])
"""Ticks that hosts have: Linux 1 ms (1 us by route), older ones and others 4, 10, 100 and 500 ms."""
_FEWEST_TICKS = 20  # a tick is then known to 5 %, by its resolution alone; usual ones differ by 2.5 times
_FURTHEST = 1.6
"""A measured tick may be off by this factor: a queue that grew in a short transfer stretches it."""
_LONG_NS = 30 * NS_PER_S  # in less, 200 parts in a million make 6 ms at most: left as they are
_FASTEST_DRIFT = 2e-4
"""No two clocks drift faster apart than 200 parts in a million."""


def sent_by_stamps(table: Table, rows: Array) -> tuple[Array, int] | None:
    """Return when segments of one direction were sent by their own timestamps, and the tick of these.

    The rows of `table` and the times (ns, up to a constant) are int64, shape (n,); the tick is in ns. None
    without timestamps, or where their tick is unknown.
    """
    stamped = has(table["marks"][rows], CaptureMark.HAS_TIMESTAMPS)
    if not len(rows) or not stamped.all():
        return None
    time, value = table["time_ns"][rows], table["tsval"][rows]
    ticks = unwrapped(value, np.array([0, len(rows)]))
    passed, took_ns = int(ticks.max() - ticks.min()), int(time[-1] - time[0])
    if passed < _FEWEST_TICKS or took_ns <= 0:
        return None
    off = np.abs(np.log(_TICKS_NS / (took_ns / passed)))
    best = int(np.argmin(off))
    if off[best] > np.log(_FURTHEST):
        return None
    tick = int(_TICKS_NS[best])
    sent = ticks * tick

    # by how much the clock of the stamps lags at each time, by the shortest ways at the begin and at the end
    way, span = time - sent, int(sent[-1] - sent[0])
    early, late = sent < sent[0] + span // 3, sent > sent[0] + 2 * span // 3
    if span < _LONG_NS or not early.any() or not late.any():
        return sent, tick
    first, last = np.argmin(np.where(early, way, way.max())), np.argmin(np.where(late, way, way.max()))
    slope = float(way[last] - way[first]) / float(max(sent[last] - sent[first], 1))
    if abs(slope) > _FASTEST_DRIFT:
        return sent, tick
    return sent + np.rint((sent - sent[0]) * slope).astype(np.int64), tick


def stamp_lag_ns(table: Table, rows: Array, chosen: Array) -> Array:
    """Return of chosen rows of a table what their way took above the shortest of their direction's `rows`.

    0 for rows of others and where timestamps do not tell; never more than is certain: a tick is taken off.
    """
    by_stamps = sent_by_stamps(table, rows)
    if by_stamps is None:
        return np.zeros(len(chosen), dtype=np.int64)
    lag = np.zeros(len(table), dtype=np.int64)
    sent, tick = by_stamps
    way = table["time_ns"][rows] - sent
    lag[rows] = np.maximum(way - way.min() - tick, 0)
    return lag[chosen]
