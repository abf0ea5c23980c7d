"""The far end stops the link's sender again and again: the network is slower (paper 004, 5.5)."""

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
    from multitracer.recording.hosts import LinkSide
    from multitracer.tables import Array

KIND = "link-flow-control"
HELP = "A network that drains the link as fast as the radio fills it; nothing at the sender changes it."
_LEAST_GAPS = 3  # from three on it stops again and again. Not measured
_LEAST_SHARE = 0.02
"""Of the transfer's time, below which nobody would notice."""
_GO_AHEAD = ("xon_received", "peer_ready", "reset_started", "call_dropped", "disconnected")


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, of the whole transfer."""
    near = diagnosis.transfer.near
    if near is None:
        return
    stops, gaps_s = _gaps(diagnosis, near)
    cost_s = diagnosis.limited_s((Limit.LINK, LimitSubtype.XOFF))
    if len(stops) < _LEAST_GAPS or cost_s < _LEAST_SHARE * diagnosis.limited.total_s:
        return
    times = near.events["time_ns"][stops]
    effective, nominal = _rates(diagnosis, near, float(gaps_s.sum()))
    sentence = (
        f"The far end of the radio link stopped it {len(stops)} times, for some {np.median(gaps_s):.2f} s "
        f"each: the link carried {rate(effective * BITS_PER_BYTE)} of the "
        f"{rate(nominal * BITS_PER_BYTE)} that the radio has."
    )
    numbers = {"stops": len(stops), "carried_bytes_per_s": effective, "radio_bytes_per_s": nominal}
    evidence = rows("near.events", stops)
    yield Finding(KIND, int(times[0]), int(times[-1]), cost_s, None, evidence, sentence, numbers=numbers)


def _gaps(diagnosis: Diagnosis, near: LinkSide) -> tuple[Array, Array]:
    """Return the rows of the stops within the transfer, and how long each lasted in link time."""
    times = near.events["time_ns"]
    stops = near.rows("xoff_received", "peer_busy")
    goes = near.rows(*_GO_AHEAD)
    place = np.searchsorted(goes, stops)
    known = place < len(goes)
    stops, ends = stops[known], goes[place[known]]
    _, first = np.unique(ends, return_index=True)  # a stop that is said again is one
    stops, ends = stops[first], ends[first]
    inside = (times[stops] >= diagnosis.transfer.begin_ns) & (times[stops] <= diagnosis.transfer.end_ns)
    gaps_s = (times[ends] - times[stops]) * diagnosis.transfer.speed / NS_PER_S
    return stops[inside], gaps_s[inside]


def _rates(diagnosis: Diagnosis, near: LinkSide, stopped_s: float) -> tuple[float, float]:
    """Return octets a second: of the time in which the link sent or was stopped, and in which it sent."""
    frames = near.frames
    inside = (frames["time_ns"] >= diagnosis.transfer.begin_ns) & (
        frames["time_ns"] <= diagnosis.transfer.end_ns
    )
    carried = frames["sent"] & (frames["payload_bytes"] > 0) & inside
    octets = float(frames["payload_bytes"][carried].sum())
    sending_s = np.count_nonzero(carried) * diagnosis.transfer.slot_ns / NS_PER_S
    return (octets / (sending_s + stopped_s), octets / sending_s) if sending_s else (0.0, 0.0)
