"""Answers of modems of which one or two commands are read: Foxconn, SIMCom, u-blox.

Foxconn (T77W968, T99W175, DW5821e, and others on the same firmware): AT^DEBUG?, from recorded answers. The answer has
no prefix: pairs of name and value, several in a line; `pcell`, `scell` and `nr_band` begin a cell. Some firmware leaves
out the sign of RSRP of NR.

SIMCom: +CPSI, from SIM7600 and SIM8200 AT manuals and recorded lines. Levels are in tenths of a dB; those of SIM7000
and similar modems (LTE CAT-M1, NB-IOT) in dB. RSRP shows the unit, because no cell has -16 dBm or -160 dBm. The
scale of RSSNR, and of SINR in some firmware, differs; that of LTE is stored as `sinr_raw` only. RSCP and
Ec/Io of WCDMA have no sign; only Ec/Io with a decimal point is in dB, other values may be in half dB.

u-blox: AT+UCGED? in modes 2 and 5, from ubxlib `u_cell_info.c` and u-blox AT manuals. SARA-R5 and LARA-R6 report
indexes of TS 36.133 9.1.4 and 9.1.7, SARA-R4 reports dBm and dB.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, LineFields, fields_of, index_db, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.protocols.modem.grammar import Reading

# --- Foxconn ---

_PAIR = re.compile(r"([a-z][a-z_]{1,20})\s*:\s*(?![a-z_]{1,20}\s*:)([^\s,()]{1,20})?")
_UNIT = re.compile(r"(?:dbm?|mhz)$")
_CELLS = ("pcell", "scell")


def debug(lines: Sequence[str]) -> list[Reading]:
    """Decode all lines of the answer: the serving cell, further carriers, the NR cell.

    Raises
    ------
    AnswerError
        If there is neither a cell nor a technology.
    """
    common: dict[str, str] = {}
    cells: list[tuple[str, dict[str, str]]] = []
    for line in lines:
        for name, value in _PAIR.findall(line.lower()):
            if name in _CELLS or (name == "nr_band" and not (cells and cells[-1][0] == "nr" and not cells[-1][1])):
                cells.append(("nr" if name == "nr_band" else name, {}))
            (cells[-1][1] if cells else common).setdefault(name, value)
    technology = common.get("rat", "")
    if not technology or (not cells and not technology.startswith(("lte", "nr"))):
        raise AnswerError("the answer to ^DEBUG has no cell of a known technology; skip the answer")
    return [_cell(kind, own, common, is_secondary=bool(n)) for n, (kind, own) in enumerate(cells)] or [
        _cell("nr" if technology.startswith("nr") else "pcell", {}, common, is_secondary=False)
    ]


def _cell(kind: str, own: dict[str, str], common: dict[str, str], *, is_secondary: bool) -> Reading:
    side = "nr" if kind == "nr" or any(name.startswith("nr_") for name in own) else "lte"
    known = own if is_secondary else common | own
    names = ("band", "channel", "pci", "rsrp", "rsrq", "rssi", "snr", "cell_id", "tac", "tx_pwr", "mcc", "mnc")
    texts = [known.get(f"{side}_{name}", known.get(name, "")) for name in names]
    f = LineFields([_UNIT.sub("", text) if text not in ("na", "n") else "" for text in texts])
    rsrp = f.real(3)
    rsrp = -rsrp if rsrp is not None and rsrp > 0 and side == "nr" else rsrp
    return reported(
        role="secondary" if is_secondary else "serving",
        rat="NR" if side == "nr" else "LTE",
        band=f.text(0, most=16).removeprefix("n"),
        channel=f.integer(1, 0),
        physical_cell_id=f.integer(2, 0, 1007),
        rsrp_dbm=rsrp if rsrp is not None and -160 <= rsrp < 0 else None,
        rsrq_db=f.real(4, -50.0, 20.0),
        rssi_dbm=f.real(5, -160.0, -1.0),
        sinr_db=f.real(6, -50.0, 60.0),
        cell_id=f.integer(7, 0),
        area_code=f.integer(8, 0),
        tx_power_dbm=f.real(9, -100.0, 60.0),
        plmn=f.plmn(10, 11),
    )


# --- SIMCom ---

_POWER = (-160.0, 0.0)  # dBm, as in `quectel`
_STRONGEST_DBM = -20.0  # no RSRP or RSCP is stronger; TS 36.133 and TS 25.133 report to -44 and -25
_QUALITY = (-50.0, 60.0)  # dB, RSRQ and SINR: wider than TS 36.133 and TS 38.133 report
_TECHNOLOGY = {"GSM": "GSM", "WCDMA": "UMTS", "LTE": "LTE", "CDMA": "CDMA", "EVDO": "EVDO"}


def cpsi(fields: LineFields) -> list[Reading]:
    """Decode `+CPSI: <mode>,<status>,<MCC>-<MNC>,...`."""
    mode = fields.text(0).upper()
    if mode == "NO SERVICE":
        return [reported(state="NO SERVICE")]
    if mode == "NR5G_NSA":
        return [reported(role="secondary", rat="NR") | _new_radio(fields, 1)]
    network = LineFields(fields.text(2).split("-"))
    facts = reported(
        role="serving",
        rat="NR" if mode == "NR5G_SA" else _TECHNOLOGY.get(mode.partition(" ")[0], ""),
        state=fields.text(1, most=16),
        plmn=network.plmn(0, 1) if len(network) == 2 else "",
        area_code=fields.hexadecimal(3),
        cell_id=fields.integer(4, 0),
    )
    if mode == "NR5G_SA":
        return [facts | _new_radio(fields, 5)]
    more = {"LTE": _lte, "WCDMA": _wideband, "GSM": _gsm}.get(mode.partition(" ")[0])
    return [facts | (more(fields) if more else {})]


def _wideband(f: LineFields) -> Reading:
    rscp, quality = f.real(10), f.text(9)
    rscp = None if rscp is None else -abs(rscp)
    ecio = f.real(9) if "." in quality else None
    return reported(
        band=f.text(5, most=16),
        physical_cell_id=f.integer(6, 0, 511),
        channel=f.integer(7, 0),
        ecio_db=None if ecio is None else -abs(ecio),
        rscp_dbm=rscp if rscp is not None and _POWER[0] <= rscp <= _STRONGEST_DBM else None,
    )


def _gsm(f: LineFields) -> Reading:
    channel, _, band = f.text(5, most=32).partition(" ")
    return reported(
        channel=int(channel) if channel.isdecimal() and channel.isascii() else None,
        band=band[:16],
        rssi_dbm=f.real(6, *_POWER),
    )


def _lte(f: LineFields) -> Reading:
    return reported(
        physical_cell_id=f.integer(5, 0, 503),
        band=f.text(6, most=32).removeprefix("EUTRAN-")[:16],
        channel=f.integer(7, 0),
        rsrq_db=_scaled(f, 10, 11, _QUALITY),
        rsrp_dbm=_scaled(f, 11, 11, (_POWER[0], _STRONGEST_DBM)),
        rssi_dbm=_scaled(f, 12, 11, _POWER),
        sinr_raw=f.integer(13),
    )


def _new_radio(f: LineFields, at: int) -> Reading:
    return reported(
        physical_cell_id=f.integer(at, 0, 1007),
        band=f.text(at + 1, most=32).removeprefix("NR5G_")[:16],
        channel=f.integer(at + 2, 0),
        rsrp_dbm=_scaled(f, at + 3, at + 3, (_POWER[0], _STRONGEST_DBM)),
        rsrq_db=_scaled(f, at + 4, at + 3, _QUALITY),
        sinr_db=_scaled(f, at + 5, at + 3, _QUALITY),
    )


def _scaled(f: LineFields, at: int, rsrp_at: int, bounds: tuple[float, float]) -> float | None:
    """Return a field in dB; None if the unit is unclear or the value is out of `bounds`.

    The field at `rsrp_at` (RSRP) shows whether the unit is 1 dB or 0.1 dB.
    """
    value, rsrp = f.real(at), f.real(rsrp_at)
    if value is None or rsrp is None or rsrp > _STRONGEST_DBM:  # what is not below 0 are indices
        return None
    value /= 10 if rsrp < _POWER[0] else 1
    return value if bounds[0] <= value <= bounds[1] else None


# --- u-blox ---

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
        return [reported(rat="GSM", plmn=plmn) | _gsm_in_indexes(cell)]
    if technology == _UMTS:
        return [reported(rat="UMTS", plmn=plmn, channel=cell.integer(0, 0))]
    if technology not in _LTE:
        raise AnswerError("+UCGED has an unknown technology; skip the answer")
    level = cell.integer(6)
    return [reported(rat="LTE", plmn=plmn) | (_in_db(cell) if level is not None and level < 0 else _indexed(cell))]


def _gsm_in_indexes(cell: LineFields) -> Reading:
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
