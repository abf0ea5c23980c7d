"""Endpoints of CentaurusComm joined by a network that loses, delays, repeats and damages packets."""

from __future__ import annotations

import contextlib
import heapq
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from multitracer.protocols.centaurus.events import Event, Expired, ObjectDelivered, Received, Rejected
from multitracer.protocols.centaurus.level1_udp import UdpWorker
from tests.protocols import centaurus_wire as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from multitracer.protocols.centaurus.messages import CentaurusConfig

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


class _Seen:
    """What the wire told of one end's session."""

    def __init__(self, now_ns: int) -> None:
        self.began_ns = self.heard_ns = now_ns
        self.said: dict[bytes, bytes] = {}


class Ages:
    """When sessions began and were last heard of, as the wire tells; and that no control message is repeated.

    It asks nothing of the endpoints but which sessions they have. What arrives counts if the second decoder
    can read it, or if it is sealed. A duplicate of an OBJ may open a session that is over once more.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, int], _Seen] = {}

    def arrived(self, name: str, peer: str, octets: bytes, now_ns: int, sessions: Iterable[Any]) -> None:
        """Note what an end that has these sessions is about to receive."""
        key = name, peer, _session_of(octets)
        if key[1:] not in sessions:
            self._seen.pop(key, None)
        with contextlib.suppress(ValueError):
            if not (len(octets) > 16 and octets[0] & 2):
                wire.read_packet(octets)
            self._seen.setdefault(key, _Seen(now_ns)).heard_ns = now_ns

    def left(self, name: str, peer: str, octets: bytes, now_ns: int) -> None:
        """Note what an end sends."""
        seen = self._seen.setdefault((name, peer, _session_of(octets)), _Seen(now_ns))
        seen.heard_ns = now_ns
        letters, body = octets[17:19], octets[17:]
        assert letters == b"PK" or seen.said.get(letters) != body, f"{letters!r} sent again in one session"
        seen.said[letters] = body

    def check(self, name: str, sessions: Iterable[Any], config: CentaurusConfig, now_ns: int) -> None:
        """Fail if a session has been silent for too long, or is too old."""
        for peer, number in sessions:
            seen = self._seen.get((name, peer, number))
            if seen is not None:  # else a test handed its packets over by itself
                assert now_ns < seen.heard_ns + config.watchdog_ns, "silent for too long"
                assert now_ns < seen.began_ns + config.cap_ns, "too old"


class Network:
    """UDP endpoints by name, and what happened to them."""

    def __init__(self, *names: str, config: CentaurusConfig | None = None, fate: Any = perfect, seed: int = 0) -> None:
        entropy = random.Random(seed)
        self.ends = {name: UdpWorker(config, random_bytes=entropy.randbytes) for name in names}
        self.now_ns = START_NS
        self.fate = fate
        self.events: dict[str, list[Event]] = defaultdict(list)
        self.wire: list[tuple[int, str, str, bytes]] = []
        self.on_event: Callable[[str, Event], None] = lambda name, event: None
        self.sent_again = 0
        """Segments sent although they had been received in an earlier session."""
        self.ages = Ages()
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
            times = [end.next_timer() for end in self.ends.values()] + [self._queue[0][0] if self._queue else None]
            soonest = min((time for time in times if time is not None), default=until_ns)
            if soonest >= until_ns:
                self.now_ns = until_ns
                return
            self.now_ns = max(self.now_ns, soonest)
            self._check_ages(self.now_ns - 1)  # nothing happened until now
            self._deliver()
            for end in self.ends.values():
                end.on_timer(self.now_ns)
            self._check_ages(self.now_ns)

    def _deliver(self) -> None:
        while self._queue and self._queue[0][0] <= self.now_ns:
            _, _, source, target, octets = heapq.heappop(self._queue)
            end = self.ends.get(target)
            if end is None:
                continue
            before = _holders(end, source, octets)
            self.ages.arrived(target, source, octets, self.now_ns, end.sessions)
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
                self.ages.left(name, target, packet.octets, self.now_ns)
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

    def _check_ages(self, now_ns: int) -> None:
        for name, end in self.ends.items():
            self.ages.check(name, end.sessions, end.config, now_ns)

    # -- what tests ask --------------------------------------------------------------------------------

    def received(self, name: str) -> list[bytes]:
        return [event.data for event in self.events[name] if isinstance(event, Received)]

    def fates_of(self, name: str) -> dict[int, list[str]]:
        """Return what an end was told of each object that it sent."""
        told: dict[int, list[str]] = defaultdict(list)
        for event in self.events[name]:
            if isinstance(event, ObjectDelivered | Rejected | Expired):
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
