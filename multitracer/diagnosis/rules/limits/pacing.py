"""The sender spaces its segments by a timer, as BBR does: they are not set free by ACKs. That is no fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.held import held
from multitracer.diagnosis.limits.limited import stretches
from multitracer.diagnosis.limits.names import Limit, Viewpoint
from multitracer.diagnosis.limits.spans import Spans
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

KIND = "pacing"
HELP = "Nothing: a paced sender keeps queues short. Its estimate of the path's rate decides its speed."
_WINDOWS = (Limit.LINK, Limit.CONGESTION_WINDOW)
"""While these hold there are data to send, and no window of the receiver: the sender's own rule decides."""
_LEAST = 0.2
"""Share of the time that they hold, together."""
_LEAST_SEGMENTS = 50  # a share of 0.3 is then known to 0.13 (two standard errors)
_REACTION_NS = 300 * NS_PER_US
"""A segment that an ACK set free leaves within this time ..."""
_TIMED = 0.3
"""... so these did not: 0.43 to 1.0 of the segments of BBR, 0.06 at most of Reno's and CUBIC's."""
_AT_ONCE_NS = 50 * NS_PER_US  # full segments at 240 Mbit/s: what follows sooner left as one burst
_BURSTS = 0.2
"""Segments that leave with the one before: an ACK sets two free, a timer one. 0.07 at most of BBR; 0.44 and
more of other senders whose segments no ACK released."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, seen from the sender: on a fast path ACKs are too near to tell."""
    seen = diagnosis.limited.seen
    if diagnosis.is_link_logged or seen is None or diagnosis.limited.view is Viewpoint.RECEIVER:
        return
    spans = Spans.of(*np.concatenate([stretches(diagnosis.limited, limit) for limit in _WINDOWS], axis=1))
    if spans.total_ns * diagnosis.transfer.speed < _LEAST * diagnosis.limited.total_s * NS_PER_S:
        return
    own = _own_segments(seen, spans)
    if len(own) < _LEAST_SEGMENTS or not len(seen.answers):
        return
    timed, burst = _shares(seen, own)
    if timed >= _TIMED and burst <= _BURSTS:
        yield _finding(diagnosis, spans, timed, seen.sends.row[own])


def _own_segments(seen: Observed, spans: Spans) -> Array:
    """Return the full segments sent for the first time while the window alone decided.

    Full are the commonest, too: a sender that ran into a path MTU black hole goes on with smaller ones.
    """
    own = seen.fresh[spans.holds(seen.sends.time_ns[seen.fresh])]
    size = (seen.sends.end - seen.sends.begin)[own]
    sizes, many = np.unique(size, return_counts=True)
    full = min(seen.mss_bytes, int(sizes[many.argmax()])) if len(sizes) else seen.mss_bytes
    return np.asarray(own[size >= full])


def _shares(seen: Observed, own: Array) -> tuple[float, float]:
    """Return the parts of segments that no ACK set free, and that left with the one before."""
    sent = seen.sends.time_ns[own]
    last = seen.last_answer(sent)
    since = sent - seen.answers.time_ns[np.maximum(last, 0)]
    timed = (last < 0) | (since > _REACTION_NS)
    return float(timed.mean()), float(np.mean(np.diff(sent) < _AT_ONCE_NS))


def _finding(diagnosis: Diagnosis, spans: Spans, timed: float, sent: Array) -> Finding:
    sentence = (
        f"The sender paced its segments, as BBR does: {timed:.0%} of {len(sent):,} full ones left without an "
        "ACK that released them, and none in a burst. That is no fault."
    )
    limited = held(diagnosis.limited, Limit.CONGESTION_WINDOW)
    numbers = {"paced_share": timed, "congestion_window_share": limited.share if limited else 0.0}
    begin_ns, end_ns = int(spans.begin[0]), int(spans.end[-1])
    return Finding(KIND, begin_ns, end_ns, 0.0, None, rows("sender", sent), sentence, numbers=numbers)
