"""A master and its slaves joined by serial lines of 9600 b/s that damage octets, in virtual time."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from multitracer.protocols.centaurus.events import Event, Expired, ObjectDelivered, Received, Rejected
from multitracer.protocols.centaurus.level1_serial import SerialMaster, SerialSlave, SerialWorker
from tests.protocols import centaurus_wire as wire
from tests.protocols.centaurus_net import START_NS, S

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from multitracer.protocols.centaurus.messages import CentaurusConfig
    from multitracer.protocols.centaurus.worker import MetPeer, Outgoing

NS_PER_OCTET = 10 * S // 9600
Name: TypeAlias = str | tuple[int, int]
"""`master`, or the line and the station of a slave."""


def _line_of(address: Hashable) -> int:
    assert isinstance(address, tuple)
    line, _ = address
    assert isinstance(line, int)
    return line


class Lines:
    """One master, and slaves by (line, station); everyone on a line hears what the master sends there."""

    def __init__(
        self,
        *stations: tuple[int, int],
        absent: tuple[tuple[int, int], ...] = (),
        config: CentaurusConfig | None = None,
        damage: Callable[[bytes], bytes] = lambda octets: octets,
    ) -> None:
        entropy = random.Random(5).randbytes
        self.master = SerialMaster([*stations, *absent], config, random_bytes=entropy)
        self.slaves = {each: SerialSlave(each[1], config, random_bytes=entropy) for each in stations}
        self.now_ns = START_NS
        self.damage = damage
        self.events: dict[Name, list[Event]] = defaultdict(list)
        self.wire: list[tuple[str, int, bytes]] = []
        self.sent_again = 0
        """Segments sent although they had been received in an earlier session."""
        self._offered: dict[object, tuple[int, int]] = {}
        self._stored: dict[object, int] = {}
        self._arrivals: list[tuple[int, int, Name, Outgoing, bytes]] = []
        self._free_ns: dict[object, int] = defaultdict(int)
        self._count = 0

    @property
    def ends(self) -> dict[Name, SerialWorker]:
        ends: dict[Name, SerialWorker] = {"master": self.master}
        return ends | dict(self.slaves)

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        until_ns = self.now_ns + round(seconds * S)
        while True:
            for name, end in self.ends.items():
                self._transmit(name, end)
            soonest = min(time for time in (*self._times(), until_ns) if time is not None)
            if soonest >= until_ns:
                self.now_ns = until_ns
                return
            self.now_ns = max(self.now_ns, soonest)
            self._arrive()
            for end in self.ends.values():
                end.on_timer(self.now_ns)
                self._check_ages(end)

    def _times(self) -> list[int | None]:
        return [*(end.next_timer() for end in self.ends.values()), self._arrivals[0][0] if self._arrivals else None]

    def _transmit(self, name: Name, end: SerialWorker) -> None:
        self.events[name] += end.take_events()
        while packet := end.outgoing(self.now_ns):
            line = _line_of(packet.address if name == "master" else name)
            self.wire.append(("master" if name == "master" else "slave", line, packet.octets))
            self._count_repetition(name, packet)
            begin_ns = max(self.now_ns, self._free_ns[name, line])
            self._free_ns[name, line] = end_ns = begin_ns + len(packet.octets) * NS_PER_OCTET
            self._count += 1
            heapq.heappush(self._arrivals, (end_ns, self._count, name, packet, self.damage(packet.octets)))

    def _arrive(self) -> None:
        """What left completely is SENT for its sender, and heard by the other side."""
        while self._arrivals and self._arrivals[0][0] <= self.now_ns:
            _, _, name, packet, octets = heapq.heappop(self._arrivals)
            if name not in self.ends:  # a slave that was taken away
                continue
            self.ends[name].sent(packet, self.now_ns)
            if name != "master":
                self.master.receive(octets, _line_of(name), self.now_ns)
                self._note_stored("master", name, self.master.peers[name])
                continue
            for address, slave in self.slaves.items():
                if address[0] == _line_of(packet.address):
                    slave.receive(octets, 0, self.now_ns)
                    self._note_stored(address, "master", slave.peers[slave.master])

    def _count_repetition(self, name: Name, packet: Outgoing) -> None:
        """Count a segment that left again in another session than that in which it arrived."""
        to = packet.address if name == "master" else "master"
        ((_, octets),) = wire.read_frames(packet.octets)
        seen, session = octets[17:], int.from_bytes(octets[1:5], "big")
        if seen[:2] == b"OB":
            self._offered[name, to] = int.from_bytes(seen[2:4], "big"), int.from_bytes(seen[4:12], "big")
        elif seen[:2] == b"PK":
            slot = int.from_bytes(seen[2:4], "big")
            self.sent_again += self._stored.get((name, to, *self._offered[name, to], slot), session) != session

    def _note_stored(self, name: Name, source: Name, peer: MetPeer) -> None:
        number = peer.session.number if peer.session is not None else 0
        for part in peer.acceptance.partials.values():
            for slot in part.segments:
                self._stored.setdefault((source, name, part.kind, part.stamp_ns, slot), number)

    def _check_ages(self, end: SerialWorker) -> None:
        for session in end.sessions.values():
            assert self.now_ns < session.deadline_ns(end.config), "a session outlived its watchdog or cap"

    def received(self, name: Name) -> list[bytes]:
        return [event.data for event in self.events[name] if isinstance(event, Received)]

    def fates_of(self, name: Name) -> dict[int, list[str]]:
        told: dict[int, list[str]] = defaultdict(list)
        for event in self.events[name]:
            if isinstance(event, ObjectDelivered | Rejected | Expired):
                told[event.handle].append(type(event).__name__)
        return told
