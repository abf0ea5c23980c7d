"""How much disk space is left, and for how long."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

_MEMORY_NS = 60 * NS_PER_S
_WARN_BYTES = 200 << 20
_STOP_BYTES = 16 << 20
_WARN_S = 600.0


@dataclass(frozen=True, slots=True)
class Room:
    """The space left on the disk of a recording."""

    free_bytes: int
    total_bytes: int
    lasts_s: float | None
    """At the rate of the last minute; None while nothing grows."""

    @property
    def is_short(self) -> bool:
        """Whether the engineer should act: under 200 MB or a fifth of a small disk, or ten minutes."""
        little = self.free_bytes < min(_WARN_BYTES, self.total_bytes // 5)
        return little or (self.lasts_s is not None and self.lasts_s < _WARN_S)

    @property
    def is_out(self) -> bool:
        """Whether the recording must end now to end in order: under 16 MB, or a twentieth of a small disk."""
        return self.free_bytes < min(_STOP_BYTES, self.total_bytes // 20)


class Disk:
    """Follows the space on the disk that holds a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._history: deque[tuple[int, int]] = deque()

    def look(self, used_bytes: int, *, now_ns: int) -> Room:
        """Return the space that is left.

        Parameters
        ----------
        used_bytes : int
            What the recording takes so far.
        now_ns : int
            CLOCK_MONOTONIC.
        """
        self._history.append((now_ns, used_bytes))
        while now_ns - self._history[0][0] > _MEMORY_NS:
            self._history.popleft()
        status = os.statvfs(self._folder)
        free_bytes = status.f_bavail * status.f_frsize
        (then_ns, then_bytes) = self._history[0]
        grown_bytes = used_bytes - then_bytes
        lasts_s = free_bytes * (now_ns - then_ns) / NS_PER_S / grown_bytes if grown_bytes > 0 else None
        return Room(free_bytes, status.f_blocks * status.f_frsize, lasts_s)
