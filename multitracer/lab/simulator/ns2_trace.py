"""A run in virtual time as a trace of ns-2's wired links, for scripts that read such traces.

    + 0.1 0 1 tcp 1040 ------- 1 0.1025 1.5001 2 5

Mobiles are the nodes 0, 1, …; the fixed host is the last node. As in ns-2 a packet is queued (`+`) where it leaves a
host, and received (`r`) at the other one; `d` is a packet that the queue dropped. Of a link that is up and down
(`switched`), where each packet is one transmission, it is also a packet that was lost on the air, and `-` the time at
which the transmission began. `parsers/ns2_trace.py` reads these files; the time is that of the link.

ns-2's one-way TCP numbers packets: 0 is the SYN, and an acknowledgment has the number of the last packet that it
acknowledges. What carries no data is an acknowledgment here, the FIN, too. Sizes are payload and 40 octets of header.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from multitracer.captured import Flag
from multitracer.lab.channel.shared.packet_link import host_address
from multitracer.lab.channel.switched import SwitchedConfig
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.protocols.link_events import PacketDropped, PieceLost, PieceSent
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.tcp.packet import Segment, TcpPacket
    from multitracer.protocols.link_events import LinkEvent

_HEADERS_BYTES = 40
_PORTS_AT = 20
"""Octet of an IPv4 packet without options at which its ports are."""


@dataclass(slots=True)
class _Flow:
    """What one end of a connection has sent."""

    isn: int = 0
    data_bytes: int = 0
    """Payload of a data packet; 0 before the first one."""
    highest: int = 0
    """Highest number of a packet."""

    def number(self, seq: int, data_bytes: int) -> int:
        """Return the number of a packet with data."""
        self.data_bytes = self.data_bytes or data_bytes
        number = 1 + (seq - self.isn - 1) % 2**32 // self.data_bytes
        self.highest = max(self.highest, number)
        return number

    def acknowledged(self, ack: int) -> int:
        """Return the number of the last packet that an acknowledgment covers; the FIN has none."""
        if not self.data_bytes:
            return 0
        return min(self.highest, -(-((ack - self.isn - 1) % 2**32) // self.data_bytes))


class _Sent(NamedTuple):
    """A packet between two nodes: what its lines have behind the event and the time."""

    begin: int
    end: int
    about: str

    def line(self, event: str, time_ns: int) -> tuple[int, str]:
        """Return the time and the line of an event."""
        seconds, fraction = divmod(time_ns, NS_PER_S)
        time_s = f"{seconds}.{fraction:09d}".rstrip("0").rstrip(".")
        return time_ns, f"{event} {time_s} {self.begin} {self.end} {self.about}\n"


class Ns2Trace(NetworkObserver):
    """Observer that collects the lines of a trace.

    Parameters
    ----------
    scenario : Scenario
        The scenario of the run.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._node = {host_address(host): number for number, host in enumerate(scenario.hosts)}
        self._is_one_transmission = isinstance(scenario.link, SwitchedConfig)
        self._lines: list[tuple[int, str]] = []
        self._on_the_way: dict[bytes, _Sent] = {}
        """Packets that have not arrived, by their identification, addresses and ports."""
        self._by_id: dict[tuple[int, int], _Sent] = {}
        """The last packet of each node and identification."""
        self._flows: dict[tuple[bytes, bytes], _Flow] = {}
        self._fids: dict[frozenset[bytes], int] = {}
        self._unique = 0

    def text(self) -> str:
        """Return the file: all lines in order of time."""
        return "".join(line for _, line in sorted(self._lines, key=itemgetter(0)))

    # --- what it observes ---

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Add the line of a packet at a host's interface."""
        ports = data[_PORTS_AT : _PORTS_AT + 4]
        source, destination = data[12:16] + ports[:2], data[16:20] + ports[2:]
        key = data[4:6] + source + destination
        if not outgoing:
            known = self._on_the_way.pop(key, None)
            if known is not None:
                self._lines.append(known.line("r", now_ns))
        elif source[:4] in self._node and destination[:4] in self._node:
            begin, end = self._node[source[:4]], self._node[destination[:4]]
            sent = _Sent(begin, end, self._about(source, destination, packet, data))
            self._unique += 1
            self._on_the_way[key] = self._by_id[begin, int.from_bytes(data[4:6], "big")] = sent
            self._lines.append(sent.line("+", now_ns))

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Add the lines of packets that were dropped, lost, or whose transmission began."""
        here = self._node[host_address(host)]
        for event in events:
            if isinstance(event, PacketDropped):
                self._add("d", event.time_ns, here, event.ip_id)
            elif self._is_one_transmission and isinstance(event, PieceLost):
                self._add("d", event.time_ns, 1 - here, event.ip_id)
            elif self._is_one_transmission and isinstance(event, PieceSent):
                self._add("-", event.time_ns - event.air_us * NS_PER_US, here, event.ip_id)

    def _add(self, event: str, time_ns: int, node: int, ip_id: int | None) -> None:
        sent = None if ip_id is None else self._by_id.get((node, ip_id))
        if sent is not None:
            self._lines.append(sent.line(event, time_ns))

    # --- what a line has of a packet ---

    def _about(self, source: bytes, destination: bytes, packet: TcpPacket | None, data: bytes) -> str:
        fid = self._fids.setdefault(frozenset((source, destination)), len(self._fids) + 1)
        kind, size, number = "udp", len(data), 0
        flow = self._flows.setdefault((source, destination), _Flow())
        if packet is None:
            number = flow.highest = flow.highest + 1
        else:
            kind, number = self._tcp(flow, self._flows.setdefault((destination, source), _Flow()), packet.segment)
            size = _HEADERS_BYTES + len(packet.segment.payload)
        ends = " ".join(f"{self._node[each[:4]]}.{int.from_bytes(each[4:], 'big')}" for each in (source, destination))
        return f"{kind} {size} ------- {fid} {ends} {number} {self._unique}"

    @staticmethod
    def _tcp(flow: _Flow, reverse: _Flow, segment: Segment) -> tuple[str, int]:
        """Return the type and the number of a segment."""
        is_syn = bool(segment.flags & Flag.SYN)
        if is_syn:
            flow.isn = segment.seq
        if segment.payload:
            return "tcp", flow.number(segment.seq, len(segment.payload))
        if is_syn and not segment.flags & Flag.ACK:
            return "tcp", 0
        return "ack", reverse.acknowledged(segment.ack)
