"""NMEA 0183 logs: the sentences of a satellite receiver.

Lines without a correct checksum are counted and skipped, also text and binary data between sentences. The time of a fix
is that of the receiver; if the log contains no date, fixes have no time. Text after a checksum is ignored.
"""

from __future__ import annotations

import re
from datetime import UTC, date
from typing import BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.position import DAY_NS, Epochs, NmeaError, sentence
from multitracer.tables import NOT_A_TIME, Table
from parsers._forced import forced_date
from parsers._format import Format, Match
from parsers._text.collector_log import Positions
from parsers._text.lines import LogLines
from parsers._text.times import time_ns

_BEGIN = re.compile(rb"(?<!\")(\$[A-Z]{2}[A-Z0-9]{3,8},[^*$\r\n]{0,240}\*[0-9A-Fa-f]{2})")
_STAMP = re.compile(r"[^\d$]{0,3}(?:(?P<date>\d{4}-\d\d-\d\d)[T _](?P<time>\d\d:\d\d:\d\d)|(?P<epoch>1[0-9]{9})(?!\d))")
"""A date and time, or seconds since 1970, in front of a sentence."""
_DAY_OF_1970 = date(1970, 1, 1).toordinal()
_SAME_DEG = 1e-5
"""Distance of two positions that are one, a metre: sentences of one fix have different numbers of decimals."""
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
    sentences, stated = 0, forced_date()
    for text in lines:
        try:
            kind, fields = sentence(text[max(text.rfind("$"), 0) :])
        except NmeaError as error:
            if text.strip() and not text.startswith("#"):
                lines.skip(str(error).partition(";")[0])
            continue
        sentences += 1
        log.take(epochs.take(kind, fields, line=lines.number))
        if log.dates.stamped is None and not log.dates.is_known and (tod_ns := epochs.tod_ns) is not None:
            day = None if stated is None else (stated.toordinal() - _DAY_OF_1970, tod_ns)
            log.dates.stamped = day or _stamped(text, tod_ns)
    log.finish(epochs)
    if not sentences:
        raise FormatError(path, "the file contains no NMEA 0183 sentence with a valid checksum")
    if log.dates.is_stamped and stated is None:
        lines.warn("no NMEA sentence contains the date: it is taken from the time stamps before the sentences")
    if len(log.rows) and not log.dates.is_known:
        lines.warn("no NMEA sentence contains the date, so the positions have no times (--date gives it)")
    missing = log.nowhere.note(lines)
    provenance = lines.provenance(path, FORMAT.name, sentences=sentences, missing=missing)
    return {"position": _joined(log.rows.table(provenance))}


def _stamped(text: str, tod_ns: int) -> tuple[int, int] | None:
    """Return the day on which a time of day is nearest to the stamp before a sentence, and that time of day.

    The stamp may be a local time: zones are less than half a day from UTC, but for a few islands. None without a stamp.
    """
    match = _STAMP.match(text.partition("$")[0])
    if match is None:
        return None
    text, form = (match["epoch"], "epoch_s") if match["epoch"] else (f"{match['date']} {match['time']}", "iso")
    stamp_ns = time_ns(text, form, UTC, lambda: None)
    return None if stamp_ns is None else (round((stamp_ns - tod_ns) / DAY_NS), tod_ns)


def _joined(table: Table) -> Table:
    """Return POSITION with one row for each time, if sentences of other times stood between those of one.

    Each value is the first one known; the line is the first one of that time. Rows of one time at different places
    stay apart: some receivers repeat a time.
    """
    time_ns = table["fix_time_ns"]
    order = np.lexsort((table["line"], time_ns))
    ordered = time_ns[order]
    begins = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)] | (ordered == NOT_A_TIME)
    first = np.flatnonzero(begins)
    for name in ("lat_deg", "lon_deg") if len(first) else ():
        values = table[name][order]
        spread = np.fmax.reduceat(values, first) - np.fmin.reduceat(values, first)
        begins |= np.repeat(spread > _SAME_DEG, np.diff(np.append(first, len(order))))
    first = np.flatnonzero(begins)
    if len(first) == len(table):
        return table
    columns = {}
    for name in table.schema.names:
        known = np.where(table.missing(name)[order], len(order), np.arange(len(order)))
        place = np.minimum.reduceat(known, first)
        columns[name] = table[name][order][np.where(place == len(order), first, place)]
    columns["fix"] = np.maximum.reduceat(table["fix"][order], first)
    by_line = np.lexsort((columns["line"], columns["time_ns"]))
    return Table(table.schema, {name: values[by_line] for name, values in columns.items()}, table.provenance)


FORMAT = Format(
    name="nmea",
    layer="position",
    description="positions of a satellite receiver, NMEA 0183 sentences",
    source="NMEA 0183; gpsd's driver_nmea0183.c",
    sniff=sniff,
    parse=parse,
)
