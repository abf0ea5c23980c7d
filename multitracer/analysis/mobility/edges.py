"""When a stretch begins and ends, finer than its seconds, and when its cause does, which may be earlier.

The rate shows when the transfer suffered. The readings of the radio, the changes of the cell or the limits of
the transfer show when the cause was there: after a hole in the coverage TCP still waits for a timer, and a
server that has stopped leaves data in the queues.
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
    Cause,
    generations_in,
)
from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.mobility.seconds import AFTER_NS, BEFORE_NS, CERTAIN_S, HOLD_S, Limits, searches
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.seconds import Drive
    from multitracer.analysis.mobility.series import Steps
    from multitracer.tables import Mask, Table, Times

_STEP_NS = NS_PER_S // 10
"""A tenth of what seconds tell; on a link of 150 kbit/s it holds one packet or none. Not measured."""
_REACH = 15
"""Steps to each side of an edge that are looked at: it may lie a second away, as whole seconds were judged,
and beyond it some packets must show the rate."""
_LOWER = 0.5
"""A rate that did not fall to half of it shows no edge: a bad one is below a fifth. Not measured."""
_NEAR_NS = NS_PER_S
"""A sign of a cause so far from the stretch still belongs to it: a reading is as old as its interval."""
_JOIN_NS = 2 * NS_PER_S
"""Limits that are so far apart are one: as the seconds of a stretch."""
_LEVELS = (("rsrp_dbm", WEAK_RSRP_DBM), ("rscp_dbm", WEAK_RSCP_DBM), ("rssi_dbm", WEAK_RSSI_DBM))
_QUALITIES = (("sinr_db", POOR_SINR_DB), ("rsrq_db", POOR_RSRQ_DB), ("ecio_db", POOR_ECIO_DB))
_REGISTERED = (1, 5)
"""<stat> of TS 27.007, 7.2: registered, at home or roaming."""


class Span(NamedTuple):
    """When a cause was there; NOT_A_TIME where nothing shows an edge."""

    begin_ns: int
    end_ns: int
    within_s: float
    """What is known of the edges is known to so many seconds."""


def sharpened(fine: Steps | None, begin_ns: int, end_ns: int) -> tuple[int, int]:
    """Return when the rate fell and rose, near the first and last whole second of a stretch.

    Each is the instant that divides the three seconds around it best into two rates (least squares).

    Parameters
    ----------
    fine : Steps or None
        The rate, in steps of a tenth of a second at most; without it the seconds stay.
    begin_ns, end_ns : int
        Of the first second and of the last one.
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


def cause_span(drive: Drive, cause: Cause, begin_ns: int, end_ns: int) -> Span | None:
    """Return when the cause of a stretch was there; None where nothing that was recorded shows it.

    Coverage, interference and the technology are those of the readings, and load is that of a cell that says
    how busy it is: an edge is the middle between two readings. A handover is there from the last sign of the
    old cell, or from when data stop, to the first sign of the new one. Server and TCP are limits of the
    transfer; a server stops with the last data that it sends.

    Parameters
    ----------
    drive : Drive
    cause : Cause
    begin_ns, end_ns : int
        Of the stretch.
    """
    if cause in (Cause.COVERAGE, Cause.INTERFERENCE, Cause.LOAD, Cause.TECHNOLOGY):
        time_ns, state = _states(drive, cause, begin_ns, end_ns)
        return _runs_over(time_ns, state, begin_ns, end_ns)
    if cause is Cause.HANDOVER:
        return _changes(drive.handovers, begin_ns, end_ns)
    if cause in (Cause.SERVER, Cause.TCP) and drive.limits is not None:
        span = _held(drive.limits, cause, begin_ns, end_ns)
        if span is None or cause is Cause.TCP:
            return span
        return _since_last_send(drive.sends_ns, span)
    return None


def _states(drive: Drive, cause: Cause, begin_ns: int, end_ns: int) -> tuple[Times, Mask]:
    """Return the readings that decide whether the cause is there, and whether it is."""
    serving = drive.stays.serving
    time_ns = serving.time_ns
    near = (time_ns >= begin_ns - 2 * _HELD_NS) & (time_ns <= end_ns + 2 * _HELD_NS)
    if cause is Cause.LOAD:
        busy = serving["cell_busy_pct"]
        return time_ns[np.isfinite(busy)], busy[np.isfinite(busy)] >= BUSY_PCT
    if cause is Cause.TECHNOLOGY:
        served = serving.generation[(time_ns >= begin_ns) & (time_ns < end_ns)]
        known = np.isfinite(serving.generation)
        return time_ns[known], np.isin(serving.generation[known], generations_in(served))
    columns = _LEVELS if cause is Cause.COVERAGE else _QUALITIES
    name, least = next((each for each in columns if np.isfinite(serving[each[0]][near]).any()), columns[0])
    value = serving[name]
    if name == "sinr_db" and not (value[near] < least).any():
        least = FAIR_SINR_DB
    known = np.isfinite(value)
    with np.errstate(invalid="ignore"):
        state = value < least
    if cause is Cause.COVERAGE:
        state |= (out := searches(serving))
        known |= out
        if not np.isfinite(value).any():
            known |= np.isin(serving["registration"], _REGISTERED)
    return time_ns[known], state[known]


_HELD_NS = round(HOLD_S * NS_PER_S)


def _runs_over(time_ns: Times, state: Mask, begin_ns: int, end_ns: int) -> Span | None:
    """Return the runs of readings with the cause that lie over a stretch, from the first to the last."""
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
    return Span(begin[0], end[0], max(halves) / NS_PER_S) if halves else None


def _middle(time_ns: Times, row: int) -> tuple[int, int]:
    """Return the middle of a reading and the next one, and half the time between; none without either."""
    if not 0 <= row < len(time_ns) - 1:
        return NOT_A_TIME, 0
    half = int(time_ns[row + 1] - time_ns[row]) // 2
    return (int(time_ns[row]) + half, half) if half <= _HELD_NS else (NOT_A_TIME, 0)


def _changes(handovers: Table, begin_ns: int, end_ns: int) -> Span | None:
    low, high = bounds_ns(handovers)
    near = (low - BEFORE_NS < end_ns) & (high + AFTER_NS > begin_ns)
    near &= high - low <= round(CERTAIN_S * NS_PER_S)
    if not near.any():
        return None
    first, last = int(low[near].min()), int(high[near].max())
    is_silence = begin_ns < first  # the old link already carried nothing
    within = float((high - low)[near].max()) / NS_PER_S
    return Span(begin_ns if is_silence else first, last, within)


def _held(limits: Limits, cause: Cause, begin_ns: int, end_ns: int) -> Span | None:
    """Return when limits of the cause held, over a stretch; pieces with little between are one."""
    words = np.char.strip(np.char.add(np.char.add(limits.limit, " "), limits.part))
    if cause is Cause.SERVER:
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
    return Span(int(first[best]), int(last[best]), 0.0)


def _since_last_send(sends_ns: Times | None, span: Span) -> Span:
    """Return the time since the server sent its last data: its limit begins when these have arrived."""
    if sends_ns is None or not len(sends_ns):
        return span
    last_ns = int(sends_ns[max(int(np.searchsorted(sends_ns, span.begin_ns, side="right")) - 1, 0)])
    return span._replace(begin_ns=last_ns) if 0 <= span.begin_ns - last_ns <= _HELD_NS else span
