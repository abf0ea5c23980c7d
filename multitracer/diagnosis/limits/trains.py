"""The link, where no delay can be measured: data arrive for a whole round trip as fast as they ever do.

A window that is smaller than the path leaves in a burst at the rate of the link, and a pause; a busy link
delivers without one. A sender that spaces its segments evenly looks the same: all of it is weak.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.limits.growth import GROWS
from multitracer.diagnosis.limits.spans import Spans
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

_SHORT = 0.25
"""Of a round trip: over so long the best rate is measured, over a whole one what was reached."""
_SHORT_NS, _LONG_NS = 5 * NS_PER_MS, 30 * NS_PER_MS
_FEWEST_SEGMENTS = 8
_NEAR = 0.85
_BEST = 0.9
"""Quantile of the rates over short windows that is the link's."""
_PIECE_NS = 2 * NS_PER_S
"""The link's rate is found anew so often, or every twenty round trips."""
_PIECE_ROUNDS = 20
_FULL = 0.8
"""Part of the segments that must be full: a writer of small pieces sets its own pace."""


def steady_arrivals(seen: Observed) -> Spans:
    """Return the stretches in which data arrived without a pause, at the best rate of that time."""
    sends = seen.sends
    if len(sends) <= _FEWEST_SEGMENTS or not seen.floor_ns:
        return Spans.none()
    order = np.argsort(sends.time_ns, kind="stable")
    time, size = sends.time_ns[order], (sends.end - sends.begin)[order]
    short = _rates(time, size, max(int(_SHORT * seen.floor_ns), _SHORT_NS))
    width = max(seen.floor_ns, _LONG_NS)
    whole = _rates(time, size, width)
    full = np.concatenate([[0], np.cumsum(size >= seen.mss_bytes)])
    first = np.searchsorted(time, time - width)
    many = np.arange(1, len(time) + 1) - first
    is_bulk = full[np.arange(1, len(time) + 1)] - full[first] >= _FULL * many
    near = (whole >= _NEAR * _best(time, short, seen.floor_ns)) & (whole > 0)
    fast = np.flatnonzero(near & is_bulk & ~_grows(time, whole, width))
    return Spans.of(time[fast] - width, time[fast])


def _grows(time: Array, whole: Array, width: int) -> Array:
    """Return at which arrivals the rate is well above that of a round trip before: a window still opens."""
    before = np.searchsorted(time, time - width, side="right") - 1
    return np.asarray((before < 0) | (whole > GROWS * whole[np.maximum(before, 0)]))


def _rates(time: Array, size: Array, width: int) -> Array:
    """Return bytes per ns before each arrival, over `width` and eight segments at least; 0 if too early."""
    done = np.concatenate([[0], np.cumsum(size)])
    at = np.arange(len(time))
    since = np.minimum(np.searchsorted(time, time - width, side="right") - 1, at - _FEWEST_SEGMENTS)
    known = since >= 0
    rate = np.zeros(len(time))
    begin = since[known]
    gone = np.maximum(time[known] - time[begin], 1)
    rate[known] = (done[at[known] + 1] - done[begin + 1]) / gone
    return rate


def _best(time: Array, rate: Array, floor_ns: int) -> Array:
    """Return the best rate of the piece of time around each arrival."""
    piece = (time - time[0]) // max(_PIECE_NS, _PIECE_ROUNDS * floor_ns)
    bounds = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(time)]
    best = np.full(len(time), np.inf)
    for begin, end in itertools.pairwise(bounds):
        known = rate[begin:end][rate[begin:end] > 0]
        if len(known):
            best[begin:end] = np.quantile(known, _BEST)
    return best
