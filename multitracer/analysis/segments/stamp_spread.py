"""Location of the capture point at one endpoint of a connection, from the spread of timestamps.

A host sets the timestamp of a segment when it sends it (TSval, RFC 7323). A capture at that host has capture times
within a tick of the timestamps. At the other endpoint, queueing delay is added. So the capture was made at the sender
of the direction whose capture times match its timestamps, if those of the other direction do not. If both match (a path
without queues) or neither does (a capture in the middle of the path), the location remains unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import CaptureMark
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array

FEWEST_STAMPS = 30
"""Minimum number of segments with timestamps in each direction, and of ticks between the first and the last."""
_WITHIN, _BEYOND = 1.1, 2.0
"""Spread in ticks, from the 5th to the 95th percentile: up to the first value times match, from the second
on they do not.

Uniform times within a tick have 0.9. In 26 recordings with known capture points, the local endpoint had 0.5
to 0.96, and a path with a queue 1.5 to 370."""
_FINEST_TICK_NS = NS_PER_MS // 10
"""Minimum tick of a timestamp clock, ns: with microsecond ticks, the delay within the host itself exceeds a tick."""


Stamped = tuple["Array", "Array"]
"""Times (int64, ns since 1970) and timestamps (uint32) of the segments that have both, in capture order."""


def stamps_of(rows: Array, capture: CaptureTables) -> Stamped:
    """Return the times and the timestamps of the given segments that have both.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        Rows of SEGMENTS.
    capture : CaptureTables
    """
    segments, kept = capture.segments, rows[is_stamped(rows, capture)]
    return segments["time_ns"][kept], segments["tsval"][kept]


def is_stamped(rows: Array, capture: CaptureTables) -> Array:
    """Return which of the given segments have both a time and a timestamp: bool, shape (n,)."""
    segments = capture.segments
    stamped = has(segments["marks"][rows], CaptureMark.HAS_TIMESTAMPS)
    return np.asarray(stamped & (segments["time_ns"][rows] != NOT_A_TIME))


def vantage_by_stamps(forward: Stamped, reverse: Stamped) -> Vantage:
    """Return where a connection was captured, as seen from its initiator: near it, far from it, or unknown.

    Parameters
    ----------
    forward, reverse : Stamped
        Times and timestamps of the initiator's segments, and of the responder's.
    """
    ahead, back = _spread_ticks(*forward), _spread_ticks(*reverse)
    if ahead <= _WITHIN and back > _BEYOND:
        return Vantage.NEAR_SENDER
    if back <= _WITHIN and ahead > _BEYOND:
        return Vantage.NEAR_RECEIVER
    return Vantage.UNKNOWN


def _spread_ticks(time_ns: Array, stamp: Array) -> float:
    """Return how much the capture times vary around the times in the timestamps, in timestamp ticks.

    It is NaN if there are too few timestamps.
    """
    if len(stamp) < FEWEST_STAMPS:
        return np.nan
    ticks = (stamp - stamp[0]).view(np.int32).astype(np.float64)
    if np.ptp(ticks) < FEWEST_STAMPS:
        return np.nan
    since = (time_ns - time_ns[0]).astype(np.float64)
    ticks -= ticks.mean()
    tick_ns = float(ticks @ (since - since.mean()) / (ticks @ ticks))
    low, high = np.quantile(since - ticks * tick_ns, [0.05, 0.95])
    return float(high - low) / max(tick_ns, _FINEST_TICK_NS)
