"""Level I on UDP, peer to peer: an end with a message establishes a session; many peers are possible.

Rules of this file:

- One session with each peer. If both ends establish a session at the same time, the one with the larger
  number survives.
- An OBJ from an unknown peer makes a half-open session: the peer gets at most the bytes that it sent, the
  session takes a bounded amount of memory, and it ends no other session. The session becomes valid when PK or
  DONE echo the nonce of our PROCEED, which needs no extra round trip. An OBJ with a nonce of an earlier session
  (its token) is valid at once.
- The nonce for an unknown peer is a cookie: a keyed hash of address and time. A peer whose half-open session was
  ended in a flood shows it as the token of its next OBJ, and needs no state of ours.
"""

from __future__ import annotations

import hmac
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from multitracer.endpoints import network_of
from multitracer.errors import LocalProtocolError
from multitracer.protocols.centaurus.level2 import Indication, SessionRole
from multitracer.protocols.centaurus.messages import NO_TOKEN, Obj
from multitracer.protocols.centaurus.packet import HEADER_BYTES, seal
from multitracer.protocols.centaurus.worker import CentaurusSession, MetPeer, Worker
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from multitracer.protocols.centaurus.events import Address
    from multitracer.protocols.centaurus.messages import CentaurusConfig
    from multitracer.protocols.centaurus.packet import CentaurusPacket

_EVICTION_TRIES = 16  # bounds the work per packet under a flood of addresses
_HALF_OPEN_A_STEP = 32  # bounds the work per step: the rest waits for the next one
_IDLE_NS = 60 * NS_PER_S
"""Time without a new session after which a peer gives way to a new one where a limit is reached (not measured)."""
_COOKIE_NS = 64 * NS_PER_S
"""Unit of the validity of a cookie, which is one to two of these (as WTCP's answer to a SYN)."""
_NONCE_AT = {b"PK": HEADER_BYTES + 4, b"DN": HEADER_BYTES + 2, b"OB": HEADER_BYTES + 22}
"""Where the nonce or token of a packet is, by the letters of its message (docs/centauruscomm.md)."""
_SECRET_BYTES = 32  # RFC 2104, section 3: as long as the hash


def host_of(address: Address) -> Address:
    """Return an address without its port; a host cannot choose this part."""
    return address[0] if isinstance(address, tuple) and address else address


def _groups_of(address: Address) -> tuple[Hashable, Hashable]:
    """Return what groups half-open sessions: the address with its port, and the network."""
    return ("address", address), ("network", network_of(host_of(address)))


def _outranks(ours: CentaurusSession, packet: CentaurusPacket) -> bool:
    """Return whether our session survives when both ends establish a session at the same time."""
    return ours.initiated and ours.level2.is_unanswered and packet.session < ours.number


class UdpWorker(Worker):
    """An endpoint that exchanges objects with many peers in datagrams.

    Parameters
    ----------
    config : CentaurusConfig, optional
        Options of the endpoint.
    random_bytes : callable
        Returns the given number of unpredictable bytes, such as `os.urandom`.

    Examples
    --------
    >>> import random
    >>> a, b = (UdpWorker(random_bytes=random.Random(seed).randbytes) for seed in (1, 2))
    >>> handle = a.send("b", 7, b"hello", 0)
    >>> for now_ns in range(8):
    ...     for end, other, name in ((a, b, "a"), (b, a, "b")):
    ...         while packet := end.outgoing(now_ns):
    ...             end.sent(packet, now_ns)
    ...             other.receive(packet.octets, name, now_ns)
    ...         for event in end.take_events():
    ...             print(name, type(event).__name__)
    b Received
    a ObjectDelivered
    b SessionEnded
    b ClockCompared
    a SessionEnded
    a ClockCompared
    """

    def __init__(self, config: CentaurusConfig | None = None, *, random_bytes: Callable[[int], bytes]) -> None:
        super().__init__(config, random_bytes=random_bytes)
        self._waiting: deque[MetPeer] = deque()
        self._half_open: dict[tuple[Address, int], CentaurusSession] = {}
        self._half_open_of: dict[Hashable, dict[tuple[Address, int], CentaurusSession]] = defaultdict(dict)
        """Half-open sessions of each address, and of each network, the oldest first."""
        self._secret = b""
        self._on_host: dict[Address, int] = {}

    @property
    def half_open(self) -> int:
        """Number of sessions whose initiator has not yet proven that it receives at its address."""
        return len(self._half_open)

    def is_proven(self, address: Address) -> bool:
        """Return whether this end knows the peer: it has proven its address, or an object is sent to it."""
        return address in self.peers

    def carries_proof(self, octets: bytes, address: Address, now_ns: int) -> bool:
        """Return whether a datagram, which is not parsed yet, has the cookie that was sent to its address."""
        begin = _NONCE_AT.get(octets[HEADER_BYTES : HEADER_BYTES + 2])
        if begin is None:
            return False
        return self._is_cookie(int.from_bytes(octets[begin : begin + 4], "big"), address, now_ns)

    def receive(self, octets: bytes, address: Address, now_ns: int) -> None:
        """Process one datagram that arrived from `address`."""
        unsealed = self._unsealed(octets)
        if unsealed is None:
            return
        packet, message = unsealed
        session = self.sessions.get((address, packet.session))
        if session is None and isinstance(message, Obj) and packet.from_initiator:
            session = self._opened(packet, message, address, now_ns)
        if session is None or session.initiated == packet.from_initiator:
            self.counters.unknown_session += 1
            return
        if not session.proven and session.level2.is_proof(message):
            self._prove(session, now_ns)
        if not session.is_over:
            self._on_packet(session, packet, message, len(octets), now_ns)

    def next_timer(self) -> int | None:
        """Return the time at which `on_timer` must be called; None if no timer runs."""
        times = [] if (armed := super().next_timer()) is None else [armed]
        oldest = next(iter(self._half_open.values()), None)
        if oldest is not None:
            times.append(oldest.started_ns + self.config.watchdog_ns)
        return min(times, default=None)

    def on_timer(self, now_ns: int) -> None:
        """End the sessions and objects whose lifetime has expired, a limited number per call."""
        super().on_timer(now_ns)
        for _ in range(_HALF_OPEN_A_STEP):
            oldest = next(iter(self._half_open.values()), None)
            if oldest is None or oldest.started_ns + self.config.watchdog_ns > now_ns:
                return
            self._end(oldest, "watchdog", now_ns)

    # -- sessions of the peers -------------------------------------------------------------------------

    def _opened(self, packet: CentaurusPacket, obj: Obj, address: Address, now_ns: int) -> CentaurusSession | None:
        """Return a new session for an offer (OBJ); None if a protocol rule or a limit forbids the session."""
        known = self.peers.get(address)
        ours = known.session if known is not None else None
        if ours is not None and (_outranks(ours, packet) or packet.clock_ns < ours.clock_ns):
            return None  # by its clock, the peer made it before it last spoke in our session
        is_proven = known is not None and known.is_token(obj.token)
        if not is_proven and self._is_cookie(obj.token, address, now_ns):
            known = known or self._new_peer(address, now_ns)
            if known is None:
                self.counters.refused += 1
                return None
            is_proven = True
        session = self._new_session(SessionRole.RESPONDER, known or MetPeer(address), packet.session, now_ns)
        if is_proven:
            self._establish(session, now_ns)
        else:
            session.level2.cookie = self._cookie(address, now_ns // _COOKIE_NS)
            self._add_half_open(session, now_ns)
        return session

    def _cookie(self, address: Address, slot: int) -> int:
        """Return the nonce that only a peer that receives at its address can know."""
        self._secret = self._secret or self._shared.random_bytes(_SECRET_BYTES)
        digest = hmac.digest(self._secret, f"{slot} {address!r}".encode(), "sha256")
        return int.from_bytes(digest[:4], "big") or 1

    def _is_cookie(self, token: int, address: Address, now_ns: int) -> bool:
        slot = now_ns // _COOKIE_NS
        return token != NO_TOKEN and token in (self._cookie(address, slot), self._cookie(address, slot - 1))

    def _add_half_open(self, session: CentaurusSession, now_ns: int) -> None:
        """Store a half-open session; end the oldest of its address, of its network, or of all above the limit."""
        key = session.address, session.number
        self._half_open[key] = session
        limits = self.config.max_half_open_per_address, self.config.max_half_open_per_network
        for group, limit in zip(_groups_of(session.address), limits, strict=True):
            self._half_open_of[group][key] = session
            self._crowd_out(self._half_open_of[group], limit, now_ns)
        self._crowd_out(self._half_open, self.config.max_half_open, now_ns)

    def _crowd_out(self, among: dict[tuple[Address, int], CentaurusSession], limit: int, now_ns: int) -> None:
        if len(among) > limit:
            self.counters.crowded_out += 1
            self._end(next(iter(among.values())), "crowded out", now_ns)

    def _remove_half_open(self, session: CentaurusSession) -> None:
        key = session.address, session.number
        if self._half_open.pop(key, None) is None:
            return
        for group in _groups_of(session.address):
            del self._half_open_of[group][key]
            if not self._half_open_of[group]:
                del self._half_open_of[group]

    def _prove(self, session: CentaurusSession, now_ns: int) -> None:
        """Make a half-open session the valid session of its peer, whose address is now proven."""
        peer = self.peers.get(session.address) or self._new_peer(session.address, now_ns)
        if peer is None:
            self.counters.refused += 1
            self._end(session, "refused", now_ns)
            return
        self._remove_half_open(session)
        session.peer = peer
        session.level2.belongs_to(peer)
        self._establish(session, now_ns)

    def _end(self, session: CentaurusSession, cause: str, now_ns: int) -> None:
        self._remove_half_open(session)
        super()._end(session, cause, now_ns)

    def _framed(self, session: CentaurusSession, packet: CentaurusPacket) -> bytes:
        return seal(packet, key=self.config.key)

    # -- peers -----------------------------------------------------------------------------------------

    def _new_peer(self, address: Address, now_ns: int) -> MetPeer | None:
        """Return a new entry for the peer at this address; None if a limit forbids one more peer."""
        host = host_of(address)
        if self._on_host.get(host, 0) >= self.config.max_peers_per_host and not self._evict(now_ns, host):
            return None
        if len(self.peers) >= self.config.max_peers and not self._evict(now_ns):
            return None
        self._on_host[host] = self._on_host.get(host, 0) + 1
        self.peers[address] = peer = MetPeer(address)
        peer.heard_ns = now_ns
        return peer

    def _evict(self, now_ns: int, host: Address = None) -> bool:
        """Delete one peer without a session whose state is no longer needed, or that is idle, on any host or on `host`.

        The lifetime of an object, which the peer chooses, must not keep others out for an hour. A peer that is
        deleted before may have an object delivered twice. Return whether there was one.
        """
        for address in list(self.peers)[:_EVICTION_TRIES] if host is None else self._ports_of(host):
            peer = self.peers[address]
            is_past = peer.keep_until_ns() <= now_ns or now_ns - peer.heard_ns > _IDLE_NS
            if peer.session is None and not len(peer.outgoing) and is_past:
                self._forget(peer)
                return True
            self.peers[address] = self.peers.pop(address)  # the next try begins behind it
        return False

    def _ports_of(self, host: Address) -> list[Address]:
        addresses = (address for address in self.peers if host_of(address) == host)
        return [address for _, address in zip(range(_EVICTION_TRIES), addresses, strict=False)]

    def _forget(self, peer: MetPeer) -> None:
        for part in list(peer.acceptance.partials.values()):
            self._shared.forget(peer, part)
        self._timers.disarm(peer)
        del self.peers[peer.address]
        host = host_of(peer.address)
        self._on_host[host] -= 1
        if not self._on_host[host]:
            del self._on_host[host]

    def _peer_to_send_to(self, address: Address, now_ns: int) -> MetPeer:
        peer = self.peers.get(address) or self._new_peer(address, now_ns)
        if peer is None:
            raise LocalProtocolError(
                f"{address}: cannot send to this address, because there are already {len(self.peers)} peers; send later"
            )
        return peer

    # -- sessions of our own ---------------------------------------------------------------------------

    def _wants_session(self, peer: MetPeer) -> None:
        if len(peer.outgoing) and peer.session is None and not peer.is_waiting:
            peer.is_waiting = True
            self._waiting.append(peer)

    def _begin_sessions(self, now_ns: int) -> bool:
        while self._waiting:
            peer = self._waiting.popleft()
            peer.is_waiting = False
            if peer.session is not None or peer.outgoing.first(now_ns) is None:
                continue
            session = self._new_session(SessionRole.INITIATOR, peer, self._new_number(peer.address), now_ns)
            self._establish(session, now_ns)
            session.level2.hear(Indication.POLL)
            self._queue(session)
            return True
        return False
