"""Answers of Fibocom modems, and of the Intel chips in some: +GTCCINFO, +GTCAINFO, +XMCI, +XCESQ.

Source: AT manuals of L850, FM150 and FM350, ModemManager's plug-in for XMM, recorded answers. Levels are bins
of TS 36.133 and TS 38.133, converted to their lower edge as those of +CESQ. The scale of SINR in +GTCCINFO
differs between chips, so only `sinr_raw` has it. FM150 and FM160 write channel and PCI in hexadecimal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, LineFields, fields_of, index_db, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.protocols.modem.grammar import Reading

_TECHNOLOGY = {2: "UMTS", 4: "LTE", 9: "NR"}
"""Technology by the second field of +GTCCINFO."""
_NOWHERE = (0xFFFE, 0xFFFF, 0xFFFFFF, 0xFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFF)
"""Codes of an area and of a cell that are not known, in the widths in which modems write them."""
_CELL_ROW = re.compile(r"\s*[12]\s*,\s*\d{1,2}\s*,")
_CARRIER = re.compile(r"(PCC|SCC)\s*\d{0,2}\s*:\s*(.*)", re.IGNORECASE)
_POWER = (-160.0, -1.0)  # dBm, as in `quectel`
_SERVING_FIELDS = 14  # with band, bandwidth and SINR (AT manual of FM350, +GTCCINFO)
_NEIGHBOUR_FIELDS = 12  # the same, without band and SINR


def gtccinfo(lines: Sequence[str]) -> list[Reading]:
    """Decode the rows after `+GTCCINFO:`, one for each cell."""
    rows = [LineFields([text for text, _ in fields_of(line)]) for line in lines if _CELL_ROW.match(line)]
    is_hexadecimal = any(re.search("[A-Fa-f]", row.text(6) + row.text(7)) for row in rows)
    return [_row(row, is_hexadecimal=is_hexadecimal) for row in rows]


def _row(f: LineFields, *, is_hexadecimal: bool) -> Reading:
    rat = _TECHNOLOGY.get(f.integer(1) or 0)
    if rat is None or len(f) < _NEIGHBOUR_FIELDS:
        raise AnswerError("+GTCCINFO has a cell of an unknown form; skip the answer")
    serving = f.integer(0) == 1
    number = f.hexadecimal if is_hexadecimal else f.integer
    channel, code = number(6), number(7)
    facts = reported(
        role="serving" if serving else "neighbour",
        rat=rat,
        plmn=f.plmn(2, 3),
        area_code=_somewhere(f.hexadecimal(4)),
        cell_id=_somewhere(f.hexadecimal(5)),
        channel=channel,
        physical_cell_id=code if code is not None and 0 <= code <= 1007 else None,
    )
    if rat == "UMTS" or (serving and len(f) < _SERVING_FIELDS):
        return facts
    if serving:
        facts |= reported(band=_band(f.text(8)), sinr_raw=f.integer(10, -200, 254))
    elif rat == "NR":
        facts |= reported(sinr_raw=f.integer(8, -200, 254))
    at = 12 if serving else 10
    return facts | _levels(rat, f.integer(at), f.integer(at + 1))


def _levels(rat: str, rsrp: int | None, rsrq: int | None) -> Reading:
    """Return the lower edges of bins: TS 36.133, 9.1.4 and 9.1.7; TS 38.133, 10.1.6 and 10.1.11."""
    if rat == "NR":
        power, quality = _bin(rsrp, 126, -157.0), _bin(rsrq, 126, -43.0, 0.5)
    else:
        power, quality = _bin(rsrp, 97, -141.0), _bin(rsrq, 34, -20.0, 0.5)
    return reported(rsrp_dbm=power, rsrq_db=quality)


def _bin(index: int | None, last: int, zero: float, step: float = 1.0) -> float | None:
    return index_db(index if index is not None and 0 <= index <= last else None, zero=zero, step=step)


def gtcainfo(lines: Sequence[str]) -> list[Reading]:
    """Decode the carriers after `+GTCAINFO:`: `PCC:` and `SCC n:`, or the rows of L850.

    Of `PCC` and `SCC`, the last field is RSRP in dBm; positive numbers there are of another form.
    """
    readings: list[Reading] = []
    for line in lines:
        text = line.partition("+GTCAINFO:")[2] if "+GTCAINFO:" in line else line
        if match := _CARRIER.match(text.strip()):
            readings.append(_carrier(match[1].upper(), LineFields([f for f, _ in fields_of(match[2])])))
        elif text.count(",") >= 9:
            readings.append(_l850(LineFields([field for field, _ in fields_of(text)])))
    return readings


def _carrier(kind: str, f: LineFields) -> Reading:
    at = 0 if kind == "PCC" else 2  # after its state and whether it has an uplink
    code = f.text(at)
    is_hexadecimal = re.search("[A-Fa-f]", f.text(at + 1) + f.text(at + 2))
    number = f.hexadecimal if is_hexadecimal else f.integer
    pci, channel = number(at + 1), number(at + 2)
    return reported(
        role="serving" if kind == "PCC" else "secondary",
        rat="NR" if code.startswith("50") and len(code) >= 3 else "LTE",
        band=_band(code),
        physical_cell_id=pci if pci is not None and 0 <= pci <= 1007 else None,
        channel=channel,
        rsrp_dbm=f.real(-1, *_POWER) if len(f) > at + 6 else None,
    )


def _l850(f: LineFields) -> Reading:
    """Decode a row of L850: index, band[, MCC, MNC, TAC, cell], PCI, RSRP, RSRQ, SINR in half dB, channel."""
    serving = len(f) >= _SERVING_FIELDS
    at = 6 if serving else 2
    raw = f.integer(at + 3, -200, 254)
    facts = reported(
        role="serving" if serving else "secondary",
        rat="LTE",
        band=f.text(1, most=16),
        physical_cell_id=f.integer(at, 0, 503),
        sinr_raw=raw,
        sinr_db=None if raw is None else raw / 2,
        channel=f.integer(at + 4, 0),
    )
    if serving:
        facts |= reported(plmn=f.plmn(2, 3))
    return facts | _levels("LTE", f.integer(at + 1), f.integer(at + 2))


def _band(code: str) -> str:
    """Return the band of a code: 103 is band 3, 501 and 5078 are n1 and n78."""
    if re.fullmatch(r"50\d{1,3}", code):
        return code[2:]
    return str(int(code) - 100) if re.fullmatch(r"1\d\d", code) else ""


def _somewhere(code: int | None) -> int | None:
    return None if code in _NOWHERE or code == 0 else code


def xmci(fields: LineFields) -> list[Reading]:
    """Decode `+XMCI: <type>,...`, one cell; odd types are neighbours.

    Fields of XMM 7260 and later have the channels; those of XMM 7160 do not.
    """
    kind = fields.integer(0, 0, 5)
    if kind is None:
        raise AnswerError("+XMCI has an unknown type of cell; skip the line")
    rat = ("GSM", "UMTS", "LTE")[kind // 2]
    mcc = fields.text(1)
    facts = reported(
        role="neighbour" if kind % 2 else "serving",
        rat=rat,
        plmn=fields.plmn(1, 2) if mcc.strip("0") else "",
        area_code=_somewhere(_code(fields, 3)),
        cell_id=_somewhere(_code(fields, 4)),
        physical_cell_id=_code(fields, 5, most=503 if rat == "LTE" else 511),
    )
    if rat == "GSM":
        quality = fields.integer(7, 0, 7)
        level = _bin(fields.integer(6), 63, -111.0)
        return [facts | reported(rssi_dbm=level, rxqual=quality, channel=_code(fields, 8, most=1023))]
    at = 9 if len(fields) > 11 else 6
    if at > 6:
        facts |= reported(channel=_code(fields, 6, most=3_279_165))
    if rat == "UMTS":
        at += 1 if at > 6 else 0  # RSSI comes first
        rscp, ecio = _bin(fields.integer(at), 96, -121.0), _bin(fields.integer(at + 1), 49, -24.5, 0.5)
        return [facts | reported(rscp_dbm=rscp, ecio_db=ecio)]
    return [facts | _levels("LTE", fields.integer(at), fields.integer(at + 1)) | _half_db(fields, at + 2)]


def xcesq(fields: LineFields) -> list[Reading]:
    """Decode `+XCESQ: <n>` and the fields of +CESQ, then SINR of LTE in half dB."""
    if len(fields) < 7:
        raise AnswerError("+XCESQ must have at least 7 fields; skip the line")
    rscp, ecio = _bin(fields.integer(3), 96, -121.0), _bin(fields.integer(4), 49, -24.5, 0.5)
    by_rat = [
        ("GSM", reported(rssi_dbm=_bin(fields.integer(1), 63, -111.0))),
        ("UMTS", reported(rscp_dbm=rscp, ecio_db=ecio)),
        ("LTE", _levels("LTE", fields.integer(6), fields.integer(5)) | _half_db(fields, 7)),
    ]
    return [{"rat": rat, **columns} for rat, columns in by_rat if columns] or [{}]


def _half_db(fields: LineFields, at: int) -> Reading:
    raw = fields.integer(at, -100, 100)
    return reported(sinr_raw=raw, sinr_db=None if raw is None else raw / 2)


def _code(fields: LineFields, at: int, *, most: int = 1 << 36) -> int | None:
    """Return a number that is hexadecimal if it begins with 0x; None if it is impossible."""
    text = fields.text(at)
    if text[:2].lower() == "0x":
        return fields.hexadecimal(at, most=most)
    return fields.integer(at, 0, most)
