"""The far end stops the link's sender again and again: its network is slower (paper 004, 5.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "link-flow-control"
HELP = "A network that drains the link as fast as the radio fills it; nothing at the sender changes it."
_MIN_GAPS = 3  # from three on it stops again and again. Not measured
_MIN_SHARE = 0.02
"""Minimum share of the transfer's time that is noticeable."""
_GO_AHEAD = ("xon_received", "peer_ready", "reset_started", "call_dropped", "disconnected")


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if the far end stopped the link's sender again and again."""
    near = diagnosis.transfer.near
    if near is None:
        return

    # the stops within the transfer, and how long each lasted in link time
    transfer, times = diagnosis.transfer, near.events["time_ns"]
    stops, goes = near.rows("xoff_received", "peer_busy"), near.rows(*_GO_AHEAD)
    place = np.searchsorted(goes, stops)
    known = place < len(goes)
    stops, ends = stops[known], goes[place[known]]
    _, first = np.unique(ends, return_index=True)  # a stop that is said again is one
    stops, ends = stops[first], ends[first]
    inside = (times[stops] >= transfer.begin_ns) & (times[stops] <= transfer.end_ns)
    stops, ends = stops[inside], ends[inside]
    gaps_s = (times[ends] - times[stops]) * transfer.speed / NS_PER_S
    cost_s = diagnosis.limited_s((Limit.LINK, LimitSubtype.XOFF))
    if len(stops) < _MIN_GAPS or cost_s < _MIN_SHARE * diagnosis.limited.total_s:
        return

    # octets a second of the time in which the link sent, and of that in which it sent or was stopped
    frames = near.frames
    carried = frames["sent"] & (frames["payload_bytes"] > 0)
    carried &= (frames["time_ns"] >= transfer.begin_ns) & (frames["time_ns"] <= transfer.end_ns)
    octets = float(frames["payload_bytes"][carried].sum())
    sending_s = np.count_nonzero(carried) * transfer.slot_ns / NS_PER_S
    nominal = octets / sending_s if sending_s else 0.0
    effective = octets / (sending_s + float(gaps_s.sum())) if sending_s else 0.0
    sentence = (
        f"The far end of the radio link stopped it {len(stops)} times, for some {np.median(gaps_s):.2f} s "
        f"each: the link carried {rate(effective * BITS_PER_BYTE)} of the "
        f"{rate(nominal * BITS_PER_BYTE)} that the radio has."
    )
    numbers = {"stops": len(stops), "carried_bytes_per_s": effective, "radio_bytes_per_s": nominal}
    evidence = rows("near.events", stops)
    begin_ns, end_ns = (int(times[stops[i]]) for i in (0, -1))
    yield Finding(KIND, begin_ns, end_ns, cost_s, None, evidence, sentence, numbers=numbers)
