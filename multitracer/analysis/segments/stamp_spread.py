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
from multitracer.capture import Mark
from multitracer.tables import NOT_A_TIME
from multitracer.tcp import Vantage
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.tables import Array

FEWEST_STAMPS = 30
"""Stamped segments of each direction, and ticks between the first and the last."""
_WITHIN, _BEYOND = 1.1, 2.0
"""Ticks from the 5th to the 95th percentile: in step, and not. A clock in step has 0.9 (it is uniform within
a tick); of 26 recordings of known cause the local end had 0.5 to 0.96 at either end, and a path with a
queue 1.5 to 370."""
_FINEST_TICK_NS = NS_PER_MS // 10
"""Stamps in microseconds are as far from the capture's as the host is slow."""


def vantage_by_stamps(sides: list[Array], capture: Capture) -> Vantage:
    """Return where a connection was captured, as its initiator's direction sees it.

    Parameters
    ----------
    sides : list of two ndarrays of int64
        The rows of the initiator's segments, and of those that came back.
    capture : Capture
    """
    forward, reverse = (_spread_ticks(rows, capture) for rows in sides)
    if forward <= _WITHIN and reverse > _BEYOND:
        return Vantage.NEAR_SENDER
    if reverse <= _WITHIN and forward > _BEYOND:
        return Vantage.NEAR_RECEIVER
    return Vantage.UNKNOWN


def _spread_ticks(rows: Array, capture: Capture) -> float:
    """Return how far capture times stray from stamps, in ticks; NaN where too few are stamped."""
    segments = capture.segments
    time_ns = segments["time_ns"][rows]
    kept = has(segments["marks"][rows], Mark.HAS_TIMESTAMPS) & (time_ns != NOT_A_TIME)
    if np.count_nonzero(kept) < FEWEST_STAMPS:
        return np.nan
    stamp = segments["tsval"][rows][kept]
    ticks = (stamp - stamp[0]).view(np.int32).astype(np.float64)
    if np.ptp(ticks) < FEWEST_STAMPS:
        return np.nan
    since = (time_ns[kept] - time_ns[kept][0]).astype(np.float64)
    ticks -= ticks.mean()
    tick_ns = float(ticks @ (since - since.mean()) / (ticks @ ticks))
    low, high = np.quantile(since - ticks * tick_ns, [0.05, 0.95])
    return float(high - low) / max(tick_ns, _FINEST_TICK_NS)
