"""What is outstanding after each segment, with and less what is SACKed (RFC 5681, 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct, first_painters
from multitracer.analysis.segments.acknowledgments import first_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.segments.examination import Examination
    from multitracer.tables import Array

    Sides = Sequence[Array] | Array
    """A column of each side."""

_NEVER = -(1 << 62)  # below every number on an axis


@dataclass(slots=True)
class SackBlocks:
    """SACK blocks of a group, on the axis, connection after connection, each in capture order."""

    moment: Array
    """Index of the segment, in that order, that carries it."""
    direction: Array
    """Which direction's bytes it reports."""
    left: Array
    right: Array
    dsack: Array
    """Whether it is a D-SACK, which only the first of a segment can be."""

    def chosen(self, mask: Array) -> SackBlocks:
        """Return the blocks that a mask keeps.

        Parameters
        ----------
        mask : ndarray of bool, shape (n_blocks,)
        """
        columns = (self.moment, self.direction, self.left, self.right, self.dsack)
        return SackBlocks(*(column[mask] for column in columns))


def outstanding(examination: Examination, order: Array, blocks: SackBlocks) -> tuple[Array, Array]:
    """Return the units outstanding after each segment, and the same less what is SACKed.

    Parameters
    ----------
    examination : Findings
    order : ndarray of int64, shape (n_segments,)
        Positions, connection after connection, each in capture order.
    blocks : SackBlocks

    Returns
    -------
    tuple of two ndarrays of int64, shape (n_segments,), in that order
        Of the segment's own direction if it occupies sequence units, else of the one that it acknowledges.
    """
    group = examination.group
    moment_of = np.empty_like(order)
    moment_of[order] = np.arange(len(order))
    direction = (group.direction ^ (group.units == 0)).take(order)
    is_reverse = (direction & 1).astype(bool)
    flight = _chosen(_highest_sent(examination, moment_of), is_reverse)
    acknowledged = _highest_acknowledged(examination, moment_of)
    known = _chosen(acknowledged, is_reverse)
    never = np.flatnonzero(known < examination.axis.lowest[direction])
    known[never] = first_units(examination.axis)[direction[never]]
    flight -= known
    np.maximum(flight, 0, out=flight)
    return flight, less_sacked(examination, order, blocks, flight, acknowledged)


def less_sacked(
    examination: Examination, order: Array, blocks: SackBlocks, flight: Array, acknowledged: Sides
) -> Array:
    """Return the units outstanding after each segment less what is SACKed.

    Parameters
    ----------
    flight : ndarray of int64, shape (n_segments,)
        What is outstanding.
    acknowledged : sequence of two ndarrays of int64, shape (n_segments,)
        The highest ACK of both sides at each moment, on the axis; not used without blocks.

    Other parameters are those of `outstanding`.

    Returns
    -------
    ndarray of int64, shape (n_segments,)
        Without blocks it is `flight`, and cannot be written.
    """
    if not len(blocks.left):
        same = flight.view()
        same.flags.writeable = False
        return same
    sacked = [_sacked(blocks.chosen(blocks.direction & 1 == side), acknowledged[side]) for side in (0, 1)]
    less = flight - _chosen(sacked, _is_of_reverse(examination, order))
    return np.asarray(np.maximum(less, 0, out=less))


def _is_of_reverse(examination: Examination, order: Array) -> Array:
    """Return whether it is the reverse direction of which each moment tells what is outstanding."""
    group = examination.group
    is_reverse: Array = ((group.direction ^ (group.units == 0)) & 1).astype(bool).take(order)
    return is_reverse


def _chosen(of_both: Sides, is_reverse: Array) -> Array:
    """Return the value of the requested direction at each moment."""
    chosen: Array = np.where(is_reverse, of_both[1], of_both[0])
    return chosen


def _highest_sent(examination: Examination, moment_of: Array) -> Array:
    """Return each direction's highest end so far, at every moment; before any, where it begins.

    Of all directions with one side, which share a line: each has a stretch of the axis above those before.
    """
    pieces, firsts = examination.axis.pieces, first_units(examination.axis)
    side = np.repeat(np.arange(len(firsts)) & 1, np.diff(pieces.bounds))
    return _rising(examination, side, moment_of[pieces.position], examination.coverage.reach, firsts)


def _highest_acknowledged(examination: Examination, moment_of: Array) -> Array:
    """Return the highest ACK of each direction so far, at every moment; before any, less than `lowest`."""
    acks = examination.axis.acks
    never = examination.axis.lowest - 1
    return _rising(examination, acks.direction & 1, moment_of[acks.position], acks.highest, never)


def _rising(examination: Examination, side: Array, moment: Array, value: Array, least: Array) -> Array:
    """Return both sides' values at every moment, each from `least` of its direction upwards."""
    highest = np.full((2, len(examination.group)), _NEVER)
    highest[side, moment] = value
    begins = examination.group.bounds[:-1:2]
    highest[:, begins] = np.maximum(highest[:, begins], least.reshape(-1, 2).T)
    return np.maximum.accumulate(highest, axis=1, out=highest)


def _sacked(blocks: SackBlocks, acknowledged: Array) -> Array:
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
