"""The one kernel: everything about the segments of a group of connections, computed step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.segments.acknowledgments import progress, repeated_acks
from multitracer.analysis.segments.axis import lay_out
from multitracer.analysis.segments.coverage import cover
from multitracer.analysis.segments.duplicates import captured_twice
from multitracer.analysis.segments.exact_acks import exact_acks
from multitracer.analysis.segments.probes import (
    empty_keep_alives,
    keep_alives_with_byte,
    window_probes,
    without_refused,
    zero_windows,
)

if TYPE_CHECKING:
    from multitracer.analysis.group import Group
    from multitracer.analysis.segments.acknowledgments import Progress, Repeats
    from multitracer.analysis.segments.axis import Axis
    from multitracer.analysis.segments.coverage import Coverage
    from multitracer.analysis.segments.exact_acks import ExactAcks
    from multitracer.capture import Capture
    from multitracer.tables import Array


@dataclass(slots=True)
class Examination:
    """What is known of a group's segments; masks `*_late` run over `coverage.late`, others are positions."""

    group: Group
    axis: Axis
    coverage: Coverage
    ack_progress: Progress
    repeats: Repeats
    samples: ExactAcks
    closed: Array
    """Offers a window of 0."""
    probes: Array
    """1-byte probes of a closed window."""
    empty_alive: Array
    """Keep-alives and window probes without a byte."""
    alive_late: Array
    """Keep-alives of one byte."""
    twice_late: Array
    """The same packet captured again."""
    repeats_late: Array
    """Retransmissions: a unit was seen before; what was captured twice is among them."""
    fills_late: Array
    """Out of order: fills a hole, and every unit is new."""

    def exact_pairs(self) -> tuple[Array, Array]:
        """Return positions of segments, and of the ACKs that end at their ends.

        Returns
        -------
        segments, acks : ndarray of int64, shape (n_pairs,)
            Positions in the group; never NA.
        """
        pieces, acks = self.axis.pieces, self.axis.acks
        return pieces.position[self.samples.piece], acks.position[self.samples.ack]


def examine(group: Group, capture: Capture) -> Examination:
    """Return what is known of a group's segments."""
    ip_id = capture.segments["ip_id"]
    axis = lay_out(group)
    closed = zero_windows(group)
    probes = window_probes(group, closed)
    if len(probes):
        axis.pieces = without_refused(axis.pieces, probes, group)
    coverage = cover(axis.pieces, group)
    twice = captured_twice(axis.pieces, coverage, group, ip_id)
    alive = keep_alives_with_byte(axis, coverage, group) & ~twice
    probing = np.isin(axis.pieces.position[coverage.late], probes)
    units = axis.pieces.end[coverage.late] - axis.pieces.start[coverage.late]
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
        (coverage.new < units) & ~alive & ~probing,
        (coverage.new == units) & ~probing,
    )


def _answered_once(samples: ExactAcks, axis: Axis, probes: Array) -> ExactAcks:
    """Return the samples without those of window probes, which a receiver may answer much later."""
    if len(probes):
        keep = ~np.isin(axis.pieces.position[samples.piece], probes)
        samples.piece, samples.ack, samples.direction = (
            column[keep] for column in (samples.piece, samples.ack, samples.direction)
        )
    return samples
