"""What really happened in a run: which rates were assigned, how many packets were lost, and where.

A link keeps the order of the packets to one mobile: a packet is lost once one that left later has arrived.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from multitracer.channel.shared.hosts import FIXED
from multitracer.protocols.channel_events import RateAssigned
from multitracer.protocols.link_events import PacketDropped
from multitracer.simulator.observer import Observer
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.channel.shared.hosts import HostName
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.protocols.tcp import Packet


class Losses(Observer):
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

    def packet(
        self, host: HostName, packet: Packet | None, data: bytes, *, now_ns: int, outgoing: bool
    ) -> None:
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

    def link_event(self, host: HostName, event: LinkEvent) -> None:
        """Count what the buffer dropped."""
        if host == FIXED and isinstance(event, PacketDropped):
            self.dropped += 1


class Rates(Observer):
    """The mean rate over time that mobiles were assigned, as a log of the radio shows it."""

    def __init__(self) -> None:
        self._bits: dict[bool, float] = {True: 0.0, False: 0.0}
        self._began_ns: dict[tuple[bool, int], int] = {}
        self._present: dict[tuple[bool, int], tuple[int, int]] = {}

    def link_event(self, host: HostName, event: LinkEvent) -> None:
        """Take a rate that holds from now on."""
        if not isinstance(event, RateAssigned):
            return
        channel = host == FIXED, event.offset_bytes
        self._began_ns.setdefault(channel, event.time_ns)
        self._close(channel, event.time_ns)
        self._present[channel] = event.time_ns, event.rate_bps

    def _close(self, channel: tuple[bool, int], now_ns: int) -> None:
        since_ns, rate_bps = self._present.get(channel, (now_ns, 0))
        self._bits[channel[0]] += rate_bps * (now_ns - since_ns) / NS_PER_S

    def mean_bps(self, *, is_down: bool, end_ns: int) -> float | None:
        """Return the mean rate of a direction until the run's end; None without one. Ask once."""
        channels = [channel for channel in self._began_ns if channel[0] == is_down]
        for channel in channels:
            self._close(channel, end_ns)
        lasted_s = sum(end_ns - self._began_ns[channel] for channel in channels) / NS_PER_S
        return self._bits[is_down] / lasted_s if lasted_s else None
