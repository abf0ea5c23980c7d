"""What the screen shows: one line for each collector, and the last minutes of each number."""

from __future__ import annotations

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
SILENT_NS = 10 * NS_PER_S
"""A collector whose log does not grow for this long is called silent."""


@dataclass(slots=True)
class Line:
    """What is known of one collector now."""

    name: str
    state: str = "starting"
    """recording, silent, starting, waiting (to be started again), ended."""
    bytes: int = 0
    bytes_per_s: float = 0.0
    records_per_s: float = 0.0
    dropped: int = 0
    last: str = ""
    """The last value in words, or why it does not run."""
    restarts: int = 0


@dataclass(slots=True)
class Status:
    """Everything the screen shows."""

    elapsed_s: float = 0.0
    lines: list[Line] = field(default_factory=list)
    series: dict[str, deque[float]] = field(default_factory=dict)
    """Label with unit -> values of the last two minutes, one a second while there are any."""
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
        self._read(line, series, elapsed_s)
        line.restarts = max(0, len(child.runs) - 1)
        line.state = self._state(now_ns)
        if not child.is_running and child.runs:
            line.last = child.runs[-1].outcome or ""
        return line

    def _read(self, line: Line, series: dict[str, deque[float]], elapsed_s: float) -> None:
        if not self._child.runs:
            return
        log, notes = self._child.source.logs(self._child.folder, len(self._child.runs) - 1)
        records = list(self._notes.records(notes) if notes else self._log.records(log))
        line.records_per_s = len(records) / elapsed_s
        newest = values_of(self._child.source.name, records)
        if newest.words:
            line.last = newest.words
        if newest.dropped is not None:
            line.dropped = newest.dropped
        for label, value in newest.numbers.items():
            series.setdefault(label, deque(maxlen=_KEPT)).append(value)

    def _state(self, now_ns: int) -> str:
        if not self._child.is_running:
            return "waiting" if self._child.due_ns is not None else "ended"
        if not self._line.bytes:
            return "starting"
        return "recording" if now_ns - self._grew_ns < SILENT_NS else "silent"
