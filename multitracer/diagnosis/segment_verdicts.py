"""Each segment of one capture: its kind, and the verdict on each retransmission from all logs.

The rows are those of one capture. The other logs (the capture at the other endpoint, the sender's state, the
link's log) are only evidence for the verdicts. A direction whose sender is nearer to the other capture is
judged there, and the verdicts are copied to the same packets here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.segments.segment_class import SegmentClass, classify
from multitracer.analysis.segments.segment_rows import outline
from multitracer.analysis.two_points import match
from multitracer.analysis.verdicts import Necessity, RetransmissionCause, judge_all
from multitracer.errors import InputError
from multitracer.recording.places import vantage_of
from multitracer.recording.short_transfers import is_alone
from multitracer.recording.transfer import Transfer
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Table

NO_VERDICT = 255
"""Value of `cause` and `necessity` for a segment that is no retransmission."""


@dataclass(slots=True)
class SegmentVerdicts:
    """The results for each segment of a capture; arrays of shape (n_segments,), in capture order.

    Attributes
    ----------
    seq_rel : ndarray of int64
        Sequence number relative to the first data byte of the direction.
    kind : ndarray of uint8
        Values of `SegmentClass`.
    cause, necessity : ndarray of uint8
        Values of `RetransmissionCause` and `Necessity`; NO_VERDICT for segments that are no retransmissions.
    evidence : ndarray of uint32
        Bits of `VerdictEvidence`.
    earlier : ndarray of int64
        Row of the copy that was sent before a retransmission; NA if it was not captured.
    """

    seq_rel: Array
    kind: Array
    cause: Array
    necessity: Array
    evidence: Array
    earlier: Array

    @classmethod
    def blank(cls, segments: int) -> SegmentVerdicts:
        """Return results without any verdict for `segments` segments."""
        none = np.full(segments, NO_VERDICT, dtype=np.uint8)
        kind = np.zeros(segments, np.uint8)
        evidence, earlier = np.zeros(segments, np.uint32), np.full(segments, NA)
        return cls(np.zeros(segments, np.int64), kind, none, none.copy(), evidence, earlier)


def main_capture(recording: Recording) -> Capture:
    """Return the capture nearest to the sender of the largest connection.

    Of single files, it is the file that contains this connection.

    Raises
    ------
    InputError
        If there is no capture.
    """
    if not recording.captures:
        raise InputError(
            f"{recording.name}: this recording contains no capture; name a capture, or a session with a capture"
        )
    if len(recording.captures) == 1 or not len(recording):
        return recording.captures[0]
    if recording.folder is None:
        return recording.chosen(None)[0]
    return Transfer.of(recording).at_sender.capture


def segment_verdicts(recording: Recording, capture: Capture) -> SegmentVerdicts:
    """Return the results for each segment of one capture of a recording."""
    partition, directions = capture.analysis.partition, capture.analysis.directions
    judged = SegmentVerdicts.blank(len(capture.tables.segments))
    if not len(capture):
        return judged
    segments = outline(capture.tables, partition)
    at_sender = directions["vantage"] == Vantage.NEAR_SENDER
    forward = partition.direction & ~1
    judged.kind[:] = classify(segments, at_sender=(at_sender[forward], at_sender[forward + 1]))
    judged.seq_rel[:] = segments["seq_bytes"] - _first_data_unit(segments, capture)[partition.direction]
    resent = np.flatnonzero(judged.kind == SegmentClass.RETRANSMISSION)
    judged.cause[resent] = RetransmissionCause.UNKNOWN
    judged.necessity[resent] = Necessity.UNDECIDED
    sides = np.unique(partition.direction[resent])
    if is_alone(recording, capture):
        _judge_all(judged, recording, capture, sides)
    else:
        for side in sides.tolist():
            _judge(judged, recording, capture, side)
    return judged


def _judge_all(judged: SegmentVerdicts, recording: Recording, capture: Capture, sides: Array) -> None:
    """Write the verdicts on the given directions into `judged`, in place; only this capture is used."""
    for connections, examined in capture.analysis.examined(np.unique(sides >> 1)):
        own = sides[np.isin(sides >> 1, connections)]
        vantage = [vantage_of(recording, capture, side // 2 + 1, reverse=bool(side & 1)) for side in own.tolist()]
        side = 2 * np.searchsorted(connections, own >> 1) + (own & 1)
        verdicts = judge_all(examined.segments(), examined.sack_blocks(), examined.bounds, side, np.array(vantage))
        rows = examined.rows[verdicts["row"]]
        which = np.flatnonzero(judged.kind[rows] == SegmentClass.RETRANSMISSION)
        _write(judged, rows[which], verdicts, which)
        judged.earlier[rows[which]] = _renumbered(verdicts["earlier_row"][which], examined.rows)


def _write(judged: SegmentVerdicts, rows: Array, verdicts: Table, which: Array) -> None:
    """Write the verdicts that `which` selects into the rows `rows` of `judged`, in place."""
    for name in ("cause", "necessity", "evidence"):
        getattr(judged, name)[rows] = verdicts[name][which]


def _renumbered(rows: Array, of_capture: Array) -> Array:
    """Return row numbers of a table as row numbers of the capture; NA stays NA."""
    return np.append(of_capture, NA)[rows]  # NA is -1: the last one


def _first_data_unit(segments: dict[str, Array], capture: Capture) -> Array:
    """Return the relative sequence number of each direction's first data byte.

    It is 1 after a captured SYN, which has number 0. Without a SYN, it is the lowest number of a segment with
    payload; 0 without any.
    """
    directions, direction = capture.analysis.directions, capture.analysis.partition.direction
    data = np.flatnonzero(segments["payload_bytes"] > 0)
    never = np.iinfo(np.int64).max
    first = np.full(len(directions), never)
    np.minimum.at(first, direction[data], segments["seq_bytes"][data])
    first[first == never] = 0
    first[directions["syn"] > 0] = 1
    return first


def _judge(judged: SegmentVerdicts, recording: Recording, capture: Capture, direction: int) -> None:
    """Write the verdicts on the retransmissions of one direction into `judged`, in place.

    All logs of the recording are used.
    """
    index, reverse = divmod(direction, 2)
    own = capture.analysis.partition.rows_of(index)
    mine = capture.analysis.partition.direction[own] == direction
    retransmitted = np.flatnonzero(mine & (judged.kind[own] == SegmentClass.RETRANSMISSION))
    transfer = Transfer.of(recording, capture.offset + index + 1, reverse=bool(reverse))
    transfer.radio  # noqa: B018  # what its logs warn of is told here, too
    verdicts = transfer.verdicts
    if transfer.at_sender.capture is capture:
        at, which = _same(retransmitted, verdicts["row"])
        judged.earlier[own[at]] = _renumbered(verdicts["earlier_row"][which], own)
    else:
        here = capture.analysis.tcp_segments(index + 1)
        there, which = match(here, retransmitted, transfer.sender, verdicts["row"])
        at = retransmitted[there]
    _write(judged, own[at], verdicts, which)


def _same(retransmitted: Array, judged: Array) -> tuple[Array, Array]:
    common, _, which = np.intersect1d(retransmitted, judged, assume_unique=True, return_indices=True)
    return common, which
