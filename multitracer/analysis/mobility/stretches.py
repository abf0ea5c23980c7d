"""Bad segments of a drive's route (table STRETCHES): where, how bad and why, ranked by cost.

A second is bad if data were wanted and the rate was far below the drive's typical rate. Where no rate can be
judged, it is bad if the radio was bad and the phone's logger saw no good rate. Consecutive bad seconds form a
route segment, which is split where the cause changes.

The begin and end of a segment are then determined more finely than by seconds, and so are those of its cause,
which may begin or end at other times. The rate shows when the transfer suffered. Radio readings, cell changes
or limits of the transfer show when the cause was present: after a gap in coverage TCP still waits for a
timer, and after a server stops, its data are still in the queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.causes import (
    BUSY_PCT,
    FAIR_SINR_DB,
    OWN_LIMITS,
    POOR_ECIO_DB,
    POOR_RSRQ_DB,
    POOR_SINR_DB,
    SERVER_LIMITS,
    WEAK_RSCP_DBM,
    WEAK_RSRP_DBM,
    WEAK_RSSI_DBM,
    RadioMasks,
    SecondCause,
    causes_of,
    evidence_of,
    generations_in,
    inherited,
    median,
    missing_of,
    of_rows,
    radio_of,
)
from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.mobility.seconds import (
    AFTER_NS,
    BEFORE_NS,
    CERTAIN_S,
    HOLD_S,
    DriveLimits,
    DriveSeries,
    Seconds,
    searches,
    seconds_of,
)
from multitracer.schemas.mobility import STRETCHES
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.series import Steps
    from multitracer.tables import Array, Document, Mask, Numbers, Row, Times

POOR_SHARE = 0.2
"""A second is bad below this share of the typical rate: good radio alone varies by a factor of four (capacity of
Shannon at 5 and at 25 dB). Not measured."""
OUTAGE_SHARE = 0.5
"""The same share while the limit is an outage or a retransmission timer: the first and last second of such an idle gap
contain data from before and after it."""
GOOD_BPS = 1e6
"""Rate that a phone's logger sees in a good second, bit/s: more than a phone transfers in the background. Not measured.
"""
MIN_S = 2
"""Minimum length of a bad segment, s: a single second may be the edge of a reading or of a burst. Not measured."""
_MIN_SLOW_S = 10
"""Minimum length of a period of low rate, s: a shorter one may be an idle gap between two requests. Not measured."""
_BRIDGE_S = 2
"""Maximum number of good seconds within a bad route segment. Not measured."""
_PLACES = ("lat_deg", "lon_deg", "begin_m", "end_m", "cause_begin_m", "cause_end_m")
_MIN_CAUSE_S = 3
"""Minimum duration of a cause, s: a shorter one is merged with its neighbour, because levels vary around a threshold.
Not measured."""


Bounds = tuple[int | None, int | None]
"""Begin and end in ns since 1970, the end not included; None leaves a side open."""


class _Part(NamedTuple):
    """Consecutive seconds with one cause: a part of a bad route segment."""

    first: int
    last: int
    cause: SecondCause
    opens: bool
    """Whether it is the first part of its route segment."""
    closes: bool
    """Whether it is the last part of its route segment."""
    is_complete: bool = True
    """Whether no second of it is outside the shown range."""

    @property
    def rows(self) -> Numbers:
        """Its seconds, as indices."""
        return np.arange(self.first, self.last + 1)

    def within(self, rows: slice) -> _Part | None:
        """Return the part, limited to a range of seconds; None if the part has no second in this range."""
        first, last = max(self.first, rows.start), min(self.last, rows.stop - 1)
        opens, closes = self.opens and first == self.first, self.closes and last == self.last
        is_complete = (first, last) == (self.first, self.last)
        return _Part(first, last, self.cause, opens, closes, is_complete) if first <= last else None


class _Judged(NamedTuple):
    """A drive, the data of each of its seconds, and the judgment of each second (bad or not, cause)."""

    drive: DriveSeries
    seconds: Seconds
    radio: RadioMasks
    shown: Numbers
    """Cause of each second from its own data, before inheritance."""
    by_rate: Mask
    typical_bps: float
    shown_ns: Bounds


def stretches(drive: DriveSeries, *, poor_bps: float | None = None, shown_ns: Bounds = (None, None)) -> Table:
    """Return the bad segments of a drive's route, those with the highest cost first.

    The cost of a segment is the number of seconds that the transfer lost in it, compared with the typical rate.

    Parameters
    ----------
    drive : DriveSeries
    poor_bps : float, optional
        A second with a lower rate is bad, bit/s. The default is a fifth of the typical rate; that is the
        upper quartile of the seconds in which data were wanted.
    shown_ns : pair of int or None
        Only seconds from the first time until before the second one are returned and counted; they are judged
        by the complete drive. None leaves a side open.

    Returns
    -------
    Table
        STRETCHES. `cell` is the row in the table that `cells_of` returns for the same visits. Provenance:
        `typical_bps`, `poor_bps`, `good_bps`, `judged_s` (seconds judged by rate, by radio alone, and not at
        all), `of_s` (those that were judged or are in a segment), and `by_logger_s` (seconds with a bad radio
        in which the phone's logger saw `good_bps` or more, or its median rate in a segment). For a log that
        does not show when data were wanted, `slow_s` counts seconds with a good radio and a rate below
        `slow_bps`, and has their longest run.

    Raises
    ------
    InputError
        If the drive's times span more than a million seconds.
    """
    seconds = seconds_of(drive)
    radio = radio_of(seconds)
    judged_bad = _bad(seconds, radio, poor_bps)
    judged, bad = judged_bad.by_rate, judged_bad.bad
    first, last = _runs(bad)
    shown = causes_of(seconds, radio, bad, judged_bad.poor_bps)
    known = radio.level_known | radio.quality_known
    undecided = radio.quality_known & ~radio.is_good & ~radio.is_poor
    parts = []
    for a, b in zip(first, last, strict=True):
        inside = slice(a, b + 1)
        parts += _parts(
            a,
            inherited(
                shown[inside], seconds.limit[inside], undecided[inside], ~seconds.is_read[inside],
                seconds.rate_bps[inside], seconds.is_blank[inside],
            ),
        )  # fmt: skip
    rows = _within(seconds, shown_ns)
    parts = [cut for part in parts if (cut := part.within(rows)) is not None]
    in_parts = np.zeros(len(known), dtype=bool)
    for part in parts:
        in_parts[part.rows] = True
    known, judged_rows = known[rows], judged[rows]
    facts = {
        "typical_bps": judged_bad.typical_bps,
        "poor_bps": judged_bad.poor_bps,
        "good_bps": judged_bad.good_bps,
        "by_logger_s": int(judged_bad.by_logger[rows].sum()),
        "judged_s": {"by rate": int(judged_rows.sum()), "by radio": int((~judged_rows & known).sum()),
                     "not": int((~judged_rows & ~known).sum())},
        "of_s": int((in_parts[rows] | judged_rows | known).sum()),
    }  # fmt: skip
    if drive.limits is None and drive.wanted is None:
        facts |= _slow(seconds.begin_ns[rows], _is_slow(seconds, radio, judged_bad)[rows], judged_bad.usual_bps)
    return _table(_Judged(drive, seconds, radio, shown, judged, judged_bad.typical_bps, shown_ns), parts, facts)


class _Bad(NamedTuple):
    """Which seconds of a drive were bad, and the rates that this was judged by."""

    by_rate: Mask
    bad: Mask
    by_logger: Mask
    """The radio was bad, but the logger saw a good rate; such a second is not bad."""
    typical_bps: float
    poor_bps: float
    good_bps: float
    usual_bps: float


def _bad(seconds: Seconds, radio: RadioMasks, poor_bps: float | None) -> _Bad:
    rate = seconds.rate_bps
    judged = seconds.is_wanted & np.isfinite(rate)
    typical = float(np.quantile(rate[judged], 0.75)) if judged.any() else float("nan")
    poor = POOR_SHARE * typical if poor_bps is None else poor_bps
    known = radio.level_known | radio.quality_known
    out = (np.char.partition(seconds.limit, " ")[:, 0] == "outage") if len(judged) else judged
    out = out | (seconds.limit == "recovery timer")
    bound = np.where(out, max(OUTAGE_SHARE * typical, poor), poor)
    good, typical_bps = _good_bps(rate[~judged]), _typical_bps(rate[~judged])
    with np.errstate(invalid="ignore"):
        alone = ~judged & known & (radio.is_weak | radio.is_poor)
        bad = np.where(judged, rate < bound, alone & ~(rate >= good))
    for first, last in zip(*_runs(bad), strict=True):
        inside = slice(first, last + 1)
        seen = rate[inside][np.isfinite(rate[inside])]
        if not judged[inside].any() and len(seen) and seen.mean() >= typical_bps:
            bad[inside] = False
    return _Bad(judged, bad, alone & ~bad & np.isfinite(rate), typical, poor, good, typical_bps)


def _slow(begin_ns: Array, slow: Mask, usual_bps: float) -> Document:
    """Return a JSON object with the total time in which the rate was low, and the longest uninterrupted time.

    Only seconds for which it is unknown whether data were wanted are counted.
    """
    edges = np.flatnonzero(np.diff(np.append(np.append(0, slow.astype(np.int8)), 0)))
    lengths = edges[1::2] - edges[::2]
    if not len(lengths) or lengths.max() < _MIN_SLOW_S or not usual_bps > GOOD_BPS:
        return {}
    longest = int(lengths.argmax())
    return {
        "slow_s": int(slow.sum()),
        "slow_bps": POOR_SHARE * usual_bps,
        "slow_longest_s": int(lengths[longest]),
        "slow_longest_ns": int(begin_ns[edges[2 * longest]]),
    }


def _is_slow(seconds: Seconds, radio: RadioMasks, judged_bad: _Bad) -> Mask:
    """Return in which seconds the logger saw a rate far below the median although the radio was not bad."""
    fine = radio.level_known & ~radio.is_weak & ~radio.is_poor
    with np.errstate(invalid="ignore"):
        return np.asarray(fine & (seconds.rate_bps < POOR_SHARE * judged_bad.usual_bps))


def _within(seconds: Seconds, shown_ns: Bounds) -> slice:
    """Return the seconds whose middle lies in the shown time range, as a slice."""
    begin_ns, end_ns = shown_ns
    middle = seconds.begin_ns + NS_PER_S // 2
    first = 0 if begin_ns is None else np.searchsorted(middle, begin_ns)
    last = len(middle) if end_ns is None else np.searchsorted(middle, end_ns)
    return slice(int(first), int(last))


def _typical_bps(rate_bps: Array) -> float:
    """Return the median of the logged rates in bit/s, but at least GOOD_BPS; inf if no rate was logged."""
    known = rate_bps[np.isfinite(rate_bps)]
    return max(float(np.median(known)), GOOD_BPS) if len(known) else float("inf")


def _good_bps(rate_bps: Array) -> float:
    """Return the rate in bit/s from which on a second is never bad, whatever the radio readings are.

    It is used where it is unknown whether data were wanted.
    """
    known = rate_bps[np.isfinite(rate_bps)]
    typical_bps = float(np.quantile(known, 0.75)) if len(known) else float("inf")
    return max(OUTAGE_SHARE * typical_bps, GOOD_BPS)


def _runs(bad: Mask) -> tuple[list[int], list[int]]:
    """Return two lists: the first second, and the last second of each bad route segment."""
    rows = np.flatnonzero(bad)
    if not len(rows):
        return [], []
    ends = np.flatnonzero(np.diff(rows) > _BRIDGE_S + 1)
    first, last = rows[np.append(0, ends + 1)], rows[np.append(ends, len(rows) - 1)]
    long = (
        np.add.reduceat(bad.astype(np.int64), first) >= MIN_S
    )  # a run reaches to the next one, which is not bad between
    return first[long].tolist(), last[long].tolist()


def _parts(first: int, cause: Numbers) -> list[_Part]:
    """Return the parts of a route segment, which is split where its cause changes."""
    cause = without_short_runs(_filled(cause))
    begins, ends = _edges(cause)
    return [
        _Part(first + int(a), first + int(b) - 1, SecondCause(int(cause[a])), a == 0, b == len(cause))
        for a, b in zip(begins, ends, strict=True)
    ]


def without_short_runs(cause: Numbers) -> Numbers:
    """Return the causes of consecutive seconds; runs that are too short have the cause of a longer neighbour."""
    result = cause.copy()
    for minimum in range(2, _MIN_CAUSE_S + 1):  # the shortest first
        while _give_away(result, minimum):
            pass
    return result


def _edges(cause: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first index, and the last index plus 1, of each run of equal causes: two arrays."""
    edges = np.flatnonzero(np.diff(cause) != 0) + 1
    return np.append(0, edges), np.append(edges, len(cause))


def _give_away(cause: Numbers, minimum: int) -> bool:
    """Replace the cause of runs shorter than `minimum` by the cause of a longer neighbour, in place.

    Return whether any run was changed. Of consecutive short runs only every second one is changed, so each
    pass at least halves their number.
    """
    begins, ends = _edges(cause)
    length, number = ends - begins, np.arange(len(begins))
    short = length < minimum
    if len(begins) == 1 or not short.any():
        return False
    group = np.maximum.accumulate(np.where(short, 0, number + 1))
    rows = np.flatnonzero(short & ((number - group) % 2 == 0))
    before = np.where(rows > 0, length[rows - 1], 0)
    after = np.where(rows + 1 < len(begins), length[np.minimum(rows + 1, len(begins) - 1)], 0)
    heirs = np.where(before >= after, rows - 1, rows + 1)
    runs = cause[begins]
    runs[rows] = runs[heirs]
    cause[:] = np.repeat(runs, length)
    return True


def _filled(cause: Numbers) -> Numbers:
    """Return the causes; a second without a cause within a segment gets the cause of the second before it."""
    rows = np.where(cause != SecondCause.NONE, np.arange(len(cause)), 0)
    return np.asarray(cause[np.maximum.accumulate(rows)])


def _table(judged: _Judged, parts: list[_Part], facts: Document) -> Table:
    rows = [_row(judged, part) for part in parts]
    rows = sorted(rows, key=lambda row: (-np.nan_to_num(row["lost_s"]), -row["seconds"], row["begin_ns"]))
    columns: dict[str, Array] = {}
    for column in STRETCHES:
        columns[column.name] = np.array([row[column.name] for row in rows], dtype=column.dtype)
    return Table(STRETCHES, columns | _places(judged.drive, columns), facts)


def _row(judged: _Judged, part: _Part) -> Row:
    seconds, rows = judged.seconds, part.rows
    rate = seconds.rate_bps[rows]
    known = rate[np.isfinite(rate)]
    is_unknown = part.cause is SecondCause.UNKNOWN
    begin_ns, end_ns, span = _when(judged, part)
    from_ns, to_ns = judged.shown_ns
    begin_ns = begin_ns if from_ns is None else max(begin_ns, from_ns)
    end_ns = end_ns if to_ns is None else min(end_ns, to_ns)
    span = span if part.is_complete else None
    cell, served = _cell(judged, part)
    of_cell = of_rows(seconds, served)
    words = evidence_of(part.cause, of_cell, judged.radio, rows, judged.drive.handovers)
    return {
        "begin_ns": begin_ns,
        "end_ns": end_ns,
        "seconds": (end_ns - begin_ns) / NS_PER_S,
        "lost_s": _lost_s(judged, rows),
        "throughput_bps": float(known.mean()) if len(known) else np.nan,
        "typical_bps": judged.typical_bps,
        "cell": cell,
        "rsrp_dbm": median(of_cell.rsrp_dbm[rows]),
        "sinr_db": median(of_cell.sinr_db[rows]),
        "cause": part.cause.label,
        "share": float((judged.shown[rows] == part.cause).mean()),
        "evidence": words,
        "missing": missing_of(seconds, judged.radio, rows) if is_unknown else "",
        "cause_begin_ns": NOT_A_TIME if span is None else span.begin_ns,
        "cause_end_ns": NOT_A_TIME if span is None else span.end_ns,
        "cause_within_s": np.nan if span is None else span.within_s,
        **dict.fromkeys(_PLACES, np.nan),
    }


def _when(judged: _Judged, part: _Part) -> tuple[int, int, CauseSpan | None]:
    """Return begin and end of a part of a bad segment (ns), and the time span of its cause or None.

    Between two parts, the border is that of a second.
    """
    drive, rows = judged.drive, part.rows
    begin = int(judged.seconds.begin_ns[part.first])
    end = int(judged.seconds.begin_ns[part.last]) + NS_PER_S
    if judged.by_rate[rows].any():
        first, last = sharpened(drive.fine, begin, end)
        begin, end = first if part.opens else begin, last if part.closes else end
        return begin, end, cause_span(drive, part.cause, begin, end)
    span = cause_span(drive, part.cause, begin, end)
    if span is not None and part.opens and abs(span.begin_ns - begin) <= NS_PER_S:
        begin = span.begin_ns
    if span is not None and part.closes and abs(span.end_ns - end) <= NS_PER_S:
        end = span.end_ns
    return begin, end, span


def _lost_s(judged: _Judged, rows: Numbers) -> float:
    """Return the cost of a segment, in s; NaN if no second in it was judged by its rate.

    Each second judged by its rate adds 1 - rate / typical rate: 1 if no data arrived, 0 at the typical rate.
    """
    rows = rows[judged.by_rate[rows]]
    if not len(rows) or not judged.typical_bps > 0:
        return float("nan")
    return float(np.clip(1 - judged.seconds.rate_bps[rows] / judged.typical_bps, 0.0, 1.0).sum())


def _cell(judged: _Judged, part: _Part) -> tuple[int, Numbers]:
    """Return the cell that served longest while the cause held, and those seconds of it, as rows."""
    rows, visits = part.rows, judged.drive.cell_visits
    own = rows[judged.shown[rows] == part.cause]
    stay = visits.at(judged.seconds.begin_ns[rows] + NS_PER_S // 2)
    cell = np.where(stay >= 0, visits.table["cell"][np.maximum(stay, 0)], NA) if len(visits.table) else stay
    for some in (own, rows):
        among = np.isin(rows, some)
        known = cell[among & (cell >= 0)]
        if len(known):
            longest = int(np.bincount(known).argmax())
            return int(visits.ranks[longest]), rows[among & (cell == longest)]
    return NA, rows


def _places(drive: DriveSeries, columns: dict[str, Array]) -> dict[str, Array]:
    if drive.route is None:
        return {}
    begin, end = columns["begin_ns"], columns["end_ns"]
    middle = drive.route.at(begin + (end - begin) // 2)
    return {
        "lat_deg": middle.lat_deg,
        "lon_deg": middle.lon_deg,
        "begin_m": drive.route.at(begin).distance_m,
        "end_m": drive.route.at(end).distance_m,
        "cause_begin_m": drive.route.at(columns["cause_begin_ns"]).distance_m,
        "cause_end_m": drive.route.at(columns["cause_end_ns"]).distance_m,
    }


_STEP_NS = NS_PER_S // 10
"""Step of the fine rate: a tenth of a second. On a link of 150 kbit/s it contains at most one packet. Not measured."""
_REACH = 15
"""Number of steps that are examined on each side of an edge: the edge may be a second away, because full seconds were
judged, and the rate beyond it needs some packets."""
_LOWER = 0.5
"""The rate must fall below this share at an edge: a bad rate is below a fifth. Not measured."""
_NEAR_NS = NS_PER_S
"""Maximum distance of evidence from a segment, ns: a reading is as old as its interval. Not measured."""
_JOIN_NS = 2 * NS_PER_S
"""Limits at most this far apart (ns) are merged, as are the seconds of a route segment."""
_LEVELS = (("rsrp_dbm", WEAK_RSRP_DBM), ("rscp_dbm", WEAK_RSCP_DBM), ("rssi_dbm", WEAK_RSSI_DBM))
_QUALITIES = (("sinr_db", POOR_SINR_DB), ("rsrq_db", POOR_RSRQ_DB), ("ecio_db", POOR_ECIO_DB))
_REGISTERED = (1, 5)
"""Values of <stat> of TS 27.007, 7.2 when registered: at home (1) or roaming (5)."""


class CauseSpan(NamedTuple):
    """Begin and end of a cause, ns since 1970; NOT_A_TIME where no data show the begin or the end."""

    begin_ns: int
    end_ns: int
    within_s: float
    """Uncertainty of the known edges, s."""


def sharpened(fine: Steps | None, begin_ns: int, end_ns: int) -> tuple[int, int]:
    """Return the time at which the rate fell, and that at which it rose again, ns since 1970.

    They are searched near the begin and the end of a bad segment: each time is the best split of the three
    seconds around it into two constant rates (least squares).

    Parameters
    ----------
    fine : Steps or None
        The rate, in steps of at most 0.1 s; without it the result is `begin_ns` and `end_ns`.
    begin_ns, end_ns : int
        Begin of the first second and end of the last one.
    """
    if fine is None:
        return begin_ns, end_ns
    reach = min(_REACH, (end_ns - begin_ns) // _STEP_NS // 2)
    return _step(fine, begin_ns, reach, falls=True), _step(fine, end_ns, reach, falls=False)


def _step(fine: Steps, edge_ns: int, reach: int, *, falls: bool) -> int:
    before, after = (reach, _REACH) if not falls else (_REACH, reach)
    begin = edge_ns + np.arange(-before, after, dtype=np.int64) * _STEP_NS
    rate, covered = fine.mean(begin, begin + _STEP_NS)
    rate = np.where(covered > 0, rate, 0.0)
    count = np.arange(1, len(rate))
    left = np.cumsum(rate)[:-1]
    right = rate.sum() - left
    low, high = (right / count[::-1], left / count) if falls else (left / count, right / count[::-1])
    explained = np.where(low < _LOWER * high, left**2 / count + right**2 / count[::-1], -1.0)
    best = int(explained.argmax())
    return int(begin[best + 1]) if explained[best] >= 0 else edge_ns


def cause_span(drive: DriveSeries, cause: SecondCause, begin_ns: int, end_ns: int) -> CauseSpan | None:
    """Return the time span of the cause of a route segment; None if no recorded data show it.

    The spans of coverage, interference and technology come from radio readings, that of load from the cell load that
    the modem reports. Their edges are the middle between two readings. A handover lasts from the last evidence of the
    old cell, or from the last data, to the first evidence of the new one. The spans of server and TCP come from limits
    of the transfer; the span of the server begins when its last data have arrived.

    Parameters
    ----------
    drive : DriveSeries
    cause : SecondCause
    begin_ns, end_ns : int
        Begin and end of the route segment.
    """
    if cause in (SecondCause.COVERAGE, SecondCause.INTERFERENCE, SecondCause.LOAD, SecondCause.TECHNOLOGY):
        time_ns, state = _states(drive, cause, begin_ns, end_ns)
        return _runs_over(time_ns, state, begin_ns, end_ns)
    if cause is SecondCause.HANDOVER:
        return _changes(drive.handovers, begin_ns, end_ns)
    if cause in (SecondCause.SERVER, SecondCause.TCP) and drive.limits is not None:
        span = _held(drive.limits, cause, begin_ns, end_ns)
        if span is None or cause is SecondCause.TCP:
            return span
        return _since_last_send(drive.sends_ns, span)
    return None


def _states(drive: DriveSeries, cause: SecondCause, begin_ns: int, end_ns: int) -> tuple[Times, Mask]:
    """Return the times of all readings near the segment that could show the cause, and which of them show it.

    Both arrays have an element for each reading: int64 ns, and bool.
    """
    serving = drive.cell_visits.serving
    time_ns = serving.time_ns
    near = (time_ns >= begin_ns - 2 * _HELD_NS) & (time_ns <= end_ns + 2 * _HELD_NS)
    if cause is SecondCause.LOAD:
        busy = serving["cell_busy_pct"]
        return time_ns[np.isfinite(busy)], busy[np.isfinite(busy)] >= BUSY_PCT
    if cause is SecondCause.TECHNOLOGY:
        served = serving.generation[(time_ns >= begin_ns) & (time_ns < end_ns)]
        known = np.isfinite(serving.generation)
        return time_ns[known], np.isin(serving.generation[known], generations_in(served))
    columns = _LEVELS if cause is SecondCause.COVERAGE else _QUALITIES
    name, minimum = next((each for each in columns if np.isfinite(serving[each[0]][near]).any()), columns[0])
    value = serving[name]
    if name == "sinr_db" and not (value[near] < minimum).any():
        minimum = FAIR_SINR_DB
    known = np.isfinite(value)
    with np.errstate(invalid="ignore"):
        state = value < minimum
    if cause is SecondCause.COVERAGE:
        state |= (out := searches(serving))
        known |= out
        if not np.isfinite(value).any():
            known |= np.isin(serving["registration"], _REGISTERED)
    return time_ns[known], state[known]


_HELD_NS = round(HOLD_S * NS_PER_S)


def _runs_over(time_ns: Times, state: Mask, begin_ns: int, end_ns: int) -> CauseSpan | None:
    """Return the time span of those runs of readings with the cause that overlap the route segment.

    It is None if no run overlaps the segment.
    """
    if not len(time_ns):
        return None
    changes = np.flatnonzero(np.diff(state.astype(np.int8)) != 0) + 1
    first, last = np.append(0, changes), np.append(changes, len(state)) - 1
    over = state[first] & (time_ns[first] <= end_ns + _NEAR_NS) & (time_ns[last] >= begin_ns - _NEAR_NS)
    if not over.any():
        return None
    a, b = int(first[over][0]), int(last[over][-1])
    begin, end = _middle(time_ns, a - 1), _middle(time_ns, b)
    halves = [half for middle, half in (begin, end) if middle != NOT_A_TIME]
    return CauseSpan(begin[0], end[0], max(halves) / NS_PER_S) if halves else None


def _middle(time_ns: Times, row: int) -> tuple[int, int]:
    """Return two times in ns: the middle between reading `row` and the next one, and half their distance.

    The middle is NOT_A_TIME if one of the readings does not exist.
    """
    if not 0 <= row < len(time_ns) - 1:
        return NOT_A_TIME, 0
    half = int(time_ns[row + 1] - time_ns[row]) // 2
    return (int(time_ns[row]) + half, half) if half <= _HELD_NS else (NOT_A_TIME, 0)


def _changes(handovers: Table, begin_ns: int, end_ns: int) -> CauseSpan | None:
    low, high = bounds_ns(handovers)
    near = (low - BEFORE_NS < end_ns) & (high + AFTER_NS > begin_ns)
    near &= high - low <= round(CERTAIN_S * NS_PER_S)
    if not near.any():
        return None
    first, last = int(low[near].min()), int(high[near].max())
    is_idle_gap = begin_ns < first  # the old link already carried nothing
    within = float((high - low)[near].max()) / NS_PER_S
    return CauseSpan(begin_ns if is_idle_gap else first, last, within)


def _held(limits: DriveLimits, cause: SecondCause, begin_ns: int, end_ns: int) -> CauseSpan | None:
    """Return the span in which a limit with this cause was in effect during the segment; None if none was.

    Intervals of the limit that are close to each other are merged.
    """
    words = np.char.strip(np.char.add(np.char.add(limits.limit, " "), limits.part))
    if cause is SecondCause.SERVER:
        chosen = np.isin(words, SERVER_LIMITS) & limits.server_sends
    else:
        chosen = np.isin(limits.limit, OWN_LIMITS) | np.isin(words, OWN_LIMITS)
    chosen &= (limits.begin_ns < end_ns + _NEAR_NS) & (limits.end_ns > begin_ns - _NEAR_NS)
    if not chosen.any():
        return None
    order = np.argsort(limits.begin_ns[chosen], kind="stable")
    begin, end = limits.begin_ns[chosen][order], np.maximum.accumulate(limits.end_ns[chosen][order])
    cuts = np.flatnonzero(begin[1:] - end[:-1] > _JOIN_NS) + 1
    first, last = begin[np.append(0, cuts)], end[np.append(cuts, len(end)) - 1]
    overlap = np.minimum(last, end_ns) - np.maximum(first, begin_ns)
    best = int(overlap.argmax())
    return CauseSpan(int(first[best]), int(last[best]), 0.0)


def _since_last_send(sends_ns: Times | None, span: CauseSpan) -> CauseSpan:
    """Return `span`, with its begin moved to the time at which the last data of the server arrived.

    We assume that the server limits the transfer only from then on.
    """
    if sends_ns is None or not len(sends_ns):
        return span
    last_ns = int(sends_ns[max(int(np.searchsorted(sends_ns, span.begin_ns, side="right")) - 1, 0)])
    return span._replace(begin_ns=last_ns) if 0 <= span.begin_ns - last_ns <= _HELD_NS else span
