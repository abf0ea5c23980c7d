"""A capture's clock and the clock of a link log of the same host, by the packets that both name.

A packet is captured on its way out before the link takes it (`packet_queued`, `ppp_sent`), and on its way in
after the link gave it up (`ppp_received`). The log names each by IP identification and TCP sequence number,
so that every packet bounds the offset from one side and the two kinds together from both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.causal_bounds import corridor
from multitracer.clock.model.estimate import Estimate, EventDirection
from multitracer.errors import ClockError
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.tables import Array, Table


METHOD = "link log: packets handed over"
_SLACK_NS = 2e6  # two processes of one host stamp a packet a little apart. Not measured
_LEAST = 5  # with fewer packets one that is mistaken decides
_SENT = ("packet_queued", "ppp_sent")
_RECEIVED = ("ppp_received",)


def relate_link(capture: Capture, events: Table) -> list[Estimate]:
    """Return the relation of a link log to a capture at the same host.

    Parameters
    ----------
    capture : Capture
        Captured at the side whose log this is; clock `from`.
    events : Table
        `link_events`, their clock is `to`.

    Raises
    ------
    ClockError
        If too few packets are named by both, or only packets of one direction.
    """
    parts = [_shared(capture, events, kind, EventDirection.FORWARD) for kind in _SENT]
    parts += [_shared(capture, events, kind, EventDirection.BACKWARD) for kind in _RECEIVED]
    start, end, direction = (np.concatenate(column) for column in zip(*parts, strict=True))
    if len(start) < _LEAST:
        raise ClockError(
            f"{METHOD}: not determinable, because capture and log name {len(start)} packets in common; "
            "what would help: a capture at the interface above the link, of the same time"
        )
    return [corridor(start, end, direction, method=METHOD, slack_ns=_SLACK_NS)]


def _shared(capture: Capture, events: Table, kind: str, direction: int) -> tuple[Array, Array, Array]:
    """Return (capture's stamp, log's stamp, direction) of the packets that events of a kind name."""
    rows = np.flatnonzero((events["event"] == kind) & (events["ip_id"] != NA) & (events["seq"] != NA))
    named = _names(events["ip_id"][rows], events["seq"][rows])
    seen = _names(capture.segments["ip_id"], capture.segments["seq"])
    once_named, once_seen = _once(named), _once(seen)
    _, mine, theirs = np.intersect1d(
        seen[once_seen], named[once_named], assume_unique=True, return_indices=True
    )
    time = capture.segments["time_ns"][once_seen[mine]]
    return time, events["time_ns"][rows[once_named[theirs]]], np.full(len(mine), direction, dtype=np.int8)


def _names(ip_id: Array, seq: Array) -> Array:
    names: Array = (ip_id.astype(np.int64) << 32) + seq.astype(np.int64)
    return names


def _once(names: Array) -> Array:
    """Return the indexes of names that occur once: what repeats could be any of its copies."""
    _, first, count = np.unique(names, return_index=True, return_counts=True)
    indexes: Array = first[count == 1]
    return indexes
