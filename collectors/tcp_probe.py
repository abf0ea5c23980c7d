"""Records what the kernel's TCP does at each arriving segment: tcp_probe, retransmissions, congestion states.

Needs root. It sees the sockets of every network namespace of this kernel: if both endpoints of a connection
run on this machine, both are recorded; they differ by local address and cookie.

The log is the kernel's own text, line by line, its time stamps those of CLOCK_MONOTONIC. Records of this program stand
in comments, `# multitracer ` and a JSON object: first `header`; at the start, each second and at the end `clock` (the
two clocks, and how many events the buffers lost so far), last `end`. A log without it was cut off.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import sys
import time
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from collectors._collector import Collector, check_alone
from collectors._log import Log, clock_reading, line
from collectors._options import header, parser, run
from collectors._ready import ready
from collectors._stop import Stop
from multitracer.errors import CollectorError, PreflightError
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from types import TracebackType
    from typing import Self


# A tracing instance of the kernel, with its own buffer, clock, filters and events.


_MOUNT_POINT = Path("/sys/kernel/tracing")
_NAME = re.compile(r"multitracer-(\d+)-(\d+)")
_COUNTER = re.compile(r"^(overrun|commit overrun|dropped events): (\d+)$", re.MULTILINE)
_CLONE_NEWNS, _MS_REC, _MS_SLAVE = 0x0002_0000, 1 << 14, 1 << 19
"""Of unshare(2) and mount(2): later mounts of the machine appear in the namespace, and none of it outside."""
_START_TIME_FIELD = 19  # of /proc/PID/stat behind the name, from 0: starttime in clock ticks


def tracefs() -> Path:
    """Return the mount point of tracefs; if necessary mount it, in a mount namespace of this thread alone.

    What is mounted so ends with the process, however it ends; the machine's mounts stay as they are.

    Raises
    ------
    PreflightError
        If it cannot be mounted or written to.
    """
    path = _mounted() or _mount()
    if not os.access(path / "instances", os.W_OK):
        fix = f"sudo {sys.executable} -m multitracer capture"
        raise PreflightError(
            f"{path}: only root can trace the kernel's TCP; run `{fix}`, or use the collector tcp_info"
        )
    return path


def _mounted() -> Path | None:
    for mount in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = mount.split()
        if kind == "tracefs":
            return Path(where.encode().decode("unicode_escape"))
    return None


def _mount() -> Path:
    libc = ctypes.CDLL(None, use_errno=True)
    is_private = libc.unshare(_CLONE_NEWNS) == 0 and libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None) == 0
    if not is_private or libc.mount(b"tracefs", bytes(_MOUNT_POINT), b"tracefs", 0, None) != 0:
        why = os.strerror(ctypes.get_errno())
        raise PreflightError(
            f"{_MOUNT_POINT}: tracefs is not mounted ({why}); run as root: `mount -t tracefs tracefs {_MOUNT_POINT}`"
        )
    return _MOUNT_POINT


class Instance:
    """A tracing instance that exists while the context lasts.

    The name contains PID and start time of this process; entering the context removes instances of dead processes.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / "instances" / f"multitracer-{os.getpid()}-{_start_time(os.getpid())}"

    def __enter__(self) -> Self:
        remove_stale(self._root)
        try:
            self._path.mkdir()
        except OSError as error:
            raise CollectorError(f"{self._path}: cannot create this trace instance: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._path.rmdir()
        except OSError as failure:
            raise CollectorError(
                f"{self._path}: cannot remove this trace instance: {failure.strerror}; stop the "
                "programs that read from the instance, then remove the folder with `rmdir`"
            ) from failure

    def __truediv__(self, name: str) -> Path:
        return self._path / name

    def set(self, name: str, value: object) -> None:
        """Write one of the instance's files.

        Raises
        ------
        CollectorError
            If the kernel rejects the value; the message contains the kernel's explanation if there is one.
        """
        try:
            (self._path / name).write_text(f"{value}\n")
        except OSError as error:
            raise CollectorError(
                f"{self._path / name}: the kernel refused the value {str(value)!r}: {error.strerror}"
            ) from error

    def lost(self) -> dict[str, int]:
        """Return the numbers of lost events of all CPUs so far, by the kernel's counters."""
        total: dict[str, int] = {}
        for stats in self._path.glob("per_cpu/cpu*/stats"):
            for name, count in _COUNTER.findall(stats.read_text()):
                total[name] = total.get(name, 0) + int(count)
        return total


def remove_stale(root: Path) -> None:
    """Remove the instances of collectors that were killed; instances of other programs stay."""
    for path in (root / "instances").iterdir():
        if _is_stale(path.name):
            _remove(path)


def _is_stale(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and _start_time(int(match[1])) != int(match[2])


def _remove(path: Path) -> None:
    try:
        path.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EBUSY):
            raise CollectorError(f"{path}: cannot remove this trace instance: {error.strerror}") from error


def _start_time(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.rpartition(")")[2].split()[_START_TIME_FIELD])


_EVENTS = ("tcp_probe", "tcp_retransmit_skb", "tcp_cong_state_set")
_READ_BYTES = 1 << 16
_WAKE_NS = 100 * NS_PER_MS
"""Interval in ns at which the buffers are read; a wake-up for each event would cost far more CPU time."""
_BUFFER_KIB = 4096
_ALL_BUFFERS_KIB = 65536
_ADDRESS = re.compile(
    rb"(?:src|dest)=\[([0-9a-f.:]+)\]:\d+ "  # of IPv6 only in brackets: what follows a colon may be a port
    rb"|(?:src|dest)=([0-9.]+):\d+ "
    rb"|[sd]addrv6=([0-9a-f.:]+) "
)


class TcpProbeRecorder:
    """One run: copies the buffers of the tracing instance to the log."""

    def __init__(self, instance: Instance, log: Log, *, networks: Iterable[IPv4Network | IPv6Network]) -> None:
        self._instance = instance
        self._log = log
        self._networks = tuple(networks)
        self._is_chosen = functools.lru_cache(maxsize=4096)(self._is_in_networks)
        self._rest = b""
        self._clock_ns = 0

    def run(self, stop: Stop) -> None:
        """Record until `stop` ends the run, then read the remaining events."""
        stop.on_set = self._clock
        self._clock()
        pipe = os.open(self._instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while stop.wait(time.monotonic_ns() + _WAKE_NS):
                self._drain(pipe)
                if time.monotonic_ns() >= self._clock_ns:
                    self._clock()
            self._instance.set("tracing_on", 0)
            self._drain(pipe)
        finally:
            os.close(pipe)
        self._clock()
        self._comment(kind="end", reason=stop.reason)

    def _drain(self, pipe: int) -> None:
        """Copy the buffers to the log, for at most a second, so that a signal is handled even in a flood."""
        until_ns = time.monotonic_ns() + NS_PER_S
        while time.monotonic_ns() < until_ns:
            try:
                text = os.read(pipe, _READ_BYTES)
            except BlockingIOError:
                return
            if not text:
                return
            lines, newline, self._rest = (self._rest + text).rpartition(b"\n")
            self._log.write(self._chosen(lines + newline))

    def _chosen(self, text: bytes) -> bytes:
        if not self._networks:
            return text
        return b"".join(row for row in text.splitlines(keepends=True) if self._is_wanted(row))

    def _is_wanted(self, row: bytes) -> bool:
        ends = [b"".join(address) for address in _ADDRESS.findall(row)]
        return not ends or any(map(self._is_chosen, ends))

    def _is_in_networks(self, text: bytes) -> bool:
        address = ip_address(text.decode())
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)

    def _clock(self) -> None:
        self._clock_ns = time.monotonic_ns() + NS_PER_S
        self._comment(kind="clock", **clock_reading(), lost=self._instance.lost())

    def _comment(self, **fields: object) -> None:
        self._log.write(comment(fields))


def comment(fields: dict[str, object]) -> bytes:
    """Return a comment line of the log that contains `fields`."""
    return b"# multitracer " + line(fields)


def arm(instance: Instance, *, ports: Sequence[int], buffer_kib: int) -> list[str]:
    """Set clock, buffers, filters and events of an instance; return the events that the kernel supports."""
    present = [event for event in _EVENTS if (instance / f"events/tcp/{event}").exists()]
    chosen = "||".join(f"sport=={port}||dport=={port}" for port in ports)
    instance.set("trace_clock", "mono")
    instance.set("buffer_size_kb", buffer_kib)
    for event in present:
        if chosen:
            instance.set(f"events/tcp/{event}/filter", chosen)
        instance.set(f"events/tcp/{event}/enable", 1)
    return present


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    options = parser(__doc__)
    per_processor = min(_BUFFER_KIB, _ALL_BUFFERS_KIB // (os.cpu_count() or 1))
    options.add_argument(
        "--buffer-kib",
        type=int,
        default=per_processor,
        help=f"size of the trace buffer per processor; default {per_processor}",
    )
    chosen = options.parse_args(argv)
    root = _preflight()
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        Instance(root) as instance,
        Log(chosen.output) as log,
    ):
        events = arm(instance, ports=chosen.port, buffer_kib=chosen.buffer_kib)
        log.write(comment(header("multitracer-tcp-probe", chosen, events=events)))
        stop.on_tag = lambda tag: log.write(comment({"kind": "clap", "tag": tag, **clock_reading()}))
        ready()  # from here on the buffers keep what happens
        TcpProbeRecorder(instance, log, networks=chosen.address).run(stop)


def _preflight() -> Path:
    root = tracefs()
    if not (root / "events/tcp/tcp_probe").exists():
        raise PreflightError(f"{root}: this kernel has no trace point tcp_probe; use Linux 4.16 or newer")
    return root


def check() -> None:
    """Raise PreflightError if the kernel's TCP cannot be traced.

    A process of its own tries it, because it may have to mount tracefs.
    """
    check_alone("from collectors.tcp_probe import _preflight; _preflight()")


COLLECTOR = Collector(
    name="tcp_probe",
    layer="tcp",
    description="variables of TCP senders at each arriving segment, retransmissions, congestion states",
    log_format="ftrace",
    suffix=".ftrace",
    check=check,
)

if __name__ == "__main__":
    run(main)
