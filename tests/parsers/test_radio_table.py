"""CSV with the columns of the table `radio` is read back as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given

import parsers
from parsers import position_table, radio_table
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

LOG = (
    b"time_ns,asked_ns,answered_ns,line,source,role,rat,operator,rssi_dbm,bler_pct,cell_id\n"
    b'1795293600108614035,1795293600073453877,1795293600143774195,9,+CSQ,serving,LTE,"A, ""B""",-73.0,,123\n'
    b"1795293601108614035,,,10,+CSQ,serving,,,,,\n"
)


def test_radio_is_read_to_the_nanosecond() -> None:
    assert parsers.recognise(LOG, path="x") is radio_table.FORMAT
    first, second = parsed(radio_table.FORMAT, LOG)["radio"].rows()
    expected = {
        "time_ns": 1795293600108614035, "asked_ns": 1795293600073453877, "answered_ns": 1795293600143774195,
        "source": "+CSQ", "rat": "LTE", "operator": 'A, "B"', "rssi_dbm": -73.0, "bler_pct": None,
        "cell_id": 123,
    }  # fmt: skip
    assert {key: first[key] for key in expected} == expected
    assert second["rssi_dbm"] is None, "an answer without a value stays a row"


@pytest.mark.parametrize("names", [b"time_ns,rat,weather\n", b"time_ns,line\n", b"lat_deg,lon_deg\n"])
def test_other_csv_is_not_taken_for_it(names: bytes) -> None:
    assert {module.FORMAT.sniff(names) for module in (radio_table, position_table)} == {"no"}


@given(data=damaged(LOG))
def test_damaged_table_gives_rows_or_an_error(data: bytes) -> None:
    survives(radio_table.FORMAT.parse, data)
