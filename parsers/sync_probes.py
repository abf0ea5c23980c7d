"""claps.jsonl, the log of sync probes: one JSON record for each probe, with its tag and the clocks.

Each record is also a reading of the host's clocks. Source: multitracer/recorder/supervisor.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.radio import CLOCK_READINGS
from parsers._format import Format, Match
from parsers._text.collector_log import is_time
from parsers._text.lines import LogLines
from parsers._text.times import Rows, parsed_object
from parsers.clocks import in_order_of_log

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_COLUMNS = ("time_ns", "line", "host", "event", "monotonic_before_ns", "monotonic_after_ns")
_SNIFFED = re.compile(rb'\{"kind": ?"clap", ?"tag": ?"[0-9a-f]{1,32}", ?"monotonic_before_ns": ?\d')
_TAG = re.compile(r"[0-9a-f]{1,32}")


def _row(record: Document, line: int) -> tuple[object, ...]:
    """Return the values of `_COLUMNS`; raise KeyError, TypeError or ValueError if they are not valid."""
    before, realtime, after = (record[f"{name}_ns"] for name in ("monotonic_before", "realtime", "monotonic_after"))
    if not (is_time(before) and is_time(realtime) and is_time(after)) or before > after:
        raise ValueError("the times of a sync probe are invalid or not in ascending order")
    if record.get("kind") != "clap" or not _TAG.fullmatch(record["tag"]):
        raise ValueError("the record is not a sync probe with a valid tag")
    return realtime, line, "", "reading", before, after


def sniff(head: bytes) -> Match:
    """Return "yes" for a log whose first record is a sync probe."""
    return "yes" if _SNIFFED.match(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `clock_readings`; its provenance has the tags in the same order.

    Raises
    ------
    FormatError
        If no line is a sync probe.
    """
    lines, rows, tags = LogLines(stream), Rows(CLOCK_READINGS, _COLUMNS), {}
    for text in lines:
        try:
            record = parsed_object(text)
            rows.append(*_row(record, lines.number))
            tags[lines.number] = record["tag"]
        except (ValueError, KeyError, TypeError, AttributeError):
            lines.skip("no clap")
    if not len(rows):
        raise FormatError(path, "no line of the file is a sync probe")
    return {"clock_readings": in_order_of_log(rows, tags, lines.provenance(path, FORMAT.name))}


FORMAT = Format(
    name="claps",
    layer="clock",
    description="sync probes, with clock readings at each probe",
    source="multitracer/recorder/supervisor.py",
    sniff=sniff,
    parse=parse,
)
