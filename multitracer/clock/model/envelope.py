"""The line below all delays: lower convex hull, and of its edges the one over the mean time.

That edge is the optimum of the linear programme of Moon, Skelly and Towsley (INFOCOM 1999): of all lines that
lie below every point, the one with the least sum of vertical distances. Zhang, Liu and Xia (INFOCOM 2002)
find it in linear time by the hull.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array


_BLOCK = 64
"""Points a block: the square root of some thousand, at which both passes cost about the same."""
_MANY_BLOCKS = 50  # with fewer points the hull itself is quick; no effect on the result. Not measured
_LITTLE_LESS = 0.9  # a pass that keeps more of the points does not pay for itself. Not measured


def lower_hull(time_ns: Array, delay_ns: Array) -> Array:
    """Return the indexes of the vertices of the lower convex hull, in order of time.

    Parameters
    ----------
    time_ns, delay_ns : ndarray of float64 or int64, shape (n,)
        The points; never NA.

    Returns
    -------
    ndarray of int64, shape (n_vertices,)
    """
    candidates = _candidates(time_ns, delay_ns)
    hull: list[int] = []
    x, y = time_ns[candidates].tolist(), delay_ns[candidates].tolist()
    for i in range(len(x)):
        while len(hull) > 1 and _turns_right(x, y, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    vertices: Array = candidates[hull]
    return vertices


def _candidates(time_ns: Array, delay_ns: Array) -> Array:
    """Return indexes in order of time; of many points only those that can be vertices."""
    order = np.argsort(time_ns, kind="stable")
    if len(order) > _MANY_BLOCKS * _BLOCK:
        order = order[_below_chords(time_ns[order], delay_ns[order])]
    order = order[np.lexsort((delay_ns[order], time_ns[order]))]
    order = order[np.diff(time_ns[order], prepend=-np.inf) > 0]
    while len(order) > _MANY_BLOCKS * _BLOCK:
        kept = _below_chords(time_ns[order], delay_ns[order])
        if kept.sum() > _LITTLE_LESS * len(order):
            break
        order = order[kept]
    return order


def _below_chords(x: Array, y: Array) -> Array:
    """Return which points are below the chord between the least points of the two neighbouring blocks.

    One on it is no vertex either: where nothing ever queued all delays are alike.
    """
    starts = np.arange(0, len(x), _BLOCK)
    block = np.arange(len(x)) // _BLOCK
    blocks = np.full((len(starts), _BLOCK), np.inf)
    blocks.flat[: len(y)] = y
    least = starts + blocks.argmin(axis=1)
    left, right = least[np.maximum(block - 1, 0)], least[np.minimum(block + 1, len(starts) - 1)]
    span = x[right] - x[left]
    inside = (block > 0) & (block < len(starts) - 1) & (span > 0)
    chord = y[left] + (y[right] - y[left]) * (x - x[left]) / np.where(span > 0, span, 1.0)
    kept: Array = ~inside | (y < chord)
    return kept


def _turns_right(x: list[float], y: list[float], a: int, b: int, c: int) -> bool:
    """Return whether b lies on or above the line from a to c."""
    return (x[b] - x[a]) * (y[c] - y[a]) <= (y[b] - y[a]) * (x[c] - x[a])


def envelope(time_ns: Array, delay_ns: Array) -> tuple[float, float]:
    """Return slope and value at time 0 of the line below all points that is nearest to them on average.

    Parameters
    ----------
    time_ns, delay_ns : ndarray of float64 or int64, shape (n,)
        The points, at least one; never NA.
    """
    hull = lower_hull(time_ns, delay_ns)
    x, y = time_ns[hull], delay_ns[hull]
    if len(hull) < 2:
        return 0.0, float(y[0])
    edge = int(np.searchsorted(x, time_ns.mean()).clip(1, len(hull) - 1))
    slope = (y[edge] - y[edge - 1]) / (x[edge] - x[edge - 1])
    return float(slope), float(y[edge] - slope * x[edge])
