"""The recorded data calls: what our readers find in them is what link, kernels, tcpdump and tcptrace say."""

from __future__ import annotations

import gzip
import json
import shutil
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.lab.scenario.library import load_scenario
from multitracer.manifest import changed_files, read_manifest
from multitracer.recording.read import read
from tests.cli.program import analyze, call
from tests.conftest import SAMPLES
from tests.e2e.test_sample_session import _counts, _of_host

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = ("mobile", "fixed")
FAR = {"mobile": "fixed", "fixed": "mobile"}
WAYS = {"mobile": "up", "fixed": "down"}
CALLS = sorted(path.parent for path in SAMPLES.glob("*/expected.json"))
NAMES = {
    "typical-1450k", "fig4-slow-start", "overbuffered", "fig8-resets-vj", "fig8-resets-plain",
    "fig10-backoff", "fig10-exhaustion", "fig11-fade", "fig5-typical", "fade-n2-20", "sack-modern",
    "download", "second-connection", "clock-shift", "local-drop-ring", "local-drop-silent",
}  # fmt: skip
MOST_BYTES = 9_000_000

each_call = pytest.mark.parametrize("folder", CALLS, ids=[path.name for path in CALLS])


@cache
def document(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


def expected(folder: Path) -> dict[str, Any]:
    return document(folder, "expected.json")


@cache
def analysis(folder: Path) -> dict[str, Any]:
    return analyze(folder)


@cache
def link_logs(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the tables of rlpdump, by host."""
    return {log.host: tables for log, tables in read(folder).logs("link")}


def sender(folder: Path) -> str:
    hosts = document(folder, "manifest.json")["hosts"]
    return next(host for host in HOSTS if hosts[host]["role"] == "sender")


def test_the_set_is_whole_and_small() -> None:
    assert {path.name for path in CALLS} == NAMES
    files = [path for path in SAMPLES.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES


@each_call
def test_a_sample_says_what_it_is(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest is not None
    assert list(changed_files(folder, manifest)) == []
    assert {log.path for log in manifest.files} >= {"scenario.toml", "summary.json", "expected.json"}
    assert (manifest.name, manifest.variables.speed, manifest.variables.virtual) == (folder.name, 1, False)
    assert {run.outcome for run in manifest.collectors} == {"ended"}
    assert load_scenario(str(folder / "scenario.toml")).traffic
    assert read(folder).warnings == []


@each_call
def test_captures_hold_what_tcpdump_wrote_and_tcptrace_counts(folder: Path) -> None:
    told = expected(folder)
    for host in HOSTS:
        connections = _of_host(analysis(folder), host)
        assert _counts(connections) == told["tcptrace"][host]
        packets = sum(c[way]["packets"] for c in connections for way in ("forward", "reverse"))
        assert packets == told["captured_packets"][host]
        assert told["dropped_by_capture"][host] == 0


@each_call
def test_rlpdump_holds_what_the_link_did(folder: Path) -> None:
    told, summary = expected(folder), document(folder, "summary.json")
    for host in HOSTS:
        log = link_logs(folder)[host]
        events = list(log["link_events"]["event"])
        lost = int(np.sum(log["link_frames"]["fate"] == "lost"))
        assert lost == told["lost_frames"][WAYS[FAR[host]]]
        assert events.count("packet_dropped") == told["packet_fates"][host].get("dropped", 0)
        assert events.count("reset_started") == summary["rlp_resets"]
    frames = link_logs(folder)[sender(folder)]["link_frames"]
    again = (frames["attempt"] > 1) & (frames["payload_bytes"] > 0)
    assert int(np.sum(again)) == summary["rlp_retransmissions"]


@each_call
def test_the_summary_has_the_kernels_counts(folder: Path) -> None:
    summary, kernel = document(folder, "summary.json"), expected(folder)["kernel"]
    host = sender(folder)
    assert summary["tcp_retransmissions"] == kernel[host]["TcpRetransSegs"]
    assert summary["tcp_timeouts"] == kernel[host]["TcpExtTCPTimeouts"]
    assert summary["checksum_errors"] == kernel[FAR[host]]["TcpInCsumErrors"]


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("typical-1450k", {"rlp_slope_bytes_per_s": (940, 965), "rlp_retransmissions": (100, 300),
                           "tcp_timeouts": (0, 0), "tcp_fast_retransmits": (15, 40), "max_rtt_s": (8, 10)}),
        ("fig4-slow-start", {"tcp_fast_retransmits": (1, 3), "max_rtt_s": (7, 10)}),
        ("overbuffered", {"max_rtt_s": (20, 40), "tcp_retransmissions": (40, 70)}),
        ("fig8-resets-vj", {"rlp_resets": (2, 2), "tcp_timeouts": (2, 2), "checksum_errors": (15, 40),
                            "longest_receiver_hole_s": (10, 25)}),
        ("fig8-resets-plain", {"rlp_resets": (2, 2), "tcp_timeouts": (0, 0), "checksum_errors": (0, 0),
                               "longest_receiver_hole_s": (0, 3)}),
        ("fig10-backoff", {"rlp_resets": (3, 3), "tcp_timeouts": (3, 4),
                           "longest_receiver_hole_s": (60, 180)}),
        ("fig10-exhaustion", {"rlp_resets": (2, 2), "tcp_timeouts": (2, 2), "checksum_errors": (5, 20),
                              "longest_receiver_hole_s": (40, 80)}),
        ("fig11-fade", {"rlp_retransmissions": (15, 70), "tcp_retransmissions": (0, 0),
                        "longest_receiver_hole_s": (1.2, 2.5)}),
        ("fig5-typical", {"rlp_retransmissions": (64, 64), "rlp_resets": (0, 0), "tcp_timeouts": (0, 0),
                           "longest_receiver_hole_s": (2.1, 2.4)}),
        ("fade-n2-20", {"rlp_resets": (0, 0), "tcp_retransmissions": (0, 0),
                        "longest_receiver_hole_s": (3.5, 6)}),
        ("sack-modern", {"tcp_timeouts": (0, 0), "tcp_fast_retransmits": (2, 4),
                         "checksum_errors": (15, 40)}),
        ("second-connection", {"tcp_timeouts": (4, 8)}),
    ],
)  # fmt: skip
def test_a_sample_shows_the_papers_effect(name: str, bounds: dict[str, tuple[float, float]]) -> None:
    summary = document(SAMPLES / name, "summary.json")
    outside = {key: summary[key] for key, (minimum, most) in bounds.items() if not minimum <= summary[key] <= most}
    assert outside == {}


def test_every_reset_of_the_back_off_is_one_of_n2_and_not_of_the_script() -> None:
    folder = SAMPLES / "fig10-exhaustion"
    assert not load_scenario(str(folder / "scenario.toml")).events
    starts = [log["link_events"] for log in link_logs(folder).values()]
    causes = [
        (cause, attempts)
        for table in starts
        for event, cause, attempts in zip(table["event"], table["cause"], table["attempts"], strict=True)
        if event == "reset_started"
    ]
    assert [attempts for cause, attempts in causes if cause == "n2"] == [6, 6]
    assert {cause for cause, _ in causes} == {"n2", "peer"}


def repeated(name: str) -> tuple[int, int]:
    """Return the segments sent twice, by the capture at the sender, and the kernel's count of them."""
    folder = SAMPLES / name
    host = sender(folder)
    seen = sum(
        c[way]["retransmitted_segments"] for c in _of_host(analysis(folder), host) for way in ("forward", "reverse")
    )
    return seen, expected(folder)["kernel"][host]["TcpRetransSegs"]


def test_a_drop_of_which_the_kernel_is_told_is_no_retransmission() -> None:
    """The capture sees the packet that the device refused, and again when the kernel sends it later."""
    (device,) = json.loads((SAMPLES / "local-drop-ring/mobile/device_after.json").read_text())
    refused = device["stats64"]["tx"]["dropped"]
    assert refused > 5
    assert repeated("local-drop-ring") == (refused, 0)
    assert document(SAMPLES / "local-drop-ring", "summary.json")["tcp_fast_retransmits"] == 0


def test_a_drop_of_which_it_is_not_told_is_repaired_by_fast_retransmit() -> None:
    folder = SAMPLES / "local-drop-silent"
    dropped = expected(folder)["packet_fates"]["mobile"]["dropped"]
    assert dropped > 10
    assert repeated("local-drop-silent") == (dropped, dropped)
    fast = document(folder, "summary.json")["tcp_fast_retransmits"]
    acks = _of_host(analysis(folder), "mobile")[0]["reverse"]
    assert acks["duplicate_acks"] >= 3 * fast > 0


def test_the_injected_clock_error_is_in_the_fixed_hosts_logs() -> None:
    folder = SAMPLES / "clock-shift"
    error = document(folder, "manifest.json")["hosts"]["fixed"]["clock_error"]
    assert error == {"offset_ns": 800_000_000, "skew_ppm": 30.0}
    began = {host: _of_host(analysis(folder), host)[0]["start_ns"] for host in HOSTS}
    assert 0.8e9 < began["fixed"] - began["mobile"] < 1.8e9  # the offset and the way of a SYN
    took_s = {host: max(c["duration_s"] for c in _of_host(analysis(folder), host)) for host in HOSTS}
    assert min(took_s.values()) > 200
    pairs = [json.loads(line) for line in text_of(folder, "clocks.jsonl").splitlines()]
    fixed, mobile = (np.array([p["realtime_ns"] for p in pairs if p["host"] == host]) for host in ("fixed", "mobile"))
    ahead = fixed - mobile
    slope = np.polyfit(mobile - mobile[0], ahead, 1)[0]
    assert slope * 1e6 == pytest.approx(30, abs=0.01)
    assert ahead[0] == pytest.approx(800_000_000, abs=1_000_000)


def text_of(folder: Path, name: str) -> str:
    from parsers._stream import open_stream  # the one that the readers use

    path = next(folder.glob(f"{name}*"))
    with open_stream(str(path)) as stream:
        return stream.read().decode()


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a call whose receiver's capture was cut off, and whose fixed end has no rlpdump."""
    folder = tmp_path / "damaged"
    shutil.copytree(SAMPLES / "fig8-resets-plain", folder)
    packed = folder / "fixed" / "tcp-0.pcap.gz"
    complete = gzip.decompress(packed.read_bytes())
    (folder / "fixed" / "tcp-0.pcap").write_bytes(complete[: len(complete) // 2])
    packed.unlink()
    next(folder.glob("fixed/rlp.pcapng*")).unlink()
    return folder


def test_a_damaged_call_is_read_as_far_as_it_goes(damaged: Path) -> None:
    complete = analysis(SAMPLES / "fig8-resets-plain")
    left = analyze(damaged)
    assert _counts(_of_host(left, "mobile")) == _counts(_of_host(complete, "mobile"))
    packets = [_of_host(found, "fixed")[0]["forward"]["packets"] for found in (left, complete)]
    assert 0.4 < packets[0] / packets[1] < 0.6
    assert link_logs(damaged).keys() == {"mobile"}
    shown = call("inspect", damaged).stdout
    assert "fixed/tcp-0.pcap.gz: listed in the manifest, but missing" in shown.replace("\n", " ")
