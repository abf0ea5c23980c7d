"""markers.jsonl: one JSON record for each marker that the engineer set during the recording.

Source: multitracer/recorder/supervisor.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.radio import MARKERS
from parsers._format import Format, Match
from parsers._text.collector_log import is_time
from parsers._text.lines import LogLines
from parsers._text.times import Rows, parsed_object

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_COLUMNS = ("time_ns", "line", "note")
_SNIFFED = re.compile(rb'\{"kind": ?"marker", ?"note": ?"')


def _row(record: Document, line: int) -> tuple[object, ...]:
    """Return the values of `_COLUMNS`; raise KeyError, TypeError or ValueError if they are not valid."""
    if record.get("kind") != "marker" or not is_time(record["realtime_ns"]):
        raise ValueError("the record is not a marker with a valid time")
    note = record["note"]
    if not isinstance(note, str):
        raise TypeError('"note" must be text')
    return record["realtime_ns"], line, note


def sniff(head: bytes) -> Match:
    """Return "yes" for a log whose first record is a marker."""
    return "yes" if _SNIFFED.match(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `markers`.

    Raises
    ------
    FormatError
        If no line is a marker.
    """
    lines, rows = LogLines(stream), Rows(MARKERS, _COLUMNS)
    for text in lines:
        try:
            rows.append(*_row(parsed_object(text), lines.number))
        except (ValueError, KeyError, TypeError, AttributeError):
            lines.skip("no marker")
    if not len(rows):
        raise FormatError(path, "no line of the file is a marker")
    return {"markers": rows.table(lines.provenance(path, FORMAT.name))}


FORMAT = Format(
    name="markers",
    layer="marker",
    description="markers that the engineer set during the recording",
    source="multitracer/recorder/supervisor.py",
    sniff=sniff,
    parse=parse,
)
