"""Answers of Huawei modems and those with its chips: ^HCSQ, ^MONSC, ^MONNC.

Source: AT manuals of ME909, MH5000 and MT5700M, and recorded lines. ^HCSQ reports bins, which are converted
to their lower edge; ^MONSC and ^MONNC report dBm and dB. Identities are hexadecimal, channels decimal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, LineFields, index_db, reported

if TYPE_CHECKING:
    from multitracer.protocols.modem.grammar import Reading

_POWER = (-160.0, -1.0)  # dBm, as in `quectel`
_QUALITY = (-50.0, 20.0)  # dB, as in `quectel`
_SINR = (-50.0, 60.0)  # dB, as in `quectel`
_TECHNOLOGY = {
    "NR": "NR", "NR-5GC": "NR", "LTE": "LTE", "LTE-NR": "LTE", "EMTC": "LTE", "NB-IOT": "NB-IoT",
    "WCDMA": "UMTS", "GSM": "GSM",
}  # fmt: skip
_NOWHERE = ("NOSERVICE", "NONE")


def hcsq(fields: LineFields) -> list[Reading]:
    """Decode `^HCSQ: <mode>` and the bins of the technology; 255 is a missing value."""
    mode = fields.text(0).upper()
    if mode in _NOWHERE:
        return [reported(state="NOSERVICE")]
    if mode == "GSM":
        return [reported(rat="GSM", rssi_dbm=_power(fields, 1, zero=-121.0))]
    if mode == "WCDMA":
        ecio = index_db(fields.integer(3, 0, 65), zero=-32.5, step=0.5)
        rssi, rscp = _power(fields, 1, zero=-121.0), _power(fields, 2, zero=-121.0)
        return [reported(rat="UMTS", rssi_dbm=rssi, rscp_dbm=rscp, ecio_db=ecio)]
    at = {"NR": 1, "NR-5GC": 1, "LTE": 2, "LTE-NR": 2, "EMTC": 2, "NB-IOT": 2}.get(mode)
    if at is None:
        raise AnswerError("^HCSQ has an unknown mode; skip the line")
    return [
        reported(
            rat=_TECHNOLOGY[mode],
            rssi_dbm=_power(fields, 1, zero=-121.0) if at > 1 else None,
            rsrp_dbm=_power(fields, at, zero=-141.0),
            sinr_db=_rounded(index_db(fields.integer(at + 1, 0, 251), zero=-20.2, step=0.2)),
            rsrq_db=index_db(fields.integer(at + 2, 0, 34), zero=-20.0, step=0.5),
        )
    ]


def _power(fields: LineFields, at: int, *, zero: float) -> float | None:
    """Return the lower edge of a bin of 1 dB; the lowest bin is open."""
    return index_db(fields.integer(at, 0, 97), zero=zero)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def monsc(fields: LineFields) -> list[Reading]:
    """Decode `^MONSC: <technology>,<MCC>,<MNC>,...`, the serving cell.

    Raises
    ------
    AnswerError
        If the technology is unknown.
    """
    rat = _rat(fields)
    if not rat:
        return [reported(state="NOSERVICE")]
    facts = reported(role="serving", rat=rat, plmn=fields.plmn(1, 2))
    if rat == "GSM":
        return [facts | _gsm(fields, 3)]
    facts |= reported(channel=fields.integer(3, 0))
    if rat == "UMTS":
        return [
            facts
            | reported(
                physical_cell_id=fields.integer(4, 0, 511),
                cell_id=fields.hexadecimal(5),
                area_code=fields.hexadecimal(6),
                rscp_dbm=fields.real(7, *_POWER),
                rssi_dbm=fields.real(8, *_POWER),
                ecio_db=fields.real(9, *_QUALITY),
            )
        ]
    at = 5 if rat == "NR" else 4  # NR has the subcarrier spacing before the identities
    last = fields.real(at + 5, *(_SINR if rat == "NR" else _POWER))
    return [
        facts
        | reported(
            cell_id=fields.hexadecimal(at),
            physical_cell_id=fields.hexadecimal(at + 1, most=1007),
            area_code=fields.hexadecimal(at + 2),
            rsrp_dbm=fields.real(at + 3, *_POWER),
            rsrq_db=fields.real(at + 4, *_QUALITY),
            **{"sinr_db" if rat == "NR" else "rssi_dbm": last},
        )
    ]


def monnc(fields: LineFields) -> list[Reading]:
    """Decode `^MONNC`, one neighbour cell.

    Raises
    ------
    AnswerError
        If the technology is unknown.
    """
    rat = _rat(fields)
    if not rat:
        return []
    facts = reported(role="neighbour", rat=rat)
    if rat == "GSM":
        return [facts | _gsm(fields, 1)]
    facts |= reported(channel=fields.integer(1, 0))
    if rat == "UMTS":
        code = fields.integer(2, 0, 511)
        rscp, ecio = fields.real(3, *_POWER), fields.real(4, *_QUALITY)
        return [facts | reported(physical_cell_id=code, rscp_dbm=rscp, ecio_db=ecio)]
    last = fields.real(5, *(_SINR if rat == "NR" else _POWER))
    return [
        facts
        | reported(
            physical_cell_id=fields.hexadecimal(2, most=1007),
            rsrp_dbm=fields.real(3, *_POWER),
            rsrq_db=fields.real(4, *_QUALITY),
            **{"sinr_db" if rat == "NR" else "rssi_dbm": last},
        )
    ]


def _rat(fields: LineFields) -> str:
    """Return the technology of a cell; "" if there is no cell."""
    name = fields.text(0).upper()
    if name in _NOWHERE:
        return ""
    if name not in _TECHNOLOGY:
        raise AnswerError("the answer has an unknown technology; skip the line")
    return _TECHNOLOGY[name]


def _gsm(f: LineFields, at: int) -> Reading:
    """Decode the fields of GSM from the band on: band, ARFCN, BSIC, cell, LAC, level[, RXQUAL, TA]."""
    return reported(
        channel=f.integer(at + 1, 0, 1023),
        physical_cell_id=f.integer(at + 2, 0, 63),
        cell_id=f.hexadecimal(at + 3),
        area_code=f.hexadecimal(at + 4),
        rssi_dbm=f.real(at + 5, *_POWER),
        rxqual=f.integer(at + 6, 0, 7),
        timing_advance=f.integer(at + 7, 0, 63),
    )
