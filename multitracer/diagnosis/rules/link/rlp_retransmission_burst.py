"""The link repeated frames for a while, and the receiver got nothing (paper 004, 5.4 and Figure 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.by_slots import resets
from multitracer.diagnosis.finding import Finding, episodes, rows
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "rlp-retransmission-burst"
HELP = "A better place, antenna or cell: the radio failed, TCP and the queue did nothing wrong."
_APART_SLOTS = 30
"""Maximum number of slots between two repetitions of one burst: more than the 20 slots of a link round trip."""
_MIN_FRAMES = 8  # repeated frames; fewer are the loss that a link is laid out for. Not measured
_MIN_HOLE_S = 1.4
"""Minimum duration of the hole in s: when the far end stops the link, holes last 1.3 s."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each burst of repeated frames that delayed data at the receiving TCP.

    Bursts that ended in a link reset are left out.
    """
    joined, near = diagnosis.transfer.joined, diagnosis.transfer.near
    if joined is None or joined.delivery is None or near is None:
        return
    frames = near.frames
    repeated = np.flatnonzero(frames["sent"] & (frames["attempt"] > 1) & (frames["tick"] != NA))
    tick = frames["tick"][repeated]
    down = resets(near, "near.events")
    table = joined.carriages
    came = np.sort(table["arrived_tick"][(table["new_bytes"] > 0) & (table["arrived_tick"] != NA)])
    for first, last in episodes(tick, apart_ns=_APART_SLOTS):
        begin, end = int(tick[first]), int(tick[last - 1])
        ends_in_reset = np.any((down.begin >= begin) & (down.begin <= end + 2 * _APART_SLOTS))
        # the longest time without anything new for the receiving TCP that touches the burst
        touching = (came[:-1] <= end + _APART_SLOTS) & (came[1:] >= begin)
        slots = int(np.diff(came)[touching].max(initial=0))
        hole_s = slots * diagnosis.transfer.slot_ns / NS_PER_S
        if last - first < _MIN_FRAMES or hole_s < _MIN_HOLE_S or ends_in_reset:
            continue
        again = repeated[first:last]
        began_ns, ended_ns = (int(frames["time_ns"][again[i]]) for i in (0, -1))
        arq = (Limit.LINK, LimitSubtype.ARQ)
        cost_s = diagnosis.limited_s(arq, Limit.OUTAGE, begin_ns=began_ns, end_ns=ended_ns)
        sentence = (
            f"The radio failed {diagnosis.at_s(began_ns):.1f} s into the transfer: the link sent "
            f"{len(again)} frames again within {diagnosis.link_s(began_ns, ended_ns):.1f} s, and the "
            f"receiver got nothing new for {hole_s:.1f} s."
        )
        yield Finding(KIND, began_ns, ended_ns, cost_s, None, rows("near.frames", again), sentence)
