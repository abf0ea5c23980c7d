"""Reads the lines of a text log in bounded memory, and counts unusable lines by reason."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from parsers._forced import forced_date, forced_zone
from parsers._text.times import EARLIEST_NS, LATEST_NS, MOST, complete, decimal_ns, natural, noted, ns_since_1970, real

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.tables import Document

_LONGEST_LINE_BYTES = 1 << 20
_MOST_WARNINGS = 100
ZONELESS = "the time zone is not given, so the times are read as UTC"
_ZONE_CAVEAT = "the time zone "
"""Beginning of each warning about an unknown time zone."""


@dataclass(slots=True)
class LogLines:
    """The lines of one log, and counts of unusable lines.

    Iterating yields each line as text, without its end. A line that is not UTF-8 is read as Windows-1252, in
    which spreadsheets save; other octets become U+FFFD. A last line without a line end may be incomplete: it
    is not yielded but stored in `cut`. Where compressed data are damaged, the lines before the damage are
    yielded, and `damage` holds the reason.
    """

    stream: BinaryIO
    number: int = 0
    """Number of the current line, from 1."""
    cut: bytes = b""
    """The last line if it has no line end; else empty."""
    damage: str | None = None
    """Reason why reading ended early, with the position in the file; None if it did not."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Number of lines that could not be used, by reason."""
    first_skipped: dict[str, int] = field(default_factory=dict)
    """Number of the first line that could not be used, by reason."""
    warnings: list[str] = field(default_factory=list)
    impossible: dict[str, int] = field(default_factory=dict)
    """Number of values that were set to missing because they cannot be, by column or field of the log."""

    def __iter__(self) -> Iterator[str]:
        while row := self._row():
            self.number += 1
            if row.endswith(b"\n"):
                yield _text(row.rstrip(b"\r\n"))
            elif len(row) == _LONGEST_LINE_BYTES:
                self._pass_over()
            else:
                self.cut = row

    def _row(self) -> bytes:
        try:
            return self.stream.readline(_LONGEST_LINE_BYTES)
        except FormatError as error:  # of what unpacks the file
            if not self.number:
                raise
            self.damage = f"{error.reason.removeprefix('damaged ')} at byte {error.offset}"
            return b""

    def _pass_over(self) -> None:
        self.skip("the line is too long")
        while (row := self._row()) and not row.endswith(b"\n"):
            pass

    def skip(self, reason: str, count: int = 1, *, number: int | None = None) -> None:
        """Count the current line (or line `number`), or `count` lines up to it, as unusable."""
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count
            self.first_skipped.setdefault(reason, self.number if number is None else number)

    def drop(self, name: str) -> None:
        """Count a value of a column, or of a field of the log, that is set to missing because it cannot be."""
        self.impossible[name] = self.impossible.get(name, 0) + 1

    def real(self, document: Document, name: str, *, most: float = MOST) -> float | None:
        """Return a field of a JSON object if it is a number from 0 to `most`; else None, counted if it is there."""
        value = document.get(name)
        number = real(value, most=most)
        if number is None and value is not None:
            self.drop(name)
        return number

    def complete(self, document: Document, name: str, *, most: float = MOST) -> int | None:
        """Return a field of a JSON object as `real` does, as a whole number."""
        value = document.get(name)
        number = complete(value, most=most)
        if number is None and value is not None:
            self.drop(name)
        return number

    def time_of(self, stamp: DateLine | None) -> int | None:
        """Return the time of a stamp in ns since 1970; None without one, counted if its date cannot be."""
        if stamp is not None and stamp.time_ns is None:
            self.drop("time_ns")
        return None if stamp is None else stamp.time_ns

    def warn(self, text: str) -> None:
        """Add a warning about the log, unless it exists already."""
        if text not in self.warnings and len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(text)

    def warn_of_skipped(self) -> None:
        """Add a warning for each reason, unless so much is unusable that `provenance` adds one."""
        if 2 * sum(self.skipped.values()) <= self.number:
            for reason, times in self.skipped.items():
                first = self.first_skipped[reason]
                self.warn(f"{times:,} of {self.number:,} lines could not be used, first line {first:,}: {reason}")

    def provenance(self, path: str, name: str, **more: object) -> dict[str, object]:
        """Return the counts as a table's provenance."""
        cut = f"the last line is truncated after {len(self.cut)} bytes" if self.cut else None
        facts: Document = {
            "path": path,
            "format": name,
            "lines": self.number,
            "skipped": self.skipped,
            "first_skipped_line": self.first_skipped,
            "damaged": self.damage or cut,
            "warnings": [*self._mostly_skipped(), *self.warnings],
            **({"zone": "unknown"} if self.zone_unknown else {}),
            **({"date": "unknown"} if NO_DATE in self.warnings or NO_YEAR in self.warnings else {}),
            **more,
        }
        return noted(facts, self.impossible)

    @property
    def zone_unknown(self) -> bool:
        """Whether the time zone of some times is not known, so that they were read as UTC."""
        return any(text.startswith(_ZONE_CAVEAT) for text in self.warnings)

    def _mostly_skipped(self) -> Iterator[str]:
        """Yield a warning with the reasons if more than half of the log is unusable."""
        skipped = sum(self.skipped.values())
        if 2 * skipped > self.number:
            most = max(self.skipped, key=self.skipped.__getitem__)
            yield (
                f"{skipped:,} of {self.number:,} lines could not be used; the first is line "
                f"{self.first_skipped[most]:,}: {most}"
            )


def _text(row: bytes) -> str:
    try:
        return row.decode()
    except UnicodeDecodeError:
        return row.decode("cp1252", errors="replace")


# The line of a CSV log that names its columns.


_LONGEST = 100_000
_MOST_COMMENTS = 50
_SEPARATOR = re.compile(r"sep=.|WigleWifi-\d[^\n]*", re.IGNORECASE)
"""Lines above the names of columns: of spreadsheets, and of the program WiGLE about itself."""


def first_line(lines: Iterable[str]) -> str:
    """Return the first line that is not a comment (the column names); "" if there is none."""
    for text in islice(lines, _MOST_COMMENTS):
        stripped = text.strip("\ufeff \t")
        if stripped and not stripped.startswith("#") and not _SEPARATOR.fullmatch(stripped):
            return text
    return ""


def names_in(text: str, delimiter: str) -> list[str]:
    """Return the names in the first line of a log; an empty list if it is not a CSV."""
    try:
        return next(csv.reader([text[:_LONGEST]], delimiter=delimiter), [])
    except csv.Error:
        return []


# Time stamps that scripts put on lines: `date` in its forms, seconds since 1970, ISO 8601.


_EPOCH = re.compile(r"(?P<s>\d{10})(?:[.,](?P<fraction>\d{1,9})|(?P<digits>\d{3}|\d{6}|\d{9}))?(?=[\s:;,]|$)")
_DAY = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
_CLOCK = r"(?P<hour>\d\d?):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
_HALF = r"(?: (?P<half>[AaPp])[Mm])?"
_OFFSET_H = {
    "CET": 1, "CEST": 2, "MET": 1, "MEST": 2, "MEZ": 1, "MESZ": 2, "WET": 0, "WEST": 1, "EET": 2, "EEST": 3,
    "WAT": 1, "CAT": 2, "EAT": 3, "SAST": 2, "IDT": 3, "PKT": 5, "WIB": 7, "WITA": 8, "WIT": 9, "HKT": 8,
    "JST": 9, "KST": 9, "AWST": 8, "ACST": 9.5, "ACDT": 10.5, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
    "HST": -10, "AKST": -9, "AKDT": -8, "PDT": -7, "MDT": -6,
}  # fmt: skip
"""Hours ahead of UTC by abbreviation, where the tz database has one meaning since 2000 and no other country
uses the same letters (except KST, half an hour less in Pyongyang from 2015 to 2018)."""
_OF_SEVERAL = (*("IST", "CST", "CDT", "EST", "EDT", "PST", "MST"), *("BST", "AST", "ADT", "GST", "SST", "NST", "MSK"))
"""Ambiguous abbreviations, of zones hours apart: India, Israel and Ireland; the USA, China and Australia."""
_GREENWICH = ("UTC", "GMT", "UT", "Z")
_OFFSET = r"(?:UTC|GMT)?[+-]\d\d:?\d\d(?!\d)"
_NAMED = "|".join((*_GREENWICH, *_OFFSET_H, *_OF_SEVERAL))
_ZONE = rf"(?: ?(?P<zone>{_OFFSET}|(?:{_NAMED})(?!\w|[+-]\d)))?"
"""Time zone in a line that continues; other words, such as AT, OK or RING, are output of the modem."""
_ANY_ZONE = rf"(?: (?P<zone>{_OFFSET}|[A-Z]{{2,5}}))?"
_MONTH = r"(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_FORMS = (
    rf"{_DAY}[T ]{_CLOCK}{_ZONE}",
    rf"(?:[A-Z][a-z]{{2}},? +)?{_MONTH} +(?P<day>\d\d?) +{_CLOCK}{_HALF}{_ANY_ZONE} +(?P<year>\d{{4}})",
    rf"(?:[A-Z][a-z]{{2}},? +)?(?P<day>\d\d?) {_MONTH} (?P<year>\d{{4}}) +{_CLOCK}{_HALF}{_ZONE}",
    _CLOCK,
)
_DATES = tuple(re.compile(form) for form in _FORMS)
_AT_END = tuple(
    re.compile(rf"(?<![^\s,;|@\[(])(?:(?:time|date|at|ts|t|stamp|timestamp)[:=]\s*)?{form}[\])]?\s*$")
    for form in (r"(?P<s>\d{10})(?:[.,](?P<fraction>\d{1,9})|(?P<digits>\d{3}|\d{6}|\d{9}))?", *_FORMS)
)
NO_DATE = "the date is not given, so the times are read as of 1970-01-01 (--date gives it)"
NO_YEAR = "the year is not given, so the times are read as of 1970 (--date gives it)"
_LONGEST_STAMP = 64
_AFTER_CLOCK = " \t])|;>"
"""Characters that may follow a time of day in a line that continues."""
_MAY_END = re.compile(r"(?:\d{10}|\d:\d\d)[^:]{0,40}$")
"""Pattern that every stamp at the end of a line matches; it is tested first, as most lines have none."""
_LEAD = re.compile(r"\W{0,5}(?:[A-Za-z]{1,12}[:=]\s*)?")
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


@dataclass(frozen=True, slots=True)
class DateLine:
    """A time stamp at the start or end of a line: time, resolution, and the rest of the line."""

    time_ns: int | None
    """ns since 1970; None if the date cannot be: a 13th month, a zone 99 hours away, the year 1 or 9999."""
    resolution_ns: int
    rest: str
    caveat: str | None = None
    """Assumption about the time zone or the day; None if there is none."""
    has_day: bool = True


def date_line(text: str, *, time_of_day: bool = False) -> DateLine | None:
    """Return the time stamp at the start of a line; None if there is none.

    Parameters
    ----------
    text : str
        The line.
    time_of_day : bool
        Whether a time of day without a date counts as a time stamp even if more text follows.
    """
    lead = _LEAD.match(text)
    begin = lead.end() if lead else 0
    try:
        if epoch := _EPOCH.match(text, begin):
            return _epoch(epoch, text[epoch.end() :].strip())
        for form in _DATES:
            if match := form.match(text, begin):
                rest = text[match.end() :].strip()
                if rest and form is _DATES[-1] and not (time_of_day and text[match.end()] in _AFTER_CLOCK):
                    return None
                return _date(match.groupdict(), rest)
    except ValueError:  # 99 o'clock without a date: no stamp
        return None
    return None


def date_at_end(text: str) -> DateLine | None:
    """Return the time stamp at the end of a line; None if there is none, or no other text in the line."""
    begin = max(len(text) - _LONGEST_STAMP, 0)
    if not _MAY_END.search(text, begin):
        return None
    try:
        for form in _AT_END:
            if (match := form.search(text, begin)) and (rest := text[: match.start()].strip()):
                return _epoch(match, rest) if form is _AT_END[0] else _date(match.groupdict(), rest)
    except ValueError:
        return None
    return None


def _epoch(match: re.Match[str], rest: str) -> DateLine:
    fraction = match["fraction"] or match["digits"] or ""
    try:
        time_ns = decimal_ns(match["s"], fraction)
    except ValueError:
        time_ns = None
    return DateLine(time_ns, 10 ** (9 - len(fraction)), rest)


def _date(parts: dict[str, str | None], rest: str) -> DateLine:
    """Return the stamp; raise ValueError if it has no date, and its time of day cannot be."""
    fraction, has_day = parts["fraction"] or "", parts.get("year") is not None
    time_ns, caveat = None, None
    try:
        zone, caveat = _zone(parts.get("zone"))
        stated = None if has_day else forced_date()
        named = (natural(parts.get("year") or "1970"), _month(parts), natural(parts.get("day") or "1"))
        year, month, day = named if stated is None else (stated.year, stated.month, stated.day)
        instant = datetime(
            year, month, day, _hour(parts), natural(parts["minute"] or "0"),
            min(natural(parts["second"] or "0"), 59), tzinfo=zone,
        )  # fmt: skip
        time_ns = ns_since_1970(instant) + natural(fraction.ljust(9, "0"))
    except (ValueError, OverflowError):
        if not has_day:
            raise ValueError("no time of day") from None
    if not has_day and stated is None:
        caveat = NO_DATE
    is_possible = time_ns is not None and EARLIEST_NS <= time_ns <= LATEST_NS
    resolution_ns = 10 ** (9 - len(fraction))
    return DateLine(time_ns if is_possible else None, resolution_ns, rest, caveat if is_possible else None, has_day)


def _month(parts: dict[str, str | None]) -> int:
    name = parts.get("name")
    return MONTHS.index(name) + 1 if name else natural(parts.get("month") or "1")


def _hour(parts: dict[str, str | None]) -> int:
    hour, half = natural(parts["hour"] or "0"), (parts.get("half") or "").lower()
    return hour if not half else hour % 12 + (12 if half == "p" else 0)


def _zone(text: str | None) -> tuple[tzinfo, str | None]:
    if text is None:
        zone = forced_zone()
        return zone or UTC, None if zone else ZONELESS
    if text in _GREENWICH:
        return UTC, None
    if text[-1].isdigit():
        sign, digits = re.sub("[UTCGM:]", "", text)[0], re.sub(r"\D", "", text)
        offset = timedelta(hours=natural(digits[:2]), minutes=natural(digits[2:]))
        return timezone(offset if sign == "+" else -offset), None
    if text in _OFFSET_H:
        return timezone(timedelta(hours=_OFFSET_H[text])), None
    zone = forced_zone()
    return zone or UTC, None if zone else f"the time zone {text} is ambiguous, so the times are read as UTC"
