"""Positions from gpsd's reports."""

from __future__ import annotations

import functools
import io
import operator
import random

import pytest
from hypothesis import given

import parsers
from parsers import gpsd
from tests.narrowed import parsed
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


def nmea(body: str) -> str:
    return f"${body}*{functools.reduce(operator.xor, body.encode()):02X}"


HELLO = (
    '{"class":"VERSION","release":"3.22"}\n{"class":"DEVICES","devices":[{"class":"DEVICE","path":"/dev/gps"}]}\n'
    '{"class":"WATCH","enable":true,"nmea":true}\n'
)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("stamped", [False, True])
def test_sentences_behind_reports_that_tell_no_position_are_read(seed: int, stamped: bool) -> None:
    chance = random.Random(seed)
    places = [(chance.randint(0, 89), chance.randint(0, 179)) for _ in range(20)]
    lines = [
        nmea(f"GPRMC,0651{second:02}.00,A,{lat:02}30.0000,N,{lon:03}15.0000,E,010.0,084.4,200311,,")
        for second, (lat, lon) in enumerate(places)
    ]
    if stamped:
        lines = [f"{1300603860 + n}.500: {line}" for n, line in enumerate(lines)]
    data = (HELLO + "\n".join(lines) + "\n").encode()
    assert parsers.recognise(data[:4096], path="x") is gpsd.FORMAT
    found = gpsd.parse(io.BytesIO(data), path="x")["position"]
    assert [(int(a), int(b)) for a, b in zip(found["lat_deg"], found["lon_deg"], strict=True)] == places
    assert found["fix_time_ns"].tolist() == [(1300603860 + n) * S for n in range(20)]
    assert ((found["time_ns"] - found["fix_time_ns"]) == (S // 2 if stamped else 0)).all()
    assert found.provenance["skipped"] == {}


def test_sentences_beside_positions_are_those_that_gpsd_decoded() -> None:
    sentence = nmea("GPRMC,065159.12,A,3722.2856,N,12200.9108,W,000.0,000.0,200311,,")
    found = gpsd.parse(io.BytesIO(TPV + (sentence.encode() + b"\n") * 9), path="x")["position"]
    assert len(found) == 1
    assert found.provenance["nmea_decoded_by_gpsd"] == 9
    assert not any("could not be used" in text for text in found.provenance["warnings"]), "nothing is lost"


@given(data=damaged(TPV * 2 + b'{"class":"SKY","satellites":[]}\n'))
def test_damaged_reports_give_a_table_or_an_error(data: bytes) -> None:
    survives(gpsd.parse, data)


def test_0_0_is_no_place() -> None:
    """A receiver without a fix, in a report or between sentences; a place on the equator stays."""
    head = b'{"class":"TPV","mode":2,"time":"2026-02-03T10:11:14.000Z",'
    data = head + b'"lat":0.0,"lon":0.0}\n' + head + b'"lat":0.0,"lon":6.5}\n'
    table = parsed(gpsd.FORMAT, data)["position"]
    assert [(row["lat_deg"], row["lon_deg"]) for row in table.rows()] == [(None, None), (0.0, 6.5)]
    assert table.provenance["warnings"] == [
        "1 position with latitude and longitude 0 (the receiver had no position): set to missing"
    ]
