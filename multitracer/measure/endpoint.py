"""CentaurusComm on a UDP socket: moves datagrams between the kernel and a worker, never blocks for long.

The application calls `work`, handles the events that it returns, and calls it again.
"""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING, Protocol

from multitracer.errors import InputError
from multitracer.measure.clock import SteadyClock
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.centaurus import Address, Event, Outgoing, UdpWorker, Worker

_LONGEST_DATAGRAM = 65_536
_RECEIVE_BUFFER_BYTES = 1 << 20


class CentaurusEndpoint(Protocol):
    """An end of CentaurusComm on any medium."""

    clock: Callable[[], int]

    refused: bool
    """Whether the peer's host said that nobody listens there."""

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
        Where to listen; port 0 takes a free one. By default only this machine can reach it.
    only : (host, port), optional
        The one peer whose datagrams are let in.

    Raises
    ------
    InputError
        If the address cannot be used.
    """

    def __init__(
        self,
        worker: UdpWorker,
        *,
        bind: tuple[str, int] = ("127.0.0.1", 0),
        only: tuple[str, int] | None = None,
    ) -> None:
        self.worker = worker
        self.clock: Callable[[], int] = SteadyClock()
        self._unsent: Outgoing | None = None
        self._socket = bound_socket(bind, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        self._socket.setblocking(False)
        if only is not None:
            self._socket.connect(only)
        self.refused = False
        """Whether the peer's host said that nobody listens there."""
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
        try:
            octets, address = self._socket.recvfrom(_LONGEST_DATAGRAM)
        except BlockingIOError:
            return
        except OSError as error:  # the kernel tells of an ICMP error; for the protocol it is a loss
            self._note(error)
            return
        self.worker.receive(octets, address[:2], self.clock())

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
        raise InputError(f"{host}:{port}: cannot listen there ({error.strerror}); choose another") from error
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
        raise InputError(f"{host}: not found ({error.strerror}); check the name") from error
    return str(address[0]), port
