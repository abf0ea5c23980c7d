"""Converts the times and numbers of a log into cells of columns, reads units, and detects the time format.

Nothing that a log says raises anything but a ValueError that a function names. What no cell can hold (a date before
1970 or after 2242, a number beyond the width of the column, NaN, infinity, a text that is no number) is NA, and counted
by column: by `Rows` and `filled` where values become cells, by `LogLines.drop` where a value is refused before.

A time format is `iso`, `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`, a format of strptime, or `auto`
(determined from the first lines). If day and month are ambiguous in all of these lines, there is an error.
"""

from __future__ import annotations

import functools
import json
import math
import re
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.errors import SchemaError, right_name
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US
from multitracer.words import count
from parsers._forced import forced_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import tzinfo

    from multitracer.tables import Array, Column, Document, Numbers, Schema

EARLIEST_NS = -86_400 * NS_PER_S
"""First possible time of a log, a day before 1970: what a clock that was never set shows east of Greenwich."""
_LATEST_S = 1 << 33
LATEST_NS = _LATEST_S * NS_PER_S
"""Last possible time of a log, in the year 2242: differences of two times fit into 64 bits."""
MOST = 1 << 53
"""Largest count of a log: a float holds all whole numbers up to it."""
BEYOND = 1 << 64
"""A number or time that no column can hold: where a value is known to be none, it becomes NA and is counted."""


def natural(text: str, *, base: int = 10, most: int = MOST) -> int:
    """Return the whole number in a text of ASCII digits.

    Raises
    ------
    ValueError
        If the text is none, or the number is below 0 or above `most`.
    """
    value = int(text, base) if text.isascii() and text.isalnum() else -1
    if not 0 <= value <= most:
        raise ValueError(f"the number {text[:20]} is outside the valid range")
    return value


def integer(text: str, base: int = 10) -> int:
    """Return the signed whole number in a text of ASCII digits; BEYOND if there is none, or it is longer."""
    try:
        return max(-BEYOND, min(int(text, base), BEYOND)) if text.isascii() and "_" not in text else BEYOND
    except ValueError:
        return BEYOND


def decimal(text: str, *, most: float = math.inf) -> float:
    """Return the number in a text of ASCII digits; infinity, which no column holds, without one or above `most`."""
    value = decimal_of(text)
    return math.inf if value is None or value > most else value


def nearest(value: float | None) -> int:
    """Return the whole number that is nearest to a value; BEYOND if there is none."""
    return round(value) if value is not None and math.isfinite(value) else BEYOND


def real(value: object, *, most: float = MOST) -> float | None:
    """Return a JSON value if it is a number from 0 to `most`; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most else None


def complete(value: object, *, most: float = MOST) -> int | None:
    """Return a JSON value as a whole number if it is a number from 0 to `most`; else None."""
    number = value if type(value) is int and 0 <= value <= most else real(value, most=most)
    return None if number is None else int(number)


def parsed_json(text: str) -> object:
    """Return the value of a JSON text, in which a number of thousands of digits is infinity; None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(text, parse_int=parsed_int) if len(text) > _LONGEST_INT else None
    except (ValueError, RecursionError):
        return None


def parsed_object(text: str) -> Document:
    """Return the JSON object in a text, by `parsed_json`; an empty one if it is none."""
    value = parsed_json(text)
    return value if isinstance(value, dict) else {}


_LONGEST_INT = 4000
"""Digits of the longest number that int() converts in any case (sys.get_int_max_str_digits)."""


def parsed_int(text: str) -> float:
    """Return a whole number of a JSON text; infinity if it has thousands of digits."""
    return int(text) if len(text) < _LONGEST_INT else math.inf


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
    """Return a finite number of ASCII digits; None if there is none.

    If it has commas and points, the last one is the decimal sign.
    """
    if "," in text:
        decimal_comma = text.rfind(",") > text.rfind(".")
        text = text.replace(".", "").replace(",", ".") if decimal_comma else text.replace(",", "")
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# The common part of readers of a sender's state: endpoints, exact numbers from text, sparse tables.


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
    return natural(seconds, most=_LATEST_S - 1) * NS_PER_S + natural(fraction[:9].ljust(9, "0"))


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
        by_name = {column.name: column for column in schema}
        if unknown := [name for name in names if name not in by_name]:
            raise SchemaError(f"the table {schema.name} has no column {unknown[0]!r}{right_name(unknown[0], by_name)}")
        self._columns = [by_name[name] for name in names]
        self._rows: list[tuple[object, ...]] = []
        self._chunks: list[list[Array]] = []
        self.unusable: dict[str, list[int]] = {}
        """Numbers of the rows, from 0, whose value no cell of a column can hold, by column; these cells are NA."""

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
        begin, chunk = len(self) - len(self._rows), []
        for column, each in zip(self._columns, values, strict=True):
            cells, unusable = _cells(column, each)
            chunk.append(cells)
            if len(unusable):
                self.unusable.setdefault(column.name, []).extend((begin + unusable).tolist())
        self._chunks.append(chunk)
        self._rows = []

    def columns(self) -> dict[str, Array]:
        """Return the columns collected, by name: each of shape (len(self),), dtype of its column."""
        self._pack()
        joined = map(np.concatenate, zip(*self._chunks, strict=True))
        return dict(zip((c.name for c in self._columns), joined, strict=True))

    def table(self, provenance: Mapping[str, object], columns: Mapping[str, Array] | None = None) -> Table:
        """Return the table in order of time; `columns` replace collected columns of the same name."""
        made = self.columns() | dict(columns or {})
        return filled(self._schema, made, noted(provenance, {name: len(rows) for name, rows in self.unusable.items()}))


def filled(schema: Schema, columns: Mapping[str, Array], provenance: Mapping[str, object]) -> Table:
    """Return a table in order of time; missing columns are filled with NA.

    Parameters
    ----------
    schema : Schema
    columns : mapping of str to ndarray, each of shape (n_rows,)
        Some columns of the schema; `time_ns` (int64, ns since 1970) must be among them. Impossible times become
        NOT_A_TIME, and are counted.
    provenance : mapping
    """
    made, unusable = dict(columns), dict[str, int]()
    for column in schema:
        if column.is_time and column.name in made:
            made[column.name], wrong = _possible(column, made[column.name])
            unusable[column.name] = len(wrong)
    order = np.argsort(made["time_ns"], kind="stable")
    full = {c.name: made[c.name][order] if c.name in made else _missing(c, len(order)) for c in schema}
    return Table(schema, full, noted(provenance, unusable))


def noted(provenance: Mapping[str, object], unusable: Mapping[str, int]) -> Document:
    """Return a provenance with the numbers of values that no column can hold, and a warning for each column.

    Parameters
    ----------
    provenance : mapping
    unusable : mapping of str to int
        Number of the values by column.
    """
    facts: Document = dict(provenance)
    for name, many in unusable.items():
        if many:
            missing = facts.get("missing", {})
            facts["missing"] = missing | {name: missing.get(name, 0) + many}
            are = "is" if many == 1 else "are"
            sentence = f"{name}: {count(many, 'value')} {are} impossible: set to missing"
            facts["warnings"] = [*facts.get("warnings", ()), sentence]
    return facts


def times(factors: Array, values: Array) -> Array:
    """Return the product of two arrays; NA where one factor is NA.

    Parameters
    ----------
    factors, values : ndarray of int64, same shape
        NA (-1) where missing.

    Returns
    -------
    ndarray of int64, same shape
        NA where either is NA, or the product does not fit.
    """
    unknown = (factors == NA) | (values == NA) | (np.abs(factors) > _MOST_PRODUCT // np.maximum(np.abs(values), 1))
    return np.where(unknown, NA, factors * np.where(unknown, 0, values))


_MOST_PRODUCT = (1 << 63) - 1


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


def _cells(column: Column, values: Sequence[Any]) -> tuple[Array, Numbers]:
    """Return values as the cells of a column, and the places of those that no cell can hold, which are NA."""
    if column.dtype.startswith("V"):
        return np.frombuffer(b"".join(values), dtype=column.dtype), _NONE
    if column.dtype.startswith("U"):
        return np.array(_encodable(values), dtype=column.dtype), _NONE
    try:
        return _possible(column, np.array(values, dtype=column.dtype))
    except (OverflowError, ValueError):
        missing, fits = _missing(column, 1)[0], [_fits(column, value) for value in values]
    cells = np.array([value if fit else missing for value, fit in zip(values, fits, strict=True)], dtype=column.dtype)
    cells, beyond = _possible(column, cells)
    return cells, np.union1d(np.flatnonzero(~np.array(fits)), beyond)


def _encodable(texts: Sequence[str]) -> Sequence[str]:
    """Return texts with U+FFFD for halves of surrogate pairs, which JSON can escape alone and nothing can write."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [_SURROGATE.sub("\ufffd", text) for text in texts]
    return texts


_SURROGATE = re.compile("[\ud800-\udfff]")


def _fits(column: Column, value: float) -> bool:
    dtype = np.dtype(column.dtype)
    try:
        return dtype.kind == "f" or bool(np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max)
    except (OverflowError, ValueError):  # infinity, NaN
        return False


def _possible(column: Column, cells: Array) -> tuple[Array, Numbers]:
    """Return cells with NA for infinity and impossible times, and the places of these."""
    if column.is_time:
        wrong = ((cells < EARLIEST_NS) | (cells > LATEST_NS)) & (cells != NOT_A_TIME)
    elif cells.dtype.kind == "f":
        wrong = np.isinf(cells)
    else:
        return cells, _NONE
    places = np.flatnonzero(wrong)
    return (np.where(wrong, _missing(column, 1)[0], cells), places) if len(places) else (cells, _NONE)


_NONE: Numbers = np.empty(0, dtype=np.int64)


def _missing(column: Column, length: int) -> Array:
    if column.unit.startswith("ns"):
        return np.full(length, NOT_A_TIME, dtype=column.dtype)
    if np.dtype(column.dtype).kind == "f":
        return np.full(length, np.nan, dtype=column.dtype)
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
    except (ValueError, OverflowError):
        return None
    if instant.tzinfo is None:
        zone = zone or forced_zone()
        if zone is None:
            zoneless()
        instant = instant.replace(tzinfo=zone or UTC)
    passed_ns = ns_since_1970(instant)
    return passed_ns if EARLIEST_NS <= passed_ns < LATEST_NS else None


def ns_since_1970(instant: datetime) -> int:
    """Return the time of a date with a time zone in ns since 1970, exactly: also of the years 1 and 9999."""
    passed = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (passed.days * 86_400 + passed.seconds) * NS_PER_S + passed.microseconds * NS_PER_US


def _of_epoch(text: str, unit: int) -> int | None:
    complete, _, fraction = text.replace(",", ".").partition(".")
    if not (complete.isascii() and complete.isdigit()) or (fraction and not fraction.isdigit()):
        return None
    scale = NS_PER_S // unit
    value = decimal_ns(complete, fraction) if scale == 1 else natural(complete, most=LATEST_NS) * unit
    return value if value <= LATEST_NS else None


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
