"""The congestion window was still growing: the transfer was too short for its path."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.held import held, is_after_idle
from multitracer.diagnosis.limits.limited import stretches
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.remedies import AFTER_IDLE_HELP
from multitracer.words import about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.observed import Observed

_INITIAL_SEGMENTS = 10
"""Segments of an initial window (RFC 6928)."""
KIND = "slow-start-limited"
HELP = "A connection that is used again, a larger initial window (initcwnd), or a shorter path."
_GROWTH = 1.5
"""Growth of a window in a round trip with delayed ACKs (RFC 5681, section 3.1)."""
_MORE_TRIPS, _MIN_TRIPS = 3, 1.25
"""Round trips that slow start may take beyond those of its bytes: at most 0.9 on recordings of known cause; where the
sender was slow for another reason it had 21 to 139 more. And least ones of a piece that shows growth, if there are
several: a sender that writes at its own pace makes hundreds of one round trip."""
_LARGER = 4
"""Factor of the larger initial window whose saving is reported: two doublings."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if the congestion window was still growing (slow start).

    There is none if all data fitted into the initial windows, nor if most of that time shows no growth.
    """
    limit = held(diagnosis.limited, Limit.SLOW_START)
    seen = diagnosis.limited.seen
    if limit is None or seen is None or seen.floor_ns <= diagnosis.transfer.stamp_step_ns:
        return
    if not _is_growth(diagnosis.limited, seen):
        return
    trip_s = diagnosis.link_s(0, seen.floor_ns)
    rounds = limit.seconds / trip_s
    saved_s = min(_trips_saved(diagnosis.limited, seen), rounds) * trip_s
    if not saved_s:
        return
    sentence = (
        f"For {about(limit.seconds)}, {100 * limit.share:.0f} % of the time, some {rounds:.0f} round trips of "
        f"{about(trip_s)}, the congestion window was still growing; {_LARGER} times the initial window would "
        f"save up to {about(saved_s)}."
    )
    numbers = limit.numbers | {"round_trips": rounds, "rtt_s": trip_s, "saving_s": saved_s}
    helps = f"{AFTER_IDLE_HELP[0].upper()}{AFTER_IDLE_HELP[1:]}." if is_after_idle(diagnosis.limited) else ""
    yield limit.finding(KIND, sentence, numbers)._replace(help=helps)


def _is_growth(limited: Limited, seen: Observed) -> bool:
    """Return whether the window can have grown in most of the time that slow start had.

    The bytes sent tell how many round trips a growing window takes for them; a sender that took many more had another
    reason. In pieces of one round trip no growth shows.
    """
    begin, end = stretches(limited, Limit.SLOW_START)
    sent_bytes = np.maximum(seen.sent_by(end) - seen.sent_by(begin, side="left"), 0)
    trips = (end - begin) / seen.floor_ns
    needed = np.log1p((_GROWTH - 1) * sent_bytes / _initial_bytes(seen)) / math.log(_GROWTH)
    grows = (trips <= needed + _MORE_TRIPS) & ((trips >= _MIN_TRIPS) | (len(trips) == 1))
    return 2 * int((end - begin)[grows].sum()) >= int((end - begin).sum())


def _trips_saved(limited: Limited, seen: Observed) -> int:
    """Return how many round trips a large initial window saves at most.

    The last doubling of the window does not count.
    """
    begin, end = stretches(limited, Limit.SLOW_START)
    sent_bytes = np.maximum(seen.sent_by(end) - seen.sent_by(begin, side="left"), 0)  # below 1: damage
    trips = np.ceil(np.log2(1 + sent_bytes / _initial_bytes(seen)))
    return int(np.clip(trips - 1, 0, math.log2(_LARGER)).max(initial=0))


def _initial_bytes(seen: Observed) -> int:
    """Return the bytes sent before the first answer, at least a segment, at most an initial window."""
    first = np.flatnonzero(seen.answers.ack > 1)[:1]
    flight = seen.sent_by(seen.answers.time_ns[first], side="left").max(initial=1) - 1
    return int(np.clip(flight, seen.mss_bytes, _INITIAL_SEGMENTS * seen.mss_bytes))
