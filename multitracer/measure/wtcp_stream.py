"""WTCP as the client uses it, over any way for datagrams: a connection with the methods of a socket."""

from __future__ import annotations

import errno
import os
import select
import socket
from typing import TYPE_CHECKING, Protocol

from multitracer.measure.clock import SteadyClock
from multitracer.protocols.wtcp import WtcpConfig, WtcpConnection, WtcpState
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LONGEST_DATAGRAM = 65_536
_CLOSE_S = 5.0
"""How long `close` waits for the peer's end: the longest round trip of paper 001 (4 s) and a margin."""
_LONGEST_WAIT_S = 1.0
_ERRORS = {"timed out": errno.ETIMEDOUT}
"""Why a connection ended -> the error that a socket raises; for anything else that of a reset."""


class DatagramWay(Protocol):
    """Carries datagrams to one peer and back, in real or in virtual time."""

    clock: Callable[[], int]
    """Returns the time, ns since 1970."""

    def send(self, octets: bytes) -> None:
        """Send a datagram; an OSError says that this host refused it."""

    def take(self, wait_s: float) -> bytes | None:
        """Return the next datagram, None if none arrives in the given time; an OSError is an ICMP error."""

    def close(self) -> None:
        """Give back what is open."""


class UdpWay:
    """A UDP socket that hears one peer only.

    Parameters
    ----------
    address : (host, port)
        The peer's, numerical.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.clock: Callable[[], int] = SteadyClock()
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.connect(address)
        except OSError:
            self._socket.close()
            raise

    def send(self, octets: bytes) -> None:
        """Send a datagram."""
        self._socket.send(octets)

    def take(self, wait_s: float) -> bytes | None:
        """Return the next datagram, None if none arrives in the given time."""
        if not select.select([self._socket], [], [], wait_s)[0]:
            return None
        return self._socket.recv(LONGEST_DATAGRAM)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class WtcpStream:
    """A connection to a server.

    Parameters
    ----------
    way : DatagramWay
        Leads to the server; closed with the connection.
    config : WtcpConfig
        Parameters of this end.
    random_bytes : callable, optional
        Returns so many bytes that nobody can guess.
    """

    def __init__(
        self, way: DatagramWay, config: WtcpConfig, random_bytes: Callable[[int], bytes] = os.urandom
    ) -> None:
        self.connection = WtcpConnection(config, initiator=True, random_bytes=random_bytes)
        self.unsendable = 0
        """Datagrams that this host refused; for the protocol they are lost."""
        self._way = way
        self._clock = way.clock
        self._timeout_s = 0.0
        self._is_late = False

    @classmethod
    def dial(cls, address: tuple[str, int], config: WtcpConfig, timeout_s: float) -> WtcpStream:
        """Return a connection to a server by UDP; an OSError says why there is none."""
        made = cls(UdpWay(address), config)
        made.open(timeout_s)
        return made

    def open(self, timeout_s: float) -> None:
        """Return when the server has answered; an OSError says why it has not, and closes the way."""
        self.settimeout(timeout_s)
        self.connection.open(self._clock())
        try:
            self._work_until(lambda: self.connection.state is not WtcpState.SYN_SENT)
        except OSError:
            self._way.close()
            raise

    def settimeout(self, seconds: float, /) -> None:
        """Set how long `sendall` and `recv` wait before they raise TimeoutError."""
        self._timeout_s = seconds

    def sendall(self, octets: bytes, /) -> None:
        """Return when WTCP has accepted all octets."""
        left = memoryview(octets)

        def has_accepted_all() -> bool:
            nonlocal left
            left = left[self.connection.write(bytes(left)) :]
            return not left

        self._work_until(has_accepted_all)

    def recv(self, most: int, /) -> bytes:
        """Return the octets that arrived; empty at the end of the stream."""
        self._work_until(lambda: self.connection.readable_bytes > 0 or self.connection.at_end)
        return self.connection.read(most)

    def close(self) -> None:
        """Close the connection: what was written is still delivered, unless a call before timed out."""
        if self._is_late:
            self.connection.abort()
        elif not self.connection.is_finished:
            self.connection.close()
            self.settimeout(_CLOSE_S)
            try:
                self._work_until(self._is_through)
            except OSError:
                self.connection.abort()
        self._send_due()
        self._way.close()

    def _is_through(self) -> bool:
        self.connection.read()  # nobody wants it any more, and it must not close the window
        return self.connection.is_finished

    def info(self) -> Mapping[str, int]:
        """Return the counters under the names of `struct tcp_info`."""
        return wtcp_info(self.connection)

    def _work_until(self, done: Callable[[], bool]) -> None:
        """Send what is due and take what arrives until `done`."""
        until_ns = self._clock() + round(self._timeout_s * NS_PER_S)
        while True:
            error = self.connection.error
            if error is not None:
                number = _ERRORS.get(error, errno.ECONNRESET)
                raise OSError(number, os.strerror(number))
            if done():
                self._send_due()
                return
            if self._clock() >= until_ns:
                self._is_late = True
                raise TimeoutError
            self._send_due()
            self._wait(until_ns)

    def _send_due(self) -> None:
        while (octets := self.connection.outgoing(self._clock())) is not None:
            try:
                self._way.send(octets)
            except ConnectionRefusedError:
                self._note_refusal()
            except OSError:
                self.unsendable += 1

    def _wait(self, until_ns: int) -> None:
        next_ns = self.connection.next_ns
        due_ns = until_ns if next_ns is None else min(until_ns, next_ns)
        wait_s = min(max(0.0, (due_ns - self._clock()) / NS_PER_S), _LONGEST_WAIT_S)
        try:
            octets = self._way.take(wait_s)
        except ConnectionRefusedError:
            self._note_refusal()
        except OSError:  # the kernel tells of an ICMP error; for the protocol it is a loss
            self.unsendable += 1
        else:
            if octets is not None:
                self.connection.receive(octets, self._clock())

    def _note_refusal(self) -> None:
        """Raise while connecting: nobody listens there; later it is a loss, as anyone can forge it."""
        if self.connection.state is WtcpState.SYN_SENT:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self.unsendable += 1


def wtcp_info(connection: WtcpConnection) -> Mapping[str, int]:
    """Return the counters of a connection under the names of `struct tcp_info`."""
    counters = connection.counters
    return {"total_retrans": counters.retransmissions, "bytes_sent": counters.payload_sent_bytes}
