"""Positions as CSV whose columns are known; test_drive_csv.py holds what both kinds of maps promise."""

from __future__ import annotations

from hypothesis import given

from parsers import track_csv
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

LOGGER = (
    b"time,lat,lon,elevation,accuracy,bearing,speed,satellites,provider,hdop,vdop,pdop,geoidheight,ageofdgpsdata,dgpsid,"
    b"activity,battery,annotation\n"
    b"2017-08-13T08:52:26.000Z,60.385390,5.217217,61.9,7.0,219.93,0.94605947,9,gps,,,,,,,,62,\n"
    b"2017-08-13T08:53:00.000Z,60.385588,5.217857,56.2,11.1,,,,network,,,,,,,,62,\n"
)
SENSOR = (
    b"time,seconds_elapsed,bearingAccuracy,speedAccuracy,verticalAccuracy,horizontalAccuracy,speed,bearing,altitude,"
    b"longitude,latitude\n"
    b"1670578859123456789,0.1,45,1.5,3.2,4.8,7.25,183.5,33.1,-6.26,53.35\n"
)


def test_logger_of_a_phone_is_positions() -> None:
    first, second = parsed(track_csv.FORMAT, LOGGER)["position"].rows()
    assert (first["lat_deg"], first["lon_deg"], first["speed_mps"]) == (60.38539, 5.217217, 0.94605947)
    assert (first["satellites"], first["error_m"], first["time_ns"]) == (9, 7.0, 1502614346_000_000_000)
    assert (second["speed_mps"], second["satellites"]) == (None, None)


def test_nanoseconds_are_kept_to_the_digit() -> None:
    (row,) = parsed(track_csv.FORMAT, SENSOR)["position"].rows()
    assert (row["time_ns"], row["lat_deg"], row["heading_deg"]) == (1670578859123456789, 53.35, 183.5)


@given(data=damaged(LOGGER))
def test_damaged_log_gives_tables_or_an_error(data: bytes) -> None:
    survives(track_csv.parse, data)
