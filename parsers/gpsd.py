"""What gpsd says to its clients, one JSON report a line, as `gpspipe -w` writes it (with or without stamps).

Only TPV reports hold positions. Lines of NMEA in between (`gpspipe -wr`) are passed over: gpsd has decoded
them already. Source: gpsd_json(5).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError, RemoteProtocolError
from multitracer.protocols.position import report
from multitracer.radio import POSITION
from parsers._date_line import date_line
from parsers._field import Sparse
from parsers._format import Format, Match
from parsers._lines import Lines

if TYPE_CHECKING:
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
    lines, rows = Lines(stream), Sparse(POSITION)
    reports = 0
    for text in lines:
        begin = text.find("{")
        if begin < 0:
            if text.startswith(("$", "!")):
                lines.skip("NMEA, which gpsd has decoded")
            continue
        try:
            kind, told = report(text[begin:])
        except RemoteProtocolError:
            lines.skip("no report of gpsd")
            continue
        reports += 1
        if kind == "TPV":
            stamp = date_line(text[:begin]) if begin else None
            time_ns = stamp.time_ns if stamp else told.get("fix_time_ns")
            rows.append({"source": "gpsd", "line": lines.number, "time_ns": time_ns, **told})
    if not reports:
        raise FormatError(path, "no report of gpsd")
    return {"position": rows.table(lines.provenance(path, FORMAT.name, reports=reports))}


FORMAT = Format(
    name="gpsd",
    layer="position",
    description="positions as gpsd reports them in JSON",
    source="gpsd_json(5)",
    sniff=sniff,
    parse=parse,
)
