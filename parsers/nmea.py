"""NMEA 0183 logs: the sentences of a satellite receiver.

Lines without a correct checksum are counted and skipped, also text and binary data between sentences. The time of a fix
is that of the receiver; if the log contains no date, fixes have no time. Text after a checksum is ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.protocols.position import Epochs, NmeaError, sentence
from parsers._format import Format, Match
from parsers._text.collector_log import Positions
from parsers._text.lines import LogLines

if TYPE_CHECKING:
    from multitracer.tables import Table

_BEGIN = re.compile(rb"(?<!\")(\$[A-Z]{2}[A-Z0-9]{3,8},[^*$\r\n]{0,240}\*[0-9A-Fa-f]{2})")
_REPORT = re.compile(rb'^[^#\n]{0,60}\{ ?"class": ?"[A-Z]', re.MULTILINE)


def sniff(head: bytes) -> Match:
    """Return "yes" for a text with a correct NMEA checksum and without reports of gpsd."""
    if _REPORT.search(head):
        return "no"
    for match in _BEGIN.finditer(head):
        try:
            sentence(match[1].decode("ascii"))
        except (NmeaError, UnicodeDecodeError):
            continue
        return "yes"
    return "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `position`.

    Raises
    ------
    FormatError
        If the log contains no sentence.
    """
    lines, epochs, log = LogLines(stream), Epochs(), Positions("nmea")
    sentences = 0
    for text in lines:
        try:
            kind, fields = sentence(text[max(text.rfind("$"), 0) :])
        except NmeaError as error:
            if text.strip() and not text.startswith("#"):
                lines.skip(str(error).partition(";")[0])
            continue
        sentences += 1
        log.take(epochs.take(kind, fields, line=lines.number))
    log.finish(epochs)
    if not sentences:
        raise FormatError(path, "the file contains no NMEA 0183 sentence with a valid checksum")
    if len(log.rows) and not log.dates.is_known:
        lines.warn("no NMEA sentence contains the date, so the positions have no times")
    missing = log.nowhere.note(lines)
    provenance = lines.provenance(path, FORMAT.name, sentences=sentences, missing=missing)
    return {"position": log.rows.table(provenance)}


FORMAT = Format(
    name="nmea",
    layer="position",
    description="positions of a satellite receiver, NMEA 0183 sentences",
    source="NMEA 0183; gpsd's driver_nmea0183.c",
    sniff=sniff,
    parse=parse,
)
