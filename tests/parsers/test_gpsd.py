"""Positions from gpsd's reports."""

from __future__ import annotations

import io

from hypothesis import given

from parsers import gpsd
from tests.parsers.damage import damaged, survives

S = 1_000_000_000
TPV = (
    b'{"class":"TPV","device":"/dev/cuaU0","time":"2011-03-20T06:51:59.12Z","ept":0.005,"lat":37.371427205,'
    b'"lon":-122.015179890,"alt":25.789,"epx":1.926,"track":0.0,"speed":0.5,"climb":0.0,"eph":3.5,"mode":3}\n'
)


def test_report_is_position_speed_and_time() -> None:
    (row,) = gpsd.parse(io.BytesIO(TPV), path="gps.json")["position"].rows()
    assert (row["lat_deg"], row["lon_deg"]) == (37.371427205, -122.015179890)
    assert (row["speed_mps"], row["heading_deg"], row["fix"], row["error_m"]) == (0.5, 0.0, 3, 3.5)
    assert row["time_ns"] == 1300603919 * S + 120_000_000


def test_old_reports_with_numbers_as_time_and_stamped_lines_are_read() -> None:
    old = b'{"class":"TPV","time":1300603919.12,"lat":1,"lon":2,"mode":2}\n'
    stamped = b"1300603920.500: " + TPV
    first, second = gpsd.parse(io.BytesIO(old + stamped), path="x")["position"].rows()
    assert first["time_ns"] == 1300603919 * S + 120_000_000
    assert (second["time_ns"], second["fix_time_ns"]) == (1300603920 * S + 500_000_000, first["time_ns"])


@given(data=damaged(TPV * 2 + b'{"class":"SKY","satellites":[]}\n'))
def test_damaged_reports_give_a_table_or_an_error(data: bytes) -> None:
    survives(gpsd.parse, data)
