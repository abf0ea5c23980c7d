"""Traffic under real kernels over the links that are no data call: the same world, another link."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from multitracer.errors import InputError
from multitracer.lab.rig.real import run_real as measure_real
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import VirtualRun, record_virtual
from multitracer.lab.testbed.run import run_real
from multitracer.manifest import changed_files, read_manifest
from tests.cli.program import run
from tests.lab.rig.real import measuring, transactions
from tests.lab.rig.virtual import link, plan
from tests.lab.testbed.running import document, finished, left_behind, outcome, started

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary

SPEED = 5
TEXT = """
[tcp]
mtu_bytes = 576
[link]
kind = "{kind}"
[[traffic]]
bytes = {size}
[[traffic]]
direction = "down"
bytes = {size}
start_s = 1
"""
SIZES = {"cdpd": 12_000, "bluetooth": 200_000, "capacity": 200_000, "cdma2000": 60_000}


def written(kind: str, size: int, folder: Path) -> Path:
    """Write a scenario of one kind of link; a capacity trace of a packet each ms is beside it."""
    (folder / "down").write_text("".join(f"{ms}\n" for ms in range(1, 1_001)))
    text = TEXT.format(kind=kind, size=size)
    (folder / "traffic.toml").write_text(text + '[link.down]\ntrace = "down"\n' if kind == "capacity" else text)
    return folder / "traffic.toml"


@pytest.mark.root
@pytest.mark.parametrize("kind", SIZES)
def test_the_kernel_s_tcp_crosses_it_both_ways(kind: str, tmp_path: Path) -> None:
    size, folder = SIZES[kind], tmp_path / "run"
    with started(written(kind, size, tmp_path), folder, speed=SPEED) as child:
        finished(child)
        assert left_behind(child.pid) == []
    assert outcome(folder) == "all data were sent and received"
    manifest = read_manifest(folder)
    assert manifest is not None
    assert list(changed_files(folder, manifest)) == []
    summary = document(folder, "summary.json")
    assert summary["ledger"] is None, "characters are a data call's"
    assert [flow["delivered_bytes"] for flow in summary["flows"]] == [size, size]
    session = mt.open(folder)
    assert session.warnings == []
    assert len(session.connections) == 4, "two, each at both of its ends"
    assert set(session.link_events.host) == {"mobile", "fixed"}
    assert (folder / "mobile" / "radio.csv").exists() == (kind == "cdma2000")
    if kind == "cdma2000":
        assert session.table("radio", "radio")["ecio_db"].notna().all()


@pytest.mark.root
def test_a_trace_that_is_not_repeated_ends_the_run(tmp_path: Path) -> None:
    scenario = written("capacity", 5_000_000, tmp_path)
    text = scenario.read_text().replace('kind = "capacity"\n', 'kind = "capacity"\nat_end = "stop"\n')
    scenario.write_text(text)
    with started(scenario, tmp_path / "run", speed=SPEED) as child:
        finished(child)
    assert outcome(tmp_path / "run") == "the link's trace has ended"
    with measuring(tmp_path / "plan", str(scenario), "--speed", "2", sizes="64", sessions=500) as child:
        assert "the link's trace has ended; the same command continues with a new run" in finished(child, status=1)
    assert 0 < len(transactions(tmp_path / "plan")) < 500


@pytest.mark.root
@pytest.mark.realtime
def test_goodput_over_bluetooth_is_that_of_virtual_time(tmp_path: Path) -> None:
    folder, scenario = tmp_path / "run", tmp_path / "traffic.toml"
    text = TEXT.format(kind="bluetooth", size=300_000).partition('[[traffic]]\ndirection = "down"')[0]
    scenario.write_text(text)
    with started(scenario, folder, speed=1) as child:
        finished(child)
    expected = VirtualRun(link(text).as_linux()).run().goodput_bytes_per_s
    assert expected is not None
    late_s = document(folder, "manifest.json")["variables"]["latest_slot_ms"] / 1000
    goodput = document(folder, "summary.json")["goodput_bytes_per_s"]
    assert goodput == pytest.approx(expected, rel=0.06 + 2 * late_s / (300_000 / expected))


@pytest.mark.parametrize("kind", SIZES)
def test_virtual_time_writes_the_same_session(kind: str, tmp_path: Path) -> None:
    scenario = load_scenario(str(written(kind, 3_000, tmp_path)))
    summary = record_virtual(scenario, tmp_path / "run")
    assert [flow.delivered_bytes for flow in summary.flows] == [3_000, 3_000]
    assert mt.open(tmp_path / "run").warnings == []


@pytest.mark.parametrize("runs", [run_real, record_virtual])
def test_a_link_without_traffic_is_refused(runs: Callable[[Scenario, Path], Summary], tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="test: this scenario contains a link, but no traffic; use `measure run --over test`"
    ):
        runs(link('[link]\nkind = "cdpd"\n'), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("clock", ["--virtual", "--speed=2"])
def test_the_command_says_so_too(clock: str, tmp_path: Path) -> None:
    refused = run("testbed", "run", "cdpd", clock, "-o", str(tmp_path / "new"), status=1)
    assert (
        refused.stderr == "Error: cdpd: this scenario contains a link, but no traffic; use `measure run --over cdpd`\n"
    )


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("mobiles = 3\n", "test: a real run must have one mobile host, not 3; run with --virtual"),
        ('[link.queue]\nlocal_drops = "told"\n', 'local_drops = "told" is possible in a real run only with a data'),
    ],
)
def test_what_real_time_does_not_have_is_refused(keys: str, sentence: str, tmp_path: Path) -> None:
    scenario = link(f'[tcp]\nmtu_bytes = 500\n[link]\nkind = "cdpd"\n{keys}[[traffic]]\nbytes = 1\n')
    with pytest.raises(InputError, match=sentence):
        run_real(scenario, tmp_path / "a")
    with pytest.raises(InputError, match=sentence):
        measure_real(plan("tcp"), tmp_path / "b", scenario, progress=lambda *_: None)
    assert list(tmp_path.iterdir()) == []
