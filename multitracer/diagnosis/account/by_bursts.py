"""The account of a link that logs bursts instead of slots: CDPD's contended channel, Bluetooth's piconet.

Rules of the file, which apply the rules of the account to such a log
---------------------------------------------------------------------
1. The time between `outage_started` and `outage_ended` is `outage`, whatever is sent in it.
2. A burst is divided among the chunks of packets that it carried, in proportion to their duration. The packet
   of a chunk gives its class: `useful`, `redundant`, `wasted`, `handshake` or `other`. The class is `arq` for
   a chunk that the data link sends again, and for the first block of a burst that follows a failed burst.
   Bursts without a chunk (the data link's own frames) are `other`.
3. While a packet waits and nothing is sent, the class is `access` if the host waits for its turn on the
channel.
   Otherwise it is `arq`: the data link waits for an answer, or for its window.
4. A gap takes the class of the segment that ended it, as in every account.

Data that the link carried, and that the receiver's capture does not contain, were lost after the link:
`wasted`.

Reasons for this order: outages come first because data sent in an outage are not delivered, whatever the log
shows. A burst has no fixed place for a packet, so its time is divided in proportion to the chunks. Time
without a burst has two reasons with different remedies: a busy channel (`access`: the cell) and a slow or
repeated answer (`arq`: the radio); the log shows which of the two a host waited for. The rest are idle gaps
of TCP itself, and the segment that ended a gap shows what TCP waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct, places
from multitracer.analysis.ranges import first_covered, merged, spread, within
from multitracer.analysis.two_points import PacketOutcome
from multitracer.analysis.verdicts import RetransmissionCause
from multitracer.diagnosis.account.by_slots import opens_or_closes
from multitracer.diagnosis.account.uses import Use, UseCause, Uses, idle
from multitracer.diagnosis.packets.sender_view import SenderView
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from multitracer.recording.hosts import LinkSide
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Document, Table

_FAILED = ("collision", "undecoded")
_KEY_BITS = 32  # a sequence number fits


class _Spans(NamedTuple):
    """Disjoint intervals of recorded time since the transfer began, in order, with the log row of each.

    Begin and end are int64, ns, `row` is int64 (of near.events); all have shape (n,).
    """

    begin: Array
    end: Array
    row: Array

    def at(self, places: Array) -> Array:
        """Return the row of the interval that contains each time (int64, ns); NA if there is none."""
        return np.append(self.row, NA)[within(places, self.begin, self.end)]


def by_bursts(transfer: Transfer) -> Table:
    """Return LINK_USE of a transfer whose link log has bursts.

    The log is that of the host that sends the data.
    """
    near, begin_ns = transfer.near, transfer.begin_ns
    assert near is not None
    burst_log = _BurstLog(transfer, near)
    limit = transfer.end_ns - begin_ns
    edges = [0, limit, *(edge for spans in burst_log.spans for edge in (*spans.begin, *spans.end))]
    places = distinct(np.clip(np.array(edges, dtype=np.int64), 0, limit))
    begin, end = places[:-1], places[1:]
    outage, burst, queued, wait = (spans.at(begin) for spans in burst_log.spans)
    is_out, is_sent = outage != NA, (burst != NA) & (outage == NA)
    waiting = (queued != NA) & ~is_out & ~is_sent
    per_ns = transfer.speed / NS_PER_S
    out = Uses.of(begin, end, Use.OUTAGE, (end - begin) * per_ns, cause=UseCause.RADIO, source="near.events",
                  row=outage).where(is_out)  # fmt: skip
    queue = Uses.of(
        begin, end, np.where(wait != NA, Use.ACCESS, Use.ARQ), (end - begin) * per_ns,
        source="near.events", row=np.where(wait != NA, wait, queued),
    ).where(waiting)  # fmt: skip
    sent = burst_log.carried(begin[is_sent], end[is_sent], burst[is_sent], per_ns)
    silent = ~is_out & ~is_sent & ~waiting
    rest = burst_log.gaps(begin[silent], end[silent], per_ns)
    parts = [part.runs() for part in (out, sent, queue, rest)]
    return Uses.together(parts).table(lambda at: begin_ns + np.rint(at).astype(np.int64))


class _BurstLog:
    """The bursts, chunks, waits and outages in the link log of one host.

    Attributes
    ----------
    spans : (outages, bursts, backlog, waits)
        The `_Spans` of each; `row` is the row in near.events.
    """

    def __init__(self, transfer: Transfer, near: LinkSide) -> None:
        self._transfer = transfer
        events = near.events
        time = events["time_ns"] - transfer.begin_ns
        lasted = np.maximum(events["air_us"], 0) * NS_PER_US / transfer.speed
        self._sent = near.rows("burst_sent")
        self._chunk = near.rows("piece_sent")
        self._began = np.rint(time - lasted).astype(np.int64)
        self._time, self._near = time, near
        bursts = _disjoint(self._began[self._sent], time[self._sent], self._sent)
        outages = _paired(near, time, "outage_started", "outage_ended")
        waits = _paired(near, time, "access_wait_started", "access_wait_ended")
        self.spans = outages, bursts, self._backlog(), waits

    def _backlog(self) -> _Spans:
        """Return the intervals in which a packet waited for the link or was being sent.

        Each lasts from the entry of the packet to the end of its last chunk. Chunks that are sent again
        count: the data link was still busy with the packet.
        """
        events, queued = self._near.events, self._near.rows("packet_queued")
        keys, chunks = _key(events, queued), _key(events, self._chunk)
        order = np.argsort(chunks, kind="stable")
        last = np.searchsorted(chunks[order], keys, side="right") - 1
        has_chunk = (last >= 0) & (np.append(chunks[order], NA)[last] == keys)
        begin = self._time[queued]
        end = np.where(has_chunk, np.append(self._time[self._chunk[order]], NA)[last], begin)
        return _disjoint(begin, np.maximum(end, begin), queued)

    def carried(self, begin: Array, end: Array, burst: Array, per_ns: float) -> Uses:
        """Return the uses of the link while it sent bursts.

        Begin and end (ns since the transfer began) and `burst` (row of the burst in near.events) are int64,
        shape (n,), for each part of a burst; `per_ns` is link time in seconds per recorded ns.
        """
        events, chunk = self._near.events, self._chunk
        from_ns, until_ns = self._began[chunk], self._time[chunk]
        first = np.searchsorted(np.maximum.accumulate(until_ns), begin, side="right")
        behind = np.searchsorted(np.minimum.accumulate(from_ns[::-1])[::-1], end, side="left")
        stretch, which = spread(first, np.maximum(behind, first))
        shared = np.minimum(end[stretch], until_ns[which]) - np.maximum(begin[stretch], from_ns[which])
        kept = shared > 0
        stretch, which, shared = stretch[kept], which[kept], shared[kept].astype(np.float64)
        total = np.bincount(stretch, shared, minlength=len(begin))
        seconds = shared / total[stretch] * (end - begin)[stretch] * per_ns
        empty = np.flatnonzero(total == 0)
        own = Uses.of(
            begin[empty], end[empty], Use.OTHER, (end - begin)[empty] * per_ns,
            source="near.events", row=burst[empty],
        )  # fmt: skip
        again = self._repeated_share(burst[stretch])
        again[events["attempts"][chunk[which]] > 1] = 1.0
        spans = begin[stretch], end[stretch]
        return Uses.together([own, *self._of_chunks(spans, which, seconds, again)])

    def gaps(self, begin: Array, end: Array, per_ns: float) -> Uses:
        """Return the uses of the link while nothing was sent and no packet waited.

        Begin and end are int64, shape (n,), ascending; `per_ns` is as in `carried`.
        """
        if not len(begin):
            return Uses.of(begin, end, Use.UNKNOWN, begin.astype(np.float64))
        opens = np.ones(len(begin), dtype=bool)
        opens[1:] = begin[1:] > end[:-1]
        begin, end = begin[opens], end[np.append(np.flatnonzero(opens)[1:], len(end)) - 1]
        queued = self._near.rows("packet_queued")
        segment = _next_occupying(self._transfer, self._segments(queued))
        occupies = segment == self._segments(queued)
        entries = np.flatnonzero(occupies & (segment != NA))
        place = np.searchsorted(self._time[queued[entries]], begin)
        ender = np.append(segment[entries], NA)[place]
        why = idle(SenderView(self._transfer), self._transfer.begin_ns + begin, ender)
        before = np.searchsorted(self._time[self._sent], begin, side="right") - 1
        row = np.where(before < 0, NA, self._sent[np.maximum(before, 0)])
        return Uses.of(
            begin, end, why.use, (end - begin) * per_ns, cause=why.cause, back_off=why.back_off,
            source="near.events", row=row, ended_row=ender,
        )  # fmt: skip

    def _repeated_share(self, burst: Array) -> Array:
        """Return the share of each burst, 0 to 1, that repeats a block of the failed burst before it."""
        cause, blocks = self._near.events["cause"][self._sent], self._near.events["blocks"][self._sent]
        failed = np.concatenate([[False], np.isin(cause[:-1], _FAILED)])
        part = np.where(failed, 1 / np.maximum(blocks, 1), 0.0)
        return np.asarray(part[np.searchsorted(self._sent, burst)])

    def _of_chunks(self, spans: tuple[Array, Array], which: Array, seconds: Array, again: Array) -> list[Uses]:
        """Return the uses of intervals in which chunks were sent, by the packet of each chunk."""
        transfer = self._transfer
        row = self._segments(self._chunk)[which]
        mine = row != NA
        rows = transfer.sent
        fresh, rest = _fresh(transfer, rows)
        cause = self._why_lost(rows, rest)
        at = np.searchsorted(rows, np.where(mine, row, rows[0]))
        payload = np.maximum(transfer.sender["payload_bytes"][rows], 1)
        new = np.where(mine, (fresh / payload)[at], 0.0)
        of_packet = np.bincount(at[mine], seconds[mine], minlength=len(rows))
        brought = np.where(mine, fresh[at] * seconds / np.maximum(of_packet[at], 1e-12), 0.0)
        facts: Document = {
            "source": np.where(mine, "sender", "near.events"),
            "row": np.where(mine, row, self._chunk[which]),
        }
        useful = Uses.of(*spans, Use.USEFUL, seconds * new * (1 - again), payload=brought, **facts)
        repeated = Uses.of(*spans, Use.ARQ, seconds * new * again, **facts)
        kind = np.where(mine, rest[at], Use.OTHER)
        other = Uses.of(*spans, kind, seconds * (1 - new), cause=np.where(mine, cause[at], 0), **facts)
        kept = useful.where((useful.seconds > 0) | (useful.payload > 0))
        return [kept, *(each.where(each.seconds > 0) for each in (repeated, other))]

    def _why_lost(self, rows: Array, rest: Array) -> Array:
        """Return the cause (`UseCause`) for each packet that the link carried and the receiver did not get.

        The far log shows losses after the link; other packets were lost when the data link was set up again.
        """
        far, table = self._transfer.far, self._transfer.sender
        behind = np.zeros(len(rows), dtype=bool)
        if far is not None:
            lost = far.rows("packet_dropped")
            lost = lost[far.events["cause"][lost] == "network"]
            behind = np.isin(_of_segments(table, rows), _key(far.events, lost))
        flushed = len(self._near.rows("flushed")) > 0
        why = np.where(behind, UseCause.NETWORK, UseCause.RESET if flushed else UseCause.NONE)
        return np.where(rest == Use.WASTED, why, UseCause.NONE)

    def _segments(self, events: Array) -> Array:
        """Return the row of `sender` (the sender's TCP_SEGMENTS) for the packet of each event.

        It is NA for packets of other flows.
        """
        table, sent = self._transfer.sender, self._transfer.sent
        keys = _of_segments(table, sent)
        order = np.argsort(keys, kind="stable")
        wanted = _key(self._near.events, events)
        place = np.searchsorted(keys[order], wanted)
        has_segment = np.append(keys[order], NA)[place] == wanted
        return np.where(has_segment, np.append(sent[order], NA)[place], NA)


def _key(events: Table, rows: Array) -> Array:
    """Return an int64 number that identifies the packet of each event; below -1 without identification."""
    ip_id, seq = events["ip_id"][rows], events["seq"][rows]
    return np.where((ip_id == NA) | (seq == NA), -2 - rows, (ip_id << _KEY_BITS) | np.maximum(seq, 0))


def _of_segments(table: Table, rows: Array) -> Array:
    """Return the number that identifies each segment, as `_key` does for events: int64."""
    return np.asarray(table["ip_id"][rows].astype(np.int64) << _KEY_BITS | table["seq"][rows])


def _paired(near: LinkSide, time: Array, opens: str, closes: str) -> _Spans:
    """Return the intervals from each event of kind `opens` to the next one of kind `closes`.

    Without an end event, the interval lasts to the end of the log.
    """
    started, over = near.rows(opens), near.rows(closes)
    until = np.append(time[over], time.max(initial=0))[np.searchsorted(over, started)]
    return _disjoint(time[started], np.maximum(until, time[started]), started)


def _disjoint(begin: Array, end: Array, row: Array) -> _Spans:
    """Return the union of intervals as disjoint intervals, each with a row.

    The row is that of the first interval that covers its begin.
    """
    order = np.argsort(begin, kind="stable")
    left, right = merged(begin, end)
    first = np.searchsorted(begin[order], left)
    return _Spans(left, right, row[order][first])


def _fresh(transfer: Transfer, rows: Array) -> tuple[Array, Array]:
    """Return the bytes that each segment delivered for the first time, and the use of its other bytes.

    The receiver's capture decides; without it, we assume that the last copy of each byte arrived.

    Parameters
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Rows of `sender` in the data direction, ascending.

    Returns
    -------
    fresh, rest : ndarray, shape of `rows`
        Bytes (int64, at least 0), and a `Use`.
    """
    table, seen = transfer.sender, _seen(transfer, rows)
    payload = table["payload_bytes"][rows].astype(np.int64)
    begin = table["end_bytes"][rows] - payload
    fresh = np.zeros(len(rows), dtype=np.int64)
    arrived = transfer.data_pairs is not None
    came = np.flatnonzero((payload > 0) & ((seen != NOT_A_TIME) | (not arrived)))
    order = came if arrived else came[::-1]
    fresh[order] = first_covered(begin[order], begin[order] + payload[order])
    fresh[begin + payload > int(table["ack_bytes"][transfer.acks].max(initial=0))] = 0
    rest = np.where(payload > 0, Use.REDUNDANT, Use.OTHER).astype(np.uint8)
    if arrived:
        rest[(payload > 0) & (seen == NOT_A_TIME)] = Use.WASTED
    control = np.flatnonzero(payload == 0)
    rest[control[opens_or_closes(transfer, rows[control])]] = Use.HANDSHAKE
    return fresh, rest


def _seen(transfer: Transfer, rows: Array) -> Array:
    """Return when each segment arrived, by the sender's clock, in ns.

    If its arrival was not captured, it is the arrival time of its ACK; NOT_A_TIME without both.
    """
    pairs = transfer.data_pairs
    if pairs is not None and (pairs.table["outcome"] == PacketOutcome.MATCHED).any():
        arrived = np.full(len(transfer.sender), NOT_A_TIME, dtype=np.int64)
        both = np.flatnonzero((pairs.sent != NA) & (pairs.arrived != NA))
        arrived[pairs.sent[both]] = transfer.came_ns[pairs.arrived[both]]
        return arrived[rows]
    return _acknowledged(transfer, rows)


def _acknowledged(transfer: Transfer, rows: Array) -> Array:
    """Return the arrival time of the ACK of each segment, in ns; NOT_A_TIME if that ACK is ambiguous.

    It is ambiguous for retransmitted segments. An ACK of a segment after a hole shows when the hole was
    filled, not when the segment arrived. An ACK that a timer's retransmission may have caused is ambiguous
    too: the first copy may have been lost.
    """
    rtt, time = transfer.sender["rtt_ns"][rows], transfer.sender["time_ns"]
    known = rtt >= 0  # one that is negative is the clock's fault
    verdicts = transfer.verdicts
    by_timer = np.isin(verdicts["cause"], (RetransmissionCause.TIMEOUT, RetransmissionCause.TAIL_LOSS_PROBE))
    timers = np.append(np.sort(time[verdicts["row"][by_timer]]), np.iinfo(np.int64).max)
    soonest = int(rtt[known].min()) if known.any() else 0
    came = time[rows] + np.where(known, rtt, 0)
    known &= timers[np.searchsorted(timers[:-1], time[rows], side="right")] > came - soonest
    return np.where(known, came, NOT_A_TIME)


def _next_occupying(transfer: Transfer, rows: Array) -> Array:
    """Return for each row the first row at or after it that occupies sequence numbers; NA without one.

    Parameters
    ----------
    transfer : Transfer
    rows : ndarray of int64, shape (n,)
        Rows of `sender`, or NA.

    Returns
    -------
    ndarray of int64, shape of `rows`
    """
    at = places(transfer.occupying, np.where(rows == NA, len(transfer.sender), rows))
    return np.append(transfer.occupying, NA)[at]
