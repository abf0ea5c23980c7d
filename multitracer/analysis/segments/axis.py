"""One axis for a group: each direction's sequence numbers, unwrapped, in a range of their own.

In the code a *piece* is a segment that occupies sequence numbers; it reaches from its first number to the
number after its last. A *unit* is one sequence number. An ACK lies in the range of the direction that it
acknowledges. On such an axis, cumulative maxima and searches run over all connections of a group at once. The
arithmetic follows RFC 9293, section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import Timeline, has
from multitracer.analysis.intervals import add_to_groups, group_starts, reduce_groups, unwrapped
from multitracer.captured import Flag

if TYPE_CHECKING:
    from multitracer.analysis.group import SegmentGroup
    from multitracer.tables import Array

_CLEARANCE = (1 << 32) + 2
"""Gap between the ranges of two directions: larger than any distance of a SACK block from its ACK (2 GiB), so ranges
never touch."""


@dataclass(slots=True)
class DataRanges:
    """The segments of a group that occupy sequence numbers, direction after direction, in capture order."""

    position: Array
    """Position in the group."""
    bounds: Array
    """Direction d has pieces bounds[d]:bounds[d + 1]."""
    start: Array
    """First sequence number, on the axis."""
    end: Array
    """The number after the last one, on the axis."""
    timeline: Timeline

    def chosen(self, keep: Array, group: SegmentGroup) -> DataRanges:
        """Return the segments that the mask selects.

        Parameters
        ----------
        keep : ndarray of bool, shape (n_chunks,)
        group : SegmentGroup
            The group of the segments.
        """
        position = self.position[keep]
        bounds = np.searchsorted(position, group.bounds)
        timeline = Timeline.of(group.rows[position], bounds)
        return DataRanges(position, bounds, self.start[keep], self.end[keep], timeline)


@dataclass(slots=True)
class Acks:
    """The segments whose ACK number differs from the previous one of their sender.

    They are sorted by the direction that they acknowledge, then in capture order.
    """

    position: Array
    bounds: Array
    """Direction d is acknowledged by the ACKs bounds[d]:bounds[d + 1], which the other direction sent."""
    value: Array
    """The ACK number, on the axis."""
    highest: Array
    """The highest ACK number up to and including this one, on the axis."""
    timeline: Timeline
    """The ACKs by acknowledged direction."""
    advancing: Array
    """ACKs that acknowledge more than any ACK before, or are the first."""

    @property
    def direction(self) -> Array:
        """The direction that each ACK acknowledges: int64, shape (n_acks,), from 0; never NA."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


@dataclass(slots=True)
class SequenceAxis:
    """The axis of sequence numbers of a group."""

    chunks: DataRanges
    acks: Acks
    reference: Array
    """For each direction the position of its reference number on the axis."""
    reference_seq: Array
    """For each direction its 32-bit reference number: the sequence number of its first segment, if there is one."""
    origin: Array
    """For each direction the axis position of its relative number 0: the SYN, else the lowest number that either side
    sent or acknowledged."""
    lowest: Array
    """For each direction the begin of its range: the lowest number that either side sent or acknowledged."""


def lay_out(group: SegmentGroup) -> SequenceAxis:
    """Return the axis of sequence numbers of a group, with the group's data segments and ACKs on it."""
    position = np.flatnonzero(group.units)
    bounds = np.searchsorted(position, group.bounds)
    start = unwrapped(group.seq[position], bounds)
    end = start + group.units[position]
    timeline = Timeline.of(group.rows[position], bounds)
    chunks = DataRanges(position, bounds, start, end, timeline)
    ack_position, ack_bounds = _changes_of_ack(group)
    value = unwrapped(group.ack[ack_position], ack_bounds)
    reference_seq = _anchor(value, group, chunks, ack_position, ack_bounds)
    reference, lowest = _spread(chunks, value, ack_bounds)
    acks = _acks(value, group, ack_position, ack_bounds)
    return SequenceAxis(chunks, acks, reference, reference_seq, _origin(lowest, group, chunks), lowest)


def _acks(value: Array, group: SegmentGroup, position: Array, bounds: Array) -> Acks:
    highest = np.maximum.accumulate(value)
    advancing = np.ones(len(value), dtype=bool)
    np.greater(value[1:], highest[:-1], out=advancing[1:])
    timeline = Timeline.of(group.rows[position], bounds)
    return Acks(position, bounds, value, highest, timeline, np.flatnonzero(advancing))


def _changes_of_ack(group: SegmentGroup) -> tuple[Array, Array]:
    """Return the positions whose ACK number differs from the sender's previous one, and their bounds.

    The positions of direction d are those from bounds[d] to bounds[d + 1] - 1.
    """
    changed = np.ones(len(group), dtype=bool)
    np.not_equal(group.ack[1:], group.ack[:-1], out=changed[1:])
    changed[group_starts(group.bounds)] = True
    without = np.flatnonzero(~has(group.flags, Flag.ACK))
    changed[np.minimum(without + 1, len(group) - 1)] = True
    changed[without] = False
    position = np.flatnonzero(changed)
    return partners(position, np.searchsorted(position, group.bounds))


def partners(items: Array, bounds: Array) -> tuple[Array, Array]:
    """Return the items with the two directions of each connection exchanged, and their new bounds.

    Parameters
    ----------
    items : ndarray of any dtype, shape (n,)
        Direction after direction.
    bounds : ndarray of int64, shape (n_directions + 1,)
        Direction d has items bounds[d]:bounds[d + 1].
    """
    counts = np.diff(bounds).reshape(-1, 2)[:, ::-1].ravel()
    swapped = np.zeros_like(bounds)
    np.cumsum(counts, out=swapped[1:])
    source = bounds[:-1].reshape(-1, 2)[:, ::-1].ravel()
    return items[np.arange(len(items)) + np.repeat(source - swapped[:-1], counts)], swapped


def _anchor(value: Array, group: SegmentGroup, chunks: DataRanges, position: Array, bounds: Array) -> Array:
    """Convert 32-bit ACK numbers, in place, to positions on the axis of the direction they acknowledge.

    Return the reference number of each direction. We assume that the first ACK lies within 2 GiB of the data
    segment before it; without one, of the first data segment, else of the first segment. For a direction
    without captured segments, the first ACK is the reference.
    """
    reference = np.zeros(group.directions, dtype=np.uint32)
    sends = np.flatnonzero(np.diff(group.bounds))
    reference[sends] = group.seq[group.bounds[:-1][sends]]
    occupies = np.flatnonzero(np.diff(chunks.bounds))
    reference[occupies] = group.seq[chunks.position[chunks.bounds[:-1][occupies]]]
    nonempty = np.flatnonzero(np.diff(bounds))
    first = position[bounds[:-1][nonempty]]
    idle = np.diff(group.bounds)[nonempty] == 0
    reference[nonempty[idle]] = group.ack[first[idle]]
    near = chunks.timeline.last_before(nonempty, group.rows[first])
    seq = reference[nonempty]
    shift = np.zeros(len(nonempty), dtype=np.int64)
    has_near = near >= 0
    seq[has_near] = group.seq[chunks.position[near[has_near]]]
    shift[has_near] = chunks.start[near[has_near]]
    shift += (group.ack[first] - seq).view(np.int32)
    value += np.repeat(shift, np.diff(bounds)[nonempty])
    return reference


def _spread(chunks: DataRanges, value: Array, ack_bounds: Array) -> tuple[Array, Array]:
    """Shift the numbers of each direction, in place, so that directions do not overlap on the axis.

    Return two arrays with an element for each direction: the axis positions of its reference number, and of
    its lowest number.
    """
    zero = np.zeros(len(ack_bounds) - 1, dtype=np.int64)
    big = np.iinfo(np.int64).max
    lows = [zero, reduce_groups(np.minimum, chunks.start, chunks.bounds, empty=big)]
    highs = [zero, reduce_groups(np.maximum, chunks.end, chunks.bounds, empty=-big)]
    lows.append(reduce_groups(np.minimum, value, ack_bounds, empty=big))
    highs.append(reduce_groups(np.maximum, value, ack_bounds, empty=-big))
    lowest, highest = np.minimum.reduce(lows), np.maximum.reduce(highs)
    width = highest - lowest + _CLEARANCE
    reference = np.cumsum(width) - width - lowest
    add_to_groups(chunks.start, reference, chunks.bounds)
    add_to_groups(chunks.end, reference, chunks.bounds)
    add_to_groups(value, reference, ack_bounds)
    return reference, lowest + reference


def _origin(lowest: Array, group: SegmentGroup, chunks: DataRanges) -> Array:
    """Return the axis position of each direction's relative sequence number 0.

    It is the position of the first SYN; without one, the direction's element of `lowest`.
    """
    syn = group.special[has(group.flags[group.special], Flag.SYN)][::-1]
    syn = syn[group.units[syn] > 0]  # not with RST too
    origin = lowest.copy()
    origin[group.direction_of(syn)] = chunks.start[np.searchsorted(chunks.position, syn)]
    return origin
