"""The files of one capture point: reading progress, readable files, and runs of successive files."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import parsers
from multitracer.errors import InputError
from multitracer.logs import Point
from multitracer.recording.inputs import UNREADABLE
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.capture import CaptureTables
    from multitracer.captured import SourceFile
    from multitracer.recording.recording import Recording

    Count = Callable[[int], None]


class ReadingProgress(Protocol):
    """The interface of objects that show a user how much has been read."""

    phase: str
    """The current phase: "reading" or "analysing"."""

    def __call__(self, stored_bytes: int) -> None:
        """Take the number of stored bytes read so far, of all files; it decreases if a file is read again."""


def counts_of_each(progress: Count, points: int) -> list[Count]:
    """Return a callback for each of several capture points; each takes the number of bytes read so far at its point.

    Each call passes the sum of all points to `progress`.
    """
    read_bytes, noting = [0] * points, Lock()

    def note(number: int, stored_bytes: int) -> None:
        with noting:  # points that are read beside each other
            read_bytes[number] = stored_bytes
            progress(sum(read_bytes))

    return [partial(note, number) for number in range(points)]


def files_to_read(recording: Recording, paths: tuple[str, ...]) -> Sequence[str]:
    """Return the files of a capture point that should be read.

    Of a ring buffer in a folder, these are the files whose first packet can be read.
    """
    if recording.folder is None or len(paths) == 1:
        return paths
    readable = []
    for path in paths:
        try:
            parsers.read_capture([path], max_packets=1)
        except UNREADABLE as error:
            recording.pass_over(error)
        else:
            readable.append(path)
    if not readable:
        raise InputError(f"{paths[0]}: cannot read any of the {len(paths)} files of this capture point")
    return readable


def apart(point: Point, capture: CaptureTables) -> Iterator[tuple[Point, CaptureTables]]:
    """Yield the capture point with its capture; if its files overlap in time, yield a point for each file.

    Files that overlap are not one capture split into files: merging them would count packets twice.
    """
    if is_one_run(capture.files):
        yield point, capture
        return
    runs = _runs(capture.files)
    for run in runs:
        paths = tuple(capture.files[i].path for i in run)
        yield Point(paths[0], paths), capture.of_files(run)


def is_one_run(files: Sequence[SourceFile]) -> bool:
    """Return whether the files follow each other in time, so that together they are one capture."""
    return len(files) < 2 or len(_runs(files)) == 1


def _runs(files: Sequence[SourceFile]) -> list[list[int]]:
    """Return groups of indexes of the files; the files of a group follow each other in time."""
    runs: list[list[int]] = []
    for i in sorted(range(len(files)), key=lambda i: files[i].first_ns or 0):
        run = next((r for r in runs if _follows(files[r[-1]], files[i])), None)
        if run is None:
            runs.append([i])
        else:
            run.append(i)
    return runs


def _follows(earlier: SourceFile, later: SourceFile) -> bool:
    """Return whether `later` begins where `earlier` ends, or after it.

    Several capture queues may mix the last and first packets of two files of a ring. So an overlap is
    accepted if it is below one second and below a tenth of both files.
    """
    if earlier.first_ns is None or earlier.last_ns is None:
        return True
    if later.first_ns is None or later.last_ns is None:
        return True
    overlap_ns = earlier.last_ns - later.first_ns
    shorter_ns = min(earlier.last_ns - earlier.first_ns, later.last_ns - later.first_ns)
    return overlap_ns <= 0 or overlap_ns < min(NS_PER_S, shorter_ns // 10)
