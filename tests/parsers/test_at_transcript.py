"""Transcripts of AT commands, and what mmcli, qmicli and uqmi print in a loop."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given

import parsers
from multitracer.errors import FormatError
from parsers import at_transcript, modem_tools
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
MMCLI = (
    b'{"modem":{"signal":{"5g":{"rsrp":"--"},"lte":{"error-rate":"--","rsrp":"-95.00","rsrq":"-12.00",'
    b'"rssi":"-65.00","snr":"8.40"},"refresh":{"rate":"10"}}}}\n'
)
QMICLI = b"""[/dev/cdc-wdm0] Successfully got signal info
LTE:
\tRSSI: '-65 dBm'
\tRSRQ: '-10 dB'
\tRSRP: '-95 dBm'
\tSNR: '8.4 dB'
"""
UQMI = b"""{
\t"type": "lte",
\t"rssi": -65,
\t"rsrq": -10,
\t"rsrp": -95,
\t"snr": 8.400000
}
"""


def rows(module: Any, data: bytes) -> list[dict[str, Any]]:
    assert parsers.recognise(data, path="x") is module.FORMAT
    return list(module.parse(io.BytesIO(data), path="x")["radio"].rows())


def test_transcript_of_a_terminal_gives_its_values_without_times() -> None:
    csq, cell = rows(at_transcript, MINICOM)
    assert (csq["source"], csq["rssi_dbm"], csq["time_ns"], csq["line"]) == ("+CSQ", -83.0, None, 4)
    assert (cell["rsrp_dbm"], cell["cell_id"], cell["plmn"]) == (-83.0, 0x1684B3E, "26203")


def test_stamps_and_arrows_give_the_time_between_question_and_answer() -> None:
    csq, unasked, cdpd = rows(at_transcript, STAMPED)
    begin = 1_795_169_700 * S
    assert (csq["asked_ns"], csq["answered_ns"]) == (begin + S // 10, begin + 3 * S // 10)
    assert csq["time_ns"] == begin + 2 * S // 10
    assert (unasked["registration"], unasked["cell_id"], unasked["asked_ns"]) == (1, 0x1A2D001, None)
    assert (cdpd["rssi_dbm"], cdpd["channel"], cdpd["rat"]) == (-85.0, 512, "CDPD")


def test_stamps_between_the_answers_of_a_loop_are_theirs() -> None:
    first, second = rows(at_transcript, LOOP)
    assert (first["time_ns"], first["rssi_dbm"]) == (1763633700 * S + S // 2, -73.0)
    assert (second["time_ns"], second["rssi_dbm"]) == (1763633701 * S + S // 2, None)


def test_garbled_answer_is_counted_and_no_value() -> None:
    table = at_transcript.parse(io.BytesIO(MINICOM.replace(b"15,99", b"1x,99")), path="x")["radio"]
    assert table["source"].tolist() == ["+QENG"]
    assert sum(table.provenance["skipped"].values()) == 1


@pytest.mark.parametrize("output", [MMCLI, QMICLI, UQMI])
def test_tools_in_a_loop_with_dates(output: bytes) -> None:
    data = b"2026-11-20T10:15:00Z\n" + output + b"2026-11-20T10:15:01Z\n" + output.replace(b"-95", b"-96")
    first, second = rows(modem_tools, data)
    assert (first["rat"], first["rssi_dbm"], first["rsrp_dbm"], first["sinr_db"]) == ("LTE", -65, -95, 8.4)
    assert second["rsrp_dbm"] == -96
    assert (first["time_ns"], second["time_ns"]) == (1_795_169_700 * S, 1_795_169_701 * S)


def test_tool_run_once_has_a_value_and_no_time() -> None:
    (row,) = rows(modem_tools, MMCLI.rstrip(b"\n"))
    assert (row["source"], row["rsrp_dbm"], row["time_ns"]) == ("mmcli", -95.0, None)
    lte, nr = rows(
        modem_tools, b'[{"type":"lte","rssi":-65,"rsrp":-95},{"type":"5gnr","rsrp":-90,"snr":-2.5}]\n'
    )
    assert (lte["rsrp_dbm"], nr["rat"], nr["sinr_db"]) == (-95.0, "NR", -2.5)


@given(data=damaged(STAMPED + MINICOM))
def test_damaged_transcript_gives_a_table_or_an_error(data: bytes) -> None:
    survives(at_transcript.parse, data)


@given(data=damaged(b"2026-11-20T10:15:00Z\n" + MMCLI + QMICLI + UQMI))
def test_damaged_output_gives_a_table_or_an_error(data: bytes) -> None:
    survives(modem_tools.parse, data)


@pytest.mark.parametrize("module", [at_transcript, modem_tools])
def test_what_tells_nothing_of_the_radio_is_refused(module: Any) -> None:
    with pytest.raises(FormatError):
        module.parse(io.BytesIO(b"AT+GMR\nRevision 1\nOK\n"), path="x")
