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


def rfsts(fields: LineFields) -> list[Reading]:
    """Decode #RFSTS; the technology follows from its fields.

    LTE has three consecutive levels, GSM one, UMTS a scrambling code before its levels.
    """
    network = fields.text(0).split()
    if len(network) == 2 and all(part.isdigit() for part in network):
        plmn = f"{network[0]:.3}{network[1]:.3}"
    else:
        plmn = ""
    facts = reported(plmn=plmn, channel=fields.integer(1, 0))
    if len(fields) < 12:
        raise AnswerError("#RFSTS must have at least 14 fields; skip the line")
    if _is_negative(fields, 2) and _is_negative(fields, 3) and _is_negative(fields, 4):
        return [facts | _lte(fields)]
    return [facts | (_gsm(fields) if _is_negative(fields, 2) else _umts(fields))]


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
    return reported(
        rat="GSM", rssi_dbm=f.real(2, *_POWER), area_code=f.hexadecimal(3), cell_id=_before_subscriber(f)
    )


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
    if len(fields) == 9:
        return [reported(rat="LTE", rsrp_dbm=level, cell_id=fields.hexadecimal(4)) | facts | area]
    code_number = fields.integer(4, 0, 511)
    return [reported(rat="UMTS", rscp_dbm=level, physical_cell_id=code_number) | facts | area]


def moni(lines: Sequence[str]) -> list[Reading]:
    """Decode #MONI: for GSM a table of cells, for LTE one line of name:value pairs."""
    texts = [parts[1] for line in lines if (parts := prefixed(line)) and parts[0] == "#MONI"]
    cells = [_cell(row[1], row[2].split()) for text in texts if (row := _CELL.fullmatch(text))]
    if cells:
        return cells
    pairs = {name.upper(): value for text in texts for name, value in _PAIR.findall(text)}
    if "RSRP" not in pairs:
        return []
    names = ("RSRP", "RSRQ", "TAC", "ID", "EARFCN", "PWR")
    fields = LineFields([pairs.get(name, "").lower().removesuffix("dbm") for name in names])
    return [
        reported(
            role="serving",
            rat="LTE",
            rsrp_dbm=fields.real(0, *_POWER),
            rsrq_db=fields.real(1, -50.0, 20.0),
            area_code=fields.hexadecimal(2),
            cell_id=fields.hexadecimal(3),
            channel=fields.integer(4, 0),
            rssi_dbm=fields.real(5, *_POWER),
        )
    ]


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
