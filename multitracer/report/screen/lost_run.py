"""Data that were lost in a row, for longer than a full queue loses all: the way is dead, or as good as that.

A full queue frees a place with each packet that it sends on, so others get through between those it drops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.names import Limit
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis

_LEAST_SEGMENTS = 20
"""In a row: 88 in an outage of the data, 24 beside competing traffic, 13 in one burst at a policer."""
_LEAST_ROUNDS = 2.0
"""Shortest round trips: 2.6 of them in an outage of the data, 1.3 at most beside competing traffic and 0.6
at most at full queues, policers and losses by chance (14 bundled recordings)."""


class LostRun(NamedTuple):
    """Segments that were sent one after the other and all lost.

    Attributes
    ----------
    begin_ns, end_ns : int
        When the first and the last one were sent, recorded time.
    segments : int
    repairs : int
        How many of them repeated what was lost before.
    """

    begin_ns: int
    end_ns: int
    segments: int
    repairs: int


def lost_run(diagnosis: Diagnosis) -> LostRun | None:
    """Return the longest run of lost data in which a repair was lost, too.

    None where there is none so long, only one end was captured, or an outage is a limit already.
    """
    seen, is_outage = diagnosis.limited.seen, Limit.OUTAGE in diagnosis.limited.cells.limit
    if seen is None or is_outage or not len(seen.sends) or (seen.sends.lost == NA).any():
        return None
    steps = np.diff(np.concatenate([[0], seen.sends.lost == 1, [0]]))
    first, last = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1
    many = last - first + 1 >= _LEAST_SEGMENTS
    if not many.any():
        return None
    time_ns = seen.sends.time_ns
    longest = int(np.argmax(np.where(many, time_ns[last] - time_ns[first], -1)))
    begin, end = int(first[longest]), int(last[longest])
    run = LostRun(
        int(time_ns[begin]), int(time_ns[end]), end - begin + 1, int(seen.sends.again[begin : end + 1].sum())
    )
    return run if run.repairs and run.end_ns - run.begin_ns >= _LEAST_ROUNDS * seen.floor_ns else None
