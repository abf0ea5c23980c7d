"""The position logs of a recording as tracks: successive logs of one receiver are one track."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.recording.devices import PAUSE_NS, follow, likest, span_of
from multitracer.schemas.radio import POSITION
from multitracer.tables import NOT_A_TIME, Table

if TYPE_CHECKING:
    from multitracer.recording.devices import Span
    from multitracer.tables import Times


class Placed(NamedTuple):
    """A table of one log, on the clock of the radio context."""

    host: str
    path: str
    table: Table
    format: str


def tracks_of(logs: list[Placed]) -> list[Placed]:
    """Return one table of positions for each receiver, joined from its successive logs.

    The logs of a receiver have the same host and format, and do not overlap in time. A log that fits several
    receivers goes to the one whose last log has the most similar name.
    """
    tracks: list[_Track] = []
    for span, log in sorted(((span_of(_times(log)), log) for log in logs), key=lambda each: each[0]):
        fitting = [track for track in tracks if track.fits(log, span)]
        if not fitting:
            fitting = [_Track([], [])]
            tracks += fitting
        track = fitting[likest(log.path, [each.logs[-1].path if each.logs else "" for each in fitting])]
        track.logs.append(log)
        track.spans.append(span)
    return [_joined(track.logs) for track in tracks]


class _Track(NamedTuple):
    """The logs of one receiver found so far, and their time spans."""

    logs: list[Placed]
    spans: list[Span]

    def fits(self, log: Placed, span: Span) -> bool:
        """Return whether a log has the same host and format, and does not overlap these logs in time."""
        same = (self.logs[0].host, self.logs[0].format) == (log.host, log.format)
        return same and all(follow(span, other) for other in self.spans)


def of_drive(tracks: list[Placed], span_ns: tuple[int, int] | None) -> list[Placed]:
    """Return the tracks, cut to the time of a drive with `PAUSE_NS` before and after it.

    If no track has positions in that time, all tracks are returned: their clock may be a different one.
    """
    if span_ns is None:
        return tracks
    begin_ns, end_ns = span_ns[0] - PAUSE_NS, span_ns[1] + PAUSE_NS
    cut = [track._replace(table=track.table.within(begin_ns, end_ns)) for track in tracks]
    return [track for track in cut if len(track.table)] or tracks


def _times(log: Placed) -> Times:
    time_ns = log.table["time_ns"]
    return np.asarray(time_ns[time_ns != NOT_A_TIME])


def _joined(logs: list[Placed]) -> Placed:
    """Return the logs of one receiver as one; rows stay in the order of the logs."""
    if len(logs) == 1:
        return logs[0]
    table = Table.concatenate(POSITION, [log.table for log in logs])
    if any(log.table.provenance.get("zone") == "unknown" for log in logs):
        table.provenance["zone"] = "unknown"
    return logs[0]._replace(table=table)
