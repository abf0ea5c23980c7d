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


INFO3G = b"""{
"conn_time":"0d, 01:02:03",
"conn_time_sec":"3723",
"rx":"1.2 GB",
"modem":"Quectel EP06-E",
"csq":"20",
"signal":"64",
"operator_name":"Plus",
"operator_mcc":"260",
"operator_mnc":"01",
"mode":"LTE | B3 (1800 MHz)",
"registration":"1",
"imei":"860000000000000",
"imsi":"260010000000000",
"cid_dec":"8765432",
"tac_dec":"58140",
"pci":"423",
"earfcn":"1300",
"rsrp":"-95",
"rsrq":"-12",
"rssi":"-65",
"sinr":"0"
}
"""
GSMCTL = b"RSSI: -65\nRSRP: -95\nSINR: 8\nRSRQ: -12\n"


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
    assert (lte["role"], nr["role"]) == ("serving", "secondary"), "the leg of a dual connection"


@given(data=damaged(b"2026-11-20T10:15:00Z\n" + MMCLI + QMICLI + UQMI))
def test_damaged_output_gives_a_table_or_an_error(data: bytes) -> None:
    survives(modem_tools.parse, data)


def test_status_of_a_router_in_a_loop_is_read_without_its_numbers() -> None:
    data = b"2026-11-20T10:15:00Z\n" + INFO3G + b"2026-11-20T10:15:01Z\n" + INFO3G.replace(b"-95", b"0")
    first, second = rows(data)
    assert (first["rat"], first["rssi_dbm"], first["rsrp_dbm"], first["rsrq_db"]) == ("LTE", -65, -95, -12)
    assert first["sinr_db"] is None, "0 is what 3ginfo writes for what it does not know"
    assert (first["cell_id"], first["area_code"], first["channel"]) == (8765432, 58140, 1300)
    assert (first["physical_cell_id"], second["rsrp_dbm"]) == (423, None)
    assert first["time_ns"] == 1_795_169_700 * S
    assert "86000" not in repr(first)
    (nsa,) = rows(INFO3G.replace(b"LTE |", b"5G NSA |"))
    assert (nsa["rat"], nsa["rsrp_dbm"]) == ("", -95)


def test_levels_of_gsmctl_in_a_loop() -> None:
    data = b"".join(b"%d\n%s" % (1_795_169_700 + n, GSMCTL.replace(b"-95", b"-9%d" % n)) for n in range(3))
    found = rows(data)
    assert [row["rsrp_dbm"] for row in found] == [-90, -91, -92]
    assert [row["time_ns"] // S for row in found] == [1_795_169_700 + n for n in range(3)]
    assert (found[0]["rssi_dbm"], found[0]["sinr_db"], found[0]["rsrq_db"]) == (-65, 8, -12)
    assert found[0]["source"] == "gsmctl"


@given(data=damaged(b"1795169700\n" + INFO3G + b"1795169701\n" + GSMCTL))
def test_damaged_status_of_a_router_gives_rows_or_an_error(data: bytes) -> None:
    survives(modem_tools.parse, data)
