"""Reads a CSV log with a map of its columns.

Values that are not numbers, or are impossible (an RSRP of -200 dBm, a rate below 0, a position at 0/0), are
missing, and counted. A line must have the fields of the time and of the first row of each table. A log in
which no line has a time is an error.
"""

from __future__ import annotations

import csv
import functools
import tomllib
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.schemas.radio import RADIO
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from multitracer.words import count
from parsers._format import HEAD_BYTES, Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.column_map import (
    AUTO_DELIMITER,
    RANGES,
    SCHEMAS,
    ColumnMap,
    ColumnSource,
    LogHeader,
    RowMap,
    column_map,
    delimiter_of,
)
from parsers._text.lines import ZONELESS, LogLines, first_line, names_in
from parsers._text.placeholders import remove_placeholders
from parsers._text.times import AUTO, UncertainTimeError, decimal_of, factor, form_of, natural, plain, time_ns, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from multitracer.tables import Array, Column, Mask, Numbers, Schema, Table

    Fields = tuple[int, list[str]]
    """A line: its number, and its fields."""

# Times of a log that jump: back, or far ahead, as where a phone takes its time from two clocks.


_BACK_NS = NS_PER_S
"""Maximum backward step that is no jump: loggers may write the lines of one second in another order."""
_AHEAD_NS = 86_400 * NS_PER_S
"""Minimum forward step that counts as a jump: one day. Not measured."""


class Jumps:
    """Finds jumps of the times of a log, which must be added in the order of the log."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._jumps: dict[str, tuple[int, int, int]] = {}
        self._later_less_earlier = 0

    def take(self, number: int, at_ns: int | None) -> None:
        """Add the time of a line, in ns since 1970; None if it has none."""
        if at_ns is None:
            return
        passed = 0 if self._last_ns is None else at_ns - self._last_ns
        self._last_ns = at_ns
        self._later_less_earlier += (passed > 0) - (passed < 0)
        if -_BACK_NS < passed < _AHEAD_NS:
            return
        way = "back" if passed < 0 else "ahead"
        times, most, line = self._jumps.get(way, (0, 0, number))
        self._jumps[way] = (times + 1, max(most, abs(passed)), line)

    def sentences(self) -> Iterator[str]:
        """Yield a sentence on backward jumps (unless the newest line is first), and on forward jumps."""
        for way, (times, most_ns, line) in self._jumps.items():
            if way == "back" and self._later_less_earlier < 0:
                continue
            seconds = most_ns // NS_PER_S
            often = count(times, "time")
            yield (
                f"the times jump {way} {often}, by up to {seconds:,} s, first at line {line:,}; the "
                "log may contain the times of two clocks"
            )


# The second leg of a dual connection, where a log names the cells of both technologies in one statement.


_MOSTLY_BOTH = 0.5
"""Minimum share of times with both roles (serving, neighbour) in a log with a line for each cell. A log with
only the serving cell may have two lines in one second, when the cell changes (a drive of the UCC data set: 1
of 524). Not measured for other data."""


def name_legs(radio: Table) -> None:
    """Mark NR cells as secondary, in place, if the same reading also has a serving LTE cell.

    Such a phone has its anchor in LTE (EN-DC: TS 37.340, 4.1.2). Two serving cells in each reading would look
    like two cell changes.

    Parameters
    ----------
    radio : Table
        RADIO of one log. Rows of one line are one reading; rows with the same time are one reading if most
        times with NR also have LTE.
    """
    serving = np.isin(radio["role"], ("serving", ""))
    lte, nr = (serving & (radio["rat"] == rat) for rat in ("LTE", "NR"))
    legs = _together(nr, lte, radio["line"].astype(np.int64))
    timed = radio["time_ns"] != NOT_A_TIME
    at_one_time = _together(nr & timed, lte & timed, radio["time_ns"])
    if at_one_time.sum() >= _MOSTLY_BOTH * max(int(nr.sum()), 1):
        legs |= at_one_time
    radio["role"][legs] = "secondary"


def _together(nr: Mask, lte: Mask, statement: Numbers) -> Mask:
    """Return which rows of NR belong to a reading that also has LTE."""
    return np.asarray(nr & np.isin(statement, statement[lte]))


# The column maps that come with MultiTracer, `parsers/maps/NAME.toml`, chosen by a log's first line.
#
# A map fits if all columns that it needs are there, in any order, in small or capital letters. Of several
# that fit, the one with most of its columns in the log is taken; a tie is an error that names both.


@dataclass(frozen=True, slots=True)
class BundledMap:
    """One map that comes with MultiTracer."""

    name: str
    """Name of the map's file, without the suffix."""
    description: str
    source: str
    """Source of the information on the columns."""
    certain: str
    """Text on the reliability of the map, with the reason."""
    needs: tuple[str, ...]
    """Columns that a log must have for this map."""
    columns: ColumnMap

    @property
    def layer(self) -> str:
        """The layer of the map: position if it gives only positions, otherwise radio."""
        return "radio" if any(row.table == "radio" for row in self.columns.rows) else "position"

    def matched(self, header: LogHeader) -> int:
        """Return the number of the map's columns that a log has; 0 if a required column is missing."""
        if not all(header.find(column) is not None for column in self.needs):
            return 0
        return sum(header.find(column) is not None for column in self.columns.columns)


@functools.cache
def bundled_maps() -> tuple[BundledMap, ...]:
    """Return all bundled maps, in order of their names."""
    folder = resources.files("parsers") / "maps"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=lambda p: p.name)
    return tuple(_read(path.name.removesuffix(".toml"), path.read_text("utf-8")) for path in paths)


def _read(name: str, text: str) -> BundledMap:
    data = tomllib.loads(text)
    about = data["map"]
    return BundledMap(
        name, about["description"], about["source"], about["certain"], tuple(about["needs"]), column_map(data)
    )


def _best(header: LogHeader) -> list[BundledMap]:
    """Return the best maps for a header: one, several if they fit equally well, or an empty list."""
    matched = [(each.matched(header), each) for each in bundled_maps()]
    most = max((count for count, _ in matched), default=0)
    return [each for count, each in matched if count == most and most]


def sniff_layer(head: bytes, layer: str) -> Match:
    """Return "yes" if the first line has the columns of a bundled map of this layer."""
    text = head.decode("utf-8-sig", "replace")
    is_cut = len(head) >= HEAD_BYTES
    complete = text if is_cut else text[: text.rfind("\n") + 1]
    line = first_line(complete.splitlines())
    best = _best(LogHeader(names_in(line, delimiter_of(line)))) if line else []
    return "yes" if best and best[0].layer == layer else "no"


def read_bundled(stream: BinaryIO, *, path: str, name: str) -> dict[str, Table]:
    """Return the tables of a log, read with the bundled map that fits best.

    Raises
    ------
    FormatError
        If no map fits, several fit equally well, or no line has a time.
    """
    chosen: list[BundledMap] = []

    def choose(header: LogHeader) -> ColumnMap:
        chosen.extend(_best(header))
        if not chosen:
            raise FormatError(
                path, "no bundled column map matches the columns of this file; write a map in the same folder", line=1
            )
        if len(chosen) > 1:
            names = " and ".join(each.name for each in chosen)
            raise FormatError(path, f"the maps {names} match equally well; copy one of them to {path}.toml", line=1)
        return chosen[0].columns

    tables = read_mapped(stream, choose, path=path, name=name)
    for table in tables.values():
        table.provenance["map"] = chosen[0].name
    return tables


_RATES = ("downlink_bps", "uplink_bps")
_MOST = 1 << 53
_LONGEST_FIELD = 100_000
_SAMPLE_ROWS = 200
"""Number of lines from which the time format is determined; not measured."""
_MOSTLY = 0.5
_FEW = 4
_LONGEST_WORD = 64  # of a condition: each row of each line asks for it, so the last ones are kept
_HEMISPHERES = {"lat_deg": ("N", "S"), "lon_deg": ("E", "W")}


_plain_word = lru_cache(maxsize=64)(plain)


def read_mapped(
    stream: BinaryIO,
    columns: ColumnMap | Callable[[LogHeader], ColumnMap],
    *,
    path: str,
    name: str,
    arrange: Callable[[dict[str, Array]], None] | None = None,
) -> dict[str, Table]:
    """Return the tables of a log, read with a map.

    Parameters
    ----------
    stream : binary file
    columns : ColumnMap or callable
        The map, or a function that selects a map by the column names in the first line.
    path, name : str
        File path and format name, for messages and the provenance.
    arrange : callable, optional
        Function that moves values of RADIO to the columns where they belong, in place.

    Raises
    ------
    FormatError
        If the first line lacks columns of the map, or no line has a time.
    """
    lines = LogLines(stream)
    text = first_line(lines)
    if callable(columns):
        header = LogHeader(names_in(text, delimiter_of(text)))
        columns = replace(columns(header), delimiter=delimiter_of(text))
    elif columns.delimiter == AUTO_DELIMITER:
        columns = replace(columns, delimiter=delimiter_of(text))
    names = names_in(text, columns.delimiter)
    header = LogHeader(names if columns.has_header else [str(n) for n in range(1, len(names) + 1)])
    for column in columns.time:
        if header.find(column) is None:
            raise FormatError(
                path, f"this file has no column {column!r}; correct the column map", line=max(lines.number, 1)
            )
    tables = _Log(columns, header, lines, path, [] if columns.has_header else [text]).read(name)
    if RADIO.name in tables:
        if arrange is not None:
            arrange(tables[RADIO.name].columns)
        remove_placeholders(tables[RADIO.name])
    return tables


@dataclass(slots=True)
class _Source:
    """Position of a table column's value in a line, and counts of its values so far."""

    column: Column
    cell: ColumnSource
    at: int | None
    scale: float
    second_at: int | None = None
    """Position of a second text (upper part of the value, or hemisphere); None if there is none."""
    seen: int = 0
    impossible: int = 0
    example: str = ""
    is_wrong: bool = False
    """Whether impossible values are more than one code for a missing value (such as 0 dBm without 5G)."""

    @property
    def is_doubted(self) -> bool:
        """Whether most values are impossible: the map may name a wrong column or unit."""
        return self.impossible >= _FEW and self.impossible > _MOSTLY * self.seen

    @property
    def is_unread(self) -> bool:
        """Whether also the possible values of this column must be ignored."""
        return self.is_doubted and self.is_wrong


@dataclass(slots=True)
class _Maker:
    """Converts each line to one row of a table."""

    row: RowMap
    sources: list[_Source]
    condition: int | None = None

    def applies(self, fields: list[str]) -> bool:
        """Return whether a line gives this row."""
        if self.row.when is None:
            return True
        at, (_, words, belongs) = self.condition, self.row.when
        return at is not None and at < len(fields) and (_plain_word(fields[at][:_LONGEST_WORD]) in words) == belongs


class _Times:
    """Reads the times of the lines: columns, format and jumps."""

    def __init__(self, columns: ColumnMap, header: LogHeader, lines: LogLines) -> None:
        self._map = columns
        self.form = columns.form
        self._lines = lines
        self.at = [at for column in columns.time if (at := header.find(column)) is not None]
        self.seen = False
        self.first: str | None = None
        self._begin = 0
        self.jumps = Jumps()

    def text(self, fields: list[str]) -> str:
        """Return the text of the time in a line."""
        return " ".join(fields[at].strip() for at in self.at if at < len(fields))

    def of(self, number: int, fields: list[str]) -> int | None:
        """Return the time of a line; None if it has none."""
        text = self.text(fields)
        if self.first is None:
            self.first, self._begin = text, number
        if self._map.start_ns is not None:
            self.seen = True
            return self._map.start_ns + (number - self._begin) * self._map.step_ns
        at_ns = self.of_text(text)
        if at_ns is not None:
            self.seen = True
            self.jumps.take(number, at_ns)
        return at_ns

    def of_text(self, text: str) -> int | None:
        """Return the time in a text with this log's time format, in ns since 1970; None if it has none."""
        return time_ns(text, self.form, self._map.zone, lambda: self._lines.warn(ZONELESS))


class _Log:
    """Reads the lines of one log, and collects the rows."""

    def __init__(  # all that a log is read with
        self, columns: ColumnMap, header: LogHeader, lines: LogLines, path: str, first: list[str]
    ) -> None:
        self._map = columns
        self._first = first
        self._lines = lines
        self._path = path
        self._times = _Times(columns, header, lines)
        self._widest = 0
        self._needed = self._width_needed(header)
        self._tables = {row.table: Sparse(SCHEMAS[row.table]) for row in columns.rows}
        self._makers = [self._maker(row, header) for row in columns.rows]
        self.impossible: dict[str, int] = {}
        """Number of impossible values, by column."""
        self._nowhere = 0

    def _maker(self, row: RowMap, header: LogHeader) -> _Maker:
        sources = [self._source(c, row.cells[c.name], header) for c in SCHEMAS[row.table] if c.name in row.cells]
        return _Maker(row, sources, header.find(row.when[0]) if row.when else None)

    def _source(self, column: Column, cell: ColumnSource, header: LogHeader) -> _Source:
        at, unit = header.find_with_unit(cell.column)
        scale = factor(unit, column.unit) if unit else cell.scale
        if scale is None:
            self._lines.warn(
                f"{column.name}: the column {cell.column!r} has the unknown unit {unit[:16]!r}; this column is not read"
            )
            return _Source(column, cell, None, 1.0)
        return _Source(column, cell, at, scale, header.find(cell.above or cell.hemisphere or cell.unit_in))

    def _width_needed(self, header: LogHeader) -> int:
        """Return the minimum number of fields of a line: the time, and the first row of each table."""
        first = {row.table: row.cells for row in reversed(self._map.rows)}
        cells = [cell for each in first.values() for cell in each.values()]
        columns = [*self._map.time, *(column for cell in cells for column in cell.columns)]
        return max(header.find(column) or 0 for column in columns) + 1

    def read(self, name: str) -> dict[str, Table]:
        """Read all lines, and return all tables of the map."""
        rows = self._rows()
        sample = list(islice(rows, _SAMPLE_ROWS)) if self._map.form == AUTO else []
        if sample:
            self._choose_form(sample)
        for number, fields in chain(sample, rows):
            self._row(number, fields)
        self._check_times()
        for wrong in (name for table in self._tables for name in self._wrong(table)):
            self.impossible[wrong] = sum(each.seen for each in self._sources() if each.column.name == wrong)
        provenance = self._lines.provenance(self._path, name, missing=self.impossible)
        tables = {
            table: rows.table(provenance, {name: rows.nothing(name) for name in self._wrong(table)})
            for table, rows in self._tables.items()
        }
        if RADIO.name in tables:
            name_legs(tables[RADIO.name])
        return tables

    def _choose_form(self, sample: list[Fields]) -> None:
        try:
            self._times.form = form_of([text for _, fields in sample if (text := self._times.text(fields))])
        except UncertainTimeError as error:
            columns = ", ".join(map(repr, self._map.time))
            raise FormatError(self._path, f"no line has a valid time: the column {columns} {error}") from error

    def _rows(self) -> Iterator[Fields]:
        lines = self._lines
        rows = _fields(chain(self._first, lines), self._map.delimiter)
        while True:
            try:
                fields = next(rows, None)
            except csv.Error:
                lines.skip("no CSV")
                rows = _fields(iter(lines), self._map.delimiter)
                continue
            if fields is None:
                return
            if fields:
                yield lines.number, fields

    def _row(self, number: int, fields: list[str]) -> None:
        self._widest = max(self._widest, len(fields))
        if len(fields) < min(self._needed, self._widest):
            self._lines.skip("the line has fewer fields than the map needs", number=number)
            return
        at_ns = self._times.of(number, fields)
        if at_ns is None:
            self._lines.skip("no time", number=number)
            return
        for maker in self._makers:
            if not maker.applies(fields):
                continue
            values = {source.column.name: self._value(source, fields) for source in maker.sources}
            known = {name: value for name, value in values.items() if value is not None}
            self._drop_nowhere(known)
            if known:
                own = {"time_ns": at_ns, "line": number}
                self._tables[maker.row.table].append({"source": "csv", **maker.row.always, **known, **own})

    def _drop_nowhere(self, known: dict[str, object]) -> None:
        """Remove the position 0/0 from a row, because receivers without a fix write it."""
        if known.get("lat_deg") == 0.0 == known.get("lon_deg"):
            self._nowhere += 1
            for name in ("lat_deg", "lon_deg"):
                del known[name]
                self._cannot_be(name)

    def _value(self, source: _Source, fields: list[str]) -> object:
        column, cell, at = source.column, source.cell, source.at
        text = "" if at is None or at >= len(fields) else fields[at].strip()
        if text in self._map.missing or cell.is_missing(text):
            return None
        if cell.words:
            return cell.words.get(text)
        if column.dtype.startswith("U"):
            return "".join(c for c in text if c.isprintable())[: int(column.dtype[1:])]
        if column.unit == "ns since 1970":
            return self._times.of_text(text)
        if cell.hemisphere:
            letter = (
                fields[source.second_at].strip()
                if source.second_at is not None and source.second_at < len(fields)
                else ""
            )
            text = text + letter if letter.upper() in _HEMISPHERES[column.name] else ""
        if cell.unit_in and source.second_at is not None and source.second_at < len(fields):
            text = f"{text} {fields[source.second_at].strip()}"
        value = _number(text, source)
        source.seen += 1
        minimum, most = RANGES.get(column.name, (-_MOST, _MOST))
        if value is None or not minimum <= value <= most:
            source.impossible += 1
            source.example = source.example or text[:16]
            rate = value if column.name in _RATES and value is not None else 0.0
            source.is_wrong |= text[:16] != source.example or rate > max(most, 0)
            self._cannot_be(column.name)
            if rate < 0:
                self._lines.warn(f"{column.name}: negative rates (after a counter reset) are set to missing")
            return None
        if cell.above:
            return self._below(source, fields, int(value))
        return value if column.dtype.startswith("f") else int(value)

    def _below(self, source: _Source, fields: list[str], value: int) -> int | None:
        """Return a number combined with the upper part in another column, such as cell and base station.

        None if the upper number is missing, or is too large: a gNB has up to 32 bits.
        """
        at, cell = source.second_at, source.cell
        upper = _number(fields[at].strip(), replace(source, scale=1.0)) if at is not None and at < len(fields) else None
        if upper is None or upper < 0 or value >> cell.bits:
            return None
        joined = int(upper) << cell.bits | value
        return joined if joined <= RANGES[source.column.name][1] else None

    def _cannot_be(self, name: str) -> None:
        self.impossible[name] = self.impossible.get(name, 0) + 1

    def _check_times(self) -> None:
        """Raise FormatError if no line has a time; warn about suspicious times."""
        times = self._times
        if times.first is None:
            self._lines.warn("the file has no data line after the column names")
        elif not times.seen:
            columns = ", ".join(map(repr, self._map.time))
            raise FormatError(
                self._path,
                f"no line has a valid time: the column {columns} is not in the form {times.form!r}, "
                f"for example {times.first[:40]!r}",
            )
        for sentence in (*self._wrong_columns(), *times.jumps.sentences()):
            self._lines.warn(sentence)
        if self._nowhere:
            self._lines.warn(
                f"{count(self._nowhere, 'position')} with latitude and longitude 0 (the receiver had "
                "no position): set to missing"
            )

    def _wrong_columns(self) -> Iterator[str]:
        """Yield a sentence for each column with mostly impossible values."""
        for source in self._sources():
            if source.is_doubted:
                minimum, most = RANGES.get(source.column.name, (-_MOST, _MOST))
                unread = "; the column is not read" if source.is_unread else ""
                yield (
                    f"{source.column.name}: {source.impossible:,} of {source.seen:,} values of "
                    f"column {source.cell.column!r} are impossible (for example "
                    f"{source.example!r}; possible are {minimum} to {most} "
                    f"{source.column.unit}{unread}); check column and unit in the map"
                )
            elif source.impossible:
                examples = "all" if not source.is_wrong else "for example"
                yield (
                    f"{source.column.name}: {source.impossible:,} of {source.seen:,} values of column "
                    f"{source.cell.column!r} are impossible ({examples} {source.example!r}): set to missing"
                )

    def _sources(self, table: str = "") -> Iterator[_Source]:
        """Yield the sources of the columns of a table, or of all."""
        for maker in self._makers:
            if table in ("", maker.row.table):
                yield from maker.sources

    def _wrong(self, table: str) -> set[str]:
        """Return the columns of a table whose sources are all implausible."""
        sources = list(self._sources(table))
        return {each.column.name for each in sources} - {each.column.name for each in sources if not each.is_unread}


def _fields(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    return csv.reader((text[:_LONGEST_FIELD] for text in lines), delimiter=delimiter)


def _number(text: str, source: _Source) -> float | None:
    """Return the number in a text, in the unit of the table column; None if the text is not a number."""
    if source.cell.base == 16:
        try:
            return natural(text, base=16) * source.scale
        except ValueError:
            return None
    value = decimal_of(text)
    return value * source.scale if value is not None else value_of(text, source.column.unit)


# One of our tables as CSV, with the table's column names: the content of an anonymous copy.


def own_table(schema: Schema, *, needed: frozenset[str], description: str) -> Format:
    """Return the format of a table as CSV.

    Parameters
    ----------
    schema : Schema
        Schema of the table; its name is also that of the layer.
    needed : frozenset of str
        Columns without which a CSV is not taken for this table.
    description : str
        One line.
    """
    cells = {name: ColumnSource(name) for name in schema.names if name not in ("time_ns", "line")}
    columns = ColumnMap(("time_ns",), "epoch_ns", None, (RowMap(schema.name, cells, {}),))
    name = f"{schema.name}-table"

    def sniff(head: bytes) -> Match:
        """Return "yes" for a first line that names columns of the table and no others."""
        first, newline, _ = head.partition(b"\n")
        names = first.rstrip(b"\r").decode("utf-8", "replace").split(",")
        is_own = newline and names[0] == "time_ns" and needed <= set(names) <= set(schema.names)
        return "yes" if is_own else "no"

    def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
        return read_mapped(stream, columns, path=path, name=name)

    return Format(name, schema.name, description, "docs/formats.md", sniff, parse)
