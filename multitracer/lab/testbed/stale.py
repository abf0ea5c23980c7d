"""Removes processes and namespaces of killed runs: those whose maker no longer lives.

Nothing is touched that does not carry a maker's name. (The collectors remove stale tracing instances of
their own when they start.)
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.lab.testbed.names import VARIABLE, Maker, start_time
from multitracer.lab.testbed.namespaces import FOLDER, remove_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MARK = f"{VARIABLE}=".encode()
_PATIENCE_S = 5.0
_LOOK_EVERY_S = 0.02


def remove_stale() -> None:
    """End the processes of dead runs, then remove their namespaces."""
    orphans = list(_orphans())
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid, started in orphans:
            _send(pid, started, number)
        _wait_for_end(orphans)
    for path in FOLDER.glob("mt*"):
        maker = Maker.of_namespace(path.name)
        if maker is not None and not maker.lives:
            remove_namespace(path.name)


def _send(pid: int, started: int, number: signal.Signals) -> None:
    """Signal a process if it is still the one that started then."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if start_time(pid) == started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _orphans() -> Iterator[tuple[int, int]]:
    """Yield number and start time of each process whose maker has ended."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (maker := _maker(entry)) is not None and not maker.lives:
            started = start_time(int(entry.name))
            if started is not None:
                yield int(entry.name), started


def _maker(process: Path) -> Maker | None:
    try:
        words = (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return None
    named = [word.removeprefix(_MARK).decode("ascii", "replace") for word in words if word.startswith(_MARK)]
    return Maker.of_word(named[0]) if named else None


def _wait_for_end(processes: Iterable[tuple[int, int]]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while any(start_time(pid) == started for pid, started in processes) and time.monotonic() < deadline_s:
        time.sleep(_LOOK_EVERY_S)
