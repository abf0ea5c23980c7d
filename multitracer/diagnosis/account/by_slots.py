"""The account of a link that logs its slots, with packets and frames joined: four rules in turn.

Each rule takes what the rules before it left, and hands over `Uses`. Time is counted in slots, by the
number that the log gives each: a slot that a busy machine served late is still one slot. Slot n covers n to
n + 1.

1. When the link delivered nothing, and why: outages.
2. Slots that carry a data frame, split by the packets in it. A byte's `useful` slot is its first
   transmission outside an outage; later ones are `arq`. Payload that the receiver had already is
   `redundant`, payload that never reached its TCP intact `wasted`, however often and in which slots the
   link sent it. Framing and headers go with their segment.
3. When packets waited for the link, and when the far end had stopped it. The balance of the queue begins
   with the log, before the SYN: a packet waits from the slot after it entered the interface queue until the
   first transmission of its last octet, or until a reset flushes it.
4. What is left: nothing was sent and nothing waited. A gap is named by what ended it (`uses.idle`); the
   wait for a retransmission begins with the event at the link that lost the copy before.
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
    """Return LINK_USE of a transfer whose link was logged at its sender."""
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
        np.where(is_stopped, Use.XOFF, Use.ARQ),
        source=np.where(is_stopped, "near.events", "near.frames"),
        row=np.where(is_stopped, idle_gap.stop[waiting], idle_gap.frame[waiting]),
    )
    unlogged = idle_gap.uses(np.flatnonzero(~idle_gap.is_logged & ~is_out), Use.UNKNOWN)
    rules = (dead, carried(joined, time, begin, end, out), queued, gaps(transfer, idle_gap), unlogged)
    return Uses.together([part.runs() for part in rules]).table(time.stamps)


class LinkTime:
    """Maps stamps to slots and back; between two logged slots time runs evenly.

    Attributes
    ----------
    tick : ndarray of float64
        Numbers of logged slots, ascending.
    stamp_ns : ndarray of int64
        When each began.
    slot_s : float
        Link time of a slot.
    real_slot_ns : float
        The same as recorded: `slot_s` / speed.
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
        """Return the place of stamps among the slots (float64)."""
        stamps = np.asarray(stamps_ns, dtype=np.int64)
        origin = self.stamp_ns[0]
        inside = np.interp((stamps - origin).astype(np.float64), self.stamp_ns - origin, self.tick)
        before = np.minimum(stamps - origin, 0) / self.real_slot_ns
        after = np.maximum(stamps - self.stamp_ns[-1], 0) / self.real_slot_ns
        result: Array = inside + before + after
        return result

    def stamps(self, ticks: Array) -> Array:
        """Return the stamps (int64, ns) of places among the slots."""
        places = np.asarray(ticks, dtype=np.float64)
        origin = self.stamp_ns[0]
        inside = np.interp(places, self.tick, (self.stamp_ns - origin).astype(np.float64))
        before = np.minimum(places - self.tick[0], 0) * self.real_slot_ns
        after = np.maximum(places - self.tick[-1], 0) * self.real_slot_ns
        result: Array = origin + np.rint(inside + before + after).astype(np.int64)
        return result


_AROUND_SLOTS = 2
"""Slots that a frame and its answer take themselves, beside twice the pipe."""


class SlotOutages(NamedTuple):
    """Stretches of slots [begin, end) of the near end in which nothing was delivered; they are disjoint."""

    begin: Array
    end: Array
    cause: Array
    """UseCause.RESET or UseCause.RADIO."""
    source: Array
    """Table of the transfer that tells of the first moment."""
    row: Array
    """Row of it there."""


def outages(transfer: Transfer, delivery: StreamDelivery | None) -> SlotOutages:
    """Return the outages of the link; a fade goes until the reset that it led to begins.

    What the far end cannot take while it resets is what was sent a pipe's length before.
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
    """Return the resets that one end saw, from the first word of one to its end, in its own slots.

    Several starts before one end are one episode; a reset that never ends goes on to the end of the log.
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
    """Return the resets of one end as `resets` numbers them, those together that are one episode; see Notes.

    Returns
    -------
    list of ndarray of int64, each of shape (n_resets_of_episode,)

    Notes
    -----
    Where both ends give up a frame, one asks for a reset before the other request arrives. That arrives
    when the first reset is done, or is sent again each T1 until it is answered (3GPP TS 24.022): a reset that
    the peer asked for within T1 of the last is no reset of its own.
    """
    episodes = resets(side, "")
    t1_ms = str(side.facts.get("t1_ms", ""))
    t1_slots = int(t1_ms) * NS_PER_MS // slot_ns if t1_ms.isdecimal() else 0
    by_peer = side.events["cause"][episodes.row] == "peer"
    soon = episodes.begin[1:] - episodes.end[:-1] <= t1_slots + _AROUND_SLOTS
    opens = np.flatnonzero(~(by_peer[1:] & soon)) + 1
    return [each for each in np.split(np.arange(len(episodes.row)), opens) if len(each)]


def _fades(delivery: StreamDelivery, reset: SlotOutages) -> SlotOutages:
    """Return when every frame to the far end was lost for a link round trip or longer, but for resets."""
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
    """Return outages together, in order of their begin."""
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
"""What payload is for that its receiver did not get from this carriage first."""


def carried(joined: Join, time: LinkTime, begin: float, end: float, out: SlotOutages) -> Uses:
    """Return the uses of the slots between two places among them that carry data frames."""
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
    old = Uses.of(
        *spans, rest[carriage], seconds * (1 - fresh), cause=cause[carriage], source=source, row=row
    )
    return Uses.together([part.where(part.seconds > 0).runs() for part in (new, old)])


def opens_or_closes(transfer: Joinable, rows: Array) -> Array:
    """Return which segments without payload are SYN or FIN, or the ACK that ends the handshake.

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
"""A segment that TCP sent so long before or after a log was not missed by chance: the log was cut."""


class IdleGap:
    """The stretches between two places among the slots in which no data frame was sent, or an unneeded one.

    Attributes
    ----------
    begin, end : ndarray of float64
        The stretches, in order; within one nothing changes.
    outage : ndarray of int64
        Index of the outage that each lies in, -1 for none.
    is_logged : ndarray of bool
        The link's log covers it.
    queued : ndarray of bool
        A packet waited.
    stop : ndarray of int64
        Row in near.events of the XOFF that held, NA if none did.
    read : ndarray of bool
        The far end still read what the link had brought.
    repeats : ndarray of bool
        The next data frame repeats one.
    frame : ndarray of int64
        Row in near.frames of the last data frame before, NA before the first.
    entry_row, entry_tick : ndarray of int64
        Segments of the transfer that occupy sequence space, in order of sending: the row of `sender`, and the
        slot in which it was handed over (ascending): the link may carry it from the next on.
    refused : ndarray of int64
        Slots from which a gap goes on, because what ended it was dropped at the queue's door.
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
        edges = [tick, tick + 1, out.begin, out.end, *queue, *stop[:2], reads[1], self.refused]
        inner = distinct(np.concatenate(edges)).astype(np.float64)
        places = np.concatenate([[begin], inner[(inner > begin) & (inner < end)], [end]])
        outage = within(places[:-1], out.begin, out.end)
        carries = within(places[:-1], *merged(tick, tick + 1)) >= 0
        silent = np.flatnonzero(~carries | (outage >= 0))
        self.begin, self.end, self.outage = places[silent], places[silent + 1], outage[silent]
        self.is_logged = (self.begin >= since) & (self.begin < until)
        self.queued = within(self.begin, *queue) >= 0
        self.stop = np.append(stop[2], NA)[within(self.begin, *stop[:2])]
        before = np.searchsorted(reads[0], self.begin, side="right") - 1
        self.read = (before >= 0) & (self.begin < np.append(reads[1], NA)[before])
        after = np.searchsorted(tick, self.begin, side="left")
        self.repeats = np.append(near.frames["attempt"][data], 1)[after] > 1
        self.frame = np.where(after == 0, NA, np.append(data, NA)[after - 1])

    def uses(self, chosen: Array, use: Array | Use, **columns: ArrayLike) -> Uses:
        """Return rows of the account for some stretches."""
        begin, end = self.begin[chosen], self.end[chosen]
        return Uses.of(begin, end, use, (end - begin) * self.time.slot_s, **columns)


_FLUSHES = ("flushed", "call_dropped")
_STOPS = (("xoff_received", "xon_received"), ("peer_busy", "peer_ready"))
_CLEARS = ("reset_started", "reset_done", "call_dropped", "disconnected")
"""What ends an XOFF without an XON."""


def backlog(joined: Join) -> tuple[Array, Array]:
    """Return the stretches of slots [begin, end) in which a packet of any flow waited, disjoint.

    Returns
    -------
    begin, end : ndarray of int64, slots, shape (n_stretches,)
    """
    near, carriages = joined.transfer.near, joined.carriages
    assert near is not None
    queued, tick = near.rows("packet_queued"), near.events["tick"]
    log_end = max(int(tick.max(initial=0)), int(near.frames["tick"].max(initial=0))) + 1
    left = np.full(len(queued), log_end, dtype=np.int64)  # before it each had left the queue for good
    left[np.isin(queued, joined.dropped_from)] = 0
    mine = np.flatnonzero(carriages["queued_row"] != NA)
    first = near.frames["attempt"][joined.chunks["frame_row"]] == 1
    octets = np.bincount(
        joined.chunks["carriage"][first], joined.chunks["bytes"][first], minlength=len(carriages)
    )
    flushes = near.rows(*_FLUSHES)
    flush_tick = np.append(tick[flushes] + 1, log_end)
    flushed = flush_tick[np.searchsorted(flushes, carriages["event_row"][mine])]
    complete = octets[mine] >= carriages["wire_bytes"][mine]
    place = np.searchsorted(queued, carriages["queued_row"][mine])
    left[place] = np.where(complete, carriages["sent_tick"][mine] + 1, flushed)
    begin = tick[queued] + 1
    return merged(begin, np.maximum(left, begin))


def stops(side: LinkSide) -> tuple[Array, Array, Array]:
    """Return the stretches of slots in which the far end had stopped this one, and the event of each.

    Returns
    -------
    begin, end, event : ndarray of int64, shape (n_stops,)
        Slots, and the row of the event.
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
    """Return until when the far end still read what the link had brought, in slots of this end.

    A far end that is slower than the link keeps reading from its buffer while the sender is silent. It is the
    bottleneck then, as it is when it sends XOFF. From a slot of the first array on (all of a packet was sent
    before it), the far end reads until the slot of the second. Empty without its log.

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
    """Return the uses of the idle stretches of a transfer.

    A wait for a retransmission began with what lost the copy before, if the link tells; others began with the
    last frame that was sent. Where TCP could have sent but the far end had stopped the link, or still read
    what it had got, the transfer waited for the far end; where a repeated frame ends the stretch, it waited
    for the link's recovery.
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
    """Return the row in near.events of what lost the earlier copy of each segment: a drop or a reset.

    A reset lost the copy or its ACK if it is the first to begin between the copy's carriage and that of what
    was sent again; a wrong header comes from the last one before the carriage, if there is no such.

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
        NA for NA, for what is no retransmission, and where no event shows what lost the copy (or its ACK).
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
