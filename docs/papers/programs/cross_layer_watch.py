"""What really happened in a run: which rates were assigned, how many packets were lost, and where.

A link keeps the order of the packets to one mobile: a packet is lost once one that left later has arrived.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from multitracer.lab.channel.cdma2000 import mean_rate_bps
from multitracer.lab.channel.shared.packet_link import FIXED
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.protocols.link_events import OutageStarted, PacketDropped, PieceSent, RateAssigned
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.packet_link import HostName, RadioReading
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.protocols.link_events import LinkEvent


EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""Begin of a run in virtual time."""


class Losses(NetworkObserver):
    """Counts the packets with data from the fixed host to the mobiles."""

    def __init__(self) -> None:
        self.sent = 0
        """Packets with data that left the fixed host, repeated ones included."""
        self.dropped = 0
        """Of these: dropped by the full buffer before the radio."""
        self.overtaken = 0
        """Of these: dropped or lost, because a later one of the same mobile arrived."""
        self.handoffs = 0
        """Hard handoffs, of all mobiles at the same time."""
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
        """Count what the buffer dropped, and the handoffs."""
        if host == FIXED:
            self.dropped += sum(isinstance(event, PacketDropped) for event in events)
            self.handoffs += sum(isinstance(event, OutageStarted) and event.cause == "handoff" for event in events)


class CaitLog(NetworkObserver):
    """A log of the first seconds as an air interface tester shows them (docs/formats.md, map `cait`)."""

    HEADER = (
        "time_utc,call_state,pilot_pn,pilot_ecio_db,frame_errors_pct,fsch_rate_kbps,rsch_rate_kbps,rlp_resent_octets\n"
    )

    def __init__(self, seconds: int) -> None:
        self.text = self.HEADER
        self._seconds = seconds
        self._rates = {True: 0, False: 0}
        self._resent = 0

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Take the assigned rates of both directions, and what RLP sends again to the mobile."""
        for event in events:
            if isinstance(event, RateAssigned):
                self._rates[host == FIXED] = event.rate_bps
            elif isinstance(event, PieceSent) and host == FIXED and event.attempts > 1:
                self._resent += event.wire_bytes

    def reading(self, host: HostName, reading: RadioReading, *, now_ns: int) -> None:
        """Write the line of a second."""
        if now_ns > self._seconds * NS_PER_S:
            return
        time = EPOCH + timedelta(microseconds=now_ns // 1000)
        errors = "" if reading.bler_percent is None else f"{reading.bler_percent:.2f}"
        down, up = (f"{rate / 1000:g}" if rate else "" for rate in self._rates.values())
        radio = f"{reading.state},{reading.pilot_pn},{reading.ecio_db},{errors}"
        self.text += f"{time:%Y-%m-%dT%H:%M:%S.%fZ},{radio},{down},{up},{self._resent}\n"
        self._resent = 0


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
