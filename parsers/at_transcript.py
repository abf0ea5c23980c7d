"""Transcripts of AT commands from any terminal or script: questions, answers, and unsolicited lines.

A line may begin with a time stamp and an arrow; a line that is only a time stamp is of what follows. Without
time stamps the readings have no times. Source: 3GPP TS 27.007, the vendors' AT manuals.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.protocols.modem.decode import MOST_LINES, decode
from multitracer.protocols.modem.grammar import is_final
from multitracer.schemas.radio import RADIO
from parsers._format import Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.lines import LogLines, date_line

if TYPE_CHECKING:
    from multitracer.tables import Table

_ANSWER = (
    rb"(?:\+(?:CSQ|CESQ|CREG|CGREG|CEREG|C5GREG|QENG|QCSQ|QCAINFO|CPSI|UCGED)|#(?:RFSTS|SERVINFO|MONI)"
    rb"|\^RSSI|!GSTATUS):"
)
_ANSWERED = re.compile(rb'^[^{"\n]{0,60}?' + _ANSWER, re.MULTILINE)
_TALKED = re.compile(rb'^(?:[^{"\n]{0,60}?[\s>\]:])?(?:AT[+!#^*%$&A-Z0-9]*[^\n]{0,60}|OK)\r?$', re.MULTILINE)
_ARROW = re.compile(r"[\])|;:,\s]*(?:(?:<-+|-+>|<+|>+|(?:RX|TX|recv|send)\b[:>]?)\s*)?", re.IGNORECASE)
_COMMAND = re.compile(r"AT(?:[+!#^*%$&A-Z0-9].*)?", re.IGNORECASE)
_LONGEST = 4000


class _Log:
    """The exchange that is being read, and the rows so far."""

    def __init__(self, lines: LogLines) -> None:
        self._lines = lines
        self.rows = Sparse(RADIO)
        self._stamp_ns: int | None = None
        self._command = ""
        self._asked_ns: int | None = None
        self._answer_lines: list[str] = []
        self._begin = 0

    def take(self, text: str) -> None:
        """Use one line."""
        stamp = date_line(text)
        if stamp is not None:
            self._stamp_ns = stamp.time_ns
            text = stamp.rest
            if stamp.caveat:
                self._lines.warn(stamp.caveat)
        match = _ARROW.match(text)
        text = text[match.end() if match else 0 :][:_LONGEST]
        if _COMMAND.fullmatch(text):
            self.flush()
            self._command, self._asked_ns = text, self._stamp_ns
        elif text:
            self._answer(text)

    def _answer(self, text: str) -> None:
        if not self._answer_lines:
            self._begin = self._lines.number
        self._answer_lines.append(text)
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
        answered_ns = self._stamp_ns
        both = asked_ns is not None and answered_ns is not None and asked_ns <= answered_ns
        stamps = {"asked_ns": asked_ns, "answered_ns": answered_ns} if both else {}
        middle = (asked_ns + answered_ns) // 2 if both and asked_ns and answered_ns else answered_ns
        for reading in decoded.readings:
            self.rows.append({"role": "serving", **reading, **stamps, "time_ns": middle, "line": self._begin})


def sniff(head: bytes) -> Match:
    """Return "yes" for radio answers beside commands or results, "maybe" for radio answers alone."""
    if not _ANSWERED.search(head):
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
    log = _Log(lines)
    for text in lines:
        log.take(text)
    log.flush()
    if not len(log.rows) and not lines.skipped:
        raise FormatError(path, "the file contains no answer of a modem with radio values")
    return {"radio": log.rows.table(lines.provenance(path, FORMAT.name))}


FORMAT = Format(
    name="at-transcript",
    layer="radio",
    description="AT commands and their answers, as terminals and scripts log them",
    source="3GPP TS 27.007; the vendors' AT manuals",
    sniff=sniff,
    parse=parse,
)
