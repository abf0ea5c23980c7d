"""The log of `collectors.modem`: answers of a modem, each between two time stamps, and gaps.

Answers are decoded again from their raw octets. Source: collectors/modem.py for the records,
multitracer/protocols/modem for the answers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.protocols.modem.decode import UNSOLICITED, decode
from multitracer.schemas.radio import RADIO, REMOTE_LOG
from parsers._format import Format, Match
from parsers._text.collector_log import CollectorLog, RemoteClocks, Sparse, header_of, is_time
from parsers._text.lines import LogLines
from parsers._text.mapped_log import name_legs

if TYPE_CHECKING:
    from multitracer.tables import Table

_LONGEST_RAW = 1 << 17
_MOST_SAID = 200
_MOST_PORTS = 1000
_LOG_LINE = re.compile(
    r"[A-Z][a-z]{2} (?:[A-Z][a-z]{2} )?[ \d]\d \d\d:\d\d:\d\d(?: \d{4})? "
    r"(?:(?P<level>[a-z0-9]{1,16}\.[a-z]{1,16}) |(?:[\w.-]{1,64} )?)"
    r"(?P<program>[\w./-]{1,48})(?:\[\d{1,8}\])?: (?P<text>.*)"
)
"""A line of OpenWrt's logread (`Tue Dec  1 07:10:12 2026 daemon.notice netifd: …`), or of syslog."""


class _Log(CollectorLog):
    """Reads the records of a log, and collects the rows."""

    def __init__(self, path: str, lines: LogLines) -> None:
        super().__init__(path, lines, name="modem")
        self.rows = Sparse(RADIO)
        self.clocks = RemoteClocks()
        self.events = Sparse(REMOTE_LOG)
        self.ports: list[dict[str, object]] = []
        self._says = ""

    def take(self, text: str) -> None:
        """Read one line, or count it as unusable by reason."""
        record = self.record(text)
        if record is None:
            return
        kind = record.get("kind")
        if kind == "answer":
            is_used = self._answer(record)
        elif kind == "unasked":
            is_used = self._radio(UNSOLICITED, record.get("raw"), record.get("at_ns"), record.get("at_ns"))
        elif kind == "remote_clock":
            is_used = self.clocks.take(record, self.lines.number)
        elif kind == "event":
            is_used = self._event(record)
        else:
            is_used = self._port(record) if kind in ("port", "modem") else False
        if not is_used:
            self.lines.skip("not a record of this format")

    def _answer(self, record: dict[str, object]) -> bool:
        command, result = record.get("command"), record.get("result")
        if not isinstance(command, str):
            return False
        if not result:  # cut off: what there is of a number is another number
            return isinstance(record.get("raw"), str)
        self.answered()
        return self._radio(command, record.get("raw"), record.get("asked_ns"), record.get("answered_ns"))

    def _radio(self, command: str, raw: object, asked_ns: object, answered_ns: object) -> bool:
        if not (isinstance(raw, str) and is_time(asked_ns) and is_time(answered_ns) and asked_ns <= answered_ns):
            return False
        if len(raw) > _LONGEST_RAW:
            return False
        decoded = decode(command, raw.encode("latin-1", "replace"))
        for reason in decoded.refused:
            self.lines.skip(reason)
        stamps = {"asked_ns": asked_ns, "answered_ns": answered_ns, "line": self.lines.number}
        for reading in decoded.readings:
            self.rows.append({"role": "serving", **reading, **stamps})
        return True

    def _event(self, record: dict[str, object]) -> bool:
        """Store a line of the machine's log; return whether the record is valid."""
        raw, at_ns = record.get("raw"), record.get("at_ns")
        if not isinstance(raw, str) or not is_time(at_ns):
            return False
        parts = match.groupdict() if (match := _LOG_LINE.match(raw)) else {"text": raw}
        text = "".join(c for c in parts["text"][:_MOST_SAID] if c.isprintable())
        known = {"level": parts.get("level"), "program": parts.get("program"), "text": text}
        time_ns = None if record.get("earlier") is True else at_ns
        self.events.append({"time_ns": time_ns, "line": self.lines.number, **known})
        return True

    def remote_log(self) -> Table:
        """Return the lines of the machine's log, with wall-clock times."""
        return self.events.table(self.provenance(), {"time_ns": self.pairs.place(self.events.columns()["time_ns"])})

    def _port(self, record: dict[str, object]) -> bool:
        """Store port and modem for the provenance; return whether the record is valid."""
        if not is_time(record.get("at_ns")):
            return False
        says = str(record.get("says", ""))[:_MOST_SAID]
        if says and self._says not in ("", says):
            self.lines.warn("another modem answered later; its values follow those of the first modem")
        self._says = says or self._says
        if len(self.ports) < _MOST_PORTS:
            known = ("kind", "at_ns", "state", "port", "why", "profile", "says")
            self.ports.append({key: str(record[key])[:_MOST_SAID] for key in known if key in record})
        return True

    def radio(self) -> Table:
        """Return the readings; times are wall-clock times, converted with the clock records of the log."""
        columns = self.rows.columns()
        sent, answered = (self.pairs.place(columns[f"{end}_ns"]) for end in ("asked", "answered"))
        placed = {"asked_ns": sent, "answered_ns": answered, "time_ns": sent + (answered - sent) // 2}
        stamps = {name: np.asarray(values) for name, values in placed.items()}
        radio = self.rows.table(self.provenance() | {"ports": self.ports}, stamps)
        name_legs(radio)
        return radio


def sniff(head: bytes) -> Match:
    """Return "yes" for a log that begins with the header of `collectors.modem`."""
    return "yes" if head.startswith(header_of("modem")) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the tables `radio` and `gaps`; of a modem behind ssh also `remote_clock` and `remote_log`.

    Raises
    ------
    FormatError
        If the first record is not this header.
    """
    log = _Log(path, LogLines(stream)).read()
    more = (log.clocks.table(log), log.remote_log())
    return {"radio": log.radio(), "gaps": log.gaps(), **{table.schema.name: table for table in more if len(table)}}


FORMAT = Format(
    name="modem",
    layer="radio",
    description="answers of a modem, recorded by MultiTracer's collector modem",
    source="collectors/modem.py; 3GPP TS 27.007 and the vendors' AT manuals",
    sniff=sniff,
    parse=parse,
)
