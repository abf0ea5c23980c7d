"""The application: the sending TCP has nothing to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import in_order
from multitracer.diagnosis.limits.names import Part, View
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.idle.quiet import Quiet
    from multitracer.diagnosis.limits.observed import Observed
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


class IdleGaps(NamedTuple):
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


def gaps(seen: Observed) -> IdleGaps:
    """Return the gaps between new segments."""
    fresh = seen.fresh
    end = seen.sends.time_ns[fresh]
    begin = np.concatenate([[min(seen.opened_ns, int(end[0]))], end[:-1]]) if len(end) else end
    last = seen.last_answer(end + seen.slack_ns)
    came = seen.answers.time_ns[np.maximum(last, 0)] if len(seen.answers) else end
    woken = (last >= 0) & (end - came <= seen.reaction_ns)
    before = np.where(woken, came, end)
    return IdleGaps(
        begin, end, fresh, woken, np.where(woken, last, -1), seen.outstanding(before, side="left")
    )


def pauses(seen: Observed, still: Quiet) -> Pauses:
    """Return when the sending TCP had nothing to send."""
    each = gaps(seen)
    if not len(each.end):
        empty = np.empty(0, dtype=np.int64)
        return Pauses(empty, empty, empty)
    size = (seen.sends.end - seen.sends.begin)[each.ended_by]
    small = size < seen.mss_bytes
    request = _request_of(seen, each)
    empty_pipe = seen.outstanding(each.end, side="left") == 0
    long = each.end - each.begin > _long_gap_ns(seen)
    unqueued = ~each.woken | writes_alone(seen)
    idle = unqueued & (empty_pipe | long | _small_before(seen, each))
    silent = idle & _may_be_silent(seen, each, empty_pipe)
    answering = empty_pipe & (request != NA) & ~(seen.sends.missing[each.ended_by] > 0)
    nagle = _nagle(each, small, seen.mss_bytes)
    is_polled, unsent = _unsent(seen, each)
    shown = np.where(is_polled, unsent & (unqueued | empty_pipe), silent) | answering | nagle
    in_silence = np.isin(each.ended_by, still.idle)
    last = seen.sends.time_ns[np.maximum(each.ended_by - 1, 0)]  # sent again, where a gap holds more
    each = each._replace(begin=np.where(in_silence & ~shown, np.maximum(each.begin, last), each.begin))
    chosen = np.flatnonzero(shown | in_silence)
    part = np.where(nagle, int(Part.NAGLE), int(Part.WRITES))
    return _cut(seen, each, chosen, part, request)


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


def _may_be_silent(seen: Observed, each: IdleGaps, empty_pipe: Array) -> Array:
    """Return which gaps may be the application's: a write had ended, nothing was lost or late meanwhile."""
    sends = seen.sends
    wrote = np.concatenate([[True], sends.pushed[each.ended_by[:-1]]])
    wrote &= np.diff(each.ended_by, prepend=-1) == 1  # who sends again meanwhile is not idle
    if seen.view is not View.RECEIVER:
        wrote |= empty_pipe
    lost = sends.missing[each.ended_by] > 0
    late = (
        np.zeros(len(each.end), dtype=bool) if seen.late_answer is None else seen.late_answer[each.ended_by]
    )
    return np.asarray(wrote & ~lost & ~late)


def _small_before(seen: Observed, each: IdleGaps) -> Array:
    """Return before which ends a segment that was not full had been sent a short time ago."""
    small = np.flatnonzero((seen.sends.end - seen.sends.begin < seen.mss_bytes) & ~seen.sends.again)
    if not len(small):
        return np.zeros(len(each.end), dtype=bool)
    time = seen.sends.time_ns[small]
    at = np.searchsorted(time, each.end, side="left") - 1
    recent: Array = each.end - time[np.maximum(at, 0)] <= _RECENT * max(seen.floor_ns, 1)
    return np.asarray(recent & (at >= 0))


def _nagle(each: IdleGaps, small: Array, mss_bytes: int) -> Array:
    """Return in which gaps a small segment waited for the ACK of nothing but a small one (RFC 896)."""
    before = np.concatenate([[False], small[:-1]])
    return np.asarray(each.woken & small & before & (each.outstanding > 0) & (each.outstanding < mss_bytes))


def answered(seen: Observed, each: IdleGaps) -> Array:
    """Return which gaps were ended by data of the peer: bool, shape (n_gaps,)."""
    payload = np.append(seen.answers.payload, 0)
    return np.asarray(payload[each.woken_by] > 0)


def _request_of(seen: Observed, each: IdleGaps) -> Array:
    """Return the index in `requests` of the peer's last one within each gap; NA where none came."""
    asking = seen.requests.time_ns if seen.requests is not None else np.empty(0, dtype=np.int64)
    if not len(asking):
        return np.full(len(each.end), NA, dtype=np.int64)
    at = np.searchsorted(asking, each.end + seen.slack_ns, side="right") - 1
    came = np.minimum(asking[np.maximum(at, 0)], each.end)
    return np.where((at >= 0) & (came >= each.begin), at, NA)


def _unsent(seen: Observed, each: IdleGaps) -> tuple[Array, Array]:
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


_ROUND = 1.3
"""A round trip with what it may take longer than the shortest (limits.md)."""


def _cut(seen: Observed, each: IdleGaps, chosen: Array, part: Array, request: Array) -> Pauses:
    """Return the chosen gaps; where the peer asks they are cut into what each of the two did."""
    begin, end, what, request = each.begin[chosen], each.end[chosen], part[chosen], request[chosen]
    cut = np.flatnonzero(request != NA)
    turn = end.copy()
    if seen.requests is not None and len(cut):
        came = np.minimum(seen.requests.time_ns[request[cut]], end[cut])
        turn[cut] = np.where(end[cut] - came > seen.reaction_ns, np.maximum(came, begin[cut]), end[cut])
        what = what.copy()
        what[cut] = int(Part.PEER)
    own_ns, repair_ns = _of_the_peer(seen, request, turn - begin, is_first=chosen == 0)
    repaired = turn - repair_ns
    own = repaired - own_ns
    waits = np.full(len(end), int(Part.LATENCY))
    begins = np.concatenate([begin, own, repaired, turn])
    ends = np.concatenate([own, repaired, turn, end])
    parts = np.concatenate(
        [waits, what, np.full(len(end), int(Part.REPAIR)), np.full(len(end), int(Part.THINK))]
    )
    some = np.flatnonzero(ends > begins)
    order = some[np.argsort(begins[some], kind="stable")]
    return Pauses(begins[order], ends[order], parts[order])


def _of_the_peer(seen: Observed, request: Array, wait_ns: Array, *, is_first: Array) -> tuple[Array, Array]:
    """Return how much of each wait for a request the peer let pass, and how much a repair took.

    The rest is a round trip, at least the shortest. Where only the sender's capture is there, all above one
    is the peer's. A wait without a request is not cut: all of it is returned as the first.
    """
    trip_ns = np.where(is_first & seen.peer_begins, 0, seen.floor_ns)
    above_ns = np.where(wait_ns > _ROUND * trip_ns, wait_ns - trip_ns, 0)
    repair_ns = np.zeros(len(wait_ns), dtype=np.int64)
    if seen.requests is None or not len(seen.requests.time_ns):
        return wait_ns, repair_ns
    waited_ns, repair_ns = seen.requests.waited_ns[request], seen.requests.repair_ns[request]
    most_ns = np.where(waited_ns == NA, above_ns, np.maximum(wait_ns - trip_ns, 0))
    repair_ns = np.minimum(repair_ns, most_ns)
    seen_ns = np.clip(waited_ns - repair_ns, 0, np.maximum(wait_ns - trip_ns - repair_ns, 0))
    own_ns = np.where(waited_ns == NA, above_ns - repair_ns, seen_ns)
    cut = request != NA
    return np.where(cut, own_ns, wait_ns), np.where(cut, repair_ns, 0)
