"""Level I's common part on every medium: the sessions, their watchdog, and the worker's small steps.

The application (or its driver) calls `receive` for what arrived, `outgoing` for the next packet, `sent` when
that packet left, `on_timer` at `next_timer`, and handles `take_events` before the next call. None of them
blocks, and each handles one packet or a bounded number of timers. `now_ns` never runs backwards; it is also
the clock in the packets, so it should count from 1970.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.protocols.centaurus.config import CentaurusConfig
from multitracer.protocols.centaurus.events import Address, Counters, Event, Expired, SessionEnded
from multitracer.protocols.centaurus.level2 import Indication, Level2, Role
from multitracer.protocols.centaurus.messages import Message, Pk, decode, encode
from multitracer.protocols.centaurus.packet import Packet, Refusal, unseal
from multitracer.protocols.centaurus.peer import Shared
from multitracer.protocols.centaurus.session import CentaurusSession, MetPeer
from multitracer.protocols.centaurus.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMERS_A_STEP = 8
"""Each may free a megabyte of parts, which takes about 0.1 ms."""


class Outgoing(NamedTuple):
    """A packet for the medium."""

    octets: bytes
    address: Address
    session: CentaurusSession


class Worker(ABC):
    """Level I without its medium; see `UdpWorker`, `SerialMaster` and `SerialSlave`."""

    def __init__(
        self, config: CentaurusConfig | None = None, *, random_bytes: Callable[[int], bytes]
    ) -> None:
        self.config = config or CentaurusConfig()
        self.sessions: dict[tuple[Address, int], CentaurusSession] = {}
        self.peers: dict[Address, MetPeer] = {}
        self._shared = Shared(self.config, random_bytes)
        self._ready: deque[CentaurusSession] = deque()
        self._timers: Timers[CentaurusSession | MetPeer] = Timers()
        self._indicated: set[CentaurusSession] = set()
        self._handles = 0

    @property
    def counters(self) -> Counters:
        """What was dropped, by reason."""
        return self._shared.counters

    # -- the application's side ------------------------------------------------------------------------

    def send(
        self, address: Address, kind: int, data: bytes, now_ns: int, *, lifetime_ns: int | None = None
    ) -> int:
        """Put an object into the table of outgoing objects.

        Parameters
        ----------
        address
            The peer.
        kind : int
            The object's class, 0 to 65535; objects of one class arrive in order.
        data : bytes
            The message.
        now_ns : int
            The time, ns since 1970; it becomes the object's time stamp.
        lifetime_ns : int, optional
            When to give up; by default `CentaurusConfig.lifetime_ns`.

        Returns
        -------
        int
            A handle; `Delivered`, `Rejected` or `Expired` names it.

        Raises
        ------
        LocalProtocolError
            If the message or the table is too large, or the peer unknown.
        """
        if not 0 <= kind <= 0xFFFF:
            raise LocalProtocolError(f"class {kind}: outside 0 to 65535; choose another")
        if len(data) > self.config.max_message_bytes:
            limit = self.config.max_message_bytes
            raise LocalProtocolError(f"message of {len(data)} bytes: the limit is {limit}; send less")
        peer = self._peer_to_send_to(address, now_ns)
        if len(peer.outgoing) >= self.config.max_outgoing:
            raise LocalProtocolError(f"{address}: {len(peer.outgoing)} objects wait already; send later")
        if self._shared.outgoing_bytes + len(data) > self.config.max_outgoing_bytes:
            raise LocalProtocolError(f"{address}: the table of outgoing objects is full; send later")
        self._handles += 1
        lifetime_ns = self.config.lifetime_ns if lifetime_ns is None else lifetime_ns
        added = peer.outgoing.add(self._handles, kind, bytes(data), now_ns, lifetime_ns)
        self._shared.outgoing_bytes += len(data)
        self._timers.arm(peer, added.expires_ns)
        self._wants_session(peer)
        return self._handles

    def take_events(self) -> list[Event]:
        """Return what happened since the last call, to be handled before the next step."""
        taken = self._shared.events[:]
        self._shared.events.clear()
        if taken:
            for session in self._indicated:
                session.level2.indicated = False
                self._queue(session)
            self._indicated.clear()
        return taken

    # -- the medium's side -----------------------------------------------------------------------------

    def outgoing(self, now_ns: int) -> Outgoing | None:
        """Return the next packet, None if there is none now; call `sent` when it has left."""
        while True:
            while self._ready:
                session = self._ready.popleft()
                session.is_queued = False
                made = self._packet_of(session, now_ns)
                if made is not None:
                    return made
            if not self._begin_sessions(now_ns):
                return None

    def _packet_of(self, session: CentaurusSession, now_ns: int) -> Outgoing | None:
        if session.is_over or session.awaits_sent or not session.level2.has_output:
            return None
        message = session.level2.outgoing(now_ns)
        octets = self._framed(session, Packet(session.number, now_ns, session.initiated, encode(message)))
        if not session.may_send(len(octets)):
            self.counters.amplification += 1
            return None
        session.sent_bytes += len(octets)
        session.awaits_sent = True
        if not isinstance(message, Pk) and session.asked_ns is None:
            session.asked_ns = now_ns
        self.counters.packets_sent += 1
        return Outgoing(octets, session.address, session)

    def sent(self, packet: Outgoing, now_ns: int) -> None:
        """Handle SENT: the packet was passed to the stack (UDP), or has left completely (serial)."""
        session = packet.session
        session.awaits_sent = False
        if session.is_over:
            return
        session.armed_ns = now_ns
        session.level2.hear(Indication.SENT)
        self._after(session, now_ns)

    def next_timer(self) -> int | None:
        """Return when `on_timer` is due, None if never; it may then find nothing to do."""
        return self._timers.next_ns

    def on_timer(self, now_ns: int) -> None:
        """End the sessions and objects whose time is over, a bounded number at a time."""
        for _ in range(_TIMERS_A_STEP):
            due = self._timers.pop(now_ns)
            if due is None:
                return
            if isinstance(due, MetPeer):
                self._expire(due, now_ns)
            else:
                self._watch(due, now_ns)

    # -- what the media share --------------------------------------------------------------------------

    def _unsealed(self, octets: bytes, station: bytes = b"") -> tuple[Packet, Message] | None:
        self.counters.packets_received += 1
        packet = unseal(octets, key=self.config.key, station=station)
        if isinstance(packet, Refusal):
            setattr(self.counters, packet.cause, getattr(self.counters, packet.cause) + 1)
            return None
        message = decode(packet.body)
        if message is None:
            self.counters.malformed += 1
            return None
        return packet, message

    def _on_packet(
        self, session: CentaurusSession, packet: Packet, message: Message, octets: int, now_ns: int
    ) -> None:
        """Pass a valid packet of a session to Level II."""
        is_newest = packet.clock_ns > session.clock_ns
        session.on_packet(octets, packet.clock_ns, now_ns)
        if session.level2.receive(message, now_ns) and is_newest:
            session.compare(packet.clock_ns, now_ns)
        self._after(session, now_ns)

    def _after(self, session: CentaurusSession, now_ns: int) -> None:
        """Handle the results of a step of Level II."""
        level2 = session.level2
        if level2.is_over and not session.awaits_sent:
            self._end(session, "complete", now_ns)
        elif level2.indicated:
            self._indicated.add(session)
        if level2.has_output:
            self._queue(session)

    def _queue(self, session: CentaurusSession) -> None:
        if not session.is_queued and not session.awaits_sent and not session.is_over:
            session.is_queued = True
            self._ready.append(session)

    def _new_session(self, role: Role, peer: MetPeer, number: int, now_ns: int) -> CentaurusSession:
        initiated = role in (Role.INITIATOR, Role.MASTER)
        level2 = Level2(role, peer, self._shared)
        session = CentaurusSession(number, peer.address, peer, level2, initiated, now_ns, now_ns)
        self.sessions[peer.address, number] = session
        return session

    def _establish(self, session: CentaurusSession, now_ns: int) -> None:
        """Make a session the session with its peer, whose address is proven or needs no proof."""
        if session.peer.session is not None:
            self._end(session.peer.session, "replaced", now_ns)
        session.proven = True
        session.peer.session = session
        session.peer.heard_ns = now_ns
        self._timers.arm(session, session.deadline_ns(self.config))

    def _end(self, session: CentaurusSession, cause: str, now_ns: int) -> None:
        session.is_over = True
        self.sessions.pop((session.address, session.number), None)
        self._indicated.discard(session)
        self._timers.disarm(session)
        peer = session.peer
        if peer.session is session:
            peer.session = None
            self._tell_end(session, cause, now_ns)
            self._expire(peer, now_ns)
            self._wants_session(peer)

    def _tell_end(self, session: CentaurusSession, cause: str, now_ns: int) -> None:
        facts = session.address, session.number, cause, session.started_ns
        event = SessionEnded(now_ns, *facts, session.sent_bytes, session.received_bytes)
        self._shared.events.append(event)
        comparison = session.comparison(now_ns)
        if comparison is not None:
            self._shared.events.append(comparison)

    def _watch(self, session: CentaurusSession, now_ns: int) -> None:
        deadline_ns = session.deadline_ns(self.config)
        if deadline_ns > now_ns:
            self._timers.arm(session, deadline_ns)
            return
        capped = session.started_ns + self.config.cap_ns <= now_ns
        self._end(session, "cap" if capped else "watchdog", now_ns)

    def _expire(self, peer: MetPeer, now_ns: int) -> None:
        """Delete the peer's expired objects, except one that is being sent: it may still be acknowledged."""
        in_flight = peer.session.level2.in_flight if peer.session is not None else None
        for each in peer.outgoing.take_expired(now_ns, but=in_flight):
            self._shared.outgoing_bytes -= len(each.data)
            facts = each.handle, each.sessions, each.segments_sent
            self._shared.events.append(Expired(now_ns, peer.address, *facts))
        for part in list(peer.acceptance.partials.values()):
            if part.expires_ns <= now_ns and peer.session is None:
                self._shared.forget(peer, part)
        times = [part.expires_ns for part in peer.acceptance.partials.values()]
        if peer.session is None and (times := times + peer.outgoing.expiries_ns()):
            self._timers.arm(peer, min(times))

    def _wants_session(self, peer: MetPeer) -> None:  # noqa: B027  # for those media that want to know
        """Note that a peer may have an object waiting; a medium that polls all peers need not do anything."""

    def _new_number(self, address: Address) -> int:
        """Return a session number that cannot be guessed and is not in use."""
        while True:
            number = int.from_bytes(self._shared.random_bytes(4), "big")
            if (address, number) not in self.sessions:
                return number

    @abstractmethod
    def _peer_to_send_to(self, address: Address, now_ns: int) -> MetPeer:
        """Return the peer of an address, or raise LocalProtocolError."""

    @abstractmethod
    def _framed(self, session: CentaurusSession, packet: Packet) -> bytes:
        """Return a packet as the medium carries it."""

    @abstractmethod
    def _begin_sessions(self, now_ns: int) -> bool:
        """Establish a session that is due; return whether there was one."""
