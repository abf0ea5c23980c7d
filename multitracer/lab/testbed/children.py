"""The child processes of a run: each in a session of its own, listed in the manifest, ended in any case.

A child has the maker's name in its environment, and is told by the kernel when its parent ends. Ctrl-C on a
terminal goes to the parent alone, because it is in another session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import multitracer
from multitracer.errors import CollectorError
from multitracer.lab.testbed.names import VARIABLE
from multitracer.manifest import CollectorRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from multitracer.lab.channel.gsm.link import Side
    from multitracer.lab.testbed.interruption import Interruption
    from multitracer.lab.testbed.names import Maker
    from multitracer.lab.testbed.namespaces import Hosts

PYTHON = Path(sys.executable).name
_READY_S = 20.0
_LOOK_EVERY_S = 0.02
_PATIENCE_S = 10.0
_LAST_WORDS = 200


class Child:
    """One process, and its entry in the manifest."""

    def __init__(
        self, process: subprocess.Popen[bytes], run: CollectorRun, words: Path, *, reads_another: bool
    ) -> None:
        self.process = process
        self.run = run
        self.words = words
        """What it wrote to standard error."""
        self.reads_another = reads_another
        """Whether it ends by itself when the child has ended whose output it reads."""

    @property
    def has_ended(self) -> bool:
        """Whether the process is over."""
        return self.process.poll() is not None

    def stop(self, *, patience_s: float) -> None:
        """Ask the process to end, then kill it; note how it ended."""
        if not self.has_ended and not self.reads_another:
            self.process.terminate()
        try:
            status = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.run.ended_ns = time.time_ns()
        self.run.outcome = self._outcome(status)

    def _outcome(self, status: int) -> str:
        if status == 0:
            return "ended"
        if status < 0:
            return f"ended by {signal.Signals(-status).name}"
        lines = self.words.read_text(errors="replace").strip().splitlines()
        return f"exit status {status}" + (f": {lines[-1][:_LAST_WORDS]}" if lines else "")


class Children:
    """Starts processes at the hosts of a run, and ends them.

    Parameters
    ----------
    folder : Path
        The session folder; the processes' current one.
    hosts : Hosts
    maker : Maker
        This process.
    interruption : Interruption
        Ends every wait.
    suffix : str
        Behind the names of logs, so that those of a session's several runs do not meet.
    """

    def __init__(
        self, folder: Path, hosts: Hosts, maker: Maker, interruption: Interruption, *, suffix: str = ""
    ) -> None:
        self._folder = folder
        self._suffix = suffix
        self._hosts = hosts
        self._maker = maker
        self._interruption = interruption
        self._children: list[Child] = []

    def start(  # all of them are what a process is started with
        self,
        name: str,
        side: Side,
        argv: list[str],
        *,
        version: str,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | str = subprocess.DEVNULL,
    ) -> Child:
        """Start a process at a host; its standard error goes to `SIDE/NAMESUFFIX.log`.

        `stdout` is a name in the host's folder, or what `subprocess` takes.
        """
        words = self._folder / side / f"{name}{self._suffix}.log"
        with ExitStack() as files:
            if isinstance(stdout, str):
                stdout = files.enter_context((self._folder / side / stdout).open("xb")).fileno()
            process = subprocess.Popen(
                self._hosts.command(side, *argv),
                cwd=self._folder,
                env=self._environment(),
                stdin=stdin,
                stdout=stdout,
                stderr=files.enter_context(words.open("xb")),
                start_new_session=True,
            )
        run = CollectorRun(name, side, argv, version, started_ns=time.time_ns())
        reads_another = stdin not in (subprocess.DEVNULL, subprocess.PIPE)
        self._children.append(Child(process, run, words, reads_another=reads_another))
        return self._children[-1]

    def _environment(self) -> dict[str, str]:
        """Put our Python and our packages first, so that a recorded `python -m ...` means them everywhere."""
        first = {"PATH": Path(sys.executable).parent, "PYTHONPATH": Path(multitracer.__file__).parents[1]}
        paths = {name: f"{path}:{os.environ.get(name, '')}".rstrip(":") for name, path in first.items()}
        return os.environ | paths | {VARIABLE: str(self._maker)}

    @property
    def runs(self) -> list[CollectorRun]:
        """The manifest's entries, in the order of their starts."""
        return [child.run for child in self._children]

    def wait(self, child: Child, ready: Callable[[], bool], *, needed: bool = True) -> None:
        """Wait until a child is ready.

        Raises
        ------
        CollectorError
            If it ends before, or takes too long, and is needed.
        """
        deadline_s = time.monotonic() + _READY_S
        while not ready():
            self._interruption.check()
            if child.has_ended or time.monotonic() > deadline_s:
                if not needed:
                    return
                words = child.words.read_text(errors="replace").strip()
                raise CollectorError(f"{child.run.name} at {child.run.host} did not begin: {words[-500:]}")
            time.sleep(_LOOK_EVERY_S)

    def stop(self) -> None:
        """End all, readers of others last; do not wait if the user asked twice."""
        for child in sorted(self._children, key=lambda child: child.reads_another):
            if child.run.outcome is None:
                child.stop(patience_s=0.2 if self._interruption.count > 1 else _PATIENCE_S)
