"""One number line for a group: every direction's sequence numbers, unwrapped, on a stretch of their own.

A segment that occupies sequence units is a *piece*, from its first unit to the unit after its last. An ACK
lies on the stretch of the direction that it acknowledges. On such a line, cumulative maxima and searches run
over all connections of a group at once. Source of the arithmetic: RFC 9293, section 3.4.
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
"""Units between two stretches: neither these touch, nor what a SACK may name, within 2 GiB of its ACK."""


@dataclass(slots=True)
class Pieces:
    """The segments of a group that occupy sequence units, direction after direction, in capture order."""

    position: Array
    """Position in the group."""
    bounds: Array
    """Direction d has pieces bounds[d]:bounds[d + 1]."""
    start: Array
    """First unit, on the axis."""
    end: Array
    """Unit after the last, on the axis."""
    timeline: Timeline

    def chosen(self, keep: Array, group: SegmentGroup) -> Pieces:
        """Return the pieces that a mask keeps.

        Parameters
        ----------
        keep : ndarray of bool, shape (n_pieces,)
        group : SegmentGroup
            That of the pieces.
        """
        position = self.position[keep]
        bounds = np.searchsorted(position, group.bounds)
        timeline = Timeline.of(group.rows[position], bounds)
        return Pieces(position, bounds, self.start[keep], self.end[keep], timeline)


@dataclass(slots=True)
class Acks:
    """The segments whose ACK number differs from the one before, sorted by acknowledged direction."""

    position: Array
    bounds: Array
    """Direction d is acknowledged by bounds[d]:bounds[d + 1], which the other direction sent."""
    value: Array
    """The ACK number, on the axis."""
    highest: Array
    """The highest ACK number up to and with this one, on the axis."""
    timeline: Timeline
    """By acknowledged direction."""
    advancing: Array
    """Those that acknowledge more than any before, or come first."""

    @property
    def direction(self) -> Array:
        """The direction that each ACK acknowledges: int64, shape (n_acks,), from 0; never NA."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


@dataclass(slots=True)
class SequenceAxis:
    """The number line of a group."""

    pieces: Pieces
    acks: Acks
    reference: Array
    """Per direction: where its reference number lies on the axis."""
    reference_seq: Array
    """Per direction: the 32-bit reference number, that of its first piece where it has one."""
    origin: Array
    """Per direction: where its unit 0 lies, the SYN, else the lowest number that either side mentions."""
    lowest: Array
    """Per direction: where its stretch begins, the lowest number that either side mentions."""


def lay_out(group: SegmentGroup) -> SequenceAxis:
    """Return the pieces and the ACKs of a group on one number line."""
    position = np.flatnonzero(group.units)
    bounds = np.searchsorted(position, group.bounds)
    start = unwrapped(group.seq[position], bounds)
    end = start + group.units[position]
    timeline = Timeline.of(group.rows[position], bounds)
    pieces = Pieces(position, bounds, start, end, timeline)
    ack_position, ack_bounds = _changes_of_ack(group)
    value = unwrapped(group.ack[ack_position], ack_bounds)
    reference_seq = _anchor(value, group, pieces, ack_position, ack_bounds)
    reference, lowest = _spread(pieces, value, ack_bounds)
    acks = _acks(value, group, ack_position, ack_bounds)
    return SequenceAxis(pieces, acks, reference, reference_seq, _origin(lowest, group, pieces), lowest)


def _acks(value: Array, group: SegmentGroup, position: Array, bounds: Array) -> Acks:
    highest = np.maximum.accumulate(value)
    advancing = np.ones(len(value), dtype=bool)
    np.greater(value[1:], highest[:-1], out=advancing[1:])
    timeline = Timeline.of(group.rows[position], bounds)
    return Acks(position, bounds, value, highest, timeline, np.flatnonzero(advancing))


def _changes_of_ack(group: SegmentGroup) -> tuple[Array, Array]:
    """Return the positions whose ACK number is not the one before, by acknowledged direction."""
    changed = np.ones(len(group), dtype=bool)
    np.not_equal(group.ack[1:], group.ack[:-1], out=changed[1:])
    changed[group_starts(group.bounds)] = True
    without = np.flatnonzero(~has(group.flags, Flag.ACK))
    changed[np.minimum(without + 1, len(group) - 1)] = True
    changed[without] = False
    position = np.flatnonzero(changed)
    return partners(position, np.searchsorted(position, group.bounds))


def partners(items: Array, bounds: Array) -> tuple[Array, Array]:
    """Return the items of each direction's partner in its place, and their bounds.

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


def _anchor(value: Array, group: SegmentGroup, pieces: Pieces, position: Array, bounds: Array) -> Array:
    """Shift ACK numbers, in place, onto the scale of the direction they acknowledge; return its reference.

    The first ACK lies within 2 GiB of the piece before it, else of the first piece; of the first segment
    where there is no piece; it is itself the reference of a direction that was not captured at all.
    """
    reference = np.zeros(group.directions, dtype=np.uint32)
    sends = np.flatnonzero(np.diff(group.bounds))
    reference[sends] = group.seq[group.bounds[:-1][sends]]
    occupies = np.flatnonzero(np.diff(pieces.bounds))
    reference[occupies] = group.seq[pieces.position[pieces.bounds[:-1][occupies]]]
    nonempty = np.flatnonzero(np.diff(bounds))
    first = position[bounds[:-1][nonempty]]
    silent = np.diff(group.bounds)[nonempty] == 0
    reference[nonempty[silent]] = group.ack[first[silent]]
    near = pieces.timeline.last_before(nonempty, group.rows[first])
    seq = reference[nonempty]
    shift = np.zeros(len(nonempty), dtype=np.int64)
    has_near = near >= 0
    seq[has_near] = group.seq[pieces.position[near[has_near]]]
    shift[has_near] = pieces.start[near[has_near]]
    shift += (group.ack[first] - seq).view(np.int32)
    value += np.repeat(shift, np.diff(bounds)[nonempty])
    return reference


def _spread(pieces: Pieces, value: Array, ack_bounds: Array) -> tuple[Array, Array]:
    """Move each direction, in place, to its own stretch; return where reference and lowest number lie."""
    zero = np.zeros(len(ack_bounds) - 1, dtype=np.int64)
    big = np.iinfo(np.int64).max
    lows = [zero, reduce_groups(np.minimum, pieces.start, pieces.bounds, empty=big)]
    highs = [zero, reduce_groups(np.maximum, pieces.end, pieces.bounds, empty=-big)]
    lows.append(reduce_groups(np.minimum, value, ack_bounds, empty=big))
    highs.append(reduce_groups(np.maximum, value, ack_bounds, empty=-big))
    lowest, highest = np.minimum.reduce(lows), np.maximum.reduce(highs)
    width = highest - lowest + _CLEARANCE
    reference = np.cumsum(width) - width - lowest
    add_to_groups(pieces.start, reference, pieces.bounds)
    add_to_groups(pieces.end, reference, pieces.bounds)
    add_to_groups(value, reference, ack_bounds)
    return reference, lowest + reference


def _origin(lowest: Array, group: SegmentGroup, pieces: Pieces) -> Array:
    """Return the axis position of each direction's unit 0: its first SYN, else `lowest`."""
    syn = group.special[has(group.flags[group.special], Flag.SYN)][::-1]
    syn = syn[group.units[syn] > 0]  # not with RST too
    origin = lowest.copy()
    origin[group.direction_of(syn)] = pieces.start[np.searchsorted(pieces.position, syn)]
    return origin
