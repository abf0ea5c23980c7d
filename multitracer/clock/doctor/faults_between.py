"""Faults that show as the difference of two clocks: time scales, zones and calendars, one rule a function.

Each rule is given the difference (a log's clock less the reference's), by how much that may be off, and a
stamp of the reference; it returns the part of the difference that is a fault, or None. Leap seconds: IERS
Bulletin C; GPS counts from 1980-01-06 without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

GPS_EPOCH_S = 315_964_800
"""1980-01-06T00:00:00Z in seconds since 1970."""
_TAI_LESS_GPS_S = 19  # IS-GPS-200, 3.3.4: GPS time was UTC on 1980-01-06, when TAI was 19 s ahead
_TAI_LESS_UTC_S = (
    (datetime(1999, 1, 1, tzinfo=UTC), 32),
    (datetime(2006, 1, 1, tzinfo=UTC), 33),
    (datetime(2009, 1, 1, tzinfo=UTC), 34),
    (datetime(2012, 7, 1, tzinfo=UTC), 35),
    (datetime(2015, 7, 1, tzinfo=UTC), 36),
    (datetime(2017, 1, 1, tzinfo=UTC), 37),
)
"""IERS Bulletin C: no leap second since 2017."""
_QUARTER_S = 900  # zones lie on quarters of an hour (UTC+05:45)
_WIDEST_ZONE_S = 14 * 3600
"""UTC+14 is the farthest zone; two logs may differ by 26 h, but one of a pair is nearly always in UTC."""
_FINE_S = 0.5
"""A scale's constant must be met this closely: two clocks that are set by hand differ by anything."""
_COARSE_S = 2.0  # clocks set by hand or by a network's zone message are right to some seconds
_MOST_COARSE_S = 300.0
"""A difference that is known no better says nothing of quarters of an hour."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # of POSIX time


@dataclass(frozen=True, slots=True)
class Difference:
    """How two clocks differ."""

    seconds: float
    """The log's clock less the reference's."""
    error_s: float
    reference_ns: int
    """A stamp of the reference at that time."""

    @property
    def at(self) -> datetime | None:
        """The time by the reference; None where no calendar reaches."""
        return calendar(self.reference_ns / NS_PER_S)

    @property
    def says(self) -> datetime | None:
        """The time by the log's clock."""
        return calendar(self.reference_ns / NS_PER_S + self.seconds)


@dataclass(frozen=True, slots=True)
class Fault:
    """The part of a difference that a fault explains."""

    code: str
    seconds: float
    """To be taken off the stamps of the log that is ahead."""
    says: str
    """What the clock that is ahead does; {other} what the one behind does."""


def calendar(seconds: float) -> datetime | None:
    """Return the time so many seconds after 1970; None where no calendar reaches."""
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _leap_seconds(at: datetime | None) -> Iterator[int]:
    """Yield TAI - UTC at a date and today's, which a wrong date may hide."""
    today = _TAI_LESS_UTC_S[-1][1]
    then = [leap for begin, leap in _TAI_LESS_UTC_S if at is not None and begin <= at]
    yield from dict.fromkeys((today, *then[-1:]))


def _scale(difference: Difference, seconds: float, within_s: float) -> float | None:
    """Return the constant with the difference's sign, if the difference is that constant."""
    if difference.error_s > within_s or abs(abs(difference.seconds) - seconds) > within_s:
        return None
    return seconds if difference.seconds > 0 else -seconds


def tai(difference: Difference) -> Fault | None:
    """One clock counts atomic time: 37 s ahead of UTC since 2017."""
    for leap in _leap_seconds(difference.at):
        if (part := _scale(difference, leap, _FINE_S)) is not None:
            return Fault("tai", part, f"counts atomic time (TAI), {leap} s ahead of UTC")
    return None


def gps(difference: Difference) -> Fault | None:
    """One clock counts GPS time: 18 s ahead of UTC since 2017."""
    for leap in _leap_seconds(difference.at):
        seconds = leap - _TAI_LESS_GPS_S
        if (part := _scale(difference, seconds, _FINE_S)) is not None:
            return Fault("gps", part, f"counts GPS time, which has no leap seconds, {seconds} s ahead of UTC")
    return None


def gps_epoch(difference: Difference) -> Fault | None:
    """One clock counts from the GPS epoch, 1980-01-06, and was read as if it counted from 1970."""
    for leap in (0, *(leap - _TAI_LESS_GPS_S for leap in _leap_seconds(difference.at))):
        part = _scale(difference, GPS_EPOCH_S - leap, max(_COARSE_S, difference.error_s))
        if part is not None and difference.error_s <= _MOST_COARSE_S:
            more = f" and has no leap seconds ({leap} s)" if leap else ""
            return Fault("gps-epoch", part, f"is right, and the other counts from 1980-01-06 (GPS){more}")
    return None


def time_zone(difference: Difference) -> Fault | None:
    """One clock shows local time: the difference is a multiple of 15 minutes, up to 14 hours."""
    part = round(difference.seconds / _QUARTER_S) * _QUARTER_S
    within = max(_COARSE_S, difference.error_s)
    if not 0 < abs(part) <= _WIDEST_ZONE_S or abs(difference.seconds - part) > within:
        return None
    if difference.error_s > _MOST_COARSE_S:
        return None
    hours, minutes = divmod(abs(part) // 60, 60)
    return Fault("time-zone", part, f"shows the local time of a zone {hours}:{minutes:02d} h farther east")


def day_month(difference: Difference) -> Fault | None:
    """One log's dates were read with day and month exchanged: 11 December for 12 November."""
    at, says = difference.at, difference.says
    if at is None or says is None or at.day > 12 or (at.day, at.month) == (at.month, at.day):
        return None
    swapped = at.replace(month=at.day, day=at.month)
    return _if_reached("day-month", difference, swapped, "has day and month of its dates exchanged")


def year(difference: Difference) -> Fault | None:
    """One log's dates have another year, as in a format that omits the year."""
    at, says = difference.at, difference.says
    if at is None or says is None:
        return None
    for number in (says.year - 1, says.year, says.year + 1):
        try:
            moved = at.replace(year=number)
        except ValueError:  # 29 February, or beyond the calendar
            continue
        if number != at.year and (fault := _if_reached("year", difference, moved, _years(number - at.year))):
            return fault
    return None


def _years(more: int) -> str:
    years = f"{abs(more)} year{'s' if abs(more) > 1 else ''}"
    return f"has another year in its dates, {years} {'later' if more > 0 else 'earlier'}"


def _if_reached(code: str, difference: Difference, moved: datetime, says: str) -> Fault | None:
    """Return the fault if the log shows what the reference's time becomes by it."""
    at = difference.at
    assert at is not None
    part = (moved - at).total_seconds()
    within = max(_COARSE_S, difference.error_s)
    if abs(part) < 86_400 or within > _MOST_COARSE_S or abs(difference.seconds - part) > within:
        return None
    return Fault(code, part, says)


Rule = Callable[[Difference], Fault | None]
RULES: tuple[Rule, ...] = (tai, gps, gps_epoch, time_zone, day_month, year)
OF_STEPS: tuple[Rule, ...] = (tai, gps, time_zone)
"""Those that a clock may begin or end to have while it runs."""
