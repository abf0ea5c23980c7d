"""Idle gaps: intervals in which the sending TCP had nothing to send, and outages.

`idle_gaps` finds intervals limited by the application. If the peer sends requests, a gap is divided into the
time of each program. `idle_spans` finds idle gaps in a receiver's capture after all data were acknowledged.
The next segment shows the reason by its timestamps (RFC 7323) and its IP identification: whether the sender
had received the last ACK, and whether it had sent a packet that was lost. `outages` finds intervals in which
nothing arrived although data were outstanding, and at least one retransmission was lost as well.
"""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import BLOCK_ROWS, indexes, median, places
from multitracer.diagnosis.limits.names import LimitSubtype, Viewpoint
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import IdleGaps, Observed
    from multitracer.tables import Array

_LONG_GAP = 0.5
"""Part of a round trip: no pacer leaves a longer gap (limits.md)."""
_SERVICES = 4.0
"""Factor above the median spacing of segments: a segment that comes later was not queued behind the one before."""
_RECENT = 1.5
"""Round trips within which a segment that was not full shows that the send queue was empty."""

_SMALL = 0.9  # of a full segment: options take some of it. Not measured
_AT_ONCE = 3  # small segments that leave behind an unacknowledged one show that Nagle's algorithm is off. Not measured

_NEARLY_ALL = 0.8  # of the gaps of a burst: others end late where the sending host is busy. Not measured


class SenderIdleGaps(NamedTuple):
    """Intervals without data to send, divided where the peer sent a request.

    Begin and end are int64, ns, `part` holds codes of `LimitSubtype`; all have shape (n,).
    """

    begin: Array
    end: Array
    part: Array

    @property
    def spans(self) -> Spans:
        """The union of all intervals, as disjoint intervals."""
        return Spans.of(self.begin, self.end)


def has_nodelay(seen: Observed) -> bool:
    """Return whether small segments left though no ACK of a small one before can have come: TCP_NODELAY was set.

    Nagle's algorithm holds each of them back (RFC 9293, section 3.7.4). The last one may carry the FIN, which it
    lets pass.
    """
    sends, fresh = seen.sends, seen.fresh[:-1]
    small = sends.end[fresh] - sends.begin[fresh] < _SMALL * seen.mss_bytes
    before, after = fresh[:-1], fresh[1:]
    chosen = small[:-1] & small[1:] & (sends.begin[after] == sends.end[before])
    chosen &= sends.time_ns[after] - sends.time_ns[before] < _LONG_GAP * seen.floor_ns
    chosen &= seen.acknowledged(sends.time_ns[after]) < sends.end[before]
    return int(np.count_nonzero(chosen)) >= _AT_ONCE


def within_writes(seen: Observed) -> Spans:
    """Return the intervals between new segments, neither of which ends a write, by the PSH flag.

    TCP sets PSH in the last segment that it has (RFC 9293, section 3.9.1.2).
    """
    each, chosen = _within_writes(seen)
    return Spans.of(each.begin[chosen], each.end[chosen])


def unfinished_writes(seen: Observed) -> Spans:
    """Return the intervals within writes in which a full segment waited to be sent.

    Less than that waits where Nagle's algorithm joins two writes. This ends when the program writes: seldom when an ACK
    comes, as nearly all gaps of a burst do which the congestion window ends, and not before the first data of a burst
    can be acknowledged. A receiver does not know well enough when ACKs came.
    """
    each, chosen = _within_writes(seen)
    is_first = each.is_empty
    burst = np.cumsum(is_first)
    is_late = each.end - each.end[np.maximum.accumulate(np.where(is_first, np.arange(len(burst)), 0))] >= seen.floor_ns
    waits = is_late & (each.end - each.begin > seen.reaction_ns)
    many, woken = (np.bincount(burst, which, minlength=1) for which in (waits, waits & each.woken))
    follows = (woken >= _NEARLY_ALL * many)[burst] & (seen.view is not Viewpoint.RECEIVER)
    chosen &= ~is_first & (~is_late | (each.woken & follows))
    return Spans.of(each.begin[chosen], each.end[chosen])


def _within_writes(seen: Observed) -> tuple[IdleGaps, Array]:
    """Return the gaps between new segments, and which of them neither begin nor end with the end of a write: bool."""
    sends, fresh = seen.sends, seen.fresh
    is_open = ~sends.pushed[fresh] & (sends.end[fresh] - sends.begin[fresh] >= seen.mss_bytes)
    chosen = np.zeros(len(fresh), dtype=bool)
    if not is_open.all():  # else nothing shows where writes end
        chosen[1:] = is_open[1:] & is_open[:-1] & (sends.begin[fresh[1:]] == sends.end[fresh[:-1]])
    return seen.gaps, chosen


def idle_gaps(seen: Observed, still: IdleSpans) -> SenderIdleGaps:
    """Return the intervals in which the sending TCP had nothing to send.

    A gap in which the peer sent a request is divided between the two programs. `still` are idle gaps that a
    receiver's capture shows.
    """
    each = seen.gaps
    if not len(each.end):
        empty = np.empty(0, dtype=np.int64)
        return SenderIdleGaps(empty, empty, empty)
    small = (seen.sends.end - seen.sends.begin)[each.ended_by] < seen.mss_bytes
    unqueued = ~each.woken | seen.writes_alone

    # the peer's last request within each gap
    request = np.full(len(each.end), NA, dtype=np.int64)
    if seen.requests is not None and len(seen.requests.time_ns):
        at = np.searchsorted(seen.requests.time_ns, each.end + seen.slack_ns, side="right") - 1
        came = np.minimum(seen.requests.time_ns[np.maximum(at, 0)], each.end)
        request = np.where((at >= 0) & (came >= each.begin), at, NA)
    answering = each.is_empty & (request != NA) & ~(seen.sends.missing[each.ended_by] > 0)

    # a small segment waited for the ACK of nothing but a small one (RFC 896)
    nagle = each.woken & small & np.concatenate([[False], small[:-1]])
    nagle &= (each.outstanding > 0) & (each.outstanding < seen.mss_bytes)
    shown = unqueued & _is_silent(seen, each)
    if seen.state is not None:  # in which gaps the kernel was read, and in which it then had nothing unsent
        read = indexes(seen.state["notsent_bytes"] != NA)
        read = read[np.argsort(seen.state["time_ns"][read], kind="stable")]
        time_ns, zeros = seen.state["time_ns"][read], seen.state["notsent_bytes"][read] == 0
        first, behind = np.searchsorted(time_ns, each.begin, "right"), np.searchsorted(time_ns, each.end)
        many = np.append(0, np.cumsum(zeros))
        is_unsent = (many[behind] > many[first]) & (unqueued | each.is_empty)
        shown = np.where(behind > first, is_unsent, shown)
    shown = shown | answering | nagle
    after_idle = np.zeros(len(seen.sends), dtype=bool)
    after_idle[still.idle] = True
    in_idle_gap = after_idle[each.ended_by]
    last = seen.sends.time_ns[np.maximum(each.ended_by - 1, 0)]  # sent again, where a gap holds more
    each = each._replace(begin=np.where(in_idle_gap & ~shown, np.maximum(each.begin, last), each.begin))
    chosen = indexes(shown | in_idle_gap)
    is_held = nagle & (not has_nodelay(seen)) if nagle.any() else nagle
    part = np.where(is_held, int(LimitSubtype.NAGLE), int(LimitSubtype.WRITES))
    return _cut(seen, each, chosen, part, request)


def may_be_losses(seen: Observed, idle: SenderIdleGaps) -> Array:
    """Return which idle gaps of the sender, seen at the receiver, may have been losses as well: bool, shape (n,).

    What ends a gap may have been sent before, and lost: only numbers of the sender's packets (IP identification) show
    that it was not. So it is where the receiver's program sent a request again: what got lost was the request, or its
    answer. Gaps that are as long as the others are no losses, nor is the wait for the receiver's own program.
    """
    length_ns = idle.end - idle.begin
    none = np.zeros(len(length_ns), dtype=bool)
    if seen.view is not Viewpoint.RECEIVER or not len(length_ns) or (seen.sends.missing != NA).any():
        return none
    is_long = length_ns >= max(_SHORTEST_TIMEOUT_NS, seen.floor_ns) - seen.stamp_tick_ns
    is_long &= length_ns > _UNLIKE * _median_of_others(length_ns)
    is_own = np.isin(idle.part, (LimitSubtype.WRITES, LimitSubtype.THINK))
    return np.asarray((is_long & is_own) | (idle.part == LimitSubtype.REPAIR))


def _median_of_others(values: Array) -> Array:
    """Return for each value the median of all others, 0 without others: float64, shape (n,)."""
    others = len(values) - 1
    if not others:
        return np.zeros(1)
    order = values.argsort(kind="stable")
    rank, ordered = np.empty(len(values), dtype=np.int64), values[order]
    rank[order] = np.arange(len(values))
    low, high = (ordered[at + (rank <= at)] for at in ((others - 1) // 2, others // 2))
    return np.asarray((low + high) / 2)


_UNLIKE = 4.0  # so many times as long as the typical other one, a gap has a cause of its own. Not measured


def _is_silent(seen: Observed, each: IdleGaps) -> Array:
    """Return which gaps are times without data to send: the application was idle (bool).

    Such a gap is long, or no data were outstanding at its end, or a segment that was not full was sent
    shortly before. In addition, a write ended before it, and no packet was lost or late in it. Gaps whose end
    waited in a queue are not examined.
    """
    sends = seen.sends

    # no pacer leaves so long a gap; on a slow link it sends less than twice a round trip
    spacing = np.diff(sends.time_ns)
    spacing = spacing[spacing > 0]
    middle = median(spacing) if len(spacing) else 0.0
    long = each.end - each.begin > max(_LONG_GAP * seen.floor_ns, _SERVICES * middle)
    small_ns = sends.time_ns[(sends.end - sends.begin < seen.mss_bytes) & ~sends.again]
    at = np.searchsorted(small_ns, each.end, side="left") - 1
    since_ns = each.end - np.append(small_ns, 0)[np.maximum(at, 0)]
    small_before = (at >= 0) & (since_ns <= _RECENT * max(seen.floor_ns, 1))
    idle = each.is_empty | long | small_before
    wrote = each.ended_by == 0
    wrote[1:] = each.ended_by[1:] - each.ended_by[:-1] == 1  # who sends again meanwhile is not idle
    wrote[1:] &= sends.pushed[each.ended_by[:-1]]
    if seen.view is not Viewpoint.RECEIVER:
        wrote |= each.is_empty
    lost = sends.missing[each.ended_by] > 0
    late = np.zeros(len(each.end), dtype=bool) if seen.late_answer is None else seen.late_answer[each.ended_by]
    return np.asarray(idle & wrote & ~lost & ~late)


ROUND = 1.3
"""Factor for a round trip that takes longer than the shortest (limits.md)."""


def _cut(seen: Observed, each: IdleGaps, chosen: Array, part: Array, request: Array) -> SenderIdleGaps:
    """Return the chosen gaps; a gap in which the peer sent a request is divided into up to four parts.

    They are the transit of data and request (at least the shortest round trip), the peer's own time, the
    repair of losses, and the time of the sender's program. With only the sender's capture, all time above the
    round trip is the peer's.
    """
    blocks = [
        _cut_block(seen, each, chosen[first : first + BLOCK_ROWS], part, request)
        for first in range(0, max(len(chosen), 1), BLOCK_ROWS)
    ]
    begins, ends, parts = (np.concatenate(column) for column in zip(*blocks, strict=True))
    if (begins[1:] < begins[:-1]).any():
        order = np.argsort(begins, kind="stable")
        begins, ends, parts = begins[order], ends[order], parts[order]
    return SenderIdleGaps(begins, ends, parts)


def _cut_block(
    seen: Observed, each: IdleGaps, chosen: Array, part: Array, request: Array
) -> tuple[Array, Array, Array]:
    """Return begin, end and part of what `_cut` divides some of the chosen gaps into, in order."""
    begin, end, what, request = each.begin[chosen], each.end[chosen], part[chosen], request[chosen]
    cut = indexes(request != NA)
    turn = end.copy()
    if seen.requests is not None and len(cut):
        came = np.minimum(seen.requests.time_ns[request[cut]], end[cut])
        turn[cut] = np.where(end[cut] - came > seen.reaction_ns, np.maximum(came, begin[cut]), end[cut])
        what = what.copy()
        what[cut] = int(LimitSubtype.PEER)
    wait_ns = own_ns = turn - begin
    repair_ns = np.zeros(len(wait_ns), dtype=np.int64)
    if seen.requests is not None and len(seen.requests.time_ns):
        trip_ns = np.where((chosen == 0) & seen.peer_begins, 0, seen.floor_ns)
        above_ns = np.where(wait_ns > ROUND * trip_ns, wait_ns - trip_ns, 0)
        waited_ns, repair_ns = seen.requests.waited_ns[request], seen.requests.repair_ns[request]
        most_ns = np.where(waited_ns == NA, above_ns, np.maximum(wait_ns - trip_ns, 0))
        repair_ns = np.minimum(repair_ns, most_ns)
        seen_ns = np.minimum(np.maximum(waited_ns - repair_ns, 0), np.maximum(wait_ns - trip_ns - repair_ns, 0))
        own_ns = np.where(waited_ns == NA, above_ns - repair_ns, seen_ns)
        own_ns = np.where(request != NA, own_ns, wait_ns)
        repair_ns = np.where(request != NA, repair_ns, 0)
    repaired = turn - repair_ns
    own = repaired - own_ns
    divided = [
        (begin, own, LimitSubtype.LATENCY), (own, repaired, what),
        (repaired, turn, LimitSubtype.REPAIR), (turn, end, LimitSubtype.THINK),
    ]  # fmt: skip
    begins, ends, parts = (np.concatenate(column) for column in zip(*starmap(_filled, divided), strict=True))
    order = np.argsort(begins, kind="stable")
    return begins[order], ends[order], parts[order]


def _filled(begin: Array, end: Array, part: Array | LimitSubtype) -> tuple[Array, Array, Array]:
    """Return the intervals that are not empty, with their parts."""
    some = end > begin
    parts = part[some] if isinstance(part, np.ndarray) else np.full(np.count_nonzero(some), part.value)
    return begin[some], end[some], parts.astype(np.int16)


UNEXPLAINED = "all that had arrived was acknowledged, and a capture at the receiver does not show why nothing came"
_TIMER_NS = 200_000_000
"""Linux's minimum retransmission timeout beyond the round trip, in ns."""
_UNTIMED_NS = 1_000_000_000
"""The retransmission timeout without a measured round trip, in ns (RFC 6298, section 2.1)."""


class IdleSpans(NamedTuple):
    """Idle gaps without outstanding data, longer than a retransmission timeout, by their reason."""

    idle: Array
    """Indexes in `sends` of segments that ended a gap in which the sender had received all ACKs and no packet
    of it was lost: it had nothing to send."""
    silent: Spans
    """These gaps, from the time when the sender had received all ACKs."""
    unheard: Spans
    """Gaps after which delivered data were sent again, and new data followed at once: the ACKs were lost."""
    unexplained: Spans
    """Gaps without a known reason."""


def idle_spans(seen: Observed) -> IdleSpans:
    """Return the idle gaps of a receiver's capture in which no data were outstanding.

    They are empty for other captures.
    """
    sends = seen.sends
    if seen.view is not Viewpoint.RECEIVER or len(sends) < 2 or not len(seen.answers):
        return IdleSpans(np.empty(0, dtype=np.int64), Spans.none(), Spans.none(), Spans.none())
    came_ns = seen.soonest_answer_ns
    over = places(seen.answers.ack, seen.highest[:-1])  # the first answer that covers all sent before
    covered_ns = np.append(seen.answers.time_ns, np.iinfo(np.int64).max)[over]
    end = sends.time_ns[1:]
    spoke_ns = seen.answers.time_ns[seen.last_answer(end + seen.slack_ns)]  # a window may have opened
    heard_ns = np.maximum(np.maximum(covered_ns, came_ns[:-1]), spoke_ns)
    copy = sends.again & ~sends.needed
    alone = end - sends.time_ns[:-1] > max(_TIMER_NS, seen.trip_ns)
    in_vain = copy[1:] & alone & (covered_ns < end) & _follow_at_once(seen, came_ns)[1:]
    timeout_ns = _TIMER_NS + seen.trip_ns if seen.trip_ns else _UNTIMED_NS
    long = ~sends.again[1:] & (end - heard_ns > timeout_ns + seen.floor_ns)
    idle = long & _nothing_lost(seen)[1:]
    unexplained = long & ~idle & ~(sends.missing[1:] > 0)  # what is missing was lost: its repair ended it
    return IdleSpans(
        indexes(idle) + 1,
        Spans.of(heard_ns[idle], end[idle]),
        Spans.of(covered_ns[in_vain], came_ns[1:][in_vain]),
        Spans.of(heard_ns[unexplained], end[unexplained]),
    )


def _nothing_lost(seen: Observed) -> Array:
    """Return for which sends nothing was lost before them: no packet of the sender, and not the last ACK.

    Missing packets do not count if they are exactly the segments before this one: they were not sent again,
    so they left together with it, after the gap.
    """
    sends = seen.sends
    skipped = sends.begin - seen.acknowledged(sends.time_ns, side="left")
    nothing = np.asarray(sends.missing == -(-np.maximum(skipped, 0) // max(seen.mss_bytes, 1)))
    echoed_ns, late = seen.echoed_ns, seen.late_answer
    echoing = np.empty(0, dtype=bool) if echoed_ns is None else echoed_ns != NA
    if late is None or not echoing.any():  # no timestamps: it would have sent again by now
        return nothing
    return np.asarray(nothing & echoing & ~late)


def _follow_at_once(seen: Observed, came_ns: Array) -> Array:
    """Return after which sends new data followed within `_TIMER_NS` of the answer: bool.

    `came_ns` is the time at which the answer to each send reached the sender.
    """
    fresh_ns = np.append(seen.sends.time_ns[seen.fresh], np.iinfo(np.int64).max)
    following_ns = fresh_ns[np.searchsorted(seen.fresh, np.arange(len(seen.sends)), side="right")]
    return np.asarray(following_ns - came_ns <= _TIMER_NS)


_ANSWERED = 0.8
"""Minimum part of the shortest round trip between a retransmission and its answer."""
_LATE_NS, _LATE_ROUNDS = 500 * NS_PER_MS, 4
"""Maximum time between a retransmission and its answer, in ns and in round trips, though ACKs wait in queues; after a
longer one something else was answered. Not measured alone."""
_TRIES_AT_RECEIVER = 3
"""A gap of this many minimum timeouts contains at least one lost retransmission, because the timeouts double."""
_FEWEST_MISSING = 3
"""Minimum number of packets lost in a gap, if the sender numbers its packets (limits.md)."""
_FEWEST_REPEATED = 2
"""Minimum number of retransmissions of delivered data, a timeout apart: one alone may be a tail loss probe."""
_SHORTEST_TIMEOUT_NS = 200_000_000  # Linux, TCP_RTO_MIN: 200 ms


class FailedRetransmissionGaps(NamedTuple):
    """Intervals without arrivals in which retransmissions were lost."""

    spans: Spans
    certain_end: Array
    """Time of the last lost retransmission, in ns: the outage is certain until then, and possible after it."""
    part: Array
    late: Spans
    """Intervals in which a timer sent again what was only late: the path had it all the time."""


def outages(seen: Observed) -> FailedRetransmissionGaps:
    """Return the intervals without arrivals in which a retransmission was lost too, in order of time."""
    holes = _at_receiver(seen) if seen.view is Viewpoint.RECEIVER else _at_sender(seen)
    rows: list[tuple[int, int, int, int]] = []
    for since, end, certain, part in sorted(holes):  # lost data and lost ACKs of one time are one outage
        begin = max(since, rows[-1][1]) if rows else since
        if end > begin >= seen.opened_ns:
            rows.append((begin, end, max(certain, begin), part))
    columns = [np.array([row[i] for row in rows], dtype=np.int64) for i in range(4)]
    needless = seen.sends.by_timer & ~seen.sends.needed
    is_late = needless.any() and seen.view is not Viewpoint.RECEIVER
    late = _late(seen, indexes(needless)) if is_late else Spans.none()
    return FailedRetransmissionGaps(Spans(columns[0], columns[1]), columns[2], columns[3], late)


def _late(seen: Observed, tries: Array) -> Spans:
    """Return the intervals from when an answer was due until it came, in which the timer sent again in vain.

    An answer that the other capture shows to be lost was not late: what came in its place answers something else.
    """
    time = seen.sends.time_ns[tries]
    before = seen.last_answer(time)
    acked = np.append(seen.answers.ack, 0)[before]
    beyond = np.searchsorted(seen.highest, acked, side="right")  # the first send that goes beyond
    due_ns = np.append(seen.sends.time_ns, seen.end_ns)[beyond] + seen.floor_ns
    came_ns = np.append(seen.answers.time_ns, seen.end_ns)[before + 1]
    begin, end = np.minimum(due_ns, time), np.maximum(came_ns, time)
    if seen.lost_answers_ns is None:
        return Spans.of(begin, end)
    lost = np.searchsorted(seen.lost_answers_ns, begin - seen.floor_ns) < np.searchsorted(seen.lost_answers_ns, time)
    return Spans.of(begin[~lost], end[~lost])


def _at_sender(seen: Observed) -> list[tuple[int, int, int, int]]:
    """Return (begin, end, certain end, subtype) of each gap with a lost retransmission; times in ns.

    The outage is certain until the last lost retransmission. Unneeded ones are left out: what was sent first came late,
    but it came, and nothing shows that they were lost.
    """
    tries = indexes(seen.sends.by_timer & seen.sends.needed)
    if not len(tries):
        return []
    time = seen.sends.time_ns[tries]
    before = seen.last_answer(time)
    first = indexes(np.diff(before, prepend=-2))
    last = np.append(first[1:], len(tries))

    # from when each answer was due that did not come: the last thing heard, or what was sent first after a
    # pause
    answer, came = before[first], seen.answers.time_ns
    there = answer >= 0
    last_ack_ns, acked = np.full(len(answer), seen.begin_ns), np.zeros(len(answer), dtype=np.int64)
    last_ack_ns[there], acked[there] = came[answer[there]], seen.answers.ack[answer[there]]
    beyond = np.searchsorted(seen.highest, acked, side="right")  # the first that goes beyond
    begin = np.maximum(last_ack_ns, np.append(seen.sends.time_ns, np.iinfo(np.int64).min)[beyond])
    end, is_ended = np.append(came, seen.end_ns)[answer + 1], answer + 1 < len(came)
    of = np.repeat(np.arange(len(first)), last - first)
    in_time = np.add.reduceat(time <= end[of] - int(_ANSWERED * seen.floor_ns), first, dtype=np.int64)
    tried_ns = time[first + np.maximum(in_time - 1, 0)]
    is_answer = end - tried_ns <= max(_LATE_NS, int(_LATE_ROUNDS * seen.floor_ns))  # else the last one failed, too
    failed = np.where(is_ended, in_time - is_answer, last - first)
    over = np.where(is_ended & (in_time > 0), np.where(is_answer, tried_ns, end - seen.floor_ns), end)
    holes = []
    for at in indexes(failed > 0).tolist():
        group, part = tries[first[at] : first[at] + failed[at]], LimitSubtype.NONE
        lost, lost_acks_ns = seen.sends.lost[group], seen.lost_answers_ns  # as the other capture shows
        if (lost == 0).any():
            part = LimitSubtype.ACKS
        elif (lost == 1).any() and lost_acks_ns is not None:
            both = ((lost_acks_ns >= begin[at]) & (lost_acks_ns < end[at])).any()
            part = LimitSubtype.BOTH if both else LimitSubtype.DATA
        holes.append((int(begin[at]), int(over[at]), int(seen.sends.time_ns[group[-1]]), int(part)))
    return holes


def _at_receiver(seen: Observed) -> list[tuple[int, int, int, int]]:
    """Return the gaps, longer than one timeout, that ended with the oldest missing data.

    Items are those of `_at_sender`. Each gap begins when the answer to the data before it had reached the sender.
    """
    sends = seen.sends
    ends = indexes(sends.by_timer)
    minimum = _TRIES_AT_RECEIVER * max(_SHORTEST_TIMEOUT_NS, seen.floor_ns, seen.trip_ns)
    begin = sends.time_ns[np.maximum(ends - 1, 0)]
    length = sends.time_ns[ends] - begin
    oldest = sends.begin[ends] <= seen.acknowledged(sends.time_ns[ends])
    unexplained = sends.missing[ends] == NA
    enough = unexplained | (sends.missing[ends] >= _FEWEST_MISSING)
    long = indexes((length > minimum) & oldest & enough & (ends > 0))
    answered_ns = np.maximum.accumulate(seen.soonest_answer_ns)[np.maximum(ends - 1, 0)]
    lost = [(int(answered_ns[i]), int(begin[i] + length[i]), int(answered_ns[i]), int(LimitSubtype.NONE)) for i in long]
    return sorted([*lost, *_without_acks(seen)])


def _without_acks(seen: Observed) -> list[tuple[int, int, int, int]]:
    """Return the intervals in which all arriving data had arrived before, so ACKs were lost.

    Items are those of `_at_sender`. Retransmissions that were sent before the first copy arrived do not
    count: they only show that it was late.
    """
    sends = seen.sends
    known = sends.again & ~sends.needed & (sends.end <= seen.acknowledged(sends.time_ns))
    apart = np.diff(sends.time_ns, prepend=sends.time_ns[:1]) > max(_SHORTEST_TIMEOUT_NS, seen.trip_ns)
    tries = indexes(known & apart)
    holes = []
    for group in np.split(tries, indexes(np.diff(np.searchsorted(seen.fresh, tries))) + 1):
        if len(group) < _FEWEST_REPEATED:
            continue
        after = seen.fresh[np.searchsorted(seen.fresh, group[-1]) :]
        begin = int(sends.time_ns[group[0] - 1]) + seen.floor_ns
        end = int(sends.time_ns[group[-1]]) if len(after) else seen.end_ns
        holes.append((begin, end, int(sends.time_ns[group[-2]]), int(LimitSubtype.ACKS)))
    return holes
