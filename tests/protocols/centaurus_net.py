"""Endpoints of CentaurusComm joined by a network that loses, delays, repeats and damages packets."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from multitracer.protocols.centaurus import (
    CentaurusConfig,
    Delivered,
    Event,
    Expired,
    Received,
    Rejected,
    UdpWorker,
)
from tests.protocols import centaurus_wire as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MS = 1_000_000
S = 1_000_000_000
START_NS = 1_000 * S
LATENCY_NS = 50 * MS


class Copy(NamedTuple):
    """One copy of a packet that the network delivers."""

    delay_ns: int
    octets: bytes


Fate = "Callable[[bytes], Iterable[Copy]]"


def perfect(octets: bytes) -> list[Copy]:
    return [Copy(LATENCY_NS, octets)]


class Scripted:
    """The first packets fare as told, the others well.

    A fate is (copies, delay in ms, octet to damage or None).
    """

    def __init__(self, fates: Iterable[tuple[int, int, int | None]]) -> None:
        self._fates = iter(fates)

    def __call__(self, octets: bytes) -> list[Copy]:
        fate = next(self._fates, None)
        if fate is None:
            return perfect(octets)
        copies, delay_ms, damaged = fate
        if damaged is not None:
            at = damaged % len(octets)
            octets = octets[:at] + bytes((octets[at] ^ (1 + damaged % 255),)) + octets[at + 1 :]
        return [Copy(LATENCY_NS + (i + 1) * delay_ms * MS, octets) for i in range(copies)]


class Network:
    """UDP endpoints by name, and what happened to them."""

    def __init__(
        self, *names: str, config: CentaurusConfig | None = None, fate: Any = perfect, seed: int = 0
    ) -> None:
        entropy = random.Random(seed)
        self.ends = {name: UdpWorker(config, random_bytes=entropy.randbytes) for name in names}
        self.now_ns = START_NS
        self.fate = fate
        self.events: dict[str, list[Event]] = defaultdict(list)
        self.wire: list[tuple[int, str, str, bytes]] = []
        self.on_event: Callable[[str, Event], None] = lambda name, event: None
        self.sent_again = 0
        """Segments sent although they had been received in an earlier session."""
        self._queue: list[tuple[int, int, str, str, bytes]] = []
        self._count = 0
        self._stored: dict[tuple[Any, ...], int] = {}
        self._objects: dict[tuple[str, str, int], tuple[int, int]] = {}

    def post(self, source: str, target: str, octets: bytes, delay_ns: int = LATENCY_NS) -> None:
        """Put a packet on its way, whoever made it."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._count, source, target, octets))

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        until_ns = self.now_ns + round(seconds * S)
        while True:
            self._pump()
            times = [end.next_timer() for end in self.ends.values()] + [
                self._queue[0][0] if self._queue else None
            ]
            soonest = min((time for time in times if time is not None), default=until_ns)
            if soonest >= until_ns:
                self.now_ns = until_ns
                return
            self.now_ns = max(self.now_ns, soonest)
            self._deliver()
            for end in self.ends.values():
                end.on_timer(self.now_ns)
            self._check_ages()

    def _deliver(self) -> None:
        while self._queue and self._queue[0][0] <= self.now_ns:
            _, _, source, target, octets = heapq.heappop(self._queue)
            end = self.ends.get(target)
            if end is None:
                continue
            before = _holders(end, source, octets)
            end.receive(octets, source, self.now_ns)
            for part in _holders(end, source, octets) - before:
                self._stored[source, target, *part] = _session_of(octets)
            self._pump()

    def _pump(self) -> None:
        for name, end in self.ends.items():
            self._tell(name, end)
            while packet := end.outgoing(self.now_ns):
                end.sent(packet, self.now_ns)
                target = str(packet.address)
                self.wire.append((self.now_ns, name, target, packet.octets))
                self._count_repetition(name, target, packet.octets)
                for copy in self.fate(packet.octets):
                    self.post(name, target, copy.octets, copy.delay_ns)
                self._tell(name, end)

    def _tell(self, name: str, end: UdpWorker) -> None:
        for event in end.take_events():
            self.events[name].append(event)
            self.on_event(name, event)

    def _count_repetition(self, source: str, target: str, octets: bytes) -> None:
        try:
            seen = wire.read_packet(octets)
        except ValueError:
            return  # sealed with a key
        key = (source, target, seen["session"])
        if seen["message"] == "OBJ":
            self._objects[key] = seen["class"], seen["stamp"]
        elif seen["message"] == "PK":
            stored_in = self._stored.get((source, target, *self._objects[key], seen["slot"]))
            self.sent_again += stored_in is not None and stored_in != seen["session"]

    def _check_ages(self) -> None:
        for end in self.ends.values():
            for session in end.sessions.values():
                assert self.now_ns < session.armed_ns + end.config.watchdog_ns, "silent for too long"
                assert self.now_ns < session.started_ns + end.config.cap_ns, "too old"

    # -- what tests ask --------------------------------------------------------------------------------

    def received(self, name: str) -> list[bytes]:
        return [event.data for event in self.events[name] if isinstance(event, Received)]

    def fates_of(self, name: str) -> dict[int, list[str]]:
        """Return what an end was told of each object that it sent."""
        told: dict[int, list[str]] = defaultdict(list)
        for event in self.events[name]:
            if isinstance(event, Delivered | Rejected | Expired):
                told[event.handle].append(type(event).__name__)
        return told

    def messages(self) -> list[str]:
        """Return the messages on the wire as `from: NAME`."""
        return [f"{source}: {wire.read_packet(octets)['message']}" for _, source, _, octets in self.wire]


def _holders(end: UdpWorker, source: str, octets: bytes) -> set[tuple[int, int, int]]:
    """Return (class, stamp, slot) of the parts that hold the slot of a PK."""
    peer = end.peers.get(source)
    if peer is None or octets[17:19] != b"PK":
        return set()
    slot = int.from_bytes(octets[19:21], "big")
    parts = peer.acceptance.partials.values()
    return {(part.kind, part.stamp_ns, slot) for part in parts if slot in part.segments}


def _session_of(octets: bytes) -> int:
    return int.from_bytes(octets[1:5], "big")
