"""The log of `collectors.gps`: gpsd's reports or a receiver's sentences, each with the time of reading.

Every line is decoded here again. A position stands at the time the host read it; what the receiver's clock
said stands beside it as `fix_time_ns`. Source: collectors/gps.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import RemoteProtocolError
from multitracer.protocols.position import Epochs, report, sentence
from parsers._format import Format, Match
from parsers._text.collector_log import CollectorLog, Positions, header_of, is_time
from parsers._text.lines import LogLines

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_LONGEST_RAW = 1 << 17


class _Log(CollectorLog):
    """The totals of the records read so far."""

    def __init__(self, path: str, lines: LogLines) -> None:
        super().__init__(path, lines, name="gps")
        self._positions = Positions("nmea")
        self._epochs = Epochs()
        self._bad = 0

    def take(self, text: str) -> None:
        """Use one line, or count why it could not be used."""
        record = self.record(text)
        if record is None:
            return
        kind, raw, at_ns = record.get("kind"), record.get("raw"), record.get("at_ns")
        if kind == "bad":
            self._bad += 1
        elif kind in ("report", "sentence"):
            if not isinstance(raw, str) or len(raw) > _LONGEST_RAW or not is_time(at_ns):
                self.lines.skip("not a record of this format")
            else:
                self._line(raw, at_ns, is_report=kind == "report")
        elif kind != "port":
            self.lines.skip("not a record of this format")

    def _line(self, raw: str, at_ns: int, *, is_report: bool) -> None:
        stamps = {"line": self.lines.number, "time_ns": at_ns}
        try:
            if is_report:
                kind, fix = report(raw)
                if kind == "TPV":
                    self._positions.rows.append({"source": "gpsd", **self._positions.nowhere.drop(fix), **stamps})
            else:
                kind, fields = sentence(raw)
                self._positions.take(self._epochs.take(kind, fields, **stamps))
        except RemoteProtocolError:
            self.lines.skip("neither an NMEA sentence nor a gpsd report")
            return
        self.answered()

    def position(self) -> Table:
        """Return the positions, on the wall clock where the log's clock records place them."""
        self._positions.finish(self._epochs)
        rows = self._positions.rows
        placed: Document = {"time_ns": self.pairs.place(rows.columns()["time_ns"])}
        missing = self._positions.nowhere.note(self.lines)
        return rows.table(self.provenance() | {"bad_lines": self._bad, "missing": missing}, placed)


def sniff(head: bytes) -> Match:
    """Return "yes" for a log that begins with our header."""
    return "yes" if head.startswith(header_of("gps")) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `position` and `gaps`.

    Raises
    ------
    FormatError
        If the first record is not our header.
    """
    log = _Log(path, LogLines(stream)).read()
    return {"position": log.position(), "gaps": log.gaps()}


FORMAT = Format(
    name="gps",
    layer="position",
    description="positions, recorded by MultiTracer's collector gps",
    source="collectors/gps.py; NMEA 0183, gpsd_json(5)",
    sniff=sniff,
    parse=parse,
)
