"""The radio's part in a transfer: the cause of each outage, recovery and stretch of the link limit.

The thresholds are those of the drive (`analysis/mobility/causes.py`). A reading alone is no cause: what the
radio log shows must also have the right order in time, and make a difference.

- An outage, together with the recovery next to it, is one *stop* and has one cause. The radio must have
  become bad before the stop began, within the distance of the readings and the error of the clocks. A stop
  lasts at most twice as long as what began it, plus a retransmission timeout, because the timer doubles
  (RFC 6298, 5.5). And the transfer must not have worked under the same conditions.
- In the seconds of the link limit, the link must have been slower than with a good radio in this transfer.
  If the radio was never good, its state alone decides.

Where this is not shown, or no reading is near, the cause is unknown. With a good radio it is `radio-normal`.

What messages between phone and network show (`signalling_waits`) is a fact, and takes the place of these causes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.analysis.mobility.causes import (
    BUSY_PCT,
    FAIR_SINR_DB,
    LOADED_SHARE,
    RadioMasks,
    depth_of,
    efficiency_of,
    generations_in,
    is_older,
    level_in_words,
    median,
    quality_in_words,
    radio_of,
)
from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.mobility.seconds import (
    AFTER_NS,
    BEFORE_NS,
    LONGEST_S,
    DriveLimits,
    DriveSeries,
    overlap_s,
    seconds_of,
)
from multitracer.analysis.mobility.series import payload_rate
from multitracer.analysis.mobility.stretches import POOR_SHARE, without_short_runs
from multitracer.clock.model.relation import Clock
from multitracer.diagnosis.limits.names import (
    NAMES_OF_SIGNALLING,
    OF_SIGNALLING,
    OF_THE_RADIO,
    STOPS,
    Limit,
    RadioCause,
    summed,
)
from multitracer.diagnosis.limits.spans import Spans
from multitracer.recording.transfer import LINK, STAMPS
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.mobility.seconds import Seconds
    from multitracer.analysis.mobility.series import Steps
    from multitracer.diagnosis.limits.group import ConnectionGroup, GroupConnection
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.names import Causes
    from multitracer.diagnosis.signalling_waits import SignallingWait
    from multitracer.recording.phones import Phone
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Document, Mask, Numbers, Times

_DELAY_NS = 2 * NS_PER_S
"""Data may stop this much earlier (ns) than readings show why: modems are read once a second, filter levels (TS 36.331,
5.5.3.2) and may answer from a cache, as in `handovers`."""
_FAILING_NS = 5 * NS_PER_S
"""Time in ns from the failure of a link until another cell serves: T310 and T311 of TS 36.331, 7.3 (1 s each in
practice, up to 2 s and 30 s), and the connection itself. Not measured."""
_FARTHEST_NS = 5 * NS_PER_S
"""Maximum time between the readings of the old and of the new cell, ns, as in the finding `handover`."""
_TIMEOUT_NS = 3 * NS_PER_S
"""A retransmission timeout on a queue of some seconds, ns: 1 s by RFC 6298, 2.1, and a round trip. Not measured."""
_STAMPS_ERROR_NS = 2 * NS_PER_S
"""Error in ns that is assumed if only the stamps of a log relate its clock: of phones with network time. Not measured.
"""
_MOST_ERROR_NS = 10 * NS_PER_S
"""With a larger error of the clocks (ns) no cause is stated, as no cause rests on a reading farther away."""
_COVERED = 0.5
"""Minimum share of a stop's seconds that must have readings. Not measured."""
_BRIDGE_S = 2
"""A state of the radio continues over so many seconds without it: levels vary around a threshold."""
_MIN_RUN_S = 3
"""Minimum duration of a cause of the link limit, s; shorter ones get that of their neighbour, as in `stretches`."""
_MIN_CONTRAST_S = 3
"""So many seconds with working data under the same conditions show that these were not the cause. Not measured."""
_CONTRAST_SHARE = 0.05
"""The same as a share of all working seconds, for long transfers. Not measured."""
_MIN_REFERENCE_S = 5
"""Minimum number of seconds with a good radio for a rate that others are compared with. Not measured."""
_OFTEN = 0.3
"""If in more than this share of the other seconds a stop is near, a change of the cell in a repair may be chance. Not
measured."""
_SLOW = 0.5
"""A second is slow below this share of the typical rate with a good radio: a cell's rate varies less. Not measured."""
_MOSTLY = 0.7
"""Share of the seconds in a state of the radio that must be slow, as its edges may lie in other seconds."""
_BEFORE_S = (8, 2)
"""Seconds before a state of the radio in which the link must have been faster."""
_FASTER = 1.4
"""Ratio of these rates; half of the ratio that the rate of a slow second has. Not measured."""
_LOADED_DB = 1.5
"""RSRQ falls by 4.8 dB from an idle to a full cell with two antenna ports (definition in TS 36.214, 5.1.3), and by this
much from half load to full load."""
_NOT_FULL_RSRQ_DB = -9.0
"""Above this RSRQ, dB, at most 60 % of a cell are in use, by the same definition."""


@dataclass(frozen=True)
class Witness:
    """The radio log of the phone that carried a transfer, by seconds.

    Attributes
    ----------
    phone : Phone
    seconds : Seconds
        Its readings, and rate and limits of the group of connections.
    radio : RadioMasks
    error_ns : int
        Error of its clock against the sender's.
    has_stamps_alone : bool
        Whether only the stamps of its log relate its clock to the sender's.
    link : ndarray of bool, shape (n_seconds,)
        In which seconds the link was a limit.
    stopped : ndarray of bool, shape (n_seconds,)
        In which seconds, or within two seconds of them, nothing arrived or lost data held up others.
    poor_bps : float
        A second with less is bad, bit/s; NaN if no rate is known.
    """

    phone: Phone
    seconds: Seconds
    radio: RadioMasks
    error_ns: int
    has_stamps_alone: bool
    link: Mask
    stopped: Mask
    poor_bps: float

    def rows(self, begin_ns: int, end_ns: int) -> slice:
        """Return the seconds that overlap an interval."""
        ends = self.seconds.begin_ns + NS_PER_S
        first, last = np.searchsorted(ends, begin_ns, side="right"), np.searchsorted(self.seconds.begin_ns, end_ns)
        return slice(int(first), int(max(first, last)))

    @cached_property
    def of_link(self) -> Numbers:
        """The `RadioCause` of the link limit in each second; unknown where the link was no limit."""
        return _of_link(self)

    @cached_property
    def unusual(self) -> Mask:
        """In which seconds a reading is not that of a good radio."""
        with np.errstate(invalid="ignore"):
            busy = self.seconds.cell_busy_pct >= BUSY_PCT
        undecided = self.radio.quality_known & ~self.radio.is_good
        return np.asarray(self.radio.is_weak | self.radio.is_poor | undecided | busy)


@dataclass(frozen=True)
class RadioCauses:
    """The causes of one transfer's limits, as far as a radio log shows them.

    Attributes
    ----------
    limited : Limited
    begin, end : ndarray of int64, ns, shape (n_pieces,)
        Its intervals, split where the cause changes.
    cell : ndarray of int64, shape (n_pieces,)
        Row of each piece in `limited.cells`.
    cause : ndarray of int64, shape (n_pieces,)
        `RadioCause` of each piece.
    witness : Witness or None
        The radio log; None without readings.
    waits : tuple of SignallingWait
        What signalling held data back for, in order of time.
    timer : str
        The network's inactivity timer in words; empty if unknown.
    """

    limited: Limited
    begin: Times
    end: Times
    cell: Numbers
    cause: Numbers
    witness: Witness | None
    waits: tuple[SignallingWait, ...] = ()
    timer: str = ""

    @cached_property
    def limit(self) -> Numbers:
        """`Limit` of each piece."""
        return np.asarray(self.limited.cells.limit[self.cell])

    @property
    def busy_s(self) -> float:
        """Time in which data waited for anything but the programs, s."""
        mine = (self.limit != Limit.APPLICATION) | np.isin(self.cause, OF_SIGNALLING)
        return float((self.end - self.begin)[mine].sum()) * self.limited.transfer.speed / NS_PER_S

    @property
    def _can_have_cause(self) -> Mask:
        """Which pieces are of limits that the radio can cause, or have a cause in the signalling."""
        return np.asarray(np.isin(self.limit, OF_THE_RADIO) | np.isin(self.cause, OF_SIGNALLING))

    def seconds(self, chosen: Mask | None = None) -> Causes:
        """Return the seconds of each cause in the chosen pieces (by default all), the largest first."""
        length = (self.end - self.begin) * (self.limited.transfer.speed / NS_PER_S)
        mine = self._can_have_cause if chosen is None else chosen
        sums = np.bincount(self.cause[mine], length[mine], minlength=len(RadioCause)).tolist()
        return summed([{RadioCause(at): seconds for at, seconds in enumerate(sums) if seconds > 0}])

    def of_limit(self, limit: Limit, part: int | None = None) -> Causes:
        """Return the seconds of each cause of a limit, or of one of its subtypes."""
        mine = self.limit == limit
        if part is not None:
            mine &= self.limited.cells.part[self.cell] == part
        return self.seconds(mine & self._can_have_cause)

    def within(self, begin_ns: int, end_ns: int, limits: Sequence[Limit] = STOPS) -> Causes:
        """Return the seconds of each cause of some limits in an interval."""
        begin, end = np.maximum(self.begin, begin_ns), np.minimum(self.end, end_ns)
        chosen = np.isin(self.limit, limits) | np.isin(self.cause, OF_SIGNALLING)
        length = np.where(chosen, np.maximum(end - begin, 0) / NS_PER_S, 0.0)
        sums = np.bincount(self.cause, length, minlength=len(RadioCause)).tolist()
        return {RadioCause(at): seconds for at, seconds in enumerate(sums) if seconds > 0}

    def words(self, cause: RadioCause, begin_ns: int | None = None, end_ns: int | None = None) -> str:
        """Return the name of a cause with its number, for example "no coverage (RSRP -123 dBm)".

        The number is of the seconds with this cause, in an interval or in the whole transfer.
        """
        if self.witness is None or cause in OF_SIGNALLING:
            return NAMES_OF_SIGNALLING.get(cause, "")
        mine = self.cause == cause
        mine &= (self.end > (begin_ns or 0)) & (self.begin < (end_ns or np.iinfo(np.int64).max))
        spans = Spans.of(self.begin[mine], self.end[mine])
        at_ns = self.witness.seconds.begin_ns
        rows = np.flatnonzero(spans.overlap_ns(at_ns, at_ns + NS_PER_S) > 0)
        stops = np.isin(self.limit[mine], STOPS)
        length = (self.end - self.begin)[mine]
        is_stop = 2 * float(length[stops].sum()) >= float(length.sum())
        return _words(cause, self.witness, rows, is_stop=is_stop)

    def split(self, intervals: list[Document], *, digits: int = 6) -> list[Document]:
        """Return the JSON rows of the limits' intervals, split where the cause changes, each with its cause."""
        per_ns = self.limited.transfer.speed / NS_PER_S
        labels = [RadioCause(each).label for each in self.cause.tolist()]
        first_ns = self.limited.begin_ns
        return [
            intervals[cell]
            | {
                "begin_ns": begin,
                "end_ns": end,
                "begin_s": round((begin - first_ns) * per_ns, digits),
                "end_s": round((end - first_ns) * per_ns, digits),
                "cause": label,
            }
            for begin, end, cell, label in zip(
                self.begin.tolist(), self.end.tolist(), self.cell.tolist(), labels, strict=True
            )
        ]

    def with_waits(self, waits: Sequence[SignallingWait], timer: str = "") -> RadioCauses:
        """Return the causes with those of the signalling, which are facts and so come before those of readings.

        Only a change of the NR leg is no cause where the readings show another one.
        """
        edges = np.array([edge for each in waits for edge in (each.begin_ns, each.end_ns)], dtype=np.int64)
        if not len(edges) or not len(self.begin):
            return self
        inside = edges[(edges > self.begin[0]) & (edges < self.end[-1])]
        begin = distinct(np.concatenate([self.begin, inside]))
        place = np.searchsorted(self.begin, begin, side="right") - 1
        end, cause = np.append(begin[1:], self.end[-1:]), self.cause[place].copy()
        for each in waits:
            mine = (begin >= each.begin_ns) & (end <= each.end_ns)
            if each.cause is RadioCause.SECONDARY_LEG:
                mine &= cause <= RadioCause.NORMAL
            cause[mine] = each.cause
        return replace(self, begin=begin, end=end, cell=self.cell[place], cause=cause, waits=tuple(waits), timer=timer)


# --- the evidence ---


def witness_of(group: ConnectionGroup) -> Witness | None:
    """Return the radio log of the phone that carried a group of connections; None if no log covers its time."""
    transfer = group.longest.transfer
    context = transfer.radio_context
    if context is None or not context.phones:
        return None
    phone = _phone_of(transfer, context.phones)
    related = None if phone is None else _clock_of(transfer, phone)
    limits = limits_of(group.members)
    if phone is None or related is None or not len(limits.begin_ns):
        return None
    begin_ns, end_ns = int(limits.begin_ns.min()), int(limits.end_ns.max())
    if end_ns - begin_ns > (LONGEST_S - _AROUND_S) * NS_PER_S:
        return None
    phone = phone.within((begin_ns - _AROUND_S * NS_PER_S, end_ns + _AROUND_S * NS_PER_S))
    seconds = seconds_of(DriveSeries(phone.cell_visits, phone.handovers, None, rate_of(group.members), limits))
    if not len(seconds.begin_ns):
        return None
    limited_s = {
        each: overlap_s(limits.begin_ns[mine], limits.end_ns[mine], int(seconds.begin_ns[0]), len(seconds.begin_ns))
        for each in OF_THE_RADIO
        for mine in [limits.limit == each.label]
    }
    stopped = _widened(limited_s[Limit.OUTAGE] + limited_s[Limit.RECOVERY] > _SOME_S, _BRIDGE_S)
    wanted_bps = seconds.rate_bps[seconds.is_wanted & np.isfinite(seconds.rate_bps)]
    poor_bps = POOR_SHARE * float(np.quantile(wanted_bps, 0.75)) if len(wanted_bps) else float("nan")
    return Witness(phone, seconds, radio_of(seconds), *related, limited_s[Limit.LINK] > _SOME_S, stopped, poor_bps)


_AROUND_S = 60
"""Readings this long before and after the transfers are used, s: other readings say nothing of them."""
_SOME_S = 0.2
"""Minimum time of a limit in a second, s, for it to be judged by this second; a fifth is two steps of fine rates."""


def _phone_of(transfer: Transfer, phones: Sequence[Phone]) -> Phone | None:
    """Return the phone that carried a transfer: the one of an endpoint, else the only one in its time."""
    in_time = [each for each in phones if each.span_ns is not None and _meets(each.span_ns, transfer)]
    own = [each for each in in_time if each.logs and each.logs[0].host in transfer.hosts]
    chosen = own or in_time
    return chosen[0] if len({each.host for each in chosen}) == 1 else None


def _meets(span_ns: tuple[int, int], transfer: Transfer) -> bool:
    return span_ns[0] <= transfer.end_ns and transfer.begin_ns <= span_ns[1]


def _clock_of(transfer: Transfer, phone: Phone) -> tuple[int, bool] | None:
    """Return the error of a phone's clock in ns, and whether only its stamps relate it.

    It is None if the clock is too uncertain, or the packets contradict the log.
    """
    host = phone.logs[0].host if phone.logs else phone.host
    tables = [table for name, table in transfer.radio if name == host]
    if len(phone.radio) and not tables:
        return None
    if any(table.provenance.get(LINK) == STAMPS for table in tables):
        return _STAMPS_ERROR_NS, True
    clocks = transfer.recording.clocks
    if clocks is None:
        return 0, False
    source, target = Clock(host), clocks.of_point(transfer.at_sender.host)
    if source == target:
        return 0, False
    ends = np.array([transfer.begin_ns, transfer.end_ns], dtype=np.int64)
    bound_ns = clocks.place(ends, target, source).bound_ns
    if not np.isfinite(bound_ns).all():
        return _STAMPS_ERROR_NS, True
    return (int(bound_ns.max()), False) if bound_ns.max() <= _MOST_ERROR_NS else None


def limits_of(members: Sequence[GroupConnection]) -> DriveLimits:
    """Return what limited the connections of a group."""
    tables = [each.limited.table for each in members]
    shifts = [each.begin_ns - each.limited.begin_ns for each in members]
    sends = np.concatenate([each.limited.is_reverse for each in members])
    begin, end = (
        np.concatenate([table[name] + shift for table, shift in zip(tables, shifts, strict=True)])
        for name in ("begin_ns", "end_ns")
    )
    limit, part = (np.concatenate([table[name] for table in tables]) for name in ("limit", "part"))
    return DriveLimits(begin, end, limit, part, sends)


def rate_of(members: Sequence[GroupConnection]) -> Steps | None:
    """Return the rate in bit/s at which data of a group were delivered, by seconds; None if none were."""
    times, sizes = [], []
    for each in members:
        shift_ns, seen, transfer = each.begin_ns - each.limited.begin_ns, each.limited.seen, each.limited.transfer
        if seen is not None:
            time_ns, size = seen.answers.time_ns, np.diff(seen.answers.delivered, prepend=seen.answers.delivered[:1])
        else:
            rows = transfer.data
            time_ns, size = transfer.sender["time_ns"][rows], transfer.sender["payload_bytes"][rows]
        times.append(np.where(time_ns == NOT_A_TIME, NOT_A_TIME, time_ns + shift_ns))
        sizes.append(size)
    return payload_rate(np.concatenate(times), np.concatenate(sizes)) if times else None


def _widened(mask: Mask, by: int) -> Mask:
    """Return a mask that is also True up to `by` places before and after each True."""
    wide = mask.copy()
    for step in range(1, by + 1):
        wide[step:] |= mask[:-step]
        wide[:-step] |= mask[step:]
    return wide


# --- the causes ---


def radio_causes(limited: Limited, witness: Witness | None, *, shift_ns: int = 0) -> RadioCauses:
    """Return the causes of one transfer's limits.

    Parameters
    ----------
    limited : Limited
    witness : Witness or None
        None without readings: all causes are unknown.
    shift_ns : int
        To be added to its times for those of the witness.
    """
    cells = limited.cells
    count = len(cells.begin)
    all_cells, none = np.arange(count), np.zeros(count, dtype=np.int64)
    if not count or witness is None:
        return RadioCauses(limited, cells.begin, cells.end, all_cells, none, witness)
    cause = none.copy()
    is_stop = np.isin(cells.limit, STOPS)
    first = np.flatnonzero(is_stop & ~np.append(False, is_stop[:-1] & (cells.begin[1:] == cells.end[:-1])))
    last = np.flatnonzero(is_stop & ~np.append(is_stop[1:] & (cells.begin[1:] == cells.end[:-1]), False))
    by_second = witness.of_link
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        begin_ns, end_ns = int(cells.begin[a]) + shift_ns, int(cells.end[b]) + shift_ns
        is_outage = bool((cells.limit[a : b + 1] == Limit.OUTAGE).any())
        cause[a : b + 1] = _of_stop(witness, begin_ns, end_ns, by_second, is_outage=is_outage)

    link = np.flatnonzero(cells.limit == Limit.LINK)
    changes = np.flatnonzero(np.diff(by_second) != 0) + 1
    cuts = witness.seconds.begin_ns[changes] - shift_ns
    cuts = cuts[Spans(cells.begin[link], cells.end[link]).holds(cuts)] if len(link) else cuts[:0]
    begin = distinct(np.concatenate([cells.begin, cuts]))
    end = np.append(begin[1:], cells.end[-1:])
    cell = np.searchsorted(cells.begin, begin, side="right") - 1
    of_part = cause[cell]
    linked = np.flatnonzero(cells.limit[cell] == Limit.LINK)
    middle = begin[linked] + (end[linked] - begin[linked]) // 2 + shift_ns
    at = np.searchsorted(witness.seconds.begin_ns, middle, side="right") - 1
    known = (at >= 0) & (at < len(by_second))
    of_part[linked[known]] = by_second[at[known]]
    return RadioCauses(limited, begin, end, cell, of_part, witness)


class _State(NamedTuple):
    """One bad state of the radio over the seconds of a log."""

    cause: RadioCause
    bad: Mask
    depth: Array
    """How far each second is beyond the threshold, dB: negative below it; NaN if unknown."""


def _states(witness: Witness) -> tuple[_State, _State]:
    """Return the two states that the levels show: weak, and of poor quality."""
    seconds, radio = witness.seconds, witness.radio
    level, quality = depth_of(seconds)
    poor = radio.is_poor & ~radio.is_weak & radio.level_known
    return (
        _State(RadioCause.COVERAGE, radio.is_weak, np.where(seconds.no_service >= _HALF, -np.inf, level)),
        _State(RadioCause.INTERFERENCE, poor, quality),
    )


_HALF = 0.5  # of a second without service


_SHARED = (RadioCause.COVERAGE, RadioCause.INTERFERENCE, RadioCause.TECHNOLOGY, RadioCause.LOAD)
"""Causes of the link limit that a repair of losses beside it shares."""


def _of_stop(witness: Witness, begin_ns: int, end_ns: int, by_second: Numbers, *, is_outage: bool) -> RadioCause:
    """Return the cause of an interval in which nothing arrived, or lost data held up others."""
    rows = witness.rows(begin_ns, end_ns)
    if rows.start >= rows.stop or rows.start >= len(witness.seconds.begin_ns):
        return RadioCause.UNKNOWN
    states = _states(witness)
    for state in states:
        if state.bad[rows].any() and _began(witness, state, begin_ns, end_ns, is_outage=is_outage):
            return state.cause
    change = _changed(witness, begin_ns, end_ns, is_outage=is_outage)
    if change is not None:
        return change
    if not is_outage:
        around = by_second[max(rows.start - 1, 0) : rows.stop + 1]
        shared = [each for each in _SHARED if each in around]
        if shared and (shared[0] is RadioCause.COVERAGE or not states[0].bad[rows].any()):
            return shared[0]
    return RadioCause.NORMAL if _is_normal(witness, begin_ns, end_ns) else RadioCause.UNKNOWN


def _began(witness: Witness, state: _State, begin_ns: int, end_ns: int, *, is_outage: bool) -> bool:
    """Return whether a state of the radio began a stop: by their order, their lengths, and by contrast."""
    seconds, error_ns = witness.seconds, witness.error_ns
    rows = witness.rows(begin_ns, end_ns)
    first, last = _run(state.bad, rows)
    times = witness.phone.cell_visits.serving.time_ns
    from_ns, to_ns = int(seconds.begin_ns[first]), int(seconds.begin_ns[last]) + NS_PER_S
    before, after = times[times < from_ns], times[times >= to_ns]
    earliest_ns = int(before[-1]) if len(before) and from_ns - before[-1] <= _FARTHEST_READING_NS else from_ns
    latest_ns = int(after[0]) if len(after) and after[0] - to_ns <= _FARTHEST_READING_NS else to_ns
    slack_ns = _DELAY_NS + error_ns
    if earliest_ns > begin_ns + slack_ns or end_ns > begin_ns + 2 * max(latest_ns - begin_ns, 0) + _TIMEOUT_NS:
        return False
    inside = np.arange(max(first, rows.start), min(last + 1, rows.stop))
    inside = inside[state.bad[inside]]
    known = state.depth[inside][~np.isnan(state.depth[inside])]
    if not len(known):
        return False
    bound_db = float(np.median(known)) + 1.0
    with np.errstate(invalid="ignore"):
        flows = (seconds.rate_bps > witness.poor_bps) & (state.depth <= bound_db)
    worked = flows & ~witness.stopped
    own = int((worked if is_outage else flows)[first : last + 1].sum())  # losses are repaired while data flow
    working = int((~witness.stopped & (seconds.rate_bps > 0)).sum())
    return own < _MIN_CONTRAST_S and int(worked.sum()) < max(_MIN_CONTRAST_S, _CONTRAST_SHARE * working)


_FARTHEST_READING_NS = 10 * NS_PER_S
"""Maximum distance of a reading that a cause rests on, in ns (design: 10 s)."""


def _run(bad: Mask, rows: slice) -> tuple[int, int]:
    """Return the first and the last second of a state that is bad in some seconds of `rows`.

    Gaps of `_BRIDGE_S` are part of the state.
    """
    places = np.flatnonzero(bad)
    edges = np.flatnonzero(np.diff(places) > _BRIDGE_S + 1)
    first, last = places[np.append(0, edges + 1)], places[np.append(edges, len(places) - 1)]
    over = np.flatnonzero((last >= rows.start) & (first < rows.stop))
    return int(first[over[0]]), int(last[over[-1]])


def _changed(witness: Witness, begin_ns: int, end_ns: int, *, is_outage: bool) -> RadioCause | None:
    """Return whether a change of the cell caused a stop; None if no change is near.

    It is unknown if one is near, but the order in time, or the clock, does not show that it was the cause.
    """
    low, high = bounds_ns(witness.phone.handovers)
    error_ns = witness.error_ns
    near = (low - BEFORE_NS - error_ns <= end_ns) & (high + AFTER_NS + error_ns >= begin_ns)
    if not near.any():
        return None
    fits = near & (high - low <= _FARTHEST_NS) & (low <= end_ns + error_ns)
    fits &= (high + _DELAY_NS + error_ns >= begin_ns) & (low - _FAILING_NS - error_ns <= begin_ns)
    fits &= end_ns <= begin_ns + 2 * np.maximum(high - begin_ns, 0) + _TIMEOUT_NS + error_ns
    rows = witness.rows(begin_ns, end_ns)
    others = np.delete(
        witness.stopped, np.arange(max(rows.start - _BRIDGE_S, 0), min(rows.stop + _BRIDGE_S, len(witness.stopped)))
    )
    is_chance = not is_outage and len(others) > 0 and float(others.mean()) > _OFTEN
    is_cause = bool(fits.any()) and not witness.has_stamps_alone and not is_chance
    return RadioCause.HANDOVER if is_cause else RadioCause.UNKNOWN


def _is_normal(witness: Witness, begin_ns: int, end_ns: int) -> bool:
    """Return whether the readings in and around an interval show nothing unusual."""
    rows = witness.rows(begin_ns - witness.error_ns, end_ns + witness.error_ns)
    if witness.unusual[rows].any() or witness.seconds.is_blank[rows].any() or rows.start >= rows.stop:
        return False
    return float(witness.radio.level_known[rows].mean()) >= _COVERED


def _upper_quartile(rate_bps: Array) -> float:
    return float(np.quantile(rate_bps, 0.75)) if len(rate_bps) >= _MIN_REFERENCE_S else float("nan")


def _of_link(witness: Witness) -> Numbers:
    """Return the cause of the link limit in each second; unknown in seconds in which the link was no limit."""
    seconds, radio, link = witness.seconds, witness.radio, witness.link
    rate = seconds.rate_bps
    good = radio.level_known & ~witness.unusual & ~seconds.is_change & np.isfinite(rate)
    # what was delivered while another limit held could also pass the link
    typical_bps = float(np.fmax(_upper_quartile(rate[good & link]), _upper_quartile(rate[good])))
    cause = np.zeros(len(link), dtype=np.int64)
    cause[link & radio.level_known & ~witness.unusual] = RadioCause.NORMAL
    with np.errstate(invalid="ignore"):
        slow = rate < _SLOW * typical_bps
        busy = (seconds.cell_busy_pct >= BUSY_PCT) & radio.level_known & ~radio.is_weak & ~radio.is_poor
        efficiency, typical = efficiency_of(seconds)
        scarce = np.where(
            np.isfinite(seconds.sinr_db), efficiency < LOADED_SHARE * typical, rate < LOADED_SHARE * typical_bps
        )
        fair = (seconds.sinr_db < FAIR_SINR_DB) & ~scarce & slow & radio.level_known & ~radio.is_weak
    weak, poor = _states(witness)
    older = is_older(seconds, witness.poor_bps)
    states = (
        (RadioCause.LOAD, busy),
        (RadioCause.TECHNOLOGY, older & link),
        (RadioCause.INTERFERENCE, poor.bad | fair),
        (RadioCause.COVERAGE, weak.bad),
    )
    for name, state in states:
        for first, last in _runs(state):
            mine = np.arange(first, last + 1)
            mine = mine[link[mine] & (state[mine] | ~radio.level_known[mine])]
            if len(mine):
                is_cause = _slows(witness, (first, last), mine, state, typical_bps, name)
                cause[mine] = name if is_cause else RadioCause.UNKNOWN
    changed = link & seconds.is_change & slow & ~seconds.is_blank & (cause == RadioCause.NORMAL)
    cause[changed] = RadioCause.UNKNOWN if witness.has_stamps_alone else RadioCause.HANDOVER
    with np.errstate(invalid="ignore"):
        reference = good & ~scarce & (rate >= _SLOW * typical_bps)
    _mark_load(witness, cause, scarce & good & link, reference)
    return _smoothed(cause, link)


def _slows(
    witness: Witness, run: tuple[int, int], mine: Numbers, state: Mask, typical_bps: float, name: RadioCause
) -> bool:
    """Return whether the link was slower in a state of the radio than without it, and not yet slow before it."""
    seconds, rate = witness.seconds, witness.seconds.rate_bps
    if name is RadioCause.TECHNOLOGY:
        return True  # its rule compares the rates of two technologies
    if not np.isfinite(typical_bps):
        searches = bool((seconds.no_service[mine] >= _HALF).any())
        return name is not RadioCause.COVERAGE or searches or not _is_clear(seconds, mine)
    inner = mine[1:-1] if len(mine) > _MIN_RUN_S else mine
    with np.errstate(invalid="ignore"):
        slow = rate[inner] < _SLOW * typical_bps
    if float(slow.mean()) < _MOSTLY:
        return False
    first, _ = run
    earlier = np.arange(max(first - _BEFORE_S[0], 0), max(first - _BEFORE_S[1] + 1, 0))
    earlier = earlier[witness.link[earlier] & ~state[earlier] & np.isfinite(rate[earlier]) & ~witness.stopped[earlier]]
    if len(earlier) < _MIN_CONTRAST_S:
        return True
    return bool(np.median(rate[earlier]) >= _FASTER * np.nanmedian(rate[mine]))


def _is_clear(seconds: Seconds, rows: Numbers) -> bool:
    """Return whether the quality shows that a weak signal was still far above noise and interference.

    By its definition, RSRQ of -9 dB or more is possible only with an SINR of about 5 dB or more.
    """
    sinr_db, rsrq_db = median(seconds.sinr_db[rows]), median(seconds.rsrq_db[rows])
    return sinr_db >= FAIR_SINR_DB if np.isfinite(sinr_db) else rsrq_db >= _NOT_FULL_RSRQ_DB


def _mark_load(witness: Witness, cause: Numbers, scarce: Mask, reference: Mask) -> None:
    """Mark the seconds in which a cell without radio faults was slow because others used it, in place.

    A slow link alone may be slow behind the cell. While others use the cell, its RSRQ is lower than before.
    """
    rsrq = witness.seconds.rsrq_db
    known = rsrq[reference & np.isfinite(rsrq)]
    if len(known) < _MIN_REFERENCE_S:
        return
    typical_db = float(np.median(known))
    for first, last in _runs(scarce):
        mine = np.arange(first, last + 1)
        mine = mine[scarce[mine] & np.isfinite(rsrq[mine])]
        if len(mine) >= _MIN_RUN_S and np.median(rsrq[mine]) <= min(typical_db - _LOADED_DB, _NOT_FULL_RSRQ_DB):
            inside = np.arange(first, last + 1)
            cause[inside[cause[inside] == RadioCause.NORMAL]] = RadioCause.LOAD


def _runs(state: Mask) -> list[tuple[int, int]]:
    """Return the first and last second of each run of a state, with gaps of `_BRIDGE_S` filled."""
    places = np.flatnonzero(state)
    if not len(places):
        return []
    edges = np.flatnonzero(np.diff(places) > _BRIDGE_S + 1)
    first, last = places[np.append(0, edges + 1)], places[np.append(edges, len(places) - 1)]
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _smoothed(cause: Numbers, link: Mask) -> Numbers:
    """Return the causes without runs of link seconds that are too short to be told."""
    result = cause.copy()
    changes = np.flatnonzero(np.diff(link.astype(np.int8)) != 0) + 1
    for part in np.split(np.arange(len(link)), changes):
        if len(part) and link[part[0]]:
            result[part] = without_short_runs(cause[part])
    return result


def _words(cause: RadioCause, witness: Witness, rows: Numbers, *, is_stop: bool) -> str:
    """Return the name of a cause with its number in the given seconds."""
    seconds, radio = witness.seconds, witness.radio
    number = ""
    if cause is RadioCause.COVERAGE:
        weak = rows[radio.is_weak[rows]]
        searched = 2 * int((seconds.no_service[weak] >= _HALF).sum()) >= len(weak) > 0
        number = "no service" if searched else level_in_words(seconds, weak)
        name = "no coverage" if is_stop or searched else "weak coverage"
    elif cause is RadioCause.INTERFERENCE:
        name, number = "interference", quality_in_words(seconds, rows[~radio.is_good[rows]])
    elif cause is RadioCause.HANDOVER:
        name = "handovers" if _changes_in(witness, rows) > 1 else "a handover"
    elif cause is RadioCause.TECHNOLOGY:
        served = [f"{each:.0f}G" for each in generations_in(seconds.generation[rows]).tolist()]
        name, number = "an older technology", " and ".join(served)
    elif cause is RadioCause.LOAD:
        busy = median(seconds.cell_busy_pct[rows])
        name, number = "a loaded cell", f"{busy:.0f} % busy" if np.isfinite(busy) else ""
    else:
        name, number = "a good radio", level_in_words(seconds, rows)
    return f"{name} ({number})" if number else name


def _changes_in(witness: Witness, rows: Numbers) -> int:
    if not len(rows):
        return 0
    low, high = bounds_ns(witness.phone.handovers)
    begin_ns = int(witness.seconds.begin_ns[rows[0]]) - BEFORE_NS
    return int(((low < witness.seconds.begin_ns[rows[-1]] + NS_PER_S) & (high > begin_ns)).sum())
