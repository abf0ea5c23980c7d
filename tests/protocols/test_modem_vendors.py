"""Answers by vendor: layouts, missing values, several at once."""

from __future__ import annotations

from typing import Any

import pytest

from multitracer.protocols.modem.decode import decode
from multitracer.protocols.modem.grammar import command_names


def rows(text: str, command: str = "") -> list[dict[str, Any]]:
    """Return the readings of an answer that is understood completely, without their source."""
    decoded = decode(command, text.encode())
    assert decoded.refused == []
    return [{k: v for k, v in reading.items() if k != "source"} for reading in decoded.readings]


def some(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in names)


LEVELS = ("rsrp_dbm", "rsrq_db", "rssi_dbm", "sinr_db")
PLACE = ("role", "rat", "channel", "physical_cell_id", "band")


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("AT+CSQ", ("+CSQ",)),
        ('at+qnwinfo;+qcainfo;+qeng="servingcell";+qspn', ("+QNWINFO", "+QCAINFO", "+QENG", "+QSPN")),
        ('AT+QENG="a;+CSQ";+CESQ', ("+QENG", "+CESQ")),
        ("ATE0+CSQ;^HCSQ?", ("E0", "+CSQ", "^HCSQ")),
        ("ATS112?", ("S112",)),
        ("", ()),
        ("no command", ()),
    ],
)
def test_names_of_the_answers_to_a_command_line(command: str, names: tuple[str, ...]) -> None:
    assert command_names(command) == names


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
@pytest.mark.parametrize("echo", ["", "AT^HCSQ?;+CSQ;+GTCCINFO?"])
def test_answers_in_turn_in_any_order(end: str, echo: str) -> None:
    answer = [
        "+CSQ: 18,99",
        "+GTCCINFO:",
        "1,4,262,2,1A2B,0012345AB,100,42,103,,-7,29,29,4",
        '^HCSQ: "LTE",50,45,111,26',
    ]
    text = end.join([echo, *answer, "OK", ""])
    assert [row.get("rsrp_dbm", row.get("rssi_dbm")) for row in rows(text, "AT^HCSQ?;+CSQ;+GTCCINFO?")] == [
        -77,
        -96,
        -112,
    ]


def test_line_that_was_not_asked_for_is_named() -> None:
    decoded = decode(
        "AT+CSQ", b'+CSQ: 18,99\r\n+QTEMP: "soc",41\r\n+CESQ: 99,99,255,255,20,80\r\n+CMTI: "SM",3\r\nOK\r\n'
    )
    assert ([r["source"] for r in decoded.readings], decoded.unread) == (["+CSQ"], ("+QTEMP", "+CESQ"))


def test_answers_without_line_ends_between_them() -> None:
    text = "+CSQ: 18,99+CESQ: 99,99,255,255,20,80OK"
    assert [row.get("rsrp_dbm", row.get("rssi_dbm")) for row in rows(text)] == [-77, -61]
    assert rows('+COPS: 0,0,"A +CSQ: 1",7') == [{"operator": "A +CSQ: 1", "rat": "LTE"}], "within a name"


def test_quectel_carriers_of_new_radio() -> None:
    short, long, lte = rows(
        '+QCAINFO: "PCC",501390,12,"NR5G BAND 41",153\r\n'
        '+QCAINFO: "SCC",126270,2,"NR5G BAND 71",1,93,0,-,-,-85,-11,-250\r\n'
        '+QCAINFO: "SCC",1575,100,"LTE BAND 3",2,43,-64,-7,-24,30,0,-,-\r\n'
    )
    assert some(short, *PLACE, *LEVELS) == ("serving", "NR", 501390, 153, "41", None, None, None, None)
    assert some(long, *PLACE, *LEVELS) == ("secondary", "NR", 126270, 93, "71", -85, -11, None, -2.5)
    assert some(lte, *PLACE, *LEVELS) == ("secondary", "LTE", 1575, 43, "3", -64, -7, -24, None)


def test_best_antenna_and_antennas_that_are_not_used() -> None:
    assert rows("+QRSRP: -32768,-82,-140,-32768,LTE") == [{"rat": "LTE", "rsrp_dbm": -82.0}]
    assert rows("+QRSRP: -32768,-32768,-32768,-32768,NR5G") == [{"rat": "NR"}]
    assert rows("+QSINR:3,-2") == [{"sinr_db": 3.0}]


def test_leg_of_dual_connectivity_without_values_is_no_row() -> None:
    text = (
        '+QENG: "servingcell","NOCONN"\r\n'
        '+QENG: "LTE","FDD",262,01,1929500,321,1300,3,5,5,34BA,-75,-8,-50,24,12,120,-\r\n'
        '+QENG: "NR5G-NSA",-,-,-,-32768,-32768,-32768\r\n'
    )
    assert [row.get("rat") for row in rows(text)] == [None, "LTE"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"LTE",0,0,0,0', ("LTE", -141.0, -20.0, -121.0, -20.2)),
        ('"LTE",255,255,255,255', ("LTE", None, None, None, None)),
        ('"NR",255,241,31', ("NR", None, -4.5, None, 28.0)),
        ('"NR",97,,', ("NR", -44.0, None, None, None)),
    ],
)
def test_bins_of_huawei(text: str, expected: tuple[Any, ...]) -> None:
    (row,) = rows(f"^HCSQ:{text}")
    assert some(row, "rat", *LEVELS) == expected


def test_bins_of_huawei_of_older_generations() -> None:
    assert rows('^HCSQ: "WCDMA",30,30,58') == [{"rat": "UMTS", "rssi_dbm": -91, "rscp_dbm": -91, "ecio_db": -3.5}]
    assert rows('^HCSQ: "GSM",36,255') == [{"rat": "GSM", "rssi_dbm": -85}]
    assert rows('^HCSQ: "NOSERVICE"') == [{"state": "NOSERVICE"}]


def test_cells_of_huawei() -> None:
    lte, nr, umts, gsm = rows(
        "^MONSC: LTE,460,11,1750,B26F9B2,DF,5D63,-91,-14,-56\r\n"
        "^MONSC: NR,460,00,504990,1,C2840C002,80,149002,-65,-10,28\r\n"
        "^MONSC: WCDMA,472,99,10738,304,120514,2513,-79,-73,-6,6,0\r\n"
        "^MONSC: GSM,460,01,1,62,40,1A2B,0C1D,-71,0,1\r\n"
    )
    assert some(lte, *PLACE[:4], *LEVELS) == ("serving", "LTE", 1750, 0xDF, -91, -14, -56, None)
    assert some(nr, *PLACE[:4], *LEVELS) == ("serving", "NR", 504990, 0x80, -65, -10, None, 28)
    assert some(nr, "plmn", "cell_id", "area_code") == ("46000", 0xC2840C002, 0x149002)
    assert some(umts, "rscp_dbm", "rssi_dbm", "ecio_db", "physical_cell_id") == (-79, -73, -6, 304)
    assert some(gsm, "rssi_dbm", "channel", "cell_id", "timing_advance") == (-71, 62, 0x1A2B, 1)
    neighbour, none = rows("^MONNC: NR,504990,1FA,-88,-12,9"), rows("^MONNC: NONE")
    assert some(neighbour[0], *PLACE[:4], *LEVELS) == ("neighbour", "NR", 504990, 0x1FA, -88, -12, None, 9)
    assert (none, rows("^MONSC: NONE")) == ([], [{"state": "NOSERVICE"}])


def test_cells_and_carriers_of_fibocom() -> None:
    lte, nr, neighbour = rows(
        "+GTCCINFO: \r\n1,4,262,2,1A2B,0012345AB,100,42,103,100,-7,29,29,4\r\n\r\n"
        "1,9,,,FFFFFFF,00FFFFFFF,645312,130,5078,400,2,49,49,255\r\n"
        "2,4,,,FFFF,00FFFFFFF,9460,71,,43,43,10\r\n\r\nOK",
        "AT+GTCCINFO?",
    )
    assert some(lte, *PLACE, *LEVELS) == ("serving", "LTE", 100, 42, "3", -112, -18, None, None)
    assert some(lte, "plmn", "area_code", "cell_id", "sinr_raw") == ("26202", 0x1A2B, 0x12345AB, -7)
    assert some(nr, *PLACE, *LEVELS) == ("serving", "NR", 645312, 130, "78", -108, None, None, None)
    assert some(nr, "cell_id", "area_code", "plmn") == (None, None, None)
    assert some(neighbour, *PLACE, *LEVELS) == ("neighbour", "LTE", 9460, 71, None, -98, -15, None, None)
    (titled,) = rows("+GTCCINFO:\r\nLTE service cell:\r\n1,4,460,01,DE10,6146B0C,5A4,1AE,103,100,20,45,45,20\r\nOK")
    assert some(titled, *PLACE[2:4], *LEVELS[:2]) == (0x5A4, 0x1AE, -96, -10)
    first, second, third = rows(
        "+GTCAINFO:\r\nPCC:5078,130,645312,400,400,2,1,1,3,-107\r\nPCC:103,123,1850,100,100,1,1,3,1,-95\r\n"
        "SCC 1:2,1,101,144,525,75,50,1,1,3,3,48\r\nOK"
    )
    assert some(first, *PLACE, "rsrp_dbm") == ("serving", "NR", 645312, 130, "78", -107)
    assert some(second, *PLACE, "rsrp_dbm") == ("serving", "LTE", 1850, 123, "3", -95)
    assert some(third, *PLACE, "rsrp_dbm") == ("secondary", "LTE", 525, 144, "1", None)


def test_cells_of_intel_also_where_a_record_is_broken() -> None:
    serving, neighbour = rows(
        '+XMCI: 4,250,02,"0x2608","0x026D741E","0x0108","0x00000642","0x00004C92",\n'
        '"0xFFFFFFFF",58,22,38,"0x3","0x0"\n'
        '+XMCI: 5,000,000,"0xFFFE","0xFFFFFFFF","0x01B7","0x00000BE8","0xFFFFFFFF",'
        '"0xFFFFFFFF",51,255,255,"0x7","0x0"\nOK'
    )
    assert some(serving, *PLACE[:4], *LEVELS) == ("serving", "LTE", 0x642, 0x108, -83, -9, None, 19)
    assert some(serving, "plmn", "area_code", "cell_id") == ("25002", 0x2608, 0x26D741E)
    assert some(neighbour, *PLACE[:4], *LEVELS) == ("neighbour", "LTE", 0xBE8, 0x1B7, -90, None, None, None)
    assert some(neighbour, "plmn", "area_code", "cell_id") == (None, None, None)
    (old,) = rows('+XMCI: 4,250,02,"0x2608","0x026D741E","0x0108",58,22,38,"0x3","0x0"')
    assert some(old, "channel", *LEVELS) == (None, -83, -9, None, 19)
    assert rows("+XCESQ: 0,99,99,255,255,10,34,-9") == [
        {"rat": "LTE", "rsrp_dbm": -107, "rsrq_db": -15, "sinr_raw": -9, "sinr_db": -4.5}
    ]
    assert rows("+XCESQ: 0,99,99,255,255,255,255,255") == [{}]


DEBUG = """RAT:LTE+NR
mcc:222,mnc:88
lte_cell_id:80389889
lte_tac:30648
lte_tx_pwr:NA
pcell: lte_band:3 lte_band_width:20.0MHz
channel:1650 pci:28
lte_rsrp:-84.1dBm,rsrq:-13.6dB
lte_rssi:-50.6dBm,lte_snr:13.4dB
scell: lte_band:1 lte_band_width:20.0MHz
channel:100 pci:28
nr_band:n78
nr_channel:638016
nr_pci:532
nr_rsrp:87dBm rx_diversity:15 (-84.8,-112.4,-84.7,-116.1)
nr_rsrq:-11dB
nr_snr:NA
OK
"""


@pytest.mark.parametrize("command", ["", "at^debug?", "AT$DEBUG?;^DEBUG?"])
def test_debug_of_foxconn_in_dual_connectivity(command: str) -> None:
    lte, carrier, nr = rows(DEBUG, command)
    assert some(lte, *PLACE, *LEVELS) == ("serving", "LTE", 1650, 28, "3", -84.1, -13.6, -50.6, 13.4)
    assert some(lte, "plmn", "cell_id", "area_code", "tx_power_dbm") == ("22288", 80389889, 30648, None)
    assert some(carrier, *PLACE, *LEVELS) == ("secondary", "LTE", 100, 28, "1", None, None, None, None)
    assert some(nr, *PLACE, *LEVELS) == ("secondary", "NR", 638016, 532, "78", -87, -11, None, None)


def test_debug_of_foxconn_standing_alone() -> None:
    (nr,) = rows(
        "RAT:NR5G_SA\nmcc:202,mnc:01\nnr_cell_id:4946788483\nnr_tac:5615\nnr_band:n78\nnr_channel:634080\nnr_pci:363\n"
        "nr_rsrp:-83dBm rx_diversity:15 (-87.8,-83.0,-97.0,-88.7)\nnr_rsrq:-11dB\nnr_snr:8.5dB\nOK"
    )
    assert some(nr, *PLACE, *LEVELS) == ("serving", "NR", 634080, 363, "78", -83, -11, None, 8.5)
    assert some(nr, "plmn", "cell_id", "area_code") == ("20201", 4946788483, 5615)


EM9191 = """!GSTATUS:
Current Time:  675              Temperature: 32
System mode:   {mode}           PS state:    Attached
LTE band:      B7               LTE bw:      20 MHz
LTE Rx chan:   3350             LTE Tx chan: 21350
RRC state:     RRC Idle

PCC RxM RSSI:  -46              PCC RxM RSRP:  -72
PCC RxD RSSI:  -45              PCC RxD RSRP:  -71
Tx Power:      --               TAC:         0001 (1)
RSRQ (dB):     -6.0             Cell ID:     01a2d001 (27447297)
SINR (dB):     25.4

NR5G band:       {band}         NR5G bw:         ---
NR5G Rx chan:    {chan}         NR5G Tx chan:    ---
NR5G RSRP (dBm): {rsrp}         NR5G RSRQ (dB):  ---
NR5G SINR (dB):  ---
"""


@pytest.mark.parametrize("mode", ["LTE", "ENDC"])
def test_anchor_and_leg_of_sierra(mode: str) -> None:
    lte, nr = rows(EM9191.format(mode=mode, band="n78", chan="640000", rsrp="-95"), "AT!GSTATUS?")
    assert some(lte, "role", "rat", "channel", "band", *LEVELS) == ("serving", "LTE", 3350, "B7", -72, -6, -46, 25.4)
    assert some(nr, "role", "rat", "channel", "band", *LEVELS) == (
        "secondary",
        "NR",
        640000,
        "n78",
        -95,
        None,
        None,
        None,
    )
    (lte,) = rows(EM9191.format(mode=mode, band="---", chan="---", rsrp="---"), "AT!GSTATUS?")
    assert lte["rsrp_dbm"] == -72


def test_new_radio_of_sierra_standing_alone() -> None:
    (nr,) = rows(
        "!GSTATUS:\nSystem mode:   NR5G           PS state:    Attached\n"
        "NR5G TAC:        2d6600       NR5G Cell ID:    1C649D138 (7621693752)\nNR5G MCC-MNC:    310-260\n"
        "NR5G band:       n41          NR5G Carrier ID: 0\nNR5G Rx chan:    521232\n"
        "NR5G RSRP (dBm): -104        NR5G RSRQ (dB):  -15\nNR5G SINR (dB):   0.5\nOK"
    )
    assert some(nr, "role", "rat", "channel", "band", *LEVELS) == ("serving", "NR", 521232, "n41", -104, -15, None, 0.5)
    assert some(nr, "plmn", "area_code", "cell_id") == ("310260", 0x2D6600, 7621693752)


def test_new_radio_of_telit_is_told_by_its_channel() -> None:
    (nr,) = rows('#RFSTS: "310 260",521232,-101,,-15,2D6600,,128,3,1,0B5D121,"310260123456789","T",3,3')
    assert some(nr, "rat", "channel", "area_code", *LEVELS) == ("NR", 521232, 0x2D6600, -101, -15, None, None)
    (nr,) = rows('#SERVINFO: 521232,-68,"T","310260",3089F02,2D6600,640,3,-101')
    assert some(nr, "rat", "rsrp_dbm") == ("NR", -101)
    lte, nr = rows(
        "#MONI: T RSRP:-92 RSRQ:-17 TAC:8B1E Id:A204F01 EARFCN:800 PWR:-54dbm DRX:1280\r\n"
        "#MONI: T RSRP:-99 RSRQ:-12 NRARFCN:648672 PCI:12 SINR:7",
        "AT#MONI",
    )
    assert (lte["rat"], some(nr, "rat", "channel", *LEVELS)) == ("LTE", ("NR", 648672, -99, -12, None, 7))
