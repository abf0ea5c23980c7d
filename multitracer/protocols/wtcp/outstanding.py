"""What was sent and is not acknowledged: segments of the stream, and when each transmission left."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.protocols.wtcp.packet import Ack

_REMEMBERED_TIMES = 4096
"""Transmissions whose time of sending is kept: more than a window holds (not measured)."""


@dataclass(slots=True)
class StreamSegment:
    """A part of the stream that one packet carries; it is sent again in the same pieces."""

    offset: int
    payload: bytes
    fin: bool = False
    number: int = -1
    """The transmission that carried it last, -1 before the first."""
    sent_ns: int = 0
    is_lost: bool = False

    @property
    def end(self) -> int:
        """Unit after the last; a FIN takes one unit."""
        return self.offset + len(self.payload) + self.fin


class Outstanding:
    """The segments in flight or lost, by their place in the stream."""

    def __init__(self) -> None:
        self._segments: dict[int, StreamSegment] = {}
        self._lost: list[int] = []
        self._sent_ns: dict[int, int] = {}
        self.payload_bytes = 0
        self._fin_acknowledged = False

    def __len__(self) -> int:
        """Return how many segments are not acknowledged."""
        return len(self._segments)

    @property
    def is_complete(self) -> bool:
        """Whether all of the stream is acknowledged, its FIN included."""
        return self._fin_acknowledged and not self._segments

    def add(self, segment: StreamSegment) -> None:
        """Take a new segment, behind all others."""
        self._segments[segment.offset] = segment
        self.payload_bytes += len(segment.payload)

    def note_sent(self, number: int, now_ns: int, segment: StreamSegment | None = None) -> None:
        """Note when a transmission left, and what it carried."""
        self._sent_ns[number] = now_ns
        if len(self._sent_ns) > _REMEMBERED_TIMES:
            del self._sent_ns[next(iter(self._sent_ns))]
        if segment is not None:
            segment.number, segment.sent_ns, segment.is_lost = number, now_ns, False

    def next_lost(self) -> StreamSegment | None:
        """Return the first lost segment, None if there is none."""
        while self._lost:
            segment = self._segments.get(self._lost[0])
            if segment is not None and segment.is_lost:
                return segment
            heapq.heappop(self._lost)
        return None

    def sent_ns(self, number: int) -> int | None:
        """Return when a transmission left, None if that is no longer known."""
        return self._sent_ns.get(number)

    def forget_below(self, number: int) -> None:
        """Forget when transmissions left that are too old to matter."""
        while self._sent_ns and next(iter(self._sent_ns)) < number:
            del self._sent_ns[next(iter(self._sent_ns))]

    def acknowledge(self, ack: Ack) -> int:
        """Drop what has arrived; return how many bytes that were."""
        gone = [each for each in self._segments.values() if _covers(ack, each)]
        for segment in gone:
            del self._segments[segment.offset]
            self._fin_acknowledged |= segment.fin
        freed = sum(len(segment.payload) for segment in gone)
        self.payload_bytes -= freed
        return freed

    def find_lost(self, newest: int, *, reorder_packets: int, round_trip_ns: int) -> list[StreamSegment]:
        """Return the segments that must be lost, as the transmission `newest` has arrived and they have not.

        Either enough later transmissions left before it, or it left a round trip later.
        """
        newest_ns = self._sent_ns.get(newest)
        lost = []
        for segment in self._segments.values():
            if segment.is_lost or not 0 <= segment.number < newest:
                continue
            overtaken = newest - segment.number >= reorder_packets
            if overtaken or (newest_ns is not None and newest_ns - segment.sent_ns >= round_trip_ns):
                lost.append(segment)
        self._mark(lost)
        return lost

    def _mark(self, lost: Iterable[StreamSegment]) -> None:
        for segment in lost:
            segment.is_lost = True
            heapq.heappush(self._lost, segment.offset)


def _covers(ack: Ack, segment: StreamSegment) -> bool:
    if segment.end <= ack.cumulative:
        return True
    return any(left <= segment.offset and segment.end <= right for left, right in ack.ranges)
