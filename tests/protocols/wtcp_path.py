"""Pairs of WTCP ends over a small path in virtual time: delay, rate, queue, loss, reordering, outages."""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer.protocols.wtcp.connection import WtcpConnection
from multitracer.protocols.wtcp.packet import DATA_BYTES, HEAD_BYTES
from multitracer.protocols.wtcp.state import IP_UDP_BYTES, WtcpConfig, WtcpEvent
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PAYLOAD_BYTES = 500 - IP_UDP_BYTES - HEAD_BYTES - DATA_BYTES
"""What a packet of the paper's length carries for the application."""
_MOST_AT_ONCE = 1000
"""More packets than an end may send at one instant."""


@dataclass(frozen=True)
class LocalClock:
    """A clock that is off by `offset_ns` and fast by `skew`."""

    offset_ns: int = 0
    skew: float = 0.0

    def of(self, now_ns: int) -> int:
        return self.offset_ns + now_ns + int(now_ns * self.skew)

    def back(self, local_ns: int) -> int:
        return int((local_ns - self.offset_ns) / (1 + self.skew)) + 1 if self.skew else local_ns - self.offset_ns


@dataclass
class Direction:
    """One direction of a path, shared by all pairs: queue, then rate, then loss, then delay."""

    delay_ns: int = 150 * NS_PER_MS
    bits_per_s: float | None = None
    queue_packets: int = 15
    loss: float = 0.0
    jitter_ns: int = 0
    duplicates: float = 0.0
    outages_s: Sequence[tuple[float, float]] = ()
    fate: Callable[[int], list[int]] | None = None
    """Extra delays of the copies of packet n; an empty list loses it."""
    overflows: int = 0
    sent: int = 0
    sent_bits: int = 0
    _free_ns: int = 0
    _waiting: list[int] = field(default_factory=list)

    def arrivals(self, octets: int, now_ns: int, luck: random.Random) -> list[int]:
        """Return when the copies of a packet of so many octets arrive."""
        number, self.sent = self.sent, self.sent + 1
        left_ns = self._transmitted(octets + IP_UDP_BYTES, now_ns)
        if left_ns is None:
            return []
        if any(begin * NS_PER_S <= left_ns < end * NS_PER_S for begin, end in self.outages_s):
            return []
        extra = self.fate(number) if self.fate else [0]
        if self.loss and luck.random() < self.loss:
            extra = []
        if extra and self.duplicates and luck.random() < self.duplicates:
            extra = [*extra, luck.randrange(NS_PER_S)]
        late = [luck.randrange(self.jitter_ns) if self.jitter_ns else 0 for _ in extra]
        return [left_ns + self.delay_ns + a + b for a, b in zip(extra, late, strict=True)]

    def _transmitted(self, octets: int, now_ns: int) -> int | None:
        """Return when the packet has left, None if the queue is full."""
        if self.bits_per_s is None:
            return now_ns
        self._waiting = [each for each in self._waiting if each > now_ns]
        if len(self._waiting) > self.queue_packets:
            self.overflows += 1
            return None
        self._free_ns = max(self._free_ns, now_ns) + round(octets * BITS_PER_BYTE * NS_PER_S / self.bits_per_s)
        self._waiting.append(self._free_ns)
        self.sent_bits += octets * BITS_PER_BYTE
        return self._free_ns


@dataclass
class Exchange:
    """A sends to B; what B sends back is counted, too."""

    a: WtcpConnection
    b: WtcpConnection
    clocks: tuple[LocalClock, LocalClock] = (LocalClock(), LocalClock())
    begin_ns: int = 0
    data: bytes | None = None
    """None: without end."""
    reply: bytes = b""
    reads: bool = True
    received: dict[str, bytearray] = field(default_factory=lambda: {"a": bytearray(), "b": bytearray()})
    left: dict[str, bytes] = field(default_factory=dict)
    keep: bool = True
    delivered_bytes: int = 0
    marks: list[tuple[int, int]] = field(default_factory=list)
    """Time and bytes delivered to B, at each delivery."""
    events: list[WtcpEvent] = field(default_factory=list)


class Path:
    """Ends, two directions and the time.

    Parameters
    ----------
    forward, backward : Direction
        From A to B and back.
    seed : int
        Of all luck.
    """

    def __init__(self, forward: Direction | None = None, backward: Direction | None = None, *, seed: int = 1) -> None:
        self.forward = forward or Direction()
        self.backward = backward or Direction()
        self.luck = random.Random(seed)
        self.now_ns = 0
        self.exchanges: list[Exchange] = []
        self.log: list[tuple[int, str, bytes]] = []
        self.keep_log = False
        self._heap: list[tuple[int, int, Exchange, str, bytes]] = []
        self._count = itertools.count()

    def add(self, config: WtcpConfig | None = None, other: WtcpConfig | None = None, **options: object) -> Exchange:
        """Add a pair of ends; the talk begins at `begin_ns`."""
        a = WtcpConnection(config, initiator=True, random_bytes=self.luck.randbytes)
        b = WtcpConnection(other or config, initiator=False, random_bytes=self.luck.randbytes)
        exchange = Exchange(a, b, **options)  # type: ignore[arg-type]
        exchange.left = {"a": exchange.data or b"", "b": exchange.reply}
        self.exchanges.append(exchange)
        heapq.heappush(self._heap, (exchange.begin_ns, next(self._count), exchange, "open", b""))
        return exchange

    def run(self, seconds: float, *, until: Callable[[], bool] = lambda: False) -> None:
        """Let the time pass until it is over, nothing is left to happen, or `until` holds."""
        end_ns = self.now_ns + round(seconds * NS_PER_S)
        while not until():
            next_ns = self._next_ns()
            if next_ns is None or next_ns > end_ns:
                self.now_ns = end_ns
                return
            self.now_ns = max(self.now_ns, next_ns)
            self._step()

    def _next_ns(self) -> int | None:
        times = [self._heap[0][0]] if self._heap else []
        for exchange in self.exchanges:
            for end, clock in zip((exchange.a, exchange.b), exchange.clocks, strict=True):
                if end.next_ns is not None:
                    times.append(clock.back(end.next_ns))
        return min(times, default=None)

    def _step(self) -> None:
        touched = [exchange for exchange in self.exchanges if self._is_due(exchange)]
        while self._heap and self._heap[0][0] <= self.now_ns:
            _, _, exchange, name, octets = heapq.heappop(self._heap)
            self._arrive(exchange, name, octets)
            if exchange not in touched:
                touched.append(exchange)
        for exchange in touched:
            self._work(exchange)

    def _is_due(self, exchange: Exchange) -> bool:
        pairs = zip((exchange.a, exchange.b), exchange.clocks, strict=True)
        return any(e.next_ns is not None and c.back(e.next_ns) <= self.now_ns for e, c in pairs)

    def _arrive(self, exchange: Exchange, name: str, octets: bytes) -> None:
        if name == "open":
            exchange.a.open(exchange.clocks[0].of(self.now_ns))
        else:
            end, clock = (exchange.a, exchange.clocks[0]) if name == "a" else (exchange.b, exchange.clocks[1])
            end.receive(octets, clock.of(self.now_ns))
        self._work(exchange)

    def _work(self, exchange: Exchange) -> None:
        for name, end, clock in (("a", exchange.a, exchange.clocks[0]), ("b", exchange.b, exchange.clocks[1])):
            self._feed(exchange, name, end)
            direction = self.forward if name == "a" else self.backward
            for _ in range(_MOST_AT_ONCE):
                octets = end.outgoing(clock.of(self.now_ns))
                if octets is None:
                    break
                if self.keep_log:
                    self.log.append((self.now_ns, name, octets))
                for time_ns in direction.arrivals(len(octets), self.now_ns, self.luck):
                    entry = (time_ns, next(self._count), exchange, "b" if name == "a" else "a", octets)
                    heapq.heappush(self._heap, entry)
            else:
                raise AssertionError(f"{name} sends without end")

    def _feed(self, exchange: Exchange, name: str, end: WtcpConnection) -> None:
        """Write what fits, read what is there, close when all is written."""
        exchange.events += end.take_events()
        if name == "a" or exchange.reads:
            got = end.read()
            if exchange.keep:
                exchange.received[name] += got
            if name == "b" and got:
                exchange.delivered_bytes += len(got)
                exchange.marks.append((self.now_ns, exchange.delivered_bytes))
        if end.is_finished or (name == "a" and end.state == "CLOSED"):
            return
        if name == "a" and exchange.data is None:
            end.write(bytes(min(end.free_bytes, 8192)))
            return
        left = exchange.left[name]
        if left and end.free_bytes:
            exchange.left[name] = left[end.write(left) :]
        if not exchange.left[name] and not end._sender.is_closed and (name == "a" or end.at_end):
            end.close()


def goodput_packets_per_s(exchange: Exchange, begin_s: float, end_s: float) -> float:
    """Return the payload delivered between two instants, in packets of 500 bytes each second."""
    before = max((n for t, n in exchange.marks if t <= begin_s * NS_PER_S), default=0)
    after = max((n for t, n in exchange.marks if t <= end_s * NS_PER_S), default=0)
    return (after - before) / PAYLOAD_BYTES / (end_s - begin_s)
