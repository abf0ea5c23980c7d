"""Many mobiles in a CDPD cell: who gets which share, who collides, and what one has to do with another."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.cdpd import CdpdLink
from multitracer.lab.channel.cdpd_channel import CdpdCell, ReverseChannel, StationBurst, block_times
from multitracer.lab.channel.cdpd_config import AccessConfig, CdpdConfig, CellConfig, NetworkConfig, OutageConfig
from multitracer.lab.channel.shared.scheduler import Agenda, ScriptEvent
from multitracer.protocols.link_events import (
    BurstSent,
    OutageStarted,
    PacketDropped,
    PieceLost,
    PieceReceived,
    PieceSent,
)
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.examples import examples
from tests.lab.channel.cell import MDLP, NO_OUTAGES, Fates, between, down, full, plain, up
from tests.narrowed import of_kind

if TYPE_CHECKING:
    from tests.lab.channel.cell import Way

PACKET_NS = 500 * 8 * NS_PER_S // 19_200
ROUGH = CdpdConfig(mobiles=3, outages=OutageConfig(hop_every_ns=40 * NS_PER_S, blackout_every_ns=0))


def bursts(fates: Fates, cause: str) -> list[tuple[int, str]]:
    """Return when bursts of the mobiles ended for a reason, and whose they were, in order."""
    return sorted(
        (event.time_ns, host)
        for host, events in fates.events.items()
        for event in of_kind(BurstSent, events)
        if host != "fixed" and event.cause == cause
    )


# --- the forward channel ---


@pytest.mark.parametrize("config", [plain(5), replace(MDLP, mobiles=5)])
def test_the_forward_channel_is_shared_evenly_and_nothing_of_it_is_wasted(config: CdpdConfig) -> None:
    shares = full(CdpdLink(config, seed=1), down(5), seconds=300, ahead=4).delivered()
    assert set(shares) == set(down(5))
    assert max(shares.values()) - min(shares.values()) <= 2
    alone = full(CdpdLink(replace(config, mobiles=2), seed=1), down(1), seconds=300).delivered()
    assert shares.total() == pytest.approx(alone.total(), rel=0.02)


def test_who_has_little_traffic_down_does_not_wait_behind_who_has_much() -> None:
    config, (much, little) = replace(plain(2), network=NetworkConfig(jitter_ns=0)), down(2)
    fates, trips = Fates(CdpdLink(config, seed=1)), list[int]()
    for number in range(400):
        fates.send(much)
        if number % 20 == 10:
            trips.append(fates.send(little))
        fates.step(number * PACKET_NS // 2)
    fates.step(fates.now_ns + 30 * NS_PER_S)
    assert max(_waited_ns(fates, number) for number in trips) < 3 * PACKET_NS  # one of the other's, and its own
    assert max(_waited_ns(fates, number) for number in fates.arrived_ns) > 12 * PACKET_NS


def _waited_ns(fates: Fates, number: int) -> int:
    """Return how long a packet took on the channel and in the queue before it, in steps of half a packet."""
    config = plain().network
    return fates.arrived_ns[number] - fates.sent_ns[number] - config.backhaul_ns - config.fixed_ns


def test_a_block_that_one_mobile_cannot_decode_another_can() -> None:
    config = replace(MDLP, mobiles=2, down=CdpdConfig().down)
    fates = full(CdpdLink(config, seed=3), down(2), seconds=200)
    lost = [{e.time_ns for e in of_kind(PieceLost, fates.events[host])} for host in ("mobile-1", "mobile-2")]
    assert lost[0]
    assert lost[1]
    assert len(lost[0] & lost[1]) < 0.2 * min(map(len, lost))


# --- the reverse channel ---


def test_mobiles_collide_with_each_other_and_one_does_not_with_itself() -> None:
    alone = full(CdpdLink(plain(2), seed=1), up(1), seconds=200)
    assert not bursts(alone, "collision")
    three = full(CdpdLink(plain(3), seed=1), up(3), seconds=200)
    assert {host for _, host in bursts(three, "collision")} == {"mobile-1", "mobile-2", "mobile-3"}
    assert 0.6 * alone.delivered().total() < three.delivered().total() < alone.delivered().total()


def test_who_has_the_reverse_channel_captures_it() -> None:
    """Paper 001, section II: the channel "ends up bursting the queued transmissions of each host in turn"."""
    one_packet = AccessConfig(max_blocks=11, max_attempts=100)
    assert _stays(one_packet) > 0.7
    assert _stays(replace(one_packet, min_idle_microslots=36)) < 0.1  # the others look in such a pause


def _stays(access: AccessConfig) -> float:
    """Return how often two mobiles' successful bursts are followed by one of the same mobile."""
    link = CdpdLink(replace(plain(2), access=access), seed=1)
    owners = [host for _, host in bursts(full(link, up(2), seconds=600), "full")]
    return sum(a == b for a, b in pairwise(owners)) / (len(owners) - 1)


def test_in_the_long_run_each_mobile_gets_its_share_up() -> None:
    shares = full(CdpdLink(plain(3), seed=2), up(3), seconds=1800).delivered()
    assert min(shares.values()) > 0.8 * max(shares.values())


def test_a_reading_counts_other_mobiles_as_others() -> None:
    link = CdpdLink(plain(2), seed=1)
    full(link, up(1), seconds=60)
    busy = [link.reading(60 * NS_PER_S, host=host).cell_busy_percent for host in ("mobile-1", "mobile-2")]
    assert busy[0] == pytest.approx(0, abs=1)
    assert busy[1] is not None
    assert busy[1] > 80


# --- one and another ---


@pytest.mark.parametrize("config", [CdpdConfig(), plain(down=0.05)])
def test_mobiles_that_are_silent_change_nothing_for_the_first(config: CdpdConfig) -> None:
    times = []
    for mobiles in (1, 4):
        link = CdpdLink(replace(config, mobiles=mobiles, outages=NO_OUTAGES), seed=7)
        ways: list[Way] = [("fixed", link.hosts[0]), (link.hosts[0], "fixed")]
        times.append(full(link, ways, seconds=120).arrived_ns)
    assert times[0] == times[1]


def test_an_ejection_befalls_one_mobile_and_a_hop_all() -> None:
    outages = OutageConfig(hop_every_ns=100 * NS_PER_S, ejection_every_ns=100 * NS_PER_S, blackout_every_ns=0)
    fates = full(CdpdLink(replace(plain(3), outages=outages), seed=1), down(3), seconds=600)
    spans = {
        host: {event.time_ns: event.cause for event in of_kind(OutageStarted, events)}
        for host, events in fates.events.items()
    }
    hops = {time for time, cause in spans["fixed"].items() if cause == "hop"}
    assert hops
    assert spans["fixed"].keys() == hops
    for host in ("mobile-1", "mobile-2", "mobile-3"):
        assert {time for time, cause in spans[host].items() if cause == "hop"} == hops
        assert "ejection" in spans[host].values()
    assert len({tuple(spans[host]) for host in spans}) == 4


def test_planned_hops_come_at_even_intervals_and_forced_ones_between() -> None:
    """Paper 001 has both: after a time that the operator sets, and when a voice call takes the channel."""
    every_ns, search_ns = 60 * NS_PER_S, 2 * NS_PER_S
    planned = replace(NO_OUTAGES, planned_hop_every_ns=every_ns)
    hops = {}
    for name, outages in (("planned", planned), ("both", replace(planned, hop_every_ns=100 * NS_PER_S))):
        fates = full(CdpdLink(replace(plain(2), outages=outages), seed=1), down(2), seconds=600)
        hops[name] = [event.time_ns for event in of_kind(OutageStarted, fates.events["fixed"])]
    waits_ns = [after - before for before, after in pairwise([0, *hops["planned"]])]
    assert len(waits_ns) == 9
    assert waits_ns[0] == every_ns
    assert all(every_ns < wait_ns <= every_ns + search_ns for wait_ns in waits_ns[1:])
    assert set(hops["planned"]) < set(hops["both"])


@pytest.mark.parametrize("config", [replace(MDLP, mobiles=3), plain(3)])
def test_the_position_of_a_frame_tells_whose_it_is(config: CdpdConfig) -> None:
    fates = full(CdpdLink(config, seed=1), [*down(3), *up(3)], seconds=30)
    chunks = {
        host: [event for event in events if isinstance(event, PieceSent | PieceReceived)]
        for host, events in fates.events.items()
    }
    whose = {host: {event.offset_bytes >> 40 for event in events} for host, events in chunks.items()}
    assert whose == {"mobile-1": {0}, "mobile-2": {1}, "mobile-3": {2}, "fixed": {0, 1, 2}}


def test_a_scripted_blackout_befalls_every_mobile_and_the_link_is_down_for_it() -> None:
    link = CdpdLink(plain(2), seed=1, script=[ScriptEvent(kind="blackout", at_s=1, duration_s=5)])
    link.send("fixed", between(("fixed", "mobile-1"), 0), now_ns=0)
    states = []
    for second in range(8):
        link.advance(second * NS_PER_S + 1)
        states.append((link.is_up, *(link.reading(link.next_ns or 0, host=h).state for h in link.hosts[:-1])))
    assert states[0] == states[7] == (True, "registered", "registered")
    assert states[2] == (False, "blackout", "blackout")


def test_a_packet_to_nobody_is_dropped_with_a_word_and_a_host_that_is_not_there_is_refused() -> None:
    link = CdpdLink(plain(2), seed=1)
    assert link.hosts == ("mobile-1", "mobile-2", "fixed")
    assert link.send("fixed", between(("fixed", "mobile-3"), 5), now_ns=0)
    assert link.send("fixed", b"\x45", now_ns=0)
    assert [(e.ip_id, e.cause) for e in of_kind(PacketDropped, link.events("fixed"))] == [
        (5, "no-route"),
        (None, "no-route"),
    ]
    with pytest.raises(
        LocalProtocolError, match='no host named "mobile"; the host must be mobile-1 to mobile-2, or fixed'
    ):
        link.send("mobile", b"", now_ns=0)


@pytest.mark.parametrize("config", [ROUGH, plain(3, up=0.1, down=0.1)])
def test_the_same_seed_gives_the_same_run_however_often_the_driver_calls(config: CdpdConfig) -> None:
    runs = [_plan(config, seed, step_ns) for seed, step_ns in ((3, 500), (3, 500), (3, 77), (4, 500))]
    assert runs[0] == runs[1] == runs[2] != runs[3]
    assert len(runs[0]) > 100


def _plan(config: CdpdConfig, seed: int, step_ms: int) -> list[object]:
    """Send at fixed times; call the link in between as often as one likes; return all that it said."""
    fates = Fates(CdpdLink(config, seed=seed))
    ways = up(3) + down(3)
    delivered: list[object] = []
    for number in range(60):
        fates.send(ways[number % 6], 300)
        until_ns = (number + 1) * NS_PER_S // 2
        while fates.now_ns < until_ns:
            now_ns = min(until_ns, fates.now_ns + step_ms * NS_PER_MS)
            fates.step(now_ns)
            fates.link.reading(now_ns, host="mobile-2")
    delivered += [fates.events[host] for host in fates.link.hosts]
    return [*(event for events in fates.events.values() for event in events), *fates.arrived_ns]


# --- the other users ---


class Counted(ReverseChannel):
    """Counts bursts and those that met another."""

    bursts = 0
    collisions = 0

    def begin(self, burst: StationBurst) -> None:
        super().begin(burst)
        self.bursts += 1
        self.collisions += burst.has_collided


def _others(percent: float, stations: int, *, seconds: int = 1200) -> Counted:
    access, agenda = AccessConfig(), Agenda()
    times = block_times(19_200, is_coded=True)
    channel = Counted(access, times, remembers_ns=seconds * NS_PER_S)
    config = CellConfig(busy_percent=percent, spread_percent=0, stations=stations)
    CdpdCell(channel, config, access, agenda=agenda, seed="1")
    agenda.advance(seconds * NS_PER_S)
    return channel


def test_a_station_does_not_collide_with_itself_and_more_stations_collide_more() -> None:
    counts = [_others(70, stations) for stations in (1, 3, 30)]
    shares = [each.collisions / each.bursts for each in counts]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[1] > 0.01


@pytest.mark.parametrize("stations", [0, 1, 5])
def test_stations_offer_the_load_that_is_asked_for(stations: int) -> None:
    channel = _others(30, stations)
    busy = channel.busy_percent(0, 1200 * NS_PER_S, owner=1)
    assert busy == pytest.approx(30, abs=4)


def test_stations_make_the_mobile_wait() -> None:
    empty, loaded = (
        full(CdpdLink(replace(plain(), cell=cell), seed=1), [("mobile", "fixed")], seconds=100).delivered()
        for cell in (plain().cell, CellConfig(busy_percent=60, spread_percent=0, stations=4))
    )
    assert loaded.total() < 0.8 * empty.total()


# --- no packet vanishes ---


@given(
    seed=st.integers(0, 1 << 16),
    loss=st.floats(0, 1),
    plan=st.lists(st.tuples(st.integers(0, 6), st.integers(20, 1500), st.floats(0, 2)), max_size=60),
    blackout_s=st.floats(0.1, 20),
)
@examples(25)
def test_every_packet_is_delivered_or_dropped_with_an_event_or_waits(
    seed: int, loss: float, plan: list[tuple[int, int, float]], blackout_s: float
) -> None:
    script = [ScriptEvent(kind="blackout", at_s=3, duration_s=blackout_s)]
    fates = Fates(CdpdLink(plain(3, up=loss, down=loss), seed=seed, script=script))
    ways = [*up(3), *down(3), ("fixed", "mobile-9")]
    for way, octets, pause_s in plan:
        fates.send(ways[way], octets)
        fates.step(fates.now_ns + round(pause_s * NS_PER_S))
        assert not fates.arrived_ns.keys() & fates.lost.keys()
        assert fates.link.is_drained == (not fates.inside)
    fates.step(fates.now_ns + 600 * NS_PER_S)
    assert fates.link.is_drained
    assert not fates.inside
    for each in ways:
        arrived = [number for number in fates.arrived_ns if fates.ways[number] == each]
        assert arrived == sorted(arrived)
