"""CoDel, controlled delay: drops or marks packets when the delay was too long for an interval (RFC 8289)."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from multitracer.lab.channel.shared.queue import Incident, PacketQueue
from multitracer.lab.tcp.packet import congestion_marked, is_ecn_capable

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.queue import QueueConfig

_RECENT_INTERVALS = 16


class CoDel(PacketQueue):
    """The algorithm of RFC 8289, section 5; names are those of its pseudocode."""

    def __init__(self, config: QueueConfig) -> None:
        super().__init__(config)
        self._max_packet_bytes = 0
        self._first_above_ns = 0
        self._drop_next_ns = 0
        self._count = 0
        self._last_count = 0
        self._dropping = False

    def take(self, *, now_ns: int) -> bytes | None:
        """Return the next packet that passes, marked or not."""
        packet, ok_to_drop = self._next(now_ns)
        if self._dropping:
            return self._take_while_dropping(packet, ok_to_drop, now_ns)
        if packet is None or not ok_to_drop:
            return packet
        return self._begin_dropping(packet, now_ns)

    def _next(self, now_ns: int) -> tuple[bytes | None, bool]:
        """dodequeue(): the next packet, and whether the delay has persisted for an interval."""
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
        self.happened.append(Incident("marked", packet, "codel"))
        return congestion_marked(packet)

    def _drop(self, packet: bytes) -> None:
        self.happened.append(Incident("dropped", packet, "codel"))
