"""What really happened to the segments of a run: needless timeouts and copies, and how old data were.

A timeout is spurious if the ACK that answers it had been sent before the repeated segment arrived: it would
have come anyway (paper 004, section 5.4). A copy is needless if it brings the receiver nothing new.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from multitracer.captured import Flag
from multitracer.lab.channel.shared.packet_link import FIXED
from multitracer.lab.scenario.session_folder import FIRST_PORT
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.lab.tcp.packet import Endpoint, sequence_length
from multitracer.protocols.ranges import RangeSet
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.simulator.host import Datagram
    from multitracer.lab.simulator.run import VirtualRun
    from multitracer.lab.tcp.packet import TcpPacket

Copy = tuple[int, str, int]
"""Number of the traffic, the host that sent it, and the packet's identification."""


@dataclass(slots=True)
class _Timeout:
    """A timeout whose repeated segment is not acknowledged yet."""

    repeated: Copy
    end: int
    """Sequence number after the segment."""
    arrived_ns: int | None = None
    """When the repeated segment reached the receiver."""


class Watch(NetworkObserver):
    """Follows every segment from one host to the other."""

    def __init__(self) -> None:
        self.spurious_timeouts = 0
        self.needless_segments = 0
        self.syns: dict[int, int] = defaultdict(int)
        """How often the mobile sent the SYN of each traffic."""
        self.stale_bytes = 0
        """Data of the first traffic that reached the mobile after the user gave it up."""
        self._run: VirtualRun | None = None
        self._began_ns: dict[int, int] = {}
        self._sent_ns: dict[Copy, int] = {}
        self._timeouts: dict[str, int] = defaultdict(int)
        self._pending: list[_Timeout] = []
        self._arrived: dict[tuple[int, str], RangeSet] = defaultdict(RangeSet)
        self._delays_ns: list[int] = []

    def follow(self, run: VirtualRun) -> None:
        """Learn which run this is, before it begins."""
        self._run = run

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Take a packet at a host's interface."""
        del data
        if packet is None:
            return
        sender = host if outgoing else ("mobile" if host == FIXED else FIXED)
        ports = packet.segment.source_port, packet.segment.destination_port
        copy = ports[sender == "mobile"] - FIRST_PORT, sender, packet.identification
        if outgoing:
            self._note_sent(copy, packet, now_ns)
        elif packet.checksum_ok:
            self._note_arrived(copy, packet, now_ns)

    def _note_sent(self, copy: Copy, packet: TcpPacket, now_ns: int) -> None:
        number, host, _ = copy
        self._sent_ns[copy] = now_ns
        if packet.segment.flags & Flag.SYN and host == "mobile":
            self.syns[number] += 1
            self._began_ns.setdefault(number, now_ns)
        length = sequence_length(packet.segment)
        timeouts = self._timeouts_of(host)
        if length and timeouts > self._timeouts[host]:
            self._timeouts[host] = timeouts
            self._pending.append(_Timeout(copy, packet.segment.seq + length))

    @property
    def timeouts(self) -> int:
        """Timeouts of all connections at both hosts, SYNs included."""
        return self._timeouts_of("mobile") + self._timeouts_of(FIXED)

    def _timeouts_of(self, host: str) -> int:
        assert self._run is not None
        sockets = self._run.network.hosts[host].sockets
        return sum(socket.connection.sender.counters.timeouts for socket in sockets)

    def _note_arrived(self, copy: Copy, packet: TcpPacket, now_ns: int) -> None:
        for timeout in self._pending:
            if timeout.repeated == copy:
                timeout.arrived_ns = now_ns
        if packet.segment.flags & Flag.ACK:
            self._note_ack(copy, packet.segment.ack)
        if packet.segment.payload:
            self._note_data(copy, packet, now_ns)

    def _note_ack(self, copy: Copy, ack: int) -> None:
        """Judge the timeouts that an ACK answers."""
        still = []
        for timeout in self._pending:
            number, host, _ = timeout.repeated
            if (number, host) == (copy[0], copy[1]) or number != copy[0] or (ack - timeout.end) & 1 << 31:
                still.append(timeout)
            elif timeout.arrived_ns is None or self._sent_ns[copy] < timeout.arrived_ns:
                self.spurious_timeouts += 1
        self._pending = still

    def _note_data(self, copy: Copy, packet: TcpPacket, now_ns: int) -> None:
        arrived, seq = self._arrived[copy[:2]], packet.segment.seq
        before = arrived.total
        arrived.add(seq, seq + len(packet.segment.payload))
        self.needless_segments += arrived.total == before
        if copy[0] == 0:
            self._delays_ns.append(now_ns - self._sent_ns[copy])
            self._note_stale(len(packet.segment.payload), now_ns)

    def _note_stale(self, size: int, now_ns: int) -> None:
        assert self._run is not None
        after_s = self._run.scenario.traffic[0].aborts_after_s
        if after_s and now_ns > self._began_ns[0] + after_s * NS_PER_S:
            self.stale_bytes += size

    @property
    def delay_median_s(self) -> float | None:
        """Median time of a segment of the first traffic from the sender's interface to the receiver's."""
        return median(self._delays_ns) / NS_PER_S if self._delays_ns else None

    @property
    def delay_most_s(self) -> float | None:
        """The longest of these."""
        return max(self._delays_ns) / NS_PER_S if self._delays_ns else None


class Datagrams:
    """A flow that cannot wait, as speech: the fixed host sends a datagram each second, and nobody repeats it.

    It goes in the direction in which TCP has ACKs alone, so that no queue hides what the link does.
    """

    _PORT, _PAYLOAD_BYTES = 7000, 100
    _SETTLED_NS = 15 * NS_PER_S
    """What is sent in this time before the end of the run may be under way, and is not counted."""

    def __init__(self, run: VirtualRun) -> None:
        self._network = run.network
        self._sent_ns: list[int] = []
        self._delay_ns: dict[int, int] = {}
        run.network.hosts["mobile"].bind(self._PORT, self._take)
        run.network.at(NS_PER_S, self._send)

    def _send(self) -> None:
        fixed, mobile = (self._network.hosts[name] for name in (FIXED, "mobile"))
        if self._network.link.is_up:
            number = len(self._sent_ns).to_bytes(4, "big")
            self._sent_ns.append(self._network.now_ns)
            padded = number.ljust(self._PAYLOAD_BYTES, b"v")
            fixed.send_datagram(self._PORT, Endpoint(mobile.address, self._PORT), padded)
        self._network.at(self._network.now_ns + NS_PER_S, self._send)

    def _take(self, datagram: Datagram) -> None:
        number = int.from_bytes(datagram.payload[:4], "big")
        self._delay_ns[number] = self._network.now_ns - self._sent_ns[number]

    def columns(self) -> dict[str, float | int | None]:
        """Return how many were sent and arrived, and the median and longest time of those that arrived."""
        settled_ns = self._network.now_ns - self._SETTLED_NS
        counted = [number for number, sent_ns in enumerate(self._sent_ns) if sent_ns < settled_ns]
        delays_ns = [self._delay_ns[number] for number in counted if number in self._delay_ns]
        return {
            "datagrams": len(counted),
            "datagrams_arrived": len(delays_ns),
            "datagram_median_s": median(delays_ns) / NS_PER_S if delays_ns else None,
            "datagram_most_s": max(delays_ns) / NS_PER_S if delays_ns else None,
        }
