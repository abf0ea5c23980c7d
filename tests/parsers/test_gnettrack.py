"""Drive-test CSVs of G-NetTrack and the UCC data sets."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

import parsers
from parsers import gnettrack
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
        "cell_id": 3, "area_code": 0x9CBA, "downlink_bps": 1000.0, "uplink_bps": 3000.0, "operator": "B",
        "role": "serving", "state": "D",
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
