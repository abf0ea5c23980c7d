"""The logs of positions of a recording, as tracks: a receiver's logs that follow each other are one."""

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
    """A table of one log, on the clock of the surroundings."""

    host: str
    path: str
    table: Table
    format: str


def tracks_of(logs: list[Placed]) -> list[Placed]:
    """Return POSITION of each receiver: a host's logs of one format that do not last at the same time.

    A log that follows several is of the receiver whose last log has the likest name.
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
    """The logs of one receiver so far, and the time that each lasts."""

    logs: list[Placed]
    spans: list[Span]

    def fits(self, log: Placed, span: Span) -> bool:
        """Return whether a log is of the same host and format, and lasts at no time of these."""
        same = (self.logs[0].host, self.logs[0].format) == (log.host, log.format)
        return same and all(follow(span, other) for other in self.spans)


def of_drive(tracks: list[Placed], span_ns: tuple[int, int] | None) -> list[Placed]:
    """Return what tracks hold of the time of a drive, and up to a pause beyond it.

    All of them if none holds anything of that time: their clock may be another one.
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
    """Return the logs of one receiver as one; their rows stay in the order of the logs."""
    if len(logs) == 1:
        return logs[0]
    table = Table.concatenate(POSITION, [log.table for log in logs])
    if any(log.table.provenance.get("zone") == "unknown" for log in logs):
        table.provenance["zone"] = "unknown"
    return logs[0]._replace(table=table)
