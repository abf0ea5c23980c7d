"""Recovery: the oldest data are lost, and what follows waits until they are repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.names import Part
from multitracer.diagnosis.limits.spans import Spans

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.idle.quiet import Quiet
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array


class Holes(NamedTuple):
    """Stretches in which the oldest outstanding byte had been lost."""

    spans: Spans
    part: Array


def holes(seen: Observed, still: Quiet) -> Holes:
    """Return from when the oldest byte's acknowledgment was due until that of its repair came."""
    sends = seen.sends
    repairs = np.flatnonzero(sends.needed)
    by_timer = _unseen(seen, still).union(still.unheard)
    if not len(repairs) or not len(seen.answers):
        return Holes(by_timer, np.full(len(by_timer.begin), int(Part.TIMER)))
    ack = seen.answers.ack
    over = np.searchsorted(ack, sends.begin[repairs], side="right")  # the first answer that passes the repair
    came = np.append(seen.answers.time_ns, seen.end_ns)[over]
    stalled = np.searchsorted(ack, sends.begin[repairs], side="left")  # the first that asks for it
    asks = np.append(seen.answers.time_ns, seen.end_ns)[np.minimum(stalled, over)]
    begin = np.minimum(np.maximum(asks, _first_sent(seen, repairs) + seen.floor_ns), sends.time_ns[repairs])
    spans = Spans.of(begin, came).union(by_timer)
    if len(still.idle):  # nobody saw when the first copy of a lost segment left: not before the sender sent
        spans = spans.without(still.silent)
    which = spans.which(sends.time_ns[repairs])
    timed = np.zeros(len(spans.begin) + 1, dtype=bool)
    np.logical_or.at(timed, which, sends.by_timer[repairs])
    timed[spans.which(by_timer.end - 1)] = True
    return Holes(spans, np.where(timed[:-1], int(Part.TIMER), int(Part.FAST)))


def _unseen(seen: Observed, still: Quiet) -> Spans:
    """Return silences before the next data whose last packets are known to be missing: a timer ended them.

    Only a receiver's capture has such: what was lost and its repair look like new data there.
    """
    sends = seen.sends
    ended = np.flatnonzero(sends.by_timer & ~sends.again & (sends.missing > 0))
    ended = ended[(ended > 0) & ~np.isin(ended, still.idle)]
    return Spans.of(sends.time_ns[ended - 1] + seen.floor_ns, sends.time_ns[ended])


def _first_sent(seen: Observed, repairs: Array) -> Array:
    """Return when the first byte of each repair was sent first; long ago where that was not seen."""
    fresh = seen.fresh
    begins = seen.sends.begin[fresh]
    at = np.searchsorted(begins, seen.sends.begin[repairs], side="right") - 1
    known = (at >= 0) & (seen.sends.end[fresh][np.maximum(at, 0)] > seen.sends.begin[repairs])
    return np.where(known, seen.sends.time_ns[fresh][np.maximum(at, 0)], seen.begin_ns)
