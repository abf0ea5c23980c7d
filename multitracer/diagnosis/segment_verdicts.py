"""Each segment of one capture: its kind, and the verdict on each retransmission by all that was recorded.

The rows are those of one capture. Whatever else is there (the capture at the other end, the sender's state,
the link's log) only decides what the verdicts rest on. A direction whose sender is nearer to the other
capture is judged there, and the verdicts are carried over to the same packets here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.segment_class import SegmentClass, classify
from multitracer.analysis.two_points import match
from multitracer.analysis.verdicts import Cause, Necessity
from multitracer.diagnosis.transfer import Transfer
from multitracer.recording.layers import Layers
from multitracer.tcp import Vantage

if TYPE_CHECKING:
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Table

NO_VERDICT = 255
"""Of `cause` and `necessity` of a segment that is no retransmission."""


@dataclass(slots=True)
class SegmentVerdicts:
    """What is concluded of each segment of a capture; arrays of shape (n_segments,), in capture order.

    Attributes
    ----------
    seq_rel : ndarray of int64
        Sequence number from the first data unit of the direction.
    kind : ndarray of uint8
        Values of `SegmentClass`.
    cause, necessity : ndarray of uint8
        Values of `Cause` and `Necessity`; NO_VERDICT of what was sent once.
    evidence : ndarray of uint32
        Bits of `Evidence`.
    """

    seq_rel: Array
    kind: Array
    cause: Array
    necessity: Array
    evidence: Array

    @classmethod
    def blank(cls, segments: int) -> SegmentVerdicts:
        """Return what is known of segments that belong to no connection: nothing."""
        none = np.full(segments, NO_VERDICT, dtype=np.uint8)
        kind = np.zeros(segments, np.uint8)
        return cls(np.zeros(segments, np.int64), kind, none, none.copy(), np.zeros(segments, np.uint32))


def main_part(recording: Recording) -> Part:
    """Return the capture nearest to the sender of the largest connection; of loose files, that with it."""
    if len(recording.parts) == 1 or not len(recording):
        return recording.parts[0]
    if recording.folder is None:
        return recording.chosen(None)[0]
    return Layers.of(recording, *recording.chosen(None)).part


def segment_verdicts(recording: Recording, part: Part) -> SegmentVerdicts:
    """Return what is concluded of each segment of a part of a recording."""
    found = SegmentVerdicts.blank(len(part.capture.segments))
    for number in range(1, len(part) + 1):
        _fill(found, recording, part, number)
    return found


def _fill(found: SegmentVerdicts, recording: Recording, part: Part, number: int) -> None:
    """Write what is known of one connection into its rows, in place."""
    directions = part.analysis.directions
    own = part.analysis.partition.rows_of(number - 1)
    segments = part.analysis.tcp_segments(number)
    pair = slice(2 * (number - 1), 2 * number)
    forward, back = (directions["vantage"][pair] == Vantage.NEAR_SENDER).tolist()
    kind = classify(segments, at_sender=(forward, back))
    found.kind[own] = kind
    found.seq_rel[own] = segments["seq_bytes"] - _first_data_unit(segments, directions["syn"][pair] > 0)
    resent = kind == SegmentClass.RETRANSMISSION
    for reverse in (False, True):
        asked = np.flatnonzero(resent & (segments["reverse"] == reverse))
        if len(asked):
            transfer = Transfer.of(recording, part.offset + number, reverse=reverse)
            _carry(found, own, segments, asked, transfer, is_here=transfer.layers.part is part)


def _first_data_unit(segments: Table, has_syn: Array) -> Array:
    """Return for each segment where its direction's first data byte lies: behind the SYN, else the first."""
    first = [1, 1]
    for side in (0, 1):
        if not has_syn[side]:
            data = segments["seq_bytes"][
                (segments["reverse"] == bool(side)) & (segments["payload_bytes"] > 0)
            ]
            first[side] = int(data.min()) if len(data) else 0
    return np.where(segments["reverse"], first[1], first[0])


def _carry(
    found: SegmentVerdicts, own: Array, segments: Table, asked: Array, transfer: Transfer, *, is_here: bool
) -> None:
    """Write the verdicts of a transfer at the rows of `segments` that are `asked`, in place."""
    verdicts = transfer.verdicts
    if is_here:
        at, which = _same(asked, verdicts["row"])
    else:
        index, which = match(segments, asked, transfer.sender, verdicts["row"])
        at = asked[index]
    found.cause[own[asked]] = Cause.UNKNOWN
    found.necessity[own[asked]] = Necessity.UNDECIDED
    for name in ("cause", "necessity", "evidence"):
        getattr(found, name)[own[at]] = verdicts[name][which]


def _same(asked: Array, judged: Array) -> tuple[Array, Array]:
    common, _, which = np.intersect1d(asked, judged, assume_unique=True, return_indices=True)
    return common, which
