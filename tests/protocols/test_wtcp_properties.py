"""WTCP delivers exactly what was written, whatever the path does, and both ends come to their end."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.protocols.wtcp.state import RateChanged, RateReceived, WtcpConfig, WtcpState
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.examples import examples
from tests.protocols.wtcp_path import Direction, Exchange, LocalClock, Path, goodput_packets_per_s

# Per packet: how many copies arrive (0 is a loss) and by how much each is late.
fates = st.lists(st.lists(st.integers(0, 3000 * NS_PER_MS), max_size=3), max_size=40)


@st.composite
def configs(draw: st.DrawFn) -> WtcpConfig:
    return WtcpConfig(
        packet_bytes=draw(st.sampled_from([128, 500, 1500])),
        receive_buffer_bytes=draw(st.sampled_from([1500, 4096, 1 << 16])),
        send_buffer_bytes=draw(st.sampled_from([1500, 4096, 1 << 16])),
        reorder_packets=draw(st.integers(1, 5)),
        acks_per_rtt=draw(st.sampled_from([0.5, 2.0, 8.0])),
    )


def _way(fates: list[list[int]]) -> Direction:
    return Direction(fate=lambda n: fates[n] if n < len(fates) else [0])


def _ended_well(exchange: Exchange, data: bytes, reply: bytes) -> None:
    assert bytes(exchange.received["b"]) == data
    assert bytes(exchange.received["a"]) == reply
    assert exchange.a.error is exchange.b.error is None
    assert exchange.a.is_finished
    assert exchange.b.is_finished


@examples(120)
@given(a=configs(), b=configs(), ways=st.tuples(fates, fates), size=st.integers(0, 9000), answer=st.integers(0, 3000))
def test_any_loss_reordering_and_duplication_delivers_exactly(
    a: WtcpConfig, b: WtcpConfig, ways: tuple[list[list[int]], list[list[int]]], size: int, answer: int
) -> None:
    data, reply = (bytes(i * 7 % 251 for i in range(n)) for n in (size, answer))
    path = Path(*(_way(each) for each in ways))
    exchange = path.add(a, b, data=data, reply=reply)
    path.run(3000)
    _ended_well(exchange, data, reply)


@examples(40)
@given(loss=st.floats(0.02, 0.4), seed=st.integers(0, 99), jitter_ms=st.integers(0, 900), copies=st.floats(0, 0.3))
def test_random_loss_all_the_way_delivers_exactly(loss: float, seed: int, jitter_ms: int, copies: float) -> None:
    data, reply = random.Random(seed).randbytes(6000), b"thank you"
    ways = (Direction(loss=loss, jitter_ns=jitter_ms * NS_PER_MS, duplicates=copies) for _ in range(2))
    path = Path(*ways, seed=seed)
    exchange = path.add(data=data, reply=reply)
    path.run(3500)
    _ended_well(exchange, data, reply)


@examples(25)
@given(
    bits_per_s=st.sampled_from([2_000, 19_200, 50_000, 500_000]),
    loss=st.floats(0, 0.3),
    seed=st.integers(0, 99),
    bounds=st.sampled_from([(320.0, 2e6), (4000.0, 8000.0), (20_000.0, 20_000.0)]),
)
def test_rates_stay_within_their_bounds(bits_per_s: int, loss: float, seed: int, bounds: tuple[float, float]) -> None:
    minimum, most = bounds
    config = WtcpConfig(min_rate_bps=minimum, max_rate_bps=most)
    path = Path(Direction(bits_per_s=bits_per_s, loss=loss), Direction(loss=loss), seed=seed)
    exchange = path.add(config, keep=False)
    path.run(60)
    rates = [each.rate_bps for each in exchange.events if isinstance(each, RateChanged | RateReceived)]
    assert all(minimum <= rate <= most for rate in [*rates, exchange.a.rate_bps, exchange.b.asked_rate_bps])
    sent_bits = path.forward.sent_bits
    assert sent_bits <= most * 60 + 4 * config.packet_bits  # the pair and a catch-up in front


@pytest.mark.parametrize("begin_s", [0.1, 5.0, 31.7])
def test_a_blackout_of_ten_minutes_ends_with_the_first_answered_probe(begin_s: float) -> None:
    outage = [(begin_s, begin_s + 600)]
    path = Path(Direction(bits_per_s=19_200, outages_s=outage), Direction(outages_s=outage))
    exchange = path.add(keep=False)
    path.run(begin_s + 599.9)
    delivered = exchange.delivered_bytes
    assert path.now_ns < (begin_s + 600) * NS_PER_S
    path.run(1 + 2)  # a probe each second, and the round trip
    assert exchange.delivered_bytes > delivered or begin_s < 1
    assert not exchange.a.is_blacked_out
    path.run(20)
    assert exchange.delivered_bytes > delivered
    assert exchange.a.error is None


def test_a_tail_that_was_lost_is_recovered_by_a_probe() -> None:
    data = bytes(2000)
    path = Path(Direction(fate=lambda n: [] if n in (4, 5, 6) else [0]))
    exchange = path.add(data=data)
    path.run(60)
    _ended_well(exchange, data, b"")
    assert exchange.a.counters.probes_sent >= 1
    assert exchange.a.counters.retransmissions >= 2


@pytest.mark.parametrize("skew", [0.0, 100e-6, -100e-6, 1e-3])
def test_skewed_clocks_agree_on_the_same_goodput(skew: float) -> None:
    years_ns = 27 * 365 * 86_400 * NS_PER_S
    clocks = (LocalClock(0, 0.0), LocalClock(years_ns, skew))
    goodputs = []
    for pair in ((LocalClock(), LocalClock()), clocks):
        path = Path(Direction(bits_per_s=50_000), Direction(bits_per_s=50_000))
        exchange = path.add(clocks=pair, keep=False)
        path.run(120)
        goodputs.append(goodput_packets_per_s(exchange, 0, 120))
    assert goodputs[1] == pytest.approx(goodputs[0], rel=0.03)


def test_both_ends_are_closed_at_once_when_nothing_is_lost() -> None:
    path = Path()
    exchange = path.add(data=b"question", reply=b"answer")
    path.run(10)
    _ended_well(exchange, b"question", b"answer")
    assert {exchange.a.state, exchange.b.state} == {WtcpState.CLOSED}


def test_a_reader_that_does_not_read_stops_the_sender_until_it_does() -> None:
    config = WtcpConfig(receive_buffer_bytes=4096)
    data = bytes(20_000)
    path = Path()
    exchange = path.add(config, data=data, reads=False)
    path.run(100)
    assert exchange.b.readable_bytes == 4096
    exchange.reads = True
    path.run(300)
    _ended_well(exchange, data, b"")


def test_a_peer_that_is_silent_for_too_long_is_given_up() -> None:
    config = WtcpConfig(give_up_ns=100 * NS_PER_S)
    path = Path(Direction(outages_s=[(0.0, 1e6)]))
    exchange = path.add(config, data=b"anybody there?")
    path.run(101)
    assert exchange.a.state is WtcpState.CLOSED
    assert exchange.a.error == "timed out"
    assert path.forward.sent == 34  # one SYN each three seconds, no faster and no slower
