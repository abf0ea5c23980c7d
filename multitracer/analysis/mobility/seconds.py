"""Data of each second of a drive: rate, radio, limit, cell changes.

A second is the interval at which phones and modems log. A value that was not read is NaN, and a reading is
valid only for some seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.errors import InputError
from multitracer.schemas.radio import OUT_OF_SERVICE, SEARCHES
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.cells import CellVisits
    from multitracer.analysis.mobility.route import Route
    from multitracer.analysis.mobility.series import Steps
    from multitracer.analysis.mobility.serving import Serving
    from multitracer.tables import Array, Mask, Table, Times

HOLD_S = 5.0
"""Time for which a reading is valid, s: a car at 100 km/h moves 140 m in it. Not measured."""
_APART_S = 10.0
"""Between readings that are farther apart (s) nothing is known, as in `cells.py`. Such a reading is valid for its own
second, and the last one before the gap for as long as its predecessor."""
LONGEST_S = 1_000_000
"""Maximum time span of a recording, s (eleven days): if the times span more, two clocks differ, and the seconds would
fill the memory."""
_MIN_COVERED = 0.5  # of a second, so that its mean is one of that second; not measured
BEFORE_NS, AFTER_NS = NS_PER_S, 3 * NS_PER_S
"""Time before and after a cell change that belongs to it, ns: before, the link is failing; after, a retransmission
timer (1 s, RFC 6298) that was doubled once."""
CERTAIN_S = 10.0
"""A change whose two readings are farther apart (s) explains no second: its time is not known. Not measured."""
NO_SERVICE = (0, 2)
"""Values of <stat> of TS 27.007, 7.2 without service: not registered and not searching (0), searching (2)."""


class DriveLimits(NamedTuple):
    """Limits of the transfers: intervals of all transfers, which may overlap."""

    begin_ns: Times
    end_ns: Times
    limit: Array
    """The column `limit` of LIMITS."""
    part: Array
    """The column `part` (subtype) of LIMITS."""
    server_sends: Mask
    """Whether the server is the sender (a download)."""


@dataclass(frozen=True)
class DriveSeries:
    """The series and tables of a drive; None for those that were not recorded.

    Attributes
    ----------
    cell_visits : CellVisits
        Which cell served when, with the readings.
    handovers : Table
        JUDGED_HANDOVERS.
    route : Route, optional
    throughput : Steps, optional
        Received rate, bit/s.
    limits : DriveLimits, optional
    sends_ns : ndarray of int64, ns since 1970, shape (n_sends,), optional
        Times at which servers sent new data, sorted; as far as captures show them.
    fine : Steps, optional
        `throughput` in steps of at most 0.1 s, for the edges of segments.
    wanted : Steps, optional
        Above 0 while the user waited for data; used for recordings without limits (state of a test program).
    """

    cell_visits: CellVisits
    handovers: Table
    route: Route | None = None
    throughput: Steps | None = None
    limits: DriveLimits | None = None
    sends_ns: Times | None = None
    fine: Steps | None = None
    wanted: Steps | None = None


class Seconds(NamedTuple):
    """A drive by seconds. All arrays have shape (n_seconds,); float64 arrays have NaN for unknown values."""

    begin_ns: Times
    rate_bps: Array
    is_wanted: Mask
    """Whether the user waited for data, as far as limits or `wanted` show it."""
    limit: Array
    """The limit that held longest, with its subtype (for example "recovery timer"); empty if unknown."""
    rsrp_dbm: Array
    rscp_dbm: Array
    rssi_dbm: Array
    sinr_db: Array
    rsrq_db: Array
    ecio_db: Array
    cell_busy_pct: Array
    generation: Array
    """Generation of the serving technology, 2 to 5; a value in between in a second in which it changes."""
    no_service: Array
    """1 while the modem searches, 0 while it has a cell; NaN if unknown."""
    is_read: Mask
    """Whether the radio was read in this second."""
    is_blank: Mask
    """Whether all readings of this second are without a technology, a cell and a level."""
    is_named: Mask
    """Whether the serving cell is known from a reading in this second or a recent one."""
    is_change: Mask
    """Whether a cell change is near this second."""


def seconds_of(drive: DriveSeries) -> Seconds:
    """Return the data of each second of a drive.

    Raises
    ------
    InputError
        If the times of the drive span more than LONGEST_S.
    """
    begin = _grid(drive)
    end = begin + NS_PER_S
    rate = np.full(len(begin), np.nan) if drive.throughput is None else mean_of(drive.throughput, begin)
    limit, wanted = _limits(drive.limits, begin, end)
    if drive.limits is None and drive.wanted is not None:
        with np.errstate(invalid="ignore"):
            wanted = mean_of(drive.wanted, begin) > 0
    serving = drive.cell_visits.serving
    generation = _held(serving.time_ns, serving.generation, begin)
    blank = _blank(serving)
    level = {name: _of_this(serving, name, blank, (begin, generation)) for name in _LEVELS}
    named = np.where(serving.is_named, 1.0, np.nan)
    return Seconds(
        begin_ns=begin, rate_bps=rate, is_wanted=wanted, limit=limit, **level,
        generation=generation,
        no_service=_held(serving.time_ns, _no_service(serving), begin),
        is_read=_read(serving.time_ns, begin, end),
        is_blank=_read(serving.time_ns[blank], begin, end) & ~_read(serving.time_ns[~blank], begin, end),
        is_named=np.isfinite(_held(serving.time_ns, named, begin)),
        is_change=_changes(drive.handovers, begin, end),
    )  # fmt: skip


def searches(serving: Serving) -> Mask:
    """Return which readings report that the modem searches for a network; bool, shape (n_readings,)."""
    states = (*SEARCHES, OUT_OF_SERVICE)
    return np.asarray(np.isin(serving["registration"], NO_SERVICE) | np.isin(serving["state"], states))


def _no_service(serving: Serving) -> Array:
    """Return 1 for readings without service, 0 for those of a modem with a cell, NaN for all others.

    In a log that never reports the registration in a network, a level or a cell identity does not prove
    service, because a modem also measures cells in which it may not register.
    """
    registration, state = serving["registration"], serving["state"]
    has_cell = (registration >= 0) | (state != "")
    if not (registration >= 0).any():
        has_cell |= serving.known("cell_id")
        for name in ("rsrp_dbm", "rscp_dbm", "rssi_dbm"):
            has_cell |= np.isfinite(serving[name])
    return np.where(searches(serving), 1.0, np.where(has_cell, 0.0, np.nan))


_LEVELS = ("rsrp_dbm", "rscp_dbm", "rssi_dbm", "sinr_db", "rsrq_db", "ecio_db", "cell_busy_pct")


def _grid(drive: DriveSeries) -> Times:
    """Return the begin of each second of the drive, from the first to the last second with any data."""
    sources = [drive.cell_visits.serving.time_ns]
    sources += [each.time_ns for each in (drive.throughput, drive.wanted) if each is not None]
    sources += [drive.limits.begin_ns, drive.limits.end_ns] if drive.limits is not None else []
    times = np.concatenate(sources)
    times = times[times != NOT_A_TIME]
    if not len(times):
        return np.empty(0, dtype=np.int64)
    first, last = int(times.min()) // NS_PER_S, int(times.max()) // NS_PER_S
    if last - first > LONGEST_S:
        days = (last - first) / 86_400
        raise InputError(
            f"drive: the times of this recording span {days:,.0f} days, which is too "
            "long; choose an interval, or check the clocks of the recording"
        )
    return np.arange(first, last + 1, dtype=np.int64) * NS_PER_S


def mean_of(series: Steps, begin: Times) -> Array:
    """Return the mean of a rate in each second; NaN where it covers less than half of the second."""
    mean, covered = series.mean(begin, begin + NS_PER_S)
    return np.asarray(np.where(covered >= _MIN_COVERED, mean, np.nan))


def _held(time: Times, value: Array, begin: Times) -> Array:
    """Return the mean of the readings in each second; without any, the last earlier reading that is valid.

    Readings of NaN are skipped. A reading is valid until the next one, at most for some seconds. Seconds
    without a valid reading have NaN.
    """
    known = np.isfinite(value)
    time, value = time[known], value[known]
    if not len(time):
        return np.full(len(begin), np.nan)
    total = np.append(0.0, np.cumsum(value))
    first, last = np.searchsorted(time, begin), np.searchsorted(time, begin + NS_PER_S)
    mean = (total[last] - total[first]) / np.maximum(last - first, 1)
    before = np.maximum(first - 1, 0)
    is_old = (first == 0) | (begin - time[before] > _holds_ns(time)[before])
    return np.asarray(np.where(last > first, mean, np.where(is_old, np.nan, value[before])))


def _blank(serving: Serving) -> Mask:
    """Return which readings have no technology, no cell and no level, as of a phone without a network.

    Only sources (for example modem commands) that report one of these three in other readings are used.
    """
    nothing = (serving["rat"] == "") & ~serving.known("cell_id") & (serving["physical_cell_id"] < 0)
    nothing &= ~np.any([np.isfinite(serving[name]) for name in _LEVELS], axis=0) & (serving["registration"] < 0)
    return np.asarray(nothing & np.isin(serving["source"], np.unique(serving["source"][~nothing])))


def _of_this(serving: Serving, name: str, blank: Mask, at: tuple[Times, Array]) -> Array:
    """Return column `name` for each second, only from readings of the generation that serves in that second.

    The rule is that of `_held`, but a reading is valid at most until the next blank reading of its source.
    """
    (begin, generation), value = at, serving[name]
    known = np.isfinite(value)
    ends = np.flatnonzero(known | (blank & np.isin(serving["source"], np.unique(serving["source"][known]))))
    time, value = serving.time_ns[ends], value[ends]
    held = np.where(_held(time, (~np.isnan(value)).astype(np.float64), begin) > 0, _held(time, value, begin), np.nan)
    of_reading = serving.generation
    there = np.flatnonzero(np.isfinite(of_reading))
    if not len(there):
        return held
    last = np.maximum(np.searchsorted(there, ends, side="right") - 1, 0)
    of_value = np.where(np.isfinite(value), of_reading[there[last]], np.nan)
    with np.errstate(invalid="ignore"):
        gone = np.abs(_held(time, of_value, begin) - generation) >= _OTHER
    return np.where(gone, np.nan, held)


_OTHER = 0.5
"""Minimum distance between two generations that differ: in the second of a change the value lies in between."""


def _holds_ns(time: Times) -> Array:
    """Return how long each reading is valid, ns: until the next one, at most some seconds."""
    longest, apart = round(HOLD_S * NS_PER_S), round(_APART_S * NS_PER_S)
    gap = np.diff(time)
    typical = np.where(gap <= apart, np.maximum(gap, NS_PER_S), 0)  # of a round of commands one is the next
    lone = np.minimum(np.append(0, typical), longest)
    return np.asarray(np.where(np.append(gap, apart + 1) <= apart, longest, lone))


def _read(time: Times, begin: Times, end: Times) -> Mask:
    return np.searchsorted(time, end, side="left") > np.searchsorted(time, begin, side="left")


def _limits(limits: DriveLimits | None, begin: Times, end: Times) -> tuple[Array, Mask]:
    longest, name = np.zeros(len(begin)), np.full(len(begin), "", dtype="U26")
    wanted = np.zeros(len(begin), dtype=bool)
    if limits is None or not len(begin):
        return name, wanted
    words = np.char.strip(np.char.add(np.char.add(limits.limit, " "), limits.part))
    own = (limits.limit == "application") & ~limits.server_sends
    words = np.where(own, "application own", words).astype("U26")
    for word in np.unique(words).tolist():
        rows = np.flatnonzero(words == word)
        held = overlap_s(limits.begin_ns[rows], limits.end_ns[rows], begin[0], len(begin))
        wanted |= (held > 0) & (word not in _NOTHING_WANTED)
        better = held > longest
        longest[better], name[better] = held[better], word
    wanted &= ~np.isin(name, _NOTHING_WANTED)
    return name, wanted


_NOTHING_WANTED = ("application own", "application peer")
"""Limits during which the user waits for nothing: the phone's program has no data to send, or the server waits for the
phone's next request."""


def overlap_s(begin: Times, end: Times, origin: int, count: int) -> Array:
    """Return how many seconds of the given intervals lie in each second of a grid: float64."""
    edges = origin + np.arange(count + 1) * NS_PER_S
    total = np.zeros(count + 1)
    for times, sign in ((np.sort(begin), 1.0), (np.sort(end), -1.0)):
        at = (times - origin) / NS_PER_S
        passed, done = np.append(0.0, np.cumsum(at)), np.searchsorted(times, edges, side="right")
        total += sign * (done * np.arange(count + 1) - passed[done])
    return np.diff(total)


def _changes(handovers: Table, begin: Times, end: Times) -> Mask:
    low, high = bounds_ns(handovers)
    certain = high - low <= round(CERTAIN_S * NS_PER_S)
    low, high = low[certain], high[certain]
    started = np.searchsorted(np.sort(low) - BEFORE_NS, end, side="left")
    over = np.searchsorted(np.sort(high) + AFTER_NS, begin, side="right")
    return np.asarray(started > over)
