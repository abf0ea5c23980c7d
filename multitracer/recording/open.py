"""The one way in: from the paths that a user named to a `Recording`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

import parsers
from multitracer.errors import InputError
from multitracer.logs import Point
from multitracer.native import kernel
from multitracer.recording.inputs import UNREADABLE, find_inputs
from multitracer.recording.recording import Recording
from multitracer.recording.window import EVERYTHING, Window, within_both
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.capture import Capture, SourceFile
    from multitracer.errors import MultiTracerError
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.part import Part
    from multitracer.recording.window import Bounds

    Count = Callable[[int], None]
    Read = TypeVar("Read")


_LEAST_BYTES, _MOST_BYTES = 4 << 20, 1 << 30
"""Of a file: less is read before a thread has begun, and who interrupts more would wait for the thread. Not
measured."""
_LEAST_ROWS = 1 << 16
"""Of a capture, to be analysed beside another one. Not measured."""
EMPTY_WINDOW = "no TCP segment lies between --from and --to; all numbers are of an empty capture"
"""The warning of a window that leaves no segment of a capture."""


class Progress(Protocol):
    """Shows how far the reading is."""

    phase: str
    """What is being done: "reading" or "analysing"."""

    def __call__(self, stored_bytes: int) -> None:
        """Take how many bytes of the present file, as it is stored, were read so far."""


def open_recording(
    *paths: str | os.PathLike[str],
    window: Window = EVERYTHING,
    max_packets: int | None = None,
    progress: Progress | None = None,
) -> Recording:
    """Read and analyse what the paths name, as one recording.

    Parameters
    ----------
    *paths
        As `find_inputs` takes them.
    window : Window
        Analyse only the packets in it, as if nothing else had been captured.
    max_packets : int, optional
        Read at most this many packets of each capture point.
    progress : Progress, optional

    Raises
    ------
    MultiTracerError
        If nothing can be read. In a folder, a file that cannot be read is skipped with a warning as long
        as another one can.
    """
    return read_recording(find_inputs(*paths), window=window, max_packets=max_packets, progress=progress)


def read_recording(
    inputs: Inputs,
    *,
    window: Window = EVERYTHING,
    max_packets: int | None = None,
    progress: Progress | None = None,
    analyse: bool = True,
    meanwhile: Callable[[], None] | None = None,
) -> Recording:
    """Return the recording of inputs; `Recording(inputs)` is that of their logs alone.

    Parameters
    ----------
    analyse : bool
        Analyse the captures now; otherwise when their connections are asked for.
    meanwhile : callable, optional
        What else is to be done; it is, if the captures are so large that it is worth while.

    Other parameters and errors are those of `open_recording`.
    """
    recording = Recording(inputs)
    read = _captures(recording, max_packets, progress, meanwhile)
    shown = progress or _Unseen()
    for point, capture in read if window == EVERYTHING else _between(read, window, recording):
        part = recording.add(point, capture)
        if analyse and len(inputs.points) == 1:
            shown.phase = "analysing"
            part.analysis  # noqa: B018  # it is kept there
            shown.phase = "reading"
    if analyse and len(inputs.points) > 1:
        shown.phase = "analysing"
        _analyse_all(recording.parts)
        shown.phase = "reading"
    return recording


class _Unseen:
    """Progress that is not shown."""

    phase = "reading"


def _between(
    read: Iterator[tuple[Point, Capture]], window: Window, recording: Recording
) -> Iterator[tuple[Point, Capture]]:
    """Yield the captures cut to the window; all are read first, for the begin of the earliest."""
    whole = list(read)
    captures = [capture for _, capture in whole]
    bounds_ns = (
        window.bounds_ns(captures, speed=recording.speed) if captures else _bounds_of(recording, window)
    )
    recording.bounds_ns = bounds_ns
    parts = [(point, capture.between(*bounds_ns)) for point, capture in whole]
    yield from parts
    if _is_emptied(whole, parts):
        recording.notes.append(EMPTY_WINDOW)


def _is_emptied(whole: Sequence[tuple[Point, Capture]], parts: Sequence[tuple[Point, Capture]]) -> bool:
    """Return whether a window left no segment of captures that held some."""
    held, kept = (sum(len(capture.segments) for _, capture in each) for each in (whole, parts))
    return held > 0 and not kept


def cut_recording(recording: Recording, window: Window) -> tuple[Recording, Bounds]:
    """Return a recording with its captures cut to a window, and the bounds of that as recorded.

    What is parsed already of its logs is kept, whole.

    Raises
    ------
    WindowError
        If the end is not after the begin.
    InputError
        If seconds are given, and there is neither a packet nor a reading to count them from.
    """
    bounds_ns = _bounds_of(recording, window)
    cut = recording.without_captures()
    cut.bounds_ns = within_both(recording.bounds_ns, bounds_ns)
    for part in recording.parts:
        cut.add(part.point, part.capture.between(*bounds_ns))
    if _is_emptied(recording.captures, cut.captures):
        cut.notes.append("no TCP segment lies between begin and end; all numbers are of an empty capture")
    return cut, bounds_ns


def _bounds_of(recording: Recording, window: Window) -> Bounds:
    """Return the bounds of a window; its seconds count from the first packet, or the first reading."""
    if any(part.capture.first_ns is not None for part in recording.parts):
        return window.bounds_ns((part.capture for part in recording.parts), speed=recording.speed)
    first_ns = None if recording.parts else recording.surroundings().first_ns
    if window.is_relative and first_ns is None:
        raise InputError(
            f"{recording.name}: holds no packet or reading to count seconds from; give points in time"
        )
    return window.bounds_from(first_ns or 0, recording.speed)


def warn_of_empty(recording: Recording, window: Window) -> None:
    """Add a warning if what is shown holds no segment, or reading, of a recording that stays whole."""
    if window == EVERYTHING:
        return
    if not recording.parts:
        if not recording.surroundings().shown(_bounds_of(recording, window)):
            recording.notes.append("no reading lies between --from and --to; what shows that time is empty")
        return
    bounds_ns = window.bounds_ns((part.capture for part in recording.parts), speed=recording.speed)
    shown = [(point, capture.between(*bounds_ns)) for point, capture in recording.captures]
    if _is_emptied(recording.captures, shown):
        recording.notes.append("no TCP segment lies between --from and --to; what shows that time is empty")


def _captures(
    recording: Recording,
    max_packets: int | None,
    progress: Progress | None,
    meanwhile: Callable[[], None] | None,
) -> Iterator[tuple[Point, Capture]]:
    """Read the capture points, and yield them in order; one that cannot be read is skipped in a folder."""

    def watched(point: Point, progress: Callable[[int], None] | None) -> tuple[Capture, list[str]]:
        notes: list[str] = []
        with recording.watched(point.paths, notes):
            is_ring = recording.folder is not None and len(point.paths) > 1
            paths = files_that_open(recording, point.paths) if is_ring else point.paths
            alone = len(points) == 1
            capture = parsers.read_capture(paths, max_packets=max_packets, progress=progress, alone=alone)
            return capture, notes

    failure: MultiTracerError | None = None
    read, points = False, recording.inputs.points
    for point, reading in zip(points, _readers(points, watched, progress, meanwhile), strict=True):
        try:
            capture, notes = reading()
            recording.notes += notes
        except UNREADABLE as error:
            recording.pass_over(error)
            failure = error
            continue
        read = True
        yield from _apart(point, capture) if len(capture.files) > 1 else [(point, capture)]
    if failure is not None and not read:
        raise failure


def _readers(
    points: Sequence[Point],
    read: Callable[[Point, Count | None], Read],
    progress: Count | None,
    meanwhile: Callable[[], None] | None,
) -> list[Callable[[], Read]]:
    """Return what reads each capture point; of large files that was begun, two at a time.

    Parameters
    ----------
    points : sequence of Point
    read : callable
        Reads one of them.
    progress : callable, optional
        Takes how many bytes were read; of those that are read beside each other, of all.
    meanwhile : callable, optional
        What else is to be done while large files are read.
    """
    is_one = len(points) < 2 and meanwhile is None
    if is_one or not all(map(_is_large, points)) or kernel() is None:
        return [partial(read, point, progress) for point in points]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # most recordings need none

    shown: list[Count | None] = [None] * len(points)
    if progress is not None:
        together = _Together(progress, len(points))
        shown = [partial(together.note, number) for number in range(len(points))]
    executor = ThreadPoolExecutor(2)
    reading = [executor.submit(read, *each) for each in zip(points, shown, strict=True)]
    executor.shutdown(wait=False)
    if meanwhile is not None:
        meanwhile()
    return [each.result for each in reading]


def _analyse_all(parts: Sequence[Part]) -> None:
    """Analyse all captures; large ones two at a time."""
    if len(parts) < 2 or min(len(part.capture.segments) for part in parts) < _LEAST_ROWS or kernel() is None:
        for part in parts:
            part.analysis  # noqa: B018  # it is kept there
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # as above

    from multitracer.analysis import analyse  # noqa: PLC0415  # a summary by the kernel needs none of it

    with ThreadPoolExecutor(2) as executor:
        analyses = executor.map(lambda part: analyse(part.capture), parts)
        for part, analysis in zip(parts, analyses, strict=True):
            part.__dict__["analysis"] = analysis  # as cached_property keeps it, which lets one thread in


def _is_large(point: Point) -> bool:
    path = Path(point.paths[0])
    return len(point.paths) == 1 and path.is_file() and _LEAST_BYTES <= path.stat().st_size <= _MOST_BYTES


class _Together:
    """Progress of files that are read beside each other, as of one."""

    def __init__(self, progress: Count, files: int) -> None:
        self._progress = progress
        self._read_bytes = [0] * files
        self._noting = Lock()

    def note(self, number: int, stored_bytes: int) -> None:
        """Note how much of a file was read."""
        with self._noting:
            self._read_bytes[number] = stored_bytes
            self._progress(sum(self._read_bytes))


def files_that_open(recording: Recording, paths: tuple[str, ...]) -> Sequence[str]:
    """Return those files of a folder's ring that can be read at least to their first packet."""
    readable = []
    for path in paths:
        try:
            parsers.read_capture([path], max_packets=1)
        except UNREADABLE as error:
            recording.pass_over(error)
        else:
            readable.append(path)
    if not readable:
        raise InputError(f"{paths[0]}: none of its {len(paths)} files can be read")
    return readable


def _apart(point: Point, capture: Capture) -> Iterator[tuple[Point, Capture]]:
    """Yield the capture; as several points if its files overlap in time.

    Files that overlap are not one capture that was cut into files: to merge them would count packets twice.
    """
    if is_one_run(capture.files):
        yield point, capture
        return
    runs = _runs(capture.files)
    for run in runs:
        paths = tuple(capture.files[i].path for i in run)
        yield Point(paths[0], paths), capture.of_files(run)


def is_one_run(files: Sequence[SourceFile]) -> bool:
    """Return whether files follow each other in time, so that they are one capture."""
    return len(files) < 2 or len(_runs(files)) == 1


def _runs(files: Sequence[SourceFile]) -> list[list[int]]:
    """Return the indexes of the files, in groups that follow each other in time."""
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

    Several capture queues may mix the last and first packets of two files of a ring: an overlap under a
    second that is under a tenth of both files is let pass.
    """
    if earlier.first_ns is None or earlier.last_ns is None:
        return True
    if later.first_ns is None or later.last_ns is None:
        return True
    overlap_ns = earlier.last_ns - later.first_ns
    shorter_ns = min(earlier.last_ns - earlier.first_ns, later.last_ns - later.first_ns)
    return overlap_ns <= 0 or overlap_ns < min(NS_PER_S, shorter_ns // 10)
