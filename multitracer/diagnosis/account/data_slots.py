"""Rule 2 of the account: slots that carry a data frame, split by the packets in it.

A byte's `useful` slot is its first transmission outside an outage; later ones are `arq`. Payload that the
receiver had already is `redundant`, payload that never reached its TCP intact `wasted`, however often and in
which slots the link sent it. Framing and headers go with their segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.capture import Flag
from multitracer.diagnosis.account.use_rows import Uses
from multitracer.diagnosis.join.segments_and_frames import Fate
from multitracer.diagnosis.ranges import within
from multitracer.diagnosis.use import Use, UseCause
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.account.link_time import LinkTime
    from multitracer.diagnosis.account.outages import Outages
    from multitracer.diagnosis.join.recorded_transfer import Recorded
    from multitracer.diagnosis.join.segments_and_frames import Join
    from multitracer.tables import Array

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


def carried(joined: Join, time: LinkTime, begin: float, end: float, out: Outages) -> Uses:
    """Return the uses of the slots between two places among them that carry data frames."""
    assert joined.transfer.near is not None
    frames, pieces, carriages = joined.transfer.near.frames, joined.pieces, joined.carriages
    tick = frames["tick"][pieces["frame_row"]]
    part = np.clip(np.minimum(tick + 1, end) - np.maximum(tick, begin), 0, 1)
    kept = np.flatnonzero((part > 0) & (within(tick, out.begin, out.end) < 0))
    carriage, frame, tick = pieces["carriage"][kept], pieces["frame_row"][kept], tick[kept]
    seconds = pieces["share"][kept] * part[kept] * time.slot_s
    payload = np.maximum(carriages["payload_bytes"], 1)
    fresh = (carriages["new_bytes"] / payload)[carriage]
    first = _first_transmissions(frames["offset_bytes"][frame], frame)
    delivered = carriages["new_bytes"][carriage] * pieces["bytes"][kept] / carriages["wire_bytes"][carriage]
    rest, cause = _rest(joined.transfer, joined)
    spans = tick.astype(np.float64), tick + 1.0
    source, row = _events(joined, carriage)
    new = Uses.of(
        *spans,
        np.where(first, Use.USEFUL, Use.ARQ),
        seconds * fresh,
        source=np.where(first, source, "near.frames"),
        row=np.where(first, row, frame),
        payload=np.where(first, delivered, 0.0),
    )
    old = Uses.of(
        *spans, rest[carriage], seconds * (1 - fresh), cause=cause[carriage], source=source, row=row
    )
    return Uses.together([part.where(part.seconds > 0).runs() for part in (new, old)])


def _first_transmissions(offset: Array, frame: Array) -> Array:
    """Return which pieces belong to the first transmission of their frame, of those that are given."""
    _, first = np.unique(offset, return_index=True)
    result: Array = np.isin(frame, frame[first])
    return result


def _rest(transfer: Recorded, joined: Join) -> tuple[Array, Array]:
    """Return what each carriage is for, but for its new payload, and why."""
    fate, segment = joined.carriages["fate"], joined.carriages["segment_row"]
    use, cause = (np.zeros(len(fate), dtype=np.uint8) for _ in range(2))
    for kind, (its_use, its_cause) in _REST.items():
        use[fate == kind], cause[fate == kind] = its_use, its_cause
    control = np.flatnonzero(joined.carriages["payload_bytes"] == 0)
    use[control], cause[control] = Use.OTHER, UseCause.NONE
    mine = control[segment[control] != NA]
    use[mine[opens_or_closes(transfer, segment[mine])]] = Use.HANDSHAKE
    return use, cause


def opens_or_closes(transfer: Recorded, rows: Array) -> Array:
    """Return which segments without payload are SYN or FIN, or the ACK that ends the handshake.

    Parameters
    ----------
    transfer : Recorded
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


def _events(joined: Join, carriage: Array) -> tuple[Array, Array]:
    """Return the event that began each carriage: its segment; of another flow its ppp_sent."""
    segment = joined.carriages["segment_row"][carriage]
    ours = segment != NA
    source = np.where(ours, "sender", "near.events")
    return source, np.where(ours, segment, joined.carriages["event_row"][carriage])
