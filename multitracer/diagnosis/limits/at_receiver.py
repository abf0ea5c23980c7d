"""A transfer as its receiver's capture shows it, with times converted to those of the sender.

The sender's timestamps are its clock plus an unknown constant. The send time of a segment is its arrival time without
any queue, minus half the shortest round trip. An answer of the receiver reaches the sender half a round trip after it
is captured. One capture cannot show how the round trip is divided, but the rules depend only on the sum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.group import has
from multitracer.analysis.intervals import indexes, places, taken
from multitracer.analysis.overtaken import Overtaken, overtaken
from multitracer.captured import CaptureMark, Flag
from multitracer.diagnosis.limits.at_sender import answers_of, full_segment, offered_bytes, sends_of
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.diagnosis.limits.observed import (
    COARSE_NS,
    Answers,
    DelaySamples,
    Observed,
    Sends,
    sent_by_stamps,
    weak_limits,
)
from multitracer.diagnosis.packets.packet_delays import HEADERS_BYTES
from multitracer.diagnosis.packets.policing import MIN_LOSSES, ArrivedStream, policer_of_arrivals
from multitracer.diagnosis.packets.requests import missing_before, requests_at_receiver
from multitracer.tables import NA
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.policing import Policer
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array

_REACTION_NS = 2_500 * NS_PER_US
"""Maximum time, in ns, between an ACK and the segment that it allowed; at least 2.5 timestamp ticks (limits.md)."""
_TIMER_NS = 200 * NS_PER_MS
"""Linux's minimum retransmission timeout, in ns; an earlier retransmission was triggered by duplicate ACKs."""


def at_receiver(transfer: Transfer) -> Observed:
    """Return a transfer from the receiver's capture, with all times converted to the sender's clock.

    Arrival times become send times, and the send times of answers become their arrival times.
    """
    time = transfer.time_ns
    arrived, answers = sends_of(transfer, time), answers_of(transfer, time)
    begin, opened, floor = _opening(transfer, time)
    floor, trip = _round_trips(transfer, floor)
    half = floor // 2
    late = overtaken(transfer.sender, transfer.sent, floor)
    sends, way, tick = _placed(transfer, _in_order(arrived, late), late, max(trip, floor), half)
    answers = replace(answers, time_ns=answers.time_ns + half)
    sends = replace(sends, time_ns=sends.time_ns - _late_by(transfer, sends, half, floor))
    slack = min((tick or 0) * 5 // 2, half)
    echoed_ns, late_answer = _echoed_answers(transfer, sends, answers, slack)
    coarse = tick is None or tick >= COARSE_NS
    last = int(arrived.time_ns[-1]) if len(arrived) else int(time[-1])
    asks = answers.payload > 0
    return Observed(
        view=Viewpoint.RECEIVER,
        begin_ns=begin,
        end_ns=max(last, begin),
        opened_ns=begin if opened == begin else opened + half,
        sends=sends,
        answers=answers,
        delays=_known_delays(sends, way) if tick is not None else _known_delays(sends, way[:0]),
        floor_ns=floor,
        mss_bytes=full_segment(sends, offered_bytes(transfer)),
        reaction_ns=max(_REACTION_NS, (tick or 0) * 5 // 2),
        requests=requests_at_receiver(transfer, answers.row[asks], answers.time_ns[asks]),
        peer_begins=transfer.reverse,
        slack_ns=slack,
        late_answer=late_answer,
        overtaken=late,
        echoed_ns=echoed_ns,
        trip_ns=trip,
        policer_of_arrivals=_policer(transfer, sends, way, max(floor, 1), are_timed=tick is not None),
        weak=weak_limits(transfer, Viewpoint.RECEIVER, coarse=coarse),
        coarse=coarse,
        stamp_tick_ns=tick or 0,
        one_way=True,
    )


def _opening(transfer: Transfer, time: Array) -> tuple[int, int, int | None]:
    """Return three times in ns: begin of the connection, when data were allowed, RTT of the handshake.

    The last one is None if the handshake was not captured.
    """
    table = transfer.sender
    syn = has(table["flags"], Flag.SYN)
    mine, peers = transfer.acks, transfer.sent  # the receiver's own segments, and the sender's
    if not syn.any():
        return int(time[0]), int(time[0]), None
    begin = int(time[indexes(syn)[0]])
    own, other = mine[syn[mine]], peers[syn[peers]]
    is_initiator = bool(len(own)) and not has(table["flags"][own[:1]], Flag.ACK)[0]
    if is_initiator:
        after = mine[~syn[mine] & (table["ack_bytes"][mine] != NA)]
        opened = int(time[after[0]]) if len(after) else int(time[-1])
        rtt = int(time[other[0]]) - int(time[own[0]]) if len(own) == 1 and len(other) == 1 else None
    else:
        after = peers[~syn[peers] & (table["ack_bytes"][peers] != NA)]
        answers = own[own < after[0]] if len(after) else own
        opened = int(time[answers[-1]]) if len(answers) else begin
        rtt = int(time[after[0]]) - opened if len(own) == 1 and len(other) == 1 and len(after) else None
    return begin, opened, rtt


def _echoed(transfer: Transfer) -> tuple[Array, Array]:
    """Return the rows of data that echo a timestamp of the receiver, and when that was first sent, in ns."""
    table = transfer.sender
    sent, got = (rows[has(table["marks"][rows], CaptureMark.HAS_TIMESTAMPS)] for rows in (transfer.acks, transfer.sent))
    if not len(sent) or not len(got):
        return got[:0], got[:0]
    value, first = np.unique(table["tsval"][sent], return_index=True)
    at = np.minimum(np.searchsorted(value, table["tsecr"][got]), len(value) - 1)
    same = value[at] == table["tsecr"][got]
    return got[same], table["time_ns"][sent[first[at[same]]]]


def _round_trips(transfer: Transfer, handshake: int | None) -> tuple[int, int]:
    """Return the shortest round trip, and its 95 % quantile with queues, in ns; 0 if unknown.

    A round trip is that of the handshake, or the time from an answer to a segment that echoes its timestamp.
    Copies are left out, because they waited for a timer.
    """
    rows, since = _echoed(transfer)
    table = transfer.sender
    is_copy = (table["payload_bytes"][rows] > 0) & (table["new_bytes"][rows] == 0)
    trips = (table["time_ns"][rows] - since)[~is_copy]
    trips = trips[trips > 0]
    known = [] if handshake is None else [handshake]
    known += [int(trips.min())] if len(trips) else []
    return min(known) if known else 0, int(np.quantile(trips, 0.95)) if len(trips) else 0


def _known_delays(sends: Sends, way: Array) -> DelaySamples:
    return DelaySamples(sends.time_ns[: len(way)], way, np.arange(len(way)))


def _late_by(transfer: Transfer, sends: Sends, half_ns: int, floor_ns: int) -> int:
    """Return the minimum time between an answer and the data that it allowed, in ns.

    The shortest round trip is that of small packets; a full segment takes longer at the bottleneck, so all
    sends seem late by that time.
    """
    rows, since = _echoed(transfer)
    if not len(rows):
        return 0
    at = np.minimum(np.searchsorted(rows, sends.row), len(rows) - 1)
    same = rows[at] == sends.row
    after = sends.time_ns[same] - since[at[same]] - half_ns
    after = after[after >= 0]
    return int(min(after.min(), floor_ns)) if len(after) else 0


def _echoed_answers(transfer: Transfer, sends: Sends, answers: Answers, slack_ns: int) -> tuple[Array, Array]:
    """Return when the answer that each send echoes reached the sender, in ns, and which sends echo an old answer.

    The first is NA if that answer was not captured. An answer is old if a later one should have reached the sender
    before the send. If ACKs are delayed on the return path, a sender seems idle although it has only not received
    them yet.
    """
    late, came_ns = np.zeros(len(sends), dtype=bool), np.full(len(sends), NA, dtype=np.int64)
    rows, since = _echoed(transfer)
    if not len(rows) or not len(answers):
        return came_ns, late
    at = np.minimum(np.searchsorted(rows, sends.row), len(rows) - 1)
    known = rows[at] == sends.row
    advances = answers.time_ns[np.diff(answers.ack, prepend=-1) > 0]
    due = np.searchsorted(advances, sends.time_ns - slack_ns, side="right") - 1
    half = answers.time_ns[0] - transfer.sender["time_ns"][answers.row[0]]
    echoed = since[at] + half
    late[:] = known & (due >= 0) & (echoed < advances[np.maximum(due, 0)] - slack_ns)
    return np.where(known, echoed, NA), late


def _policer(transfer: Transfer, sends: Sends, queue_ns: Array, floor_ns: int, *, are_timed: bool) -> Policer | None:
    """Return the policer that dropped segments; None if there was none.

    What is missing shows in the numbers of the sender's packets (IP identification), or else in holes of the data.
    """
    missing = np.maximum(sends.missing, 0)
    if (sends.missing == NA).all() and len(sends):
        before = np.concatenate([sends.begin[:1], np.maximum.accumulate(sends.end)[:-1]])
        missing = np.maximum(-((before - sends.begin) // max(int((sends.end - sends.begin).max()), 1)), 0)
    if int(missing.sum()) < MIN_LOSSES or int(missing.sum()) > len(sends) or transfer.speed != 1:
        return None
    came_ns = sends.time_ns + queue_ns
    gap = np.repeat(np.arange(len(sends)), missing)  # what is missing was lost behind the arrival before
    size = sends.end - sends.begin + HEADERS_BYTES
    is_lost = np.insert(np.zeros(len(sends), dtype=bool), gap, values=True)
    passed_ns = np.maximum.accumulate(np.insert(came_ns, gap, came_ns[np.maximum(gap - 1, 0)])) - int(came_ns[0])
    stream = ArrivedStream(passed_ns / NS_PER_S, np.insert(size, gap, size.max()).astype(np.float64), is_lost)
    before = np.maximum(gap - 1, 0)
    row, waited_ns = (np.insert(each, gap, each[before]) for each in (sends.row, queue_ns))
    return policer_of_arrivals(stream, row, waited_ns if are_timed else None, floor_ns, int(came_ns[0]))


def _in_order(arrived: Sends, late: Overtaken) -> Sends:
    """Return the segments as if none had been overtaken: each arrived with the first one that overtook it."""
    if not len(late.row):
        return arrived
    order = late.in_order(arrived.row, arrived.begin)
    time = arrived.time_ns[order]
    time = np.minimum.accumulate(time[::-1])[::-1]
    names = ("begin", "end", "again", "needed", "by_timer", "lost", "row", "pushed", "missing")
    return Sends(time_ns=time, **{name: getattr(arrived, name)[order] for name in names})


def _placed(
    transfer: Transfer, arrived: Sends, late: Overtaken, trip_ns: int, half_ns: int
) -> tuple[Sends, Array, int | None]:
    """Return the segments in order of sending, the queueing delay of each in ns, and the timestamp tick.

    Without timestamps, we assume that no segment waited in a queue: all queueing delays are 0, and the tick is None.
    """
    sent = transfer.sent
    if len(late.row):
        sent = sent[late.in_order(sent, transfer.sender["seq_bytes"][sent])]
    arrived = replace(arrived, missing=_missing(transfer, sent, arrived.row))
    by_stamps = sent_by_stamps(transfer.sender, arrived.row)
    if by_stamps is None:
        again = _fills(arrived.begin, arrived.end)
        needed = again & (transfer.sender["new_bytes"][arrived.row] > 0)
        still = replace(arrived, time_ns=arrived.time_ns - half_ns, again=again, needed=needed)
        by_timer = _after_idle_gap(still, trip_ns)
        needed |= by_timer & again & _unanswered(transfer, still.row)
        still = replace(still, by_timer=by_timer, needed=needed)
        return still, np.zeros(len(arrived), dtype=np.int64), None
    stamp, tick = by_stamps
    way = arrived.time_ns - stamp
    shortest = int(way.min())
    left = np.maximum(stamp + shortest - half_ns, _heard_ns(transfer, arrived.row) + half_ns)
    left = np.minimum(left, arrived.time_ns - half_ns) + 1  # what was heard comes first
    order = np.argsort(left, kind="stable")
    begin, end, row = arrived.begin[order], arrived.end[order], arrived.row[order]
    again = _fills(begin, end)
    placed = Sends(
        time_ns=left[order],
        begin=begin,
        end=end,
        again=again,
        needed=again & (transfer.sender["new_bytes"][row] > 0),
        by_timer=np.zeros(len(order), dtype=bool),
        lost=arrived.lost[order],
        row=row,
        pushed=arrived.pushed[order],
        missing=arrived.missing[order],
    )
    by_timer = _after_idle_gap(placed, trip_ns)
    needed = placed.needed | (by_timer & again & _unanswered(transfer, row))
    return replace(placed, by_timer=by_timer, needed=needed), (way - shortest)[order], tick


def _missing(transfer: Transfer, sent: Array, rows: Array) -> Array:
    """Return how many packets of the sender are missing between each of `rows` and the one before it; NA if unknown.

    What is missing before an ACK without data counts where the receiver had sent its request again: the answer that
    was lost came before the ACK of the copy. Any other may have been an ACK, too.
    """
    table, missing = transfer.sender, missing_before(transfer.sender, sent)
    asks = transfer.acks[table["payload_bytes"][transfer.acks] > 0]
    last = taken(asks, places(asks, sent) - 1, NA)
    counts = (last != NA) & has(table["kind"][last], SegmentKind.RETRANSMISSION)
    known = np.zeros(len(missing), dtype=np.int64)
    known[sent] = np.cumsum(np.where(counts, np.maximum(missing[sent], 0), 0))
    own = np.maximum(missing[rows], 0)
    since = np.maximum(np.diff(known[rows], prepend=known[rows[:1]]), own)
    return np.where(missing[rows] == NA, NA, since)


def _unanswered(transfer: Transfer, rows: Array) -> Array:
    """Return which segments arrived before the receiver had acknowledged their data: bool.

    The others were unneeded copies.
    """
    table, acks = transfer.sender, transfer.acks
    acks = acks[table["ack_bytes"][acks] != NA]
    acked = np.append(np.maximum.accumulate(table["ack_bytes"][acks]), 0)[np.searchsorted(acks, rows) - 1]
    return np.asarray(acked < table["end_bytes"][rows])


def _heard_ns(transfer: Transfer, rows: Array) -> Array:
    """Return when the receiver sent the newest payload that each row acknowledges, in ns.

    The row was sent later than this. If a timestamp tick is longer than the round trip, timestamps alone do
    not show this order.
    """
    table, asks = transfer.sender, transfer.acks
    asks = asks[table["payload_bytes"][asks] > 0]
    if not len(asks):
        return np.full(len(rows), np.iinfo(np.int64).min // 2)
    begins, first = np.unique(table["seq_bytes"][asks], return_index=True)
    last = np.searchsorted(begins, table["ack_bytes"][rows]) - 1  # begins below what is acknowledged
    sent_ns: Array = transfer.time_ns[asks[first[np.maximum(last, 0)]]]
    return np.where(last >= 0, sent_ns, np.iinfo(np.int64).min // 2)


def _fills(begin: Array, end: Array) -> Array:
    """Return which segments begin below the end of an earlier one: copies, or data that fill a hole."""
    return np.asarray(begin < np.concatenate([[0], np.maximum.accumulate(end)[:-1]])[: len(begin)])


def _after_idle_gap(sends: Sends, trip_ns: int) -> Array:
    """Return which segments the retransmission timer sent: they follow an idle gap (bool).

    Such a segment lies below the highest byte that had arrived, or packets just before it are missing.
    """
    idle_gap = np.diff(sends.time_ns, prepend=sends.time_ns[:1])
    mask: Array = (sends.again | (sends.missing > 0)) & (idle_gap > max(_TIMER_NS, trip_ns))
    return mask
