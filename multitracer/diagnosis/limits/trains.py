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
"""The least of both windows: below, stamps and the bunches of a radio decide. Not measured."""
_FEWEST_SEGMENTS = 8  # over which a rate is taken, as in `link`
_NEAR = 0.85  # part of the best rate from which on a round trip has no pause. Not measured
_BEST = 0.9
"""Quantile of the rates over short windows that is the link's."""
_BUNCHED = 2.5
"""Neighbours that come so many times faster than short windows do are a radio's or a host's bunches."""
_PIECE_NS = 2 * NS_PER_S
"""The link's rate is found anew so often, or every twenty round trips."""
_PIECE_ROUNDS = 20  # enough rates for a quantile. Not measured
_WAIT_NS, _WAIT_SPACINGS, _WAITED = 20 * NS_PER_MS, 5.0, 0.3
"""No radio that sends in bunches waits so long; nor is a link busy if waits make so much of the time."""
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
    best = _best(time, size, short, seen.floor_ns)
    near = (whole >= _NEAR * best) & (whole > 0)
    fast = np.flatnonzero(near & is_bulk & ~_grows(time, whole, width) & ~_waits(time, width, seen.floor_ns))
    return Spans.of(time[fast] - width, time[fast])


def _best(time: Array, size: Array, short: Array, floor_ns: int) -> Array:
    """Return the link's rate in the piece of time around each arrival, bytes per ns; infinite if unknown.

    That of neighbours, as two segments that were sent together come apart by the time the link takes for one;
    of short windows where a radio or a host hands neighbours over in bunches.
    """
    single = size / np.maximum(np.diff(time, prepend=time[:1]), 1)
    single[:1] = 0.0
    of_windows = _of_pieces(time, short, floor_ns, _BEST)
    of_neighbours = _of_pieces(time, single, floor_ns, _BEST)
    bunched = of_neighbours > _BUNCHED * of_windows
    return np.where(bunched, of_windows, np.maximum(of_windows, of_neighbours))


def _grows(time: Array, whole: Array, width: int) -> Array:
    """Return at which arrivals the rate is well above that of a round trip before: a window still opens."""
    before = np.searchsorted(time, time - width, side="right") - 1
    return np.asarray((before < 0) | (whole > GROWS * whole[np.maximum(before, 0)]))


def _waits(time: Array, width: int, floor_ns: int) -> Array:
    """Return at which arrivals much of the round trip before was without any: bursts, and waits."""
    gap = np.diff(time, prepend=time[:1])
    usual = _of_pieces(time, gap, floor_ns, 0.5)
    long = np.where(gap > np.maximum(_WAIT_NS, _WAIT_SPACINGS * usual), gap, 0)
    waited = np.cumsum(long)
    first = np.searchsorted(time, time - width)
    before = np.minimum(long[first], time[first] - (time - width))
    return np.asarray(waited - waited[first] + before > _WAITED * width)


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


def _of_pieces(time: Array, values: Array, floor_ns: int, quantile: float) -> Array:
    """Return a quantile of the values above 0 in the piece of time around each; infinite if none is."""
    piece = (time - time[0]) // max(_PIECE_NS, _PIECE_ROUNDS * floor_ns)
    bounds = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(time)]
    quantiles = np.full(len(time), np.inf)
    for begin, end in itertools.pairwise(bounds):
        known = values[begin:end][values[begin:end] > 0]
        if len(known):
            quantiles[begin:end] = np.quantile(known, quantile)
    return quantiles
