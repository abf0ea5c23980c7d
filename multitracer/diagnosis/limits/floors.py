"""The shortest way of a segment without a queue, which begins anew where the path changed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import span_minimum
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.packets.packet_delays import path_changes
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.limits.observed import DelaySamples
    from multitracer.tables import Array

_STEP_NS = 10 * NS_PER_MS  # limits.md: a step is larger than this ...
_STEP_OF_FLOOR = 0.1  # ... and than this part of the floor ...
_STEP_SERVICES = 5.0  # ... and than this many times of a segment at the bottleneck. Not measured
"""A step is larger than what a few segments add to a queue."""
_FASTER_THAN_QUEUES = 3.0
"""A queue into which four times the link's rate pours grows by this much in a unit of time."""
_NOISE_NS, _NOISE_SERVICES = NS_PER_MS, 1.5
"""By so much a way may be shorter than the path's least before: clocks, and a pair of segments."""
_LASTS_NS = 3 * NS_PER_S  # limits.md
_LASTS_PART = 0.7
"""A step lasts if so much of it is left in the best of all that follows for three seconds."""
_GROWS_PART = 2.0
"""If the best way grew by more than so many steps, a queue grew. Found on rates that step: overlap with the
truth from 0.63 to 0.99 and from 0.79 to 1.00 on two, from 0.86 to 0.81 on one of 54."""
_STAYS_PART = 0.6
"""A longer path is so for a time as long as the step, too. Where a host was busy, what had come meanwhile
comes at once, and the way soon is the old one: of five such steps of 18 to 68 ms, in a queue of 0.34 s, 0 to
0.55 was left."""


class Paths(NamedTuple):
    """The paths that a transfer took, one after another.

    Attributes
    ----------
    begin_ns : ndarray of int64, shape (n,)
        When the first segment of each was sent; at least one.
    floor_ns : ndarray of int64, shape (n,)
        The shortest way of each, up to the same constant for all.
    """

    begin_ns: Array
    floor_ns: Array

    @classmethod
    def of(cls, delays: DelaySamples, service_ns: float, steady: Spans | None = None) -> Paths:
        """Return the paths.

        Parameters
        ----------
        delays : DelaySamples
            At least one.
        service_ns : float
            Time that the bottleneck takes for a segment; 0 if not known.
        steady : Spans, optional
            When no queue stood, however long the way (`steady_delays`).
        """
        way_ns = delays.way_ns
        changes = path_changes(delays.time_ns, way_ns).tolist()
        begins = {*_steps(delays, service_ns), *changes, *_around(delays, service_ns, steady or Spans.none())}
        bounds = [0, *sorted(begins - {0, len(way_ns)}), len(way_ns)]
        floors = [way_ns[a:b].min() for a, b in pairwise(bounds)]
        if delays.unloaded_ns is not None:  # data may meet their own queue from the first window on
            floors[0] = min(floors[0], int(delays.unloaded_ns + service_ns))
        return cls(delays.time_ns[bounds[:-1]], np.array(floors, dtype=np.int64))

    @property
    def is_one(self) -> bool:
        """Whether the path never changed."""
        return len(self.begin_ns) == 1

    def above_first(self, times_ns: Array) -> Array:
        """Return by how much the path's shortest way exceeds that of all: int64, ns, shape (n,)."""
        at = np.maximum(np.searchsorted(self.begin_ns, times_ns, side="right") - 1, 0)
        return np.asarray((self.floor_ns - self.floor_ns.min())[at])

    def queue(self, sent_ns: Array, way_ns: Array) -> Array:
        """Return by how much each way exceeds the shortest of its path: int64, ns, shape of `way_ns`."""
        return np.asarray(way_ns - self.floor_ns.min() - self.above_first(sent_ns))


def _steps(delays: DelaySamples, service_ns: float) -> list[int]:
    """Return the indexes at which another path begins: the way jumps up or down, and stays so.

    What was sent between two samples may have waited in the queue before the second.
    """
    sent, way, place = delays.time_ns, delays.way_ns, delays.place
    if len(way) < 2:
        return []
    jump, apart = np.diff(way), np.diff(sent)
    least = max(_STEP_NS, _STEP_OF_FLOOR * float(max(way.min(), 0)), _STEP_SERVICES * service_ns)
    own = np.diff(place) * service_ns
    sudden = (jump > least + own + _FASTER_THAN_QUEUES * apart) | (-jump > least + apart)
    at = np.flatnonzero(sudden) + 1
    if not len(at):
        return []
    before = np.searchsorted(sent, sent[at - 1] - _LASTS_NS)
    after = np.searchsorted(sent, sent[at] + _LASTS_NS, side="right")
    moved = span_minimum(way, at, np.maximum(after, at + 1)) - span_minimum(
        way, np.minimum(before, at - 1), at
    )
    size = jump[at - 1]
    soon = np.searchsorted(sent, sent[at] + np.maximum(size, 0), side="right")
    stays = span_minimum(way, at, np.maximum(soon, at + 1)) - way[at - 1] >= _STAYS_PART * size
    longer = stays & (moved >= _LASTS_PART * size) & (moved <= _GROWS_PART * size)
    lasts = np.where(size > 0, longer, -moved >= _LASTS_PART * -size)
    return [int(each) for each in at[lasts]]


def _around(delays: DelaySamples, service_ns: float, steady: Spans) -> Iterator[int]:
    """Yield the indexes between which the way is never shorter than in a steady stretch among them."""
    for begin, end in zip(*np.searchsorted(delays.time_ns, steady), strict=True):
        if begin == end:
            continue
        least = delays.way_ns[begin:end].min() - max(_NOISE_NS, _NOISE_SERVICES * service_ns)
        shorter = np.flatnonzero(delays.way_ns < least)
        at = int(np.searchsorted(shorter, begin))
        yield int(shorter[at - 1]) + 1 if at else 0
        yield int(shorter[at]) if at < len(shorter) else len(delays.way_ns)
