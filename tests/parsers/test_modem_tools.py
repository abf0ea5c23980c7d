"""What mmcli, qmicli and uqmi print, once or in a loop with dates between."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given

import parsers
from multitracer.errors import FormatError
from parsers import modem_tools
from tests.parsers.damage import damaged, survives

S = 1_000_000_000
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


def rows(data: bytes) -> list[dict[str, Any]]:
    assert parsers.recognise(data, path="x") is modem_tools.FORMAT
    return list(modem_tools.parse(io.BytesIO(data), path="x")["radio"].rows())


def test_what_tells_nothing_of_a_signal_is_refused() -> None:
    with pytest.raises(FormatError):
        modem_tools.parse(io.BytesIO(b"AT+GMR\nRevision 1\nOK\n"), path="x")


@pytest.mark.parametrize("output", [MMCLI, QMICLI, UQMI])
def test_tools_in_a_loop_with_dates(output: bytes) -> None:
    data = b"2026-11-20T10:15:00Z\n" + output + b"2026-11-20T10:15:01Z\n" + output.replace(b"-95", b"-96")
    first, second = rows(data)
    assert (first["rat"], first["rssi_dbm"], first["rsrp_dbm"], first["sinr_db"]) == ("LTE", -65, -95, 8.4)
    assert second["rsrp_dbm"] == -96
    assert (first["time_ns"], second["time_ns"]) == (1_795_169_700 * S, 1_795_169_701 * S)


def test_tool_run_once_has_a_value_and_no_time() -> None:
    (row,) = rows(MMCLI.rstrip(b"\n"))
    assert (row["source"], row["rsrp_dbm"], row["time_ns"]) == ("mmcli", -95.0, None)
    lte, nr = rows(b'[{"type":"lte","rssi":-65,"rsrp":-95},{"type":"5gnr","rsrp":-90,"snr":-2.5}]\n')
    assert (lte["rsrp_dbm"], nr["rat"], nr["sinr_db"]) == (-95.0, "NR", -2.5)


@given(data=damaged(b"2026-11-20T10:15:00Z\n" + MMCLI + QMICLI + UQMI))
def test_damaged_output_gives_a_table_or_an_error(data: bytes) -> None:
    survives(modem_tools.parse, data)
