"""Flows on one time axis: link seconds since the first packet of their recording.

The axis is the clock of the capture point at which most flows are received, so that flows with one receiver,
or with several on one host, need no other clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.deliveries import in_time_order
from multitracer.clock.moved_table import moved
from multitracer.recording.deliveries import MOST_FLOWS, NO_RECEIVER, tcp_flows, wtcp_flows
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.recording.deliveries import RecordedFlow
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Numbers, Table


@dataclass(frozen=True, slots=True)
class FlowCurve:
    """What one flow brought its receiver, over time.

    Attributes
    ----------
    session : str
        Name of its folder or first file.
    flow : str
        HOST:PORT > HOST:PORT.
    transport : str
    time_s : ndarray of float64, shape (n,)
        When packets arrived that brought something new, ascending.
    new_bytes : ndarray of int64, shape (n,)
    until_s : float
        Last packet of the whole recording.
    """

    session: str
    flow: str
    transport: str
    time_s: Array
    new_bytes: Numbers
    until_s: float


def flow_curves(recording: Recording) -> tuple[list[FlowCurve], list[str]]:
    """Return the curves of all flows with a capture at their receiver, and why others have none, in words."""
    flows = [*tcp_flows(recording), *wtcp_flows(recording)]
    known = sorted((flow for flow in flows if flow.point), key=lambda flow: -(flow.delivered_bytes or 0))
    without = [f"{flow.name}: {NO_RECEIVER}" for flow in flows if not flow.point][:MOST_FLOWS]
    if len(known) > MOST_FLOWS:
        without.append(f"{recording.name}: {len(known) - MOST_FLOWS:,} flows with fewer bytes are not drawn")
        known = known[:MOST_FLOWS]
    if not flows:
        without = [f"{recording.name}: no packet of its captures carries data of TCP or WTCP"]
    point = Counter(flow.point for flow in known).most_common(1)[0][0] if known else ""
    first_ns, last_ns = _ends(recording, point)
    session = recording.folder.name if recording.folder else recording.name
    scale = recording.speed / NS_PER_S
    curves = [
        FlowCurve(
            session,
            flow.name,
            flow.transport,
            (time_ns - first_ns) * scale,
            new_bytes,
            (last_ns - first_ns) * scale,
        )
        for flow in known
        for time_ns, new_bytes in [in_time_order(_on_clock_of(recording, point, flow))]
    ]
    return sorted(curves, key=lambda curve: curve.time_s[0] if len(curve.time_s) else np.inf), without


def _on_clock_of(recording: Recording, point: str, flow: RecordedFlow) -> Table:
    """Return the deliveries of a flow on the clock of a point; as they are, with a warning, if unknown."""
    if flow.point == point or recording.clocks is None:
        return flow.table
    clocks = recording.clocks
    placed = moved(flow.table, clocks, clocks.of_point(flow.point), clocks.of_point(point))
    if not placed.placed and placed.sentence:
        recording.warn_once(f"{flow.name}: {placed.sentence}")
    return placed.table


def _ends(recording: Recording, point: str) -> tuple[int, int]:
    """Return the first and the last packet of all captures that can be placed, on the clock of a point."""
    ends: list[int] = []
    for part in recording.parts:
        files = part.capture.files
        times = [time for file in files for time in (file.first_ns, file.last_ns) if time is not None]
        stamps = np.array([min(times), max(times)] if times else [], np.int64)
        if part.point.name != point and recording.clocks is not None:
            clocks = recording.clocks
            stamps = clocks.place(stamps, clocks.of_point(part.point.name), clocks.of_point(point)).time_ns
        ends += stamps[stamps != NOT_A_TIME].tolist()
    return (min(ends), max(ends)) if ends else (0, 0)
