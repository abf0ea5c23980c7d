"""clocks.jsonl of a session folder: one JSON record a line, what the clocks of a host said together.

A record has no `kind` and no header before it: `host`, `monotonic_before_ns`, `realtime_ns`,
`monotonic_after_ns`, and, where they could be read, `boottime_ns` and what the kernel says of its
synchronization (adjtimex(2)); `event` and `step_ns` where somebody set the clock or the host slept.
docs/clock.md lists the keys.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from multitracer.errors import FormatError
from multitracer.radio import CLOCK_READINGS
from multitracer.tables import NA, NOT_A_TIME
from parsers._clock_pairs import LATEST_NS, is_time
from parsers._format import Format, Match
from parsers._lines import Lines
from parsers._sender import Rows

if TYPE_CHECKING:
    from multitracer.tables import Table

_READ = ("monotonic_before_ns", "realtime_ns", "monotonic_after_ns")
_MAYBE_NS = ("boottime_ns", "step_ns", "offset_ns", "max_error_ns", "est_error_ns")
_EVENTS = ("step", "suspend")
_MAYBE_NUMBER = ("synchronized", "tai_offset_s")
_COLUMNS = (
    "time_ns", "line", "host", "event", "monotonic_before_ns", "monotonic_after_ns", "frequency_ppm",
    *_MAYBE_NS, *_MAYBE_NUMBER,
)  # fmt: skip
_SNIFFED = re.compile(rb'\{"host": ?"[^"\\\n]{0,64}", ?"monotonic_before_ns": ?\d')
_MOST_PPM = 1_000.0
_LONGEST_HOST = 64


def _row(record: dict[str, Any], line: int) -> tuple[Any, ...]:
    """Return the values of `_COLUMNS`; raise KeyError or ValueError if the record makes no sense."""
    before, realtime, after = (record[key] for key in _READ)
    host = record.get("host", "")
    if not (is_time(before) and is_time(realtime) and is_time(after)) or before > after:
        raise ValueError("a reading makes no sense")
    if not isinstance(host, str) or len(host) > _LONGEST_HOST:
        raise ValueError("a host has no such name")
    maybe = [_number(record, key, NOT_A_TIME) for key in _MAYBE_NS]
    numbers = [_number(record, key, NA) for key in _MAYBE_NUMBER]
    event = record.get("event")
    happened = event if event in _EVENTS else "reading"
    return realtime, line, host, happened, before, after, _ppm(record), *maybe, *numbers


def _number(record: dict[str, Any], key: str, missing: int) -> int:
    value = record.get(key)
    if isinstance(value, bool):
        return int(value)
    return value if type(value) is int and abs(value) < LATEST_NS else missing


def _ppm(record: dict[str, Any]) -> float:
    value = record.get("frequency_ppm")
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST_PPM
    return float(value) if known and value is not None else float("nan")


def sniff(head: bytes) -> Match:
    """Return "yes" for a log whose first record is a reading of a host's clocks."""
    return "yes" if _SNIFFED.match(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `clock_readings`, in the order of the log.

    Raises
    ------
    FormatError
        If no line is a reading.
    """
    lines = Lines(stream)
    rows = Rows(CLOCK_READINGS, _COLUMNS)
    for text in lines:
        try:
            rows.append(*_row(json.loads(text), lines.number))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            lines.skip("no reading of clocks")
    if not len(rows):
        raise FormatError(path, "no line is a reading of clocks")
    return {"clock_readings": _in_order_of_log(rows, lines.provenance(path, FORMAT.name))}


def _in_order_of_log(rows: Rows, provenance: dict[str, Any]) -> Table:
    table = rows.table(provenance)  # in order of realtime, which a clock that was set back is not
    return table.take(table["line"].argsort(kind="stable"))


FORMAT = Format(
    name="clocks",
    layer="clock",
    description="clocks of the hosts of a session, read together (clocks.jsonl)",
    source="docs/clock.md; clock_gettime(2), adjtimex(2)",
    sniff=sniff,
    parse=parse,
)
