"""WTCP on a UDP socket as the client uses it: a connection with a socket's methods, which wait and pace."""

from __future__ import annotations

import errno
import os
import select
import socket
from typing import TYPE_CHECKING

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


class WtcpStream:
    """A connection to a server.

    Parameters
    ----------
    address : (host, port)
        The server's, numerical.
    config : WtcpConfig
        Parameters of this end.
    """

    def __init__(self, address: tuple[str, int], config: WtcpConfig) -> None:
        self.connection = WtcpConnection(config, initiator=True, random_bytes=os.urandom)
        self.unsendable = 0
        """Datagrams that the kernel refused; for the protocol they are lost."""
        self._clock: Callable[[], int] = SteadyClock()
        self._timeout_s = 0.0
        self._is_late = False
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.connect(address)
        except OSError:
            self._socket.close()
            raise

    @classmethod
    def dial(cls, address: tuple[str, int], config: WtcpConfig, timeout_s: float) -> WtcpStream:
        """Return a connection to a server; an OSError says why there is none."""
        made = cls(address, config)
        made.settimeout(timeout_s)
        made.connection.open(made._clock())
        try:
            made._work_until(lambda: made.connection.state is not WtcpState.SYN_SENT)
        except OSError:
            made._socket.close()
            raise
        return made

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
        self._socket.close()

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
                self._socket.send(octets)
            except ConnectionRefusedError:
                self._note_refusal()
            except OSError:
                self.unsendable += 1

    def _wait(self, until_ns: int) -> None:
        next_ns = self.connection.next_ns
        due_ns = until_ns if next_ns is None else min(until_ns, next_ns)
        wait_s = min(max(0.0, (due_ns - self._clock()) / NS_PER_S), _LONGEST_WAIT_S)
        if not select.select([self._socket], [], [], wait_s)[0]:
            return
        try:
            octets = self._socket.recv(LONGEST_DATAGRAM)
        except ConnectionRefusedError:
            self._note_refusal()
        except OSError:  # the kernel tells of an ICMP error; for the protocol it is a loss
            self.unsendable += 1
        else:
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
