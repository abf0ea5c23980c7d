"""What a run shows each second, as paper 003 put together from packets and the radio's log.

Rate: the mean that the channel has, kbit/s. RLP: frames sent again to the mobile. In flight: the most bytes
that were sent and not acknowledged. RTT: mean of the samples, s; NaN in a second without one. Throughput:
payload that reached the mobile, kbit/s. Ec/Io: the modem's reading, dB.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from multitracer.lab.channel.shared.packet_link import FIXED
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.lab.tcp.packet import unwrap
from multitracer.protocols.link_events import PieceSent, RateAssigned
from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.packet_link import HostName, RadioReading
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.tables import Array

RATE, RLP, FLIGHT = "channel rate", "RLP retransmissions", "packets in flight"
RTT, THROUGHPUT, ECIO = "RTT", "throughput", "Ec/Io"


class RoundTrips:
    """Samples of the round trip: an exact ACK, none of what was sent twice or behind it (Karn's rule)."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._sent = self._acked = self._repeated_below = 0
        self._timed: dict[int, int] = {}

    @property
    def in_flight(self) -> int:
        """Bytes that were sent and not acknowledged."""
        return self._sent - self._acked

    def left(self, packet: TcpPacket, now_ns: int) -> None:
        """Take a packet with data at its sender."""
        segment = packet.segment
        self._first = segment.seq if self._first is None else self._first
        begin = unwrap(segment.seq - self._first, near=self._sent)
        end = begin + len(segment.payload)
        if begin < self._sent:
            self._timed.clear()
            self._repeated_below = max(self._sent, end)
        elif self._acked >= self._repeated_below:
            self._timed[end] = now_ns
        self._sent = max(self._sent, end)

    def acknowledged(self, packet: TcpPacket, now_ns: int) -> int | None:
        """Take an acknowledgment at the sender; return the sample in ns, None without one."""
        if self._first is None:
            return None
        ack = unwrap(packet.segment.ack - self._first, near=self._acked)
        if not self._acked < ack <= self._sent:
            return None
        self._acked = ack
        sent_ns = self._timed.pop(ack, None)
        self._timed = {end: time_ns for end, time_ns in self._timed.items() if end > ack}
        return None if sent_ns is None else now_ns - sent_ns


class Seconds(NetworkObserver):
    """Collects the series of a download to the only mobile."""

    def __init__(self) -> None:
        self._trips = RoundTrips()
        self._sums: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._samples: dict[int, list[float]] = defaultdict(list)
        self._rate = 0, 0
        self._end = 0

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Take a packet at a host's interface."""
        if packet is None:
            return
        second = now_ns // NS_PER_S
        size = len(packet.segment.payload)
        if host != FIXED:
            self._sums[THROUGHPUT][second] += 0 if outgoing else size * BITS_PER_BYTE / 1000
            return
        if outgoing and size:
            self._trips.left(packet, now_ns)
        elif not outgoing:
            sample_ns = self._trips.acknowledged(packet, now_ns)
            if sample_ns is not None:
                self._samples[second].append(sample_ns / NS_PER_S)
        flight = self._sums[FLIGHT]
        flight[second] = max(flight[second], self._trips.in_flight)
        self._end = second

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Take what the link does towards the mobile."""
        for event in events if host == FIXED else ():
            self._take(event)

    def _take(self, event: LinkEvent) -> None:
        if isinstance(event, RateAssigned):
            self._hold(event.time_ns)
            self._rate = event.time_ns, event.rate_bps
        elif isinstance(event, PieceSent):
            self._sums[RLP][event.time_ns // NS_PER_S] += event.attempts > 1

    def _hold(self, now_ns: int) -> None:
        """Add the present rate to the seconds that it lasted, up to now."""
        since_ns, rate_bps = self._rate
        while since_ns < now_ns:
            second = since_ns // NS_PER_S
            until_ns = min(now_ns, (second + 1) * NS_PER_S)
            self._sums[RATE][second] += rate_bps / 1000 * (until_ns - since_ns) / NS_PER_S
            since_ns = until_ns

    def reading(self, host: HostName, reading: RadioReading, *, now_ns: int) -> None:
        """Take the modem's reading."""
        if reading.ecio_db is not None:
            self._sums[ECIO][now_ns // NS_PER_S] = reading.ecio_db

    def series(self) -> dict[str, Array]:
        """Return each series by its name: float64, shape (n_seconds,), whole seconds only."""
        self._hold(self._end * NS_PER_S)
        complete = {
            name: np.array([sums.get(second, 0.0) for second in range(self._end)]) for name, sums in self._sums.items()
        }
        samples = (self._samples.get(second) for second in range(self._end))
        return complete | {RTT: np.array([np.mean(each) if each else np.nan for each in samples])}
