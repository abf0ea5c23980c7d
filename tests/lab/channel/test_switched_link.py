"""A link that received power switches: rate, what fades destroy, and what is said before a run."""

from __future__ import annotations

import re
from cmath import exp
from dataclasses import fields, replace
from math import hypot, log10, pi
from typing import Any

import pytest

from multitracer.errors import FormatError, LocalProtocolError, MultiTracerError
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.ray_scene import (
    BuildingConfig,
    NodeConfig,
    RayRadioConfig,
    RoadConfig,
    StreetConfig,
    WallConfig,
)
from multitracer.lab.channel.shared.scheduler import ScriptEvent
from multitracer.lab.channel.switched import SwitchedConfig
from multitracer.lab.scenario.library import bundled_names, load_scenario, parse_scenario
from multitracer.lab.simulator.run import record_virtual
from multitracer.protocols.link_events import OutageEnded, OutageStarted, PacketDropped, PieceLost
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.conftest import ROOT
from tests.lab.channel.over import echoes, number_of, packet
from tests.lab.channel.test_link_keys import read
from tests.narrowed import of_kind

STILL = SwitchedConfig()
PAGE = ROOT / "docs" / "ray_channel.md"
AIR_NS = 6 * NS_PER_MS
"""Of 1500 bytes at 2 Mb/s (paper 002, section II)."""


def arrivals(config: SwitchedConfig, *, seconds: float, every_ms: int = 6, **more: Any) -> dict[int, int]:
    """Send a packet of 1500 bytes each few ms; return when each one arrived, by its number."""
    link = link_of(config, seed=1, **more)
    came: dict[int, int] = {}
    for number, at_ns in enumerate(range(0, round(seconds * NS_PER_S), every_ms * NS_PER_MS)):
        while link.next_ns is not None and link.next_ns < at_ns:
            now_ns = link.next_ns
            came |= {number_of(data): now_ns for _, data in link.advance(now_ns)}
        link.send("fixed", packet(number, 1500), now_ns=at_ns)
    while not link.is_drained:
        assert link.next_ns is not None
        now_ns = link.next_ns
        came |= {number_of(data): now_ns for _, data in link.advance(now_ns)}
    return came


def two_rays_dbm(apart_m: float) -> float:
    """Return equation (1) of paper 002 for the direct ray and the ground's."""
    wavelength_m = RayRadioConfig().wavelength_m
    ways = apart_m, hypot(apart_m, 2 * 1.5)
    direct, ground = (exp(-2j * pi * way / wavelength_m) / way for way in ways)
    return 20 * log10(wavelength_m / (4 * pi) * abs(direct - ground))


def test_a_packet_takes_its_octets_over_the_rate() -> None:
    came = arrivals(STILL, seconds=0.06, every_ms=1)
    assert [came[number] for number in range(5)] == [n * AIR_NS + 1000 for n in range(1, 6)]
    fast = arrivals(replace(STILL, bits_per_s=20_000_000, delay_ns=0), seconds=0.06)
    assert came.keys() > fast.keys()
    assert fast[1] - fast[0] == AIR_NS
    assert fast[0] == AIR_NS // 10


def test_the_packet_on_the_air_is_lost_when_the_power_falls() -> None:
    wavelength_m = RayRadioConfig().wavelength_m
    free = RayRadioConfig(ground=False)
    edge_m = wavelength_m / (4 * pi) * 10 ** (75 / 20)  # -75 dBm in free space
    leaving = replace(STILL, radio=free, mobile=NodeConfig(x_m=edge_m - 1, speed_m_per_s=1))
    came = arrivals(leaving, seconds=2)
    last = max(came)
    assert sorted(came) == list(range(last + 1))
    assert came[last] < NS_PER_S < came[last] + AIR_NS


@pytest.mark.parametrize(("when_down", "arrive"), [("flush", 0), ("send", 0), ("hold", 20)])
def test_what_becomes_of_packets_in_a_fade(when_down: Any, arrive: int) -> None:
    config = replace(STILL, when_down=when_down)
    blackout = ScriptEvent(kind="blackout", at_s=1, duration_s=0.5)
    came = arrivals(config, seconds=3, every_ms=25, script=[blackout])
    sent_ns = {number: number * 25 * NS_PER_MS for number in range(120)}
    inside = {n for n, ns in sent_ns.items() if NS_PER_S <= ns < 1.5 * NS_PER_S}
    assert len(inside) == 20
    assert len(inside & came.keys()) == arrive
    assert came.keys() >= sent_ns.keys() - inside
    if arrive:
        assert [came[n] for n in sorted(inside)][:3] == [1.5 * NS_PER_S + n * AIR_NS + 1000 for n in (1, 2, 3)]


def test_a_flush_empties_the_queue_and_says_so() -> None:
    blackout = ScriptEvent(kind="blackout", at_s=0.015, duration_s=0.5)
    lost = {}
    for config in (STILL, replace(STILL, when_down="send"), replace(STILL, when_down="hold")):
        link = link_of(config, seed=1, script=[blackout])
        for number in range(10):
            link.send("fixed", packet(number, 1500), now_ns=0)
        came = [number_of(data) for _, data in link.advance(NS_PER_S)]
        at_fixed, at_mobile = link.events("fixed"), link.events("mobile")
        dropped = [event.cause for event in of_kind(PacketDropped, at_fixed)]
        lost[config.when_down] = came, len(dropped), len(of_kind(PieceLost, at_mobile))
        assert set(dropped) <= {"closed"}
        assert len(of_kind(OutageStarted, at_fixed)) == len(of_kind(OutageEnded, at_mobile)) == 1
    assert lost["flush"] == ([0, 1], 7, 1)
    assert lost["send"] == ([0, 1], 0, 8)
    assert lost["hold"] == ([0, 1, 3, 4, 5, 6, 7, 8, 9], 0, 1)


def test_a_round_trip_is_twice_the_time_on_air_and_a_reading_the_power() -> None:
    trips, seen = echoes(link_of(STILL, seed=1), seconds=5, every_s=1)
    assert trips == pytest.approx([2 * (64 * 8 / 2e6 + 1e-6)] * len(trips), abs=1e-6)
    assert {reading.state for reading in seen.readings} == {"registered"}
    link = link_of(load_scenario("ray-1-stated").link, seed=1)
    readings = [link.reading(second * NS_PER_S).rssi_dbm for second in (0, 10, 19, 10_000)]
    places_m = [10, 70, 124, 10 + 6 * 19.999]  # after the end the last value holds
    assert readings == pytest.approx([two_rays_dbm(d) for d in places_m])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"threshold_dbm": -40.0}, "the link is never up: the maximum power is -46.9 dBm, below "),
        ({"mobile": NodeConfig()}, "the nodes are 0 m apart at 0 s"),
        ({"wall": (WallConfig(from_x_m=10, from_y_m=-5, to_x_m=10, to_y_m=5),)}, "the mobile node is in a wall at 0 s"),
    ],
)
def test_what_cannot_run_is_said_before_the_run(changes: dict[str, Any], says: str, tmp_path: Any) -> None:
    scenario = load_scenario("ray-1-stated")
    scenario = replace(scenario, link=replace(STILL, **changes))
    with pytest.raises(MultiTracerError) as refused:
        record_virtual(scenario, tmp_path / "out")
    assert says in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bits_per_s = 0", '"bits_per_s" must be 1 to 1,000,000,000'),
        ("delay_s = 2", '"delay" must be 0 to 1 s'),
        ("threshold_dbm = -301", '"threshold_dbm" must be -300 to 300, but is -301'),
        ('when_down = "panic"', "when_down must be one of"),
        ("wall = 3", '"wall" must be a list of tables; write [[wall]]'),
        ("[[link.wall]]\nfrom_x_m = 1", "[[wall]] does not have these required keys: from_y_m, to_x_m, to_y_m"),
        ("[[link.building]]\nx_m = 1\ny_m = 1\nlength_m = -1\nwidth_m = 1", '"length_m" must be 0.001 to'),
        ("[link.mobile]\nx_m = nan", "x_m must be a number from"),
        ("[link.room]\nx_m = 1", "[link] contains unknown keys: room"),
    ],
)
def test_a_wrong_key_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(text, "switched")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_keys_of_walls_and_nodes() -> None:
    walls = "[[link.wall]]\nfrom_x_m = 0\nfrom_y_m = 1\nto_x_m = 2\nto_y_m = 3\n" * 2
    config = read(f"threshold_dbm = -60\n{walls}[link.mobile]\nx_m = 5", "switched")
    assert config.wall == (WallConfig(from_x_m=0, from_y_m=1, to_x_m=2, to_y_m=3),) * 2
    assert (config.threshold_dbm, config.mobile) == (-60, NodeConfig(x_m=5))
    assert read("", "switched") == STILL


def test_the_example_of_the_page_is_read() -> None:
    text = PAGE.read_text("utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    link = parse_scenario(example, name="x", path="x", read_trace=lambda _: pytest.fail("a trace")).link
    assert isinstance(link, SwitchedConfig)
    assert (link.threshold_dbm, link.mobile.speed_m_per_s, len(link.wall)) == (-75, 6, 1)


def test_every_key_is_in_the_tables_of_the_page() -> None:
    text = PAGE.read_text("utf-8")
    parts = (RayRadioConfig, NodeConfig, WallConfig, BuildingConfig, StreetConfig, RoadConfig, SwitchedConfig)
    keys = {field.name.replace("_ns", "") for part in parts for field in fields(part)}
    named = {"wall", "building", "street", "road", "radio", "mobile", "fixed", "queue"}
    by_words = {"ground_permittivity", "ground_conductivity", "wall_permittivity", "wall_conductivity"}
    assert {key for key in keys - named - by_words if f"`{key}" not in text} == set()


def test_only_blackouts_and_drops_befall_it() -> None:
    with pytest.raises(LocalProtocolError, match="only the events blackout, drop"):
        link_of(STILL, seed=1, script=[ScriptEvent(kind="fade", at_s=1)])


def test_the_five_scenarios_of_paper_002_are_bundled() -> None:
    names = [name for name in bundled_names() if name.startswith("ray-")]
    assert names == [f"ray-{number}{form}" for number in range(1, 6) for form in ("", "-stated")]
    fades = {}
    for name in names:
        link = load_scenario(name).link
        assert isinstance(link, SwitchedConfig)
        assert link.bits_per_s == 2_000_000
        complete = link_of(link, seed=1)
        assert complete.next_ns is not None or complete.is_up
        fades[name] = link.threshold_dbm
    stated = {name.removesuffix("-stated"): dbm for name, dbm in fades.items() if name.endswith("-stated")}
    assert stated == {"ray-1": -75, "ray-2": -75, "ray-3": -80, "ray-4": -78, "ray-5": -50}
