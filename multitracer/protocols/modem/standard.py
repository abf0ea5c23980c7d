"""Answers that 3GPP TS 27.007 defines, and Huawei's ^RSSI, which has the scale of +CSQ.

A reported bin is converted to its lower edge: `+CSQ: 15` is -83 dBm, `+CESQ` RSRP 80 is -61 dBm. 99 and 255
mean unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, LineFields, index_db, reported

if TYPE_CHECKING:
    from multitracer.protocols.modem.grammar import Reading

BER_PCT = (0.14, 0.28, 0.57, 1.13, 2.26, 4.53, 9.05, 18.1)
"""Assumed mean bit error rate in % of each RXQUAL class (TS 45.008 clause 8.2.4)."""
TECHNOLOGY = {
    0: "GSM", 1: "GSM", 2: "UMTS", 3: "EDGE", 4: "HSPA", 5: "HSPA", 6: "HSPA", 7: "LTE", 8: "GSM",
    9: "NB-IoT", 10: "LTE", 11: "NR", 12: "NR", 13: "LTE",
}  # fmt: skip
"""Technology by <AcT> (TS 27.007 clause 7.3)."""
_STAT = re.compile(r"\d{1,2}")
_ACT = re.compile(r"\d{1,3}")
_NOWHERE_AREA = (0, 0xFFFE, 0xFFFF, 0xFFFFFF)
"""Location area codes that mean no area (TS 24.008, 10.5.1.3); firmware also writes all ones."""
_NOWHERE_CELL = (0, 0xFFFFFFF, 0xFFFFFFFF)
"""Cell identities that mean no cell: 0, or all ones in the 28 bits of an E-UTRA cell or in 32 bits."""


def csq(fields: LineFields) -> list[Reading]:
    """Decode `+CSQ: <rssi>,<ber>` (clause 8.5); some firmware gives RSCP as 100 to 191."""
    index = fields.integer(0)
    quality = fields.integer(1, 0, 7)
    rssi = index if index is not None and 0 <= index <= 31 else None
    rscp = index if index is not None and 100 <= index <= 191 else None
    return [
        reported(
            rat="" if rscp is None else "UMTS",
            rssi_dbm=index_db(rssi, zero=-113.0, step=2.0),
            rscp_dbm=index_db(rscp, zero=-216.0),
            rxqual=quality,
            ber_pct=None if quality is None else BER_PCT[quality],
        )
    ]


def cesq(fields: LineFields) -> list[Reading]:
    """Decode `+CESQ` (clause 8.69): a reading for each technology with a value, or one empty reading."""
    quality = fields.integer(1, 0, 7)
    ber = None if quality is None else BER_PCT[quality]
    by_rat = [
        ("GSM", reported(rssi_dbm=index_db(fields.integer(0, 0, 63), zero=-111.0), rxqual=quality, ber_pct=ber)),
        (
            "UMTS",
            reported(
                rscp_dbm=index_db(fields.integer(2, 0, 96), zero=-121.0),
                ecio_db=index_db(fields.integer(3, 0, 49), zero=-24.5, step=0.5),
            ),
        ),
        (
            "LTE",
            reported(
                rsrq_db=index_db(fields.integer(4, 0, 34), zero=-20.0, step=0.5),
                rsrp_dbm=index_db(fields.integer(5, 0, 97), zero=-141.0),
            ),
        ),
        (
            "NR",
            reported(
                rsrq_db=index_db(fields.integer(6, 0, 126), zero=-43.0, step=0.5),
                rsrp_dbm=index_db(fields.integer(7, 0, 126), zero=-157.0),
                sinr_db=index_db(fields.integer(8, 0, 127), zero=-23.5, step=0.5),
            ),
        ),
    ]
    if len(fields) < 6:
        raise AnswerError("+CESQ must have 6 or 9 fields; skip the line")
    return [{"rat": rat, **columns} for rat, columns in by_rat if columns] or [{}]


def registration(fields: LineFields, quoted: list[bool]) -> list[Reading]:
    """Decode `+CREG`, `+CGREG`, `+CEREG` or `+C5GREG` (clauses 7.2, 10.1.20, .22, .47).

    An answer begins with `<n>,<stat>`, an unsolicited line with `<stat>`.
    """
    first = 1 if was_asked(fields, quoted) else 0
    stat = fields.integer(first, 0, 11)
    area, cell, act = first + 1, first + 2, first + 3
    if len(fields.text(cell)) <= 2 < len(fields.text(cell + 1)):  # a routing area in between (TS 27.007 v8.6)
        cell, act = cell + 1, act + 1
    technology = fields.text(act)  # some modems write 000, some other things
    return [
        reported(
            registration=stat,
            area_code=_somewhere(fields.hexadecimal(area), _NOWHERE_AREA),
            cell_id=_somewhere(fields.hexadecimal(cell), _NOWHERE_CELL),
            rat=TECHNOLOGY.get(int(technology), "") if _ACT.fullmatch(technology) else "",
        )
    ]


def cscon(fields: LineFields) -> list[Reading]:
    """Decode `+CSCON: <mode>[,<state>…]`, or `+CSCON: <n>,<mode>` as the answer to a command (clause 7.30)."""
    second = fields.integer(1, 0, 1)
    mode = fields.integer(0, 0, 1) if second is None else second
    return [reported(state="" if mode is None else ("IDLE", "CONNECTED")[mode])]


def was_asked(fields: LineFields, quoted: list[bool]) -> bool:
    """Return whether a registration line answers a command; otherwise it is unsolicited.

    In an unsolicited line the second field is absent, quoted, or an area code of four digits.
    """
    return len(fields) > 1 and not quoted[1] and _STAT.fullmatch(fields.text(1)) is not None


def cops(fields: LineFields) -> list[Reading]:
    """Decode `+COPS: <mode>[,<format>,<oper>[,<AcT>]]` (clause 7.3)."""
    name, numeric = fields.text(2, most=32), fields.integer(1) == 2
    if numeric and not (name.isdigit() and len(name) in (5, 6)):
        raise AnswerError("a numeric operator must have 5 or 6 digits; skip the line")
    technology = fields.integer(3)
    return [
        reported(
            plmn=name if numeric else "",
            operator="" if numeric else name,
            rat="" if technology is None else TECHNOLOGY.get(technology, ""),
        )
    ]


def _somewhere(code: int | None, nowhere: tuple[int, ...]) -> int | None:
    return None if code in nowhere else code
