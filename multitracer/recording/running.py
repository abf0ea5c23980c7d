"""From a large capture to its numbers, without its segments: for summaries, by the native kernel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import parsers
from multitracer.analysis.running import RunningAnalysis
from multitracer.capture import Capture
from multitracer.native import kernel, reading
from multitracer.recording.inputs import UNREADABLE
from multitracer.recording.open import read_recording
from multitracer.recording.recording import Recording
from multitracer.recording.window import EVERYTHING

if TYPE_CHECKING:
    from multitracer.analysis import Analysis
    from multitracer.native import Kernel
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.open import Progress
    from multitracer.recording.window import Window

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
        recording = _without_segments(native, inputs, progress)
        if recording is not None:
            return recording
    return read_recording(inputs, window=window, max_packets=max_packets, progress=progress)


def _without_segments(native: Kernel, inputs: Inputs, progress: Progress | None) -> Recording | None:
    recording = Recording(inputs)
    try:
        with recording.watched([inputs.large_file]):
            analysis = analysis_of(native, inputs.large_file, progress)
    except UNREADABLE:
        return None
    if analysis is None:
        return None
    part = recording.add(inputs.points[0], analysis.capture)
    part.__dict__["analysis"] = analysis  # as cached_property keeps it
    return recording


def analysis_of(native: Kernel, path: str, progress: Progress | None = None) -> Analysis | None:
    """Count each piece of a capture while the next one is read; return None if that is not enough."""
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
