"""Units that logs write in headers, in maps and behind values, as factors to the unit of a table's column."""

from __future__ import annotations

import re

_KNOT = 1852 / 3600
_FACTORS: dict[str, dict[str, float]] = {
    "m/s": {
        "m/s": 1.0, "mps": 1.0, "km/h": 1 / 3.6, "kmh": 1 / 3.6, "kph": 1 / 3.6, "kmph": 1 / 3.6,
        "mph": 0.44704, "mi/h": 0.44704, "kn": _KNOT, "kt": _KNOT, "kts": _KNOT, "knot": _KNOT,
        "knots": _KNOT,
    },
    "bit/s": {
        "bit/s": 1.0, "bps": 1.0, "b/s": 1.0, "kbit/s": 1e3, "kbps": 1e3, "kb/s": 1e3, "Mbit/s": 1e6,
        "Mbps": 1e6, "Mb/s": 1e6, "Gbit/s": 1e9, "Gbps": 1e9, "Gb/s": 1e9, "B/s": 8.0, "byte/s": 8.0,
        "bytes/s": 8.0, "kB/s": 8e3, "KB/s": 8e3, "MB/s": 8e6,
    },
    "m": {"m": 1.0, "meter": 1.0, "meters": 1.0, "metres": 1.0, "ft": 0.3048, "feet": 0.3048, "km": 1e3},
    "dBm": {"dBm": 1.0},
    "dB": {"dB": 1.0},
    "degrees": {"degrees": 1.0, "degree": 1.0, "deg": 1.0, "°": 1.0, "dd": 1.0},
    "%": {"%": 1.0, "percent": 1.0, "pct": 1.0},
    "s": {"s": 1.0, "sec": 1.0, "ms": 1e-3},
}  # fmt: skip
"""Unit of a column -> unit of a log -> factor. A mile is 1609.344 m, a foot 0.3048 m (NIST SP 811, B.6)."""
_ANY_CASE = {
    own: {unit.casefold(): factor for unit, factor in units.items() if "B" not in unit.replace("dB", "")}
    for own, units in _FACTORS.items()
}
"""Without bytes, which only a capital letter tells from bits."""
_IN_HEADER = re.compile(r"(?P<name>.*\S)\s*[(\[{](?P<unit>[^()\[\]{}]{1,16})[)\]}]$")
_BEHIND = re.compile(r"([+-]?[\d.,]+)\s*([^\W\d]\S{0,7}|%|°)")
_ANGLE = re.compile(
    r"(?P<before>[NSEW])?\s*(?P<sign>[+-])?(?:(?P<decimal>\d{1,3}(?:[.,]\d+)?)\s*(?:°|º|d|deg)?"
    r"|(?P<whole>\d{1,3})(?:\s*(?:°|º|d|deg|:)\s*|\s+)(?P<minutes>\d{1,2}(?:[.,]\d+)?)"
    r"(?:\s*(?:['′’m:]\s*|(?<=\d)\s)(?:(?P<seconds>\d{1,2}(?:[.,]\d+)?)\s*(?:[\"″”s]|''|′′)?)?)?)"
    r"\s*(?P<after>[NSEW])?",
    re.IGNORECASE,
)
_SIXTY = 60
_INVISIBLE = re.compile("[\ufeff\u200b-\u200d\u2060]")
"""Byte-order marks and blanks without width, which some exports hold in their headers."""


def factor(unit: str, own: str) -> float | None:
    """Return by what a number is multiplied to be in the unit of a column; None if the unit is not known.

    Parameters
    ----------
    unit : str
        As the log writes it, for example km/h.
    own : str
        Unit of the column of ours, for example m/s.
    """
    text = unit.strip()
    exact = _FACTORS.get(own, {}).get(text)
    return exact if exact is not None else _ANY_CASE.get(own, {}).get(text.casefold())


def is_unit(text: str) -> bool:
    """Return whether a text is a unit of any column."""
    return any(factor(text, own) is not None for own in _FACTORS)


def without_unit(name: str) -> tuple[str, str]:
    """Return the name of a header's column and the unit in the brackets behind it, empty if there is none."""
    match = _IN_HEADER.fullmatch(name)
    return (match["name"], match["unit"].strip()) if match else (name, "")


def plain(name: str) -> str:
    """Return the name of a column for comparison: small letters, single blanks, nothing invisible."""
    return " ".join(_INVISIBLE.sub("", name).strip().strip('"').split()).casefold()


def split_unit(text: str) -> tuple[str, str]:
    """Return a number's text and the unit behind it, empty if there is none."""
    match = _BEHIND.fullmatch(text)
    return (match[1], match[2]) if match else (text, "")


def value_of(text: str, own: str) -> float | None:
    """Return a number with its own unit behind it, or an angle, in the unit of a column; None if it is none.

    Parameters
    ----------
    text : str
        A number that names no unit stays as it is.
    own : str
        Unit of the column.
    """
    if own == "degrees" and (angle := degrees_of(text)) is not None:
        return angle
    bare, unit = split_unit(text)
    number = decimal_of(bare)
    by_unit = factor(unit, own) if unit else 1.0
    return None if number is None or by_unit is None else number * by_unit


def degrees_of(text: str) -> float | None:
    """Return an angle that is written in degrees, minutes and seconds, or with N, S, E or W; None if none is.

    Of 52° 14' 30.5" N, N52 14.508 and 52.2418° N the same.
    """
    match = _ANGLE.fullmatch(text.strip())
    if match is None or (match["before"] and match["after"]):
        return None
    degrees, minutes, seconds = (
        float((match[name] or "0").replace(",", "."))
        for name in ("decimal" if match["decimal"] else "whole", "minutes", "seconds")
    )
    if minutes >= _SIXTY or seconds >= _SIXTY:
        return None
    size = degrees + minutes / _SIXTY + seconds / _SIXTY**2
    south_or_west = (match["before"] or match["after"] or "").upper() in ("S", "W")
    return -size if south_or_west or match["sign"] == "-" else size


def decimal_of(text: str) -> float | None:
    """Return a number in which the last of commas and points, where there are both, is the decimal sign."""
    if "," in text:
        decimal_comma = text.rfind(",") > text.rfind(".")
        text = text.replace(".", "").replace(",", ".") if decimal_comma else text.replace(",", "")
    try:
        return float(text)
    except ValueError:
        return None
