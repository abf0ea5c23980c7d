"""CSV whose columns are those of our own tables: it is read back as it was written."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given

import parsers
from parsers import position_table, radio_table
from tests.parsers.damage import damaged, survives

RADIO = (
    b"time_ns,asked_ns,answered_ns,line,source,role,rat,operator,rssi_dbm,bler_pct,cell_id\n"
    b'1795293600108614035,1795293600073453877,1795293600143774195,9,+CSQ,serving,LTE,"A, ""B""",-73.0,,123\n'
    b"1795293601108614035,,,10,+CSQ,serving,,,,,\n"
)
POSITION = (
    b"time_ns,fix_time_ns,line,source,lat_deg,lon_deg,speed_mps,fix\n"
    b"1795293600183849504,1795293600175000001,4,nmea,40.01,-83.0,11.25,3\n"
    b"1795293601183849504,,5,nmea,,,,0\n"
)


def _rows(data: bytes, module: Any, table: str) -> list[dict[str, Any]]:
    assert parsers.recognise(data, path="x").name == module.FORMAT.name
    return list(module.parse(io.BytesIO(data), path="x")[table].rows())


def test_radio_is_read_to_the_nanosecond() -> None:
    first, second = _rows(RADIO, radio_table, "radio")
    expected = {
        "time_ns": 1795293600108614035, "asked_ns": 1795293600073453877, "answered_ns": 1795293600143774195,
        "source": "+CSQ", "rat": "LTE", "operator": 'A, "B"', "rssi_dbm": -73.0, "bler_pct": None,
        "cell_id": 123,
    }  # fmt: skip
    assert {key: first[key] for key in expected} == expected
    assert second["rssi_dbm"] is None, "an answer without a value stays a row"


def test_position_is_read_and_no_fix_is_a_row() -> None:
    first, second = _rows(POSITION, position_table, "position")
    assert (first["lat_deg"], first["lon_deg"], first["fix_time_ns"]) == (40.01, -83.0, 1795293600175000001)
    assert (second["lat_deg"], second["fix"]) == (None, 0)


@pytest.mark.parametrize("names", [b"time_ns,rat,weather\n", b"time_ns,line\n", b"lat_deg,lon_deg\n"])
def test_other_csv_is_not_taken_for_it(names: bytes) -> None:
    assert {module.sniff(names) for module in (radio_table, position_table)} == {"no"}


@given(data=damaged(RADIO))
def test_damaged_table_gives_rows_or_an_error(data: bytes) -> None:
    survives(radio_table.parse, data)
