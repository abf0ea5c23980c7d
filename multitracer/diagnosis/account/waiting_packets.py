"""Rule 3 of the account: when packets waited for the link, and when the far end had stopped it.

The balance of the queue begins with the log, before the SYN: a packet waits from the slot after it entered
the interface queue until the first transmission of its last octet, or until a reset flushes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.ranges import merged
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.join.segments_and_frames import Join
    from multitracer.recording.hosts import LinkSide
    from multitracer.tables import Array

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
    near = joined.transfer.near
    assert near is not None
    queued = near.rows("packet_queued")
    begin = near.events["tick"][queued] + 1
    end = np.maximum(_left(joined, near, queued), begin)
    return merged(begin, end)


def _left(joined: Join, near: LinkSide, queued: Array) -> Array:
    """Return the slot before which each queued packet had left the queue for good."""
    carriages, tick = joined.carriages, near.events["tick"]
    log_end = max(int(tick.max(initial=0)), int(near.frames["tick"].max(initial=0))) + 1
    left = np.full(len(queued), log_end, dtype=np.int64)
    left[np.isin(queued, joined.dropped_from)] = 0
    mine = np.flatnonzero(carriages["queued_row"] != NA)
    place = np.searchsorted(queued, carriages["queued_row"][mine])
    first = near.frames["attempt"][joined.pieces["frame_row"]] == 1
    octets = np.bincount(
        joined.pieces["carriage"][first], joined.pieces["bytes"][first], minlength=len(carriages)
    )
    flushes = near.rows(*_FLUSHES)
    flush_tick = np.append(tick[flushes] + 1, log_end)
    flushed = flush_tick[np.searchsorted(flushes, carriages["event_row"][mine])]
    whole = octets[mine] >= carriages["wire_bytes"][mine]
    left[place] = np.where(whole, carriages["sent_tick"][mine] + 1, flushed)
    return left


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
