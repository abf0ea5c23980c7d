"""A host's clock and GPS time, by the reports of a receiver.

A receiver reports a fix some time after it was true: it computes, then a serial line takes its time. So GPS
time is ahead of what the difference of the stamps says, by an unknown part of a second at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.clock.sources.one_way import one_way_estimate
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.clock.model.estimate import Estimate
    from multitracer.tables import Table

METHOD = "GPS time of position fixes"
LONGEST_DELAY_NS = 600 * NS_PER_MS
"""From the epoch of a fix to its report: of receivers with a report a second."""


def relate_gps(position: Table) -> list[Estimate]:
    """Return the relation of GPS time (as UTC) to the clock that stamped the reports.

    Parameters
    ----------
    position : Table
        `position`; rows without a time of the fix, or with it only, are skipped.

    Raises
    ------
    ClockError
        If there are too few.
    """
    read, fix = position["time_ns"], position["fix_time_ns"]
    known = (read != NOT_A_TIME) & (fix != NOT_A_TIME) & (read != fix)
    return [
        one_way_estimate(read[known], fix[known], method=METHOD, delay_ns=LONGEST_DELAY_NS, tick_ns=NS_PER_MS)
    ]
