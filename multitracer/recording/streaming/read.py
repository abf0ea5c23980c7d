"""From inputs to a recording, piece by piece."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

import parsers
from multitracer.analysis import Analysis
from multitracer.analysis.connections import Partition
from multitracer.analysis.streaming.limits import Limits
from multitracer.analysis.streaming.open_connections import OpenConnections
from multitracer.analysis.trust.trust import trust_by
from multitracer.capture import Capture
from multitracer.errors import FormatError
from multitracer.recording.inputs import STANDARD_INPUT, UNREADABLE
from multitracer.recording.open import EMPTY_WINDOW, files_that_open, is_one_run
from multitracer.recording.recording import Recording
from multitracer.recording.streaming.ended import EndedConnections
from multitracer.recording.streaming.index import forget_index, index_of, keep_index, state_of
from multitracer.recording.window import EVERYTHING, Window
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from multitracer.errors import MultiTracerError
    from multitracer.logs import Point
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.open import Progress
    from multitracer.recording.streaming.index import Index
    from multitracer.recording.window import Bounds


def stream_recording(
    inputs: Inputs,
    *,
    window: Window = EVERYTHING,
    max_packets: int | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    limits: Limits | None = None,
) -> Recording:
    """Return the recording of inputs without its segments: its connections, files, trust and warnings.

    Parameters
    ----------
    inputs, window, max_packets, progress
        As of `read_recording`; seconds of the window count from the first packet that is read.
    stop : callable, optional
        Asked now and then; when it returns True, the inputs are taken to end.
    limits : Limits, optional
        How long segments wait, and how many.

    Raises
    ------
    MultiTracerError
        As `read_recording` does.
    """
    recording = Recording(inputs)
    failure: MultiTracerError | None = None
    streams = _Streams(recording, window, max_packets, progress, stop, limits or Limits())
    for point in inputs.points:
        try:
            with recording.watched(point.paths):
                streams.read(point)
        except UNREADABLE as error:
            recording.pass_over(error)
            failure = error
    if failure is not None and not recording.parts:
        raise failure
    if streams.is_emptied:
        recording.notes.append(EMPTY_WINDOW)
    return recording


class _Streams:
    """The capture points of one recording."""

    def __init__(  # what a user chose
        self,
        recording: Recording,
        window: Window,
        max_packets: int | None,
        progress: Progress | None,
        stop: Callable[[], bool] | None,
        limits: Limits,
    ) -> None:
        self._recording, self._window, self._max_packets = recording, window, max_packets
        self._progress, self._stop, self._limits = progress, stop, limits
        self._bounds: Bounds | None = (None, None) if window == EVERYTHING else None
        self._segments = 0
        """Within the window."""

    @property
    def is_emptied(self) -> bool:
        """Whether the window left no segment of captures that held some."""
        files = [file for part in self._recording.parts for file in part.capture.files]
        held = any(file.protocols.get("tcp") for file in files)
        return self._window != EVERYTHING and held and not self._segments

    def read(self, point: Point) -> None:
        """Read one point, and add it to the recording; by its index only what the window needs."""
        index = None
        if self._window != EVERYTHING and self._max_packets is None and len(point.paths) == 1:
            index = index_of(point.paths[0])
        if index is None or not self._read(point, index):
            self._read(point, None)

    def _read(self, point: Point, index: Index | None) -> bool:
        """Read one point; return whether the index, if there is one, was right."""
        state = state_of(point.paths[0]) if index is None and len(point.paths) == 1 else None
        ranges, packets = index.within(self._bounds_of(index.facts.first_ns)) if index else (None, 0)
        open_now, pieces = OpenConnections(self._limits), self._pieces(point, ranges)
        with contextlib.closing(EndedConnections()) as ended:
            try:
                capture = self._follow(pieces, open_now, ended)
            except FormatError:
                if index is None:
                    raise
                forget_index(point.paths[0])
                return False
            if index is None:
                keep_index(point.paths[0], state, pieces.blocks, capture.files[:1])
            elif not index.fits(capture.files[0], packets):
                forget_index(point.paths[0])
                return False
            self._add(point, capture, open_now, ended)
        return True

    def _pieces(self, point: Point, ranges: Sequence[tuple[int, int]] | None) -> parsers.Pieces:
        is_ring = self._recording.folder is not None and len(point.paths) > 1
        return parsers.Pieces(
            files_that_open(self._recording, point.paths) if is_ring else point.paths,
            rows=self._limits.rows,
            max_packets=self._max_packets,
            progress=self._progress,
            stop=self._stop,
            ranges=ranges,
        )

    def _follow(self, pieces: parsers.Pieces, open_now: OpenConnections, ended: EndedConnections) -> Capture:
        """Read to the end; return the last piece, whose files have all their facts then."""
        capture = Capture([])
        for capture in pieces:
            cut = capture.between(*self._bounds_of(capture.first_ns))
            ended.add(open_now.take_in(cut))
            open_now.renumber(*pieces.keep_flows(open_now.flows()))
            pieces.rows = max(self._limits.rows, len(open_now))
            self._show(open_now)
        ended.add(open_now.end())
        return capture

    def _bounds_of(self, first_ns: int | None) -> Bounds:
        """Return the window as recorded; seconds count from the first packet of this and all other points."""
        if self._bounds is None:
            paths = [path for point in self._recording.inputs.points[1:] for path in point.paths]
            known = [ns for ns in (first_ns, *map(_first_packet_ns, paths)) if ns is not None]
            self._bounds = self._window.bounds_from(min(known, default=0), self._recording.speed)
            self._recording.bounds_ns = self._bounds
        return self._bounds

    def _show(self, open_now: OpenConnections) -> None:
        if self._progress is not None:
            self._progress.phase = f"reading, {count(open_now.count, 'connection')} so far"

    def _add(
        self, point: Point, capture: Capture, open_now: OpenConnections, ended: EndedConnections
    ) -> None:
        self._segments += open_now.facts.segments
        connections, directions, flows = ended.tables()
        part = self._recording.add(point, Capture(capture.files, flows=flows))
        analysis = Analysis(part.capture, _NO_PARTITION, connections, directions)
        # as cached_property keeps them
        analysis.__dict__["trust"] = trust_by(analysis, open_now.facts)
        part.__dict__["analysis"] = analysis
        self._recording.notes += _notes(point, capture, open_now)


_NO_PARTITION = Partition(*(np.empty(0, dtype=np.int64) for _ in range(6)))
"""Of the segments, which are gone."""


def _notes(point: Point, capture: Capture, open_now: OpenConnections) -> Iterable[str]:
    """Yield what of a capture would be otherwise as a whole."""
    if not is_one_run(capture.files):
        yield (
            f"{point.name}: its files overlap in time, so they are several captures; as a stream they are "
            "read as one, one after the other: name one of them at a time"
        )
    if (capture.flows["vlan"] >= 0).any():
        yield f"{point.name}: as a stream, what lies in different VLANs is never joined"
    if open_now.rounded:
        many = count(open_now.rounded, "long connection")
        yield f"{point.name}: median and 95th percentile of the round trips of {many} are within 0.05 %"


def _first_packet_ns(path: str) -> int | None:
    try:
        return None if path == STANDARD_INPUT else parsers.first_packet_ns(path)
    except UNREADABLE:
        return None  # the reading will say so
