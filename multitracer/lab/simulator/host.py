"""A host in virtual time: TCP sockets by address, UDP ports, timers, an interface that is captured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from multitracer.captured import Flag
from multitracer.errors import RemoteProtocolError
from multitracer.lab.scenario.session_folder import FIRST_MOBILE_PORT
from multitracer.lab.simulator.datagram import Datagram, build_datagram, is_udp, parse_datagram
from multitracer.lab.tcp import (
    Connection,
    Endpoint,
    Packet,
    Segment,
    State,
    TcpProfile,
    parse_packet,
)
from multitracer.lab.tcp.packet import build_packet, sequence_length
from multitracer.lab.tcp.state import earlier

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.simulator.application import Application


DONE = State.CLOSED, State.TIME_WAIT
"""States in which nothing is left to do for a socket."""
_PORTS = (1 << 16) - FIRST_MOBILE_PORT


class World(Protocol):
    """The environment of a host: time, timers, the link, and the observers."""

    @property
    def now_ns(self) -> int:
        """Virtual time."""

    def at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Call a function later."""

    def initial_sequence_number(self) -> int:
        """Return a 32-bit number."""

    def transmit(self, host: Host, data: bytes) -> bool:
        """Offer a packet to the link; False if the host's interface refused it."""

    def saw_packet(self, host: Host, packet: Packet | None, data: bytes, *, outgoing: bool) -> None:
        """Note a packet at a host's interface, as a capture sees it; `packet` is None for a datagram."""

    def saw_state(self, host: Host, socket: Socket) -> None:
        """Note that a socket's variables may have changed."""


@dataclass(slots=True)
class Socket:
    """A connection and the application on it."""

    connection: Connection
    application: Application
    timer_ns: int | None = None
    """When the loop will wake this socket."""
    number: int = 0
    """Counts the sockets of a host, from 1."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do for the socket."""
        return self.connection.state in DONE


class Host:
    """One host with one interface.

    Parameters
    ----------
    name : str
        Of its end of the link, and of its folder in a session.
    address : bytes
        IPv4 address, 4 bytes.
    profile : TcpProfile
        Of all sockets that are given no other one.
    world : World
        Time, the link, and who watches.
    """

    def __init__(self, name: HostName, *, address: bytes, profile: TcpProfile, world: World) -> None:
        self.name = name
        self.address = address
        self.profile = profile
        self.sockets: list[Socket] = []
        self.checksum_errors = 0
        """Segments whose checksum was wrong: TcpInCsumErrors of nstat."""
        self.malformed_packets = 0
        self.keeps_closed = True
        """Whether a closed socket stays in `sockets`, with its counters."""
        self._world = world
        self._opened = 0
        self._by_address: dict[tuple[int, bytes, int], Socket] = {}
        self._listening: dict[int, tuple[Callable[[], Application], TcpProfile]] = {}
        self._bound: dict[int, Callable[[Datagram], None]] = {}
        self._datagrams = 0

    @property
    def free_port(self) -> int:
        """The port from which the next connection is opened."""
        return FIRST_MOBILE_PORT + self._opened % _PORTS

    def listen(
        self, port: int, application: Callable[[], Application], profile: TcpProfile | None = None
    ) -> None:
        """Accept connections to `port`, each with a new application."""
        self._listening[port] = application, profile or self.profile

    def connect(
        self, remote: Endpoint, application: Application, profile: TcpProfile | None = None
    ) -> Socket:
        """Open a connection from the next free port."""
        local = Endpoint(self.address, self.free_port)
        isn = self._world.initial_sequence_number()
        connection = Connection.connect(profile or self.profile, local=local, remote=remote, isn=isn)
        socket = self._add(connection, application)
        self._by_address[local.port, remote.address, remote.port] = socket
        self.pump(socket)
        return socket

    def _add(self, connection: Connection, application: Application) -> Socket:
        self._opened += 1
        socket = Socket(connection, application, number=self._opened)
        self.sockets.append(socket)
        return socket

    def abort(self, socket: Socket) -> None:
        """Reset the connection, as when the user gives up."""
        socket.connection.abort()
        self.pump(socket)

    def forget(self, socket: Socket) -> None:
        """Remove a closed socket."""
        ends = socket.connection
        self.sockets.remove(socket)
        self._by_address.pop((ends.local.port, ends.remote.address, ends.remote.port), None)

    # --- packets ---

    def deliver(self, data: bytes, packet: Packet | None = None) -> None:
        """Take a packet from the link; `packet` is what it holds, if that is known."""
        if packet is None and is_udp(data):
            self._take_datagram(data)
            return
        try:
            packet = packet or parse_packet(data)
        except RemoteProtocolError:
            self.malformed_packets += 1
            return
        self._world.saw_packet(self, packet, data, outgoing=False)
        if not packet.checksum_ok:
            self.checksum_errors += 1
            return
        socket = self._socket_for(packet)
        if socket is None:
            self._refuse(packet)
            return
        socket.connection.receive(packet, now_ns=self._world.now_ns)
        self.pump(socket)

    def _socket_for(self, packet: Packet) -> Socket | None:
        segment = packet.segment
        key = segment.destination_port, packet.source, segment.source_port
        socket = self._by_address.get(key)
        if socket is not None and socket.connection.state is not State.CLOSED:
            return socket
        listener = self._listening.get(segment.destination_port)
        if listener is None or segment.flags & (Flag.SYN | Flag.ACK | Flag.RST) != Flag.SYN:
            return None
        application, profile = listener
        local = Endpoint(self.address, segment.destination_port)
        isn = self._world.initial_sequence_number()
        connection = Connection.listen(profile, local=local, isn=isn)
        self._by_address[key] = self._add(connection, application())
        return self._by_address[key]

    def _refuse(self, packet: Packet) -> None:
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
        self._emit(Packet(self.address, packet.source, reset))

    def _emit(self, packet: Packet) -> bool:
        data = build_packet(packet)
        self._world.saw_packet(self, packet, data, outgoing=True)
        return self._world.transmit(self, data)

    # --- datagrams ---

    def bind(self, port: int, receive: Callable[[Datagram], None]) -> None:
        """Hand the UDP datagrams that arrive at `port` to `receive`; `free_port` becomes another one."""
        self._bound[port] = receive
        self._opened += 1

    def unbind(self, port: int) -> None:
        """Let a UDP port go: what still arrives there reaches nobody."""
        del self._bound[port]

    def send_datagram(self, port: int, remote: Endpoint, octets: bytes) -> bool:
        """Send a UDP datagram from `port`; False if the interface refused it."""
        self._datagrams += 1
        datagram = Datagram(self.address, port, remote.address, remote.port, octets)
        data = build_datagram(datagram, identification=self._datagrams)
        self._world.saw_packet(self, None, data, outgoing=True)
        return self._world.transmit(self, data)

    def _take_datagram(self, data: bytes) -> None:
        self._world.saw_packet(self, None, data, outgoing=False)
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

    def pump(self, socket: Socket) -> None:
        """Let application and TCP do all that they can do now, then set the alarm."""
        now_ns, connection = self._world.now_ns, socket.connection
        if connection.state is not State.CLOSED:
            socket.application.advance(connection, now_ns)
        while (packet := connection.next_packet(now_ns)) is not None:
            if not self._emit(packet):
                connection.sender.on_local_drop(now_ns)
        self._world.saw_state(self, socket)
        if connection.state is State.CLOSED and not self.keeps_closed:
            self.forget(socket)
        self._set_alarm(socket)

    def _set_alarm(self, socket: Socket) -> None:
        due_ns = earlier(socket.connection.next_timer_ns(), socket.application.next_timer_ns())
        if due_ns is None or socket.connection.state is State.CLOSED:
            socket.timer_ns = None
        elif due_ns != socket.timer_ns:
            socket.timer_ns = max(due_ns, self._world.now_ns)
            self._world.at(socket.timer_ns, lambda: self._ring(socket))

    def _ring(self, socket: Socket) -> None:
        if socket.timer_ns != self._world.now_ns:
            return  # another alarm was set meanwhile
        socket.timer_ns = None
        socket.connection.on_timer(self._world.now_ns)
        self.pump(socket)
