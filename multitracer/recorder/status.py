"""The content of the screen: one line for each collector, and the last minutes of each number."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer.recorder.follow import Follower
from multitracer.recorder.values import values_of
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.recorder.child import Child
    from multitracer.recorder.disk import Room

_KEPT = 120
"""Values of each series that the screen can show: two minutes at one a second."""
_LATE_NS = 3 * NS_PER_S
"""A value that is not told for this long is not known any more."""
SILENT_NS = 10 * NS_PER_S
"""A collector whose log does not grow for this long is called silent."""


@dataclass(slots=True)
class Line:
    """The present state of one collector."""

    name: str
    state: str = "starting"
    """recording, no values (its source gives none), silent, starting, waiting (to be restarted), ended."""
    bytes: int = 0
    bytes_per_s: float = 0.0
    records_per_s: float = 0.0
    dropped: int = 0
    last: str = ""
    """The last value in words, or why there is none; nothing in it acts on a terminal."""
    restarts: int = 0
    alert: str = ""
    """What the engineer should know of it."""


@dataclass(slots=True)
class Status:
    """Everything the screen shows."""

    elapsed_s: float = 0.0
    lines: list[Line] = field(default_factory=list)
    series: dict[str, deque[float]] = field(default_factory=dict)
    """Label with unit -> values of the last two minutes, one a second; NaN where there was none."""
    room: Room | None = None
    markers: int = 0
    claps: int = 0
    message: str = ""
    """What the engineer should know now."""


class Watcher:
    """Follows one collector by its logs."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._log, self._notes = Follower(), Follower()
        self._line = Line(child.source.name)
        self._grew_ns = 0
        self._seen_ns = 0
        self._gap = ""
        self._told_ns: dict[str, int] = {}
        self._packets = (0, 0)
        self._packets_per_s = 0.0

    def look(self, series: dict[str, deque[float]], now_ns: int) -> Line:
        """Return the collector's line; add its newest values to the series."""
        line, child = self._line, self._child
        elapsed_s = max((now_ns - self._seen_ns) / NS_PER_S, 1e-3) if self._seen_ns else 1.0
        self._seen_ns = now_ns
        used = sum(path.stat().st_size for path in child.logs)
        line.bytes_per_s = max(0, used - line.bytes) / elapsed_s
        if used > line.bytes:
            self._grew_ns = now_ns
        line.bytes = used
        self._read(line, series, elapsed_s, now_ns)
        self._leave_gaps(series, now_ns)
        line.restarts = max(0, len(child.runs) - 1)
        line.state = self._state(now_ns)
        if not child.is_running and child.runs:
            line.last = child.runs[-1].outcome or ""
        line.last = _printable(line.last)
        return line

    def _read(self, line: Line, series: dict[str, deque[float]], elapsed_s: float, now_ns: int) -> None:
        if not self._child.runs:
            return
        log, notes = self._child.source.logs(self._child.folder, len(self._child.runs) - 1)
        follower = self._notes if notes else self._log
        newest = values_of(self._child.source.name, list(follower.records(notes or log)))
        line.records_per_s = follower.lines / elapsed_s
        if notes:
            self._count_packets(line, newest.packets, now_ns)
        self._gap = self._gap if newest.gap is None else newest.gap
        line.last = self._gap or newest.words or line.last
        line.alert = newest.alert or line.alert
        if newest.dropped is not None:
            line.dropped = newest.dropped
        for label, value in newest.numbers.items():
            series.setdefault(label, deque(maxlen=_KEPT)).append(value)
            self._told_ns[label] = now_ns

    def _count_packets(self, line: Line, packets: int | None, now_ns: int) -> None:
        """Compute the rate from the packet count, which the collector writes only every few seconds."""
        before, then_ns = self._packets
        elapsed_ns = now_ns - then_ns
        line.records_per_s = self._packets_per_s
        if packets is not None and (packets != before or elapsed_ns > SILENT_NS):
            self._packets_per_s = max(0, packets - before) * NS_PER_S / elapsed_ns if then_ns else 0.0
            self._packets = (packets, now_ns)

    def _leave_gaps(self, series: dict[str, deque[float]], now_ns: int) -> None:
        """End a series whose values no longer arrive: a gap stays visible as a gap."""
        for label, told_ns in self._told_ns.items():
            if now_ns - told_ns > _LATE_NS:
                series[label].append(math.nan)

    def _state(self, now_ns: int) -> str:
        if not self._child.is_running:
            return "waiting" if self._child.due_ns is not None else "ended"
        if not self._line.bytes:
            return "starting"
        if self._gap:
            return "no values"
        return "recording" if now_ns - self._grew_ns < SILENT_NS else "silent"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
