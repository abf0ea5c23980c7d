"""What really happened in a run: which rates were assigned, how many packets were lost, and where.

A link keeps the order of the packets to one mobile: a packet is lost once one that left later has arrived.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from multitracer.lab.channel.cdma2000 import mean_rate_bps
from multitracer.lab.channel.shared.packet_link import FIXED
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.protocols.link_events import PacketDropped, RateAssigned

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.protocols.link_events import LinkEvent


class Losses(NetworkObserver):
    """Counts the packets with data from the fixed host to the mobiles."""

    def __init__(self) -> None:
        self.sent = 0
        """Packets with data that left the fixed host, repeated ones included."""
        self.dropped = 0
        """Of these: dropped by the full buffer before the radio."""
        self.overtaken = 0
        """Of these: dropped or lost, because a later one of the same mobile arrived."""
        self._under_way: dict[tuple[bytes, int], deque[int]] = {}

    @property
    def lost_on_radio(self) -> int:
        """Packets that the radio lost for good: what did not arrive, and was not dropped."""
        return max(0, self.overtaken - self.dropped)

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Take a packet at a host's interface."""
        if packet is None or not packet.segment.payload or outgoing != (host == FIXED):
            return
        connection = packet.destination, packet.segment.destination_port
        under_way = self._under_way.setdefault(connection, deque())
        if outgoing:
            self.sent += 1
            under_way.append(packet.identification)
            return
        while under_way and under_way.popleft() != packet.identification:
            self.overtaken += 1

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Count what the buffer dropped."""
        if host == FIXED:
            self.dropped += sum(isinstance(event, PacketDropped) for event in events)


class Rates(NetworkObserver):
    """The mean rates over time that mobiles were assigned, as a log of the radio shows them."""

    def __init__(self) -> None:
        self._assigned: dict[bool, list[LinkEvent]] = {True: [], False: []}
        """By whether they are for data to the mobiles."""

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Take the rates that hold from their times on."""
        self._assigned[host == FIXED] += [event for event in events if isinstance(event, RateAssigned)]

    def mean_bps(self, mobiles: int, *, is_down: bool, until_ns: int) -> float | None:
        """Return the mean over the mobiles of a direction's mean rate, in bit/s; None without any."""
        events = self._assigned[is_down]
        means = (mean_rate_bps(events, until_ns=until_ns, mobile=each + 1) for each in range(mobiles))
        known = [each for each in means if each is not None]
        return sum(known) / len(known) if known else None
