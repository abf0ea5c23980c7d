"""A host in virtual time: TCP sockets, UDP ports, timers, and an interface whose packets are captured."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from multitracer.captured import Flag
from multitracer.errors import LocalProtocolError, RemoteProtocolError
from multitracer.lab.scenario.session_folder import FIRST_MOBILE_PORT
from multitracer.lab.tcp.connection import Connection
from multitracer.lab.tcp.packet import (
    IP_HEADER_BYTES,
    Endpoint,
    Segment,
    TcpPacket,
    build_packet,
    internet_checksum,
    parse_packet,
    sequence_length,
)
from multitracer.lab.tcp.state import ConnectionState, earlier
from multitracer.measure.exchange import payload
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.tcp.profile import TcpProfile

# UDP datagrams in IPv4 packets, to bytes and back (RFC 768, RFC 791): a link carries real headers.


_UDP_HEADER_BYTES = 8
_UDP_PROTOCOL = 17
_TTL = 64
_IP = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")


class Datagram(NamedTuple):
    """One UDP datagram; addresses are 4 bytes."""

    source: bytes
    source_port: int
    destination: bytes
    destination_port: int
    payload: bytes


def is_udp(data: bytes) -> bool:
    """Return whether a packet is IPv4 with protocol UDP."""
    return len(data) >= IP_HEADER_BYTES and data[0] == 0x45 and data[9] == _UDP_PROTOCOL


def build_datagram(datagram: Datagram, *, identification: int) -> bytes:
    """Return a datagram as an IPv4 packet, with length fields and both checksums."""
    source, source_port, destination, destination_port, payload = datagram
    length = _UDP_HEADER_BYTES + len(payload)
    udp = _UDP.pack(source_port, destination_port, length, 0) + payload
    checksum = _udp_checksum(source, destination, udp) or 0xFFFF
    udp = udp[:6] + checksum.to_bytes(2, "big") + payload
    rest = (identification & 0xFFFF, 0, _TTL, _UDP_PROTOCOL)
    header = _IP.pack(0x45, 0, IP_HEADER_BYTES + length, *rest, 0, source, destination)
    return header[:10] + internet_checksum(header).to_bytes(2, "big") + header[12:] + udp


def parse_datagram(data: bytes) -> Datagram:
    """Return the datagram of an IPv4 packet.

    Raises
    ------
    RemoteProtocolError
        If the packet is not a complete datagram with correct checksums.
    """
    if len(data) < IP_HEADER_BYTES + _UDP_HEADER_BYTES or not is_udp(data):
        raise RemoteProtocolError("the packet is not UDP over IPv4 without IP options")
    udp = data[IP_HEADER_BYTES : int.from_bytes(data[2:4], "big")]
    source, destination = data[12:16], data[16:20]
    if internet_checksum(data[:IP_HEADER_BYTES]) or len(udp) < _UDP_HEADER_BYTES:
        raise RemoteProtocolError("IPv4 packet: the header checksum or the length is wrong")
    source_port, destination_port, length, _ = _UDP.unpack_from(udp)
    if length != len(udp) or _udp_checksum(source, destination, udp):
        raise RemoteProtocolError("UDP datagram: the length or the checksum is wrong")
    return Datagram(source, source_port, destination, destination_port, udp[_UDP_HEADER_BYTES:])


def _udp_checksum(source: bytes, destination: bytes, udp: bytes) -> int:
    return internet_checksum(source + destination + struct.pack("!BBH", 0, _UDP_PROTOCOL, len(udp)) + udp)


# Applications on a host above a transport: one object per connection, which writes, reads and closes.


_READ_EVERY_NS = 100 * NS_PER_MS


class Application(ABC):
    """Interface of an application on one TCP connection.

    It is called after every event that may have changed the connection.
    """

    @abstractmethod
    def advance(self, connection: Connection, now_ns: int) -> None:
        """Write, read or close, as far as is possible now."""

    def next_timer_ns(self) -> int | None:
        """Return the time at which `advance` must be called even if nothing happens.

        None if there is no such time.
        """
        return None


class TransportStream(Protocol):
    """Interface of a connection for its application; the same for every transport."""

    @property
    def is_established(self) -> bool:
        """Whether the handshake is complete, and neither end has closed."""

    @property
    def free_bytes(self) -> int:
        """Number of bytes that `write` would accept now."""

    @property
    def readable_bytes(self) -> int:
        """Number of bytes that wait to be read."""

    @property
    def at_end(self) -> bool:
        """Whether the application has read everything up to the end of the peer's stream."""

    def write(self, data: bytes) -> int:
        """Accept data to send; return how many bytes were accepted."""

    def read(self, max_bytes: int = ..., /) -> bytes:
        """Return received bytes in order, at most `max_bytes`."""

    def close(self) -> None:
        """Send all written data, then the end of the stream."""


class TcpStream:
    """Adapter of a TCP connection to `TransportStream`."""

    __slots__ = ("close", "connection", "read", "write")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.close, self.read, self.write = connection.close, connection.read, connection.write

    @property
    def is_established(self) -> bool:
        """Whether the state is ESTABLISHED."""
        return self.connection.state is ConnectionState.ESTABLISHED

    @property
    def free_bytes(self) -> int:
        """Free bytes of the send buffer."""
        return self.connection.sender.stream.free_bytes

    @property
    def readable_bytes(self) -> int:
        """Number of bytes in order that wait to be read."""
        return self.connection.receiver.readable_bytes

    @property
    def at_end(self) -> bool:
        """Whether the application has read everything up to the peer's FIN."""
        return self.connection.at_end


class StreamApplication(Application):
    """An application that works over any transport."""

    _tcp: TcpStream | None = None
    """The stream of the connection that was used last."""

    @abstractmethod
    def use(self, stream: TransportStream, now_ns: int) -> None:
        """Write, read or close, as far as is possible now."""

    def advance(self, connection: Connection, now_ns: int) -> None:
        """Call `use` with the stream of a TCP connection."""
        if self._tcp is None or self._tcp.connection is not connection:
            self._tcp = TcpStream(connection)
        self.use(self._tcp, now_ns)


class BulkSender(StreamApplication):
    """Writes data as fast as the send buffer accepts them, then closes; it ignores received data.

    Parameters
    ----------
    size_bytes : int
        Number of bytes to send.
    bytes_per_s : int
        Bytes to write at once each second; 0: as many as the buffer takes.
    """

    def __init__(self, *, size_bytes: int, bytes_per_s: int = 0) -> None:
        self._size = size_bytes
        self._bytes_per_s = bytes_per_s
        self._due_ns: int | None = None
        self._allowed_bytes = 0 if bytes_per_s else size_bytes
        self._has_closed = False
        self.written_bytes = 0

    def use(self, stream: TransportStream, now_ns: int) -> None:
        """Write as many of the remaining data as the rate and the send buffer allow now."""
        stream.read()
        if self._bytes_per_s and stream.is_established and now_ns >= (self._due_ns or 0):
            self._allow_more(now_ns)
        if self.written_bytes < self._allowed_bytes and (free_bytes := stream.free_bytes):
            end = min(self._allowed_bytes, self.written_bytes + free_bytes)
            self.written_bytes += stream.write(payload(self.written_bytes, end))
        if self.written_bytes == self._size and not self._has_closed:
            self._has_closed = True
            stream.close()

    def _allow_more(self, now_ns: int) -> None:
        """Add to the allowance the bytes of each second that has begun."""
        self._allowed_bytes = min(self._size, self._allowed_bytes + self._bytes_per_s)
        self._due_ns = now_ns + NS_PER_S if self._allowed_bytes < self._size else None

    def next_timer_ns(self) -> int | None:
        """Return the time of the next write in ns; None without a limited rate."""
        return self._due_ns


class StreamReader(StreamApplication):
    """Reads to the end, then closes; checks that each byte equals the sent one.

    Parameters
    ----------
    bytes_per_s : int
        Reading rate; 0: no limit.
    """

    def __init__(self, *, bytes_per_s: int = 0) -> None:
        self._bytes_per_s = bytes_per_s
        self._due_ns: int | None = None
        self._has_closed = False
        self.read_bytes = 0

    def use(self, stream: TransportStream, now_ns: int) -> None:
        """Read as much as the rate allows now."""
        if self._bytes_per_s == 0:
            self._take(stream.read())
        elif self._due_ns is None or now_ns >= self._due_ns:
            self._take(stream.read(self._bytes_per_s * _READ_EVERY_NS // NS_PER_S))
            waiting = stream.readable_bytes > 0 or stream.is_established
            self._due_ns = now_ns + _READ_EVERY_NS if waiting else None
        if stream.at_end and not self._has_closed:
            self._has_closed = True
            stream.close()

    def _take(self, data: bytes) -> None:
        if not data:
            return
        if data != payload(self.read_bytes, self.read_bytes + len(data)):
            raise LocalProtocolError(f"the delivered data differ from the sent data after byte {self.read_bytes}")
        self.read_bytes += len(data)

    def next_timer_ns(self) -> int | None:
        """Return the time of the next read in ns; None without a limited rate."""
        return self._due_ns


DONE = ConnectionState.CLOSED, ConnectionState.TIME_WAIT
"""States in which a socket has nothing left to do."""
_PORTS = (1 << 16) - FIRST_MOBILE_PORT


class Network(Protocol):
    """Interface of the environment of a host: time, timers, the link, and the observers."""

    @property
    def now_ns(self) -> int:
        """Virtual time in ns."""

    def at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Schedule the function `call` for a time."""

    def initial_sequence_number(self) -> int:
        """Return an initial sequence number, 32 bits."""

    def transmit(self, host: SimulatedHost, data: bytes) -> bool:
        """Offer a packet to the link; return False if the host's interface refuses it."""

    def saw_packet(self, host: SimulatedHost, packet: TcpPacket | None, data: bytes, *, outgoing: bool) -> None:
        """Report a packet at a host's interface to the observers; `packet` is None for a datagram."""

    def saw_state(self, host: SimulatedHost, socket: SimulatedSocket) -> None:
        """Report to the observers that a socket's variables may have changed."""


@dataclass(slots=True)
class SimulatedSocket:
    """A connection and the application on it."""

    connection: Connection
    application: Application
    timer_ns: int | None = None
    """Time at which the loop will call this socket; None if no timer is set."""
    number: int = 0
    """Number of the socket on its host, from 1."""

    @property
    def is_done(self) -> bool:
        """Whether connection and application have nothing left to do."""
        return self.connection.state in DONE


class SimulatedHost:
    """One host with one interface.

    Parameters
    ----------
    name : str
        Name of the host on the link, and of its folder in a session.
    address : bytes
        IPv4 address, 4 bytes.
    profile : TcpProfile
        TCP of all sockets without a profile of their own.
    network : World
        Time, the link and the observers.
    """

    def __init__(self, name: HostName, *, address: bytes, profile: TcpProfile, network: Network) -> None:
        self.name = name
        self.address = address
        self.profile = profile
        self.sockets: list[SimulatedSocket] = []
        self.checksum_errors = 0
        """Number of segments with a wrong checksum: TcpInCsumErrors of nstat."""
        self.malformed_packets = 0
        self.keeps_closed = True
        """Whether closed sockets remain in `sockets`, with their counters."""
        self._network = network
        self._opened = 0
        self._by_address: dict[tuple[int, bytes, int], SimulatedSocket] = {}
        self._listening: dict[int, tuple[Callable[[], Application], TcpProfile]] = {}
        self._bound: dict[int, Callable[[Datagram], None]] = {}
        self._datagrams = 0

    @property
    def free_port(self) -> int:
        """Local port that the next connection will use."""
        return FIRST_MOBILE_PORT + self._opened % _PORTS

    def listen(self, port: int, application: Callable[[], Application], profile: TcpProfile | None = None) -> None:
        """Accept connections to `port`, each with a new application."""
        self._listening[port] = application, profile or self.profile

    def connect(self, remote: Endpoint, application: Application, profile: TcpProfile | None = None) -> SimulatedSocket:
        """Open a connection from the next free port."""
        local = Endpoint(self.address, self.free_port)
        isn = self._network.initial_sequence_number()
        connection = Connection.connect(profile or self.profile, local=local, remote=remote, isn=isn)
        socket = self._add(connection, application)
        self._by_address[local.port, remote.address, remote.port] = socket
        self.pump(socket)
        return socket

    def _add(self, connection: Connection, application: Application) -> SimulatedSocket:
        self._opened += 1
        socket = SimulatedSocket(connection, application, number=self._opened)
        self.sockets.append(socket)
        return socket

    def abort(self, socket: SimulatedSocket) -> None:
        """Reset a connection, as when the user cancels it."""
        socket.connection.abort()
        self.pump(socket)

    def forget(self, socket: SimulatedSocket) -> None:
        """Remove a closed socket from the host."""
        ends = socket.connection
        self.sockets.remove(socket)
        self._by_address.pop((ends.local.port, ends.remote.address, ends.remote.port), None)

    # --- packets ---

    def deliver(self, data: bytes, packet: TcpPacket | None = None) -> None:
        """Process an IP packet that the link delivers.

        `packet` is the parsed packet if it is already known.
        """
        if packet is None and is_udp(data):
            self._take_datagram(data)
            return
        try:
            packet = packet or parse_packet(data)
        except RemoteProtocolError:
            self.malformed_packets += 1
            return
        self._network.saw_packet(self, packet, data, outgoing=False)
        if not packet.checksum_ok:
            self.checksum_errors += 1
            return
        socket = self._socket_for(packet)
        if socket is None:
            self._refuse(packet)
            return
        socket.connection.receive(packet, now_ns=self._network.now_ns)
        self.pump(socket)

    def _socket_for(self, packet: TcpPacket) -> SimulatedSocket | None:
        segment = packet.segment
        key = segment.destination_port, packet.source, segment.source_port
        socket = self._by_address.get(key)
        if socket is not None and socket.connection.state is not ConnectionState.CLOSED:
            return socket
        listener = self._listening.get(segment.destination_port)
        if listener is None or segment.flags & (Flag.SYN | Flag.ACK | Flag.RST) != Flag.SYN:
            return None
        application, profile = listener
        local = Endpoint(self.address, segment.destination_port)
        isn = self._network.initial_sequence_number()
        connection = Connection.listen(profile, local=local, isn=isn)
        self._by_address[key] = self._add(connection, application())
        return self._by_address[key]

    def _refuse(self, packet: TcpPacket) -> None:
        """Answer a segment that belongs to no connection with a RST (RFC 9293, section 3.5.2)."""
        segment = packet.segment
        if segment.flags & Flag.RST:
            return
        has_ack = bool(segment.flags & Flag.ACK)
        reset = Segment(
            source_port=segment.destination_port,
            destination_port=segment.source_port,
            seq=segment.ack if has_ack else 0,
            ack=0 if has_ack else (segment.seq + sequence_length(segment)) % (1 << 32),
            flags=Flag.RST if has_ack else Flag.RST | Flag.ACK,
            window=0,
        )
        self._emit(TcpPacket(self.address, packet.source, reset))

    def _emit(self, packet: TcpPacket) -> bool:
        data = build_packet(packet)
        self._network.saw_packet(self, packet, data, outgoing=True)
        return self._network.transmit(self, data)

    # --- datagrams ---

    def bind(self, port: int, receive: Callable[[Datagram], None]) -> None:
        """Pass UDP datagrams for `port` to `receive`; the port is then no longer free."""
        self._bound[port] = receive
        self._opened += 1

    def unbind(self, port: int) -> None:
        """Release a UDP port: datagrams that arrive later are discarded."""
        del self._bound[port]

    def send_datagram(self, port: int, remote: Endpoint, octets: bytes) -> bool:
        """Send a UDP datagram from `port`; return False if the interface refuses it."""
        self._datagrams += 1
        datagram = Datagram(self.address, port, remote.address, remote.port, octets)
        data = build_datagram(datagram, identification=self._datagrams)
        self._network.saw_packet(self, None, data, outgoing=True)
        return self._network.transmit(self, data)

    def _take_datagram(self, data: bytes) -> None:
        self._network.saw_packet(self, None, data, outgoing=False)
        try:
            datagram = parse_datagram(data)
        except RemoteProtocolError:
            self.malformed_packets += 1
            return
        receive = self._bound.get(datagram.destination_port)
        if receive is None:
            self.malformed_packets += 1
        else:
            receive(datagram)

    # --- sockets ---

    def link_came_up(self) -> None:
        """Tell all sockets that the link is up again."""
        now_ns = self._network.now_ns
        for socket in list(self.sockets):
            socket.connection.sender.on_link_up(now_ns)
            self._set_alarm(socket)

    def pump(self, socket: SimulatedSocket) -> None:
        """Let application and TCP do everything that is possible now, then set the timer."""
        now_ns, connection = self._network.now_ns, socket.connection
        if connection.state is not ConnectionState.CLOSED:
            socket.application.advance(connection, now_ns)
        while (packet := connection.next_packet(now_ns)) is not None:
            if not self._emit(packet):
                connection.sender.on_local_drop(now_ns)
        self._network.saw_state(self, socket)
        if connection.state is ConnectionState.CLOSED and not self.keeps_closed:
            self.forget(socket)
        self._set_alarm(socket)

    def _set_alarm(self, socket: SimulatedSocket) -> None:
        due_ns = earlier(socket.connection.next_timer_ns(), socket.application.next_timer_ns())
        if due_ns is None or socket.connection.state is ConnectionState.CLOSED:
            socket.timer_ns = None
        elif due_ns != socket.timer_ns:
            socket.timer_ns = max(due_ns, self._network.now_ns)
            self._network.at(socket.timer_ns, lambda: self._ring(socket))

    def _ring(self, socket: SimulatedSocket) -> None:
        if socket.timer_ns != self._network.now_ns:
            return  # another alarm was set meanwhile
        socket.timer_ns = None
        socket.connection.on_timer(self._network.now_ns)
        self.pump(socket)
