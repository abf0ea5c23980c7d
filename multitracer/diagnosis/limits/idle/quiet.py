"""Silences at a receiver that had acknowledged all there was: no window of its sender's limits then.

What comes next tells why, by its timestamps (RFC 7323) and its IP identification: whether the sender had
heard the last ACK, and whether it had sent something before that did not arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import places
from multitracer.diagnosis.limits.names import View
from multitracer.diagnosis.limits.spans import Spans

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

UNTOLD = "all that had arrived was acknowledged, and a capture at the receiver does not show why nothing came"
_TIMER_NS = 200_000_000
"""Linux's least timeout beyond the round trip: a sender that waits for an ACK repeats by then."""
_UNTIMED_NS = 1_000_000_000
"""The same where no round trip was measured: the timeout of RFC 6298, section 2.1, before any was."""


class Quiet(NamedTuple):
    """What ended each silence without anything outstanding that lasted longer than a timer's."""

    idle: Array
    """Indexes in `sends`: the sender had heard all, and had sent nothing in vain; it had nothing to send."""
    silent: Spans
    """These silences, from when the sender had heard all."""
    unheard: Spans
    """What had arrived was sent again, and new data followed at once: no ACK had reached the sender."""
    untold: Spans
    """Neither is shown."""


def quiet(seen: Observed) -> Quiet:
    """Return the silences of a receiver's capture after all was acknowledged; none of any other view."""
    sends = seen.sends
    if seen.view is not View.RECEIVER or len(sends) < 2 or not len(seen.answers):
        return Quiet(np.empty(0, dtype=np.int64), Spans.none(), Spans.none(), Spans.none())
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
    untold = long & ~idle & ~(sends.missing[1:] > 0)  # what is missing was lost: its repair ended it
    return Quiet(
        np.flatnonzero(idle) + 1,
        Spans.of(heard_ns[idle], end[idle]),
        Spans.of(covered_ns[in_vain], came_ns[1:][in_vain]),
        Spans.of(heard_ns[untold], end[untold]),
    )


def _nothing_lost(seen: Observed) -> Array:
    """Return before which sends no packet was lost, neither of theirs nor the ACK before.

    What is missing does not count where it is just the segments before them: no copy of these was lost, so
    they left together, after the silence.
    """
    sends = seen.sends
    skipped = sends.begin - seen.acknowledged(sends.time_ns, side="left")
    nothing = np.asarray(sends.missing == -(-np.maximum(skipped, 0) // max(seen.mss_bytes, 1)))
    echoing, late = seen.echoed_answer, seen.late_answer
    if echoing is None or late is None or not echoing.any():  # no timestamps: it would have sent again by now
        return nothing
    return np.asarray(nothing & echoing & ~late)


def _follow_at_once(seen: Observed, came_ns: Array) -> Array:
    """Return after which sends new data came as soon as their answers could let them go."""
    fresh_ns = np.append(seen.sends.time_ns[seen.fresh], np.iinfo(np.int64).max)
    following_ns = fresh_ns[np.searchsorted(seen.fresh, np.arange(len(seen.sends)), side="right")]
    return np.asarray(following_ns - came_ns <= _TIMER_NS)
