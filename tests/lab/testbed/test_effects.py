"""The paper's effects under real kernel TCP, at twenty times the speed, four runs at once.

The machine may be busy: what is asserted are shapes and counts of the link's own clock, never wall time.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import multitracer as mt
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import VirtualRun
from multitracer.manifest import changed_files, read_manifest
from multitracer.recording.read import read
from tests.lab.testbed.running import document, finished, left_behind, outcome, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root

OVERFLOW, WITH_VJ, WITHOUT_VJ, FADE = "fig7-overflow", "fig8-resets-vj", "fig8-resets-plain", "fig11-fade"
NAMES = (OVERFLOW, WITH_VJ, WITHOUT_VJ, FADE)
SPEED = 20


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run all four at once; each must end well and leave nothing behind."""
    base = tmp_path_factory.mktemp("runs")
    with ExitStack() as running:
        children = {name: running.enter_context(started(name, base / name, speed=SPEED)) for name in NAMES}
        for child in children.values():
            finished(child)
            assert left_behind(child.pid) == []
    return {name: base / name for name in NAMES}


def summary(folder: Path) -> dict[str, Any]:
    return document(folder, "summary.json")


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_complete(folders: dict[str, Path], name: str) -> None:
    folder = folders[name]
    assert outcome(folder) == "all data were sent and received"
    manifest = read_manifest(folder)
    assert manifest is not None
    assert list(changed_files(folder, manifest)) == []
    assert {run.outcome for run in manifest.collectors} == {"ended"}
    assert manifest.variables.speed == SPEED
    ledger = summary(folder)["ledger"]
    assert ledger["bytes_in"] == ledger["delivered"] + ledger["flushed"]
    assert len(mt.open(folder)) == 2  # the connection, captured at both ends


@pytest.mark.parametrize("name", [OVERFLOW, WITHOUT_VJ, FADE])
def test_goodput_is_that_of_virtual_time(folders: dict[str, Path], name: str) -> None:
    scenario = load_scenario(name).as_linux()
    expected = VirtualRun(scenario).run().goodput_bytes_per_s
    assert expected is not None
    facts = document(folders[name], "manifest.json")["variables"]
    late_s = facts["latest_slot_ms"] / 1000 * SPEED  # on a busy machine, in link seconds
    share_late = 2 * late_s / (scenario.traffic[0].bytes / expected)
    goodput = summary(folders[name])["goodput_bytes_per_s"]
    assert goodput == pytest.approx(expected, rel=0.06 + share_late)


def link_events(folder: Path, host: str, name: str) -> Any:
    """Return the ticks at which something happened at one end of the link."""
    for log, tables in read(folder).logs("link"):
        if log.host == host:
            events = tables["link_events"]
            return events["tick"][events["event"] == name]
    raise AssertionError(f"{folder}: no rlpdump of {host}")


def test_an_overflow_is_repaired_by_fast_retransmits(folders: dict[str, Path]) -> None:
    folder = folders[OVERFLOW]
    numbers, drops = summary(folder), len(link_events(folder, "mobile", "packet_dropped"))
    assert drops > 0
    assert numbers["tcp_fast_retransmits"] > 0
    assert numbers["tcp_retransmissions"] >= drops
    sender = mt.open(folder).directions
    duplicates = int(sender["duplicate_acks"].max())
    assert duplicates >= 3 * numbers["tcp_fast_retransmits"]


def test_a_full_queue_makes_the_round_trip_ten_times_longer(folders: dict[str, Path]) -> None:
    assert 7.5 < summary(folders[OVERFLOW])["max_rtt_s"] < 11


def test_resets_with_header_compression_cost_timeouts(folders: dict[str, Path]) -> None:
    numbers = summary(folders[WITH_VJ])
    assert numbers["rlp_resets"] == 2
    assert numbers["tcp_timeouts"] >= 2
    assert numbers["checksum_errors"] >= 10
    assert numbers["longest_receiver_hole_s"] > 6


def test_the_same_resets_without_it_cost_none(folders: dict[str, Path]) -> None:
    numbers = summary(folders[WITHOUT_VJ])
    assert numbers["rlp_resets"] == 2
    assert (numbers["tcp_timeouts"], numbers["checksum_errors"]) == (0, 0)
    assert numbers["tcp_fast_retransmits"] >= 1
    assert numbers["longest_receiver_hole_s"] < 4


def test_a_fade_is_repaired_by_the_link_alone(folders: dict[str, Path]) -> None:
    numbers = summary(folders[FADE])
    assert numbers["rlp_retransmissions"] >= 15
    assert (numbers["tcp_retransmissions"], numbers["rlp_resets"]) == (0, 0)
    assert 1.2 < numbers["longest_receiver_hole_s"] < 2.5


@pytest.mark.parametrize("name", NAMES)
def test_scripted_events_happen_in_their_slots(folders: dict[str, Path], name: str) -> None:
    """The first packet enters in another slot each time; what the script says is counted from there."""
    folder = folders[name]
    first = link_events(folder, "mobile", "packet_queued")[0]
    resets = [tick - first for tick in link_events(folder, "mobile", "reset_started")]
    expected = [event.at_s * 50 for event in load_scenario(name).events if event.kind == "reset"]
    assert np.allclose(resets, expected, atol=3)


def test_the_link_stops_and_goes_as_in_the_paper(folders: dict[str, Path]) -> None:
    gaps = summary(folders[OVERFLOW])["xoff_gaps_s"]
    assert len(gaps) >= 5
    assert all(1.2 < gap < 1.5 for gap in gaps)


def test_both_hosts_are_tuned_as_the_scenario_says(folders: dict[str, Path]) -> None:
    for host in document(folders[WITH_VJ], "manifest.json")["hosts"].values():
        assert host["sysctls"]["tcp_sack"] == host["sysctls"]["tcp_timestamps"] == 0
        assert host["device"].startswith("tun0 mtu 512 gso_max_segs 1")
        assert {"initcwnd 1", "rto_min 50ms", "quickack 1"} <= set(re.findall(r"\w+ \d\w*", host["route"]))
