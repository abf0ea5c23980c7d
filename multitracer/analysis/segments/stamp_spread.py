"""At which end of a connection a capture was made, by the spread of timestamps, without round trips.

A host stamps a segment as it leaves (RFC 7323, TSval). At that host, the time of capture follows the stamp
within a tick of its clock; at the other end, what queues add is between the two. So the direction that is
in step with its own stamps, while the other one is not, leaves from here. Where both are in step (a path
without any queue) or neither is (a capture between the two), this tells nothing.
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
"""Stamped segments of each direction, and ticks between the first and the last."""
_WITHIN, _BEYOND = 1.1, 2.0
"""Ticks from the 5th to the 95th percentile: in step, and not. A clock in step has 0.9 (it is uniform within
a tick); of 26 recordings of known cause the local end had 0.5 to 0.96 at either end, and a path with a
queue 1.5 to 370."""
_FINEST_TICK_NS = NS_PER_MS // 10
"""Stamps in microseconds are as far from the capture's as the host is slow."""


Stamped = tuple["Array", "Array"]
"""Times (int64, ns since 1970) and timestamps (uint32) of the segments that have both, in capture order."""


def stamps_of(rows: Array, capture: CaptureTables) -> Stamped:
    """Return the times and the timestamps of those of some segments that have both.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        Rows of SEGMENTS.
    capture : CaptureTables
    """
    segments = capture.segments
    time_ns = segments["time_ns"][rows]
    kept = has(segments["marks"][rows], CaptureMark.HAS_TIMESTAMPS) & (time_ns != NOT_A_TIME)
    return time_ns[kept], segments["tsval"][rows][kept]


def vantage_by_stamps(forward: Stamped, reverse: Stamped) -> Vantage:
    """Return where a connection was captured, as its initiator's direction sees it.

    Parameters
    ----------
    forward, reverse : Stamped
        Of the initiator's segments, and of those that came back.
    """
    ahead, back = _spread_ticks(*forward), _spread_ticks(*reverse)
    if ahead <= _WITHIN and back > _BEYOND:
        return Vantage.NEAR_SENDER
    if back <= _WITHIN and ahead > _BEYOND:
        return Vantage.NEAR_RECEIVER
    return Vantage.UNKNOWN


def _spread_ticks(time_ns: Array, stamp: Array) -> float:
    """Return how far capture times stray from stamps, in ticks; NaN where too few are stamped."""
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
