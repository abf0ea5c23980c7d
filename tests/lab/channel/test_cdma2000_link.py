"""cdma2000: its rates and frames, who is assigned what, what RLP recovers, and where every packet is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.lab.channel.cdma2000 import Cdma2000Link
from multitracer.lab.channel.cdma2000_radio import (
    FASTEST,
    FRAME_NS,
    FUNDAMENTAL,
    RATES,
    SUPPLEMENTAL,
    AssignmentConfig,
    Cdma2000Config,
    Cdma2000RadioConfig,
    ErrorMapConfig,
    Rlp3Config,
    power_share,
)
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.shared.packet_link import FAR
from multitracer.lab.channel.shared.scheduler import ScriptEvent
from multitracer.protocols.link_events import (
    STREAM_BITS,
    NakGivenUp,
    NakSent,
    OutageStarted,
    PacketDropped,
    PieceLost,
    PieceSent,
    PppDamaged,
    RateAssigned,
)
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.examples import examples
from tests.lab.channel import cell
from tests.lab.channel.over import bulk, echoes, packet
from tests.narrowed import of_kind

STEADY = Cdma2000RadioConfig(ecio_db=-4, deviation_db=0)
NO_ERRORS = ErrorMapConfig(fundamental_error_rate=0, supplemental_error_rate=0)
CLEAN = Cdma2000Config(radio=STEADY, errors=NO_ERRORS)
"""No errors, and Ec/Io of -4 dB always."""


def rates_of(link: Cdma2000Link, octets: int, *, now_ns: int = 0) -> list[tuple[int, int]]:
    """Send so many octets to the mobile at once; return each assigned rate with its time in frames."""
    for number in range(octets // 500):
        link.send("fixed", packet(number, 500), now_ns=now_ns)
    link.advance(now_ns + 10 * NS_PER_S)
    return [
        (each.rate_bps, (each.time_ns - now_ns) // FRAME_NS) for each in of_kind(RateAssigned, link.events("fixed"))
    ]


# --- rates and frames ---


def test_the_rates_and_frames_are_those_of_the_standard() -> None:
    assert list(RATES) == [9_600, 19_200, 38_400, 76_800, 153_600]
    for rate in RATES.values():
        check = 12 if rate is FUNDAMENTAL else 16
        assert rate.info_bits + check + 8 == rate.bits_per_s * FRAME_NS // NS_PER_S  # tail of 8 bits
        assert rate.octets * 8 < rate.info_bits
    assert [round(1 / rate.walsh) for rate in RATES.values()] == [64, 32, 16, 8, 4]  # Walsh lengths


@pytest.mark.parametrize(("most", "kbps"), [(rate.bits_per_s, rate.octets * 0.4) for rate in RATES.values()])
def test_a_full_queue_is_sent_at_the_rate_of_the_frames(most: int, kbps: float) -> None:
    link = link_of(replace(CLEAN, forward=AssignmentConfig(most_bits_per_s=most)), seed=1)
    seen = bulk(link, ["fixed"], seconds=60, octets=1000)
    assert seen.kbps("mobile") == pytest.approx(kbps * 1000 / 1007, rel=0.01)  # 7 octets of PPP
    for each in seen.of("fixed", PieceSent):
        assert each.time_ns % FRAME_NS == 0
        assert each.air_us == FRAME_NS // 1000
        assert each.wire_bytes <= RATES[most].octets


def test_a_packet_takes_its_frames_and_the_wire() -> None:
    trips, _ = echoes(link_of(CLEAN, seed=1), seconds=20, every_s=1)
    frames = -(-(64 + 7) // FUNDAMENTAL.octets) * FRAME_NS
    assert trips == [pytest.approx(2 * (frames + 100 * NS_PER_MS) / NS_PER_S, abs=0.021)] * 20


# --- the scheduler ---


def test_a_small_backlog_has_no_supplemental_channel_and_a_larger_one_the_rate_that_carries_it() -> None:
    frames = CLEAN.forward.burst_frames
    patient = replace(CLEAN, forward=AssignmentConfig(request_bytes=600))
    assert rates_of(Cdma2000Link(patient, seed=1), 500) == [(9_600, 3)]
    for lower, rate in pairwise(SUPPLEMENTAL):
        octets = (lower.octets + rate.octets) * frames // 2
        link = Cdma2000Link(CLEAN, seed=1)
        assert max(rates_of(link, octets))[0] == rate.bits_per_s


def test_a_burst_comes_after_the_delay_lasts_its_frames_and_is_followed_by_the_next() -> None:
    config = replace(CLEAN, forward=AssignmentConfig(delay_ns=300 * NS_PER_MS, burst_frames=8))
    begin = 60 // 20  # the wire takes 60 ms
    told = rates_of(Cdma2000Link(config, seed=1), 5_000)
    assert told[:2] == [(9_600, begin), (153_600, begin + 15)]
    for (rate, at), (_, then) in pairwise(told[1:]):
        if rate != 9_600:
            assert (then - at) % 8 == 0


def test_a_bad_channel_has_a_lower_rate_and_3_db_are_half_of_it() -> None:
    need = ErrorMapConfig().full_rate_ecio_db
    for steps, rate in enumerate(reversed(SUPPLEMENTAL)):
        assert power_share(rate, need - 3.0103 * steps, ErrorMapConfig()) == pytest.approx(1, abs=1e-4)
        for above, got in ((0.1, rate.bits_per_s), (-0.1, rate.bits_per_s // 2)):
            radio = Cdma2000RadioConfig(ecio_db=need - 3.0103 * steps + above, deviation_db=0)
            told = rates_of(Cdma2000Link(replace(CLEAN, radio=radio), seed=1), 20_000)
            assert max(told)[0] == got


def test_two_mobiles_share_the_power_and_three_the_codes() -> None:
    def held(ecio_db: float, mobiles: int) -> list[int]:
        radio = Cdma2000RadioConfig(ecio_db=ecio_db, deviation_db=0)
        link = link_of(replace(CLEAN, radio=radio, mobiles=mobiles), seed=1)
        fates = cell.full(link, cell.down(mobiles), seconds=1, ahead=30)
        first: dict[int, int] = {}
        for each in of_kind(RateAssigned, fates.events["fixed"]):
            if each.rate_bps != 9_600:
                first.setdefault(each.offset_bytes >> STREAM_BITS, each.rate_bps)
        return sorted(first.values())

    assert held(-7.4, 2) == [153_600]  # nothing is left for the second
    assert held(-4.6, 2) == [76_800, 153_600]  # 0.51 of the power for 153.6
    assert held(-4.4, 2) == [153_600, 153_600]  # 0.49
    assert held(-1.0, 4) == [153_600, 153_600, 153_600]  # power for four, codes for three


def test_the_load_of_others_takes_power() -> None:
    loaded = replace(CLEAN, forward=AssignmentConfig(load_percent=60))
    assert max(rates_of(Cdma2000Link(CLEAN, seed=1), 20_000))[0] == 153_600
    assert max(rates_of(Cdma2000Link(loaded, seed=1), 20_000))[0] == 76_800
    none = replace(CLEAN, forward=AssignmentConfig(load_percent=100))
    assert rates_of(Cdma2000Link(none, seed=1), 2_000) == [(9_600, 3)]


# --- the control ---


@pytest.mark.parametrize("bits_per_s", [50_000, 123_457])
def test_the_control_has_the_mean_rate_and_no_scheduler(bits_per_s: int) -> None:
    config = Cdma2000Config(rate="mean", mean_bits_per_s=bits_per_s, mean_up_bits_per_s=bits_per_s)
    seen = bulk(link_of(config, seed=1), ["fixed", "mobile"], seconds=60, octets=1000)
    for side in ("mobile", "fixed"):
        assert seen.kbps(side) == pytest.approx(bits_per_s / 1000, rel=0.01)
        assert [each.rate_bps for each in seen.of(side, RateAssigned)] == [bits_per_s]
        assert not seen.of(side, PieceLost)


def test_with_rlp_the_control_carries_what_the_same_rate_carries_when_it_is_assigned() -> None:
    assigned = bulk(link_of(Cdma2000Config(radio=STEADY), seed=1), ["fixed"], seconds=120, octets=1000)
    config = Cdma2000Config(radio=STEADY, rate="mean-rlp", mean_bits_per_s=FASTEST.bits_per_s)
    steady = bulk(link_of(config, seed=1), ["fixed"], seconds=120, octets=1000)
    assert steady.kbps("mobile") == pytest.approx(assigned.kbps("mobile"), rel=0.01)


# --- RLP ---


@pytest.mark.parametrize(
    ("rounds", "loss"),
    [((1, 2, 3), 0.3 * 0.51**6), ((1, 1, 0), 0.3 * 0.51**2), ((2, 0, 0), 0.3 * 0.51**2), ((0, 0, 0), 0.3)],
)
def test_rlp_recovers_what_its_rounds_can(rounds: tuple[int, int, int], loss: float) -> None:
    """A copy is in vain if the NAK or what it asks for is lost: 1 - 0.7 * 0.7 = 0.51."""
    first, second, third = rounds
    config = replace(
        CLEAN,
        errors=ErrorMapConfig(fundamental_error_rate=0.3, supplemental_error_rate=0.3),
        forward=AssignmentConfig(most_bits_per_s=9_600),
        rlp=Rlp3Config(first_naks=first, second_naks=second, third_naks=third, overhead_bytes=0),
    )
    link, lost = link_of(config, seed=2), 0
    count = 2_000
    for number in range(count):  # a packet is a frame, and alone in it
        link.send("fixed", packet(number, 20)[:20], now_ns=number * 200 * NS_PER_MS)
        link.advance(number * 200 * NS_PER_MS)
        lost += len(of_kind(PppDamaged, link.events("mobile")))
    spread = (loss * (1 - loss) / count) ** 0.5
    assert lost / count == pytest.approx(loss, abs=4 * spread)


def test_a_hole_is_filled_or_given_up_and_what_is_behind_it_waits() -> None:
    errors = ErrorMapConfig(fundamental_error_rate=0.2, supplemental_error_rate=0.4)
    seen = bulk(link_of(replace(CLEAN, errors=errors), seed=1), ["fixed"], seconds=120, octets=500)
    naks, given_up = seen.of("mobile", NakSent), seen.of("mobile", NakGivenUp)
    assert {each.attempts for each in naks} == {1, 2, 3}
    assert given_up
    assert all(each.attempts == 3 for each in given_up)
    damaged = len(seen.of("mobile", PppDamaged))
    assert damaged == seen.sent["fixed"] - len(seen.packets["mobile"]) > 0
    again = [each for each in seen.of("fixed", PieceSent) if each.attempts > 1]
    assert again
    assert {each.cause for each in again} == {"nak"}


@pytest.mark.parametrize(("missing_db", "odds"), [(0, 1 / 19), (2, 10 / 19), (4, 100 / 19)])
def test_the_frame_error_rate_is_that_of_the_map(missing_db: float, odds: float) -> None:
    radio = replace(STEADY, ecio_db=-7.5 - missing_db)
    config = Cdma2000Config(radio=radio, rate="mean-rlp", mean_bits_per_s=153_600)
    link, frames, lost = link_of(config, seed=1), set[int](), set[int]()
    for number in range(3_000):
        link.send("fixed", packet(number), now_ns=number * FRAME_NS)
        link.advance(number * FRAME_NS)
        frames |= {each.time_ns for each in of_kind(PieceSent, link.events("fixed"))}
        lost |= {each.time_ns for each in of_kind(PieceLost, link.events("mobile"))}
    assert len(lost) / len(frames) == pytest.approx(odds / (1 + odds), abs=0.025)


# --- packets ---


@given(
    seed=st.integers(0, 1 << 16),
    ecio_db=st.floats(-18, 0),
    speed=st.sampled_from([0.0, 1.0, 20.0]),
    buffer_bytes=st.integers(1_500, 20_000),
    mobiles=st.integers(1, 3),
)
@examples(15)
def test_every_packet_is_delivered_lost_or_dropped_once(
    seed: int, ecio_db: float, speed: float, buffer_bytes: int, mobiles: int
) -> None:
    config = Cdma2000Config(
        mobiles=mobiles,
        buffer_bytes=buffer_bytes,
        radio=Cdma2000RadioConfig(ecio_db=ecio_db, deviation_db=5, speed_m_per_s=speed),
        errors=ErrorMapConfig(fundamental_error_rate=0.3, supplemental_error_rate=0.3),
        rlp=Rlp3Config(third_naks=0),
    )
    link = Cdma2000Link(config, seed=seed)
    only = {"mobile-1": link.hosts[0]}
    ways = [(only.get(a, a), only.get(b, b)) for a, b in cell.down(mobiles) + cell.up(mobiles)]
    fates = cell.Fates(link)
    sent = 0
    for _ in range(12):
        for way in ways:
            fates.send(way, 700)
            sent += 1
    while not link.is_drained:
        assert link.next_ns is not None
        fates.step(link.next_ns)
    events = [each for told in fates.events.values() for each in told]
    dropped, damaged = len(of_kind(PacketDropped, events)), len(of_kind(PppDamaged, events))
    assert len(fates.arrived_ns) + dropped + damaged == sent


def test_the_buffer_holds_octets_and_not_packets() -> None:
    link = Cdma2000Link(replace(CLEAN, buffer_bytes=30_000), seed=1)
    for number in range(200):
        link.send("fixed", packet(number, 300), now_ns=0)
    link.advance(70 * NS_PER_MS)
    dropped = of_kind(PacketDropped, link.events("fixed"))
    assert len(dropped) == 100
    assert {each.cause for each in dropped} == {"full"}


def test_a_fade_of_the_script_costs_frames_and_rlp_brings_them_back() -> None:
    fade = ScriptEvent(kind="fade", at_s=1, duration_s=0.3, direction="down")
    link = link_of(CLEAN, seed=1, script=[fade])
    seen = bulk(link, ["fixed"], seconds=10)
    assert len(seen.of("mobile", PieceLost)) >= 15
    assert seen.lost_percent("fixed") == 0


# --- what the modem says ---


def test_a_reading_is_the_pilot_and_the_errors_of_the_last_second() -> None:
    config = Cdma2000Config(radio=Cdma2000RadioConfig(ecio_db=-6, deviation_db=3, speed_m_per_s=10))
    link = link_of(config, seed=4)
    values = []
    for second in range(2_000):
        reading = link.reading(second * NS_PER_S)
        assert reading.ecio_db is not None
        values.append(reading.ecio_db)
    assert max(values) <= 0
    assert mean(values) == pytest.approx(-6, abs=0.5)
    apart = mean(abs(b - a) for a, b in pairwise(values))
    assert 0.5 < apart < 3  # 10 m in a second: a fifth of the correlation
    assert reading.bler_percent is None  # nothing was sent
    seen = bulk(link_of(replace(CLEAN, errors=ErrorMapConfig()), seed=1), ["fixed"], seconds=30)
    assert len(seen.packets[FAR["fixed"]]) > 10


def test_a_blackout_takes_the_pilot_away_and_all_frames() -> None:
    blackout = ScriptEvent(kind="blackout", at_s=1, duration_s=2)
    link = link_of(CLEAN, seed=1, script=[blackout])
    bulk(link, ["fixed"], seconds=2)
    assert not link.is_up
    assert (link.reading(2 * NS_PER_S).ecio_db, link.reading(2 * NS_PER_S).state) == (None, "blackout")
    link.advance(4 * NS_PER_S)
    assert link.reading(4 * NS_PER_S).ecio_db == -4.0


def test_a_route_through_cells_is_handed_off_at_each_border() -> None:
    radio = replace(STEADY, speed_m_per_s=20, cell_m=400, handoff_ns=500 * NS_PER_MS)
    link = link_of(replace(CLEAN, radio=radio), seed=1)
    seen = bulk(link, ["fixed"], seconds=52)
    at_mobile = [each for each in seen.of("mobile", OutageStarted) if each.cause == "handoff"]
    assert [each.time_ns / NS_PER_S for each in at_mobile] == [10, 30, 50]
    assert seen.lost_percent("fixed") == 0  # RLP brings back what the radio lost
    lost = [each.time_ns for each in seen.of("mobile", PieceLost)]
    assert len(lost) >= 3
    assert all(any(0 <= time - each.time_ns <= 500 * NS_PER_MS for each in at_mobile) for time in lost)
    rates = seen.of("fixed", RateAssigned)
    for handoff in at_mobile:
        after = next(each for each in rates if each.time_ns >= handoff.time_ns)
        assert after.rate_bps == FUNDAMENTAL.bits_per_s
        assert after.time_ns - handoff.time_ns < 40 * NS_PER_MS
    cells = {second: link_of(replace(CLEAN, radio=radio), seed=1) for second in (9, 11, 31)}
    assert [each.reading(second * NS_PER_S).pilot_pn for second, each in cells.items()] == [4, 8, 12]


def test_a_mobile_that_stands_still_stays_in_its_cell() -> None:
    link = link_of(replace(CLEAN, radio=replace(STEADY, cell_m=400)), seed=1)
    seen = bulk(link, ["fixed"], seconds=100)
    assert not seen.of("mobile", OutageStarted)
    assert link.reading(100 * NS_PER_S).pilot_pn == 4
