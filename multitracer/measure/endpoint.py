"""Endpoints of CentaurusComm on a UDP socket or serial lines: pass data between the kernel and a worker.

No call blocks for long.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from typing import TYPE_CHECKING, Protocol

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
            self._socket.connect(only)
        self.intake = DatagramIntake(self._socket, worker=worker if only is None else None, clock=self.clock)
        self.refused = False
        """Whether the peer's host answered that no program listens on the port."""
        self.unsendable = 0
        """Datagrams that the kernel refused; for the protocol they are lost."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it receives."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

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
            self._socket.sendto(packet.octets, packet.address)
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
            f"{host}:{port}: cannot listen on this address ({error.strerror}); choose another address"
        ) from error
    return made


def resolved(host: str, port: int) -> tuple[str, int]:
    """Return the numerical address of a host.

    Raises
    ------
    InputError
        If the name is not known.
    """
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][4]
    except OSError as error:
        raise InputError(f"{host}: host not found ({error.strerror}); check the name") from error
    return str(address[0]), port


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
# a later packet would queue.


BAUD = 115_200
_BITS_PER_OCTET = 10
"""Bits on the line for each octet: start bit, eight data bits, stop bit."""
_SHORTEST_WAIT_S = 0.0005
_CHUNK_BYTES = 4096


class SerialLine:
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
        try:
            import serial  # noqa: PLC0415  # it may be absent
        except ModuleNotFoundError:
            raise PreflightError("pyserial is not installed; run `pip install multitracer[field]`") from None
        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=0, exclusive=True)
        except (serial.SerialException, OSError, ValueError) as error:
            reason = os.strerror(number) if (number := getattr(error, "errno", None)) else str(error)
            raise InputError(f"{path}: cannot open this serial port ({reason}); check the name") from error
        self.path = path
        self.baud = baud
        self._rest = b""
        self._hang_up = select.poll()
        self._hang_up.register(self._port.fileno(), 0)  # a hang-up is always told

    def fileno(self) -> int:
        """Return the file descriptor."""
        return int(self._port.fileno())

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def write(self, octets: bytes) -> None:
        """Begin to send octets."""
        self._rest += octets
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
        try:
            return len(self._rest) + int(self._port.out_waiting)
        except OSError as error:
            raise self._gone(error) from error

    def read(self) -> bytes:
        """Return the octets that arrived; empty if none did."""
        try:
            octets = os.read(self.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self._gone(error) from error
        if not octets and self._hang_up.poll(0):
            raise self._gone(OSError(errno.EIO, os.strerror(errno.EIO)))
        return octets

    def _gone(self, error: OSError) -> InputError:
        return InputError(
            f"{self.path}: the serial port has disappeared ({error.strerror}); reconnect the device and start again"
        )


class SerialEndpoint:
    """A master or a slave on serial lines; the number of a line is its index in `lines`."""

    def __init__(self, worker: SerialMaster | SerialSlave, lines: Sequence[SerialLine]) -> None:
        self.worker = worker
        self.clock: Callable[[], int] = SteadyClock()
        self._lines = list(lines)
        self._in_flight: Outgoing | None = None
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

    def _line_of(self, packet: Outgoing) -> SerialLine:
        assert isinstance(packet.address, tuple)
        return self._lines[packet.address[0]]

    def _push(self) -> None:
        """Tell the worker which packets are sent completely, and begin to send the next packet."""
        if self._in_flight is not None:
            line = self._line_of(self._in_flight)
            line.flush()
            if line.waiting_bytes:
                return
            self.worker.sent(self._in_flight, self.clock())
            self._in_flight = None
        packet = self.worker.outgoing(self.clock())
        if packet is not None:
            self._in_flight = packet
            self._line_of(packet).write(packet.octets)

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
