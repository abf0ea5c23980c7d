"""Answers of modems, as manuals, test suites and forum posts show them, against the values they stand for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.protocols.modem.android import location_of
from multitracer.protocols.modem.decode import decode
from multitracer.schemas.radio import RADIO

Rows = list[dict[str, Any]]


def rows(text: str, command: str = "") -> Rows:
    """Return the readings of an answer that is understood whole, without their source."""
    decoded = decode(command, text.encode())
    assert decoded.refused == []
    return [{k: v for k, v in reading.items() if k != "source"} for reading in decoded.readings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+CSQ: 15,1", {"rssi_dbm": -83.0, "rxqual": 1, "ber_pct": 0.28}),
        ("+CSQ: 31, 99", {"rssi_dbm": -51.0}),
        ("+CSQ:0,0", {"rssi_dbm": -113.0, "rxqual": 0, "ber_pct": 0.14}),
        ("+CSQ: 99,99", {}),
        ("+CSQ: 116,99", {"rat": "UMTS", "rscp_dbm": -100.0}),
        ("^RSSI: 20", {"rssi_dbm": -73.0}),
        ("+CESQ: 99,99,255,255,20,80", {"rat": "LTE", "rsrq_db": -10.0, "rsrp_dbm": -61.0}),
        ("+CESQ: 99,99,95,40,255,255", {"rat": "UMTS", "rscp_dbm": -26.0, "ecio_db": -4.5}),
        ("+CESQ:10,6,255,255,255,255", {"rat": "GSM", "rssi_dbm": -101.0, "rxqual": 6, "ber_pct": 9.05}),
        ("+CESQ: 99,99,255,255,255,255", {}),
        ("+CESQ: 99,99,255,255,255,255,65,90,60", {"rat": "NR", "rsrq_db": -10.5, "rsrp_dbm": -67.0, "sinr_db": 6.5}),
    ],
)
def test_standard_levels(text: str, expected: dict[str, Any]) -> None:
    assert [{k: v for k, v in row.items() if v != ""} for row in rows(text)] == [expected]


REGISTRATIONS = [
    ("+CREG: 1,3", 3, None, None, None),
    ("+CREG: 1", 1, None, None, None),
    ('+CREG: 2,1,"CE00","01CEAD8F"', 1, 0xCE00, 0x01CEAD8F, None),
    ("+CREG: 1,84CD,00D30156", 1, 0x84CD, 0xD30156, None),
    ("+CREG: 2,,", 2, None, None, None),
    ('+CREG: 001,"0001","0010",000', 1, 1, 0x10, "GSM"),
    ('+CREG: 0011,"0001","0010",000', 11, 1, 0x10, "GSM"),
    ('+CREG: 2,6,"8B37","0A265185",7', 6, 0x8B37, 0x0A265185, "LTE"),
    ("+CREG: 2,1,000B,2816, B, C2816", 1, 0xB, 0x2816, None),
    ("+CREG: 2,1,  0 5, 2715", 1, 5, 0x2715, None),
    ('+CGREG: 2,1,"8BE3","00002B5D",3', 1, 0x8BE3, 0x2B5D, "EDGE"),
    ('+CGREG: 1,"1422","00000142",3,"00"', 1, 0x1422, 0x142, "EDGE"),
    ('+CGREG: 2, 1, "0426", "F00F"', 1, 0x426, 0xF00F, None),
    ("+CEREG: 2,1, 1F00, 79D903 ,7", 1, 0x1F00, 0x79D903, "LTE"),
    ("+CEREG: 2,10, 2CA8, 20 ,B5583D ,7", 10, 0x2CA8, 0xB5583D, "LTE"),
    ("+CEREG: 1, 1F00, 20 ,79D903 ,7", 1, 0x1F00, 0x79D903, "LTE"),
    ("+C5GREG: 2,1,1F00,79D903,11,6,ABCDEF", 1, 0x1F00, 0x79D903, "NR"),
    ('+CREG: 2,1,"FFFE","FFFFFFFF"', 1, None, None, None),
]


@pytest.mark.parametrize(("text", "stat", "area", "cell", "rat"), REGISTRATIONS)
def test_registration_asked_for_or_not(
    text: str, stat: int, area: int | None, cell: int | None, rat: str | None
) -> None:
    """The lines are those of ModemManager's test suite."""
    (row,) = rows(text)
    assert [row.get(k) for k in ("registration", "area_code", "cell_id", "rat")] == [stat, area, cell, rat]


@pytest.mark.parametrize(
    ("text", "command", "state"),
    [
        ("+CSCON: 1", "(unasked)", "CONNECTED"),
        ("+CSCON: 0", "(unasked)", "IDLE"),
        ("+CSCON: 1,7,4", "(unasked)", "CONNECTED"),
        ("+CSCON: 1,0", "AT+CSCON?", "IDLE"),
        ("+CSCON: 0,1", "AT+CSCON?", "CONNECTED"),
    ],
)
def test_signalling_connection(text: str, command: str, state: str) -> None:
    assert rows(text, command) == [{"state": state}]


def test_operator_by_name_and_by_number() -> None:
    assert rows('+COPS: 1,0,"CHINA MOBILE",7') == [{"operator": "CHINA MOBILE", "rat": "LTE"}]
    assert rows('+COPS: 1,2,"46000",7') == [{"plmn": "46000", "rat": "LTE"}]
    assert rows("+COPS: 0") == [{}]


def levels(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(k) for k in ("rsrp_dbm", "rsrq_db", "rssi_dbm", "sinr_db", "sinr_raw"))


def place(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("rat", "plmn", "area_code", "cell_id", "physical_cell_id", "channel", "band")
    return tuple(row.get(k) for k in names)


def test_quectel_lte_with_and_without_channel_quality() -> None:
    text = '+QENG: "servingcell","NOCONN","LTE","FDD",262,03,1684B3E,204,3350,7,5,5,E8E5,-83,-14,-47,17,13,100,-'
    (row,) = rows(text, 'AT+QENG="servingcell"')
    assert place(row) == ("LTE", "26203", 0xE8E5, 0x1684B3E, 204, 3350, "7")
    assert (levels(row), row["cqi"], row["state"]) == ((-83, -14, -47, 17, 17), 13, "NOCONN")
    (short,) = rows('+QENG: "servingcell","CONNECT","LTE","FDD",250,01,2B6701,5,1300,3,5,5,866B,-97,-13,-64,3,22')
    assert levels(short) == (-97, -13, -64, None, 3)
    assert "cqi" not in short


def test_quectel_names_both_legs_of_dual_connectivity() -> None:
    lines = (
        '+QENG: "servingcell","NOCONN"\r\n'
        '+QENG: "LTE","FDD",262,01,1929500,321,1300,3,5,5,34BA,-75,-8,-50,24,12,120,-\r\n'
        '+QENG:"NR5G-NSA",262,01,774,-82,30,-11,431070,1,3,0\r\n\r\nOK\r\n'
    )
    state, lte, nr = rows(lines, 'AT+QENG="servingcell"')
    assert state == {"role": "serving", "state": "NOCONN"}
    assert (place(lte), levels(lte)) == (("LTE", "26201", 0x34BA, 0x1929500, 321, 1300, "3"), (-75, -8, -50, 24, 24))
    assert (place(nr), levels(nr)[:4]) == (("NR", "26201", None, None, 774, 431070, "1"), (-82, -11, None, 30))
    assert nr["role"] == "secondary"


def test_quectel_umts_searching_and_signal_quality() -> None:
    (umts,) = rows('+QENG: "servingcell","LIMSRV","WCDMA",432,35,584E,12DBAE3,10662,452,1,-70,-4,-,-,-,-,-')
    assert place(umts)[:6] == ("UMTS", "43235", 0x584E, 0x12DBAE3, 452, 10662)
    assert (umts["rscp_dbm"], umts["ecio_db"], umts["state"]) == (-70, -4, "LIMSRV")
    assert rows('+QENG: "servingcell","SEARCH"') == [{"role": "serving", "state": "SEARCH"}]
    (signal,) = rows('+QCSQ: "LTE",-69,-102,150,-12')
    assert levels(signal) == (-102, -12, -69, 10.0, 150)
    assert rows('+QCSQ: "NOSERVICE"') == [{"state": "NOSERVICE"}]


def test_quectel_carriers() -> None:
    first, second = rows(
        '+QCAINFO: "PCC",275,75,"LTE BAND 1",1,280,-99,-14,-67,-4\r\n+QCAINFO: "SCC",648768,10,"NR5G BAND 78",920\r\n'
    )
    assert (place(first)[4:], levels(first)[:3]) == ((280, 275, "1"), (-99, -14, -67))
    assert place(second) == ("NR", None, None, None, 920, 648768, "78")
    (network,) = rows('+QNWINFO: "FDD LTE","25001","LTE BAND 7",3100')
    assert network == {"rat": "LTE", "plmn": "25001", "band": "7", "channel": 3100}


GSTATUS = """!GSTATUS:
Current Time:  22016\t\tTemperature: 40
Reset Counter: 1\t\tMode:        ONLINE
System mode:   LTE        \tPS state:    Attached
LTE band:      B2     \t\tLTE bw:      20 MHz
LTE Rx chan:   800\t\tLTE Tx chan: 18800
LTE CA state:  ACTIVE      \t\tLTE Scell band:B12
RRC state:     RRC Connected

PCC RxM RSSI:  -45\t\tRSRP (dBm):  -81
PCC RxD RSSI:  -44\t\tRSRP (dBm):  -79
Tx Power:      15\t\tTAC:         8C65 (35666)
RSRQ (dB):     -14.0\t\tCell ID:     0A14666A (169106666)
SINR (dB):     23.8

OK
"""


@pytest.mark.parametrize("text", [GSTATUS, GSTATUS.replace("\t", "        ")])
def test_sierra_status_also_with_its_tabs_made_blanks(text: str) -> None:
    (row,) = rows(text.replace("Reset", "RING\r\nReset"), "AT!GSTATUS?")
    assert place(row) == ("LTE", None, 35666, 169106666, None, 800, "B2")
    assert levels(row)[:4] == (-81, -14, -45, 23.8)
    assert (row["modem_clock_s"], row["tx_power_dbm"], row["state"]) == (22016, 15, "RRC Connected")


def test_cellular_digital_packet_data() -> None:
    assert rows("-85,3,1,512\r\nOK\r\n", "AT+WPRSSI") == [
        {"rat": "CDPD", "rssi_dbm": -85.0, "state": "acquired", "registration": 1, "channel": 512}
    ]
    assert rows("-113,1,0,0\r\nOK\r\n", "AT+WPRSSI") == [
        {"rat": "CDPD", "rssi_dbm": -113.0, "state": "scanning", "registration": 0}
    ]
    assert rows("AT+WS50?\r\r\n050\r\nOK\r\n", "AT+WS50?") == [{"rat": "CDPD", "rssi_dbm": -88.0}]
    assert rows("ATS112?\r\r\n007\r\nOK\r\n", "ATS112?") == [{"rat": "CDPD", "bler_pct": 7.0}]


def test_ublox_by_index_and_in_decibels() -> None:
    r5 = "6,4,001,01\r\n2525,5,50,50,e8fe,1a2d001,1,d60814d1,8001,01,28,31,13.75,3,1,10,28,-50,-6,0,255,255,0"
    (row,) = rows(f"+UCGED: 2\r\n{r5}\r\nOK\r\n", "AT+UCGED?")
    assert place(row) == ("LTE", "00101", 0xE8FE, 0x1A2D001, 1, 2525, "5")
    assert levels(row)[:4] == (-113, -4.0, None, 13.75)
    r4 = '6,310,410\r\n5110,12,10,10,830e,162,-86,-14,131,-1,3,255,128,"FB306E02"'
    (row,) = rows(f"+UCGED: 2\r\n{r4}\r\nOK\r\n", "AT+UCGED?")
    assert (place(row)[:3], levels(row)[:2]) == (("LTE", "310410", 0x830E), (-86, -14))
    (row,) = rows("+UCGED: 2\r\n2,222,1\r\n1009,0,5265,11,d5bd,00,36,-1,30,30,1,1\r\nOK\r\n", "AT+UCGED?")
    assert (place(row)[:4], row["rssi_dbm"]) == (("GSM", "22201", 0xD5BD, 0x5265), -75)
    (row,) = rows('+RSRP: 162,5110,"-104.20"')
    assert (row["rsrp_dbm"], row["physical_cell_id"], row["channel"]) == (-104.2, 162, 5110)


def test_telit_layouts_are_told_apart() -> None:
    (gsm,) = rows('#RFSTS: "204 04",1001,-80,00DE,01,5,19,10,2,9878,"204007930002270","vodafone NL",1,2')
    assert (place(gsm)[:4], gsm["rssi_dbm"]) == (("GSM", "20404", 0xDE, 0x9878), -80)
    (lte,) = rows('#RFSTS: "286 01",1795,-101,-67,-15,2242,,128,3,1,0B5D121,"286016339612498","Turkcell",3,3,108')
    assert (place(lte)[:4], levels(lte)[:3]) == (("LTE", "28601", 0x2242, 0xB5D121), (-101, -15, -67))
    (umts,) = rows('#RFSTS: "310 410",4385,84,-7.0,-98,-91,DEA6,01,5,64,19,2,1,005,2883C,"310410123456789","AT&T",1,1')
    assert (umts["ecio_db"], umts["rscp_dbm"], umts["bler_pct"], umts["cell_id"]) == (-7, -98, 0.5, 0x2883C)
    assert "286016339612498" not in str(lte)


def test_telit_serving_cell_and_monitor() -> None:
    (lte,) = rows('#SERVINFO: 66786,-68,"T-Mobile","310260",3089F02,2D18,640,3,-101')
    assert (lte["rsrp_dbm"], lte["rssi_dbm"], lte["cell_id"], lte["area_code"]) == (-101, -68, 0x3089F02, 0x2D18)
    serving, neighbour = rows(
        "#MONI: Cell BSIC LAC CellId ARFCN Power C1 C2 TA RxQual PLMN\r\n"
        "#MONI: S 70 55FA 1D23 736 -83dbm 19 33 1 0 I WIND\r\n"
        "#MONI: N1 75 55FA 1297 983 -78dbm 26 20\r\nOK\r\n",
        "AT#MONI",
    )
    assert (place(serving)[2:6], serving["rssi_dbm"], serving["rxqual"]) == ((0x55FA, 0x1D23, 70, 736), -83, 0)
    assert (neighbour["role"], neighbour["rssi_dbm"], "rxqual" in neighbour) == ("neighbour", -78, False)
    (lte,) = rows("#MONI: AT&T RSRP:-92 RSRQ:-17 TAC:8B1E Id:A204F01 EARFCN:800 PWR:-54dbm DRX:1280", "AT#MONI")
    assert (levels(lte)[:3], lte["channel"]) == ((-92, -17, -54), 800)


def test_simcom_generations() -> None:
    (lte,) = rows("+CPSI: LTE,Online,460-11,0x5A1E,187214780,257,EUTRAN-BAND3,1850,5,5,-94,-850,-545,15")
    assert place(lte) == ("LTE", "46011", 0x5A1E, 187214780, 257, 1850, "BAND3")
    assert levels(lte) == (-85.0, -9.4, -54.5, None, 15)
    (sa,) = rows("+CPSI: NR5G_SA,Online,242-12,0x765D,4955280,0,NR5G_BAND78,640704,-770,-110,290")
    assert levels(sa)[:4] == (-77.0, -11.0, None, 29.0)
    (nsa,) = rows("+CPSI: NR5G_NSA,644,NR5G_BAND78,627264,-960,-120,95")
    assert (place(nsa)[4:], levels(nsa)[:4]) == ((644, 627264, "BAND78"), (-96.0, -12.0, None, 9.5))
    assert rows("+CPSI: NO SERVICE,Online") == [{"state": "NO SERVICE"}]


def test_simcom_levels_of_every_generation_have_their_unit() -> None:
    """RSRP of a CAT-M1 module was -8 dBm: it writes whole dB. Of WCDMA and GSM no level was read."""
    (narrow,) = rows("+CPSI: LTE CAT-M1,Online,240-07,0x2AFE,34564631,149,EUTRAN-BAND20,6400,3,3,-12,-81,-52,10")
    assert levels(narrow) == (-81.0, -12.0, -52.0, None, 10)
    (index,) = rows("+CPSI: LTE,Online,460-01,0x230A,175499523,318,EUTRAN-BAND3,1650,5,0,21,67,255,19")
    assert levels(index) == (None, None, None, None, 19)
    (umts,) = rows("+CPSI: WCDMA,Online,505-01,0x0152,14302219,WCDMA 850,214,4436,0,12.5,83,23,36,500")
    assert place(umts) == ("UMTS", "50501", 0x0152, 14302219, 214, 4436, "WCDMA 850")
    assert (umts["rscp_dbm"], umts["ecio_db"]) == (-83.0, -12.5)
    (old,) = rows("+CPSI: WCDMA,Online,460-01,0xD91F,93203593,WCDMA IMT 2000,316,10713,0,21,86,15,29")
    assert (old["rscp_dbm"], "ecio_db" in old) == (-86.0, False)
    (gsm,) = rows("+CPSI: GSM,Online,502-12,0x1054,62168,512 DCS 1800,-71,0,32-32")
    assert (gsm["rssi_dbm"], gsm["channel"], gsm["band"], gsm["cell_id"]) == (-71.0, 512, "DCS 1800", 62168)


def test_tools_that_own_the_port() -> None:
    mmcli = (
        '{"modem":{"signal":{"5g":{"rsrp":"--","rsrq":"--","snr":"--"},"gsm":{"rssi":"--"},'
        '"lte":{"error-rate":"--","rsrp":"-95.00","rsrq":"-12.00","rssi":"-65.00","snr":"8.40"}}}}'
    )
    lte = {"rat": "LTE", "rssi_dbm": -65.0, "rsrq_db": -12.0, "rsrp_dbm": -95.0, "sinr_db": 8.4}
    assert rows(mmcli, "mmcli -m any --signal-get -J") == [lte]
    qmicli = (
        "[/dev/cdc-wdm0] Successfully got signal info\nLTE:\n\tRSSI: '-65 dBm'\n\tRSRQ: '-12 dB'\n"
        "\tRSRP: '-95 dBm'\n\tSNR: '8.4 dB'\n5G:\n\tRSRP: 'n/a'\n"
    )
    assert rows(qmicli, "qmicli -d /dev/cdc-wdm0 --nas-get-signal-info") == [lte]
    uqmi = '[{"type":"lte","rssi":-65,"rsrq":-12,"rsrp":-95,"snr":8.4},{"type":"5gnr","rsrp":-90}]'
    assert rows(uqmi, "uqmi -d /dev/cdc-wdm0 --get-signal-info") == [lte, {"rat": "NR", "rsrp_dbm": -90.0}]


def test_what_was_not_asked_for_in_the_middle_changes_nothing() -> None:
    noisy = '\r\nRING\r\n+CREG: 1\r\n+CSQ: 15,99\r\n+CMTI: "SM",3\r\n\r\nOK\r\n'
    assert rows(noisy, "AT+CSQ") == [{"registration": 1}, {"rssi_dbm": -83.0}]


GARBLED = (
    "+CSQ: 1\x80,99", "+CSQ: abc", "+CSQ: $(reboot),1", "+CSQ:", '+QENG: "servingcell","X","6G",1',
    "+CESQ: 1,2",
)  # fmt: skip


@pytest.mark.parametrize("text", GARBLED)
def test_garbled_line_is_refused_and_no_value(text: str) -> None:
    decoded = decode("AT", text.encode("latin-1"))
    assert (decoded.readings, len(decoded.refused)) == ([], 1)


def test_no_answer_makes_control_characters_or_long_names() -> None:
    (row,) = decode("AT+COPS?", b'+COPS: 0,0,"\x1b[2J../../etc/\x9b31m' + b"x" * 500 + b'",7').readings
    assert row["operator"].isprintable()
    assert len(row["operator"]) == 32


_STRANGE = st.sampled_from([
    "+CSQ: ", "+CESQ: ", "+CREG: ", '+QENG: "servingcell",', "#RFSTS: ", "#MONI: S ", "+CPSI: LTE,",
    "+UCGED: 2\n", "!GSTATUS:\n", "#SERVINFO: ", '+QCAINFO: "PCC",', "mmcli", "9" * 400, "-1", '"', ",", "\n",
    "Cell ID: ( ", "a:b", "+QRSRP: -75,", '^HCSQ: "LTE",', '^HCSQ: "NR",', "^MONSC: NR,", "^MONNC: LTE,",
    "+XMCI: 4,", "+XCESQ: 0,", "\n+GTCCINFO:\n1,4,", "\n+GTCAINFO:\nPCC:", "\nRAT:LTE\npcell: ",
    "NR5G band: n", "+QSPN: ", "UMTS Info\n\tCell [0]:\n", "\t\tRSRP: '", "LTE | rsrp: -",
    "modem.signal.lte.rsrp: -", "<rsrp>", "</rsrp>", "rsrp: -9dBm\n", "primary-band: B3@20Mhz earfcn: ",
])  # fmt: skip
_ASKED = (
    "", "AT!GSTATUS?", "AT+UCGED?", "AT#MONI", "AT+WPRSSI", "mmcli -J", "qmicli", "uqmi", "AT^DEBUG?",
    "AT+GTCCINFO?;+GTCAINFO?", "mbimcli", "mikrotik", "hilink", "qmicli got cell location info",
)  # fmt: skip


@given(command=st.sampled_from(_ASKED), parts=st.lists(_STRANGE | st.text(max_size=20), max_size=12))
def test_any_answer_gives_columns_of_the_table_or_is_refused(command: str, parts: list[str]) -> None:
    decoded = decode(command, "".join(parts).encode())
    assert all(reading.keys() <= set(RADIO.names) for reading in decoded.readings)


def test_accuracy_of_a_location_that_is_no_number_is_left_out() -> None:
    location = location_of("100.00 1\nLocation[gps 52.5,13.25 hAcc=1E999 et=+1m39s250ms vel=1.5E1]")
    assert location is not None
    assert location.values == {"lat_deg": 52.5, "lon_deg": 13.25, "speed_mps": 15.0}
