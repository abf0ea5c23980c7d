"""Outstanding data after each segment, with and without the SACKed part (RFC 5681, 2018)."""

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
    """Index of the segment that carries the block, in that order."""
    direction: Array
    """The direction whose data the block reports."""
    left: Array
    right: Array
    dsack: Array
    """Whether the block is a D-SACK; only the first block of a segment can be one."""

    def chosen(self, mask: Array) -> SackBlocks:
        """Return the blocks that the mask selects.

        Parameters
        ----------
        mask : ndarray of bool, shape (n_blocks,)
        """
        columns = (self.moment, self.direction, self.left, self.right, self.dsack)
        return SackBlocks(*(column[mask] for column in columns))


def outstanding(examination: Examination, order: Array, blocks: SackBlocks) -> tuple[Array, Array]:
    """Return the outstanding sequence numbers after each segment, with and without the SACKed ones.

    Parameters
    ----------
    examination : Examination
    order : ndarray of int64, shape (n_segments,)
        Positions, connection after connection, each in capture order.
    blocks : SackBlocks

    Returns
    -------
    tuple of two ndarrays of int64, shape (n_segments,), in that order
        Data of the segment's own direction if it occupies sequence numbers, else of the direction that it acknowledges.
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
    """Return the outstanding sequence numbers after each segment, without the SACKed ones.

    Parameters
    ----------
    flight : ndarray of int64, shape (n_segments,)
        Outstanding sequence numbers, including those SACKed.
    acknowledged : sequence of two ndarrays of int64, shape (n_segments,)
        The highest ACK of both sides at each segment, on the axis; not used without blocks.

    Other parameters are those of `outstanding`.

    Returns
    -------
    ndarray of int64, shape (n_segments,)
        Without blocks the result is `flight` itself, read-only.
    """
    if not len(blocks.left):
        same = flight.view()
        same.flags.writeable = False
        return same
    sacked = [_sacked(blocks.chosen(blocks.direction & 1 == side), acknowledged[side]) for side in (0, 1)]
    less = flight - _chosen(sacked, _is_of_reverse(examination, order))
    return np.asarray(np.maximum(less, 0, out=less))


def _is_of_reverse(examination: Examination, order: Array) -> Array:
    """Return for each segment whether its outstanding data are those of the responder's direction."""
    group = examination.group
    is_reverse: Array = ((group.direction ^ (group.units == 0)) & 1).astype(bool).take(order)
    return is_reverse


def _chosen(of_both: Sides, is_reverse: Array) -> Array:
    """Return for each segment the value of one of two arrays: the second one where `is_reverse` is True."""
    chosen: Array = np.where(is_reverse, of_both[1], of_both[0])
    return chosen


def _highest_sent(examination: Examination, moment_of: Array) -> Array:
    """Return two arrays, one for each side: the highest end sent up to each segment, on the axis.

    Before a side has sent anything, it is the direction's lowest number.
    """
    chunks, firsts = examination.axis.chunks, first_units(examination.axis)
    side = np.repeat(np.arange(len(firsts)) & 1, np.diff(chunks.bounds))
    return _rising(examination, side, moment_of[chunks.position], examination.coverage.reach, firsts)


def _highest_acknowledged(examination: Examination, moment_of: Array) -> Array:
    """Return two arrays, one for each side: the highest ACK up to each segment, on the axis.

    Before the first ACK of a direction it is less than the direction's lowest number.
    """
    acks = examination.axis.acks
    never = examination.axis.lowest - 1
    return _rising(examination, acks.direction & 1, moment_of[acks.position], acks.highest, never)


def _rising(examination: Examination, side: Array, moment: Array, value: Array, minimum: Array) -> Array:
    """Return two arrays, one for each side: the running maximum of `value` up to each segment.

    It is at least the element of `minimum` for the direction.
    """
    highest = np.full((2, len(examination.group)), _NEVER)
    highest[side, moment] = value
    begins = examination.group.bounds[:-1:2]
    highest[:, begins] = np.maximum(highest[:, begins], minimum.reshape(-1, 2).T)
    return np.maximum.accumulate(highest, axis=1, out=highest)


def _sacked(blocks: SackBlocks, acknowledged: Array) -> Array:
    """Return for each segment the number of SACKed sequence numbers above the highest ACK so far.

    A sequence number counts from the first block that reports it until an ACK covers it. Reneging (RFC 2018,
    section 8) is not modelled.
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
