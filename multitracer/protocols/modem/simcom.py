"""Answers of SIMCom modems: +CPSI.

Source: SIM7600 and SIM8200 AT manuals and recorded lines. Levels are in tenths of a dB; those of SIM7000 and
similar modems (LTE CAT-M1, NB-IOT) in dB. RSRP shows the unit, because no cell has -16 dBm or -160 dBm. The
scale of RSSNR, and of SINR in some firmware, differs; that of LTE is stored as `sinr_raw` only. RSCP and
Ec/Io of WCDMA have no sign; only Ec/Io with a decimal point is in dB, other values may be in half dB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import LineFields, reported

if TYPE_CHECKING:
    from multitracer.protocols.modem.grammar import Reading

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
