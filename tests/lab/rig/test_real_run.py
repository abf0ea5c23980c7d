"""A measurement under real kernels: both ends in namespaces of this machine, a modelled link between them."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import parsers
from multitracer.lab.scenario.library import read_error_trace
from multitracer.manifest import changed_files, read_manifest
from multitracer.recording.read import read
from tests.cli.program import analyze, call
from tests.lab.rig.real import measuring, numbers, spans_ns, told, transactions
from tests.lab.testbed.running import document, finished, left_behind
from tests.narrowed import known, tables_of

pytestmark = pytest.mark.root

SPEED = 20
CDPD = ("--speed", str(SPEED), "--seed", "5")


@pytest.fixture(scope="module", params=["tcp", "centauruscomm"])
def cdpd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the session folder of a few minutes over CDPD."""
    folder: Path = tmp_path_factory.mktemp("cdpd") / request.param
    with measuring(folder, "cdpd", *CDPD, protocol=request.param, sessions=6) as child:
        finished(child)
        assert left_behind(child.pid) == []
    return folder


def test_every_transaction_is_done_in_the_time_of_the_link(cdpd: Path) -> None:
    rows = transactions(cdpd)
    assert numbers(rows) == list(range(1, 13))
    done = [row for row in rows if row["outcome"] == "ok"]
    assert len(done) >= 8
    # 64 bytes each way take 0.8 s and more over CDPD; twenty times less would be the time of the clock
    assert all(0.5 < float(row["rtt_s"]) < 120 for row in done)
    assert all(float(row["server_rtt_s"]) > 0.3 for row in done)
    assert {row["timeout_s"] for row in rows} == {"120.0"}
    connected = [row for row in done if row["connect_s"]]
    assert bool(connected) == (cdpd.name == "tcp")
    assert all(float(row["connect_s"]) > 0.5 for row in connected)
    spans = list(spans_ns(done, speed=SPEED))
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def test_the_session_says_over_what_it_was_measured(cdpd: Path) -> None:
    manifest = read_manifest(cdpd)
    assert manifest is not None
    assert list(changed_files(cdpd, manifest)) == []
    wanted = {"link": "cdpd", "speed": SPEED, "virtual": False, "seed": 5, "extensions": []}
    there = manifest.variables.document()
    assert {key: there[key] for key in wanted} == wanted
    assert 'kind = "cdpd"' in known(manifest.variables.scenario)
    assert [run["ended"] for run in manifest.variables.runs] == ["all transactions are finished"]
    assert {run.outcome for run in manifest.collectors} == {"ended"}
    assert manifest.hosts["mobile"].more["device"].startswith("tun0 mtu 576")
    assert read(cdpd).speed == SPEED


def test_the_recorded_radio_is_what_the_link_said(cdpd: Path) -> None:
    """The modem rounds to 1 dB and 1 %; an answer may have been begun before it was told the latest.

    On a busy machine an answer takes two turns of the link and more, and tells any value told meanwhile.
    """
    truth = told(cdpd)
    told_ns = [int(row["time_ns"]) for row in truth]
    tables = tables_of(cdpd / "mobile" / "radio.jsonl")
    radio: Any = tables["radio"]
    compared = {"rssi_dbm": "rssi_dbm", "bler_pct": "bler_percent", "cell_busy_pct": "cell_busy_percent"}
    for column, name in compared.items():
        answers = zip(radio["asked_ns"], radio["answered_ns"], radio[column], strict=True)
        said = [answer for answer in answers if not math.isnan(answer[-1])]
        assert len(said) > 10, column
        for asked_ns, answered_ns, value in said:
            asked, answered = (bisect_right(told_ns, time_ns) for time_ns in (asked_ns, answered_ns))
            meanwhile = truth[max(0, asked - 2) : max(asked + 1, answered)]
            possible = [float(row[name]) for row in meanwhile if row[name]]
            assert any(abs(value - each) <= 0.51 for each in possible), (column, value, possible)
    assert len({row["rssi_dbm"] for row in truth}) > 5


def test_what_the_radio_destroyed_is_written_and_exported(cdpd: Path) -> None:
    trace = read_error_trace(cdpd / "truth/radio.txt")
    assert (trace.slot_ns_of("up"), trace.slot_ns_of("down")) == (20_052_083, 21_875_000)
    assert trace.lasts_ns > int(told(cdpd)[-1]["link_ns"])
    assert call("export", "errors", cdpd).stdout == trace.text()
    assert trace.up
    assert trace.down


def test_a_transaction_has_the_radio_of_its_own_time(cdpd: Path) -> None:
    truth = told(cdpd)
    rows = [row for row in transactions(cdpd) if row["outcome"] == "ok"]
    second_ns = 1e9 / SPEED
    for row, (begin_ns, end_ns) in zip(rows, spans_ns(rows, speed=SPEED), strict=True):
        near = [
            float(each["rssi_dbm"])
            for each in truth
            if begin_ns - 3 * second_ns <= int(each["time_ns"]) <= end_ns + second_ns
        ]
        assert min(near) - 0.5 <= float(row["rssi_dbm"]) <= max(near) + 0.5
        assert int(row["radio_readings"]) >= 0


def test_bluetooth_is_measured_and_captured(tmp_path: Path) -> None:
    folder = tmp_path / "bluetooth"
    options = ("--speed", "2", "--capture", "--tcp-profile", "1999")
    with measuring(folder, "bluetooth", *options, sizes="64,4096", sessions=5) as child:
        finished(child)
    rows = transactions(folder)
    assert [row["outcome"] for row in rows] == ["ok"] * 10
    small, large = ([float(row["rtt_s"]) for row in half] for half in (rows[:5], rows[5:]))
    assert 0.005 < min(small) < min(large) < 5
    assert all(row["rssi_dbm"] for row in rows)
    assert document(folder, "manifest.json")["variables"]["tcp_profile"] == "1999"
    connections = analyze(folder)["connections"]
    assert [Path(each["file"]).parent.name for each in connections] == ["mobile", "fixed"]
    for connection in connections:
        assert connection["forward"]["mss"] == connection["reverse"]["mss"] == 536
        assert connection["reverse"]["unique_bytes"] > 5 * (64 + 4096)
    for side in ("mobile", "fixed"):
        assert parsers.read(str(folder / side / "tcp_state.jsonl"))[0].layer == "tcp"
