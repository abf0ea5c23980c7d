"""The readers of the logs of collectors.modem and collectors.gps: clocks, gaps, and logs that are damaged."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from multitracer.errors import FormatError
from parsers import gps, modem
from tests.parsers.damage import damaged, survives

if TYPE_CHECKING:
    from multitracer.tables import Table

S = 1_000_000_000
BOOT_NS = 1_795_000_000 * S
START = 500 * S


def line(**record: Any) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def clock(at: int, *, boot: int = BOOT_NS) -> bytes:
    return line(kind="clock", monotonic_before_ns=at - 100, realtime_ns=at + boot, monotonic_after_ns=at + 100)


def answer(at: int, *, raw: str = "\r\n+CSQ: 15,99\r\n\r\nOK\r\n", **more: Any) -> bytes:
    stamps = {"asked_ns": at, "answered_ns": at + 60_000_000}
    return line(kind="answer", read=1, command="AT+CSQ", **stamps, result="OK", raw=raw, shown=[], **more)


def missed(since: int, until: int, why: str) -> bytes:
    return line(kind="missed", count=1, since_ns=since, until_ns=until, why=why)


HEADER = line(kind="header", format="multitracer-modem", version=1, hz=1.0)
GPS_HEADER = line(kind="header", format="multitracer-gps", version=1)
RMC = "$GPRMC,190227.696,A,4529.4279,N,00909.0627,E,5.15,311.25,090410,,,A*60"


def read(*parts: bytes) -> dict[str, Table]:
    return modem.parse(io.BytesIO(b"".join(parts)), path="radio.jsonl")


def test_answers_stand_on_the_wall_clock_between_their_stamps() -> None:
    (row,) = read(HEADER, clock(START), answer(START + S), clock(START + 2 * S))["radio"].rows()
    assert (row["asked_ns"], row["answered_ns"]) == (BOOT_NS + START + S, BOOT_NS + START + S + 60_000_000)
    assert row["time_ns"] == BOOT_NS + START + S + 30_000_000
    assert (row["rssi_dbm"], row["ber_pct"], row["line"], row["role"]) == (-83.0, None, 3, "serving")


def test_both_legs_of_one_answer_have_their_role() -> None:
    raw = '\r\n+QNWINFO: "FDD LTE","51503","LTE BAND 1",150\r\n'
    raw += '+QNWINFO: "TDD NR5G","51503","NR5G BAND 41",528030\r\n'
    record = json.loads(answer(START + S, raw=raw + "\r\nOK\r\n")) | {"command": "AT+QNWINFO"}
    found = read(HEADER, clock(START), line(**record), clock(START + 2 * S))["radio"].rows()
    assert [(row["role"], row["rat"]) for row in found] == [("serving", "LTE"), ("secondary", "NR")]


@pytest.mark.parametrize("step_ns", [37 * S, -2 * S])
def test_clock_that_was_set_spreads_no_reading_over_its_step(step_ns: int) -> None:
    set_ns = START + S
    asked = [set_ns - 300_000_000, set_ns - 100_000_000, set_ns + 1]
    pairs = clock(START), clock(set_ns, boot=BOOT_NS + step_ns), clock(set_ns + S, boot=BOOT_NS + step_ns)
    radio = read(HEADER, *pairs, *map(answer, asked))["radio"]
    in_order = sorted(radio.rows(), key=lambda row: row["line"])
    assert [row["asked_ns"] - BOOT_NS for row in in_order] == [*asked[:2], asked[2] + step_ns]
    assert set((radio["answered_ns"] - radio["asked_ns"]).tolist()) == {60_000_000}


def test_clock_that_is_slewed_is_followed() -> None:
    pairs = clock(START), clock(START + S, boot=BOOT_NS + 80_000_000)
    (row,) = read(HEADER, *pairs, answer(START + S // 2))["radio"].rows()
    assert row["asked_ns"] == BOOT_NS + START + S // 2 + 40_000_000


def test_rounds_without_an_answer_are_one_gap_for_each_reason() -> None:
    tables = read(
        HEADER, clock(START), answer(START),
        missed(START + S, START + 2 * S, "silent"), missed(START + 2 * S, START + 3 * S, "silent"),
        missed(START + 3 * S, START + 4 * S, "unplugged"), answer(START + 4 * S),
        missed(START + 5 * S, START + 6 * S, "unplugged"),
    )  # fmt: skip
    gaps = [
        ((row["time_ns"] - BOOT_NS - START) // S, (row["until_ns"] - BOOT_NS - START) // S, row["count"],
         row["reason"])
        for row in tables["gaps"].rows()
    ]  # fmt: skip
    assert gaps == [(1, 3, 2, "silent"), (3, 4, 1, "unplugged"), (5, 6, 1, "unplugged")]
    assert tables["radio"].provenance["missed_reads"] == 4


def test_rounds_that_were_late_are_counted_and_no_gap() -> None:
    tables = read(HEADER, answer(START), missed(START, START + 2 * S, "late"), answer(START + 2 * S))
    assert len(tables["gaps"]) == 0
    books = tables["radio"].provenance
    assert (books["missed_reads"], books["late_reads"]) == (1, 1)


def test_what_came_unasked_is_a_reading_and_another_modem_is_told() -> None:
    unasked = line(kind="unasked", at_ns=START, raw='\r\n+CREG: 1,"2A01","01A2D001",7\r\n')
    met = [
        line(kind="modem", at_ns=START + n, port=f"/dev/ttyUSB{n}", says=f"Maker {n}", profile="3gpp") for n in (0, 1)
    ]
    radio = read(HEADER, unasked, *met)["radio"]
    assert next(iter(radio.rows()))["cell_id"] == 0x1A2D001
    assert any("another modem" in warning for warning in radio.provenance["warnings"])
    assert [port["says"] for port in radio.provenance["ports"]] == ["Maker 0", "Maker 1"]


def test_answers_that_were_cut_or_came_too_late_give_no_value() -> None:
    cut = line(
        kind="answer", read=1, command="AT+CSQ", asked_ns=START, answered_ns=START + S, result="",
        raw="\r\n+CSQ: 1", shown=[],
    )  # fmt: skip
    late = line(kind="unasked", at_ns=START + S, raw="5,99\r\n\r\nOK\r\n+CSQ: 9,99\r\n+CREG: 2,1\r\nOK\r\n")
    mixed = answer(START + 2 * S, raw="+CESQ: 99,99,255,255,20,80\r\n+CSQ: 15,99\r\nOK\r\n")
    radio = read(HEADER, cut, late, mixed)["radio"]
    assert [row["source"] for row in radio.rows()] == ["+CSQ"]
    assert radio.provenance["skipped"] == {}


def test_garbled_values_and_foreign_records_are_counted() -> None:
    radio = read(HEADER, answer(START, raw="+CSQ: 1\xff,99\r\nOK\r\n"), line(kind="surprise"), b"nonsense\n")["radio"]
    assert len(radio) == 0
    assert sum(radio.provenance["skipped"].values()) == 3


@pytest.mark.parametrize("first", [b"", answer(START), line(kind="header", format="multitracer-modem", version=2)])
def test_log_of_another_kind_or_version_is_refused(first: bytes) -> None:
    with pytest.raises(FormatError):
        read(first, answer(START))


def test_position_stands_at_the_hosts_time_beside_the_receivers() -> None:
    log = GPS_HEADER + clock(START) + line(kind="sentence", at_ns=START + S, raw=RMC)
    (row,) = gps.parse(io.BytesIO(log), path="gps.jsonl")["position"].rows()
    assert (row["time_ns"], row["fix_time_ns"]) == (BOOT_NS + START + S, 1270839747 * S + 696_000_000)
    assert row["lat_deg"] == pytest.approx(45.490465)


@given(data=damaged(HEADER + clock(START) + answer(START) + missed(START, START + S, "x") + answer(START + S)))
def test_damaged_modem_log_gives_tables_or_an_error(data: bytes) -> None:
    survives(modem.parse, data)


@given(data=damaged(GPS_HEADER + clock(START) + line(kind="sentence", at_ns=START, raw=RMC) * 3))
def test_damaged_gps_log_gives_tables_or_an_error(data: bytes) -> None:
    survives(gps.parse, data)
