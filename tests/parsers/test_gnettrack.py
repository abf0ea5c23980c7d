"""Drive-test CSVs of G-NetTrack and the UCC data sets."""

from __future__ import annotations

import io
import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

import multitracer as mt
import parsers
from multitracer.errors import FormatError
from parsers import gnettrack
from tests.cli.program import call
from tests.parsers.damage import damaged, survives

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
HEAD = (
    b"Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,"
    b"UL_bitrate,State,PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,NODEHEX,LACHEX,RAWCELLID,NRxRSRP,NRxRSRQ\n"
)
ROWS = (
    b"2019.11.25_15.34.34,-8.499381,51.893777,0,B,3,LTE,-79,-12,10.0,8,-61,1,3,D,-,-,-,-,-,3,76C6C,9CBA,124546051,-,-\n"
    b"2019.12.04_14.28.01,-8.400753,51.886951,36,B,11,5G,-84,-12,5.0,10,-,2675,32,D,-,-,-,-,-,B,A4DF,9CBA,108,-94,-9\n"
    b"2019.12.04_14.28.02,-8.400753,51.886951,36,B,11,HSPA+,-200,-7,-,-,-,5,6,I,-,-,-,-,-,B,A4DF,9CBA,108,-,-\n"
)


def tables(data: bytes) -> dict[str, Any]:
    assert parsers.recognise(data, path="x").name == "gnettrack"
    return gnettrack.parse(io.BytesIO(data), path="x")


def test_row_is_radio_and_position_in_the_tables_units() -> None:
    found = tables(HEAD + ROWS)
    lte, nr, neighbour, hspa = found["radio"].rows()
    expected = {
        "rat": "LTE", "rsrp_dbm": -79.0, "rsrq_db": -12.0, "sinr_db": 10.0, "cqi": 8, "rssi_dbm": -61.0,
        "cell_id": 124546051, "area_code": 0x9CBA, "downlink_bps": 1000.0, "uplink_bps": 3000.0,
        "operator": "B", "role": "serving", "state": "D",
    }  # fmt: skip
    assert {k: lte[k] for k in expected} == expected
    assert (nr["rat"], nr["rssi_dbm"]) == ("NR", None)
    assert (neighbour["role"], neighbour["rsrp_dbm"]) == ("neighbour", -94.0)
    assert (hspa["rsrp_dbm"], hspa["rscp_dbm"], hspa["ecio_db"]) == (None, None, -7.0)
    assert hspa["time_ns"] == 1575469682 * S
    first, second, _ = found["position"].rows()
    assert (first["lat_deg"], first["lon_deg"], first["speed_mps"]) == (51.893777, -8.499381, 0.0)
    assert second["speed_mps"] == pytest.approx(10.0)
    assert found["radio"].provenance["missing"] == {"rsrp_dbm": 1}
    assert any("zone" in warning for warning in found["radio"].provenance["warnings"])


def test_own_names_of_the_application_and_tabs_are_read_too() -> None:
    head = HEAD.replace(b",RSRP,RSRQ,", b",Level,Qual,").replace(b",RSSI,", b",LTERSSI,")
    found = tables((head + ROWS).replace(b",", b"\t"))
    assert found["radio"]["rsrp_dbm"][0] == -79.0


NATIVE = (
    "Timestamp", "Longitude", "Latitude", "Speed", "Operatorname", "CellID", "LAC", "NetworkTech", "Level",
    "Qual", "SNR", "CQI", "LTERSSI", "ARFCN", "DL_bitrate", "UL_bitrate", "PSC", "Altitude", "Accuracy",
    "State", "EVENT", "BAND", "SecondCell_RSRP", "SecondCell_RSRQ", "SecondCell_SNR", "NRxLev1", "NQual1",
    "NRxLev2", "NQual2",
)  # fmt: skip
UNUSED = ("FILENAME", "PINGAVG", "CGI", "Cellname", "Node", "SERVINGTIME", "EVENTDETAILS", "Height")
VALUES = {
    "Operatorname": "A", "NetworkTech": "4G", "State": "D", "EVENT": "-", "BAND": "L1800", "Speed": "36",
    "Latitude": "51.9", "Longitude": "-8.4",
}  # fmt: skip


def native(chance: random.Random, *, delimiter: str, surplus: int, rows: int = 30) -> tuple[bytes, list[int]]:
    """Return a log with columns in any order and `surplus` names without fields, and its levels."""
    columns = [*NATIVE, *UNUSED]
    chance.shuffle(columns)
    levels = [chance.randint(-130, -60) for _ in range(rows)]
    lines = [delimiter.join([*columns, *(f"Spare{n}" for n in range(surplus))])]
    for second, level in enumerate(levels):
        known = VALUES | {"Timestamp": f"2021.05.06_14.22.{second:02}", "Level": str(level), "Qual": "-11"}
        known |= {"SecondCell_RSRP": str(level - 5), "NRxLev2": str(level - 9), "NRxLev1": "2147483647"}
        lines.append(delimiter.join(known.get(name, "-") for name in columns))
    return ("\r\n".join(lines) + "\r\n").encode(), levels


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("delimiter", "surplus"), [("\t", 0), ("\t", 17), (",", 3), (";", 0)])
def test_layouts_of_the_application_lose_nothing(seed: int, delimiter: str, surplus: int) -> None:
    data, levels = native(random.Random(seed), delimiter=delimiter, surplus=surplus)
    found = tables((b"\xef\xbb\xbf" if seed % 2 else b"") + data)
    radio = found["radio"]
    for role, below in (("serving", 0), ("secondary", 5), ("neighbour", 9)):
        rows = radio.take(radio["role"] == role)
        assert rows["rsrp_dbm"].tolist() == [level - below for level in levels], role
    serving = radio.take(radio["role"] == "serving")
    assert set(serving["rsrq_db"]) == {-11.0}
    assert set(serving["rat"]) == {"LTE"}
    assert found["position"]["speed_mps"] == pytest.approx(10.0)
    assert len(found["position"]) == len(levels)
    assert radio.provenance["skipped"] == {}


CELLS = (
    ("4G", "300001", "2", "-92", "-11", 300001 << 8 | 2, "rsrp_dbm"),
    ("4G", "-", "2", "-92", "-11", None, "rsrp_dbm"),
    ("3G", "77", "23945", "-92", "-6", 77 << 16 | 23945, "rscp_dbm"),
    ("2G", "-", "23945", "-92", "0", 23945, "rssi_dbm"),
    ("2G", "12", "23945", "-92", "0", 23945, "rssi_dbm"),
    ("5G", "43035", "13", "-92", "-11", 43035 << 8 | 13, "rsrp_dbm"),
    ("5G", "16000001", "1", "-92", "-11", None, "rsrp_dbm"),
    ("-", "300001", "2", "-200", "-", 300001 << 8 | 2, None),
)


def test_a_cell_is_numbered_below_its_node_and_its_level_named_by_its_generation() -> None:
    """Sector 2 of two base stations is two cells; without the node, it is no identity at all under LTE."""
    names = ("Timestamp", "Longitude", "Latitude", "Node", "CellID", "NetworkTech", "Level", "Qual", "ARFCN")
    lines = ["\t".join(names)]
    for second, (tech, node, cell, level, quality, _, _) in enumerate(CELLS):
        at = f"2021.05.06_14.22.{second:02}"
        lines.append("\t".join([at, "8.4", "51.9", node, cell, tech, level, quality, "1300"]))
    found = list(tables(("\n".join(lines) + "\n").encode())["radio"].rows())
    assert [row["cell_id"] for row in found] == [expected for *_, expected, _ in CELLS]
    for row, (*_, named) in zip(found, CELLS, strict=True):
        levels = {name: row[name] for name in ("rsrp_dbm", "rscp_dbm", "rssi_dbm") if row[name] is not None}
        assert levels == ({named: -92.0} if named else {})


@pytest.mark.parametrize(
    "time", ["2021-05-06 14:22:00", "2021-05-06T14:22:00.250", "1620310920", "1620310920250", "2021/05/06 14:22:00"]
)
def test_times_in_other_forms_are_read(time: str) -> None:
    data, _ = native(random.Random(1), delimiter="\t", surplus=2, rows=1)
    found = tables(data.replace(b"2021.05.06_14.22.00", time.encode()))
    assert found["radio"]["time_ns"][0] // S == 1620310920


def test_a_spreadsheet_saves_it_with_quotes_and_a_byte_order_mark() -> None:
    names, _, lines = (HEAD + ROWS).partition(b"\n")
    quoted = b"\xef\xbb\xbf" + b",".join(b'"%s"' % name for name in names.split(b",")) + b"\n" + lines
    assert list(tables(quoted)["radio"].rows()) == list(tables(HEAD + ROWS)["radio"].rows())


def test_log_without_a_line_says_so() -> None:
    assert "the file has no data line after the column names" in tables(HEAD)["radio"].provenance["warnings"]


def test_log_without_a_usable_time_is_an_error_that_names_the_column() -> None:
    data, _ = native(random.Random(2), delimiter="\t", surplus=0)
    with pytest.raises(FormatError, match=r"no line has a valid time: the column 'Timestamp'.*06 May 14"):
        tables(data.replace(b"2021.05.06_14.22.", b"06 May 14:22:"))


def test_session_says_first_that_most_lines_could_not_be_used(tmp_path: Path) -> None:
    data, _ = native(random.Random(3), delimiter="\t", surplus=0)
    lines = data.splitlines(keepends=True)
    broken = [line.replace(b"2021.05.06", b"2021.5.x") if n > 9 else line for n, line in enumerate(lines)]
    (tmp_path / "phone.txt").write_bytes(b"".join(broken))
    session = mt.open(tmp_path)
    assert len(session.position) == 9
    assert "21 of 31 lines could not be used; the first is line 11: no time" in session.warnings[0]


RESULTS = (
    b"Timestamp\tLongitude\tLatitude\tNode\tCellID\tNetworkTech\tLevel\tQual\tEventType\tEventDetails\tPINGAVG\tPINGMIN"
    b"\tPINGMAX\tTESTDOWNLINK\tTESTUPLINK\n"
    b"2026.02.03_10.11.12\t8.5\t52.2\t21\t11\t4G\t-87\t-8\tHANDOVER_DATA_4G4G\t001-01-1:001-01-2\t\t\t\t\t\n"
    b"2026.02.03_10.11.13\t8.5\t52.2\t21\t11\t4G\t-87\t-8\t\t\t78\t72\t89\t35925\t8825\n"
    b"2026.02.03_10.11.14\t8.5\t52.2\t21\t11\t4G\t-87\t-8\t\t\t-\t-\t-\t-\t-\n"
)


def test_events_are_markers_and_data_tests_are_rates_and_round_trips() -> None:
    found = tables(RESULTS)
    (event,) = found["markers"].rows()
    assert (event["note"], event["line"]) == ("HANDOVER_DATA_4G4G 001-01-1:001-01-2", 2)
    assert found["pings"]["rtt_s"].tolist() == [0.072, 0.078, 0.089]
    rates = {row["direction"]: row["rate_bps"] for row in found["application_sums"].rows()}
    assert rates == {"received": 35_925_000.0, "sent": 8_825_000.0}
    assert len(found["radio"]) == 3


@pytest.mark.fixtures
def test_events_and_data_tests_of_a_public_drive_are_shown(fixture_folder: Path) -> None:
    folder = fixture_folder / "reports" / "public"
    if not folder.exists():
        pytest.skip("no reports")
    markers = mt.open(folder / "gnettrack_Orange_log_events.txt").markers
    assert markers["note"].str.startswith("CSFB_4G3G").sum() == 40
    assert markers["note"].str.startswith("HANDOVER").sum() == 111
    shown = call("inspect", folder / "gnettrack_Orange_log_datatest.txt").stdout
    assert "35.9 Mbit/s" in shown
    assert "ping mean: 40 round trips" in shown


@given(data=damaged(RESULTS))
def test_damaged_results_give_tables_or_an_error(data: bytes) -> None:
    survives(gnettrack.parse, data)


@given(data=damaged(HEAD + ROWS))
def test_damaged_drive_test_gives_tables_or_an_error(data: bytes) -> None:
    survives(gnettrack.parse, data)


@pytest.mark.fixtures
def test_public_data_sets_are_read_as_the_reference_reads_them(fixture_folder: Path) -> None:
    files = json.loads((fixture_folder / "answers" / "drive_tests.json").read_text())
    assert len(files) == 3
    for known in files:
        path = next((fixture_folder / "ucc-5g").rglob(known["file"].rpartition("/")[2]))
        _, found = parsers.read(path)
        assert isinstance(found, dict)
        radio, position = found["radio"], found["position"]
        serving = radio.take(radio["role"] == "serving")
        assert len(serving) == len(position) == known["rows"]
        level = np.where(np.isnan(serving["rsrp_dbm"]), serving["rscp_dbm"], serving["rsrp_dbm"])
        assert np.nanmax(level) == known["RSRP"]["max"]
        level[np.isnan(level)] = -200.0
        assert level.mean() == pytest.approx(known["RSRP"]["mean"], abs=1e-5)
        assert (~np.isnan(serving["sinr_db"])).sum() == known["SNR"]["n"]
        assert serving["downlink_bps"].max() == known["DL_bitrate"]["max"] * 1000
        assert position["speed_mps"].max() * 3.6 == pytest.approx(known["Speed"]["max"])
        assert position["lat_deg"].min() == known["Latitude"]["min"]
        neighbours = (radio["role"] == "neighbour") & ~np.isnan(radio["rsrp_dbm"])
        assert neighbours.sum() == known.get("NRxRSRP", {}).get("n", 0)
        modes = dict(zip(*np.unique(serving["rat"], return_counts=True), strict=True))
        assert modes.get("NR", 0) == known["NetworkMode"].get("5G", 0)
