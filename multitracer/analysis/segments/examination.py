"""The examination of the segments of a group of connections, step by step.

Round-trip times come from exact ACKs with Karn's rule, for all directions of a group at once. A segment
(data, SYN, FIN) gives a sample if three conditions hold: the first ACK that covers it ends exactly at its
end; all of its data were new; and between the segment and that ACK, nothing was sent that begins below its
end. Such a segment would be a retransmission (Karn's rule), or fill a hole that delayed the ACK.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import places, span_minimum
from multitracer.analysis.segments.acknowledgments import progress, repeated_acks
from multitracer.analysis.segments.axis import lay_out
from multitracer.analysis.segments.coverage import cover
from multitracer.analysis.segments.duplicates import captured_twice
from multitracer.analysis.segments.probes import (
    empty_keep_alives,
    keep_alives_with_byte,
    window_probes,
    without_refused,
    zero_windows,
)
from multitracer.captured import Flag

if TYPE_CHECKING:
    from multitracer.analysis.group import SegmentGroup
    from multitracer.analysis.segments.acknowledgments import AckProgress, Repeats
    from multitracer.analysis.segments.axis import DataRanges, SequenceAxis
    from multitracer.analysis.segments.coverage import Coverage
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array


@dataclass(slots=True)
class ExactAcks:
    """Pairs of a segment and the ACK (index in `axis.acks`) of exactly its last byte, sorted by ACK."""

    chunk: Array
    ack: Array
    direction: Array


def exact_acks(axis: SequenceAxis, coverage: Coverage, ack_progress: AckProgress, unsuitable: Array) -> ExactAcks:
    """Return the pairs of segment and ACK that give a round-trip time.

    Parameters
    ----------
    unsuitable : ndarray of bool, shape (n_late,)
        Late segments that give no sample: packets captured twice, and probes, which a receiver may leave unanswered.
    """
    value = axis.acks.value[axis.acks.advancing]
    on_time, ack = _new_at_the_top(axis, coverage, ack_progress, value)
    filling, its_ack = _new_in_holes(axis, coverage, ack_progress, value, unsuitable)
    chunk, ack = np.concatenate([on_time, filling]), np.concatenate([ack, its_ack])
    kept = _undisturbed(chunk, ack_progress.chunk[ack], axis, coverage, unsuitable)
    kept = kept[np.argsort(ack[kept], kind="stable")]
    chunk, ack = chunk[kept], ack[kept]
    return ExactAcks(chunk, axis.acks.advancing[ack], ack_progress.direction[ack])


def _new_at_the_top(
    axis: SequenceAxis, coverage: Coverage, ack_progress: AckProgress, value: Array
) -> tuple[Array, Array]:
    reach = coverage.reach
    if not len(reach):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    chunk = places(reach, value)
    met_chunk = np.minimum(chunk, len(reach) - 1)
    exact = (reach[met_chunk] == value) & (chunk <= ack_progress.chunk)
    ack = np.flatnonzero(exact)
    chunk = chunk[ack]
    complete = (chunk == 0) | (axis.chunks.start[chunk] >= reach[chunk - 1])
    return chunk[complete], ack[complete]


def _new_in_holes(
    axis: SequenceAxis, coverage: Coverage, ack_progress: AckProgress, value: Array, unsuitable: Array
) -> tuple[Array, Array]:
    late = coverage.late
    units = axis.chunks.end[late] - axis.chunks.start[late]
    chunk = late[(coverage.new == units) & ~unsuitable]
    end = axis.chunks.end[chunk]
    ack = places(value, end)
    inside = np.flatnonzero(ack < len(value))
    exact = inside[value[ack[inside]] == end[inside]]
    exact = exact[ack_progress.chunk[ack[exact]] >= chunk[exact]]
    return chunk[exact], ack[exact]


def _undisturbed(chunk: Array, last: Array, axis: SequenceAxis, coverage: Coverage, unsuitable: Array) -> Array:
    """Return which RTT samples are valid by Karn's rule: bool.

    A sample is valid if, between segment and ACK, no segment was sent that begins below the end of the segment.
    """
    late = coverage.late[~unsuitable]
    first, behind = (places(late, each, "right") for each in (chunk, last))
    kept = np.ones(len(chunk), dtype=bool)
    crossed = np.flatnonzero(first < behind)
    if len(crossed):
        lowest = span_minimum(axis.chunks.start[late], first[crossed], behind[crossed])
        kept[crossed] = lowest >= axis.chunks.end[chunk[crossed]]
    return np.flatnonzero(kept)


@dataclass(slots=True)
class Examination:
    """Results for a group's segments.

    Masks `*_late` have one value for each item of `coverage.late`; the other arrays are positions.
    """

    group: SegmentGroup
    axis: SequenceAxis
    coverage: Coverage
    ack_progress: AckProgress
    repeats: Repeats
    samples: ExactAcks
    closed: Array
    """Positions of segments that advertise a window of 0."""
    probes: Array
    """Positions of 1-byte probes of a closed window."""
    empty_alive: Array
    """Positions of keep-alives and window probes without payload."""
    alive_late: Array
    """Mask of keep-alives of one byte."""
    twice_late: Array
    """Mask of packets captured twice."""
    repeats_late: Array
    """Mask of retransmissions, which repeat at least one sequence number; it includes packets captured twice."""
    fills_late: Array
    """Mask of out-of-order segments: they fill a hole, and all of their data are new."""

    def exact_pairs(self) -> tuple[Array, Array]:
        """Return the positions of the segments with an RTT sample, and the positions of their ACKs.

        Returns
        -------
        segments, acks : ndarray of int64, shape (n_pairs,)
            Positions in the group; never NA.
        """
        chunks, acks = self.axis.chunks, self.axis.acks
        return chunks.position[self.samples.chunk], acks.position[self.samples.ack]


def examine(group: SegmentGroup, capture: CaptureTables) -> Examination:
    """Return the results for a group's segments."""
    ip_id = capture.segments["ip_id"]
    axis = lay_out(group)
    closed = zero_windows(group)
    probes = window_probes(group, closed)
    if len(probes):
        axis.chunks = without_refused(axis.chunks, probes, group)
    coverage = cover(axis.chunks, group)
    twice = captured_twice(axis.chunks, coverage, group, ip_id)
    alive = keep_alives_with_byte(axis, coverage, group) & ~twice
    probing = np.isin(axis.chunks.position[coverage.late], probes)
    units = axis.chunks.end[coverage.late] - axis.chunks.start[coverage.late]
    ack_progress = progress(group, axis, coverage)
    return Examination(
        group,
        axis,
        coverage,
        ack_progress,
        repeated_acks(group, axis, coverage, ip_id),
        _answered_once(exact_acks(axis, coverage, ack_progress, twice | probing), axis, probes),
        closed,
        probes,
        empty_keep_alives(axis, coverage, group),
        alive,
        twice,
        (coverage.new < units) & ~alive & ~probing & ~_crossed(axis.chunks, coverage, group),
        (coverage.new == units) & ~probing,
    )


def _crossed(chunks: DataRanges, coverage: Coverage, group: SegmentGroup) -> Array:
    """Return which late segments are the SYN-ACK of an end whose SYN crossed that of its peer.

    If both ends open a connection at once (RFC 9293, section 3.5), each answers the other's SYN by a SYN-ACK that
    begins at the number of its own SYN. The first one is no retransmission.

    Returns
    -------
    ndarray of bool, shape (n_late,)
    """
    late = chunks.position[coverage.late]
    crossed = has(group.flags[late], Flag.SYN) & has(group.flags[late], Flag.ACK)
    if not crossed.any():
        return crossed
    syn = chunks.position[has(group.flags[chunks.position], Flag.SYN)]
    is_answer, direction = has(group.flags[syn], Flag.ACK), group.direction_of(syn)
    first = np.full((2, group.directions), np.iinfo(np.int64).max)
    np.minimum.at(first, (is_answer.astype(np.int64), direction), syn)
    own, answer = first[:, group.direction_of(late)]
    return np.asarray(crossed & (late == answer) & (own < late))


def _answered_once(samples: ExactAcks, axis: SequenceAxis, probes: Array) -> ExactAcks:
    """Return the RTT samples, without those of window probes, which a receiver may answer much later."""
    if len(probes):
        keep = ~np.isin(axis.chunks.position[samples.chunk], probes)
        samples.chunk, samples.ack, samples.direction = (
            column[keep] for column in (samples.chunk, samples.ack, samples.direction)
        )
    return samples
