"""A transfer in the time of its sender, from any viewpoint: the input of the rules of this folder.

A receiver's capture is converted to this form, too (`at_receiver.py`), so that one rule serves all viewpoints. If a
capture does not show a limit well enough, the limit is `weak`, with the reason. The sender's timestamps are its clock
plus an unknown constant (RFC 7323): they give the time at which TCP created a segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import BLOCK_ROWS, distinct, extended, indexes, places, repeated, taken, unwrapped
from multitracer.analysis.ranges import merged
from multitracer.captured import CaptureMark, Flag
from multitracer.diagnosis.limits.names import Limit, Viewpoint
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.packets.policing import Policing
from multitracer.schemas.tcp import WindowScaleBy
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.analysis.intervals import Side
    from multitracer.analysis.overtaken import Overtaken
    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.diagnosis.packets.losses import Carried
    from multitracer.diagnosis.packets.packet_delays import WireSegments
    from multitracer.diagnosis.packets.policing import Policer
    from multitracer.diagnosis.packets.requests import Requests
    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Table

_NOTHING = np.empty(0, dtype=np.int64)  # no packet


class IdleGaps(NamedTuple):
    """The gaps between successive new segments; the first gap begins when data were allowed.

    Begin and end are int64, ns; the arrays have shape (n,).
    """

    begin: Array
    end: Array
    ended_by: Array
    """Index in `sends` of the segment that ended the gap."""
    woken: Array
    """Whether an answer arrived just before the end."""
    woken_by: Array
    """Index of this answer, -1 for none."""
    outstanding: Array
    """Bytes outstanding just before this answer, or before the end."""
    is_empty: Array
    """Whether no bytes were outstanding just before the end."""


@dataclass(frozen=True)
class Sends:
    """Segments with payload in the data direction, in order of sending.

    Attributes
    ----------
    time_ns : ndarray of int64, shape (n,)
        When each was sent; ascending.
    begin, end : ndarray of int64, shape (n,), bytes
        Its payload as an interval of sequence space.
    again : ndarray of bool, shape (n,)
        Whether it repeats data that were sent before, or fills a hole.
    needed : ndarray of bool, shape (n,)
        Whether it is a retransmission that is not known to be unneeded.
    by_timer : ndarray of bool, shape (n,)
        Whether a timer caused the retransmission.
    lost : ndarray of int8, shape (n,)
        1 if it was lost, 0 if it arrived, NA if unknown.
    row : ndarray of int64, shape (n,)
        Row of the transfer's `sender` table.
    pushed : ndarray of bool, shape (n,)
        Whether it carries PSH or FIN: a write ended with it (RFC 9293, section 3.9.1).
    missing : ndarray of int64, shape (n,)
        Packets of the sender just before it that were not captured; NA if it does not number its packets.
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
    """Segments of the peer as they arrived at the sender, in order.

    Attributes
    ----------
    time_ns : ndarray of int64, shape (n,)
        Ascending.
    ack : ndarray of int64, shape (n,), bytes
        Highest cumulative acknowledgment so far.
    delivered : ndarray of int64, shape (n,), bytes
        `ack` plus the SACKed bytes above it; never decreases.
    edge : ndarray of int64, shape (n,), bytes
        Right edge of the window advertised in this segment; NA if its scale is unknown.
    payload : ndarray of int64, shape (n,), bytes
        Payload of the segment itself.
    marked : ndarray of bool, shape (n,)
        Whether it reports a congestion mark of a router (ECE, RFC 3168).
    row : ndarray of int64, shape (n,)
        Row of the transfer's `sender` table.
    lag_ns : ndarray of int64, shape (n,)
        Its delay above the minimum, from its timestamps; 0 if they do not show it.
    are_stamped : bool
        Whether timestamps show when the peer sent its segments.
    """

    time_ns: Array
    ack: Array
    delivered: Array
    edge: Array
    payload: Array
    marked: Array
    row: Array
    lag_ns: Array
    are_stamped: bool = False

    def __len__(self) -> int:
        return len(self.time_ns)


class DelaySamples(NamedTuple):
    """Samples of the delay of segments to the receiver, in order of sending.

    Attributes
    ----------
    time_ns : ndarray of int64, shape (n,)
        When the segment was sent.
    way_ns : ndarray of int64, shape (n,)
        Its delay, plus an unknown constant.
    place : ndarray of int64, shape (n,)
        Its index in `sends`.
    unloaded_ns : int or None
        The delay of the small packets of the handshake, plus the same constant; None if unknown.
    """

    time_ns: Array
    way_ns: Array
    place: Array
    unloaded_ns: int | None = None

    def where(self, chosen: Array) -> DelaySamples:
        """Return the samples that a mask (bool, shape (n,)) or an index array (int64) selects."""
        return DelaySamples(self.time_ns[chosen], self.way_ns[chosen], self.place[chosen], self.unloaded_ns)


class SentAndAnswered(NamedTuple):
    """Times at which a segment was sent or an answer arrived; int64, shape (n,), strictly ascending."""

    time_ns: Array
    until_ns: Array
    """The following moment, NEVER_NS for the last of the transfer."""
    sent: Array
    """The result of `Observed.sent_by`, in bytes, and those of `acknowledged` and `window_edge`."""
    acknowledged: Array
    edge: Array


NEVER_NS = np.iinfo(np.int64).max
_ALONE = 0.8
"""Minimum share of segments that are small writes sent at once, so that no data waited behind them."""


@dataclass(frozen=True)
class Observed:
    """A transfer from any capture, with all times converted to the sender's clock.

    Methods that take `times_ns` (int64, ns, shape (n,)) return int64 of the same shape. `side` says whether
    an event at exactly that time is included (`right`) or not (`left`).

    Attributes
    ----------
    view : Viewpoint
    begin_ns, end_ns : int
        T: from the first SYN of the connection to the ACK of the last payload byte.
    opened_ns : int
        From when on the sender may send data.
    sends, answers, delays
        The segments of the sender, those of the peer, and the delay samples.
    floor_ns : int
        Shortest round trip.
    mss_bytes : int
        Payload of a full segment.
    reaction_ns : int
        Maximum time between an answer and a segment that it allowed.
    state : Table or None
        The sender's TCP variables, if they were logged.
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
    """The peer's requests; None if they were not searched for."""
    peer_begins: bool = False
    """Whether the peer opened the connection, and so may send a request as soon as the sender may send."""
    slack_ns: int = 0
    """Maximum time, in ns, by which a send may precede the answer that allowed it, because times are in ticks."""
    segments: WireSegments | None = None
    """The data segments as the path carried them; None without captures at both endpoints."""
    state: Table | None = None
    late_answer: Array | None = None
    """For each send, whether a due answer had not reached the sender yet; None if unknown."""
    echoed_ns: Array | None = None
    """For each send, when the answer that it echoes reached the sender, in ns; NA if that one was not captured, and
    None if timestamps do not show it."""
    overtaken: Overtaken | None = None
    """Segments that others overtook, in a receiver's capture; None if they were not searched for."""
    trip_ns: int = 0
    """95 % quantile of the round trip, with queues, in ns; 0 if unknown."""
    one_way: bool = False
    """Whether delays are one-way delays to the receiver, not round trips."""
    weak: frozenset[Limit] = frozenset()
    """Limits that this capture cannot show with confidence."""
    coarse: bool = False
    """Whether the resolution of the sender's times is 4 ms or worse, or unknown."""
    stamp_tick_ns: int = 0
    """Tick of the TCP timestamps that delays are computed from, ns: their error; 0 if no delay rests on timestamps."""
    dead_times: list[DeadTime] | None = None
    """Intervals without arrivals, from the packets; None if they were not computed."""
    carried: Carried | None = None
    """The data segments with delays and losses; None if they were not computed."""
    lost_answers_ns: Array | None = None
    """When lost answers were sent, from the receiver's capture; None without one."""
    policer_of_arrivals: Policer | None = None
    """The policer that a receiver's capture shows; None if it shows none."""
    host_delay_ns: Array | None = None
    """For each send, how long its own host held it after TCP made it, above the minimum, by its timestamp: ns. It is
    None without usable timestamps, and in a receiver's capture, which cannot tell this from the delay of the path."""

    @cached_property
    def policing(self) -> Policing | None:
        """The result of the test for a policer (rate limiter without a queue); None if losses are unknown."""
        return None if self.carried is None else Policing(self.carried)

    @property
    def policer(self) -> Policer | None:
        """The policer that lost segments; None if there was none."""
        return self.policer_of_arrivals if self.policing is None else self.policing.policer

    @cached_property
    def fresh(self) -> Array:
        """Indexes in `sends` of segments sent for the first time: int64, ascending."""
        return indexes(~self.sends.again)

    def moments(self) -> Iterator[SentAndAnswered]:
        """Yield the moments in order, in blocks: of a long transfer each column takes megabytes."""
        sent_ns, came_ns = self.sends.time_ns, self.answers.time_ns
        edges = distinct(np.concatenate([sent_ns[::BLOCK_ROWS], came_ns[::BLOCK_ROWS]]))
        of_sends, of_answers = (np.append(each.searchsorted(edges), len(each)).tolist() for each in (sent_ns, came_ns))
        for at, following in enumerate([*edges[1:].tolist(), NEVER_NS][: len(edges)]):
            sends, answers = slice(*of_sends[at : at + 2]), slice(*of_answers[at : at + 2])
            time = distinct(np.concatenate([sent_ns[sends], came_ns[answers]]))
            sent = places(sent_ns[sends], time, "right") + (sends.start - 1)
            answer = places(came_ns[answers], time, "right") + (answers.start - 1)
            yield SentAndAnswered(
                time,
                extended(time[1:], following),
                taken(self.highest, sent, 1),
                taken(self.answers.ack, answer, 1),
                taken(self.answers.edge, answer, -1),
            )

    @cached_property
    def gaps(self) -> IdleGaps:
        """The gaps between new segments (not retransmissions), one before each new segment."""
        fresh = self.fresh
        end = self.sends.time_ns[fresh]
        begin = np.concatenate([[min(self.opened_ns, int(end[0]))], end[:-1]]) if len(end) else end
        last = self.last_answer(end + self.slack_ns)
        came = self.answers.time_ns[np.maximum(last, 0)] if len(self.answers) else end
        woken = (last >= 0) & (end - came <= self.reaction_ns)
        outstanding = self.outstanding(end, side="left")
        is_empty, before = outstanding == 0, indexes(woken)
        outstanding[before] = self.outstanding(came[before], side="left")
        return IdleGaps(begin, end, fresh, woken, np.where(woken, last, -1), outstanding, is_empty)

    def forget_gaps(self) -> None:
        """Free what is cached of each gap; it is computed again if it is asked for again."""
        self.__dict__.pop("gaps", None)

    @cached_property
    def highest(self) -> Array:
        """Highest byte sent up to and including each send: int64, shape (n_sends,)."""
        ends = self.sends.end
        return np.maximum.accumulate(ends) if len(ends) else _NOTHING

    @cached_property
    def writes_alone(self) -> bool:
        """Whether nearly each segment is a small write of the application that TCP sent at once."""
        fresh = self.fresh
        small = (self.sends.end - self.sends.begin)[fresh] < self.mss_bytes
        return bool(len(fresh)) and int(np.count_nonzero(small & self.sends.pushed[fresh])) / len(fresh) >= _ALONE

    @cached_property
    def soonest_answer_ns(self) -> Array:
        """Earliest time at which the answer to each send can arrive, for a receiver's capture: int64, ns."""
        soonest = self.sends.time_ns + self.floor_ns
        queue_ns = self.delays.way_ns
        soonest[self.delays.place] += queue_ns - queue_ns.min(initial=0)
        return soonest

    @cached_property
    def turn_ns(self) -> int:
        """95 % quantile of the time from a new segment to the answer that covers it, in ns."""
        over = places(self.answers.ack, self.sends.end[self.fresh])
        known = over < len(self.answers)
        if not known.any():
            return 0
        turns = self.answers.time_ns[over[known]] - self.sends.time_ns[self.fresh][known]
        place = round(0.95 * (len(turns) - 1))
        return int(np.partition(turns, place)[place])

    def last_answer(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the index of the last answer at (`right`) or before (`left`) each time; -1 for none."""
        return places(self.answers.time_ns, times_ns, side) - 1

    def acknowledged(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the highest byte acknowledged at each time; 1 (the first byte) before any ACK."""
        return taken(self.answers.ack, self.last_answer(times_ns, side=side), 1)

    def window_edge(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the right edge of the advertised window at each time, bytes; -1 before the first answer.

        NA if the window scale is unknown.
        """
        return taken(self.answers.edge, self.last_answer(times_ns, side=side), -1)

    def sent_by(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the highest byte sent at each time; 1 before any."""
        return taken(self.highest, places(self.sends.time_ns, times_ns, side) - 1, 1)

    def outstanding(self, times_ns: Array, *, side: Side = "right") -> Array:
        """Return the bytes that are sent and not acknowledged at each time."""
        acked, sent = self.acknowledged(times_ns, side=side), self.sent_by(times_ns, side=side)
        sent -= np.maximum(acked, 1, out=acked)  # both are this function's own
        return np.maximum(sent, 0, out=sent)


COARSE_NS = 4 * NS_PER_MS
"""Step of time stamps, in ns, from which limits are shown only with low confidence (limits.md)."""
ALL_BUT_HANDSHAKE = frozenset(limit for limit in Limit if limit is not Limit.HANDSHAKE)
NOT_CAPTURED = "the capture lost packets that the receiver got"


def weak_limits(
    transfer: Transfer, view: Viewpoint, *, coarse: bool = False, are_stamped: bool = True
) -> frozenset[Limit]:
    """Return the limits that this capture shows only with low confidence.

    These are all limits except the handshake if the times of the sender, or of the capture, are coarse, or options
    (SACK, timestamps) were cut off; the link if round trips cannot be divided into the delays of data and ACKs, because
    the answers are not stamped (`are_stamped`); and the receiver's window if its scale is only inferred from the data
    sent.
    """
    is_cut = has(transfer.sender["marks"], CaptureMark.HEADER_CUT)
    coarse |= transfer.stamp_step_ns >= COARSE_NS
    if coarse or 2 * int(np.count_nonzero(is_cut)) > len(is_cut):
        return ALL_BUT_HANDSHAKE
    weak = set()
    if view in (Viewpoint.SENDER, Viewpoint.SENDER_STATE) and not are_stamped:
        weak.add(Limit.LINK)
    if window_scale(transfer).by is not WindowScaleBy.SYN:
        weak.add(Limit.RECEIVER_WINDOW)
    return frozenset(weak)


class WindowScale(NamedTuple):
    """The scale of the receiver's window."""

    by: WindowScaleBy
    """How it is known: announced, inferred, unknown."""
    shift: int
    """Bits by which windows are scaled."""


def window_scale(transfer: Transfer) -> WindowScale:
    """Return the scale of the receiver's window; where a snap length cut its option off, the other capture has it."""
    here = _scale_at(transfer.at_sender)
    if here.by is WindowScaleBy.SYN or transfer.at_receiver is None:
        return here
    there = _scale_at(transfer.at_receiver)
    return there if there.by is WindowScaleBy.SYN else here


def _scale_at(place: ConnectionAtPoint) -> WindowScale:
    directions = place.capture.analysis.directions
    receiver = 2 * (place.connection - 1) + (not place.reverse)
    by, shift = (int(directions[name][receiver]) for name in ("window_shift_by", "window_shift"))
    return WindowScale(WindowScaleBy(by), shift)


def scaled_windows(transfer: Transfer, rows: Array) -> Array:
    """Return the windows in rows of the receiver, by `window_scale`: int64, bytes; those of a SYN are never scaled."""
    window = transfer.sender["window_bytes"][rows].astype(np.int64)
    shown, true = _scale_at(transfer.at_sender).shift, window_scale(transfer).shift
    is_syn = has(transfer.sender["flags"][rows], Flag.SYN)
    return np.where(is_syn | (shown == true), window, window >> shown << true)


def not_captured(seen: Observed) -> Spans:
    """Return the intervals in which data were sent that the capture lacks but the receiver acknowledged.

    An interval lasts from the segment before the missing data to the segment after them.
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
"""Known timestamp ticks of hosts, in ns: Linux 1 ms (1 us by route), older and other hosts 4, 10, 100 and 500 ms."""
_FEWEST_TICKS = 20  # a tick is then known to 5 %, by its resolution alone; usual ones differ by 2.5 times
_FURTHEST, _STRETCHED = 1.6, 1.9
"""Maximum factors by which a measured tick is shorter, or longer, than a known one: a queue that grows in a short
transfer stretches it."""
_LONG_NS = 30 * NS_PER_S  # in less, 200 parts in a million make 6 ms at most: left as they are
_FASTEST_DRIFT = 2e-4
"""Maximum relative drift of two clocks, 200 parts per million."""


def sent_by_stamps(table: Table, rows: Array) -> tuple[Array, int] | None:
    """Return the send time of each row by its own TCP timestamp, and the timestamp tick in ns.

    The times are int64, ns, shape (n,), plus an unknown constant. The result is None without timestamps, or
    if their tick is unknown.
    """
    stamped = has(table["marks"][rows], CaptureMark.HAS_TIMESTAMPS)
    if not len(rows) or not stamped.all():
        return None
    time, value = table["time_ns"][rows], table["tsval"][rows]
    ticks = unwrapped(value, np.array([0, len(rows)]))
    passed, took_ns = int(ticks.max() - ticks.min()), int(time[-1] - time[0])
    if passed < _FEWEST_TICKS or took_ns <= 0:
        return None
    factor = took_ns / passed / _TICKS_NS
    best = int(np.argmin(np.abs(np.log(factor))))
    if not 1 / _FURTHEST <= factor[best] <= _STRETCHED:
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


def stamp_lag_ns(table: Table, rows: Array, by_stamps: tuple[Array, int] | None, chosen: Array) -> Array:
    """Return how much longer each row of `chosen` was delayed than the fastest row of `rows`: int64, ns.

    The delay is capture time minus TCP timestamp, less one tick: a lower bound. It is 0 for a chosen row that
    is not in `rows`, and for all rows without usable timestamps. `by_stamps` is the result of `sent_by_stamps` for
    `rows`.
    """
    if by_stamps is None:
        return repeated(0, len(chosen))
    lag = np.zeros(len(table), dtype=np.int64)
    sent, tick = by_stamps
    way = table["time_ns"][rows] - sent
    lag[rows] = np.maximum(way - way.min() - tick, 0)
    return lag[chosen]
