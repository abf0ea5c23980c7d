"""What is outstanding after each segment of a connection, with and less what is SACKed (RFC 5681, 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.acknowledgments import first_units
from multitracer.analysis.intervals import distinct, first_painters

if TYPE_CHECKING:
    from multitracer.analysis.intervals import Array
    from multitracer.analysis.kernel import Findings

_NEVER = -(1 << 62)


@dataclass(slots=True)
class Blocks:
    """SACK blocks of one connection, on the axis, in capture order."""

    moment: Array
    """Index of the segment, in capture order, that carries it."""
    direction: Array
    """Which direction's bytes it reports."""
    left: Array
    right: Array
    dsack: Array
    """Whether it is a D-SACK, which only the first of a segment can be."""

    def of(self, direction: int) -> Blocks:
        """Return the blocks that report a direction's bytes."""
        mine = self.direction == direction
        columns = (self.moment, self.direction, self.left, self.right, self.dsack)
        return Blocks(*(column[mine] for column in columns))


def outstanding(found: Findings, order: Array, blocks: Blocks) -> tuple[Array, Array]:
    """Return the units outstanding after each segment, and the same less what is SACKed.

    Parameters
    ----------
    found : Findings
        Of one connection.
    order : ndarray of int64, shape (n_segments,)
        Positions in capture order.

    Returns
    -------
    tuple of two ndarrays of int64, shape (n_segments,), in capture order
        Of the segment's own direction if it occupies sequence units, else of the one that it acknowledges.
    """
    moment_of = np.empty_like(order)
    moment_of[order] = np.arange(len(order))
    sent, acknowledged = _highest_sent(found, moment_of), _highest_acknowledged(found, moment_of)
    known = np.where(acknowledged == _NEVER, first_units(found.axis)[:, None], acknowledged)
    asked = (found.group.units == 0)[order] ^ (order >= found.group.bounds[1])
    flight = _chosen(sent, asked)
    flight -= _chosen(known, asked)
    np.maximum(flight, 0, out=flight)
    if not len(blocks.left):
        return flight, flight.copy()
    sacked = np.stack([_sacked(blocks.of(direction), acknowledged[direction]) for direction in (0, 1)])
    return flight, np.maximum(flight - _chosen(sacked, asked), 0)


def _chosen(of_both: Array, asked: Array) -> Array:
    """Return of each moment the value of the direction that is asked for."""
    chosen: Array = np.where(asked, of_both[1], of_both[0])
    return chosen


def _highest_sent(found: Findings, moment_of: Array) -> Array:
    """Return each direction's highest end so far, at every moment; before any, where it begins."""
    pieces = found.axis.pieces
    highest = np.full((2, len(moment_of)), _NEVER)
    moments = moment_of[pieces.position]
    side = (pieces.position >= found.group.bounds[1]).astype(np.int64)
    highest[side, moments] = found.coverage.reach
    highest[:, :1] = np.maximum(highest[:, :1], first_units(found.axis)[:, None])
    return np.maximum.accumulate(highest, axis=1)


def _highest_acknowledged(found: Findings, moment_of: Array) -> Array:
    """Return the highest ACK of each direction so far, at every moment; `_NEVER` before any."""
    acks = found.axis.acks
    highest = np.full((2, len(moment_of)), _NEVER)
    highest[acks.direction, moment_of[acks.position]] = acks.highest
    return np.maximum.accumulate(highest, axis=1)


def _sacked(blocks: Blocks, acknowledged: Array) -> Array:
    """Return how many units above the highest ACK are SACKed at each moment.

    A unit counts from the first block that reports it until the ACK passes it; a receiver that takes a
    report back (reneging, RFC 2018, section 8) is not followed.
    """
    change = np.zeros(len(acknowledged) + 1, dtype=np.int64)
    real = np.flatnonzero(blocks.left < blocks.right)
    if not len(real):
        return change[:-1]
    left, right = blocks.left[real], blocks.right[real]
    edges = distinct(np.concatenate([left, right, np.clip(acknowledged, left.min(), right.max())]))
    painter = first_painters(np.searchsorted(edges, left), np.searchsorted(edges, right), len(edges) - 1)
    cells = np.flatnonzero(painter < len(real))
    begins = blocks.moment[real[painter[cells]]]
    ends = np.maximum(np.searchsorted(acknowledged, edges[cells + 1]), begins)
    width = np.diff(edges)[cells]
    np.add.at(change, begins, width)
    np.subtract.at(change, ends, width)
    return np.cumsum(change)[:-1]
