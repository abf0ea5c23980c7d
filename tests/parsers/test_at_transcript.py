"""Transcripts of AT commands: with stamps and arrows, with stamps between, and without."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given

import parsers
from multitracer.errors import FormatError
from parsers import at_transcript
from tests.parsers.damage import damaged, survives

S = 1_000_000_000
MINICOM = b"""AT
OK
AT+CSQ
+CSQ: 15,99

OK
AT+QENG="servingcell"
+QENG: "servingcell","NOCONN","LTE","FDD",262,03,1684B3E,204,3350,7,5,5,E8E5,-83,-14,-47,17,13,100,-

OK
"""
STAMPED = b"""2026-11-20 10:15:00.100Z > AT+CSQ
2026-11-20 10:15:00.300Z < +CSQ: 15,99
2026-11-20 10:15:00.300Z <
2026-11-20 10:15:00.300Z < OK
2026-11-20 10:15:01.000Z < RING
2026-11-20 10:15:01.000Z < +CREG: 1,"2A01","01A2D001",7
2026-11-20 10:15:02.100Z > AT+WPRSSI
2026-11-20 10:15:02.200Z < -85,3,1,512
2026-11-20 10:15:02.300Z < OK
"""
LOOP = b"""1763633700.5
+CSQ: 20,99
OK
1763633701.5
+CSQ: 99,99
OK
"""


def rows(data: bytes) -> list[dict[str, Any]]:
    assert parsers.recognise(data, path="x") is at_transcript.FORMAT
    return list(at_transcript.parse(io.BytesIO(data), path="x")["radio"].rows())


@pytest.mark.parametrize("question", ["AT+CSQ", "AT", "OK", "RING", "RX +CSQ: 15,99"])
def test_what_a_modem_is_asked_or_says_is_no_time_zone(question: str) -> None:
    log = f"2026-03-02 14:05:01 {question}\n+CSQ: 15,99\nOK\n".encode()
    table = at_transcript.parse(io.BytesIO(log), path="x")["radio"]
    assert table.provenance["warnings"] == ["the time zone is not given, so the times are read as UTC"]
    assert {row["rssi_dbm"] for row in table.rows()} == {-83.0}


def test_transcript_of_a_terminal_gives_its_values_without_times() -> None:
    csq, cell = rows(MINICOM)
    assert (csq["source"], csq["rssi_dbm"], csq["time_ns"], csq["line"]) == ("+CSQ", -83.0, None, 4)
    assert (cell["rsrp_dbm"], cell["cell_id"], cell["plmn"]) == (-83.0, 0x1684B3E, "26203")


def test_stamps_and_arrows_give_the_time_between_question_and_answer() -> None:
    csq, unasked, cdpd = rows(STAMPED)
    begin = 1_795_169_700 * S
    assert (csq["asked_ns"], csq["answered_ns"]) == (begin + S // 10, begin + 3 * S // 10)
    assert csq["time_ns"] == begin + 2 * S // 10
    assert (unasked["registration"], unasked["cell_id"], unasked["asked_ns"]) == (1, 0x1A2D001, None)
    assert (cdpd["rssi_dbm"], cdpd["channel"], cdpd["rat"]) == (-85.0, 512, "CDPD")


def test_stamps_between_the_answers_of_a_loop_are_theirs() -> None:
    first, second = rows(LOOP)
    assert (first["time_ns"], first["rssi_dbm"]) == (1763633700 * S + S // 2, -73.0)
    assert (second["time_ns"], second["rssi_dbm"]) == (1763633701 * S + S // 2, None)


def test_garbled_answer_is_counted_and_no_value() -> None:
    table = at_transcript.parse(io.BytesIO(MINICOM.replace(b"15,99", b"1x,99")), path="x")["radio"]
    assert table["source"].tolist() == ["+QENG"]
    assert sum(table.provenance["skipped"].values()) == 1


@given(data=damaged(STAMPED + MINICOM))
def test_damaged_transcript_gives_a_table_or_an_error(data: bytes) -> None:
    survives(at_transcript.parse, data)


def test_what_tells_nothing_of_the_radio_is_refused() -> None:
    with pytest.raises(FormatError):
        at_transcript.parse(io.BytesIO(b"AT+GMR\nRevision 1\nOK\n"), path="x")
