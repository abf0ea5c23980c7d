"""Room on the link: the delay stays while more data are under way.

What is under way is the rate times the delay (J. D. C. Little, A proof for the queuing formula L = λW, 1961).
A busy link has one rate, so more data under way wait longer. Where they do not, the link had room, and the
least delay of that time is the path's own, however long it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import places, span_minimum
from multitracer.diagnosis.limits.doubts import not_captured
from multitracer.diagnosis.limits.spans import Spans
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

_FEWEST_ROUNDS = 8
"""Round trips in which the delay stays. An avoiding sender adds a segment in each. Not measured"""
_SAME_NS, _SAME_SERVICES = NS_PER_MS, 2.0
"""The least delays of these rounds differ by no more, nor by more times of a segment: a pair of segments, and
the noise of hosts ..."""
_MUCH = 4.0
"""... and what was added takes the link so many times that. Not measured"""
_ROOM, _ADDED = 0.8, 3.0
"""Up to this part of the most that was under way, and so many times that less, the link had room: with more
it may have been full, and its queue still short."""


class Steady(NamedTuple):
    """When the delay stayed though more data were under way, and when that proves room on the link."""

    spans: Spans
    room: Spans


def steady_delays(seen: Observed, service_ns: float) -> Steady:
    """Return when no queue of this transfer stood, as more data did not wait longer.

    Parameters
    ----------
    seen : Observed
    service_ns : float
        Time that the bottleneck takes for a segment; 0 if not known.
    """
    steady = Steady(Spans.none(), Spans.none())
    if not service_ns or not seen.floor_ns or not len(seen.delays.time_ns):
        return steady
    rounds, unclear_ns = _rounds(seen), _unclear_ns(seen)
    many = _FEWEST_ROUNDS
    while many <= len(rounds.time_ns):
        longer = _over(rounds, many, seen, service_ns, unclear_ns)
        steady = Steady(*(each.union(more) for each, more in zip(steady, longer, strict=True)))
        many *= 2
    return steady


class _Rounds(NamedTuple):
    """Of each round trip the segment whose answer came soonest."""

    time_ns: Array
    """When it left ..."""
    took_ns: Array
    """... and how long its answer took."""
    flight: Array
    """Bytes under way then and in the next round: a probe of one round has no queue yet."""


def _rounds(seen: Observed) -> _Rounds:
    over = places(seen.answers.ack, seen.sends.end[seen.fresh])
    known = over < len(seen.answers)
    time = seen.sends.time_ns[seen.fresh][known]
    if not len(time):
        return _Rounds(time, time, time)
    took = seen.answers.time_ns[over[known]] - time
    number = (time - time[0]) // max(seen.floor_ns, int(np.median(took)), 1)
    first = _soonest(number, took)
    flight = seen.undelivered(time[first])
    return _Rounds(time[first], took[first], np.minimum(flight, np.append(flight[1:], flight[-1:])))


def _soonest(number: Array, took: Array) -> Array:
    """Return of each round trip the first of the segments whose answers came soonest; rounds ascend."""
    if (number[1:] < number[:-1]).any():
        order = np.lexsort((took, number))
        return order[np.flatnonzero(np.diff(number[order], prepend=-1))]
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    least = np.repeat(np.minimum.reduceat(took, begins), np.diff(begins, append=len(number)))
    soonest = np.flatnonzero(took == least)
    return soonest[np.searchsorted(soonest, begins)]


def _over(rounds: _Rounds, many: int, seen: Observed, service_ns: float, unclear_ns: Array) -> Steady:
    """Return what stretches of so many rounds show."""
    time, took, flight = rounds
    first = np.arange(len(time) - many + 1)
    last = first + many
    most, same_ns = _greatest(flight, first, last), max(_SAME_NS, _SAME_SERVICES * service_ns)
    same_bytes = same_ns * seen.mss_bytes / service_ns
    is_steady = _greatest(took, first, last) - span_minimum(took, first, last) <= same_ns
    is_steady &= most - span_minimum(flight, first, last) >= _MUCH * same_bytes
    begin, end = time[first] - 2 * took[first], time[last - 1] + 2 * seen.floor_ns
    is_steady &= np.searchsorted(unclear_ns, begin) == np.searchsorted(unclear_ns, end)
    roomy = np.where(is_steady, np.minimum(_ROOM * most, most - _ADDED * same_bytes), 0)
    spans = Spans.of(time[first[is_steady]], time[last[is_steady] - 1])
    return Steady(spans, _up_to(time, flight, roomy, many))


def _greatest(values: Array, low: Array, high: Array) -> Array:
    return np.asarray(-span_minimum(-values, low, high))


def _unclear_ns(seen: Observed) -> Array:
    """Return when something was sent again, and when what was not captured begins and ends; ascending.

    What a repair waits for, and what was acknowledged unseen, would count as under way.
    """
    gaps = not_captured(seen)
    return np.sort(np.concatenate([seen.sends.time_ns[seen.sends.again], gaps.begin, gaps.end]))


def _up_to(time: Array, flight: Array, most: Array, many: int) -> Spans:
    """Return when no more was under way than `most` of a stretch of `many` rounds around it."""
    at = np.arange(len(time))
    low, high = np.maximum(at - many + 1, 0), np.minimum(at + 1, len(most))
    within = np.flatnonzero(flight <= _greatest(most, np.minimum(low, high - 1), high))
    within = within[within + 1 < len(time)]
    return Spans.of(time[within], time[within + 1])
