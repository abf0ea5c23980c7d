"""Snoop at a base station, and a host that knows when its link comes back: what paper 002's conclusion proposes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.lab.channel.shared.scheduler import Agenda
from multitracer.lab.channel.shared.snoop import SnoopAgent
from multitracer.lab.channel.switched import SwitchedConfig
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import VirtualRun
from multitracer.lab.tcp.packet import Endpoint, Segment, TcpPacket, build_packet
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary

FIXED, MOBILE = Endpoint(b"\x0a\x40\x00\x02", 80), Endpoint(b"\x0a\x40\x00\x01", 5000)
START = (1 << 32) - 1000
"""Sequence number of the first packet: the second one is above 2^32."""


def with_link(scenario: Scenario, **changes: object) -> Scenario:
    assert isinstance(scenario.link, SwitchedConfig)
    return replace(scenario, link=replace(scenario.link, **changes))  # type: ignore[arg-type]


def with_tcp(scenario: Scenario, **changes: object) -> Scenario:
    tcp = replace(scenario.fixed, **changes)  # type: ignore[arg-type]
    return replace(scenario, mobile=tcp, fixed=tcp)


def run(scenario: Scenario) -> Summary:
    return VirtualRun(scenario).run()


class BaseStation:
    """A Snoop agent alone, with what it sends again and when."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.repeated: list[tuple[int, bytes]] = []
        self.agent = SnoopAgent(self.agenda, lambda packet, now_ns: self.repeated.append((now_ns, packet)))

    def data(self, number: int, *, at_ms: int) -> bytes:
        """Pass a packet of 1000 bytes to the mobile."""
        self.agenda.advance(at_ms * NS_PER_MS)
        packet = packet_of(FIXED, MOBILE, seq=START + 1000 * number, ack=1, payload=bytes(1000))
        self.agent.note_data(packet, self.agenda.now_ns)
        return packet

    def ack(self, number: int, *, at_ms: int) -> bool:
        """Return whether an acknowledgment of all packets before `number` goes on."""
        self.agenda.advance(at_ms * NS_PER_MS)
        return self.agent.passes(packet_of(MOBILE, FIXED, seq=1, ack=START + 1000 * number), self.agenda.now_ns)


def packet_of(source: Endpoint, destination: Endpoint, *, seq: int, ack: int, payload: bytes = b"") -> bytes:
    segment = Segment(
        source_port=source.port,
        destination_port=destination.port,
        seq=seq % (1 << 32),
        ack=ack % (1 << 32),
        flags=0x10,
        window=65_535,
        payload=payload,
    )
    packet = TcpPacket(source=source.address, destination=destination.address, segment=segment, identification=1)
    return build_packet(packet)


def test_a_lost_packet_is_repeated_at_the_first_duplicate_and_the_sender_does_not_learn_of_it() -> None:
    station = BaseStation()
    first, lost, *_ = [station.data(number, at_ms=number) for number in range(5)]
    assert first != lost
    assert station.ack(1, at_ms=20)
    assert [station.ack(1, at_ms=21 + number) for number in range(3)] == [False] * 3
    assert station.repeated == [(21 * NS_PER_MS, lost)]
    assert station.ack(5, at_ms=40)
    station.agenda.advance(2_000 * NS_PER_MS)
    assert len(station.repeated) == 1


def test_the_local_timer_repeats_the_oldest_packet_without_back_off() -> None:
    station = BaseStation()
    station.data(0, at_ms=0)
    assert station.ack(1, at_ms=30)
    lost = station.data(1, at_ms=30)
    station.data(2, at_ms=31)
    station.agenda.advance(300 * NS_PER_MS)
    assert station.repeated == [(time_ms * NS_PER_MS, lost) for time_ms in (90, 150, 210, 270)]


def test_duplicates_for_what_the_sender_repeated_go_on_to_it() -> None:
    station = BaseStation()
    for number in (0, 1, 2, 1):
        station.data(number, at_ms=number)
    assert station.ack(1, at_ms=20)
    assert station.ack(1, at_ms=21)


@given(st.binary(max_size=80))
def test_any_bytes_pass(packet: bytes) -> None:
    station = BaseStation()
    station.agent.note_data(packet, 0)
    assert station.agent.passes(packet, 0)
    for length in range(41):
        assert station.agent.passes(packet_of(MOBILE, FIXED, seq=1, ack=1)[:length], 0)


@pytest.mark.slow
def test_both_remedies_gain_where_fades_are_long() -> None:
    """In ray-4 the sender sleeps through the begin of each time in which the link is up."""
    scenario = load_scenario("ray-4")
    control, snoop = run(scenario), run(with_link(scenario, snoop=True))
    split = run(with_tcp(scenario, resume_when_up=True))
    delivered = [each.flows[0].delivered_bytes for each in (control, snoop, split)]
    assert delivered[1] > 1.1 * delivered[0]
    assert delivered[2] > 1.2 * delivered[0]
    assert snoop.tcp_timeouts < control.tcp_timeouts


@pytest.mark.slow
def test_a_host_that_is_told_sends_at_once_when_the_link_is_up() -> None:
    scenario = load_scenario("ray-5")
    told = run(with_tcp(scenario, resume_when_up=True))
    assert told.flows[0].delivered_bytes > 5 * run(scenario).flows[0].delivered_bytes
