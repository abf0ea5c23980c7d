"""`testbed compare`: which radio a name stands for, what transports reach over it, and how surely."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.analysis.comparison.difference import Share, Spread, share, spread
from multitracer.errors import FormatError, InputError
from multitracer.lab.channel.bluetooth_piconet import SLOT_NS, BluetoothConfig
from multitracer.lab.channel.capacity import CapacityConfig
from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.rig.radios import radio_of
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import TRANSPORTS, Scenario, ScenarioTraffic
from multitracer.lab.simulator.comparison import TransportResults, TransportRun, compare, runs_of
from multitracer.lab.simulator.run import record_virtual
from multitracer.lab.transports_figure import transports_figure
from multitracer.protocols.error_trace import ErrorTrace
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

EIGHT = ("tahoe", "reno", "newreno", "sack", "cubic", "vegas", "linux", "wtcp")


@pytest.fixture
def capacity(tmp_path: Path) -> Path:
    """2.4 Mbit/s with a pause of half a second in three."""
    stamps = [*range(0, 1200, 5), *range(1700, 3000, 5), 3000]
    path = tmp_path / "drive.down"
    path.write_text("".join(f"{stamp}\n" for stamp in stamps))
    return path


def named(name: object, seconds: float = 10) -> tuple[Scenario, str, float]:
    radio = radio_of(str(name), direction="down", seconds=seconds)
    return radio.scenario, radio.realism.kind, radio.trace_s


def test_a_capacity_trace_is_a_radio(capacity: Path) -> None:
    scenario, kind, trace_s = named(capacity)
    assert isinstance(scenario.link, CapacityConfig)
    assert (kind, trace_s, scenario.limit_s) == ("derived", 3.0, 10)
    assert list(scenario.link.traces) == ["down"]
    up = radio_of(str(capacity), direction="up", seconds=10).scenario
    assert isinstance(up.link, CapacityConfig)
    assert (list(up.link.traces), up.traffic[0].direction) == (["up"], "up")


@pytest.mark.parametrize(
    ("slots", "link", "kind"),
    [
        ((20_000_000, 0), LinkConfig, "recorded"),
        ((20_052_083, 21_875_000), CdpdConfig, "recorded"),
        ((SLOT_NS, 0), BluetoothConfig, "derived"),
    ],
)
def test_an_error_trace_names_its_link_by_its_slots(
    slots: tuple[int, int], link: type, kind: str, tmp_path: Path
) -> None:
    trace = ErrorTrace(slots[0], 500, ((5, 2),), ((9, 1),), down_slot_ns=slots[1])
    (tmp_path / "radio.txt").write_text(trace.text())
    scenario, said, trace_s = named(tmp_path / "radio.txt")
    assert isinstance(scenario.link, link)
    assert (said, trace_s) == (kind, trace.lasts_ns / 1e9)
    compared = compare(list(runs_of(scenario, 1)), ["reno", "wtcp"])
    assert all(each.outcomes[0].goodput_bits_per_s for each in compared)


def test_a_session_with_a_link_log_is_recorded_and_without_one_derived(tmp_path: Path) -> None:
    scenario, kind, trace_s = named(SAMPLES / "fig11-fade")
    assert kind == "recorded"
    assert scenario.gsm.up.kind == "replay"
    assert scenario.gsm.up.replayed
    assert scenario.traffic == load_scenario("fig11-fade").traffic
    assert trace_s > 10
    scenario, kind, _ = named(SAMPLES / "cellular_upload")
    assert kind == "derived"
    assert isinstance(scenario.link, CapacityConfig)
    cdpd = replace(load_scenario("cdpd"), traffic=(ScenarioTraffic(bytes=5_000),), limit_s=100, source="")
    record_virtual(cdpd, tmp_path / "cdpd")
    scenario, kind, _ = named(tmp_path / "cdpd")
    assert (type(scenario.link), kind) == (CdpdConfig, "recorded")


def test_a_scenario_keeps_its_traffic_and_a_bundled_link_gets_some() -> None:
    scenario, kind, trace_s = named("fig5-typical")
    assert (scenario, kind, trace_s) == (load_scenario("fig5-typical"), "modelled", 0)
    scenario, kind, _ = named("bluetooth", seconds=7)
    assert (scenario.limit_s, scenario.traffic[0].direction, kind) == (7, "down", "modelled")


def test_what_is_no_radio_is_one_sentence(tmp_path: Path, capacity: Path) -> None:
    (tmp_path / "power.csv").write_text("time_s,power_dbm\n0,-60\n")
    (tmp_path / "odd.txt").write_text(ErrorTrace(5, 9, (), ()).text())
    (tmp_path / "empty").mkdir()
    for name, says in (
        (tmp_path / "absent", "cannot read this file: No such file"),
        ("/dev/zero", "a device or a pipe; write the trace to a file"),
        (tmp_path / "power.csv", "a power trace must have 2 to"),
        (tmp_path / "odd.txt", "slots of 5 ns, but no bundled kind of link has such slots"),
        (tmp_path / "empty", "empty"),
        (SAMPLES / "fig11-fade" / "manifest.json", "expected a whole number of ms"),
    ):
        with pytest.raises((InputError, FormatError)) as refused:
            radio_of(str(name), direction="down", seconds=10)
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)
    assert '"transport" must be one of' in call("testbed", "compare", capacity, "--transports", "bbr", status=1).stderr
    assert "no transport was given" in call("testbed", "compare", capacity, "--transports", ",", status=2).stderr


@pytest.mark.slow
def test_eight_transports_meet_the_same_radio(capacity: Path) -> None:
    assert set(EIGHT) <= set(TRANSPORTS)
    radio = radio_of(str(capacity), direction="down", seconds=6)
    runs = list(runs_of(radio.scenario, 2, lasts_s=radio.trace_s))
    assert [each.seed for each in runs] == [1, 2]
    assert [each.traffic[0].start_s for each in runs] == [0, 1.5]
    done: list[int] = []
    compared = compare(runs, EIGHT, progress=done.append)
    assert done == list(range(1, 17))
    assert compared[5:6] == compare(runs, ["vegas"])
    most = 500 / 3 * 1500 * 8
    goodputs = {each.transport: spread(each.values("goodput_bits_per_s")).median or 0 for each in compared}
    assert all(0.5 * most < goodputs[name] < most for name in EIGHT if name != "wtcp")
    assert compared[-1].values("retransmissions") == [None, None]
    assert len(set(goodputs.values())) > 4


def outcomes(*rates: float | None) -> tuple[TransportRun, ...]:
    return tuple(TransportRun("x", seed, rate, 0, 0, None, None) for seed, rate in enumerate(rates))


def test_runs_are_told_by_their_median_and_range() -> None:
    assert spread([3, None, 1, 8]) == Spread(3, 1, 8)
    assert spread([None]) == Spread(None, None, None)


def test_a_share_is_of_the_same_runs() -> None:
    assert share([120, 180, 5], [100, 200, None]) == Share(1.0, None, None)
    assert share([1, None], [None, 1]) == Share(None, None, None)


def test_six_pairs_of_runs_have_an_interval_and_five_have_none() -> None:
    """Of 64 ways to swap six pairs the two most extreme are 3 %, of 32 of five pairs 6 %."""
    base = [100.0, 200.0, 300.0, 400.0, 500.0, 600.0]
    ratios = [1.1, 1.2, 1.3, 1.15, 1.25, 1.05]
    rates = [rate * ratio for rate, ratio in zip(base, ratios, strict=True)]
    six = share(rates, base)
    assert six.low == pytest.approx(1.05, abs=1e-6)
    assert six.high == pytest.approx(1.3, abs=1e-6)
    assert share(rates[1:], base[1:])[1:] == (None, None)


def test_the_command_prints_a_table_and_writes_runs_and_a_figure(capacity: Path, tmp_path: Path) -> None:
    few = ("--transports", "reno, vegas,reno", "--runs", "2", "--seconds", "5")
    files = ("--csv", tmp_path / "runs.csv", "-o", tmp_path / "figure.json")
    done = call("testbed", "compare", capacity, *few, *files)
    assert "radio derived: capacity from delivery opportunities" in done.stdout
    assert "the trace lasts 3.0 s and is repeated" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines if line and line[0] in EIGHT] == ["reno", "vegas"]
    assert "2 runs are too few for a confidence interval of the share: use --runs 6 or more" in done.stdout
    with (tmp_path / "runs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["transport"], row["seed"]) for row in rows] == [
        ("reno", "1"),
        ("reno", "2"),
        ("vegas", "1"),
        ("vegas", "2"),
    ]
    figure = json.loads((tmp_path / "figure.json").read_text())
    assert figure["data"][0]["y"] == ["reno", "reno", "vegas", "vegas"]
    assert figure["data"][1]["y"] == ["reno", "vegas"]
    assert "also the input" in call("testbed", "compare", capacity, *few, "--csv", capacity, status=1).stderr


def test_a_figure_escapes_its_title_and_needs_a_transport() -> None:
    compared = [TransportResults("reno", outcomes(1000.0, None)), TransportResults("vegas", outcomes(None))]
    figure = transports_figure(compared, title="<b>x</b>", theme="dark")
    assert "<b>" not in figure.layout.title.text
    assert list(figure.data[1].y) == ["reno"]
    with pytest.raises(InputError, match="no transport"):
        transports_figure([], title="x")
