"""The opportunities of a trace over the time of a run, found in steps that do not depend on their number."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.protocols.capacity_trace import CapacityTrace


class Moment(NamedTuple):
    """A time at which packets can leave."""

    time_ns: int
    opportunities: int
    """How many there are at that very time."""


class Opportunities:
    """When a trace lets packets pass, from link time 0 on, again and again or once.

    Parameters
    ----------
    trace : CapacityTrace
    repeats : bool
        Whether it begins again at its end: a stamp of 0 then falls on the end of the round before.
    """

    def __init__(self, trace: CapacityTrace, *, repeats: bool) -> None:
        stamps, counts = np.unique(trace.stamps_ms, return_counts=True)
        self._stamps_ms: list[int] = stamps.tolist()
        self._counts: list[int] = counts.tolist()
        self._lasts_ms = trace.lasts_ms
        self._repeats = repeats

    def after(self, time_ns: int) -> Moment | None:
        """Return the first moment after a time; None if the trace is over and does not repeat."""
        time_ms = time_ns // NS_PER_MS
        round_, in_round_ms = divmod(time_ms, self._lasts_ms)
        if not self._repeats and round_ > 0:
            return None
        place = bisect_right(self._stamps_ms, in_round_ms)  # there is one: the last stamp is the length
        at_ms = round_ * self._lasts_ms + self._stamps_ms[place]
        count = self._counts[place]
        is_at_end = place == len(self._stamps_ms) - 1
        if is_at_end and self._repeats and self._stamps_ms[0] == 0:
            count += self._counts[0]
        return Moment(at_ms * NS_PER_MS, count)
