"""Sender variables in the log format of `collectors/tcp_info.py`, read at every change instead of polled.

What our TCP does not have, or a kernel counts in another way, is written as the struct's "unknown".
"""

from __future__ import annotations

import binascii
import json
import struct
from functools import lru_cache
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, NamedTuple

from multitracer import __version__
from multitracer.protocols.sock_diag import TcpState
from multitracer.protocols.sock_diag.tcp_info import INFINITE_SSTHRESH, LAYOUT
from multitracer.protocols.sock_diag.words import SocketTimer
from multitracer.protocols.tcp.congestion import UNLIMITED_BYTES
from multitracer.protocols.tcp.state import CaState, State
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.protocols.tcp import Connection
    from multitracer.simulator.clock import HostClock
    from multitracer.simulator.host import Socket

_PACKED = struct.Struct("<" + "".join(code for _, code in LAYOUT))
_UNKNOWN = {"I": 0, "B": 0, "H": 0, "Q": (1 << 64) - 1}
_UNKNOWN_FIELDS = {name: _UNKNOWN[code] for name, code in LAYOUT}
_NO_MIN_RTT = 0xFFFFFFFF
_CA_STATES = {state: number for number, state in enumerate(CaState)}
_STATES = {
    State.CLOSED: TcpState.CLOSE,
    State.LISTEN: TcpState.LISTEN,
    State.SYN_SENT: TcpState.SYN_SENT,
    State.SYN_RECEIVED: TcpState.SYN_RECV,
    State.ESTABLISHED: TcpState.ESTABLISHED,
    State.FIN_WAIT_1: TcpState.FIN_WAIT1,
    State.FIN_WAIT_2: TcpState.FIN_WAIT2,
    State.CLOSE_WAIT: TcpState.CLOSE_WAIT,
    State.CLOSING: TcpState.CLOSING,
    State.LAST_ACK: TcpState.LAST_ACK,
    State.TIME_WAIT: TcpState.TIME_WAIT,
}


def tcp_info_fields(connection: Connection) -> dict[str, int]:
    """Return the fields of `struct tcp_info` that our TCP knows, in the kernel's units; the state first."""
    sender, receiver = connection.sender, connection.receiver
    mss, rto, counters = sender.mss_bytes, sender.rto, sender.counters
    unlimited = sender.congestion.ssthresh_bytes >= UNLIMITED_BYTES
    return {
        "state": _STATES[connection.state],
        "ca_state": _CA_STATES[sender.ca_state],
        "retransmits": min(sender.retries, 255),
        "backoff": min(rto.backoff, 255),
        "rto": rto.rto_ns // NS_PER_US,
        "snd_mss": mss,
        "rcv_mss": receiver.peer_mss_bytes,
        "unacked": -(-sender.flight_bytes // mss),
        "sacked": sender.scoreboard.sacked.total // mss,
        "rtt": (rto.srtt_ns or 0) // NS_PER_US,
        "rttvar": (rto.rttvar_ns or 0) // NS_PER_US,
        "min_rtt": _NO_MIN_RTT if rto.smallest_ns is None else rto.smallest_ns // NS_PER_US,
        "snd_ssthresh": INFINITE_SSTHRESH if unlimited else sender.congestion.ssthresh_bytes // mss,
        "snd_cwnd": sender.congestion.cwnd_bytes // mss,
        "total_retrans": counters.retransmitted_segments,
        "bytes_acked": max(0, sender.snd_una - 1 - sender.stream.fin_acknowledged),
        "bytes_received": max(0, receiver.rcv_nxt - 1 - receiver.fin_received),
        "notsent_bytes": max(0, sender.stream.end - max(sender.snd_max, 1)),
        "data_segs_out": counters.segments,
        "bytes_sent": counters.payload_bytes,
        "bytes_retrans": counters.retransmitted_bytes,
        "dsack_dups": counters.dsacks,
        "snd_wnd": sender.snd_wnd_bytes,
        "rcv_wnd": receiver.window_bytes,
        "total_rto": min(counters.timeouts, 0xFFFF),
    }


def pack_tcp_info(fields: dict[str, int]) -> bytes:
    """Return `struct tcp_info`, little-endian; a field that is not given is marked as unknown."""
    return _PACKED.pack(*(_UNKNOWN_FIELDS | fields).values())  # in the order of the struct


class Reading(NamedTuple):
    """A socket's variables as they were at a time."""

    now_ns: int
    about: tuple[int | str, ...]
    """What a line says before `tcp_info`, in its order."""
    fields: dict[str, int]
    """Of `tcp_info_fields`."""


class TcpStateLog:
    """Makes the lines of one host's `tcp_state.jsonl`.

    Parameters
    ----------
    host : str
        The host's name.
    clock : HostClock
        Its clocks.
    """

    def __init__(self, host: str, clock: HostClock) -> None:
        self._host = host
        self._clock = clock
        self._clock_due_ns = 0
        self._last: dict[int, tuple[dict[str, int], int | None]] = {}
        self._reads = 0
        self._template = ""

    def header(self) -> bytes:
        """Return the first line."""
        return _line(
            {
                "kind": "header",
                "format": "multitracer-tcp-info",
                "version": 1,
                "clock": "CLOCK_MONOTONIC",
                "unit": "ns",
                "host": self._host,
                "kernel": "virtual",
                "byte_order": "little",
                "command": ["multitracer.simulator"],
                "multitracer": __version__,
                "schedule": "every change",
            }
        )

    def reading(self, socket: Socket, now_ns: int) -> Reading | None:
        """Return the variables of a socket that may have changed; None if it has not."""
        connection = socket.connection
        fields, timer_ns = tcp_info_fields(connection), connection.sender.next_timer_ns()
        if self._last.get(socket.number) == (fields, timer_ns):
            return None
        self._last[socket.number] = fields, timer_ns
        local, remote = connection.local, connection.remote
        about = (
            *(_dotted(local.address), local.port, _dotted(remote.address), remote.port, socket.number),
            *(fields["state"], *_timer(connection, now_ns)),
            *(connection.receiver.readable_bytes, len(connection.sender.stream)),
            connection.profile.congestion,
        )
        return Reading(now_ns, about, fields)

    def lines(self, readings: Iterable[Reading]) -> bytes:
        """Return the lines of readings, which follow those of the last call."""
        return b"".join([part for reading in readings for part in self._lines(reading)])

    def _lines(self, reading: Reading) -> tuple[bytes, bytes]:
        now_ns, about, fields = reading
        self._reads += 1
        read_ns = self._clock.monotonic_ns(now_ns)
        _, *tcp_info = fields.values()
        raw = binascii.b2a_base64(pack_tcp_info(fields), newline=False).decode()
        self._template = self._template or _reading_template(*fields)
        line = self._template % (self._reads, read_ns, read_ns, *about, *tcp_info, raw)
        return self._clock_lines(now_ns), line.encode()

    def _clock_lines(self, now_ns: int) -> bytes:
        if now_ns < self._clock_due_ns:
            return b""
        self._clock_due_ns = now_ns + NS_PER_S
        return self._clock_line(now_ns)

    def _clock_line(self, now_ns: int) -> bytes:
        return _line({"kind": "clock", **self._clock.reading(now_ns), "reads": self._reads, "missed": 0})

    def end(self, now_ns: int) -> bytes:
        """Return the last lines."""
        ended = {"kind": "end", "reason": "the run is over", "reads": self._reads, "missed": 0}
        return self._clock_line(now_ns) + _line(ended)


def _reading_template(_: str, *tcp_info: str) -> str:
    """Return the line of a reading with its values open: a quarter of the time of a JSON encoder."""
    named = ",".join(f'"{name}":%d' for name in tcp_info)
    return (
        '{"kind":"reading","read":%d,"read_before_ns":%d,"read_after_ns":%d,"local":"%s","local_port":%d,'
        '"remote":"%s","remote_port":%d,"cookie":%d,"inode":0,"state":%d,"timer":%d,"expires_ms":%d,'
        '"receive_queue_bytes":%d,"send_queue_bytes":%d,"congestion_control":"%s",'
        f'"tcp_info":{{{named}}},"raw":"%s"}}\n'
    )


@lru_cache(maxsize=64)  # of the hosts of a run
def _dotted(address: bytes) -> str:
    return str(IPv4Address(address))


def _timer(connection: Connection, now_ns: int) -> tuple[int, int]:
    sender = connection.sender
    if sender.retransmit_ns is not None:
        return SocketTimer.RETRANSMISSION, max(0, sender.retransmit_ns - now_ns) // NS_PER_MS
    if sender.persist_ns is not None:
        return SocketTimer.ZERO_WINDOW_PROBE, max(0, sender.persist_ns - now_ns) // NS_PER_MS
    return 0, 0


def _line(record: dict[str, object]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"
