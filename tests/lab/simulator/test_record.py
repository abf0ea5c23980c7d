"""A run in virtual time as a session folder: complete, repeatable, readable by others, and quick."""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
import sys
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.errors import InputError
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import ClockSetting, Scenario, ScenarioTraffic
from multitracer.lab.simulator.run import VirtualRun, record_virtual
from multitracer.manifest import changed_files, read_manifest
from multitracer.protocols.error_trace import ErrorTrace
from multitracer.protocols.link_events import FrameLost
from multitracer.recording.read import read
from tests.lab.simulator.watch import watch, watched
from tests.narrowed import call_of, tables_of

if TYPE_CHECKING:
    from tests.lab.shared_runs import SharedRuns

LOGS = {f"{host}/{log}" for host in ("mobile", "fixed") for log in ("tcp-0.pcap", "tcp_state.jsonl", "rlp.pcapng")}
KEYS = [
    "goodput_bytes_per_s", "rlp_slope_bytes_per_s", "rlp_resets", "rlp_retransmissions", "xoff_gaps_s",
    "tcp_retransmissions", "tcp_timeouts", "tcp_fast_retransmits", "checksum_errors",
    "longest_receiver_hole_s", "max_rtt_s", "ledger", "flows", "jain_index", "fairness_gap",
    "fairness_gap_reason", "jain_index_last_third", "fairness_gap_last_third",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(shared_runs: SharedRuns) -> Path:
    """Return the session of a run with an overflow, header compression and a reset."""
    return shared_runs.session(load_scenario("fig8-resets-vj")).folder


@pytest.fixture(scope="module")
def typical(shared_runs: SharedRuns) -> Path:
    """Return the session of the typical transfer of 230 KB."""
    return shared_runs.session(load_scenario("fig5-typical")).folder


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def short(**changes: object) -> Scenario:
    scenario = Scenario(name="short", traffic=(ScenarioTraffic(bytes=6_000),))
    return replace(scenario, **changes)  # type: ignore[arg-type]


def test_the_folder_holds_what_a_real_run_leaves_and_the_truth(folder: Path) -> None:
    beside = {
        "manifest.json", "scenario.toml", "clocks.jsonl", "summary.json", "truth/frames.csv",
        "truth/segments.csv",
    }  # fmt: skip
    assert set(contents(folder)) == LOGS | beside


def test_the_summary_has_exactly_the_keys_of_the_contract(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert list(summary) == KEYS
    assert list(summary["ledger"]) == ["bytes_in", "delivered", "flushed", "queued"]
    assert summary["rlp_resets"] == 2


def test_the_manifest_names_every_log_with_its_checksum(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest is not None
    assert {log.path for log in manifest.files} == set(contents(folder)) - {"manifest.json"}
    assert list(changed_files(folder, manifest)) == []
    assert {(run.name, run.host, run.outcome) for run in manifest.collectors} == {
        (name, host, "ended") for name in ("tcpdump", "tcp_info", "rlpdump") for host in ("mobile", "fixed")
    }
    assert manifest.variables.seed == 1


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    scenario = replace(load_scenario("radio-poor"), traffic=(ScenarioTraffic(bytes=10_000),))
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        record_virtual(scenario, tmp_path / name, seed=seed)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["truth/frames.csv"] != contents(tmp_path / "c")["truth/frames.csv"]


def test_a_process_of_its_own_writes_the_same_bytes(tmp_path: Path) -> None:
    """No order of sets, no hash seed, no clock of the machine gets into a log."""
    code = (
        "import sys; from pathlib import Path; from multitracer.lab.scenario.library import load_scenario;"
        "from multitracer.lab.simulator.run import record_virtual;"
        "record_virtual(load_scenario('fig11-fade'), Path(sys.argv[1]))"
    )
    for name in ("a", "b"):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], check=True)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_a_folder_with_something_in_it_is_left_alone(folder: Path, tmp_path: Path) -> None:
    before = contents(folder)
    with pytest.raises(InputError, match="not empty"):
        record_virtual(short(), folder)
    assert contents(folder) == before

    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot create this folder"):
        record_virtual(short(), tmp_path / "file")


def test_a_run_that_is_interrupted_leaves_all_that_it_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    record_virtual(short(), tmp_path / "whole")
    monkeypatch.setattr(VirtualRun, "_summary", interrupted)
    with pytest.raises(KeyboardInterrupt):
        record_virtual(short(), tmp_path / "cut")
    for log in sorted(LOGS):
        complete = (tmp_path / "whole" / log).read_bytes()
        last = complete[complete.rindex(b'{"kind":"clock"') :] if log.endswith(".jsonl") else b""  # two lines
        assert (tmp_path / "cut" / log).read_bytes() + last == complete


@pytest.mark.slow
@pytest.mark.skipif(which("tshark") is None, reason="needs tshark")
@pytest.mark.parametrize("log", sorted(name for name in LOGS if name.endswith(("pcap", "pcapng"))))
def test_tshark_opens_every_capture_without_a_malformed_frame(folder: Path, log: str) -> None:
    def count(*filters: str) -> int:
        command = ["tshark", "-r", str(folder / log), "-T", "fields", "-e", "frame.number", *filters]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return len(done.stdout.split())

    assert count("-Y", "_ws.malformed") == 0
    assert count() > 400


@pytest.mark.skipif(which("tshark") is None, reason="needs tshark")
def test_tshark_finds_the_checksum_errors_of_the_summary(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    asked = ["-o", "tcp.check_checksum:TRUE", "-Y", "tcp.checksum.status==0 && ip.src==10.64.0.1"]
    command = ["tshark", "-r", str(folder / "fixed/tcp-0.pcap"), *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == summary["checksum_errors"] > 0


def test_the_session_opens_and_its_truth_is_not_a_capture_point(typical: Path) -> None:
    session = read(typical)
    assert [capture.point.name for capture in session.captures] == ["mobile", "fixed"]
    assert session.warnings == []


@pytest.mark.parametrize("log", sorted(LOGS))
def test_every_log_is_read_by_its_parser_without_a_skipped_record(typical: Path, log: str) -> None:
    _, parsed = parsers.read(typical / log)
    if not isinstance(parsed, dict):
        assert (parsed.files[0].damaged, parsed.files[0].not_decoded) == (None, {})
        return
    for table in parsed.values():
        assert len(table) > 300
        assert (table.provenance["skipped"], table.provenance["damaged"]) == ({}, None)


def test_the_sender_state_follows_the_packets(typical: Path) -> None:
    state = tables_of(typical / "mobile/tcp_state.jsonl")["tcp_state"]
    summary = json.loads((typical / "summary.json").read_text())
    assert state["total_retransmitted_segments"].max() == summary["tcp_retransmissions"]
    assert state["total_acked_bytes"].max() == 230_000
    assert state["cwnd_bytes"].max() > 16 * 460
    assert np.all(np.diff(state["time_ns"]) >= 0)
    assert state["srtt_ns"][-1] > 3e9


def test_the_link_log_repeats_the_summary(typical: Path) -> None:
    frames = tables_of(typical / "mobile/rlp.pcapng")["link_frames"]
    summary = json.loads((typical / "summary.json").read_text())
    with_data = frames["sent"] & (frames["payload_bytes"] > 0)
    assert int((with_data & (frames["attempt"] > 1)).sum()) == summary["rlp_retransmissions"]

    first = with_data & (frames["attempt"] == 1)
    seconds = (frames["time_ns"][first] - frames["time_ns"][first][0]) / 1e9
    slope = np.polyfit(seconds, frames["offset_bytes"][first], 1)[0]
    assert slope == pytest.approx(summary["rlp_slope_bytes_per_s"], rel=1e-4)


def truth(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "truth" / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_truth_of_frames_agrees_with_what_the_receivers_logged(typical: Path) -> None:
    frames = truth(typical, "frames.csv")
    for direction, receiver in (("up", "fixed"), ("down", "mobile")):
        logged = tables_of(typical / receiver / "rlp.pcapng")["link_frames"]
        lost_slots = [int(f["arrival_slot"]) for f in frames if f["direction"] == direction and f["lost"] == "1"]
        assert lost_slots
        assert logged["tick"][~logged["sent"] & ~logged["fcs_ok"]].tolist() == lost_slots


def test_the_truth_of_segments_accounts_for_every_packet(folder: Path) -> None:
    segments = truth(folder, "segments.csv")
    counts = Counter((s["host"], s["fate"]) for s in segments)
    summary = json.loads((folder / "summary.json").read_text())
    assert counts["mobile", "damaged"] == summary["checksum_errors"]
    assert counts["mobile", "lost"] > 3

    for host, far in (("mobile", "fixed"), ("fixed", "mobile")):
        left = sum(count for (from_host, _), count in counts.items() if from_host == host)
        arrived = counts[host, "delivered"] + counts[host, "damaged"]
        captured = {side: parsers.read_capture([str(folder / side / "tcp-0.pcap")]) for side in (host, far)}
        assert len(captured[host].segments) == left + counts[far, "delivered"] + counts[far, "damaged"]
        assert len(captured[far].segments) - arrived == sum(
            count for (from_host, _), count in counts.items() if from_host == far
        )


def test_the_truth_names_what_the_queue_dropped(typical: Path) -> None:
    fates = Counter(s["fate"] for s in truth(typical, "segments.csv"))
    assert fates["dropped"] == json.loads((typical / "summary.json").read_text())["tcp_retransmissions"] > 0
    assert set(fates) == {"delivered", "dropped"}


@pytest.mark.slow
def test_a_recorded_radio_repeats_the_run_exactly(tmp_path: Path) -> None:
    """The papers' next step: a measured radio under a transport again."""
    scenario = watched("radio-poor").scenario
    seen = watched("radio-poor")
    lost = {
        side: [e.tick for where, e in seen.link if where == side and isinstance(e, FrameLost)]
        for side in ("mobile", "fixed")
    }
    slot_ns = call_of(scenario).slot_ns
    trace = ErrorTrace.from_slots(slot_ns=slot_ns, slots=20_000, up=lost["fixed"], down=lost["mobile"])
    (tmp_path / "radio.txt").write_text(trace.text())
    (tmp_path / "again.toml").write_text(
        """
[tcp]
mtu_bytes = 512
timestamps = false
[link]
header_compression = "vj"
n2 = 20
[link.up]
kind = "replay"
trace = "radio.txt"
[link.down]
kind = "replay"
trace = "radio.txt"
[[traffic]]
bytes = 230_000
"""
    )
    again = watch(load_scenario(str(tmp_path / "again.toml")))
    assert again.summary == seen.summary
    assert again.frames == seen.frames

    other = replace(again.scenario, mobile=replace(again.scenario.mobile, congestion="cubic"))
    assert watch(other).summary.rlp_retransmissions == pytest.approx(seen.summary.rlp_retransmissions, rel=0.2)


def test_the_fixed_hosts_clock_may_be_wrong(tmp_path: Path) -> None:
    record_virtual(short(), tmp_path / "right")
    record_virtual(short(clock=ClockSetting(offset_s=0.8, skew_ppm=30)), tmp_path / "wrong")
    times = {
        (name, host): parsers.read_capture([str(tmp_path / name / host / "tcp-0.pcap")]).segments["time_ns"]
        for name in ("right", "wrong")
        for host in ("mobile", "fixed")
    }
    assert np.array_equal(times["right", "mobile"], times["wrong", "mobile"])
    error_ns = times["wrong", "fixed"] - times["right", "fixed"]
    assert error_ns[0] == pytest.approx(800_000_000 + 30e-6 * 1e9, rel=1e-4)
    assert error_ns[-1] > error_ns[0]


def test_captures_are_cut_unless_checksums_have_to_be_verified(folder: Path, typical: Path) -> None:
    sizes = {path: path.stat().st_size for path in (folder / "mobile/tcp-0.pcap", typical / "mobile/tcp-0.pcap")}
    assert sizes[folder / "mobile/tcp-0.pcap"] > 100_000
    assert sizes[typical / "mobile/tcp-0.pcap"] < 1_100 * (96 + 16)


def test_the_link_log_takes_less_than_a_kilobyte_a_second(typical: Path) -> None:
    packed = zlib.compress((typical / "mobile/rlp.pcapng").read_bytes(), level=6)
    run_s = (watched("fig5-typical").packets[-1].time_s) - watched("fig5-typical").packets[0].time_s
    assert len(packed) / run_s < 1_000


def test_an_interrupted_run_leaves_a_folder_that_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(300))

    def interrupted(*_: object) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("multitracer.lab.channel.gsm.Drain.spend", interrupted)
    with pytest.raises(KeyboardInterrupt):
        record_virtual(short(), tmp_path / "cut")
    manifest = read_manifest(tmp_path / "cut")
    assert manifest is not None
    assert {run.outcome for run in manifest.collectors} == {None}
    assert len(read(tmp_path / "cut").captures) == 2


REAL_SOURCES = ("multitracer/analysis", "multitracer/figures", "multitracer/report", "multitracer/recording", "parsers")


def test_no_analysis_reads_the_truth() -> None:
    root = Path(__file__).parents[3]
    sources = [
        p for place in REAL_SOURCES for p in ([root / place] if place.endswith(".py") else (root / place).rglob("*.py"))
    ]
    assert len(sources) > 20
    assert not [
        path for path in sources if "truth/" in path.read_text("utf-8") or "segments.csv" in path.read_text("utf-8")
    ]
