"""The lanes of conclusions: the answer, what limited the transfer at each instant, and the findings."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.export.perfetto.track_event import Trace
    from multitracer.tables import Array

    Placed = Callable[[Array], list[int]]


class Lanes:
    """Tracks of one name, as many as there are slices at a time; each slice gets one that is free.

    Parameters
    ----------
    trace : Trace
    name : str
    most : int
        Tracks that there may be.
    """

    def __init__(self, trace: Trace, name: str, *, most: int) -> None:
        self._trace, self._name, self._most = trace, name, most
        self._busy: list[tuple[int, int]] = []
        """Until when each track is taken, and its number; the first to be free comes first."""

    def free(self, begin_ns: int, end_ns: int) -> int | None:
        """Return a track for a slice, which begins no earlier than those before; None if all are taken."""
        if self._busy and self._busy[0][0] <= begin_ns:
            track = self._busy[0][1]
            heapq.heapreplace(self._busy, (end_ns, track))
            return track
        if len(self._busy) == self._most:
            return None
        track = self._trace.track(self._name)
        heapq.heappush(self._busy, (end_ns, track))
        return track


_MOST_FINDINGS_AT_ONCE = 100
"""Findings that overlap at an instant; not measured."""


def write_conclusions(trace: Trace, diagnosis: Diagnosis, placed: Placed) -> int:
    """Write the lanes; return how many findings had no room.

    Parameters
    ----------
    placed : callable
        Gives times of the sender's clock as times of the trace.
    """
    _write_limits(trace, diagnosis, placed)
    return _write_findings(trace, diagnosis, placed)


def _write_limits(trace: Trace, diagnosis: Diagnosis, placed: Placed) -> None:
    table = diagnosis.limited.table
    begin, end = placed(table["begin_ns"]), placed(table["end_ns"])
    if not begin:
        return
    answer = trace.track("answer")
    notes = {"what would help": diagnosis.headline.help}
    trace.slice(answer, begin[0], max(end), printable(diagnosis.headline.sentence), notes)
    track = trace.track("limits", doc="What limited the transfer at each instant.")
    names = ("limit", "part", "confidence", "seconds", "evidence")
    for first, last, limit, part, sure, seconds, evidence in zip(
        begin, end, *(table[name].tolist() for name in names), strict=True
    ):
        notes = {"confidence": sure, "seconds": seconds, "evidence": evidence}
        trace.slice(track, first, last, f"{limit} ({part})" if part else limit, notes)


def _write_findings(trace: Trace, diagnosis: Diagnosis, placed: Placed) -> int:
    table = diagnosis.table()
    order = table["begin_ns"].argsort(kind="stable")
    begin, end = (placed(table[name][order]) for name in ("begin_ns", "end_ns"))
    lanes, left_out = Lanes(trace, "findings", most=_MOST_FINDINGS_AT_ONCE), 0
    for place, first, last in zip(order.tolist(), begin, end, strict=True):
        finding = diagnosis.findings[place]
        track = lanes.free(first, max(first, last))
        if track is None:
            left_out += 1
            continue
        notes = {
            "what happened": finding.sentence,
            "cost in s": finding.cost_s,
            "what would help": finding.help,
        }
        notes |= {"evidence": " ".join(finding.evidence)}
        trace.slice(track, first, max(first, last), finding.kind, notes)
    return left_out
