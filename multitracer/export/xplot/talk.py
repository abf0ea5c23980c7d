"""What the plots of one direction need: its segments, those that come back, and where its numbers begin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import Kind
from multitracer.analysis.verdicts import Cause, Necessity, word
from multitracer.captured import Flag
from multitracer.diagnosis.segment_verdicts import NO_VERDICT
from multitracer.export.xplot.commands import timed
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.segment_verdicts import SegmentVerdicts
    from multitracer.recording.part import Part
    from multitracer.tables import Array, Table


@dataclass(frozen=True)
class Talk:
    """One direction of a connection.

    Parameters
    ----------
    part : Part
    number : int
        Of the connection in it, from 1.
    reverse : bool
        Whose data: False the initiator's, True the responder's.
    segments : Table
        TCP_SEGMENTS of the connection.
    verdicts : SegmentVerdicts
        Of all segments of the part.
    """

    part: Part
    number: int
    reverse: bool
    segments: Table
    verdicts: SegmentVerdicts

    @property
    def ends(self) -> str:
        """The two ends as tcptrace titles them, the sender first."""
        ends = self.part.analysis.ends(self.number)
        source, target = (ends.source, ends.destination)[:: -1 if self.reverse else 1]
        return f"{source}_==>_{target}"

    @cached_property
    def own(self) -> Array:
        """Rows of the segments of this direction that carry a time, in capture order."""
        return timed(self.segments["time_ns"], self.segments["reverse"] == self.reverse)

    @cached_property
    def back(self) -> Array:
        """Rows of the ACKs that come back and carry a time; none of a reset, whose ACK says nothing."""
        segments = self.segments
        back = (segments["reverse"] != self.reverse) & (segments["ack_bytes"] != NA)
        return timed(segments["time_ns"], back & ((segments["flags"] & Flag.RST) == 0))

    @cached_property
    def data(self) -> Array:
        """Rows of `own` with payload, SYN or FIN."""
        return self.own[self.segments["end_bytes"][self.own] > self.segments["seq_bytes"][self.own]]

    @cached_property
    def payload(self) -> Array:
        """Rows of `own` with payload."""
        return self.own[self.segments["payload_bytes"][self.own] > 0]

    @cached_property
    def origin(self) -> int:
        """The number on the wire of what our tables call byte 0 of this direction."""
        if len(self.own):
            first = self.own[0]
            return int(self.segments["seq"][first]) - int(self.segments["seq_bytes"][first])
        if len(self.back):
            first = self.back[0]
            return int(self.segments["ack"][first]) - int(self.segments["ack_bytes"][first])
        return 0

    def mark(self, row: int) -> str:
        """Return what tcptrace writes at a segment, R (sent again) with our verdict; empty if nothing."""
        flags, kind = int(self.segments["flags"][row]), int(self.segments["kind"][row])
        verdict = self._verdict(row)
        if verdict:
            return verdict
        for bit, text in (
            (Kind.CAPTURE_DUPLICATE, "HD"),
            (Kind.OUT_OF_ORDER, "O"),
            (Kind.ZERO_WINDOW_PROBE, "P"),
        ):
            if kind & bit:
                return text
        return "SYN" if flags & Flag.SYN else "FIN" if flags & Flag.FIN else ""

    @cached_property
    def _rows(self) -> Array:
        return self.part.analysis.partition.rows_of(self.number - 1)

    def _verdict(self, row: int) -> str:
        at = int(self._rows[row])
        cause, need = int(self.verdicts.cause[at]), int(self.verdicts.necessity[at])
        return "" if cause == NO_VERDICT else f"R {word(Cause(cause))} {word(Necessity(need))}"


def half_round_trip_ns(talk: Talk) -> int:
    """Return half of the shortest round trip of a direction; 0 where none was measured."""
    rows = talk.part.analysis.directions
    shortest = int(rows["rtt_min_ns"][2 * (talk.number - 1) + talk.reverse])
    return max(shortest, 0) // 2 if rows["rtt_count"][2 * (talk.number - 1) + talk.reverse] else 0


def without_time(talk: Talk) -> int:
    """Return how many segments of the connection carry no time, and are not drawn."""
    stamps = talk.segments["time_ns"]
    return len(stamps) - len(timed(stamps, np.ones(len(stamps), dtype=bool)))
