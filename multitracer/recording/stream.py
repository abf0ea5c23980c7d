"""Captures of any size, and endless pipes: memory holds only the open connections.

A capture comes in chunks (`parsers.Chunks`). Connections that ended are counted by the same rules as in a complete
capture (`analysis/streaming/`), and written to unnamed files, from which its tables are read. An index of a large
capture is written (`index.py`), so that a window is found later without reading the complete file.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import TYPE_CHECKING

import numpy as np

import parsers
from multitracer.analysis import Analysis
from multitracer.analysis.connections import Partition
from multitracer.analysis.streaming.open_connections import OpenConnections
from multitracer.capture import CaptureTables
from multitracer.errors import FormatError, InputError
from multitracer.recording.index import forget_index, index_of, keep_index, state_of
from multitracer.recording.inputs import STANDARD_INPUT, UNREADABLE
from multitracer.recording.points import counts_of_each, files_to_read, is_one_run
from multitracer.recording.window import EMPTY_WINDOW, EVERYTHING
from multitracer.schemas.tcp import CONNECTIONS, DIRECTIONS
from multitracer.tables import FLOWS, Table
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from multitracer.analysis.streaming import StreamLimits
    from multitracer.analysis.streaming.open_connections import Ended
    from multitracer.errors import MultiTracerError
    from multitracer.logs import Point
    from multitracer.recording.index import Index
    from multitracer.recording.points import Count, ReadingProgress
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds, Window
    from multitracer.tables import Array, Schema


def stream(  # as `read`
    recording: Recording,
    window: Window,
    max_packets: int | None,
    progress: ReadingProgress | None,
    stop: Callable[[], bool] | None,
    limits: StreamLimits,
) -> None:
    """Add to a recording its capture points without segments: connections, files, trust and warnings.

    Parameters and errors are those of `read`.
    """
    failure: MultiTracerError | None = None
    streams = _Streams(recording, window, max_packets, progress, stop, limits)
    points = len(recording.inputs.points)
    counts = [None] * points if progress is None else counts_of_each(progress, points)
    for point, noted in zip(recording.inputs.points, counts, strict=True):
        try:
            with recording.watched(point.paths):
                streams.read(point, noted)
        except UNREADABLE as error:
            recording.pass_over(error)
            failure = error
    if failure is not None and not recording.captures:
        raise failure
    if streams.is_emptied:
        recording.notes.append(EMPTY_WINDOW)


class _Streams:
    """Reads the capture points of one recording as streams."""

    def __init__(  # what a user chose
        self,
        recording: Recording,
        window: Window,
        max_packets: int | None,
        progress: ReadingProgress | None,
        stop: Callable[[], bool] | None,
        limits: StreamLimits,
    ) -> None:
        self._recording, self._window, self._max_packets = recording, window, max_packets
        self._progress, self._stop, self._limits = progress, stop, limits
        self._bounds: Bounds | None = (None, None) if window == EVERYTHING else None
        self._segments = 0
        """Number of segments within the window."""

    @property
    def is_emptied(self) -> bool:
        """Return whether the window removed all segments, although the captures had some."""
        files = [file for capture in self._recording.captures for file in capture.tables.files]
        held = any(file.protocols.get("tcp") for file in files)
        return self._window != EVERYTHING and held and not self._segments

    def read(self, point: Point, noted: Count | None) -> None:
        """Read one point, and add it to the recording; with an index, only the blocks that the window needs.

        `noted`, if not None, takes the number of bytes of the point read so far.
        """
        index = None
        if self._window != EVERYTHING and self._max_packets is None and len(point.paths) == 1:
            index = index_of(point.paths[0])
        if index is None or not self._read(point, index, noted):
            self._read(point, None, noted)

    def _read(self, point: Point, index: Index | None, noted: Count | None) -> bool:
        """Read one capture point; return False if its index did not match the file."""
        state = state_of(point.paths[0]) if index is None and len(point.paths) == 1 else None
        ranges, packets = index.within(self._bounds_of(index.facts.first_ns)) if index else (None, 0)
        open_now, chunks = OpenConnections(self._limits), self._chunks(point, ranges, noted)
        with contextlib.closing(EndedConnections()) as ended:
            try:
                capture = self._follow(chunks, open_now, ended)
            except FormatError:
                if index is None:
                    raise
                forget_index(point.paths[0])
                return False
            if index is None:
                keep_index(point.paths[0], state, chunks.blocks, capture.files[:1])
            elif not index.fits(capture.files[0], packets):
                forget_index(point.paths[0])
                return False
            self._add(point, capture, open_now, ended)
        return True

    def _chunks(self, point: Point, ranges: Sequence[tuple[int, int]] | None, noted: Count | None) -> parsers.Chunks:
        return parsers.Chunks(
            files_to_read(self._recording, point.paths),
            rows=self._limits.rows,
            max_packets=self._max_packets,
            progress=noted,
            stop=self._stop,
            ranges=ranges,
        )

    def _follow(self, chunks: parsers.Chunks, open_now: OpenConnections, ended: EndedConnections) -> CaptureTables:
        """Read all chunks and store connections that ended; return the last chunk.

        The files of the last chunk have all their facts.
        """
        capture = CaptureTables([])
        for capture in chunks:
            cut = capture.between(*self._bounds_of(capture.first_ns))
            ended.add(open_now.take_in(cut))
            open_now.renumber(*chunks.keep_flows(open_now.flows()))
            chunks.rows = max(self._limits.rows, len(open_now))
            self._show(open_now)
        ended.add(open_now.end())
        return capture

    def _bounds_of(self, first_ns: int | None) -> Bounds:
        """Return the window in recorded time; its seconds count from the first packet of all points."""
        if self._bounds is None:
            paths = [path for point in self._recording.inputs.points[1:] for path in point.paths]
            known = [ns for ns in (first_ns, *map(_first_packet_ns, paths)) if ns is not None]
            self._bounds = self._window.bounds_from(min(known, default=0), self._recording.speed)
            self._recording.bounds_ns = self._bounds
        return self._bounds

    def _show(self, open_now: OpenConnections) -> None:
        if self._progress is not None:
            self._progress.phase = f"reading, {count(open_now.count, 'connection')} so far"

    def _add(self, point: Point, capture: CaptureTables, open_now: OpenConnections, ended: EndedConnections) -> None:
        self._segments += open_now.facts.segments
        connections, directions, flows = ended.tables()
        counted = CaptureTables(capture.files, flows=flows)
        analysis = Analysis(counted, Partition.empty(), connections, directions, open_now.facts)
        self._recording.add(point, counted, analysis)
        self._recording.notes += _notes(point, capture, open_now)


def _notes(point: Point, capture: CaptureTables, open_now: OpenConnections) -> Iterable[str]:
    """Yield sentences about possible differences from reading the capture completely."""
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


# --- connections that ended, on disk ---


class EndedConnections:
    """CONNECTIONS, DIRECTIONS and FLOWS in temporary files, which the end of the process deletes."""

    def __init__(self) -> None:
        self._connections, self._flows = _Rows(CONNECTIONS), _Rows(FLOWS)
        self._directions = _Rows(DIRECTIONS, each=2)

    def add(self, ended: Ended) -> None:
        """Write connections that ended, ordered by number, each to its row.

        Raises
        ------
        InputError
            If the disk is full.
        """
        number = ended.connections["connection"].astype(np.int64)
        try:
            for rows, table in (
                (self._connections, ended.connections),
                (self._directions, ended.directions),
                (self._flows, ended.flows),
            ):
                rows.write(table, number)
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir()}: cannot write the ended connections to this folder: "
                f"{error.strerror or error}; free disk space, or set TMPDIR to another folder"
            ) from error

    def close(self) -> None:
        """Close the files; tables that were returned stay valid."""
        for rows in (self._connections, self._directions, self._flows):
            rows.close()

    def tables(self) -> tuple[Table, Table, Table]:
        """Return CONNECTIONS, DIRECTIONS and FLOWS; rows are read from disk only when they are used."""
        connections, directions = self._connections.table(), self._directions.table()
        own = connections["forward_flow"] & 1
        connections.columns["forward_flow"] = (2 * np.arange(len(own)) + own).astype(np.int32)
        return connections, directions, self._flows.table()


class _Rows:
    """A file with the rows of one table; each connection has the same number of rows."""

    def __init__(self, schema: Schema, *, each: int = 1) -> None:
        self._schema, self._each = schema, each
        self._dtype = np.dtype([(column.name, column.dtype) for column in schema])
        self._file = tempfile.TemporaryFile(prefix="multitracer-")  # noqa: SIM115  # as long as the tables
        self._count = 0

    def write(self, table: Table, number: Array) -> None:
        """Write the rows of connections with these numbers (from 1, ascending)."""
        if not len(number):
            return
        rows = np.empty(len(table), self._dtype)
        for name in self._schema.names:
            rows[name] = table[name]
        for run in np.split(np.arange(len(number)), np.flatnonzero(np.diff(number) != 1) + 1):
            self._file.seek((int(number[run[0]]) - 1) * self._each * self._dtype.itemsize)
            self._file.write(rows[run[0] * self._each : (run[-1] + 1) * self._each].data)
        self._count = max(self._count, int(number[-1]) * self._each)

    def close(self) -> None:
        """Close the file; a table that was returned stays valid."""
        self._file.close()

    def table(self) -> Table:
        """Return all rows."""
        self._file.flush()
        rows: Array = np.empty(0, self._dtype)
        if self._count:
            rows = np.memmap(self._file, self._dtype, "r", shape=(self._count,))
        return Table(self._schema, {name: rows[name] for name in self._schema.names})
