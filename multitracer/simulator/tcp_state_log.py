"""Sender variables in the log format of `collectors/tcp_info.py`, read at every change instead of polled.

What our TCP does not have, or a kernel counts in another way, is written as the struct's "unknown".
"""

from __future__ import annotations

import binascii
import json
import struct
from functools import lru_cache
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.protocols.sock_diag import TcpState
from multitracer.protocols.sock_diag.tcp_info import INFINITE_SSTHRESH, LAYOUT
from multitracer.protocols.sock_diag.words import SocketTimer
from multitracer.protocols.tcp.congestion import UNLIMITED_BYTES
from multitracer.protocols.tcp.state import CaState, State
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
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
    """Return the fields of `struct tcp_info` that our TCP knows, in the kernel's units."""
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
        self._last: dict[int, tuple[bytes, int | None]] = {}
        self._reads = 0

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

    def reading(self, socket: Socket, now_ns: int) -> bytes:
        """Return the lines for a socket that may have changed; none if it has not."""
        fields = tcp_info_fields(socket.connection)
        blob, timer_ns = pack_tcp_info(fields), socket.connection.sender.next_timer_ns()
        if self._last.get(socket.number) == (blob, timer_ns):
            return b""
        self._last[socket.number] = blob, timer_ns
        self._reads += 1
        return self._clock_lines(now_ns) + _line(self._record(socket, fields, blob, now_ns))

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

    def _record(self, socket: Socket, fields: dict[str, int], blob: bytes, now_ns: int) -> dict[str, object]:
        connection = socket.connection
        timer, expires_ms = _timer(connection, now_ns)
        read_ns = self._clock.monotonic_ns(now_ns)
        return {
            "kind": "reading",
            "read": self._reads,
            "read_before_ns": read_ns,
            "read_after_ns": read_ns,
            "local": _dotted(connection.local.address),
            "local_port": connection.local.port,
            "remote": _dotted(connection.remote.address),
            "remote_port": connection.remote.port,
            "cookie": socket.number,
            "inode": 0,
            "state": fields["state"],
            "timer": timer,
            "expires_ms": expires_ms,
            "receive_queue_bytes": connection.receiver.readable_bytes,
            "send_queue_bytes": len(connection.sender.stream),
            "congestion_control": connection.profile.congestion,
            "tcp_info": {name: value for name, value in fields.items() if name != "state"},
            "raw": binascii.b2a_base64(blob, newline=False).decode(),
        }


@lru_cache(maxsize=64)  # of the hosts of a run
def _dotted(address: bytes) -> str:
    return str(IPv4Address(address))


def _timer(connection: Connection, now_ns: int) -> tuple[int, int]:
    sender = connection.sender
    for number, due_ns in (
        (SocketTimer.RETRANSMISSION, sender.retransmit_ns),
        (SocketTimer.ZERO_WINDOW_PROBE, sender.persist_ns),
    ):
        if due_ns is not None:
            return number, max(0, due_ns - now_ns) // NS_PER_MS
    return 0, 0


_encode = json.JSONEncoder(separators=(",", ":")).encode  # made once: `json.dumps` makes one for each line


def _line(record: dict[str, object]) -> bytes:
    return _encode(record).encode() + b"\n"
