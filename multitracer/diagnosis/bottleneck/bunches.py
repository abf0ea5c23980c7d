"""Segments that a host kept back: a link cannot deliver two of them nearer than its own time for one.

A device with segmentation offload waits a while for more to join, a driver for its next interrupt, a busy
host for its turn. What then comes at once counts as one arrival of several segments, at the time of the
last: that one was kept back least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array

_SHORT = 0.5
"""Of the link's own time for a segment: what comes nearer was kept back. Clocks and hosts are more exact."""
_MEANT = 8  # arrivals in a mean: only its first and its last, kept back, still move it. Not measured
_ALL = 0.8  # of a gap that the later one waited, as in `service_times`: the rest is noise
_BLOCK = 32  # means that show it together, with those of both sides: a link's rate may change. Not measured
_SHORTER = 0.25  # quantile of the means that is the link's own time, as in `service_times`


class Arrivals(NamedTuple):
    """What came as one at the receiver, in order of sending; arrays of shape (n,)."""

    first: Array
    """Number of its first segment ..."""
    last: Array
    """... and of its last, in order of sending."""
    row: Array
    """Row of the last in `sender`."""
    sent_ns: Array
    """When the last was sent."""
    came_ns: Array
    many: Array
    """Full segments; 0 where one of another size is among them."""

    @property
    def follows(self) -> Array:
        """Whether each but the first came right behind the one before, both full: bool, shape (n - 1,)."""
        full = self.many > 0
        return np.asarray((self.first[1:] == self.last[:-1] + 1) & full[1:] & full[:-1])


def queued_means(came: Arrivals, waited_ns: Array) -> Array:
    """Return what a segment took over some arrivals in a row, of which each had waited all the time.

    Of others the sender made the gap, not the link.

    Parameters
    ----------
    came : Arrivals
    waited_ns : ndarray of int64, ns, shape (n,)
        How long the last segment of each waited; 0 where that is not known.

    Returns
    -------
    ndarray of float64, ns, shape (max(n - 8, 0),)
        Infinite where that is not so.
    """
    broken = np.append(0, np.cumsum(~came.follows | (waited_ns[1:] < _ALL * np.diff(came.came_ns))))
    took = came.came_ns[_MEANT:] - came.came_ns[:-_MEANT]
    before = np.append(0, np.cumsum(came.many))
    many = before[_MEANT + 1 :] - before[1 : max(len(before) - _MEANT, 1)]
    whole = (broken[_MEANT:] == broken[:-_MEANT]) & (took > 0)
    return np.where(whole, took / np.maximum(many, 1), np.inf)


def own_ns(means: Array) -> float:
    """Return the link's own time for a segment, as most queued means show it; 0 if there are none."""
    known = means[np.isfinite(means)]
    return float(np.quantile(known, _SHORTER)) if len(known) else 0.0


def joined(came: Arrivals, means: Array) -> Arrivals:
    """Return the arrivals, those in one that came nearer to each other than the link lets them.

    Parameters
    ----------
    came : Arrivals
    means : ndarray of float64, ns
        What `queued_means` returns of them.
    """
    gap = np.diff(came.came_ns)
    if not np.isfinite(means).any():
        return came
    short = came.follows & (gap >= 0) & (gap < _SHORT * _usual(means, len(gap)) * came.many[1:])
    begin = np.flatnonzero(np.append(True, ~short))
    last = np.append(begin[1:], len(came.row)) - 1
    many = np.add.reduceat(came.many, begin)
    row, sent_ns, came_ns = (each[last] for each in (came.row, came.sent_ns, came.came_ns))
    return Arrivals(came.first[begin], came.last[last], row, sent_ns, came_ns, many)


def _usual(means: Array, count: int) -> Array:
    """Return the link's own time for a segment at each gap: of the means around, or of all; 0 without.

    The least of all would be that of a burst that was kept back as a whole.
    """
    padded = np.append(means, np.full(-len(means) % _BLOCK, np.inf))
    of_block = np.quantile(padded.reshape(-1, _BLOCK), _SHORTER, axis=1, method="lower")
    block = np.minimum(np.arange(count) // _BLOCK, len(of_block) - 1)
    last = len(of_block) - 1
    near = np.stack([of_block[np.clip(block + step, 0, last)] for step in (-1, 0, 1)])
    least = near.min(axis=0)
    return np.where(np.isfinite(least), np.minimum(least, own_ns(means)), 0)
