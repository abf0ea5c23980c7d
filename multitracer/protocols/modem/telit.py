"""Answers of Telit modems: #RFSTS, #SERVINFO, #MONI.

Source: Telit AT reference guides (GM862, UC864, LE910) and recorded lines. One command has the layouts of
three technologies, which are distinguished by their fields. The subscriber's number (IMSI) is skipped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, LineFields, prefixed, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.protocols.modem.grammar import Reading

_POWER = (-160.0, 0.0)  # dBm, as in `quectel`
_IMSI = re.compile(r"\d{14,15}")
_CELL = re.compile(r"(S|N\d)\s+(.*)")
_LEVEL = re.compile(r"(-?\d{1,3})dbm", re.IGNORECASE)
_PAIR = re.compile(r"(\w{2,8}):(\S{1,20})")
_FIRST_NR_ARFCN = 120_000
"""Channels above are of NR: the EARFCN of LTE's terrestrial bands end at 70,655 (TS 36.101, 5.7.3), the
NR-ARFCN of the lowest band begin at 122,400 (TS 38.104, 5.4.2.3)."""


def rfsts(fields: LineFields) -> list[Reading]:
    """Decode #RFSTS; the technology follows from its fields.

    LTE has three consecutive levels, GSM one, UMTS a scrambling code before its levels.
    """
    network = fields.text(0).split()
    plmn = f"{network[0]:.3}{network[1]:.3}" if len(network) == 2 and all(part.isdigit() for part in network) else ""
    facts = reported(plmn=plmn, channel=fields.integer(1, 0))
    if len(fields) < 12:
        raise AnswerError("#RFSTS must have at least 14 fields; skip the line")
    is_nr = _is_new_radio(fields.integer(1, 0))
    if is_nr or (_is_negative(fields, 2) and _is_negative(fields, 3) and _is_negative(fields, 4)):
        return [facts | _lte(fields) | ({"rat": "NR"} if is_nr else {})]
    return [facts | (_gsm(fields) if _is_negative(fields, 2) else _umts(fields))]


def _is_new_radio(channel: int | None) -> bool:
    return channel is not None and channel > _FIRST_NR_ARFCN


def _is_negative(fields: LineFields, at: int) -> bool:
    return fields.text(at).startswith("-")


def _before_subscriber(fields: LineFields) -> int | None:
    """Return the cell identity, which is the field before the subscriber's number (IMSI); None if absent."""
    at = next((n for n in range(8, len(fields)) if _IMSI.fullmatch(fields.text(n))), 0)
    text = fields.text(at - 1) if at else ""
    return int(text, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,9}", text) else None


def _lte(f: LineFields) -> Reading:
    return reported(
        rat="LTE",
        rsrp_dbm=f.real(2, *_POWER),
        rssi_dbm=f.real(3, *_POWER),
        rsrq_db=f.real(4, -50.0, 20.0),
        area_code=f.hexadecimal(5),
        cell_id=_before_subscriber(f),
    )


def _gsm(f: LineFields) -> Reading:
    return reported(rat="GSM", rssi_dbm=f.real(2, *_POWER), area_code=f.hexadecimal(3), cell_id=_before_subscriber(f))


def _umts(f: LineFields) -> Reading:
    errors = f.real(13, 0.0, 1000.0)
    return reported(
        rat="UMTS",
        physical_cell_id=f.integer(2, 0, 511),
        ecio_db=f.real(3, -50.0, 20.0),
        rscp_dbm=f.real(4, *_POWER),
        rssi_dbm=f.real(5, *_POWER),
        area_code=f.hexadecimal(6),
        bler_pct=None if errors is None else errors / 10,  # "005 means 0.5 %"
        cell_id=_before_subscriber(f),
    )


def servinfo(fields: LineFields) -> list[Reading]:
    """Decode #SERVINFO; a negative ninth field is RSRP, or RSCP if more fields follow."""
    code = fields.text(3)
    facts = reported(
        channel=fields.integer(0, 0),
        rssi_dbm=fields.real(1, *_POWER),
        operator=fields.text(2, most=32),
        plmn=code if code.isdigit() and len(code) in (5, 6) else "",
    )
    area = reported(area_code=fields.hexadecimal(5))
    if not _is_negative(fields, 8):
        bsic, advance = fields.integer(4, 0, 63), fields.integer(6, 0, 63)
        return [reported(rat="GSM", physical_cell_id=bsic, timing_advance=advance) | facts | area]
    level = fields.real(8, *_POWER)
    is_nr = _is_new_radio(fields.integer(0, 0))
    if len(fields) == 9 or is_nr:
        return [reported(rat="NR" if is_nr else "LTE", rsrp_dbm=level, cell_id=fields.hexadecimal(4)) | facts | area]
    code_number = fields.integer(4, 0, 511)
    return [reported(rat="UMTS", rscp_dbm=level, physical_cell_id=code_number) | facts | area]


def moni(lines: Sequence[str]) -> list[Reading]:
    """Decode #MONI: a table of cells for GSM, lines of name:value for LTE and NR."""
    texts = [parts[1] for line in lines if (parts := prefixed(line)) and parts[0] == "#MONI"]
    cells = [_cell(row[1], row[2].split()) for text in texts if (row := _CELL.fullmatch(text))]
    if cells:
        return cells
    return [reading for text in texts if (reading := _monitored(text))]


def _monitored(text: str) -> Reading:
    """Decode one line of name:value, of LTE or NR; empty without RSRP."""
    pairs = {name.upper(): value for name, value in _PAIR.findall(text)}
    if "RSRP" not in pairs:
        return {}
    names = ("RSRP", "RSRQ", "TAC", "ID", "PWR", "SINR", "PCI")
    fields = LineFields([pairs.get(name, "").lower().removesuffix("dbm") for name in names])
    channel = LineFields([pairs.get("EARFCN", pairs.get("NRARFCN", pairs.get("ARFCN", "")))]).integer(0, 0)
    return reported(
        role="serving",
        rat="NR" if "NRARFCN" in pairs or _is_new_radio(channel) else "LTE",
        rsrp_dbm=fields.real(0, *_POWER),
        rsrq_db=fields.real(1, -50.0, 20.0),
        area_code=fields.hexadecimal(2),
        cell_id=fields.hexadecimal(3),
        channel=channel,
        rssi_dbm=fields.real(4, *_POWER),
        sinr_db=fields.real(5, -50.0, 60.0),
        physical_cell_id=fields.integer(6, 0, 1007),
    )


def _cell(name: str, words: list[str]) -> Reading:
    """Decode one row of the GSM table: BSIC LAC CellId ARFCN Power C1 C2 TA RxQual."""
    fields = LineFields([_LEVEL.sub(r"\1", word) for word in words])
    serving = name == "S"
    return reported(
        role="serving" if serving else "neighbour",
        rat="GSM",
        physical_cell_id=fields.integer(0, 0, 77),
        area_code=fields.hexadecimal(1),
        cell_id=fields.hexadecimal(2),
        channel=fields.integer(3, 0, 1023),
        rssi_dbm=fields.real(4, *_POWER),
        timing_advance=fields.integer(7, 0, 63) if serving else None,
        rxqual=fields.integer(8, 0, 7) if serving else None,
    )
