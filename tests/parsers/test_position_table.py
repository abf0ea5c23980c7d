"""CSV with the columns of the table `position` is read back as it was written."""

from __future__ import annotations

from hypothesis import given

import parsers
from parsers import position_table
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

LOG = (
    b"time_ns,fix_time_ns,line,source,lat_deg,lon_deg,speed_mps,fix\n"
    b"1795293600183849504,1795293600175000001,4,nmea,40.01,-83.0,11.25,3\n"
    b"1795293601183849504,,5,nmea,,,,0\n"
)


def test_position_is_read_and_no_fix_is_a_row() -> None:
    assert parsers.recognise(LOG, path="x") is position_table.FORMAT
    first, second = parsed(position_table.FORMAT, LOG)["position"].rows()
    assert (first["lat_deg"], first["lon_deg"], first["fix_time_ns"]) == (40.01, -83.0, 1795293600175000001)
    assert (second["lat_deg"], second["fix"]) == (None, 0)


@given(data=damaged(LOG))
def test_damaged_table_gives_rows_or_an_error(data: bytes) -> None:
    survives(position_table.FORMAT.parse, data)
