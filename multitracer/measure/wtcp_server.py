"""The server over WTCP: many connections on one UDP port, in one thread, without blocking calls.

`WtcpService` does what a server does, whatever carries its datagrams and whichever clock it is given;
`WtcpServer` has it on a socket.
"""

from __future__ import annotations

import os
import select
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from multitracer.errors import RemoteProtocolError
from multitracer.measure.clock import SteadyClock
from multitracer.measure.dialogue import Dialogue
from multitracer.measure.endpoint import bound_socket
from multitracer.measure.server import Records
from multitracer.measure.wtcp_stream import LONGEST_DATAGRAM, wtcp_info
from multitracer.protocols.wtcp import WtcpConfig, WtcpConnection, WtcpWorker
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

_DATAGRAMS_A_STEP = 64
"""Datagrams taken, and sent, before the others are looked at."""
_RECEIVE_BUFFER_BYTES = 1 << 20
_STRANGER_NS = 60 * NS_PER_S
"""A client that has asked for nothing in so long makes room for others."""


@dataclass(slots=True)
class _Client:
    """One client."""

    connection: WtcpConnection
    dialogue: Dialogue
    since_ns: int


class WtcpService:
    """Answers requests on the WTCP connections of one UDP port.

    Parameters
    ----------
    config : WtcpConfig
        Parameters of every connection.
    records : Records
        Where transactions are recorded.
    clock : callable
        Returns the time, ns since 1970.
    random_bytes : callable
        Returns so many bytes that nobody can guess.
    """

    def __init__(
        self,
        config: WtcpConfig,
        *,
        records: Records,
        clock: Callable[[], int],
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.worker = WtcpWorker(config, random_bytes=random_bytes)
        self._records = records
        self._clock = clock
        self._clients: list[_Client] = []

    def receive(self, octets: bytes, peer: tuple[str, int]) -> None:
        """Take the octets of one datagram, whatever they are."""
        self.worker.receive(octets, peer, self._clock())
        for address, connection in self.worker.take_accepted():
            self._clients.append(self._client(address, connection))

    def serve(self) -> None:
        """Take what every client sent, and answer; what is to be sent then comes out of `worker`."""
        self._clients = [each for each in self._clients if self._serve(each)]

    def _client(self, peer: Hashable, connection: WtcpConnection) -> _Client:
        name = "{}:{}".format(*peer) if isinstance(peer, tuple) else str(peer)
        info = partial(wtcp_info, connection)
        dialogue = Dialogue(name, records=self._records, clock=self._clock, info=info)
        return _Client(connection, dialogue, self._clock())

    def _serve(self, client: _Client) -> bool:
        """Take what one client sent, and answer; return whether it is still there."""
        connection, dialogue = client.connection, client.dialogue
        if connection.is_finished:
            return False
        if not dialogue.has_asked and self._clock() - client.since_ns > _STRANGER_NS:
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
        If it cannot listen there.
    """

    def __init__(self, bind: tuple[str, int], config: WtcpConfig, *, folder: Path | None = None) -> None:
        self._clock = SteadyClock()
        self.records = Records(folder, self._clock)
        self._service = WtcpService(config, records=self.records, clock=self._clock)
        self.worker = self._service.worker
        self.unsendable = 0
        """Datagrams that the kernel refused; for the protocol they are lost."""
        self._socket = bound_socket(bind, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        self._socket.setblocking(False)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it receives."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Close the socket; clients notice by the silence."""
        self._socket.close()

    def work(self, wait_s: float) -> None:
        """Send what is due, then wait for at most the given time and take what arrives."""
        self._send_due()
        next_ns = self.worker.next_ns
        if next_ns is not None:
            wait_s = max(0.0, min(wait_s, (next_ns - self._clock()) / NS_PER_S))
        if select.select([self._socket], [], [], wait_s)[0]:
            self._take_arrived()
        self._service.serve()
        self._send_due()

    def _take_arrived(self) -> None:
        for _ in range(_DATAGRAMS_A_STEP):
            try:
                octets, address = self._socket.recvfrom(LONGEST_DATAGRAM)
            except BlockingIOError:
                break
            except OSError:  # an ICMP error; for the protocol it is a loss
                continue
            self._service.receive(octets, address[:2])

    def _send_due(self) -> None:
        for _ in range(_DATAGRAMS_A_STEP):
            packet = self.worker.outgoing(self._clock())
            if packet is None:
                return
            try:
                self._socket.sendto(packet.octets, packet.address)  # type: ignore[call-overload]
            except OSError:
                self.unsendable += 1
