"""The logs of one host in virtual time: its capture, its TCP variables, and its end of the link."""

from __future__ import annotations

import binascii
import json
import struct
from functools import lru_cache
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, BinaryIO, Generic, NamedTuple, TypeVar

from multitracer import __version__
from multitracer.lab.channel.shared.packet_link import side_of
from multitracer.lab.channel.shared.queue import named
from multitracer.lab.scenario.session_folder import CAPTURE, RLPDUMP, TCP_STATE
from multitracer.lab.tcp.congestion.base import UNLIMITED_BYTES
from multitracer.lab.tcp.state import CongestionState, ConnectionState
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlpdump import RlpdumpWriter
from multitracer.protocols.sock_diag import INFINITE_SSTHRESH, LAYOUT, SocketTimer, TcpState
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.simulator.host import SimulatedSocket
    from multitracer.lab.simulator.network import SimulatedClock
    from multitracer.lab.tcp.connection import Connection
    from multitracer.protocols.link_events import LinkEvent

# Sender variables in the log format of `collectors/tcp_info.py`, read at every change instead of polled.
#
# What our TCP does not have, or a kernel counts in another way, is written as the struct's "unknown".


_PACKED = struct.Struct("<" + "".join(code for _, code in LAYOUT))
_UNKNOWN = {"I": 0, "B": 0, "H": 0, "Q": (1 << 64) - 1}
_UNKNOWN_FIELDS = {name: _UNKNOWN[code] for name, code in LAYOUT}
_NO_MIN_RTT = 0xFFFFFFFF
_MOST_TIMEOUTS = 0xFFFF  # the field has 16 bits
_CA_STATES = {state: number for number, state in enumerate(CongestionState)}
_STATES = {
    ConnectionState.CLOSED: TcpState.CLOSE.value,
    ConnectionState.LISTEN: TcpState.LISTEN.value,
    ConnectionState.SYN_SENT: TcpState.SYN_SENT.value,
    ConnectionState.SYN_RECEIVED: TcpState.SYN_RECV.value,
    ConnectionState.ESTABLISHED: TcpState.ESTABLISHED.value,
    ConnectionState.FIN_WAIT_1: TcpState.FIN_WAIT1.value,
    ConnectionState.FIN_WAIT_2: TcpState.FIN_WAIT2.value,
    ConnectionState.CLOSE_WAIT: TcpState.CLOSE_WAIT.value,
    ConnectionState.CLOSING: TcpState.CLOSING.value,
    ConnectionState.LAST_ACK: TcpState.LAST_ACK.value,
    ConnectionState.TIME_WAIT: TcpState.TIME_WAIT.value,
}


_FIELDS = (
    *("state", "ca_state", "retransmits", "backoff", "rto", "snd_mss", "rcv_mss", "unacked", "sacked"),
    *("rtt", "rttvar", "min_rtt", "snd_ssthresh", "snd_cwnd", "total_retrans", "bytes_acked"),
    *("bytes_received", "notsent_bytes", "data_segs_out", "bytes_sent", "bytes_retrans", "dsack_dups"),
    *("snd_wnd", "rcv_wnd", "total_rto"),
)
"""The fields of `struct tcp_info` that our TCP has, in the order of `tcp_info_values`; the state first."""


def tcp_info_values(connection: Connection) -> tuple[int, ...]:
    """Return the values of a connection's `struct tcp_info`, in kernel units, in the order of `_FIELDS`."""
    sender, receiver = connection.sender, connection.receiver
    mss, rto, counters, congestion = sender.mss_bytes, sender.rto, sender.counters, sender.congestion
    stream, smallest_ns, snd_max, snd_una = sender.stream, rto.smallest_ns, sender.snd_max, sender.snd_una
    ssthresh, timeouts, unsent = congestion.ssthresh_bytes, counters.timeouts, stream.end - (snd_max or 1)
    acked, received = snd_una - 1 - stream.fin_acknowledged, receiver.rcv_nxt - 1 - receiver.fin_received
    return (
        _STATES[connection.state],
        _CA_STATES[sender.ca_state],
        min(sender.retries, 255),
        min(rto.backoff, 255),
        rto.rto_ns // NS_PER_US,
        mss,
        receiver.peer_mss_bytes,
        -((snd_una - snd_max) // mss),
        sender.scoreboard.sacked.total // mss,
        (rto.srtt_ns or 0) // NS_PER_US,
        (rto.rttvar_ns or 0) // NS_PER_US,
        _NO_MIN_RTT if smallest_ns is None else smallest_ns // NS_PER_US,
        INFINITE_SSTHRESH if ssthresh >= UNLIMITED_BYTES else ssthresh // mss,
        congestion.cwnd_bytes // mss,
        counters.retransmitted_segments,
        acked if acked > 0 else 0,
        received if received > 0 else 0,
        unsent if unsent > 0 else 0,
        counters.segments,
        counters.payload_bytes,
        counters.retransmitted_bytes,
        counters.dsacks,
        sender.snd_wnd_bytes,
        receiver.window_bytes,
        timeouts if timeouts < _MOST_TIMEOUTS else _MOST_TIMEOUTS,
    )


def tcp_info_fields(connection: Connection) -> dict[str, int]:
    """Return the fields of `struct tcp_info` that our TCP supports, by name, in the kernel's units."""
    return dict(zip(_FIELDS, tcp_info_values(connection), strict=True))


def pack_tcp_info(fields: dict[str, int]) -> bytes:
    """Return a binary `struct tcp_info`, little-endian; absent fields get the value for "unknown"."""
    return _PACKED.pack(*(_UNKNOWN_FIELDS | fields).values())  # in the order of the struct


class SimulatedReading(NamedTuple):
    """A socket's variables at one time."""

    before: bytes
    """Log line that must precede this one; empty if none."""
    number: int
    """Number of the reading."""
    read_ns: int
    about: tuple[int | str, ...]
    """Values of the log line before `tcp_info`, in its order."""
    values: tuple[int, ...]
    """The result of `tcp_info_values`."""


class TcpStateLog:
    """Makes the lines of one host's `tcp_state.jsonl`.

    Parameters
    ----------
    host : str
        The host's name.
    clock : SimulatedClock
        The clocks of the host.
    """

    def __init__(self, host: str, clock: SimulatedClock) -> None:
        self._host = host
        self._clock = clock
        self._clock_due_ns = 0
        self._last: dict[int, tuple[tuple[int, ...], int | None]] = {}
        self._reads = 0

    def header(self) -> bytes:
        """Return the first line of the log."""
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

    def reading(self, socket: SimulatedSocket, now_ns: int) -> SimulatedReading | None:
        """Return a socket's variables; None if they have not changed since the last call."""
        connection = socket.connection
        now = tcp_info_values(connection), connection.sender.next_timer_ns()
        if self._last.get(socket.number) == now:
            return None
        self._last[socket.number] = now
        self._reads += 1
        local, remote = connection.local, connection.remote
        timer, expires_ms = _timer(connection, now_ns)
        about = (
            *(_dotted(local.address), local.port, _dotted(remote.address), remote.port, socket.number),
            *(now[0][0], timer, expires_ms),
            *(connection.receiver.readable_bytes, len(connection.sender.stream)),
            connection.profile.congestion,
        )
        read_ns = self._clock.monotonic_ns(now_ns)
        return named(SimulatedReading, (self._clock_lines(now_ns), self._reads, read_ns, about, now[0]))

    def lines(self, readings: list[SimulatedReading]) -> bytes:
        """Return the log lines of readings."""
        return b"".join([part for reading in readings for part in _line_of(reading)])

    def _clock_lines(self, now_ns: int) -> bytes:
        if now_ns < self._clock_due_ns:
            return b""
        self._clock_due_ns = now_ns + NS_PER_S
        return self._clock_line(now_ns)

    def _clock_line(self, now_ns: int) -> bytes:
        return _line({"kind": "clock", **self._clock.reading(now_ns), "reads": self._reads, "missed": 0})

    def end(self, now_ns: int) -> bytes:
        """Return the last lines of the log."""
        ended = {"kind": "end", "reason": "the run is over", "reads": self._reads, "missed": 0}
        return self._clock_line(now_ns) + _line(ended)


_NAMED = ",".join(f'"{name}":%d' for name in _FIELDS[1:])
_TEMPLATE = (
    '{"kind":"reading","read":%d,"read_before_ns":%d,"read_after_ns":%d,"local":"%s","local_port":%d,'
    '"remote":"%s","remote_port":%d,"cookie":%d,"inode":0,"state":%d,"timer":%d,"expires_ms":%d,'
    '"receive_queue_bytes":%d,"send_queue_bytes":%d,"congestion_control":"%s",'
    f'"tcp_info":{{{_NAMED}}},"raw":"%s"}}\n'
)
"""Format of the line of a reading: it takes a quarter of the time of a JSON encoder."""


def _line_of(reading: SimulatedReading) -> tuple[bytes, bytes]:
    before, number, read_ns, about, values = reading
    raw = binascii.b2a_base64(pack_tcp_info(dict(zip(_FIELDS, values, strict=True))), newline=False).decode()
    return before, (_TEMPLATE % (number, read_ns, read_ns, *about, *values[1:], raw)).encode()


@lru_cache(maxsize=64)  # of the hosts of a run
def _dotted(address: bytes) -> str:
    return str(IPv4Address(address))


def _timer(connection: Connection, now_ns: int) -> tuple[int, int]:
    sender = connection.sender
    if sender.retransmit_ns is not None:
        return SocketTimer.RETRANSMISSION.value, max(0, sender.retransmit_ns - now_ns) // NS_PER_MS
    if sender.persist_ns is not None:
        return SocketTimer.ZERO_WINDOW_PROBE.value, max(0, sender.persist_ns - now_ns) // NS_PER_MS
    return 0, 0


def _line(record: dict[str, object]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


Row = TypeVar("Row")

_AT_ONCE = 256
"""Number of rows that are written together (not measured: 256 packets are at most 400 kB)."""


class _Log(Generic[Row]):
    """A log that collects rows and writes many of them at once."""

    def __init__(self, file: BinaryIO, header: bytes, encoded: Callable[[list[Row]], bytes]) -> None:
        self._file = file
        self._encoded = encoded
        self._rows: list[Row] = []
        file.write(header)

    def add(self, row: Row) -> None:
        """Add a row."""
        self._rows.append(row)
        if len(self._rows) >= _AT_ONCE:
            self.write()

    def extend(self, rows: list[Row]) -> None:
        """Add rows."""
        self._rows += rows
        if len(self._rows) >= _AT_ONCE:
            self.write()

    def write(self, last: bytes = b"") -> None:
        """Write the collected rows, then the octets `last`."""
        rows, self._rows = self._rows, []
        self._file.write(self._encoded(rows) + last)


class HostLogWriter:
    """Writes the logs that a capture, tcp_info and rlpdump would write on one host.

    Parameters
    ----------
    host : str
        Name of the host.
    clock : SimulatedClock
        The clocks of the host.
    opened : callable
        Returns the open file for the name of a log; the caller must call `write` and then close it.
    snap_bytes : int
        Snap length of the capture.
    facts : mapping
        Facts for the header of the link's log, which is made by `open_link_log` or by the first event.
    """

    def __init__(
        self,
        host: HostName,
        clock: SimulatedClock,
        *,
        opened: Callable[[str], BinaryIO],
        snap_bytes: int,
        facts: Mapping[str, str | int | float],
    ) -> None:
        self.clock = clock
        self._snap = snap_bytes
        self._opened = opened
        self._state = TcpStateLog(host, clock)
        self._rlp = RlpdumpWriter(side=side_of(host), facts=facts)
        self._packets = _Log(opened(CAPTURE), pcap_header(snap_bytes=snap_bytes), self._records)
        self._readings = _Log(opened(TCP_STATE), self._state.header(), self._state.lines)
        self._events: _Log[LinkEvent] | None = None

    def packet(self, data: bytes, now_ns: int) -> None:
        """Write a packet at the host's interface."""
        self._packets.add((data, now_ns))

    def _records(self, packets: list[tuple[bytes, int]]) -> bytes:
        realtime_ns, snap_bytes = self.clock.realtime_ns, self._snap
        return b"".join(
            [pcap_record(data, time_ns=realtime_ns(now_ns), snap_bytes=snap_bytes) for data, now_ns in packets]
        )

    def state(self, socket: SimulatedSocket, now_ns: int) -> None:
        """Write a socket's variables if they have changed."""
        reading = self._state.reading(socket, now_ns)
        if reading is not None:
            self._readings.add(reading)

    def open_link_log(self) -> _Log[LinkEvent]:
        """Create the link's log and return it."""
        self._events = _Log(self._opened(RLPDUMP), self._rlp.header(), self._event_records)
        return self._events

    def link_events(self, events: list[LinkEvent]) -> None:
        """Write events of the host's end of the link."""
        (self._events or self.open_link_log()).extend(events)

    def _event_records(self, events: list[LinkEvent]) -> bytes:
        record, realtime_ns = self._rlp.record, self.clock.realtime_ns
        return b"".join([record(event, realtime_ns(event.time_ns)) for event in events])

    def write(self) -> None:
        """Write the collected rows of all logs."""
        self._packets.write()
        self._readings.write()
        if self._events is not None:
            self._events.write()

    def end(self, now_ns: int) -> None:
        """Write the collected rows and the last lines of all logs."""
        self.write()
        self._readings.write(self._state.end(now_ns))
