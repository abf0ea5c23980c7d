"""Proposes a map for an unknown CSV log, as TOML with comments on its reliability.

The proposal uses the first lines: it finds the time and its format, then positions and levels by the names
and values of the columns. For a speed without a unit, it selects the unit that fits the positions best.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

from multitracer.errors import FormatError
from parsers._stream import open_stream
from parsers._text.column_map import RANGES, RAT, SCHEMAS, WORDS, ColumnMap, delimiter_of
from parsers._text.lines import LogLines, first_line, names_in
from parsers._text.times import (
    UncertainTimeError,
    decimal_of,
    factor,
    form_of,
    integer,
    is_unit,
    split_unit,
    time_ns,
    value_of,
    without_unit,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence
    from typing import BinaryIO

    from multitracer.tables import Column

# What the columns of an unknown CSV may hold: guessed by their names, units and values.


_RATE_WORDS = ("throughput", "bitrate", "rate", "thrpt", "thr", "tput", "thp", "speed", "datarate")
_DOWN, _UP = ("dl", "downlink", "download", "down"), ("ul", "uplink", "upload", "up")
_QUANTITIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "downlink_bps": tuple((way, word) for way in _DOWN for word in _RATE_WORDS),
    "uplink_bps": tuple((way, word) for way in _UP for word in _RATE_WORDS),
    "lat_deg": (("latitude",), ("lat",), ("breite",), ("breitengrad",), ("latitud",)),
    "lon_deg": (("longitude",), ("lon",), ("lng",), ("long",), ("länge",), ("längengrad",), ("longitud",)),
    "error_m": (("accuracy",), ("hacc",)),
    "speed_mps": (("speed",), ("velocity",), ("geschwindigkeit",), ("tempo",), ("vitesse",), ("velocidad",),
                  ("kmh",), ("kph",), ("mph",)),
    "altitude_m": (("altitude",), ("alt",), ("elevation",), ("ele",)),
    "heading_deg": (("heading",), ("bearing",), ("course",)),
    "hdop": (("hdop",),),
    "satellites": (("satellites",), ("sats",)),
    "rsrp_dbm": (("rsrp",),),
    "rsrq_db": (("rsrq",),),
    "sinr_db": (("sinr",), ("snr",), ("rssnr",)),
    "rscp_dbm": (("rscp",),),
    "ecio_db": (("ecno",), ("ecio",), ("ec", "no"), ("ec", "io")),
    "rssi_dbm": (("rssi",), ("rxlev",)),
    "bler_pct": (("bler",),),
    "cqi": (("cqi",),),
    "channel": (("earfcn",), ("arfcn",), ("uarfcn",), ("narfcn",), ("nrarfcn",)),
    "physical_cell_id": (("pci",), ("psc",), ("physical", "cell", "id")),
    "cell_id": (("cell", "id"), ("cellid",), ("cell", "identity"), ("cellidentity",), ("eci",), ("nci",),
                ("cid",), ("ci",), ("zellen", "id"), ("zell", "id")),
    "area_code": (("tac",), ("lac",)),
    "band": (("band",),),
    "operator": (("operator",), ("carrier",), ("provider",), ("operatorname",)),
    "rat": (("technology",), ("tech",), ("rat",), ("network", "type"), ("network", "mode"), ("networktype",),
            ("networkmode",), ("networktech",), ("nettype",), ("technologie",), ("tecnologia",),
            ("tecnología",), ("funkstandard",), ("netztyp",)),
    "role": (("role",), ("cell", "type"), ("celltype",), ("cell", "role"), ("serving",), ("registered",),
             ("cell", "status"), ("cellstatus",)),
}  # fmt: skip
"""Groups of words by table column: a log column fits if its name has all words of a group; first match wins."""
_OTHERS = {
    "neighbour",
    "neighbor",
    "neigh",
    "nbr",
    "nachbar",
    "voisin",
    "voisine",
    "vecina",
    "nb",
    "ncell",
    "secondary",
    "second",
    "scell",
    "secondcell",
    "nrxlev",
} | {"avg", "min", "max", "mean", "std", "target"}
"""Words in names of columns that describe another cell or several lines."""
_NOT = {
    "speed_mps": {"accuracy", "dl", "ul", "wind", "fan", "download", "upload"},
    "heading_deg": {"accuracy"},
    "altitude_m": {"accuracy"},
    "error_m": {"speed", "bearing", "vertical", "heading", "course"},
    "cell_id": {"physical"},
}
_TOKEN = re.compile(r"[A-ZÀ-Þ]+(?![a-zß-ÿ])|[A-ZÀ-Þ]?[a-zß-ÿ]+|\d+")
_UNIT_AT_END = re.compile(r"(?P<name>.*[^_ ])[_ ](?P<unit>[A-Za-z%]{1,5}(?:/[a-z]{1,2})?)")
_HEX = re.compile(r"(?:0[xX])?[0-9A-Fa-f]{1,9}")
_MOST_VALUES = 0.9
"""Minimum share of possible values for a guess. Not measured."""
_ROLES = {
    "serving": ("serving", "serving cell", "servingcell", "primary", "pcell", "registered"),
    "secondary": ("secondary", "secondary cell", "scell"),
    "neighbour": ("neighbour", "neighbor", "neighbouring", "neighboring", "neighbour cell", "neighbor cell", "ncell"),
}
"""Words for the serving cell in logs with a line for each cell."""
_IS_SERVING = {"true": "serving", "yes": "serving", "1": "serving"} | dict.fromkeys(("false", "no", "0"), "neighbour")
_NODES = {"enb", "enbid", "enodeb", "enodebid", "enodebnumber"}
_SECTORS = {"sector", "sectorid", "sektor", "sektorid", "localcellid", "lcid", "localcell"}
SECTOR_BITS = 8
"""Bits of a cell number within its eNodeB (TS 36.413, 9.2.1.38)."""
_FLOORS = {"rsrp_dbm": 20.0, "rscp_dbm": 20.0, "rssi_dbm": 20.0, "sinr_db": 10.0}
"""Distance from all other values at which a repeated value is taken as missing: levels of one drive have no
such gap. Not measured."""
_MIN_FLOORS, _MIN_OTHERS = 3, 10
_NR, _LTE = {"nr", "5g", "ss"}, {"lte", "4g"}
DEFAULT_MISSING = ColumnMap((), "iso", None, ()).missing


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess which column of the log has the values of a table column."""

    table: str
    column: str
    """Column of the table."""
    name: str
    """Name of the column in the log."""
    unit: str = ""
    base: int = 10
    words: tuple[tuple[str, str], ...] = ()
    technology: str = ""
    """LTE or NR, if the name contains it."""
    caveat: str = ""
    """Reason why the guess may be wrong; "" if there is none."""
    is_possible: bool = True
    """Whether most values are possible; otherwise the map has the guess only as a comment."""
    above: str = ""
    """Name of the column with the base station of this sector."""
    hemisphere: str = ""
    """Name of the column with N, S, E or W."""
    missing: str = ""
    """Text that seems to mean a missing value in this column."""


def tokens(name: str) -> list[str]:
    """Return the words of a column name in lower case: dl, bitrate for DL_Bitrate."""
    parts = _TOKEN.findall(name)
    joined = [f"{a}{b}" for a, b in pairwise(parts) if a.isdigit() or b.isdigit()]
    return [part.casefold() for part in (*parts, *joined)]


def named_unit(name: str) -> tuple[str, str]:
    """Return a column's name without its unit (in brackets or after the last space), and the unit."""
    bare, unit = without_unit(name)
    if not unit and (match := _UNIT_AT_END.fullmatch(name)) and is_unit(match["unit"]):
        return match["name"], match["unit"]
    return bare, unit or (name if is_unit(name) else "")


def guesses(names: Sequence[str], values: Sequence[Sequence[str]], taken: Iterable[int]) -> list[Guess]:
    """Return guesses of the quantities in the columns of a log.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    values : sequence of sequence of str
        Texts of each column in the first lines, without those that mean a missing value.
    taken : iterable of int
        Indices of the columns with the time.
    """
    left = {at for at, name in enumerate(names) if name and names.index(name) == at} - set(taken)
    likely: list[Guess] = []
    for column, groups in _QUANTITIES.items():
        seen: set[str] = set()
        for at, guess in _of(column, groups, [(at, names[at], values[at]) for at in sorted(left)]):
            if guess.technology not in seen:
                seen.add(guess.technology)
                left.discard(at)
                likely.append(guess)
    likely = [_with_hemisphere(guess, names, values) for guess in likely]
    if all(guess.column != "cell_id" for guess in likely):
        likely += _sector(names, values)
    return likely


def _of(
    column: str, groups: Iterable[tuple[str, ...]], there: Iterable[tuple[int, str, Sequence[str]]]
) -> list[tuple[int, Guess]]:
    """Return the guesses for a table column, the best first: possible values, then fewest words."""
    readings = [
        (at, guess)
        for at, name, texts in there
        if not _OTHERS & set(tokens(name)) and (guess := _guess(column, groups, name, texts)) is not None
    ]
    return sorted(readings, key=lambda each: (not each[1].is_possible, len(tokens(named_unit(each[1].name)[0]))))


def _with_hemisphere(guess: Guess, names: Sequence[str], values: Sequence[Sequence[str]]) -> Guess:
    """Return the guess of a latitude or longitude without a sign, with the column that has it in a letter."""
    letters = {"lat_deg": {"N", "S"}, "lon_deg": {"E", "W"}}.get(guess.column, set())
    texts = [{text.upper() for text in column} for column in values]
    at = next((at for at, each in enumerate(texts) if each and each <= letters), None)
    return guess if at is None else replace(guess, hemisphere=names[at])


def _sector(names: Sequence[str], values: Sequence[Sequence[str]]) -> list[Guess]:
    """Return the guess for a cell in two columns, base station and sector; empty if one is missing."""
    compact = {"".join(_TOKEN.findall(name)).casefold(): at for at, name in reversed(list(enumerate(names)))}
    nodes, sectors = ([at for word, at in compact.items() if word in words] for words in (_NODES, _SECTORS))
    if not nodes or not sectors:
        return []
    below = [text for text in values[sectors[0]] if text.isdecimal() and integer(text) >> SECTOR_BITS == 0]
    if not below or len(below) < _MOST_VALUES * len(values[sectors[0]]):
        return []
    return [Guess("radio", "cell_id", names[sectors[0]], above=names[nodes[0]])]


def _guess(column: str, groups: Iterable[tuple[str, ...]], name: str, texts: Sequence[str]) -> Guess | None:
    bare, unit = named_unit(name)
    words = set(tokens(bare))
    compact = "".join(tokens(bare))
    fits = any(set(group) <= words or "".join(group) == compact for group in groups)
    fits = fits or _is_rate(column, compact if not unit else "", words, unit)
    if not fits or words & _NOT.get(column, set()):
        return None
    table = "radio" if column in SCHEMAS["radio"].names else "position"
    own = next(each for each in SCHEMAS[table] if each.name == column)
    technology = ("NR" if words & _NR else "LTE" if words & _LTE else "") if table == "radio" else ""
    guess = Guess(table, column, name, technology=technology)
    if column in ("rat", "role"):
        return _technology(guess, texts) if column == "rat" else _role(guess, texts)
    return guess if own.dtype.startswith("U") else _number(guess, own, unit, texts)


def _is_rate(column: str, compact: str, words: set[str], unit: str) -> bool:
    """Return whether a name is a direction alone (DL), or one with the unit of a rate (DL_kbps)."""
    way = {"downlink_bps": _DOWN, "uplink_bps": _UP}.get(column, ())
    return compact in way or bool(words & set(way) and unit and factor(unit, "bit/s") is not None)


def why_not(name: str) -> str:
    """Return the reason why a column with this name gets no guess."""
    others = sorted(_OTHERS & set(tokens(name)))
    if others:
        return f"{others[0]!r} in the name belongs to another cell, or to several lines"
    if any(_guess(column, groups, name, ()) for column, groups in _QUANTITIES.items()):
        return "another column is used for the same quantity"
    return "the name does not match a known quantity"


def _technology(guess: Guess, texts: Sequence[str]) -> Guess | None:
    """Return the guess with the known technologies in the texts; None if no text is known."""
    there = [text for text in dict.fromkeys(texts) if text in WORDS]
    words = tuple((text, WORDS[text]) for text in dict.fromkeys([*there, *RAT]))  # later lines may hold others
    return Guess(guess.table, guess.column, guess.name, words=words) if there else None


def _role(guess: Guess, texts: Sequence[str]) -> Guess | None:
    """Return the guess of a column for the serving cell; None if its texts are unknown, or all equal."""
    named = {word: role for role, each in _ROLES.items() for word in each}
    for words, caveat in (
        (named, ""),
        (_IS_SERVING, "all cells that are not serving cells are assumed to be neighbours"),
    ):
        there = {text: words.get(text.casefold(), "") for text in dict.fromkeys(texts)}
        if len(set(there.values())) > 1 and all(there.values()):
            everything = {**there, **words}  # later lines may hold others
            return replace(guess, technology="", words=tuple(everything.items()), caveat=caveat)
    return None


def _floor(own: Column, texts: Sequence[str], numbers: Sequence[float | None]) -> tuple[str, str]:
    """Return the text that seems to mean a missing value, and the reason; ("", "") if there is none."""
    known = sorted(number for number in numbers if number is not None)
    if own.name not in _FLOORS or not known:
        return "", ""
    for extreme in (known[0], known[-1]):
        others = [number for number in known if number != extreme]
        repeats, gap = len(known) - len(others), min((abs(extreme - each) for each in others), default=0.0)
        if repeats >= _MIN_FLOORS and len(set(others)) >= _MIN_OTHERS and gap >= _FLOORS[own.name]:
            text = texts[list(numbers).index(extreme)]
            return text, (
                f"{text} repeats, {gap:.3g} {own.unit} from all others, and is assumed to stand for a missing value"
            )
    return "", ""


def _number(guess: Guess, own: Column, unit: str, texts: Sequence[str]) -> Guess:
    """Return the guess of a column with numbers: its unit, and whether its values are possible.

    A rate without a unit gives no guess: it may be wrong by a factor of a thousand.
    """
    scale = factor(unit, own.unit) if unit else None
    caveat = ""
    if unit and scale is None and own.unit:
        caveat, unit = f"the unit {unit!r} is unknown", ""
    has_units = bool(texts) and all(split_unit(text)[1] for text in texts)
    is_open = scale is None and own.name in ("downlink_bps", "uplink_bps") and not has_units
    unit = unit if scale is not None else ""
    is_hex = own.name in ("cell_id", "area_code") and _is_hexadecimal(texts)
    numbers = [integer(text, 16) if is_hex else value_of(text, own.unit) for text in texts]
    minimum, most = RANGES[own.name]
    can_be = [number for number in numbers if number is not None and minimum <= number * (scale or 1.0) <= most]
    possible = len(can_be) >= _MOST_VALUES * len(texts) and not is_open
    if is_open:
        caveat = 'the unit is unknown; write for example { column = ..., unit = "kbit/s" }'
    elif not possible:
        caveat = (
            f"values such as {texts[0][:16]!r} are impossible: the range is {minimum} to {most} {own.unit}"
        ).replace("  ", " ")
    elif not texts:
        caveat = "the column has no value in these lines"
    missing, why = _floor(own, texts, numbers)
    base = 16 if is_hex else 10
    return replace(guess, unit=unit, base=base, caveat=caveat or why, is_possible=possible, missing=missing)


def _is_hexadecimal(texts: Sequence[str]) -> bool:
    """Return whether all texts are hexadecimal numbers, and at least one is not decimal."""
    return all(map(_HEX.fullmatch, texts)) and not all(text.isdigit() for text in texts)


_ROWS = 2000
_SAMPLES = 300
_MOST_COLUMNS = 4000
_MOST_TIMES = 64
"""Maximum number of columns that are tested as the time; each test takes at most 35 ms."""
_MOST_CHARACTERS = 8 << 20
_LONGEST_LINE = 100_000
_MIN_DIGITS = 8
"""Minimum digits of a date and time: 2021-05-06 10:00 has 12, seconds since 1970 have 10."""
_TIME_WORDS = (
    "timestamp",
    "datetime",
    "time",
    "date",
    "utc",
    "zeit",
    "uhrzeit",
    "zeitstempel",
    "datum",
    "fecha",
    "hora",
    "heure",
    "horodatage",
    "t",
    "ts",
    "epoch",
    "when",
    "clock",
)
_MOSTLY = 0.8
"""Minimum share of times among the texts of a time column. Not measured."""
_NO_NUMBERS = ("?", "n.a.", "none", "None", "null", "nil", "*", "N/A", "unknown", "-9999", "2147483647")
_METRES = 6_371_000.0 * math.pi / 180
"""Metres of a degree of latitude, on a sphere with the mean radius of the earth."""
_UNITS = ("m/s", "km/h", "mph", "kn")
_SLOWEST_MPS = 1.0
"""Minimum speed for which the distance of two positions is used; not measured."""
_FASTEST_MPS = 70.0
"""Maximum speed of a car (250 km/h): a larger number has another unit."""
_FITS = 1.3
"""Maximum factor between the speeds and those of the positions: km/h and mph differ by 1.6, knots and m/s by
1.9. Not measured."""


class NoProposalError(ValueError):
    """No map can be proposed for a log; the message gives the reason."""


class _Sample:
    """The first lines of a log, by column."""

    def __init__(self, stream: BinaryIO) -> None:
        lines = LogLines(stream)
        header = first_line(lines)
        self.delimiter = delimiter_of(header)
        if "\0" in header:
            raise NoProposalError(
                "the file is UTF-16 text, which is not supported; convert the file first (iconv -f UTF-16 -t UTF-8)"
            )
        self.names = [name.strip("\ufeff \t").strip('"') for name in names_in(header, self.delimiter)]
        if len(self.names) < 2 or len(self.names) > _MOST_COLUMNS:
            raise NoProposalError(
                f"the first line does not contain the column names of a CSV file{_names_below(lines)}"
            )
        self.rows = list(islice(self._fields(lines), _ROWS))
        self.texts = [
            [row[at].strip() for row in self.rows if at < len(row) and row[at].strip() not in DEFAULT_MISSING]
            for at in range(len(self.names))
        ]
        self.missing = sorted(
            {text for column in self.texts for text in column if text in _NO_NUMBERS} - DEFAULT_MISSING
        )
        self.values = [[text for text in column if text not in self.missing][:_SAMPLES] for column in self.texts]

    def _fields(self, lines: LogLines) -> Iterator[list[str]]:
        try:
            yield from (row for row in csv.reader(_bounded(lines), delimiter=self.delimiter) if row)
        except csv.Error:
            return


def _names_below(lines: LogLines) -> str:
    """Return a text on a later line that may contain the column names; "" if there is none."""
    counts = [(len(names_in(text, delimiter_of(text))), lines.number) for text in islice(lines, _MOST_ABOVE)]
    most, number = max(counts, key=lambda each: each[0], default=(0, 0))
    if most < _MIN_NAMES:
        return ""
    return f"; line {number} may contain them: delete the lines above it, or begin them with #"


_MOST_ABOVE, _MIN_NAMES = 50, 3
"""Lines that some programs write above the names, and what a name, a time and a level need. Not measured."""


def _bounded(lines: LogLines) -> Iterator[str]:
    """Yield lines until their total length exceeds a limit."""
    left = _MOST_CHARACTERS
    for text in lines:
        left -= len(text)
        if left < 0:
            return
        yield text[:_LONGEST_LINE]


class _Time:
    """Columns of the time, and their format."""

    def __init__(self, columns: tuple[int, ...], form: str, caveat: str, example: str) -> None:
        self.columns = columns
        self.form = form
        self.caveat = caveat
        self.example = example
        self.has_zone = True

    def of(self, row: Sequence[str]) -> int | None:
        """Return the time of a line in ns since 1970."""
        text = " ".join(row[at].strip() for at in self.columns if at < len(row))
        return time_ns(text, self.form, None, self._zoneless)

    def _zoneless(self) -> None:
        self.has_zone = False


def _time(sample: _Sample) -> _Time:
    """Return the time of a log.

    Raises
    ------
    NoProposalError
        If no column has times.
    """
    first = [at for at, name in enumerate(sample.names) if sample.names.index(name) == at]
    order = sorted(first, key=lambda at: (_weight(sample.names[at]), at))[:_MOST_TIMES]
    for at in order:
        if (time := _of_columns(sample, (at,))) is not None:
            return time
    worded = [at for at in order if _weight(sample.names[at]) < len(_TIME_WORDS)][:6]
    for day in worded:
        for clock in worded:
            if day != clock and (time := _of_columns(sample, (day, clock))) is not None:
                return time
    tried = ", ".join(
        f"{_shown(sample.names[at])} (for example {_shown(next(iter(sample.texts[at]), ''))})" for at in order[:5]
    )
    raise NoProposalError(
        f"no column contains times in a known form; these columns were checked: {tried}; for values at equal "
        "intervals give --start TIME and --step SECONDS"
    )


def _weight(name: str) -> int:
    """Return the rank of the first time word in a column's name; the number of words if there is none."""
    words = tokens(name)
    return next((at for at, word in enumerate(_TIME_WORDS) if word in words), len(_TIME_WORDS))


def _of_columns(sample: _Sample, columns: tuple[int, ...]) -> _Time | None:
    """Return the columns as the time if most of their texts are times of one format; else None."""
    texts = [" ".join(row[at].strip() for at in columns) for row in sample.rows if max(columns) < len(row)]
    texts = [text for text in texts[:_SAMPLES] if text.strip()]
    if not any(sum(map(str.isdigit, text)) >= _MIN_DIGITS for text in texts[:5]):
        return None
    caveat = ""
    try:
        form = form_of(texts)
    except UncertainTimeError as error:
        if error.form is None:
            return None
        form, caveat = error.form, "day and month may be exchanged"
    is_worded = any(_weight(sample.names[at]) < len(_TIME_WORDS) for at in columns)
    if form.startswith("epoch") and not is_worded:
        return None
    known = sum(time_ns(text, form, None, _nothing) is not None for text in texts)
    return _Time(columns, form, caveat, texts[0]) if known >= _MOSTLY * len(texts) else None


def _nothing() -> None:
    """Do nothing: what is only tried needs no zone."""


def proposed(stream: BinaryIO) -> str:
    """Return a map for a CSV, as TOML that the reader of maps reads.

    Raises
    ------
    NoProposalError
        If the log is not a CSV, has no time column, or has no column with a position or level.
    """
    sample = _Sample(stream)
    time = _time(sample)
    times = [time.of(row) for row in sample.rows]
    likely = guesses(sample.names, sample.values, time.columns)
    likely = [_with_speed(guess, sample, times, likely) for guess in likely]
    if not any(guess.is_possible and guess.column not in ("rat", "operator", "band", "role") for guess in likely):
        names = ", ".join(_shown(name) for name in sample.names[:12])
        raise NoProposalError(
            "no column seems to contain a position or a signal level, judged by the names and "
            f"values; the columns are {names}"
        )
    return "\n".join([*_head(sample, time), *_sections(likely), *_left_out(sample, time, likely)]) + "\n"


def proposed_steps(stream: BinaryIO, start: str, step_s: float) -> str:
    """Return a map for a log of values at equal intervals, which has no times, as TOML.

    Parameters
    ----------
    stream : binary file
    start : str
        Time of the first line, ISO 8601 or seconds since 1970.
    step_s : float
        Time from one line to the next, s.

    Raises
    ------
    NoProposalError
        If no column has numbers.
    """
    lines = LogLines(stream)
    first = first_line(lines)
    delimiter = delimiter_of(first)
    rows = [names_in(text, delimiter) for text in chain([first], islice(lines, _ROWS))]
    has_header = not any(_is_number(text) for text in rows[0])
    names = rows[0] if has_header else [str(n) for n in range(1, len(rows[0]) + 1)]
    body = rows[1:] if has_header else rows
    columns = [[row[at].strip() for row in body if at < len(row)] for at in range(len(names))]
    numbers = [at for at, texts in enumerate(columns) if texts and all(map(_is_number, texts))]
    if not numbers:
        raise NoProposalError("no column contains only numbers")
    at = numbers[0]
    units = [n for n, texts in enumerate(columns) if texts and all(factor(text, "bit/s") for text in texts)]
    unit = without_unit(names[at])[1]
    source = f"unit_in = {_text(names[units[0]])}" if units else f"unit = {_text(unit or 'bit/s')}"
    unsure = "" if units or factor(unit, "bit/s") else "  # unsure: the unit is not in the file"
    return "\n".join(
        [
            f"delimiter = {_text(delimiter)}",
            *([] if has_header else ["header = false  # the columns are named by their numbers, from 1"]),
            "",
            "[time]",
            f"start = {_text(start)}",
            f"step = {step_s!r}  # seconds from one line to the next",
            "",
            "[radio]",
            f"downlink_bps = {{ column = {_text(names[at])}, {source} }}{unsure}",
            "",
        ]
    )


def _is_number(text: str) -> bool:
    return decimal_of(text.strip()) is not None


def _with_speed(guess: Guess, sample: _Sample, times: Sequence[int | None], likely: Sequence[Guess]) -> Guess:
    """Return a speed without a unit, in the unit that fits its values or the positions."""
    if guess.column != "speed_mps" or guess.unit or not guess.is_possible:
        return guess
    at = {each.column: sample.names.index(each.name) for each in likely if each.table == "position"}
    ratio = _ratio(sample, times, at) if {"lat_deg", "lon_deg"} <= at.keys() else None
    largest = max((decimal_of(text) or 0.0 for text in sample.values[at["speed_mps"]]), default=0.0)
    if ratio is not None:
        unit, off = min(
            ((unit, abs(math.log(ratio * (factor(unit, "m/s") or 1.0)))) for unit in _UNITS), key=lambda each: each[1]
        )
        if off > math.log(_FITS):
            caveat = (
                "the unit is unknown, and no unit matches the speed between the positions "
                f"({ratio:.2f} units are 1 m/s)"
            )
            return replace(guess, caveat=caveat, is_possible=False)
        caveat = f"the unit is unknown; the speed between the positions indicates {unit} ({ratio:.2f} units are 1 m/s)"
    else:
        unit = "km/h" if largest > _FASTEST_MPS else "m/s"
        caveat = f"the unit is unknown; {unit} is assumed from the largest value, {largest:g}"
    return Guess(guess.table, guess.column, guess.name, unit, caveat=caveat)


def _ratio(sample: _Sample, times: Sequence[int | None], at: dict[str, int]) -> float | None:
    """Return the median ratio of the logged speed to the speed of the positions; None if they hardly move."""
    fixes: list[tuple[int, float, float, float]] = []
    for row, time in zip(sample.rows, times, strict=True):
        texts = [row[at[name]] if at[name] < len(row) else "" for name in ("lat_deg", "lon_deg", "speed_mps")]
        lat, lon, speed = *(value_of(text, "degrees") for text in texts[:2]), decimal_of(texts[2])
        if time is not None and lat is not None and lon is not None and speed is not None:
            if fixes and (lat, lon) == fixes[-1][1:3]:
                continue
            fixes.append((time, lat, lon, speed))
    ratios = []
    for (t0, y0, x0, v0), (t1, y1, x1, v1) in pairwise(fixes):
        metres = math.hypot(y1 - y0, (x1 - x0) * math.cos(math.radians(y0))) * _METRES
        passed_s = (t1 - t0) / 1e9
        if passed_s > 0 and metres > _SLOWEST_MPS * passed_s and v0 + v1 > 0:
            ratios.append((v0 + v1) / 2 / (metres / passed_s))
    return sorted(ratios)[len(ratios) // 2] if len(ratios) >= 5 else None


# --- TOML ---


def _head(sample: _Sample, time: _Time) -> Iterator[str]:
    yield f"# Proposed from the first {len(sample.rows):,} lines. Check the lines with 'unsure'."
    yield f"delimiter = {_text(sample.delimiter)}"
    if sample.missing:
        yield f"missing = [{', '.join(map(_text, sorted({*DEFAULT_MISSING, *sample.missing})))}]"
    yield ""
    yield "[time]"
    names = [_text(sample.names[at]) for at in time.columns]
    yield f"column = {names[0] if len(names) == 1 else '[' + ', '.join(names) + ']'}"
    comment = f"unsure: {time.caveat}; " if time.caveat else ""
    yield f"form = {_text(time.form)}  # {comment}for example {_shown(time.example)}"
    if not time.has_zone:
        yield '# zone = "+01:00"  # unsure: the times have no zone and are read as UTC; write their zone here'


def _sections(likely: Sequence[Guess]) -> Iterator[str]:
    radio = [guess for guess in likely if guess.table == "radio"]
    rows = [[g for g in radio if (g.technology == "NR") == is_nr] for is_nr in (False, True)]
    if not all(any(map(_is_level, row)) for row in rows):
        rows = [radio] if radio else []
    for row in rows:
        yield from ("", "[radio]" if len(rows) == 1 else "[[radio]]")
        technologies = {guess.technology for guess in row if _is_level(guess)}
        if len(technologies) == 1 and "" not in technologies and all(g.column != "rat" for g in row):
            yield f'rat = {{ always = "{technologies.pop()}" }}'
        yield from _cells(row)
    if position := [guess for guess in likely if guess.table == "position"]:
        yield from ("", "[position]", *_cells(position))


def _left_out(sample: _Sample, time: _Time, likely: Sequence[Guess]) -> Iterator[str]:
    """Yield a comment with the reason for each column that the map does not use."""
    named = {name for guess in likely for name in (guess.name, guess.above, guess.hemisphere)} | {
        sample.names[at] for at in time.columns
    }
    left = [(at, name) for at, name in enumerate(sample.names) if name and name not in named]
    if left:
        yield from ("", "# Not used:")
    for at, name in left:
        example = next(iter(sample.values[at]), "")
        shown = f" (for example {_shown(example)})" if example else ", no value in these lines"
        yield f"# {_shown(name)}{shown}: {why_not(name)}"


def _is_level(guess: Guess) -> bool:
    return guess.column.endswith(("_dbm", "_db"))


def _cells(row: Sequence[Guess]) -> Iterator[str]:
    """Yield a TOML line for each guess; a second column for the same quantity becomes a comment."""
    taken: set[str] = set()
    for guess in row:
        if guess.column in taken:
            yield f"# {guess.column} = {_text(guess.name)}  # unsure: a second column for the same quantity"
        else:
            yield _line(guess)
        taken |= {guess.column} if guess.is_possible else set()


def _line(guess: Guess) -> str:
    parts = [f"column = {_text(guess.name)}"]
    if guess.unit and factor(guess.unit, _unit_of(guess)) != 1.0:
        parts.append(f"unit = {_text(guess.unit)}")
    if guess.base != 10:
        parts.append(f"base = {guess.base}")
    if guess.above:
        parts.append(f"above = {_text(guess.above)}, bits = {SECTOR_BITS}")
    if guess.hemisphere:
        parts.append(f"hemisphere = {_text(guess.hemisphere)}")
    if guess.missing:
        parts.append(f"missing = [{_text(guess.missing)}]")
    if guess.words:
        parts.append(f"words = {{ {', '.join(f'{_text(word)} = {_text(ours)}' for word, ours in guess.words)} }}")
    value = _text(guess.name) if len(parts) == 1 else "{ " + ", ".join(parts) + " }"
    comment = f"  # unsure: {_printable(guess.caveat)}" if guess.caveat else ""
    return f"{'' if guess.is_possible else '# '}{guess.column} = {value}{comment}"


def _unit_of(guess: Guess) -> str:
    return {"speed_mps": "m/s", "downlink_bps": "bit/s", "uplink_bps": "bit/s", "bler_pct": "%"}.get(
        guess.column, {"dbm": "dBm", "db": "dB", "m": "m", "deg": "degrees"}.get(guess.column.rpartition("_")[2], "")
    )


def _text(text: str) -> str:
    """Return the text as a quoted TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _shown(text: str) -> str:
    return repr(_printable(text)[:40])


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())


def propose_map(path: str | os.PathLike[str], *, start: str = "", step_s: float = 1.0) -> str:
    """Return a map for a CSV as TOML; if the map lies beside the CSV, the reader uses it.

    Parameters
    ----------
    path : path
        A CSV, plain or compressed; "-" is standard input.
    start : str, optional
        Time of the first line (ISO 8601, or seconds since 1970) of a log without times.
    step_s : float
        Time from one line of such a log to the next, s.

    Raises
    ------
    InputError
        If it cannot be read.
    FormatError
        If it is not a CSV, or has no column with times, or none with a position or a level.
    """
    with open_stream(path) as stream:
        try:
            if start:
                return proposed_steps(io.BufferedReader(stream), start, step_s)
            return proposed(io.BufferedReader(stream))
        except NoProposalError as error:
            raise FormatError(
                stream.path,
                f"cannot propose a column map: {error}; write the column map by hand "
                "(docs/formats.md shows an example)",
            ) from error
