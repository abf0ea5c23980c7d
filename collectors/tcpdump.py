"""Records packets with tcpdump: nanosecond stamps, headers only, each packet written to disk at once.

`-o tcp-0.pcap` is tcpdump's own file; `--notes` gets one JSON object a line: `header`, each second `clock`,
every five seconds `counts` (packets that tcpdump captured, and packets that the kernel dropped), `clap`,
`end`. Needs root, or a tcpdump with the capability CAP_NET_RAW; no other part of MultiTracer needs either.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from collectors._collector import Collector
from collectors._log import Log, clock_reading
from collectors._options import header, number, parser, run
from collectors._ready import ready
from collectors._stop import Stop, end_with_parent
from multitracer.errors import CollectorError, InputError, PreflightError
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

FILTER = "tcp or udp port 9009"
"""Default filter: TCP, and the sync probes."""
SNAP_BYTES = 128
"""Default number of captured bytes: Ethernet, IPv6 and TCP with all options. With --snap 0, packets are complete."""
_LOOK_NS = 200 * NS_PER_MS
_OPENING_NS = 10 * NS_PER_MS
"""Interval of checks whether tcpdump has opened the interface; this takes about 20 ms after its start."""
_COUNT_NS = 5 * NS_PER_S
_PATIENCE_S = 5.0
_PROBE_S = 5.0
_COUNTS = re.compile(r"(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)")
_KEYS = {
    "captured": "captured",
    "received by filter": "received",
    "dropped by kernel": "dropped_kernel",
    "dropped by interface": "dropped_interface",
}
_LAST_WORDS = 300


class Tcpdump:
    """A tcpdump process, which ends with this process at the latest."""

    def __init__(self, command: list[str]) -> None:
        self.counts: dict[str, int] = {}
        """The latest value of each counter that tcpdump printed."""
        self._stderr = ""
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=end_with_parent,  # noqa: PLW1509  # this process has one thread
        )
        assert self._child.stderr is not None
        os.set_blocking(self._child.stderr.fileno(), False)

    @property
    def has_ended(self) -> bool:
        """Whether tcpdump has ended by itself."""
        return self._child.poll() is not None

    @property
    def is_listening(self) -> bool:
        """Whether tcpdump has opened the interface."""
        self.listen_to()
        return "listening on" in self._stderr

    def ask_for_counts(self) -> None:
        """Make tcpdump print its counts."""
        self._child.send_signal(signal.SIGUSR1)

    def listen_to(self) -> None:
        """Read tcpdump's output since the last call."""
        assert self._child.stderr is not None
        while text := self._child.stderr.read(1 << 16):
            self._stderr = (self._stderr + text.decode("utf-8", "replace"))[-4096:]
        self.counts |= {_KEYS[what]: int(number) for number, what in _COUNTS.findall(self._stderr)}

    @property
    def last_words(self) -> str:
        """The last output of tcpdump, on one line."""
        self.listen_to()
        lines = [line.strip() for line in self._stderr.splitlines() if line.strip()]
        words = lines[-1] if lines else "said nothing"
        if words.startswith("(") and len(lines) > 1:  # libpcap's detail to the line before
            before = lines[-2].removeprefix("tcpdump: ")
            words = before if words[1:-1] in before else f"{before} {words}"
        return words[:_LAST_WORDS]

    def stop(self) -> int:
        """Ask tcpdump to end, then kill it; return its exit status."""
        self._child.terminate()
        try:
            status = self._child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            status = self._child.wait()
        self.listen_to()
        assert self._child.stderr is not None
        self._child.stderr.close()
        return status


def _command(chosen: argparse.Namespace, program: str) -> list[str]:
    """Return tcpdump's command line."""
    command = [program, "-i", chosen.interface, "-s", str(chosen.snap), "-n", "-U", "--immediate-mode",
               "--time-stamp-precision", "nano", "-B", str(chosen.buffer_kib)]  # fmt: skip
    name = str(chosen.output)
    if chosen.file_minutes:
        stem = name.replace("%", "%%").removesuffix(".pcap")
        name = f"{stem}-%Y%m%dT%H%M%S.pcap"
        command += ["-G", str(round(chosen.file_minutes * 60))]
    if chosen.file_mb:
        command += ["-C", str(chosen.file_mb)]
    return [*command, *_as_root(), "-w", name, "--", *([chosen.filter] if chosen.filter else [])]


def _as_root() -> list[str]:
    """Return the options that let tcpdump keep root privileges, needed to write into root's folders."""
    return ["-Z", pwd.getpwuid(0).pw_name] if os.geteuid() == 0 else []


def _record(chosen: argparse.Namespace, program: str, stop: Stop, notes: Log) -> None:
    tcpdump = Tcpdump(_command(chosen, program))
    try:
        clock_ns = count_ns = 0
        look_ns = _OPENING_NS
        while stop.wait(time.monotonic_ns() + look_ns):
            if tcpdump.has_ended:
                raise CollectorError(f"tcpdump stopped: {tcpdump.last_words}")
            if look_ns < _LOOK_NS and tcpdump.is_listening:
                look_ns = _LOOK_NS
                ready()
            if time.monotonic_ns() >= count_ns and tcpdump.is_listening:
                count_ns = time.monotonic_ns() + _COUNT_NS
                tcpdump.ask_for_counts()
            if time.monotonic_ns() >= clock_ns:
                clock_ns = time.monotonic_ns() + NS_PER_S
                tcpdump.listen_to()
                notes.record(kind="clock", **clock_reading(), **tcpdump.counts)
    finally:
        status = tcpdump.stop()
    notes.record(kind="end", reason=stop.reason, status=status, **tcpdump.counts)


def _minutes(text: str) -> float:
    return number(text, 1 / 60, 60 * 24 * 366)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("-i", "--interface", default="any", help="network interface to capture on; default: any")
    options.add_argument(
        "--filter", default=FILTER, help="record only packets that match this capture filter (pcap-filter(7))"
    )
    options.add_argument(
        "--snap",
        type=int,
        default=SNAP_BYTES,
        help=f"maximum number of bytes to record of each packet; default {SNAP_BYTES}; 0 records all bytes",
    )
    options.add_argument(
        "--notes",
        type=Path,
        metavar="LOG",
        help="file for the JSON notes, which must not exist; default: standard output",
    )
    options.add_argument(
        "--file-mb",
        type=int,
        default=1000,
        help="start a new capture file when the file has this size, in MB; default 1000",
    )
    options.add_argument(
        "--file-minutes",
        type=_minutes,
        default=0,
        help="start a new capture file after this time, in minutes; the time must be at least 1 s",
    )
    options.add_argument(
        "--buffer-kib", type=int, default=4096, help="size of the capture buffer in the kernel, in KiB; default 4096"
    )
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    program = _preflight()
    if chosen.output is None:
        raise InputError("tcpdump: no output file was given; give -o FILE, because the capture needs its own file")
    if os.path.lexists(chosen.output):  # tcpdump would follow a link
        raise InputError(f"{chosen.output}: the file already exists, and logs are never overwritten; give a new name")
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        Log(chosen.notes) as notes,
    ):
        notes.record(**header("multitracer-tcpdump", chosen, interface=chosen.interface, filter=chosen.filter))
        stop.on_tag = notes.sync_probe
        _record(chosen, program, stop, notes)


def _preflight() -> str:
    program = shutil.which("tcpdump")
    if program is None:
        raise PreflightError(
            "tcpdump is not installed; install tcpdump, or use the slower `python -m collectors.sniffer`"
        )
    return program


def check() -> None:
    """Raise PreflightError, with a remedy, if tcpdump cannot open an interface."""
    program = _preflight()
    tcpdump = Tcpdump([program, "-i", "any", *_as_root(), "-w", "-", "-c", "1", "--", "less 1"])
    until = time.monotonic() + _PROBE_S
    while not (tcpdump.is_listening or tcpdump.has_ended) and time.monotonic() < until:
        time.sleep(0.01)
    works, words = tcpdump.is_listening, tcpdump.last_words
    tcpdump.stop()
    if not works:
        fix = f"sudo setcap cap_net_raw+ep {program}"
        raise PreflightError(
            f"tcpdump cannot capture: {words}; run `{fix}` to allow every user of this machine to capture, or use sudo"
        )


COLLECTOR = Collector(
    name="tcpdump",
    layer="packet",
    description="packets, with tcpdump: nanosecond stamps, headers only",
    log_format="pcap",
    suffix=".pcap",
    check=check,
)

if __name__ == "__main__":
    run(main)
