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


MMCLI_TEXT = b"""  ----------------------
  Refresh  |       rate: 5 seconds
  ----------------------
  LTE      |       rssi: -65.00 dBm
           |       rsrq: -11.00 dB
           |       rsrp: -96.00 dBm
           |        s/n: 12.40 dB
  ----------------------
  5G       |       rsrp: --
"""
MMCLI_KEYS = b"""modem.signal.refresh.rate         : 2
modem.signal.gsm.rssi             : --
modem.signal.lte.rssi             : -71.00
modem.signal.lte.rsrp             : -100.00
modem.signal.5g.rsrp              : --
"""


@pytest.mark.parametrize(("output", "level"), [(MMCLI_TEXT, -96.0), (MMCLI_KEYS, -100.0)])
def test_text_of_mmcli_once_in_a_row_and_with_dates(output: bytes, level: float) -> None:
    (row,) = rows(output)
    assert (row["source"], row["role"], row["rat"], row["rsrp_dbm"]) == ("mmcli", "serving", "LTE", level)
    crlf = (output + output).replace(b"\n", b"\r\n")
    assert [row["rsrp_dbm"] for row in rows(crlf)] == [level, level], "the next output begins"
    first, second = rows(b"1795169700\n" + output + b"1795169701\n" + output)
    assert (first["time_ns"], second["time_ns"]) == (1_795_169_700 * S, 1_795_169_701 * S)


def test_dump_of_several_modems_numbers_them() -> None:
    signal = b'{"signal":{"5g":{"rsrp":"--"},"lte":{"rsrp":"-%d.00","rsrq":"--"}}}'
    first, second = rows(b'{ "modem": [ ' + signal % 95 + b",\n" + signal % 99 + b' ], "sim": [] }\n')
    assert [(row["modem"], row["rsrp_dbm"], row["rsrq_db"]) for row in (first, second)] == [
        (0, -95.0, None),
        (1, -99.0, None),
    ]


CELLS = b"""[/dev/cdc-wdm0] Successfully got cell location info
Intrafrequency LTE Info
\tUE In Idle: 'yes'
\tPLMN: '23820'
\tTracking Area Code: '14011'
\tGlobal Cell ID: '44678925'
\tEUTRA Absolute RF Channel Number: '500' (E-UTRA band 1: 2100)
\tServing Cell ID: '390'
\tCell [0]:
\t\tPhysical Cell ID: '34'
\t\tRSRQ: '-18.3' dB
\t\tRSRP: '-102.3' dBm
\tCell [1]:
\t\tPhysical Cell ID: '390'
\t\tRSRQ: '-7.2' dB
\t\tRSRP: '-89.2' dBm
\t\tRSSI: '-62.1' dBm
Interfrequency LTE Info
\tFrequency [0]:
\t\tEUTRA Absolute RF Channel Number: '3150' (E-UTRA band 7: 2600)
\t\tCell [0]:
\t\t\tPhysical Cell ID: '101'
\t\t\tRSRP: '-115.0' dBm
LTE Info Neighboring GSM
\tUE In Idle: 'yes'
5GNR ARFCN: '640000'
5GNR cell information
\tPLMN: '23820'
\tGlobal Cell ID: '1234567890'
\tPhysical Cell ID: '321'
\tRSRQ: '-12.5 dB'
\tRSRP: '-3276.8 dBm'
"""


def test_cells_that_qmicli_located() -> None:
    serving, neighbour, far, nr = rows(CELLS)
    names = ("role", "rat", "channel", "physical_cell_id", "rsrp_dbm", "rsrq_db", "cell_id")
    assert [tuple(row[k] for k in names) for row in (serving, neighbour, far, nr)] == [
        ("serving", "LTE", 500, 390, -89.2, -7.2, 44678925),
        ("neighbour", "LTE", 500, 34, -102.3, -18.3, None),
        ("neighbour", "LTE", 3150, 101, -115.0, None, None),
        ("secondary", "NR", 640000, 321, None, -12.5, 1234567890),
    ]
    umts, other = rows(
        b"[/dev/cdc-wdm0] Successfully got cell location info\nUMTS Info\n\tCell ID: '15086'\n"
        b"\tPLMN: '46692'\n"
        b"\tUTRA Absolute RF Channel Number: '10762'\n\tPrimary Scrambling Code: '33'\n\tRSCP: '-109' dBm\n"
        b"\tECIO: '-17' dBm\n\tCell [0]:\n\t\tPrimary Scrambling Code: '335'\n\t\tRSCP: '-116' dBm\n"
    )
    assert (umts["rscp_dbm"], umts["ecio_db"], umts["cell_id"]) == (-109.0, -17.0, 15086)
    assert (other["role"], other["rscp_dbm"], other["physical_cell_id"]) == ("neighbour", -116.0, 335)


def test_strength_of_mbimcli_is_an_index() -> None:
    output = b"""[/dev/cdc-wdm0] Signal state:
\t          RSSI [0-31,99]: '19'
\t     Error rate [0-7,99]: '99'
\tSignal strength interval: '5'
"""
    known, unknown = rows(output + output.replace(b"'19'", b"'99'"))
    assert (known["rssi_dbm"], known["rxqual"], unknown["rssi_dbm"]) == (-75.0, None, None)


HILINK = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<response>\n<pci>215</pci>\n<sc></sc>\n<rsrq>-11.0dB</rsrq>\n'
    b"<rsrp>-96dBm</rsrp>\n<rssi>&gt;=-51dBm</rssi>\n<sinr>&gt;=30dB</sinr>\n<mode>%s</mode>\n"
    b"<earfcn>DL:1300 UL:19300</earfcn>\n<nrrsrp>%s</nrrsrp>\n</response>\n"
)


def test_signal_of_hilink_with_and_without_new_radio() -> None:
    (lte,) = rows(HILINK % (b"7", b""))
    assert (lte["rat"], lte["rsrp_dbm"], lte["rssi_dbm"], lte["sinr_db"]) == ("LTE", -96.0, -51.0, 30.0)
    assert (lte["channel"], lte["physical_cell_id"]) == (1300, 215)
    _, nr, _, _ = rows(HILINK % (b"7", b"-84dBm") + b"1795169701\n" + HILINK % (b"7", b"-85dBm"))
    assert (nr["role"], nr["rat"], nr["rsrp_dbm"]) == ("secondary", "NR", -84.0)
    (umts,) = rows(b'{"mode": "2", "rscp": "-89dBm", "ecio": "-6dB", "rssi": "-83dBm", "rsrp": "-1dBm"}\n')
    assert (umts["rat"], umts["rscp_dbm"], umts["ecio_db"]) == ("UMTS", -89.0, -6.0)


MIKROTIK = b"""            status: connected
             model: EG18-EA
  current-operator: LMT
    current-cellid: 3103242
        data-class: LTE
      primary-band: B3@20Mhz earfcn: 1300 phy-cellid: 480
           ca-band: B7@20Mhz earfcn: 2850 phy-cellid: 33
           ca-band: B20@10Mhz earfcn: 6300 phy-cellid: 34
               cqi: 7
              rssi: -68dBm
              rsrp: -97dBm
              rsrq: -12.5dB
              sinr: 6dB
"""


def test_monitor_of_mikrotik() -> None:
    serving, second, third = rows(MIKROTIK)
    assert (serving["rat"], serving["rsrp_dbm"], serving["rsrq_db"], serving["sinr_db"]) == ("LTE", -97, -12.5, 6)
    assert (serving["channel"], serving["physical_cell_id"], serving["band"]) == (1300, 480, "3")
    assert (serving["operator"], serving["state"], serving["cqi"]) == ("LMT", "connected", 7)
    assert [(row["role"], row["channel"], row["band"]) for row in (second, third)] == [
        ("secondary", 2850, "7"),
        ("secondary", 6300, "20"),
    ]
    more = b"-- [Q quit|D dump|C-z pause]\n" + MIKROTIK.replace(b"sinr: 6dB", b"sinr: 6dB\n   nr-rsrp: -99dBm")
    found = rows(MIKROTIK.replace(b"\n", b"\r\n") + more)
    assert [row["rsrp_dbm"] for row in found if row["rsrp_dbm"]] == [-97.0, -97.0, -99.0]
    (old,) = rows(
        b"   status: registered\n   earfcn: 1300 (band 3, bandwidth 20Mhz)\n"
        b"   access-technology: Evolved 3G (LTE)\n"
        b"   phy-cellid: 7\n   rsrp: -97dBm\n"
    )
    assert (old["rat"], old["band"], old["channel"], old["physical_cell_id"]) == ("LTE", "3", 1300, 7)


def test_lines_of_no_output_are_counted() -> None:
    log = b"# mmcli -m 0 --signal-get\n" + MMCLI_TEXT + b"# end\n"
    table = modem_tools.parse(io.BytesIO(log), path="x")["radio"]
    assert table.provenance["warnings"] == ["2 lines of the log are no output of a supported tool and were not read"]


@given(data=damaged(MMCLI_TEXT + MMCLI_KEYS + CELLS + HILINK + MIKROTIK))
def test_damaged_text_of_tools_gives_a_table_or_an_error(data: bytes) -> None:
    survives(modem_tools.parse, data)


def test_output_in_which_no_cell_has_a_value_is_a_row_without_a_cell() -> None:
    output = b"[/dev/cdc-wdm0] Successfully got signal info\n5G:\n\tRSRP: '-32768 dBm'\n\tSNR: '-3276.8 dB'\n"
    (row,) = rows(output)
    assert (row["source"], row["rat"], row["rsrp_dbm"], row["sinr_db"]) == ("qmicli", "", None, None)
