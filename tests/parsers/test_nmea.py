"""Positions from NMEA sentences: those of real receivers, and what damage does to them."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

import parsers
from multitracer.errors import FormatError
from multitracer.protocols.position import NmeaError, sentence
from parsers import gpsd, nmea
from tests.parsers.damage import OneByteAtATime, damaged, rows_of, survives

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table

S = 1_000_000_000


def signed(body: str) -> bytes:
    total = 0
    for character in body:
        total ^= ord(character)
    return f"${body}*{total:02X}\r\n".encode()


RMC = b"$GPRMC,190227.696,A,4529.4279,N,00909.0627,E,5.15,311.25,090410,,,A*60\r\n"
GGA = b"$GPGGA,190228.696,4529.4288,N,00909.0617,E,1,07,1.3,176.1,M,,,,0000*0E\r\n"
NO_FIX = b"$GNGGA,001626.000,,,,,0,00,25.5,,,,,,*79\r\n"


def read(*parts: bytes) -> list[dict[str, Any]]:
    return list(nmea.parse(io.BytesIO(b"".join(parts)), path="gps.nmea")["position"].rows())


def test_sentence_is_position_speed_and_time() -> None:
    (row,) = read(RMC)
    assert row["lat_deg"] == pytest.approx(45.490465)
    assert row["lon_deg"] == pytest.approx(9.151045)
    assert row["speed_mps"] == pytest.approx(5.15 * 1852 / 3600)
    assert (row["heading_deg"], row["fix"]) == (311.25, 1)
    assert row["time_ns"] == row["fix_time_ns"] == 1270839747 * S + 696_000_000
    assert (row["altitude_m"], row["satellites"]) == (None, None)


def test_sentences_of_one_time_are_one_fix_and_the_date_goes_to_its_neighbors() -> None:
    gga = signed("GPGGA,190227.696,4529.4279,N,00909.0627,E,1,07,1.3,176.1,M,,,,0000")
    earlier = signed("GPGGA,190226.696,4529.4270,N,00909.0630,E,1,07,1.3,176.0,M,,,,0000")
    gsa = signed("GPGSA,A,3,03,07,08,11,13,16,19,,,,,,3.6,2.0,3.0")
    first, second, third = read(earlier, gga, gsa, RMC, GGA)
    assert (second["fix"], second["satellites"], second["altitude_m"], second["line"]) == (3, 7, 176.1, 2)
    assert second["time_ns"] - first["time_ns"] == S == third["time_ns"] - second["time_ns"]


@pytest.mark.parametrize("seed", range(8))
def test_sentences_of_one_time_may_stand_apart(seed: int) -> None:
    """Whole blocks of one kind, or GGA a second late: a fix had two rows, each with half of the values."""
    rng = random.Random(seed)
    begin = rng.randrange(86_395)  # perhaps over midnight
    known = [divmod(begin + n, 86_400) for n in range(9)]
    parts = []
    for day, second in known:
        at = f"{second // 3600:02}{second // 60 % 60:02}{second % 60:02}.00"
        parts.append((
            signed(f"GPRMC,{at},A,4529.{second % 100:02}79,N,00909.0627,E,5.15,311.25,{day + 3:02}0124,,,A"),
            signed(f"GPGGA,{at},4529.{second % 100:02}794,N,00909.0627,E,1,07,1.3,{second % 500}.5,M,,,,0000"),
        ))  # fmt: skip
    rmc, gga = zip(*parts, strict=True)
    late = [line for pair in zip(rmc, (b"", *gga), strict=False) for line in pair] + [gga[-1]]
    for order in ([*rmc, *gga], [*gga, *rmc], late, rng.sample([*rmc, *gga], 18)):
        rows = read(*order)
        assert [row["time_ns"] for row in rows] == sorted({row["time_ns"] for row in rows})
        assert len(rows) == 9
        for (_, second), row in zip(known, rows, strict=True):
            assert (row["altitude_m"], row["satellites"], row["fix"]) == (second % 500 + 0.5, 7, 1)
            assert row["speed_mps"] == pytest.approx(5.15 * 1852 / 3600)


@pytest.mark.parametrize("kind", ["GPGGA,{},4529.{:04},N,00909.0627,E,1,07,1.3,176.1,M,,,,0000",
                                  "GNGNS,{},4529.{:04},N,00909.0627,E,AA,07,1.3,176.1,47.0,,"])  # fmt: skip
def test_without_any_date_all_rows_stay_in_the_order_of_the_log(kind: str) -> None:
    order = [5, 3, 4, 4, 8, 7, 0, 2]  # the receiver was set back, and said one time twice
    rows = read(*(signed(kind.format(f"1200{second:02}", second)) for second in order))
    places = [round((row["lat_deg"] - 45) * 60 * 1e4) % 10_000 for row in rows]
    assert places == [5, 3, 4, 8, 7, 0, 2]
    assert {row["time_ns"] for row in rows} == {None}


@pytest.mark.parametrize("seed", range(6))
def test_stamps_of_the_logger_give_the_date_that_no_sentence_has(seed: int) -> None:
    rng = random.Random(seed)
    begin_s = rng.randrange(1_400_000_000, 1_800_000_000)
    zone_s = rng.choice((0, 0, 3600 * rng.randrange(-11, 12)))
    lines, true_ns = [], []
    for n in range(0, 100_000, 20_000):  # over midnight
        at = datetime.fromtimestamp(begin_s + n, UTC)
        stamp = rng.choice(
            (f"{begin_s + n + zone_s}.25 ", f"[{datetime.fromtimestamp(begin_s + n + zone_s, UTC):%Y-%m-%d %H:%M:%S}] ")
        )
        lines.append(stamp.encode() + signed(f"GNGNS,{at:%H%M%S}.00,4529.4279,N,00909.0627,E,AA,07,1.3,176.1,47.0,,"))
        true_ns.append((begin_s + n) * S)
    table = nmea.parse(io.BytesIO(b"".join(lines)), path="x")["position"]
    assert table["time_ns"].tolist() == true_ns
    assert any("taken from the time stamps before" in text for text in table.provenance["warnings"])


def test_the_date_of_a_sentence_counts_more_than_stamps() -> None:
    alone = nmea.parse(io.BytesIO(b"2001-01-01 00:00:01 " + RMC), path="x")["position"]
    assert (alone["time_ns"][0] // S, alone.provenance["warnings"]) == (1270839747, [])
    gga = signed("GPGGA,190226.696,4529.4270,N,00909.0630,E,1,07,1.3,176.0,M,,,,0000")
    rows = read(b"2001-01-01 00:00:00 " + gga, b"2001-01-01 00:00:01 " + RMC)
    assert [row["time_ns"] // S for row in rows] == [1270839746, 1270839747]


def test_one_time_at_two_places_is_two_rows() -> None:
    at = "GPGGA,120000,4529.{},N,00909.0627,E,1,07,1.3,176.1,M,,,,0000".format
    between = signed("GPRMC,120001,A,4529.0,N,00909.0627,E,5.15,311.25,090410,,,A")
    assert [row["lat_deg"] for row in read(signed(at("0")), between, signed(at("1")))][:2] == [
        45 + 29 / 60,
        45 + 29.1 / 60,
    ]


def test_midnight_between_two_fixes_is_a_day_later() -> None:
    late = signed("GPRMC,235959.500,A,4529.4279,N,00909.0627,E,5.15,311.25,311299,,,A")
    early = signed("GPGGA,000000.500,4529.4279,N,00909.0627,E,1,07,1.3,176.1,M,,,,0000")
    before, after = read(late, early)
    assert after["time_ns"] - before["time_ns"] == S
    assert after["time_ns"] == 946_684_800 * S + 500_000_000
    before, after = read(
        signed("GPGGA,235959.500,4529.4,N,00909.0,E,1,07,1.3,1.1,M,,,,"),
        signed("GPRMC,000000.500,A,4529.4279,N,00909.0627,E,5.15,311.25,010100,,,A"),
    )
    assert after["time_ns"] - before["time_ns"] == S


def test_without_a_fix_the_coordinates_are_missing_not_zero() -> None:
    last_known = signed("GPRMC,000559.97,V,4002.1027,N,7531.2012,W,0.0,0.0,101102,-11.9,W")
    (row,) = read(last_known)
    assert (row["fix"], row["lat_deg"], row["lon_deg"], row["speed_mps"]) == (0, None, None, None)
    assert row["time_ns"] is not None
    (row,) = read(NO_FIX)
    assert (row["fix"], row["time_ns"], row["hdop"]) == (0, None, 25.5)


@pytest.mark.parametrize(
    "line", [RMC.replace(b"4529", b"4528"), RMC.replace(b"*60", b"*6"), b"$GPRMC*00", b"GPRMC,1*22", b"$" * 300]
)
def test_damaged_sentence_is_no_fix(line: bytes) -> None:
    with pytest.raises(NmeaError):
        sentence(line.decode())
    table = nmea.parse(io.BytesIO(line + b"\n" + RMC), path="x")["position"]
    assert len(table) == 1


def test_impossible_values_are_missing() -> None:
    (row,) = read(signed("GPRMC,190227.696,A,9929.4279,N,00909.0627,E,5.15,311.25,310299,,,A"))
    assert (row["lat_deg"], row["fix"], row["time_ns"]) == (None, 0, None)


@given(data=damaged(RMC + GGA + NO_FIX + RMC.replace(b"190227", b"190230")))
def test_damaged_nmea_gives_a_table_or_an_error(data: bytes) -> None:
    survives(nmea.parse, data)


def test_slow_pipe_gives_the_same() -> None:
    data = RMC + NO_FIX + GGA
    complete, slow = (nmea.parse(s, path="x") for s in (io.BytesIO(data), io.BufferedReader(OneByteAtATime(data))))
    assert rows_of(complete) == rows_of(slow)


MORE = {
    "com-1289.log", "ericsson-gru04.log", "gp-320fw-2019-04-07-coldboot.log", "mtk-3301.log", "mtk-3329.log",
    "triton400.log",
}  # fmt: skip
"""Logs with sentences behind or before octets on the same line, which the reference did not count."""


def position(path: Path) -> Table:
    fmt, parsed = parsers.read(path)
    assert fmt.layer == "position"
    assert isinstance(parsed, dict)
    return parsed["position"]


@pytest.mark.fixtures
def test_logs_of_real_receivers_hold_the_sentences_and_fixes_of_the_reference(fixture_folder: Path) -> None:
    reference = json.loads((fixture_folder / "answers" / "nmea.json").read_text())
    assert len(reference) > 40
    for name, known in reference.items():
        table = position(fixture_folder / "gpsd" / name)
        if table.provenance["format"] == "nmea":
            found = table.provenance["sentences"]
            assert found == known["sentences_ok"] or (name in MORE and found > known["sentences_ok"]), name
        if known.get("rmc_valid"):
            for end in ("first", "last"):
                lat, lon = known[end][2:]
                assert min(np.nanmin(np.hypot(table["lat_deg"] - lat, table["lon_deg"] - lon)), 1) < 2e-7, name


@pytest.mark.fixtures
def test_fixes_are_those_that_gpsd_finds_in_the_same_sentences(fixture_folder: Path) -> None:
    """gpsd's own test logs hold its reports between the sentences that led to them."""
    compared, speeds = 0, []
    for path in sorted((fixture_folder / "gpsd").glob("*.log.chk")):
        text = path.read_bytes()
        try:
            ours = nmea.parse(io.BytesIO(text), path=path.name)["position"]
            theirs = gpsd.parse(io.BytesIO(text), path=path.name)["position"]
        except FormatError:
            continue
        known = {r["fix_time_ns"]: r for r in ours.rows() if r["fix_time_ns"] and r["fix"]}
        for row in theirs.rows():
            mine = known.get(row["fix_time_ns"])
            if mine is None or row["lat_deg"] is None:
                continue
            compared += 1
            assert mine["lat_deg"] == pytest.approx(row["lat_deg"], abs=1e-6), path.name
            assert mine["lon_deg"] == pytest.approx(row["lon_deg"], abs=1e-6), path.name
            if row["speed_mps"] is not None and mine["speed_mps"] is not None:
                speeds.append(abs(mine["speed_mps"] - row["speed_mps"]) < 0.02)
    assert compared > 300
    assert np.mean(speeds) > 0.9  # gpsd works some speeds out itself


def test_a_log_without_a_date_has_that_of_the_option() -> None:
    undated = nmea.parse(io.BytesIO(GGA), path="gps.nmea")["position"]
    assert [row["fix_time_ns"] for row in undated.rows()] == [None]
    assert "(--date gives it)" in " ".join(undated.provenance["warnings"])
    with parsers.force_reading(date="2026-11-30"):
        dated = nmea.parse(io.BytesIO(GGA), path="gps.nmea")["position"]
    (row,) = dated.rows()
    wanted = datetime(2026, 11, 30, 19, 2, 28, 696_000, tzinfo=UTC)
    assert row["fix_time_ns"] == round(wanted.timestamp() * 1000) * S // 1000
    assert not dated.provenance["warnings"]
