"""The recordings of two ends become one session, and nothing of them changes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path

import pytest

import multitracer as mt
from multitracer.manifest import RECORDED_AT, Host, Role, Variables, changed_files, read_manifest, write_manifest
from multitracer.measure.iperf3 import LoadPlan
from multitracer.measure.latency import LatencyPlan
from multitracer.measure.run import client_manifest, opened
from multitracer.recording.read import read
from multitracer.recording.transactions import client_of, sources_of, transactions_of
from tests.cli.program import call
from tests.transactions import transactions, write_session

IPERF3 = """{"start": {"connected": [{"socket": 4, "local_host": "127.0.0.1", "local_port": 1,
 "remote_host": "127.0.0.1", "remote_port": 5201}], "timestamp": {"timesecs": 1700000000}, "cookie": "x",
 "test_start": {"protocol": "TCP", "reverse": 0}}, "intervals": [{"streams": [{"socket": 4, "start": 0, "end": 1,
 "seconds": 1, "bytes": 125000, "bits_per_second": 1e6}]}], "end": {"streams": []}}
"""


@pytest.fixture
def ends(tmp_path: Path, sample_session: Path) -> tuple[Path, Path]:
    """Take the bundled session apart, as if each end had been recorded alone."""
    made = []
    for host in ("mobile", "fixed"):
        manifest = read_manifest(sample_session)
        assert manifest is not None
        folder = tmp_path / f"{host}-drive"
        folder.mkdir()
        shutil.copytree(sample_session / host, folder / host)
        manifest.hosts = {host: manifest.host(host)}
        manifest.collectors = [each for each in manifest.collectors if each.host == host]
        manifest.files = [each for each in manifest.files if each.host == host]
        manifest.variables = Variables.of({f"{host}_place": "here"})
        write_manifest(folder, manifest)
        made.append(folder)
    return made[0], made[1]


def test_merged_session_is_the_session(tmp_path: Path, ends: tuple[Path, Path], sample_session: Path) -> None:
    merged = tmp_path / "drive"
    call("merge", *ends, "-o", merged)
    manifest = read_manifest(merged)
    assert manifest is not None
    assert list(manifest.hosts) == ["mobile", "fixed"]
    assert manifest.variables.more == {"mobile_place": "here", "fixed_place": "here"}
    assert list(changed_files(merged, manifest)) == []
    assert len(manifest.files) >= 2
    together, complete = read(merged), read(sample_session)
    assert [capture.point.name for capture in together.captures] == [
        capture.point.name for capture in complete.captures
    ]
    assert [log.format for log, _ in together.logs("tcp")] == [log.format for log, _ in complete.logs("tcp")]


def _killed_at(operation: int, *arguments: str | Path) -> bool:
    """Run a command in a child that kills itself at an operation on files; return whether it came so far."""
    child = os.fork()
    if child == 0:
        left = [operation]

        def audit(event: str, _: tuple[object, ...]) -> None:
            if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.copyfile"):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(audit)
        try:
            call(*arguments)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_a_merge_that_is_killed_lost_nothing_and_is_made_again(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    merged = tmp_path / "drive"
    sources = {path: path.read_bytes() for end in ends for path in end.rglob("*") if path.is_file()}
    call("merge", *ends, "-o", tmp_path / "undisturbed")  # also loads its modules
    expected = sorted(path.name for path in (tmp_path / "undisturbed").rglob("*"))
    kills = 0
    for operation in random.Random(44).sample(range(1, 60), 12):
        kills += _killed_at(operation, "merge", *ends, "-o", merged)
        if not merged.exists():
            call("merge", *ends, "-o", merged)
        manifest = read_manifest(merged)
        assert manifest is not None
        assert list(changed_files(merged, manifest)) == [], operation
        assert sorted(path.name for path in merged.rglob("*")) == expected, operation
        shutil.rmtree(merged)
    call("merge", *ends, "-o", merged)
    assert not list(tmp_path.glob(".*")), "what the killed ones left"
    assert {path: path.read_bytes() for path in sources} == sources
    assert kills >= 6, "the operations are counted where there are some"


def test_two_recordings_of_one_host_are_refused_and_nothing_is_left(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    merged = tmp_path / "drive"
    done = call("merge", ends[0], ends[0], "-o", merged, status=1)
    assert "host 'mobile' is also in" in done.stderr
    assert not merged.exists()


def test_folder_that_is_no_recording_is_refused(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert "manifest.json is missing" in call("merge", ends[0], other, "-o", tmp_path / "drive", status=1).stderr


def test_links_out_of_a_recording_stay_behind(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    (ends[0] / "mobile" / "passwd").symlink_to("/etc/passwd")
    call("merge", *ends, "-o", tmp_path / "drive")
    assert not (tmp_path / "drive" / "mobile" / "passwd").exists()


def test_folder_with_something_in_it_is_refused(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    assert "is not empty" in call("merge", *ends, "-o", ends[0], status=1).stderr


def test_measurements_become_folders_of_the_session(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    """Of `capture -- measure run -o OTHER`, of `measure run --modem`, and of a measurement inside a recording."""
    (outside, inside, recorded) = (tmp_path / name for name in ("tcp", "centauruscomm", "wtcp"))
    write_session(outside, transactions({64: [0.1]}))
    _place_in_manifest(outside, {"client": Role.CLIENT}, {RECORDED_AT: "mobile"})
    write_session(recorded, transactions({64: [0.2, 0.3]}, protocol="wtcp"), link="far")
    shutil.copytree(ends[1] / "fixed", recorded / "van")
    _place_in_manifest(recorded, {"van": Role.CLIENT}, {})
    write_session(ends[0] / inside.name, transactions({64: [0.4] * 3}, protocol="centauruscomm"))
    merged = tmp_path / "drive"
    call("merge", *ends, outside, recorded, "-o", merged)

    session = read(merged)
    assert not session.inputs.warnings
    counts = {Path(log.path).parent.name: len(table) for log, table in transactions_of(session)}
    assert counts == {"tcp": 1, "wtcp": 2, "centauruscomm": 3}
    clients = {Path(log.path).parent.name: client_of(log, session.inputs) for log, _ in transactions_of(session)}
    assert (clients["tcp"], clients["wtcp"]) == ("mobile", "van")
    assert {log.host for log, _ in transactions_of(session)} == {"mobile", "van", "centauruscomm"}
    manifest = read_manifest(merged)
    assert manifest is not None
    assert list(manifest.hosts) == ["mobile", "fixed", "van"]
    assert manifest.variables.link is None, "the link of one measurement is not that of the session"
    assert list(changed_files(merged, manifest)) == []
    own = read_manifest(merged / "wtcp")
    assert own is not None
    assert own.variables.link == "far"
    for folder in (outside, recorded):
        assert (merged / folder.name / "transactions.csv").read_bytes() == (folder / "transactions.csv").read_bytes()
    names = {source.facts.get("link"): source.name for source in sources_of(session)}
    assert names == {None: "drive, centauruscomm and tcp", "far": "drive, wtcp"}


def test_loads_become_folders_of_the_session_with_their_logs(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    """Of `measure run --protocol iperf3` and `--latency`: one inside a recording, one in a folder elsewhere."""
    inside, outside = ends[0] / "load", tmp_path / "latency"
    opened(LoadPlan("192.0.2.1:5201", directions=("up",)), inside, client_manifest(inside))
    (inside / "iperf3-up.json").write_text(IPERF3)
    opened(LatencyPlan("192.0.2.1:5100"), outside, client_manifest(outside))
    probes = [{"probe": "connect", "phase": "idle", "time_ns": 1_700_000_000 * 10**9, "rtt_ns": 4_000_000}]
    lines = [{"latency": 1, "server": "192.0.2.1:5100", "time_ns": 1_700_000_000 * 10**9}, *probes]
    (outside / "latency.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    merged = tmp_path / "drive"
    call("merge", *ends, outside, "-o", merged)

    manifest = read_manifest(merged)
    assert manifest is not None
    assert list(changed_files(merged, manifest)) == []
    assert {log.path for log in manifest.files} >= {"load/iperf3-up.json", "latency/latency.jsonl"}
    assert manifest.variables.measurement is None, "the plan of one measurement is not that of the session"
    own = read_manifest(merged / "latency")
    assert own is not None
    assert own.variables.measurement is not None
    assert own.variables.measurement.server == "192.0.2.1:5100"
    session = mt.open(merged)
    assert len(session.table("application", "application_rate")) == 1
    assert len(session.table("application", "pings")) == 1


def test_measurement_without_results_is_refused(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    begun = tmp_path / "begun"  # its server never answered
    opened(LoadPlan("192.0.2.1:5202"), begun, client_manifest(begun))
    done = call("merge", *ends, begun, "-o", tmp_path / "drive", status=1)
    assert f"{begun}: this folder holds no logs and no results of a measurement yet; omit it" in done.stderr


def test_a_measurement_whose_manifest_is_damaged_is_copied_with_a_warning(
    tmp_path: Path, ends: tuple[Path, Path]
) -> None:
    write_session(ends[0] / "tcp", transactions({64: [0.1]}))
    (ends[0] / "tcp" / "manifest.json").write_text('{"schema": "multi')
    (ends[0] / "load").mkdir()
    (ends[0] / "load" / "iperf3-up.json").write_text(IPERF3)
    merged = tmp_path / "drive"
    warned = " ".join(call("merge", *ends, "-o", merged).stderr.split())
    assert "the folder is copied as it is" in warned
    assert f"{ends[0] / 'load'}: this is neither a host nor a measurement by any manifest" in warned
    assert len(mt.open(merged).transactions) == 1
    assert not (merged / "load").exists()


def test_logs_beside_the_folders_are_kept_but_for_two_of_one_name(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    (ends[0] / "clocks.jsonl").write_text("mine\n")
    (ends[1] / "clocks.jsonl").write_text("yours\n")
    (ends[1] / "mobile").write_text("a host of the other")
    merged = tmp_path / "drive"
    warned = call("merge", *ends, "-o", merged).stderr
    assert (merged / "clocks.jsonl").read_text() == "mine\n"
    assert warned.count("the file is not copied") == 2
    assert not (merged / "mobile" / "mobile").exists()


def _place_in_manifest(folder: Path, hosts: dict[str, Role], more: dict[str, object]) -> None:
    manifest = read_manifest(folder)
    assert manifest is not None
    manifest.hosts, manifest.more = {name: Host(role=role) for name, role in hosts.items()}, more
    write_manifest(folder, manifest)


def test_two_measurements_of_one_name_are_refused(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    for place in ("first", "second"):
        (tmp_path / place).mkdir()
        write_session(tmp_path / place / "tcp", transactions({64: [0.1]}))
    folders = [tmp_path / place / "tcp" for place in ("first", "second")]
    done = call("merge", ends[0], *folders, "-o", tmp_path / "drive", status=1)
    assert "the measurement 'tcp' is also in" in done.stderr
    assert not (tmp_path / "drive").exists()
