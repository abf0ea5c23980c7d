"""The account of a link that logs slots, with packets and frames joined: four rules, applied in order.

Each rule classifies time that the earlier rules left, and returns `Uses`. Time is counted in slots, by the
numbers in the log: a slot that a busy machine served late still counts as one slot. Slot n covers n to n + 1.

1. Time in which the link delivered nothing, with the reason: outages.
2. Slots that carry a data frame, divided among the packets in the frame. The `useful` slot of a byte is its
first
   transmission outside an outage; later ones are `arq`. Payload that the receiver already had is `redundant`.
   Payload that never reached the receiving TCP intact is `wasted`, however often the link sent it. Framing
   and headers take the class of their segment.
3. Time in which packets waited for the link, or the far end had stopped it. The queue is tracked from the
begin
   of the log, before the SYN. A packet waits from the slot after it entered the interface queue until the
   first transmission of its last octet, or until a reset flushes it.
4. The remaining time: nothing was sent and nothing waited. A gap is classified by the segment that ended it
   (`uses.idle`). The wait for a retransmission begins with the event on the link that lost the earlier copy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.analysis.ranges import merged, within
from multitracer.captured import Flag
from multitracer.diagnosis.account.uses import Use, UseCause, Uses, idle
from multitracer.diagnosis.packets.sender_view import SenderView
from multitracer.recording.join import Fate
from multitracer.tables import NA
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from multitracer.recording.hosts import LinkSide
    from multitracer.recording.join import Join, Joinable, StreamDelivery
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Table


def measured(transfer: Transfer, joined: Join) -> Table:
    """Return LINK_USE of a transfer whose link log has slots.

    The log is that of the host that sends the data.
    """
    time = LinkTime(transfer)
    begin, end = time.ticks(np.array([transfer.begin_ns, transfer.end_ns])).tolist()
    out = outages(transfer, joined.delivery)
    idle_gap = IdleGap(joined, time, begin, end, out)
    is_out = idle_gap.outage >= 0
    which = idle_gap.outage[is_out]
    facts = {"cause": out.cause[which], "source": out.source[which], "row": out.row[which]}
    dead = idle_gap.uses(np.flatnonzero(is_out), Use.OUTAGE, **facts)
    waiting = np.flatnonzero(idle_gap.queued & ~is_out & idle_gap.is_logged)
    is_stopped = idle_gap.stop[waiting] != NA
    queued = idle_gap.uses(
        waiting,
        np.where(idle_gap.unnumbered[waiting], Use.OTHER, np.where(is_stopped, Use.XOFF, Use.ARQ)),
        source=np.where(is_stopped, "near.events", "near.frames"),
        row=np.where(is_stopped, idle_gap.stop[waiting], idle_gap.frame[waiting]),
    )
    unlogged = idle_gap.uses(np.flatnonzero(~idle_gap.is_logged & ~is_out), Use.UNKNOWN)
    rules = (dead, carried(joined, time, begin, end, out), queued, gaps(transfer, idle_gap), unlogged)
    return Uses.together([part.runs() for part in rules]).table(time.stamps)


class LinkTime:
    """Converts time stamps to slots and back, by linear interpolation between logged slots.

    Attributes
    ----------
    tick : ndarray of float64
        Numbers of logged slots, ascending.
    stamp_ns : ndarray of int64
        When each slot began.
    slot_s : float
        Link time of a slot.
    real_slot_ns : float
        Recorded time of a slot: `slot_s` / speed.
    """

    def __init__(self, transfer: Transfer) -> None:
        assert transfer.near is not None
        frames = transfer.near.frames
        rows = np.flatnonzero(frames["tick"] != NA)
        tick, first = np.unique(frames["tick"][rows], return_index=True)
        self.tick = tick.astype(np.float64)
        self.stamp_ns = np.maximum.accumulate(frames["time_ns"][rows[first]])
        self.slot_s, self.real_slot_ns = transfer.slot_ns / 1e9, transfer.slot_ns / transfer.speed

    def ticks(self, stamps_ns: Array | int) -> Array:
        """Return time stamps as fractional slot numbers (float64)."""
        stamps = np.asarray(stamps_ns, dtype=np.int64)
        origin = self.stamp_ns[0]
        inside = np.interp((stamps - origin).astype(np.float64), self.stamp_ns - origin, self.tick)
        before = np.minimum(stamps - origin, 0) / self.real_slot_ns
        after = np.maximum(stamps - self.stamp_ns[-1], 0) / self.real_slot_ns
        result: Array = inside + before + after
        return result

    def stamps(self, ticks: Array) -> Array:
        """Return fractional slot numbers as time stamps (int64, ns)."""
        places = np.asarray(ticks, dtype=np.float64)
        origin = self.stamp_ns[0]
        inside = np.interp(places, self.tick, (self.stamp_ns - origin).astype(np.float64))
        before = np.minimum(places - self.tick[0], 0) * self.real_slot_ns
        after = np.maximum(places - self.tick[-1], 0) * self.real_slot_ns
        result: Array = origin + np.rint(inside + before + after).astype(np.int64)
        return result


_AROUND_SLOTS = 2
"""Slots that a frame and its answer take in addition to twice the delay of the link."""


class SlotOutages(NamedTuple):
    """Disjoint intervals of slots [begin, end) in which the link delivered nothing; slots of the near end."""

    begin: Array
    end: Array
    cause: Array
    """UseCause.RESET or UseCause.RADIO."""
    source: Array
    """Name of the transfer's table that shows the start of each outage."""
    row: Array
    """Row in that table."""


def outages(transfer: Transfer, delivery: StreamDelivery | None) -> SlotOutages:
    """Return the outages of the link: resets, and fades in which all frames were lost.

    A fade that leads to a reset ends where the reset begins. Frames that reach the far end during its reset
    were sent one link delay earlier.
    """
    assert transfer.near is not None
    near = resets(transfer.near, "near.events")
    if delivery is None:
        return near
    far, pipe = resets(delivery.far, "far.events"), delivery.pipe_slots
    every = _sorted(near, far._replace(begin=far.begin - pipe, end=far.end - pipe))
    begin, end = merged(every.begin, every.end)
    first = np.searchsorted(every.begin, begin)  # each reset begins with what tells of it first
    reset = SlotOutages(begin, end, every.cause[first], every.source[first], every.row[first])
    return _sorted(reset, _fades(delivery, reset))


def resets(side: LinkSide, source: str) -> SlotOutages:
    """Return the resets that one side of the link logged, from first to last message, in its slots.

    Several starts before one end are one reset; a reset without end lasts to the end of the log.
    """
    started, done = side.rows("reset_started"), side.rows("reset_done", "call_dropped", "disconnected")
    tick = side.events["tick"]
    opens = np.searchsorted(done, started)
    _, first = np.unique(opens, return_index=True)  # the first start before each end
    started, opens = started[first], opens[first]
    ends = np.append(tick[done], max(int(tick.max(initial=0)), int(side.frames["tick"].max(initial=0))) + 1)
    begin = tick[started] + 1  # what a slot brought about holds from the next on
    return SlotOutages(
        begin,
        np.maximum(ends[opens] + 1, begin),
        np.full(len(started), UseCause.RESET, dtype=np.uint8),
        np.full(len(started), source),
        started,
    )


def reset_episodes(side: LinkSide, *, slot_ns: int) -> list[Array]:
    """Return the resets of one end, as numbered by `resets`, grouped into episodes.

    Returns
    -------
    list of ndarray of int64, each of shape (n_resets_of_episode,)

    Notes
    -----
    When both ends give up a frame, one asks for a reset before the request of the other end arrives. That
    request arrives after the first reset, or is sent again every T1 until it is answered (3GPP TS 24.022). So
    a reset that the peer requests within T1 after the last one belongs to the same episode.
    """
    episodes = resets(side, "")
    t1_ms = str(side.facts.get("t1_ms", ""))
    t1_slots = int(t1_ms) * NS_PER_MS // slot_ns if t1_ms.isdecimal() else 0
    by_peer = side.events["cause"][episodes.row] == "peer"
    soon = episodes.begin[1:] - episodes.end[:-1] <= t1_slots + _AROUND_SLOTS
    opens = np.flatnonzero(~(by_peer[1:] & soon)) + 1
    return [each for each in np.split(np.arange(len(episodes.row)), opens) if len(each)]


def _fades(delivery: StreamDelivery, reset: SlotOutages) -> SlotOutages:
    """Return the intervals in which all frames to the far end were lost, without the resets.

    An interval must be at least a link round trip long.
    """
    frames = delivery.far.frames
    got = np.flatnonzero(~frames["sent"] & (frames["tick"] != NA))
    lost = got[~frames["fcs_ok"][got]]
    tick = frames["tick"][lost]
    opens = np.flatnonzero(np.diff(tick, prepend=-2) != 1)
    last = np.append(opens[1:], len(tick))[: len(opens)] - 1
    long_enough = tick[last] - tick[opens] + 1 >= 2 * delivery.pipe_slots + _AROUND_SLOTS
    begins = tick[opens[long_enough]] - delivery.pipe_slots
    ends = tick[last[long_enough]] - delivery.pipe_slots + 1
    parts = []
    for begin, end, row in zip(begins, ends, lost[opens[long_enough]], strict=True):
        edges = [begin, *reset.begin[(reset.begin > begin) & (reset.begin < end)]]
        edges += [*reset.end[(reset.end > begin) & (reset.end < end)], end]
        edges.sort()
        for left, right in pairwise(edges):
            if within(np.array([left]), reset.begin, reset.end)[0] < 0:
                parts.append((left, right, row))
    left, right, rows = np.array(parts, dtype=np.int64).reshape(-1, 3).T
    cause = np.full(len(rows), UseCause.RADIO, dtype=np.uint8)
    return SlotOutages(left, right, cause, np.full(len(rows), "far.frames"), rows)


def _sorted(*parts: SlotOutages) -> SlotOutages:
    """Return the concatenated outages, in order of their start."""
    together = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    order = np.argsort(together[0], kind="stable")
    return SlotOutages(*(column[order] for column in together))


_REST = {
    Fate.DELIVERED: (Use.REDUNDANT, UseCause.NONE),
    Fate.UNKNOWN: (Use.REDUNDANT, UseCause.NONE),
    Fate.DAMAGED: (Use.WASTED, UseCause.DECOMPRESSOR),
    Fate.TOSSED: (Use.WASTED, UseCause.DECOMPRESSOR),
    Fate.BROKEN: (Use.WASTED, UseCause.RESET),
    Fate.REFUSED: (Use.WASTED, UseCause.REFUSED),
    Fate.QUEUED: (Use.WASTED, UseCause.UNFINISHED),
}
"""The class and cause of payload that its receiver did not get first from this carriage, by fate."""


def carried(joined: Join, time: LinkTime, begin: float, end: float, out: SlotOutages) -> Uses:
    """Return the uses of those slots between `begin` and `end` that carry data frames.

    `out` are the outages of the link.
    """
    assert joined.transfer.near is not None
    frames, chunks, carriages = joined.transfer.near.frames, joined.chunks, joined.carriages
    tick = frames["tick"][chunks["frame_row"]]
    part = np.clip(np.minimum(tick + 1, end) - np.maximum(tick, begin), 0, 1)
    kept = np.flatnonzero((part > 0) & (within(tick, out.begin, out.end) < 0))
    carriage, frame, tick = chunks["carriage"][kept], chunks["frame_row"][kept], tick[kept]
    seconds = chunks["share"][kept] * part[kept] * time.slot_s
    spans = tick.astype(np.float64), tick + 1.0

    # what tells of each: the segment that it carries, or of another flow the packet
    segment = carriages["segment_row"]
    is_ours = segment[carriage] != NA
    source = np.where(is_ours, "sender", "near.events")
    row = np.where(is_ours, segment[carriage], carriages["event_row"][carriage])

    # new payload, by the first transmission of each frame
    fresh = (carriages["new_bytes"] / np.maximum(carriages["payload_bytes"], 1))[carriage]
    delivered = carriages["new_bytes"][carriage] * chunks["bytes"][kept] / carriages["wire_bytes"][carriage]
    first = np.isin(frame, frame[np.unique(frames["offset_bytes"][frame], return_index=True)[1]])
    new = Uses.of(
        *spans,
        np.where(first, Use.USEFUL, Use.ARQ),
        seconds * fresh,
        source=np.where(first, source, "near.frames"),
        row=np.where(first, row, frame),
        payload=np.where(first, delivered, 0.0),
    )

    # all else, by what became of the packet
    rest, cause = (np.zeros(len(segment), dtype=np.uint8) for _ in range(2))
    for fate, (its_use, its_cause) in _REST.items():
        rest[carriages["fate"] == fate], cause[carriages["fate"] == fate] = its_use, its_cause
    control = np.flatnonzero(carriages["payload_bytes"] == 0)
    rest[control], cause[control] = Use.OTHER, UseCause.NONE
    mine = control[segment[control] != NA]
    rest[mine[opens_or_closes(joined.transfer, segment[mine])]] = Use.HANDSHAKE
    old = Uses.of(*spans, rest[carriage], seconds * (1 - fresh), cause=cause[carriage], source=source, row=row)
    return Uses.together([part.where(part.seconds > 0).runs() for part in (new, old)])


def opens_or_closes(transfer: Joinable, rows: Array) -> Array:
    """Return which segments without payload are a SYN, a FIN, or the last ACK of the handshake.

    Parameters
    ----------
    transfer : Joinable
    rows : ndarray of int64, shape (n,)
        Rows of `sender`.

    Returns
    -------
    ndarray of bool, shape of `rows`
    """
    flags = transfer.sender["flags"]
    marked: Array = (flags[rows] & np.uint16(Flag.SYN | Flag.FIN)) != 0
    syn_acks = transfer.acks[(flags[transfer.acks] & np.uint16(Flag.SYN)) != 0]
    if not transfer.reverse and len(syn_acks):
        answers = transfer.sent[transfer.sent > syn_acks[0]]
        marked |= rows == (answers[0] if len(answers) else NA)
    return marked


_UNLOGGED_SLOTS = 5
"""Minimum distance in slots between a segment and the log from which on the log counts as truncated."""


class IdleGap:
    """The intervals of slots in which no data frame was sent, or only an unneeded one.

    Attributes
    ----------
    begin, end : ndarray of float64
        The intervals, in order; all other attributes are constant within one.
    outage : ndarray of int64
        Index of the outage that contains each interval, -1 for none.
    is_logged : ndarray of bool
        Whether the link log covers it.
    queued : ndarray of bool
        Whether a packet waited.
    stop : ndarray of int64
        Row in near.events of the XOFF in force, NA if there was none.
    unnumbered : ndarray of bool
        Whether a UI frame was sent, which carries no TCP (`error_control = "by-protocol"`), or one slot before: that
        slot is left for acknowledgments.
    read : ndarray of bool
        Whether the far end was still reading data that the link had delivered.
    repeats : ndarray of bool
        Whether the next data frame is a repetition.
    frame : ndarray of int64
        Row in near.frames of the last data frame before, NA before the first.
    entry_row, entry_tick : ndarray of int64
        Segments of the transfer that occupy sequence space, in order of sending: the row of `sender`, and the
        slot in which each was passed to the link (ascending); the link may carry it from the next slot on.
    refused : ndarray of int64
        Slots at which the interface queue dropped an arriving segment, so that a gap continues after it.
    """

    def __init__(self, joined: Join, time: LinkTime, begin: float, end: float, out: SlotOutages) -> None:
        near, table, sent = joined.transfer.near, joined.transfer.sender, joined.transfer.sent
        assert near is not None
        self.joined, self.time = joined, time

        # when TCP handed over what; what the link never logged stands where its capture says
        self.entry_row = sent[table["end_bytes"][sent] > table["seq_bytes"][sent]]
        carriage = joined.carriage_of[self.entry_row]
        handed = np.floor(time.ticks(table["time_ns"][self.entry_row])).astype(np.int64)
        queued = joined.carriages["queued_tick"][carriage] if len(joined.carriages) else carriage
        known = (carriage != NA) & (queued != NA)
        handed[known] = queued[known]
        self.entry_tick, self.refused = np.maximum.accumulate(handed), handed[carriage == NA] + 1

        # the log covers all unless TCP sent something beyond its ends: idle frames are not logged
        ticks = np.concatenate([each["tick"][each["tick"] != NA] for each in (near.frames, near.events)])
        first, last = float(ticks.min()), float(ticks.max()) + 1
        since = first if (self.entry_tick < first - _UNLOGGED_SLOTS).any() else -np.inf
        until = last if (self.entry_tick > last + _UNLOGGED_SLOTS).any() else np.inf

        # the stretches, and what held in each
        data = np.flatnonzero(near.frames["sent"] & (near.frames["payload_bytes"] > 0))
        data = data[near.frames["tick"][data] != NA]
        tick = near.frames["tick"][data]
        queue, stop, reads = backlog(joined), stops(near), reading(joined)
        ui = near.frames["tick"][near.frames["sent"] & (near.frames["function"] == "UI")]
        ui = ui[ui != NA]
        edges = [tick, tick + 1, ui, ui + 2, out.begin, out.end, *queue, *stop[:2], reads[1], self.refused]
        inner = distinct(np.concatenate(edges)).astype(np.float64)
        places = np.concatenate([[begin], inner[(inner > begin) & (inner < end)], [end]])
        outage = within(places[:-1], out.begin, out.end)
        carries = within(places[:-1], *merged(tick, tick + 1)) >= 0
        silent = np.flatnonzero(~carries | (outage >= 0))
        self.begin, self.end, self.outage = places[silent], places[silent + 1], outage[silent]
        self.is_logged = (self.begin >= since) & (self.begin < until)
        self.queued = within(self.begin, *queue) >= 0
        self.unnumbered = within(self.begin, *merged(ui, ui + 2)) >= 0
        self.stop = np.append(stop[2], NA)[within(self.begin, *stop[:2])]
        before = np.searchsorted(reads[0], self.begin, side="right") - 1
        self.read = (before >= 0) & (self.begin < np.append(reads[1], NA)[before])
        after = np.searchsorted(tick, self.begin, side="left")
        self.repeats = np.append(near.frames["attempt"][data], 1)[after] > 1
        self.frame = np.where(after == 0, NA, np.append(data, NA)[after - 1])

    def uses(self, chosen: Array, use: Array | Use, **columns: ArrayLike) -> Uses:
        """Return uses for the chosen intervals."""
        begin, end = self.begin[chosen], self.end[chosen]
        return Uses.of(begin, end, use, (end - begin) * self.time.slot_s, **columns)


_FLUSHES = ("flushed", "call_dropped")
_STOPS = (("xoff_received", "xon_received"), ("peer_busy", "peer_ready"))
_CLEARS = ("reset_started", "reset_done", "call_dropped", "disconnected")
"""Events that end an XOFF without an XON."""


def backlog(joined: Join) -> tuple[Array, Array]:
    """Return the disjoint intervals of slots [begin, end) in which a packet of any flow waited.

    Returns
    -------
    begin, end : ndarray of int64, slots, shape (n_intervals,)
    """
    near, carriages = joined.transfer.near, joined.carriages
    assert near is not None
    queued, tick = near.rows("packet_queued"), near.events["tick"]
    log_end = max(int(tick.max(initial=0)), int(near.frames["tick"].max(initial=0))) + 1
    left = np.full(len(queued), log_end, dtype=np.int64)  # before it each had left the queue for good
    left[np.isin(queued, joined.dropped_from)] = 0
    mine = np.flatnonzero(carriages["queued_row"] != NA)
    first = near.frames["attempt"][joined.chunks["frame_row"]] == 1
    octets = np.bincount(joined.chunks["carriage"][first], joined.chunks["bytes"][first], minlength=len(carriages))
    flushes = near.rows(*_FLUSHES)
    flush_tick = np.append(tick[flushes] + 1, log_end)
    flushed = flush_tick[np.searchsorted(flushes, carriages["event_row"][mine])]
    complete = octets[mine] >= carriages["wire_bytes"][mine]
    place = np.searchsorted(queued, carriages["queued_row"][mine])
    left[place] = np.where(complete, carriages["sent_tick"][mine] + 1, flushed)
    begin = tick[queued] + 1
    return merged(begin, np.maximum(left, begin))


def stops(side: LinkSide) -> tuple[Array, Array, Array]:
    """Return the intervals in which the far end had stopped this end (XOFF), and the event of each.

    Returns
    -------
    begin, end, event : ndarray of int64, shape (n_stops,)
        Slots, and the row of the event in the log.
    """
    begins, ends, rows = [], [], []
    tick = side.events["tick"]
    for stop, go in _STOPS:
        started, over = side.rows(stop), side.rows(go, *_CLEARS)
        log_end = max(int(tick.max(initial=0)), int(side.frames["tick"].max(initial=0))) + 1
        until = np.append(tick[over] + 1, log_end)[np.searchsorted(over, started)]
        begins.append(tick[started] + 1)
        ends.append(until)
        rows.append(started)
    begin, end, row = (np.concatenate(parts) for parts in (begins, ends, rows))
    order = np.argsort(begin, kind="stable")
    left, right = merged(begin, end)
    return left, right, row[order][np.searchsorted(begin[order], left)]


def reading(joined: Join) -> tuple[Array, Array]:
    """Return two arrays of slots that show until when the far end was still reading delivered data.

    For each packet, `sent` is the slot by which all of it was sent, and `read` the slot until which the far end read
    it, in slots of this end. A far end that is slower than the link keeps reading from its buffer while the sender is
    idle. It is then the bottleneck, as it is when it sends XOFF. Both arrays are empty without the log of the far end.

    Returns
    -------
    sent, read : ndarray of int64, slots, shape (n_packets,), ascending
    """
    carriages, arrived = joined.carriages, joined.delivery
    mine = np.flatnonzero(carriages["arrived_tick"] != NA)
    if arrived is None or not len(mine):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    sent = carriages["last_tick"][mine] + 1
    read = carriages["arrived_tick"][mine] - arrived.pipe_slots + 1
    return np.maximum.accumulate(sent), np.maximum.accumulate(read)


def gaps(transfer: Transfer, idle_gap: IdleGap) -> Uses:
    """Return the uses of the intervals in which no data frame was sent.

    A wait for a retransmission begins with the event that lost the earlier copy, if the link log shows it;
    other waits begin with the last frame that was sent. If TCP could have sent, but the far end had stopped
    the link or was still reading, the transfer waited for the far end. If a repeated frame ends the interval,
    the transfer waited for the link's recovery.
    """
    chosen = np.flatnonzero(~idle_gap.queued & (idle_gap.outage < 0) & idle_gap.is_logged)
    begin, end = idle_gap.begin[chosen], idle_gap.end[chosen]

    # a gap goes on until a frame is sent, a packet waits, or a segment is dropped at the queue's door
    opens = np.ones(len(begin), dtype=bool)
    opens[1:] = (begin[1:] > end[:-1]) | np.isin(begin[1:], idle_gap.refused)
    began = begin[np.maximum.accumulate(np.where(opens, np.arange(len(begin)), 0))]
    following = np.searchsorted(idle_gap.entry_tick, np.floor(began), side="left")
    ender = np.append(idle_gap.entry_row, NA)[following]

    why = idle(SenderView(transfer), idle_gap.time.stamps(began), ender)
    use, cause = why.use.copy(), why.cause.copy()
    waits = (use != Use.HANDSHAKE) & (use != Use.IDLE_APP)
    stopped = waits & (idle_gap.stop[chosen] != NA)
    for where, instead, its_cause in (
        (waits & idle_gap.read[chosen], Use.XOFF, UseCause.FAR_BUFFER),
        (stopped, Use.XOFF, UseCause.NONE),
        (waits & idle_gap.repeats[chosen], Use.ARQ, UseCause.NONE),
    ):
        use[where], cause[where] = instead, its_cause
    lost = np.where(use == Use.XOFF, NA, lost_by(idle_gap.joined, transfer.verdicts, ender))
    event = np.where(stopped, idle_gap.stop[chosen], lost)
    return idle_gap.uses(
        chosen,
        use,
        cause=cause,
        back_off=np.where(use == Use.IDLE_RTO, why.back_off, NA),
        source=np.where(event == NA, "near.frames", "near.events"),
        row=np.where(event == NA, idle_gap.frame[chosen], event),
        ended_row=ender,
    )


def lost_by(joined: Join, verdicts: Table, again: Array) -> Array:
    """Return for each retransmission the drop or reset on the link that lost the earlier copy.

    The result is the row in near.events. A reset lost the copy or its ACK if it is the first to begin between
    the carriage of the copy and the carriage of the retransmission. If there is none, a wrong header is
    attributed to the last reset before the carriage.

    Parameters
    ----------
    joined : Join
    verdicts : Table
        VERDICTS of the transfer.
    again : ndarray of int64, shape (n,)
        Rows of `sender`, or NA.

    Returns
    -------
    ndarray of int64, shape of `again`
        NA for NA, for segments that are no retransmissions, and where no event shows the loss.
    """
    near, carriages = joined.transfer.near, joined.carriages
    assert near is not None
    if not len(verdicts):
        return np.full(len(again), NA, dtype=np.int64)
    at = np.minimum(np.searchsorted(verdicts["row"], again), len(verdicts) - 1)
    earlier = np.where(verdicts["row"][at] == again, verdicts["earlier_row"][at], NA)

    order = np.argsort(joined.dropped, kind="stable")
    dropped = joined.dropped[order]
    at = np.searchsorted(dropped, earlier)
    by_queue = (np.append(dropped, NA - 1)[at] == earlier) & (earlier != NA)
    drop = np.where(by_queue, np.append(joined.dropped_rows[order], NA)[at], NA)

    resets = near.rows("reset_started")
    if not len(carriages) or not len(resets):
        return drop
    carriage = np.where(earlier == NA, NA, joined.carriage_of[earlier])
    until = np.where(again == NA, NA, joined.carriage_of[again])
    written = carriages["event_row"]
    next_one = np.searchsorted(resets, written[carriage])
    in_time = np.append(resets, np.iinfo(np.int64).max)[next_one] < written[until]
    wrong = np.isin(carriages["fate"][carriage], (Fate.DAMAGED, Fate.TOSSED)) & (next_one > 0)
    reset = np.append(resets, NA)[np.where(in_time, next_one, next_one - 1)]
    known = ~by_queue & (carriage != NA) & (until != NA) & (in_time | wrong)
    return np.where(known, reset, drop)
