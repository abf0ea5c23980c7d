"""gpsd's messages to its clients, one JSON report a line, as `gpspipe -w` writes it, stamped or not.

Only TPV reports hold positions. Lines of NMEA in between (`gpspipe -wr`) are skipped: gpsd has decoded
them already. Where no report tells a position (`gpspipe -r` begins with reports of the devices), they are
read, with the stamps before them. Source: gpsd_json(5).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError, RemoteProtocolError
from multitracer.protocols.position import Epochs, NmeaError, report, sentence
from multitracer.schemas.radio import POSITION
from parsers._format import Format, Match
from parsers._text.collector_log import Nowhere, Positions, Sparse
from parsers._text.lines import LogLines, date_line

if TYPE_CHECKING:
    from typing import Self

    from multitracer.tables import Table

_CLASSES = rb"TPV|SKY|VERSION|DEVICES?|WATCH|GST|PPS|TOFF|AIS|ATT|ERROR"
_REPORT = re.compile(rb'^[^#\n]{0,60}\{ ?"class": ?"(?:%s)"' % _CLASSES, re.MULTILINE)


def sniff(head: bytes) -> Match:
    """Return "yes" for text with a report."""
    return "yes" if _REPORT.search(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `position`.

    Raises
    ------
    FormatError
        If there is no report.
    """
    log = _Log(LogLines(stream)).read()
    if not log.reports:
        raise FormatError(path, "the file contains no report of gpsd")
    return {"position": log.position(path)}


class _Log:
    """The totals of the lines read so far: positions of reports, and of sentences."""

    def __init__(self, lines: LogLines) -> None:
        self.reports = 0
        self._lines = lines
        self._rows = Sparse(POSITION)
        self._located = False
        self._nowhere = Nowhere()
        self._sentences = 0
        self._raw = Positions("nmea")
        self._epochs = Epochs()

    def read(self) -> Self:
        """Take every line."""
        for text in self._lines:
            if (begin := text.find("{")) >= 0:
                self._report(text[begin:], text[:begin])
            elif (begin := text.find("$")) >= 0:
                self._sentence(text[begin:], text[:begin])
            elif text.startswith("!"):
                self._lines.skip("an AIS report, which has the positions of other ships")
        self._raw.finish(self._epochs)
        return self

    def _report(self, text: str, before: str) -> None:
        try:
            kind, fix = report(text)
        except RemoteProtocolError:
            self._lines.skip("not a report of gpsd")
            return
        self.reports += 1
        if kind == "TPV":
            stamp = date_line(before) if before else None
            time_ns = self._lines.time_of(stamp) if stamp else fix.get("fix_time_ns")
            fix = self._nowhere.drop(fix)
            self._rows.append({"source": "gpsd", "line": self._lines.number, "time_ns": time_ns, **fix})
            self._located = self._located or fix.get("lat_deg") is not None

    def _sentence(self, text: str, before: str) -> None:
        stamp = date_line(before) if before else None
        time_ns = self._lines.time_of(stamp)
        stamps = {"line": self._lines.number} | ({} if time_ns is None else {"time_ns": time_ns})
        try:
            kind, fields = sentence(text)
        except NmeaError as error:
            self._lines.skip(str(error).partition(";")[0])
            return
        self._sentences += 1
        self._raw.take(self._epochs.take(kind, fields, **stamps))

    def position(self, path: str) -> Table:
        """Return the positions of the reports; if no report holds any, those of the sentences."""
        rows, decoded, nowhere = self._rows, self._sentences, self._nowhere
        if not self._located and len(self._raw.rows):
            rows, decoded, nowhere = self._raw.rows, 0, self._raw.nowhere
            if not self._raw.dates.is_known:
                self._lines.warn("no NMEA sentence contains the date, so the positions have no times")
        missing = nowhere.note(self._lines)
        provenance = self._lines.provenance(
            path, FORMAT.name, reports=self.reports, nmea_decoded_by_gpsd=decoded, missing=missing
        )
        return rows.table(provenance)


FORMAT = Format(
    name="gpsd",
    layer="position",
    description="positions as gpsd reports them in JSON",
    source="gpsd_json(5)",
    sniff=sniff,
    parse=parse,
)
