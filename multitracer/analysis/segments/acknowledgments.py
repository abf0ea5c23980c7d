"""ACKs of a group: duplicate ACKs, window updates, and ACKs of data that were not captured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.segments.duplicates import telling
from multitracer.captured import Flag

if TYPE_CHECKING:
    from multitracer.analysis.group import SegmentGroup
    from multitracer.analysis.segments.axis import SequenceAxis
    from multitracer.analysis.segments.coverage import Coverage
    from multitracer.tables import Array


@dataclass(slots=True)
class Repeats:
    """Pure ACKs that have the same ACK number as the segment before them, by class.

    A pure ACK has no payload and none of the flags SYN, FIN and RST.
    """

    duplicate: Array
    """Positions of duplicate ACKs (RFC 5681, section 2): same window, and data outstanding."""
    third: Array
    """Positions of the duplicate ACKs that are the third in a row for one ACK number."""
    window_update: Array
    """Positions of the segments that change only the window (window updates)."""
    captured_twice: Array
    """Positions of segments that are the same packet as the one before, by IP ID; these are not duplicate ACKs."""


def repeated_acks(group: SegmentGroup, axis: SequenceAxis, coverage: Coverage, ip_id: Array) -> Repeats:
    """Return the duplicate ACKs and window updates of a group.

    Parameters
    ----------
    ip_id : ndarray of uint16, shape (n_segments,)
        IPv4 identification of the capture's segments, by row; 0 is ignored.
    """
    ack, window = group.ack, group.window
    same = np.zeros(len(group), dtype=bool)
    np.equal(ack[1:], ack[:-1], out=same[1:])
    same &= group.payload == 0
    position = np.flatnonzero(same)
    position = position[_continues(group, position)]
    rows = group.rows[position]
    identity = ip_id[rows]
    unchanged = window[position] == window[position - 1]
    twice = unchanged & (identity != 0) & (identity == ip_id[group.rows[position - 1]])
    twice &= group.payload[position - 1] == 0
    if twice.any():
        twice &= telling(group, ip_id, position)
    candidate = position[unchanged & ~twice]
    outstanding = _outstanding(group, axis, coverage, candidate)
    duplicate, run = candidate[outstanding >= 0], outstanding[outstanding >= 0]
    return Repeats(duplicate, duplicate[_third(run)], position[~unchanged], position[twice])


def _continues(group: SegmentGroup, position: Array) -> Array:
    """Return which positions are plain ACKs after a segment with an ACK number in the same direction.

    A plain ACK has no payload and none of the flags SYN, FIN and RST.
    """
    bits = group.flags[position]
    follows = group.bounds[group.direction_of(position)] < position
    return group.plain(position) & has(bits, Flag.ACK) & has(group.flags[position - 1], Flag.ACK) & follows


def _outstanding(group: SegmentGroup, axis: SequenceAxis, coverage: Coverage, position: Array) -> Array:
    """Return the index in `axis.acks` of the ACK that each position repeats.

    It is -1 if all data that were sent before have been acknowledged.
    """
    direction = group.direction_of(position) ^ 1
    rows = group.rows[position]
    chunk = axis.chunks.timeline.last_before(direction, rows)
    event = axis.acks.timeline.last_before(direction, rows)
    is_known = (chunk >= 0) & (event >= 0)
    where = np.flatnonzero(is_known)
    value = axis.acks.value[event[where]]
    is_known[where] = (value == axis.acks.highest[event[where]]) & (value < coverage.reach[chunk[where]])
    return np.where(is_known, event, -1)


def _third(run: Array) -> Array:
    """Return which elements are the third in a sequence of equal neighbouring values."""
    starts = np.flatnonzero(np.diff(run, prepend=-1))
    ordinal = np.arange(len(run)) - np.repeat(starts, np.diff(np.append(starts, len(run))))
    return np.equal(ordinal, 2)


@dataclass(slots=True)
class AckProgress:
    """For each ACK that acknowledges new data: what it acknowledges, and the outstanding data before it."""

    direction: Array
    """The direction that it acknowledges."""
    chunk: Array
    """Index of that direction's last data segment (`DataRanges`) before it, -1 without one."""
    flight: Array
    """Sequence numbers outstanding just before it."""
    early: Array
    """Whether it acknowledges data that the capture shows only later."""
    unseen: Array
    """Whether it acknowledges data that the capture does not contain."""


def progress(group: SegmentGroup, axis: SequenceAxis, coverage: Coverage) -> AckProgress:
    """Return for each ACK of new data what it acknowledges, and what was outstanding before it."""
    acks, chunks = axis.acks, axis.chunks
    direction = acks.direction[acks.advancing]
    value = acks.value[acks.advancing]
    chunk = chunks.timeline.last_before(direction, group.rows[acks.position[acks.advancing]])
    first_unit = first_units(axis)
    known = chunk >= 0
    out = first_unit[direction]
    out[known] = coverage.reach[chunk[known]]
    acknowledged = np.empty_like(value)
    acknowledged[1:] = value[:-1]
    first = np.flatnonzero(np.diff(direction, prepend=-1))
    acknowledged[first] = first_unit[direction[first]]
    flight = np.where(known, np.maximum(out - acknowledged, 0), 0)
    held = _held(group, axis, coverage)[direction]
    unseen = (value > held) | _over_holes(direction, value, coverage, group, axis)
    early = (value > out) & (np.diff(chunks.bounds)[direction] > 0) & ~unseen
    return AckProgress(direction, chunk, flight, early, unseen)


def first_units(axis: SequenceAxis) -> Array:
    """Return the first captured sequence number of each direction, on the axis.

    Before any ACK, everything from this number on is outstanding.

    Returns
    -------
    ndarray of int64, shape (n_directions,)
    """
    first = axis.reference.copy()
    sends = np.flatnonzero(np.diff(axis.chunks.bounds))
    first[sends] = axis.chunks.start[axis.chunks.bounds[:-1][sends]]
    return first


def _held(group: SegmentGroup, axis: SequenceAxis, coverage: Coverage) -> Array:
    """Return for each direction the number after the highest captured sequence number, on the axis.

    For a direction without segments it is the maximum of int64, so that none of its ACKs counts as an ACK of
    data that were not captured.
    """
    held = axis.reference.copy()
    held[np.diff(group.bounds) == 0] = np.iinfo(np.int64).max
    sends = np.flatnonzero(np.diff(axis.chunks.bounds))
    held[sends] = coverage.reach[axis.chunks.bounds[1:][sends] - 1]
    return held


def _over_holes(direction: Array, value: Array, coverage: Coverage, group: SegmentGroup, axis: SequenceAxis) -> Array:
    """Return which ACKs are the first to acknowledge data that the capture does not contain (a hole)."""
    holes = coverage.holes
    if not len(holes.start):
        return np.zeros(len(value), dtype=bool)
    owner = group.direction_of(axis.chunks.position[holes.after])
    ends = np.searchsorted(direction, owner, side="right")
    first = np.searchsorted(value, holes.start, side="right")
    behind = np.minimum(np.searchsorted(value, holes.end, side="left") + 1, ends)
    covered = np.flatnonzero(first < behind)
    depth = np.zeros(len(value) + 1, dtype=np.int64)
    np.add.at(depth, first[covered], 1)
    np.subtract.at(depth, behind[covered], 1)
    return np.cumsum(depth)[:-1] > 0


def max_flight(axis: SequenceAxis, coverage: Coverage, ack_progress: AckProgress) -> Array:
    """Return the maximum outstanding data of each direction: highest end sent minus highest ACK seen.

    Returns
    -------
    ndarray of int64, bytes, shape (n_directions,)
        At least 0. SYN and FIN count as one byte each.
    """
    most = np.zeros(len(axis.reference), dtype=np.int64)
    np.maximum.at(most, ack_progress.direction, ack_progress.flight)
    sends = np.flatnonzero(np.diff(axis.chunks.bounds))
    acknowledged = first_units(axis)
    answered = np.flatnonzero(np.diff(axis.acks.bounds))
    acknowledged[answered] = axis.acks.highest[axis.acks.bounds[1:][answered] - 1]
    left = coverage.reach[axis.chunks.bounds[1:][sends] - 1] - acknowledged[sends]
    most[sends] = np.maximum(most[sends], left)
    return most
