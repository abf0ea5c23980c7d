"""A CSV log read by a map of its columns: which column holds what, in which unit, and how time is written.

docs/formats.md tells the keys of a map. Values that are no number, or that cannot be (an RSRP of -200 dBm, a
rate below 0), are missing, and counted. A line needs no more fields than the map has columns, those of its
first row of each table; a log of which no line has a time is an error.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from multitracer.errors import FormatError
from multitracer.radio import POSITION, RADIO
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US
from parsers._text.collector_log import Sparse
from parsers._text.lines import Lines
from parsers._text.rows import decimal_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import BinaryIO

    from multitracer.tables import Column, Document, Table

_SCHEMAS = {"radio": RADIO, "position": POSITION}
_OWN = ("time_ns", "line", "asked_ns", "answered_ns")
_EPOCH_NS = {"epoch_s": NS_PER_S, "epoch_ms": NS_PER_MS, "epoch_us": NS_PER_US, "epoch_ns": 1}
_RANGES = {
    "rssi_dbm": (-150, 0), "rsrp_dbm": (-160, -20), "rscp_dbm": (-130, 0), "rsrq_db": (-60, 30),
    "ecio_db": (-60, 10), "sinr_db": (-60, 60), "bler_pct": (0, 100), "ber_pct": (0, 100),
    "cell_busy_pct": (0, 100), "lat_deg": (-90, 90), "lon_deg": (-180, 180), "speed_mps": (0, 1000),
    "heading_deg": (0, 360), "altitude_m": (-12_000, 100_000), "error_m": (0, 10**6), "hdop": (0, 1000),
    "downlink_bps": (0, 10**13), "uplink_bps": (0, 10**13), "tx_power_dbm": (-100, 60), "cqi": (0, 30),
    "rxqual": (0, 7), "registration": (0, 11), "area_code": (0, 0xFFFFFF), "cell_id": (0, (1 << 36) - 1),
    "physical_cell_id": (0, 1007), "channel": (0, 3_279_165), "timing_advance": (0, 10**6), "fix": (0, 3),
    "satellites": (0, 1000),
}  # fmt: skip
"""What can be: TS 36.133 9.1 and TS 38.133 10.1 with room for loggers, TS 25.214 6A.2, TS 38.413 9.3.1.7."""
_RATES = ("downlink_bps", "uplink_bps")
_MOST = 1 << 53
_ZONE = re.compile(r"([+-])(\d\d):(\d\d)")
_ZONELESS = "the time zone is not given; taken as UTC"
_LONGEST_FIELD = 100_000


class MapError(ValueError):
    """A map that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The source of the values of one column of a table."""

    column: str
    scale: float = 1.0
    base: int = 10
    words: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    """What stands for no value in this column, beside what does in all."""

    def is_missing(self, text: str) -> bool:
        """Return whether a text means "no value"; numbers are compared as numbers."""
        return text in self.missing or (bool(self.missing) and _as_float(text) in self._numbers())

    def _numbers(self) -> set[float]:
        return {value for text in self.missing if (value := _as_float(text)) is not None}


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """A map: how time is written, and for each table the cells of one or several rows."""

    time: Cell
    form: str
    zone: timezone | None
    rows: tuple[tuple[str, Mapping[str, Cell], Mapping[str, str]], ...]
    """Table, its cells, and columns whose value is always the same."""
    delimiter: str = ","
    missing: frozenset[str] = frozenset({"", "-", "--", "N/A", "NA", "null", "nan"})


def column_map(data: Document) -> ColumnMap:
    """Return the map that parsed TOML describes.

    Raises
    ------
    MapError
        If a key is unknown, or a table has no such column.
    """
    unknown = data.keys() - {"time", "radio", "position", "delimiter", "missing"}
    if unknown or not isinstance(data.get("time"), dict) or not data.keys() & _SCHEMAS.keys():
        raise MapError(f"needs [time] and [radio] or [position]; unknown: {sorted(unknown)}")
    time = data["time"]
    form = str(time.get("form", "iso"))
    if form not in ("iso", *_EPOCH_NS) and not _is_strptime(form):
        raise MapError(f"time form {form!r} is none of iso, {', '.join(_EPOCH_NS)} or a strptime form")
    delimiter = str(data.get("delimiter", ","))
    if len(delimiter) != 1 or delimiter in '"\r\n\0 ':
        raise MapError("delimiter is one character, and no quotation mark, blank or line end")
    rows = tuple(row for name in _SCHEMAS for row in _rows(name, data.get(name)))
    missing = frozenset(map(str, data["missing"])) if isinstance(data.get("missing"), list) else None
    more: Document = {} if missing is None else {"missing": missing}
    return ColumnMap(
        Cell(str(time.get("column", ""))), form, _zone(time.get("zone")), rows, delimiter, **more
    )


def _is_strptime(form: str) -> bool:
    """Return whether a text is a format of strptime; each part may occur once."""
    try:
        datetime.strptime("", form)  # noqa: DTZ007
    except ValueError:
        return "%" in form and not form.endswith("%")
    except re.error:
        return False
    return False


def _rows(table: str, data: object) -> list[tuple[str, dict[str, Cell], dict[str, str]]]:
    """Return the rows of a table that one line of the log gives: `[radio]`, or several `[[radio]]`."""
    parts = data if isinstance(data, list) else ([] if data is None else [data])
    row_maps = []
    for part in parts:
        if not isinstance(part, dict):
            raise MapError(f"[{table}] is no table of columns")
        wrong = part.keys() - (set(_SCHEMAS[table].names) - set(_OWN))
        if wrong:
            raise MapError(f"the table {table} has no column {sorted(wrong)}")
        always = {k: v["always"] for k, v in part.items() if isinstance(v, dict) and "always" in v}
        cells = {name: _cell(value) for name, value in part.items() if name not in always}
        in_words = {*always, *(name for name, cell in cells.items() if cell.words)}
        if numbers := in_words - {c.name for c in _SCHEMAS[table] if c.dtype.startswith("U")}:
            raise MapError(f"{sorted(numbers)} hold numbers; words and always are for text")
        row_maps.append((table, cells, {name: str(value)[:64] for name, value in always.items()}))
    return row_maps


def _cell(value: object) -> Cell:
    if isinstance(value, str):
        return Cell(value)
    if not isinstance(value, dict) or value.keys() - {"column", "scale", "base", "words", "missing"}:
        raise MapError(
            f"{value!r} is neither a column's name nor column, scale, base, words, missing or always"
        )
    words, missing = value.get("words", {}), value.get("missing", [])
    if not isinstance(missing, list):
        raise MapError(f"missing = {missing!r} is no list of what stands for no value")
    try:
        cell = Cell(
            str(value["column"]),
            float(value.get("scale", 1.0)),
            int(value.get("base", 10)),
            {str(k): str(v) for k, v in words.items()},
            frozenset(map(str, missing)),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise MapError(f"{value!r} has no column, or a scale or base that is no number") from None
    if cell.base not in (10, 16) or not math.isfinite(cell.scale):
        raise MapError("a base is 10 or 16, a scale a number")
    return cell


def _zone(text: object) -> timezone | None:
    if text is None:
        return None
    match = _ZONE.fullmatch(str(text))
    if not match and text != "UTC":
        raise MapError(f"zone {text!r} is neither UTC nor like +01:00")
    if not match:
        return UTC
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(offset if match[1] == "+" else -offset)


def read_mapped(stream: BinaryIO, columns: ColumnMap, *, path: str, name: str) -> dict[str, Table]:
    """Return the tables of a log.

    Raises
    ------
    FormatError
        If the first line does not name the columns of the map, or no line has a time.
    """
    lines = Lines(stream)
    try:
        header = next(_fields(iter(lines), columns.delimiter), None)
    except csv.Error as error:
        raise FormatError(path, f"no CSV: {error}", line=1) from error
    # csv keeps the quotation marks of a first name behind a byte-order mark
    names = {text.strip("\ufeff \t").strip('"'): at for at, text in reversed(list(enumerate(header or [])))}
    if columns.time.column not in names:
        raise FormatError(path, f"no column {columns.time.column!r}; the map does not fit", line=1)
    log = _Log(columns, names, lines)
    log.read()
    log.check_times(path)
    return log.tables(lines.provenance(path, name, missing=log.impossible))


class _Log:
    """The rows read so far."""

    def __init__(self, columns: ColumnMap, names: Mapping[str, int], lines: Lines) -> None:
        self._map = columns
        self._names = names
        self._lines = lines
        self._timed = False
        self._first_time: str | None = None
        self._widest = 0
        self._needed = self._width_needed()
        self._tables = {table: Sparse(_SCHEMAS[table]) for table, _, _ in columns.rows}
        self._makers = [
            (table, [(c, cells[c.name]) for c in _SCHEMAS[table] if c.name in cells], always)
            for table, cells, always in columns.rows
        ]
        self.impossible: dict[str, int] = {}
        """Column -> values that cannot be."""

    def read(self) -> None:
        """Read every line."""
        rows = _fields(iter(self._lines), self._map.delimiter)
        while True:
            try:
                fields = next(rows, None)
            except csv.Error:
                self._lines.skip("no CSV")
                rows = _fields(iter(self._lines), self._map.delimiter)
                continue
            if fields is None:
                return
            if fields:
                self._row(fields)

    def _width_needed(self) -> int:
        """Return the fewest fields with the time and all that the first row of each table takes."""
        first = {table: cells for table, cells, _ in reversed(self._map.rows)}
        columns = [
            self._map.time.column,
            *(cell.column for cells in first.values() for cell in cells.values()),
        ]
        return max(self._names.get(column, 0) for column in columns) + 1

    def _row(self, fields: list[str]) -> None:
        self._widest = max(self._widest, len(fields))
        if len(fields) < min(self._needed, self._widest):
            self._lines.skip("fewer fields than the columns of the map need")
            return
        at = self._names[self._map.time.column]
        text = fields[at].strip() if at < len(fields) else ""
        if self._first_time is None:
            self._first_time = text
        time_ns = self._time_ns(text)
        if time_ns is None:
            self._lines.skip("no time")
            return
        self._timed = True
        for table, cells, always in self._makers:
            values = {c.name: self._value(c, cell, fields) for c, cell in cells}
            if any(value is not None for value in values.values()):
                known = {k: v for k, v in values.items() if v is not None}
                self._tables[table].append(
                    {"source": "csv", **always, **known, "time_ns": time_ns, "line": self._lines.number}
                )

    def _value(self, column: Column, cell: Cell, fields: list[str]) -> object:
        at = self._names.get(cell.column)
        text = "" if at is None or at >= len(fields) else fields[at].strip()
        if text in self._map.missing or cell.is_missing(text):
            return None
        if cell.words:
            return cell.words.get(text)
        if column.dtype.startswith("U"):
            return "".join(c for c in text if c.isprintable())[: int(column.dtype[1:])]
        if column.unit == "ns since 1970":
            return self._time_ns(text)
        value = _number(text, cell)
        least, most = _RANGES.get(column.name, (-_MOST, _MOST))
        if value is None or not least <= value <= most:
            self.impossible[column.name] = self.impossible.get(column.name, 0) + 1
            if column.name in _RATES and value is not None and value < 0:
                self._lines.warn(f"{column.name}: rates below 0, where a counter was reset, are missing")
            return None
        return value if column.dtype.startswith("f") else int(value)

    def _time_ns(self, text: str) -> int | None:
        try:
            if (unit := _EPOCH_NS.get(self._map.form)) is not None:
                whole, _, fraction = text.partition(".")
                scale = NS_PER_S // unit
                time_ns = decimal_ns(whole, fraction) if scale == 1 else int(whole) * unit
                return time_ns if 0 <= time_ns < 1 << 62 else None
            iso = self._map.form == "iso"
            instant = datetime.fromisoformat(text) if iso else datetime.strptime(text, self._map.form)  # noqa: DTZ007
        except ValueError:
            return None
        return self._placed(instant)

    def _placed(self, instant: datetime) -> int | None:
        if instant.tzinfo is None:
            if self._map.zone is None:
                self._lines.warn(_ZONELESS)
            instant = instant.replace(tzinfo=self._map.zone or UTC)
        passed = instant - datetime(1970, 1, 1, tzinfo=UTC)
        seconds = passed.days * 86_400 + passed.seconds
        return seconds * NS_PER_S + passed.microseconds * NS_PER_US if 0 <= seconds < 1 << 33 else None

    def check_times(self, path: str) -> None:
        """Raise FormatError if there are lines, and none has a time; warn if there are none."""
        if self._first_time is None:
            self._lines.warn("no line follows the names of the columns")
        if self._timed or self._first_time is None:
            return
        raise FormatError(
            path,
            f"no line has a time: column {self._map.time.column!r} is not in the form {self._map.form!r}, "
            f"for example {self._first_time[:40]!r}",
        )

    def tables(self, provenance: Document) -> dict[str, Table]:
        """Return every table of the map."""
        return {name: rows.table(provenance) for name, rows in self._tables.items()}


def _fields(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    return csv.reader((text[:_LONGEST_FIELD] for text in lines), delimiter=delimiter)


def _number(text: str, cell: Cell) -> float | None:
    try:
        value = int(text, 16) if cell.base == 16 and len(text) <= 15 else float(text)
    except (ValueError, OverflowError):
        return None
    return value * cell.scale if math.isfinite(value) else None


def _as_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
