"""What TCP timestamps (RFC 7323) say of times: the clock of the host that wrote them, up to a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import unwrapped
from multitracer.capture import Mark
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from multitracer.tables import Array, Table

_TICKS_NS = np.array([NS_PER_US, NS_PER_MS, 4 * NS_PER_MS, 10 * NS_PER_MS, 100 * NS_PER_MS, NS_PER_S // 2])
"""Ticks that hosts have: Linux 1 ms (1 us by route), older ones and others 4, 10, 100 and 500 ms."""
_FEWEST_TICKS = 20  # a tick is then known to 5 %, by its resolution alone; usual ones differ by 2.5 times
_FURTHEST = 1.6
"""A measured tick may be off by this factor: a queue that grew in a short transfer stretches it."""
_LONG_NS = 30 * NS_PER_S  # in less, 200 parts in a million make 6 ms at most: left as they are
_FASTEST_DRIFT = 2e-4
"""No two clocks drift faster apart than 200 parts in a million."""


def sent_by_stamps(table: Table, rows: Array) -> tuple[Array, int] | None:
    """Return when segments of one direction were sent by their own timestamps, and the tick of these.

    The rows of `table` and the times (ns, up to a constant) are int64, shape (n,); the tick is in ns. None
    without timestamps, or where their tick is unknown.
    """
    stamped = has(table["marks"][rows], Mark.HAS_TIMESTAMPS)
    if not len(rows) or not stamped.all():
        return None
    time, value = table["time_ns"][rows], table["tsval"][rows]
    ticks = unwrapped(value, np.array([0, len(rows)]))
    tick = _tick_ns(ticks, time)
    if tick is None:
        return None
    sent = ticks * tick
    return sent + _drift(sent, time - sent), tick


def _tick_ns(ticks: Array, time: Array) -> int | None:
    passed = int(ticks.max() - ticks.min())
    if passed < _FEWEST_TICKS:
        return None
    measured = float(time[-1] - time[0]) / passed
    if measured <= 0:
        return None
    off = np.abs(np.log(_TICKS_NS / measured))
    best = int(np.argmin(off))
    return int(_TICKS_NS[best]) if off[best] <= np.log(_FURTHEST) else None


def _drift(sent: Array, way: Array) -> Array:
    """Return by how much the clock of the stamps lags at each time, by the shortest ways of both ends."""
    span = int(sent[-1] - sent[0])
    if span < _LONG_NS:
        return np.zeros(len(sent), dtype=np.int64)
    early, late = sent < sent[0] + span // 3, sent > sent[0] + 2 * span // 3
    if not early.any() or not late.any():
        return np.zeros(len(sent), dtype=np.int64)
    first, last = np.argmin(np.where(early, way, way.max())), np.argmin(np.where(late, way, way.max()))
    slope = float(way[last] - way[first]) / float(max(sent[last] - sent[first], 1))
    if abs(slope) > _FASTEST_DRIFT:
        return np.zeros(len(sent), dtype=np.int64)
    return np.asarray(np.rint((sent - sent[0]) * slope).astype(np.int64))


def stamp_lag_ns(table: Table, rows: Array, chosen: Array) -> Array:
    """Return of chosen rows of a table what their way took above the shortest of their direction's `rows`.

    0 for rows of others and where timestamps do not tell; never more than is certain: a tick is taken off.
    """
    by_stamps = sent_by_stamps(table, rows)
    if by_stamps is None:
        return np.zeros(len(chosen), dtype=np.int64)
    lag = np.zeros(len(table), dtype=np.int64)
    sent, tick = by_stamps
    way = table["time_ns"][rows] - sent
    lag[rows] = np.maximum(way - way.min() - tick, 0)
    return lag[chosen]
