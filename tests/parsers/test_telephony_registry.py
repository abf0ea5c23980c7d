"""What Android's `dumpsys telephony.registry` says of the radio."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from multitracer.errors import FormatError
from parsers import telephony_registry
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

S = 1_000_000_000
NONE = 2147483647
STRENGTH = (
    "    mSignalStrength=SignalStrength:{mCdma=CellSignalStrengthCdma: cdmaDbm=2147483647 "
    "cdmaEcio=2147483647 "
    "evdoDbm=2147483647 evdoEcio=2147483647 evdoSnr=2147483647 level=0,mGsm=CellSignalStrengthGsm: "
    "rssi=2147483647 ber=2147483647 mTa=2147483647 mLevel=0,mWcdma=CellSignalStrengthWcdma: ss=2147483647 "
    "ber=2147483647 rscp=2147483647 ecno=2147483647 level=0,mTdscdma=CellSignalStrengthTdscdma: "
    "rssi=2147483647 "
    "ber=2147483647 rscp=2147483647 level=0,mLte=CellSignalStrengthLte: rssi=-51 rsrp=-65 rsrq=-6 rssnr=30 "
    "cqiTableIndex=2147483647 cqi=2147483647 ta=2147483647 level=4 parametersUseForLevel=0,"
    "mNr=CellSignalStrengthNr:{ csiRsrp = 2147483647 csiRsrq = 2147483647 csiSinr = 2147483647 ssRsrp = -88 "
    "ssRsrq = -12 ssSinr = 15 level = 4 },primary=CellSignalStrengthLte}\n"
)
CELLS = (
    "    mCellInfo=[CellInfoLte:{mRegistered=YES mTimeStamp=68694041640ns mCellConnectionStatus=1 "
    "CellIdentityLte:{ "
    "mCi=8765432 mPci=423 mTac=4660 mEarfcn=66536 mBands=[66] mBandwidth=2147483647 mMcc=311 mMnc=080 "
    "mAlphaLong=Big Cell Co mAlphaShort=BCC mAdditionalPlmns={} mCsgInfo=null} "
    "CellSignalStrengthLte: rssi=-51 "
    "rsrp=-78 rsrq=-8 rssnr=2147483647 cqiTableIndex=2147483647 cqi=12 ta=3 level=4}, "
    "CellInfoNr:{mRegistered=NO "
    "mTimeStamp=68694041640ns CellIdentityNr:{ mPci = 269 mTac = 5767433 mNrArfcn = 396030 mBands = [2, 25] "
    "mMcc = 311 mMnc = 480 mNci = 14567084500 mAlphaLong = Verizon Wireless mAlphaShort = Verizon } "
    "CellSignalStrengthNr:{ csiRsrp = 2147483647 ssRsrp = -95 ssRsrq = -11 ssSinr = 2147483647 "
    "level = 3 }}]\n"
)
SERVICE = (
    "    mServiceState={mVoiceRegState=1(OUT_OF_SERVICE), mDataRegState=0(IN_SERVICE), mChannelNumber=66536, "
    "mOperatorAlphaLong=Big Cell Co, mOperatorNumeric=311080, getRilDataRadioTechnology=14(LTE)}\n"
)
DUMP = "last known state:\n  Phone Id=0\n    mCallState=0\n" + SERVICE + STRENGTH + CELLS
SECOND_CARD = "  Phone Id=1\n" + STRENGTH.replace("rsrp=-65", "rsrp=-101")
EVENTS = (
    "  local logs:\n    2021-05-06T10:00:00.000 - mSignalStrength=SignalStrength:{mLte="
    "CellSignalStrengthLte: rsrp=-140}\n"
    "    mSignalStrength=SignalStrength:{mLte=CellSignalStrengthLte: rsrp=-139}\n"
)


def rows(text: str) -> list[dict[str, Any]]:
    data = text.encode()
    assert parsers.recognise(data, path="x").name == "telephony-registry"
    return list(parsed(telephony_registry.FORMAT, data)["radio"].rows())


def test_each_statement_is_a_row_and_the_largest_integer_no_value() -> None:
    service, lte, nr, cell, neighbour = rows(DUMP)
    assert (service["state"], service["rat"], service["operator"]) == ("IN_SERVICE", "LTE", "Big Cell Co")
    assert (lte["rat"], lte["role"], lte["rsrp_dbm"], lte["rssi_dbm"]) == ("LTE", "serving", -65.0, -51.0)
    assert (lte["rsrq_db"], lte["sinr_db"], lte["cqi"], lte["timing_advance"]) == (-6.0, 30.0, None, None)
    assert (nr["rat"], nr["role"], nr["rsrp_dbm"], nr["sinr_db"]) == ("NR", "secondary", -88.0, 15.0)
    assert (cell["cell_id"], cell["physical_cell_id"], cell["area_code"]) == (8765432, 423, 4660)
    assert (cell["channel"], cell["band"], cell["plmn"], cell["operator"]) == (66536, "66", "311080", "Big Cell Co")
    assert (cell["cqi"], cell["timing_advance"], cell["sinr_db"], cell["role"]) == (12, 3, None, "serving")
    assert (neighbour["cell_id"], neighbour["channel"], neighbour["band"]) == (14567084500, 396030, "2/25")
    assert (neighbour["role"], neighbour["operator"]) == ("neighbour", "Verizon Wireless")
    assert {row["time_ns"] for row in rows(DUMP)} == {None}
    assert {row["modem"] for row in rows(DUMP)} == {None}


def test_two_cards_are_two_radios() -> None:
    """The levels of a phone's second card are not those of the cell that serves its first."""
    found = rows(DUMP + SECOND_CARD)
    assert [row["modem"] for row in found] == [0] * 5 + [1] * 2
    assert [row["rsrp_dbm"] for row in found if row["modem"] == 1] == [-101.0, -88.0]


def test_loop_with_dates_has_times_and_the_log_of_events_is_not_read() -> None:
    loop = "".join(f"{1700000000 + n}.5\n{DUMP}{EVENTS}" for n in range(3))
    found = rows(loop)
    assert len(found) == 15
    assert [row["time_ns"] for row in found[::5]] == [(1700000000 + n) * S + S // 2 for n in range(3)]
    assert min(row["rsrp_dbm"] for row in found if row["rsrp_dbm"]) == -95.0
    stamped = "".join(f"2021-05-06 14:22:0{n} {STRENGTH.strip()}\n" for n in range(3))
    assert [row["time_ns"] // S for row in rows(stamped)[::2]] == [1620310920 + n for n in range(3)]
    table = parsed(telephony_registry.FORMAT, stamped.encode())["radio"]
    assert table.provenance["zone"] == "unknown"


@pytest.mark.parametrize(
    ("snr", "later", "db", "raw"), [(30, -20, None, 30), (300, 12, 30.0, 300), (-20, 130, -2.0, -20)]
)
def test_unit_of_snr_is_not_guessed(snr: int, later: int, db: float | None, raw: int) -> None:
    old = STRENGTH.replace("cqiTableIndex=2147483647 ", "")
    first = rows(old.replace("rssnr=30", f"rssnr={snr}") + old.replace("rssnr=30", f"rssnr={later}"))[0]
    assert (first["sinr_db"], first["sinr_raw"]) == (db, raw)


def test_numbers_of_early_versions_are_read() -> None:
    text = "  mSignalStrength=SignalStrength: 99 0 -120 -160 -120 -160 -1 28 -95 -10 120 2147483647 0 gsm|lte\n"
    (row,) = rows(text)
    assert (row["rat"], row["rsrp_dbm"], row["rsrq_db"], row["sinr_db"]) == ("LTE", -95.0, -10.0, 12.0)
    (row,) = rows(text.replace(": 99 0", ": 20 3").replace("-95", "2147483647"))
    assert (row["rssi_dbm"], row["rxqual"]) == (-73.0, 3)


@pytest.mark.parametrize("empty", ["mSignalStrength=null\n", "mCellInfo=[]\n", "mSignalStrength=SignalStrength:{}\n"])
def test_statement_without_a_technology_says_nothing(empty: str) -> None:
    assert len(rows(empty + STRENGTH)) == 2


def test_levels_without_a_sign_are_negative_by_cell() -> None:
    unsigned = STRENGTH.replace("ssRsrp = -88 ssRsrq = -12", "ssRsrp = 88 ssRsrq = 12")
    table = parsed(telephony_registry.FORMAT, unsigned.encode())["radio"]
    found = {row["rat"]: (row["rsrp_dbm"], row["rsrq_db"], row["sinr_db"]) for row in table.rows()}
    assert (found["NR"], found["LTE"][:2]) == ((-88.0, -12.0, 15.0), (-65.0, -6.0))
    assert any("without a sign" in text for text in table.provenance["warnings"])
    only = STRENGTH.replace("ssRsrp = -88 ssRsrq = -12", f"ssRsrp = {NONE} ssRsrq = 12")
    (nr,) = [row for row in parsed(telephony_registry.FORMAT, only.encode())["radio"].rows() if row["rat"] == "NR"]
    assert nr["rsrq_db"] == 12.0, "RSRQ of NR may be positive (TS 38.133, 10.1.11)"


def test_values_that_cannot_be_are_counted() -> None:
    table = parsed(telephony_registry.FORMAT, STRENGTH.replace("rsrp=-65", "rsrp=65").encode())["radio"]
    assert table.provenance["missing"] == {"rsrp_dbm": 1}
    assert table.missing("rsrp_dbm").tolist() == [True, False]


def test_times_of_a_loop_that_jump_are_named() -> None:
    times = [1700000000, 1700000001, 1600000000, 1700000002]
    table = parsed(telephony_registry.FORMAT, "".join(f"{at}\n{STRENGTH}" for at in times).encode())["radio"]
    back, ahead = table.provenance["warnings"]
    assert back.startswith("the times jump back 1 time, by up to 100,000,001 s, first at line 5")
    assert ahead.startswith("the times jump ahead 1 time")


def test_dump_without_a_value_is_an_error() -> None:
    with pytest.raises(FormatError, match="no value of mSignalStrength, mCellInfo or mServiceState"):
        rows("last known state:\n  mCallState=0\n")


@given(seed=st.integers(0, 10**6))
def test_any_order_of_fields_says_the_same(seed: int) -> None:
    chance = random.Random(seed)
    values = {"rssi": -70, "rsrp": -95, "rsrq": -11, "rssnr": 8, "cqiTableIndex": 1, "cqi": 9, "ta": NONE, "level": 2}
    names = list(values)
    chance.shuffle(names)
    equal = chance.choice(["=", " = "])
    fields = " ".join(f"{name}{equal}{values[name]}" for name in names)
    (row,) = rows(
        f"mSignalStrength=SignalStrength:{{mLte=CellSignalStrengthLte: {fields},primary=CellSignalStrengthLte}}\n"
    )
    found = (row["rssi_dbm"], row["rsrp_dbm"], row["rsrq_db"], row["sinr_db"], row["cqi"], row["timing_advance"])
    assert found == (-70.0, -95.0, -11.0, 8.0, 9, None)


@given(data=damaged(f"1700000000\n{DUMP}{EVENTS}1700000001\n{STRENGTH}".encode()))
def test_damaged_dump_gives_tables_or_an_error(data: bytes) -> None:
    survives(telephony_registry.parse, data)
