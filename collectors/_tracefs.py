"""A tracing instance of the kernel, with its own buffer, clock, filters and events.

Source: Documentation/trace/ftrace.rst (instances, trace_pipe, per_cpu stats). Removing an instance that is
being read fails with EBUSY, so that a running collector never loses its events.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import CollectorError, PreflightError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_MOUNT_POINT = Path("/sys/kernel/tracing")
_NAME = re.compile(r"multitracer-(\d+)-(\d+)")
_COUNTER = re.compile(r"^(overrun|commit overrun|dropped events): (\d+)$", re.MULTILINE)
_CLONE_NEWNS, _MS_REC, _MS_SLAVE = 0x0002_0000, 1 << 14, 1 << 19
"""Of unshare(2) and mount(2): later mounts of the machine appear in the namespace, and none of it outside."""
_START_TIME_FIELD = 19  # of /proc/PID/stat behind the name, from 0: starttime in clock ticks


def tracefs() -> Path:
    """Return the mount point of tracefs; if necessary mount it, in a mount namespace of this thread alone.

    What is mounted so ends with the process, however it ends; the machine's mounts stay as they are.

    Raises
    ------
    PreflightError
        If it cannot be mounted or written to.
    """
    path = _mounted() or _mount()
    if not os.access(path / "instances", os.W_OK):
        fix = f"sudo {sys.executable} -m multitracer capture"
        raise PreflightError(
            f"{path}: only root can trace the kernel's TCP; run `{fix}`, or use the collector tcp_info"
        )
    return path


def _mounted() -> Path | None:
    for mount in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = mount.split()
        if kind == "tracefs":
            return Path(where.encode().decode("unicode_escape"))
    return None


def _mount() -> Path:
    libc = ctypes.CDLL(None, use_errno=True)
    is_private = libc.unshare(_CLONE_NEWNS) == 0 and libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None) == 0
    if not is_private or libc.mount(b"tracefs", bytes(_MOUNT_POINT), b"tracefs", 0, None) != 0:
        why = os.strerror(ctypes.get_errno())
        raise PreflightError(
            f"{_MOUNT_POINT}: tracefs is not mounted ({why}); run as root: `mount -t tracefs tracefs {_MOUNT_POINT}`"
        )
    return _MOUNT_POINT


class Instance:
    """A tracing instance that exists while the context lasts.

    The name contains PID and start time of this process; entering the context removes instances of dead processes.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / "instances" / f"multitracer-{os.getpid()}-{_start_time(os.getpid())}"

    def __enter__(self) -> Self:
        remove_stale(self._root)
        try:
            self._path.mkdir()
        except OSError as error:
            raise CollectorError(f"{self._path}: cannot create this trace instance: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._path.rmdir()
        except OSError as failure:
            raise CollectorError(
                f"{self._path}: cannot remove this trace instance: {failure.strerror}; stop the "
                "programs that read from the instance, then remove the folder with `rmdir`"
            ) from failure

    def __truediv__(self, name: str) -> Path:
        return self._path / name

    def set(self, name: str, value: object) -> None:
        """Write one of the instance's files.

        Raises
        ------
        CollectorError
            If the kernel rejects the value; the message contains the kernel's explanation if there is one.
        """
        try:
            (self._path / name).write_text(f"{value}\n")
        except OSError as error:
            raise CollectorError(
                f"{self._path / name}: the kernel refused the value {str(value)!r}: {error.strerror}"
            ) from error

    def lost(self) -> dict[str, int]:
        """Return the numbers of lost events of all CPUs so far, by the kernel's counters."""
        total: dict[str, int] = {}
        for stats in self._path.glob("per_cpu/cpu*/stats"):
            for name, count in _COUNTER.findall(stats.read_text()):
                total[name] = total.get(name, 0) + int(count)
        return total


def remove_stale(root: Path) -> None:
    """Remove the instances of collectors that were killed; instances of other programs stay."""
    for path in (root / "instances").iterdir():
        if _is_stale(path.name):
            _remove(path)


def _is_stale(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and _start_time(int(match[1])) != int(match[2])


def _remove(path: Path) -> None:
    try:
        path.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EBUSY):
            raise CollectorError(f"{path}: cannot remove this trace instance: {error.strerror}") from error


def _start_time(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.rpartition(")")[2].split()[_START_TIME_FIELD])
