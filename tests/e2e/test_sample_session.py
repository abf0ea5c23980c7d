"""The bundled session through the installed program: its numbers are those of tcptrace, kernel and link."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import multitracer as mt
from multitracer.analysis.sender_state import TcpPhase
from multitracer.manifest import changed_files, read_manifest
from sample_traces.recording.cellular_upload import record

Analysis = dict[str, Any]
HOSTS = ("mobile", "fixed")
MAX_BYTES = 1_000_000


@pytest.fixture(scope="module")
def analysis(sample_session: Path) -> Analysis:
    return _analyse(sample_session)


@pytest.fixture(scope="module")
def expected(sample_session: Path) -> Analysis:
    return _expected(sample_session)


def test_logs_are_as_they_were_recorded(sample_session: Path) -> None:
    manifest = read_manifest(sample_session)
    assert manifest is not None
    assert len(manifest.files) > 4
    assert list(changed_files(sample_session, manifest)) == []


def test_session_is_small(sample_session: Path) -> None:
    assert sum(path.stat().st_size for path in sample_session.rglob("*") if path.is_file()) < MAX_BYTES


@pytest.mark.parametrize("host", HOSTS)
def test_connections_equal_tcptrace(host: str, analysis: Analysis, expected: Analysis) -> None:
    assert _counts(_of_host(analysis, host)) == expected["tcptrace"][host]


def test_retransmissions_equal_the_kernels(analysis: Analysis, expected: Analysis) -> None:
    sent = sum(c["forward"]["retransmitted_segments"] for c in _of_host(analysis, "mobile"))
    assert sent == expected["kernel"]["mobile"]["TcpRetransSegs"]
    assert sent > 20


def test_missing_at_receiver_is_what_the_link_dropped(analysis: Analysis, expected: Analysis) -> None:
    _assert_losses(analysis, expected)


def test_upload_shows_its_queue(analysis: Analysis) -> None:
    rtt_ms = _of_host(analysis, "mobile")[0]["forward"]["rtt_ms"]
    assert rtt_ms["min"] == pytest.approx(71, abs=3)
    assert rtt_ms["max"] > 300


def test_senders_state_is_that_of_the_kernels_counters(sample_session: Path, expected: Analysis) -> None:
    session = mt.open(sample_session)
    again = session.tcp_events.query("event == 1 and port_remote == 5001")
    kernel = expected["kernel"]["mobile"]
    assert len(again) == kernel["TcpRetransSegs"]
    polled = session.tcp_state.query("method == 1 and port_remote == 5001")
    assert polled["total_retransmitted_segments"].max() == kernel["TcpRetransSegs"]
    phases = session.phases()
    assert (phases["phase"] == TcpPhase.LOSS).sum() == 1
    assert (phases["phase"] == TcpPhase.RECOVERY).sum() == kernel["TcpExtTCPSackRecovery"]
    assert not phases["reconstructed"].any()


def test_window_stands_at_the_packets_that_filled_it(sample_session: Path) -> None:
    session = mt.open(sample_session)
    segments, cwnd = session.tcp_segments(1), session.series(1)["TcpSnd_cwnd"]
    data = segments[~segments["reverse"] & (segments["payload_bytes"] > 0)]
    joined = pd.merge_asof(data, cwnd, on="time_ns", allow_exact_matches=True)
    steady = joined["time_ns"].between(*(data["time_ns"].iloc[0] + pd.to_timedelta([4, 9], "s")))
    full = joined[steady]["flight_bytes"].astype(float) / joined[steady]["value"]
    assert full.median() == pytest.approx(1, abs=0.02)
    assert (full <= 1).mean() > 0.99, "nothing leaves that the window does not allow"


@pytest.mark.root
def test_recording_it_again_gives_a_session_that_holds_together(tmp_path: Path) -> None:
    folder = tmp_path / "again"
    beside = 'python -c \'import sys; open(sys.argv[1], "w").write("x")\' {}'
    record(folder, extra=[f"beside.txt={beside}"], upload_bytes=250_000)
    manifest = read_manifest(folder)
    assert manifest is not None
    assert list(changed_files(folder, manifest)) == []
    assert {log.path for log in manifest.files} >= {"clocks.jsonl", "mobile/beside.txt", "core/link.jsonl"}
    assert [run.outcome for run in manifest.collectors if run.name == "tcpdump"] == ["ended", "ended"]
    analysis, expected = _analyse(folder), _expected(folder)
    _assert_losses(analysis, expected)
    for host in HOSTS:
        assert _counts(_of_host(analysis, host)) == expected["tcptrace"][host]
        assert expected["captured_packets"][host]["dropped by kernel"] == 0


def _assert_losses(analysis: Analysis, expected: Analysis) -> None:
    for way, direction, sender, receiver in (
        ("forward", "uplink", "mobile", "fixed"),
        ("reverse", "downlink", "fixed", "mobile"),
    ):
        drops = expected["link_drops"]
        dropped = sum(count for reason, count in drops.items() if reason.startswith(direction))
        sent, arrived = (sum(c[way]["packets"] for c in _of_host(analysis, h)) for h in (sender, receiver))
        assert sent - arrived == dropped


def _analyse(session: Path) -> Analysis:
    program = Path(sys.executable).with_name("multitracer")
    argv: list[str | Path] = [program, "analyze", "--json", session]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


def _expected(session: Path) -> Analysis:
    variables = json.loads((session / "manifest.json").read_text())["variables"]
    assert isinstance(variables["expected"], dict)
    return variables["expected"]


def _of_host(analysis: Analysis, host: str) -> list[Analysis]:
    """Return the connections of one capture point in the order of their first packet."""
    found = [c for c in analysis["connections"] if Path(c["file"]).parent.name == host]
    return sorted(found, key=lambda c: int(c["start_ns"]))


def _counts(connections: list[Analysis]) -> list[dict[str, int]]:
    """Return the counts under tcptrace's names, as the manifest has them."""
    names = {
        "total packets": "packets",
        "unique bytes sent": "unique_bytes",
        "actual data pkts": "data_segments",
        "rexmt data pkts": "retransmitted_segments",
        "rexmt data bytes": "retransmitted_bytes",
    }
    ways = {"a": "forward", "b": "reverse"}
    return [
        {f"{theirs} {way}": c[ways[way]][ours] for theirs, ours in names.items() for way in "ab"} for c in connections
    ]
