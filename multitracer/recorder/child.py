"""Supervises the process of one collector: start, monitoring, restart with back-off, and end."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import string
import subprocess
import time
from typing import IO, TYPE_CHECKING

from multitracer import __version__
from multitracer.errors import InputError
from multitracer.manifest import RECORDING_VARIABLE, CollectorRun
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from multitracer.recorder.plan import PlannedCollector

_FIRST_PAUSE_NS = NS_PER_S // 2
_LONGEST_PAUSE_NS = 30 * NS_PER_S
_SETTLED_NS = 60 * NS_PER_S
"""Minimum run time in ns after which the restart of a dead collector has no back-off."""
_LAST_WORDS = 200
READY_VARIABLE = "MULTITRACER_READY_FD"
"""Environment variable with the descriptor of the pipe for the ready message (see `collectors._ready`)."""
_READY = b"ready"


class CollectorProcess:
    """One collector.

    Parameters
    ----------
    source : PlannedCollector
    folder : Path
        The host's folder in the session, where its logs go. Logs of earlier recordings there remain; those of this
        one are numbered after them.
    """

    def __init__(self, source: PlannedCollector, folder: Path) -> None:
        self.source = source
        self.folder = folder
        self._first = next(n for n in itertools.count() if not source.logs(folder, n)[0].exists())
        self.runs: list[CollectorRun] = []
        """All runs of the collector, for the manifest; the last one is the current run."""
        self.due_ns: int | None = 0
        """Time of its next start (CLOCK_MONOTONIC); None while it runs, or if it must not be started."""
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None
        self.is_ready = False
        """Whether the collector runs and has reported that its source is open."""
        self._ready_pipe: int | None = None
        self._started_ns = 0
        self._is_wanted = True
        self._pause_ns = _FIRST_PAUSE_NS

    @property
    def is_running(self) -> bool:
        """Return whether the process is running."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The PID of the process; None if it does not run."""
        return self._process.pid if self._process else None

    @property
    def is_awaited(self) -> bool:
        """Return whether the process runs and is not ready yet."""
        return self.is_running and not self.is_ready

    @property
    def sources(self) -> list[int]:
        """Return the file descriptors to wait for: the pipe for the ready message."""
        return [] if self._ready_pipe is None else [self._ready_pipe]

    @property
    def logs(self) -> list[Path]:
        """Return the existing logs of all attempts; a long capture continues in `tcp-0.pcap1`."""
        attempts = range(self._first, self._next)
        pairs = [self.source.logs(self.folder, attempt) for attempt in attempts]
        names = {path.name for pair in pairs for path in pair if path is not None}
        return [p for p in self.folder.iterdir() if names & {p.name, p.name.rstrip(string.digits)}]

    @property
    def _next(self) -> int:
        """Number of the next attempt, in the names of its logs."""
        return self._first + len(self.runs)

    @property
    def last_words(self) -> str:
        """Return the last line that the last run wrote to standard error."""
        with contextlib.suppress(OSError):
            lines = self._words_path.read_text("utf-8", "replace").splitlines()
            return (lines[-1] if lines else "")[:_LAST_WORDS]
        return ""

    @property
    def _words_path(self) -> Path:
        return self.folder / f"{self.source.name}.err"

    def start(self) -> None:
        """Start the process in a session of its own: signals of the terminal reach only the supervisor."""
        command = self.source.command(self.folder, self._next)
        self._words = self._words or self._words_path.open("ab")
        with self._ready_end() as ready:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._words,
                start_new_session=True, pass_fds=(ready,), env=os.environ | {READY_VARIABLE: str(ready)},
            )  # fmt: skip
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._started_ns = time.monotonic_ns()
        self.due_ns = None
        self._add_run()

    @contextlib.contextmanager
    def _ready_end(self) -> Iterator[int]:
        """Create the pipe for the ready message, and yield the collector's end of the pipe."""
        self._forget_ready()
        self._ready_pipe, end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            yield end
        except OSError:
            self._forget_ready()
            raise
        finally:
            os.close(end)

    def hear(self) -> None:
        """Read the ready message from the pipe, and close the pipe after the first line."""
        if self._ready_pipe is None:
            return
        with contextlib.suppress(BlockingIOError):
            output = os.read(self._ready_pipe, 64)
            self._forget_ready()
            self.is_ready = output.startswith(_READY)

    def _forget_ready(self) -> None:
        self.is_ready = False
        if self._ready_pipe is not None:
            os.close(self._ready_pipe)
        self._ready_pipe = None

    def _add_run(self, *, ended_ns: int | None = None, outcome: str | None = None) -> None:
        command = self.source.command(self.folder, self._next)
        now_ns = time.time_ns()
        self.runs.append(
            CollectorRun(self.source.name, self.folder.name, command, __version__, now_ns, ended_ns, outcome)
        )

    def has_changed(self, now_ns: int) -> bool:
        """Update the state of the collector (ready, ended, restarted).

        Return whether the manifest must change.
        """
        self.hear()
        if self._process is not None and (status := self._process.poll()) is not None:
            self._ended(status, now_ns)
            return True
        if self._process is None and self.due_ns is not None and now_ns >= self.due_ns:
            return self._has_started(now_ns)
        return False

    def _has_started(self, now_ns: int) -> bool:
        """Start the process; if the system refuses (process limit, full disk), try again later."""
        try:
            self.start()
        except OSError as error:
            self.due_ns = now_ns + _LONGEST_PAUSE_NS
            why = f"could not be started: {error.strerror}"
            self._add_run(ended_ns=time.time_ns(), outcome=why)
        return True

    def _ended(self, status: int, now_ns: int) -> None:
        if now_ns - self._started_ns >= _SETTLED_NS:
            self._pause_ns = _FIRST_PAUSE_NS
        self._note_end(status)
        self.due_ns = now_ns + self._pause_ns if self._is_wanted else None
        self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)

    def _note_end(self, status: int) -> None:
        assert self._process is not None
        assert self._words is not None
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._words.close()
        self._words = None
        self._forget_ready()
        _end_group(self._process.pid)
        run = self.runs[-1]
        run.ended_ns = time.time_ns()
        run.outcome = _outcome(status, self.last_words)
        self._process = None

    def say(self, tag: str) -> None:
        """Send the tag of a sync probe to the collector.

        It is lost if the collector does not read its input.
        """
        if self._process is None or self._process.stdin is None:
            return
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._process.stdin.fileno(), f"{tag}\n".encode())

    def ask_to_end(self) -> None:
        """Ask the collector, once, to end in order; it will not be started again."""
        self.due_ns = None
        self._is_wanted = False
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, until_ns: int) -> None:
        """Wait for the end of the process until a time of CLOCK_MONOTONIC, then kill it."""
        if self._process is None:
            return
        try:
            status = self._process.wait(max(0, until_ns - time.monotonic_ns()) / NS_PER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._note_end(status)


def _end_group(pid: int) -> None:
    """End the processes that remain in the group of a collector, such as tcpdump after its collector."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)


def _outcome(status: int, words: str) -> str:
    if status == 0:
        return "ended"
    why = f": {words}" if words else ""
    if status < 0:
        return f"killed by signal {-status} ({signal.strsignal(-status) or 'unknown'})"
    return f"failed with status {status}{why}"


# The programs during a recording: COMMAND and a rehearsal's traffic, started after the collectors.


class Work:
    """The processes of COMMAND and of a rehearsal's traffic, in sessions that Ctrl-C does not reach.

    Parameters
    ----------
    command : sequence of str
        The command to record; empty for none.
    traffic : sequence of str
        A second command, which runs without output until the recording ends; empty for none.
    umask : int
        Of `command`; -1 is that of this process.
    host : Path, optional
        The host's folder in the session, which `command` finds in its environment.
    """

    def __init__(
        self, command: Sequence[str] = (), traffic: Sequence[str] = (), *, umask: int = -1, host: Path | None = None
    ) -> None:
        self._argv = command
        self._host = host
        self._umask = umask
        self._traffic_argv = traffic
        self._command: subprocess.Popen[bytes] | None = None
        self._traffic: subprocess.Popen[bytes] | None = None
        self.began_ns: int | None = None
        """Start time (CLOCK_MONOTONIC); None before the start."""

    @property
    def is_due(self) -> bool:
        """Whether there is a program that was not started yet."""
        return self.began_ns is None and bool(self._argv or self._traffic_argv)

    @property
    def name(self) -> str:
        """The name of the work in a sentence."""
        return "COMMAND" if self._argv else "the rehearsal's traffic"

    @property
    def is_running(self) -> bool:
        """Return whether at least one of the processes is running."""
        return any(child.poll() is None for child in self._children)

    @property
    def status(self) -> int | None:
        """Exit status of COMMAND as in a shell, 128 + n after signal n; None while it runs."""
        code = self._command.poll() if self._command else None
        return 128 - code if code is not None and code < 0 else code

    @property
    def end(self) -> str | None:
        """Return a text on how COMMAND ended; None if it still runs."""
        code = self._command.poll() if self._command else None
        if code is None:
            return None
        if code < 0:
            return f"the command was killed by signal {-code} ({signal.strsignal(-code) or 'unknown'})"
        return f"the command finished (status {code})"

    @property
    def _children(self) -> list[subprocess.Popen[bytes]]:
        return [child for child in (self._command, self._traffic) if child is not None]

    def begin(self, now_ns: int) -> None:
        """Start the programs.

        Raises
        ------
        InputError
            If COMMAND cannot be run.
        """
        self.began_ns = now_ns
        idle = subprocess.DEVNULL
        if self._traffic_argv:
            # a pipe: it ends with this process, even one that is killed before the child asks who began it
            self._traffic = subprocess.Popen(
                self._traffic_argv, stdin=subprocess.PIPE, stdout=idle, stderr=idle, start_new_session=True
            )
        if not self._argv:
            return
        try:
            known = {} if self._host is None else {RECORDING_VARIABLE: str(self._host.resolve())}
            self._command = subprocess.Popen(
                self._argv, stdin=idle, start_new_session=True, umask=self._umask, env=os.environ | known
            )
        except OSError as error:
            raise InputError(
                f"{self._argv[0]}: cannot start this command: {error.strerror}; check the command after --"
            ) from error

    def ask_to_end(self) -> None:
        """Ask the living processes to end."""
        self._send(signal.SIGTERM)

    def insist(self) -> None:
        """Kill the processes that still live."""
        self._send(signal.SIGKILL)
        for child in self._children:
            child.wait()
            if child.stdin is not None:
                child.stdin.close()

    def _send(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.poll() is None:
                os.killpg(child.pid, number)
