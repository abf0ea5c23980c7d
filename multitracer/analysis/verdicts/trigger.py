"""The cause of each retransmission: by the sender's packets, another capture point, or the kernel.

Rules for the sender's packets
------------------------------
- Idle gap: no segment had arrived that could have caused the retransmission, and the segment before was not a
  retransmission of the same moment. Then a timer was the cause: the retransmission timer, or a tail loss
  probe. Up to a quarter of the minimum RTT after an ACK the timer may be that of RACK (RFC 8985, 6.2), if the
  retransmission timer is not due.
- A probe repeats the newest segment, once, from a sender with SACK that is not in recovery. If this is also
  the oldest segment, the waiting time distinguishes probe and timeout, compared with RFC 6298 over the
  samples (with Linux's bounds), unless the sender showed elsewhere whether it sends probes.
- After a timeout, retransmissions on ACKs are slow start, until all data sent before it are acknowledged.
- Otherwise three duplicate ACKs, a SACK above the segment, or a recovery that these began make it a fast
  retransmission. A recovery without SACK resends a segment once (RFC 6582): if it is resent again when the
  timer is due, the timer was the cause.
- Local drop: the newest segment is sent again with nothing sent between, and nothing requested it (no timer,
  no duplicate ACKs, no recovery), or it is sent sooner after the last transmission than any ACK can arrive.
  Then the host itself dropped the earlier transmission.
- Only its timer resends a SYN; a SYN-ACK is also resent when another SYN arrives.

Rules for a capture at the receiver, or in the middle
-----------------------------------------------------
The order of packets at the capture point is that of the sender in one direction, and that of the receiver in the other.
So a proof that a transmission arrived is valid at any point. What the sender knew when it sent must be inferred: an ACK
that passed the point cannot have had an effect before it had reached the sender and a segment had come back.

Rules for reports of the sender's kernel
----------------------------------------
Linux enters Loss on each expiry of the timer and resends the oldest segment immediately. Later
retransmissions in Loss count as slow start, those in Recovery as fast; in any other state only a probe is
resent. If a segment repeats sequence numbers while the kernel reports no retransmission, the host itself
dropped it: the kernel kept it at the head of its send queue (`tcp_transmit_skb` returned NET_XMIT_DROP).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import SegmentKind, has
from multitracer.analysis.intervals import BLOCK_ROWS
from multitracer.analysis.series.rtt import LINUX, timeouts_ns
from multitracer.analysis.verdicts.answers import SURELY_EARLY, Stamped, peers_send_sack, since, tick_ns
from multitracer.analysis.verdicts.words import RetransmissionCause, VerdictEvidence
from multitracer.captured import CaptureMark, Flag
from multitracer.protocols.sock_diag import ReadBy, TcpCaState, TcpEvent
from multitracer.tables import NA
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Exchanges, Retransmissions
    from multitracer.tables import Array, Table

_DUP_THRESH = 3  # RFC 5681, section 3.2: the third duplicate ACK triggers a fast retransmit
_DUE = 0.8
"""Minimum share of the timeout of RFC 6298 that must have passed: a kernel's own timeout may be this much shorter."""
_LATE_NS = 10 * NS_PER_MS
"""Maximum delay of a busy host's reaction to an ACK, ns."""
_AT_ONCE_NS = NS_PER_MS
"""Typical maximum delay of a host's reaction, ns; it is usually some microseconds."""
_ROUND_TRIP_PART = 4
"""Divisor of the RTT: before the timer is due, the reaction to an ACK may be delayed by a quarter of the RTT. Not
measured."""
_TIMEOUTS = 3
"""Maximum idle gap in timeouts that one timeout ended; a longer one may contain several. Not measured."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """What the sender knew when it sent each retransmission."""

    idle: Array
    """Whether nothing had arrived or was resent shortly before."""
    duplicates: Array
    """Number of duplicate ACKs since the last ACK of new data."""
    sacked: Array
    """Whether a SACK had reported data above it."""
    newest: Array
    """Whether it ends with the highest byte sent."""
    una: Array
    """The highest byte acknowledged before."""
    highest: Array
    """The highest byte sent before."""
    waited_ns: Array
    """Time since the last ACK of new data, or since the last transmission of this range if that was later, ns."""
    rto_ns: Array
    """The RFC 6298 timeout from the samples until then, ns."""
    directly: Array
    """Whether nothing was sent between it and the earlier transmission."""
    too_soon: Array
    """Whether it came sooner after the earlier transmission than any ACK can."""
    overdue: Array
    """Whether it is the oldest segment, was resent before, the timer is due, and the receiver sends no SACK."""
    is_complete: bool = True
    """Whether this is all that the sender knew; in a capture made elsewhere a part of it is missing."""


def trigger_of(copies: Retransmissions) -> Trigger:
    """Return what the sender knew when it sent each retransmission, from the packets captured near it."""
    segments, row = copies.segments, copies.row
    time_ns = segments["time_ns"]
    before, una = copies.before(row), copies.reached_before(row)
    advance_ns = time_ns[np.minimum(np.searchsorted(copies.reached, una), row)]
    copied = copies.earlier < copies.nowhere
    earlier_ns = np.where(copied, copies.of_rows("time_ns", copies.earlier), advance_ns)
    newest = copies.end >= copies.highest[before]
    waited_ns, rto_ns = time_ns[row] - np.maximum(advance_ns, earlier_ns), timeout_ns(copies)
    duplicates = duplicates_until(copies, before, una)
    once_more = _is_once_more(copies, una)
    due = waited_ns > _DUE * rto_ns
    return Trigger(
        _idle(copies, waited_ns, due, once_more),
        duplicates,
        segments["flight_bytes"][row] > segments["flight_sack_bytes"][row],
        newest,
        una,
        np.where(row > copies.first, copies.highest[before], copies.zero),
        waited_ns,
        rto_ns,
        copies.sent[np.maximum(np.searchsorted(copies.sent, row) - 1, 0)] == copies.earlier,
        copied & (copies.min_rtt_ns != NA) & (time_ns[row] - earlier_ns < copies.min_rtt_ns),
        once_more & due & ~peers_send_sack(copies)[copies.exchange],
    )


def _is_once_more(copies: Retransmissions, una: Array) -> Array:
    """Return which retransmissions repeat the oldest unacknowledged segment for at least the second time."""
    resent = np.isin(copies.earlier, copies.row) & (copies.earlier < copies.nowhere)
    once_more: Array = resent & (copies.begin == una)
    return once_more


def _idle(copies: Retransmissions, waited_ns: Array, due: Array, once_more: Array) -> Array:
    """Return which retransmissions no arriving segment can have caused.

    If the oldest segment is resent once more, only an ACK immediately before can be the cause. Otherwise the
    timer expired during duplicate ACKs.
    """
    time_ns, row = copies.segments["time_ns"], copies.row
    round_trip_ns = np.maximum(copies.min_rtt_ns, 0)
    others = np.flatnonzero(copies.back)
    arrived = np.append(-1, others)[np.searchsorted(others, row)]
    arrived_ns = time_ns[row] - time_ns[arrived]
    resent_ns = np.diff(time_ns[row], prepend=0)
    begins = np.diff(copies.exchange, prepend=-1) != 0
    lateness_ns = np.where(due, _LATE_NS, _LATE_NS + round_trip_ns // _ROUND_TRIP_PART)
    lateness_ns[once_more & (waited_ns > round_trip_ns)] = _AT_ONCE_NS
    idle: Array = (arrived < copies.first) | (arrived_ns > lateness_ns)
    idle &= begins | (resent_ns > lateness_ns)
    return idle


def duplicates_until(copies: Retransmissions, before: Array, una: Array) -> Array:
    """Return the number of duplicate ACKs, up to row `before`, since the ACK number became `una`.

    Parameters
    ----------
    copies : Retransmissions
    before : ndarray of int64, shape (n_copies,)
        Rows of `copies.segments`.
    una : ndarray of int64, shape (n_copies,)
        The cumulatively acknowledged sequence number.

    Returns
    -------
    ndarray of int64, shape (n_copies,)
        At least 0.
    """
    segments = copies.segments
    duplicate = copies.back & ((segments["kind"] & np.uint32(SegmentKind.DUPLICATE_ACK)) != 0)
    rows = np.flatnonzero(duplicate & (segments["ack_bytes"] != NA))
    grew = np.minimum(np.searchsorted(copies.reached, una), before)
    since: Array = np.searchsorted(rows, before, side="right") - np.searchsorted(rows, grew)
    return since


def timeout_ns(copies: Retransmissions, *, beyond_ns: Array | int = 0) -> Array:
    """Return the RFC 6298 timeout before each retransmission; one second without an RTT sample.

    Parameters
    ----------
    beyond_ns : int or ndarray of int64, shape (n_exchanges,)
        Difference between the sender's RTT and the RTT measured at the capture point.

    Returns
    -------
    ndarray of int64, ns, shape (n_copies,)
        Above 0.
    """
    exchanges, segments = copies.exchanges, copies.segments
    stamped = exchanges.have(np.flatnonzero(exchanges.own & (segments["rtt_timestamp_ns"] > 0)))
    rtt_ns = segments["rtt_ns"]
    if stamped.any():
        rtt_ns = np.where(exchanges.per_row(stamped), segments["rtt_timestamp_ns"], rtt_ns)
    rows = np.flatnonzero(exchanges.own & (rtt_ns > 0))
    rtt_ns = rtt_ns[rows] + np.broadcast_to(beyond_ns, len(exchanges))[exchanges.of(rows)]
    answered_ns = segments["time_ns"][rows] + rtt_ns
    order = np.argsort(answered_ns, kind="stable")
    bounds = np.searchsorted(rows, exchanges.bounds)
    *_, rto_ns = timeouts_ns(rtt_ns[order], bounds, LINUX)
    last = np.searchsorted(answered_ns[order], segments["time_ns"][copies.row], side="right") - 1
    return np.where(last >= bounds[copies.exchange], np.append(rto_ns, 0)[last], NS_PER_S)


def causes(copies: Retransmissions, trigger: Trigger) -> tuple[Array, Array]:
    """Return cause and evidence of each retransmission by the rules of this file.

    Returns
    -------
    cause : ndarray of uint8, shape (n_copies,)
    evidence : ndarray of uint32, shape (n_copies,)
        Bits of `VerdictEvidence`.
    """
    cause = np.zeros(len(copies), dtype=np.uint8)
    sender = _Sender(copies, trigger)
    probes = _probes(copies, trigger)
    begins = np.flatnonzero(np.diff(copies.exchange, prepend=-1))
    for first in range(0, len(copies), BLOCK_ROWS):
        behind = min(first + BLOCK_ROWS, len(copies))
        sender.look_at(first, behind)
        here = begins[(begins >= first) & (begins < behind)].tolist()
        parts = [first, *here[here[:1] == [first] :], behind]
        for begin, end in itertools.pairwise(parts):
            if begin != first or here[:1] == [first]:
                sender.begin(begin - first, probes=probes[copies.exchange[begin]])
            cause[begin:end] = [sender.cause_of(i) for i in range(begin - first, end - first)]
    seen = (trigger.duplicates >= _DUP_THRESH) | trigger.sacked
    evidence = np.zeros(len(copies), dtype=np.uint32)
    for shown, bit in ((trigger.idle, VerdictEvidence.SILENCE), (seen, VerdictEvidence.DUPLICATE_ACKS)):
        evidence[shown] |= np.uint32(bit)
    evidence[cause == RetransmissionCause.LOCAL_DROP] |= np.uint32(VerdictEvidence.UNASKED)
    return cause, evidence


def _probes(copies: Retransmissions, trigger: Trigger) -> list[bool | None]:
    """Return for each judged direction whether its sender sends tail loss probes; None if unknown."""
    oldest = copies.begin <= trigger.una
    probe = trigger.idle & trigger.newest & ~oldest & (trigger.una > copies.zero)
    timeout = trigger.idle & oldest & ~trigger.newest & (trigger.waited_ns < _TIMEOUTS * trigger.rto_ns)
    is_probing: list[bool | None] = [None] * len(copies.exchanges)
    for shown, meaning in ((copies.exchange[timeout], False), (copies.exchange[probe], True)):
        for exchange in shown.tolist():
            is_probing[exchange] = meaning
    for exchange in np.flatnonzero(~peers_send_sack(copies)).tolist():
        is_probing[exchange] = False
    return is_probing


class _Sender:
    """The state of a sender's congestion control, updated with each of its retransmissions.

    Methods take the index of a retransmission among those that are looked at.
    """

    def __init__(self, copies: Retransmissions, trigger: Trigger) -> None:
        self._copies, self._trigger = copies, trigger
        self._is_complete = trigger.is_complete

    def look_at(self, first: int, behind: int) -> None:
        """Take the next retransmissions, from `first` to `behind` - 1: as Python's numbers they take 40 bytes each."""
        copies, trigger, here = self._copies, self._trigger, slice(first, behind)
        self._begin, self._una = copies.segments["seq_bytes"][copies.row[here]].tolist(), trigger.una[here].tolist()
        self._highest, self._waited = trigger.highest[here].tolist(), trigger.waited_ns[here].tolist()
        self._rto, self._idle = trigger.rto_ns[here].tolist(), trigger.idle[here].tolist()
        self._newest, self._too_soon = trigger.newest[here].tolist(), trigger.too_soon[here].tolist()
        self._directly, self._zero = trigger.directly[here].tolist(), copies.zero[here].tolist()
        self._seen = ((trigger.duplicates[here] >= _DUP_THRESH) | trigger.sacked[here]).tolist()
        self._overdue = trigger.overdue[here].tolist()

    def begin(self, i: int, *, probes: bool | None) -> None:
        """Reset the state: retransmission `i` is the first of a judged direction."""
        self._probes = probes
        self._unclear = self._recover = self._zero[i]
        """Below `unclear`, data were resent for an unknown reason."""
        self._state = RetransmissionCause.UNKNOWN
        """The cause of retransmissions on ACKs: SLOW_START, FAST, or UNKNOWN for none."""
        self._probed_at: int | None = None

    def cause_of(self, i: int) -> RetransmissionCause:
        """Return the cause of retransmission `i`; it must be called for all of them in order."""
        una = self._una[i]
        if una >= self._recover:
            self._state = RetransmissionCause.UNKNOWN
        if una == self._zero[i]:
            return RetransmissionCause.TIMEOUT if self._idle[i] else RetransmissionCause.UNKNOWN
        if self._is_refused(i):
            return RetransmissionCause.LOCAL_DROP
        if self._idle[i] or (self._state is RetransmissionCause.FAST and self._overdue[i]):
            return self._by_timer(i, una)
        if self._state is RetransmissionCause.UNKNOWN and self._seen[i] and una >= self._unclear:
            self._enter(RetransmissionCause.FAST, i)
        if self._state is RetransmissionCause.UNKNOWN and not self._is_complete:
            self._unclear = self._highest[i]
        return self._state

    def _is_refused(self, i: int) -> bool:
        """Return whether the sending host itself must have dropped the earlier transmission (local drop)."""
        has_reason = self._seen[i] or self._state is not RetransmissionCause.UNKNOWN
        if has_reason or not (self._newest[i] and self._directly[i]):
            return False
        return bool(self._too_soon[i] or not self._idle[i])

    def _by_timer(self, i: int, una: int) -> RetransmissionCause:
        if self._state is RetransmissionCause.UNKNOWN and self._is_probe(i, una):
            self._probed_at = una
            return RetransmissionCause.TAIL_LOSS_PROBE
        self._enter(RetransmissionCause.SLOW_START, i)
        return RetransmissionCause.TIMEOUT

    def _is_probe(self, i: int, una: int) -> bool:
        if self._probes is False or not self._newest[i] or una == self._probed_at:
            return False
        if self._begin[i] > una or self._probes:
            return True
        return bool(self._waited[i] < self._rto[i])

    def _enter(self, state: RetransmissionCause, i: int) -> None:
        self._state = state
        self._recover = self._highest[i]


_AWAY_LATE_NS = 10 * NS_PER_MS
"""Maximum delay of a busy host's reaction to an ACK, ns."""
_BURST = 64
"""Maximum number of segments after a retransmission that are searched for the next new data; beyond, the result is
unknown."""
_LONGER = 1.5
"""Ratio to the minimum RTT from which a segment is not a reaction to what passed before."""


def trigger_away(copies: Retransmissions) -> Trigger:
    """Return what the sender can have known before each retransmission, from a capture far from it."""
    segments, row = copies.segments, copies.row
    time_ns, far_ns = segments["time_ns"], _far_round_trip_ns(copies.exchanges)
    beyond_ns = far_ns[copies.exchange]
    known = _known_at_far_end(copies, row, beyond_ns)
    before, una = copies.before(known), copies.reached_before(known)
    advance_ns = time_ns[np.minimum(np.searchsorted(copies.reached, una), row)] + beyond_ns
    copied = copies.earlier < copies.nowhere
    earlier_ns = np.where(copied, copies.of_rows("time_ns", copies.earlier), advance_ns)
    highest = np.where(row > copies.first, copies.highest[copies.before(row)], copies.zero)
    nothing = np.zeros(len(copies), dtype=bool)
    # what it sends although it is acknowledged it sends because it has heard less than it could have
    unacknowledged = (known > copies.first) & (copies.begin >= una)
    return Trigger(
        _away_idle(copies, una, beyond_ns),
        np.where(unacknowledged, duplicates_until(copies, before, una), 0),
        unacknowledged & (copies.sacked_up_to[before] > una),
        copies.end >= highest,
        una,
        highest,
        time_ns[row] - np.maximum(advance_ns, earlier_ns),
        timeout_ns(copies, beyond_ns=far_ns),
        nothing,
        nothing,
        nothing,
        is_complete=False,
    )


def _known_at_far_end(copies: Retransmissions, row: Array, far_ns: Array) -> Array:
    """Return the first row that the sender cannot have received before it sent the segment at `row`.

    Not received are segments that were captured less than a round trip (from capture point to sender and back) before,
    and those newer than the timestamp that the segment echoes. The sender of a SYN without ACK has received nothing.
    """
    segments = copies.segments
    forward_ns = np.maximum.accumulate(segments["time_ns"])
    arrived = np.minimum(np.searchsorted(forward_ns, forward_ns[row] - far_ns, side="right"), row)
    acks = has(segments["flags"], Flag.ACK)
    stamped = has(segments["marks"], CaptureMark.HAS_TIMESTAMPS) & acks
    back = Stamped.of(copies.exchanges, copies.back)
    stamps = np.maximum.accumulate(back.since_first(segments["tsval"][back.rows], back.exchange))
    newer = np.searchsorted(stamps, back.since_first(segments["tsecr"][row], copies.exchange), side="right")
    by_stamp = np.append(back.rows, len(segments))[newer]
    arrived = np.where(stamped[row], np.minimum(arrived, by_stamp), arrived)
    return np.where(acks[row], np.maximum(arrived, copies.first), copies.first)


def _far_round_trip_ns(exchanges: Exchanges) -> Array:
    """Return for each judged direction the minimum RTT from the capture point to the sender; 0 if unknown."""
    return np.maximum(exchanges.shortest_ns(("rtt_ns", "rtt_timestamp_ns"), ~exchanges.own), 0)


def _away_idle(copies: Retransmissions, una: Array, far_ns: Array) -> Array:
    """Return which retransmissions follow an idle gap, in both directions, longer than the path's RTT.

    The sender's timestamps can show the same: it sent nothing for this time, and echoes nothing newer. If it
    echoes a newer segment that acknowledges more data, that ACK was late, and no timer expired.
    """
    time_ns, row = copies.segments["time_ns"], copies.row
    path_ns = _LONGER * (far_ns + np.maximum(copies.min_rtt_ns, 0)) + _AWAY_LATE_NS
    idle_ns = time_ns[row] - time_ns[copies.before(row)]
    before, idle_gap_ns, is_answered = _idle_gap(copies)
    late = is_answered & (una > copies.reached_before(_known_at_far_end(copies, before, far_ns)))
    idle: Array = ((row > copies.first) & (idle_ns > path_ns) & ~late) | (~is_answered & (idle_gap_ns > path_ns))
    return idle


def _idle_gap(copies: Retransmissions) -> tuple[Array, Array, Array]:
    """Return three arrays for the retransmissions: previous row, idle time and a mask.

    The first has the previous row of the same sender. The second has the time since then by the sender's
    timestamps, in ns; 0 if these do not show it. The mask is True where the retransmission echoes a newer
    segment than the previous row did.
    """
    segments, row, own = copies.segments, copies.row, Stamped.of(copies.exchanges, copies.exchanges.own)
    place = np.searchsorted(own.rows, row)
    has_previous = (np.append(own.rows, len(segments))[place] == row) & (place > own.bounds[copies.exchange])
    before = np.where(has_previous, np.append(own.rows, 0)[place - 1], row)
    newer = has_previous & (segments["tsecr"][row] != segments["tsecr"][before])
    ticks = since(segments["tsval"][row], segments["tsval"][before]) - 1
    return before, np.where(has_previous, ticks, 0) * np.maximum(tick_ns(own), 0)[copies.exchange], newer


def passed_before(copies: Retransmissions) -> Array:
    """Return which retransmissions were acknowledged or SACKed before they passed the capture point.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    before: Array = copies.report < copies.row
    return before


def unacknowledged_at_sender(copies: Retransmissions) -> tuple[Array, Array]:
    """Return two masks: retransmissions whose earlier ACKs did not reach the sender, and unclear cases.

    Only retransmissions that were acknowledged when they passed are judged. The next timestamp that the
    sender echoes decides. Without timestamps, the time of its next new data decides: if it is too soon for an
    ACK of the retransmission, an earlier ACK reached the sender; if it is just in time, none did; if it is
    later, the result is unknown.

    Returns
    -------
    lost, open : ndarray of bool, shape (n_copies,)
    """
    row, far_ns = copies.row, _far_round_trip_ns(copies.exchanges)[copies.exchange]
    path_ns = far_ns + np.maximum(copies.min_rtt_ns, 0)
    candidate = passed_before(copies) & ~(copies.sacked < np.minimum(row, copies.answer))
    crossed = -copies.after_ns(copies.report) <= _LONGER * far_ns + _AWAY_LATE_NS
    echoed, skipped = _echoes(copies)
    onward = _goes_on(copies)
    onward_ns = np.where(onward < copies.nowhere, copies.after_ns(onward), np.iinfo(np.int64).max)
    arrived = crossed | echoed | (onward_ns < SURELY_EARLY * path_ns)
    lost = candidate & ~arrived & (skipped | (onward_ns <= _LONGER * path_ns + _AWAY_LATE_NS))
    return lost, candidate & ~arrived & ~lost


def _goes_on(copies: Retransmissions) -> Array:
    """Return for each retransmission the first later row in which its sender sends data above it."""
    end, sent = copies.segments["end_bytes"][copies.sent], copies.sent
    onward = copies.nowhere.copy()
    place, stop = (np.searchsorted(sent, at).tolist() for at in (copies.row + 1, copies.nowhere))
    for i, (at, last, bound) in enumerate(zip(place, stop, copies.end.tolist(), strict=True)):
        above = np.flatnonzero(end[at : min(at + _BURST, last)] > bound)
        if len(above):
            onward[i] = sent[at + above[0]]
    return onward


def _echoes(copies: Retransmissions) -> tuple[Array, Array]:
    """Return two masks: the sender later echoed an earlier ACK, or it echoed only later ACKs.

    An earlier ACK is one that passed the capture point before the retransmission. The first ACK that covers the
    retransmission must have a new timestamp, because a coarse clock cannot distinguish ACKs of the same tick.
    """
    segments, row, exchanges, exchange = copies.segments, copies.row, copies.exchanges, copies.exchange
    acks = has(segments["flags"], Flag.ACK)
    own, back = (Stamped.of(exchanges, side & acks) for side in (exchanges.own, copies.back))
    if not len(own.rows) or not len(back.rows):
        none = np.zeros(len(copies), dtype=bool)
        return none, none
    echoed = np.maximum.accumulate(back.since_first(segments["tsecr"][own.rows], own.exchange))
    stamps = back.since_first(segments["tsval"][back.rows], back.exchange)
    report, later = (np.searchsorted(back.rows, rows) for rows in (copies.report, row))
    first, bound = (np.append(stamps, np.iinfo(np.int64).max)[index] for index in (report, later))
    usable = (copies.report < row) & (first > np.append(-1, stamps)[report]) & (first < bound)
    at = np.searchsorted(echoed, first)
    usable &= at < own.bounds[1:][exchange]
    echo = echoed[np.minimum(at, len(echoed) - 1)]
    return usable & (echo < bound), usable & (echo >= bound)


_TRACED_NS = 5 * NS_PER_MS
"""Typical maximum time between a trace point and its packet, ns; usually some microseconds."""
_TOLD_LATE_NS = 100 * NS_PER_MS
"""The same time on a host that was suspended between the two, or that uses pacing, ns."""
_CLOCKS_NS = NS_PER_MS // 20
"""Maximum time by which the clock of the trace may be ahead of that of the capture, ns."""
_LATELY_NS = 200 * NS_PER_MS
"""Maximum age of a reading of the sender's variables that shows the state of a retransmission, ns."""
_OF_STATE = {TcpCaState.LOSS: RetransmissionCause.SLOW_START, TcpCaState.RECOVERY: RetransmissionCause.FAST}


def by_events(copies: Retransmissions, events: Table, cause: Array, evidence: Array) -> None:
    """Correct `cause` and `evidence`, in place, by the sender's trace points.

    Parameters
    ----------
    copies : Retransmissions
    events : Table
        JOINED_EVENTS of this sender.
    cause : ndarray of uint8, shape (n_copies,)
        A `RetransmissionCause`, inferred from packets.
    evidence : ndarray of uint32, shape (n_copies,)
        Bits of `VerdictEvidence`.
    """
    if not len(copies):
        return
    resent = events.take(events["event"] == TcpEvent.RETRANSMISSION)
    changes = events.take((events["event"] == TcpEvent.CA_STATE) & (events["ca_state"] != NA))
    if len(changes):
        _by_state_changes(copies, changes, cause, evidence)
    if len(resent):
        _by_reports(copies, resent, cause, evidence)


def _by_state_changes(copies: Retransmissions, changes: Table, cause: Array, evidence: Array) -> None:
    time_ns = copies.segments["time_ns"][copies.row]
    last = np.searchsorted(changes["time_ns"], time_ns, side="right") - 1
    state = np.append(changes["ca_state"], TcpCaState.OPEN)[last]
    stated = np.zeros(len(copies), dtype=np.uint8)
    for ca_state, meaning in _OF_STATE.items():
        stated[state == ca_state] = meaning
    expired = changes["time_ns"][changes["ca_state"] == TcpCaState.LOSS]
    first = np.searchsorted(time_ns, expired)
    near = first < len(copies)
    first, expired = first[near], expired[near]
    stated[first[time_ns[first] - expired < _TRACED_NS]] = RetransmissionCause.TIMEOUT
    known = stated != RetransmissionCause.UNKNOWN
    cause[known] = stated[known]
    evidence[known] |= np.uint32(VerdictEvidence.CA_STATE)
    probes = (stated == RetransmissionCause.UNKNOWN) & (cause == RetransmissionCause.TIMEOUT) & (last >= 0)
    cause[probes] = RetransmissionCause.TAIL_LOSS_PROBE
    evidence[probes] |= np.uint32(VerdictEvidence.CA_STATE)


def _by_reports(copies: Retransmissions, resent: Table, cause: Array, evidence: Array) -> None:
    """Set the cause to "local drop", in place, if the kernel reports no retransmission or reports a drop."""
    time_ns, report_ns = copies.segments["time_ns"][copies.row], resent["time_ns"]
    spoken_of = _spoken_of(time_ns, report_ns)
    known = spoken_of >= 0
    reported = _with_parts(copies, report_ns, spoken_of[known])
    refused = _with_parts(copies, report_ns, spoken_of[known & (resent["left_host"] == 0)])
    traced = (time_ns >= report_ns[0] - _TRACED_NS) & (time_ns <= report_ns[-1] + _TRACED_NS)
    unreported = traced & ~reported & (copies.begin > copies.zero)  # a SYN-ACK is resent where nothing is traced
    evidence[reported | unreported] |= np.uint32(VerdictEvidence.KERNEL_EVENT)
    cause[(cause == RetransmissionCause.LOCAL_DROP) & reported] = (
        RetransmissionCause.TAIL_LOSS_PROBE
    )  # in no recovery, and left the host
    cause[unreported | refused] = RetransmissionCause.LOCAL_DROP


def _with_parts(copies: Retransmissions, report_ns: Array, spoken_of: Array) -> Array:
    """Return which packets the kernel's reports refer to, including the parts of a split retransmission.

    One reported retransmission may be split into several segments. The report comes after the last of them,
    so no report lies between them.
    """
    reported = np.zeros(len(copies), dtype=bool)
    reported[spoken_of] = True
    time_ns = copies.segments["time_ns"][copies.row]
    together = (np.diff(time_ns) < _TRACED_NS) & (np.diff(np.searchsorted(report_ns, time_ns)) == 0)
    part_of_next = together & (copies.end[:-1] == copies.begin[1:])
    for at in np.flatnonzero(part_of_next)[::-1].tolist():
        reported[at] |= reported[at + 1]
    return reported


def _spoken_of(time_ns: Array, report_ns: Array) -> Array:
    """Return for each report the packet that it refers to; -1 for none.

    It is the last packet before the report that has no report yet. Without such a packet, it is a packet
    after the report, within the offset of the clocks, or far before it.
    """
    spoken_of = np.full(len(report_ns), -1)
    for ahead_ns, reach_ns in ((0, _TRACED_NS), (_CLOCKS_NS, _TRACED_NS), (_TOLD_LATE_NS, 2 * _TOLD_LATE_NS)):
        waiting = np.flatnonzero(spoken_of < 0)
        free = np.setdiff1d(np.arange(len(time_ns)), spoken_of)
        last = _last_free(time_ns[free], report_ns[waiting] + ahead_ns, reach_ns)
        spoken_of[waiting[last >= 0]] = free[last[last >= 0]]
    return spoken_of


def _last_free(time_ns: Array, report_ns: Array, reach_ns: int) -> Array:
    """Return for each report the last packet before it that no earlier report has used; -1 for none."""
    behind = np.searchsorted(time_ns, report_ns, side="right").tolist()
    sent, taken = time_ns.tolist(), np.full(len(report_ns), -1)
    free: list[int] = []
    seen = 0
    for report, (end, at) in enumerate(zip(behind, report_ns.tolist(), strict=True)):
        free.extend(range(seen, end))
        seen = max(seen, end)
        if free and at - sent[free[-1]] < reach_ns:
            taken[report] = free.pop()
    return taken


def by_readings(copies: Retransmissions, trigger: Trigger, state: Table, cause: Array, evidence: Array) -> None:
    """Correct `cause` and `evidence`, in place, by readings of the sender's variables.

    Parameters
    ----------
    state : Table
        JOINED_STATE of this sender; tcp_probe's rows, which show the state before a segment, are left out.
    cause : ndarray of uint8, shape (n_copies,)
        A `RetransmissionCause`, from the earlier steps.
    evidence : ndarray of uint32, shape (n_copies,)
        Bits of `VerdictEvidence`.
    """
    polled = state.take(state["method"] != ReadBy.TCP_PROBE)
    polled = polled.take(np.argsort(polled["time_ns"], kind="stable"))
    if not len(polled) or not len(copies):
        return
    time_ns = copies.segments["time_ns"][copies.row]
    at = np.searchsorted(polled["time_ns"], time_ns)
    there = at < len(polled)
    at = np.minimum(at, len(polled) - 1)
    there &= polled["time_ns"][at] - time_ns < _LATELY_NS
    open_to_it = there & (cause != RetransmissionCause.LOCAL_DROP)
    for ca_state, meaning in _OF_STATE.items():
        rows = open_to_it & (polled["ca_state"][at] == ca_state)
        cause[rows] = np.where(trigger.idle[rows], RetransmissionCause.TIMEOUT, meaning)
        evidence[rows] |= np.uint32(VerdictEvidence.CA_STATE)
    fell = open_to_it & (polled["ca_state"][at] == NA) & _fell(polled, at)
    collapsed = fell & (polled["cwnd_segments"][at] == 1) & trigger.idle
    cause[collapsed] = RetransmissionCause.TIMEOUT
    cause[fell & (cause == RetransmissionCause.UNKNOWN)] = RetransmissionCause.FAST
    evidence[fell] |= np.uint32(VerdictEvidence.CWND_DROP)


def _fell(polled: Table, at: Array) -> Array:
    """Return which readings have a smaller congestion window than the reading before them."""
    before, now = polled["cwnd_segments"][np.maximum(at - 1, 0)], polled["cwnd_segments"][at]
    fell: Array = (at > 0) & (before != NA) & (now != NA) & (now < before)
    return fell
