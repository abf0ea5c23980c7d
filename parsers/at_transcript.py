"""Transcripts of AT commands from any terminal or script: questions, answers, and unsolicited lines.

A line may begin with a time stamp (also a time of day, as terminals write it) and an arrow, or with what Python's
logging or ModemManager's debug journal write before a message; a line that is only a time stamp is of what follows.
Without time stamps the readings have no times. Source: 3GPP TS 27.007, the vendors' AT manuals.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.modem.decode import MOST_LINES, decode
from multitracer.protocols.modem.grammar import is_final, prefixed
from multitracer.schemas.radio import RADIO
from multitracer.tables import NA
from multitracer.words import count
from parsers._forced import forced_date
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.lines import MONTHS, NO_YEAR, DateLine, LogLines, date_line
from parsers._text.mapped_log import name_legs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.tables import Table


# Finds the AT commands and lines of answers in a log, whatever a terminal or a library wrote around them.


_DAY_NS = 86_400 * 10**9
_HALF_A_YEAR = 6  # months
_FURTHEST = 200
"""Maximum number of characters before a command or an answer."""
_ARROW = re.compile(r"[\])|;:,\s]*(?:(?:<-+|-+>|<+|>+|(?:RX|TX|recv|send)\b[:>]?)\s*)?", re.IGNORECASE)
_DIRECTION = re.compile(
    r".{0,160}?(?:<--+|--+>|<<+|>>+|\b(?:rx|tx|recv|received|receive|sent|send|sending|read|write|writing|response"
    r"|command|cmd|request|reply)\b ?[:=>]+)\s*b?(?P<quote>['\"])?",
    re.IGNORECASE,
)
_LEVEL = re.compile(
    r"(?:[\s\-|:;,]*(?:\[[^\]\n]{0,80}\]|\{[^}\n]{0,80}\}"
    r"|<?\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?)\b>?))+"
    r"[\s\-|:;,]*",
    re.IGNORECASE,
)
"""What a logger writes between the time and the message."""
_CONTENT = re.compile(
    r"(?:^|(?<=[\s>\]:;,|'\"(=]))(?:(?i:AT)(?:[+!#^*%$][A-Za-z]|(?=\s*['\"]?$))"
    r"|[+#^!*$%][A-Z][A-Z0-9]{1,15} ?:)"
)
_RESULT = re.compile(r"(?:^|(?<=[\s>\]:;,|'\"(=]))(?:OK|ERROR)(?=\s*['\"]?$)")
_PLAIN = re.compile(r"[\w.:\-<>\[\]/| ]*")
"""What may stand before a message without a time stamp: a quotation mark is of a script, not of a log."""
_ESCAPED = re.compile(r"(?:<CR>|<LF>|\[CR\]|\[LF\]|\\r|\\n|\\x0[dDaA])+")
_CLOSING = re.compile(r"['\"\])\s]*$")
_EPOCH = re.compile(r"\[(\d{10}\.\d{6})\]")
_INNER = re.compile(
    r"(?<![\w.:])(?:(\d{4})[-/](\d\d)[-/](\d\d)[T ])?(\d\d?:\d\d:\d\d)(?:[.,:](\d{1,9}))?"
    r"(Z| ?[+-]\d\d:?\d\d(?!\d))?"
)
"""A time within what stands before a message: year, month and day if given, clock, fraction, zone."""
_SYSLOG = re.compile(r"([A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})?) (?!\d{4}\b)")


class AtMessages:
    """Yields the commands and lines of answers of a log, and keeps the time of the last stamp."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.time_ns: int | None = None
        self._last_ns: int | None = None
        """The last time that is possible."""
        self._days_ns = 0
        self._month, self._years = 0, 0
        """Of the last time without a year: its month, and the years since the first one."""
        self._part = ""
        """Begin of a line whose end has not arrived yet."""

    def of_line(self, text: str) -> Iterator[str]:
        """Yield the messages in one line of the log."""
        stamp = None if prefixed(text) else _stamp(text, self._year)
        if stamp is not None:
            self._use(stamp)
            text = stamp.rest
        if _ESCAPED.search(text):
            yield from self._of_octets(text)
        else:
            yield from self.rest()
            if message := _message(text, is_logged=stamp is not None):
                yield message

    def rest(self) -> Iterator[str]:
        """Yield a line whose end did not arrive."""
        part, self._part = self._part, ""
        if part:
            yield part

    def _year(self, month: int) -> int:
        """Return the year of a time without one: a new year has begun where the month falls by more than six.

        A line that was written late, after those of the new year, is of the old year.
        """
        if self._month - month > _HALF_A_YEAR:
            self._years += 1
        elif self._years and month - self._month > _HALF_A_YEAR:
            self._years -= 1
        self._month = month
        stated = forced_date()
        return (1970 if stated is None else stated.year) + self._years

    def _use(self, stamp: DateLine) -> None:
        if stamp.caveat:
            self._lines.warn(stamp.caveat)
        time_ns = self.time_ns = self._lines.time_of(stamp)
        if time_ns is None:
            return
        time_ns += 0 if stamp.has_day else self._days_ns
        if not stamp.has_day and self._last_ns is not None and time_ns < self._last_ns - _DAY_NS // 2:
            self._days_ns += _DAY_NS  # past midnight
            time_ns += _DAY_NS
        self.time_ns = self._last_ns = time_ns

    def _of_octets(self, text: str) -> Iterator[str]:
        """Yield the lines in octets that are written with names for CR and LF."""
        first, *others = _ESCAPED.split(text)
        direction = _DIRECTION.match(first)
        content = _CONTENT.search(first[:_FURTHEST])
        if direction:
            first = first[direction.end() :]
        elif content:
            first = first[content.start() :]
        else:
            first = ""
        *complete, last = [first, *others]
        complete[0] = self._part + complete[0]
        self._part = "" if _CLOSING.fullmatch(last) else last.rstrip("'\"")
        yield from (line.strip() for line in complete if line.strip())


def _stamp(text: str, year_of: Callable[[int], int]) -> DateLine | None:
    """Return the time stamp of a line; that of ModemManager is preferred to one without a day or a year.

    Parameters
    ----------
    text : str
        The line.
    year_of : callable
        Returns the year of a time without one, by its month (1 to 12).
    """
    stamp = date_line(text, time_of_day=True)
    if stamp is not None and stamp.has_day:
        return stamp
    syslog = _SYSLOG.match(text)
    if (own := _EPOCH.search(text[:_FURTHEST])) and (epoch := date_line(own[1])):
        rest = text[own.end() :].strip()
        return DateLine(epoch.time_ns, epoch.resolution_ns, rest)
    if syslog and syslog[1][:3] in MONTHS:
        dated = date_line(f"{syslog[1]} UTC {year_of(MONTHS.index(syslog[1][:3]) + 1)}")
        if dated is not None:
            caveat = NO_YEAR if forced_date() is None else None
            return DateLine(dated.time_ns, dated.resolution_ns, text[syslog.end() :].strip(), caveat)
    return stamp or _inner_stamp(text)


def _inner_stamp(text: str) -> DateLine | None:
    """Return the time stamp between other words and a message, or at the start but in an unusual form."""
    content = _CONTENT.search(text[:_FURTHEST]) or _ESCAPED.search(text[:_FURTHEST])
    content = content or _RESULT.search(text[:_FURTHEST])
    lead = len(text) - len(text.lstrip(" [("))
    match = _INNER.search(text, 0, content.start()) if content else _INNER.match(text, lead)
    if match is None:
        return None
    year, month, day, clock, fraction, zone = match.groups("")
    date = f"{year}-{month}-{day} " if year else ""
    stamp = date_line(f"{date}{clock}{'.' if fraction else ''}{fraction}{zone if year else ''}")
    rest = text[match.end() :].strip()
    if stamp is None or not rest:
        return None
    return DateLine(stamp.time_ns, stamp.resolution_ns, rest, stamp.caveat, stamp.has_day)


def _message(text: str, *, is_logged: bool) -> str:
    """Return a command or a line of an answer without what stands before it.

    Parameters
    ----------
    text : str
        The line, without its time stamp.
    is_logged : bool
        Whether the line had a time stamp; only then a logger may have written quotation marks before it.
    """
    content = _CONTENT.search(text[:_FURTHEST])
    if content is None and is_logged:
        content = _RESULT.search(text[:_FURTHEST])
    if content is not None and (is_logged or _PLAIN.fullmatch(text, 0, content.start())):
        return _without_quote(text, content.start())
    if is_logged and (direction := _DIRECTION.match(text)):
        return _without_quote(text, direction.end())
    if is_logged and (level := _LEVEL.match(text)):
        return text[level.end() :].strip()
    match = _ARROW.match(text)
    return text[match.end() if match else 0 :]


def _without_quote(text: str, begin: int) -> str:
    """Return the text from `begin` on, without the quotation mark that closes one before `begin`."""
    quote = text[begin - 1 : begin]
    message = text[begin:].strip()
    return message.removesuffix(quote) if quote in ("'", '"') else message


_ANSWER = (
    rb"(?:\+(?:CSQ|CESQ|CREG|CGREG|CEREG|C5GREG|QENG|QCSQ|QCAINFO|QNWINFO|QRSR[PQ]|QSINR|CPSI|UCGED|RSR[PQ]"
    rb"|GTCCINFO|GTCAINFO|XMCI|XCESQ)|#(?:RFSTS|SERVINFO|MONI)"
    rb"|\^(?:RSSI|HCSQ|MONSC|MONNC)|!(?:GSTATUS|NRINFO)):"
)
_ANSWERED = re.compile(rb'^[^"\n]{0,160}?' + _ANSWER, re.MULTILINE)
_JOURNAL = re.compile(rb"<debug>[^\n]{0,100}(?:-->|<--) '?(?:AT[+!#^*%$]|<CR><LF>)")
_DEBUGGED = re.compile(
    rb"^[^{\"\n]{0,160}?RAT:[^\n]{2,24}\n(?:[^\n]{0,200}\n){0,8}?[^\n]{0,160}(?:pcell|nr_band)\s*:", re.MULTILINE
)
_TALKED = re.compile(
    rb'^(?:[^"\n]{0,160}?[\s>\]:,\'"])?(?:(?i:AT)[+!#^*%$&A-Z0-9]*[^\n]{0,60}|OK)(?:<CR>.{0,20})?\r?$', re.MULTILINE
)
_COMMAND = re.compile(r"AT(?:[+!#^*%$&A-Z0-9].*)?", re.IGNORECASE)
_LONGEST = 4000
_MOST_NAMES = 5
_BRANCHES = ("+QRSRP", "+QRSRQ", "+QSINR")


class _Log:
    """The exchange that is being read, and the rows so far."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.rows = Sparse(RADIO)
        self.unread: Counter[str] = Counter()
        self._command = ""
        self._asked_ns: int | None = None
        self._answer_lines: list[str] = []
        self._answered_ns: int | None = None
        self._begin = 0

    def take(self, text: str, time_ns: int | None) -> None:
        """Use one command or one line of an answer."""
        text = text[:_LONGEST]
        if _COMMAND.fullmatch(text):
            self.flush()
            self._command, self._asked_ns = text, time_ns
        elif text:
            self._answer(text, time_ns)

    def _answer(self, text: str, time_ns: int | None) -> None:
        if self._answer_lines and not self._command and time_ns != self._answered_ns and prefixed(text):
            self.flush()  # unsolicited lines, or a log without results: each has its own time
        if not self._answer_lines:
            self._begin = self._lines.number
        self._answer_lines.append(text)
        self._answered_ns = time_ns
        if is_final(text) or len(self._answer_lines) >= MOST_LINES:
            self.flush()

    def flush(self) -> None:
        """Decode the lines since the last question."""
        answer, self._answer_lines = self._answer_lines, []
        command, asked_ns = self._command, self._asked_ns
        self._command, self._asked_ns = "", None
        decoded = decode(command, "\r\n".join(answer).encode("latin-1", "replace"))
        for reason in decoded.refused:
            self._lines.skip(reason)
        self.unread.update(decoded.unread)
        answered_ns = self._answered_ns
        both = asked_ns is not None and answered_ns is not None and asked_ns <= answered_ns
        stamps = {"asked_ns": asked_ns, "answered_ns": answered_ns} if both else {}
        middle = (asked_ns + answered_ns) // 2 if both and asked_ns and answered_ns else answered_ns
        for reading in decoded.readings:
            self.rows.append({"role": "serving", **reading, **stamps, "time_ns": middle, "line": self._begin})

    def say(self) -> None:
        """Add warnings about what was not read."""
        self._lines.warn_of_skipped()
        if self.unread:
            names = [f"{name} ({times:,})" for name, times in self.unread.most_common(_MOST_NAMES)]
            more = ", ..." if len(self.unread) > _MOST_NAMES else ""
            self._lines.warn(f"{count(self.unread.total(), 'line')} of answers were not read: {', '.join(names)}{more}")
        if any(source in _BRANCHES for source in self.rows.columns()["source"]):
            self._lines.warn("+QRSRP, +QRSRQ and +QSINR have a value for each antenna; the table has the best one")
        columns = self.rows.columns()
        if ((columns["sinr_raw"] != NA) & np.isnan(columns["sinr_db"])).any():
            self._lines.warn(
                "the scale of a SINR differs between chips (dB, half dB, or an index from -23 dB on), so the modem's "
                "own number stands in sinr_raw, and sinr_db is missing there"
            )


def sniff(head: bytes) -> Match:
    """Return "yes" for ModemManager's journal, and answers beside commands; "maybe" for answers alone."""
    if _JOURNAL.search(head):
        return "yes"
    if not (_ANSWERED.search(head) or _DEBUGGED.search(head)):
        return "no"
    return "yes" if _TALKED.search(head) else "maybe"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `radio`.

    Raises
    ------
    FormatError
        If no answer tells of the radio.
    """
    lines = LogLines(stream)
    log, messages = _Log(lines), AtMessages(lines)
    for text in lines:
        for message in messages.of_line(text):
            log.take(message, messages.time_ns)
    for message in messages.rest():
        log.take(message, messages.time_ns)
    log.flush()
    if not len(log.rows) and not lines.skipped:
        raise FormatError(path, "the file contains no answer of a modem with radio values")
    log.say()
    radio = log.rows.table(lines.provenance(path, FORMAT.name))
    name_legs(radio)
    return {"radio": radio}


FORMAT = Format(
    name="at-transcript",
    layer="radio",
    description="AT commands and their answers, as terminals and scripts log them",
    source="3GPP TS 27.007; the vendors' AT manuals",
    sniff=sniff,
    parse=parse,
)
