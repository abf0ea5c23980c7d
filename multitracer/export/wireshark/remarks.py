"""What is said of single packets: verdicts, losses, closed windows, and the incidents that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts import Cause, Necessity, evidence_words, word
from multitracer.captured import Flag
from multitracer.diagnosis.segment_verdicts import NO_VERDICT, segment_verdicts
from multitracer.export.wireshark.colours import CLOSED, EVIDENCE, INCIDENT, LOST, SENT_AGAIN
from multitracer.tables import NA
from multitracer.words import printable

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.segment_verdicts import SegmentVerdicts
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Mask

_OPENS = Flag.SYN | Flag.FIN | Flag.RST
_MOST_OF_ONE = 20
"""Remarks of one packet; not measured."""


@dataclass(slots=True)
class Remarks:
    """What is said of the segments of one capture point.

    Parameters
    ----------
    part : Part
    names : list of str
        What its files are called behind the number of a frame; empty for one that keeps its numbers.
    verdicts : SegmentVerdicts
        Of its segments.
    again : ndarray of int64, shape (n_segments,)
        Row of the copy that was sent because this one was lost; NA of what was not, or has no copy.
    missed : ndarray of bool, shape (n_segments,)
        What left here and did not reach the other capture point.
    closed : ndarray of bool, shape (n_segments,)
        Segments that offer a window of 0.
    of_rows : dict
        Row of a segment -> sentences on the incidents that it belongs to.
    """

    part: Part
    names: list[str]
    verdicts: SegmentVerdicts
    again: Array
    missed: Mask
    closed: Mask
    of_rows: dict[int, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, recording: Recording, part: Part, diagnosis: Diagnosis | None, names: list[str]) -> Remarks:
        """Return what is said of the segments of a part, with the incidents of the explained transfer."""
        verdicts = segment_verdicts(recording, part)
        missed = np.zeros(len(part.capture.segments), dtype=bool)
        remarks = cls(part, names, verdicts, _next_copies(verdicts), missed, _closed(part))
        if diagnosis is not None:
            remarks._add_missed(diagnosis)
            remarks._add_incidents(diagnosis)
        return remarks

    @property
    def rows(self) -> Array:
        """Rows of the segments of which something is said: int64, ascending."""
        named = (self.verdicts.cause != NO_VERDICT) | (self.again != NA) | self.missed | self.closed
        named[list(self.of_rows)] = True
        return np.flatnonzero(named)

    def text(self, row: int) -> str:
        """Return what is said of a segment, a line for each remark."""
        return "\n".join([*self.of_rows.get(row, ()), *self._lines(row)])

    def frame(self, file: int, frame: int) -> str:
        """Return a frame in words, with the name of its file where it does not keep its number."""
        return f"frame {frame} of {self.names[file]}" if self.names[file] else f"frame {frame}"

    def _frame_of(self, row: int) -> str:
        segments = self.part.capture.segments
        return self.frame(int(segments["file"][row]), int(segments["frame"][row]))

    def _lines(self, row: int) -> list[str]:
        """Return the remarks that need nothing but this capture point's tables."""
        lines = []
        if self.verdicts.cause[row] != NO_VERDICT:
            lines.append(self._verdict(row))
        if self.again[row] != NA:
            lines.append(f"{LOST}: sent again in {self._frame_of(int(self.again[row]))}")
        elif self.missed[row]:
            lines.append(f"{LOST}: did not arrive at the other capture point")
        if self.closed[row]:
            lines.append(f"{CLOSED}: offers a window of 0")
        return lines

    def _verdict(self, row: int) -> str:
        judged = self.verdicts
        cause, need = Cause(int(judged.cause[row])), Necessity(int(judged.necessity[row]))
        known = evidence_words(int(judged.evidence[row]))
        earlier = int(judged.earlier[row])
        words = f"{SENT_AGAIN}: {word(cause)}, {word(need)}"
        words += f"; evidence: {known}" if known else ""
        return words if earlier == NA else f"{words}; copy of {self._frame_of(earlier)}"

    def _add_missed(self, diagnosis: Diagnosis) -> None:
        """Mark what the other capture point did not see of the explained transfer, both ways."""
        transfer = diagnosis.transfer
        for pairs, is_here in (
            (transfer.data_pairs, transfer.layers.part is self.part),
            (transfer.ack_pairs, _receivers_part(diagnosis) is self.part),
        ):
            if pairs is not None and is_here:
                self.missed[pairs.table["near_row"][pairs.lost]] = True

    def _add_incidents(self, diagnosis: Diagnosis) -> None:
        tables = self._explained_rows(diagnosis)
        if "sender" in tables:
            own = tables["sender"]
            time = np.maximum.accumulate(self.part.capture.segments["time_ns"][own])
            for each in diagnosis.incidents:
                at = min(int(np.searchsorted(time, each.begin_ns)), len(own) - 1)
                sentence = f"{INCIDENT}: {each.kind} begins, cost {each.cost_s:.3f} s: {each.sentence}"
                self._add(int(own[at]), sentence)
        for finding in diagnosis.findings:
            for place in finding.evidence:
                table, _, row = place.partition(":")
                if table in tables and row.isdecimal() and int(row) < len(tables[table]):
                    self._add(int(tables[table][int(row)]), f"{EVIDENCE}: of {finding.kind}")

    def _explained_rows(self, diagnosis: Diagnosis) -> dict[str, Array]:
        """Return the rows here of the transfer's tables `sender` and `receiver`, of those captured here."""
        layers, receiver = diagnosis.transfer.layers, diagnosis.transfer.receiver_place
        rows_of = self.part.analysis.partition.rows_of
        tables = {}
        if layers.part is self.part:
            tables["sender"] = rows_of(layers.connection - 1)
        if receiver is not None and receiver.part is self.part:
            tables["receiver"] = rows_of(receiver.connection - 1)
        return tables

    def _add(self, row: int, sentence: str) -> None:
        lines = self.of_rows.setdefault(row, [])
        line = printable(sentence)
        if len(lines) < _MOST_OF_ONE and line not in lines:
            lines.append(line)


def _next_copies(verdicts: SegmentVerdicts) -> Array:
    """Return, of each segment that was lost by the verdict on its copy, the row of that copy."""
    again = np.full(len(verdicts.earlier), NA)
    copies = np.flatnonzero((verdicts.necessity == Necessity.NECESSARY.value) & (verdicts.earlier != NA))
    again[verdicts.earlier[copies][::-1]] = copies[::-1]  # of several the first is written last
    return again


def _closed(part: Part) -> Mask:
    """Return which segments offer a window of 0, as `zero_window_segments` counts them."""
    segments = part.capture.segments
    closed: Mask = (segments["window"] == 0) & ((segments["flags"] & _OPENS) == 0)
    return closed


def _receivers_part(diagnosis: Diagnosis) -> Part | None:
    place = diagnosis.transfer.receiver_place
    return None if place is None else place.part
