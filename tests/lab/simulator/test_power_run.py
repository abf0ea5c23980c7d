"""Runs over a power trace: from a scenario's file to a session, and the transports compared over it."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.errors import FormatError, InputError
from multitracer.lab.channel.switched import SwitchedConfig
from multitracer.lab.rig.radios import radio_of
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.radio import power_of, realism_of, repeated
from multitracer.lab.simulator.run import record_virtual
from multitracer.units import NS_PER_S
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario

SCENARIO = """
limit_s = 4
[tcp]
profile = "modern"
mtu_bytes = 1500
[link]
kind = "switched"
threshold_dbm = -75
power = "power.csv"
[[traffic]]
direction = "down"
bytes = 5_000_000
"""
LOGS = ("mobile/tcp-0.pcap", "fixed/tcp-0.pcap", "mobile/rlp.pcapng", "truth/segments.csv", "summary.json")


def written(folder: Path, powers: list[float], *, scenario: str = SCENARIO) -> Path:
    """Write a trace of 100 ms steps and a scenario over it; return the scenario's path."""
    lines = [f"{step / 10:g},{dbm}" for step, dbm in enumerate(powers)]
    (folder / "power.csv").write_text("time_s,power_dbm\n" + "\n".join(lines) + "\n")
    (folder / "mine.toml").write_text(scenario)
    return folder / "mine.toml"


def link(scenario: Scenario) -> SwitchedConfig:
    assert isinstance(scenario.link, SwitchedConfig)
    return scenario.link


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Up for a second, down for half of one."""
    return written(tmp_path, [-60.0] * 10 + [-90.0] * 5)


def test_the_power_of_a_ray_traced_radio_gives_the_same_run(tmp_path: Path) -> None:
    call("testbed", "channel", "ray-5-stated", "-o", tmp_path / "power.csv")
    stated = load_scenario("ray-5-stated")
    record_virtual(stated, tmp_path / "rays")
    source = SCENARIO.replace("-75", "-50")
    (tmp_path / "mine.toml").write_text(source)
    traced = load_scenario(str(tmp_path / "mine.toml"))
    known = link(stated)
    over = replace(link(traced), queue=known.queue, when_down=known.when_down, delay_ns=known.delay_ns)
    record_virtual(replace(stated, link=over, source=source, traces=traced.traces), tmp_path / "traced")
    for name in LOGS:
        assert (tmp_path / "traced" / name).read_bytes() == (tmp_path / "rays" / name).read_bytes(), name


def test_a_run_says_that_its_trace_is_modelled_and_how_often_it_began(uneven: Path, tmp_path: Path) -> None:
    shown = call("testbed", "run", uneven, "--virtual", "-o", tmp_path / "run").stdout
    assert "radio modelled: up while the power of a trace is at least -75 dBm; the file does not say" in shown
    assert "the trace lasts 1.5 s, the run took 4.0 s: the trace began 3 times" in shown
    stop = call("testbed", "run", uneven, "--virtual", "--at-end", "stop", "-o", tmp_path / "stop").stdout
    assert "the run stops at the end of the trace" in stop
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("run", "stop")]
    assert 0 < summaries[1]["flows"][0]["delivered_bytes"] < summaries[0]["flows"][0]["delivered_bytes"]
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    facts = manifest["variables"]["parameters"]["link"]["power"]
    assert facts == {"steps": 15, "step_ns": 100_000_000}
    refused = call("testbed", "run", uneven, "--virtual", "--at-end", "clear", "-o", tmp_path / "x", status=1)
    assert "a power trace, the trace can only be repeated or the run stops" in refused.stderr


def test_the_figure_of_a_run_repeats_its_trace(uneven: Path, tmp_path: Path) -> None:
    call("testbed", "run", uneven, "--virtual", "-o", tmp_path / "run")
    uneven.with_name("power.csv").unlink()
    call("plot", "--figure", "channel", tmp_path / "run", "-o", tmp_path / "run.json")
    times = json.loads((tmp_path / "run.json").read_text())["data"][0]["x"]
    drawn_s = np.frombuffer(b64decode(times["bdata"]), times["dtype"])
    assert drawn_s.max() == pytest.approx(4, abs=0.11)
    received = power_of(str(tmp_path / "run/scenario.toml"))
    assert len(received.channel.power_dbm) == 15
    longer = repeated(received, 4 * NS_PER_S).channel
    assert longer.power_dbm.tolist() == ([-60.0] * 10 + [-90.0] * 5) * 2 + [-60.0] * 10
    assert repeated(received, NS_PER_S) is received
    assert len(repeated(received, 10**18).channel.power_dbm) == 1_000_000


def test_a_power_trace_is_a_radio(uneven: Path) -> None:
    power = str(uneven.parent / "power.csv")
    radio = radio_of(power, direction="up", seconds=7)
    assert link(radio.scenario).threshold_dbm == -75
    assert (radio.realism.kind, radio.trace_s, radio.scenario.limit_s) == ("modelled", 1.5, 7)
    assert radio.scenario.traffic[0].direction == "up"
    higher = radio_of(power, direction="up", seconds=7, threshold_dbm=-65)
    assert link(higher.scenario).threshold_dbm == -65
    assert "at least -65 dBm" in higher.realism.sentence
    named = radio_of(str(uneven), direction="up", seconds=7)
    assert named.scenario == load_scenario(str(uneven))
    assert named.trace_s == 1.5


def test_transports_are_compared_over_a_power_trace(uneven: Path, tmp_path: Path) -> None:
    power = uneven.parent / "power.csv"
    few = ("--transports", "reno,vegas", "--runs", "2", "--seconds", "4", "--csv", tmp_path / "runs.csv")
    shown = call("testbed", "compare", power, *few).stdout
    assert "radio modelled: up while the power of a trace is at least -75 dBm" in shown
    assert "the trace lasts 1.5 s and is repeated; each run begins at a different time in the trace" in shown
    rates = [float(line.split(",")[2]) for line in (tmp_path / "runs.csv").read_text().splitlines()[1:]]
    assert all(200_000 < rate < 2_000_000 * 2 / 3 * 1.1 for rate in rates), "up two thirds of the time"
    always = call("testbed", "compare", power, *few, "--threshold=-95").stdout
    assert "at least -95 dBm" in always
    more = [float(line.split(",")[2]) for line in (tmp_path / "runs.csv").read_text().splitlines()[1:]]
    assert all(up > faded for up, faded in zip(more, rates, strict=True))
    refused = call("testbed", "compare", power, *few, "--threshold", "0", status=1).stderr
    assert 'the link is never up: the maximum power is -60.0 dBm, below "threshold_dbm" (0 dBm); choose' in refused
    other = call("testbed", "compare", "cdpd", *few, "--threshold", "0", status=1).stderr
    assert "the link of this scenario has no threshold; remove --threshold" in other


def test_a_session_of_a_ray_traced_run_is_compared_under_its_own_power(tmp_path: Path) -> None:
    call("testbed", "run", "ray-4", "--virtual", "--seed", "7", "-o", tmp_path / "run")
    radio = radio_of(str(tmp_path / "run"), direction="down", seconds=5)
    known = link(load_scenario("ray-4"))
    power = link(radio.scenario).power
    assert power is not None
    assert power.channel.power_dbm.tolist() == known.channel(seed=7).power_dbm.tolist()
    assert power.channel.power_dbm.tolist() != known.channel(seed=1).power_dbm.tolist()
    assert (radio.trace_s, link(radio.scenario).threshold_dbm) == (20, known.threshold_dbm)


def test_a_measurement_says_what_follows_its_trace(uneven: Path, tmp_path: Path) -> None:
    what = ("--protocol", "tcp", "--vary", "reply", "--sizes", "2000", "--sessions", "2")
    done = call("measure", "run", *what, "--over", uneven, "--virtual", "-o", tmp_path / "m")
    assert "radio modelled: up while the power of a trace" in done.stderr
    assert "after its end the trace repeats" in done.stderr


@pytest.mark.parametrize(
    ("power", "says"),
    [
        ("3", '[link] "power" must be the name of a power trace in the folder of this file, but is 3'),
        ('"absent.csv"', "cannot read this file: No such file"),
        ('"../power.csv"', "leads out of the folder"),
        ('"/etc/passwd"', "leads out of the folder"),
        ('"link.csv"', "is a symbolic link that leads out of the folder"),
        ('"mine.toml"', "does not begin with the line time_s,power_dbm"),
        ('"power.csv"\nwhen_down = "hold"\n[link.mobile]\nx_m = 3', '"power" names a power trace, so'),
    ],
)
def test_a_wrong_name_is_one_sentence(power: str, says: str, tmp_path: Path) -> None:
    text = SCENARIO.replace('"power.csv"', power)
    path = written(tmp_path, [-60.0] * 9, scenario=text)
    (tmp_path / "link.csv").symlink_to("/etc/hostname")
    with pytest.raises((FormatError, InputError)) as refused:
        load_scenario(str(path))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_another_kind_of_link_has_no_power(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[link]\nkind = "cdpd"\npower = "power.csv"\n')
    with pytest.raises(FormatError, match=r"\[link\] contains unknown keys: power"):
        load_scenario(str(tmp_path / "mine.toml"))
    assert realism_of(load_scenario("ray-1").link).lasts_ns == 0
