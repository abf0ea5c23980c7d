"""Round-trip times by the timestamps option (RFC 7323, section 4.1).

An ACK that acknowledges new data and echoes a timestamp measures the first segment that carried it. Unlike an
exact ACK it is not ambiguous after a retransmission: the echo says which copy was answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import Mark

if TYPE_CHECKING:
    from multitracer.analysis.segments.examination import Examination
    from multitracer.capture import Capture
    from multitracer.tables import Array


def echoes(examination: Examination, capture: Capture) -> tuple[Array, Array]:
    """Return positions of segments, and of the first ACK that echoes each.

    A sample belongs to the first segment with its timestamp that occupies sequence units, and only if the
    ACK covers that segment.

    Returns
    -------
    segment, ack : ndarray of int64, shape (n_samples,)
    """
    group, axis, segments = examination.group, examination.axis, capture.segments
    pieces, acks = axis.pieces, axis.acks
    stamped = has(segments["marks"][group.rows], Mark.HAS_TIMESTAMPS)
    piece = np.flatnonzero(stamped[pieces.position])
    advancing = acks.advancing[stamped[acks.position[acks.advancing]]]
    if not len(piece):
        return piece, piece
    sent, answer = group.rows[pieces.position[piece]], group.rows[acks.position[advancing]]
    value, first = _firsts(segments["tsval"][sent], group.direction_of(pieces.position[piece]))
    echoed, earliest = _firsts(segments["tsecr"][answer], acks.direction[advancing])
    slot = np.minimum(np.searchsorted(value, echoed), len(value) - 1)
    known = value[slot] == echoed
    first, earliest = first[slot[known]], earliest[known]
    covered = (sent[first] < answer[earliest]) & (acks.value[advancing[earliest]] >= pieces.end[piece[first]])
    return pieces.position[piece[first[covered]]], acks.position[advancing[earliest[covered]]]


def _firsts(stamp: Array, direction: Array) -> tuple[Array, Array]:
    """Return each timestamp of each direction, ascending, and where it comes first."""
    value, first = np.unique((direction << 32) + stamp, return_index=True)
    return value, first
