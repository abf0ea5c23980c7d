"""clocks.jsonl of a session folder: one JSON record a line, a host's clocks read at the same time.

A record has no `kind` and no header before it: `host`, `monotonic_before_ns`, `realtime_ns`,
`monotonic_after_ns`, and, where they could be read, `boottime_ns` and what the kernel says of its
synchronization (adjtimex(2)); `event` and `step_ns` where somebody set the clock or the host slept.
docs/clock.md lists the keys.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, BinaryIO

from multitracer.errors import FormatError
from multitracer.schemas.radio import CLOCK_READINGS
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_S
from parsers._format import Format, Match
from parsers._text.collector_log import LATEST_NS, is_time
from parsers._text.lines import LogLines
from parsers._text.times import BEYOND, Rows, decimal_of, integer, nearest, noted, parsed_object

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

_READ = ("monotonic_before_ns", "realtime_ns", "monotonic_after_ns")
_MAYBE_NS = ("boottime_ns", "step_ns", "offset_ns", "max_error_ns", "est_error_ns")
_EVENTS = ("step", "suspend")
_MAYBE_NUMBER = ("synchronized", "tai_offset_s")
_COLUMNS = (
    "time_ns", "line", "host", "event", "monotonic_before_ns", "monotonic_after_ns", "frequency_ppm",
    *_MAYBE_NS, *_MAYBE_NUMBER,
)  # fmt: skip
_TAG = re.compile(r"[0-9a-f]{1,32}")
_CHRONY_FIELDS = 14
"""Number of fields of `chronyc -c tracking`; field 4 is the offset, 10 the root delay, 11 the root dispersion, in s,
and 13 the status."""
_PTP_OFFSET = re.compile(r"TIME_STATUS_NP master_offset (-?\d{1,18}) .*\bgmPresent true\b")
"""Pattern of `pmc`'s answer: the offset of a port from its master in ns, if a grandmaster is present."""
_SNIFFED = re.compile(rb'\{"host": ?"[^"\\\n]{0,64}", ?"monotonic_before_ns": ?\d')
_MOST_PPM = 1_000.0
_LONGEST_HOST = 64


def _row(record: Document, line: int, ptp_off_ns: int = 0) -> tuple[Any, ...]:
    """Return the values of `_COLUMNS`; raise KeyError or ValueError if the record is not valid."""
    before, realtime, after = (record[key] for key in _READ)
    host = record.get("host", "")
    if not (is_time(before) and is_time(realtime) and is_time(after)) or before > after:
        raise ValueError("the times of a clock reading are invalid or not in ascending order")
    if not isinstance(host, str) or len(host) > _LONGEST_HOST:
        raise ValueError(f'"host" must be a text of at most {_LONGEST_HOST} characters')
    record = _vouched_for_by_chrony(_doubted_by_ptp(record, ptp_off_ns))
    maybe = [_number(record, key, NOT_A_TIME) for key in _MAYBE_NS]
    numbers = [_number(record, key, NA) for key in _MAYBE_NUMBER]
    if numbers[0] not in (NA, 0, 1):
        numbers[0] = BEYOND
    event = record.get("event")
    happened = event if event in _EVENTS else "reading"
    return realtime, line, host, happened, before, after, _ppm(record), *maybe, *numbers


def _vouched_for_by_chrony(record: Document) -> Document:
    """Return a record with chrony's error bound if the kernel reports none."""
    tracking = record.get("chrony")
    fields = tracking.split(",") if isinstance(tracking, str) else []
    if record.get("synchronized") == 1 or len(fields) < _CHRONY_FIELDS or fields[13] != "Normal":
        return record
    offset_s, delay_s, dispersion_s = (decimal_of(fields[i]) for i in (4, 10, 11))
    if offset_s is None or delay_s is None or dispersion_s is None:
        return record
    bound_ns = nearest((abs(offset_s) + delay_s / 2 + dispersion_s) * NS_PER_S)
    return record | {"synchronized": 1, "max_error_ns": bound_ns, "offset_ns": 0}


def _ptp_off_ns(record: Document, before: int) -> int:
    """Return the last offset from the master that linuxptp stated: it is read only once a minute."""
    status = record.get("ptp")
    match = _PTP_OFFSET.match(status) if isinstance(status, str) else None
    return abs(integer(match[1])) if match else before


def _doubted_by_ptp(record: Document, off_ns: int) -> Document:
    """Return a record whose error bound includes the offset from the master that linuxptp stated.

    linuxptp sets the kernel's `maxerror` to 0 whenever it corrects the clock (sysclk_set_sync in its
    clockadj.c): what is left to the master is known to linuxptp only. A kernel that is not synchronized gets
    no bound: the clock that ptp4l corrects may be that of the network card.
    """
    bound_ns = record.get("max_error_ns")
    if record.get("synchronized") != 1 or type(bound_ns) is not int:
        return record
    return record | {"max_error_ns": bound_ns + off_ns}


def _number(record: Document, key: str, missing: int) -> int:
    value = record.get(key)
    if isinstance(value, bool):
        return int(value)
    return value if type(value) is int and abs(value) < LATEST_NS else missing


def _ppm(record: Document) -> float:
    value = record.get("frequency_ppm")
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST_PPM
    return float(value) if known and value is not None else float("nan")


def sniff(head: bytes) -> Match:
    """Return "yes" for a log whose first record is a reading of a host's clocks."""
    return "yes" if _SNIFFED.match(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `clock_readings`, in the order of the log; tags of the sync probes stand in its provenance.

    Raises
    ------
    FormatError
        If no line is a reading.
    """
    lines = LogLines(stream)
    rows, tags, ptp_off_ns = Rows(CLOCK_READINGS, _COLUMNS), {}, 0
    for text in lines:
        try:
            record = parsed_object(text)
            ptp_off_ns = _ptp_off_ns(record, ptp_off_ns)
            rows.append(*_row(record, lines.number, ptp_off_ns))
            tags[lines.number] = _tag(record)
        except (ValueError, KeyError, TypeError, AttributeError):
            lines.skip("not a clock reading")
    if not len(rows):
        raise FormatError(path, "no line of the file is a clock reading")
    return {"clock_readings": in_order_of_log(rows, tags, lines.provenance(path, FORMAT.name))}


def _tag(record: Document) -> str:
    tag = record.get("tag")
    return tag if isinstance(tag, str) and _TAG.fullmatch(tag) else ""


def in_order_of_log(rows: Rows, tags: dict[int, str], provenance: Document) -> Table:
    """Return the readings as they were logged; the provenance holds the sync probe's tag of each, or ""."""
    table = rows.table({})  # in order of realtime, which a clock that was set back is not
    table = table.take(table["line"].argsort(kind="stable"))
    unusable = table.provenance.get("missing", {})
    table.provenance = noted(provenance, unusable) | {"tags": [tags[line] for line in table["line"].tolist()]}
    return table


FORMAT = Format(
    name="clocks",
    layer="clock",
    description="simultaneous clock readings of the hosts of a session (clocks.jsonl)",
    source="docs/clock.md; clock_gettime(2), adjtimex(2)",
    sniff=sniff,
    parse=parse,
)
