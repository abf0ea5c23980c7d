"""The limit at each instant: the first limit, in a fixed order, that the evidence shows.

The evidence comes from `link`, `gaps` and `windows`; holes that wait for a retransmission are found here.
Times are judged in units of a round trip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct, indexes, taken
from multitracer.analysis.parallel import meanwhile
from multitracer.diagnosis.limits.gaps import (
    ROUND,
    FailedRetransmissionGaps,
    SenderIdleGaps,
    has_nodelay,
    idle_gaps,
    idle_spans,
    may_be_losses,
    outages,
)
from multitracer.diagnosis.limits.link import Busy, busy
from multitracer.diagnosis.limits.names import Limit, LimitSubtype, Viewpoint
from multitracer.diagnosis.limits.observed import not_captured
from multitracer.diagnosis.limits.pace import Pace, buffer_was_full, pace
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.limits.windows import (
    FullWindow,
    fills_window,
    full_buffer,
    full_congestion_window,
    full_window,
    is_spaced,
    slow_start,
    small_writes,
    steady_flight,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.limits.gaps import IdleSpans
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

_REST = (Limit.SLOW_START, Limit.CONGESTION_WINDOW)
_LASTING = (Limit.LINK, Limit.RECEIVER_WINDOW, Limit.SENDER_BUFFER)
_IS_REST, _IS_LASTING = (np.array([each in some for each in Limit]) for some in (_REST, _LASTING))
"""For each limit by its number, whether it is one of these; faster than `np.isin` for connections of few packets."""


class Cells(NamedTuple):
    """The intervals of a transfer, in order and without gaps, with the limit of each."""

    begin: Array
    end: Array
    limit: Array
    part: Array
    possible: Array
    """Whether the limit is possible, not certain."""

    def joined(self) -> Cells:
        """Return the cells with equal neighbours merged."""
        some = indexes(self.end > self.begin)
        begin, end, limit, part, possible = (column[some] for column in self)
        first, last = np.ones((2, len(some)), dtype=bool)
        first[1:] = (limit[1:] != limit[:-1]) | (part[1:] != part[:-1]) | (possible[1:] != possible[:-1])
        last[:-1] = first[1:]
        return Cells(begin[first], end[last], limit[first], part[first], possible[first])


@dataclass(frozen=True)
class RuleEvidence:
    """For each rule, the intervals in which its limit may have been in effect."""

    out: FailedRetransmissionGaps
    link: Busy
    hole: LossHoles
    window: FullWindow
    buffer: Spans
    cwnd: Spans
    steady: Spans
    spaced: Spans
    """When data left at one rate of the sender's host: a shaper's, or a pacer's."""
    parts: Spans
    """When a part of a segment was unsent, by the kernel's variables: Nagle's algorithm held it."""
    idle_gap: SenderIdleGaps
    slow: Spans
    missing: Spans
    unexplained: Spans
    pace: Pace

    @classmethod
    def of(cls, seen: Observed) -> RuleEvidence:
        """Return the intervals that each rule finds."""
        with meanwhile(len(seen.sends), lambda: busy(seen)) as link_of:
            still, missing = idle_spans(seen), not_captured(seen)
            idle_gap = idle_gaps(seen, still)
            is_known = seen.state is not None or seen.view is Viewpoint.BOTH_ENDS
            steady = Spans.none() if is_known else steady_flight(seen, missing)
            out, hole, window = outages(seen), holes(seen, still), full_window(seen)
            buffer, cwnd, parts = full_buffer(seen), full_congestion_window(seen), small_writes(seen)
        spaced = Spans.none()
        if seen.view is Viewpoint.RECEIVER and fills_window(seen, steady):
            window, steady = window._replace(spans=window.spans.union(steady)), Spans.none()
        link = link_of()
        whose = pace(seen, window.spans, buffer, steady, link)
        link = link.without(whose.refuted).behind(whose.host, seen)
        is_host_unseen = seen.host_delay_ns is None or whose.host.total_ns > 0  # its queue is shorter than a tick
        if seen.view is Viewpoint.SENDER and is_host_unseen and is_spaced(seen, steady):
            spaced, steady = steady, Spans.none()
        slow = slow_start(seen, link.spans, idle_gap.spans)
        seen.forget_gaps()
        unknown = missing, still.unexplained
        return cls(out, link, hole, window, buffer, cwnd, steady, spaced, parts, idle_gap, slow, *unknown, whose)


def partition(seen: Observed, shown: RuleEvidence) -> Cells:
    """Return the limit at each moment from the begin to the end of the transfer."""
    edges = _edges(seen, shown)
    begin, end = edges[:-1], edges[1:]
    limit = np.full(len(begin), Limit.CONGESTION_WINDOW.value, dtype=np.int16)
    part = np.zeros(len(begin), dtype=np.int16)
    possible = np.zeros(len(begin), dtype=bool)
    for where, its_limit, its_part, certain in _rules(seen, shown, begin):
        limit[where] = its_limit.value
        part[where] = its_part
        possible[where] = ~certain[where] if isinstance(certain, np.ndarray) else not certain
    cells = Cells(begin, end, limit, part, possible).joined()
    del edges, begin, end, limit, part, possible
    cells = _complete_rounds(cells, seen, shown.cwnd)
    return _with_idle_link(cells, shown.link.idle).joined()


def _with_idle_link(cells: Cells, idle: Spans | None) -> Cells:
    """Return the cells, in which the congestion window is the limit only where the link is known to have had room.

    A receiver does not know that window. Where nothing shows that the link had room, it may have been the limit.
    """
    rest = cells.limit == Limit.CONGESTION_WINDOW.value
    if idle is None or not rest.any():
        return cells
    begin, end = cells.begin[0], cells.end[-1]
    inner = [edge[(edge > begin) & (edge < end)] for edge in idle]
    edges = distinct(np.concatenate([cells.begin, cells.end[-1:], *inner]))
    of = np.searchsorted(cells.begin, edges[:-1], side="right") - 1
    limit, part, possible = cells.limit[of], cells.part[of], cells.possible[of]
    full = rest[of] & ~idle.holds(edges[:-1])
    limit[full], possible[full] = Limit.LINK.value, True
    return Cells(edges[:-1], edges[1:], limit, part, possible)


def _edges(seen: Observed, shown: RuleEvidence) -> Array:
    """Return the times at which what holds may change, from the begin to the end of the transfer."""
    spans = (
        shown.out.spans, shown.link.spans, shown.hole.spans, shown.window.spans, shown.window.zero,
        shown.buffer, shown.steady, shown.spaced, shown.parts, shown.slow,
        Spans(shown.idle_gap.begin, shown.idle_gap.end), shown.missing, shown.unexplained, shown.out.late,
        shown.link.by_bucket, *shown.pace,
    )  # fmt: skip
    held = [edge for each in spans if len(each.begin) for edge in each]
    last = seen.sends.time_ns[seen.fresh[-1:]]
    bounds = [seen.begin_ns, seen.opened_ns, seen.end_ns]
    edges = distinct(np.concatenate([*held, shown.out.certain_end, last, np.array(bounds, dtype=np.int64)]))
    return np.asarray(edges[(edges >= seen.begin_ns) & (edges <= seen.end_ns)])


def _rules(
    seen: Observed, shown: RuleEvidence, begin: Array
) -> Iterator[tuple[Array, Limit, Array | int, Array | bool]]:
    """Yield where each rule holds (bool), its limit, its part there, and whether that is certain; the last one wins.

    One after the other, as of a long transfer each takes megabytes. Of a short connection few of them apply.
    """

    def held(
        spans: Spans, limit: Limit, part: LimitSubtype = LimitSubtype.NONE, *, certain: Array | bool = True
    ) -> Iterator[tuple[Array, Limit, int, Array | bool]]:
        if len(spans.begin):
            yield spans.holds(begin), limit, part.value, certain

    pace = shown.pace
    yield from held(shown.slow, Limit.SLOW_START)
    yield from held(shown.steady, Limit.SENDER_BUFFER, certain=False)
    yield from held(shown.spaced, Limit.LINK, LimitSubtype.HOST, certain=False)
    yield from held(pace.even, Limit.APPLICATION, LimitSubtype.WRITES, certain=False)
    yield from held(pace.acks, Limit.LINK, LimitSubtype.ACKS, certain=False)
    yield from held(shown.unexplained, Limit.UNKNOWN)
    yield from held(pace.writes, Limit.APPLICATION, LimitSubtype.WRITES)
    idle_gap = Spans(shown.idle_gap.begin, shown.idle_gap.end).which(begin)
    is_idle = ~taken(may_be_losses(seen, shown.idle_gap), idle_gap, before=False)
    yield idle_gap >= 0, Limit.APPLICATION, shown.idle_gap.part[idle_gap[idle_gap >= 0]], is_idle
    del idle_gap, is_idle
    if shown.parts.total_ns:
        part = LimitSubtype.WRITES if has_nodelay(seen) else LimitSubtype.NAGLE
        yield from held(shown.parts, Limit.APPLICATION, part)
    yield from held(pace.at_rate, Limit.LINK, certain=False)
    is_counted = buffer_was_full(seen)  # else a program that writes when ACKs come may look the same
    yield from held(pace.buffer, Limit.SENDER_BUFFER, certain=is_counted)
    yield from held(shown.buffer, Limit.SENDER_BUFFER, certain=is_counted)
    yield from held(shown.window.spans, Limit.RECEIVER_WINDOW)
    yield from held(shown.window.zero, Limit.RECEIVER_WINDOW, LimitSubtype.ZERO)
    yield from held(shown.out.late, Limit.LINK, certain=False)
    hole = shown.hole.spans.which(begin)
    yield hole >= 0, Limit.RECOVERY, shown.hole.part[hole[hole >= 0]], True
    del hole
    doubtful = pace.doubtful.holds(begin)
    if not seen.one_way and seen.writes_alone:  # one segment is no queue of its own, and lost ACKs look like one
        doubtful[:] = True
    yield from held(shown.link.spans, Limit.LINK, certain=~doubtful)
    yield from held(shown.link.by_bucket, Limit.LINK, LimitSubtype.POLICER)
    yield from held(pace.host, Limit.LINK, LimitSubtype.HOST)
    out = shown.out.spans.which(begin)
    is_out = out >= 0
    yield is_out, Limit.OUTAGE, shown.out.part[out[is_out]], begin < taken(shown.out.certain_end, out, 0)
    yield from held(shown.missing, Limit.UNKNOWN)
    yield begin < seen.opened_ns, Limit.HANDSHAKE, LimitSubtype.NONE.value, True


def _complete_rounds(cells: Cells, seen: Observed, cwnd: Spans) -> Cells:
    """Return the cells, with limits extended into neighbouring cells that no rule claims.

    If one limit is in force within a round trip, and no other one, it holds for all of that round trip. A
    cell of the congestion window that is shorter than a round trip, between two cells of one other limit,
    gets that limit as well: a pacer may spread a window, or an ACK may be in transit. This is not done for
    the send buffer if the kernel's variables show a full congestion window for most of the cell. A receiver
    that reads slowly delays its ACKs, so that its round trips are longer than those of the path.

    After the last new segment nothing waits: the limit before it continues.
    """
    limit, part, possible = cells.limit.copy(), cells.part.copy(), cells.possible.copy()
    rest = _IS_REST[limit]
    before = np.concatenate([limit[:1], limit[:-1]])
    trip = np.where(before == Limit.RECEIVER_WINDOW.value, max(seen.floor_ns, seen.turn_ns), seen.floor_ns)
    short = cells.end - cells.begin < ROUND * trip
    same = np.zeros(len(limit), dtype=bool)
    same[1:-1] = (limit[:-2] == limit[2:]) & _IS_LASTING[limit[:-2]]
    held_by_cwnd = 2 * cwnd.overlap_ns(cells.begin, cells.end) > cells.end - cells.begin
    same &= (before != Limit.SENDER_BUFFER.value) | ~held_by_cwnd
    chosen = indexes(rest & short & same)
    limit[chosen], part[chosen] = limit[chosen - 1], part[chosen - 1]
    possible[chosen] |= possible[chosen - 1] | possible[chosen + 1]

    # after the last new segment
    last_ns = int(seen.sends.time_ns[seen.fresh[-1]]) if len(seen.fresh) else seen.begin_ns
    earlier = indexes(cells.begin < last_ns)
    if len(earlier):
        kept, kept_part, is_possible = int(limit[earlier[-1]]), part[earlier[-1]], possible[earlier[-1]]
        behind = (cells.begin >= last_ns) & _IS_REST[limit]
        if kept in (Limit.APPLICATION, Limit.HANDSHAKE):
            limit[behind], part[behind] = Limit.SLOW_START, LimitSubtype.NONE
        elif kept in (*_LASTING, *_REST):
            limit[behind], part[behind], possible[behind] = kept, kept_part, is_possible
    return cells._replace(limit=limit, part=part, possible=possible)


class LossHoles(NamedTuple):
    """Intervals in which the oldest outstanding byte was lost."""

    spans: Spans
    part: Array


def holes(seen: Observed, still: IdleSpans) -> LossHoles:
    """Return the intervals in which the oldest outstanding byte was lost.

    Each lasts from the time its ACK was due until the ACK of its retransmission arrived.
    """
    sends = seen.sends
    repairs = indexes(sends.needed)
    # silences before the next data whose last packets are known to be missing: a timer ended them; only a
    # receiver's capture has such, as what was lost and its repair look like new data there
    ended = indexes(sends.by_timer & ~sends.again & (sends.missing > 0))
    ended = ended[(ended > 0) & ~np.isin(ended, still.idle)] if len(ended) else ended
    by_timer = Spans.of(sends.time_ns[ended - 1] + seen.floor_ns, sends.time_ns[ended]).union(still.unheard)
    if not len(repairs) or not len(seen.answers):
        return LossHoles(by_timer, np.full(len(by_timer.begin), int(LimitSubtype.TIMER)))
    ack = seen.answers.ack
    over = np.searchsorted(ack, sends.begin[repairs], side="right")  # the first answer that passes the repair
    came = np.append(seen.answers.time_ns, seen.end_ns)[over]
    stalled = np.searchsorted(ack, sends.begin[repairs], side="left")  # the first that asks for it
    asks = np.append(seen.answers.time_ns, seen.end_ns)[np.minimum(stalled, over)]
    first = np.searchsorted(sends.begin[seen.fresh], sends.begin[repairs], side="right") - 1
    fresh = seen.fresh if len(seen.fresh) else repairs  # then none is known
    copy = fresh[np.maximum(first, 0)]  # what sent the first byte of each repair first, if that was seen
    known = (first >= 0) & (sends.end[copy] > sends.begin[repairs])
    due_ns = np.where(known, sends.time_ns[copy], seen.begin_ns) + seen.floor_ns
    begin = np.minimum(np.maximum(asks, due_ns), sends.time_ns[repairs])
    spans = Spans.of(begin, came).union(by_timer)
    if len(still.idle):  # nobody saw when the first copy of a lost segment left: not before the sender sent
        spans = spans.without(still.silent)
    which = spans.which(sends.time_ns[repairs])
    timed = np.zeros(len(spans.begin) + 1, dtype=bool)
    np.logical_or.at(timed, which, sends.by_timer[repairs])
    timed[spans.which(by_timer.end - 1)] = True
    return LossHoles(spans, np.where(timed[:-1], int(LimitSubtype.TIMER), int(LimitSubtype.FAST)))
