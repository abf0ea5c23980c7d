"""What the applications and the devices of a real run do as the scenario says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.program import analyze
from tests.lab.testbed.running import document, finished, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.root

ALL_KINDS = """
[tcp]
mtu_bytes = 512
[[traffic]]
direction = "down"
bytes = 30_000
aborts_after_s = 10
[[traffic]]
bytes = 3_000
start_s = 12
[[traffic]]
direction = "down"
bytes = 6_000
start_s = 14
reads_bytes_per_s = 300
"""
OVERFLOW = """
[tcp]
mtu_bytes = 512
[link.queue]
limit_packets = 4
local_drops = "told"
[[traffic]]
bytes = 30_000
"""


def ran(text: str, folder: Path, *, speed: float) -> Path:
    scenario = folder / "scenario-of-the-test.toml"
    scenario.write_text(text)
    with started(scenario, folder / "run", speed=speed) as child:
        finished(child)
    return folder / "run"


def reports(folder: Path, host: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / host / "traffic.jsonl").read_text().splitlines()]


def test_transfers_are_aborted_sent_and_read_slowly(tmp_path: Path) -> None:
    folder = ran(ALL_KINDS, tmp_path, speed=20)
    aborted, sent, read = reports(folder, "mobile")
    assert [report["ended"] for report in (aborted, sent, read)] == ["aborted", "closed", "closed"]
    assert 0 < aborted["received"] < 30_000
    assert aborted["took_s"] == pytest.approx(10, abs=4)
    assert (sent["sent"], read["received"]) == (3_000, 6_000)
    assert read["took_s"] > 6_000 / 300 - 1
    assert reports(folder, "fixed")[0]["ended"] == "Connection reset by peer"
    resets = [c["forward"]["rst"] for c in analyze(folder)["connections"] if c["dport"] == 5001]
    assert all(resets)


def test_a_device_that_refuses_a_packet_tells_the_kernel(tmp_path: Path) -> None:
    folder = ran(OVERFLOW, tmp_path, speed=20)
    (device,) = json.loads((folder / "mobile/device_after.json").read_text())
    assert device["stats64"]["tx"]["dropped"] > 0
    summary = document(folder, "summary.json")
    assert (summary["tcp_retransmissions"], summary["tcp_fast_retransmits"]) == (0, 0)
