"""Makes clients and servers from the user's names (HOST:PORT, serial:PATH, rfcomm:…, tcp, centauruscomm, wtcp).

A stream (RFCOMM, Unix sockets) is a line with one slave at its end, and carries the octets of the serial Level I of
CentaurusComm. The kernel hands octets on in order, and an octet has left when the socket's send queue is empty
(`SIOCOUTQ`). The master listens, and its line is without a slave until one connects; who connects when another is
there waits for its end. Only Unix sockets were tested: no Bluetooth was at hand.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from multitracer.endpoints import host_port as host_port_text
from multitracer.errors import InputError, PreflightError
from multitracer.measure.centaurus import CentaurusClient, CentaurusServer, class_of
from multitracer.measure.endpoint import (
    BAUD,
    LineGoneError,
    OctetLine,
    SerialEndpoint,
    SerialLine,
    UdpEndpoint,
    resolved,
)
from multitracer.measure.exchange import GOODBYE, HELLO, MAX_MESSAGE_BYTES, RECEIPT, REPLY, REQUEST, KernelConnection
from multitracer.measure.latency_server import LatencyServer
from multitracer.measure.outcome import REACH_S
from multitracer.measure.tcp import TcpClient, TcpServer
from multitracer.measure.wtcp import WtcpClientStream, WtcpServer
from multitracer.protocols.centaurus.level1_serial import SerialMaster, SerialSlave
from multitracer.protocols.centaurus.level1_udp import UdpWorker
from multitracer.protocols.centaurus.messages import CentaurusConfig, Extension
from multitracer.protocols.wtcp.state import WtcpConfig
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from multitracer.measure.endpoint import Line
    from multitracer.measure.outcome import Client, ContextOf
    from multitracer.measure.plan import ProtocolName
    from multitracer.measure.server import MeasureServer


_RFCOMM = re.compile(r"rfcomm:(?:(?P<device>(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2})/)?(?P<channel>[1-9]\d?)")
_ANY_DEVICE = "00:00:00:00:00:00"
_MOST_CHANNEL = 30
"""Largest channel of RFCOMM: five bits, of which 0 and 31 are reserved (TS 07.10)."""
_UNIX = "unix:"


class StreamAddress(NamedTuple):
    """Where a stream begins: a socket's family, its protocol, and the address there."""

    text: str
    family: int
    protocol: int
    address: str | tuple[str, int]


def stream_address(text: str) -> StreamAddress | None:
    """Return the address of a stream, `rfcomm:DEVICE/CHANNEL`, `rfcomm:CHANNEL` or `unix:PATH`; None for any other.

    Raises
    ------
    InputError
        If it begins as one of these and is none.
    PreflightError
        If this system has no Bluetooth.
    """
    if text.startswith(_UNIX):
        return StreamAddress(text, socket.AF_UNIX, 0, text.removeprefix(_UNIX))
    if not text.startswith("rfcomm:"):
        return None
    match = _RFCOMM.fullmatch(text)
    if match is None or int(match["channel"]) > _MOST_CHANNEL:
        raise InputError(
            f"{text}: the address must be rfcomm:DEVICE/CHANNEL with a channel of 1 to {_MOST_CHANNEL}, for example "
            "rfcomm:00:11:22:33:44:55/1; for `--listen` rfcomm:CHANNEL"
        )
    if not hasattr(socket, "AF_BLUETOOTH"):
        raise PreflightError(f"{text}: this Python has no Bluetooth sockets; use one that was built with them")
    address = (match["device"] or _ANY_DEVICE, int(match["channel"]))
    return StreamAddress(text, socket.AF_BLUETOOTH, socket.BTPROTO_RFCOMM, address)


def connected_line(where: StreamAddress, baud: int = BAUD) -> StreamLine:
    """Return the line to a master that listens.

    Raises
    ------
    InputError
        If nobody listens there.
    """
    stream = _socket(where)
    try:
        stream.settimeout(REACH_S)
        stream.connect(where.address)
    except OSError as error:
        stream.close()
        reason = error.strerror or "timed out"
        raise InputError(f"{where.text}: cannot connect ({reason}); check that the server is running") from error
    return StreamLine(stream, where.text, baud)


def _socket(where: StreamAddress) -> socket.socket:
    try:
        return socket.socket(where.family, socket.SOCK_STREAM, where.protocol)
    except OSError as error:  # a kernel without Bluetooth
        raise PreflightError(f"{where.text}: this system has no such sockets ({error.strerror})") from error


def _bind(listener: socket.socket, where: StreamAddress) -> None:
    """Bind a listening socket; the file of a Unix socket that a killed server left is replaced."""
    try:
        listener.bind(where.address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not isinstance(where.address, str) or not _is_left(where):
            raise
        Path(where.address).unlink()
        listener.bind(where.address)


def _is_left(where: StreamAddress) -> bool:
    """Return whether the file of a Unix socket is there, and nobody listens at it."""
    with _socket(where) as probe:
        probe.setblocking(False)
        is_refused = probe.connect_ex(where.address) == errno.ECONNREFUSED  # as at a file that is no socket
    return is_refused and stat.S_ISSOCK(os.lstat(str(where.address)).st_mode)


class StreamLine(OctetLine):
    """A connected stream socket as a line.

    Parameters
    ----------
    stream : socket.socket
        The socket; the line closes it.
    path : str
        Its name, for messages.
    baud : int
        Assumed bits per second, at ten for each octet; it decides only how often the driver looks whether all left.
    """

    def __init__(self, stream: socket.socket, path: str, baud: int = BAUD) -> None:
        super().__init__(path, baud)
        stream.setblocking(False)
        self._stream = stream

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._stream.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._stream.close()

    def _has_ended(self) -> bool:
        return True

    def _gone(self, error: OSError) -> LineGoneError:
        reason = "the other end closed it" if error.errno in (errno.EIO, errno.EPIPE) else error.strerror
        return LineGoneError(f"{self.path}: the stream has ended ({reason}); start the other end again")


class ListeningLine:
    """The line of a master, at whose other end one slave at a time may be.

    What is written while there is none is lost, as on a cable that leads nowhere.

    Parameters
    ----------
    where : StreamAddress
        Where to listen.
    baud : int
        As of `StreamLine`.

    Raises
    ------
    InputError
        If it cannot listen there.
    """

    def __init__(self, where: StreamAddress, baud: int = BAUD) -> None:
        self.path = where.text
        self.baud = baud
        self._slave: StreamLine | None = None
        self._listener = _socket(where)
        try:
            _bind(self._listener, where)
            self._listener.listen(1)
        except OSError as error:
            self._listener.close()
            raise InputError(f"{where.text}: cannot listen there ({error.strerror}); choose another") from error
        self._listener.setblocking(False)
        self._file = where.address if isinstance(where.address, str) else None

    def fileno(self) -> int:
        """Return the descriptor of the slave's socket, or of the listening one."""
        return (self._slave or self._listener).fileno()

    def close(self) -> None:
        """Close both sockets; a Unix socket's file is removed."""
        self._part()
        self._listener.close()
        if self._file is not None:
            with contextlib.suppress(OSError):
                Path(self._file).unlink()

    def write(self, octets: bytes) -> None:
        """Begin to send octets."""
        try:
            if self._slave is not None:
                self._slave.write(octets)
        except LineGoneError:
            self._part()

    def flush(self) -> None:
        """Pass to the kernel as many octets as it accepts."""
        try:
            if self._slave is not None:
                self._slave.flush()
        except LineGoneError:
            self._part()

    @property
    def waiting_bytes(self) -> int:
        """Number of octets that are not sent yet."""
        return 0 if self._slave is None else self._slave.waiting_bytes

    def read(self) -> bytes:
        """Return the octets that arrived; empty if none did, or if a slave came or went."""
        try:
            return self._accepted() if self._slave is None else self._slave.read()
        except LineGoneError:
            self._part()
            return b""

    def _accepted(self) -> bytes:
        try:
            stream, _ = self._listener.accept()
        except OSError:  # nobody is there, or is no more
            return b""
        self._slave = StreamLine(stream, self.path, self.baud)
        return self._slave.read()

    def _part(self) -> None:
        if self._slave is not None:
            self._slave.close()
            self._slave = None


T = TypeVar("T")
_HOST_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d{1,5})")
_SERIAL = "serial:"
_STATION = 1
"""Each serial line carries one client, so that every client has the same number."""
_VISIT_NS = 20 * NS_PER_MS
"""Interval in ns at which the server polls an idle client on a serial line; half of it is the mean delay of a request.
"""
_OBJECTS_WAITING = 4
"""Objects that may wait for one peer: a reply, a receipt, and both of an abandoned transaction."""
_TIMERS = ("watchdog_ns", "cap_ns", "lifetime_ns", "max_lifetime_ns", "probe_ns", "visit_ns")
_WTCP_TIMES = (
    "min_ack_interval_ns",
    "max_ack_interval_ns",
    "min_silence_ns",
    "probe_ns",
    "handshake_ns",
    "give_up_ns",
    "linger_ns",
)
_WTCP_RATES = ("initial_rate_packets_per_s", "increase_packets_per_s", "min_rate_bps", "max_rate_bps")
_PEERS_PER_HOST = 512
"""Largest number of peers on one host: several campaigns may run there, each on its own port."""


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """Options of CentaurusComm and WTCP besides the address."""

    extensions: Extension = Extension.NONE
    key: bytes | None = None
    baud: int = BAUD
    speed: float = 1
    """Link seconds in a real second: timers are divided by it, rates are multiplied."""
    context_of: ContextOf | None = None
    """Function that returns radio and place during a transaction; None if nothing records them."""

    def config(self, *accepted: bytes) -> CentaurusConfig:
        """Return the protocol's configuration for an end that receives these messages."""
        plain = CentaurusConfig(
            accepts=frozenset(map(class_of, accepted)),
            extensions=self.extensions,
            key=self.key,
            max_message_bytes=MAX_MESSAGE_BYTES,
            max_peers_per_host=_PEERS_PER_HOST,
            max_outgoing=_OBJECTS_WAITING,
            visit_ns=_VISIT_NS,
        )
        timers = {name: max(1, round(getattr(plain, name) / self.speed)) for name in _TIMERS}
        return replace(plain, **timers)

    def wtcp(self) -> WtcpConfig:
        """Return WTCP's configuration: times are divided and rates multiplied by the link's speed."""
        plain = WtcpConfig()
        times = {name: max(NS_PER_MS, round(getattr(plain, name) / self.speed)) for name in _WTCP_TIMES}
        return replace(plain, **times, **{name: getattr(plain, name) * self.speed for name in _WTCP_RATES})


def host_port(text: str) -> tuple[str, int]:
    """Return the host and the port in a text.

    Raises
    ------
    InputError
        If the text is not HOST:PORT.
    """
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise InputError(
            f"{text}: the address must be HOST:PORT or serial:PATH, for example 127.0.0.1:5100; an IPv6 "
            "address stands in brackets, [2001:db8::1]:5100"
        )
    return match["host"].strip("[]") or "127.0.0.1", int(match["port"])


def is_line(text: str) -> bool:
    """Return whether an address names a serial line or a stream."""
    return text.startswith(_SERIAL) or stream_address(text) is not None


def _line(text: str, baud: int, of_stream: Callable[[StreamAddress, int], Line]) -> Line | None:
    """Return the line that an address names, opened; None for HOST:PORT."""
    if text.startswith(_SERIAL):
        return SerialLine(text.removeprefix(_SERIAL), baud)
    stream = stream_address(text)
    return None if stream is None else of_stream(stream, baud)


def _not_serial(protocol: ProtocolName, text: str) -> InputError:
    name = protocol.upper()
    return InputError(f"{text}: {name} needs HOST:PORT; use --protocol centauruscomm on a serial line or a stream")


def client(protocol: ProtocolName, server: str, *, run: int, timeout_s: float, options: TransportOptions) -> Client:
    """Return a client of a server.

    Raises
    ------
    InputError
        If there is no such transport, or the server's name or the serial line cannot be used.
    """
    return of_transport(CLIENTS, protocol)(server, run, timeout_s, options)


def server(
    protocol: ProtocolName, listen: Sequence[str], *, folder: Path | None, options: TransportOptions
) -> tuple[MeasureServer, str]:
    """Return a server, and the address at which it accepts requests, as text.

    Raises
    ------
    InputError
        If there is no such transport, or it cannot listen there.
    """
    return of_transport(SERVERS, protocol)(listen, folder, options)


def latency_server(listen: Sequence[str]) -> tuple[MeasureServer, str]:
    """Return a server of tests of latency under load, and its address as text.

    Raises
    ------
    InputError
        If it cannot listen there.
    """
    if len(listen) != 1 or is_line(listen[0]):
        raise InputError(f"{', '.join(listen)}: a test of latency needs one HOST:PORT")
    made = LatencyServer(host_port(listen[0]))
    return made, host_port_text(*made.address)


def of_transport(table: Mapping[ProtocolName, T], protocol: ProtocolName) -> T:
    """Return the entry of a table for a transport.

    Raises
    ------
    InputError
        If the table has no entry for the transport.
    """
    if protocol not in table:
        raise InputError(f"{protocol}: unknown transport; choose one of {', '.join(table)}")
    return table[protocol]


# --- TCP ---


def _tcp_client(server: str, run: int, timeout_s: float, options: TransportOptions) -> Client:
    dial = partial(KernelConnection.dial, _host_alone("tcp", server))
    return TcpClient(dial, run=run, timeout_s=timeout_s, context_of=options.context_of)


def _tcp_server(listen: Sequence[str], folder: Path | None, options: TransportOptions) -> tuple[MeasureServer, str]:
    del options
    tcp = TcpServer(_one_address("tcp", listen), folder=folder)
    return tcp, host_port_text(*tcp.address)


# --- WTCP ---


def _wtcp_client(server: str, run: int, timeout_s: float, options: TransportOptions) -> Client:
    dial = partial(WtcpClientStream.dial, _host_alone("wtcp", server), options.wtcp())
    return TcpClient(dial, run=run, timeout_s=timeout_s, context_of=options.context_of)


def _wtcp_server(listen: Sequence[str], folder: Path | None, options: TransportOptions) -> tuple[MeasureServer, str]:
    wtcp = WtcpServer(_one_address("wtcp", listen), options.wtcp(), folder=folder)
    return wtcp, host_port_text(*wtcp.address)


def _host_alone(protocol: ProtocolName, server: str) -> tuple[str, int]:
    """Return the numerical address of a server; refuse a serial line."""
    if is_line(server):
        raise _not_serial(protocol, server)
    return resolved(*host_port(server))


def _one_address(protocol: ProtocolName, listen: Sequence[str]) -> tuple[str, int]:
    """Return the only address of a server; refuse several addresses and lines."""
    if len(listen) != 1 or is_line(listen[0]):
        raise _not_serial(protocol, ", ".join(listen))
    return host_port(listen[0])


# --- CentaurusComm ---


def _centaurus_client(server: str, run: int, timeout_s: float, options: TransportOptions) -> Client:
    config = options.config(REPLY, RECEIPT)
    line = _line(server, options.baud, connected_line)
    if line is not None:
        slave = SerialSlave(_STATION, config, random_bytes=os.urandom)
        lines = SerialEndpoint(slave, [line])
        return CentaurusClient(lines, slave.master, run=run, timeout_s=timeout_s, context_of=options.context_of)
    address = resolved(*host_port(server))
    any_port = ("::" if ":" in address[0] else "0.0.0.0", 0)  # noqa: S104  # whatever leads to the server, and `only` its datagrams
    endpoint = UdpEndpoint(UdpWorker(config, random_bytes=os.urandom), bind=any_port, only=address)
    return CentaurusClient(endpoint, address, run=run, timeout_s=timeout_s, context_of=options.context_of)


def _centaurus_server(
    listen: Sequence[str], folder: Path | None, options: TransportOptions
) -> tuple[MeasureServer, str]:
    config = options.config(REQUEST, GOODBYE, HELLO)
    if len(listen) == 1 and not is_line(listen[0]):
        worker = UdpWorker(config, random_bytes=os.urandom)
        endpoint = UdpEndpoint(worker, bind=host_port(listen[0]))
        return CentaurusServer(endpoint, folder=folder), host_port_text(*endpoint.address)
    lines = _lines(listen, options.baud)
    stations = [(number, _STATION) for number in range(len(lines))]
    master = SerialMaster(stations, config, random_bytes=os.urandom)
    return CentaurusServer(SerialEndpoint(master, lines), folder=folder), ", ".join(listen)


def _lines(listen: Sequence[str], baud: int) -> list[Line]:
    if not all(map(is_line, listen)):
        raise InputError(f"{', '.join(listen)}: give either one HOST:PORT or lines, not both")
    lines: list[Line] = []
    with contextlib.ExitStack() as opened:
        for text in listen:
            line = _line(text, baud, ListeningLine)
            assert line is not None
            opened.callback(line.close)
            lines.append(line)
        opened.pop_all()
    return lines


CLIENTS: Mapping[ProtocolName, Callable[[str, int, float, TransportOptions], Client]] = MappingProxyType(
    {"tcp": _tcp_client, "centauruscomm": _centaurus_client, "wtcp": _wtcp_client}
)
"""Function that makes a client, by transport; it takes server, run number, timeout and options."""
SERVERS: Mapping[ProtocolName, Callable[[Sequence[str], Path | None, TransportOptions], tuple[MeasureServer, str]]] = (
    MappingProxyType({"tcp": _tcp_server, "centauruscomm": _centaurus_server, "wtcp": _wtcp_server})
)
"""Function that makes a server, by transport; it takes addresses, the folder of its log, and options."""
