"""A radio log whose times without service cannot be those of the packets: its clock or modem is another."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.clock.doctor.examination import no_service
from multitracer.recording.read import read
from multitracer.schemas.radio import RADIO
from multitracer.tables import NOT_A_TIME
from tests.cli.program import call
from tests.clock.restamp import S
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

DRIVE = SAMPLES / "rehearsed-drive"
HOLES = (*range(23, 30), *range(139, 146))
"""Seconds of the sample's packets in which nothing came through."""


def session(folder: Path, *, off_s: float = 0.0, state: str = "SEARCH", host: str = "mobile") -> Path:
    """Write both captures of the sample beside a radio log of another program, whose clock is off."""
    for name in ("mobile", "fixed"):
        (folder / name).mkdir(parents=True)
        shutil.copy(DRIVE / name / "tcp-0.pcap.xz", folder / name)
    first = int(parsers.read_capture([DRIVE / "mobile" / "tcp-0.pcap.xz"]).segments["time_ns"][0])
    lines = ["time_ns,source,role,rat,rsrp_dbm,state"]
    for second in range(185):
        time = first + round((second + off_s) * S)
        lines.append(f"{time},csv,serving,LTE," + (f",{state}" if second in HOLES else "-90,NOCONN"))
    (folder / host).mkdir(exist_ok=True)
    (folder / host / "radio.csv").write_text("\n".join(lines) + "\n")
    return folder


def found(folder: Path) -> list[dict[str, str]]:
    return list(json.loads(call("align", "--json", "--no-keep", folder).stdout)["doctor"])


@pytest.mark.parametrize("off_s", [-20, 20])
def test_a_radio_log_that_is_off_is_named_with_where_it_fits(tmp_path: Path, off_s: int) -> None:
    (complaint,) = found(session(tmp_path / "drive", off_s=off_s))
    assert (complaint["code"], complaint["source"][-9:]) == ("no-service", "radio.csv")
    assert "answers to packets of that time were captured there" in complaint["sentence"]
    moved = re.search(r"moved by ([+-][\d.]+) to ([+-][\d.]+) s", complaint["repair"])
    assert moved is not None
    assert float(moved[1]) <= -off_s <= float(moved[2])


def test_a_segment_without_a_time_counts_for_nothing(tmp_path: Path) -> None:
    recording = read(session(tmp_path / "drive", off_s=20))
    ((_, radio),) = recording.tables("radio", RADIO.name)
    capture = next(each.tables for each in recording.captures if each.point.name == "mobile")
    complete = no_service("radio.csv", "mobile", radio, capture)
    time_ns = capture.segments["time_ns"].copy()
    time_ns[5] = NOT_A_TIME
    capture.segments.columns["time_ns"] = time_ns
    assert complete is not None
    assert no_service("radio.csv", "mobile", radio, capture) == complete


@pytest.mark.parametrize(
    ("off_s", "state", "host"),
    [
        (0.0, "SEARCH", "mobile"),  # right
        (1.0, "SEARCH", "mobile"),  # as late as a modem answers
        (20.0, "LIMSRV", "mobile"),  # may carry packets
        (20.0, "SEARCH", "phone"),  # of a host without packets
    ],
)
def test_what_the_packets_allow_is_no_fault(tmp_path: Path, off_s: float, state: str, host: str) -> None:
    assert found(session(tmp_path / "drive", off_s=off_s, state=state, host=host)) == []


@pytest.mark.parametrize(("off_s", "is_said"), [(0, False), (-20, True)])
def test_the_report_says_so_where_it_tells_the_causes(tmp_path: Path, off_s: int, is_said: bool) -> None:
    folder = session(tmp_path / "drive", off_s=off_s)
    call("report", "-o", tmp_path / "report.html", folder)
    page = (tmp_path / "report.html").read_text()
    assert ("no network served while packets were answered" in page) == is_said
