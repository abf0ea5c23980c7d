"""What arrived at the link's far end: octets of the sender's stream, in order, and when.

Both logs number the slots of one call, and a frame takes the same number of slots to arrive. So the frame
that a side received in slot n is the one that the other sent a pipe's length before; that it carries the same
N(S) is how the length is found. The receiver delivers in order: each frame whose fate is `delivered` fills a
hole, and what lies stored behind it is delivered with it, up to the next hole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.ranges import within
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.join.recorded_transfer import Recorded
    from multitracer.recording.hosts import LinkSide
    from multitracer.tables import Array, Table

_LONGEST_PIPE_SLOTS = 500
"""A satellite hop and a network's worst buffers are within 10 s."""
_SAMPLE = 400  # frames that find the pipe: bounds the time. Not measured
_RESETS = ("reset_started", "reset_done")
_LARGEST_WINDOW = 61
"""Frames that may be stored before the last one: RLP numbers frames modulo 62 (3GPP TS 24.022)."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the far end got of the near end's stream.

    Attributes
    ----------
    far : LinkSide
    pipe_slots : int
        Slots between a frame's transmission and its arrival.
    begin, end : ndarray of int64, bytes
        Stretches of the stream that were delivered, ascending.
    tick : ndarray of int64
        The far slot in which each was.
    received : ndarray of int64
        Rows in far.events of the packets that came out of PPP with a good FCS, in order.
    flushed_up_to : int, bytes
        End of the stream that the last reset threw away; what is missing behind it may still have come.
    """

    far: LinkSide
    pipe_slots: int
    begin: Array
    end: Array
    tick: Array
    received: Array
    flushed_up_to: int

    def whole(self, begin: Array, end: Array) -> tuple[Array, Array]:
        """Return which ranges of the stream arrived whole, and in which far slot.

        Begin and end are int64, octets, shape (n,). The answers have the same shape: bool, and int64 with NA
        for a range that did not arrive whole.
        """
        if not len(self.begin):
            return np.zeros(len(begin), dtype=bool), np.full(len(begin), NA, dtype=np.int64)
        # stretches that touch are one: a range may lie across several
        opens = np.ones(len(self.begin), dtype=bool)
        opens[1:] = self.begin[1:] != self.end[:-1]
        run = np.cumsum(opens) - 1
        first, last = within(begin, self.begin, self.end), within(end - 1, self.begin, self.end)
        whole = (first >= 0) & (last >= 0) & (run[first] == run[last])
        return whole, np.where(whole, self.tick[last], NA)

    def is_pending(self, end: Array) -> Array:
        """Return which ranges of the stream may still have arrived after the log ended.

        `end` is int64, octets, shape (n,); the answer is bool, of the same shape.
        """
        return end > self.flushed_up_to


def delivery(transfer: Recorded) -> Delivery | None:
    """Return what arrived at the data's receiver; None without both logs or without common slots."""
    near, far = transfer.near, transfer.far
    if near is None or far is None:
        return None
    pipe = _pipe_slots(near.frames, far.frames)
    if pipe is None:
        return None
    rows, offset = _arrivals(near.frames, far.frames, pipe)
    begin, end, tick = _stretches(far, rows, offset)
    received = far.rows("ppp_received")
    return Delivery(far, pipe, begin, end, tick, received, _flushed_up_to(near))


def _information(frames: Table, *, sent: bool) -> Array:
    carries = (frames["payload_bytes"] > 0) & frames["fcs_ok"] & (frames["tick"] != NA)
    return np.flatnonzero(carries & (frames["sent"] == sent))


def _pipe_slots(near: Table, far: Table) -> int | None:
    """Return how many slots later frames arrive: the delay at which N(S) agrees for most of a sample."""
    sent, got = _information(near, sent=True), _information(far, sent=False)
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


def _arrivals(near: Table, far: Table, pipe: int) -> tuple[Array, Array]:
    """Return the far rows of information frames whose origin is known, and its offset in the stream."""
    sent, got = _information(near, sent=True), _information(far, sent=False)
    slot = near["tick"][sent]
    wanted = far["tick"][got] - pipe
    at = np.minimum(np.searchsorted(slot, wanted), len(slot) - 1)
    known = (slot[at] == wanted) & (near["n_s"][sent][at] == far["n_s"][got])
    return got[known], near["offset_bytes"][sent[at[known]]]


def _stretches(far: LinkSide, rows: Array, offset: Array) -> tuple[Array, Array, Array]:
    """Return begin, end and slot of what each `delivered` frame brought, stored frames behind it too."""
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
        end[last] = _with_stored(frames, rows, offset, int(delivered[last]), int(end[last]))
    return begin, end, frames["tick"][rows[delivered]]


def _with_stored(frames: Table, rows: Array, offset: Array, at: int, end: int) -> int:
    """Return how far the last frame of an epoch delivered: the frames stored before it that follow on."""
    recent = slice(max(0, at - _LARGEST_WINDOW), at)
    stored = np.flatnonzero(frames["fate"][rows[recent]] == "stored") + recent.start
    lengths = frames["payload_bytes"][rows[stored]].tolist()
    follows = dict(zip(offset[stored].tolist(), lengths, strict=True))
    while end in follows:
        end += follows.pop(end)
    return end


def _flushed_up_to(near: LinkSide) -> int:
    """Return where the stream stood when it was last flushed: what is missing before it never came."""
    flushed = near.rows("flushed", "call_dropped")
    if not len(flushed):
        return 0
    written = near.rows("ppp_sent")
    before = written[written < flushed[-1]]
    if not len(before):
        return 0
    return int(near.events["offset_bytes"][before[-1]] + near.events["wire_bytes"][before[-1]])
