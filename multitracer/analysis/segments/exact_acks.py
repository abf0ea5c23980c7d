"""Round-trip times by exact ACKs under Karn's rule, for all directions of a group at once.

A segment (data, SYN, FIN) gives a sample when the first ACK that covers it ends exactly at its end, it was
new as a whole, and nothing that begins below its end was sent between it and that ACK: neither itself again
(Karn) nor a hole before it, which would have held the ACK back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import places, span_minimum

if TYPE_CHECKING:
    from multitracer.analysis.segments.acknowledgments import Progress
    from multitracer.analysis.segments.axis import Axis
    from multitracer.analysis.segments.coverage import Coverage
    from multitracer.tables import Array


@dataclass(slots=True)
class ExactAcks:
    """Pairs of a piece and the ACK (index in `axis.acks`) that ends at its end, in order of the ACK."""

    piece: Array
    ack: Array
    direction: Array


def exact_acks(axis: Axis, coverage: Coverage, ack_progress: Progress, unsuitable: Array) -> ExactAcks:
    """Return the pairs that give a round-trip time.

    Parameters
    ----------
    unsuitable : ndarray of bool, shape (n_late,)
        Late pieces that were not sent by TCP (captured twice) or may not be answered (probes).
    """
    value = axis.acks.value[axis.acks.advancing]
    on_time, ack = _new_at_the_top(axis, coverage, ack_progress, value)
    filling, its_ack = _new_in_holes(axis, coverage, ack_progress, value, unsuitable)
    piece, ack = np.concatenate([on_time, filling]), np.concatenate([ack, its_ack])
    kept = _undisturbed(piece, ack_progress.piece[ack], axis, coverage, unsuitable)
    kept = kept[np.argsort(ack[kept], kind="stable")]
    piece, ack = piece[kept], ack[kept]
    return ExactAcks(piece, axis.acks.advancing[ack], ack_progress.direction[ack])


def _new_at_the_top(
    axis: Axis, coverage: Coverage, ack_progress: Progress, value: Array
) -> tuple[Array, Array]:
    reach = coverage.reach
    if not len(reach):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    piece = places(reach, value)
    met_piece = np.minimum(piece, len(reach) - 1)
    exact = (reach[met_piece] == value) & (piece <= ack_progress.piece)
    ack = np.flatnonzero(exact)
    piece = piece[ack]
    whole = (piece == 0) | (axis.pieces.start[piece] >= reach[piece - 1])
    return piece[whole], ack[whole]


def _new_in_holes(
    axis: Axis, coverage: Coverage, ack_progress: Progress, value: Array, unsuitable: Array
) -> tuple[Array, Array]:
    late = coverage.late
    units = axis.pieces.end[late] - axis.pieces.start[late]
    piece = late[(coverage.new == units) & ~unsuitable]
    end = axis.pieces.end[piece]
    ack = places(value, end)
    inside = np.flatnonzero(ack < len(value))
    exact = inside[value[ack[inside]] == end[inside]]
    exact = exact[ack_progress.piece[ack[exact]] >= piece[exact]]
    return piece[exact], ack[exact]


def _undisturbed(piece: Array, last: Array, axis: Axis, coverage: Coverage, unsuitable: Array) -> Array:
    """Return the samples between whose piece and ACK nothing was sent that begins below the piece's end."""
    late = coverage.late[~unsuitable]
    first, behind = (places(late, each, "right") for each in (piece, last))
    kept = np.ones(len(piece), dtype=bool)
    crossed = np.flatnonzero(first < behind)
    if len(crossed):
        lowest = span_minimum(axis.pieces.start[late], first[crossed], behind[crossed])
        kept[crossed] = lowest >= axis.pieces.end[piece[crossed]]
    return np.flatnonzero(kept)
