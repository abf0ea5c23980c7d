"""What records a run beside the link itself: tcpdump and tcp_info at both hosts, tcp_probe for the machine.

A host whose clock is to err has its logs piped through `shift_clock`. Each collector is a process of its
own; which of them this machine has is for `privileges` to say.
"""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.channel.gsm_link import SIDES
from multitracer.scenario.session_folder import CAPTURE, TCP_STATE
from multitracer.testbed.children import PYTHON
from multitracer.testbed.namespaces import DEVICE, check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from multitracer.channel.gsm_link import Side
    from multitracer.testbed.children import Children
    from multitracer.testbed.clock_error import ClockError
    from multitracer.testbed.privileges import Privileges

TCP_PROBE = "tcp_probe.txt"
_FORMATS = {"tcpdump": "pcap", "tcp_info": "jsonl", "tcp_probe": "ftrace"}
_READINGS_HZ, _LOOKS_HZ = 10, 2
"""Per link second. A look for new sockets costs many times what reading known ones does."""
_MOST_HZ = 1_000


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
    """

    def __init__(
        self,
        folder: Path,
        children: Children,
        *,
        addresses: Mapping[Side, str],
        clock_errors: Mapping[Side, ClockError],
        speed: float,
    ) -> None:
        self._folder = folder
        self._children = children
        self._addresses = addresses
        self._clock_errors = clock_errors
        self._readings_hz, self._looks_hz = (
            f"{min(hz * speed, _MOST_HZ):g}" for hz in (_READINGS_HZ, _LOOKS_HZ)
        )

    def start(self, privileges: Privileges, *, snap_bytes: int) -> None:
        """Start all that this machine has, and wait until they record."""
        if privileges.may("tcpdump"):
            for side in SIDES:
                self._tcpdump(side, snap_bytes)
        for side in SIDES:
            self._tcp_info(side)
        if privileges.may("tcp_probe"):
            for side in SIDES if any(self._clock_errors.values()) else SIDES[:1]:
                self._tcp_probe(side)

    def _tcpdump(self, side: Side, snap_bytes: int) -> None:
        # Written packet by packet, so that a killed run leaves all; -Z, because it would change its user.
        command = [
            "tcpdump", "-i", DEVICE, "-s", str(snap_bytes), "-U", "--immediate-mode", "-j", "host",
            "--time-stamp-precision", "nano", "-Z", "root", "-w",
        ]  # fmt: skip
        version = check("tcpdump", "--version").splitlines()[0]
        words = self._folder / side / "tcpdump.log"
        self._start("tcpdump", side, command, CAPTURE, version, lambda: "listening on" in words.read_text())

    def _tcp_info(self, side: Side) -> None:
        rates = ["--hz", self._readings_hz, "--look", self._looks_hz]
        command = [PYTHON, "-m", "collectors.tcp_info", *rates, "-o"]
        self._start("tcp_info", side, command, TCP_STATE, __version__, self._has_begun(side, TCP_STATE))

    def _tcp_probe(self, side: Side) -> None:
        """See both hosts' sockets, as they share a kernel; with unlike clocks, each host's in its own log."""
        command = [PYTHON, "-m", "collectors.tcp_probe", "--address", self._addresses[side], "-o"]
        self._start("tcp_probe", side, command, TCP_PROBE, __version__, self._has_begun(side, TCP_PROBE))

    def _has_begun(self, side: Side, log: str) -> Callable[[], bool]:
        path = self._folder / side / log
        return lambda: path.exists() and path.stat().st_size > 0

    def _start(
        self, name: str, side: Side, command: list[str], log: str, version: str, ready: Callable[[], bool]
    ) -> None:
        path = f"{side}/{log}"
        if not any(self._clock_errors.values()):
            self._children.wait(self._children.start(name, side, [*command, path], version=version), ready)
            return
        command = [*command, "-"] if name == "tcpdump" else command[:-1]  # to standard output
        child = self._children.start(name, side, command, version=version, stdout=subprocess.PIPE)
        with child.process.stdout or nullcontext() as stream:
            shift = self._shift_clock(name, side, path)
            self._children.start(f"{name}-clock", side, shift, version=__version__, stdin=stream)
        self._children.wait(child, ready)

    def _shift_clock(self, name: str, side: Side, path: str) -> list[str]:
        error = self._clock_errors[side]
        return [
            PYTHON, "-m", "multitracer.testbed.shift_clock", "--format", _FORMATS[name],
            "--offset-ns", str(error.offset_ns), "--skew-ppm", str(error.skew_ppm),
            "--origin-realtime-ns", str(error.origin_realtime_ns),
            "--origin-monotonic-ns", str(error.origin_monotonic_ns),
            *(["--only-of", self._addresses[side]] if name == "tcp_probe" else []), "-o", path,
        ]  # fmt: skip
