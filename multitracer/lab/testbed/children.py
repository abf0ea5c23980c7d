"""The child processes of a run: each in its own session, listed in the manifest, and ended in any case.

A child has the maker's name in its environment, and the kernel sends it a signal when its parent ends. Ctrl-C
on a terminal reaches only the parent, because the children are in other sessions.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import multitracer
from multitracer import __version__
from multitracer.errors import CollectorError
from multitracer.lab.channel.shared.packet_link import SIDES
from multitracer.lab.scenario.session_folder import CAPTURE, TCP_STATE
from multitracer.lab.testbed.namespaces import DEVICE, VARIABLE, check
from multitracer.manifest import CollectorRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import IO

    from multitracer.lab.channel.shared.packet_link import Side
    from multitracer.lab.testbed.namespaces import Hosts, Interruption, Maker
    from multitracer.lab.testbed.privileges import Privileges
    from multitracer.lab.testbed.shift_clock import ClockShift

    Ready = Callable[[Path], bool]
    """Whether a collector records, given what it writes to standard error."""

PYTHON = Path(sys.executable).name
_READY_S = 20.0
_LOOK_EVERY_S = 0.02
_PATIENCE_S = 10.0
_LAST_WORDS = 200


class TestbedProcess:
    """A child process, and its entry in the manifest."""

    def __init__(
        self, process: subprocess.Popen[bytes], run: CollectorRun, words: Path, *, reads_another: bool
    ) -> None:
        self.process = process
        self.run = run
        self.words = words
        """Text that it wrote to standard error."""
        self.reads_another = reads_another
        """Whether it ends without a signal, when the child whose output it reads has ended."""

    @property
    def has_ended(self) -> bool:
        """Whether the process is over."""
        return self.process.poll() is not None

    def stop(self, *, patience_s: float) -> None:
        """Send the process the signal to end; kill it after `patience_s` seconds; record how it ended."""
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
        The session folder, which is the processes' working directory.
    hosts : Hosts
    maker : Maker
        This process.
    interruption : Interruption
        Ends every wait.
    suffix : str
        Appended to the names of logs, so that several runs of a session have different logs.
    """

    def __init__(
        self, folder: Path, hosts: Hosts, maker: Maker, interruption: Interruption, *, suffix: str = ""
    ) -> None:
        self._folder = folder
        self._suffix = suffix
        self._hosts = hosts
        self._maker = maker
        self._interruption = interruption
        self._children: list[TestbedProcess] = []

    def start(  # all of them are what a process is started with
        self,
        name: str,
        side: Side,
        argv: list[str],
        *,
        version: str,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | str = subprocess.DEVNULL,
    ) -> TestbedProcess:
        """Start a process at a host; its standard error goes to `SIDE/NAMESUFFIX.log`.

        `stdout` is a file name in the host's folder, or a value for `subprocess`.
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
        self._children.append(TestbedProcess(process, run, words, reads_another=reads_another))
        return self._children[-1]

    def _environment(self) -> dict[str, str]:
        """Return the environment of children; in it, `python -m` uses this Python and these packages."""
        first = {"PATH": Path(sys.executable).parent, "PYTHONPATH": Path(multitracer.__file__).parents[1]}
        paths = {name: f"{path}:{os.environ.get(name, '')}".rstrip(":") for name, path in first.items()}
        return os.environ | paths | {VARIABLE: str(self._maker)}

    @property
    def runs(self) -> list[CollectorRun]:
        """Return the manifest's entries of all processes, in order of their starts."""
        return [child.run for child in self._children]

    def wait(self, child: TestbedProcess, ready: Callable[[], bool], *, needed: bool = True) -> None:
        """Wait until a child is ready.

        Raises
        ------
        CollectorError
            If a needed child ends first, or takes too long.
        """
        deadline_s = time.monotonic() + _READY_S
        while not ready():
            self._interruption.check()
            if child.has_ended or time.monotonic() > deadline_s:
                if not needed:
                    return
                words = child.words.read_text(errors="replace").strip()
                raise CollectorError(f"{child.run.name} at {child.run.host} did not start: {words[-500:]}")
            time.sleep(_LOOK_EVERY_S)

    def stop(self) -> None:
        """End all processes, those that read from other processes last.

        If the user has interrupted twice, do not wait for them.
        """
        for child in sorted(self._children, key=lambda child: child.reads_another):
            if child.run.outcome is None:
                child.stop(patience_s=0.2 if self._interruption.count > 1 else _PATIENCE_S)


# The collectors of a run: tcpdump and tcp_info at both hosts, tcp_probe for the machine.
#
# A host whose clock is to err has its logs piped through `shift_clock`. Each collector is a process of its
# own; which of them this machine has is for `privileges` to say.


TCP_PROBE = "tcp_probe.txt"
_FORMATS = {"tcpdump": "pcap", "tcp_info": "jsonl", "tcp_probe": "ftrace"}
_READINGS_HZ, _LOOKS_HZ = 10, 2
"""Readings of sockets, and searches for new sockets, per link second: a search costs many times more."""
_MOST_HZ = 1_000


def numbered(log: str, number: int) -> str:
    """Return the name of a log in run `number` (from 0) of a session folder; in run 0 it does not change."""
    stem, _, suffix = log.partition(".")
    return f"{stem}-{number}.{suffix}" if number else log


class Collectors:
    """Starts the collectors of a run.

    Parameters
    ----------
    folder : Path
        The session folder.
    children : Children
    addresses : mapping
        IPv4 addresses of both hosts.
    clock_errors : mapping
        Errors of both hosts' clocks.
    speed : float
        Link seconds per second.
    number : int
        Number of the run in its session folder; the names of later runs' logs end with it.
    """

    def __init__(
        self,
        folder: Path,
        children: Children,
        *,
        addresses: Mapping[Side, str],
        clock_errors: Mapping[Side, ClockShift],
        speed: float,
        number: int = 0,
    ) -> None:
        self._folder = folder
        self._children = children
        self._addresses = addresses
        self._clock_errors = clock_errors
        self._number = number
        self._readings_hz, self._looks_hz = (f"{min(hz * speed, _MOST_HZ):g}" for hz in (_READINGS_HZ, _LOOKS_HZ))

    def start(self, privileges: Privileges, *, snap_bytes: int, tracing: bool = True) -> None:
        """Start all collectors that work here and wait until they record; `tracing` includes tcp_probe."""
        if privileges.may("tcpdump"):
            for side in SIDES:
                self._tcpdump(side, snap_bytes)
        for side in SIDES:
            self._tcp_info(side)
        if tracing and privileges.may("tcp_probe"):
            for side in SIDES if any(self._clock_errors.values()) else SIDES[:1]:
                self._tcp_probe(side)

    def _tcpdump(self, side: Side, snap_bytes: int) -> None:
        # Written packet by packet, so that a killed run leaves all; -Z, because it would change its user.
        command = [
            "tcpdump", "-i", DEVICE, "-s", str(snap_bytes), "-U", "--immediate-mode", "-j", "host",
            "--time-stamp-precision", "nano", "-Z", "root", "-w",
        ]  # fmt: skip
        version = check("tcpdump", "--version").splitlines()[0]
        log = CAPTURE.replace("0", str(self._number))
        self._start("tcpdump", side, command, log, version, lambda words: "listening on" in words.read_text())

    def _tcp_info(self, side: Side) -> None:
        rates = ["--hz", self._readings_hz, "--look", self._looks_hz]
        command = [PYTHON, "-m", "collectors.tcp_info", *rates, "-o"]
        log = numbered(TCP_STATE, self._number)
        self._start("tcp_info", side, command, log, __version__, self._has_begun(side, log))

    def _tcp_probe(self, side: Side) -> None:
        """Start tcp_probe, which records the sockets of both hosts, because they share a kernel.

        If the clocks of the hosts differ, each host gets a log of its own.
        """
        command = [PYTHON, "-m", "collectors.tcp_probe", "--address", self._addresses[side], "-o"]
        self._start("tcp_probe", side, command, TCP_PROBE, __version__, self._has_begun(side, TCP_PROBE))

    def _has_begun(self, side: Side, log: str) -> Ready:
        path = self._folder / side / log
        return lambda _: path.exists() and path.stat().st_size > 0

    def _start(self, name: str, side: Side, command: list[str], log: str, version: str, ready: Ready) -> None:
        path = f"{side}/{log}"
        if not any(self._clock_errors.values()):
            child = self._children.start(name, side, [*command, path], version=version)
            self._children.wait(child, partial(ready, child.words))
            return
        command = [*command, "-"] if name == "tcpdump" else command[:-1]  # to standard output
        child = self._children.start(name, side, command, version=version, stdout=subprocess.PIPE)
        with child.process.stdout or nullcontext() as stream:
            shift = self._shift_clock(name, side, path)
            self._children.start(f"{name}-clock", side, shift, version=__version__, stdin=stream)
        self._children.wait(child, partial(ready, child.words))

    def _shift_clock(self, name: str, side: Side, path: str) -> list[str]:
        error = self._clock_errors[side]
        return [
            PYTHON, "-m", "multitracer.lab.testbed.shift_clock", "--format", _FORMATS[name],
            "--offset-ns", str(error.offset_ns), "--skew-ppm", str(error.skew_ppm),
            "--origin-realtime-ns", str(error.origin_realtime_ns),
            "--origin-monotonic-ns", str(error.origin_monotonic_ns),
            *(["--only-of", self._addresses[side]] if name == "tcp_probe" else []), "-o", path,
        ]  # fmt: skip
