"""Whose logs they are: two phones of a folder are two, the files of a drive are one, a pause begins another.

The logs are CSV as G-NetTrack writes them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from multitracer.recording.read import read
from multitracer.report.write import write_report

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,SNR,DL_bitrate,UL_bitrate"
_FORM = "%Y.%m.%d_%H.%M.%S"
_EPOCH_NS = 1_777_777_777_000_000_000
_START = datetime(2026, 5, 4, 9, 0)  # noqa: DTZ001  # such logs name no zone


def write(path: Path, seconds: range, *, cell: int = 100, rsrp: int = -85, begin: datetime = _START) -> None:
    """Write a log of a drive to the east, which enters a new cell once a minute."""
    rows = [
        f"{begin + timedelta(seconds=s):{_FORM}},{11 + s * 2e-4:.6f},48.1,54,A,{cell + s // 60},LTE,"
        f"{rsrp},15,{2000 + s},{30_000 + s}"
        for s in seconds
    ]
    path.write_text("\n".join([_HEAD, *rows]) + "\n")


@pytest.mark.parametrize(("cell", "rsrp"), [(500, -85), (100, -97)])
def test_two_phones_of_one_folder_are_two(tmp_path: Path, cell: int, rsrp: int) -> None:
    """Other cells, or the same cells at other levels: two phones in one car."""
    write(tmp_path / "first.csv", range(240))
    write(tmp_path / "second.csv", range(239), cell=cell, rsrp=rsrp)
    drive = mt.open(tmp_path)
    assert drive.handovers.groupby("host").size().tolist() == [3, 3]
    names = [name.rpartition("/")[2] for name in drive.handovers["host"].unique()]
    assert names == ["first.csv", "second.csv"]
    assert set(drive.series()["Radio_rsrp"]["value"]) == {-85.0}
    assert "first.csv; the logs hold 1 other radio, too (`--phone NAME` chooses, `export tables` has all)" in " ".join(
        drive.warnings
    )
    write_report(read(tmp_path), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "first.csv; the logs hold 1 other radio, too" in html


def test_the_files_of_one_drive_are_one(tmp_path: Path) -> None:
    """A program that begins a new file while it drives: map, series and cells are of all of it."""
    write(tmp_path / "all.csv", range(240))
    complete = mt.open(tmp_path / "all.csv")
    (tmp_path / "drive").mkdir()
    for number in range(3):
        write(tmp_path / "drive" / f"part{number}.csv", range(80 * number, 80 * number + 80))
    drive = mt.open(tmp_path / "drive")
    series = drive.series()
    for label, expected in complete.series().items():
        assert series[label]["value"].tolist() == expected["value"].tolist(), label
    assert len(series["Gps_position"]) == 240
    assert "2 more logs" in series["Radio_rsrp"].attrs["source"]
    columns = ["cell_id", "seconds", "distance_m", "throughput_median_bps", "handovers_in"]
    assert drive.cells[columns].values.tolist() == complete.cells[columns].values.tolist()


def test_a_file_for_each_technology_is_one_dual_connection(tmp_path: Path) -> None:
    """Network Survey writes LTE and NR apart; the NR cell beside LTE is the leg, and alone it serves."""
    for rat, cells in (("LTE", range(0, 200, 5)), ("NR", range(100, 300, 5))):
        rows = [f"{_EPOCH_NS + s * 10**9},survey,serving,{rat},-90,{len(rat)},1300" for s in cells]
        head = "time_ns,source,role,rat,rsrp_dbm,physical_cell_id,channel"
        (tmp_path / f"{rat}.csv").write_text("\n".join([head, *rows]) + "\n")
    drive = mt.open(tmp_path)
    (change,) = drive.handovers.to_dict("records")
    assert (change["source_rat"], change["target_rat"]) == ("LTE", "NR")
    assert (change["latest_ns"].value - _EPOCH_NS) // 10**9 in (195, 200)
    assert drive.radio["role"].tolist() == ["serving"] * 80, "the table stays as it was logged"


def test_two_exports_of_one_phone_are_one(tmp_path: Path) -> None:
    """The same readings in two files, of which one has more columns, are no second phone."""
    write(tmp_path / "a.csv", range(120))
    write(tmp_path / "b.csv", range(120))
    assert len(read(tmp_path).radio_context().phones) == 1


def test_a_drive_of_another_day_is_told_apart(tmp_path: Path) -> None:
    """The page is of one of them, and says so; the tables hold both."""
    write(tmp_path / "monday.csv", range(100))
    write(tmp_path / "friday.csv", range(240), begin=_START + timedelta(days=4))
    drive = mt.open(tmp_path)
    assert len(drive.radio) == 340
    assert len(drive.handovers) == 1 + 3
    assert drive.stretches.empty
    assert drive.series()["Radio_rsrp"]["time_ns"].min().day == 8
    assert len(drive.series()["Gps_position"]) == 240
    write_report(read(tmp_path), tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "Nowhere: none of the 240 seconds" in html
    assert "the logs hold 1 other drive (a pause of over six hours" in html
    assert "from 2026-05-08 09:00:00.000 UTC on" in html


def test_times_before_the_clock_was_set_are_another_drive(tmp_path: Path) -> None:
    """A phone that wrote 1980 until it knew the time: the rest of its log is judged."""
    write(tmp_path / "late.csv", range(240))
    lines = (tmp_path / "late.csv").read_text().splitlines()
    for row in range(1, 21):
        lines[row] = "1980" + lines[row][4:]
    (tmp_path / "late.csv").write_text("\n".join(lines) + "\n")
    drive = mt.open(tmp_path / "late.csv")
    assert len(drive.radio) == 240
    assert len(drive.series()["Radio_rsrp"]) == 220
    assert drive.stretches.empty


def test_any_number_of_pauses_is_bounded(tmp_path: Path) -> None:
    """A hostile log of ten thousand days is read, and its phones are few."""
    rows = [
        f"{_START + timedelta(days=day // 3, seconds=day % 3):{_FORM}},11,48,0,A,{day},LTE,-90,9,1,1"
        for day in range(9_000)
    ]
    (tmp_path / "days.csv").write_text("\n".join([_HEAD, *rows]) + "\n")
    phones = read(tmp_path / "days.csv").radio_context().phones
    assert len(phones) == 50
    assert sum(len(phone.radio) for phone in phones) == 9_000


def test_an_upload_is_judged_by_the_uplink(tmp_path: Path) -> None:
    """The loggers of phones write both ways; a cell's throughput is that of the one that carried more."""
    write(tmp_path / "up.csv", range(120))
    drive = mt.open(tmp_path / "up.csv")
    assert drive.cells["throughput_median_bps"].min() > 29e6
