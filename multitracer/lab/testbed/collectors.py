"""The collectors of a run: tcpdump and tcp_info at both hosts, tcp_probe for the machine.

A host whose clock is to err has its logs piped through `shift_clock`. Each collector is a process of its
own; which of them this machine has is for `privileges` to say.
"""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.lab.channel.gsm.link import SIDES
from multitracer.lab.scenario.session_folder import CAPTURE, TCP_STATE
from multitracer.lab.testbed.children import PYTHON
from multitracer.lab.testbed.namespaces import DEVICE, check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from multitracer.lab.channel.gsm.link import Side
    from multitracer.lab.testbed.children import Children
    from multitracer.lab.testbed.clock_error import ClockError
    from multitracer.lab.testbed.privileges import Privileges

    Ready = Callable[[Path], bool]
    """Whether a collector records, given what it writes to standard error."""

TCP_PROBE = "tcp_probe.txt"
_FORMATS = {"tcpdump": "pcap", "tcp_info": "jsonl", "tcp_probe": "ftrace"}
_READINGS_HZ, _LOOKS_HZ = 10, 2
"""Per link second. A look for new sockets costs many times what reading known ones does."""
_MOST_HZ = 1_000


def numbered(log: str, number: int) -> str:
    """Return the name of a log in the nth run, from 0, of one session folder: the first has no number."""
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
        Of both hosts.
    clock_errors : mapping
        Of both hosts' clocks.
    speed : float
        Link seconds in a second.
    number : int
        Of the run in its session folder: the names of a later one's logs end with it.
    """

    def __init__(
        self,
        folder: Path,
        children: Children,
        *,
        addresses: Mapping[Side, str],
        clock_errors: Mapping[Side, ClockError],
        speed: float,
        number: int = 0,
    ) -> None:
        self._folder = folder
        self._children = children
        self._addresses = addresses
        self._clock_errors = clock_errors
        self._number = number
        self._readings_hz, self._looks_hz = (
            f"{min(hz * speed, _MOST_HZ):g}" for hz in (_READINGS_HZ, _LOOKS_HZ)
        )

    def start(self, privileges: Privileges, *, snap_bytes: int, tracing: bool = True) -> None:
        """Start all collectors that work here, without `tracing` no tcp_probe, and wait until they record."""
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
        """Record both hosts' sockets, as they share a kernel; with unlike clocks, in a log for each host."""
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
