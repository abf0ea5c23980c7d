"""The rate that WTCP's receiver computes: the paper's rules one by one, then what they reach on a link."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.tcp.profile import TcpProfile
from multitracer.protocols.wtcp.receiver import Arrival, LossWindow, RateControl
from multitracer.protocols.wtcp.state import RateCause, RateChanged, WtcpConfig, WtcpCounters
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.lab.stack.tcp_pair import Fate, Pair
from tests.protocols.wtcp_path import Direction, Path, goodput_packets_per_s

if TYPE_CHECKING:
    from multitracer.lab.tcp.packet import TcpPacket

_SENT_MS = 100


@dataclass
class Feed:
    """A sender that sends a packet each 100 ms, and uses each rate as soon as it is known."""

    config: WtcpConfig = field(default_factory=WtcpConfig)
    events: list[RateChanged] = field(default_factory=list)
    serial: int = 0
    used_serial: int | None = None
    """The acknowledgment whose rate the sender uses; None: the newest."""
    now_ns: int = 0

    def __post_init__(self) -> None:
        self.counters = WtcpCounters()
        self.control = RateControl(self.config, self.counters, self.events.append)
        self.packet(_SENT_MS)

    def packet(self, apart_ms: float, *, missing: int = 0, octets: int = 500, **more: bool) -> None:
        """Let a packet arrive so long after the one before; answer it."""
        self.now_ns += round(apart_ms * NS_PER_MS) * (missing + 1)
        sent_ns = _SENT_MS * NS_PER_MS
        arrival = Arrival(
            now_ns=self.now_ns,
            octets=octets,
            missing=missing,
            elapsed_ns=sent_ns * (missing + 1),
            separation_ns=sent_ns,
            rate_serial=self.serial - 1 if self.used_serial is None else self.used_serial,
            **more,
        )
        self.control.take(arrival)
        self.control.note_told(self.serial)
        self.serial += 1

    def packets(self, count: int, apart_ms: float) -> list[RateCause]:
        """Let packets arrive; return why the rate changed meanwhile."""
        before = len(self.events)
        for _ in range(count):
            self.packet(apart_ms)
        return [each.cause for each in self.events[before:]]


def test_a_path_that_keeps_up_is_given_more_in_equal_steps() -> None:
    feed = Feed()
    causes = feed.packets(30, 100)
    assert set(causes) == {RateCause.INCREASE}
    rates = [feed.config.initial_rate_bps, *(each.rate_bps for each in feed.events)]
    steps = {after - before for before, after in itertools.pairwise(rates)}
    assert steps == {0.25 * 4000}


def test_a_first_decrease_is_a_fifth_and_the_next_twice_as_much() -> None:
    feed = Feed(WtcpConfig(initial_rate_packets_per_s=10.0))
    assert set(feed.packets(30, 130)) == {RateCause.RATIO}
    first, second, third = (each.rate_bps / 40_000 for each in feed.events[:3])
    assert first == pytest.approx(0.8)
    assert second == pytest.approx(0.8 * 0.6)
    assert third == pytest.approx(0.8 * 0.6 * 0.5)  # delta is bounded


def test_holding_resets_delta() -> None:
    feed = Feed(WtcpConfig(initial_rate_packets_per_s=10.0, queue_limit_packets=1e6, queue_free_packets=1e6))
    while feed.packets(1, 130) != [RateCause.RATIO]:
        pass
    held = feed.packets(20, 103.5)  # 0.966: between alpha- and alpha+
    assert held == []
    feed.packets(60, 130)
    rates = [each.rate_bps for each in feed.events]
    assert rates[1] / rates[0] == pytest.approx(0.8)


def test_between_the_thresholds_the_rate_is_held_until_a_queue_stands() -> None:
    feed = Feed(WtcpConfig(initial_rate_packets_per_s=10.0))
    assert feed.packets(40, 104) == []  # 0.96, and 40 x 4 ms are 1.6 packets of 10 a second
    assert set(feed.packets(40, 104)) == {RateCause.QUEUE}


def test_a_limited_sender_gets_no_more() -> None:
    feed = Feed()
    for _ in range(50):
        feed.packet(100, is_limited=True)
    assert feed.events == []


def test_a_change_waits_until_the_sender_uses_the_one_before() -> None:
    feed = Feed()
    feed.packets(10, 100)
    feed.used_serial, changes = feed.serial - 1, len(feed.events)
    assert len(feed.packets(30, 100)) <= 1
    feed.used_serial = None
    assert len(feed.packets(30, 100)) > 10
    assert len(feed.events) > changes + 10


def test_more_losses_than_expected_halve_at_once_and_once() -> None:
    feed = Feed(WtcpConfig(initial_rate_packets_per_s=10.0))
    feed.packet(100, missing=12)
    assert [each.cause for each in feed.events] == [RateCause.LOSS]
    assert feed.control.rate_bps == 20_000
    feed.packet(100, missing=3)
    assert feed.counters.halvings == 1


def test_what_a_blackout_lost_is_no_congestion() -> None:
    feed = Feed(WtcpConfig(initial_rate_packets_per_s=10.0))
    feed.packet(100, missing=12, is_probe=True)
    assert feed.counters.halvings == 0


def test_losses_are_learnt_while_the_rate_is_held_alone() -> None:
    window = LossWindow(WtcpConfig())
    before = window.expected
    for _ in range(10):
        window.note_arrival(0)
    window.learn()
    assert window.expected == before  # no whole window yet
    for _ in range(40):
        for _ in range(32):
            window.note_arrival(0)
        window.learn()
    assert window.expected < before / 4
    window.note_arrival(1)
    assert not window.is_congested  # a single loss is always random
    window.note_arrival(1)
    window.note_arrival(1)
    assert window.is_congested


def test_a_late_packet_is_no_loss() -> None:
    window = LossWindow(WtcpConfig())
    window.note_arrival(3)
    assert window.count == 3
    window.note_late(1)
    assert window.count == 2


def test_the_packet_pair_starts_the_flow_at_a_part_of_what_it_saw() -> None:
    feed = Feed()
    feed.packet(80, is_pair=True)  # 500 bytes in 80 ms are 50 kb/s; it left 100 ms after the first
    assert feed.control.rate_bps == pytest.approx(0.5 * 40_000)
    assert not feed.control.is_starting


def test_a_pair_of_short_packets_counts_until_longer_ones_come() -> None:
    feed = Feed()
    feed.packet(80, is_pair=True, octets=100)
    after_short = feed.control.is_starting
    feed.packet(40, is_pair=True)
    assert (after_short, feed.control.is_starting) == (True, False)
    assert feed.control.rate_bps == pytest.approx(0.5 * 40_000)


# --- on a link: 2 x 150 ms, 15 packets of queue, 500-byte packets ---


def _link(bits_per_s: int, loss: float = 0.0, *, delay_ms: int = 150) -> tuple[Direction, Direction]:
    both = {"bits_per_s": bits_per_s, "loss": loss, "delay_ns": delay_ms * NS_PER_MS}
    return Direction(**both), Direction(**both)  # type: ignore[arg-type]


@pytest.mark.parametrize("bits_per_s", [19_200, 50_000])
def test_an_error_free_link_is_used_without_overflow(bits_per_s: int) -> None:
    path = Path(*_link(bits_per_s))
    exchange = path.add(keep=False)
    path.run(300)
    assert path.forward.sent_bits / bits_per_s / 300 >= 0.9
    assert path.forward.overflows == 0
    assert goodput_packets_per_s(exchange, 0, 300) >= 0.9 * bits_per_s / 4000
    assert exchange.a.counters.retransmissions == 0


def _newreno_packets_per_s(path: Path, seconds: float) -> float:
    """Return what NewReno delivers over a path, in packets of 460 bytes each second."""
    profile = TcpProfile(mtu_bytes=500, initial_window_segments=2, sack=False, timestamps=False)

    def fate(_: int, packet: TcpPacket) -> Fate:
        direction = path.forward if packet.source[-1] == 1 else path.backward
        octets = len(packet.segment.payload) + 12  # and IP and UDP, which `RelayDirection` adds: 40 in all
        times = direction.arrivals(octets, pair.now_ns, path.luck)
        return [time_ns - pair.now_ns - pair.delay_ns for time_ns in times]

    pair = Pair(client=profile, fate=fate)
    pair.transfer(bytes(4_000_000), seconds=seconds)
    return len(pair.received["b"]) / 460 / seconds


@pytest.mark.slow
@pytest.mark.parametrize(("delay_ms", "minimum", "most"), [(150, 1.5, 2.2), (300, 2.2, 4.0)])
def test_random_loss_costs_wtcp_little_and_newreno_much(delay_ms: int, minimum: float, most: float) -> None:
    ours, newreno = [], []
    for seed in (1, 2, 3):
        path = Path(*_link(50_000, 0.06, delay_ms=delay_ms), seed=seed)
        exchange = path.add(keep=False)
        path.run(300)
        ours.append(goodput_packets_per_s(exchange, 0, 300))
        newreno.append(_newreno_packets_per_s(Path(*_link(50_000, 0.06, delay_ms=delay_ms), seed=seed), 300))
    assert sorted(ours)[1] >= 0.9 * 0.94 * 12.5
    assert minimum <= sorted(ours)[1] / sorted(newreno)[1] <= most  # paper 001, figure 3 (b): about 3


def _jain(rates: list[float]) -> float:
    return sum(rates) ** 2 / len(rates) / sum(rate * rate for rate in rates)


@pytest.mark.parametrize(
    ("bits_per_s", "begins_s"), [(50_000, (0, 0, 0)), (50_000, (0, 15, 30)), (19_200, (0, 15, 150))]
)
def test_three_flows_converge_to_equal_shares(bits_per_s: int, begins_s: tuple[int, ...]) -> None:
    path = Path(*_link(bits_per_s))
    exchanges = [path.add(keep=False, begin_ns=begin * NS_PER_S) for begin in begins_s]
    path.run(300)
    rates = [goodput_packets_per_s(exchange, 200, 300) for exchange in exchanges]
    assert _jain(rates) >= 0.95
    assert sum(rates) >= 0.9 * bits_per_s / 4000
    assert path.forward.overflows == 0


def test_lost_acknowledgments_cost_little() -> None:
    path = Path(Direction(bits_per_s=50_000), Direction(bits_per_s=50_000, loss=0.3))
    exchange = path.add(keep=False)
    path.run(200)
    assert goodput_packets_per_s(exchange, 0, 200) >= 0.85 * 12.5
    assert exchange.a.counters.acks_lost >= 0.2 * exchange.b.counters.acks_sent


def test_a_slow_way_back_gets_fewer_acknowledgments_and_costs_little() -> None:
    goodputs, acks = [], []
    for back_bits_per_s in (50_000, 1_000):
        path = Path(Direction(bits_per_s=50_000), Direction(bits_per_s=back_bits_per_s))
        exchange = path.add(keep=False)
        path.run(200)
        goodputs.append(goodput_packets_per_s(exchange, 0, 200))
        acks.append(exchange.b.counters.acks_sent)
    assert goodputs[1] >= 0.8 * goodputs[0]
    assert acks[1] < acks[0] / 2
