"""The application: the sending TCP has nothing to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import in_order
from multitracer.diagnosis.limits.names import Part, View
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.diagnosis.limits.quiet import Quiet
    from multitracer.tables import Array

_LONG_GAP = 0.5
"""Of a round trip: no pacer leaves so long a gap (limits.md)."""
_SERVICES = 4.0
"""Usual spacings of segments: what came so much later was not queued behind the one before."""
_RECENT = 1.5
"""Round trips: a segment that was not full so short ago shows that the queue was empty."""


class Pauses(NamedTuple):
    """Stretches without anything to send, cut where the peer asked for more.

    Begin and end are int64, ns, `part` holds codes of `Part`; all have shape (n,).
    """

    begin: Array
    end: Array
    part: Array

    @property
    def spans(self) -> Spans:
        """All of them."""
        return Spans.of(self.begin, self.end)


class Gaps(NamedTuple):
    """From each new segment (the first: from when sending was allowed) to the next new one.

    Begin and end are int64, ns; the arrays have shape (n,).
    """

    begin: Array
    end: Array
    ended_by: Array
    """Index in `sends`."""
    woken: Array
    """An answer came just before the end."""
    woken_by: Array
    """Its index, -1 for none."""
    outstanding: Array
    """Bytes outstanding before what woke the sender, or before the end."""


def gaps(seen: Observed) -> Gaps:
    """Return the gaps between new segments."""
    fresh = seen.fresh
    end = seen.sends.time_ns[fresh]
    begin = np.concatenate([[min(seen.opened_ns, int(end[0]))], end[:-1]]) if len(end) else end
    last = seen.last_answer(end + seen.slack_ns)
    came = seen.answers.time_ns[np.maximum(last, 0)] if len(seen.answers) else end
    woken = (last >= 0) & (end - came <= seen.reaction_ns)
    before = np.where(woken, came, end)
    return Gaps(begin, end, fresh, woken, np.where(woken, last, -1), seen.outstanding(before, side="left"))


def pauses(seen: Observed, still: Quiet) -> Pauses:
    """Return when the sending TCP had nothing to send."""
    each = gaps(seen)
    if not len(each.end):
        empty = np.empty(0, dtype=np.int64)
        return Pauses(empty, empty, empty)
    size = (seen.sends.end - seen.sends.begin)[each.ended_by]
    small = size < seen.mss_bytes
    requested_ns = _requested_at(seen, each)
    empty_pipe = seen.outstanding(each.end, side="left") == 0
    long = each.end - each.begin > _long_gap_ns(seen)
    unqueued = ~each.woken | writes_alone(seen)
    idle = unqueued & (empty_pipe | long | _small_before(seen, each))
    silent = idle & _may_be_silent(seen, each, empty_pipe)
    answering = empty_pipe & (requested_ns != NA) & ~(seen.sends.missing[each.ended_by] > 0)
    nagle = _nagle(each, small, seen.mss_bytes)
    is_polled, unsent = _unsent(seen, each)
    shown = np.where(is_polled, unsent & (unqueued | empty_pipe), silent) | answering | nagle
    in_silence = np.isin(each.ended_by, still.idle)
    last = seen.sends.time_ns[np.maximum(each.ended_by - 1, 0)]  # sent again, where a gap holds more
    each = each._replace(begin=np.where(in_silence & ~shown, np.maximum(each.begin, last), each.begin))
    chosen = np.flatnonzero(shown | in_silence)
    part = np.where(nagle, int(Part.NAGLE), int(Part.WRITES))
    return _cut(each, chosen, part, requested_ns, seen.reaction_ns)


_ALONE = 0.8
"""Part of the segments that are small writes, sent at once: their buffer held no second one."""


def writes_alone(seen: Observed) -> bool:
    """Return whether nearly each segment is a small write of its own: had they waited, they were joined."""
    sends, fresh = seen.sends, seen.fresh
    small = (sends.end - sends.begin)[fresh] < seen.mss_bytes
    return bool(len(fresh)) and float((small & sends.pushed[fresh]).mean()) >= _ALONE


def _long_gap_ns(seen: Observed) -> float:
    """Return the shortest gap that no pacer leaves: on a slow link it sends less than twice a round trip."""
    spacing = np.diff(seen.sends.time_ns)
    spacing = spacing[spacing > 0]
    usual = _SERVICES * _median(spacing) if len(spacing) else 0.0
    return max(_LONG_GAP * seen.floor_ns, usual)


def _median(values: Array) -> float:
    """Return what np.median does; where many values are equal its search for the middle is slow."""
    ordered = in_order(values)
    return float(np.mean(ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]))


def _may_be_silent(seen: Observed, each: Gaps, empty_pipe: Array) -> Array:
    """Return which gaps may be the application's: a write had ended, nothing was lost or late meanwhile."""
    sends = seen.sends
    wrote = np.concatenate([[True], sends.pushed[each.ended_by[:-1]]])
    if seen.view is View.RECEIVER:
        wrote &= np.diff(each.ended_by, prepend=-1) == 1  # who sends again meanwhile is not idle
    else:
        wrote |= empty_pipe
    lost = sends.missing[each.ended_by] > 0
    late = (
        np.zeros(len(each.end), dtype=bool) if seen.late_answer is None else seen.late_answer[each.ended_by]
    )
    return np.asarray(wrote & ~lost & ~late)


def _small_before(seen: Observed, each: Gaps) -> Array:
    """Return before which ends a segment that was not full had been sent a short time ago."""
    small = np.flatnonzero((seen.sends.end - seen.sends.begin < seen.mss_bytes) & ~seen.sends.again)
    if not len(small):
        return np.zeros(len(each.end), dtype=bool)
    time = seen.sends.time_ns[small]
    at = np.searchsorted(time, each.end, side="left") - 1
    recent: Array = each.end - time[np.maximum(at, 0)] <= _RECENT * max(seen.floor_ns, 1)
    return np.asarray(recent & (at >= 0))


def _nagle(each: Gaps, small: Array, mss_bytes: int) -> Array:
    """Return in which gaps a small segment waited for the ACK of nothing but a small one (RFC 896)."""
    before = np.concatenate([[False], small[:-1]])
    return np.asarray(each.woken & small & before & (each.outstanding > 0) & (each.outstanding < mss_bytes))


def answered(seen: Observed, each: Gaps) -> Array:
    """Return which gaps were ended by data of the peer: bool, shape (n_gaps,)."""
    payload = np.append(seen.answers.payload, 0)
    return np.asarray(payload[each.woken_by] > 0)


def _requested_at(seen: Observed, each: Gaps) -> Array:
    """Return when the peer's last payload within each gap came; NA where none did."""
    asking = seen.answers.time_ns[seen.answers.payload > 0]
    if not len(asking):
        return np.full(len(each.end), NA, dtype=np.int64)
    at = np.searchsorted(asking, each.end + seen.slack_ns, side="right") - 1
    came = np.minimum(asking[np.maximum(at, 0)], each.end)
    return np.where((at >= 0) & (came >= each.begin), came, NA)


def _unsent(seen: Observed, each: Gaps) -> tuple[Array, Array]:
    """Return in which gaps the kernel was read, and in which it then had nothing unsent."""
    nothing = np.zeros(len(each.end), dtype=bool)
    if seen.state is None:
        return nothing, nothing
    value = seen.state["notsent_bytes"]
    read = np.flatnonzero(value != NA)
    time = seen.state["time_ns"][read]
    order = np.argsort(time, kind="stable")
    time, value = time[order], value[read][order]
    first, last = np.searchsorted(time, each.begin, side="right"), np.searchsorted(time, each.end)
    is_polled = last > first
    zeros = np.concatenate([[0], np.cumsum(value == 0)])
    return is_polled, is_polled & (zeros[last] > zeros[first])


def _cut(each: Gaps, chosen: Array, part: Array, requested_ns: Array, reaction_ns: int) -> Pauses:
    """Return the chosen gaps; where the peer asked in one, its wait and ours are distinguished."""
    begin, end, what, requested_ns = each.begin[chosen], each.end[chosen], part[chosen], requested_ns[chosen]
    parted = requested_ns != NA
    turn = np.where(parted, np.where(end - requested_ns > reaction_ns, requested_ns, end), end)
    first = np.where(parted, int(Part.PEER), what)
    begins, ends = np.concatenate([begin, turn]), np.concatenate([turn, end])
    parts = np.concatenate([first, np.full(len(end), int(Part.THINK))])
    some = np.flatnonzero(ends > begins)
    order = some[np.argsort(begins[some], kind="stable")]
    return Pauses(begins[order], ends[order], parts[order])
