"""The limit LINK: the bottleneck has data of this transfer queued or in service.

Its queue shows it (segments take longer than the shortest delay of their path, `Paths`), and so does its rate
(data are delivered as fast as while there was a queue). There are three more rules:

- Answers that queue on the return path make round trips longer, too. The answers distinguish the two cases.
  If the link of the data is busy, an answer for twice as many bytes comes after twice the time. If the link
  of the answers is busy, each answer comes after the same time, whatever it covers.
- The link was not full if the delay stays constant while more data are in flight. The flight is the rate
  times the delay (J. D. C. Little, A proof for the queuing formula L = λW, 1961). A busy link has one rate, so more
  data in flight wait longer. If they do not, the minimum delay of that time is the path's own, however long it is.
- If no delay can be measured, the link is busy while data arrive at their best rate for a whole round trip. A
  window that is smaller than the path arrives as a burst at the rate of the link, and then a gap; a busy link
  delivers without gaps. A sender that spaces its segments evenly looks the same, so this rule is always weak.
"""

from __future__ import annotations

import itertools
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import BLOCK_ROWS, increases, indexes, median, places, repeated, span_minimum, taken
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.diagnosis.limits.observed import NEVER_NS, not_captured
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.limits.windows import GROWS, full_window, withholds_answers
from multitracer.diagnosis.packets.packet_delays import HEADERS_BYTES, path_changes
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import DelaySamples, Observed
    from multitracer.tables import Array

# Thresholds of limits.md, found where the answer did not depend on them on ninety recordings of known cause.
_QUEUE_NS = 3 * NS_PER_MS  # a delay above the floor by more than this ...
_QUEUE_OF_FLOOR = 0.1  # ... and by this part of the floor ...
_QUEUE_SERVICES = 1.5  # ... and by this many times of a segment on the link is a queue
_CALM, _CALM_NS = 0.5, NS_PER_MS // 2
"""Factor for the queue thresholds above where delays are calm: the median change between successive delays is
at most `_CALM_NS` plus the time that the link needs for a segment, so there is no radio and no busy host.
This finds short queues of fast links; the jitter of Wi-Fi is larger."""
_BRIDGE_NS = 2 * NS_PER_MS  # shorter gaps between samples do not end a queue ...
_BRIDGE_SERVICES = 2.5  # ... nor do fewer times of a segment on the link
_FEWEST_SAMPLES = 3  # in a queue: one or two may be a host that was busy
_LASTING_NS = 20 * NS_PER_MS
"""Minimum interval, in ns, over which the minimum of the delays is taken: Wi-Fi sends bursts a few milliseconds apart.
"""
_RATE_WINDOW_NS = 30 * NS_PER_MS  # a rate is taken over at least this (limits.md) ...
_RANGE_NS = NS_PER_S  # and its range over this: longer than ACKs wait for others. Not measured
_FEWEST_RANGES = 3  # of these: one or two show no range. Not measured
_RATE_SEGMENTS = 8  # ... and at least these: an ACK may cover two or three segments (limits.md)
_NEAR_RATE = 0.9  # part of the link's rate from which on data keep up with it (limits.md)
_FULL_RATE = 0.9
"""Quantile of the delivery rates that is taken for the link's rate: above it are bursts of ACKs. Not measured."""
_BEST_RATE = 0.95
"""Quantile of the delivery rates that is taken for the link's rate if no queue of data is proved."""
_NEARLY_ALL = 0.999  # of the delivery rates: a single one may be a bunch of ACKs. Not measured
_ENOUGH = 20
"""Minimum number of rates that were measured entirely during a queue; a single one, over eight segments, may
be wrong by a tenth."""
_STEADY_ROUNDS = 3  # so long must a queue have shown the link's rate. Not measured
_STRETCHES = 32
"""Number of intervals of a transfer in each of which the link's rate is determined."""
_MOST_ABOVE, _RARELY = 1.25, 0.1
"""A rate is rejected if more than the share `_RARELY` of the deliveries exceed it by this factor. Not measured."""


class Busy(NamedTuple):
    """The intervals in which the bottleneck had data of this transfer, and its rate in them."""

    spans: Spans
    by_queue: Spans
    """The part of `spans` that a queue proves."""
    by_bucket: Spans
    """The part of `spans` in which nearly all tokens of a policer were used."""
    rate: Rates | None
    idle: Spans | None = None
    """In a receiver's capture: when something shows that the link had room. None elsewhere: a sender knows its window.
    """

    def without(self, refuted: Spans) -> Busy:
        """Return the intervals except those in which something else is known to have delayed the data."""
        if not refuted.total_ns:
            return self
        spans, by_queue = self.spans.without(refuted), self.by_queue.without(refuted)
        return Busy(spans, by_queue, self.by_bucket, self.rate if spans.total_ns else None, self.idle)

    def behind(self, host: Spans, seen: Observed) -> Busy:
        """Return the intervals with those in which a queue of the sender's own host held data."""
        if not host.total_ns:
            return self
        spans = self.spans.union(host)
        rate = _rates(seen, spans, seen.floor_ns, seen.floor_ns)
        return Busy(spans, self.by_queue.union(host), self.by_bucket, rate, self.idle)


class AnswerDelivery(NamedTuple):
    """The rate at which data were delivered in the round trip before each answer.

    Attributes
    ----------
    time_ns, since_ns : ndarray of int64, shape (n,)
        Arrival of the answer at the sender, and begin of the interval before it over which the rate is measured.
    rate : ndarray of float64, shape (n,), bytes per ns
    """

    time_ns: Array
    since_ns: Array
    rate: Array


class Rates(NamedTuple):
    """Quantiles of the delivery rate while the link was the limit, payload bytes per second."""

    low: float
    """Of intervals of `_RANGE_NS`, as `high`: ACKs that come in bunches make shorter ones vary. Both are the median
    where the link was the limit for less."""
    median: float
    high: float
    largest: float
    """Of intervals of `_RATE_WINDOW_NS`."""

    def at(self, median: float) -> Rates:
        """Return the rates with this median, and a range that includes it."""
        is_known = self.low < self.high
        low, high = (min(self.low, median), max(self.high, median)) if is_known else (median, median)
        return Rates(low, median, high, self.largest)


def busy(seen: Observed) -> Busy:
    """Return the intervals in which the link had data of the transfer, or its policer passed all that it may.

    The data are queued before the link or are being sent.
    """
    link = _busy(seen)
    if seen.policer is None:
        return link

    service_ns = (seen.mss_bytes + HEADERS_BYTES) * NS_PER_S / seen.policer.rate_bytes_per_s
    policed = Spans.of(*seen.policer.used_ns).bridged(max(seen.floor_ns, _BRIDGE_SERVICES * service_ns))
    idle = []
    for each in seen.moments():
        is_idle = (each.sent <= np.maximum(each.acknowledged, 1)) & (each.until_ns < NEVER_NS)
        idle.append(Spans.of(each.time_ns[is_idle], each.until_ns[is_idle]))
    policed = _clipped(policed.where(policed.length_ns >= seen.floor_ns), seen).without(Spans.all_of(idle))
    if not policed.total_ns:
        return link
    spans = link.spans.union(policed)
    return Busy(spans, link.by_queue, policed, _rates(seen, spans, seen.floor_ns, 0), link.idle)


def _busy(seen: Observed) -> Busy:
    delivery = _delivery(seen, seen.floor_ns)
    rate = delivery.rate
    if not len(seen.delays.time_ns):
        even = _clipped(steady_arrivals(seen), seen).without(full_window(seen).spans)
        return Busy(even, Spans.none(), Spans.none(), _rates(seen, even, seen.floor_ns, 0), _idle_link(seen, None))
    service_ns = seen.mss_bytes / float(np.quantile(rate, _FULL_RATE)) if len(rate) else 0.0
    withheld = _withheld(seen)
    may_wait = not seen.one_way and not seen.answers.lag_ns.any()  # answers, on the way back: their delay is unknown
    if may_wait:
        paths = Paths.of(seen.delays, service_ns)
        queued = _queued(seen, paths, service_ns, withheld)
        if answers_queue(seen, queued):
            return _beside_answers(seen, paths, queued)
    steady = steady_delays(seen, service_ns)
    if not may_wait or len(steady.spans.begin):
        paths = Paths.of(seen.delays, service_ns, steady.spans)
        queued = _queued(seen, paths, service_ns, withheld)
    delivery = delivery if paths.is_one else _delivery(seen, seen.floor_ns + paths.above_first(seen.answers.time_ns))
    times, _, rate = delivery
    floor_ns = seen.floor_ns + paths.above_first(times)
    of_answers_ns = seen.floor_ns + paths.above_first(seen.answers.time_ns)
    shown, idle = _rates(seen, queued, of_answers_ns, of_answers_ns), _idle_link(seen, paths)

    # deliveries that show the rate of the link: it had a queue when the last bytes were served, or all along
    last = queued.which(times - floor_ns)
    proven = (last >= 0) & (rate > 0)
    if not proven.any() or queued.total_ns < _STEADY_ROUNDS * seen.floor_ns:
        return Busy(queued, queued, Spans.none(), shown, idle)
    throughout = proven & (queued.which(delivery.since_ns - floor_ns) == last)
    typical = _typical(times, rate, throughout) if throughout.sum() >= _ENOUGH else None
    typical = _typical(times, rate, proven) if typical is None else typical
    if typical is None:
        return Busy(queued, queued, Spans.none(), shown, idle)
    kept_up = _kept_up(seen, paths, delivery, typical).without(steady.room).without(withheld)
    spans = _clipped(queued.union(kept_up), seen)
    return Busy(spans, queued, Spans.none(), shown, idle)


def _kept_up(seen: Observed, paths: Paths, delivery: AnswerDelivery, typical: Array) -> Spans:
    """Return the intervals in which data were delivered at about the link's own rate (`typical`)."""
    fast = delivery.time_ns[delivery.rate >= _NEAR_RATE * typical]
    floor = seen.floor_ns + paths.above_first(fast)
    end = fast - floor // 2
    return _clipped(Spans.of(end - np.maximum(floor, _RATE_WINDOW_NS), end), seen)


def _beside_answers(seen: Observed, paths: Paths, queued: Spans) -> Busy:
    """Return the intervals in which data arrived at the link's best rate while answers were queued.

    A queue of answers on the return path hides whether data waited.
    """
    delivery = _delivery(seen, seen.floor_ns + paths.above_first(seen.answers.time_ns))
    best = np.quantile(delivery.rate, _BEST_RATE) if len(delivery.rate) else 0.0
    kept_up = _kept_up(seen, paths, delivery, np.full(len(delivery.rate), best))
    spans = kept_up.without(kept_up.without(queued)).without(full_window(seen).spans)
    return Busy(spans, Spans.none(), Spans.none(), _rates(seen, spans, seen.floor_ns, 0))


def _typical(times: Array, rate: Array, proven: Array) -> Array | None:
    """Return the link's rate at each time, in bytes per ns; None if no valid rate is found.

    It follows from times at which a queue is proved (`proven`). No link delivers more than its rate. If
    deliveries exceed the rate that follows changes, constant rates are tried: the median, a high quantile,
    and the maximum, which is the link's own rate if others share it for a while.
    """
    known = rate[proven]
    width = min(max(len(known) // _STRETCHES, _RATE_SEGMENTS), len(known))
    complete = len(known) // width * width
    middle = np.median(known[:complete].reshape(-1, width), axis=1)
    changing = np.asarray(np.interp(times, times[proven][width // 2 : complete : width][: len(middle)], middle))
    candidates = (*np.quantile(known, [0.5, _FULL_RATE]), changing.max())
    steady = (np.full(len(times), each) for each in candidates)
    for typical in (changing, *steady):
        if (rate > _MOST_ABOVE * typical).mean() <= _RARELY:
            return typical
    return None


def _clipped(spans: Spans, seen: Observed) -> Spans:
    begin, end = np.maximum(spans.begin, seen.opened_ns), np.minimum(spans.end, seen.end_ns)
    return Spans.of(begin, end)


def _rates(seen: Observed, spans: Spans, floor_ns: Array | int, behind_ns: Array | int) -> Rates | None:
    """Return quantiles of the delivery rate in the given intervals, weighted by time; None without one.

    A rate whose measurement began before its interval may include an idle gap of the sender. Such rates are used only
    if no interval is long enough for eight segments. Answers come `behind_ns` after the link has served the data they
    cover. `behind_ns` and the shortest round trip `floor_ns` are one value, or one per answer.
    """
    if not len(spans.begin):
        return None
    delivery = _delivery(seen, floor_ns, (spans, behind_ns))
    if not len(delivery.rate):
        delivery = _delivery(seen, floor_ns)
        delivery = AnswerDelivery(*(column[spans.holds(delivery.time_ns)] for column in delivery))
    if not len(delivery.rate):
        return None
    median, largest = _quantiles(delivery, [0.5, 0.95])
    longer = _delivery(seen, np.maximum(floor_ns, _RANGE_NS), (spans, behind_ns))
    is_long = longer.time_ns - longer.since_ns >= _RANGE_NS
    low = high = median
    if (spans.length_ns // _RANGE_NS).sum() >= _FEWEST_RANGES and is_long.any():
        low, high = _quantiles(AnswerDelivery(*(column[is_long] for column in longer)), [0.05, 0.95])
    return Rates(min(low, median), median, max(high, median), largest)


def _quantiles(delivery: AnswerDelivery, quantiles: list[float]) -> list[float]:
    """Return quantiles of the delivery rate, weighted by time, in bytes per second; empty without a rate."""
    if not len(delivery.rate):
        return []
    held_ns = np.diff(delivery.time_ns, prepend=delivery.since_ns[:1])
    held_ns = np.minimum(held_ns, delivery.time_ns - delivery.since_ns)
    order = np.argsort(delivery.rate)  # not stable: equal rates give the same quantile in any order
    passed = np.cumsum(held_ns[order])
    at = np.searchsorted(passed, np.array(quantiles) * passed[-1])
    rate: list[float] = (delivery.rate[order][np.minimum(at, len(order) - 1)] * NS_PER_S).tolist()
    return rate


def delivered_at_most(seen: Observed, begin_ns: int, end_ns: int) -> float:
    """Return about the highest rate at which data were delivered in a time, payload bytes per second; inf if unknown.

    It is taken over 30 ms and eight segments or more, in which a radio or a host that joins packets counts little.
    """
    span = Spans.of(np.array([begin_ns]), np.array([end_ns]))
    rates = _quantiles(_delivery(seen, 0, (span, 0)), [_NEARLY_ALL])
    return rates[0] if rates else float("inf")


def _delivery(seen: Observed, floor_ns: Array | int, within: tuple[Spans, Array | int] | None = None) -> AnswerDelivery:
    """Return for each answer that acknowledges new data the delivery rate in the round trip before it.

    `floor_ns` is the shortest round trip, one value or one per answer. A queue of answers changes their
    spacing; timestamps of the receiver correct this. `within` keeps only measurements that begin and end in
    one of its intervals; each answer is first moved back by the given time.
    """
    time = np.maximum.accumulate(seen.answers.time_ns - seen.answers.lag_ns)
    done = seen.answers.delivered
    new = indexes(increases(done, done[:1]))
    if len(new) < 2:
        return AnswerDelivery(time[:0], time[:0], np.empty(0))
    width = np.maximum(np.broadcast_to(floor_ns, len(time)), _RATE_WINDOW_NS)[new]
    time, done = time[new], done[new]
    fewer = places(done, done - _RATE_SEGMENTS * seen.mss_bytes, "right") - 1
    before = np.minimum(places(time, time - width, "right") - 1, fewer)
    known = (before >= 0) & (before < np.arange(len(time)))
    if within is not None:
        spans, behind_ns = within
        stretch = spans.which(time - np.broadcast_to(behind_ns, len(seen.answers.time_ns))[new])
        first = indexes(np.diff(stretch, prepend=-2))
        first = np.repeat(first, np.diff(np.append(first, len(time))))
        known = (stretch >= 0) & (first <= fewer) & (fewer < np.arange(len(time)))
        before = np.maximum(before, first)
    since = time[before[known]]
    gone = time[known] - since
    rate = (done[known] - done[before[known]]) / np.maximum(gone, 1)
    return AnswerDelivery(time[known], since, rate)


def _queued(seen: Observed, paths: Paths, service_ns: float, withheld: Spans) -> Spans:
    """Return the intervals in which the delay samples are so long that the segments waited in a queue.

    In the intervals `withheld` delays show no queue.
    """
    sent, way = seen.delays.time_ns, seen.delays.way_ns
    floor = seen.floor_ns + paths.above_first(sent)

    # the part of each delay that lasts: the least of all samples of a round trip after, or before it. A radio
    # that sends packets in bunches delays each by another time; the last of a bunch waited for none
    queue = way - paths.floor_ns.min() - paths.above_first(sent)
    here, width = np.arange(len(sent)), np.maximum(floor, _LASTING_NS)
    after = np.maximum(places(sent, sent + width, "right"), here + 1)
    before = np.minimum(places(sent, sent - width), here)
    queue = np.maximum(span_minimum(queue, here, after), span_minimum(queue, before, here + 1))
    del here, width, after, before

    # one way, by two clocks: no noise of ACKs
    part = 0.0 if seen.view is Viewpoint.BOTH_ENDS else _QUEUE_OF_FLOOR
    # most delays differ from the one before by what a segment takes, and next to nothing
    is_calm = len(way) > 1 and median(np.abs(np.diff(way))) <= service_ns + _CALM_NS
    noise = np.maximum(_QUEUE_NS, part * floor) * (_CALM if is_calm else 1.0)
    minimum = np.maximum(_QUEUE_SERVICES * service_ns, noise)
    above = indexes(queue > minimum)
    queued = Spans.of(sent[above], sent[above] + queue[above])
    queued = queued.bridged(max(_BRIDGE_NS, _BRIDGE_SERVICES * service_ns)).without(withheld)
    inside = queued.which(sent[above])
    samples = np.bincount(inside[inside >= 0], minlength=len(queued.begin))
    long = queued.length_ns >= seen.floor_ns + paths.above_first(queued.begin)
    return _clipped(queued.where(long & (samples >= _FEWEST_SAMPLES)), seen)


_LEFT = 0.7
"""Part of the congestion window that a loss leaves at least, of the usual algorithms (CUBIC, RFC 9438)."""
_NEAR_FLOOR, _STANDING_NS = 0.25, 100 * NS_PER_MS
"""A queue stands if the least delay of this time, or of a round trip, is above the floor (RFC 8289, section 3), by this
part of the round trip. Where the congestion window was the limit on 24 recordings, the median was up to 0.28 above it;
where another was, 0.32 and more."""
_IDLE_PART = 0.25  # of a round trip, without arrivals, that shows room if nothing else does. Not measured


def _idle_link(seen: Observed, paths: Paths | None) -> Spans | None:
    """Return the intervals in which a receiver's capture shows that the link had room; None if it could not show any.

    No queue stands while the least delay of each round trip is near that of the path. Where no delay is known, the
    round trips of fast retransmissions show it: if what a loss leaves of the window is less than the link holds, it has
    room. Without one, an idle part of the round trip shows room.
    """
    if seen.view is not Viewpoint.RECEIVER or not seen.floor_ns or seen.end_ns <= seen.opened_ns:
        return None
    if (paths is None or seen.coarse) and (by_repairs := _idle_by_repairs(seen)) is not None:
        return by_repairs
    length_ns = max(seen.floor_ns, _STANDING_NS)
    if paths is None:
        sent_ns = seen.sends.time_ns
        near = np.diff(sent_ns, append=seen.end_ns) >= _IDLE_PART * seen.floor_ns
    else:
        sent_ns = seen.delays.time_ns
        queue_ns = seen.delays.way_ns - paths.floor_ns.min() - paths.above_first(sent_ns)
        near = queue_ns <= max(_QUEUE_NS, _NEAR_FLOOR * seen.floor_ns) + (seen.stamp_tick_ns if seen.coarse else 0)
    many = -(-(seen.end_ns - seen.opened_ns) // length_ns)
    complete = Spans.of(np.array([seen.opened_ns]), np.array([seen.opened_ns + many * length_ns]))
    of = (sent_ns - seen.opened_ns) // length_ns  # never all blocks: a clock that was set makes them too many
    standing = seen.opened_ns + np.setdiff1d(of[of >= 0], of[near]) * length_ns
    return complete.without(Spans.of(standing, standing + length_ns))  # where nothing arrived, the link was idle


def _idle_by_repairs(seen: Observed) -> Spans | None:
    """Return the intervals between losses in which the link had room, by the repairs; None without any but the timer's.

    The first segment of a loss comes again a round trip after the third one beyond it (RFC 5681); others of that loss
    come when its queue is gone. Between two losses the window only grows, and with it the queue: without one at the
    second loss there was none before.
    """
    sends = seen.sends
    again = indexes(sends.again & sends.needed & ~sends.by_timer)
    third = places(np.maximum.accumulate(sends.begin), sends.begin[again], "right") + 2
    first = (third < again) & (third > np.append(-1, again)[:-1])
    end, took = sends.time_ns[again[first]], sends.time_ns[again[first]] - sends.time_ns[third[first]]
    end, took = end[took >= _NEAR * seen.floor_ns], took[took >= _NEAR * seen.floor_ns]
    if not len(took):
        return None
    near = _LEFT * np.append(took, took[-1:]) < seen.floor_ns
    return Spans.of(np.append(seen.opened_ns, end)[near], np.append(end, seen.end_ns)[near])


def _withheld(seen: Observed) -> Spans:
    """Return the intervals in which a slow reader kept answers back, so that neither delay nor rate shows a queue."""
    return full_window(seen).spans if withholds_answers(seen) else Spans.none()


_LARGER, _SMALLER = 1.4, 0.6
"""Answers for at least `_LARGER`, or at most `_SMALLER`, times the typical bytes are compared with typical
answers: with delayed ACKs this separates answers for 1, 2 and 3 segments."""
_FEWEST = 10  # of larger, or of smaller ones: fewer may be chance. Not measured
_CHUNK = 64  # answers: enough for a median. Not measured
_SAME = 0.1
"""Maximum relative difference between the times before these answers and the typical time. In 250 recordings
of known cause it is below 0.04 if answers queue, and 0.4 or more if data do."""


def answers_queue(seen: Observed, queued: Spans) -> bool:
    """Return whether, in the intervals `queued`, answers waited on the return path instead of the data.

    The spacing of the answers decides. It is False if all answers cover the same number of bytes: then the
    spacing shows nothing.
    """
    wait_ns, covered = _steps(seen, queued)
    if len(wait_ns) < 2 * _FEWEST:
        return False
    chunks = len(wait_ns) // _CHUNK
    return all(_is_even(_of_typical(wait_ns, many), _of_typical(covered, many)) for many in {1, max(1, chunks)})


def _is_even(wait: Array, covered: Array) -> bool:
    """Return whether the answers are equally spaced in time, however many bytes each of them covers.

    `wait` and `covered` are the time before each answer and its bytes, divided by their typical values.
    """
    unexpected = [each for each in (covered >= _LARGER, covered <= _SMALLER) if each.sum() >= _FEWEST]
    return bool(unexpected) and all(abs(float(np.median(wait[each])) - 1) <= _SAME for each in unexpected)


def _of_typical(values: Array, chunks: int) -> Array:
    """Return the values divided by the median of their chunk, because the link's rate may change."""
    return np.concatenate([chunk / max(np.median(chunk), 1) for chunk in np.array_split(values, chunks)])


def _steps(seen: Observed, queued: Spans) -> tuple[Array, Array]:
    """Return the times in ns between neighbouring answers with new data, and the bytes of each answer.

    Both answers must be in the same interval of `queued`.
    """
    done = seen.answers.delivered
    new = indexes(increases(done, done[:1]))
    time_ns = seen.answers.time_ns[new]
    stretch = queued.which(time_ns)
    inside = (stretch[1:] >= 0) & (stretch[1:] == stretch[:-1])
    return np.diff(time_ns)[inside], np.diff(done[new])[inside]


_FEWEST_ROUNDS = 8
"""Minimum number of round trips with a constant delay, a power of two; congestion avoidance adds one segment in each.
Not measured."""
_SAME_NS, _SAME_SERVICES = NS_PER_MS, 2.0
"""Maximum difference of the minimum delays of these rounds: 1 ms, or this multiple of the time that the link
needs for a segment. The causes are noise of hosts, and pairs of segments."""
_MUCH = 4.0
"""Minimum increase of the flight, as a multiple of the bytes that the link serves in the maximum difference
above. Not measured."""
_ROOM, _ADDED = 0.8, 3.0
"""The link had room while the flight was at most this part of its maximum, and smaller than the maximum by
`_ADDED` times the bytes that the link serves in the maximum difference above. With more in flight, it may
have had a short queue."""


class Steady(NamedTuple):
    """Intervals in which the delay did not grow with the outstanding data, so that no queue existed.

    In the intervals `room`, this also proves that the link was not full.
    """

    spans: Spans
    room: Spans


def steady_delays(seen: Observed, service_ns: float) -> Steady:
    """Return the intervals without a queue: more outstanding data did not lead to longer delays.

    Parameters
    ----------
    seen : Observed
    service_ns : float
        Time that the bottleneck needs for a segment; 0 if unknown.
    """
    steady = Steady(Spans.none(), Spans.none())
    if not service_ns or not seen.floor_ns or not len(seen.delays.time_ns):
        return steady
    over = places(seen.answers.ack, seen.sends.end[seen.fresh])
    known = over < len(seen.answers)
    time = seen.sends.time_ns[seen.fresh][known]
    if not len(time):
        return steady

    took = seen.answers.time_ns[over[known]] - time
    del over, known
    first = _soonest_of_each_round((time - time[0]) // max(seen.floor_ns, int(median(took)), 1), took)
    time, took = time[first], took[first]
    done = taken(seen.answers.delivered, seen.last_answer(time), 1)
    flight = np.maximum(seen.sent_by(time) - np.maximum(done, 1), 0)
    rounds = _Rounds(time, took, np.minimum(flight, np.append(flight[1:], flight[-1:])))
    del first, done, flight

    # what a repair waits for, and what was acknowledged unseen, would count as under way
    again_ns, unseen = seen.sends.time_ns[seen.sends.again], not_captured(seen)
    unclear_ns = np.sort(np.concatenate([again_ns, unseen.begin, unseen.end]))
    extremes = _Extremes(1, took.copy(), took.copy(), rounds.flight.copy(), rounds.flight.copy())
    while extremes.many <= len(time):
        if extremes.many >= _FEWEST_ROUNDS:
            longer = _over(rounds, extremes, seen, service_ns, unclear_ns)
            steady = Steady(*(each.union(more) for each, more in zip(steady, longer, strict=True)))
        extremes = extremes.of_twice_as_many()
    return steady


def _soonest_of_each_round(number: Array, took: Array) -> Array:
    """Return of each round trip, by the number of it, the index of the segment whose answer came soonest."""
    if (number[1:] < number[:-1]).any():
        order = np.lexsort((took, number))
        return np.asarray(order[indexes(np.diff(number[order], prepend=-1))])
    begins = indexes(increases(number, -1))  # the same, but faster
    minimum = np.repeat(np.minimum.reduceat(took, begins), np.diff(begins, append=len(number)))
    soonest = indexes(took == minimum)
    return np.asarray(soonest[np.searchsorted(soonest, begins)])


class _Rounds(NamedTuple):
    """The round trips of a transfer; each is represented by the segment with the fastest answer."""

    time_ns: Array
    """When it was sent."""
    took_ns: Array
    """Time until its answer, in ns."""
    flight: Array
    """Bytes in flight then, or one round later if they are fewer: a probe of one round has no queue yet."""


class _Extremes(NamedTuple):
    """Smallest and largest of each `many` consecutive round trips: int64, shape (n_rounds - many + 1,)."""

    many: int
    shortest_ns: Array
    longest_ns: Array
    smallest_bytes: Array
    """Of the bytes in flight, as `largest_bytes`."""
    largest_bytes: Array

    def of_twice_as_many(self) -> _Extremes:
        """Return those of twice as many round trips."""
        many = self.many
        kept = slice(0, max(len(self.largest_bytes) - many, 0))
        columns = (np.minimum, np.maximum, np.minimum, np.maximum)
        pairs = zip(columns, self[1:], strict=True)
        return _Extremes(2 * many, *(of_two(each[kept], each[many:], out=each[kept]) for of_two, each in pairs))


def _over(rounds: _Rounds, extremes: _Extremes, seen: Observed, service_ns: float, unclear_ns: Array) -> Steady:
    """Return the intervals of as many consecutive round trips as `extremes` without growth of the delay.

    The outstanding data must vary much in them.
    """
    time, took, flight = rounds
    same_ns = max(_SAME_NS, _SAME_SERVICES * service_ns)
    same_bytes = same_ns * seen.mss_bytes / service_ns
    is_steady = extremes.longest_ns - extremes.shortest_ns <= same_ns
    is_steady &= extremes.largest_bytes - extremes.smallest_bytes >= _MUCH * same_bytes
    first = indexes(is_steady)
    last, many = first + extremes.many, extremes.many
    begin, end = time[first] - 2 * took[first], time[last - 1] + 2 * seen.floor_ns
    first = first[np.searchsorted(unclear_ns, begin) == np.searchsorted(unclear_ns, end)]
    most, last = extremes.largest_bytes[first], first + many
    room = np.minimum(_ROOM * most, most - _ADDED * same_bytes)

    # when no more was under way than any stretch around shows room for
    within, rows = [], max(BLOCK_ROWS, many)
    for at in range(0, len(time) - 1, rows):
        here = np.arange(at, min(at + rows, len(time) - 1))
        low, high = np.searchsorted(first, here - many + 1), np.searchsorted(first, here, "right")
        some, shown = low < high, np.zeros(len(here))
        if some.any():
            low, high = low[some], high[some]
            shown[some] = -span_minimum(-room[low[0] : high[-1]], low - low[0], high - low[0])
        within.append(here[flight[here] <= shown])
    among = np.concatenate(within) if within else first[:0]
    return Steady(Spans.of(time[first], time[last - 1]), Spans.of(time[among], time[among + 1]))


_SHORT = 0.25
"""Part of a round trip over which the best rate is measured; the actual rate is measured over a complete round trip."""
_SHORT_NS, _LONG_NS = 5 * NS_PER_MS, 30 * NS_PER_MS
"""Minimum lengths, in ns, of the short and of the long interval over which rates are measured: in shorter
ones, the clock resolution and bursts of a radio dominate. Not measured."""
_FEWEST_SEGMENTS = 8  # over which a rate is taken, as in `link`
_NEAR = 0.85  # part of the best rate from which on a round trip has no pause. Not measured
_BEST = 0.9
"""Quantile of the rates over short intervals that is taken for the link's rate."""
_BUNCHED = 2.5
"""If the rate between neighbours exceeds that over short intervals by this factor, a radio or a host made bursts."""
_CLOSE, _IN_A_ROW = 0.87, 0.01
"""Minimum rate of a short gap, as part of the best rate, and minimum share of short gaps that follow a short
gap. A host that holds a segment until another comes (GRO) shortens one gap, never two in a row: at most 0.002
of the short gaps follow a short gap; on a link with idle gaps 0.02 to 0.9 do (17 recordings)."""
_CHUNK_NS = 2 * NS_PER_S
"""Length of the chunks, in ns, in each of which the link's rate is determined; at least twenty round trips."""
_CHUNK_ROUNDS = 20  # enough rates for a quantile. Not measured
_WAIT_NS, _WAIT_SPACINGS, _WAITED = 20 * NS_PER_MS, 5.0, 0.3
"""A gap is a wait if it is longer than `_WAIT_NS` and `_WAIT_SPACINGS` median gaps: bursts of a radio are
closer. The link is not busy if waits make more than `_WAITED` of the time."""
_FULL = 0.8
"""Minimum share of full segments: an application with small writes sets its own pace."""


def steady_arrivals(seen: Observed) -> Spans:
    """Return the intervals in which data arrived without gaps, at the best rate of that time."""
    sends = seen.sends
    if len(sends) <= _FEWEST_SEGMENTS or not seen.floor_ns:
        return Spans.none()
    order = np.argsort(sends.time_ns, kind="stable")
    time, size = sends.time_ns[order], (sends.end - sends.begin)[order]
    short = _rates_before(time, size, max(int(_SHORT * seen.floor_ns), _SHORT_NS))
    width = max(seen.floor_ns, _LONG_NS)
    complete = _rates_before(time, size, width)
    full = np.concatenate([[0], np.cumsum(size >= seen.mss_bytes)])
    first = np.searchsorted(time, time - width)
    many = np.arange(1, len(time) + 1) - first
    is_bulk = full[np.arange(1, len(time) + 1)] - full[first] >= _FULL * many
    best = _best(time, size, short, seen.floor_ns)
    near = (complete >= _NEAR * best) & (complete > 0)
    fast = indexes(near & is_bulk & ~_grows(time, complete, width) & ~_waits(time, width, seen.floor_ns))
    return Spans.of(time[fast] - width, time[fast])


def _best(time: Array, size: Array, short: Array, floor_ns: int) -> Array:
    """Return the link's rate near each arrival, bytes per ns; infinite if unknown.

    We assume that two segments that were sent together arrive as far apart as the link needs for one. If a radio or a
    host delivers bursts, or a host holds every second segment, the rate over short intervals is used instead.
    """
    single = size / np.maximum(np.diff(time, prepend=time[:1]), 1)
    single[:1] = 0.0
    of_windows = _of_chunks(time, short, floor_ns, _BEST)
    of_neighbours = _of_chunks(time, single, floor_ns, _BEST)
    close = single >= _CLOSE * of_neighbours
    if (close[1:] & close[:-1]).sum() < _IN_A_ROW * close.sum():
        return of_windows
    bunched = of_neighbours > _BUNCHED * of_windows
    return np.where(bunched, of_windows, np.maximum(of_windows, of_neighbours))


def _grows(time: Array, complete: Array, width: int) -> Array:
    """Return at which arrivals the rate is well above that of one round trip earlier: bool.

    The congestion window still grows then.
    """
    before = np.searchsorted(time, time - width, side="right") - 1
    return np.asarray((before < 0) | (complete > GROWS * complete[np.maximum(before, 0)]))


def _waits(time: Array, width: int, floor_ns: int) -> Array:
    """Return at which arrivals long gaps make up much of the previous round trip: bool."""
    gap = np.diff(time, prepend=time[:1])
    typical = _of_chunks(time, gap, floor_ns, 0.5)
    long = np.where(gap > np.maximum(_WAIT_NS, _WAIT_SPACINGS * typical), gap, 0)
    waited = np.cumsum(long)
    first = np.searchsorted(time, time - width)
    before = np.minimum(long[first], time[first] - (time - width))
    return np.asarray(waited - waited[first] + before > _WAITED * width)


def _rates_before(time: Array, size: Array, width: int) -> Array:
    """Return the rate before each arrival in bytes per ns, over `width` ns and at least eight segments.

    It is 0 at the start.
    """
    done = np.concatenate([[0], np.cumsum(size)])
    at = np.arange(len(time))
    since = np.minimum(np.searchsorted(time, time - width, side="right") - 1, at - _FEWEST_SEGMENTS)
    known = since >= 0
    rate = np.zeros(len(time))
    begin = since[known]
    gone = np.maximum(time[known] - time[begin], 1)
    rate[known] = (done[at[known] + 1] - done[begin + 1]) / gone
    return rate


def _of_chunks(time: Array, values: Array, floor_ns: int, quantile: float) -> Array:
    """Return for each value a quantile of the values above 0 in the same chunk of time.

    It is infinite if a chunk has no value above 0.
    """
    chunk = (time - time[0]) // max(_CHUNK_NS, _CHUNK_ROUNDS * floor_ns)
    bounds = [0, *(indexes(np.diff(chunk)) + 1).tolist(), len(time)]
    quantiles = np.full(len(time), np.inf)
    for begin, end in itertools.pairwise(bounds):
        known = values[begin:end][values[begin:end] > 0]
        if len(known):
            quantiles[begin:end] = np.quantile(known, quantile)
    return quantiles


_STEP_NS = 10 * NS_PER_MS  # limits.md: a step is larger than this ...
_STEP_OF_FLOOR = 0.1  # ... and than this part of the floor ...
_STEP_SERVICES = 5.0  # ... and than this many times of a segment at the bottleneck. Not measured
"""A step of the delay must exceed what a few segments add to a queue."""
_FASTER_THAN_QUEUES = 3.0
"""Maximum growth of a queue per unit of time: that of a queue that receives four times the link's rate."""
_NOISE_NS, _NOISE_SERVICES = NS_PER_MS, 1.5
"""Noise by which a delay may lie below the path's minimum: at most 1 ms, or this multiple of the time that
the link needs for a segment. The causes are clocks, and pairs of segments."""
_LASTS_NS = 3 * NS_PER_S  # limits.md
_LASTS_PART = 0.7
"""A step lasts if at least this part of it remains in the minimum delay of the next three seconds."""
_GROWS_PART = 2.0
"""If the minimum delay grew by more than this many steps, a queue grew. On recordings with steps of the rate, this
changed the overlap with the truth from 0.63 to 0.99 and from 0.79 to 1.00 on two, and from 0.86 to 0.81 on one of 54.
"""
_CELL_VISITS_PART = 0.6
"""Minimum part of a step that must remain for a time as long as the step: a longer path lasts. After a busy
host, all waiting packets arrive at once, and the delay soon returns: of five such steps of 18 to 68 ms, in a
queue of 0.34 s, 0 to 0.55 remained."""


class Paths(NamedTuple):
    """The successive paths of a transfer: a path begins when the route, and so the minimum delay, changes.

    Attributes
    ----------
    begin_ns : ndarray of int64, shape (n,)
        When the first segment of each was sent; at least one.
    floor_ns : ndarray of int64, shape (n,)
        The minimum delay of each, plus one unknown constant.
    """

    begin_ns: Array
    floor_ns: Array

    @classmethod
    def of(cls, delays: DelaySamples, service_ns: float, steady: Spans | None = None) -> Paths:
        """Return the successive paths, found from permanent changes of the minimum delay.

        Parameters
        ----------
        delays : DelaySamples
            At least one.
        service_ns : float
            Time that the bottleneck needs for a segment; 0 if unknown.
        steady : Spans, optional
            When there was no queue, however long the delay (`steady_delays`).
        """
        way_ns = delays.way_ns
        begins = {*_path_steps(delays, service_ns), *path_changes(delays.time_ns, way_ns).tolist()}

        # the indexes between which the way is never shorter than in a steady stretch among them
        noise_ns = max(_NOISE_NS, _NOISE_SERVICES * service_ns)
        for begin, end in zip(*np.searchsorted(delays.time_ns, steady or Spans.none()), strict=True):
            if begin == end:
                continue
            shorter = indexes(way_ns < way_ns[begin:end].min() - noise_ns)
            at = int(np.searchsorted(shorter, begin))
            begins.add(int(shorter[at - 1]) + 1 if at else 0)
            begins.add(int(shorter[at]) if at < len(shorter) else len(way_ns))
        bounds = [0, *sorted(begins - {0, len(way_ns)}), len(way_ns)]
        floors = [way_ns[a:b].min() for a, b in pairwise(bounds)]
        if delays.unloaded_ns is not None:  # data may meet their own queue from the first window on
            floors[0] = min(floors[0], int(delays.unloaded_ns + service_ns))
        return cls(delays.time_ns[bounds[:-1]], np.array(floors, dtype=np.int64))

    @property
    def is_one(self) -> bool:
        """Whether the path never changed."""
        return len(self.begin_ns) == 1

    def above_first(self, times_ns: Array) -> Array:
        """Return how much the minimum delay of the path at each time exceeds that of the fastest path, ns."""
        if self.is_one:
            return repeated(0, len(times_ns))
        at = np.maximum(np.searchsorted(self.begin_ns, times_ns, side="right") - 1, 0)
        return np.asarray((self.floor_ns - self.floor_ns.min())[at])


def _path_steps(delays: DelaySamples, service_ns: float) -> list[int]:
    """Return the indexes of samples at which the delay jumps up or down and stays there: a new path.

    Segments sent between two samples may have waited in the queue before the second one.
    """
    sent, way, place = delays.time_ns, delays.way_ns, delays.place
    if len(way) < 2:
        return []
    jump, apart = np.diff(way), np.diff(sent)
    minimum = max(_STEP_NS, _STEP_OF_FLOOR * float(max(way.min(), 0)), _STEP_SERVICES * service_ns)
    own = np.diff(place) * service_ns
    sudden = (jump > minimum + own + _FASTER_THAN_QUEUES * apart) | (-jump > minimum + apart)
    at = indexes(sudden) + 1
    if not len(at):
        return []
    before = np.searchsorted(sent, sent[at - 1] - _LASTS_NS)
    after = np.searchsorted(sent, sent[at] + _LASTS_NS, side="right")
    moved = span_minimum(way, at, np.maximum(after, at + 1)) - span_minimum(way, np.minimum(before, at - 1), at)
    size = jump[at - 1]
    soon = np.searchsorted(sent, sent[at] + np.maximum(size, 0), side="right")
    cell_visits = span_minimum(way, at, np.maximum(soon, at + 1)) - way[at - 1] >= _CELL_VISITS_PART * size
    longer = cell_visits & (moved >= _LASTS_PART * size) & (moved <= _GROWS_PART * size)
    lasts = np.where(size > 0, longer, -moved >= _LASTS_PART * -size)
    return [int(each) for each in at[lasts]]
