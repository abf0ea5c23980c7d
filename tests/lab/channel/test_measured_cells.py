"""`measure` over a cell whose other users are stations."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from tests.lab.rig.virtual import link, plan, run

if TYPE_CHECKING:
    from pathlib import Path

CELL = """
[tcp]
mtu_bytes = 576
[link]
kind = "cdpd"
bits_per_s = 50_000
[link.outages]
hop_every_s = 0
ejection_every_s = 0
blackout_every_s = 0
[link.cell]
spread_percent = 0
"""


def _round_trip_s(busy: str, folder: Path) -> float:
    rows = run(plan("tcp", (2048,), 40), folder, link(CELL + busy))
    return median(float(row["rtt_s"]) for row in rows if row["outcome"] == "ok")


def test_a_measurement_waits_for_the_stations_of_its_cell(tmp_path: Path) -> None:
    empty_s = _round_trip_s("busy_percent = 0", tmp_path / "empty")
    busy_s = _round_trip_s("busy_percent = 75\nstations = 5", tmp_path / "busy")
    assert busy_s > 1.2 * empty_s
