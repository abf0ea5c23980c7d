"""The window limits: which window the outstanding data fill.

The receiver's window is full if less than one segment fits into it. The send buffer and the congestion window
are found from the flight size, and the growing congestion window (slow start) from its growth.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import first_of_each, in_blocks, indexes, median, places
from multitracer.diagnosis.limits.gaps import ROUND
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array, Table


_FEWEST_ROUNDS = 7  # of one height: fewer may be alike by chance (limits.md)
_SPREAD = 0.12  # part of the height by which these rounds may differ (limits.md) ...
_SPREAD_SEGMENTS = 2  # ... or so many segments: a flight ends within a segment of its window (limits.md)
_MOSTLY = 0.5
"""Minimum share of readings with a part of a segment unsent: 0.53 to 0.96 of eleven writers, at most 0.09 of 45 full
send buffers."""
_NEARLY_MOST, _NEAR_WINDOW = 0.9, 0.8
"""Minimum ratio of that quantile of a constant flight to the window offered, at the receiver: at least 0.99 of 34 full
windows, at most 0.44 of 70 others."""
_EMPTY_ROUNDS = 3
"""A receiver knows the shortest round trip: this many in a row may be without sends where the path's delay varies."""
_SMOOTHED = 5  # rounds: their median drops two heights that ticks misplaced. Not measured alone
_WOKEN_NS = 5 * NS_PER_MS  # a program that is woken writes within this time on a busy host. Not measured
_SOON_NS = NS_PER_MS // 5  # on a quiet one: 0.02 to 0.16 ms in 12 of 13 refills of known send buffers
_NEARLY_ALL = 0.8  # of such gaps: others end when a slow path to the program does. Not measured
_FEWEST_SPACED, _NEARLY_FULL = 20, 0.98
"""Minimum number of segments, and share of full ones, that show a shaper or a pacer. Not measured."""
_EVEN, _SPACED = 0.25, 0.97
"""Maximum difference of a gap per byte from the median, as part of it, and minimum share of such gaps: 1.00 behind nine
shapers of one transfer, at most 0.94 of 56 others whose flight was constant."""
_AT_ONCE_NS = NS_PER_MS // 2  # from an ACK to what it released (limits.md)
_READ_LATE = 0.1
"""Part of the window's growth that comes without an ACK of new data: 0.24 to 0.97 of five slow readers, at most 0.02 of
nine small receive buffers."""
_WITHHELD = 0.6
"""Minimum share of samples taken with a full window from which on a slow reader may have caused the delays."""
_WITHHELD_SEGMENTS = 2.5
"""An ACK that covers more than this many segments was delayed."""
_IMPROBABLE = 0.05  # that a program that writes in its own time meets so many ACKs. Not measured


def full_buffer(seen: Observed) -> Spans:
    """Return the intervals in which a full send buffer blocked the application, by the kernel's variables.

    Either the kernel counted this time. Or less than a segment was unsent at each reading, and yet ACKs
    released new data at once: only a writer that waits for room in the buffer follows the ACKs. It need not
    follow each ACK: Linux wakes the writer when a third of the buffer is free.
    """
    if seen.state is None or seen.writes_alone or small_writes(seen).total_ns:
        return Spans.none()
    readings = _readings(seen.state, seen.mss_bytes)
    time, counted = readings.time_ns, readings.limited_ns
    if len(time) < 2:
        return Spans.none()
    little = (readings.unsent_bytes < seen.mss_bytes) & readings.has_room
    grew = (counted[:-1] != NA) & (np.diff(counted) > 0) & (little[:-1] | little[1:])

    # between which readings ACKs set free all new data, with others on their way
    each = seen.gaps
    woken = each.woken & (each.outstanding >= seen.mss_bytes)
    woken &= np.append(seen.answers.payload, 0)[each.woken_by] <= 0
    sent = np.searchsorted(each.end, time)
    many, free = np.diff(sent), np.diff(np.concatenate([[0], np.cumsum(woken)])[sent])
    chosen = grew | (little[:-1] & little[1:] & (many > 0) & (free == many))
    full = Spans.of(time[:-1][chosen], time[1:][chosen]).union(_refilled(seen, time, little))
    return full.bridged(seen.floor_ns).without(full_congestion_window(seen))


def small_writes(seen: Observed) -> Spans:
    """Return the intervals in which a part of a segment was unsent, by the kernel's variables: all there was.

    Nagle's algorithm holds it until the program has written a segment, or an ACK comes. A program that waits for room
    in the send buffer leaves no part behind. They are empty unless most readings without a segment unsent are such.
    """
    if seen.state is None:
        return Spans.none()
    time, unsent, _, has_room = _readings(seen.state, seen.mss_bytes)
    chosen = (time >= seen.opened_ns) & (time <= seen.end_ns) & (unsent < seen.mss_bytes)
    held = (unsent > 0) & (unsent < seen.mss_bytes) & has_room
    if np.count_nonzero(held & chosen) <= _MOSTLY * np.count_nonzero(chosen):
        return Spans.none()
    both = held[1:] & held[:-1]
    return Spans.of(np.maximum(time[:-1][both], seen.opened_ns), np.minimum(time[1:][both], seen.end_ns))


def full_congestion_window(seen: Observed) -> Spans:
    """Return the intervals in which the congestion window was full, by the kernel's variables.

    More data were unsent than the window had room for.
    """
    if seen.state is None:
        return Spans.none()
    readings = _readings(seen.state, seen.mss_bytes)
    full = (readings.unsent_bytes >= seen.mss_bytes) & ~readings.has_room
    both = full[:-1] & full[1:]
    return Spans.of(readings.time_ns[:-1][both], readings.time_ns[1:][both])


class _Readings(NamedTuple):
    """The readings of the sender's variables with unsent bytes, in order of time; shape (n,)."""

    time_ns: Array
    unsent_bytes: Array
    limited_ns: Array
    """The kernel's count of the time in which the send buffer blocked the application, in ns; NA if unknown."""
    has_room: Array
    """Whether the congestion window had room for one more segment; True if unknown."""


def _readings(state: Table, mss_bytes: int) -> _Readings:
    read = indexes(state["notsent_bytes"] != NA)
    read = read[np.argsort(state["time_ns"][read], kind="stable")]
    names = ("time_ns", "notsent_bytes", "sndbuf_limited_ns", "cwnd_bytes", "send_queue_bytes")
    time, unsent, limited, cwnd, queue = (state[name][read] for name in names)
    has_room = (cwnd == NA) | (queue == NA) | (queue - unsent + mss_bytes <= cwnd)
    return _Readings(time, unsent, limited, has_room)


def _refilled(seen: Observed, time: Array, little: Array) -> Spans:
    """Return the gaps without unsent data that an ACK ended.

    They are empty unless nearly all such gaps end with an ACK.
    """
    each = seen.gaps
    first, last = np.searchsorted(time, each.begin, side="right"), np.searchsorted(time, each.end)
    much = np.maximum.accumulate(np.where(little, -1, np.arange(len(time))))
    first_little = np.maximum(first, np.append(much, -1)[last - 1] + 1)
    answer = seen.last_answer(each.end)
    silent = (last > first_little) & (each.outstanding >= seen.mss_bytes) & (answer >= 0)
    silent &= np.append(seen.answers.payload, 0)[answer] == 0
    silent &= (seen.sends.end - seen.sends.begin)[each.ended_by] >= seen.mss_bytes  # else it was Nagle's rule
    begin = np.where(first_little > first, np.append(time, 0)[first_little], each.begin)[silent]
    end, came = each.end[silent], seen.answers.time_ns
    late_ns = end - came[answer[silent]]
    ended = late_ns <= _WOKEN_NS
    if not len(end) or ended.mean() < _NEARLY_ALL:
        return Spans.none()
    # a program that writes in its own time would not so often end a gap so soon behind an ACK
    near = Spans.of(came, came + _SOON_NS).overlap_ns(begin, end) / np.maximum(end - begin, 1)
    soon = int(np.count_nonzero(late_ns <= _SOON_NS))
    is_chance = chance(soon, len(end), float(near.mean())) > _IMPROBABLE
    return Spans.none() if is_chance else Spans.of(begin[ended], end[ended])


def steady_flight(seen: Observed, missing: Spans) -> Spans:
    """Return the intervals in which the amount of outstanding data is constant: a send buffer may be full.

    Only the time before the first loss, congestion mark or capture loss (`missing`) counts. A constant
    congestion window looks the same.
    """
    marked = seen.answers.time_ns[seen.answers.marked]
    is_inferred = seen.view is Viewpoint.RECEIVER  # its sends and ACKs are placed by ticks, or by arrivals
    again = seen.sends.needed | (seen.sends.missing > 0) if is_inferred else seen.sends.again
    troubles = [seen.sends.time_ns[again], marked, missing.begin]
    first = min((int(each[0]) for each in troubles if len(each)), default=seen.end_ns + 1)
    time = seen.sends.time_ns[seen.fresh]
    time = time[: int(time.searchsorted(first))]
    if len(time) < _FEWEST_ROUNDS * 2 or not seen.floor_ns or seen.writes_alone:
        return Spans.none()
    width = max(int(ROUND * seen.floor_ns), 1)
    place, number = _places((time - time[0]) // width)
    top = np.zeros(int(place[-1]) + 1, dtype=np.int64)  # the highest flight of each, 0 without sends
    np.maximum.at(top, place, seen.outstanding(time))
    number *= width
    number += time[0]
    del place, time
    if is_inferred and len(top) >= _SMOOTHED:  # ACKs count as come, or as not come
        padded = np.pad(top, _SMOOTHED // 2, mode="edge")
        around = np.lib.stride_tricks.sliding_window_view(padded, _SMOOTHED)
        top = np.where(top > 0, np.median(around, axis=1).astype(np.int64), 0)
        last = np.maximum.accumulate(np.where(top > 0, np.arange(len(top)), 0))
        top = np.where(np.arange(len(top)) - last <= _EMPTY_ROUNDS, top[last], 0)
    return _constant(top, number, seen)


def fills_window(seen: Observed, steady: Spans) -> bool:
    """Return whether a constant amount in flight is about what the receiver offered: then its window is the limit."""
    answers, sent_ns = seen.answers, seen.sends.time_ns[seen.fresh]
    offered = (answers.edge - answers.ack)[(answers.edge >= 0) & steady.holds(answers.time_ns)]
    flight = seen.outstanding(sent_ns[steady.holds(sent_ns)])
    if not len(offered) or not len(flight):
        return False
    return bool(np.quantile(flight, _NEARLY_MOST) >= _NEAR_WINDOW * np.median(offered))


def is_spaced(seen: Observed, steady: Spans) -> bool:
    """Return whether full segments left at one rate, and no ACKs released them: a queue of the own host, or a pacer.

    A full send buffer lets data go when an ACK comes. A shaper lets each go when there are tokens for it, and the
    capture sees the data behind it.
    """
    chosen = seen.fresh[steady.holds(seen.sends.time_ns[seen.fresh])]
    time, size = seen.sends.time_ns[chosen], (seen.sends.end - seen.sends.begin)[chosen]
    came = seen.answers.time_ns[np.diff(seen.answers.ack, prepend=-1) > 0]
    if len(chosen) <= _FEWEST_SPACED or float((size >= seen.mss_bytes).mean()) < _NEARLY_FULL:
        return False
    gap = np.diff(time)
    per_octet, soon_ns = gap / size[1:], min(_AT_ONCE_NS, float(np.median(gap)) / 4)
    typical = float(np.median(per_octet))
    last = np.searchsorted(came, time, side="right") - 1
    released = (last >= 0) & (time - np.append(came, 0)[last] <= soon_ns)
    is_even = float((np.abs(per_octet - typical) <= _EVEN * typical).mean()) >= _SPACED
    return typical > 0 and is_even and float(released.mean()) <= _NEARLY_ALL


def _places(number: Array) -> tuple[Array, Array]:
    """Return an index for the round trip of each send, and the number of the round trip at each index.

    Rounds without sends have at most `_SMOOTHED` indexes, because an idle gap may last years.
    """
    steps = np.minimum(np.diff(number, prepend=number[:1]), _SMOOTHED)
    place = np.cumsum(steps)
    passed = np.zeros(int(place[-1]) + 2, dtype=np.int64)
    passed[place] = number - place
    return place, np.arange(len(passed)) + np.maximum.accumulate(passed)


def _constant(top: Array, begins_ns: Array, seen: Observed) -> Spans:
    """Return the intervals of consecutive round trips whose maximum outstanding data (`top`) differ little.

    `begins_ns` has the begin of each round trip, and the end of the last one.
    """
    runs: list[tuple[int, int]] = []
    begin, low, high = 0, 0, 0
    for i, value in enumerate(itertools.chain(in_blocks(top), [0])):
        lowest, highest = min(low or value, value), max(high, value)
        if value and highest - lowest <= max(_SPREAD_SEGMENTS * seen.mss_bytes, _SPREAD * highest):
            low, high = lowest, highest
            continue
        if i - begin >= _FEWEST_ROUNDS:
            runs.append((int(begins_ns[begin]), int(begins_ns[i])))
        begin, low, high = i, value, value
    columns = np.array(runs, dtype=np.int64).reshape(-1, 2)
    return Spans.of(columns[:, 0], columns[:, 1])


_IDLE_NS = 200_000_000
"""Minimum idle time, in ns, after which TCP restarts slow start (RFC 9293, RFC 5681 section 4.1)."""
GROWS = 1.2
"""Minimum growth of the data per round in slow start: it doubles, or grows by half with delayed ACKs;
congestion avoidance adds one segment."""
_STALE_ROUNDS = 3  # one or two rounds may be cut short by the application (limits.md). Not measured


def slow_start(seen: Observed, filled: Spans, idle: Spans) -> Spans:
    """Return the intervals in which slow start limited the sender.

    Parameters
    ----------
    filled : Spans
        When the link was the limit.
    idle : Spans
        When the application was the limit.
    """
    long = idle.where(idle.length_ns >= max(_IDLE_NS, seen.floor_ns))
    begins = np.concatenate([[seen.opened_ns], long.end[(long.end > seen.opened_ns) & (long.end < seen.end_ns)]])
    losses = np.sort(seen.sends.time_ns[seen.sends.needed])
    reached = _reached(seen, losses) if len(begins) > 1 else losses[:0]
    stops = np.sort(np.concatenate([filled.begin, losses, _standing(seen, begins), reached, [seen.end_ns]]))
    return Spans.of(begins, stops[np.minimum(np.searchsorted(stops, begins), len(stops) - 1)])


def _standing(seen: Observed, begins: Array) -> Array:
    """Return when round trips had ceased to grow for three in a row, none of them the first one after an idle time."""
    fresh = seen.fresh
    if not len(fresh) or not seen.floor_ns:
        return np.empty(0, dtype=np.int64)
    time, size = seen.sends.time_ns[fresh], (seen.sends.end - seen.sends.begin)[fresh]
    since = begins[np.maximum(np.searchsorted(begins, time, side="right") - 1, 0)]
    begin, first = first_of_each(since + (time - since) // seen.floor_ns * seen.floor_ns)
    sums = np.add.reduceat(size, first)
    grows = (sums[1:] >= GROWS * sums[:-1]) | (np.diff(since[first]) > 0)
    if len(grows) < _STALE_ROUNDS:
        return np.empty(0, dtype=np.int64)
    still = np.convolve(~grows, np.ones(_STALE_ROUNDS), mode="valid") == _STALE_ROUNDS
    return np.asarray(begin[1:][: len(still)][still])


def _reached(seen: Observed, losses: Array) -> Array:
    """Return when half of what was in flight at the last loss was in flight again: no slow-start threshold is lower.

    RFC 5681, equation 4.
    """
    time = seen.sends.time_ns[seen.fresh]
    last = np.searchsorted(losses, time) - 1
    after = last >= 0
    if not after.any():
        return losses[:0]
    threshold = np.maximum(seen.outstanding(losses) / 2, 2 * seen.mss_bytes)
    return np.asarray(time[after][seen.outstanding(time[after]) >= threshold[last[after]]])


class FullWindow(NamedTuple):
    """Intervals in which the advertised window had no room for one more segment."""

    spans: Spans
    zero: Spans
    """The part of `spans` in which the advertised window itself was smaller than one segment."""


def full_window(seen: Observed) -> FullWindow:
    """Return the intervals in which the advertised window limited the sender.

    The time after the last new segment is left out, because nothing shows that more data waited. The window
    did not limit if the next segment fitted into it with room left, and either no data were outstanding or
    nearly all segments are small writes.
    """
    fresh = seen.fresh
    if not len(fresh):
        return FullWindow(Spans.none(), Spans.none())
    fresh_ns, last = seen.sends.time_ns[fresh], seen.sends.time_ns[fresh[-1]]
    full, closed = [], []
    for each in seen.moments():
        first, behind = np.searchsorted(each.time_ns, (seen.opened_ns, seen.end_ns))
        times, until, sent, acked, edge = (column[first:behind] for column in each)
        if not len(times):
            continue
        begin, end = fresh_ns.searchsorted(times[[0, -1]], "right")
        following = places(fresh_ns[begin:end], times, "right") + begin
        next_end = seen.sends.end[fresh[np.minimum(following, len(fresh) - 1)]]
        fits = (following < len(fresh)) & (next_end < edge) & ((acked >= sent) | seen.writes_alone)
        is_known = (edge >= 0) & (times < last) & ~fits
        is_closed = is_known & (edge - acked < seen.mss_bytes)
        is_full = is_closed | (is_known & (edge - sent < seen.mss_bytes))
        until = np.minimum(until, seen.end_ns)
        full.append(Spans.of(times[is_full], until[is_full]))
        closed.append(Spans.of(times[is_closed], until[is_closed]))
    return FullWindow(Spans.all_of(full), Spans.all_of(closed))


def is_read_late(seen: Observed) -> bool | None:
    """Return whether the receiving program let data wait: the window grew without new data being acknowledged.

    TCP acknowledges data when they arrive, and offers their place again when they were read. If the program waits for
    the data, one ACK does both. None if no window is known that grew: nothing shows when data were read.
    """
    grew, is_same = np.diff(seen.answers.edge), seen.answers.ack[1:] == seen.answers.ack[:-1]
    known = (seen.answers.edge[1:] != NA) & (seen.answers.edge[:-1] != NA) & (grew > 0)
    if not known.any():
        return None
    return bool(grew[known & is_same].sum() > _READ_LATE * grew[known].sum())


def withholds_answers(seen: Observed) -> bool:
    """Return whether the receiver delayed its answers until data were read: round trips show no queue then.

    Most delays were measured while the window was full, and answers cover many segments, or the program read late.
    """
    if seen.one_way or samples_in_full_window(seen) <= _WITHHELD:
        return False
    steps = np.diff(seen.answers.ack)
    steps = steps[steps > 0]
    covers_many = len(steps) > 0 and median(steps) > _WITHHELD_SEGMENTS * seen.mss_bytes
    return bool(covers_many or is_read_late(seen))


def samples_in_full_window(seen: Observed) -> float:
    """Return the share of delay samples taken while the advertised window was full: 0 to 1."""
    if not len(seen.delays.time_ns):
        return 0.0
    at: Array = seen.delays.time_ns
    edge = seen.window_edge(at)
    return float(((edge >= 0) & (edge - seen.sent_by(at) < seen.mss_bytes)).mean())


# The probability that chance alone explains an observation.


def chance(many: int, of: int, by_chance: float) -> float:
    """Return Chernoff's upper bound of the probability that chance causes `many` events in `of` trials.

    Parameters
    ----------
    many, of : int
        Number of events, and number of trials.
    by_chance : float
        The probability of the event in each trial.
    """
    part = many / of if of else 0.0
    if part <= by_chance:
        return 1.0
    if not by_chance:
        return 0.0
    other = (1 - part) * np.log((1 - part) / (1 - by_chance)) if part < 1 else 0.0
    return float(np.exp(-of * (part * np.log(part / by_chance) + other)))
