"""Transcripts of AT commands: with stamps and arrows, with stamps between, and without."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import parsers
from multitracer.errors import FormatError
from multitracer.tables import NA
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
    (said,) = table.provenance["warnings"]
    assert said.startswith("1 of 10 lines could not be used, first line 6: +CSQ that does not have")
    assert sum(table.provenance["skipped"].values()) == 1


@given(data=damaged(STAMPED + MINICOM))
def test_damaged_transcript_gives_a_table_or_an_error(data: bytes) -> None:
    survives(at_transcript.parse, data)


def test_what_tells_nothing_of_the_radio_is_refused() -> None:
    with pytest.raises(FormatError):
        at_transcript.parse(io.BytesIO(b"AT+GMR\nRevision 1\nOK\n"), path="x")


TERMINAL = b"""[23:59:59.900] AT+CSQ
[23:59:59.950] +CSQ: 15,99
[00:00:01.000] AT+CSQ
[00:00:01.100] +CSQ: 16,99
"""


def test_times_of_day_go_on_after_midnight_and_belong_to_their_answer() -> None:
    first, second = rows(TERMINAL)
    day_ns = 86_400 * S
    assert (first["answered_ns"], second["asked_ns"]) == (day_ns - S // 20, day_ns + S)
    assert (first["rssi_dbm"], second["rssi_dbm"]) == (-83.0, -81.0)


LOGGERS = [
    b"{t},345 DEBUG modem TX: AT+CSQ\n{t},400 DEBUG modem RX: +CSQ: 15,99\n{t},401 DEBUG modem RX: OK\n",
    (b"{t},345 - INFO - Sent b'AT+CSQ\\r\\n'\n{t},400 - INFO - recv: b'\\r\\n+CSQ: 15,99\\r\\n\\r\\nOK\\r\\n'\n"),
    (
        b"[{t},345] {modem.py:12} INFO - AT+CSQ\n"
        b"[{t},400] {modem.py:14} INFO - +CSQ: 15,99\n"
        b"[{t},400] {modem.py:14} INFO - OK\n"
    ),
    (
        b"{t}.345 host ModemManager[7]: <debug> [modem0/ttyUSB2/at] --> 'AT+CSQ<CR>'\n"
        b"{t}.390 host ModemManager[7]: <debug> [modem0/ttyUSB2/at] <-- '<CR><LF>+CS'\n"
        b"{t}.400 host ModemManager[7]: <debug> [modem0/ttyUSB2/at] <-- 'Q: 15,99<CR><LF><CR><LF>OK<CR><LF>\n"
    ),
]


@pytest.mark.parametrize("log", LOGGERS)
def test_what_a_logger_writes_around_a_message_is_left_out(log: bytes) -> None:
    (row,) = rows(log.replace(b"{t}", b"2026-02-03 10:11:12"))
    assert (row["rssi_dbm"], row["asked_ns"] % S, row["answered_ns"] % S // 10**7) == (-83.0, 345_000_000, 40)


@pytest.mark.parametrize(
    "before",
    [
        "{clock} ->", "{clock}<-", "{clock}:", "({clock})", "{clock}\t", "{clock},", "TX {clock}",
        "INFO {clock}",
        "02/03/2026 {clock} [TX] -", "2026/02/03 {clock}", "DEBUG   2026-02-03 {clock} ",
        "root - 2026-02-03 {clock} - DEBUG -", "[Tue Feb 03 {clock} 2026]", "INFO:2026-02-03 {clock}:",
    ],
)  # fmt: skip
@pytest.mark.parametrize("clock", ["10:11:12", "10:11:12.345"])
def test_stamp_is_found_wherever_it_stands_before_the_message(before: str, clock: str) -> None:
    begin = before.format(clock=clock)
    (row,) = rows(f"{begin} AT+CSQ\n{begin} +CSQ: 15,99\n".encode())
    at_ns = (36_672_345 if "." in clock else 36_672_000) * 1_000_000
    assert (row["rssi_dbm"], row["asked_ns"] % (86_400 * S)) == (-83.0, at_ns)
    assert (row["asked_ns"] > 86_400 * S) == ("2026" in before and "02/03/2026" not in before)


def test_answer_in_a_script_is_no_answer() -> None:
    with pytest.raises(FormatError):
        at_transcript.parse(io.BytesIO(b'text = \'+CREG: 1,"2A01","01A2D001",7\'\n'), path="x")
    (row,) = rows(b"DEBUG:modem:AT+CSQ\nDEBUG:modem:+CSQ: 15,99\nDEBUG:modem:OK\n")
    assert row["rssi_dbm"] == -83.0


def test_journal_without_a_year_has_the_times_of_modemmanager() -> None:
    log = (
        b"Feb  3 10:11:15 host ModemManager[700]: <debug> [1770113475.123456] (ttyUSB2): --> 'AT+CSQ<CR>'\n"
        b"Feb  3 10:11:15 host ModemManager[700]: <debug> [1770113475.323456] (ttyUSB2): "
        b"<-- '<CR><LF>+CSQ: 15,99<CR><LF>'\n"
    )
    (row,) = rows(log)
    assert (row["rssi_dbm"], row["time_ns"]) == (-83.0, 1_770_113_475_223_456_000)
    table = at_transcript.parse(io.BytesIO(b"Feb  3 10:11:15 host x: AT+CSQ\n+CSQ: 15,99\nOK\n"), path="x")["radio"]
    assert any("year is not given" in text for text in table.provenance["warnings"])


def test_journal_over_new_year_goes_on_in_the_next_year() -> None:
    late = "Dec 31 23:59:59", "Jan  1 00:00:01"
    log = "".join(
        f"{at} host x: AT+CSQ\n{at} host x: +CSQ: {rssi},99\n{at} host x: OK\n"
        for rssi, at in enumerate(("Dec 31 23:59:58", "Jan  1 00:00:03", *late, "Feb 29 00:00:00"))
    )
    with parsers.force_reading(date="2023-12-31"):
        times = {row["rssi_dbm"]: str(np.datetime64(row["time_ns"] // S, "s")) for row in rows(log.encode())}
    assert times == {
        -113.0: "2023-12-31T23:59:58",
        -111.0: "2024-01-01T00:00:03",
        -109.0: "2023-12-31T23:59:59",  # written late
        -107.0: "2024-01-01T00:00:01",
        -105.0: "2024-02-29T00:00:00",
    }


def test_answers_that_are_not_read_are_counted_by_name() -> None:
    log = MINICOM + b'AT+QTEMP\n+QTEMP: "soc",41\n+QTEMP: "pa",44\n\nOK\nAT+CPIN?\n+CPIN: READY\n\nOK\n'
    table = at_transcript.parse(io.BytesIO(log), path="x")["radio"]
    assert table.provenance["warnings"] == ["2 lines of answers were not read: +QTEMP (2)"]


@given(data=damaged(LOGGERS[1] + LOGGERS[3] + TERMINAL))
def test_damaged_log_of_a_logger_gives_a_table_or_an_error(data: bytes) -> None:
    survives(at_transcript.parse, data)


@pytest.mark.parametrize(("raw", "is_said"), [(29, True), (-3, True), (255, False)])
def test_a_sinr_of_unknown_scale_is_said(raw: int, is_said: bool) -> None:
    cell = f"1,9,460,0,149002,C2840C002,504990,128,5041,100,{raw},69,69,64"
    answer = f"AT+GTCCINFO?\r\n+GTCCINFO: \r\n{cell}\r\n\r\nOK\r\n"
    table = at_transcript.parse(io.BytesIO(answer.encode()), path="x")["radio"]
    assert table["sinr_raw"].tolist() == [raw if is_said else NA]
    assert np.isnan(table["sinr_db"]).all()
    assert any("scale of a SINR differs" in text for text in table.provenance["warnings"]) is is_said
