"""The entry point of the package: from the paths that a user named to a `Recording`.

The input are captures and logs, by name. `Need` selects the data that are needed, and so what is kept in
memory. Each capture point is read in chunks, and its connections are counted in one of three ways:

- The native kernel counts them while it reads, and keeps no segments. This is used where only the numbers of
  one capture file are needed. If the segments of one connection are also needed, the file is read a second time.
- Otherwise all segments are kept, and counted after the last one.
- With `limits`, memory holds only the open connections (`stream.py`).

All three give the same numbers; docs/large_captures.md lists possible differences of a stream.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

import parsers
from multitracer.errors import InputError
from multitracer.native import LIMITS, kernel, reading
from multitracer.recording.inputs import UNREADABLE, Inputs, find_inputs
from multitracer.recording.points import apart, counts_of_each, files_to_read
from multitracer.recording.recording import Recording, bounds_of, is_emptied
from multitracer.recording.window import EMPTY_WINDOW, EVERYTHING, Window
from parsers._complete import complete_file
from parsers._memory import let_malloc_keep_memory

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.analysis import Analysis
    from multitracer.analysis.streaming import StreamLimits
    from multitracer.capture import CaptureTables
    from multitracer.errors import MultiTracerError
    from multitracer.logs import Point
    from multitracer.native import Kernel
    from multitracer.recording.capture import Capture
    from multitracer.recording.points import ReadingProgress
    from parsers._complete import Whole

    Read = TypeVar("Read")
    Choose = Callable[[Recording], tuple[Capture, int]]


_MIN_BYTES, _MOST_BYTES = 4 << 20, 1 << 30
"""Size of files, in bytes, that are read in a background thread: a smaller one is finished before a thread
starts, and an interrupt would have to wait for the thread of a larger one. Not measured."""
_CHUNK_ROWS = 1 << 16
"""Segments in one chunk: smaller chunks cost more time in Python than they save memory. Not measured."""
_COUNTS = "multitracer.analysis.running"
"""The module that completes the kernel's numbers. Its import, with NumPy, takes 60 ms: a fifth of the time
that the kernel needs to count two million packets."""


class Need(Enum):
    """Which data of the captures are needed."""

    NUMBERS = "numbers"
    """Connections with their counts, without segments."""
    SEGMENTS = "segments"
    """Connections with their counts and segments."""
    PACKETS = "packets"
    """Segments; connections are counted at the first access."""


_PACKET_BYTES = {Need.NUMBERS: 110, Need.SEGMENTS: 500, Need.PACKETS: 110}
"""Memory that is planned for each packet: about the most that a diagnosis takes of nine bad orders of packets, most of
which take 160 to 300 B (docs/benchmarks.md); a report takes more."""


def read(  # noqa: PLR0913  # what a user may choose
    *inputs: Inputs | str | os.PathLike[str],
    need: Need = Need.SEGMENTS,
    only: Choose | None = None,
    window: Window = EVERYTHING,
    max_packets: int | None = None,
    progress: ReadingProgress | None = None,
    limits: StreamLimits | None = None,
    stop: Callable[[], bool] | None = None,
    meanwhile: Callable[[], None] | None = None,
    decap: bool = True,
    keep_duplicates: bool = False,
    zone: str | None = None,
    date: str | None = None,
    phone: str | None = None,
    keylog: str | None = None,
) -> Recording:
    """Read the inputs as one recording, and count the connections of its captures.

    `Recording(inputs)` reads only the logs.

    Parameters
    ----------
    *inputs
        Inputs that were found, or paths as `find_inputs` takes them.
    need : Need
        The data that are kept, at least.
    only : callable, optional
        Takes the recording, and returns the one connection whose segments are needed, with its capture. The
        segments of other connections may then be missing.
    window : Window
        Analyse only the packets in it, as if nothing else had been captured.
    max_packets : int, optional
        Read at most this many packets of each capture point.
    progress : ReadingProgress, optional
    limits : StreamLimits, optional
        Read the captures as streams, without keeping segments: how long connections are kept open, and how
        many. Seconds of the window then count from the first packet that is read.
    stop : callable, optional
        Called now and then while a stream is read; reading ends when it returns True.
    meanwhile : callable, optional
        Called while large captures are read, for work that can be done at the same time.
    decap : bool
        Read the packets inside tunnels; otherwise their outer packets are counted as they are.
    keep_duplicates : bool
        Count packets that were captured more than once each time.
    zone : str, optional
        Time zone of times in logs that name none: "UTC", "+01:00" or an IANA name.
    date : str, optional
        Date of the first time in logs that name the time of day only: "2026-11-30".
    phone : str, optional
        Use only the radio logs of this phone: its host, its log, or its serial number.
    keylog : str, optional
        Open QUIC with the secrets in this key log, beside those of the inputs.

    Raises
    ------
    MultiTracerError
        If nothing can be read. A file of a folder that cannot be read is skipped with a warning as long
        as another one can be read.
    """
    forced: dict[str, object] = {} if decap else {"decap": False}
    forced |= {"keep_duplicates": True} if keep_duplicates else {}
    stated = {"zone": zone, "date": date, "phone": phone, "keylog": keylog}
    forced |= {name: text for name, text in stated.items() if text is not None}
    if forced:
        with parsers.force_reading(**forced):
            return read(*inputs, need=need, only=only, window=window, max_packets=max_packets, progress=progress,
                        limits=limits, stop=stop, meanwhile=meanwhile)  # fmt: skip
    named = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Inputs) else find_inputs(*_paths(inputs))
    is_complete = window == EVERYTHING and max_packets is None
    is_counted = (need is Need.NUMBERS or only is not None) and is_complete and bool(named.one_file)
    recording: Recording | None = None
    if limits is not None:
        from multitracer.recording.stream import stream  # noqa: PLC0415  # few captures are read so

        recording = Recording(named)
        stream(recording, window, max_packets, progress, stop, limits)
    elif is_counted and kernel() is not None:
        recording = _counted(named, only, progress)
    if recording is None:
        most = None if max_packets is None else max_packets * len(named.points)
        parsers.check_memory([path for point in named.points for path in point.paths], _PACKET_BYTES[need], most)
        recording = _kept(named, need, window, max_packets, progress, meanwhile)
    if recording.phone is not None:
        recording.check_phone()
    return recording


def _paths(inputs: Sequence[Inputs | str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    return [each for each in inputs if not isinstance(each, Inputs)]


class _Unseen:
    """A `ReadingProgress` that shows nothing."""

    phase = "reading"


# --- all segments are kept ---


def _kept(  # as `read`
    inputs: Inputs,
    need: Need,
    window: Window,
    max_packets: int | None,
    progress: ReadingProgress | None,
    meanwhile: Callable[[], None] | None,
) -> Recording:
    """Return the recording with all segments of its captures."""
    recording = Recording(inputs)
    read = _captures(recording, max_packets, progress, meanwhile)
    shown, alone = progress or _Unseen(), len(inputs.points) == 1
    for point, tables in read if window == EVERYTHING else _between(read, window, recording):
        capture = recording.add(point, tables)
        if alone and need is not Need.PACKETS:
            shown.phase = "analysing"
            capture.analysis  # noqa: B018  # it is kept there
            shown.phase = "reading"
    if not alone and need is not Need.PACKETS:
        shown.phase = "analysing"
        captures = recording.captures
        if len(captures) >= 2 and kernel() is not None:
            from multitracer.analysis import analyse  # noqa: PLC0415  # numbers the kernel counted need none
            from multitracer.analysis.parallel import in_parallel  # noqa: PLC0415  # as above

            rows = min(len(capture.tables.segments) for capture in captures)
            analyses = in_parallel([partial(analyse, capture.tables) for capture in captures], rows=rows)
            recording.captures = []
            for capture, analysis in zip(captures, analyses, strict=True):
                recording.add(capture.point, capture.tables, analysis)
        for capture in recording.captures:
            capture.analysis  # noqa: B018  # it is kept there
        shown.phase = "reading"
    return recording


def _between(
    read: Iterator[tuple[Point, CaptureTables]], window: Window, recording: Recording
) -> Iterator[tuple[Point, CaptureTables]]:
    """Yield the captures cut to the window.

    All captures are read before, because seconds of the window count from the earliest packet.
    """
    complete = list(read)
    captures = [capture for _, capture in complete]
    bounds_ns = window.bounds_ns(captures, speed=recording.speed) if captures else bounds_of(recording, window)
    recording.bounds_ns = bounds_ns
    parts = [capture.between(*bounds_ns) for capture in captures]
    yield from zip((point for point, _ in complete), parts, strict=True)
    if is_emptied(captures, parts):
        recording.notes.append(EMPTY_WINDOW)


def _captures(
    recording: Recording,
    max_packets: int | None,
    progress: ReadingProgress | None,
    meanwhile: Callable[[], None] | None,
) -> Iterator[tuple[Point, CaptureTables]]:
    """Read the capture points, and yield them in order; in a folder, unreadable ones are skipped.

    Large files are read two at a time, and `meanwhile` is called.
    """

    def watched(point: Point, progress: Callable[[int], None] | None) -> tuple[CaptureTables, list[str]]:
        notes: list[str] = []
        with recording.watched(point.paths, notes):
            paths = point.paths if len(point.paths) == 1 else files_to_read(recording, point.paths)
            capture = parsers.read_capture(paths, max_packets=max_packets, progress=progress, alone=alone)
            return capture, notes

    points = recording.inputs.points
    alone = len(points) == 1
    counts: Sequence[Callable[[int], None] | None] = [progress] * len(points)
    if progress is not None and not alone:
        counts = counts_of_each(progress, len(points))
    results: list[Callable[[], tuple[CaptureTables, list[str]]]] = [
        partial(watched, point, count) for point, count in zip(points, counts, strict=True)
    ]
    files = [Path(point.paths[0]) for point in points if len(point.paths) == 1]
    sizes = [file.stat().st_size for file in files if file.is_file()]
    is_large = len(sizes) == len(points) and all(_MIN_BYTES <= size <= _MOST_BYTES for size in sizes)
    if is_large and (len(points) > 1 or meanwhile is not None) and kernel() is not None:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # most recordings need none

        executor = ThreadPoolExecutor(2)
        begun = [executor.submit(result) for result in results]
        executor.shutdown(wait=False)
        if meanwhile is not None:
            meanwhile()
        results = [each.result for each in begun]
    failure: MultiTracerError | None = None
    read = False
    for point, result in zip(points, results, strict=True):
        try:
            capture, notes = result()
            recording.notes += notes
        except UNREADABLE as error:
            recording.pass_over(error)
            failure = error
            continue
        read = True
        yield from apart(point, capture) if len(capture.files) > 1 else [(point, capture)]
    if failure is not None and not read:
        raise failure


# --- the native kernel counts while it reads ---


def _counted(inputs: Inputs, only: Choose | None, progress: ReadingProgress | None) -> Recording | None:
    """Return the recording of one capture file, with counted connections but without segments.

    With `only`, it has the segments of the chosen connection. It is None if the file must be read completely:
    without the native kernel, or where counting needs segments.
    """
    native, path = kernel(), inputs.one_file if only is None else inputs.large_file
    if native is None or not path:
        return None
    recording = Recording(inputs)
    try:
        with recording.watched([path]), reading(path):
            if only is not None and not parsers.is_plain(path):
                return None
            analysis = _numbers(native, path, inputs.large_file != "", progress)
            if analysis is None:
                return None
            recording.add(inputs.points[0], analysis.capture, analysis)
            return recording if only is None else _with_one(native, recording, only, progress)
    except UNREADABLE:
        return None  # reading it as a whole says what is wrong


def _with_one(
    native: Kernel, recording: Recording, choose: Choose, progress: ReadingProgress | None
) -> Recording | None:
    """Return a recording of one capture in which only the chosen connection has its segments.

    It is None if the kernel alone cannot find the segments.
    """
    try:
        capture, number = choose(recording)
    except InputError:
        return recording  # who asks again is told the same
    if progress is not None:
        progress.phase = "analysing"
    alone = with_segments(native, capture.analysis, number)
    if alone is None:
        return None
    recording.captures.clear()
    recording.add(capture.point, alone.capture, alone)
    return recording


def with_segments(native: Kernel, analysis: Analysis, connection: int) -> Analysis | None:
    """Return an analysis of one file with the segments of one connection (from 1) added.

    None if the kernel alone cannot find the segments.
    """
    flow, rows = analysis.flow_of(connection)
    capture = parsers.read_flow(native, analysis.capture, flow, rows=rows)
    return None if capture is None else analysis.with_flow(connection, capture)


def _numbers(native: Kernel, path: str, is_large: bool, progress: ReadingProgress | None) -> Analysis | None:
    """Return the analysis of a capture file, counted without storing its segments.

    It is None if a step of the analysis needs the segments.
    """

    def look(complete: Whole) -> None:
        if progress is not None:
            progress(complete.stored_bytes)

    if is_large:
        let_malloc_keep_memory()
        Thread(target=partial(import_module, _COUNTS)).start()  # beside the counting
    complete = complete_file(native, path, limits=LIMITS, look=look)
    if complete is None:
        return analysis_of(native, path, progress) if is_large else None
    from multitracer.analysis.running import RunningAnalysis  # noqa: PLC0415  # see `_COUNTS`
    from multitracer.capture import CaptureTables  # noqa: PLC0415

    flows, number = complete.flows()
    running = RunningAnalysis(native, complete.file.counts(), complete.file.kept())
    return running.finish(CaptureTables([complete.source], flows=flows), number)


def analysis_of(native: Kernel, path: str, progress: ReadingProgress | None = None) -> Analysis | None:
    """Return the analysis of a capture file that the kernel counts while it is read.

    It is None if some step needs stored segments.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # a plain file needs none
    from contextlib import closing  # noqa: PLC0415

    from multitracer.analysis.running import RunningAnalysis  # noqa: PLC0415  # see `_COUNTS`
    from multitracer.capture import CaptureTables  # noqa: PLC0415

    is_packed = not parsers.is_plain(path)  # to read is little beside unpacking
    chunks = parsers.Chunks([path], rows=_CHUNK_ROWS, progress=progress, reads_ahead=True, unpacks_ahead=is_packed)
    running = RunningAnalysis(native)
    with reading(path), ThreadPoolExecutor(1, "counts") as thread, closing(iter(chunks)) as each:
        counted = thread.submit(lambda: True)
        for chunk in each:
            if not counted.result() or chunks.may_hold_duplicates:
                return None
            counted = thread.submit(running.add, chunk)
        if not counted.result():
            return None
        flows, number = chunks.flows()
        return running.finish(CaptureTables(chunks.files, flows=flows), number)
