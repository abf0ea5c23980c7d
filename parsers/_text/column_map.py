"""The map of a CSV log: quantity and unit of each column, and the time format.

docs/formats.md explains the keys of a map. `mapped_log.py` reads a log with a map.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer.schemas.radio import POSITION, RADIO
from multitracer.units import NS_PER_S
from parsers._forced import zone_of
from parsers._text.times import AUTO, EPOCH_NS, decimal_of, factor, is_form, plain, time_ns, without_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from multitracer.tables import Column, Document

# Words by which loggers name radio technologies, and ours for each.


RAT = {
    "LTE": "LTE", "LTE-CA": "LTE", "LTE_CA": "LTE", "LTE-A": "LTE", "LTE+": "LTE", "4G": "LTE", "4G+": "LTE",
    "5G": "NR", "NR": "NR", "5G SA": "NR", "5G NSA": "NR", "NR_SA": "NR", "NR_NSA": "NR", "NR-SA": "NR",
    "NR-NSA": "NR", "UMTS": "UMTS", "WCDMA": "UMTS", "3G": "UMTS", "HSPA": "HSPA", "HSPA+": "HSPA",
    "HSPAP": "HSPA", "HSDPA": "HSPA", "HSUPA": "HSPA", "EDGE": "EDGE", "GPRS": "GSM", "GSM": "GSM",
    "2G": "GSM", "CDMA": "CDMA", "1XRTT": "CDMA", "EVDO": "EVDO",
}  # fmt: skip
_MORE = {
    "LTE FDD": "LTE", "LTE TDD": "LTE", "LTE-FDD": "LTE", "LTE-TDD": "LTE", "LTE_FDD": "LTE",
    "LTE_TDD": "LTE", "E-UTRAN": "LTE", "EUTRAN": "LTE", "E-UTRA": "LTE", "EUTRA": "LTE", "4G/LTE": "LTE",
    "LTE/4G": "LTE", "4G LTE": "LTE", "Lte": "LTE", "5G NR": "NR", "5G-NR": "NR", "5GNR": "NR", "NR5G": "NR",
    "NR5G-SA": "NR", "NR5G-NSA": "NR", "UTRAN": "UMTS", "UTRA": "UMTS", "Umts": "UMTS", "Wcdma": "UMTS",
    "GERAN": "GSM", "Gsm": "GSM",
}  # fmt: skip
"""Technologies that a proposed map contains only if they occur in the log."""
WORDS = RAT | _MORE | {word.lower(): rat for word, rat in (RAT | _MORE).items()}
"""Technologies by their names in upper and lower case."""


SCHEMAS = {"radio": RADIO, "position": POSITION}
RANGES = {
    "rssi_dbm": (-150, 0), "rsrp_dbm": (-160, -20), "rscp_dbm": (-130, 0), "rsrq_db": (-60, 30),
    "ecio_db": (-60, 10), "sinr_db": (-60, 60), "bler_pct": (0, 100), "ber_pct": (0, 100),
    "cell_busy_pct": (0, 100), "lat_deg": (-90, 90), "lon_deg": (-180, 180), "speed_mps": (0, 1000),
    "heading_deg": (0, 360), "altitude_m": (-12_000, 100_000), "error_m": (0, 10**6), "hdop": (0, 1000),
    "downlink_bps": (0, 10**11), "uplink_bps": (0, 10**11), "assigned_down_bps": (0, 10**11),
    "assigned_up_bps": (0, 10**11), "rlp_resent_bytes": (0, 10**10), "tx_power_dbm": (-100, 60), "cqi": (0, 30),
    "rxqual": (0, 7), "registration": (0, 11), "area_code": (0, 0xFFFFFF), "cell_id": (0, (1 << 36) - 1),
    "physical_cell_id": (0, 1007), "channel": (0, 3_279_165), "timing_advance": (0, 10**6), "fix": (0, 3),
    "satellites": (0, 1000),
}  # fmt: skip
"""Ranges of valid values: TS 36.133 9.1 and TS 38.133 10.1 with a margin for loggers, TS 25.214 6A.2, TS
38.413 9.3.1.7; rates up to five times that of a cell by ITU-R M.2410 (20 Gbit/s)."""
AUTO_DELIMITER = "auto"
DELIMITERS = "\t;,|"
_OWN = ("time_ns", "line", "asked_ns", "answered_ns")
_KEYS = {"time", "radio", "position", "delimiter", "missing", "map", "header"}
_LONGEST_STEP_S = 86_400.0
_CELL_KEYS = {"column", "scale", "unit", "base", "words", "missing", "above", "bits", "hemisphere", "unit_in"}
_MOST_BITS = 16
"""Maximum bits of a cell number within its node: 8 under an eNodeB (TS 36.413, 9.2.1.38), 4 to 14 under a gNB
(TS 38.413, 9.3.1.6 and 9.3.1.7), 16 under an RNC (TS 25.413, 9.2.1.28)."""


class MapError(ValueError):
    """The map is not valid; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """The source of the values of one column of a table."""

    column: str
    scale: float = 1.0
    base: int = 10
    words: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    """Texts that mean a missing value in this column, in addition to those for all columns."""
    above: str = ""
    """Column of the log with the upper part of the number, such as the base station of a sector."""
    bits: int = 0
    """Number of bits of the value below the upper part."""
    hemisphere: str = ""
    """Column of the log with N, S, E or W, if the values have no sign; else ""."""
    unit_in: str = ""
    """Column of the log with the unit of each value; else ""."""

    @property
    def columns(self) -> list[str]:
        """Return the names of the log's columns from which this source reads."""
        return [name for name in (self.column, self.above, self.hemisphere, self.unit_in) if name]

    def is_missing(self, text: str) -> bool:
        """Return whether a text means "no value"; numbers are compared as numbers."""
        return text in self.missing or (bool(self.missing) and decimal_of(text) in self._numbers())

    def _numbers(self) -> set[float]:
        return {value for text in self.missing if (value := decimal_of(text)) is not None}


@dataclass(frozen=True, slots=True)
class RowMap:
    """Map from a line of the log to one row of a table."""

    table: str
    cells: Mapping[str, ColumnSource]
    always: Mapping[str, str]
    """Columns with a constant value."""
    when: tuple[str, frozenset[str], bool] | None = None
    """Column, words, and a flag: True selects the lines with one of these words, False all other lines.

    None selects all lines."""


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """A map: the time format, and the rows that each line of the log gives."""

    time: tuple[str, ...]
    """Columns of the time: one column, or a date and a time of day; the texts are joined with blanks."""
    form: str
    zone: tzinfo | None
    rows: tuple[RowMap, ...]
    delimiter: str = ","
    missing: frozenset[str] = frozenset({"", "-", "--", "N/A", "n/a", "NA", "null", "nan", "NaN"})
    start_ns: int | None = None
    """Time of the first line of a log without times, ns since 1970; None if it has a column of times."""
    step_ns: int = 0
    """Time from one line to the next of such a log, ns."""
    has_header: bool = True
    """Whether the first line names the columns; otherwise their names are their numbers, from 1."""

    @property
    def columns(self) -> list[str]:
        """The names of all columns of the log that the map reads."""
        cells = [column for row in self.rows for cell in row.cells.values() for column in cell.columns]
        conditions = [row.when[0] for row in self.rows if row.when]
        return list(dict.fromkeys([*self.time, *cells, *conditions]))


class LogHeader:
    """The column names in the first line of a log, and their positions.

    A name is searched exactly, then without case and spaces, then without the unit in brackets. If several
    columns have the same name, the first one is used.
    """

    def __init__(self, names: Sequence[str]) -> None:
        # csv keeps the quotation marks of a first name behind a byte-order mark
        texts = [name.strip("\ufeff \t").strip('"') for name in names]
        self.names = texts
        self._exact = {text: at for at, text in reversed(list(enumerate(texts)))}
        self._plain = {plain(text): at for at, text in reversed(list(enumerate(texts)))}
        bare = [(plain(name), (at, unit)) for at, text in enumerate(texts)
                for name, unit in [without_unit(text)] if unit]  # fmt: skip
        self._bare = dict(reversed(bare))

    def find(self, column: str) -> int | None:
        """Return the position of a column, from 0; None if no column has this name."""
        return self.find_with_unit(column)[0]

    def find_with_unit(self, column: str) -> tuple[int | None, str]:
        """Return the position of a column (None if missing), and the unit in the log's name only."""
        at = self._exact.get(column)
        at = self._plain.get(plain(column)) if at is None else at
        return (at, "") if at is not None else self._bare.get(plain(column), (None, ""))


def column_map(data: Document) -> ColumnMap:
    """Return the map from parsed TOML.

    Raises
    ------
    MapError
        If a key is unknown, or a table has no such column.
    """
    unknown = ", ".join(sorted(data.keys() - _KEYS))
    if unknown or not isinstance(data.get("time"), dict) or not data.keys() & SCHEMAS.keys():
        what = (
            f"; unknown: {unknown}"
            if unknown
            else ""
            if data
            else "; the file is empty: write a map, or delete the file"
        )
        raise MapError(f"a column map must have the table [time], and the table [radio] or [position]{what}")
    time = data["time"]
    form = str(time.get("form", "iso"))
    if not is_form(form):
        raise MapError(
            f'the key "form" of [time] must be iso, {AUTO}, {", ".join(EPOCH_NS)} or a strptime format, but is {form!r}'
        )
    delimiter = str(data.get("delimiter", ","))
    if delimiter != AUTO_DELIMITER and (len(delimiter) != 1 or delimiter in '"\r\n\0 '):
        raise MapError(
            '"delimiter" must be "auto" or one character, which must not be a quotation mark, a space or a line end'
        )
    columns = time.get("column", "")
    rows = tuple(row for name in SCHEMAS for row in _rows(name, data.get(name)))
    missing = frozenset(map(str, data["missing"])) if isinstance(data.get("missing"), list) else None
    more: Document = {} if missing is None else {"missing": missing}
    more |= {"has_header": data.get("header") is not False} | _steps(time)
    if "start_ns" in more:
        columns, form = [], "iso"
    return ColumnMap(
        tuple(map(str, columns)) if isinstance(columns, list) else (str(columns),),
        form,
        _zone(time.get("zone")),
        rows,
        delimiter,
        **more,
    )


def _steps(time: Document) -> Document:
    """Return begin and step of a log without times, from the keys "start" and "step" (in seconds)."""
    if "start" not in time:
        return {}
    start, step = str(time["start"]), time.get("step", 1.0)
    form = "epoch_s" if start.replace(".", "", 1).isdigit() else "iso"
    start_ns = time_ns(start, form, _zone(time.get("zone")), lambda: None)
    is_step = isinstance(step, int | float) and 0 < step <= _LONGEST_STEP_S
    if start_ns is None or not is_step or time.get("column"):
        raise MapError(
            'the key "start" of [time] must be an ISO 8601 time or seconds since 1970, "step" the seconds '
            'from one line to the next, and there must be no "column"'
        )
    return {"start_ns": start_ns, "step_ns": round(float(step) * NS_PER_S)}


def _rows(table: str, data: object) -> list[RowMap]:
    """Return the row maps of a table: one from `[radio]`, or several from `[[radio]]`."""
    parts = data if isinstance(data, list) else ([] if data is None else [data])
    return [_row(table, part) for part in parts]


def _row(table: str, part: object) -> RowMap:
    if not isinstance(part, dict):
        raise MapError(f"[{table}] must be a TOML table with one line per column: name = <value>")
    when = _when(part.get("when"))
    part = {name: value for name, value in part.items() if name != "when"}
    columns = {column.name: column for column in SCHEMAS[table]}
    if wrong := part.keys() - (columns.keys() - set(_OWN)):
        raise MapError(f"the table {table} has no columns {sorted(wrong)}; remove them from the map")
    always = {k: v["always"] for k, v in part.items() if isinstance(v, dict) and "always" in v}
    cells = {name: _cell(value, columns[name]) for name, value in part.items() if name not in always}
    in_words = {*always, *(name for name, cell in cells.items() if cell.words)}
    if numbers := in_words - {c.name for c in SCHEMAS[table] if c.dtype.startswith("U")}:
        raise MapError(
            'the keys "words" and "always" can be used only with columns of text, but these '
            f"columns contain numbers: {sorted(numbers)}"
        )
    return RowMap(table, cells, {name: str(value)[:64] for name, value in always.items()}, when)


def _when(value: object) -> tuple[str, frozenset[str], bool] | None:
    if value is None:
        return None
    belongs = isinstance(value, dict) and "is" in value
    which = "is" if belongs else "is_not"
    is_complete = isinstance(value, dict) and value.keys() == {"column", which} and isinstance(value[which], list)
    if not isinstance(value, dict) or not is_complete:
        raise MapError(
            f'"when" must have the form {{ column = "tech", is = ["LTE"] }} (or '
            f'"is_not" instead of "is"), but is {value!r}'
        )
    return str(value["column"]), frozenset(plain(str(word)) for word in value[which]), belongs


def _cell(value: object, column: Column) -> ColumnSource:
    if isinstance(value, str):
        return ColumnSource(value)
    if not isinstance(value, dict) or value.keys() - _CELL_KEYS:
        raise MapError(
            f"{value!r} must be the name of a column, or a table that contains only the keys "
            f'{", ".join(sorted(_CELL_KEYS))} or "always"'
        )
    words, missing = value.get("words", {}), value.get("missing", [])
    if not isinstance(missing, list):
        raise MapError(f'"missing" must be a list of the texts that mean a missing value, but is {missing!r}')
    by_unit = factor(str(value["unit"]), column.unit) if "unit" in value else 1.0
    if by_unit is None or {"unit", "scale"} <= value.keys():
        raise MapError(
            f'{value!r}: the key "unit" must be a unit that can be converted to {column.unit} (the '
            f'unit of {column.name}), and only one of "unit" and "scale" can be given'
        )
    try:
        cell = ColumnSource(
            str(value["column"]),
            float(value.get("scale", by_unit)),
            int(value.get("base", 10)),
            {str(k): str(v) for k, v in words.items()},
            frozenset(map(str, missing)),
            str(value.get("above", "")),
            int(value.get("bits", 0)),
            str(value.get("hemisphere", "")),
            str(value.get("unit_in", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise MapError(f'{value!r} must have the key "column", and "scale" and "base" must be numbers') from None
    if cell.base not in (10, 16) or not math.isfinite(cell.scale):
        raise MapError('"base" must be 10 or 16, and "scale" must be a finite number')
    if bool(cell.above) != (0 < cell.bits <= _MOST_BITS) or (cell.above and not column.dtype.startswith("i")):
        raise MapError(
            f'the keys "above" and "bits" (1 to {_MOST_BITS}) must be given together, and only '
            "for a column of whole numbers"
        )
    if cell.hemisphere and column.name not in ("lat_deg", "lon_deg"):
        raise MapError('the key "hemisphere" can be used only for the columns lat_deg and lon_deg')
    return cell


def _zone(text: object) -> tzinfo | None:
    if text is None:
        return None
    try:
        return zone_of(str(text))
    except ValueError as error:
        raise MapError(f'"zone": {error}') from error


def delimiter_of(header: str) -> str:
    """Return the delimiter in the first line of a log; a comma if there is only one name."""
    return max(DELIMITERS, key=lambda each: (header.count(each), each == ","))
