"""Level I on serial lines: a master visits its slaves in turn; only it establishes sessions.

Rules of this file:

- An address is (line, station): the driver's number of a line, and the station octet of the frames, which
  names the slave in both directions. One line may carry one slave or several.
- One session at a time over all lines, as paper 000 describes it. The known slaves are visited round-robin;
  between rounds one station that was not found yet is probed.
- SENT is indicated when the output of the line is drained, so no packet waits in the buffer of the driver.
- A line has no queue in which a packet could wait: a slave whose turn it is and from which no octet arrives for
  `probe_ns` did not get our packet, or its answer was damaged. The master then ends the session and polls again,
  and the next session resumes. The watchdog, which is ten times as long, is left to the slave.
- A slave needs no proof of its address, because it is at the end of the line. The nonces are still used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.errors import LocalProtocolError
from multitracer.protocols.centaurus.events import PeerFound, PeerLost
from multitracer.protocols.centaurus.level2 import Indication, SessionRole
from multitracer.protocols.centaurus.messages import Poll
from multitracer.protocols.centaurus.packet import CentaurusFrameReader, frame, seal
from multitracer.protocols.centaurus.worker import CentaurusSession, MetPeer, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.protocols.centaurus.events import Address
    from multitracer.protocols.centaurus.messages import CentaurusConfig
    from multitracer.protocols.centaurus.packet import CentaurusPacket

_LOST_AFTER = 3  # polls without an answer: one or two are lost to noise. Ours; not measured
_PROBE_PAUSES = 5
"""Time between two probes of unknown stations while slaves are known, in units of `probe_ns`."""

Station = tuple[int, int]


class SerialWorker(Worker):
    """Base of master and slave: sends and receives frames on serial lines."""

    def __init__(self, config: CentaurusConfig | None, *, random_bytes: Callable[[int], bytes]) -> None:
        super().__init__(config, random_bytes=random_bytes)
        self._readers: dict[int, CentaurusFrameReader] = {}

    def _frames(self, octets: bytes, line: int) -> list[tuple[Station, bytes]]:
        reader = self._readers.setdefault(line, CentaurusFrameReader())
        return [((line, station), packet) for station, packet in reader.feed(octets)]

    def _framed(self, session: CentaurusSession, packet: CentaurusPacket) -> bytes:
        station = _station_of(session.address)
        return frame(station, seal(packet, key=self.config.key, station=bytes((station,))))

    def _peer_to_send_to(self, address: Address, now_ns: int) -> MetPeer:
        peer = self.peers.get(address)
        if peer is None:
            known = ", ".join(map(str, self.peers))
            raise LocalProtocolError(f"{address}: unknown station; choose one of {known}")
        return peer


def _station_of(address: Address) -> int:
    return _station(address)[1]


def _line_of(address: Address) -> int:
    return _station(address)[0]


def _station(address: Address) -> Station:
    assert isinstance(address, tuple)
    line, station = address
    assert isinstance(line, int)
    assert isinstance(station, int)
    return line, station


class SerialMaster(SerialWorker):
    """The endpoint that establishes every session.

    Parameters
    ----------
    stations : sequence of (line, station)
        Possible addresses of slaves; those that answer are visited.
    config, random_bytes
        See `UdpWorker`.
    """

    def __init__(
        self,
        stations: Sequence[Station],
        config: CentaurusConfig | None = None,
        *,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        super().__init__(config, random_bytes=random_bytes)
        for address in stations:
            self.peers[address] = MetPeer(address)
        self._order = list(self.peers.values())
        self._visiting: CentaurusSession | None = None
        self._octets_ns: dict[int, int] = {}
        """Time at which the last octets arrived on a line, damaged ones included."""
        self._visit_ns = 0
        self._probe_ns = 0

    def receive(self, octets: bytes, line: int, now_ns: int) -> None:
        """Process octets that arrived on the serial line number `line`."""
        self._octets_ns[line] = now_ns
        for address, octets_of_packet in self._frames(octets, line):
            unsealed = self._unsealed(octets_of_packet, bytes((address[1],)))
            if unsealed is None:
                continue
            packet, message = unsealed
            session = self.sessions.get((address, packet.session))
            if session is None or packet.from_initiator:
                self.counters.unknown_session += 1
                continue
            self._note_answer(session.peer, now_ns)
            self._on_packet(session, packet, message, len(octets_of_packet), now_ns)

    def _note_answer(self, peer: MetPeer, now_ns: int) -> None:
        peer.failures = 0
        if not peer.answers_polls:
            peer.answers_polls = True
            self._shared.events.append(PeerFound(now_ns, peer.address))

    def next_timer(self) -> int | None:
        """Return the time at which `on_timer` or `outgoing` must be called; None if no timer runs."""
        due_ns = self._visit_ns if self._visiting is None else self._answer_due_ns(self._visiting)
        armed_ns = super().next_timer()
        return due_ns if armed_ns is None else min(due_ns, armed_ns)

    def on_timer(self, now_ns: int) -> None:
        """End the sessions and objects whose lifetime has expired."""
        super().on_timer(now_ns)
        session = self._visiting
        if session is not None and self._answer_due_ns(session) <= now_ns:
            self._end(session, "unanswered", now_ns)

    def _answer_due_ns(self, session: CentaurusSession) -> int:
        """Return the time at which a session ends if no further octet arrives from the slave."""
        deadline_ns = session.deadline_ns(self.config)
        if session.awaits_sent or session.level2.has_output or session.level2.indicated:
            return deadline_ns  # it is not the slave's turn
        octets_ns = self._octets_ns.get(_line_of(session.address), 0)
        return min(deadline_ns, max(session.armed_ns, octets_ns) + self.config.probe_ns)

    def _end(self, session: CentaurusSession, cause: str, now_ns: int) -> None:
        silent = session.level2.is_unanswered
        super()._end(session, cause, now_ns)
        self._visiting = None
        waits = any(len(peer.outgoing) for peer in self._order if peer.answers_polls)
        self._visit_ns = now_ns if waits else now_ns + self.config.visit_ns
        if not session.peer.answers_polls:
            self._probe_ns = now_ns + _PROBE_PAUSES * self.config.probe_ns
        elif silent:
            self._note_silence(session.peer, now_ns)

    def _note_silence(self, peer: MetPeer, now_ns: int) -> None:
        peer.failures += 1
        if peer.failures >= _LOST_AFTER:
            peer.answers_polls, peer.failures = False, 0
            self._shared.events.append(PeerLost(now_ns, peer.address))

    def _begin_sessions(self, now_ns: int) -> bool:
        if self._visiting is not None or now_ns < self._visit_ns:
            return False
        peer = self._next_stop(now_ns)
        if peer is None:
            self._visit_ns = self._probe_ns
            return False
        session = self._new_session(SessionRole.MASTER, peer, self._new_number(peer.address), now_ns)
        self._establish(session, now_ns)
        self._visiting = session
        session.level2.hear(Indication.HELO)
        self._queue(session)
        return True

    def _next_stop(self, now_ns: int) -> MetPeer | None:
        """Return the slave to visit next, or None.

        Slaves that have answered are visited in turn; sometimes the next one is a slave that has never answered.
        """
        any_found = any(peer.answers_polls for peer in self._order)
        probes = not any_found or now_ns >= self._probe_ns
        for i, peer in enumerate(self._order):
            if peer.answers_polls or probes:
                self._order.append(self._order.pop(i))
                return peer
        return None


class SerialSlave(SerialWorker):
    """The endpoint that answers polls.

    Parameters
    ----------
    station : int
        Number of the slave on the line, 0 to 255.
    config, random_bytes
        See `UdpWorker`.
    """

    LINE = 0

    def __init__(
        self, station: int, config: CentaurusConfig | None = None, *, random_bytes: Callable[[int], bytes]
    ) -> None:
        super().__init__(config, random_bytes=random_bytes)
        self.master: Station = (self.LINE, station)
        """Address of the master, for sending."""
        self.peers[self.master] = MetPeer(self.master)

    def receive(self, octets: bytes, line: int, now_ns: int) -> None:
        """Process octets that arrived on the serial line."""
        for address, octets_of_packet in self._frames(octets, line):
            if address != self.master:
                continue  # another slave's
            unsealed = self._unsealed(octets_of_packet, bytes((address[1],)))
            if unsealed is None:
                continue
            packet, message = unsealed
            session = self.sessions.get((address, packet.session))
            if session is None and isinstance(message, Poll) and packet.from_initiator:
                session = self._polled(packet, now_ns)
            if session is None or not packet.from_initiator:
                self.counters.unknown_session += 1
                continue
            self._on_packet(session, packet, message, len(octets_of_packet), now_ns)

    def _polled(self, packet: CentaurusPacket, now_ns: int) -> CentaurusSession | None:
        """Return the new session that a POLL begins; None if the POLL is older than the current session."""
        peer = self.peers[self.master]
        if peer.session is not None and packet.clock_ns <= peer.session.clock_ns:
            return None
        session = self._new_session(SessionRole.SLAVE, peer, packet.session, now_ns)
        self._establish(session, now_ns)
        return session

    def _begin_sessions(self, now_ns: int) -> bool:
        return False  # only the master begins
