"""Computes the numbers of `summary.json`: measurements of a run's link and of its flows."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from multitracer.analysis.fairness import fairness_gap, jain_index
from multitracer.captured import Flag
from multitracer.lab.channel.shared.packet_link import FIXED
from multitracer.lab.tcp.packet import sequence_length, unwrap
from multitracer.protocols.link_events import (
    STREAM_BITS,
    CallDropped,
    FrameSent,
    PeerBusy,
    PeerReady,
    PieceSent,
    ResetDone,
    ResetStarted,
    XoffReceived,
    XonReceived,
)
from multitracer.protocols.ranges import RangeSet
from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.lab.channel.gsm import Balance
    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.tcp.packet import Endpoint, TcpPacket
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.schemas.schema import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of one run; times are in link seconds, None means that nothing could be measured."""

    goodput_bytes_per_s: float | None
    """Delivered payload, each byte once, per second from the first SYN to the arrival of its last byte."""
    rlp_slope_bytes_per_s: float | None
    """Least-squares slope of first transmissions over time, of the data sender's link (RlpSnd_data, or CDPD's MDLP)."""
    rlp_resets: int
    rlp_retransmissions: int
    """Number of information frames that the data sender's link retransmitted."""
    xoff_gaps_s: list[float]
    """Duration of each stop of the data sender by its peer, from the receipt of the stop to that of the go."""
    tcp_retransmissions: int
    """Number of segments that the data sender's host retransmitted."""
    tcp_timeouts: int
    tcp_fast_retransmits: int
    """Number of times that TCP of this host entered fast or SACK recovery."""
    checksum_errors: int
    """Number of segments with a wrong TCP checksum at the data receiver."""
    longest_receiver_hole_s: float | None
    """Longest time between two arrivals of new, undamaged data at the receiver."""
    max_rtt_s: float | None
    """Largest RTT sample (docs/analysis.md) at the data sender."""
    ledger: Balance | None
    """Count of characters of both directions of the link; None if the link is not a GSM data call."""
    flows: tuple[FlowSummary, ...] = ()
    """The flows that began, in the scenario's order."""

    def document(self) -> Document:
        """Return the content of summary.json."""
        numbers = {key: round(value, 6) if isinstance(value, float) else value for key, value in asdict(self).items()}
        gaps = {"xoff_gaps_s": [round(gap, 6) for gap in self.xoff_gaps_s]}
        return numbers | gaps | flows_document(self.flows)


@dataclass(slots=True)
class RunningFit:
    """A least-squares line through points that are added one by one."""

    count: int = 0
    _x0: float = 0.0
    _sum_x: float = 0.0
    _sum_y: float = 0.0
    _sum_xx: float = 0.0
    _sum_xy: float = 0.0

    def add(self, x: float, y: float) -> None:
        """Add one point."""
        if not self.count:
            self._x0 = x
        x -= self._x0
        self.count += 1
        self._sum_x += x
        self._sum_y += y
        self._sum_xx += x * x
        self._sum_xy += x * y

    @property
    def slope(self) -> float | None:
        """Slope of the line; None while there are not two points with different x."""
        spread = self.count * self._sum_xx - self._sum_x * self._sum_x
        if spread <= 0:
            return None
        return (self.count * self._sum_xy - self._sum_x * self._sum_y) / spread


NOTED = {
    *(ResetStarted, ResetDone, CallDropped, FrameSent, PieceSent),
    *(XoffReceived, PeerBusy, XonReceived, PeerReady),
}
"""Types of events from which the link's numbers are computed."""


@dataclass(slots=True)
class LinkMeter:
    """Computes the numbers of the link from the events at both hosts; times are those of the events."""

    sender: str
    """Host that sends the data."""
    ends: frozenset[str] = frozenset({"mobile", "fixed"})
    """Hosts whose logs report resets of the link.

    With several mobiles it is only the mobile with the data, because the fixed host's log has the resets of all."""
    stream: int = 0
    """Number of the mobile whose frames count in the fixed host's log, from 0."""
    rlp: RunningFit = field(default_factory=RunningFit)
    retransmissions: int = 0
    resets: int = 0
    xoff_gaps_ns: list[int] = field(default_factory=list)
    _resetting: set[str] = field(default_factory=set)
    _xoff_since_ns: int | None = None

    def note(self, side: str, event: LinkEvent) -> None:
        """Process one event of one side."""
        if isinstance(event, ResetStarted) and side in self.ends:
            self.resets += not self._resetting
            self._resetting |= self.ends
            self._end_gap(event.time_ns)
        elif isinstance(event, ResetDone | CallDropped):
            self._resetting.discard(side)
        if side != self.sender:
            return
        if isinstance(event, FrameSent):
            self._note_frame(event.time_ns, event.offset_bytes, event.attempt)
        elif isinstance(event, PieceSent):
            self._note_frame(event.time_ns, event.offset_bytes, event.attempts)
        elif isinstance(event, XoffReceived | PeerBusy) and self._xoff_since_ns is None:
            self._xoff_since_ns = event.time_ns
        elif isinstance(event, XonReceived | PeerReady):
            self._end_gap(event.time_ns)

    def _note_frame(self, time_ns: int, offset_bytes: int | None, attempt: int) -> None:
        if offset_bytes is None or offset_bytes >> STREAM_BITS != self.stream:
            return
        if attempt == 1:
            self.rlp.add(time_ns / NS_PER_S, offset_bytes)
        else:
            self.retransmissions += 1

    def _end_gap(self, now_ns: int) -> None:
        if self._xoff_since_ns is not None:
            self.xoff_gaps_ns.append(now_ns - self._xoff_since_ns)
            self._xoff_since_ns = None


class ArrivedOverTime:
    """What a flow had delivered at each time: one entry for each packet with new payload."""

    def __init__(self) -> None:
        self._time_ns, self._bytes = array("q"), array("q")

    def note(self, now_ns: int, arrived_bytes: int) -> None:
        """Add the bytes that have arrived so far; times do not decrease."""
        self._time_ns.append(now_ns)
        self._bytes.append(arrived_bytes)

    def at(self, time_ns: int) -> int:
        """Return the bytes that had arrived at a time, itself included."""
        place = bisect_right(self._time_ns, time_ns)
        return self._bytes[place - 1] if place else 0


@dataclass(slots=True)
class TransferMeter:
    """Computes the numbers of one connection from the packets at both hosts.

    Parameters
    ----------
    sender, receiver : (bytes, int)
        Address and port of the data sender and of the data receiver.
    """

    sender: tuple[bytes, int]
    receiver: tuple[bytes, int]
    checksum_errors: int = 0
    max_rtt_ns: int | None = None
    longest_hole_ns: int | None = None
    arrived_packets: int = 0
    """Number of packets with payload that the receiver did not have yet."""
    _directions: dict[tuple[bytes, int, bytes, int], bool] = field(init=False, repr=False)
    _first_syn_ns: int | None = None
    _first_seq: int | None = None
    _highest_sent: int = 0
    _resent_below: int = 0
    _acked: int = 0
    _timed: dict[int, int] = field(default_factory=dict)
    _arrived: RangeSet = field(default_factory=RangeSet)
    _last_new_ns: int | None = None
    over_time: ArrivedOverTime = field(default_factory=ArrivedOverTime)

    def __post_init__(self) -> None:
        self._directions = {(*self.sender, *self.receiver): True, (*self.receiver, *self.sender): False}

    def _is_data(self, packet: TcpPacket) -> bool | None:
        """Return True for a packet from data sender to receiver, False for the reverse direction.

        None for a packet of another connection.
        """
        segment = packet.segment
        ends = packet.source, segment.source_port, packet.destination, segment.destination_port
        return self._directions.get(ends)

    def at_sender(self, packet: TcpPacket, *, now_ns: int) -> None:
        """Process a packet that left or reached the data sender's interface."""
        is_data = self._is_data(packet)
        if is_data is None:
            return
        if packet.segment.flags & Flag.SYN and self._first_syn_ns is None:
            self._first_syn_ns = now_ns
        if is_data:
            self._note_sent(packet, now_ns)
        elif packet.checksum_ok and packet.segment.flags & Flag.ACK:
            self._note_ack(packet, now_ns)

    def _note_sent(self, packet: TcpPacket, now_ns: int) -> None:
        segment = packet.segment
        if self._first_seq is None or segment.flags & Flag.SYN:
            self._first_seq = segment.seq
        begin = unwrap(segment.seq - self._first_seq, near=self._highest_sent)
        end = begin + sequence_length(segment)
        if end == begin:
            return
        if begin < self._highest_sent:  # Karn, and no sample from what is sent behind a hole
            self._timed.clear()
            self._resent_below = max(self._highest_sent, end)
        elif self._acked >= self._resent_below:
            self._timed[end] = now_ns
        self._highest_sent = max(self._highest_sent, end)

    def _note_ack(self, packet: TcpPacket, now_ns: int) -> None:
        ack = unwrap(packet.segment.ack - (self._first_seq or 0), near=self._acked)
        if ack <= self._acked or ack > self._highest_sent:
            return
        self._acked = ack
        sent_ns = self._timed.pop(ack, None)
        if sent_ns is not None:
            self.max_rtt_ns = max(self.max_rtt_ns or 0, now_ns - sent_ns)
        while self._timed and (first := next(iter(self._timed))) < ack:
            del self._timed[first]  # they ascend

    def at_receiver(self, packet: TcpPacket, *, now_ns: int) -> None:
        """Process a packet that reached the data receiver's interface."""
        if not packet.checksum_ok:
            self.checksum_errors += 1
        elif self._is_data(packet) and packet.segment.payload:
            self._note_arrival(packet, now_ns)

    def _note_arrival(self, packet: TcpPacket, now_ns: int) -> None:
        before = self._arrived.total
        begin = unwrap(packet.segment.seq - (self._first_seq or 0), near=self._highest_sent)
        self._arrived.add(begin, begin + len(packet.segment.payload))
        if self._arrived.total == before:
            return
        self.arrived_packets += 1
        if self._last_new_ns is not None:
            self.longest_hole_ns = max(self.longest_hole_ns or 0, now_ns - self._last_new_ns)
        self._last_new_ns = now_ns
        self.over_time.note(now_ns, self._arrived.total)

    @property
    def arrived_bytes(self) -> int:
        """Payload bytes that have reached the receiver, each counted once."""
        return self._arrived.total

    @property
    def began_ns(self) -> int | None:
        """Time at which the first SYN passed the data sender's interface; None if none has passed."""
        return self._first_syn_ns

    @property
    def latest_ns(self) -> int | None:
        """Time at which new payload arrived last; None if none has arrived."""
        return self._last_new_ns

    @property
    def goodput_bytes_per_s(self) -> float | None:
        """Payload bytes per second, each byte counted once, from the first SYN to the last new byte."""
        if self._first_syn_ns is None or self._last_new_ns is None:
            return None
        elapsed_ns = self._last_new_ns - self._first_syn_ns
        return self._arrived.total * NS_PER_S / elapsed_ns if elapsed_ns > 0 else None


# What each flow of a run delivered, and how evenly, for the summary.


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSummary:
    """The numbers of one flow: the data of one traffic entry of the scenario. Times are in link seconds."""

    flow: str
    """Endpoints of the flow: HOST:PORT > HOST:PORT."""
    transport: str
    """Name of the transport in the scenario."""
    start_s: float
    """Time of the first packet, counted from the start of the run."""
    delivered_bytes: int
    """Payload bytes that reached the receiver, each counted once."""
    delivered_packets: int
    """Number of packets that carried these bytes."""
    rate_bps: float | None
    """Delivered bits per second, from the first packet to the arrival of the last byte, or to the end of the run.

    None if the time is 0."""
    late_rate_bps: float | None
    """Delivered bits per second in the last third of the time in which all flows run; None if there is no such time."""


def rate_bps(*, delivered_bytes: int, elapsed_ns: int) -> float | None:
    """Return the rate of a flow in bit/s; None if no time passed."""
    return delivered_bytes * BITS_PER_BYTE * NS_PER_S / elapsed_ns if elapsed_ns > 0 else None


def flows_document(flows: Sequence[FlowSummary]) -> Document:
    """Return the keys of summary.json about the flows.

    The key `share` is the flow's fraction of all delivered bytes; None if no byte was delivered.
    """
    total = sum(flow.delivered_bytes for flow in flows)
    rates = [flow.rate_bps or 0.0 for flow in flows]
    gap, reason = fairness_gap(rates)
    late = [flow.late_rate_bps for flow in flows if flow.late_rate_bps is not None]
    late_gap, _ = fairness_gap(late)
    return {
        "flows": [
            {
                **{name: _rounded(value) for name, value in asdict(flow).items() if name != "late_rate_bps"},
                "share": flow.delivered_bytes / total if total else None,
            }
            for flow in flows
        ],
        "jain_index": _rounded(jain_index(rates)),
        "fairness_gap": _rounded(gap),
        "fairness_gap_reason": reason,
        "jain_index_last_third": _rounded(jain_index(late)),
        "fairness_gap_last_third": _rounded(late_gap),
    }


def _rounded(value: float | str | None) -> float | str | None:
    return round(value, 6) if isinstance(value, float) else value


# What a run, in virtual or in real time, measures of its link and of its flows while it runs.


class Meter(Protocol):
    """Interface of an object that measures one flow; its times are link times."""

    over_time: ArrivedOverTime
    arrived_packets: int
    max_rtt_ns: int | None
    longest_hole_ns: int | None

    @property
    def arrived_bytes(self) -> int:
        """Payload bytes that reached the receiver, each counted once."""

    @property
    def began_ns(self) -> int | None:
        """Time of the flow's first packet; None if there was none."""

    @property
    def latest_ns(self) -> int | None:
        """Time at which new payload arrived last; None if none has arrived."""

    @property
    def goodput_bytes_per_s(self) -> float | None:
        """Payload bytes per second from the first packet to the last new byte."""


_UNMEASURED = TransferMeter((b"", 0), (b"", 0))
"""Meter of a first traffic that did not begin."""


class TcpCounts(NamedTuple):
    """Counters of a `Summary` that only the TCP of the hosts has."""

    tcp_retransmissions: int
    tcp_timeouts: int
    tcp_fast_retransmits: int
    checksum_errors: int


class Meters:
    """The meters of the link and of all flows.

    Parameters
    ----------
    scenario : Scenario
        Scenario of the run; the sender of its first traffic is the data sender for the link's meter.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        mobile = scenario.mobile_of(scenario.traffic[0])
        ends = {mobile} if len(scenario.hosts) > 2 else {mobile, FIXED}
        place = scenario.hosts.index(mobile)
        self.link = LinkMeter(scenario.sender, ends=frozenset(ends), stream=place)
        self.flows: dict[int, Meter] = {}
        """Meters by number of the traffic in the scenario."""
        self._named: dict[int, str] = {}
        self._tcp: dict[tuple[bytes, bytes, int, int], tuple[HostName, TransferMeter]] = {}

    def begin(self, number: int, mobile: Endpoint, fixed: Endpoint, meter: Meter | None = None) -> None:
        """Start to measure traffic `number` between two endpoints; without `meter` as a TCP connection."""
        traffic = self._scenario.traffic[number]
        sender, receiver = (mobile, fixed) if traffic.direction == "up" else (fixed, mobile)
        ends = self._scenario.sender_of(traffic), self._scenario.receiver_of(traffic)
        self._named[number] = f"{ends[0]}:{sender.port} > {ends[1]}:{receiver.port}"
        if meter is None:
            meter = TransferMeter((sender.address, sender.port), (receiver.address, receiver.port))
            for one, other in ((sender, receiver), (receiver, sender)):
                self._tcp[one.address, other.address, one.port, other.port] = ends[0], meter
        self.flows[number] = meter

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Pass a TCP packet to the meter of its flow."""
        del data
        if packet is None:
            return
        segment = packet.segment
        ends = packet.source, packet.destination, segment.source_port, segment.destination_port
        sender, meter = self._tcp.get(ends, (None, None))
        if meter is None:
            return
        if host == sender:
            meter.at_sender(packet, now_ns=now_ns)
        elif not outgoing:
            meter.at_receiver(packet, now_ns=now_ns)

    def link_events(self, host: HostName, events: Sequence[LinkEvent]) -> None:
        """Pass events to the link's meter."""
        for event in events:
            if type(event) in NOTED:  # most are not, and there are many
                self.link.note(host, event)

    def summary(self, counts: TcpCounts, *, ledger: Balance | None, end_ns: int) -> Summary:
        """Return the numbers of the run, which ended at link time `end_ns`."""
        first = self.flows.get(0, _UNMEASURED)
        return Summary(
            goodput_bytes_per_s=first.goodput_bytes_per_s,
            rlp_slope_bytes_per_s=self.link.rlp.slope,
            rlp_resets=self.link.resets,
            rlp_retransmissions=self.link.retransmissions,
            xoff_gaps_s=[gap / NS_PER_S for gap in self.link.xoff_gaps_ns],
            **counts._asdict(),
            longest_receiver_hole_s=_seconds(first.longest_hole_ns),
            max_rtt_s=_seconds(first.max_rtt_ns),
            ledger=ledger,
            flows=self._all_flows(end_ns=end_ns),
        )

    def _all_flows(self, *, end_ns: int) -> tuple[FlowSummary, ...]:
        """Return the summaries of all flows that have begun, in the order of the scenario."""
        spans = {number: self._span_ns(number, end_ns) for number in sorted(self.flows)}
        first_ns = max((begin for begin, _ in spans.values()), default=0)
        last_ns = min((end for _, end in spans.values()), default=0)
        third_ns = first_ns + 2 * (last_ns - first_ns) // 3, last_ns
        return tuple(self._flow(number, *span, third_ns) for number, span in spans.items())

    def _span_ns(self, number: int, end_ns: int) -> tuple[int, int]:
        """Return the times of a flow's first packet and of its last byte, or of the end of the run."""
        meter = self.flows[number]
        start_ns = end_ns if meter.began_ns is None else meter.began_ns
        is_complete = meter.arrived_bytes >= self._scenario.traffic[number].bytes and meter.latest_ns is not None
        return start_ns, meter.latest_ns if is_complete and meter.latest_ns is not None else end_ns

    def _flow(self, number: int, start_ns: int, until_ns: int, third_ns: tuple[int, int]) -> FlowSummary:
        meter, traffic = self.flows[number], self._scenario.traffic[number]
        before, after = (meter.over_time.at(time_ns) for time_ns in third_ns)
        return FlowSummary(
            flow=self._named[number],
            transport=traffic.transport,
            start_s=start_ns / NS_PER_S,
            delivered_bytes=meter.arrived_bytes,
            delivered_packets=meter.arrived_packets,
            rate_bps=rate_bps(delivered_bytes=meter.arrived_bytes, elapsed_ns=until_ns - start_ns),
            late_rate_bps=rate_bps(delivered_bytes=after - before, elapsed_ns=third_ns[1] - third_ns[0]),
        )


def _seconds(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / NS_PER_S
