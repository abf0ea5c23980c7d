"""Starts a program of others with bounds on its time, memory and output, and keeps what it wrote.

A diagnostic log is hostile input for a program that we do not maintain: it runs in a process group of its
own, without a shell, writes into a folder of ours that nobody else can read, and is ended with its children.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import PreflightError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_MEMORY_BYTES = 4 << 30
"""Of addresses: tshark maps 0.3 GB at its start and grows by 0.7 kB a packet, so a million fit four times."""
_LAST_WORDS_BYTES = 500
_GRACE_S = 2.0  # after each signal; not measured
_INSTALL = {
    "tshark": "sudo apt-get install tshark",
    "scat": "pip install 'multitracer[signalling]'",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a program may use."""

    seconds: float
    output_bytes: int
    """Of each file that it writes."""


def program(name: str) -> str:
    """Return the path of a program, found on PATH or where this Python is installed.

    Raises
    ------
    PreflightError
        If it is not installed; the message names the command that installs it.
    """
    own = Path(sys.executable).parent / name
    path = shutil.which(name) or (str(own) if os.access(own, os.X_OK) else None)
    if path is None:
        raise PreflightError(f"{name} is not installed, which reads signalling; {_INSTALL[name]}")
    return path


def run(command: Sequence[str], *, into: Path, bounds: Bounds, env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end, its standard output written to a file.

    Parameters
    ----------
    command : sequence of str
        Its path and its arguments.
    into : Path
        The file of its standard output.
    bounds : Bounds
    env : mapping of str to str, optional
        Added to the environment.

    Returns
    -------
    str
        Why it ended before its work was done, in words that follow its name; "" if it was done.
    """
    words = into.with_suffix(".err")
    with into.open("wb") as output, words.open("wb") as errors:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=os.environ | dict(env or {}),
            cwd=into.parent,
            start_new_session=True,
        )
        try:
            _limit(process.pid, bounds)
            process.wait(timeout=bounds.seconds)
        except subprocess.TimeoutExpired:
            return f"did not end within {bounds.seconds:.0f} s and was stopped"
        finally:
            _end(process)
    return _failure(process.returncode, words)


def _limit(pid: int, bounds: Bounds) -> None:
    limits = (
        (resource.RLIMIT_AS, _MOST_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, bounds.output_bytes),
        (resource.RLIMIT_CORE, 0),
    )
    with contextlib.suppress(OSError, AttributeError):  # it has ended; another system than Linux
        for which, most in limits:
            resource.prlimit(pid, which, (most, most))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and its children, if it runs; first as Ctrl-C does, so that it writes what it has."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)


def _failure(returncode: int, words: Path) -> str:
    if returncode == 0:
        return ""
    if returncode == -signal.SIGXFSZ:
        return "wrote more than it may and was stopped"
    how = f"was ended by signal {-returncode}" if returncode < 0 else f"failed with status {returncode}"
    with words.open("rb") as file:
        file.seek(max(words.stat().st_size - _LAST_WORDS_BYTES, 0))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    last = "".join(c for c in lines[-1] if c.isprintable())[:160] if lines else ""
    return how + (f" ({last})" if last else "")
