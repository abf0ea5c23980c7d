"""A transfer as its sender's capture shows it, with the receiver's capture if there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.group import has
from multitracer.analysis.intervals import extended, indexes, places, repeated, tallied
from multitracer.analysis.parallel import meanwhile
from multitracer.analysis.series.rtt import Provenance
from multitracer.analysis.two_points import PacketOutcome
from multitracer.analysis.verdicts import Necessity, RetransmissionCause
from multitracer.captured import CaptureMark, Flag
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.diagnosis.limits.observed import (
    Answers,
    DelaySamples,
    Observed,
    Sends,
    scaled_windows,
    sent_by_stamps,
    stamp_lag_ns,
    weak_limits,
    window_scale,
)
from multitracer.diagnosis.packets.dead_times import dead_times
from multitracer.diagnosis.packets.losses import carried
from multitracer.diagnosis.packets.packet_delays import WireSegments, wire_segments
from multitracer.diagnosis.packets.policing import MIN_LOSSES
from multitracer.diagnosis.packets.requests import requests_at_sender
from multitracer.schemas.tcp import WindowScaleBy
from multitracer.tables import NA
from multitracer.units import NS_PER_MS, NS_PER_US

if TYPE_CHECKING:
    from multitracer.recording.transfer import Pairs, Transfer
    from multitracer.tables import Array, Table

_REACTION_NS = 500 * NS_PER_US
"""Maximum time, in ns, between an ACK and the segment that it allowed (limits.md, measured on some ninety recordings).
"""
_DELAYED_ACK_NS = 40 * NS_PER_MS
"""Maximum delay of the ACK of a single segment, in ns (Linux, TCP_DELACK_MIN)."""


_ENOUGH, _ENOUGH_PART = 20, 0.1
"""If at least `_ENOUGH` samples, and at least the share `_ENOUGH_PART` of all, have an undelayed ACK, only
these are used."""
_SHORTLY_NS = 3 * NS_PER_MS
"""Maximum delay of an undelayed ACK, in ns; it is below every queue (limits.md)."""
_RARE_PART = 50
"""A segment size is rare if it occurs less than once in this many segments, as the last part of a write does.
Not measured."""


def at_sender(transfer: Transfer, view: Viewpoint, opens: Opening) -> Observed:
    """Return a transfer from the sender's capture; `view` states which other logs are used."""
    table = transfer.sender
    time = transfer.time_ns
    sends, answers = sends_of(transfer, time), answers_of(transfer, time)
    begin, opened, floor = opens
    receiver, syn = transfer.receiver, has(table["flags"], Flag.SYN)
    if view is Viewpoint.BOTH_ENDS and receiver is not None and syn.any():
        # the receiver may have sent or seen a first SYN that is lost; not where this capture began later
        elsewhere = indexes(has(receiver["flags"], Flag.SYN))[:1]
        begin = min([begin, *transfer.receiver_time(receiver["time_ns"][elsewhere]).tolist()])
    end = int(time[-1])
    if len(sends):  # when the last payload byte was acknowledged
        at = int(np.searchsorted(answers.ack, int(sends.end.max())))
        end = int(answers.time_ns[at]) if at < len(answers) else end
    offered = offered_bytes(transfer)
    full = full_segment(sends, offered)
    on_path = wire_segments(transfer, full, offered)
    segments = on_path if view is Viewpoint.BOTH_ENDS else None
    with meanwhile(len(table), lambda: _delays(transfer, sends, answers, segments, floor, full)) as delays_of:
        dead = dead_times(transfer) if np.count_nonzero(on_path.lost) >= MIN_LOSSES else None
        known = None if dead is None else carried(transfer, on_path, dead)
    delays, shortest = delays_of()
    both = [each for each in (floor, shortest) if each is not None]
    asks = answers.payload > 0
    lost_answers_ns, back = None, transfer.ack_pairs
    if back is not None and receiver is not None:  # segments of the receiver that left and did not arrive
        gone = back.sent[back.lost & (back.sent != NA)]
        lost_answers_ns = np.sort(transfer.receiver_time(receiver["time_ns"][gone]))
        if view is Viewpoint.BOTH_ENDS and not answers.lag_ns.any():  # no timestamps show it
            answers = replace(answers, lag_ns=_lag_ns(transfer, back, answers.row))
    return Observed(
        view=view,
        begin_ns=begin,
        end_ns=max(end, begin),
        opened_ns=opened,
        sends=sends,
        answers=answers,
        delays=delays,
        floor_ns=min(both, default=0),
        mss_bytes=full,
        segments=segments,
        reaction_ns=_REACTION_NS,
        requests=requests_at_sender(transfer, answers.row[asks], answers.time_ns[asks], min(both, default=0)),
        peer_begins=transfer.reverse,
        state=transfer.state if view is not Viewpoint.SENDER and len(transfer.state) else None,
        dead_times=dead,
        carried=known,
        lost_answers_ns=lost_answers_ns,
        one_way=view is Viewpoint.BOTH_ENDS,
        host_delay_ns=_host_delay_ns(transfer, syn, sends.row),
        weak=weak_limits(transfer, view, are_stamped=answers.are_stamped),
    )


def sends_of(transfer: Transfer, time: Array) -> Sends:
    """Return the segments with payload, without keep-alives and probes, in the order of the capture.

    `time` has a time for each row of `sender` that never decreases: int64, ns.
    """
    table, rows = transfer.sender, transfer.data
    no_data = has(table["kind"][rows], SegmentKind.KEEP_ALIVE | SegmentKind.CAPTURE_DUPLICATE)
    rows = rows[~no_data] if no_data.any() else rows
    probes = indexes(has(table["kind"][rows], SegmentKind.ZERO_WINDOW_PROBE))
    if len(probes):
        rows = np.delete(rows, _in_vain(table, rows, probes))
    verdicts = transfer.verdicts
    is_spurious, is_timed = np.zeros((2, len(table)), dtype=bool)
    is_spurious[verdicts["row"][verdicts["necessity"] == Necessity.SPURIOUS.value]] = True
    for cause in (RetransmissionCause.TIMEOUT, RetransmissionCause.TAIL_LOSS_PROBE):
        is_timed[verdicts["row"][verdicts["cause"] == cause.value]] = True
    again = has(table["kind"][rows], SegmentKind.RETRANSMISSION)
    lost, pairs = np.full(len(table), NA, dtype=np.int8), transfer.data_pairs
    if pairs is not None:  # as the other capture shows
        known = pairs.sent != NA
        came = (pairs.arrived != NA) | (pairs.table["outcome"] == PacketOutcome.RESEGMENTED)
        lost[pairs.sent[known & pairs.lost]] = 1
        lost[pairs.sent[known & came]] = 0
    flags = table["flags"][rows]
    end = table["end_bytes"][rows] - has(flags, Flag.FIN)
    return Sends(
        time_ns=time[rows],
        begin=end - table["payload_bytes"][rows],
        end=end,
        again=again,
        needed=again & ~is_spurious[rows],
        by_timer=is_timed[rows],
        lost=lost[rows],
        row=rows,
        pushed=has(flags, Flag.PSH | Flag.FIN),
        missing=repeated(NA, len(rows)),
    )


def _in_vain(table: Table, rows: Array, probes: Array) -> Array:
    """Return which probes of a closed window sent no data, as indexes in `rows`.

    A probe is a question, not data, unless the receiver accepted its byte: then the last of equal probes is the one
    that it accepted (RFC 9293, section 3.8.6.1).
    """
    seq = table["seq_bytes"][rows[probes]]
    _, of_byte = np.unique(seq, return_inverse=True)
    is_accepted = np.bincount(of_byte, table["new_bytes"][rows[probes]])[of_byte] > 0
    last = np.zeros(of_byte.max() + 1, dtype=np.int64)
    np.maximum.at(last, of_byte, probes)
    return probes[~is_accepted | (last[of_byte] > probes)]


def answers_of(transfer: Transfer, time: Array) -> Answers:
    """Return the peer's segments with an ACK, in the order of the capture.

    `time` as in `sends_of`. `edge` is NA if the window scale is unknown.
    """
    table, rows = transfer.sender, transfer.acks
    is_ack = table["ack_bytes"][rows] != NA
    rows = rows if is_ack.all() else rows[is_ack]
    acked, payload, flags = (table[name][rows] for name in ("ack_bytes", "payload_bytes", "flags"))
    ack = np.maximum.accumulate(acked) if len(rows) else rows
    sacked = table["flight_bytes"][rows] - table["flight_sack_bytes"][rows]
    sacked[payload != 0] = 0
    delivered = np.maximum.accumulate(ack + sacked) if sacked.any() else ack
    window = scaled_windows(transfer, rows)

    # by what was sent only the least scale is known: by it the windows of a chat are hardly larger than its
    # messages, and would seem full
    by = window_scale(transfer).by
    is_scaled = np.full(len(window), by is not WindowScaleBy.UNKNOWN)
    if by is WindowScaleBy.SENT and len(payload) and (payload > 0).mean() >= _ASKING:
        minimum = _MIN_GUESSED * (offered_bytes(transfer) or _DEFAULT_MSS_BYTES)
        is_scaled = (window == 0) | (window >= minimum)
    if by is WindowScaleBy.SENT:
        flags_of_all, marks = table["flags"][transfer.acks], table["marks"][transfer.acks]
        if (has(flags_of_all, Flag.SYN) & has(marks, CaptureMark.HEADER_CUT)).any():
            is_scaled = window == 0  # the scale was announced, and cut off: it may be any
    by_stamps = sent_by_stamps(table, transfer.acks)
    return Answers(
        time_ns=time[rows],
        ack=ack,
        delivered=delivered,
        edge=np.where(is_scaled, acked + window, NA),
        payload=payload.astype(np.int64),
        marked=has(flags, Flag.ECE) & ~has(flags, Flag.SYN),
        row=rows,
        lag_ns=stamp_lag_ns(table, transfer.acks, by_stamps, rows),
        are_stamped=by_stamps is not None,
    )


def _lag_ns(transfer: Transfer, back: Pairs, rows: Array) -> Array:
    """Return how much longer each ACK took from the other capture to this one than the fastest: int64, ns.

    One that is not in both captures is taken to have had the delay of the one before it.
    """
    known = (back.sent != NA) & (back.arrived != NA)
    lag = np.full(len(transfer.sender), NA, dtype=np.int64)
    way = transfer.time_ns[back.arrived[known]] - transfer.came_ns[back.sent[known]]
    lag[back.arrived[known]] = way - way.min() if len(way) else way
    chosen = lag[rows]
    last = np.maximum.accumulate(np.where(chosen != NA, np.arange(len(chosen)), 0))
    return np.maximum(chosen[last], 0)


def _host_delay_ns(transfer: Transfer, is_syn: Array, rows: Array) -> Array | None:
    """Return how long the sender's own host held each of `rows`, above the minimum, in ns; see `stamp_lag_ns`.

    None without usable timestamps.
    """
    own = transfer.sent[~is_syn[transfer.sent]]
    by_stamps = sent_by_stamps(transfer.sender, own)
    return None if by_stamps is None else stamp_lag_ns(transfer.sender, own, by_stamps, rows)


class Opening(NamedTuple):
    """Three times of a connection, in ns."""

    begin_ns: int
    """Its begin."""
    opened_ns: int
    """From when on data were allowed."""
    rtt_ns: int | None
    """Round trip of the handshake; None without one in the capture."""


def opening(transfer: Transfer) -> Opening:
    """Return when a connection began, when data were allowed, and the RTT of the handshake.

    The begin is the first SYN of either endpoint. If the initiator sends the data, they are allowed from its
    peer's SYN on, else from the peer's ACK of its own SYN on. Without a handshake in the capture, the first
    two are the time of the first packet, and the RTT is None.
    """
    table, time = transfer.sender, transfer.time_ns
    syn = has(table["flags"], Flag.SYN)
    mine, peers = transfer.sent, transfer.acks
    if not syn.any():
        return Opening(int(time[0]), int(time[0]), None)
    begin = int(time[indexes(syn)[0]])
    own, other = mine[syn[mine]], peers[syn[peers]]
    is_initiator = bool(len(own)) and not has(table["flags"][own[:1]], Flag.ACK)[0]
    if is_initiator:
        opens = other
    else:
        acking = peers[(table["ack_bytes"][peers] != NA) & ~syn[peers]]
        data = mine[(table["payload_bytes"][mine] > 0) & ~syn[mine]]
        own = own[own < data[0]] if len(data) else own  # what sends data is open, and repeats a SYN in vain
        opens = acking[acking > own[-1]] if len(own) else acking
    if not len(opens):
        return Opening(begin, int(time[-1]), None)
    opened = int(time[opens[0]])
    before = own[own < opens[0]]
    rtt = opened - int(time[before[-1]]) if len(before) == 1 else None
    return Opening(begin, opened, rtt)


_DEFAULT_MSS_BYTES = 536
"""Every path carries segments of this size (RFC 9293, section 3.7.1); smaller ones may be limited by writes."""
_MIN_GUESSED, _ASKING = 10, 0.05
"""Minimum size, in segments, of an advertised window whose scale is only inferred from the data sent: smaller
ones count as unknown, because an initial window (RFC 6928) is larger. Used if at least the share `_ASKING` of
the peer's segments carry payload. Not measured."""
_ETHERNET_BYTES = 1460  # the most that a frame of 1500 bytes holds: what is larger was joined, or is a jumbo
_TIMESTAMPS_BYTES = 12  # RFC 7323, appendix A: with two NOPs
_WRITES = 0.8
"""If at least this share of the segments have PSH, each segment is a write of its own. The share is 0.97 to 1
for small writers, and up to 0.3 for full buffers, which also set PSH (36 recordings)."""


def full_segment(sends: Sends, offered: int | None) -> int:
    """Return the payload of a full segment in bytes: the largest frequent size, but at most the MSS.

    The MSS is returned if all segments are small, or if nearly each segment is a write of its own. `offered` is the MSS
    as `offered_bytes` returns it.
    """
    if not len(sends):
        return 1
    sizes, many = tallied(sends.end - sends.begin)
    common = sizes[many >= max(1, len(sends) // _RARE_PART)]
    largest = max(int(common.max()) if len(common) else int(sizes.max()), 1)
    if offered is None:  # it may be what sizes that no Ethernet carries are multiples of
        unit = int(np.gcd.reduce(common[common >= _DEFAULT_MSS_BYTES], initial=0))
        return unit if largest > _ETHERNET_BYTES and unit >= _DEFAULT_MSS_BYTES else largest
    all_writes = float(sends.pushed.mean()) >= _WRITES
    return offered if all_writes or largest < min(offered, _DEFAULT_MSS_BYTES) else min(largest, offered)


def offered_bytes(transfer: Transfer) -> int | None:
    """Return the MSS that the receiver announced, minus the timestamp option, in bytes.

    It is None if the SYN of the receiver was not captured.
    """
    directions = transfer.at_sender.capture.analysis.directions
    offered = int(directions["mss_bytes"][2 * (transfer.at_sender.connection - 1) + (not transfer.reverse)])
    if offered == NA:
        return None
    stamped = has(transfer.sender["marks"][transfer.data], CaptureMark.HAS_TIMESTAMPS).any()
    return max(offered - _TIMESTAMPS_BYTES * bool(stamped), 1)


def _delays(
    transfer: Transfer,
    sends: Sends,
    answers: Answers,
    segments: WireSegments | None,
    handshake_ns: int | None,
    full: int,
) -> tuple[DelaySamples, int | None]:
    """Return the delay samples, and the shortest round trip among them in ns (None without samples).

    With both captures and related clocks the delay is the one-way delay of each segment, else its round trip.
    """
    one_way = None if segments is None else _one_way(transfer, sends, segments)
    if one_way is None:
        return _round_trips(transfer, answers, sends, handshake_ns, full)
    analysis, connection = transfer.at_sender.capture.analysis, transfer.at_sender.connection
    shortest = analysis.shortest_rtt_ns(connection, reverse=bool(transfer.reverse))
    if max(int(one_way.place[0]), len(sends) - 1 - int(one_way.place[-1])) < _ENOUGH:
        return one_way, shortest
    round_trips, _ = _round_trips(transfer, answers, sends, handshake_ns, full)
    of_sends = np.isin(round_trips.time_ns, sends.time_ns) & (round_trips.place < len(sends))  # not of probes
    return _completed(one_way, round_trips.where(of_sends)), shortest


def _one_way(transfer: Transfer, sends: Sends, segments: WireSegments) -> DelaySamples | None:
    """Return the one-way delay of each segment in both captures; None without one."""
    pairs, time, came = transfer.data_pairs, transfer.time_ns, transfer.came_ns
    known = indexes(segments.closes & np.isin(segments.row, sends.row))
    if pairs is None or transfer.receiver is None or not len(known):
        return None
    row = segments.row[known]
    # the least way of what came through before the first data
    both = (pairs.table["outcome"] == PacketOutcome.MATCHED) & (pairs.sent != NA)
    both &= (pairs.arrived != NA) & (pairs.sent < sends.row[0])
    early = came[pairs.arrived[both]] - time[pairs.sent[both]]
    unloaded_ns = int(early.min()) if len(early) else None
    way = came[segments.arrived[known]] - time[row]
    return DelaySamples(time[row], way, places(sends.row, row), unloaded_ns)


def _completed(one_way: DelaySamples, round_trips: DelaySamples) -> DelaySamples:
    """Return one-way delays, and round trips for what was sent before and after these.

    The receiver's capture began late or ended early. The constant between both is that of the segments that have both.
    """
    _, mine, theirs = np.intersect1d(one_way.place, round_trips.place, return_indices=True)
    if not len(mine):
        return one_way
    shift_ns = int(np.median(round_trips.way_ns[theirs] - one_way.way_ns[mine]))
    before, after = round_trips.place < one_way.place[0], round_trips.place > one_way.place[-1]
    parts = [round_trips.where(before), one_way, round_trips.where(after)]
    way = [part.way_ns - (0 if part is one_way else shift_ns) for part in parts]
    return DelaySamples(
        np.concatenate([part.time_ns for part in parts]),
        np.concatenate(way),
        np.concatenate([part.place for part in parts]),
        one_way.unloaded_ns,
    )


def _round_trips(
    transfer: Transfer, answers: Answers, sends: Sends, handshake_ns: int | None, full: int
) -> tuple[DelaySamples, int | None]:
    """Return the round trip of each segment less what its ACK took, and the shortest round trip."""
    analysis, connection = transfer.at_sender.capture.analysis, transfer.at_sender.connection
    time = transfer.time_ns
    samples = analysis.rtt_samples(connection)
    mine = indexes((samples["reverse"] == transfer.reverse) & (samples["rtt_ns"] > 0))
    rtt = samples["rtt_ns"][mine]
    shortest = int(rtt.min()) if len(rtt) else None
    row, answer = samples["row"][mine], samples["answer_row"][mine]
    order = np.lexsort((samples["provenance"][mine] == Provenance.TIMESTAMP, answer))
    keep = order[np.concatenate([[True], np.diff(answer[order]) > 0])] if len(order) else order
    row, answer, rtt = row[keep], answer[keep], rtt[keep]
    held_ns = _held_back_ns(transfer, row, answer, full)
    short = held_ns <= _SHORTLY_NS
    if np.count_nonzero(short) >= max(_ENOUGH, _ENOUGH_PART * len(short)):
        row, answer, rtt, held_ns = row[short], answer[short], rtt[short], held_ns[short]
    return_ns = np.zeros(len(transfer.sender), dtype=np.int64)
    return_ns[answers.row] = answers.lag_ns
    forward = rtt - return_ns[answer]
    way = np.maximum(forward - held_ns, forward.min() if len(forward) else 0)
    sent = time[row]
    in_order = np.argsort(sent, kind="stable")
    place = places(sends.row, row[in_order])
    return DelaySamples(sent[in_order], way[in_order], place, handshake_ns), shortest


def _held_back_ns(transfer: Transfer, row: Array, answer: Array, full: int) -> Array:
    """Return for each ACK how long the receiver may have delayed it (delayed ACK): int64, ns.

    It is above 0 only for an ACK that covers at most one segment of `full` bytes, since more data are acknowledged at
    once (RFC 9293, section 3.8.6.3). So the ACK of a full segment waits at most until the next segment arrives.
    """
    table = transfer.sender
    acks = transfer.acks[table["ack_bytes"][transfer.acks] != NA]
    if not len(acks):
        return np.zeros(len(row), dtype=np.int64)
    covered = np.maximum.accumulate(table["ack_bytes"][acks])
    at = places(acks, answer)
    before = np.where(at > 0, covered[np.maximum(at - 1, 0)], 0)
    covers = extended(covered, 0)[at] - before
    is_sack = has(table["kind"][answer], SegmentKind.SACK)
    lone = (table["seq_bytes"][row] <= before) & (covers <= full) & ~is_sack
    following = np.minimum(places(transfer.data, row, "right"), len(transfer.data) - 1)
    apart_ns = table["time_ns"][transfer.data[following]] - table["time_ns"][row]
    apart_ns[(transfer.data[following] <= row) | (covers < full)] = _DELAYED_ACK_NS
    return np.where(lone, np.minimum(np.maximum(apart_ns, 0), _DELAYED_ACK_NS), 0)
