"""A link under a power trace: when it is up, again and again or once, and which files are none."""

from __future__ import annotations

import tracemalloc
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from multitracer.errors import FormatError, LocalProtocolError
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.ray import Channel
from multitracer.lab.channel.ray_scene import NodeConfig, WallConfig
from multitracer.lab.channel.switched import PowerTrace, SwitchedConfig, parse_power_trace
from multitracer.protocols.link_events import PacketDropped
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.lab.channel.over import number_of, packet
from tests.narrowed import of_kind

UP, DOWN = -60.0, -90.0
STEP_NS = 100 * NS_PER_MS
AIR_NS = 6 * NS_PER_MS
"""Of 1500 bytes at 2 Mb/s."""


def trace(*power_dbm: float, step_ns: int = STEP_NS) -> PowerTrace:
    return PowerTrace(Channel(step_ns, np.array(power_dbm)))


def arrived(config: SwitchedConfig, *, seconds: float) -> list[int]:
    """Send a packet each 10 ms; return the ms at which those left that arrived."""
    link = link_of(config, seed=1)
    for number in range(round(seconds * 100)):
        link.send("fixed", packet(number, 1500), now_ns=number * 10 * NS_PER_MS)
    out = link.advance(round(seconds * 2 * NS_PER_S))
    return [number_of(data) * 10 for _, data in out]


def test_packets_arrive_while_the_power_is_above_the_threshold() -> None:
    config = SwitchedConfig(power=trace(UP, DOWN, UP, DOWN, DOWN), at_end="stop")
    assert arrived(config, seconds=0.5) == [*range(0, 100, 10), *range(200, 300, 10)]
    exact = SwitchedConfig(power=trace(-75, -75.001), at_end="stop")
    assert arrived(exact, seconds=0.2) == list(range(0, 100, 10)), "up at the threshold itself"


@pytest.mark.parametrize(
    ("powers", "up_ms"),
    [
        ((UP, DOWN), (0, 200, 400)),
        ((DOWN, UP, DOWN), (100, 400)),
        ((DOWN, UP), (100, 300, 500)),
        ((UP, UP), (0, 100, 200, 300, 400, 500)),
    ],
)
def test_a_trace_begins_again_at_its_end(powers: tuple[float, ...], up_ms: tuple[int, ...]) -> None:
    config = SwitchedConfig(power=trace(*powers))
    assert config.at_end == "repeat"
    wanted = [begin + at for begin in up_ms for at in range(0, 100, 10)]
    assert arrived(config, seconds=0.6) == wanted
    link = link_of(config, seed=1)
    readings = [link.reading(at * STEP_NS).rssi_dbm for at in range(7)]
    assert readings == [powers[at % len(powers)] for at in range(7)]


@pytest.mark.parametrize("when_down", ["flush", "send", "hold"])
def test_a_trace_that_is_not_repeated_ends_the_link(when_down: Any) -> None:
    config = SwitchedConfig(power=trace(UP, UP), at_end="stop", when_down=when_down)
    assert arrived(config, seconds=0.4) == list(range(0, 200, 10))
    link = link_of(config, seed=1)
    for number in range(50):  # 300 ms of packets at once: the trace ends while they wait
        link.send("fixed", packet(number, 1500), now_ns=0)
    out = link.advance(NS_PER_S)
    assert len(out) == 200 * NS_PER_MS // AIR_NS
    assert (link.is_dropped, link.is_up, link.is_drained) == (True, False, True)
    assert link.reading(NS_PER_S).state == "dropped"
    link.send("fixed", packet(99, 1500), now_ns=NS_PER_S)
    dropped = of_kind(PacketDropped, link.events("fixed"))
    assert {each.cause for each in dropped} == {"closed"}
    assert len(dropped) == 50 - len(out) - 1 + 1, "all but one on the air, and the one that came later"


def test_the_seed_does_not_matter_and_a_trace_is_compared_by_its_powers() -> None:
    config = SwitchedConfig(power=trace(UP, DOWN))
    assert config == SwitchedConfig(power=trace(UP, DOWN))
    assert hash(config) == hash(SwitchedConfig(power=trace(UP, DOWN)))
    assert config != SwitchedConfig(power=trace(UP, UP))
    assert config.power != trace(UP, DOWN, step_ns=1)
    assert config.channel(seed=1) is config.channel(seed=2)
    assert deepcopy(config.power) is config.power
    assert config.power is not None
    assert (config.power.lasts_ns, config.power.facts()) == (2 * STEP_NS, {"steps": 2, "step_ns": STEP_NS})


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"power": trace(UP, DOWN, step_ns=99_999)}, "must be at least 0.1 ms, but is 0.099999 ms"),
        ({"power": trace(UP), "mobile": NodeConfig(x_m=11.0)}, '"power" names a power trace, so "radio", "nodes"'),
        (
            {"power": trace(UP), "wall": (WallConfig(from_x_m=0, from_y_m=0, to_x_m=1, to_y_m=1),)},
            "power. names a power trace",
        ),
        ({"at_end": "stop"}, '"at_end" requires a power trace'),
    ],
)
def test_what_contradicts_a_trace_is_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(LocalProtocolError, match=says):
        SwitchedConfig(**keys)


def test_a_trace_that_is_never_up_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match=r"never up: the maximum power is -90\.0 dBm.*or another trace"):
        link_of(SwitchedConfig(power=trace(DOWN, DOWN - 1)), seed=1)


def read(text: str) -> PowerTrace:
    return parse_power_trace(text, path="power.csv")


def test_a_file_is_read_step_by_step() -> None:
    text = "time_s,power_dbm\n{}"
    plain = read(text.format("0,-3\n0.1,-4.5\n0.2,-6\n"))
    assert plain == trace(-3, -4.5, -6)
    assert read(text.format("0,-3\r\n0.1,-4.5\r\n0.2,-6")) == plain, "other line ends, none at the end"
    late = read(text.format("1790000000.0,-3\n1790000000.1,-4.5\n1790000000.2,-6\n"))
    assert late.lasts_ns == pytest.approx(plain.lasts_ns, abs=1000), "times since 1970"
    assert read(text.format("-5,-3\n-4.9,-4.5\n-4.8,-6\n")) == plain, "its first line is the link's begin"
    assert read(text.format("0,-3\n0.108,-4.5\n0.2,-6\n")) == plain, "less than a tenth of a step off"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "power.csv:1: does not begin with the line time_s,power_dbm"),
        ("time_s,power_dbm\n", ": a power trace must have 2 to 1,000,000 lines of numbers, but this file has 0"),
        ("time_s,power_dbm\n0,-3\n", "but this file has 1"),
        (
            "time_s,power_dbm\n0,-3\n1,nan\n",
            "power.csv:3: each line must have two numbers (time in s, received power in dBm): b'1,nan'",
        ),
        ("time_s,power_dbm\n0,-3\n\n2,-3\n", "power.csv:3: each line must have two numbers"),
        ("time_s,power_dbm\n0,-3\n1,-3,9\n", "power.csv:3: each line must have two numbers"),
        ("time_s,power_dbm\n0,-3\n1,-1001\n", "power.csv:3: a time beyond 1e+10 s"),
        ("time_s,power_dbm\n0,-3\n2,-3\n1,-3\n", "power.csv:4: time decreases from 2 to 1 s; sort the trace"),
        ("time_s,power_dbm\n0,-3\n0,-3\n", "times must be evenly spaced"),
        ("time_s,power_dbm\n0,-3\n1,-3\n1.8,-3\n3,-3\n", "power.csv:4: times must be evenly spaced"),
        ("time_s,power_dbm\n0,-3\n1e9,-3\n", "must not last longer than 1e+09 s"),
    ],
)
def test_what_is_no_power_trace_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(FormatError) as refused:
        read(text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_more_lines_than_a_trace_has_are_refused_before_they_are_read() -> None:
    text = "time_s,power_dbm\n" + "1,1\n" * 1_000_001
    tracemalloc.start()
    with pytest.raises(FormatError, match="but this file has 1,000,001"):
        read(text)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 3 * len(text)
