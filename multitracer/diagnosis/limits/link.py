"""The link: the bottleneck has data of this transfer queued or in service.

Shown by its queue (segments take longer than the shortest way), and by its rate (data are delivered as fast
as they were while there was a queue).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import places, span_minimum
from multitracer.diagnosis.limits.answer_queue import answers_queue
from multitracer.diagnosis.limits.floors import Paths
from multitracer.diagnosis.limits.names import View
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.limits.steady import steady_delays
from multitracer.diagnosis.limits.trains import steady_arrivals
from multitracer.diagnosis.limits.window import full_window, samples_in_full_window
from multitracer.diagnosis.packets.train_rate import HEADERS_BYTES
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

# Thresholds of limits.md, found where the answer did not depend on them on ninety recordings of known cause.
_QUEUE_NS = 3 * NS_PER_MS  # a delay above the floor by more than this ...
_QUEUE_OF_FLOOR = 0.1  # ... and by this part of the floor ...
_QUEUE_SERVICES = 1.5  # ... and by this many times of a segment on the link is a queue
_CALM, _CALM_NS = 0.5, NS_PER_MS // 2
"""So much of both suffices where delays mostly differ from the one before by no more than this and the time
of a segment: no radio, no busy host. Short queues of fast links are found so; Wi-Fi's jitter is larger."""
_BRIDGE_NS = 2 * NS_PER_MS  # shorter gaps between samples do not end a queue ...
_BRIDGE_SERVICES = 2.5  # ... nor do fewer times of a segment on the link
_FEWEST_SAMPLES = 3  # in a queue: one or two may be a host that was busy
_LASTING_NS = 20 * NS_PER_MS
"""Wi-Fi sends its bunches a few milliseconds apart."""
_RATE_WINDOW_NS = 30 * NS_PER_MS  # a rate is taken over at least this (limits.md) ...
_RATE_SEGMENTS = 8  # ... and at least these: an ACK may cover two or three segments (limits.md)
_NEAR_RATE = 0.9  # part of the link's rate from which on data keep up with it (limits.md)
_FULL_RATE = 0.9
"""Quantile of the delivery rates that is taken for the link's: above it lie bunches of ACKs. Not measured."""
_BEST_RATE = 0.95
"""Quantile of the delivery rates that is taken for the link's where nothing proves a queue of data."""
_ENOUGH = 20
"""Rates that a queue shows all the time; of fewer, over eight segments each, one may be a tenth off."""
_STEADY_ROUNDS = 3  # so long must a queue have shown the link's rate. Not measured
_STRETCHES = 32
"""In so many pieces the rate of a link is followed over a transfer."""
_MOST_ABOVE, _RARELY = 1.25, 0.1
"""A rate is refuted if more than this part of the deliveries are faster by this factor. Not measured."""
_WITHHELD = 0.6
"""Part of samples taken with a full window from which on a slow reader may have made them."""
_WITHHELD_SEGMENTS = 2.5
"""An ACK that covers more than so many segments was kept back."""


class Busy(NamedTuple):
    """When the bottleneck had work for this transfer, and how fast it went then."""

    spans: Spans
    by_queue: Spans
    """Of these, those that a queue proves."""
    by_bucket: Spans
    """Of these, those in which the bucket of a policer was empty."""
    rate: Rates | None


class Delivery(NamedTuple):
    """What answers delivered in the round trip before each.

    Attributes
    ----------
    time_ns, since_ns : ndarray of int64, shape (n,)
        When the receiver gave the answer, half a round trip later, and begin of the time before it.
    rate : ndarray of float64, shape (n,), bytes per ns
    """

    time_ns: Array
    since_ns: Array
    rate: Array


class Rates(NamedTuple):
    """Delivery while the link was the limit, bytes of payload per second."""

    low: float
    median: float
    high: float


def busy(seen: Observed) -> Busy:
    """Return when the link had data of the transfer queued or in service, or its policer no token."""
    link, empty = _busy(seen), _empty_bucket(seen)
    if not empty.total_ns:
        return link
    spans = link.spans.union(empty)
    return Busy(spans, link.by_queue, empty, _rates(seen, spans, seen.floor_ns, 0))


def _empty_bucket(seen: Observed) -> Spans:
    """Return the stretches in which the bucket of a policer was empty in each round trip."""
    if seen.policer is None:
        return Spans.none()
    service_ns = (seen.mss_bytes + HEADERS_BYTES) * NS_PER_S / seen.policer.rate_bytes_per_s
    empty = Spans.of(*seen.policer.empty_ns).bridged(max(seen.floor_ns, _BRIDGE_SERVICES * service_ns))
    times = seen.moments_ns
    is_idle = seen.moments_sent[:-1] <= np.maximum(seen.moments_acknowledged[:-1], 1)
    idle = Spans.of(times[:-1][is_idle], times[1:][is_idle])
    return _clipped(empty.where(empty.length_ns >= seen.floor_ns), seen).without(idle)


def _busy(seen: Observed) -> Busy:
    delivery = _delivery(seen, seen.floor_ns)
    rate = delivery.rate
    if not len(seen.delays.time_ns):
        even = _clipped(steady_arrivals(seen), seen).without(full_window(seen).spans)
        return Busy(even, Spans.none(), Spans.none(), _rates(seen, even, seen.floor_ns, 0))
    service_ns = seen.mss_bytes / float(np.quantile(rate, _FULL_RATE)) if len(rate) else 0.0
    if not seen.one_way and not seen.answers.lag_ns.any():
        of_answers = _beside_answers(seen, service_ns)
        if of_answers is not None:
            return of_answers
    steady = steady_delays(seen, service_ns)
    paths = Paths.of(seen.delays, service_ns, steady.spans)
    queued = _queued(seen, paths, service_ns)
    delivery = (
        delivery if paths.is_one else _delivery(seen, seen.floor_ns + paths.above_first(seen.answers.time_ns))
    )
    times, _, rate = delivery
    floor_ns = seen.floor_ns + paths.above_first(times)
    of_answers_ns = seen.floor_ns + paths.above_first(seen.answers.time_ns)
    shown = _rates(seen, queued, of_answers_ns, of_answers_ns)
    proven = _proven(queued, delivery, floor_ns)
    if not proven.any() or queued.total_ns < _STEADY_ROUNDS * seen.floor_ns:
        return Busy(queued, queued, Spans.none(), shown)
    throughout = _proven_throughout(queued, delivery, floor_ns)
    usual = _usual(times, rate, throughout) if throughout.sum() >= _ENOUGH else None
    usual = _usual(times, rate, proven) if usual is None else usual
    if usual is None:
        return Busy(queued, queued, Spans.none(), shown)
    kept_up = _kept_up(seen, paths, delivery, usual).without(steady.room)
    spans = _clipped(queued.union(kept_up), seen)
    return Busy(spans, queued, Spans.none(), shown)


def _kept_up(seen: Observed, paths: Paths, delivery: Delivery, usual: Array) -> Spans:
    """Return the stretches in which data were delivered about as fast as the link's usual rate."""
    fast = delivery.time_ns[delivery.rate >= _NEAR_RATE * usual]
    floor = seen.floor_ns + paths.above_first(fast)
    end = fast - floor // 2
    return _clipped(Spans.of(end - np.maximum(floor, _RATE_WINDOW_NS), end), seen)


def _beside_answers(seen: Observed, service_ns: float) -> Busy | None:
    """Return when data came at their best rate while answers queued, which hides whether data did.

    None if no answers queued.
    """
    paths = Paths.of(seen.delays, service_ns)
    queued = _queued(seen, paths, service_ns)
    if not answers_queue(seen, queued):
        return None
    delivery = _delivery(seen, seen.floor_ns + paths.above_first(seen.answers.time_ns))
    best = np.quantile(delivery.rate, _BEST_RATE) if len(delivery.rate) else 0.0
    kept_up = _kept_up(seen, paths, delivery, np.full(len(delivery.rate), best))
    spans = kept_up.without(kept_up.without(queued)).without(full_window(seen).spans)
    return Busy(spans, Spans.none(), Spans.none(), _rates(seen, spans, seen.floor_ns, 0))


def _proven(queued: Spans, delivery: Delivery, floor_ns: Array) -> Array:
    """Return which deliveries show the rate of the link: it had a queue when the last bytes were served."""
    return np.asarray(queued.holds(delivery.time_ns - floor_ns) & (delivery.rate > 0))


def _proven_throughout(queued: Spans, delivery: Delivery, floor_ns: Array) -> Array:
    """Return which deliveries were served by a link that had a queue all that time."""
    first = queued.which(delivery.since_ns - floor_ns)
    same = (first >= 0) & (first == queued.which(delivery.time_ns - floor_ns))
    return np.asarray(same & (delivery.rate > 0))


def _usual(times: Array, rate: Array, proven: Array) -> Array | None:
    """Return the link's rate at each time, from the times when a queue proved it; None if it cannot be.

    No link delivers more than its rate. If data say so of a rate that changes, one for all times is tried:
    the middle one, a high one, and the best, which is the link's own where others share it for a while.
    """
    changing = _followed(times, rate, proven)
    candidates = (*np.quantile(rate[proven], [0.5, _FULL_RATE]), changing.max())
    steady = (np.full(len(times), each) for each in candidates)
    for usual in (changing, *steady):
        if (rate > _MOST_ABOVE * usual).mean() <= _RARELY:
            return usual
    return None


def _followed(times: Array, rate: Array, proven: Array) -> Array:
    """Return the rate that a queue proved at each time: the median of stretches."""
    known = rate[proven]
    width = min(max(len(known) // _STRETCHES, _RATE_SEGMENTS), len(known))
    whole = len(known) // width * width
    middle = np.median(known[:whole].reshape(-1, width), axis=1)
    return np.asarray(np.interp(times, times[proven][width // 2 : whole : width][: len(middle)], middle))


def _clipped(spans: Spans, seen: Observed) -> Spans:
    begin, end = np.maximum(spans.begin, seen.opened_ns), np.minimum(spans.end, seen.end_ns)
    return Spans.of(begin, end)


def _rates(seen: Observed, spans: Spans, floor_ns: Array | int, behind_ns: Array | int) -> Rates | None:
    """Return the rates of delivery within stretches, each counted for the time that it held.

    A rate that began before its stretch holds a pause of the sender, too; only where no stretch is long
    enough for eight segments such are taken. Answers come `behind_ns` after the link has served what they
    cover; that and the shortest round trip `floor_ns` are of the whole, or of each answer.
    """
    delivery = _delivery(seen, floor_ns, (spans, behind_ns))
    if not len(delivery.rate):
        delivery = _delivery(seen, floor_ns)
        delivery = Delivery(*(column[spans.holds(delivery.time_ns)] for column in delivery))
    rate = delivery.rate
    if not len(rate):
        return None
    held_ns = np.diff(delivery.time_ns, prepend=delivery.since_ns[:1])
    held_ns = np.minimum(held_ns, delivery.time_ns - delivery.since_ns)
    order = np.argsort(rate, kind="stable")
    passed = np.cumsum(held_ns[order])
    at = np.searchsorted(passed, np.array([0.05, 0.5, 0.95]) * passed[-1])
    low, median, high = rate[order][np.minimum(at, len(rate) - 1)] * 1e9
    return Rates(float(low), float(median), float(high))


def _delivery(
    seen: Observed, floor_ns: Array | int, within: tuple[Spans, Array | int] | None = None
) -> Delivery:
    """Return at each answer that delivers the bytes per ns delivered in the round trip before it.

    `floor_ns` is the shortest round trip, of the whole or at each answer. A queue of answers spaces them by
    its own rate; by the receiver's timestamps it does not. `within` keeps those that begin and end in one
    stretch, by the time of each answer less the given one.
    """
    time = np.maximum.accumulate(seen.answers.time_ns - seen.answers.lag_ns)
    done = seen.answers.delivered
    new = np.flatnonzero(np.diff(done, prepend=done[:1]) > 0) if len(done) else np.empty(0, dtype=np.int64)
    width = np.maximum(np.broadcast_to(floor_ns, len(time)), _RATE_WINDOW_NS)[new]
    time, done = time[new], done[new]
    if len(new) < 2:
        return Delivery(time[:0], time[:0], np.empty(0))
    fewer = places(done, done - _RATE_SEGMENTS * seen.mss_bytes, "right") - 1
    before = np.minimum(places(time, time - width, "right") - 1, fewer)
    known = (before >= 0) & (before < np.arange(len(time)))
    if within is not None:
        spans, behind_ns = within
        stretch = spans.which(time - np.broadcast_to(behind_ns, len(seen.answers.time_ns))[new])
        first = np.flatnonzero(np.diff(stretch, prepend=-2))
        first = np.repeat(first, np.diff(np.append(first, len(time))))
        known = (stretch >= 0) & (first <= fewer) & (fewer < np.arange(len(time)))
        before = np.maximum(before, first)
    since = time[before[known]]
    gone = time[known] - since
    rate = (done[known] - done[before[known]]) / np.maximum(gone, 1)
    return Delivery(time[known], since, rate)


def _queued(seen: Observed, paths: Paths, service_ns: float) -> Spans:
    """Return the stretches in which samples of delay show a queue."""
    if _is_withheld(seen):
        return Spans.none()
    sent, way = seen.delays.time_ns, seen.delays.way_ns
    floor = seen.floor_ns + paths.above_first(sent)
    queue = _standing(sent, paths.queue(sent, way), floor)
    part = 0.0 if seen.view is View.BOTH_ENDS else _QUEUE_OF_FLOOR  # one way, by two clocks: no noise of ACKs
    noise = np.maximum(_QUEUE_NS, part * floor) * (_CALM if _is_calm(way, service_ns) else 1.0)
    least = np.maximum(_QUEUE_SERVICES * service_ns, noise)
    above = np.flatnonzero(queue > least)
    queued = Spans.of(sent[above], sent[above] + queue[above])
    queued = queued.bridged(max(_BRIDGE_NS, _BRIDGE_SERVICES * service_ns))
    inside = queued.which(sent[above])
    samples = np.bincount(inside[inside >= 0], minlength=len(queued.begin))
    long = queued.length_ns >= seen.floor_ns + paths.above_first(queued.begin)
    return _clipped(queued.where(long & (samples >= _FEWEST_SAMPLES)), seen)


def _is_calm(way: Array, service_ns: float) -> bool:
    """Return whether most delays differ from the one before by what a segment takes, and next to nothing."""
    return len(way) > 1 and float(np.median(np.abs(np.diff(way)))) <= service_ns + _CALM_NS


def _standing(sent: Array, queue: Array, floor_ns: Array) -> Array:
    """Return the part of each delay that lasts: the least of all samples of a round trip after, or before it.

    A radio that sends packets in bunches delays each by another time; the last of a bunch waited for none.
    """
    width = np.maximum(floor_ns, _LASTING_NS)
    here = np.arange(len(sent))
    after = np.maximum(places(sent, sent + width, "right"), here + 1)
    before = np.minimum(places(sent, sent - width), here)
    return np.asarray(np.maximum(span_minimum(queue, here, after), span_minimum(queue, before, here + 1)))


def _is_withheld(seen: Observed) -> bool:
    """Return whether a receiver that reads slowly kept its ACKs back: then round trips prove no queue."""
    if seen.one_way or samples_in_full_window(seen) <= _WITHHELD:
        return False
    steps = np.diff(seen.answers.ack)
    steps = steps[steps > 0]
    return bool(len(steps)) and float(np.median(steps)) > _WITHHELD_SEGMENTS * seen.mss_bytes
