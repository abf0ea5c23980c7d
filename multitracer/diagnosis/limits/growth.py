"""Slow start: the congestion window grows and has not filled the path yet, or not since an idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.limits.spans import Spans

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

_IDLE_NS = 200_000_000
"""After an idle time of a retransmission timeout a TCP begins anew (RFC 9293, RFC 5681 section 4.1)."""
GROWS = 1.2
"""Rounds of slow start double, with delayed ACKs grow by half; an avoiding sender adds one segment."""
_STALE_ROUNDS = 3  # one or two rounds may be cut short by the application (limits.md). Not measured


def slow_start(seen: Observed, filled: Spans, idle: Spans) -> Spans:
    """Return when the sender was in slow start.

    Parameters
    ----------
    filled : Spans
        When the link was the limit.
    idle : Spans
        When the application was.
    """
    long = idle.where(idle.length_ns >= max(_IDLE_NS, seen.floor_ns))
    begins = np.concatenate(
        [[seen.opened_ns], long.end[(long.end > seen.opened_ns) & (long.end < seen.end_ns)]]
    )
    losses = seen.sends.time_ns[seen.sends.needed]
    stops = np.sort(np.concatenate([filled.begin, losses, _standing(seen), [seen.end_ns]]))
    ends = stops[np.minimum(np.searchsorted(stops, begins, side="left"), len(stops) - 1)]
    had_loss = np.searchsorted(np.sort(losses), begins) > 0
    keep = ~had_loss | (begins == seen.opened_ns)
    return Spans.of(begins[keep], ends[keep])


def _standing(seen: Observed) -> Array:
    """Return when rounds had ceased to grow for three in a row."""
    fresh = seen.fresh
    if not len(fresh) or not seen.floor_ns:
        return np.empty(0, dtype=np.int64)
    time = seen.sends.time_ns[fresh]
    size = (seen.sends.end - seen.sends.begin)[fresh]
    filled, first = np.unique((time - time[0]) // seen.floor_ns, return_index=True)
    sums = np.add.reduceat(size, first)
    filled, sums = filled[sums > 0], sums[sums > 0]
    grows = sums[1:] >= GROWS * sums[:-1]
    if len(grows) < _STALE_ROUNDS:
        return np.empty(0, dtype=np.int64)
    still = np.convolve(~grows, np.ones(_STALE_ROUNDS), mode="valid") == _STALE_ROUNDS
    return np.asarray(time[0] + filled[1:][: len(still)][still] * seen.floor_ns, dtype=np.int64)
