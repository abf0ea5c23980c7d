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
from parsers._format import Format, Match
from parsers._text.at_lines import AtMessages
from parsers._text.collector_log import Sparse
from parsers._text.lines import LogLines
from parsers._text.mapped_log import name_legs

if TYPE_CHECKING:
    from multitracer.tables import Table

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
