"""The join of TCP and the link: the frames that carried each segment, how often, and the segment's fate.

The input is a `Transfer` with the link logs of its two hosts. The results are `Join`, which holds the frames
and the `Fate` of each segment, and `StreamDelivery`, which holds the octets that arrived at the far end of
the link and their times.

- A segment enters the link at the interface queue, or is dropped there. It is found in the link log by its
  IPv4 identification and sequence number. If several segments share this pair, they are matched in order.
- The octets of a packet in the link's stream are `offset_bytes` to `offset_bytes + wire_bytes` of its
  `ppp_sent` event; those of a frame are its own offset and payload. Both count the same stream, also across
  resets. Packets in UI frames have no place in it, and are left out.
- Both logs number the slots of the same call. The far end's log shows what arrived, in link order. Sequence
  numbers cannot show it: after a lost delta the header decompressor writes wrong sequence numbers, which
  belong to earlier segments. A packet whose header changed on the link is `DAMAGED`: its TCP checksum fails.
- Without the log, the result is None. Row numbers are those of the table as recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from multitracer.analysis.ranges import first_covered, spread, within
from multitracer.captured import Flag
from multitracer.schemas.findings import CARRIAGES, CHUNKS
from multitracer.tables import NA, NOT_A_TIME, Table

if TYPE_CHECKING:
    from multitracer.recording.hosts import LinkSide
    from multitracer.tables import Array

_NO_TCP, _NO_ID = 1 << 49, 1 << 50
"""Offsets of the keys of packets without TCP and without identification; above all pairs of identification
and sequence number."""


class Joinable(Protocol):
    """The parts of a `Transfer` that a join needs: its segments at both endpoints, and both link logs."""

    @property
    def sender(self) -> Table:
        """TCP_SEGMENTS captured nearest to the sender."""

    @property
    def receiver(self) -> Table | None:
        """TCP_SEGMENTS captured at the receiver; None without a capture there."""

    @property
    def near(self) -> LinkSide | None:
        """The link log at the sender; None without one."""

    @property
    def far(self) -> LinkSide | None:
        """The link log at the receiver; None without one."""

    @property
    def reverse(self) -> bool:
        """Whose data: False the initiator's, True the responder's."""

    @property
    def sent(self) -> Array:
        """Rows of `sender` in the data direction."""

    @property
    def acks(self) -> Array:
        """Rows of `sender` in the opposite direction."""

    @property
    def slot_ns(self) -> int:
        """Duration of a frame, in ns."""


class Fate(IntEnum):
    """The state of a packet at the far end of the link."""

    DELIVERED = 0
    DAMAGED = 1
    """Delivered with a wrong header, because the decompressor was out of step: TCP's checksum fails."""
    TOSSED = 2
    """Discarded by the decompressor, which waits for an uncompressed packet."""
    BROKEN = 3
    """Some of its octets are missing: a link reset flushed them."""
    QUEUED = 4
    """Not completely arrived when the log ended."""
    UNKNOWN = 5
    """The log of the far end is missing."""
    REFUSED = 6
    """Arrived after the receiving TCP had aborted the connection."""


@dataclass(frozen=True)
class Join:
    """Segments, packets and frames of one transfer, joined.

    Attributes
    ----------
    transfer : Joinable
    carriages : Table
        CARRIAGES: each packet of any flow that the link carried in the data direction.
    chunks : Table
        PIECES: each transmission of each frame, by packet.
    dropped : ndarray of int64
        Rows of `sender` that the interface queue dropped, on arrival or later.
    dropped_rows : ndarray of int64
        Rows in near.events of these drops.
    dropped_from : ndarray of int64
        Rows in near.events of the packets (of any flow) that were queued and then dropped.
    delivery : StreamDelivery or None
        The octets that arrived at the far end; None without its log.
    """

    transfer: Joinable
    carriages: Table
    chunks: Table
    dropped: Array
    dropped_rows: Array
    dropped_from: Array
    delivery: StreamDelivery | None

    def of_segment(self, row: int) -> Array:
        """Return the rows in `carriages` of a segment, which is a row of `sender`.

        They are empty if the segment was dropped before the link.
        """
        return np.flatnonzero(self.carriages["segment_row"] == row)

    def frames_of(self, carriage: int) -> Array:
        """Return the rows in near.frames of all transmissions of the frames of one carriage, in order.

        A carriage is one packet that the link carried (a row of `carriages`).
        """
        begin, end = np.searchsorted(self._by_carriage[1], [carriage, carriage + 1])
        frames: Array = self.chunks["frame_row"][np.sort(self._by_carriage[0][begin:end])]
        return frames

    @cached_property
    def _by_carriage(self) -> tuple[Array, Array]:
        order = np.argsort(self.chunks["carriage"], kind="stable")
        return order, self.chunks["carriage"][order]

    @cached_property
    def arrived(self) -> Array:
        """For each row of `sender`, int8: 1 if it reached the receiving TCP intact, 0 if not; else NA."""
        arrived = np.full(len(self.transfer.sender), NA, dtype=np.int8)
        mine, fate = self.carriages["segment_row"], self.carriages["fate"]
        known = (mine != NA) & (fate != Fate.UNKNOWN) & (fate != Fate.QUEUED)
        arrived[mine[known]] = np.isin(fate[known], (Fate.DELIVERED, Fate.REFUSED))
        arrived[self.dropped] = 0
        return arrived

    @cached_property
    def carriage_of(self) -> Array:
        """Row in `carriages` for each row of `sender`: int64, NA for segments that the link did not carry."""
        carriage = np.full(len(self.transfer.sender), NA, dtype=np.int64)
        mine = np.flatnonzero(self.carriages["segment_row"] != NA)
        carriage[self.carriages["segment_row"][mine]] = mine
        return carriage


def join(transfer: Joinable) -> Join | None:
    """Return the join of a transfer with its link; None without a link log at the data's sender.

    A link log without slot numbers or without packets also gives None.

    The time is linear in frames and segments, except for sorting; there is no Python loop over them.
    """
    near, sender, sent = transfer.near, transfer.sender, transfer.sent
    if near is None or not len(_in_stream(near)) or not (near.frames["tick"] != NA).any():
        return None

    # segments meet the link's queue; what was dropped after it had been queued (CoDel) is no second packet
    queued, dropped = near.rows("packet_queued"), near.rows("packet_dropped")
    from_queue = _matched(_key(near, dropped), _key(near, queued))
    later = from_queue != NA
    entries = np.sort(np.concatenate([queued, dropped[~later]]))
    segment_keys = (sender["ip_id"][sent].astype(np.int64) << 32) | sender["seq"][sent].astype(np.int64)
    index = _matched(_key(near, entries), segment_keys)
    segment_of = np.where(index == NA, NA, sent[index])
    of_queued = segment_of[np.searchsorted(entries, queued)]
    at_door = segment_of[np.minimum(np.searchsorted(entries, dropped), len(entries) - 1)]
    of_dropped = np.where(later, of_queued[from_queue], at_door)

    # queued packets are written into the link, which carries them in frames
    written = _in_stream(near)
    entry = _matched(_key(near, written), _key(near, queued))
    segment = np.where(entry == NA, NA, of_queued[entry])
    queued_row = np.where(entry == NA, NA, queued[entry])
    columns = {
        "event_row": written,
        "segment_row": segment,
        "offset_bytes": near.events["offset_bytes"][written],
        "wire_bytes": near.events["wire_bytes"][written],
        "payload_bytes": np.where(segment == NA, 0, sender["payload_bytes"][segment]).astype(np.int64),
        "queued_row": queued_row,
        "queued_tick": np.where(entry == NA, NA, near.events["tick"][queued_row]),
    }
    chunks = _chunks(near.frames, columns["offset_bytes"], columns["wire_bytes"])
    columns |= _ticks(near.frames, chunks, len(written))

    arrived = delivery(transfer)
    columns |= _fates(transfer, columns, arrived)
    columns["new_bytes"] = _new_bytes(transfer, columns)
    columns |= _times(columns, arrived, transfer.slot_ns)
    mine = of_dropped != NA
    return Join(
        transfer, Table(CARRIAGES, columns), chunks, of_dropped[mine], dropped[mine], queued[from_queue[later]], arrived
    )


def _in_stream(near: LinkSide) -> Array:
    """Return the rows of the packets in the numbered stream; those in UI frames have no place in it."""
    rows = near.rows("ppp_sent")
    known: Array = rows[near.events["offset_bytes"][rows] != NA]
    return known


def _key(side: LinkSide, rows: Array) -> Array:
    """Return an int64 number for each packet, from its IP identification and TCP sequence number.

    A packet without TCP has a number that matches no segment (`_NO_TCP`).
    """
    ip_id, seq = side.events["ip_id"][rows], side.events["seq"][rows]
    tcp = (np.maximum(ip_id, 0).astype(np.int64) << 32) | seq.astype(np.int64)
    other = np.where(ip_id != NA, _NO_TCP + ip_id, _NO_ID + side.events["ip_bytes"][rows])
    return np.where(seq != NA, tcp, other)


def _matched(key: Array, among: Array) -> Array:
    """Return for each key its index in `among`; NA if it is not there.

    The n-th of several equal keys is matched with the n-th in `among`.
    """
    _, identity = np.unique(np.concatenate([key, among]), return_inverse=True)
    own = 2 * identity + (np.arange(len(identity)) >= len(key))
    order = np.argsort(own, kind="stable")
    starts = np.flatnonzero(np.diff(own[order], prepend=-1))
    number = np.empty(len(own), dtype=np.int64)  # how many with the same key came before each
    number[order] = np.arange(len(own)) - np.repeat(starts, np.diff(np.append(starts, len(own))))
    name = identity * (int(number.max(initial=0)) + 1) + number
    partner = np.full(len(key), NA, dtype=np.int64)
    _, here, there = np.intersect1d(name[: len(key)], name[len(key) :], return_indices=True)
    partner[here] = there
    return partner


def _chunks(frames: Table, offset: Array, wire: Array) -> Table:
    """Return PIECES: the octets of each transmission of each frame, by packet."""
    sent = np.flatnonzero(frames["sent"] & (frames["payload_bytes"] > 0) & (frames["offset_bytes"] != NA))
    begin = frames["offset_bytes"][sent]
    end = begin + frames["payload_bytes"][sent]
    first = np.searchsorted(offset + wire, begin, side="right")
    last = np.searchsorted(offset, end, side="left")
    which, carriage = spread(first, last)
    begins = np.maximum(begin[which], offset[carriage])
    ends = np.minimum(end[which], offset[carriage] + wire[carriage])
    octets = ends - begins
    share = octets / frames["payload_bytes"][sent][which]
    return Table(CHUNKS, {"frame_row": sent[which], "carriage": carriage, "bytes": octets, "share": share})


def _ticks(frames: Table, chunks: Table, carriages: int) -> dict[str, Array]:
    """Return, for each packet, how often its frames were sent and in which slots; NA if never."""
    carriage, row = chunks["carriage"], chunks["frame_row"]
    tick, first = frames["tick"][row], frames["attempt"][row] == 1
    begin = np.full(carriages, np.iinfo(np.int64).max)
    np.minimum.at(begin, carriage, tick)
    sent, last = (np.full(carriages, NA, dtype=np.int64) for _ in range(2))
    np.maximum.at(sent, carriage[first], tick[first])
    np.maximum.at(last, carriage, tick)
    return {
        "frames": np.bincount(carriage[first], minlength=carriages).astype(np.int32),
        "transmissions": np.bincount(carriage, minlength=carriages).astype(np.int32),
        "first_tick": np.where(last == NA, NA, begin),
        "sent_tick": sent,
        "last_tick": last,
    }


def _fates(transfer: Joinable, columns: dict[str, Array], arrived: StreamDelivery | None) -> dict[str, Array]:
    """Return three columns for each packet: its fate, the far slots of its bytes, and its arrival slot."""
    written, near = columns["event_row"], transfer.near
    unknown = np.full(len(written), NA, dtype=np.int64)
    if arrived is None or near is None:
        fate = np.full(len(written), Fate.UNKNOWN, dtype=np.uint8)
        return {"fate": fate, "delivered_tick": unknown, "arrived_tick": unknown}
    begin, end = columns["offset_bytes"], columns["offset_bytes"] + columns["wire_bytes"]
    # stretches that touch are one: a packet may lie across several
    opens = np.ones(len(arrived.begin), dtype=bool)
    opens[1:] = arrived.begin[1:] != arrived.end[:-1]
    run = np.append(np.cumsum(opens), 0)
    first, last = (within(place, arrived.begin, arrived.end) for place in (begin, end - 1))
    complete = (first >= 0) & (last >= 0) & (run[first] == run[last])
    delivered_tick = np.where(complete, np.append(arrived.tick, NA)[last], NA)
    fate = np.where(complete | (end > arrived.flushed_up_to), Fate.QUEUED, Fate.BROKEN).astype(np.uint8)
    taken = np.flatnonzero(complete)[: len(arrived.received)]
    got = arrived.received[: len(taken)]
    far = arrived.far.events
    intact = np.ones(len(taken), dtype=bool)
    for name in ("ip_bytes", "ip_id", "seq"):
        intact &= far[name][got] == near.events[name][written[taken]]
    fate[taken] = np.where(intact, Fate.DELIVERED, Fate.DAMAGED)
    fate[taken[far["ip_bytes"][got] == NA]] = Fate.TOSSED
    arrived_tick = unknown.copy()
    arrived_tick[taken] = far["tick"][got]

    # what came whole after the receiving TCP had sent a RST
    receiver, frames = transfer.receiver, arrived.far.frames
    if receiver is not None:
        is_reset = (receiver["flags"] & np.uint16(Flag.RST)) != 0
        resets = np.flatnonzero(is_reset & (receiver["reverse"] != transfer.reverse))
        over_ns = receiver["time_ns"][resets[:1]].min(initial=np.iinfo(np.int64).max)
        before = int(frames["tick"][frames["time_ns"] <= over_ns].max(initial=0))
        late = (arrived_tick > before) & (len(resets) > 0)
        fate[late & (columns["segment_row"] != NA) & (fate == Fate.DELIVERED)] = Fate.REFUSED
    return {"fate": fate, "delivered_tick": delivered_tick, "arrived_tick": arrived_tick}


def _new_bytes(transfer: Joinable, columns: dict[str, Array]) -> Array:
    """Return the payload bytes that each packet on the link delivered for the first time.

    Without the log of the far end, they are the bytes that no later packet carried again.
    """
    fate, segment = columns["fate"], columns["segment_row"]
    may = (segment != NA) & (columns["payload_bytes"] > 0)
    rows = np.flatnonzero(may & ((fate == Fate.DELIVERED) | (fate == Fate.UNKNOWN)))
    if len(rows) and fate[rows[0]] == Fate.UNKNOWN:
        rows = rows[::-1]
    opens = (transfer.sender["flags"][segment[rows]] & np.uint16(Flag.SYN)) != 0
    begin = transfer.sender["seq_bytes"][segment[rows]] + opens  # a SYN's unit comes before its payload
    new = np.zeros(len(segment), dtype=np.int64)
    new[rows] = first_covered(begin, begin + columns["payload_bytes"][rows])
    return new


def _times(columns: dict[str, Array], arrived: StreamDelivery | None, slot_ns: int) -> dict[str, Array]:
    """Return the five parts of each packet's delay, in ns of link time.

    A part is NOT_A_TIME if its begin or its end is unknown.
    """
    pipe = NA if arrived is None else arrived.pipe_slots
    air = np.full(len(columns["fate"]), pipe, dtype=np.int64)
    after = np.where(columns["sent_tick"] == NA, NA, columns["sent_tick"] + 1)
    arrival = columns["delivered_tick"]
    back = np.where((arrival == NA) | (pipe == NA), NA, arrival - pipe + 1)
    steps = {
        "queue_ns": (columns["queued_tick"] + (columns["queued_tick"] != NA), columns["first_tick"]),
        "sending_ns": (columns["first_tick"], after),
        "recovery_ns": (after, back),
        "air_ns": (np.where(pipe == NA, NA, np.zeros_like(air)), air),
        "far_buffer_ns": (arrival, columns["arrived_tick"]),
    }
    return {
        name: np.where((begin == NA) | (end == NA), NOT_A_TIME, (end - begin) * slot_ns)
        for name, (begin, end) in steps.items()
    }


_LONGEST_PIPE_SLOTS = 500
"""Maximum delay of the link in slots (10 s): a satellite hop and the largest network buffers are below it."""
_SAMPLE = 400  # frames that find the pipe: bounds the time. Not measured
_RESETS = ("reset_started", "reset_done")
_LARGEST_WINDOW = 61
"""Maximum number of frames that may be stored before the last one: RLP numbers frames modulo 62 (3GPP TS 24.022)."""


@dataclass(frozen=True, slots=True)
class StreamDelivery:
    """The part of the near end's stream that arrived at the far end.

    Attributes
    ----------
    far : LinkSide
    pipe_slots : int
        Slots between the transmission of a frame and its arrival.
    begin, end : ndarray of int64, bytes
        Intervals of the stream that were delivered, ascending.
    tick : ndarray of int64
        The far slot in which each interval was delivered.
    received : ndarray of int64
        Rows in far.events of the packets that PPP received with a good FCS, in order.
    flushed_up_to : int, bytes
        End of the stream that the last reset discarded; octets after it may still have arrived.
    """

    far: LinkSide
    pipe_slots: int
    begin: Array
    end: Array
    tick: Array
    received: Array
    flushed_up_to: int


def delivery(transfer: Joinable) -> StreamDelivery | None:
    """Return the octets that arrived at the data's receiver; None without both logs or common slots."""
    near, far = transfer.near, transfer.far
    if near is None or far is None:
        return None
    # information frames that left one end and came to the other; where each slot's lies in the stream
    sent, got = (
        np.flatnonzero(
            (frames["payload_bytes"] > 0) & frames["fcs_ok"] & (frames["tick"] != NA) & (frames["sent"] == is_sent)
        )
        for frames, is_sent in ((near.frames, True), (far.frames, False))
    )
    pipe = _pipe_slots(near.frames, sent, far.frames, got)
    if pipe is None:
        return None
    slot, wanted = near.frames["tick"][sent], far.frames["tick"][got] - pipe
    at = np.minimum(np.searchsorted(slot, wanted), len(slot) - 1)
    known = (slot[at] == wanted) & (near.frames["n_s"][sent[at]] == far.frames["n_s"][got])
    begin, end, tick = _stretches(far, got[known], near.frames["offset_bytes"][sent[at[known]]])

    # where the stream stood when it was last flushed: what is missing before it never came
    flushed, written = near.rows("flushed", "call_dropped"), _in_stream(near)
    last = written[written < flushed[-1:].max(initial=0)][-1:]
    up_to = int((near.events["offset_bytes"][last] + near.events["wire_bytes"][last]).sum())
    received = far.rows("ppp_received")
    if len(written) < len(near.rows("ppp_sent")):  # all packets without TCP went beside the stream, in UI frames
        received = received[(far.events["seq"][received] != NA) | (far.events["ip_bytes"][received] == NA)]
    return StreamDelivery(far, pipe, begin, end, tick, received, up_to)


def _pipe_slots(near: Table, sent: Array, far: Table, got: Array) -> int | None:
    """Return the delay of frames in slots: the delay at which most frame numbers N(S) of both logs agree.

    It is None if no delay fits.
    """
    if not len(sent) or not len(got):
        return None
    sample = got[np.linspace(0, len(got) - 1, min(_SAMPLE, len(got))).astype(np.int64)]
    slot, number = near["tick"][sent], near["n_s"][sent]
    delays = np.arange(_LONGEST_PIPE_SLOTS)
    wanted = far["tick"][sample][:, None] - delays
    at = np.minimum(np.searchsorted(slot, wanted), len(slot) - 1)
    agrees = (slot[at] == wanted) & (number[at] == far["n_s"][sample][:, None])
    votes = agrees.sum(axis=0)
    best = int(votes.argmax())
    return best if votes[best] * 2 > len(sample) else None


def _stretches(far: LinkSide, rows: Array, offset: Array) -> tuple[Array, Array, Array]:
    """Return begin, end and slot of the stream bytes that each `delivered` event passed on.

    They include stored frames that follow the delivered frame.
    """
    frames = far.frames
    delivered = np.flatnonzero(frames["fate"][rows] == "delivered")
    begin = offset[delivered]
    end = begin + frames["payload_bytes"][rows[delivered]]
    resets = far.events["frame"][far.rows(*_RESETS)]
    epoch = np.searchsorted(resets, frames["frame"][rows[delivered]])
    goes_on = np.zeros(len(delivered), dtype=bool)
    goes_on[:-1] = epoch[1:] == epoch[:-1]
    end[:-1][goes_on[:-1]] = begin[1:][goes_on[:-1]]
    for last in np.flatnonzero(~goes_on):
        # the frames that were stored before it, and follow on
        recent = slice(max(0, int(delivered[last]) - _LARGEST_WINDOW), int(delivered[last]))
        stored = np.flatnonzero(frames["fate"][rows[recent]] == "stored") + recent.start
        lengths = frames["payload_bytes"][rows[stored]].tolist()
        follows = dict(zip(offset[stored].tolist(), lengths, strict=True))
        while int(end[last]) in follows:
            end[last] += follows.pop(int(end[last]))
    return begin, end, frames["tick"][rows[delivered]]
