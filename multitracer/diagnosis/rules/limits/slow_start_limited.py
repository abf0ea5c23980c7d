"""The congestion window was still growing: the transfer was too short for its path."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from multitracer.diagnosis.held import held
from multitracer.diagnosis.limits.names import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case, Finding

KIND = "slow-start-limited"
HELP = "A connection that is used again, a larger initial window (initcwnd), or a shorter path."
_LARGER = 4
"""Times the initial window for which the saving is told: two doublings."""


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding."""
    limit = held(case.limited, Limit.SLOW_START)
    seen = case.limited.seen
    if limit is None or seen is None or not seen.floor_ns:
        return
    trip_s = case.link_s(0, seen.floor_ns)
    rounds = limit.seconds / trip_s
    saved_s = min(math.log2(_LARGER), rounds) * trip_s
    sentence = (
        f"For {limit.seconds:.2g} s, {limit.share:.0%} of the time, some {rounds:.0f} round trips of "
        f"{trip_s:.2g} s, the congestion window was still growing; {_LARGER} times the initial window would "
        f"save up to {saved_s:.2g} s."
    )
    numbers = limit.numbers | {"round_trips": rounds, "rtt_s": trip_s, "saving_s": saved_s}
    yield limit.finding(KIND, sentence, numbers)
