"""From a capture to its numbers, without its segments: for summaries, by the native kernel.

NumPy is loaded where more is asked for than the kernel tells by itself.
"""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

import parsers
from multitracer.native import LIMITS, kernel, reading
from multitracer.recording.inputs import UNREADABLE
from multitracer.recording.open import read_recording
from multitracer.recording.recording import Recording
from multitracer.recording.window import EVERYTHING
from parsers._memory import let_malloc_keep_memory
from parsers._whole import whole_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.analysis import Analysis
    from multitracer.native import Kernel
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.open import Progress
    from multitracer.recording.window import Window
    from parsers._whole import Whole

    Answer = TypeVar("Answer")

_TELLS_ALL = ("multitracer.analysis.running", "parsers._packets.parts")
"""With NumPy they take 60 ms to load: a fifth of the summary of two million packets."""
_ROWS = 1 << 16
"""Segments that are handed on together: fewer cost more in Python than their memory. Not measured."""


def read_numbers(
    inputs: Inputs,
    *,
    window: Window = EVERYTHING,
    max_packets: int | None = None,
    progress: Progress | None = None,
) -> Recording:
    """Return the recording of one large capture file, without segments where its numbers do not need them.

    Every number is that of `read_recording`, which does it without the native kernel, of any other inputs,
    and where something cannot be read. Parameters and errors are its own.
    """
    native = kernel()
    if native is not None and inputs.large_file and window == EVERYTHING and max_packets is None:
        _, recording = counted_by_kernel(native, inputs, progress)
        if recording is not None:
            return recording
    return read_recording(inputs, window=window, max_packets=max_packets, progress=progress)


def counted_by_kernel(
    native: Kernel,
    inputs: Inputs,
    progress: Progress | None,
    told_by: Callable[[Whole], Answer | None] = lambda _: None,
) -> tuple[Answer | None, Recording | None]:
    """Return what `told_by` tells of one file that the kernel counted by itself, and the recording.

    The recording is without captures if something is told, and None if the file has to be read as a whole.
    """
    recording, path = Recording(inputs), inputs.one_file
    if inputs.large_file:
        let_malloc_keep_memory()
    try:
        with recording.watched([path]), reading(path):
            whole = whole_file(native, path, limits=LIMITS, look=partial(_look, progress))
            answer = None if whole is None else told_by(whole)
            analysis = None
            if whole is not None and answer is None:
                analysis = _finished(native, whole)
            elif whole is None and inputs.large_file:
                analysis = analysis_of(native, path, progress)
    except UNREADABLE:
        return None, None
    if whole is not None and answer is not None:
        recording.counted.append(whole.source)
        return answer, recording
    if analysis is None:
        return None, None
    part = recording.add(inputs.points[0], analysis.capture)
    part.__dict__["analysis"] = analysis  # as cached_property keeps it
    return None, recording


def _look(progress: Progress | None, whole: Whole) -> None:
    """Tell the progress; while a file of one long connection is counted, load what will tell all of it."""
    if progress is not None:
        progress(whole.stored_bytes)
    if whole.connections == 1 and _TELLS_ALL[0] not in sys.modules:
        Thread(target=lambda: [*map(import_module, _TELLS_ALL)], daemon=True).start()


def _finished(native: Kernel, whole: Whole) -> Analysis | None:
    """Return the analysis of a file that was counted; None if that is not enough."""
    from multitracer.analysis.running import RunningAnalysis  # noqa: PLC0415  # needs NumPy
    from multitracer.capture import Capture  # noqa: PLC0415

    flows, number = whole.flows()
    running = RunningAnalysis(native, whole.file.counts(), whole.file.kept())
    return running.finish(Capture([whole.source], flows=flows), number)


def numbers_of(native: Kernel, path: str, progress: Progress | None = None) -> Analysis | None:
    """Return the numbers of a large plain file, without its segments; None if they need these.

    They are counted beside what is loaded meanwhile, and from memory of their own: what they leave of it, the
    large tables that follow could not use.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # a summary needs none

    let_malloc_keep_memory()
    look = partial(_look, progress)
    with reading(path), ThreadPoolExecutor(1, "counts") as thread:
        counted = thread.submit(whole_file, native, path, limits=LIMITS, look=look)
        for name in (*_TELLS_ALL, "parsers._one_flow"):
            import_module(name)
        whole = counted.result()
    return analysis_of(native, path, progress) if whole is None else _finished(native, whole)


def analysis_of(native: Kernel, path: str, progress: Progress | None = None) -> Analysis | None:
    """Count each piece of a capture while the next one is read; return None if that is not enough."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # a plain file needs none

    from multitracer.analysis.running import RunningAnalysis  # noqa: PLC0415  # needs NumPy
    from multitracer.capture import Capture  # noqa: PLC0415

    pieces = parsers.Pieces([path], rows=_ROWS, progress=progress, reads_ahead=True)
    running = RunningAnalysis(native)
    with (
        reading(path),
        ThreadPoolExecutor(1, "counts") as thread,
        closing(pieces.in_kernel(native)) as each,
    ):
        counted = thread.submit(lambda: True)
        for some in each:
            if not counted.result():
                return None
            counted = thread.submit(running.add_all, some)
        if not counted.result():
            return None
        flows, number = pieces.flows()
        return running.finish(Capture(pieces.files, flows=flows), number)
