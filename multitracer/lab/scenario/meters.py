"""What a run, in virtual or in real time, measures of its link and of its flows while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from multitracer.lab.channel.shared.hosts import FIXED
from multitracer.lab.scenario.flows import Flow, rate_bps
from multitracer.lab.scenario.summary import NOTED, LinkMeter, Summary, TransferMeter
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.lab.channel.gsm.character_balance import Balance
    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.scenario.model import Scenario, Traffic
    from multitracer.lab.tcp import Endpoint, Packet
    from multitracer.protocols.link_events import LinkEvent


class Meter(Protocol):
    """What one flow delivered; times are those of the link."""

    arrived_packets: int
    max_rtt_ns: int | None
    longest_hole_ns: int | None

    @property
    def arrived_bytes(self) -> int:
        """Payload that reached the receiver, each byte once."""

    @property
    def began_ns(self) -> int | None:
        """When the first packet left."""

    @property
    def latest_ns(self) -> int | None:
        """When new payload arrived last."""

    @property
    def goodput_bytes_per_s(self) -> float | None:
        """Payload per second from the first packet to the last new byte."""


_UNMEASURED = TransferMeter((b"", 0), (b"", 0))
"""Of a first traffic that did not begin."""


class TcpCounts(NamedTuple):
    """What only the hosts' TCP knows, as `Summary` has it."""

    tcp_retransmissions: int
    tcp_timeouts: int
    tcp_fast_retransmits: int
    checksum_errors: int


class Meters:
    """The meters of the link and of each flow.

    Parameters
    ----------
    scenario : Scenario
        What is run; its first traffic's sender is the data sender of the link's meter.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        mobile = scenario.mobile_of(scenario.traffic[0])
        ends = {mobile} if len(scenario.hosts) > 2 else {mobile, FIXED}
        place = scenario.hosts.index(mobile)
        self.link = LinkMeter(scenario.sender, ends=frozenset(ends), stream=place)
        self.flows: dict[int, Meter] = {}
        """By the place of the traffic in the scenario."""
        self._named: dict[int, str] = {}
        self._tcp: dict[tuple[bytes, bytes, int, int], tuple[HostName, TransferMeter]] = {}

    def begin(self, number: int, mobile: Endpoint, fixed: Endpoint, meter: Meter | None = None) -> None:
        """Measure a traffic whose ends are known now, over TCP if no meter is given."""
        traffic = self._scenario.traffic[number]
        sender, receiver = (mobile, fixed) if traffic.direction == "up" else (fixed, mobile)
        ends = self._scenario.sender_of(traffic), self._scenario.receiver_of(traffic)
        self._named[number] = f"{ends[0]}:{sender.port} > {ends[1]}:{receiver.port}"
        if meter is None:
            meter = TransferMeter((sender.address, sender.port), (receiver.address, receiver.port))
            for one, other in ((sender, receiver), (receiver, sender)):
                self._tcp[one.address, other.address, one.port, other.port] = ends[0], meter
        self.flows[number] = meter

    def packet(
        self, host: HostName, packet: Packet | None, data: bytes, *, now_ns: int, outgoing: bool
    ) -> None:
        """Give a TCP packet to the meter of its flow."""
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
        """Give events to the link's meter."""
        for event in events:
            if type(event) in NOTED:  # most are not, and there are many
                self.link.note(host, event)

    def summary(self, counts: TcpCounts, *, ledger: Balance | None, end_ns: int) -> Summary:
        """Return the numbers of the run, which ended at `end_ns`."""
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

    def _all_flows(self, *, end_ns: int) -> tuple[Flow, ...]:
        """Return every flow that began, in the scenario's order."""
        began = ((number, self._scenario.traffic[number]) for number in sorted(self.flows))
        return tuple(self._flow(number, traffic, end_ns) for number, traffic in began)

    def _flow(self, number: int, traffic: Traffic, end_ns: int) -> Flow:
        meter = self.flows[number]
        start_ns = end_ns if meter.began_ns is None else meter.began_ns
        is_complete = meter.arrived_bytes >= traffic.bytes and meter.latest_ns is not None
        until_ns = meter.latest_ns if is_complete and meter.latest_ns is not None else end_ns
        return Flow(
            flow=self._named[number],
            transport=traffic.transport,
            start_s=start_ns / NS_PER_S,
            delivered_bytes=meter.arrived_bytes,
            delivered_packets=meter.arrived_packets,
            rate_bps=rate_bps(delivered_bytes=meter.arrived_bytes, elapsed_ns=until_ns - start_ns),
        )


def _seconds(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / NS_PER_S
