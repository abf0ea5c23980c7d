"""The options of a recording: host, collectors, duration and command."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer.errors import InputError
from multitracer.manifest import Role
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Document

SYNC_PROBE_PORT = 9009
"""UDP port of the sync probes; the packet collectors capture it."""


@dataclass(frozen=True, slots=True)
class PlannedCollector:
    """A collector of the plan."""

    name: str
    """Name of the collector on the screen and in the manifest."""
    stem: str
    """Beginning of the log's file name, for example `tcp_state`."""
    suffix: str
    """Suffix of the log's file name, for example `.jsonl`."""
    options: tuple[str, ...] = ()
    notes: bool = False
    """Whether the collector writes its own messages to a second log (`--notes`)."""
    packets: bool = False
    """Whether it captures packets."""
    host: str = ""
    """Host whose logs these are, and its folder in the session; empty for the host that records."""
    module: str = ""
    """Module that `python -m` runs; by default MultiTracer's collector of that name."""
    end_ns: int = 5 * NS_PER_S
    """Maximum time in which it ends after it was asked to; it is killed then."""

    def logs(self, folder: Path, attempt: int) -> tuple[Path, Path | None]:
        """Return the path of the log of one attempt, and of its messages (None without a message log)."""
        notes = folder / f"{self.name}-{attempt}.jsonl" if self.notes else None
        return folder / f"{self.stem}-{attempt}{self.suffix}", notes

    def command(self, folder: Path, attempt: int) -> list[str]:
        """Return the command line of one attempt; each writes new files."""
        log, notes = self.logs(folder, attempt)
        more = ["--notes", str(notes)] if notes else []
        module = self.module or f"collectors.{self.name}"
        return [sys.executable, "-m", module, "-o", str(log), *more, "--tags", *self.options]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingPlan:
    """One recording at one host."""

    role: Role = Role.MOBILE
    """Role of this host, and the name of its folder."""
    sources: tuple[PlannedCollector, ...] = ()
    duration_ns: int | None = None
    command: tuple[str, ...] = ()
    """Command that runs when the collectors are ready; the recording ends when the command ends."""
    umask: int = -1
    """The umask of `command`; -1 is that of this process."""
    traffic: tuple[str, ...] = ()
    """Command that makes the traffic of a rehearsal; it runs until the recording ends."""
    ready_ns: int = 5 * NS_PER_S
    """Maximum time for which `command` and `traffic` wait for the collectors."""
    tail_ns: int = NS_PER_S
    """Time for which the recording continues after the command, for packets that are still in flight."""
    sync_probe_every_ns: int = 30 * NS_PER_S
    """Time between two sync probes; 0 sends none."""
    sync_probe_to: tuple[str, int] = ("127.0.0.1", SYNC_PROBE_PORT)
    """Host and port to which sync probes are sent: the other endpoint of the session, if it is known."""
    variables: Document = field(default_factory=dict)
    """Experiment variables for the manifest."""
    wants_packets: bool = False
    """Whether a recording without a packet capture counts as failed."""

    def __post_init__(self) -> None:
        names = [source.name for source in self.sources]
        if len(set(names)) != len(names):
            raise InputError(f"collectors: the list {sorted(names)} contains a name twice; name each collector once")
