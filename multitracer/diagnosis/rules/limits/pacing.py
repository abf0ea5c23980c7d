"""The sender spaces its segments by a timer, as BBR does, not by ACKs. That is no fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.held import held
from multitracer.diagnosis.limits.limited import stretches
from multitracer.diagnosis.limits.names import Limit, LimitSubtype, Viewpoint
from multitracer.diagnosis.limits.spans import Spans
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "pacing"
HELP = "Nothing: a paced sender keeps queues short. Its estimate of the path's rate decides its speed."
_WINDOWS = (Limit.LINK, Limit.CONGESTION_WINDOW)
"""Limits during which the sender's own rule decides: data are waiting, and the receiver's window is not full."""
_MIN = 0.2
"""Minimum share of the time of these limits together."""
_MIN_SEGMENTS = 50  # a share of 0.3 is then known to 0.13 (two standard errors)
_REACTION_NS = 300 * NS_PER_US
"""Maximum time, in ns, between an ACK and a segment that it released."""
_TIMED = 0.3
"""Minimum share of segments that no ACK released: 0.43 to 1.0 for BBR, at most 0.06 for Reno and CUBIC."""
_AT_ONCE_NS = 50 * NS_PER_US  # full segments at 240 Mbit/s: what follows sooner left as one burst
_BURSTS = 0.2
"""Maximum share of segments sent together with the one before: an ACK releases two, a timer one. At most 0.07
for BBR; 0.44 or more for other senders whose segments no ACK released."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if the sender spaces its segments by a timer (as BBR does).

    Only a sender's capture is used: elsewhere on a fast path, ACKs are too close to each other to decide.
    """
    seen = diagnosis.limited.seen
    if diagnosis.is_link_logged or seen is None or diagnosis.limited.view is Viewpoint.RECEIVER:
        return
    spans = Spans.of(*np.concatenate([stretches(diagnosis.limited, limit) for limit in _WINDOWS], axis=1))
    if spans.total_ns * diagnosis.transfer.speed < _MIN * diagnosis.limited.total_s * NS_PER_S:
        return
    by_interface = Spans.of(*stretches(diagnosis.limited, Limit.LINK, LimitSubtype.HOST))
    if 2 * by_interface.total_ns > spans.total_ns:
        return  # the sender's own interface spaces them, or a pacer: the row of that limit says so

    # the full segments sent for the first time meanwhile; full are the commonest, too: a sender that ran into
    # a path MTU black hole goes on with smaller ones
    own = seen.fresh[spans.holds(seen.sends.time_ns[seen.fresh])]
    size = (seen.sends.end - seen.sends.begin)[own]
    sizes, many = np.unique(size, return_counts=True)
    full = min(seen.mss_bytes, int(sizes[many.argmax()])) if len(sizes) else seen.mss_bytes
    own = own[size >= full]
    if len(own) < _MIN_SEGMENTS or not len(seen.answers):
        return

    # the parts of them that no ACK set free, and that left with the one before
    sent = seen.sends.time_ns[own]
    last = seen.last_answer(sent)
    since = sent - seen.answers.time_ns[np.maximum(last, 0)]
    timed = float(np.mean((last < 0) | (since > _REACTION_NS)))
    if timed < _TIMED or np.mean(np.diff(sent) < _AT_ONCE_NS) > _BURSTS:
        return
    sentence = (
        f"The sender paced its segments, by BBR or a limit of its rate: {100 * timed:.0f} % of {len(own):,} full ones "
        "left without an ACK that released them, and none in a burst. That is no fault."
    )
    limited = held(diagnosis.limited, Limit.CONGESTION_WINDOW)
    numbers = {"paced_share": timed, "congestion_window_share": limited.share if limited else 0.0}
    begin_ns, end_ns = int(spans.begin[0]), int(spans.end[-1])
    evidence = rows("sender", seen.sends.row[own])
    yield Finding(KIND, begin_ns, end_ns, 0.0, None, evidence, sentence, numbers=numbers)
