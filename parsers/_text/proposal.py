"""A map that is proposed for an unknown CSV, as TOML with comments: what is certain, and what is not.

The first lines decide: the time and its form, then places and levels by the names and values of the columns.
The unit of a speed that names none is the one under which it fits the positions best.
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from parsers._text.column_map import delimiter_of
from parsers._text.first_line import first_line, names_in
from parsers._text.guesses import DEFAULT_MISSING, SECTOR_BITS, Guess, guesses, tokens, why_not
from parsers._text.lines import Lines
from parsers._text.times import UncertainTimeError, form_of, time_ns
from parsers._text.units import decimal_of, factor, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

_ROWS = 2000
_SAMPLES = 300
_MOST_COLUMNS = 4000
_MOST_TIMES = 64
"""Columns that are tried as the time: each costs 35 ms at most."""
_MOST_CHARACTERS = 8 << 20
_LONGEST_LINE = 100_000
_LEAST_DIGITS = 8
"""Of a day and a time: 2021-05-06 10:00 has 12, seconds since 1970 have 10."""
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
"""So many texts of a column must be times for it to be the time; not measured."""
_NO_NUMBERS = ("?", "n.a.", "none", "None", "null", "nil", "*", "N/A", "unknown", "-9999", "2147483647")
_METRES = 6_371_000.0 * math.pi / 180
"""Of a degree of latitude on a sphere of the earth's mean radius."""
_UNITS = ("m/s", "km/h", "mph", "kn")
_SLOWEST_MPS = 1.0
"""Of which the distance between two positions says something; not measured."""
_FASTEST_MPS = 70.0
"""250 km/h: a larger number of a car is in another unit."""
_FITS = 1.3
"""Speeds that are farther than this factor from those of the positions fit no unit: between km/h and mph lie
1.6, between knots and m/s 1.9. Not measured."""


class NoProposalError(ValueError):
    """A log for which no map can be proposed; the message says why."""


class _Sample:
    """The first lines of a log, by column."""

    def __init__(self, stream: BinaryIO) -> None:
        lines = Lines(stream)
        header = first_line(lines)
        self.delimiter = delimiter_of(header)
        if "\0" in header:
            raise NoProposalError(
                "this is text in UTF-16, which is not read: convert it (iconv -f UTF-16 -t UTF-8) first"
            )
        self.names = [name.strip("\ufeff \t").strip('"') for name in names_in(header, self.delimiter)]
        if len(self.names) < 2 or len(self.names) > _MOST_COLUMNS:
            raise NoProposalError(f"the first line names no columns of a CSV{_names_below(lines)}")
        self.rows = list(islice(self._fields(lines), _ROWS))
        self.texts = [
            [row[at].strip() for row in self.rows if at < len(row) and row[at].strip() not in DEFAULT_MISSING]
            for at in range(len(self.names))
        ]
        self.missing = sorted(
            {text for column in self.texts for text in column if text in _NO_NUMBERS} - DEFAULT_MISSING
        )
        self.values = [
            [text for text in column if text not in self.missing][:_SAMPLES] for column in self.texts
        ]

    def _fields(self, lines: Lines) -> Iterator[list[str]]:
        try:
            yield from (row for row in csv.reader(_bounded(lines), delimiter=self.delimiter) if row)
        except csv.Error:
            return


def _names_below(lines: Lines) -> str:
    """Return, in words, which later line may name the columns; empty if none does."""
    counts = [(len(names_in(text, delimiter_of(text))), lines.number) for text in islice(lines, _MOST_ABOVE)]
    most, number = max(counts, key=lambda each: each[0], default=(0, 0))
    if most < _LEAST_NAMES:
        return ""
    return f"; line {number} may do so: delete the lines above it, or begin them with #"


_MOST_ABOVE, _LEAST_NAMES = 50, 3
"""Lines that some programs write above the names, and what a name, a time and a level need. Not measured."""


def _bounded(lines: Lines) -> Iterator[str]:
    """Yield lines until they are too many characters together."""
    left = _MOST_CHARACTERS
    for text in lines:
        left -= len(text)
        if left < 0:
            return
        yield text[:_LONGEST_LINE]


class _Time:
    """Which columns are the time, and in which form."""

    def __init__(self, columns: tuple[int, ...], form: str, doubt: str, example: str) -> None:
        self.columns = columns
        self.form = form
        self.doubt = doubt
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
        f"{_shown(sample.names[at])} (for example {_shown(next(iter(sample.texts[at]), ''))})"
        for at in order[:5]
    )
    raise NoProposalError(f"no column has times that can be read; tried {tried}")


def _weight(name: str) -> int:
    """Return the place of the first word of time in a column's name; their number if there is none."""
    words = tokens(name)
    return next((at for at, word in enumerate(_TIME_WORDS) if word in words), len(_TIME_WORDS))


def _of_columns(sample: _Sample, columns: tuple[int, ...]) -> _Time | None:
    """Return columns as the time, if most of their texts are times of one form."""
    texts = [" ".join(row[at].strip() for at in columns) for row in sample.rows if max(columns) < len(row)]
    texts = [text for text in texts[:_SAMPLES] if text.strip()]
    if not any(sum(map(str.isdigit, text)) >= _LEAST_DIGITS for text in texts[:5]):
        return None
    doubt = ""
    try:
        form = form_of(texts)
    except UncertainTimeError as error:
        if error.form is None:
            return None
        form, doubt = error.form, "day and month could be exchanged"
    is_worded = any(_weight(sample.names[at]) < len(_TIME_WORDS) for at in columns)
    if form.startswith("epoch") and not is_worded:
        return None
    known = sum(time_ns(text, form, None, _nothing) is not None for text in texts)
    return _Time(columns, form, doubt, texts[0]) if known >= _MOSTLY * len(texts) else None


def _nothing() -> None:
    """Do nothing: what is only tried needs no zone."""


def proposed(stream: BinaryIO) -> str:
    """Return a map for a CSV, as TOML that the reader of maps reads.

    Raises
    ------
    NoProposalError
        If it is no CSV, or no column has times, or none has a place or a level.
    """
    sample = _Sample(stream)
    time = _time(sample)
    times = [time.of(row) for row in sample.rows]
    likely = guesses(sample.names, sample.values, time.columns)
    likely = [_with_speed(guess, sample, times, likely) for guess in likely]
    if not any(
        guess.is_possible and guess.column not in ("rat", "operator", "band", "role") for guess in likely
    ):
        names = ", ".join(_shown(name) for name in sample.names[:12])
        raise NoProposalError(
            f"no column has a place or a level by its name and values; its columns are {names}"
        )
    return "\n".join([*_head(sample, time), *_sections(likely), *_left_out(sample, time, likely)]) + "\n"


def _with_speed(guess: Guess, sample: _Sample, times: Sequence[int | None], likely: Sequence[Guess]) -> Guess:
    """Return a speed without a unit, in the unit that fits its values or the positions."""
    if guess.column != "speed_mps" or guess.unit or not guess.is_possible:
        return guess
    at = {each.column: sample.names.index(each.name) for each in likely if each.table == "position"}
    ratio = _ratio(sample, times, at) if {"lat_deg", "lon_deg"} <= at.keys() else None
    largest = max((decimal_of(text) or 0.0 for text in sample.values[at["speed_mps"]]), default=0.0)
    if ratio is not None:
        unit, off = min(
            ((unit, abs(math.log(ratio * (factor(unit, "m/s") or 1.0)))) for unit in _UNITS),
            key=lambda each: each[1],
        )
        if off > math.log(_FITS):
            doubt = f"no unit is named, and none fits the positions ({ratio:.2f} of it are 1 m/s)"
            return replace(guess, doubt=doubt, is_possible=False)
        doubt = f"no unit is named; by the positions it is {unit} (they say {ratio:.2f} of it to 1 m/s)"
    else:
        unit = "km/h" if largest > _FASTEST_MPS else "m/s"
        doubt = f"no unit is named; the largest is {largest:g}: taken as {unit}"
    return Guess(guess.table, guess.column, guess.name, unit, doubt=doubt)


def _ratio(sample: _Sample, times: Sequence[int | None], at: dict[str, int]) -> float | None:
    """Return the median of speed over the speed of the positions; None if they hardly move."""
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
    yield f"# Proposed by the first {len(sample.rows):,} lines. Lines with 'unsure' are to be checked."
    yield f"delimiter = {_text(sample.delimiter)}"
    if sample.missing:
        yield f"missing = [{', '.join(map(_text, sorted({*DEFAULT_MISSING, *sample.missing})))}]"
    yield ""
    yield "[time]"
    names = [_text(sample.names[at]) for at in time.columns]
    yield f"column = {names[0] if len(names) == 1 else '[' + ', '.join(names) + ']'}"
    comment = f"unsure: {time.doubt}; " if time.doubt else ""
    yield f"form = {_text(time.form)}  # {comment}for example {_shown(time.example)}"
    if not time.has_zone:
        yield '# zone = "+01:00"  # unsure: the times name no zone and are taken as UTC; write theirs here'


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
    """Yield a comment for each column that is in no line of the map, with why."""
    named = {name for guess in likely for name in (guess.name, guess.above, guess.hemisphere)} | {
        sample.names[at] for at in time.columns
    }
    left = [(at, name) for at, name in enumerate(sample.names) if name and name not in named]
    if left:
        yield from ("", "# Not used:")
    for at, name in left:
        example = next(iter(sample.values[at]), "")
        shown = f" (for example {_shown(example)})" if example else ", without a value in these lines"
        yield f"# {_shown(name)}{shown}: {why_not(name)}"


def _is_level(guess: Guess) -> bool:
    return guess.column.endswith(("_dbm", "_db"))


def _cells(row: Sequence[Guess]) -> Iterator[str]:
    """Yield a line for each guess; a second column for the same is only named."""
    taken: set[str] = set()
    for guess in row:
        if guess.column in taken:
            yield f"# {guess.column} = {_text(guess.name)}  # unsure: a second column for the same"
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
        parts.append(
            f"words = {{ {', '.join(f'{_text(word)} = {_text(ours)}' for word, ours in guess.words)} }}"
        )
    value = _text(guess.name) if len(parts) == 1 else "{ " + ", ".join(parts) + " }"
    comment = f"  # unsure: {_printable(guess.doubt)}" if guess.doubt else ""
    return f"{'' if guess.is_possible else '# '}{guess.column} = {value}{comment}"


def _unit_of(guess: Guess) -> str:
    return {"speed_mps": "m/s", "downlink_bps": "bit/s", "uplink_bps": "bit/s", "bler_pct": "%"}.get(
        guess.column,
        {"dbm": "dBm", "db": "dB", "m": "m", "deg": "degrees"}.get(guess.column.rpartition("_")[2], ""),
    )


def _text(text: str) -> str:
    """Return a string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _shown(text: str) -> str:
    return repr(_printable(text)[:40])


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable())
