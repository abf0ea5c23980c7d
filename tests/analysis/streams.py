"""Captures as streams: cut into pieces, and their connections beside those of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import analyse
from multitracer.analysis.streaming import StreamLimits
from multitracer.analysis.streaming.open_connections import OpenConnections
from multitracer.analysis.tcp import Analysis
from multitracer.schemas.tcp import CONNECTIONS, DIRECTIONS, WindowScaleBy
from multitracer.tables import Table

if TYPE_CHECKING:
    from multitracer.analysis.trust import Trust
    from multitracer.capture import CaptureTables

SEAMS = StreamLimits(rows=0, own_rows=24, closed_rows=24, context_rows=16)
"""Folds whatever has more than 24 segments, after each piece."""
FOREVER_NS = 1 << 60
_LAST_DIGIT = {"rtt_p50_ns", "rtt_p95_ns"}
"""Of a whole they are computed at some place among all samples: the last binary digit may be another."""
_BY_SENT = {"window_shift", "window_shift_by", "max_window_bytes"}
"""Without a SYN they follow from what each fold shows alone."""


def streamed(capture: CaptureTables, rows: int, limits: StreamLimits) -> tuple[Table, Table, Trust]:
    """Return connections, directions and trust of a capture that comes in pieces of so many rows."""
    stream, ended = OpenConnections(limits), []
    for begin in range(0, len(capture.segments), rows):
        chosen = np.zeros(len(capture.segments), dtype=bool)
        chosen[begin : begin + rows] = True
        ended.append(stream.take_in(capture.where(chosen)))
    ended.append(stream.end())
    connections = Table.concatenate(CONNECTIONS, [each.connections for each in ended])
    directions = Table.concatenate(DIRECTIONS, [each.directions for each in ended])
    order = np.argsort(connections["connection"], kind="stable")
    connections = connections.take(order)
    directions = directions.take(np.stack([2 * order, 2 * order + 1], axis=1).ravel())
    analysis = Analysis(capture, analyse(capture).partition, connections, directions, stream.facts)
    return connections, directions, analysis.trust


def differences(capture: CaptureTables, rows: int, limits: StreamLimits) -> list[str]:
    """Return in words where the stream of a capture differs from the whole; connections never leave early."""
    complete = analyse(capture)
    limits = replace(limits, closed_ns=FOREVER_NS, idle_ns=FOREVER_NS)
    connections, directions, trust = streamed(capture, rows, limits)
    if len(connections) != len(complete.connections):
        return [f"{len(connections)} connections, not {len(complete.connections)}"]
    differing = [] if trust == complete.trust else [f"{trust}, not {complete.trust}"]
    tick_ns = max((i.resolution_ns for f in capture.files for i in f.interfaces), default=1.0)
    for one, other in ((connections, complete.connections), (directions, complete.directions)):
        for name in one.schema.names:
            a, b = one[name], other[name]
            same = (a == b) | (one.missing(name) & other.missing(name))
            if name in _LAST_DIGIT:
                same |= np.abs(a - b) <= tick_ns
            if name in _BY_SENT:
                same |= complete.directions["window_shift_by"] != WindowScaleBy.SYN
            differing += [f"{name}[{i}]: {a[i]}, not {b[i]}" for i in np.flatnonzero(~same)[:3]]
    return differing
