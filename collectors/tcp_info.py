"""Reads the kernel's variables of TCP sockets 10 to 1000 times a second: cwnd, ssthresh, RTT, RTO and more.

Runs as any user; sees the sockets of its own network namespace. A reading has two stamps: the
state is that of some instant between them. New sockets are searched `--look` times a second, by a dump that
the kernel filters; known sockets are read one by one, which costs a fortieth of a dump.

The log is JSON lines. First a header, then in order of time:

- `reading`: one socket's answer; `tcp_info` shows the main fields in the kernel's units, `raw` is the whole
  struct in base64; `read` numbers the rounds of questions,
- `gone`: a socket that was read before and no longer exists,
- `missed`: rounds that were due and were skipped, with their number and why,
- `clock`, each second and at the end: the two clocks, and how many rounds were made and missed so far,
- `end`: why it ended. A log without it was cut off.
"""

from __future__ import annotations

import binascii
import errno
import functools
import math
import re
import socket
import time
from contextlib import closing
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from collectors._collector import Collector
from collectors._log import Log, clock_reading, line
from collectors._options import header, parser, rate_hz, run
from collectors._ready import Schedule, ready
from collectors._stop import Stop
from multitracer.errors import CollectorError, InputError, PreflightError, RemoteProtocolError
from multitracer.protocols.sock_diag import (
    DiagSocket,
    DumpDone,
    Refused,
    TcpState,
    decode,
    decode_tcp_info,
    dump_request,
    filter_bytecode,
    socket_request,
)
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from multitracer.protocols.sock_diag import IpVersion


# Which sockets: the kernel reports inodes, /proc has the process of an inode.


_PROC = Path("/proc")
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_COMM_BYTES = 15
_MOST_REMEMBERED = 100_000


class Owners:
    """Selects the sockets of processes, given by PID or name, when a socket is first seen.

    A socket remains selected after its process has closed it, because its last data may still be in flight. A
    socket without a process (not yet accepted) is looked up again.

    Raises
    ------
    InputError
        If a process given by PID does not exist, or is in another network namespace.
    PreflightError
        If the user has no permission to see the sockets of a selected process.
    """

    def __init__(self, *, pids: Iterable[int], names: Iterable[str]) -> None:
        self._pids = tuple(pids)
        self._names = {name.encode()[:_COMM_BYTES] for name in names}
        self._decided: dict[int, bool] = {}
        for pid in self._pids:
            _check(pid)

    def choose(self, sockets: list[DiagSocket]) -> list[DiagSocket]:
        """Return those of `sockets` that belong to the selected processes."""
        if not (self._pids or self._names):
            return sockets
        undecided = [s for s in sockets if s.cookie not in self._decided and s.inode]
        if undecided:
            held = {inode for pid in self._processes() for inode in _inodes(pid)}
            self._decided |= {s.cookie: s.inode in held for s in undecided}
        if len(self._decided) > _MOST_REMEMBERED:
            there = {s.cookie for s in sockets}
            self._decided = {cookie: ours for cookie, ours in self._decided.items() if cookie in there}
        return [s for s in sockets if self._decided.get(s.cookie, False)]

    def _processes(self) -> Iterator[int]:
        yield from self._pids
        if self._names:
            yield from (pid for pid in _all_processes() if _comm(pid) in self._names)


def _check(pid: int) -> None:
    own, theirs = _PROC / "self/ns/net", _PROC / f"{pid}/ns/net"
    try:
        other = theirs.readlink() != own.readlink()
    except FileNotFoundError:
        raise InputError(f"--pid {pid}: no process has this number; `ps` lists the processes") from None
    except PermissionError:
        raise _not_allowed(pid) from None
    if other:
        raise InputError(
            f"--pid {pid}: the process is in another network namespace; start this collector with `nsenter -t {pid} -n`"
        )


def _all_processes() -> Iterator[int]:
    yield from (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())


def _comm(pid: int) -> bytes | None:
    try:
        return (_PROC / f"{pid}/comm").read_bytes().rstrip(b"\n")
    except (FileNotFoundError, ProcessLookupError):
        return None


def _inodes(pid: int) -> Iterator[int]:
    try:
        for descriptor in (_PROC / f"{pid}/fd").iterdir():
            match = _SOCKET.fullmatch(_target(descriptor))
            if match:
                yield int(match[1])
    except (FileNotFoundError, ProcessLookupError):
        return
    except PermissionError:
        raise _not_allowed(pid) from None


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""


def _not_allowed(pid: int) -> PreflightError:
    return PreflightError(
        f"cannot list the sockets of process {pid}: no permission; run as the user of the process, or as root"
    )


_RECEIVE_BYTES = 1 << 16
_NETLINK_TIMEOUT_S = 1.0
_CHEAPER_TO_DUMP = 64
"""Number of known sockets above which one dump takes less time than a request for each socket."""

_SHOWN = (
    "ca_state", "retransmits", "backoff", "rto", "rtt", "rttvar", "min_rtt", "snd_mss", "snd_cwnd",
    "snd_ssthresh", "snd_wnd", "unacked", "sacked", "lost", "retrans", "total_retrans", "total_rto",
    "bytes_sent", "bytes_acked", "bytes_retrans", "notsent_bytes", "delivery_rate", "app_limited",
    "bytes_received", "rcv_rtt",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SocketReading:
    """An answer of the kernel, and the times (CLOCK_MONOTONIC) before the request and after the answer."""

    before_ns: int
    after_ns: int
    socket: DiagSocket


class NoAnswerError(CollectorError):
    """The kernel gave no complete answer, because its buffer was full or the timeout expired."""


class SocketReader:
    """Reads TCP sockets from the kernel, and stores the list of known sockets.

    Parameters
    ----------
    bytecode : bytes
        The filter for dumps.
    ip_versions : sequence of 4 and 6
        IP versions of the sockets to read.
    owners : Owners
        Selects sockets by their process, among those that pass the filter.
    """

    def __init__(self, *, bytecode: bytes, ip_versions: Sequence[IpVersion], owners: Owners) -> None:
        self._bytecode = bytecode
        self._ip_versions = ip_versions
        self._owners = owners
        self._sequence = 0
        self.known: dict[int, DiagSocket] = {}
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)
        self._netlink.settimeout(_NETLINK_TIMEOUT_S)

    def look(self) -> list[SocketReading]:
        """Return a reading of each existing selected socket, from a dump."""
        readings = [r for version in self._ip_versions for r in self._dump(version)]
        chosen = {s.cookie for s in self._owners.choose([r.socket for r in readings])}
        by_cookie = {r.socket.cookie: r for r in readings if r.socket.cookie in chosen}
        doubtful = self.known if any(r.socket.interrupted for r in readings) else {}
        self.known = doubtful | {cookie: r.socket for cookie, r in by_cookie.items()}
        return list(by_cookie.values())

    def close(self) -> None:
        """Close the netlink socket."""
        self._netlink.close()

    def ask(self) -> list[SocketReading]:
        """Return a reading of each known socket that still exists, with one request for each."""
        readings = [r for s in self.known.values() for r in self._ask(s)]
        self.known = {r.socket.cookie: r.socket for r in readings}
        return readings

    def _dump(self, ip_version: IpVersion) -> Iterator[SocketReading]:
        question = dump_request(ip_version=ip_version, bytecode=self._bytecode, sequence=self._next_sequence())
        before = self._send(question)
        while True:
            answers, after = self._receive()
            for answer in answers:
                if isinstance(answer, DiagSocket):
                    yield SocketReading(before, after, answer)
                elif isinstance(answer, DumpDone) or ip_version == 6:
                    return
                else:
                    raise _no_diag(answer)

    def _ask(self, known: DiagSocket) -> Iterator[SocketReading]:
        before = self._send(socket_request(known, sequence=self._next_sequence()))
        answers, after = self._receive()
        for answer in answers:
            if isinstance(answer, DiagSocket) and answer.state != TcpState.TIME_WAIT:
                yield SocketReading(before, after, answer)

    def _next_sequence(self) -> int:
        self._sequence = self._sequence + 1 & 0x7FFFFFFF
        return self._sequence

    def _send(self, question: bytes) -> int:
        before = time.monotonic_ns()
        self._netlink.send(question)
        return before

    def _receive(self) -> tuple[list[DiagSocket | DumpDone | Refused], int]:
        try:
            datagram = self._netlink.recv(_RECEIVE_BYTES)
            after = time.monotonic_ns()
            return list(decode(datagram, sequence=self._sequence)), after
        except TimeoutError:
            raise NoAnswerError("no answer") from None
        except RemoteProtocolError as error:
            raise NoAnswerError(str(error)) from error
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            raise NoAnswerError("answers of the kernel were lost, because the receive buffer was full") from error


def reading_line(reading: SocketReading, *, number: int) -> bytes:
    """Return the log's record of one reading."""
    s = reading.socket
    raw = s.tcp_info or b""
    fields = decode_tcp_info(raw)
    return line(
        {
            "kind": "reading",
            "read": number,
            "read_before_ns": reading.before_ns,
            "read_after_ns": reading.after_ns,
            "local": _text(s.address_local),
            "local_port": s.port_local,
            "remote": _text(s.address_remote),
            "remote_port": s.port_remote,
            "cookie": s.cookie,
            "inode": s.inode,
            "state": s.state,
            "timer": s.timer,
            "expires_ms": s.expires_ms,
            "receive_queue_bytes": s.receive_queue_bytes,
            "send_queue_bytes": s.send_queue_bytes,
            "congestion_control": s.congestion_control,
            "tcp_info": {name: fields[name] for name in _SHOWN if name in fields},
            "raw": binascii.b2a_base64(raw, newline=False).decode(),
        }
    )


@functools.lru_cache(maxsize=1024)
def _text(address: bytes) -> str:
    return str(ip_address(address))


class TcpInfoRecorder:
    """One run of the collector: reads by a schedule, and writes answers and gaps."""

    def __init__(self, reader: SocketReader, log: Log, chosen: argparse.Namespace) -> None:
        self._reader = reader
        self._log = log
        self._reads = 0
        self._missed = 0
        now = time.monotonic_ns()
        self._clock_ns = now
        self._look_ns: float = now
        self._look_every_ns = NS_PER_S / min(chosen.look, chosen.hz)
        self._schedule = Schedule(hz=chosen.hz, poisson=chosen.poisson, start_ns=now)

    def run(self, stop: Stop) -> None:
        """Record until `stop` asks for the end."""
        stop.on_set = self._clock
        while stop.wait(math.ceil(self._schedule.due_ns)):
            due_ns = self._schedule.due_ns
            self._round()
            late = self._schedule.advance(time.monotonic_ns())
            if late:
                self._miss(late, since_ns=due_ns, why="late")
            if time.monotonic_ns() >= self._clock_ns:
                self._clock()
        self._clock()
        self._log.record(kind="end", reason=stop.reason, reads=self._reads, missed=self._missed)

    def _round(self) -> None:
        self._reads += 1
        before = set(self._reader.known)
        began_ns = time.monotonic_ns()
        try:
            readings = self._reader.look() if self._is_time_to_look(began_ns) else self._reader.ask()
        except NoAnswerError as error:
            self._miss(1, since_ns=began_ns, why=str(error))
            return
        self._log.write(b"".join(reading_line(r, number=self._reads) for r in readings))
        for cookie in before - set(self._reader.known):
            self._log.record(kind="gone", read=self._reads, seen_ns=time.monotonic_ns(), cookie=cookie)

    def _is_time_to_look(self, now_ns: int) -> bool:
        if now_ns >= self._look_ns:
            self._look_ns = max(self._look_ns + self._look_every_ns, now_ns)
            return True
        return len(self._reader.known) > _CHEAPER_TO_DUMP

    def _miss(self, count: int, *, since_ns: float, why: str) -> None:
        self._missed += count
        self._log.record(kind="missed", count=count, since_ns=round(since_ns), until_ns=time.monotonic_ns(), why=why)

    def _clock(self) -> None:
        self._clock_ns = time.monotonic_ns() + NS_PER_S
        self._log.record(kind="clock", **clock_reading(), reads=self._reads, missed=self._missed)


def _no_diag(answer: Refused) -> PreflightError:
    return PreflightError(
        f"the kernel refuses to list its TCP sockets (error {answer.errno}); run `modprobe tcp_diag` as root"
    )


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--hz", type=rate_hz, default=20.0, help="readings of each socket per second; default 20")
    options.add_argument(
        "--look", type=rate_hz, default=20.0, metavar="HZ", help="searches for new sockets per second; default 20"
    )
    options.add_argument(
        "--poisson", action="store_true", help="poll at random times, so that periodic effects are not missed"
    )
    options.add_argument("--pid", type=int, action="append", default=[], help="record only sockets of this process")
    options.add_argument(
        "--process", action="append", default=[], metavar="NAME", help="record only sockets of processes with this name"
    )
    return options.parse_args(argv)


def _reader(chosen: argparse.Namespace) -> SocketReader:
    only_6 = chosen.address and all(network.version == 6 for network in chosen.address)
    return SocketReader(
        bytecode=filter_bytecode(ports=chosen.port, networks=chosen.address),
        ip_versions=(6,) if only_6 else (4, 6),  # IPv4 may be inside an IPv6 socket
        owners=Owners(pids=chosen.pid, names=chosen.process),
    )


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    with Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop:
        reader = _reader(chosen)
        reader.look()
        with Log(chosen.output) as log:
            stop.on_tag = log.sync_probe
            schedule = "poisson" if chosen.poisson else "periodic"
            log.record(
                **header("multitracer-tcp-info", chosen, hz=chosen.hz, look_hz=chosen.look, schedule=schedule),
                pids=chosen.pid,
                processes=chosen.process,
            )
            ready()
            TcpInfoRecorder(reader, log, chosen).run(stop)


def check() -> None:
    """Raise PreflightError if the kernel does not answer requests for sockets."""
    with closing(SocketReader(bytecode=b"", ip_versions=(4,), owners=Owners(pids=(), names=()))) as reader:
        reader.look()


COLLECTOR = Collector(
    name="tcp_info",
    layer="tcp",
    description="variables of TCP senders, polled: cwnd, ssthresh, RTT, RTO",
    log_format="tcp-info",
    suffix=".jsonl",
    check=check,
)

if __name__ == "__main__":
    run(main)
