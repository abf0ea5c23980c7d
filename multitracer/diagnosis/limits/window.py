"""The receiver's window: what is outstanding fills what is offered, within one segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.idle.pauses import writes_alone
from multitracer.diagnosis.limits.spans import Spans

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array


class FullWindow(NamedTuple):
    """Stretches in which the window offered had no room for one more segment."""

    spans: Spans
    zero: Spans
    """Of these, those in which less than one segment was offered at all."""


def full_window(seen: Observed) -> FullWindow:
    """Return when the window offered kept the sender back.

    After the last send nothing shows that more waited, so the rest of the transfer is left out; a closed
    window counts there too, if what ended it was data. A window into which what was sent next fits, with room
    left, kept nothing back, however small it is: not while nothing is under way, nor of small writes.
    """
    first, behind = np.searchsorted(seen.moments_ns, (seen.opened_ns, seen.end_ns))
    chosen = slice(first, behind)
    times = seen.moments_ns[chosen]
    fresh = seen.fresh
    if not len(times) or not len(fresh):
        return FullWindow(Spans.none(), Spans.none())
    until = np.append(times[1:], seen.end_ns)
    last = seen.sends.time_ns[fresh[-1]]
    edge, sent = seen.edge_of(seen.moments_answer[chosen]), seen.moments_sent[chosen]
    acked = seen.moments_acknowledged[chosen]
    is_idle = seen.moments_acknowledged[chosen] >= sent
    fits = _fits(seen, times, edge) & (is_idle | writes_alone(seen))
    is_known = (edge >= 0) & (times < last) & ~fits
    full = is_known & (edge - sent < seen.mss_bytes)
    closed = is_known & (edge - acked < seen.mss_bytes)
    return FullWindow(
        Spans.of(times[full | closed], until[full | closed]), Spans.of(times[closed], until[closed])
    )


def _fits(seen: Observed, times: Array, edge: Array) -> Array:
    """Return at which times the new segment that came next left room in the window then offered."""
    ends, fresh = seen.sends.end, seen.fresh
    following = np.searchsorted(seen.sends.time_ns[fresh], times, side="right")
    fits: Array = ends[fresh[np.minimum(following, len(fresh) - 1)]] < edge
    return fits & (following < len(fresh))


def samples_in_full_window(seen: Observed) -> float:
    """Return the part of delay samples taken while the window offered was full."""
    if not len(seen.delays.time_ns):
        return 0.0
    at: Array = seen.delays.time_ns
    edge = seen.window_edge(at)
    return float(((edge >= 0) & (edge - seen.sent_by(at) < seen.mss_bytes)).mean())
