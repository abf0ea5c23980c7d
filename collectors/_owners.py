"""Finds the sockets of selected processes: the kernel reports inodes, /proc has the process of an inode."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import InputError, PreflightError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.protocols.sock_diag import DiagSocket

_PROC = Path("/proc")
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_COMM_BYTES = 15
_MOST_REMEMBERED = 100_000


class Owners:
    """Selects the sockets of processes, given by PID or name, when a socket is first seen.

    A socket remains selected after its process has closed it, because its last data may still be in flight. A
    socket without a process (not yet accepted) is looked up again.

    Raises
    ------
    InputError
        If a process given by PID does not exist, or is in another network namespace.
    PreflightError
        If the user has no permission to see the sockets of a selected process.
    """

    def __init__(self, *, pids: Iterable[int], names: Iterable[str]) -> None:
        self._pids = tuple(pids)
        self._names = {name.encode()[:_COMM_BYTES] for name in names}
        self._decided: dict[int, bool] = {}
        for pid in self._pids:
            _check(pid)

    def choose(self, sockets: list[DiagSocket]) -> list[DiagSocket]:
        """Return those of `sockets` that belong to the selected processes."""
        if not (self._pids or self._names):
            return sockets
        undecided = [s for s in sockets if s.cookie not in self._decided and s.inode]
        if undecided:
            held = {inode for pid in self._processes() for inode in _inodes(pid)}
            self._decided |= {s.cookie: s.inode in held for s in undecided}
        if len(self._decided) > _MOST_REMEMBERED:
            there = {s.cookie for s in sockets}
            self._decided = {cookie: ours for cookie, ours in self._decided.items() if cookie in there}
        return [s for s in sockets if self._decided.get(s.cookie, False)]

    def _processes(self) -> Iterator[int]:
        yield from self._pids
        if self._names:
            yield from (pid for pid in _all_processes() if _comm(pid) in self._names)


def _check(pid: int) -> None:
    own, theirs = _PROC / "self/ns/net", _PROC / f"{pid}/ns/net"
    try:
        other = theirs.readlink() != own.readlink()
    except FileNotFoundError:
        raise InputError(f"--pid {pid}: no process has this number; `ps` lists the processes") from None
    except PermissionError:
        raise _not_allowed(pid) from None
    if other:
        raise InputError(
            f"--pid {pid}: the process is in another network namespace; start this collector with `nsenter -t {pid} -n`"
        )


def _all_processes() -> Iterator[int]:
    yield from (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())


def _comm(pid: int) -> bytes | None:
    try:
        return (_PROC / f"{pid}/comm").read_bytes().rstrip(b"\n")
    except (FileNotFoundError, ProcessLookupError):
        return None


def _inodes(pid: int) -> Iterator[int]:
    try:
        for descriptor in (_PROC / f"{pid}/fd").iterdir():
            match = _SOCKET.fullmatch(_target(descriptor))
            if match:
                yield int(match[1])
    except (FileNotFoundError, ProcessLookupError):
        return
    except PermissionError:
        raise _not_allowed(pid) from None


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""


def _not_allowed(pid: int) -> PreflightError:
    return PreflightError(
        f"cannot list the sockets of process {pid}: no permission; run as the user of the process, or as root"
    )
