"""Answers of SIMCom modems: +CPSI.

Source: SIM7600 and SIM8200 AT manuals and recorded lines. Levels are tenths of a dB. The scale of
RSSNR and of the SINR of some firmware differs; LTE's is kept as `sinr_raw` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import Fields, reported

if TYPE_CHECKING:
    from multitracer.protocols.modem.grammar import Reading

_POWER = (-160.0, 0.0)  # dBm, as in `quectel`
_QUALITY = (-50.0, 60.0)  # dB, RSRQ and SINR: wider than TS 36.133 and TS 38.133 report
_TECHNOLOGY = {"GSM": "GSM", "WCDMA": "UMTS", "LTE": "LTE", "CDMA": "CDMA", "EVDO": "EVDO"}


def cpsi(fields: Fields) -> list[Reading]:
    """Read `+CPSI: <mode>,<status>,<MCC>-<MNC>,...`."""
    mode = fields.text(0).upper()
    if mode == "NO SERVICE":
        return [reported(state="NO SERVICE")]
    if mode == "NR5G_NSA":
        return [reported(role="secondary", rat="NR") | _new_radio(fields, 1)]
    network = Fields(fields.text(2).split("-"))
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
    return [facts | (_lte(fields) if mode.startswith("LTE") else {})]


def _lte(f: Fields) -> Reading:
    return reported(
        physical_cell_id=f.integer(5, 0, 503),
        band=f.text(6, most=32).removeprefix("EUTRAN-")[:16],
        channel=f.integer(7, 0),
        rsrq_db=_tenths(f, 10, _QUALITY),
        rsrp_dbm=_tenths(f, 11, _POWER),
        rssi_dbm=_tenths(f, 12, _POWER),
        sinr_raw=f.integer(13),
    )


def _new_radio(f: Fields, at: int) -> Reading:
    return reported(
        physical_cell_id=f.integer(at, 0, 1007),
        band=f.text(at + 1, most=32).removeprefix("NR5G_")[:16],
        channel=f.integer(at + 2, 0),
        rsrp_dbm=_tenths(f, at + 3, _POWER),
        rsrq_db=_tenths(f, at + 4, _QUALITY),
        sinr_db=_tenths(f, at + 5, _QUALITY),
    )


def _tenths(f: Fields, at: int, bounds: tuple[float, float]) -> float | None:
    value = f.real(at)
    return value / 10 if value is not None and bounds[0] <= value / 10 <= bounds[1] else None
