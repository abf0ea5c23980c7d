"""Runs `multitracer capture` as users do, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_S = 90.0


def command(folder: Path, *options: object) -> list[str]:
    return [sys.executable, "-m", "multitracer", "capture", "-o", str(folder), "--plain", *map(str, options)]


@contextmanager
def capturing(folder: Path, *options: object, **popen: Any) -> Iterator[subprocess.Popen[str]]:
    """Capture beside the body, from when every collector has started; nothing of it is left afterwards."""
    child = subprocess.Popen(
        command(folder, *options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True, **popen,
    )  # fmt: skip
    try:
        until(lambda: child.poll() is not None or all(log_began(folder)))
        yield child
    finally:
        child.kill()
        child.communicate()
        until(lambda: not processes_of(folder))


def log_began(folder: Path) -> list[bool]:
    """Return, for each collector that was started, whether its log is there and holds a clock record."""
    started = [run["command"] for run in manifest(folder).get("collectors", [])]
    logs = [[argv[argv.index(option) + 1] for option in ("-o", "--notes") if option in argv] for argv in started]
    return [_holds_clock(each[-1]) and Path(each[0]).exists() for each in logs] or [False]


def _holds_clock(log: str) -> bool:
    """Return whether a log has a reading of the clocks; that of rlp begins with its first packet."""
    path = Path(log)
    marks = b'"kind":"clock"', b'"monotonic_before_ns"'
    return path.exists() and (path.suffix == ".pcapng" or any(mark in path.read_bytes() for mark in marks))


def manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def end(child: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str, str]:
    """Send a signal; return the exit status, standard output and standard error."""
    child.send_signal(number)
    out, err = child.communicate(timeout=PATIENCE_S)
    return child.returncode, out, err


def processes_of(folder: Path) -> list[int]:
    """Return the processes whose command line names the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_bytes()
            is_zombie = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if str(folder).encode() in said and not is_zombie and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def until(condition: Callable[[], Any], *, patience_s: float = PATIENCE_S) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
