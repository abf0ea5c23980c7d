"""The part of Level I that is the same on every medium: sessions, their watchdog, and the worker's steps.

The application (or its driver) must call `receive` for each received packet, `outgoing` for the next packet
to send, `sent` when that packet was sent, `on_timer` at `next_timer`, and process `take_events` before the
next call. No call blocks; each processes one packet or a limited number of timers. `now_ns` must never
decrease; it is also the clock in the packets, so it should be ns since 1970.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from multitracer.errors import LocalProtocolError
from multitracer.protocols.centaurus.events import Address, ClockCompared, Counters, Event, Expired, SessionEnded
from multitracer.protocols.centaurus.level2 import Indication, Level2, SessionRole
from multitracer.protocols.centaurus.messages import CentaurusConfig, Message, Pk, decode, encode
from multitracer.protocols.centaurus.objects import EndpointState, Peer
from multitracer.protocols.centaurus.packet import CentaurusPacket, Refusal, unseal

if TYPE_CHECKING:
    from collections.abc import Callable

# A session as Level I sees it, and its peer.


_AMPLIFICATION = 1
"""Maximum bytes sent to an unproven peer for each byte received from it: who forges an address gains nothing."""


class MetPeer(Peer):
    """A peer, and the state that Level I stores about it."""

    __slots__ = ("answers_polls", "clock_ns", "due_ns", "failures", "heard_ns", "is_waiting", "session")

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.session: CentaurusSession | None = None
        """The session with the peer, once its address is proven; None if there is none."""
        self.heard_ns = 0
        self.clock_ns = 0
        """The newest reading of the peer's clock in all sessions in which its address was proven."""
        self.is_waiting = False
        """Whether the peer waits for a session that we establish."""
        self.due_ns: int | None = None
        self.answers_polls = False
        """Serial line: whether the peer answers polls."""
        self.failures = 0
        """Serial line: number of consecutive polls without an answer."""


@dataclass(slots=True, eq=False)
class CentaurusSession:
    """One session with one peer."""

    number: int
    address: Address
    peer: MetPeer
    level2: Level2
    initiated: bool
    """Whether this end established the session."""
    started_ns: int
    armed_ns: int
    """Time at which the watchdog was last started."""
    proven: bool = False
    """Whether the peer's address is proven; always if we established the session, and on a serial line."""
    clock_ns: int = 0
    """The newest reading of the peer's clock in this session."""
    received_bytes: int = 0
    sent_bytes: int = 0
    awaits_sent: bool = False
    is_queued: bool = False
    is_over: bool = False
    asked_ns: int | None = None
    """Time at which the unanswered control message was first sent; None if there is none."""
    due_ns: int | None = None
    best: tuple[int, int] | None = None
    """Uncertainty and offset of the most exact comparison of clocks, in ns; None before."""

    def deadline_ns(self, config: CentaurusConfig) -> int:
        """Return the time in ns at which the watchdog or the maximum age ends the session."""
        return min(self.armed_ns + config.watchdog_ns, self.started_ns + config.cap_ns)

    def may_send(self, octets: int) -> bool:
        """Return whether `octets` more bytes may be sent to the peer.

        A peer whose address is not proven gets at most the bytes that it sent.
        """
        return self.proven or self.sent_bytes + octets <= _AMPLIFICATION * self.received_bytes

    def on_packet(self, octets: int, clock_ns: int, now_ns: int) -> None:
        """Record a valid packet of `octets` bytes, with the sender's clock, and restart the watchdog."""
        self.clock_ns = max(self.clock_ns, clock_ns)
        if self.proven:
            self.peer.clock_ns = max(self.peer.clock_ns, self.clock_ns)
        self.armed_ns = now_ns
        self.received_bytes += octets

    def compare(self, clock_ns: int, now_ns: int) -> None:
        """Update the estimate of the peer's clock offset from one exchange of question and answer.

        The peer's clock showed `clock_ns` between the sending of our question and the arrival of the answer at
        `now_ns`. The caller must leave out answers that are older than an earlier one: they are late duplicates. For a
        retransmitted question the first sending time counts, because any of them may have been answered.
        """
        if self.asked_ns is None:
            return
        half_ns = (now_ns - self.asked_ns + 1) // 2
        if self.best is None or half_ns < self.best[0]:
            self.best = half_ns, clock_ns - (self.asked_ns + half_ns)
        self.asked_ns = None

    def comparison(self, now_ns: int) -> ClockCompared | None:
        """Return the clock offset from the exchange with the shortest round trip.

        None without an exchange.
        """
        if self.best is None:
            return None
        return ClockCompared(now_ns, self.address, self.best[1], self.best[0])


# When sessions and peers need attention: one live entry each, regardless of how often it was re-armed.


_SLACK = 64
"""Number of cancelled timers in the heap before it is rebuilt, so that small heaps are not rebuilt often."""


class Timed(Protocol):
    """Interface of an object with a timer."""

    due_ns: int | None
    """Time at which the timer expires; None if it does not run."""


T = TypeVar("T", bound=Timed)


class Timers(Generic[T]):
    """The timers of many objects, ordered by time of expiry."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, T]] = []
        self._count = 0
        self._dead = 0

    @property
    def next_ns(self) -> int | None:
        """Time in ns at which the first timer expires; None without timers.

        The timer may be cancelled already.
        """
        return self._heap[0][0] if self._heap else None

    def arm(self, timed: T, when_ns: int) -> None:
        """Set an object's timer, so that `pop` returns the object at `when_ns` at the latest.

        An earlier entry remains and is checked when it expires.
        """
        if timed.due_ns is not None:
            if timed.due_ns <= when_ns:
                return
            self._dead += 1
        timed.due_ns = when_ns
        self._count += 1
        heapq.heappush(self._heap, (when_ns, self._count, timed))

    def disarm(self, timed: T) -> None:
        """Cancel the timer of an object."""
        if timed.due_ns is None:
            return
        timed.due_ns = None
        self._dead += 1
        if self._dead > len(self._heap) // 2 + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].due_ns == entry[0]]
            heapq.heapify(self._heap)
            self._dead = 0

    def pop(self, now_ns: int) -> T | None:
        """Return an object whose timer has expired; None if there is none."""
        while self._heap and self._heap[0][0] <= now_ns:
            when_ns, _, timed = heapq.heappop(self._heap)
            if timed.due_ns == when_ns:
                timed.due_ns = None
                return timed
            self._dead -= 1
        return None


_TIMERS_A_STEP = 8
"""Maximum number of timers per step; each may free a megabyte of segments, which takes about 0.1 ms."""


class Outgoing(NamedTuple):
    """A packet to send over the medium."""

    octets: bytes
    address: Address
    session: CentaurusSession


class Worker(ABC):
    """The part of an endpoint that does not depend on the medium.

    See `UdpWorker`, `SerialMaster`, `SerialSlave`.
    """

    def __init__(self, config: CentaurusConfig | None = None, *, random_bytes: Callable[[int], bytes]) -> None:
        self.config = config or CentaurusConfig()
        self.sessions: dict[tuple[Address, int], CentaurusSession] = {}
        self.peers: dict[Address, MetPeer] = {}
        self._shared = EndpointState(self.config, random_bytes)
        self._ready: deque[CentaurusSession] = deque()
        self._timers: Timers[CentaurusSession | MetPeer] = Timers()
        self._indicated: set[CentaurusSession] = set()
        self._handles = 0

    @property
    def counters(self) -> Counters:
        """Counts of dropped packets and sessions, by reason."""
        return self._shared.counters

    # -- the application's side ------------------------------------------------------------------------

    def send(self, address: Address, kind: int, data: bytes, now_ns: int, *, lifetime_ns: int | None = None) -> int:
        """Put an object into the table of outgoing objects.

        Parameters
        ----------
        address
            The peer.
        kind : int
            Class of the object, 0 to 65535; objects of one class arrive in order.
        data : bytes
            The message.
        now_ns : int
            The time, ns since 1970; it becomes the object's time stamp.
        lifetime_ns : int, optional
            Time after which the object expires; by default `CentaurusConfig.lifetime_ns`.

        Returns
        -------
        int
            A handle, which the event `ObjectDelivered`, `Rejected` or `Expired` contains.

        Raises
        ------
        LocalProtocolError
            If the message or the table is too large, or the peer is unknown.
        """
        if not 0 <= kind <= 0xFFFF:
            raise LocalProtocolError(f"the message class must be 0 to 65535, but is {kind}")
        if len(data) > self.config.max_message_bytes:
            limit = self.config.max_message_bytes
            raise LocalProtocolError(
                f"the message has {len(data)} bytes, but the maximum is {limit} bytes; send a shorter message"
            )
        peer = self._peer_to_send_to(address, now_ns)
        if len(peer.outgoing) >= self.config.max_outgoing:
            raise LocalProtocolError(f"{address}: {len(peer.outgoing)} objects are already waiting; send later")
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
        """Return the events since the last call, which must be processed before the next step."""
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
        """Return the next packet to send, or None; the caller must call `sent` after sending it."""
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
        octets = self._framed(session, CentaurusPacket(session.number, now_ns, session.initiated, encode(message)))
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
        """Process SENT: the packet was passed to the stack (UDP), or is completely sent (serial line)."""
        session = packet.session
        session.awaits_sent = False
        if session.is_over:
            return
        session.armed_ns = now_ns
        session.level2.hear(Indication.SENT)
        self._after(session, now_ns)

    def next_timer(self) -> int | None:
        """Return the time at which `on_timer` must be called; None if no timer runs.

        Possibly nothing is due at that time.
        """
        return self._timers.next_ns

    def on_timer(self, now_ns: int) -> None:
        """End the sessions and objects whose lifetime has expired, a limited number per call."""
        for _ in range(_TIMERS_A_STEP):
            due = self._timers.pop(now_ns)
            if due is None:
                return
            if isinstance(due, MetPeer):
                self._expire(due, now_ns)
            else:
                self._watch(due, now_ns)

    # -- what the media share --------------------------------------------------------------------------

    def _unsealed(self, octets: bytes, station: bytes = b"") -> tuple[CentaurusPacket, Message] | None:
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
        self, session: CentaurusSession, packet: CentaurusPacket, message: Message, octets: int, now_ns: int
    ) -> None:
        """Pass a valid packet of a session to Level II."""
        is_newest = packet.clock_ns > session.clock_ns
        session.on_packet(octets, packet.clock_ns, now_ns)
        if session.level2.receive(message, now_ns) and is_newest:
            session.compare(packet.clock_ns, now_ns)
        self._after(session, now_ns)

    def _after(self, session: CentaurusSession, now_ns: int) -> None:
        """Process the results after a message of Level II: end the session, or queue its next packet."""
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

    def _new_session(self, role: SessionRole, peer: MetPeer, number: int, now_ns: int) -> CentaurusSession:
        initiated = role in (SessionRole.INITIATOR, SessionRole.MASTER)
        level2 = Level2(role, peer, self._shared)
        session = CentaurusSession(number, peer.address, peer, level2, initiated, now_ns, now_ns)
        session.clock_ns = peer.clock_ns  # a late copy of an earlier session's packet answers nothing in this one
        self.sessions[peer.address, number] = session
        return session

    def _establish(self, session: CentaurusSession, now_ns: int) -> None:
        """Make this the valid session of its peer, because the peer's address is proven or needs no proof."""
        if session.peer.session is not None:
            self._end(session.peer.session, "replaced", now_ns)
        session.proven = True
        session.peer.session = session
        session.peer.heard_ns = now_ns
        session.peer.clock_ns = max(session.peer.clock_ns, session.clock_ns)
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
        """Delete the expired objects of a peer.

        An object that is being sent remains, because it may still be acknowledged.
        """
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
        """Record that objects for a peer may wait; not needed on a medium that polls all peers."""

    def _new_number(self, address: Address) -> int:
        """Return a session number that cannot be guessed and is not in use."""
        while True:
            number = int.from_bytes(self._shared.random_bytes(4), "big")
            if (address, number) not in self.sessions:
                return number

    @abstractmethod
    def _peer_to_send_to(self, address: Address, now_ns: int) -> MetPeer:
        """Return the peer of an address; raise LocalProtocolError if it is unknown."""

    @abstractmethod
    def _framed(self, session: CentaurusSession, packet: CentaurusPacket) -> bytes:
        """Return a packet in the format of the medium."""

    @abstractmethod
    def _begin_sessions(self, now_ns: int) -> bool:
        """Establish one session that is due; return whether there was one."""
