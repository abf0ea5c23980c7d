"""Reads times, numbers and units in the texts of a log, and detects the time format.

A time format is `iso`, `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`, a format of strptime, or `auto`
(determined from the first lines). If day and month are ambiguous in all of these lines, there is an error.
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US
from parsers._forced import forced_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import tzinfo

    from multitracer.tables import Array, Column, Schema

# Units that logs write in headers, in maps and behind values, as factors to the unit of a table's column.


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
        "bits/sec": 1.0, "Kbits/sec": 1e3, "Mbits/sec": 1e6, "Gbits/sec": 1e9,
        "bytes/s": 8.0, "kB/s": 8e3, "KB/s": 8e3, "MB/s": 8e6,
    },
    "m": {"m": 1.0, "meter": 1.0, "meters": 1.0, "metres": 1.0, "ft": 0.3048, "feet": 0.3048, "km": 1e3},
    "dBm": {"dBm": 1.0},
    "dB": {"dB": 1.0},
    "degrees": {"degrees": 1.0, "degree": 1.0, "deg": 1.0, "°": 1.0, "dd": 1.0},
    "%": {"%": 1.0, "percent": 1.0, "pct": 1.0},
    "s": {"s": 1.0, "sec": 1.0, "ms": 1e-3},
}  # fmt: skip
"""Factors by unit of the table column and unit of the log. A mile is 1609.344 m, a foot 0.3048 m (NIST SP 811, B.6)."""
_ANY_CASE = {
    own: {unit.casefold(): factor for unit, factor in units.items() if "B" not in unit.replace("dB", "")}
    for own, units in _FACTORS.items()
}
"""Units that are accepted in upper and lower case; not bytes, which differ from bits only by case."""
_IN_HEADER = re.compile(r"(?P<name>.*\S)\s*[(\[{](?P<unit>[^()\[\]{}]{1,16})[)\]}]$")
_BEHIND = re.compile(r"([+-]?[\d.,]+)\s*([^\W\d]\S{0,9}|%|°)")
_ANGLE = re.compile(
    r"(?P<before>[NSEW])?\s*(?P<sign>[+-])?(?:(?P<decimal>\d{1,3}(?:[.,]\d+)?)\s*(?:°|º|d|deg)?"
    r"|(?P<whole>\d{1,3})(?:\s*(?:°|º|d|deg|:)\s*|\s+)(?P<minutes>\d{1,2}(?:[.,]\d+)?)"
    r"(?:\s*(?:['′’m:]\s*|(?<=\d)\s)(?:(?P<seconds>\d{1,2}(?:[.,]\d+)?)\s*(?:[\"″”s]|''|′′)?)?)?)"
    r"\s*(?P<after>[NSEW])?",
    re.IGNORECASE,
)
_SIXTY = 60
_INVISIBLE = re.compile("[\ufeff\u200b-\u200d\u2060]")
"""Byte-order marks and zero-width blanks, which occur in headers of some exports."""


def factor(unit: str, own: str) -> float | None:
    """Return the factor from a unit of the log to the unit of a column; None if the unit is not known.

    Parameters
    ----------
    unit : str
        Unit in the log, for example km/h.
    own : str
        Unit of the table column, for example m/s.
    """
    text = unit.strip()
    exact = _FACTORS.get(own, {}).get(text)
    return exact if exact is not None else _ANY_CASE.get(own, {}).get(text.casefold())


def is_unit(text: str) -> bool:
    """Return whether a text is a unit of any column."""
    return any(factor(text, own) is not None for own in _FACTORS)


def without_unit(name: str) -> tuple[str, str]:
    """Return the name of a column, and the unit in brackets after it; empty if there is none."""
    match = _IN_HEADER.fullmatch(name)
    return (match["name"], match["unit"].strip()) if match else (name, "")


def plain(name: str) -> str:
    """Return the name of a column for comparison: lower case, single blanks, no invisible characters."""
    return " ".join(_INVISIBLE.sub("", name).strip().strip('"').split()).casefold()


def split_unit(text: str) -> tuple[str, str]:
    """Return the text of a number, and the unit after the number ("" if there is none)."""
    match = _BEHIND.fullmatch(text)
    return (match[1], match[2]) if match else (text, "")


def value_of(text: str, own: str) -> float | None:
    """Return a number with its unit, or an angle, in the unit of a column; None if it is neither.

    Parameters
    ----------
    text : str
        The text; a number without a unit is not converted.
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
    """Return an angle in degrees from degrees, minutes, seconds or N, S, E, W; None if there is none.

    52° 14' 30.5" N, N52 14.508 and 52.2418° N give the same result.
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
    """Return a number; if it has commas and points, the last one is the decimal sign. None if invalid."""
    if "," in text:
        decimal_comma = text.rfind(",") > text.rfind(".")
        text = text.replace(".", "").replace(",", ".") if decimal_comma else text.replace(",", "")
    try:
        return float(text)
    except ValueError:
        return None


# The common part of readers of a sender's state: endpoints, exact numbers from text, sparse tables.


_LATEST_WRITTEN_S = 1 << 33
_CHUNK_ROWS = 1 << 16


@functools.lru_cache(maxsize=4096)
def address(text: str) -> tuple[int, bytes]:
    """Return the IP version and 16 bytes of an address as in a table, without its zone.

    Raises
    ------
    ValueError
        If the text is not an address but, for example, a host name.
    """
    parsed = ip_address(text.partition("%")[0].strip("[]"))
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return parsed.version, parsed.packed.ljust(16, b"\0")


def decimal_ns(seconds: str, fraction: str = "") -> int:
    """Return a time of decimal seconds in nanoseconds, exactly; digits beyond the ninth are dropped.

    Raises
    ------
    ValueError
        If the time is after the year 2242, or the text is not a number.
    """
    complete = int(seconds[:12])
    if complete >= _LATEST_WRITTEN_S:
        raise ValueError(f"the time {seconds} s is outside the valid range")
    return complete * NS_PER_S + int(fraction[:9].ljust(9, "0"))


class Rows:
    """Rows that all have the same columns of a schema; the other columns become NA.

    Parameters
    ----------
    schema : Schema
        Schema of the table.
    names : sequence of str
        Columns of the arguments of `append`, in this order.
    """

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        self._schema = schema
        self._columns = [column for name in names for column in schema if column.name == name]
        self._rows: list[tuple[object, ...]] = []
        self._chunks: list[list[Array]] = []

    def __len__(self) -> int:
        return sum(len(chunk[0]) for chunk in self._chunks) + len(self._rows)

    def append(self, *values: object) -> None:
        """Add one row."""
        self._rows.append(values)
        if len(self._rows) >= _CHUNK_ROWS:
            self._pack()

    def extend(self, columns: Mapping[str, Array]) -> None:
        """Add rows, given as one array for each column."""
        self._pack()
        self._chunks.append([columns[c.name].astype(c.dtype, copy=False) for c in self._columns])

    def _pack(self) -> None:
        values = zip(*self._rows, strict=True) if self._rows else [()] * len(self._columns)
        self._chunks.append([_array(c, v) for c, v in zip(self._columns, values, strict=True)])
        self._rows = []

    def columns(self) -> dict[str, Array]:
        """Return the columns collected, by name: each of shape (len(self),), dtype of its column."""
        self._pack()
        joined = map(np.concatenate, zip(*self._chunks, strict=True))
        return dict(zip((c.name for c in self._columns), joined, strict=True))

    def table(self, provenance: Mapping[str, object]) -> Table:
        """Return the table."""
        return filled(self._schema, self.columns(), provenance)


def filled(schema: Schema, columns: Mapping[str, Array], provenance: Mapping[str, object]) -> Table:
    """Return a table in order of time; missing columns are filled with NA.

    Parameters
    ----------
    schema : Schema
    columns : mapping of str to ndarray, each of shape (n_rows,)
        Some columns of the schema; `time_ns` (int64, ns since 1970) must be among them.
    provenance : mapping
    """
    order = np.argsort(columns["time_ns"], kind="stable")
    full = {c.name: columns[c.name][order] if c.name in columns else _missing(c, len(order)) for c in schema}
    return Table(schema, full, dict(provenance))


def times(factors: Array, values: Array) -> Array:
    """Return the product of two arrays; NA where one factor is NA.

    Parameters
    ----------
    factors, values : ndarray of int64, same shape
        NA (-1) where missing.

    Returns
    -------
    ndarray of int64, same shape
        NA where either is NA.
    """
    return np.where((factors == NA) | (values == NA), NA, factors * values)


def scaled_ns(values: Array, unit_ns: int) -> Array:
    """Return durations in nanoseconds; NA becomes NOT_A_TIME.

    Parameters
    ----------
    values : ndarray of int64, any shape
        Durations in units of `unit_ns`; NA (-1) where missing.
    unit_ns : int

    Returns
    -------
    ndarray of int64, ns, shape of `values`
    """
    return np.where(values == NA, NOT_A_TIME, values * unit_ns)


def _array(column: Column, values: Sequence[Any]) -> Array:
    if column.dtype.startswith("V"):
        return np.frombuffer(b"".join(values), dtype=column.dtype)
    return np.array(values, dtype=column.dtype)


def _missing(column: Column, length: int) -> Array:
    if column.unit.startswith("ns"):
        return np.full(length, NOT_A_TIME, dtype=column.dtype)
    return np.full(length, NA, dtype=column.dtype) if column.na else np.zeros(length, dtype=column.dtype)


AUTO = "auto"
EPOCH_NS = {"epoch_s": NS_PER_S, "epoch_ms": NS_PER_MS, "epoch_us": NS_PER_US, "epoch_ns": 1}
_EPOCH_DIGITS = {10: "epoch_s", 13: "epoch_ms", 16: "epoch_us", 19: "epoch_ns"}
"""Number of digits of a time since 1970 for the years 2001 to 2286, by format."""
_DAYS = ("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_CLOCKS = ("%H:%M:%S", "%I:%M:%S %p")
_DIGITS, _DIGITS_LONG = "%Y%m%d%H%M%S", 14
"""Format of 14 digits; shorter numbers must not be read with it, as they may be times since 1970."""
_FORMS = (
    "iso", "%Y.%m.%d_%H.%M.%S", "%Y%m%d %H:%M:%S", _DIGITS, "%Y%m%d_%H%M%S",
    "%a %b %d %H:%M:%S UTC %Y", "%a %b %d %H:%M:%S GMT %Y", "%a %b %d %H:%M:%S %z %Y", "%a %b %d %H:%M:%S %Y",
    *(f"{d} {c}" for d in (*_DAYS, "%b %d, %Y", "%d %b %Y", "%d-%b-%Y") for c in _CLOCKS),
)  # fmt: skip
_UTC_BEHIND = re.compile(r"\s*(?:UTC|GMT)$", re.IGNORECASE)
"""UTC or GMT after a time of the form `iso`."""
_OFFSET_BEHIND = re.compile(r"\b(?:UTC|GMT)(?=[+-]\d\d)")
"""UTC or GMT before an offset, as Java writes it: GMT+01:00."""
_UTC_WITHIN = re.compile(r"\b(?:UTC|GMT)\b")
_LATEST_S = 1 << 33
"""Seconds since 1970 of the year 2242, as in `decimal_ns`."""
_LONGEST = 64
_ISO_START = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d")
"""Start of an ISO time: date and time of day; a date alone does not match."""


class UncertainTimeError(ValueError):
    """Times fit no known format, or several formats; the message names them.

    Parameters
    ----------
    message : str
    form : str, optional
        One of the formats that fit.
    """

    def __init__(self, message: str, form: str | None = None) -> None:
        super().__init__(message)
        self.form = form


def is_form(form: str) -> bool:
    """Return whether a text is a valid time format; each strptime directive may occur only once."""
    if form in (AUTO, "iso", *EPOCH_NS):
        return True
    try:
        datetime.strptime("", form)  # noqa: DTZ007
    except ValueError:
        return "%" in form and not form.endswith("%")
    except re.error:
        return False
    return False


def time_ns(text: str, form: str, zone: tzinfo | None, zoneless: Callable[[], None]) -> int | None:
    """Return the time in a text, ns since 1970; None if there is none.

    Parameters
    ----------
    text : str
    form : str
        Time format, except `auto`.
    zone : tzinfo or None
        Time zone for times without a zone; None: that of `force_reading`, else UTC.
    zoneless : callable
        Function to call if nothing gives a time zone.
    """
    if len(text) > _LONGEST:
        return None
    try:
        if (unit := EPOCH_NS.get(form)) is not None:
            return _of_epoch(text, unit)
        instant = _instant(text, form)
    except ValueError:
        return None
    if instant.tzinfo is None:
        zone = zone or forced_zone()
        if zone is None:
            zoneless()
        instant = instant.replace(tzinfo=zone or UTC)
    passed = instant - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = passed.days * 86_400 + passed.seconds
    return seconds * NS_PER_S + passed.microseconds * NS_PER_US if 0 <= seconds < _LATEST_S else None


def _of_epoch(text: str, unit: int) -> int | None:
    complete, _, fraction = text.replace(",", ".").partition(".")
    if not (complete.isascii() and complete.isdigit()) or (fraction and not fraction.isdigit()):
        return None
    scale = NS_PER_S // unit
    value = decimal_ns(complete, fraction) if scale == 1 else int(complete) * unit
    return value if 0 <= value < 1 << 62 else None


def _instant(text: str, form: str) -> datetime:
    if form == "iso":
        return datetime.fromisoformat(_UTC_BEHIND.sub("Z", text))
    if "%z" in form:
        text = _OFFSET_BEHIND.sub("", text)
    try:
        instant = datetime.strptime(text, form)  # noqa: DTZ007
        return instant.replace(tzinfo=UTC) if _UTC_WITHIN.search(form) else instant
    except ValueError:
        if "%S" not in form or "%f" in form or not {".", ","} & set(text):
            raise
        return datetime.strptime(text.replace(",", "."), form.replace("%S", "%S.%f", 1))  # noqa: DTZ007


def form_of(texts: Sequence[str]) -> str:
    """Return the time format of a log.

    Parameters
    ----------
    texts : sequence of str
        Times of the first lines; empty texts and texts that are not times are skipped.

    Raises
    ------
    UncertainTimeError
        If no format fits one of them, or several formats fit all and give different times.
    """
    fits = {form: _instants(texts, form) for form in (*EPOCH_NS, *_FORMS)}
    most = max(map(len, fits.values()))
    if not most:
        shown = next((text for text in texts if text), "")[:40]
        raise UncertainTimeError(f"has times in an unknown form, for example {shown!r}")
    best = {form: instants for form, instants in fits.items() if len(instants) == most}
    first, *others = best
    for other in others:
        if best[other] != best[first]:
            shown = texts[0][:40]
            raise UncertainTimeError(f"has ambiguous times ({first!r} or {other!r}), for example {shown!r}", first)
    return first


def _instants(texts: Sequence[str], form: str) -> list[int]:
    if form in EPOCH_NS:
        texts = [text for text in texts if _epoch_of(text) == form]
    elif form == "iso":
        texts = [text for text in texts if _ISO_START.match(text)]
    elif form == _DIGITS:
        texts = [text for text in texts if len(text.partition(".")[0]) == _DIGITS_LONG]
    return [ns for text in texts if (ns := time_ns(text, form, UTC, _nothing)) is not None]


def _epoch_of(text: str) -> str | None:
    complete = text.replace(",", ".").partition(".")[0]
    return _EPOCH_DIGITS.get(len(complete)) if complete.isascii() and complete.isdigit() else None


def _nothing() -> None:
    """Do nothing: what is only tried needs no zone."""
