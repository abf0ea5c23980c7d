"""The reports of gpsd: JSON objects, one a line; a TPV is a time, a position and a velocity.

Source: gpsd_json(5). Fields that are absent are not known. mode 0 and 1 are no fix, 2 and 3 its dimensions.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from multitracer.errors import RemoteProtocolError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.protocols.position.nmea import Fix
    from multitracer.tables import Document

WATCH = b'?WATCH={"enable":true,"json":true};\n'
"""What gpsd is told, to hear its reports."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")
_COLUMNS = {
    "lat": ("lat_deg", 90.0),
    "lon": ("lon_deg", 180.0),
    "speed": ("speed_mps", 1e4),
    "track": ("heading_deg", 360.0),
    "eph": ("error_m", 1e6),
}
_LATEST_NS = 1 << 62  # half of int64: leaves room for differences; the year 2116


class ReportError(RemoteProtocolError):
    """A line that is not a report of gpsd."""


def report(line: str) -> tuple[str, Fix]:
    """Return the class of a report, and the values of a TPV in columns of POSITION.

    Raises
    ------
    ReportError
        If the line is no JSON object with a class.
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        document = None
    kind = document.get("class") if isinstance(document, dict) else None
    if not isinstance(kind, str):
        raise ReportError("no report of gpsd; skip the line")
    return kind, _tpv(document) if kind == "TPV" else {}


def _tpv(document: Document) -> Fix:
    mode = document.get("mode")
    fix: Fix = {"fix_time_ns": _time_ns(document.get("time"))}
    has_fix = mode in (2, 3) and type(mode) is int
    fix["fix"] = mode if has_fix else 0
    if has_fix:
        fix |= {column: _real(document.get(key), most) for key, (column, most) in _COLUMNS.items()}
        fix["altitude_m"] = _real(document.get("altMSL", document.get("alt")), 1e5)
    return {name: value for name, value in fix.items() if value is not None}


def _real(value: object, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
        return None
    return float(value)


def _time_ns(value: object) -> int | None:
    if isinstance(value, int | float) and not isinstance(value, bool):  # protocols before 3.5
        if not 0 <= value < _LATEST_NS / NS_PER_S:
            return None
        return int(round(value * 1e3) * (NS_PER_S // 1000))
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    try:
        whole = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    seconds = int((whole - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return seconds * NS_PER_S + int((match[2] or "0").ljust(9, "0")) if 0 <= seconds < 1 << 33 else None
