"""CDPD: rates, round trips and losses; contention; outages; readings and traffic tell the same radio."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import mean, median

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.cdpd import CdpdLink
from multitracer.lab.channel.cdpd_config import AccessConfig, CdpdConfig, CellConfig, OutageConfig, SignalConfig
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.packet_link import FAR, SIDES
from multitracer.lab.channel.shared.scheduler import Agenda, ScriptEvent
from multitracer.protocols.link_events import (
    AccessWaitEnded,
    AccessWaitStarted,
    BurstSent,
    Flushed,
    OutageEnded,
    OutageStarted,
    PacketDropped,
    PieceLost,
    PieceSent,
    ResetStarted,
)
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US
from tests.lab.channel.link_table import CLEAN, ORDINARY, access_waits, busy_cell, carried, round_trips
from tests.lab.channel.over import Seen, bulk, echoes, number_of, packet

BLOCK_NS = 21_875_000


@pytest.mark.slow
def test_the_channel_carries_what_paper_and_code_allow() -> None:
    for side, far in FAR.items():
        seen = carried(CLEAN, (side,), seconds=900)
        assert 9.6 <= seen.kbps(far) <= 12.9
        assert not seen.of(far, PieceLost)


def test_a_short_packets_round_trip_is_that_of_the_papers() -> None:
    trips, lost = round_trips(CLEAN, seconds=3600, every_s=5)
    assert trips[0] >= 0.8
    assert trips[-1] <= 4
    assert lost == 0
    ordinary, _ = round_trips(ORDINARY, seconds=3600, every_s=5)
    assert 0.8 <= median(ordinary) <= 4
    assert ordinary[-1] > 10  # recovery, hops and scans are its peaks


@pytest.mark.slow
def test_packets_are_lost_as_configured_in_spite_of_recovery() -> None:
    for side in ("fixed", "mobile"):
        seen = carried(ORDINARY, (side,), seconds=900)
        assert 1 <= seen.lost_percent(side) <= 10
        assert seen.of("fixed", PacketDropped)


@pytest.mark.slow
def test_only_the_reverse_channel_contends() -> None:
    idle, busy = (carried(busy_cell(percent), ("fixed",), seconds=200) for percent in (0, 40))
    assert not busy.of("fixed", AccessWaitStarted)
    up_idle, up_busy = (carried(busy_cell(percent), ("mobile",), seconds=200) for percent in (0, 40))
    assert up_busy.kbps("fixed") < 0.6 * up_idle.kbps("fixed")
    assert busy.kbps("mobile") > 0.8 * idle.kbps("mobile")  # what it loses, acknowledgements wait for


def test_the_busier_the_cell_the_longer_the_wait_and_the_modem_says_how_busy() -> None:
    waits = [access_waits(percent) for percent in (0, 20, 40, 60)]
    means = [mean(each) for each, _ in waits]
    assert means == sorted(means)
    assert means[0] < 5
    assert means[-1] > 100
    for percent, (_, told) in zip((0, 20, 40, 60), waits, strict=True):
        assert told == pytest.approx(percent, abs=10)


def test_waits_bursts_and_outages_do_not_overlap() -> None:
    config = replace(ORDINARY, outages=OutageConfig(hop_every_ns=15 * NS_PER_S))
    seen = bulk(link_of(config, seed=2), ["mobile"], seconds=120)
    waits = seen.of("mobile", AccessWaitStarted), seen.of("mobile", AccessWaitEnded)
    assert 0 <= len(waits[0]) - len(waits[1]) <= 1
    spans = [(end.time_ns - end.waited_us * NS_PER_US, end.time_ns) for end in waits[1]]
    assert [begin for begin, _ in spans] == pytest.approx([s.time_ns for s in waits[0][: len(spans)]], abs=1000)
    bursts = [(b.time_ns - b.air_us * NS_PER_US, b.time_ns) for b in seen.of("mobile", BurstSent)]
    for (_, end), (begin, _) in pairwise(sorted(spans + bursts)):
        assert begin >= end - 1000
    for start, stop in _outages(seen):
        assert all(end <= start or begin >= stop for begin, end in spans + bursts)
    assert {b.cause for b in seen.of("mobile", BurstSent)} == {"done", "full", "collision", "undecoded", "outage"}
    assert max(b.blocks for b in seen.of("mobile", BurstSent)) == AccessConfig().max_blocks


def _outages(seen: Seen) -> list[tuple[int, int]]:
    starts = [event.time_ns for event in seen.of("mobile", OutageStarted)]
    ends = [event.time_ns for event in seen.of("mobile", OutageEnded)]
    assert starts
    return list(zip(starts, ends, strict=False))


@pytest.mark.parametrize("kind", ["hop", "ejection", "blackout"])
def test_a_short_outage_holds_packets_and_delivers_them_after_it(kind: str) -> None:
    outage = ScriptEvent(kind=kind, at_s=1.0, duration_s=8)  # type: ignore[arg-type]
    link = CdpdLink(CLEAN, seed=1, script=[outage])
    trips, seen = echoes(link, seconds=30, every_s=1)
    assert len(trips) == 30
    assert max(trips) > 8
    arrivals = [now_ns for side in SIDES for now_ns, _ in seen.packets[side]]
    assert not any(1.6 * NS_PER_S < now_ns < 9 * NS_PER_S for now_ns in arrivals)
    states = {"hop": "hopping", "ejection": "scanning", "blackout": "blackout"}
    assert {each.state for each in seen.readings[2:9]} == {states[kind]}
    during, after = seen.readings[5], seen.readings[20]
    if kind == "blackout":
        assert (during.rssi_dbm, during.cell_busy_percent) == (-113.0, None)
        assert during.bler_percent is not None
        assert during.bler_percent > 50
    else:
        assert during == type(during)(None, None, None, None, states[kind])
        assert after.channel != seen.readings[0].channel
    assert after.state == "registered"


def test_a_long_blackout_throws_away_what_the_network_had_sent() -> None:
    blackout = ScriptEvent(kind="blackout", at_s=2, duration_s=60)
    seen = bulk(CdpdLink(CLEAN, seed=1, script=[blackout]), ["fixed"], seconds=120)
    assert [event.cause for event in seen.of("fixed", ResetStarted)] == ["n200"]
    (flushed,) = seen.of("fixed", Flushed)
    numbers = [number_of(data) for _, data in seen.packets["mobile"]]
    missing = set(range(numbers[-1])) - set(numbers)
    assert 2 <= len(missing) <= 5
    assert 576 * (len(missing) - 2) < flushed.unacked_bytes + flushed.unsent_bytes <= 576 * (len(missing) + 2)
    assert numbers[-1] > 100  # and it goes on


def test_readings_tell_of_the_radio_that_the_traffic_met() -> None:
    bad = ScriptEvent(kind="fade", at_s=20, duration_s=20, direction="down", rate=0.5)
    link = CdpdLink(CLEAN, seed=1, script=[bad])
    now_ns = 0
    bler, lost = [], []
    for second in range(60):
        for number in range(3):
            link.send("fixed", packet(3 * second + number), now_ns=now_ns)
        now_ns += NS_PER_S
        link.advance(now_ns)
        bler.append(link.reading(now_ns).bler_percent or 0.0)
        lost.append(sum(isinstance(event, PieceLost) for event in link.events("mobile")))
    assert max(bler[:19]) == 0
    assert mean(bler[26:39]) == pytest.approx(50, abs=8)
    assert max(bler[46:]) == 0
    assert sum(lost[:19]) == sum(lost[41:]) == 0
    assert sum(lost[20:40]) > 10


def test_without_signal_nothing_is_decoded_and_the_zero_level_is_said() -> None:
    config = replace(CLEAN, signal=SignalConfig(mean_dbm=-130, deviation_db=1))
    _, seen = echoes(CdpdLink(config, seed=1), seconds=30, every_s=2)
    assert not seen.packets["fixed"]
    assert {each.rssi_dbm for each in seen.readings} == {-113.0}
    assert seen.readings[-1].bler_percent == 100


def test_a_lost_frame_is_sent_again_on_request_or_after_the_timer() -> None:
    config = replace(CLEAN, down=ErrorConfig(kind="replay", replayed=((200, 1),)))
    seen = bulk(CdpdLink(config, seed=1), ["fixed"], seconds=20)
    again = [event for event in seen.of("fixed", PieceSent) if event.attempts > 1]
    lost = seen.of("mobile", PieceLost)
    assert {event.cause for event in again} == {"srej"}
    assert [event.offset_bytes for event in again] == [event.offset_bytes for event in lost]
    link = CdpdLink(replace(CLEAN, down=ErrorConfig(kind="replay", replayed=((0, 40),))), seed=1)
    link.send("fixed", packet(1, 100), now_ns=0)
    (delivery,) = link.advance(30 * NS_PER_S)
    assert number_of(delivery.packet) == 1
    chunks = [event for event in link.events("fixed") if isinstance(event, PieceSent)]
    assert [(event.attempts, event.cause) for event in chunks] == [(1, ""), (2, "poll")]
    assert chunks[1].time_ns - chunks[0].time_ns == pytest.approx(5 * NS_PER_S, abs=6 * BLOCK_NS)


def test_two_hours_of_an_idle_link_are_a_few_events_a_second() -> None:
    link, calls = CdpdLink(ORDINARY, seed=1), 0
    while link.next_ns is not None and link.next_ns < 600 * NS_PER_S:
        link.advance(link.next_ns)
        calls += 1
    assert calls < 20 * 600
    assert link.is_drained


def test_an_agenda_keeps_time_and_order() -> None:
    agenda, made = Agenda(), list[tuple[str, int]]()
    for name, due in (("b", 20), ("a", 10), ("c", 20)):
        agenda.at(due, lambda now_ns, name=name: made.append((name, now_ns)))  # type: ignore[misc]
    agenda.advance(15)
    assert (made, agenda.now_ns, agenda.next_ns) == ([("a", 10)], 15, 20)
    agenda.advance(30)
    assert made == [("a", 10), ("b", 20), ("c", 20)]
    with pytest.raises(LocalProtocolError, match="cannot be scheduled at 29 ns"):
        agenda.at(29, print)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (CellConfig, {"busy_percent": 80, "spread_percent": 20}),
        (CellConfig, {"mean_blocks": 0.5}),
        (OutageConfig, {"hop_min_ns": 0}),
        (OutageConfig, {"planned_hop_min_ns": 3 * NS_PER_S}),
        (OutageConfig, {"planned_hop_every_ns": -1}),
        (OutageConfig, {"blackout_every_ns": -1}),
    ],
)
def test_what_makes_no_sense_is_refused(kind: type, wrong: dict[str, float]) -> None:
    with pytest.raises(LocalProtocolError, match="CDPD"):
        kind(**wrong)


def test_the_link_is_quiet_again_when_all_has_arrived() -> None:
    link = CdpdLink(CdpdConfig(), seed=1)
    link.send("mobile", packet(0, 64), now_ns=0)
    link.advance(100 * NS_PER_MS)
    assert not link.is_drained
    link.advance(20 * NS_PER_S)
    assert link.is_drained
