"""The telephony registry of phones of eight makers: what each writes in a way of its own becomes the same columns.

The dumps are made here in the grammar of what users show in public (docs/formats.md lists what was tried); Huawei's is
one of the fixtures, too.
"""

from __future__ import annotations

import pytest

import parsers
from parsers import telephony_registry
from tests.conftest import FIXTURES
from tests.narrowed import parsed

_HEAD = "last known state:\n  Phone Id=0\n    mCallState=0\n"
MAKERS: dict[str, tuple[str, dict[str, dict[str, object]]]] = {
    "Google, Android 14: unused technologies are Invalid, NR beside LTE": (
        (
            "    "
            "mSignalStrength=SignalStrength:{mCdma=Invalid,mGsm=Invalid,mWcdma=Invalid,mTdscdma=Invalid,"
            "mLte=CellSignalStrengthLte: "
            "rssi=-63 rsrp=-94 rsrq=-12 rssnr=14 cqiTableIndex=1 cqi=11 ta=3 level=3 "
            "parametersUseForLevel=0,mNr=CellSignalStrengthNr:{ csiRsrp = 2147483647 csiRsrq = 2147483647 "
            "csiSinr = 2147483647 csiCqiTableIndex = 2147483647 csiCqiReport = [] ssRsrp = -101 ssRsrq = -11 "
            "ssSinr = 9 level = 2 parametersUseForLevel = 0 timingAdvance = 2147483647 "
            "},primary=CellSignalStrengthLte}\n"
        ),
        {
            "LTE serving": {"rsrp_dbm": -94.0, "sinr_db": 14.0, "cqi": 11, "timing_advance": 3},
            "NR secondary": {"rsrp_dbm": -101.0, "rsrq_db": -11.0, "sinr_db": 9.0},
        },
    ),
    "Google, Android 16: levels of a cell that gives no service, data over Wi-Fi": (
        (
            "    mServiceState={mVoiceRegState=1(OUT_OF_SERVICE), mDataRegState=1(OUT_OF_SERVICE), mChannelNumber=300, "
            "getRilVoiceRadioTechnology=14(LTE), getRilDataRadioTechnology=18(IWLAN)}\n"
            "    mSignalStrength=SignalStrength:{mCdma=CellSignalStrengthCdma: cdmaDbm=2147483647 "
            "level=0,mGsm=CellSignalStrengthGsm: rssi=2147483647 mLevel=0,mLte=CellSignalStrengthLte: rssi=-69 "
            "rsrp=-101 rsrq=-9 rssnr=11 cqiTableIndex=1 cqi=0 ta=0 level=3 parametersUseForLevel=0,"
            "mNr=CellSignalStrengthNr:{ csiRsrp = 2147483647 ssSinr = 2147483647 level = 0 parametersUseForLevel = 0 "
            "},primary=CellSignalStrengthLte}\n"
        ),
        {
            " serving": {"state": "OUT_OF_SERVICE"},
            "LTE serving": {"rsrp_dbm": -101.0, "rsrq_db": -9.0, "sinr_db": 11.0, "rssi_dbm": -69.0},
        },
    ),
    "Samsung, Android 13: a serving cell without RSSI, a neighbour without identity": (
        (
            "    mCellInfo=[CellInfoLte:{mRegistered=YES mTimeStamp=68694041640ns mCellConnectionStatus=1 "
            "CellIdentityLte:{ mCi=26385408 mPci=137 mTac=10402 mEarfcn=1300 mBands=[3] mBandwidth=20000 "
            "mMcc=262 mMnc=01 mAlphaLong=Telekom.de mAlphaShort=TDG mAdditionalPlmns={} mCsgInfo=null} "
            "CellSignalStrengthLte: rssi=2147483647 rsrp=-108 rsrq=-13 rssnr=-2 cqiTableIndex=2147483647 "
            "cqi=2147483647 ta=2147483647 level=1 parametersUseForLevel=0 android.telephony.CellConfigLte :{ "
            "isEndcAvailable = true }}, CellInfoLte:{mRegistered=NO mTimeStamp=68694041640ns "
            "mCellConnectionStatus=0 CellIdentityLte:{ mCi=2147483647 mPci=88 mTac=2147483647 mEarfcn=1300 "
            "mBands=[3] mBandwidth=2147483647 mMcc=null mMnc=null mAlphaLong= mAlphaShort= mAdditionalPlmns={} "
            "mCsgInfo=null} CellSignalStrengthLte: rssi=-80 rsrp=-115 rsrq=-19 rssnr=2147483647 "
            "cqiTableIndex=2147483647 cqi=2147483647 ta=2147483647 level=0 parametersUseForLevel=0 "
            "android.telephony.CellConfigLte :{ isEndcAvailable = false }}]\n"
        ),
        {
            "LTE serving": {
                "rsrp_dbm": -108.0,
                "sinr_db": -2.0,
                "cell_id": 26385408,
                "plmn": "26201",
                "band": "3",
                "rssi_dbm": None,
                "operator": "Telekom.de",
            },
            "LTE neighbour": {"rsrp_dbm": -115.0, "physical_cell_id": 88, "cell_id": None, "plmn": "", "operator": ""},
        },
    ),
    "OnePlus, Android 15: spaces around the signs, one object on several lines, braces around the levels": (
        (
            "    mCellInfo=[CellInfoNr:{mRegistered=YES mTimeStamp=123 mCellConnectionStatus=1\n"
            " CellIdentityNr:{ mPci = 269 mTac = 5767433 mNrArfcn = 396030 mBands = [2] mMcc = 311\n"
            " mMnc = 480 mNci = 14567084500 mAlphaLong = Verizon Wireless mAlphaShort = Verizon\n"
            " mAdditionalPlmns = {311489} }\n"
            " CellSignalStrengthNr:{ csiRsrp = 2147483647 ssRsrp = -95 ssRsrq = -11 ssSinr = 12 timingAdvance = "
            "2147483647 level = 3 }},\n"
            "CellInfoLte:{mRegistered=NO mTimeStamp=124\n"
            " CellIdentityLte:{ mCi = 12345 mPci = 101 mTac = 4660 mEarfcn = 1850 mBands = [3] mMcc = 310 mMnc = "
            "260 mAlphaLong = T-Mobile mAlphaShort = T-Mobile }\n"
            " CellSignalStrengthLte:{ rssi = -71 rsrp = -99 rsrq = -12 rssnr = 7 cqi = 9 ta = 5 level = 3 }}]\n"
        ),
        {
            "NR serving": {"rsrp_dbm": -95.0, "sinr_db": 12.0, "cell_id": 14567084500, "operator": "Verizon Wireless"},
            "LTE neighbour": {"rsrp_dbm": -99.0, "cell_id": 12345, "plmn": "310260", "operator": "T-Mobile"},
        },
    ),
    "Xiaomi, Android 10: SNR in tenths, without a table of CQI": (
        (
            "    mSignalStrength=SignalStrength:{mCdma=CellSignalStrengthCdma: cdmaDbm=2147483647 "
            "cdmaEcio=2147483647 evdoDbm=2147483647 evdoEcio=2147483647 evdoSnr=2147483647 "
            "level=0,mGsm=CellSignalStrengthGsm: rssi=2147483647 ber=2147483647 mTa=2147483647 "
            "mLevel=0,mWcdma=CellSignalStrengthWcdma: ss=2147483647 ber=2147483647 rscp=2147483647 "
            "ecno=2147483647 level=0,mLte=CellSignalStrengthLte: rssi=-65 rsrp=-92 rsrq=-9 rssnr=180 "
            "cqi=2147483647 ta=2147483647 level=4,primary=CellSignalStrengthLte}\n"
        ),
        {"LTE serving": {"rsrp_dbm": -92.0, "sinr_db": 18.0, "sinr_raw": 180}},
    ),
    "Huawei: NR without a sign": (
        (
            "    mSignalStrength=SignalStrength:{mCdma=CellSignalStrengthCdma: cdmaDbm=2147483647 "
            "cdmaEcio=2147483647 evdoDbm=2147483647 evdoEcio=2147483647 evdoSnr=2147483647 "
            "level=0,mGsm=CellSignalStrengthGsm: rssi=2147483647 ber=2147483647 mTa=2147483647 "
            "mLevel=0,mNr=CellSignalStrengthNr:{ csiRsrp = 2147483647 ssRsrp = 98 ssRsrq = 11 ssSinr = 14 level "
            "= 3 },primary=CellSignalStrengthNr}\n"
        ),
        {"NR serving": {"rsrp_dbm": -98.0, "rsrq_db": -11.0, "sinr_db": 14.0}},
    ),
    "Sony, Android 9: numbers in a row": (
        (
            "    mSignalStrength=SignalStrength: 99 0 -120 -160 -120 -160 -1 25 -103 -12 64 2147483647 0 "
            "2147483647 99 255 2147483647 gsm|lte use_rsrp_and_rssnr_for_lte_level  [-128, -118, -108, -98]\n"
        ),
        {"LTE serving": {"rsrp_dbm": -103.0, "rsrq_db": -12.0, "sinr_db": 6.4}},
    ),
    "Motorola, Android 11: WCDMA with RSCP and Ec/N0": (
        (
            "    mSignalStrength=SignalStrength:{mCdma=CellSignalStrengthCdma: cdmaDbm=2147483647 "
            "cdmaEcio=2147483647 evdoDbm=2147483647 evdoEcio=2147483647 evdoSnr=2147483647 "
            "level=0,mGsm=CellSignalStrengthGsm: rssi=2147483647 ber=2147483647 mTa=2147483647 "
            "mLevel=0,mWcdma=CellSignalStrengthWcdma: ss=-77 ber=2147483647 rscp=-88 ecno=-9 "
            "level=3,mTdscdma=CellSignalStrengthTdscdma: rssi=2147483647 ber=2147483647 rscp=2147483647 "
            "level=0,primary=CellSignalStrengthWcdma}\n"
            "    mCellInfo=[CellInfoWcdma:{mRegistered=YES mTimeStamp=1ns mCellConnectionStatus=1 "
            "CellIdentityWcdma:{ mLac=4110 mCid=91231 mPsc=312 mUarfcn=10588 mMcc=724 mMnc=05 mAlphaLong=Claro "
            "mAlphaShort=Claro mAdditionalPlmns={} mCsgInfo=null} CellSignalStrengthWcdma: ss=-77 ber=2147483647 "
            "rscp=-88 ecno=-9 level=3}]\n"
        ),
        {
            "UMTS serving": {
                "rscp_dbm": -88.0,
                "ecio_db": -9.0,
                "rssi_dbm": -77.0,
                "cell_id": 91231,
                "physical_cell_id": 312,
                "area_code": 4110,
                "plmn": "72405",
            }
        },
    ),
    "Xiaomi, Android 10: an operator for voice and one for data": (
        (
            "    mServiceState={mVoiceRegState=0(IN_SERVICE), mDataRegState=0(IN_SERVICE), mChannelNumber=1600, "
            "mVoiceOperatorAlphaLong=Mobitel, mVoiceOperatorAlphaShort=Mob, mDataOperatorAlphaLong=Mobitel, "
            "getRilDataRadioTechnology=14(LTE)}\n"
        ),
        {"LTE serving": {"state": "IN_SERVICE", "operator": "Mobitel"}},
    ),
    "Router with a phone's modem: standalone NR, a band twice": (
        (
            "    mCellInfo=[CellInfoNr:{ mRegistered=YES CellIdentityNr:{ mPci = 501 mTac = 7001122 mBands = [41, "
            "41] "
            "mMcc = 460 mMnc = 00 } CellSignalStrengthNr:{ ssRsrp = -82 ssRsrq = -10 ssSinr = 17 level = 3 } }]\n"
        ),
        {"NR serving": {"rsrp_dbm": -82.0, "sinr_db": 17.0, "band": "41", "plmn": "46000"}},
    ),
    "LG, Android 8: registered is true, objects have names": (
        (
            "    mCellInfo=[CellInfoLte:{mRegistered=true mTimeStampType=OEM_RIL mTimeStamp=1791127000000ns "
            "mCellIdentity=CellIdentityLte:{ mCi=1234567 mPci=312 mTac=501 mEarfcn=1650 mMcc=722 mMnc=34 "
            "mAlphaLong=Personal mAlphaShort=Personal } mCellSignalStrength=CellSignalStrengthLte: rssi=99 "
            "rsrp=-85 rsrq=-10 rssnr=150 cqi=15 ta=2147483647 level=4}]\n"
        ),
        {"LTE serving": {"rsrp_dbm": -85.0, "rsrq_db": -10.0, "sinr_db": 15.0, "cell_id": 1234567, "rssi_dbm": None}},
    ),
    "Samsung, Android 11: the bar after the levels, a masked cell, no table of CQI": (
        (
            "    mSignalStrength=SignalStrength:{mCdma=Invalid,mGsm=Invalid,mWcdma=Invalid,mTdscdma=Invalid,"
            "mLte=CellSignalStrengthLte: rssi=-91 rsrp=-113 rsrq=-14 rssnr=30 cqi=7 ta=2147483647 "
            "level=1,mNr=Invalid,"
            "SignalBarInfo{ lteLevel=2 nrLevel=0 },rat=14,primary=CellSignalStrengthLte}\n"
            "    mServiceState={mVoiceRegState=0(IN_SERVICE), mDataRegState=0(IN_SERVICE), mChannelNumber=6300, "
            "mOperatorAlphaLong=<MASKED>, mOperatorAlphaShort=<MASKED>, getRilDataRadioTechnology=14(LTE), "
            "cellIdentity=CellIdentityLte:{ mCi=2****17 mPci=208 mTac=4***0 mEarfcn=6300}, nrState=****}\n"
        ),
        {
            "LTE serving": {
                "rsrp_dbm": -113.0,
                "sinr_raw": 30.0,
                "sinr_db": None,
                "cell_id": None,
                "state": "IN_SERVICE",
            }
        },
    ),
    "Xiaomi, Android 12: a level of its own after each technology, GSM in use": (
        (
            "    mSignalStrength=SignalStrength:{mCdma=CellSignalStrengthCdma: cdmaDbm=2147483647 "
            "cdmaEcio=2147483647 evdoDbm=2147483647 evdoEcio=2147483647 evdoSnr=2147483647 miuiLevel=0 level=0,"
            "mGsm=CellSignalStrengthGsm: rssi=-61 ber=99 mTa=2147483647 miuiLevel=5 mLevel=4,"
            "mWcdma=CellSignalStrengthWcdma: ss=2147483647 ber=2147483647 rscp=2147483647 ecno=2147483647 "
            "miuiLevel=0 "
            "level=0,mTdscdma=CellSignalStrengthTdscdma: rssi=-70 ber=2147483647 rscp=-80 miuiLevel=0 level=0,"
            "mLte=CellSignalStrengthLte: rssi=2147483647 rsrp=2147483647 rsrq=2147483647 rssnr=2147483647 "
            "cqi=2147483647 ta=2147483647 miuiLevel=0 level=0,primary=CellSignalStrengthGsm}\n"
        ),
        {"GSM serving": {"rssi_dbm": -61.0, "rxqual": None}},
    ),
    "Huawei, Android 11 without the maker's system: zeros and the least level for what is not measured": (
        (
            "    mSignalStrength=SignalStrength:{mCdma=CellSignalStrengthCdma: cdmaDbm=0 cdmaEcio=0 "
            "level=4,mGsm=CellSignalStrengthGsm: rssi=-113 "
            "ber=2147483647 mTa=0 "
            "mLevel=0,mWcdma=CellSignalStrengthWcdma: ss=-113 ber=0 rscp=-120 ecno=-24 level=0,"
            "mLte=CellSignalStrengthLte: rssi=-113 rsrp=2147483647 rsrq=0 rssnr=0 cqi=0 ta=0 level=0,"
            "mNr=CellSignalStrengthNr:{ ssRsrp = 2147483647 ssRsrq = 0 ssSinr = 0 level = 0 },"
            "primary=CellSignalStrengthLte}\n"
            "    mCellInfo=[CellInfoLte:{mRegistered=YES mTimeStamp=5ns mCellConnectionStatus=2147483647 "
            "CellIdentityLte:{ "
            "mCi=33445566 mPci=211 mTac=20111 mEarfcn=1500 mBands=[] mBandwidth=2147483647 mMcc=310 mMnc=260 "
            "mAlphaLong= "
            "mAlphaShort= mAdditionalPlmns={} mCsgInfo=null} CellSignalStrengthLte: rssi=2147483647 rsrp=-97 "
            "rsrq=-10 "
            "rssnr=0 cqi=2147483647 ta=2147483647 level=3 parametersUseForLevel=0}]\n"
        ),
        {"LTE serving": {"rsrp_dbm": -97.0, "rsrq_db": -10.0, "sinr_raw": 0.0, "rssi_dbm": -113.0, "plmn": "310260"}},
    ),
    "LG, Android 10: NR in the codes of the network's reports, 255 for none": (
        (
            "    mCellInfo=[CellInfoNr:{ mRegistered=YES mTimeStamp=3ns mCellConnectionStatus=1 CellIdentityNr:{ "
            "mPci = 151 "
            "mTac = 7 mNrArfcn = 126500 mMcc = 310 mMnc = 260 mNci = 21 mAlphaLong = Red mAlphaShort = Red } "
            "CellSignalStrengthNr:{ csiRsrp = 255 csiRsrq = 255 csiSinr = 255 ssRsrp = 66 ssRsrq = 65 ssSinr = 58 "
            "level = 0 "
            "} }, CellInfoNr:{ mRegistered=NO mTimeStamp=3ns mCellConnectionStatus=0 CellIdentityNr:{ mPci = 45 "
            "mTac = 2147483647 mNrArfcn = 126500 mMcc = null mMnc = null mNci = 0 mAlphaLong =  mAlphaShort =  } "
            "CellSignalStrengthNr:{ csiRsrp = 255 ssRsrp = 50 ssRsrq = 40 ssSinr = 30 level = 0 } }]\n"
        ),
        {
            "NR serving": {"rsrp_dbm": -90.0, "rsrq_db": -11.0, "sinr_db": 6.0, "cell_id": 21},
            "NR neighbour": {"rsrp_dbm": -106.0, "rsrq_db": -23.5, "sinr_db": -8.0, "operator": ""},
        },
    ),
    "Sony, Android 7: state and names in a row": (
        (
            "  mServiceState=0 0 voice home data home Red Tree Red Tree 23001 Red Tree Red Tree 23001  LTE HSPAP "
            "CSS not "
            "supported -1 -1 RoamInd=-1 DefRoamInd=-1 EmergOnly=false IsDataRoamingFromRegistration=false\n"
        ),
        {"HSPA serving": {"state": "IN_SERVICE", "plmn": "23001", "operator": "Red Tree"}},
    ),
    "Samsung, Android 4: numbers in a row, -1 for none": (
        "  mSignalStrength=SignalStrength: 99 -1 -1 -1 -1 -1 -1 27 -89 -8 226 -1 2147483647 gsm|lte 0x3 level=3\n",
        {"LTE serving": {"rsrp_dbm": -89.0, "rsrq_db": -8.0, "sinr_db": 22.6, "cqi": None}},
    ),
    "Sunmi, Android 7: no service, no names": (
        (
            "  mServiceState=1 1 voice home data home null null null null null null  Unknown Unknown CSS not "
            "supported -1 -1 "
            "RoamInd=-1 DefRoamInd=-1 EmergOnly=false IsUsingCarrierAggregation=false mRilImsRadioTechnology=0\n"
            "  mSignalStrength=SignalStrength: 99 0 -120 -160 -120 -1 -1 99 2147483647 2147483647 2147483647 "
            "2147483647 "
            "2147483647 gsm|lte\n"
        ),
        {" serving": {"state": "OUT_OF_SERVICE", "plmn": "", "operator": ""}},
    ),
    "Huawei, Android 5: RSSI as a number of 0 to 31, CDMA beside LTE": (
        (
            "  mCellInfo=[CellInfoCdma:{mRegistered=YES mTimeStampType=oem_ril mTimeStamp=9ns CellIdentityCdma:{ "
            "mNetworkId=12 mSystemId=13999 mBasestationId=8555 mLongitude=1 mLatitude=2} CellSignalStrengthCdma: "
            "cdmaDbm=-73 cdmaEcio=-70 evdoDbm=-2147483647 evdoEcio=-2147483647 evdoSnr=2147483647}, "
            "CellInfoLte:{mRegistered=YES mTimeStampType=oem_ril mTimeStamp=9ns CellIdentityLte:{ mMcc=460 mMnc=11 "
            "mCi=1630001 mPci=67 mTac=39001} CellSignalStrengthLte: ss=20 rsrp=-101 rsrq=-8 rssnr=2147483647 "
            "cqi=2147483647 ta=2147483647}, CellInfoTdscdma:{mRegistered=NO mTimeStamp=9ns CellIdentityTdscdma:{ "
            "mLac=1 "
            "mCid=2} CellSignalStrengthTdscdma: rssi=-80 rscp=-90}, CellInfoGsm:{mRegistered=NO "
            "mTimeStampType=oem_ril "
            "mTimeStamp=9ns CellIdentityGsm:{ mMcc=460 mMnc=01 mLac=33001 mCid=27001} CellSignalStrengthGsm: ss=29 "
            "ber=99}]\n"
        ),
        {
            "CDMA serving": {"rssi_dbm": -73.0, "ecio_db": -7.0, "cell_id": 8555},
            "LTE serving": {"rsrp_dbm": -101.0, "rssi_dbm": -73.0, "cell_id": 1630001, "plmn": "46011"},
            "GSM neighbour": {"rssi_dbm": -55.0, "cell_id": 27001, "area_code": 33001},
        },
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_what_a_maker_writes_is_in_columns(maker: str) -> None:
    text, wanted = MAKERS[maker]
    data = (_HEAD + text).encode()
    assert parsers.recognise(data, path="x").name == "telephony-registry"
    table = parsed(telephony_registry.FORMAT, data)["radio"]
    rows = list(table.rows())
    assert {f"{row['rat']} {row['role']}" for row in rows} == set(wanted)
    for name, columns in wanted.items():
        rat, _, role = name.rpartition(" ")
        own = [row for row in rows if (row["rat"], row["role"]) == (rat, role)]
        values = {
            column: next((row[column] for row in own if row[column] not in (None, "")), None) for column in columns
        }
        assert values == {column: value if value != "" else None for column, value in columns.items()}
    assert table.provenance["skipped"] == {}


@pytest.mark.fixtures
def test_real_dump_of_a_huawei_is_in_columns() -> None:
    form, tables = parsers.read(FIXTURES / "reports" / "tel_huawei_abs.txt")
    assert form.name == "telephony-registry"
    assert isinstance(tables, dict)
    (cell,) = [row for row in tables["radio"].rows() if row["cell_id"] is not None]
    assert (cell["rat"], cell["role"], cell["rsrp_dbm"], cell["channel"]) == ("NR", "serving", -98.0, 627264)
