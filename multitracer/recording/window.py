"""An interval of time that the user chose: from text to bounds in nanoseconds.

Seconds count from the first packet of all captures, or from the first reading where there is no capture.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import InputError, WindowError
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.capture import CaptureTables

LAST_NS = 2**63 - 1
"""The largest time of a capture in ns since 1970, in the year 2262."""

EMPTY_WINDOW = "no TCP segment lies between --from and --to; all numbers are of an empty capture"
"""The warning for a window that removes all segments of a capture."""

Bounds = tuple[int | None, int | None]
"""Begin and end in ns since 1970, the end excluded; None leaves a side open."""


class WindowEdge(NamedTuple):
    """A point in time as the user gave it."""

    ns: int
    relative: bool
    """Counted from the first packet of the complete recording, not from 1970."""

    def absolute_ns(self, start_ns: int, *, speed: float = 1) -> int:
        """Return ns since 1970; `start_ns` is the first packet's time, `speed` that of the link."""
        if not self.relative:
            return self.ns
        since = self.ns if speed == 1 else round(self.ns / speed)
        return max(-LAST_NS, min(start_ns + since, LAST_NS))


class Window(NamedTuple):
    """A time interval in link seconds; a side that is None is open."""

    begin: WindowEdge | None = None
    end: WindowEdge | None = None

    @property
    def is_relative(self) -> bool:
        """Whether the begin or the end is given in seconds since the first packet."""
        return any(moment is not None and moment.relative for moment in (self.begin, self.end))

    def bounds_ns(self, captures: Iterable[CaptureTables], *, speed: float = 1) -> Bounds:
        """Return start and end in recorded time, ns; seconds count from the first packet of all captures.

        Raises
        ------
        WindowError
            If the end is not after the start.
        """
        return self.bounds_from(_start_ns(captures), speed)

    def axis_bounds_ns(self, captures: Iterable[CaptureTables], *, speed: float) -> Bounds:
        """Return start and end in link time, ns, as on the time axis of figures."""
        start_ns = _start_ns(captures)
        begin, end = self.bounds_from(start_ns, speed)
        return _stretched(begin, start_ns, speed), _stretched(end, start_ns, speed)

    def bounds_from(self, start_ns: int, speed: float = 1) -> Bounds:
        """Return start and end in recorded time, ns; seconds count from `start_ns`.

        Errors are those of `bounds_ns`.
        """
        begin_ns, end_ns = (
            moment.absolute_ns(start_ns, speed=speed) if moment else None for moment in (self.begin, self.end)
        )
        if begin_ns is not None and end_ns is not None and begin_ns >= end_ns:
            raise WindowError("the end (--to) must be after the begin (--from)")
        return begin_ns, end_ns


EVERYTHING = Window()


def within_both(one: Bounds, other: Bounds) -> Bounds:
    """Return the intersection of two pairs of bounds."""
    begins, ends = ([ns for ns in side if ns is not None] for side in zip(one, other, strict=True))
    return max(begins, default=None), min(ends, default=None)


_CLOCK = (
    r"(?P<sign>-?)(?:(?P<hours>[0-9]{1,7}):(?=[0-5]?[0-9]:))?"
    r"(?P<minutes>[0-9]{1,9}):(?P<seconds>[0-5][0-9](?:\.[0-9]+)?)"
)
"""Minutes and seconds, or hours, minutes and seconds, as reports and figures write times."""
_FRACTION = r"(?P<whole>.*:\d\d)[.,](?P<digits>\d+)(?P<zone>.*)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_of(text: str) -> WindowEdge:
    """Return the point in time of a text: seconds since the first packet, also as 2:15 or 1:02:15, or an ISO 8601 time.

    Raises
    ------
    InputError
        If the text is neither.
    """
    try:
        clock = re.fullmatch(_CLOCK, text)
        seconds = _clock_s(clock) if clock else float(text)
    except ValueError:
        moment = WindowEdge(_iso_ns(text), relative=False)
    else:
        if not math.isfinite(seconds):
            raise InputError(f"the time must be a finite number of seconds, but is {text}")
        moment = WindowEdge(round(min(abs(seconds), LAST_NS) * math.copysign(NS_PER_S, seconds)), relative=True)
    if abs(moment.ns) > LAST_NS:
        raise InputError(
            f"the time {text} is out of range; times must be within 292 years of the start of the recording"
        )
    return moment


def _clock_s(clock: re.Match[str]) -> float:
    seconds = 3600 * int(clock["hours"] or 0) + 60 * int(clock["minutes"]) + float(clock["seconds"])
    return -seconds if clock["sign"] else seconds


def _iso_ns(text: str) -> int:
    """Return an ISO 8601 time in ns since 1970; without a time zone it is UTC."""
    match = re.fullmatch(_FRACTION, text)
    digits = match["digits"] if match else ""
    try:
        time = datetime.fromisoformat(match["whole"] + match["zone"] if match else text)
    except ValueError as error:
        example = "2026-11-20T10:15:00.5"
        raise InputError(f"{text!r} must be a number of seconds, or a time such as 2:15 or {example}") from error
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    microseconds = (time - _EPOCH) // timedelta(microseconds=1)
    return microseconds * NS_PER_US + int(digits[:9].ljust(9, "0"))


def _start_ns(captures: Iterable[CaptureTables]) -> int:
    starts = (capture.first_ns for capture in captures)
    return min((ns for ns in starts if ns is not None), default=0)


def _stretched(ns: int | None, start_ns: int, speed: float) -> int | None:
    return ns if ns is None or speed == 1 else start_ns + round((ns - start_ns) * speed)
