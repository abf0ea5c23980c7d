"""The records of a recording, read again: those of all capture points in the order of time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import parsers
from multitracer.clock.accuracy import accuracy
from multitracer.clock.model.graph import along
from multitracer.errors import ClockError, InputError
from multitracer.recording.inputs import STANDARD_INPUT
from multitracer.tables import NOT_A_TIME
from multitracer.words import portable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.captured import SourceFile
    from multitracer.clock.model.graph import Path
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Array, Mask, Times


class Record(NamedTuple):
    """One packet as it was captured."""

    time_ns: int
    """On the clock that all capture points share, if they do."""
    packet: bytes
    original_bytes: int
    link_type: int
    file: int
    """Index into the files of its capture point."""
    frame: int
    """Its number in that file, from 1."""


@dataclass(frozen=True)
class Selection:
    """Which packets are meant.

    Parameters
    ----------
    bounds_ns : (int or None, int or None)
        Begin and end by the stamps of the captures, the end not included; None leaves a side open.
    connections : dict of int to list of int, optional
        Place of a capture point -> numbers of the connections (from 1) in it; by default all packets.
    """

    bounds_ns: Bounds = (None, None)
    connections: dict[int, list[int]] | None = None

    @property
    def is_all(self) -> bool:
        """Whether every packet is meant."""
        return self.bounds_ns == (None, None) and self.connections is None

    def frames(self, place: int, part: Part) -> list[Array] | None:
        """Return the frames of the connections, for each file in ascending order; None for all frames."""
        if self.connections is None:
            return None
        numbers = self.connections.get(place, [])
        rows = [part.analysis.partition.rows_of(number - 1) for number in numbers]
        chosen = np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int64)
        file, frame = (part.capture.segments[column][chosen] for column in ("file", "frame"))
        return [np.unique(frame[file == index]) for index in range(len(part.capture.files))]


@dataclass
class Source:
    """One capture point whose records are read.

    Parameters
    ----------
    part : Part
    place : int
        Its place among the capture points.
    clock : str
        How its times were moved onto those of the others; empty if they stay.
    path : sequence of Relation
        By which they are moved.
    left_out : int
        Packets without a time that a pcapng can hold, counted while they are read.
    """

    part: Part
    place: int
    clock: str = ""
    path: Path = ()
    left_out: int = 0

    def records(self, selection: Selection) -> Iterator[Record]:
        """Yield the records in the order of the files."""
        frames = selection.frames(self.place, self.part)
        for index, file in enumerate(self.part.capture.files):
            yield from self._of_file(index, file, selection, None if frames is None else frames[index])

    def _of_file(
        self, index: int, file: SourceFile, selection: Selection, frames: Array | None
    ) -> Iterator[Record]:
        before = 0
        for batch in parsers.read_records(file.path):
            records = batch.first(min(len(batch), file.packets - before))
            if not len(records):
                return
            numbers = np.arange(before + 1, before + 1 + len(records))
            kept = _chosen(records.time_ns, numbers, selection.bounds_ns, frames)
            time_ns = along(self.path, records.time_ns).time_ns
            timed = (time_ns != NOT_A_TIME) & (time_ns >= 0)
            self.left_out += int(np.count_nonzero(kept & ~timed))
            link = np.broadcast_to(np.asarray(records.link_type), (len(records),))
            for i in np.flatnonzero(kept & timed).tolist():
                begin = int(records.start[i])
                packet = records.data[begin : begin + int(records.captured[i])].tobytes()
                yield Record(
                    *(int(time_ns[i]), packet, int(records.original[i]), int(link[i]), index),
                    before + i + 1,
                )
            before += len(records)


def sources(recording: Recording) -> list[Source]:
    """Return the capture points of a recording, their times on one clock where the clocks are related.

    Raises
    ------
    InputError
        If there is no capture, or one that can be read only once.
    """
    if not recording.parts:
        raise InputError(f"{recording.name}: holds no capture; name a capture, or a session with one")
    for part in recording.parts:
        for file in part.capture.files:
            if file.path == STANDARD_INPUT or not FilePath(file.path).is_file():
                raise InputError(f"{portable(file.path)}: is read twice; write it to a file first")
    captured = [Source(part, place) for place, part in enumerate(recording.parts)]
    for source in captured:
        _put_on_one_clock(recording, source)
    return captured


def in_order(captured: list[Source], selection: Selection) -> Iterator[tuple[Source, Record]]:
    """Yield the records of all capture points by time; those of one stay in the order of its files."""
    if len(captured) == 1:
        yield from ((captured[0], record) for record in captured[0].records(selection))
        return
    for _, _, source, record in heapq.merge(
        *(_keyed(source, selection) for source in captured), key=lambda each: each[:2]
    ):
        yield source, record


def _keyed(source: Source, selection: Selection) -> Iterator[tuple[int, int, Source, Record]]:
    """Yield records with the latest time so far, so that a step back does not change their order."""
    latest = 0
    for record in source.records(selection):
        latest = max(latest, record.time_ns)
        yield latest, source.place, source, record


def _chosen(time_ns: Times, numbers: Array, bounds_ns: Bounds, frames: Array | None) -> Mask:
    begin, end = bounds_ns
    chosen = np.ones(len(time_ns), dtype=bool)
    if begin is not None:
        chosen &= time_ns >= begin
    if end is not None:
        chosen &= time_ns < end
    if frames is not None:
        chosen &= np.isin(numbers, frames, assume_unique=True)
    return chosen


def _put_on_one_clock(recording: Recording, source: Source) -> None:
    """Have the times of a capture point moved onto the clock of the reference, if all of them can be."""
    clocks, stamps = recording.clocks, source.part.capture.segments["time_ns"]
    stamps = stamps[stamps != NOT_A_TIME]
    if clocks is None or not len(stamps):
        return
    own, there = clocks.of_point(source.part.point.name), clocks.reference
    try:
        path = clocks.path_along(stamps, own, there)
    except ClockError as error:
        recording.warn_once(f"{error}; its times in the file are those of its own clock")
        return
    if path:
        bound = float(np.median(along(path, stamps).bound_ns))
        source.path = path
        source.clock = accuracy(path, source=own.host, target=there.host, bound_ns=bound)
