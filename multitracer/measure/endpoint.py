"""Endpoints of CentaurusComm on a UDP socket or serial lines: pass data between the kernel and a worker.

No call blocks for long.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import select
import socket
import termios
import time
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from multitracer.endpoints import host_port
from multitracer.errors import InputError, PreflightError
from multitracer.measure.intake import DatagramIntake
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.protocols.centaurus.events import Address, Event
    from multitracer.protocols.centaurus.level1_serial import SerialMaster, SerialSlave
    from multitracer.protocols.centaurus.level1_udp import UdpWorker
    from multitracer.protocols.centaurus.worker import Outgoing, Worker


class CentaurusEndpoint(Protocol):
    """Interface of an endpoint of CentaurusComm on any medium."""

    clock: Callable[[], int]

    refused: bool
    """Whether the peer's host answered that no program listens on the port."""

    @property
    def worker(self) -> Worker:
        """The protocol core."""

    def send(self, address: Address, kind: int, data: bytes, *, lifetime_ns: int) -> int:
        """Put an object into the table of outgoing objects; return its handle."""

    def work(self, wait_s: float = 0.0) -> list[Event]:
        """Do one small step; if there is nothing to do, wait for at most the given time."""

    def close(self) -> None:
        """Close the medium."""


class UdpEndpoint:
    """A worker on a UDP socket.

    Parameters
    ----------
    worker : UdpWorker
        The protocol.
    bind : (host, port)
        Address to listen at; port 0 selects a free port. By default only this machine can reach it.
    only : (host, port), optional
        The only peer whose datagrams are accepted.

    Raises
    ------
    InputError
        If the address cannot be used.
    """

    def __init__(
        self, worker: UdpWorker, *, bind: tuple[str, int] = ("127.0.0.1", 0), only: tuple[str, int] | None = None
    ) -> None:
        self.worker = worker
        self.clock: Callable[[], int] = SteadyClock()
        self._unsent: Outgoing | None = None
        self._socket = bound_socket(bind, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        if only is not None:
            self._connect(only)
        self.intake = DatagramIntake(self._socket, worker=worker if only is None else None, clock=self.clock)
        self.refused = False
        """Whether the peer's host answered that no program listens on the port."""
        self.unsendable = 0
        """Datagrams that the kernel refused; for the protocol they are lost."""

    def _connect(self, peer: tuple[str, int]) -> None:
        try:
            self._socket.connect(socket_address(peer))
        except OSError as error:
            self._socket.close()
            raise InputError(f"{host_port(*peer)}: cannot send to this address ({error.strerror})") from error

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it receives."""
        return bound_address(self._socket)

    def send(self, address: Address, kind: int, data: bytes, *, lifetime_ns: int) -> int:
        """Put an object into the table of outgoing objects; return its handle."""
        return self.worker.send(address, kind, data, self.clock(), lifetime_ns=lifetime_ns)

    def work(self, wait_s: float = 0.0) -> list[Event]:
        """Do one small step; if there is nothing to do, wait for at most the given time."""
        self.worker.on_timer(self.clock())
        packet = self._unsent or self.worker.outgoing(self.clock())
        if packet is not None:
            self._put(packet)
            self._get()
            return self.worker.take_events()
        events = self.worker.take_events()
        if not events:
            if not self.intake:
                self._wait(wait_s)
            self._get()
            events = self.worker.take_events()
        return events

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _put(self, packet: Outgoing) -> None:
        assert isinstance(packet.address, tuple)
        try:
            self._socket.sendto(packet.octets, socket_address(packet.address))
        except BlockingIOError:
            self._unsent = packet
            self._wait(0.001)
            return
        except OSError as error:
            self._note(error)
            self.unsendable += 1
        self._unsent = None
        self.worker.sent(packet, self.clock())

    def _get(self) -> None:
        for error in self.intake.fill():  # ICMP errors; for the protocol they are losses
            self._note(error)
        if (datagram := self.intake.take()) is not None:
            self.worker.receive(*datagram, self.clock())

    def _note(self, error: OSError) -> None:
        self.refused |= isinstance(error, ConnectionRefusedError)

    def _wait(self, wait_s: float) -> None:
        due_ns = self.worker.next_timer()
        if due_ns is not None:
            wait_s = max(0.0, min(wait_s, (due_ns - self.clock()) / NS_PER_S))
        select.select([self._socket], [self._socket] if self._unsent else [], [], wait_s)


def bound_socket(bind: tuple[str, int], kind: socket.SocketKind) -> socket.socket:
    """Return a socket that is bound to an address.

    Raises
    ------
    InputError
        If the address cannot be used.
    """
    host, port = bind
    made = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=kind)[0]
        made = socket.socket(family, kind)
        if kind is socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        if made is not None:
            made.close()
        raise InputError(
            f"{host_port(host, port)}: cannot listen on this address ({error.strerror}); choose another address"
        ) from error
    return made


def bound_address(bound: socket.socket) -> tuple[str, int]:
    """Return host and port of a socket; a link-local address of IPv6 with its interface, as a client names it."""
    host, port, *more = bound.getsockname()
    scope = more[1] if more else 0
    zone = f"%{socket.if_indextoname(scope)}" if scope and "%" not in host else ""
    return f"{host}{zone}", int(port)


def resolved(host: str, port: int) -> tuple[str, int]:
    """Return the numerical address of a host, the first one to which this machine has a route.

    Raises
    ------
    InputError
        If the name is not known.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that DNS cannot have
        reason = getattr(error, "strerror", None) or "it is not a valid name"
        raise InputError(f"{host}: host not found ({reason}); check the name") from error
    # A link-local address of IPv6 with its interface
    hosts = [socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0] for *_, address in addresses]
    return next((each for each in hosts if _has_route(each, port)), hosts[0]), port


@lru_cache(maxsize=1024)
def socket_address(address: tuple[str, int]) -> tuple[str, int] | tuple[str, int, int, int]:
    """Return an address as a UDP socket takes it: with the number of the interface that a link-local one names.

    Raises
    ------
    OSError
        If there is no such interface.
    """
    host, zone, name = address[0].partition("%")
    return (host, address[1], 0, socket.if_nametoindex(name)) if zone else address


def _has_route(host: str, port: int) -> bool:
    """Return whether the kernel has a route to an address; to connect a UDP socket sends nothing."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(socket_address((host, port)))
    except OSError:
        return False
    return True


# The clock of a measurement: nanoseconds since 1970 that never run backwards.


class SteadyClock:
    """A clock in ns since 1970 that begins with the wall clock and ignores its later steps."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        """Return the time now, ns since 1970."""
        return time.monotonic_ns() + self._offset_ns


# CentaurusComm on serial lines.
#
# SENT means that the line's output is drained (TIOCOUTQ), so nothing waits in a driver's buffer behind which
# a later packet would queue. A line that takes nothing for `probe_ns` (flow control, a program that does not
# read) must not stop the others: what it holds counts as sent, and the master will miss the answer.


BAUD = 115_200
_BITS_PER_OCTET = 10
"""Bits on the line for each octet: start bit, eight data bits, stop bit."""
_SHORTEST_WAIT_S = 0.0005
_CHUNK_BYTES = 4096
_MOST_REST_BYTES = 4096
"""Octets that wait for a line whose kernel takes none: the longest frame, stuffed, is 2,886."""


class Line(Protocol):
    """Interface of a line between a master and its slaves: octets in order, and when they have left."""

    path: str
    baud: int

    def fileno(self) -> int:
        """Return the file descriptor to wait at."""

    def close(self) -> None:
        """Close the line."""

    def write(self, octets: bytes) -> None:
        """Begin to send octets."""

    def flush(self) -> None:
        """Pass to the kernel as many octets as it accepts."""

    @property
    def waiting_bytes(self) -> int:
        """Number of octets that are not sent yet."""

    def read(self) -> bytes:
        """Return the octets that arrived; empty if none did."""


class OctetLine(ABC):
    """A line on a file descriptor that does not block.

    Parameters
    ----------
    path : str
        Name of the line, for messages.
    baud : int
        Bits per second on the line, at ten bits for each octet.
    """

    def __init__(self, path: str, baud: int) -> None:
        self.path = path
        self.baud = baud
        self._rest = b""

    @abstractmethod
    def fileno(self) -> int:
        """Return the file descriptor."""

    @abstractmethod
    def close(self) -> None:
        """Close the line."""

    @abstractmethod
    def _has_ended(self) -> bool:
        """Return whether a read without octets means that the line is gone."""

    @abstractmethod
    def _gone(self, error: OSError) -> LineGoneError:
        """Return what to tell the user."""

    def write(self, octets: bytes) -> None:
        """Begin to send octets."""
        self._rest = self._rest[-_MOST_REST_BYTES:] + octets
        self.flush()

    def flush(self) -> None:
        """Pass to the kernel as many octets as it accepts."""
        if not self._rest:
            return
        try:
            self._rest = self._rest[os.write(self.fileno(), self._rest) :]
        except BlockingIOError:
            return
        except OSError as error:
            raise self._gone(error) from error

    @property
    def waiting_bytes(self) -> int:
        """Number of octets that are not sent yet."""
        waiting = array.array("i", (0,))
        try:
            fcntl.ioctl(self.fileno(), termios.TIOCOUTQ, waiting)  # of a socket it is SIOCOUTQ, the same number
        except OSError as error:
            raise self._gone(error) from error
        return len(self._rest) + waiting[0]

    def read(self) -> bytes:
        """Return the octets that arrived; empty if none did."""
        try:
            octets = os.read(self.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self._gone(error) from error
        if not octets and self._has_ended():
            raise self._gone(OSError(errno.EIO, os.strerror(errno.EIO)))
        return octets


class LineGoneError(InputError):
    """The other end of a line, or the line itself, is gone."""


class SerialLine(OctetLine):
    """An open serial port.

    Parameters
    ----------
    path : str
        The device, such as /dev/ttyUSB0.
    baud : int
        Bits per second on the line.

    Raises
    ------
    PreflightError
        If pyserial is not installed.
    InputError
        If it is not a serial port, or another program uses it.
    """

    def __init__(self, path: str, baud: int = BAUD) -> None:
        super().__init__(path, baud)
        try:
            import serial  # noqa: PLC0415  # it may be absent
        except ModuleNotFoundError:
            raise PreflightError("pyserial is not installed; run `pip install multitracer[field]`") from None
        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=0, exclusive=True)
        except (serial.SerialException, OSError, ValueError) as error:
            reason = os.strerror(number) if (number := getattr(error, "errno", None)) else str(error)
            raise InputError(f"{path}: cannot open this serial port ({reason}); check the name") from error
        self._hang_up = select.poll()
        self._hang_up.register(self._port.fileno(), 0)  # a hang-up is always told

    def fileno(self) -> int:
        """Return the file descriptor."""
        return int(self._port.fileno())

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def _has_ended(self) -> bool:
        return bool(self._hang_up.poll(0))

    def _gone(self, error: OSError) -> LineGoneError:
        return LineGoneError(
            f"{self.path}: the serial port has disappeared ({error.strerror}); reconnect the device and start again"
        )


class SerialEndpoint:
    """A master or a slave on serial lines or streams; the number of a line is its index in `lines`."""

    def __init__(self, worker: SerialMaster | SerialSlave, lines: Sequence[Line]) -> None:
        self.worker = worker
        self.clock: Callable[[], int] = SteadyClock()
        self._lines = list(lines)
        self._in_flight: Outgoing | None = None
        self._waiting_bytes = 0
        """Octets of it that had not left when the line last took some."""
        self._progress_ns = 0
        """Time at which the line last took some."""
        self.refused = False
        """Always False: a serial line cannot report a refusal."""

    def send(self, address: Address, kind: int, data: bytes, *, lifetime_ns: int) -> int:
        """Put an object into the table of outgoing objects; return its handle."""
        return self.worker.send(address, kind, data, self.clock(), lifetime_ns=lifetime_ns)

    def work(self, wait_s: float = 0.0) -> list[Event]:
        """Do one small step; if there is nothing to do, wait for at most the given time."""
        self.worker.on_timer(self.clock())
        self._push()
        events = self.worker.take_events()
        if not events:
            self._wait(wait_s)
            self._pull()
            self._push()
            events = self.worker.take_events()
        return events

    def close(self) -> None:
        """Close the ports."""
        for line in self._lines:
            line.close()

    def _line_of(self, packet: Outgoing) -> Line:
        assert isinstance(packet.address, tuple)
        return self._lines[packet.address[0]]

    def _push(self) -> None:
        """Tell the worker which packets are sent completely, and begin to send the next packet."""
        if self._in_flight is not None:
            if not self._has_left(self._line_of(self._in_flight)):
                return
            self.worker.sent(self._in_flight, self.clock())
            self._in_flight = None
        packet = self.worker.outgoing(self.clock())
        if packet is not None:
            line = self._line_of(packet)
            line.write(packet.octets)
            self._in_flight, self._waiting_bytes, self._progress_ns = packet, line.waiting_bytes, self.clock()

    def _has_left(self, line: Line) -> bool:
        """Return whether the packet has left, or the line takes nothing."""
        line.flush()
        now_ns, waiting_bytes = self.clock(), line.waiting_bytes
        if waiting_bytes < self._waiting_bytes:
            self._waiting_bytes, self._progress_ns = waiting_bytes, now_ns
        return not waiting_bytes or now_ns - self._progress_ns >= self.worker.config.probe_ns

    def _pull(self) -> None:
        for number, line in enumerate(self._lines):
            octets = line.read()
            if octets:
                self.worker.receive(octets, number, self.clock())

    def _wait(self, wait_s: float) -> None:
        if self._in_flight is not None:
            line = self._line_of(self._in_flight)
            wait_s = min(wait_s, max(_SHORTEST_WAIT_S, line.waiting_bytes * _BITS_PER_OCTET / line.baud))
        due_ns = self.worker.next_timer()
        if due_ns is not None:
            wait_s = max(0.0, min(wait_s, (due_ns - self.clock()) / NS_PER_S))
        select.select(self._lines, [], [], wait_s)
