r"""Finds the AT commands and lines of answers in a log, whatever a terminal or a library wrote around them.

Known: time stamps and arrows; Python's logging (`2026-02-03 10:11:12,345 DEBUG modem: recv b'OK\r\n'`);
ModemManager's debug journal (`[modem0/ttyUSB2/at] <-- '<CR><LF>OK<CR><LF>'`), which writes the octets as they
arrive, so a line of an answer may be in two lines of the log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import prefixed
from parsers._text.lines import DateLine, date_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers._text.lines import LogLines

_DAY_NS = 86_400 * 10**9
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
_NO_YEAR = "the year is not given, so the times are read as of 1970"


class AtMessages:
    """Yields the commands and lines of answers of a log, and keeps the time of the last stamp."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.time_ns: int | None = None
        self._last_ns: int | None = None
        """The last time that is possible."""
        self._days_ns = 0
        self._part = ""
        """Begin of a line whose end has not arrived yet."""

    def of_line(self, text: str) -> Iterator[str]:
        """Yield the messages in one line of the log."""
        stamp = None if prefixed(text) else _stamp(text)
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


def _stamp(text: str) -> DateLine | None:
    """Return the time stamp of a line; that of ModemManager is preferred to one without a day or a year."""
    stamp = date_line(text, time_of_day=True)
    if stamp is not None and stamp.has_day:
        return stamp
    syslog = _SYSLOG.match(text)
    if (own := _EPOCH.search(text[:_FURTHEST])) and (epoch := date_line(own[1])):
        rest = text[own.end() :].strip()
        return DateLine(epoch.time_ns, epoch.resolution_ns, rest)
    if syslog:
        dated = date_line(f"{syslog[1]} UTC 1970")
        if dated is not None:
            return DateLine(dated.time_ns, dated.resolution_ns, text[syslog.end() :].strip(), _NO_YEAR)
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
