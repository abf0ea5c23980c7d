"""WTCP with many peers on one UDP port: connections by address and identity, in bounded memory.

A SYN creates no state: the identity in the answer is a keyed hash of the peer's address and identity (like
SYN cookies, RFC 4987, section 3.6), so only a peer that receives at its address can make a connection.
"""

from __future__ import annotations

import hmac
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.protocols.wtcp.connection import WtcpConnection
from multitracer.protocols.wtcp.packet import (
    IDENTITY_BYTES,
    NO_IDENTITY,
    Data,
    Hello,
    WtcpOpening,
    WtcpPacketType,
    decode,
    encode,
)
from multitracer.protocols.wtcp.state import WtcpConfig, WtcpState
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from multitracer.protocols.wtcp.packet import WtcpPacket

_SLOT_NS = 64 * NS_PER_S
"""Unit of the validity of an answer to a SYN, which is one to two of these (Linux' SYN cookies: a minute or two)."""
_SECRET_BYTES = 32  # RFC 2104, section 3: as long as the hash
_WAITING_ANSWERS = 256
"""Maximum number of waiting answers to SYNs; above it, SYNs are dropped (not measured)."""
_REMEMBERED_ENDS = 1024
"""Number of ended connections that are stored, so that a late packet cannot make them again (not measured)."""


class WtcpOutgoing(NamedTuple):
    """A packet to send, with its address."""

    octets: bytes
    address: Hashable


@dataclass(slots=True)
class WorkerCounters:
    """Counts of packets that did not belong to a connection, by reason."""

    malformed: int = 0
    """Datagrams that are not WTCP packets."""
    unknown_connection: int = 0
    """Packets of connections that have ended or never existed, and forged ones."""
    refused: int = 0
    """Proven peers that were not answered because of the limit on connections."""
    unanswered_syns: int = 0
    """SYNs dropped because too many answers wait."""
    accepted: int = 0


class WtcpWorker:
    """An endpoint that connects to peers and accepts connections from many peers.

    Parameters
    ----------
    config : WtcpConfig, optional
        Parameters of every connection.
    random_bytes : callable
        Returns the given number of unpredictable bytes, such as `os.urandom`.
    max_connections, max_connections_per_host : int
        Limits; above them a new peer is not answered, unless a finished connection can be removed.
    """

    def __init__(
        self,
        config: WtcpConfig | None = None,
        *,
        random_bytes: Callable[[int], bytes],
        max_connections: int = 256,
        max_connections_per_host: int = 64,
    ) -> None:
        self.config = config or WtcpConfig()
        self.counters = WorkerCounters()
        self.connections: dict[tuple[Hashable, bytes], WtcpConnection] = {}
        """Connections by the address of the peer and our identity."""
        self._random_bytes = random_bytes
        self._secret = random_bytes(_SECRET_BYTES)
        self._most = max_connections
        self._most_per_host = max_connections_per_host
        self._answers: deque[WtcpOutgoing] = deque()
        self._accepted: list[tuple[Hashable, WtcpConnection]] = []
        self._ended: dict[tuple[Hashable, bytes], None] = {}
        self._of_address: Counter[Hashable] = Counter()
        """Number of connections with each address."""

    # -- the application's side ------------------------------------------------------------------------

    def connect(self, address: Hashable, now_ns: int) -> WtcpConnection:
        """Return a new connection to a peer; its SYN is sent next.

        Raises
        ------
        LocalProtocolError
            If there are too many connections.
        """
        if not self._has_room(address):
            raise LocalProtocolError(
                f"{address}: cannot open a connection, because there are already "
                f"{len(self.connections)} connections; close some connections"
            )
        connection = WtcpConnection(self.config, initiator=True, random_bytes=self._random_bytes)
        self._add(address, connection)
        connection.open(now_ns)
        return connection

    def take_accepted(self) -> list[tuple[Hashable, WtcpConnection]]:
        """Return address and connection of each peer that has connected since the last call."""
        taken, self._accepted = self._accepted, []
        return taken

    # -- the path's side -------------------------------------------------------------------------------

    def is_proven(self, address: Hashable) -> bool:
        """Return whether there is a connection with the peer at this address."""
        return address in self._of_address

    def carries_proof(self, octets: bytes, address: Hashable, now_ns: int) -> bool:
        """Return whether a datagram repeats the identity that was sent to its address in answer to a SYN."""
        packet = decode(octets)
        return packet is not None and self._proves(packet, address, now_ns)

    def receive(self, octets: bytes, address: Hashable, now_ns: int) -> None:
        """Process the octets of one datagram; any octets are allowed."""
        packet = decode(octets)
        if packet is None:
            self.counters.malformed += 1
        elif isinstance(packet.body, WtcpOpening) and packet.body.kind is WtcpPacketType.SYN:
            self._answer(packet.body.hello, address, now_ns)
        else:
            connection = self.connections.get((address, packet.identity))
            connection = connection or self._accept(packet, address, now_ns)
            if connection is None:
                self.counters.unknown_connection += 1
            else:
                connection.receive(octets, now_ns)

    def outgoing(self, now_ns: int) -> WtcpOutgoing | None:
        """Return the next packet that is due; None if none is due yet."""
        if self._answers:
            return self._answers.popleft()
        for key, connection in list(self.connections.items()):
            due_ns = connection.next_ns
            octets = None if due_ns is None or due_ns > now_ns else connection.outgoing(now_ns)
            if octets is not None:
                self.connections[key] = self.connections.pop(key)  # the others come first next time
                return WtcpOutgoing(octets, key[0])
            if connection.state is WtcpState.CLOSED and connection.next_ns is None:
                self._forget(key)
        return None

    @property
    def next_ns(self) -> int | None:
        """Time in ns at which `outgoing` must be called; None if nothing is scheduled.

        A past time means now.
        """
        if self._answers:
            return 0
        times = [connection.next_ns for connection in self.connections.values()]
        return min((each for each in times if each is not None), default=None)

    # -- connections of peers --------------------------------------------------------------------------

    def _answer(self, hello: Hello, address: Hashable, now_ns: int) -> None:
        """Answer a SYN with the same number of octets; no state is stored."""
        if len(self._answers) >= _WAITING_ANSWERS:
            self.counters.unanswered_syns += 1
            return
        identity = self._identity(hello, address, now_ns // _SLOT_NS)
        body = WtcpOpening(WtcpPacketType.SYN_ACK, Hello(identity, self.config.receive_buffer_bytes))
        self._answers.append(WtcpOutgoing(encode(hello.identity, body), address))

    def _identity(self, hello: Hello, address: Hashable, slot: int) -> bytes:
        """Return the identity of this end for a peer.

        Only a peer that receives at its address can know it.
        """
        text = f"{slot} {address!r} ".encode() + hello.identity
        return hmac.digest(self._secret, text, "sha256")[:IDENTITY_BYTES]

    def _accept(self, packet: WtcpPacket, address: Hashable, now_ns: int) -> WtcpConnection | None:
        """Return a new connection; None unless the peer repeats the identity that was sent to its address."""
        if (address, packet.identity) in self._ended or not self._proves(packet, address, now_ns):
            return None
        if not self._has_room(address):
            self.counters.refused += 1
            return None
        made = WtcpConnection(self.config, initiator=False, random_bytes=lambda _: packet.identity)
        self._add(address, made)
        self._accepted.append((address, made))
        self.counters.accepted += 1
        return made

    def _proves(self, packet: WtcpPacket, address: Hashable, now_ns: int) -> bool:
        hello = packet.body.hello if isinstance(packet.body, WtcpOpening | Data) else None
        if hello is None or packet.identity == NO_IDENTITY:
            return False
        slot = now_ns // _SLOT_NS
        ours = (self._identity(hello, address, each) for each in (slot, slot - 1))
        return any(hmac.compare_digest(each, packet.identity) for each in ours)

    def _has_room(self, address: Hashable) -> bool:
        """Return whether one more connection is allowed; a finished connection is removed if necessary."""
        same_host = [key for key in self.connections if _host_of(key[0]) == _host_of(address)]
        for keys, most in ((same_host, self._most_per_host), (list(self.connections), self._most)):
            if len(keys) < most:
                continue
            finished = next((key for key in keys if self.connections[key].is_finished), None)
            if finished is None:
                return False
            self._forget(finished)
        return True

    def _add(self, address: Hashable, connection: WtcpConnection) -> None:
        self.connections[address, connection.identity] = connection
        self._of_address[address] += 1

    def _forget(self, key: tuple[Hashable, bytes]) -> None:
        if self.connections.pop(key, None) is not None:
            self._ended[key] = None
            self._of_address[key[0]] -= 1
            if not self._of_address[key[0]]:
                del self._of_address[key[0]]
        if len(self._ended) > _REMEMBERED_ENDS:
            del self._ended[next(iter(self._ended))]


def _host_of(address: Hashable) -> Hashable:
    """Return an address without its port; a host cannot choose this part."""
    return address[0] if isinstance(address, tuple) and address else address
