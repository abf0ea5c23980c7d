"""Interface queues before the link: drop-tail and CoDel decide which packets are dropped or marked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from math import sqrt
from typing import Literal, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.lab.tcp.packet import congestion_marked, is_ecn_capable
from multitracer.units import NS_PER_MS


class QueueEvent(NamedTuple):
    """A report of a packet that the queue dropped or marked."""

    kind: Literal["dropped", "marked"]
    packet: bytes
    cause: str
    """Reason: full or codel."""


Policy = Literal["drop-tail", "codel"]
"""Policy that decides which packet is dropped when too many wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """Parameters of an interface queue."""

    limit_packets: int = 50
    """Maximum number of packets that wait; BSD's and Linux' default interface queue is 50 (Linux: 1000)."""
    limit_bytes: int = 0
    """Maximum number of octets of waiting IP packets; 0: only packets are counted."""
    policy: Policy = "drop-tail"
    local_drops: Literal["default", "told", "silent"] = "default"
    """Whether the host learns that its full queue refused a packet.

    By default it does in virtual time, where its TcpProfile defines the reaction. A real Linux does not: it
    would send the packet again later, which no BSD did, and the losses of the paper would not happen."""
    ecn: bool = False
    """Whether to mark ECN-capable packets instead of dropping them (RFC 3168)."""
    target_ns: int = 5 * NS_PER_MS
    """CoDel: target sojourn time.

    On a slow link at least the transmission time of a packet (RFC 8289, section 4)."""
    interval_ns: int = 100 * NS_PER_MS
    """CoDel: time for which the delay may exceed the target; about the maximum round trip."""

    def __post_init__(self) -> None:
        if self.limit_packets < 1 or self.policy not in ("drop-tail", "codel"):
            raise LocalProtocolError(
                'interface queue: the discipline must be "drop-tail" or "codel", and the limit '
                f"must be at least 1 packet, but the queue is {self}"
            )
        if self.limit_bytes < 0:
            raise LocalProtocolError(
                'interface queue: "limit_bytes" must be at least 0; 0 means that the queue has no limit in bytes'
            )
        if not 0 < self.target_ns <= self.interval_ns:
            raise LocalProtocolError(
                'interface queue: CoDel requires that "target" is above 0 and not above "interval"'
            )


class _Waiting(NamedTuple):
    packet: bytes
    since_ns: int


class PacketQueue(ABC):
    """Base of queues: packets wait for the link in order of arrival."""

    def __init__(self, config: QueueConfig) -> None:
        self.config = config
        self._waiting: deque[_Waiting] = deque()
        self.happened: list[QueueEvent] = []
        """Drops and marks that were not returned yet by `incidents`."""
        self.queued_bytes = 0
        """Total length of the waiting packets in bytes."""

    def __len__(self) -> int:
        """Return the number of waiting packets."""
        return len(self._waiting)

    def offer(self, packet: bytes, *, now_ns: int) -> bool:
        """Append a packet; return False if it was dropped because the queue is full."""
        most_bytes = self.config.limit_bytes
        is_full = len(self._waiting) >= self.config.limit_packets
        if is_full or 0 < most_bytes < self.queued_bytes + len(packet):
            self.happened.append(QueueEvent("dropped", packet, "full"))
            return False
        self._waiting.append(named(_Waiting, (packet, now_ns)))
        self.queued_bytes += len(packet)
        return True

    @abstractmethod
    def take(self, *, now_ns: int) -> bytes | None:
        """Return the next packet for the link; None if the queue is empty."""

    def incidents(self) -> list[QueueEvent]:
        """Return the dropped and marked packets since the last call of this method."""
        happened, self.happened = self.happened, []
        return happened

    def _pop(self) -> _Waiting | None:
        if not self._waiting:
            return None
        first = self._waiting.popleft()
        self.queued_bytes -= len(first.packet)
        return first


class DropTail(PacketQueue):
    """A queue that drops arriving packets while it is full."""

    def take(self, *, now_ns: int) -> bytes | None:
        """Return the oldest packet; None if the queue is empty."""
        del now_ns
        if not self._waiting:
            return None
        packet, _ = self._waiting.popleft()
        self.queued_bytes -= len(packet)
        return packet


# Named tuples that are made of every packet.


named = tuple.__new__
"""Makes a named tuple from its type and a tuple of all its fields.

It needs half the time of the type's own constructor, which is a Python function. The number of fields is not checked.
"""


# CoDel, controlled delay: drops or marks packets when the delay was too long for an interval (RFC 8289).


_RECENT_INTERVALS = 16


class CoDel(PacketQueue):
    """CoDel, the algorithm of RFC 8289, section 5; names are those of its pseudocode."""

    def __init__(self, config: QueueConfig) -> None:
        super().__init__(config)
        self._max_packet_bytes = 0
        self._first_above_ns = 0
        self._drop_next_ns = 0
        self._count = 0
        self._last_count = 0
        self._dropping = False

    def take(self, *, now_ns: int) -> bytes | None:
        """Return the next packet that CoDel does not drop; CoDel may mark it (ECN).

        None if the queue is empty.
        """
        packet, ok_to_drop = self._next(now_ns)
        if self._dropping:
            return self._take_while_dropping(packet, ok_to_drop, now_ns)
        if packet is None or not ok_to_drop:
            return packet
        return self._begin_dropping(packet, now_ns)

    def _next(self, now_ns: int) -> tuple[bytes | None, bool]:
        """Return the next packet, and whether CoDel may drop it.

        CoDel may drop it if the queueing delay exceeded the target for an interval. The packet is
        None if the queue is empty. This is dodequeue() of RFC 8289.
        """
        first = self._pop()
        if first is None:
            self._first_above_ns = 0
            return None, False
        self._max_packet_bytes = max(self._max_packet_bytes, len(first.packet))
        short = now_ns - first.since_ns < self.config.target_ns
        if short or self.queued_bytes <= self._max_packet_bytes:
            self._first_above_ns = 0
            return first.packet, False
        if self._first_above_ns == 0:
            self._first_above_ns = now_ns + self.config.interval_ns
        return first.packet, now_ns >= self._first_above_ns

    def _take_while_dropping(self, packet: bytes | None, ok_to_drop: bool, now_ns: int) -> bytes | None:
        self._dropping = ok_to_drop
        while self._dropping and packet is not None and now_ns >= self._drop_next_ns:
            self._count += 1
            self._drop_next_ns = self._control_law(self._drop_next_ns)
            if self._may_mark(packet):
                return self._marked(packet)
            self._drop(packet)
            packet, self._dropping = self._next(now_ns)
        return packet

    def _begin_dropping(self, packet: bytes, now_ns: int) -> bytes | None:
        passed: bytes | None
        if self._may_mark(packet):
            passed = self._marked(packet)
        else:
            self._drop(packet)
            passed, _ = self._next(now_ns)
        self._dropping = True
        delta = self._count - self._last_count
        recent = now_ns - self._drop_next_ns < _RECENT_INTERVALS * self.config.interval_ns
        self._count = delta if recent and delta > 1 else 1
        self._last_count = self._count
        self._drop_next_ns = self._control_law(now_ns)
        return passed

    def _control_law(self, from_ns: int) -> int:
        return from_ns + round(self.config.interval_ns / sqrt(self._count))

    def _may_mark(self, packet: bytes) -> bool:
        return self.config.ecn and is_ecn_capable(packet)

    def _marked(self, packet: bytes) -> bytes:
        self.happened.append(QueueEvent("marked", packet, "codel"))
        return congestion_marked(packet)

    def _drop(self, packet: bytes) -> None:
        self.happened.append(QueueEvent("dropped", packet, "codel"))
