"""Two ends of a TCP connection, joined by a path whose every packet's fate a test decides."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer.lab.tcp.connection import Connection
from multitracer.lab.tcp.packet import Endpoint, TcpPacket, build_packet, parse_packet
from multitracer.lab.tcp.profile import BSD, TcpProfile
from multitracer.lab.tcp.state import ConnectionState
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

A = Endpoint(bytes([10, 0, 0, 1]), 1025)
B = Endpoint(bytes([10, 0, 0, 2]), 80)
START_NS = 1_000 * NS_PER_S

Fate = list[int]
"""Extra delays in ns, one per copy that arrives; empty if the packet is lost."""


@dataclass
class Seen:
    """A packet as it left."""

    time_ns: int
    packet: TcpPacket

    @property
    def seconds(self) -> float:
        return (self.time_ns - START_NS) / NS_PER_S


_MOST_AT_ONCE = 10_000
"""More than any window holds."""


@dataclass
class Pair:
    """A connects to B over a path with a fixed one-way delay; `fate` says what happens to packet n."""

    client: TcpProfile = BSD
    server: TcpProfile | None = None
    delay_ns: int = 50 * NS_PER_MS
    fate: Callable[[int, TcpPacket], Fate] = lambda n, packet: [0]
    isn: int = 7
    reads: bool = True
    """B's application reads all that arrives."""
    on_step: Callable[[], None] = lambda: None
    """Called after each event."""
    now_ns: int = START_NS
    sent: dict[str, list[Seen]] = field(default_factory=lambda: {"a": [], "b": []})
    received: dict[str, bytearray] = field(default_factory=lambda: {"a": bytearray(), "b": bytearray()})

    def __post_init__(self) -> None:
        self.a = Connection.connect(self.client, local=A, remote=B, isn=self.isn)
        self.b = Connection.listen(self.server or self.client, local=B, isn=self.isn + 99)
        self._events: list[tuple[int, int, str, bytes]] = []
        self._count = itertools.count()
        self._numbers = itertools.count()

    def _drain(self) -> None:
        for name, connection in (("a", self.a), ("b", self.b)):
            if name == "a" or self.reads:
                self.received[name] += connection.read()
            at_once = 0
            while (packet := connection.next_packet(self.now_ns)) is not None:
                at_once += 1
                assert at_once < _MOST_AT_ONCE, f"{name} sends without end: {packet.segment}"
                self.sent[name].append(Seen(self.now_ns, packet))
                for extra_ns in self.fate(next(self._numbers), packet):
                    arrival = (self.now_ns + self.delay_ns + extra_ns, next(self._count))
                    heapq.heappush(self._events, (*arrival, "b" if name == "a" else "a", build_packet(packet)))

    def next_ns(self) -> int | None:
        """Return when the next thing happens, or None."""
        self._drain()
        timers = (self.a.next_timer_ns(), self.b.next_timer_ns())
        arrival = self._events[0][0] if self._events else None
        return min((t for t in (*timers, arrival) if t is not None), default=None)

    def step(self) -> bool:
        """Go to the next event; False when there is none."""
        next_ns = self.next_ns()
        if next_ns is None:
            return False
        self.now_ns = max(self.now_ns, next_ns)
        while self._events and self._events[0][0] <= self.now_ns:
            _, _, name, data = heapq.heappop(self._events)
            receiver = self.a if name == "a" else self.b
            receiver.receive(parse_packet(data), now_ns=self.now_ns)
            self._drain()
        for connection in (self.a, self.b):
            timer = connection.next_timer_ns()
            if timer is not None and timer <= self.now_ns:
                connection.on_timer(self.now_ns)
        self._drain()
        self.on_step()
        return True

    def run(self, *, seconds: float = 3_600.0, until: Callable[[], bool] = lambda: False) -> None:
        """Run until `until` holds, nothing is left to happen, or the time is over."""
        end_ns = self.now_ns + int(seconds * NS_PER_S)
        while not until():
            next_ns = self.next_ns()
            if next_ns is None or next_ns > end_ns:
                self.now_ns = end_ns
                return
            self.step()

    def transfer(self, data: bytes, *, seconds: float = 36_000.0) -> None:
        """Send `data` from A to B, then close both ends."""
        left = memoryview(data)
        while self.now_ns < START_NS + int(seconds * NS_PER_S):
            if left and self.a.state is not ConnectionState.CLOSED:
                left = left[self.a.write(bytes(left[: 1 << 16])) :]
            if not left and not self.a.sender.stream.closed:
                self.a.close()
            if self.b.at_end and not self.b.sender.stream.closed:
                self.b.close()
            if not self.step():
                return

    def data_sent(self) -> list[Seen]:
        """Return A's packets with payload."""
        return [seen for seen in self.sent["a"] if seen.packet.segment.payload]


def lossy(*numbers: int) -> Callable[[int, TcpPacket], Fate]:
    """Lose the packets with these numbers, counted from 0 over both directions."""
    return lambda n, _: [] if n in numbers else [0]


def lose_data(*numbers: int) -> Callable[[int, TcpPacket], Fate]:
    """Lose the data packets with these numbers, counted from 0."""
    count = itertools.count()

    def fate(_: int, packet: TcpPacket) -> Fate:
        return [] if packet.segment.payload and next(count) in numbers else [0]

    return fate
