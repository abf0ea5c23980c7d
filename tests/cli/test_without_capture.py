"""Every command on a recording without packets: a log of the radio, of positions, a CSV, a folder of them."""

from __future__ import annotations

import base64
import json
import shutil
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import multitracer as mt
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

DRIVE = SAMPLES / "rehearsal"
RADIO = DRIVE / "radio.jsonl.gz"
PLACES = DRIVE / "gps.jsonl.gz"
CSV = """Timestamp,Longitude,Latitude,Speed,Operatorname,NetworkMode,RSRP,RSRQ,SNR,CQI,DL_bitrate,UL_bitrate
2026.11.20_10.00.00,-8.4958,51.8955,36,A,LTE,-95,-11,8,10,1000,50
2026.11.20_10.00.01,-8.4957,51.8956,36,A,LTE,-97,-12,7,9,2000,60
2026.11.20_10.00.02,-8.4956,51.8957,36,A,LTE,-,-,-,-,0,0
2026.11.20_10.00.03,-8.4955,51.8958,36,A,LTE,-98,-12,6,9,2500,60
2026.11.20_10.00.04,-8.4954,51.8959,36,A,LTE,-98,-12,6,9,2500,60
2026.11.20_10.00.30,-8.4940,51.8970,36,A,LTE,-99,-13,5,8,3000,70
"""


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """A drive test of five readings in a loose file."""
    path = tmp_path / "drive.csv"
    path.write_text(CSV)
    return path


@pytest.mark.parametrize("given", [[RADIO], [PLACES], [DRIVE], [RADIO, PLACES]], ids=len)
def test_all_commands_take_logs_alone(given: list[Path], tmp_path: Path) -> None:
    shown = call("inspect", *given).stdout
    assert all(path.name in shown for path in given)
    assert json.loads(call("analyze", "--json", *given).stdout)["connections"] == []
    assert "No packets were captured" in call("analyze", *given).stdout
    call("plot", "-o", tmp_path / "figure.html", *given)
    call("export", "tables", "-o", tmp_path / "tables", *given)
    call("export", "series", "-o", tmp_path / "series", *given)
    call("align", *given, "--no-keep")
    if len(given) == 1:
        call("report", "-o", tmp_path / "report.html", *given)
        assert "No packets were captured" in (tmp_path / "report.html").read_text()


def test_what_needs_packets_says_that_there_are_none(csv: Path) -> None:
    for given in ([PLACES], ["--direction", "forward", csv]):
        assert "contains no TCP connection" in call("diagnose", *given, status=1).stderr
    assert "there is no connection 1" in call("diagnose", "--connection", "1", csv, status=1).stderr
    assert "--intervals are of a transfer" in call("diagnose", "--json", "--intervals", csv, status=2).stderr
    assert "no TCP connection in this recording" in call("plot", "-c", "1", csv, status=1).stderr
    assert "contains no capture" in call("export", "segments", csv, status=1).stderr
    assert "not a packet capture" in call("dissect", csv, status=1).stderr


def drive_test(path: Path) -> Path:
    """Write two minutes of a test program that loads: 10 s without coverage, 10 s with interference."""
    lines = [f"{CSV.splitlines()[0]},State"]
    for second in range(120):
        rsrp, snr, rate = (
            (-126, 8, 100) if 30 <= second < 40 else (-90, -4, 300) if 70 <= second < 80 else (-90, 18, 20000)
        )
        stamp, place = f"2026.11.20_10.0{second // 60}.{second % 60:02}", f"{second * 1e-4 - 8.4958:.6f},51.895500"
        lines.append(f"{stamp},{place},36,A,LTE,{rsrp},-10,{snr},9,{rate},50,D")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_drive_is_diagnosed_as_its_report_does(tmp_path: Path) -> None:
    """Where it was bad, and why: the causes, their places and times are those that were written."""
    csv = drive_test(tmp_path / "drive.csv")
    document = json.loads(call("diagnose", "--json", csv).stdout)
    first, second = document["stretches"]
    assert (first["cause"], first["begin_s"], first["end_s"]) == ("coverage", 30, 40)
    assert (second["cause"], second["begin_s"], second["end_s"]) == ("interference", 70, 80)
    assert first["lat_deg"] == pytest.approx(51.8955)
    assert first["lon_deg"] == pytest.approx(-8.4923, abs=1e-4)
    assert (first["throughput_bps"], first["typical_bps"]) == (100_000, 20_000_000)
    assert document["seconds"] == {"judged_by_rate": 120, "judged_by_radio": 0, "not_judged": 0}
    assert document["answer"] == "It was bad for 20 s of 2 min, 50 % of that for one cause: weak coverage."
    text = call("diagnose", csv).stdout
    assert text.startswith(f"{document['answer']}\nA log names no time zone")
    assert "weak signal (coverage), 0:30 to 0:40 (10 s), cost 9.9 s\n  at 51.89550, -8.49230; 0.2 km along" in text
    assert "Evidence: RSRP -126 dBm; weak (below -110 dBm) for 10 of 10 s." in text
    call("report", "-o", tmp_path / "report.html", csv)
    assert document["answer"] in (tmp_path / "report.html").read_text().replace("\xa0", " ")


def test_a_part_of_a_drive_is_judged_by_the_whole(tmp_path: Path) -> None:
    csv = drive_test(tmp_path / "drive.csv")
    document = json.loads(call("diagnose", "--json", "--from", "75", csv).stdout)
    assert [(each["cause"], each["begin_s"], each["end_s"]) for each in document["stretches"]] == [
        ("interference", 75, 80)
    ]
    assert (document["typical_bps"], document["seconds"]["judged_by_rate"]) == (20_000_000, 45)


def test_a_drive_without_a_bad_second_or_a_rate_says_so(csv: Path) -> None:
    assert call("diagnose", csv).stdout.startswith("Nowhere: none of the 7 seconds that can be judged was bad.")


def test_each_value_of_a_series_is_that_of_the_log(csv: Path, tmp_path: Path) -> None:
    """What the log left out is not there; nothing is filled in."""
    call("export", "series", "-o", tmp_path / "series", csv)
    lines = (tmp_path / "series" / "Radio_rsrp.csv").read_text().splitlines()
    assert [line.split(",")[2] for line in lines[5:]] == ["-95", "-97", "-98", "-98", "-99"]
    assert "# source: " in lines[2]
    rates = (tmp_path / "series" / "Radio_rate_down.csv").read_text().splitlines()
    assert [line.split(",")[2] for line in rates[5:]] == ["1000000", "2000000", "0", "2500000", "2500000", "3000000"]


def test_a_series_names_its_column(csv: Path) -> None:
    series = mt.open(csv).series()
    assert series["Radio_sinr"].attrs["column"] == "radio.sinr_db"
    assert series["Gps_speed"]["value"].round(6).tolist() == [10.0] * 6
    assert series["Gps_position"]["value"].iloc[0] == 0


def test_a_window_counts_from_the_first_reading(csv: Path, tmp_path: Path) -> None:
    call("export", "series", "--from", "1", "--to", "2", "-o", tmp_path / "series", csv)
    lines = (tmp_path / "series" / "Radio_rsrp.csv").read_text().splitlines()
    assert len(lines) == 6


def test_series_of_the_radio_by_name(csv: Path, tmp_path: Path) -> None:
    done = call("plot", "--series", "Radio_r*,Gps_speed,Nothing", "-o", tmp_path / "figure.json", csv)
    assert "no series 'Nothing'" in done.stderr
    names = [trace.get("meta") for trace in json.loads((tmp_path / "figure.json").read_text())["data"]]
    assert names == ["Radio_rsrp", "Radio_rsrq", "Radio_rate_down", "Radio_rate_up", "Gps_speed"]


def test_a_gap_is_drawn_as_a_gap(csv: Path, tmp_path: Path) -> None:
    call("plot", "--series", "Radio_rsrp", "-o", tmp_path / "figure.json", csv)
    (trace,) = json.loads((tmp_path / "figure.json").read_text())["data"]
    y = np.frombuffer(base64.b64decode(trace["y"]["bdata"]))
    np.testing.assert_array_equal(y, [-95, -97, -98, -98, np.nan, -99])


def test_a_log_beside_a_capture_is_part_of_its_figure(csv: Path, tmp_path: Path) -> None:
    capture = SAMPLES / "second-connection"
    folder = tmp_path / "session"
    folder.mkdir()
    for path in capture.rglob("*"):
        target = folder / path.relative_to(capture)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        else:
            target.write_bytes(path.read_bytes())
    (folder / "drive.csv").write_text(CSV)
    call("plot", "--series", "Radio_rsrp", "-o", tmp_path / "figure.json", folder)
    (trace,) = json.loads((tmp_path / "figure.json").read_text())["data"]
    assert (trace["name"], trace["meta"]) == ("RSRP", "Radio_rsrp")


def test_the_tables_of_a_drive_are_files(csv: Path, tmp_path: Path) -> None:
    call("export", "tables", "-o", tmp_path / "tables", csv)
    frame = pd.read_parquet(tmp_path / "tables" / "radio.parquet")
    assert frame["rsrp_dbm"].dropna().tolist() == [-95, -97, -98, -98, -99]
    assert str(frame["time_ns"].dtype) == "datetime64[ns, UTC]"
    (cell,) = pd.read_parquet(tmp_path / "tables" / "cells.parquet").to_dict("records")
    assert (cell["rat"], cell["seconds"], cell["handovers_in"]) == ("LTE", 4.0, 0)
    assert not (tmp_path / "tables" / "signalling.parquet").exists()
    call("export", "tables", "--format", "csv", "-o", tmp_path / "texts", csv)
    assert pd.read_csv(tmp_path / "texts" / "radio.csv")["rsrp_dbm"].dropna().tolist()[0] == -95


def test_a_log_without_a_zone_says_so_in_the_report(csv: Path, tmp_path: Path) -> None:
    call("report", "-o", tmp_path / "report.html", csv)
    assert "names no time zone" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(("zone", "is_doubted"), [("CET", False), ("CST", True)])
def test_a_zone_that_can_mean_several_is_in_the_report(tmp_path: Path, zone: str, is_doubted: bool) -> None:
    stamps = "".join(f"2026-03-02 14:05:0{second} {zone}\n+CSQ: 15,99\nOK\n" for second in range(9))
    (tmp_path / "modem.txt").write_text(stamps)
    call("report", "-o", tmp_path / "report.html", tmp_path / "modem.txt")
    page = (tmp_path / "report.html").read_text()
    assert ("names no time zone, or one that can mean several" in page) == is_doubted


@pytest.mark.parametrize(("column", "zone_is_known"), [("Timestamp", False), ("time_ns", True)])
def test_a_log_without_a_zone_beside_packets_is_in_the_first_sentence(
    tmp_path: Path, column: str, zone_is_known: bool
) -> None:
    folder = tmp_path / "drive"
    folder.mkdir()
    shutil.copy(SAMPLES / "cellular_upload" / "mobile" / "tcp-0.pcap.gz", folder)
    lines = ["time_ns,source,role,rat,rsrp_dbm"] if zone_is_known else CSV.splitlines()[:1]
    for second in range(30):
        begin = datetime(2026, 11, 21, 9, 19, 2, tzinfo=UTC) + timedelta(seconds=second)
        lines.append(
            f"{round(begin.timestamp())}000000000,csv,serving,LTE,-90"
            if zone_is_known
            else f"{begin:%Y.%m.%d_%H.%M.%S},-8.4958,51.8955,36,A,LTE,-95,-11,8,10,1000,50"
        )
    (folder / "radio.csv").write_text("\n".join(lines) + "\n")
    assert column in lines[0]
    document = json.loads(call("diagnose", "--json", folder).stdout)
    assert ("names no time zone" in document["headline"]["sentence"]) != zone_is_known
    first = " ".join(call("diagnose", folder).stdout.split("What would help")[0].split())
    assert ("names no time zone" in first) != zone_is_known


def test_tables_of_a_drive_are_cut_to_the_window(csv: Path, tmp_path: Path) -> None:
    """Seconds count from the first reading where there is no packet, in the program and in Python."""
    call("export", "tables", "--from", "1", "--to", "4", "-o", tmp_path / "tables", csv)
    frame = pd.read_parquet(tmp_path / "tables" / "radio.parquet")
    assert frame["rsrp_dbm"].dropna().tolist() == [-97, -98]
    assert mt.open(csv, begin=1, end=4).radio["rsrp_dbm"].dropna().tolist() == [-97, -98]
    clocks = DRIVE / "clocks.jsonl"
    done = call("export", "tables", "--from", "1", "-o", tmp_path / "none", clocks, status=1)
    assert "contains no packet or reading" in done.stderr


def test_a_receiver_without_a_fix_is_the_reason_why_nothing_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "gps.nmea").write_text("".join(_nmea_without_fix(second) for second in range(29)))
    said = call("plot", "-o", tmp_path / "x.html", tmp_path / "gps.nmea", status=1).stderr
    what = "29 readings of a positioning receiver, all without a fix, so no position"
    assert what in said
    call("report", "-o", tmp_path / "x.html", tmp_path / "gps.nmea")
    assert f"The logs hold {what}" in (tmp_path / "x.html").read_text()


def _nmea_without_fix(second: int) -> str:
    body = f"GPRMC,0144{second:02d}.00,V,,,,,,,150209,,,N"
    return f"${body}*{reduce(xor, body.encode()):02X}\r\n"


def test_logs_are_counted_between_from_and_to(csv: Path) -> None:
    shown = call("inspect", csv, "--from", "1", "--to", "4").stdout
    assert "1 log, between --from and --to" in shown
    assert "radio 3, position 3" in shown
    assert "radio 6, position 6" in call("inspect", csv).stdout
    assert "radio 2, position 2" in call("inspect", csv, "--from", "2026-11-20T10:00:04").stdout
