"""The session folder of a recording: created at the start, readable at any time, completed at the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.errors import CollectorError, InputError
from multitracer.manifest import (
    MANIFEST,
    CollectorRun,
    LogFile,
    Manifest,
    Variables,
    checksum,
    hand_over,
    write_manifest,
)
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.recorder.plan import RecordingPlan
    from multitracer.tables import Document

_RESERVE_BYTES = 64 << 10
"""Size of a reserve file, so that the manifest can be completed when the disk is full."""


class SessionFolder:
    """DIR with manifest.json and one folder for this host.

    Parameters
    ----------
    folder : Path
        The session folder.
    plan : RecordingPlan
    begun : Manifest, optional
        The manifest of DIR if the session was begun before, as a measurement does; its logs and runs remain.

    Raises
    ------
    InputError
        If DIR cannot be created, is not empty and was not begun before, or if another recording writes to it.
    """

    def __init__(self, folder: Path, plan: RecordingPlan, *, begun: Manifest | None = None) -> None:
        self.folder = folder
        self.host = folder / plan.role
        self._manifest = begun or Manifest(
            folder.resolve().name,
            created_ns=time.time_ns(),
            variables=Variables.of(dict(plan.variables)),
            more={"multitracer": __version__},
        )
        self._manifest.host(plan.role).role = plan.role
        self._manifest.host(plan.role).add(_facts())
        self._earlier = list(self._manifest.collectors)
        try:
            folder.mkdir(exist_ok=True)
            if begun is None and any(folder.iterdir()):
                raise InputError(
                    f"{folder}: the folder is not empty, and logs are never overwritten; give a new folder"
                )
            self._lock = _locked(folder)
            self.host.mkdir(exist_ok=begun is not None)
            self._reserve = _reserve(folder)
            write_manifest(folder, self._manifest)
            hand_over(folder)
        except OSError as error:
            raise InputError(f"{folder}: cannot create this folder: {error.strerror}; give another folder") from error

    def note(self, runs: list[CollectorRun]) -> None:
        """Write the runs of the collectors to the manifest.

        A full disk is ignored, the supervisor detects it.
        """
        self._manifest.collectors = self._earlier + runs
        with contextlib.suppress(OSError):
            write_manifest(self.folder, self._manifest)
        hand_over(self.folder)

    def add(self, **facts: object) -> None:
        """Add keys about the recording to the manifest, such as the reason for its end."""
        self._manifest.more |= facts

    def log_paths(self) -> list[Path]:
        """Return the paths of all existing logs."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        return sorted(path for path in files if path.name not in (MANIFEST, f"{MANIFEST}.tmp"))

    def bytes(self) -> int:
        """Return the total size of the logs in bytes; new logs become those of the user who called sudo."""
        hand_over(self.folder)
        return sum(map(_size, self.log_paths()))

    def complete(self, runs: list[CollectorRun]) -> None:
        """Write the manifest with the checksums of the logs.

        Raises
        ------
        CollectorError
            If the manifest cannot be written; the logs and the previous manifest remain.
        """
        os.close(self._reserve)
        self._manifest.collectors = self._earlier + runs
        self._finish()
        os.close(self._lock)

    def folder_of(self, host: str) -> Path:
        """Return the folder of a host, which is made if it is not there; of this one if `host` is empty."""
        if not host:
            return self.host
        self._manifest.host(host)
        (self.folder / host).mkdir(exist_ok=True)
        return self.folder / host

    def expect(self, host: str, **facts: object) -> None:
        """Add a second host whose data this machine also records.

        Parameters
        ----------
        host : str
            Name of its folder.
        **facts
            Keys of the host in the manifest.
        """
        self._manifest.host(host).add(_facts())
        self.add(**facts)
        self.note(self._manifest.collectors)

    def adopt(self) -> None:
        """Add logs that were written after `complete` to the manifest.

        Raises
        ------
        CollectorError
            If the manifest cannot be written.
        """
        self._finish()

    def _finish(self) -> None:
        for path in self.folder.glob("*/*.err"):
            if not path.stat().st_size:
                path.unlink()  # a collector that had nothing to say
        self._manifest.files = [self._log_file(path) for path in self.log_paths()]
        try:
            write_manifest(self.folder, self._manifest)
        except OSError as error:
            raise CollectorError(
                f"{self.folder / MANIFEST}: cannot write the end of the manifest: "
                f"{error.strerror}; the logs are complete"
            ) from error

    def _log_file(self, path: Path) -> LogFile:
        host = path.parent.name if path.parent != self.folder else ""
        relative = path.relative_to(self.folder).as_posix()
        return LogFile(relative, host, path.stat().st_size, checksum(path))


def _reserve(folder: Path) -> int:
    """Reserve space in a file without a name: `kill -9` closes the descriptor, which frees the space."""
    with tempfile.TemporaryFile(dir=folder) as nameless:
        nameless.write(bytes(_RESERVE_BYTES))
        nameless.flush()
        return os.dup(nameless.fileno())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # the disk was taken away, or the file just now
        return 0


def _facts() -> Document:
    """Return the keys of this machine in the manifest."""
    system = os.uname()
    return {"kernel": system.release, "machine": system.machine, "node": system.nodename}


def _locked(folder: Path) -> int:
    """Return a descriptor of the folder that no other recording can lock; the kernel unlocks it at the end."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(f"{folder}: another recording writes to this folder; wait until it ends") from error
    return descriptor


# How much disk space is left, and for how long.


_MEMORY_NS = 60 * NS_PER_S
_WARN_BYTES = 200 << 20
_STOP_BYTES = 16 << 20
_WARN_S = 600.0


@dataclass(frozen=True, slots=True)
class Room:
    """The free space on the disk of a recording."""

    free_bytes: int
    total_bytes: int
    lasts_s: float | None
    """Time until the disk is full at the data rate of the last minute, in s; None if the logs do not grow."""

    @property
    def is_short(self) -> bool:
        """Return whether to warn: less than 200 MB, a fifth of a small disk, or ten minutes are left."""
        little = self.free_bytes < min(_WARN_BYTES, self.total_bytes // 5)
        return little or (self.lasts_s is not None and self.lasts_s < _WARN_S)

    @property
    def is_out(self) -> bool:
        """Return whether the recording must end: less than 16 MB, or 1/20 of a small disk, are left."""
        return self.free_bytes < min(_STOP_BYTES, self.total_bytes // 20)


class Disk:
    """Monitors the free space on the disk of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._history: deque[tuple[int, int]] = deque()

    def look(self, used_bytes: int, *, now_ns: int) -> Room:
        """Return the free space.

        Parameters
        ----------
        used_bytes : int
            Size of the recording so far.
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
