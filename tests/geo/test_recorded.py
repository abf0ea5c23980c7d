"""`export route`: a recording becomes a file of map programs; what cannot be shown is said in a sentence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import multitracer as mt
from multitracer.figures.palette import SCALES
from multitracer.recording.inputs import find_inputs
from multitracer.recording.radio_context import RadioContext
from multitracer.recording.recording import Recording
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

DRIVE = SAMPLES / "rehearsal"
UCC = "ucc-5g/give/Download/Driving/B_2019.12.14_10.16.30.csv"


def features(path: Path, kind: str) -> list[dict[str, Any]]:
    document = json.loads(path.read_text("utf-8"))
    return [each["properties"] for each in document["features"] if each["geometry"]["type"] == kind]


@pytest.mark.parametrize("ending", ["geojson", "kml", "gpx"])
@pytest.mark.parametrize("given", [[DRIVE], [DRIVE / "radio.jsonl.gz", DRIVE / "gps.jsonl.gz"]], ids=len)
def test_rehearsed_drive_becomes_a_file(tmp_path: Path, given: list[Path], ending: str) -> None:
    output = tmp_path / f"drive.{ending}"
    assert not call("export", "route", *given, "-o", output).stdout
    assert "RSSI" in output.read_text("utf-8")


@pytest.mark.parametrize("colour", ["cell_busy_pct", "Radio_cell_busy"])
def test_quantity_is_named_by_column_or_label(tmp_path: Path, colour: str) -> None:
    output = tmp_path / "drive.geojson"
    call("export", "route", DRIVE, "-o", output, "--colour", colour)
    lines = features(output, "LineString")
    assert {line["quantity"] for line in lines} == {"Cell busy"}
    assert {line["unit"] for line in lines} == {"%"}


def test_plain_route_has_one_colour_and_no_values(tmp_path: Path) -> None:
    output = tmp_path / "drive.geojson"
    call("export", "route", DRIVE, "-o", output, "--colour", "none")
    lines = features(output, "LineString")
    assert {line["stroke"] for line in lines} == {"#0072b2"}
    assert all("values" not in line for line in lines)


def test_stretches_are_those_of_the_report_where_packets_were_captured(tmp_path: Path) -> None:
    output = tmp_path / "drive.geojson"
    call("export", "route", SAMPLES / "rehearsed-drive", "-o", output)
    bad = mt.open(SAMPLES / "rehearsed-drive").stretches.sort_values("begin_ns")
    points = [each for each in features(output, "Point") if each["name"] in set(bad["cause"])]
    assert [each["name"] for each in points] == bad["cause"].tolist()
    assert {"server", "coverage", "handover"} == {each["name"] for each in points}
    assert all(evidence in point["description"] for point, evidence in zip(points, bad["evidence"], strict=True))
    assert "(its cause 8 s)" in points[0]["description"], "TCP waited for its timer after the hole"


def test_tunnel_of_the_rehearsal_is_a_mark(tmp_path: Path) -> None:
    output = tmp_path / "drive.geojson"
    call("export", "route", DRIVE, "-o", output)
    assert "coverage" in {point["name"] for point in features(output, "Point")}


def test_what_cannot_be_shown_is_said(tmp_path: Path) -> None:
    output = tmp_path / "drive.kml"
    error = call("export", "route", DRIVE, "-o", tmp_path / "drive.txt", status=1).stderr
    assert "the suffix is not a known route format; use .geojson, .kml or .gpx" in error
    error = call("export", "route", DRIVE, "-o", output, "--colour", "rsrp", status=1).stderr
    assert 'the quantity "rsrp" was not recorded; choose one of rssi_dbm' in error
    error = call("export", "route", DRIVE / "radio.jsonl.gz", "-o", output, status=1).stderr
    assert "this recording contains no reliable position; also record GPS" in error
    assert not output.exists()


@pytest.mark.fixtures
def test_values_of_a_phone_are_those_of_its_log(tmp_path: Path, fixture_folder: Path) -> None:
    output = tmp_path / "drive.geojson"
    call("export", "route", fixture_folder / UCC, "-o", output, "--colour", "sinr_db")
    radio_context = RadioContext(Recording(find_inputs(str(fixture_folder / UCC))))
    series = radio_context.series["Radio_sinr"]
    stamps = np.datetime_as_string(series["time_ns"].view("datetime64[ns]"), unit="us")
    logged = dict(zip((f"{each}Z" for each in stamps), series["value"].tolist(), strict=True))
    colours = SCALES["Radio_sinr"].colours
    compared = 0
    for line in features(output, "LineString"):
        points = list(zip(line["coordTimes"], line["values"], strict=True))
        for stamp, value in points[:-1]:
            if stamp in logged:
                compared += 1
                assert value == logged[stamp]
                number = int(np.searchsorted(SCALES["Radio_sinr"].limits, value, side="right"))
                assert line["stroke"] == colours[number]
    assert compared > 500
