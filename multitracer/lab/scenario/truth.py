"""What really happened to each segment and each frame: for judging an analysis, never for making one.

`frames.csv` has a line for each frame that was sent. `segments.csv` has a line for each packet that left a
host; its fate is `delivered`, `damaged` (it arrived with a header that the decompressor got wrong),
`dropped` (by the interface queue), `lost` (on the link: flushed by a reset, or tossed by the decompressor)
or `queued` (still under way at the end). A packet keeps its TCP checksum and its payload whatever happens
to its header, and the link keeps the order; that is how an arrival finds its origin.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from multitracer.lab.channel.shared.packet_link import FIXED, host_address
from multitracer.lab.channel.shared.queue import named
from multitracer.protocols.link_events import PacketDropped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.lab.channel.gsm import OnAir
    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.protocols.link_events import LinkEvent

FRAMES_HEADER = "direction,sent_slot,arrival_slot,lost,header\n"
SEGMENTS_HEADER = "host,left_ns,ip_id,port,seq,payload_bytes,flags,fate,arrived_ns\n"
_SHOWN_OCTETS = 3
_UDP_DATA_AT = 28
"""Octet of an IPv4 packet without options at which the payload of a datagram begins (RFC 791, RFC 768)."""
_DIRECTIONS = {"mobile": "up", "fixed": "down"}


def frame_line(frame: OnAir) -> str:
    """Return the line of one frame; the header is its first three octets in hexadecimal."""
    header = frame.octets[:_SHOWN_OCTETS].hex()
    return f"{_DIRECTIONS[frame.side]},{frame.sent_slot},{frame.arrival_slot},{frame.lost:d},{header}\n"


class _Pending(NamedTuple):
    """A packet whose fate is open."""

    host: HostName
    left_ns: int
    packet: TcpPacket | None
    data: bytes

    @property
    def ip_id(self) -> int:
        return int.from_bytes(self.data[4:6], "big")

    @property
    def seq(self) -> int | None:
        """Its TCP sequence number; None for a datagram."""
        return None if self.packet is None else self.packet.segment.seq

    @property
    def key(self) -> bytes:
        """What it keeps on its way."""
        return _key(self.packet, self.data)

    def line(self, fate: str, arrived_ns: int | str = "") -> str:
        """Return its line; of a datagram without sequence number and flags."""
        host, left_ns, packet, data = self
        begin = f"{host},{left_ns},{data[4] << 8 | data[5]}"
        if packet is None:
            port = int.from_bytes(data[20:22], "big")
            return f"{begin},{port},,{len(data) - _UDP_DATA_AT},,{fate},{arrived_ns}\n"
        segment = packet.segment
        about = f"{segment.source_port},{segment.seq},{len(segment.payload)},{segment.flags:#x}"
        return f"{begin},{about},{fate},{arrived_ns}\n"


class SegmentTruth:
    """Follows every packet from one host to the other.

    Parameters
    ----------
    hosts : sequence of str
        Names of the link's hosts, the fixed one last.
    """

    def __init__(self, hosts: Sequence[HostName]) -> None:
        *mobiles, _ = hosts
        self._by_address = {host_address(mobile): mobile for mobile in mobiles}
        self._only = mobiles[0] if len(mobiles) == 1 else None
        paths = [*((mobile, FIXED) for mobile in mobiles), *((FIXED, mobile) for mobile in mobiles)]
        self._pending: dict[tuple[HostName, HostName], deque[_Pending]] = {path: deque() for path in paths}

    def left(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int) -> None:
        """Take a packet that left a host."""
        path = self._path(host, data[16:20], outgoing=True)
        if path is not None:
            self._pending[path].append(named(_Pending, (host, now_ns, packet, data)))

    def arrived(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int) -> list[str]:
        """Take a packet that reached a host; return the lines of those whose fate is now known."""
        path = self._path(host, data[12:16], outgoing=False)
        pending = deque[_Pending]() if path is None else self._pending[path]
        place = _place(pending, packet, data)
        if place is None:
            return []
        lost = [pending.popleft().line("lost") for _ in range(place)]
        fate = "delivered" if packet is None or packet.checksum_ok else "damaged"
        return [*lost, pending.popleft().line(fate, now_ns)]

    def _path(self, host: HostName, far: bytes, *, outgoing: bool) -> tuple[HostName, HostName] | None:
        """Return the two ends of a packet's way; None if the packet names no mobile of the link."""
        if host != FIXED:
            return (host, FIXED) if outgoing else (FIXED, host)
        mobile = self._only or self._by_address.get(far)
        if mobile is None:
            return None
        return (FIXED, mobile) if outgoing else (mobile, FIXED)

    def noted(self, host: HostName, event: LinkEvent) -> list[str]:
        """Take an event of the link; a packet that the queue dropped has met its fate."""
        if not isinstance(event, PacketDropped) or (event.seq is None and event.cause == "network"):
            return []  # the network's drops of both directions have one log: without a number they are alike
        for (source, _), pending in self._pending.items():
            if source != host:
                continue
            for entry in reversed(pending):
                if entry.ip_id == event.ip_id and entry.seq == event.seq:
                    pending.remove(entry)
                    return [entry.line("dropped")]
        return []

    def rest(self) -> list[str]:
        """Return the lines of what is still under way."""
        return [entry.line("queued") for pending in self._pending.values() for entry in pending]


def _key(packet: TcpPacket | None, data: bytes) -> bytes:
    """Return what a packet keeps on its way: its transport checksum and its payload."""
    header = (data[0] & 0x0F) * 4
    if packet is None:
        return data[header + 6 :]
    return data[header + 16 : header + 18] + packet.segment.payload


def _place(pending: deque[_Pending], packet: TcpPacket | None, data: bytes) -> int | None:
    """Return which pending packet has arrived: the one with that id, or after damage the first alike."""
    if pending and pending[0].data == data:
        return 0
    ip_id, key = int.from_bytes(data[4:6], "big"), _key(packet, data)
    alike = [place for place, entry in enumerate(pending) if entry.key == key]
    same = [place for place in alike if pending[place].ip_id == ip_id]
    return next(iter(same or alike), None)
