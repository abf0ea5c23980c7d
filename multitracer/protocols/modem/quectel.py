"""Answers of Quectel modems: +QENG, +QCSQ, +QCAINFO, +QNWINFO, +QSPN, +QRSRP, +QRSRQ, +QSINR.

Source: recorded lines of EC2x, EM12, RM500 and their AT manuals. The unit of SINR depends on the firmware:
some report dB, EC2x reports n = 0 to 250 with dB = n / 5 - 20. If a line does not show the unit, only
`sinr_raw` is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, LineFields, reported

if TYPE_CHECKING:
    from multitracer.protocols.modem.grammar import Reading

_LONG_LTE_FIELDS = 20
"""Number of fields of the long LTE form (RM500, EM12), with CQI and transmit power; its SINR is in dB."""
_LARGEST_SINR_DB = 40
"""Maximum SINR in dB; larger values are in fifths of a dB above -20 dB (Quectel's manuals; 0 to 250)."""
_POWER = (-160.0, -1.0)
"""Range of levels in dBm, wider than the reports of TS 36.133, 9.1.4 and TS 38.133, 10.1.6 (-156 to -31)."""
_QUALITY = (-50.0, 20.0)  # dB: wider than TS 36.133, 9.1.7 and TS 38.133 (RSRQ -43 to 20)
_SINR = (-50.0, 60.0)  # dB: wider than TS 38.133 (SINR -23 to 40)


def qeng(fields: LineFields) -> list[Reading]:
    """Decode one line of `AT+QENG="servingcell"` or `"neighbourcell"`."""
    kind = fields.text(0).lower()
    if kind.startswith("neighbourcell"):
        return _neighbour(fields)
    if kind == "servingcell":
        technology, state, at = fields.text(2), fields.text(1, most=16), 3
    else:
        technology, state, at = fields.text(0), "", 1
    if not technology:
        return [reported(role="serving", state=state)]
    reader = _CELLS.get(technology)
    if reader is None:
        raise AnswerError(f"+QENG has the unknown technology {technology!r}; skip the line")
    role = "secondary" if technology == "NR5G-NSA" else "serving"
    return [reported(role=role, state=state) | reader(fields, at)]


def _lte(f: LineFields, at: int) -> Reading:
    """Decode the LTE fields of +QENG, which begin with `<is_tdd>` at position `at`."""
    long = len(f) - at + 3 >= _LONG_LTE_FIELDS
    raw = f.integer(at + 13)
    return reported(
        rat="LTE",
        plmn=f.plmn(at + 1, at + 2),
        cell_id=f.hexadecimal(at + 3),
        physical_cell_id=f.integer(at + 4, 0, 503),
        channel=f.integer(at + 5, 0),
        band=f.text(at + 6, most=16),
        area_code=f.hexadecimal(at + 9),
        rsrp_dbm=f.real(at + 10, *_POWER),
        rsrq_db=f.real(at + 11, *_QUALITY),
        rssi_dbm=f.real(at + 12, *_POWER),
        sinr_raw=raw,
        sinr_db=lte_sinr_db(raw, is_db=long),
        cqi=f.integer(at + 14, 0, 15) if long else None,
    )


def lte_sinr_db(raw: int | None, *, is_db: bool) -> float | None:
    """Return SINR in dB; None if the number can be in dB or an index from 0 to 250."""
    if raw is None or not -_LARGEST_SINR_DB <= raw <= 250:
        return None
    if abs(raw) > _LARGEST_SINR_DB:
        return raw / 5 - 20
    return float(raw) if is_db or raw < 0 else None


def _standalone(f: LineFields, at: int) -> Reading:
    return reported(
        rat="NR",
        plmn=f.plmn(at + 1, at + 2),
        cell_id=f.hexadecimal(at + 3),
        physical_cell_id=f.integer(at + 4, 0, 1007),
        area_code=f.hexadecimal(at + 5),
        channel=f.integer(at + 6, 0),
        band=f.text(at + 7, most=16),
        rsrp_dbm=f.real(at + 9, *_POWER),
        rsrq_db=f.real(at + 10, *_QUALITY),
        sinr_db=f.real(at + 11, *_SINR),
    )


def _beside_lte(f: LineFields, at: int) -> Reading:
    """Decode the NR fields of EN-DC (LTE with an NR carrier), in which SINR comes before RSRQ."""
    return reported(
        rat="NR",
        plmn=f.plmn(at, at + 1),
        physical_cell_id=f.integer(at + 2, 0, 1007),
        rsrp_dbm=f.real(at + 3, *_POWER),
        sinr_db=f.real(at + 4, *_SINR),
        rsrq_db=f.real(at + 5, *_QUALITY),
        channel=f.integer(at + 6, 0),
        band=f.text(at + 7, most=16),
    )


def _umts(f: LineFields, at: int) -> Reading:
    return reported(
        rat="UMTS",
        plmn=f.plmn(at, at + 1),
        area_code=f.hexadecimal(at + 2),
        cell_id=f.hexadecimal(at + 3),
        channel=f.integer(at + 4, 0),
        physical_cell_id=f.integer(at + 5, 0, 511),
        rscp_dbm=f.real(at + 7, *_POWER),
        ecio_db=f.real(at + 8, *_QUALITY),
    )


def _gsm(f: LineFields, at: int) -> Reading:
    level = f.integer(at + 7, -120, 63)
    return reported(
        rat="GSM",
        plmn=f.plmn(at, at + 1),
        area_code=f.hexadecimal(at + 2),
        cell_id=f.hexadecimal(at + 3),
        physical_cell_id=f.integer(at + 4, 0, 63),
        channel=f.integer(at + 5, 0, 1023),
        band=f.text(at + 6, most=16),
        rssi_dbm=None if level is None else float(level if level < 0 else level - 111),
        timing_advance=f.integer(at + 16, 0, 63),
        rxqual=f.integer(at + 22, 0, 7),
    )


_CELLS = {
    "LTE": _lte, "NR5G-SA": _standalone, "NR5G-NSA": _beside_lte, "WCDMA": _umts, "GSM": _gsm,
}  # fmt: skip


def _neighbour(f: LineFields) -> list[Reading]:
    if f.text(1) != "LTE":
        return []
    return [
        reported(
            role="neighbour",
            rat="LTE",
            channel=f.integer(2, 0),
            physical_cell_id=f.integer(3, 0, 503),
            rsrq_db=f.real(4, *_QUALITY),
            rsrp_dbm=f.real(5, *_POWER),
            rssi_dbm=f.real(6, *_POWER),
        )
    ]


def qcsq(fields: LineFields) -> list[Reading]:
    """Decode `+QCSQ: <sysmode>,...`; SINR is in steps of 0.2 dB from -20 dB."""
    mode = fields.text(0)
    if mode in ("LTE", "CAT-M1", "eMTC", "NBIoT", "CAT-NB1"):
        raw = fields.integer(3, 0, 250)
        return [
            reported(
                rat="NB-IoT" if "NB" in mode else "LTE",
                rssi_dbm=fields.real(1, *_POWER),
                rsrp_dbm=fields.real(2, *_POWER),
                sinr_raw=raw,
                sinr_db=None if raw is None else raw / 5 - 20,
                rsrq_db=fields.real(4, *_QUALITY),
            )
        ]
    if mode == "WCDMA":
        rssi, rscp, ecio = (fields.real(n, *_POWER) for n in (1, 2, 3))
        return [reported(rat="UMTS", rssi_dbm=rssi, rscp_dbm=rscp, ecio_db=ecio)]
    if mode in ("GSM", "NOSERVICE"):
        return [reported(rat=mode if mode == "GSM" else "", state=mode, rssi_dbm=fields.real(1, *_POWER))]
    raise AnswerError("+QCSQ has an unknown mode; skip the line")


def qcainfo(fields: LineFields) -> list[Reading]:
    """Decode one component carrier: `"PCC"` or `"SCC"`, channel, bandwidth, band, then by technology.

    LTE: state, PCI, RSRP, RSRQ, RSSI, SINR. NR: PCI, or state, PCI and three fields of the uplink; then RSRP,
    RSRQ and SINR in hundredths of a dB if `AT+QCAINFO=1` was set.
    """
    role = "serving" if fields.text(0).upper() == "PCC" else "secondary"
    rat = "NR" if fields.text(3).startswith("NR5G") else "LTE"
    facts = reported(role=role, rat=rat, band=_band(fields.text(3)), channel=fields.integer(1, 0))
    if rat == "LTE":
        if len(fields) < _CARRIER_FIELDS:
            return [facts | reported(physical_cell_id=fields.integer(4, 0, 503))]
        rsrp, rsrq, rssi = fields.real(6, *_POWER), fields.real(7, *_QUALITY), fields.real(8, *_POWER)
        levels = reported(rsrp_dbm=rsrp, rsrq_db=rsrq, rssi_dbm=rssi, sinr_raw=fields.integer(9))
        return [facts | levels | reported(physical_cell_id=fields.integer(5, 0, 503))]
    cell, level = (5, 9) if len(fields) >= _CARRIER_FIELDS else (4, 5)
    raw = fields.integer(level + 2, -5000, 6000)
    return [
        facts
        | reported(
            physical_cell_id=fields.integer(cell, 0, 1007),
            rsrp_dbm=fields.real(level, *_POWER),
            rsrq_db=fields.real(level + 1, *_QUALITY),
            sinr_raw=raw,
            sinr_db=None if raw is None else raw / 100,
        )
    ]


_CARRIER_FIELDS = 9
"""Minimum number of fields of a carrier with levels (LTE), or with the fields of its uplink (NR)."""


def qnwinfo(fields: LineFields) -> list[Reading]:
    """Decode `+QNWINFO: <act>,<plmn>,<band>,<channel>`."""
    act, plmn = fields.text(0), fields.text(1)
    return [
        reported(
            rat=next((rat for word, rat in _OF_ACT.items() if word in act), ""),
            plmn=_plmn(plmn),
            band=_band(fields.text(2)),
            channel=fields.integer(3, 0),
        )
    ]


_OF_ACT = {"NR5G": "NR", "NBIoT": "NB-IoT", "LTE": "LTE", "CAT-M": "LTE", "eMTC": "LTE"}
"""Technology by a word of `<act>` of +QNWINFO."""


def qspn(fields: LineFields) -> list[Reading]:
    """Decode `+QSPN: <full name>,<short name>,<provider>,<alphabet>,<plmn>`; UCS2 names are not decoded."""
    name = fields.text(0, most=32) if fields.text(3) in ("", "0") else ""
    return [reported(operator=name, plmn=_plmn(fields.text(4)))]


def qrsrp(fields: LineFields) -> list[Reading]:
    """Decode `+QRSRP: <main>,<diversity>,<third>,<fourth>,<mode>` in dBm."""
    return _branches(fields, "rsrp_dbm", (-139.9, -20.0))


def qrsrq(fields: LineFields) -> list[Reading]:
    """Decode `+QRSRQ`, which has the fields of `+QRSRP`, in dB."""
    return _branches(fields, "rsrq_db", _QUALITY)


def qsinr(fields: LineFields) -> list[Reading]:
    """Decode `+QSINR`, which has the fields of `+QRSRP`, in dB."""
    return _branches(fields, "sinr_db", _SINR)


def _branches(fields: LineFields, column: str, possible: tuple[float, float]) -> list[Reading]:
    """Return the best branch: a level of several receivers is not below that of any (TS 36.214, 5.1.1).

    An unused receiver has -32768 or -140.
    """
    texts = [fields.text(at) for at in range(len(fields))]
    last = texts[-1].upper() if texts else ""
    mode = last if last[:1].isalpha() else ""
    count = len(texts) - 1 if mode else len(texts)
    levels = [level for at in range(count) if (level := fields.real(at, *possible)) is not None]
    rat = "NR" if mode.startswith("NR") else "LTE" if mode.startswith("LTE") else ""
    return [reported(rat=rat, **{column: max(levels, default=None)})]


def _plmn(text: str) -> str:
    return text if text.isdigit() and len(text) in (5, 6) else ""


def _band(text: str) -> str:
    return text.removeprefix("LTE BAND ").removeprefix("NR5G BAND ")[:16]
