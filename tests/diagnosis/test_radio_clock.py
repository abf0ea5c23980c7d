"""A radio log whose clock nothing links to the packets is no witness of what made them pause."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import parsers
from tests.cli.program import call
from tests.clock.restamp import S
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DRIVE = SAMPLES / "rehearsed-drive"
HOLES = (*range(23, 30), *range(139, 146))
"""Seconds of the sample's packets in which nothing came through."""
IN_A_HOLE, BETWEEN = 142, 80


def diagnosed(
    folder: Path,
    changes_at: int,
    *,
    off_s: Callable[[int], float] = lambda _: 0.0,
    state: str = "",
    gap: range = range(0),
) -> tuple[list[dict[str, Any]], str]:
    """Diagnose the sample's captures beside another program's log, in which the cell changes at a second.

    Returns
    -------
    incidents : list
    warnings : str
    """
    for name in ("mobile", "fixed"):
        (folder / name).mkdir(parents=True)
        shutil.copy(DRIVE / name / "tcp-0.pcap.xz", folder / name)
    first = int(parsers.read_capture([DRIVE / "mobile" / "tcp-0.pcap.xz"]).segments["time_ns"][0])
    lines = ["time_ns,source,role,rat,cell_id,state"]
    for second in (each for each in range(185) if each not in gap):
        time_ns = first + round((second + off_s(second)) * S)
        cell = 11 if second < changes_at else 12
        serves = state if second in HOLES and state else "NOCONN"
        lines.append(f"{time_ns},csv,serving,LTE,{cell},{serves}")
    (folder / "mobile" / "radio.csv").write_text("\n".join(lines) + "\n")
    answer = call("diagnose", "--json", folder)
    return json.loads(answer.stdout)["incidents"], answer.stderr


def handovers(incidents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in incidents if each["kind"] == "handover"]


def test_a_pause_is_not_laid_to_a_change_of_cell_that_only_a_stamp_places_in_it(tmp_path: Path) -> None:
    incidents, _ = diagnosed(tmp_path / "drive", IN_A_HOLE)
    (handover,) = handovers(incidents)
    assert handover["cost_s"] == 0
    assert "nothing but the stamps of its log says when" in handover["sentence"]
    assert sum(each["kind"] == "blackout" for each in incidents) == 2


def test_a_log_that_the_packets_contradict_is_left_out_of_the_causes(tmp_path: Path) -> None:
    incidents, warnings = diagnosed(tmp_path / "drive", IN_A_HOLE, off_s=lambda _: -20.0, state="SEARCH")
    assert handovers(incidents) == []
    assert "radio.csv: left out of the causes" in warnings


def test_a_clock_that_is_set_back_moves_no_change_of_cell_before_the_transfer(tmp_path: Path) -> None:
    incidents, _ = diagnosed(tmp_path / "drive", BETWEEN, off_s=lambda second: 0.0 if second < BETWEEN else -3600.0)
    assert handovers(incidents) == []


def test_the_first_reading_after_a_gap_of_the_log_is_no_handover(tmp_path: Path) -> None:
    incidents, _ = diagnosed(tmp_path / "drive", BETWEEN, gap=range(BETWEEN - 10, BETWEEN + 10))
    assert handovers(incidents) == []
