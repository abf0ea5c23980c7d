"""Signal as routers write it: HiLink's `api/device/signal` (Huawei; JSON, XML) and MikroTik's `lte monitor`.

Source: recorded answers of B525, B818 and E3372; MikroTik's manual of RouterOS 6 and 7. Values have units,
and `>=` where they are at the end of the scale.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.protocols.modem.grammar import Reading

_LEVEL = re.compile(r"\s*(?:[<>]=?|&[lg]t;=?)?\s*(-?\d{1,4}(?:\.\d{1,3})?)\s*(?:dBm?)?\s*")
_INTEGER = re.compile(r"\s*(\d{1,11})\b")
_DOWNLINK = re.compile(r"(?:DL:)?\s*(\d{1,7})")
_ELEMENT = re.compile(r"<(\w{2,24})>([^<>]{0,120})</\1>")
_ROW = re.compile(r"\s*([a-z0-9][a-z0-9-]{1,30}):\s*(.{0,120})")
_BAND = re.compile(r"\"?([Bn]\d{1,3})(?:@\S+)?(?:.*?\b(?:nr-?|e)?arfcn: ?(\d{1,7}))?(?:.*?phy-cellid: ?(\d{1,4}))?.*")
_BRACKETED_BAND = re.compile(r"\(band (\d{1,3})")
_LEVELS = {
    "rssi": ("rssi_dbm", -150, -1), "rsrp": ("rsrp_dbm", -160, -1), "rsrq": ("rsrq_db", -50, 20),
    "sinr": ("sinr_db", -50, 60), "rscp": ("rscp_dbm", -130, -1), "ecio": ("ecio_db", -50, 10),
}  # fmt: skip
_HILINK_MODES = {"0": "GSM", "2": "UMTS", "7": "LTE"}
"""Technology by `mode` of HiLink."""


def hilink(document: object) -> list[Reading]:
    """Decode the parsed JSON of a HiLink router: an object with `rsrp` or `nrrsrp`, also within `response`.

    Raises
    ------
    AnswerError
        If the document has another structure.
    """
    inner = document.get("response", document) if isinstance(document, dict) else None
    if not isinstance(inner, dict):
        raise AnswerError("the document is no object with signal values; give the answer of api/device/signal")
    return _hilink({str(name): str(value) for name, value in inner.items() if value is not None})


def hilink_xml(text: str) -> list[Reading]:
    """Decode the XML of a HiLink router.

    Raises
    ------
    AnswerError
        If there are no signal values.
    """
    return _hilink(dict(_ELEMENT.findall(text)))


def _hilink(values: Mapping[str, str]) -> list[Reading]:
    if not values.keys() & {"rsrp", "nrrsrp", "rssi", "rscp"}:
        raise AnswerError("the answer contains no signal value; give the answer of api/device/signal")
    main, leg = _levels(values, ""), _levels(values, "nr")
    mode = values.get("mode", "").strip()
    rat = _HILINK_MODES.get(mode, "LTE" if leg and not mode else "")
    cell = reported(
        plmn=_digits(values.get("plmn", "")),
        physical_cell_id=_integer(values.get("pci"), 1007),
        cell_id=_integer(values.get("cell_id"), (1 << 36) - 1),
        area_code=_integer(values.get("tac"), 0xFFFFFF),
        band=values.get("band", "")[:16].strip(),
        channel=_downlink(values.get("earfcn")),
    )
    readings = [reported(role="serving", rat=rat) | main | cell] if main else []
    if leg:
        role = "secondary" if main else "serving"
        channel = _downlink(values.get("nrearfcn"))
        readings.append(reported(role=role, rat="NR", channel=channel) | leg | ({} if main else cell))
    return readings or [{}]


def mikrotik(lines: list[str]) -> list[Reading]:
    """Decode `/interface/lte/monitor`: one name and value per line; `ca-band` may occur several times.

    Raises
    ------
    AnswerError
        If there are no signal values.
    """
    rows = [(match[1], match[2]) for line in lines if (match := _ROW.fullmatch(line.rstrip()))]
    values = dict(reversed(rows))
    main, leg = _levels(values, ""), _levels(values, "nr-") or _levels(values, "5g-")
    if not main and not leg and "status" not in values:
        raise AnswerError("the output contains no signal value; give the output of /interface/lte/monitor")
    place = _carrier(values.get("primary-band", ""))
    technology = values.get("data-class", values.get("access-technology", ""))
    bracketed = _BRACKETED_BAND.search(values.get("earfcn", ""))
    operator = values.get("current-operator", "").strip('"')
    cell = reported(
        rat="NR" if place.get("rat") == "NR" else _technology(technology) or place.get("rat"),
        state=values.get("status", "")[:16],
        plmn=_digits(operator),
        operator="" if operator.isdigit() else "".join(c for c in operator if c.isprintable())[:32],
        cell_id=_integer(values.get("current-cellid"), (1 << 36) - 1),
        physical_cell_id=_integer(values.get("phy-cellid"), 1007),
        area_code=_integer(values.get("tac", values.get("lac")), 0xFFFFFF),
        channel=_downlink(values.get("earfcn")),
        band=bracketed[1] if bracketed else "",
        cqi=_integer(values.get("cqi"), 15),
    )
    readings = [{"role": "serving", **place, **cell, **main}]
    others = [_carrier(value) for name, value in rows if name.startswith("ca-band")]
    readings += [{"role": "secondary", **carrier} for carrier in others if carrier]
    if leg:
        own = _carrier(values.get("nr-band", values.get("5g-band", "")))
        readings.append({"role": "secondary", **own, "rat": "NR", **leg})
    return readings


def _carrier(text: str) -> Reading:
    """Return the values of `B3@20Mhz earfcn: 1300 phy-cellid: 480`."""
    match = _BAND.fullmatch(text.strip())
    if not match:
        return {}
    return reported(
        rat="NR" if match[1].startswith("n") else "LTE",
        band=match[1][1:],
        channel=int(match[2]) if match[2] else None,
        physical_cell_id=_integer(match[3], 1007),
    )


def _technology(text: str) -> str:
    if "NSA" in text or "LTE" in text or "4G" in text:
        return "LTE"
    if "5G" in text or "NR" in text:
        return "NR"
    return "UMTS" if "3G" in text or "HSPA" in text or "UMTS" in text else ""


def _levels(values: Mapping[str, str], prefix: str) -> Reading:
    levels: Reading = {}
    for name, (column, minimum, most) in _LEVELS.items():
        match = _LEVEL.fullmatch(values.get(prefix + name, ""))
        if match and minimum <= float(match[1]) <= most:
            levels[column] = float(match[1])
    return levels


def _integer(text: str | None, most: int) -> int | None:
    match = _INTEGER.match(text or "")
    return int(match[1]) if match and int(match[1]) <= most else None


def _downlink(text: str | None) -> int | None:
    match = _DOWNLINK.match((text or "").strip())
    return int(match[1]) if match else None


def _digits(text: str) -> str:
    return text if text.isdigit() and text.isascii() and len(text) in (5, 6) else ""
