"""WTCP for client and server: a connection with the methods of a socket, and a server on one port."""

from __future__ import annotations

import errno
import os
import select
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from multitracer.endpoints import host_port
from multitracer.errors import RemoteProtocolError
from multitracer.measure.endpoint import SteadyClock, bound_address, bound_socket, socket_address
from multitracer.measure.intake import DatagramIntake
from multitracer.measure.server import Dialogue, TransactionLog
from multitracer.protocols.wtcp.connection import WtcpConnection
from multitracer.protocols.wtcp.state import WtcpConfig, WtcpState
from multitracer.protocols.wtcp.worker import WtcpWorker
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from pathlib import Path

# WTCP as the client uses it, over any way for datagrams: a connection with the methods of a socket.


LONGEST_DATAGRAM = 65_536
_CLOSE_S = 5.0
"""Maximum time in s for which `close` waits for the peer: the maximum RTT of paper 001 (4 s) and a margin."""
_LONGEST_WAIT_S = 1.0
_ERRORS = {"timed out": errno.ETIMEDOUT}
"""errno by the reason why a connection ended; all other reasons are reported as a reset."""


class DatagramWay(Protocol):
    """Carries datagrams to one peer and back, in real or in virtual time."""

    clock: Callable[[], int]
    """Returns the time, ns since 1970."""

    def send(self, octets: bytes) -> None:
        """Send a datagram; raise OSError if this host refuses it."""

    def take(self, wait_s: float) -> bytes | None:
        """Return the next datagram, None if none arrives in the given time; an OSError is an ICMP error."""

    def close(self) -> None:
        """Release the open resources."""


class UdpWay:
    """A UDP socket that receives only from one peer.

    Parameters
    ----------
    address : (host, port)
        Numerical address of the peer.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.clock: Callable[[], int] = SteadyClock()
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.connect(socket_address(address))
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


class WtcpClientStream:
    """A connection to a server.

    Parameters
    ----------
    way : DatagramWay
        Carries datagrams to the server; closed with the connection.
    config : WtcpConfig
        Parameters of this endpoint.
    random_bytes : callable, optional
        Returns the given number of random bytes, for keys that must not be guessed.
    """

    def __init__(self, way: DatagramWay, config: WtcpConfig, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self.connection = WtcpConnection(config, initiator=True, random_bytes=random_bytes)
        self.unsendable = 0
        """Datagrams that this host refused; for the protocol they are lost."""
        self._way = way
        self._clock = way.clock
        self._timeout_s = 0.0
        self._is_late = False

    @classmethod
    def dial(cls, address: tuple[str, int], config: WtcpConfig, timeout_s: float) -> WtcpClientStream:
        """Return a connection to a server over UDP; raise OSError with the reason if it fails."""
        made = cls(UdpWay(address), config)
        made.open(timeout_s)
        return made

    def open(self, timeout_s: float) -> None:
        """Wait until the server has answered.

        Close the socket and raise OSError with the reason if it does not.
        """
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
        """Send octets; return when WTCP has accepted all of them."""
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
        """Close the connection; sent data are still delivered, unless an earlier call timed out."""
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
        """Send due packets and process arriving packets until `done` returns True."""
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
        """Raise an error while connecting: no program listens.

        Later count it as a loss: anyone can forge it.
        """
        if self.connection.state is WtcpState.SYN_SENT:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        self.unsendable += 1


def wtcp_info(connection: WtcpConnection) -> Mapping[str, int]:
    """Return the counters of a connection under the names of `struct tcp_info`."""
    counters = connection.counters
    return {"total_retrans": counters.retransmissions, "bytes_sent": counters.payload_sent_bytes}


# The server over WTCP: many connections on one UDP port, in one thread, without blocking calls.
#
# `WtcpService` does what a server does, whatever carries its datagrams and whichever clock it is given;
# `WtcpServer` has it on a socket.


_DATAGRAMS_A_STEP = 64
"""Maximum datagrams that are processed, and sent, in one step."""
_IDLE_NS = 60 * NS_PER_S
"""Time without progress (data that arrived, or were acknowledged) after which a client is disconnected."""
_OUTAGE_NS = 600 * NS_PER_S
"""The same for a client that has sent a request, which may be an outage, while the server is not crowded."""
_CROWD = 192
"""Connections from which the server is crowded: three quarters of what it accepts."""


@dataclass(slots=True)
class _Client:
    """One client."""

    connection: WtcpConnection
    dialogue: Dialogue
    progress_ns: int
    """Time of the last progress."""
    progress_bytes: int = 0
    """Bytes that had arrived or were acknowledged then."""

    def is_stuck(self, now_ns: int, *, is_crowded: bool) -> bool:
        """Return whether the client has made no progress for too long."""
        counters = self.connection.counters
        progress_bytes = counters.arrived_bytes + counters.acknowledged_bytes
        if progress_bytes != self.progress_bytes:
            self.progress_bytes, self.progress_ns = progress_bytes, now_ns
        may_be_outage = self.dialogue.has_asked and not is_crowded
        return now_ns - self.progress_ns > (_OUTAGE_NS if may_be_outage else _IDLE_NS)


class WtcpService:
    """Answers requests on the WTCP connections of one UDP port.

    Parameters
    ----------
    config : WtcpConfig
        Parameters of every connection.
    records : TransactionLog
        Where transactions are recorded.
    clock : callable
        Returns the time, ns since 1970.
    random_bytes : callable
        Returns the given number of random bytes, for keys that must not be guessed.
    """

    def __init__(
        self,
        config: WtcpConfig,
        *,
        records: TransactionLog,
        clock: Callable[[], int],
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.worker = WtcpWorker(config, random_bytes=random_bytes)
        self._records = records
        self._clock = clock
        self._clients: list[_Client] = []

    def receive(self, octets: bytes, peer: tuple[str, int]) -> None:
        """Process the octets of one datagram, which may be invalid."""
        self.worker.receive(octets, peer, self._clock())
        for address, connection in self.worker.take_accepted():
            self._clients.append(self._client(address, connection))

    def serve(self) -> None:
        """Process the messages of all clients, and queue the answers as datagrams in `worker`."""
        self._clients = [each for each in self._clients if self._serve(each)]

    def _client(self, peer: Hashable, connection: WtcpConnection) -> _Client:
        name = host_port(*peer) if isinstance(peer, tuple) else str(peer)
        info = partial(wtcp_info, connection)
        dialogue = Dialogue(name, records=self._records, clock=self._clock, info=info)
        return _Client(connection, dialogue, self._clock())

    def _serve(self, client: _Client) -> bool:
        """Process the packets of one client and answer; return whether the client is still connected."""
        connection, dialogue = client.connection, client.dialogue
        if connection.is_finished:
            return False
        if client.is_stuck(self._clock(), is_crowded=len(self._clients) >= _CROWD):
            connection.abort()
            return False
        try:
            if arrived := connection.read():
                dialogue.hear(arrived)
        except RemoteProtocolError:
            connection.abort()
            return False
        if dialogue.unsent:
            dialogue.unsent = dialogue.unsent[connection.write(dialogue.unsent) :]
        if connection.at_end and not dialogue.unsent:
            connection.close()
        return True


class WtcpServer:
    """Answers requests on WTCP connections.

    Parameters
    ----------
    bind : (host, port)
        Where to listen.
    config : WtcpConfig
        Parameters of every connection.
    folder : Path, optional
        Where transactions are recorded.

    Raises
    ------
    InputError
        If the address cannot be used.
    """

    def __init__(self, bind: tuple[str, int], config: WtcpConfig, *, folder: Path | None = None) -> None:
        self._clock = SteadyClock()
        self.warnings: list[str] = []
        self.records = TransactionLog(folder, self._clock, warn=self.warnings.append)
        self._service = WtcpService(config, records=self.records, clock=self._clock)
        self.worker = self._service.worker
        self.unsendable = 0
        """Datagrams that the kernel refused; for the protocol they are lost."""
        self._socket = bound_socket(bind, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self.intake = DatagramIntake(self._socket, worker=self.worker, clock=self._clock)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it receives."""
        return bound_address(self._socket)

    def close(self) -> None:
        """Close the socket; clients notice it by their timeouts."""
        self._socket.close()
        self.records.close()

    def work(self, wait_s: float) -> None:
        """Send due packets, then wait at most the given time and process arriving packets."""
        self._send_due()
        next_ns = self.worker.next_ns
        if next_ns is not None:
            wait_s = max(0.0, min(wait_s, (next_ns - self._clock()) / NS_PER_S))
        if not self.intake:
            select.select([self._socket], [], [], wait_s)
        self.intake.fill()  # its errors are of ICMP; for the protocol they are losses
        for _ in range(_DATAGRAMS_A_STEP):
            if (datagram := self.intake.take()) is None:
                break
            self._service.receive(*datagram)
        self._service.serve()
        self._send_due()

    def _send_due(self) -> None:
        for _ in range(_DATAGRAMS_A_STEP):
            packet = self.worker.outgoing(self._clock())
            if packet is None:
                return
            try:
                self._socket.sendto(packet.octets, socket_address(packet.address))
            except OSError:
                self.unsendable += 1
