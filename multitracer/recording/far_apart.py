"""Says where the times of a log are days or years away from those of the packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from multitracer.words import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from multitracer.captured import SourceFile
    from multitracer.tables import Table

_DAY_NS = 86_400 * NS_PER_S
_YEAR_NS = round(365.25 * _DAY_NS)
_MIN_APART_NS = _DAY_NS
"""Minimum distance that is said here: less may be a time zone, which `align` and the clock check examine."""
_ROLLOVER_NS = 1024 * 7 * _DAY_NS
"""The week number of GPS has 10 bits (IS-GPS-200, 20.3.3.3.1.1)."""
_NOT_SET_NS = round(10.1 * _YEAR_NS)
"""End of January 1980: clocks that nobody set begin in 1970, or on 1980-01-01 or -06."""


def far_apart(tables: Mapping[str, Table], files: Iterable[SourceFile]) -> str:
    """Return a sentence if all times of a log are more than a day from all packets; else an empty text.

    Parameters
    ----------
    tables : mapping of str to Table
        The tables of the log.
    files : iterable of SourceFile
        The files of all captures.
    """
    packets = [time for file in files for time in (file.first_ns, file.last_ns) if time is not None]
    stamps = [table["time_ns"] for table in tables.values() if "time_ns" in table.columns]
    known = [times[times != NOT_A_TIME] for times in stamps]
    ends = [int(end) for times in known if len(times) for end in (times.min(), times.max())]
    if not packets or not ends:
        return ""
    first_ns, last_ns = min(packets), max(packets)
    before_ns, after_ns = first_ns - max(ends), min(ends) - last_ns
    apart_ns = max(before_ns, after_ns)
    if apart_ns < _MIN_APART_NS:
        return ""
    side = "before" if before_ns > after_ns else "after"
    undated = any(table.provenance.get("date") == "unknown" for table in tables.values())
    return (
        f"its times ({moment(min(ends))}) are {_long(apart_ns)} {side} those of the packets "
        f"({moment(first_ns)}), so nothing of it is at the time of a packet{_why(min(ends), first_ns, undated=undated)}"
    )


def _why(log_ns: int, packets_ns: int, *, undated: bool) -> str:
    if undated:
        return f"; its lines name no date: give that of the first line, such as --date {moment(packets_ns)[:10]}"
    weeks = round((packets_ns - log_ns) / _ROLLOVER_NS)
    if weeks and abs(packets_ns - log_ns - weeks * _ROLLOVER_NS) < 7 * _DAY_NS:
        return "; 1,024 weeks are a rollover of the week number of GPS: correct the dates of the log"
    if log_ns < _NOT_SET_NS:
        return "; its clock was not set: record it again, with a clock that is set"
    if packets_ns < _NOT_SET_NS:
        return "; the clock of the capture was not set"
    return "; check whether it belongs to this recording"


def _long(apart_ns: int) -> str:
    if apart_ns >= _YEAR_NS:
        return f"{apart_ns / _YEAR_NS:.1f} years"
    return f"{apart_ns / _DAY_NS:.1f} days"
