"""The faults of clocks, one function for each rule: in one log, between two clocks, in their relation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.clock.model.estimate import MOST_SKEW_PPM
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import count, duration, time_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.capture import CaptureTables
    from multitracer.clock.model.relation import Relation
    from multitracer.tables import Array, Times

# What the clock doctor hands over, and what it looks at.


@dataclass(frozen=True, slots=True)
class Stamps:
    """The times in one log, in the order of its records, with the name of the log."""

    name: str
    """Name of the file or host, for users."""
    time_ns: Times
    capture: CaptureTables | None = None
    """The capture that the times come from, if any: its directions and ACKs are additional evidence."""

    @classmethod
    def of_capture(cls, name: str, capture: CaptureTables) -> Stamps:
        """Return the times of a capture's TCP segments."""
        return cls(name, capture.segments["time_ns"], capture)

    @property
    def known_ns(self) -> Array:
        """The known times: int64, ns since 1970, shape (n_known,), in the order of the records."""
        known: Array = self.time_ns[self.time_ns != NOT_A_TIME]
        return known


@dataclass(frozen=True, slots=True)
class Complaint:
    """A fault of a clock, with the proposed repair; the original times are not changed."""

    code: str
    """Stable code: tai, gps, gps-epoch, time-zone, day-month, year, no-overlap, no-service, rate, effect-first;
    whole-seconds, coarse-stamps, steps-back, saw-tooth, direction-clocks."""
    source: str
    """Name of the log with the wrong times."""
    sentence: str
    """What is wrong and how it is known."""
    repair: str
    """Description of the proposed repair."""
    shift_ns: int | None = None
    """The shift to add to each time that `concerns` selects, ns; None if the repair is not a shift."""
    proposed_ns: Times | None = None
    """The times after a repair that is not a shift, in the order of the records."""
    concerns: Callable[[Array], Array] | None = None
    """A function from all times, in the order of the records, to a mask of the wrong ones; None: all are wrong."""

    def repaired(self, time_ns: Array) -> Array:
        """Return the times of the log after the proposed repair, as a new array.

        Parameters
        ----------
        time_ns : ndarray of int64
            All times of the log, in the order of its records.
        """
        if self.proposed_ns is not None:
            return self.proposed_ns.copy()
        right = time_ns == NOT_A_TIME
        if self.concerns is not None:
            right = right | ~self.concerns(time_ns)
        return np.where(right, time_ns, time_ns + np.int64(self.shift_ns or 0))


# Faults that the stamps of one log show by themselves, one rule a function.
#
# Each rule returns a Complaint or None. They go from the particular to the general: what one explains, the
# next ones leave alone (`examination.examine`).


_FEW = 20
"""Minimum number of times that a rule needs."""
_SMALLEST_STEP_NS = 10 * NS_PER_MS
"""Minimum backward step, ns: capture queues reorder packets by less than 10 ms; a clock that is set moves by more."""
_SMALLEST_APART_NS = NS_PER_MS
_TEETH = 5
"""Number of repetitions that cannot be chance; also the minimum number of packets of a direction."""
_MOST_FALLS = 1_000  # bounds the time on a log in disorder
_FEWEST_SECONDS, _SHARING = 3, 2
"""Minimum number of distinct seconds, and of records per second: one record a second may have no fraction by design."""
_CUT_NS = (10 * NS_PER_MS, 100 * NS_PER_MS)
"""Resolutions of two decimals and of one, ns; other ones below a second may be slots of a link in virtual time."""
_COARSEST_NS = 10 * NS_PER_S
"""Maximum resolution of coarse times, ns: a log may itself write every few seconds."""
_BOUNDED = 0.9  # of the lag that one side shows, the other has to confirm so much. Not measured
_OFTEN = 20  # one ACK in 20 before its data: fewer may be mistaken pairs. Not measured
_TYPICAL_TOP = 95  # percentile of the heights: the highest may be a step of another kind. Not measured
_DENSE = 0.02  # of the records: a fraction in the wrong unit falls back once a second or more. Not measured
_UNLIKE = 4  # a tooth so many times the median one is none of a saw. Not measured
_FIFTHS, _MOST_FIFTHS = 5, 4  # a log in equal parts; falls in four of them are no single event
_EVEN = 0.3  # standard deviation over mean, of distances and heights of teeth. Not measured
_AFTER = 5  # records after a fall: a straggler or two are overtaken, a clock that was set stays behind


def complete_seconds(stamps: Stamps) -> Complaint | None:
    """Return a complaint if a log has only whole seconds and several records share a second; else None."""
    known = stamps.known_ns
    if len(known) < _FEW or np.any(known % NS_PER_S):
        return None
    seconds = len(np.unique(known))
    if seconds < _FEWEST_SECONDS or len(known) < _SHARING * seconds:
        return None
    return Complaint(
        "whole-seconds",
        stamps.name,
        f"{len(known):,} records share {seconds:,} stamps, all whole seconds: the log cut the fraction off",
        "spread the records of a second evenly over it; each is then known to 0.5 s",
        proposed_ns=_spread(stamps.time_ns),
    )


def coarse_stamps(stamps: Stamps) -> Complaint | None:
    """Return a complaint if a log has another coarse resolution (a minute, 0.1 s); else None.

    Several records must share a time.
    """
    known = stamps.known_ns
    if len(known) < _FEW:
        return None
    tick, distinct = int(np.gcd.reduce(np.diff(known))), len(np.unique(known))
    is_coarse = tick in _CUT_NS or tick >= _COARSEST_NS
    if not is_coarse or distinct < _FEWEST_SECONDS or len(known) < _SHARING * distinct:
        return None
    step = duration(tick)
    return Complaint(
        "coarse-stamps",
        stamps.name,
        f"{len(known):,} records share {distinct:,} stamps, all in steps of {step}: the log cut the rest off",
        f"spread the records of a step evenly over it; each is then known to {duration(tick // 2)}",
        proposed_ns=_spread(stamps.time_ns, tick),
    )


def _spread(time_ns: Array, step_ns: int = NS_PER_S) -> Array:
    """Return coarse times with the records of one step (`step_ns`) distributed evenly over it."""
    order = np.argsort(time_ns, kind="stable")
    _, begin, count = np.unique(time_ns[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(begin, count)
    spread = time_ns.copy()
    spread[order] += (2 * rank + 1) * step_ns // (2 * np.repeat(count, count))
    return np.where(time_ns == NOT_A_TIME, time_ns, spread)


def direction_clocks(stamps: Stamps) -> Complaint | None:
    """Return a complaint if the two directions of a capture were stamped by two different clocks; else None.

    This occurs if each direction of a tap was captured by its own network card.
    """
    if stamps.capture is None:
        return None
    rows = _largest_flow(stamps.capture.segments["flow"], stamps.time_ns)
    if rows is None:
        return None
    reverse = _other_side(stamps.capture, int(stamps.capture.segments["flow"][rows[0]] >> 1))
    back = reverse[rows]
    clocks = _by_order(stamps.time_ns[rows], back) or _by_acknowledgments(stamps, rows, back)
    if clocks is None:
        return None
    ahead_ns, how = clocks
    which = _address(stamps.capture, int(stamps.capture.segments["flow"][rows[0]] >> 1), b=ahead_ns > 0)
    apart = f"{abs(ahead_ns) / NS_PER_MS:,.1f} ms"
    return Complaint(
        "direction-clocks",
        stamps.name,
        f"the two directions were stamped by two clocks, about {apart} apart: {how}",
        f"take {apart} off the stamps of the packets from the side of {which}",
        proposed_ns=_without_headline(stamps.time_ns, reverse, ahead_ns),
    )


def _without_headline(time_ns: Array, reverse: Array, ahead_ns: int) -> Array:
    early = (reverse if ahead_ns > 0 else ~reverse) & (time_ns != NOT_A_TIME)
    return np.where(early, time_ns - abs(ahead_ns), time_ns)


def _largest_flow(flow: Array, time_ns: Array) -> Array | None:
    """Return the rows of the pair of endpoints with most packets; None if one endpoint sent nothing."""
    if len(flow) < _FEW:
        return None
    rows = np.flatnonzero((flow >> 1 == np.argmax(np.bincount(flow >> 1))) & (time_ns != NOT_A_TIME))
    sent = np.bincount(flow[rows] & 1, minlength=2)
    return rows if sent.min() >= _TEETH else None


def _address(capture: CaptureTables, pair: int, *, b: bool) -> str:
    raw = capture.flows["address_b" if b else "address_a"][pair].tobytes()
    return str(ip_address(raw[:4] if capture.flows["ip_version"][pair] == 4 else raw))


def _other_side(capture: CaptureTables, pair: int) -> Array:
    """Return which segments come from the host of endpoint b of a pair, in all of its connections."""
    flows, flow = capture.flows, capture.segments["flow"]
    a, b = (flows[name] == flows[name][pair] for name in ("address_a", "address_b"))
    turned = (flows["address_a"] == flows["address_b"][pair]) | (flows["address_b"] == flows["address_a"][pair])
    turned &= ~(a | b)
    return np.asarray((flow & 1).astype(bool) ^ turned[flow >> 1])


def _by_order(time_ns: Array, back: Array) -> tuple[int, str] | None:
    """Return by how many ns the clock of the reverse direction is ahead, and a sentence with the evidence.

    It is None if neither clock is ahead. When the captured direction changes to the one with the later clock,
    time jumps forward by at least the difference. At the opposite change, it goes backwards by the difference
    minus the gap between the packets. Both together bound the difference.
    """
    gap = np.diff(time_ns)
    turns = {True: gap[~back[:-1] & back[1:]], False: gap[back[:-1] & ~back[1:]]}
    if min(map(len, turns.values())) < _TEETH or np.any(gap[back[:-1] == back[1:]] < -_SMALLEST_APART_NS):
        return None
    for to_reverse, falls in turns.items():
        rises = turns[not to_reverse]
        lag = int(-falls.min())
        fell = int(np.count_nonzero(falls < 0))
        if fell >= _TEETH and lag >= _SMALLEST_APART_NS and rises.min() > _BOUNDED * lag:
            sentence = f"time goes back at {fell:,} of {len(falls):,} turns from one direction to the other"
            return (-lag if to_reverse else lag), sentence
    return None


def _by_acknowledgments(stamps: Stamps, rows: Array, back: Array) -> tuple[int, str] | None:
    """Return the difference of the clocks and the evidence as `_by_order` does, but from ACKs.

    ACKs that are captured before the data they acknowledge show the difference. Both directions are compared.
    """
    answered = [_answer_times(stamps, rows[back == way], rows[back != way]) for way in (False, True)]
    if min(map(len, answered)) < 1:
        return None
    for way, times in enumerate(answered):
        early, other = int(-times.min()), int(answered[1 - way].min())
        often = np.count_nonzero(times < 0) > len(times) // _OFTEN
        if often and early >= _SMALLEST_STEP_NS and other > _BOUNDED * early:
            sentence = f"{np.count_nonzero(times < 0):,} of {len(times):,} ACKs are stamped before their data"
            lag = (early + min(other, 2 * early)) // 2
            return (lag if way else -lag), sentence
    return None


def _answer_times(stamps: Stamps, data: Array, acks: Array) -> Array:
    """Return the time in ns from each segment that was sent once to the first ACK of its last byte."""
    assert stamps.capture is not None
    table = stamps.capture.segments
    units = table["payload_bytes"][data].astype(np.int64)
    units += np.count_nonzero([table["flags"][data] & flag for flag in (Flag.SYN, Flag.FIN)], axis=0)
    data, units = data[units > 0], units[units > 0]
    end, first, copies = np.unique(
        (table["seq"][data].astype(np.int64) + units) % (1 << 32), return_index=True, return_counts=True
    )
    acks = acks[(table["flags"][acks] & Flag.ACK) != 0]
    number, answer = np.unique(table["ack"][acks].astype(np.int64), return_index=True)
    _, at, then = np.intersect1d(end[copies == 1], number, assume_unique=True, return_indices=True)
    sent = stamps.time_ns[data[first[copies == 1][at]]]
    return np.asarray(stamps.time_ns[acks[answer[then]]] - sent)


def saw_tooth(stamps: Stamps) -> Complaint | None:
    """Return a complaint if times repeatedly run too fast and then go backwards; else None.

    The cause is a fraction of a second in the wrong unit, or a clock that is corrected again and again.
    """
    known = stamps.known_ns
    falls = np.flatnonzero(np.diff(known) < -_SMALLEST_STEP_NS)
    if len(known) < _FEW or len(falls) < _TEETH or not _all_along(falls, len(known)):
        return None
    height = -np.diff(known)[falls]
    tall = int(np.percentile(height, _TYPICAL_TOP))
    dense = len(falls) >= _DENSE * len(known)
    if tall > _UNLIKE * np.median(height) or not (dense or _regular(known[falls], height)):
        return None
    much = f"{tall / NS_PER_MS:,.1f} ms"
    return Complaint(
        "saw-tooth",
        stamps.name,
        f"time runs ahead and falls back {len(falls):,} times all along the log, by up to {much}: a fraction "
        "of a second in the wrong unit, or a clock that is set again and again",
        f"take the lower envelope; each stamp is then known to {much}",
        proposed_ns=_lower_envelope(stamps.time_ns),
    )


def _all_along(falls: Array, length: int) -> bool:
    """Return whether times go backwards all along the log, not only in one part of it.

    The log is divided into five equal parts; most of the parts must have a row in `falls`.
    """
    return len(np.unique(_FIFTHS * falls // length)) >= _MOST_FIFTHS


def _regular(at_ns: Array, height: Array) -> bool:
    """Return whether backward steps of a clock are regular: equally far apart, and of equal size.

    `at_ns` has the times of the steps, `height` their sizes. "Equal" allows a relative standard deviation up
    to `_EVEN`.
    """
    between = np.diff(np.sort(at_ns)).astype(np.float64)
    return bool(np.std(between) < _EVEN * np.mean(between) and np.std(height) < _EVEN * np.mean(height))


def _lower_envelope(time_ns: Array) -> Array:
    """Return for each record the minimum of its own time and all later times; it never decreases."""
    far = np.where(time_ns == NOT_A_TIME, np.iinfo(np.int64).max, time_ns)
    minimum = np.minimum.accumulate(far[::-1])[::-1]
    return np.where(time_ns == NOT_A_TIME, time_ns, minimum)


def steps_back(stamps: Stamps) -> Complaint | None:
    """Return a complaint if the clock of a log stepped backwards, so that times occur twice; else None."""
    known_rows = np.flatnonzero(stamps.time_ns != NOT_A_TIME)
    known = stamps.time_ns[known_rows]
    if len(known) < _FEW:
        return None
    falls = np.flatnonzero(np.diff(known) < -_SMALLEST_STEP_NS)[:_MOST_FALLS]
    lasting = falls[np.array([_lasts(known, int(at)) for at in falls], dtype=bool)]
    if not len(lasting):
        return None
    height = -np.diff(known)[lasting]
    where = ", ".join(f"{known_rows[at + 1] + 1:,}" for at in lasting[:5])
    return Complaint(
        "steps-back",
        stamps.name,
        f"the clock was set back {count(len(lasting), 'time')}, by up to {height.max() / NS_PER_S:,.3f} s "
        f"(before record {where}{', …' if len(lasting) > 5 else ''})",
        "add the step to every stamp after it, less the usual distance of two records",
        proposed_ns=_raised(stamps.time_ns, known_rows[lasting + 1], known, lasting),
    )


def _lasts(known: Array, at: int) -> bool:
    """Return whether a backward step at row `at` is permanent.

    It is not if only one or two late records have a time below the highest time before the step.
    """
    behind = np.count_nonzero(known[at + 1 : at + 1 + _AFTER] < known[at])
    return bool(behind >= min(_AFTER, len(known) - at - 1) > 2)


def _raised(time_ns: Array, rows: Array, known: Array, falls: Array) -> Array:
    typical = int(np.median(np.abs(np.diff(known))))
    steps = np.zeros(len(time_ns), dtype=np.int64)
    steps[rows] = typical - np.diff(known)[falls]
    return np.where(time_ns == NOT_A_TIME, time_ns, time_ns + np.cumsum(steps))


OF_LOGS = (coarse_stamps, steps_back)
"""Rules for logs that are not captures: with one reading a second, whole seconds are normal, and there are no
directions."""
RULES_ALONE = (complete_seconds, coarse_stamps, direction_clocks, saw_tooth, steps_back)
"""Rules for one log, in this order; the first rule that explains a log is used, except for whole seconds."""


# Faults that show as the difference of two clocks: time scales, zones and calendars, one rule a function.
#
# Each rule is given the difference (a log's clock less the reference's), by how much that may be off, and a
# stamp of the reference; it returns the part of the difference that is a fault, or None. Leap seconds: IERS
# Bulletin C; GPS counts from 1980-01-06 without them.


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
"""The farthest time zone is UTC+14; two logs may differ by 26 h, but one of a pair is nearly always in UTC."""
_FINE_S = 0.5
"""Maximum distance from a time scale's constant, s: clocks that are set by hand can have any difference."""
_COARSE_S = 2.0  # clocks set by hand or by a network's zone message are right to some seconds
_MOST_COARSE_S = 300.0
"""Maximum uncertainty of a difference that is compared with multiples of 15 minutes, s."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # of POSIX time


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """The difference of two clocks at one time."""

    seconds: float
    """The log's clock minus the reference's, s."""
    error_s: float
    reference_ns: int
    """The time by the reference, ns since 1970."""

    @property
    def at(self) -> datetime | None:
        """The time that the reference clock shows; None if it is not a date of the years 1 to 9999."""
        return calendar(self.reference_ns / NS_PER_S)

    @property
    def says(self) -> datetime | None:
        """The time that the log's clock shows; None if it is not a date of the years 1 to 9999."""
        return calendar(self.reference_ns / NS_PER_S + self.seconds)


@dataclass(frozen=True, slots=True)
class Fault:
    """A known fault of a clock, and how much of the difference of two clocks it explains."""

    code: str
    seconds: float
    """To be subtracted from the times of the log that is ahead, s."""
    says: str
    """What the clock that is ahead shows; {other} is replaced by what the other one shows."""


def calendar(seconds: float) -> datetime | None:
    """Return the time `seconds` after 1970; None if it is outside of the calendar."""
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _leap_seconds(at: datetime | None) -> Iterator[int]:
    """Yield TAI - UTC at the given date and today; the date itself may be wrong."""
    today = _TAI_LESS_UTC_S[-1][1]
    then = [leap for begin, leap in _TAI_LESS_UTC_S if at is not None and begin <= at]
    yield from dict.fromkeys((today, *then[-1:]))


def _scale(difference: ClockDifference, seconds: float, within_s: float) -> float | None:
    """Return the constant `seconds` with the sign of the difference, if the difference equals it; else None.

    Values are equal if they differ by at most `within_s`.
    """
    if difference.error_s > within_s or abs(abs(difference.seconds) - seconds) > within_s:
        return None
    return seconds if difference.seconds > 0 else -seconds


def tai(difference: ClockDifference) -> Fault | None:
    """Return the fault if a clock is in atomic time (TAI), 37 s ahead of UTC since 2017; else None."""
    for leap in _leap_seconds(difference.at):
        if (part := _scale(difference, leap, _FINE_S)) is not None:
            return Fault("tai", part, f"counts atomic time (TAI), {leap} s ahead of UTC")
    return None


def gps(difference: ClockDifference) -> Fault | None:
    """Return the fault if a clock is in GPS time, 18 s ahead of UTC since 2017; else None."""
    for leap in _leap_seconds(difference.at):
        seconds = leap - _TAI_LESS_GPS_S
        if (part := _scale(difference, seconds, _FINE_S)) is not None:
            return Fault("gps", part, f"counts GPS time, which has no leap seconds, {seconds} s ahead of UTC")
    return None


def gps_epoch(difference: ClockDifference) -> Fault | None:
    """Return the fault if a clock counts from the GPS epoch (1980-01-06) instead of 1970; else None."""
    for leap in (0, *(leap - _TAI_LESS_GPS_S for leap in _leap_seconds(difference.at))):
        part = _scale(difference, GPS_EPOCH_S - leap, max(_COARSE_S, difference.error_s))
        if part is not None and difference.error_s <= _MOST_COARSE_S:
            more = f" and has no leap seconds ({leap} s)" if leap else ""
            return Fault("gps-epoch", part, f"is right, and the other counts from 1980-01-06 (GPS){more}")
    return None


def time_zone(difference: ClockDifference) -> Fault | None:
    """Return the fault if a clock shows local time; else None.

    The difference must be a multiple of 15 minutes, up to 14 hours.
    """
    part = round(difference.seconds / _QUARTER_S) * _QUARTER_S
    within = max(_COARSE_S, difference.error_s)
    if not 0 < abs(part) <= _WIDEST_ZONE_S or abs(difference.seconds - part) > within:
        return None
    if difference.error_s > _MOST_COARSE_S:
        return None
    hours, minutes = divmod(abs(part) // 60, 60)
    return Fault("time-zone", part, f"shows the local time of a zone {hours}:{minutes:02d} h farther east")


def day_month(difference: ClockDifference) -> Fault | None:
    """Return the fault if day and month are exchanged, 11 December for 12 November; else None."""
    at, says = difference.at, difference.says
    if at is None or says is None or at.day > 12 or (at.day, at.month) == (at.month, at.day):
        return None
    swapped = at.replace(month=at.day, day=at.month)
    return _if_reached("day-month", difference, swapped, "has day and month of its dates exchanged")


def year(difference: ClockDifference) -> Fault | None:
    """Return the fault if the dates have another year, as in a format without the year; else None."""
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


def _if_reached(code: str, difference: ClockDifference, moved: datetime, says: str) -> Fault | None:
    """Return a fault if the reference's time, changed by it (`moved`), equals the log's time; else None."""
    at = difference.at
    assert at is not None
    part = (moved - at).total_seconds()
    within = max(_COARSE_S, difference.error_s)
    if abs(part) < 86_400 or within > _MOST_COARSE_S or abs(difference.seconds - part) > within:
        return None
    return Fault(code, part, says)


Rule = Callable[[ClockDifference], Fault | None]
RULES_BETWEEN: tuple[Rule, ...] = (tai, gps, gps_epoch, time_zone, day_month, year)
OF_STEPS: tuple[Rule, ...] = (tai, gps, time_zone)
"""Faults that may begin or end while a clock runs."""


# Faults of the line that relates two clocks: a rate that no quartz has, packets that no line explains.


EFFECT_FIRST = "effect-first"
"""The code of a fault that others may cause: it is reported only if no other fault explains it."""
_NO_QUARTZ_PPM = 1.1 * MOST_SKEW_PPM
"""Rate from which no quartz is the cause: the limit of NTP plus a tenth, since two estimates of the same clocks differ
a little."""
_PPM_OF_PERCENT = 10_000.0  # by definition: a hundredth in millionths


def rate(relation: Relation, source: str, reference: str) -> Complaint | None:
    """Return a complaint if a clock runs faster or slower than any quartz; else None."""
    estimate = max(relation.estimates, key=lambda e: abs(e.skew_ppm) - e.skew_uncertainty_ppm)
    skew, error = estimate.skew_ppm, estimate.skew_uncertainty_ppm
    if abs(skew) - error < _NO_QUARTZ_PPM:
        return None
    percent, wide = abs(skew) / _PPM_OF_PERCENT, error / _PPM_OF_PERCENT
    than = f"{'faster' if skew > 0 else 'slower'} than {reference}"
    return Complaint(
        "rate",
        source,
        f"{source} runs {percent:,.3f} ± {wide:,.3f} % {than}, "
        f"and quartzes differ by {MOST_SKEW_PPM / _PPM_OF_PERCENT:g} % at most: one of the two is of a "
        "simulation or a virtual machine, or its stamps are in a wrong unit",
        "none is needed between the two, which are mapped at this rate; find out which is wrong, since every "
        "duration and rate that it shows alone is off by as much",
        shift_ns=0,
    )


def effect_first(relation: Relation, source: str, reference: str) -> Complaint | None:
    """Return a complaint if packets arrive before they are sent, for any offset and skew; else None."""
    worst = max(relation.estimates, key=lambda e: e.crossed_ns)
    if not worst.crossed_ns:
        return None
    bound_ns = float(worst.bound_ns((worst.first_ns + worst.last_ns) // 2))
    return Complaint(
        EFFECT_FIRST,
        source,
        f"packets arrive up to {time_error(worst.crossed_ns)} before they are sent, whatever offset and rate "
        f"relate {source} and {reference}: one of the two clocks stood still, jumped unseen, or has coarse "
        "stamps",
        f"none; the two are known against each other to ± {time_error(bound_ns)} only",
        shift_ns=0,
    )
