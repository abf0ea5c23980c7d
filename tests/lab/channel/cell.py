"""What drives a cell with many mobiles in tests: numbered packets between hosts, and what became of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from multitracer.lab.channel.cdpd_config import CdpdConfig, CellConfig, LossConfig, NetworkConfig, OutageConfig
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.packet_link import host_address
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.protocols.link_events import PacketDropped, PieceLost
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.lab.channel.shared.packet_link import HostName, PacketLink
    from multitracer.protocols.link_events import LinkEvent

Way = tuple["HostName", "HostName"]
"""Who sends, and to whom."""
NO_OUTAGES = OutageConfig(hop_every_ns=0, ejection_every_ns=0, blackout_every_ns=0)
EMPTY = CellConfig(busy_percent=0, spread_percent=0)
MDLP = CdpdConfig(
    up=ErrorConfig(), down=ErrorConfig(), cell=EMPTY, outages=NO_OUTAGES, network=NetworkConfig(loss_up=0, loss_down=0)
)
"""Nobody else, no errors."""
PLAIN = replace(MDLP, recovery="none", queue=QueueConfig(limit_packets=15))
"""Paper 001's channel without losses."""


def plain(mobiles: int = 1, *, up: float = 0.0, down: float = 0.0, bits_per_s: int = 19_200) -> CdpdConfig:
    """Return paper 001's channel."""
    return replace(PLAIN, mobiles=mobiles, bits_per_s=bits_per_s, loss=LossConfig(up=up, down=down))


def between(way: Way, number: int, octets: int = 500) -> bytes:
    """Return an IPv4 packet with the hosts' addresses, whose identification is its number."""
    head = bytearray(20)
    head[0], head[9] = 0x45, 17
    head[2:4], head[4:6] = octets.to_bytes(2), number.to_bytes(2)
    head[12:16], head[16:20] = host_address(way[0]), host_address(way[1])
    return bytes(head) + bytes(octets - 20)


@dataclass
class Fates:
    """What became of the packets of a link; numbers are those of `between`."""

    link: PacketLink
    now_ns: int = 0
    ways: dict[int, Way] = field(default_factory=dict)
    """Of each packet that was sent."""
    sent_ns: dict[int, int] = field(default_factory=dict)
    arrived_ns: dict[int, int] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    """Causes."""
    events: dict[HostName, list[LinkEvent]] = field(default_factory=dict)
    inside: dict[int, Way] = field(default_factory=dict)
    """Packets of which nothing is known yet."""

    def send(self, way: Way, octets: int = 500) -> int:
        """Send the next packet; return its number."""
        number = len(self.ways)
        self.ways[number] = self.inside[number] = way
        self.sent_ns[number] = self.now_ns
        self.link.send(way[0], between(way, number, octets), now_ns=self.now_ns)
        self._collect()
        return number

    def step(self, now_ns: int) -> None:
        """Let the link run."""
        self.now_ns = now_ns
        for delivery in self.link.advance(now_ns):
            number = int.from_bytes(delivery.packet[4:6])
            assert number not in self.arrived_ns
            assert delivery.host == self.ways[number][1]
            self.arrived_ns[number] = now_ns
            self.inside.pop(number, None)
        self._collect()

    def _collect(self) -> None:
        for host in self.link.hosts:
            for event in self.link.events(host):
                self.events.setdefault(host, []).append(event)
                if isinstance(event, PacketDropped | PieceLost) and event.ip_id is not None:
                    self.lost[event.ip_id] = event.cause
                    self.inside.pop(event.ip_id, None)

    def delivered(self) -> Counter[Way]:
        """Return how many packets arrived each way."""
        return Counter(self.ways[number] for number in self.arrived_ns)


def full(link: PacketLink, ways: Iterable[Way], *, seconds: float, ahead: int = 8) -> Fates:
    """Keep `ahead` packets of each way in the link for a time."""
    fates, ways = Fates(link), list(ways)
    while fates.now_ns < seconds * NS_PER_S:
        if len(fates.inside) < ahead * len(ways):
            inside = Counter(fates.inside.values())
            for way in ways:
                for _ in range(ahead - inside[way]):
                    fates.send(way)
        due_ns = link.next_ns
        assert due_ns is not None
        fates.step(due_ns)
    return fates


def down(mobiles: int) -> list[Way]:
    """Return the ways from the fixed host to each of several mobiles."""
    return [("fixed", f"mobile-{number}") for number in range(1, mobiles + 1)]


def up(mobiles: int) -> list[Way]:
    """Return the ways from each of several mobiles to the fixed host."""
    return [(mobile, fixed) for fixed, mobile in down(mobiles)]
