"""Memory, descriptors and processor time of some processes, as /proc tells them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Watched:
    """What one process used over time."""

    name: str
    at_s: list[float] = field(default_factory=list)
    rss_bytes: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def growth_bytes(self) -> float:
        """Memory gained from the first third (warm by then) to the last, by medians."""
        third = max(1, len(self.rss_bytes) // 3)
        first = self.rss_bytes[third : 2 * third] or self.rss_bytes
        return float(np.median(self.rss_bytes[-third:]) - np.median(first))

    @property
    def more_descriptors(self) -> int:
        """Descriptors gained from a third of the time on."""
        return self.descriptors[-1] - self.descriptors[len(self.descriptors) // 3]

    @property
    def share_of_core(self) -> float:
        """Processor time per time, between the first look and the last."""
        took_s = self.at_s[-1] - self.at_s[0]
        return (self.cpu_s[-1] - self.cpu_s[0]) / took_s if took_s > 0 else 0.0


class Watch:
    """Follows every process whose command line names a folder, by its process id."""

    def __init__(self, folder: Path) -> None:
        self._mark = str(folder).encode()
        self.processes: dict[int, Watched] = {}

    def look(self, at_s: float) -> None:
        """Take one sample of each."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes()
                if self._mark not in words or int(process.name) == os.getpid():
                    continue
                stat = (process / "stat").read_text().rpartition(")")[2].split()
                descriptors = len(list((process / "fd").iterdir()))
            except OSError:
                continue  # it ended meanwhile
            watched = self.processes.setdefault(int(process.name), Watched(_name(words)))
            watched.at_s.append(at_s)
            watched.rss_bytes.append(int(stat[21]) * _PAGE_BYTES)
            watched.descriptors.append(descriptors)
            watched.cpu_s.append((int(stat[11]) + int(stat[12])) / _TICKS_PER_S)


def _name(words: bytes) -> str:
    parts = words.decode("utf-8", "replace").split("\0")
    known = [part for part in parts if part.startswith("collectors.")]
    return known[0] if known else Path(parts[0]).name if "multitracer" not in parts else "supervisor"


def complaints(watched: Watched) -> list[str]:
    """Return what is wrong: memory that grows by over 4 MB, or descriptors that leak."""
    found = []
    if watched.growth_bytes > 4e6:
        found.append(f"{watched.name}: memory grew by {watched.growth_bytes / 1e6:.1f} MB")
    if watched.more_descriptors > 0:
        found.append(f"{watched.name}: {watched.more_descriptors} descriptors more than before")
    return found
