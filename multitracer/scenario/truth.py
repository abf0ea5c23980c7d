"""What really happened to each segment and each frame: for judging an analysis, never for making one.

`frames.csv` has a line for each frame that was sent. `segments.csv` has a line for each packet that left a
host; its fate is `delivered`, `damaged` (it arrived with a header that the decompressor got wrong),
`dropped` (by the interface queue), `lost` (on the link: flushed by a reset, or tossed by the decompressor)
or `queued` (still under way at the end). A packet keeps its TCP checksum and its payload whatever happens
to its header, and the link keeps the order; that is how an arrival finds its origin.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.channel.gsm.link import FAR
from multitracer.protocols.link_events import PacketDropped

if TYPE_CHECKING:
    from multitracer.channel.gsm.link import OnAir, Side
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.protocols.tcp import Packet

FRAMES_HEADER = "direction,sent_slot,arrival_slot,lost,header\n"
SEGMENTS_HEADER = "host,left_ns,ip_id,port,seq,payload_bytes,flags,fate,arrived_ns\n"
_SHOWN_OCTETS = 3
_DIRECTIONS = {"mobile": "up", "fixed": "down"}


def frame_line(frame: OnAir) -> str:
    """Return the line of one frame; the header is its first three octets in hexadecimal."""
    header = frame.octets[:_SHOWN_OCTETS].hex()
    return f"{_DIRECTIONS[frame.side]},{frame.sent_slot},{frame.arrival_slot},{frame.lost:d},{header}\n"


@dataclass(slots=True)
class _Pending:
    """A packet whose fate is open."""

    ip_id: int
    key: tuple[bytes, bytes]
    about: str
    """The first fields of its line."""


class SegmentTruth:
    """Follows every packet from one host to the other."""

    def __init__(self) -> None:
        self._pending: dict[Side, deque[_Pending]] = {"mobile": deque(), "fixed": deque()}

    def left(self, side: Side, packet: Packet, data: bytes, *, now_ns: int) -> None:
        """Take a packet that left a host."""
        segment = packet.segment
        about = (
            f"{side},{now_ns},{packet.identification},{segment.source_port},{segment.seq},"
            f"{len(segment.payload)},{segment.flags:#x}"
        )
        self._pending[side].append(_Pending(packet.identification, _key(packet, data), about))

    def arrived(self, side: Side, packet: Packet, data: bytes, *, now_ns: int) -> list[str]:
        """Take a packet that reached a host; return the lines of those whose fate is now known."""
        pending = self._pending[FAR[side]]
        place = _place(pending, packet.identification, _key(packet, data))
        if place is None:
            return []
        lost = [f"{pending.popleft().about},lost,\n" for _ in range(place)]
        fate = "delivered" if packet.checksum_ok else "damaged"
        return [*lost, f"{pending.popleft().about},{fate},{now_ns}\n"]

    def noted(self, side: Side, event: LinkEvent) -> list[str]:
        """Take an event of the link; a packet that the queue dropped has met its fate."""
        if isinstance(event, PacketDropped):
            for entry in reversed(self._pending[side]):
                if entry.ip_id == event.ip_id:
                    self._pending[side].remove(entry)
                    return [f"{entry.about},dropped,\n"]
        return []

    def rest(self) -> list[str]:
        """Return the lines of what is still under way."""
        return [f"{entry.about},queued,\n" for pending in self._pending.values() for entry in pending]


def _key(packet: Packet, data: bytes) -> tuple[bytes, bytes]:
    header = (data[0] & 0x0F) * 4
    return data[header + 16 : header + 18], packet.segment.payload


def _place(pending: deque[_Pending], ip_id: int, key: tuple[bytes, bytes]) -> int | None:
    """Return which pending packet has arrived: the one with that id, or after damage the first alike."""
    alike = [place for place, entry in enumerate(pending) if entry.key == key]
    same = [place for place in alike if pending[place].ip_id == ip_id]
    return next(iter(same or alike), None)
