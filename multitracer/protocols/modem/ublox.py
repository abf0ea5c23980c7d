"""Answers of u-blox modems to AT+UCGED? in modes 2 and 5.

Source: ubxlib `u_cell_info.c`, u-blox AT manuals. SARA-R5 and LARA-R6 report indexes of TS 36.133 9.1.4 and
9.1.7, SARA-R4 reports dBm and dB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, LineFields, fields_of, index_db, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.protocols.modem.grammar import Reading

_GSM, _UMTS = 2, 3  # u-blox AT manual, +UCGED: <rat>
_LTE = (4, 6, 7, 8, 9)  # the same, values of E-UTRA


def ucged(lines: Sequence[str]) -> list[Reading]:
    """Decode the answer to AT+UCGED? in mode 2: a line about the network, and a line about the cell."""
    rows = [LineFields([text for text, _ in fields_of(line)]) for line in lines if not line.startswith("+")]
    if len(rows) < 2:
        return []
    network, cell = rows[0], rows[1]
    technology = network.integer(0)
    plmn = network.plmn(2, 3) if len(network) > 3 else network.plmn(1, 2)
    if technology == _GSM:
        return [reported(rat="GSM", plmn=plmn) | _gsm(cell)]
    if technology == _UMTS:
        return [reported(rat="UMTS", plmn=plmn, channel=cell.integer(0, 0))]
    if technology not in _LTE:
        raise AnswerError("+UCGED has an unknown technology; skip the answer")
    level = cell.integer(6)
    return [reported(rat="LTE", plmn=plmn) | (_in_db(cell) if level is not None and level < 0 else _indexed(cell))]


def _gsm(cell: LineFields) -> Reading:
    return reported(
        channel=cell.integer(0, 0, 1023),
        cell_id=cell.hexadecimal(2),
        physical_cell_id=cell.hexadecimal(3, most=63),
        area_code=cell.hexadecimal(4),
        rssi_dbm=index_db(cell.integer(6, 0, 63), zero=-111.0),
        timing_advance=cell.integer(7, 0, 63),
    )


def _in_db(cell: LineFields) -> Reading:
    return reported(
        channel=cell.integer(0, 0),
        band=cell.text(1, most=16),
        area_code=cell.hexadecimal(4),
        physical_cell_id=cell.integer(5, 0, 503),
        rsrp_dbm=cell.real(6, -160.0, 0.0),
        rsrq_db=cell.real(7, -50.0, 20.0),
    )


def _indexed(cell: LineFields) -> Reading:
    return reported(
        channel=cell.integer(0, 0),
        band=cell.text(1, most=16),
        area_code=cell.hexadecimal(4),
        cell_id=cell.hexadecimal(5),
        physical_cell_id=cell.integer(6, 0, 503),
        rsrp_dbm=index_db(cell.integer(10, 0, 97), zero=-141.0),
        rsrq_db=index_db(cell.integer(11, 0, 46), zero=-19.5, step=0.5),
        sinr_db=cell.real(12, -40.0, 60.0),
        cqi=cell.integer(15, 0, 15),
    )


def rsrp(fields: LineFields) -> list[Reading]:
    """Decode `+RSRP: <pci>,<earfcn>,"<dBm>"`, a line of the answer to AT+UCGED? in mode 5."""
    return [_level(fields) | reported(rsrp_dbm=fields.real(2, -160.0, 0.0))]


def rsrq(fields: LineFields) -> list[Reading]:
    """Decode `+RSRQ: <pci>,<earfcn>,"<dB>"`, a line of the answer to AT+UCGED? in mode 5."""
    return [_level(fields) | reported(rsrq_db=fields.real(2, -50.0, 20.0))]


def _level(fields: LineFields) -> Reading:
    return reported(rat="LTE", physical_cell_id=fields.integer(0, 0, 503), channel=fields.integer(1, 0))
