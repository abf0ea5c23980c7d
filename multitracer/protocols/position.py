"""Output of satellite receivers: NMEA 0183 sentences, and the reports of gpsd.

Input: a line. Output: a fix or a part of one (`sentence`, `report`), with time, position, height, speed and accuracy as
far as the line contains them. `Epochs` joins the sentences of one time, `Dates` adds the date to times of day.

What must hold: a line that cannot be used raises only `NmeaError` or `ReportError`; an empty field is
NA. A time is that of the receiver (UTC), never that of arrival.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from multitracer.errors import RemoteProtocolError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Fix = dict[str, Any]
    """Columns of POSITION, and `tod_ns` (time of day) and `day` (since 1970), where they are known."""
    from multitracer.tables import Document

# NMEA 0183: sentences with checksums, grouped by the time of day that they carry.
#
# A receiver says one fix in several sentences: RMC has the date, GGA the height and the satellites, GSA
# whether the fix has two or three dimensions. Sentences with the same time of day are one epoch. Source: NMEA
# 0183 as gpsd's driver_nmea0183.c reads it.


KNOT_MPS = 1852 / 3600  # one nautical mile (1,852 m) an hour
DAY_NS = 86_400 * NS_PER_S  # without leap seconds, as POSIX
_MOST_WAITING = 10_000
"""Maximum number of fixes that wait for a date, to limit memory: nearly three hours at 1 Hz."""
LONGEST = 256
"""Maximum number of characters of a line; the standard allows 82, real receivers write more."""
_SENTENCE = re.compile(r"\$([A-Z][!-+\--~ ]{2,80})(?:,([^*$]{0,240}))?\*([0-9A-Fa-f]{2})")
_TIME = re.compile(r"(\d\d)(\d\d)(\d\d)(?:\.(\d{1,9}))?")
_DATE = re.compile(r"(\d\d)(\d\d)(\d\d)")
_ANGLE = re.compile(r"(\d{1,3})(\d\d(?:\.\d{1,12})?)")
_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{1,9})?")
_PIVOT_YEAR = 80
"""Two-digit years from this one on are in the 1900s: GPS began in 1980."""


class NmeaError(RemoteProtocolError):
    """A line that is not an NMEA sentence, or whose checksum is wrong."""


def sentence(line: str) -> tuple[str, list[str]]:
    """Return the type of an NMEA sentence, such as `RMC`, and the list of its fields.

    A proprietary type begins with P.

    Raises
    ------
    NmeaError
        If the line is not a sentence, or its checksum is wrong.
    """
    text = line.strip()
    match = _SENTENCE.match(text) if len(text) <= LONGEST else None
    if match is None:
        raise NmeaError("the line is not an NMEA sentence; skip the line")
    total = 0
    for character in text[1 : match.end() - 3]:
        total ^= ord(character)
    if total != int(match[3], 16):
        raise NmeaError("the checksum of the sentence is wrong; skip the line")
    kind = match[1] if match[1].startswith("P") else match[1][2:]
    return kind, (match[2] or "").split(",")


class Epochs:
    """Joins the sentences of one time of day (an epoch) to one fix."""

    def __init__(self) -> None:
        self._fix: Fix = {}

    @property
    def tod_ns(self) -> int | None:
        """Time of day of the current epoch; None without one."""
        tod: int | None = self._fix.get("tod_ns")
        return tod

    def take(self, kind: str, fields: Sequence[str], **stamps: int) -> Iterator[Fix]:
        """Process a sentence; if it begins a new epoch, yield the fix of the previous one.

        `stamps` become columns of the new fix.
        """
        values = _READERS[kind](_padded(fields)) if kind in _READERS else {}
        tod = values.get("tod_ns")
        if tod is not None and tod != self._fix.get("tod_ns"):
            yield from self.finish()
            self._fix = {**stamps}
        if not self._fix and values:
            self._fix = {**stamps}
        self._fix |= {name: value for name, value in values.items() if value is not None}

    def finish(self) -> Iterator[Fix]:
        """Yield the fix of the current epoch, if it has a position or says that there is no fix."""
        fix, self._fix = self._fix, {}
        if "valid" not in fix:
            return
        valid, mode = fix.pop("valid") and "lat_deg" in fix, fix.pop("mode", None)
        fix["fix"] = 0 if not valid else (mode if mode in (2, 3) else 1)
        if not valid:
            fix = {k: v for k, v in fix.items() if k not in _OF_A_FIX}
        yield fix


_OF_A_FIX = ("lat_deg", "lon_deg", "altitude_m", "speed_mps", "heading_deg")


def _padded(fields: Sequence[str]) -> list[str]:
    return [*fields, *[""] * 16]


def _rmc(f: list[str]) -> Fix:
    speed = _number(f[6])
    return {
        "tod_ns": _time_of_day(f[0]),
        "valid": f[1] == "A",
        **_coordinates(f[2:6]),
        "speed_mps": None if speed is None else speed * KNOT_MPS,
        "heading_deg": _number(f[7]),
        "day": _day(f[8]),
    }


def _gga(f: list[str]) -> Fix:
    return {
        "tod_ns": _time_of_day(f[0]),
        "valid": f[5] not in ("", "0"),
        **_coordinates(f[1:5]),
        "satellites": _count(f[6]),
        "hdop": _number(f[7]),
        "altitude_m": _number(f[8]),
    }


def _gll(f: list[str]) -> Fix:
    return {"tod_ns": _time_of_day(f[4]), "valid": f[5] == "A", **_coordinates(f[0:4])}


def _gns(f: list[str]) -> Fix:
    return {
        "tod_ns": _time_of_day(f[0]),
        "valid": bool(f[5].strip("N")),
        **_coordinates(f[1:5]),
        "satellites": _count(f[6]),
        "hdop": _number(f[7]),
        "altitude_m": _number(f[8]),
    }


def _gsa(f: list[str]) -> Fix:
    return {"mode": _count(f[1])}


def _vtg(f: list[str]) -> Fix:
    speed = _number(f[4])
    return {"heading_deg": _number(f[0]), "speed_mps": None if speed is None else speed * KNOT_MPS}


def _zda(f: list[str]) -> Fix:
    if not (re.fullmatch(r"\d\d", f[1]) and re.fullmatch(r"\d\d", f[2]) and re.fullmatch(r"\d{4}", f[3])):
        return {"tod_ns": _time_of_day(f[0])}
    return {"tod_ns": _time_of_day(f[0]), "day": _days(int(f[3]), int(f[2]), int(f[1]))}


_READERS = {"RMC": _rmc, "GGA": _gga, "GLL": _gll, "GNS": _gns, "GSA": _gsa, "VTG": _vtg, "ZDA": _zda}
KEPT = frozenset(_READERS)
"""Sentence types that report a position."""


def _coordinates(f: Sequence[str]) -> Fix:
    lat, lon = _angle(f[0], f[1], "NS", 90.0), _angle(f[2], f[3], "EW", 180.0)
    return {} if lat is None or lon is None else {"lat_deg": lat, "lon_deg": lon}


def _angle(text: str, side: str, sides: str, most: float) -> float | None:
    match = _ANGLE.fullmatch(text)
    if match is None or side not in tuple(sides):
        return None
    value = int(match[1]) + float(match[2]) / 60.0
    return (-value if side == sides[1] else value) if value <= most else None


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,3}", text) else None


def _time_of_day(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(match[n]) for n in (1, 2, 3))
    if hour > 23 or minute > 59 or second > 60:
        return None
    return (hour * 3600 + minute * 60 + second) * NS_PER_S + int((match[4] or "0").ljust(9, "0"))


def _day(text: str) -> int | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    day, month, year = (int(match[n]) for n in (1, 2, 3))
    return _days(year + (1900 if year >= _PIVOT_YEAR else 2000), month, day)


def _days(year: int, month: int, day: int) -> int | None:
    """Return the number of days from 1970 to a Gregorian date; None if the date does not exist."""
    from datetime import date  # noqa: PLC0415  # only where a date is read

    try:
        return (date(year, month, day) - date(1970, 1, 1)).days
    except ValueError:
        return None


class Dates:
    """Adds the date to each fix; a fix without a date gets the date of its neighbours.

    A time of day that decreases by more than half a day is after midnight. Fixes before the first
    known date wait for it.
    """

    def __init__(self) -> None:
        self._day: int | None = None
        self._before_ns = 0
        self._waiting: list[Fix] = []
        self.stamped: tuple[int, int] | None = None
        """Day of a fix by the stamp of the logger, and its time of day in ns; used if no fix has a date."""
        self.is_stamped = False
        """Whether the date is that of `stamped`."""

    @property
    def is_known(self) -> bool:
        """Whether at least one fix contained a date."""
        return self._day is not None

    def take(self, fix: Fix) -> Iterator[Fix]:
        """Process the next fix; yield the fixes whose date is now known.

        They have `fix_time_ns` in place of day and time of day.
        """
        self._waiting.append(fix)
        if self._day is None and "day" in fix and "tod_ns" in fix:
            first = next((f["tod_ns"] for f in self._waiting if "tod_ns" in f), fix["tod_ns"])
            self._day = fix["day"] - _midnights(first, fix["tod_ns"])
            self._before_ns = first
        if self._day is not None or len(self._waiting) > _MOST_WAITING:
            yield from self.finish()

    def finish(self) -> Iterator[Fix]:
        """Yield the fixes that still wait for a date; without a date or the logger's stamp they have no time."""
        if self._day is None and self.stamped is not None:
            self.is_stamped, (day, tod_ns) = True, self.stamped
            self._before_ns = next((f["tod_ns"] for f in self._waiting if "tod_ns" in f), tod_ns)
            self._day = day - _midnights(self._before_ns, tod_ns)
        waiting, self._waiting = self._waiting, []
        yield from map(self._dated, waiting)

    def _dated(self, fix: Fix) -> Fix:
        tod_ns = fix.get("tod_ns")
        rest = {name: value for name, value in fix.items() if name not in ("tod_ns", "day")}
        if self._day is None or tod_ns is None:
            return rest
        self._day = fix.get("day", self._day + _midnights(self._before_ns, tod_ns))
        self._before_ns = tod_ns
        return rest | {"fix_time_ns": self._day * DAY_NS + tod_ns}


def _midnights(before_ns: int, tod_ns: int) -> int:
    """Return the number of midnights, -1, 0 or 1, from one time of day to the next.

    They are less than 12 h apart.
    """
    return round((before_ns - tod_ns) / DAY_NS)


# The reports of gpsd: JSON objects, one a line; a TPV is a time, a position and a velocity.
#
# Source: gpsd_json(5). Fields that are absent are not known. mode 0 and 1 are no fix, 2 and 3 its dimensions.


WATCH = b'?WATCH={"enable":true,"json":true};\n'
"""Command that makes gpsd send its reports."""
_ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")
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
    """Return the class of a gpsd report, and the values of a TPV report in columns of POSITION.

    The values are empty for other classes.

    Raises
    ------
    ReportError
        If the line is not a JSON object with a class.
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        document = None
    kind = document.get("class") if isinstance(document, dict) else None
    if not isinstance(kind, str):
        raise ReportError("the line is not a report of gpsd; skip the line")
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
    match = _ISO_TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    try:
        complete = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    seconds = int((complete - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return seconds * NS_PER_S + int((match[2] or "0").ljust(9, "0")) if 0 <= seconds < 1 << 33 else None
