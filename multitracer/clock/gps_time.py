"""GPS time: a host's clock against UTC, by when its receiver's fixes were told.

A fix is true at the instant that it names, and is told some time later: its time less the host's stamp is
never more than the offset, and comes nearest to it when the message was quick. A receiver on a serial line
speaks within some tenths of a second of the fix.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.estimate import BACKWARD, Estimate, Evidence
from multitracer.clock.together import fitted
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.clock.estimate import Array
    from multitracer.tables import Table

METHOD = "GPS time"
LATENCY_NS = 600 * NS_PER_MS
"""The quickest message of a receiver comes within this after its fix (NMEA 0183 at 4,800 baud)."""
_WINDOW_NS = 60 * NS_PER_S
_JITTER_NS = 50 * NS_PER_MS
_FEWEST = 10


def relate_gps(positions: Table) -> list[Estimate]:
    """Return the relation of UTC, as GPS tells it, to the clock that stamped a log of positions.

    Parameters
    ----------
    positions : Table
        POSITION, with the times of fixes as the receiver told them.

    Raises
    ------
    ClockError
        If fewer than ten fixes have both stamps.
    """
    both = (positions["fix_time_ns"] != NOT_A_TIME) & (positions["time_ns"] != NOT_A_TIME)
    start, told = positions["time_ns"][both], positions["fix_time_ns"][both]
    if len(start) < _FEWEST or bool((start == told).all()):
        raise ClockError(
            f"{METHOD}: not determinable, because {len(start)} fixes have a stamp of the host and one of the "
            "receiver; what would help: a log of positions that keeps both"
        )
    quickest = _quickest(start, told - start)
    at, level = start[quickest], (told - start)[quickest]
    error = np.full(len(at), _JITTER_NS)
    points = Evidence(start, told, np.full(len(start), BACKWARD, dtype=np.int8))
    found = fitted(at, at + level + LATENCY_NS // 2, error, method=METHOD)
    return [_with_latency(estimate, points) for estimate in found]


def _quickest(start: Array, behind: Array) -> Array:
    """Return the row of the quickest message in each minute."""
    order = np.lexsort((-behind, (start - start.min()) // _WINDOW_NS))
    _, first = np.unique(((start - start.min()) // _WINDOW_NS)[order], return_index=True)
    return np.asarray(order[first])


def _with_latency(estimate: Estimate, points: Evidence) -> Estimate:
    """Return the estimate with what the receiver's delay leaves open; that does not average out."""
    half = LATENCY_NS / 2
    return replace(
        estimate,
        uncertainty_ns=float(np.hypot(estimate.uncertainty_ns, half)),
        evidence=len(points),
        notes=(f"the receiver is taken to tell a fix within {LATENCY_NS // NS_PER_MS} ms",),
        points=points,
    )
