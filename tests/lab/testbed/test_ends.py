"""However a run ends, nothing of it stays behind, and its folder can be opened."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from multitracer.lab.testbed.namespaces import VARIABLE, Maker, remove_stale
from multitracer.manifest import changed_files, read_manifest
from tests.cli.program import run as program
from tests.lab.testbed.running import (
    document,
    finished,
    instances,
    left_behind,
    outcome,
    processes,
    short_scenario,
    started,
    until,
)

pytestmark = pytest.mark.root

LONG = 100_000
DEAD = Maker(4_194_303, 1)
"""No process has this number: it is the last one, and none starts at the boot's first tick."""


def is_making_hosts(folder: Path) -> bool:
    return (folder / "manifest.json").exists()


def is_starting_collectors(folder: Path) -> bool:
    return (folder / "mobile" / "tcpdump.log").exists()


def is_transferring(folder: Path) -> bool:
    capture = folder / "fixed" / "tcp-0.pcap"
    return capture.exists() and capture.stat().st_size > 1_000


@pytest.mark.parametrize("stage", [is_making_hosts, is_starting_collectors, is_transferring])
def test_a_killed_run_leaves_a_session_and_the_next_one_cleans_up(stage: object, tmp_path: Path) -> None:
    folder, scenario = tmp_path / "killed", short_scenario(tmp_path, size=LONG)
    with started(scenario, folder) as child:
        until(lambda: stage(folder), child)  # type: ignore[operator]
        pids = list(processes(child.pid))
        child.kill()
        child.wait()
        if stage is is_transferring:
            until(lambda: (folder / "mobile" / "tcpdump.log").read_text().count("packets"))
            assert "1 TCP connection" in program("inspect", folder / "fixed").stdout
        assert (folder / "manifest.json").exists()
        assert outcome(folder) is None
        with started(short_scenario(tmp_path), tmp_path / "next", speed=50) as after:
            finished(after)
        assert left_behind(child.pid) == left_behind(after.pid) == instances(pids) == []


@pytest.mark.parametrize(
    ("numbers", "status"),
    [
        ([signal.SIGTERM], 143),
        ([signal.SIGHUP], 129),
        ([signal.SIGINT], 130),
        ([signal.SIGINT, signal.SIGINT, signal.SIGTERM], 130),
    ],
)
def test_a_run_that_is_told_to_end_ends_in_order(numbers: list[signal.Signals], status: int, tmp_path: Path) -> None:
    folder = tmp_path / "ended"
    with started(short_scenario(tmp_path, size=LONG), folder) as child:
        until(lambda: is_transferring(folder), child)
        for number in numbers:
            child.send_signal(number)
        assert "interrupted" in finished(child, status=status)
        assert left_behind(child.pid) == []
    assert outcome(folder) == f"interrupted by {numbers[0].name}"
    manifest = read_manifest(folder)
    assert manifest is not None
    assert list(changed_files(folder, manifest)) == []
    assert all(run.outcome for run in manifest.collectors)
    assert document(folder, "summary.json")["ledger"]["bytes_in"] > 0


def test_an_end_before_the_first_packet_is_one_too(tmp_path: Path) -> None:
    folder = tmp_path / "ended"
    with started(short_scenario(tmp_path), folder) as child:
        until(lambda: is_making_hosts(folder), child)
        child.terminate()
        finished(child, status=143)
        assert left_behind(child.pid) == []
    assert outcome(folder) == "interrupted by SIGTERM"


@pytest.mark.parametrize("stage", [is_making_hosts, is_starting_collectors])
def test_a_ctrl_c_that_is_held_kills_nothing_that_makes_or_removes_hosts(stage: object, tmp_path: Path) -> None:
    """A terminal signals all of its programs, the `ip` that removes a namespace included."""
    folder = tmp_path / "ended"
    with started(short_scenario(tmp_path, size=LONG), folder, before=("setsid",)) as child:
        until(lambda: stage(folder), child)  # type: ignore[operator]
        while child.poll() is None and outcome(folder) is None:
            os.killpg(child.pid, signal.SIGINT)
            time.sleep(0.002)
        finished(child, status=130)
        assert left_behind(child.pid) == []
    assert outcome(folder) == "interrupted by SIGINT"


def test_a_collector_that_dies_is_noted_and_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "bereft"
    with started(short_scenario(tmp_path, size=20_000), folder) as child:
        until(lambda: is_transferring(folder), child)
        (pid,) = (pid for pid, line in processes(child.pid).items() if "-w fixed/tcp-0.pcap" in line)
        os.kill(pid, signal.SIGKILL)
        finished(child)
    ends = {(run["name"], run["outcome"]) for run in document(folder, "manifest.json")["collectors"]}
    assert ("tcpdump", "ended by SIGKILL") in ends
    assert outcome(folder) == "all data were sent and received"


@pytest.fixture
def names(tmp_path: Path) -> dict[str, str]:
    """Return namespaces, by what they are: a dead run's, this process's own, and others'."""
    del tmp_path
    return {
        "dead": DEAD.namespace("mobile"),
        "living": Maker.myself().namespace("fixed"),
        "older": Maker(os.getpid(), 1).namespace("mobile"),
        "alike": f"mt{os.getpid()}-0-testbedmobile",
        "foreign": f"foreign-{os.getpid()}",
    }


def test_only_what_a_dead_run_made_is_removed(names: dict[str, str]) -> None:
    stale = {"dead", "older"}
    sleeping = {
        what: subprocess.Popen(["sleep", "100"], env=os.environ | {VARIABLE: value})
        for what, value in {"dead": str(DEAD), "living": str(Maker.myself()), "alike": "1-x"}.items()
    }
    try:
        for name in names.values():
            subprocess.run(["ip", "netns", "add", name], check=True)
        remove_stale()
        left = {what for what, name in names.items() if Path("/run/netns", name).exists()}
        assert left == names.keys() - stale
        assert sleeping["dead"].wait(10) == -signal.SIGTERM
        assert [sleeping[what].poll() for what in ("living", "alike")] == [None, None]
    finally:
        for child in sleeping.values():
            child.kill()
            child.wait()
        for name in names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
