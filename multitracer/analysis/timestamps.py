"""Round-trip times by the timestamps option (RFC 7323, section 4.1), for one connection.

An ACK that acknowledges new data and echoes a timestamp measures the first segment that carried it. Unlike an
exact ACK it is not ambiguous after a retransmission: the echo says which copy was answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.capture import Mark

if TYPE_CHECKING:
    from multitracer.analysis.intervals import Array
    from multitracer.analysis.kernel import Findings
    from multitracer.capture import Capture


def echoes(found: Findings, capture: Capture) -> tuple[Array, Array]:
    """Return positions of segments, and of the first ACK that echoes each.

    A sample belongs to the first segment with its timestamp that occupies sequence units, and only if the
    ACK covers that segment.
    """
    pairs = [_echoes_of(direction, found, capture) for direction in (0, 1)]
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _echoes_of(direction: int, found: Findings, capture: Capture) -> tuple[Array, Array]:
    group, axis, segments = found.group, found.axis, capture.segments
    pieces, acks = axis.pieces, axis.acks
    piece = np.arange(pieces.bounds[direction], pieces.bounds[direction + 1])
    sent = group.rows[pieces.position[piece]]
    stamped = has(segments["marks"][sent], Mark.HAS_TIMESTAMPS)
    piece, sent = piece[stamped], sent[stamped]
    advancing = acks.advancing[acks.direction[acks.advancing] == direction]
    answer = group.rows[acks.position[advancing]]
    stamped = has(segments["marks"][answer], Mark.HAS_TIMESTAMPS)
    advancing, answer = advancing[stamped], answer[stamped]
    if not len(piece):
        return piece, piece
    value, first = np.unique(segments["tsval"][sent], return_index=True)
    echoed, earliest = np.unique(segments["tsecr"][answer], return_index=True)
    slot = np.minimum(np.searchsorted(value, echoed), len(value) - 1)
    known = value[slot] == echoed
    piece, sent = piece[first[slot[known]]], sent[first[slot[known]]]
    advancing, answer = advancing[earliest[known]], answer[earliest[known]]
    covered = (sent < answer) & (acks.value[advancing] >= pieces.end[piece])
    return pieces.position[piece[covered]], acks.position[advancing[covered]]
