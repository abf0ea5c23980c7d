"""The true fate of each segment and each frame: for judging an analysis, never as its input.

`frames.csv` has a line for each frame that was sent. `segments.csv` has a line for each packet that left a
host; its fate is `delivered`, `damaged` (it arrived with a header that the decompressor restored wrongly),
`dropped` (by the interface queue), `lost` (on the link: flushed by a reset, or discarded by the decompressor)
or `queued` (nothing behind it has arrived until the end). A packet keeps its TCP checksum and its payload whatever
happens to its header, and the link keeps the order of a stream; so an arrived packet is matched with the packet that
was sent. A stream is all that one host sends another; with `error_control = "by-protocol"` TCP and all else are two.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.channel.shared.packet_link import FIXED, host_address
from multitracer.lab.channel.shared.queue import named
from multitracer.protocols.link_events import PacketDropped

if TYPE_CHECKING:
    from multitracer.lab.channel.gsm import OnAir
    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.protocols.link_events import LinkEvent

FRAMES_HEADER = "direction,sent_slot,arrival_slot,lost,header\n"
SEGMENTS_HEADER = "host,left_ns,ip_id,port,seq,payload_bytes,flags,fate,arrived_ns\n"
_SHOWN_OCTETS = 3
_UDP_DATA_AT = 28
"""Octet of an IPv4 packet without options at which the payload of a datagram begins (RFC 791, RFC 768)."""
_DIRECTIONS = {"mobile": "up", "fixed": "down"}


def frame_line(frame: OnAir) -> str:
    """Return the line of frames.csv for one frame; the first three octets are written in hexadecimal."""
    header = frame.octets[:_SHOWN_OCTETS].hex()
    return f"{_DIRECTIONS[frame.side]},{frame.sent_slot},{frame.arrival_slot},{frame.lost:d},{header}\n"


class _Pending(NamedTuple):
    """A packet whose fate is not known yet."""

    host: HostName
    left_ns: int
    packet: TcpPacket | None
    data: bytes

    @property
    def ip_id(self) -> int:
        return int.from_bytes(self.data[4:6], "big")

    @property
    def seq(self) -> int | None:
        """TCP sequence number of the packet; None for a datagram."""
        return None if self.packet is None else self.packet.segment.seq

    @property
    def key(self) -> bytes:
        """Octets of the packet that the link does not change: its transport checksum and its payload."""
        return _key(self.packet, self.data)

    def line(self, fate: str, arrived_ns: int | str = "") -> str:
        """Return the packet's line of segments.csv; a datagram has no sequence number and no flags."""
        host, left_ns, packet, data = self
        begin = f"{host},{left_ns},{data[4] << 8 | data[5]}"
        if packet is None:
            port = int.from_bytes(data[20:22], "big")
            return f"{begin},{port},,{len(data) - _UDP_DATA_AT},,{fate},{arrived_ns}\n"
        segment = packet.segment
        about = f"{segment.source_port},{segment.seq},{len(segment.payload)},{segment.flags:#x}"
        return f"{begin},{about},{fate},{arrived_ns}\n"


class _Stream(NamedTuple):
    """Packets that arrive in the order in which they were sent, if at all."""

    source: HostName
    destination: HostName
    is_unrepeated: bool
    """Whether they are the packets that a link by protocol does not repeat, and sends before all others."""


class SegmentTruth:
    """Determines the fate of every packet between the hosts of a scenario.

    Parameters
    ----------
    scenario : Scenario
    """

    def __init__(self, scenario: Scenario) -> None:
        *mobiles, _ = scenario.hosts
        self._by_address = {host_address(mobile): mobile for mobile in mobiles}
        self._only = mobiles[0] if len(mobiles) == 1 else None
        link = scenario.link
        self._is_by_protocol = isinstance(link, LinkConfig) and link.error_control == "by-protocol"
        self._pending: defaultdict[_Stream, deque[_Pending]] = defaultdict(deque)

    def left(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int) -> None:
        """Record a packet that left a host; its fate is not known yet."""
        stream = self._stream(host, packet, data[16:20], outgoing=True)
        if stream is not None:
            self._pending[stream].append(named(_Pending, (host, now_ns, packet, data)))

    def arrived(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int) -> list[str]:
        """Process a packet that reached a host; return the lines of all packets whose fate is now known."""
        stream = self._stream(host, packet, data[12:16], outgoing=False)
        pending = deque[_Pending]() if stream is None else self._pending[stream]
        place = _place(pending, packet, data)
        if place is None:
            return []
        lost = [pending.popleft().line("lost") for _ in range(place)]
        fate = "delivered" if packet is None or packet.checksum_ok else "damaged"
        return [*lost, pending.popleft().line(fate, now_ns)]

    def _stream(self, host: HostName, packet: TcpPacket | None, far: bytes, *, outgoing: bool) -> _Stream | None:
        """Return the stream of a packet that passes the interface of `host`; None if no mobile of this link has it."""
        mobile = host if host != FIXED else self._only or self._by_address.get(far)
        if mobile is None:
            return None
        source, destination = (mobile, FIXED) if (host != FIXED) == outgoing else (FIXED, mobile)
        return named(_Stream, (source, destination, self._is_by_protocol and packet is None))

    def noted(self, host: HostName, event: LinkEvent) -> list[str]:
        """Process an event of the link; return the lines of the packets that the queue dropped."""
        if not isinstance(event, PacketDropped) or (event.seq is None and event.cause == "network"):
            return []  # the network's drops of both directions have one log: without a number they are alike
        for stream, pending in self._pending.items():
            if stream.source != host:
                continue
            for entry in reversed(pending):
                if entry.ip_id == event.ip_id and entry.seq == event.seq:
                    pending.remove(entry)
                    return [entry.line("dropped")]
        return []

    def rest(self) -> list[str]:
        """Return the lines of the packets of which nothing is known at the end of the run."""
        return [entry.line("queued") for pending in self._pending.values() for entry in pending]


def _key(packet: TcpPacket | None, data: bytes) -> bytes:
    """Return the octets of a packet that the link does not change: its transport checksum and its payload."""
    header = (data[0] & 0x0F) * 4
    if packet is None:
        return data[header + 6 :]
    return data[header + 16 : header + 18] + packet.segment.payload


def _place(pending: deque[_Pending], packet: TcpPacket | None, data: bytes) -> int | None:
    """Return the index in `pending` of the packet that has arrived; None if it is not there.

    Packets are compared by IP identification or, if that is damaged, by transport checksum and payload.
    """
    if pending and pending[0].data == data:
        return 0
    ip_id, key = int.from_bytes(data[4:6], "big"), _key(packet, data)
    alike = [place for place, entry in enumerate(pending) if entry.key == key]
    same = [place for place in alike if pending[place].ip_id == ip_id]
    return next(iter(same or alike), None)
