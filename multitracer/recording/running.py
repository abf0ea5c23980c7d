"""From a large capture to its numbers, without its segments: for summaries, by the native kernel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import parsers
from multitracer.analysis.running import RunningAnalysis
from multitracer.capture import Capture
from multitracer.native import kernel, reading
from multitracer.recording.inputs import UNREADABLE
from multitracer.recording.recording import Recording

if TYPE_CHECKING:
    from multitracer.analysis import Analysis
    from multitracer.native import Kernel
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.open import Progress

LARGE_BYTES = 8 << 20
"""From here on; of less the segments take some megabytes, and no time. Not measured."""
_ROWS = 1 << 15
"""Segments of a piece: what is made of them stays in the processor's cache. Not measured."""


def running_recording(inputs: Inputs, *, progress: Progress | None = None) -> Recording | None:
    """Return the recording of one large capture file without its segments: every number is that of the whole.

    Parameters
    ----------
    inputs, progress
        As of `read_recording`.

    Returns
    -------
    Recording or None
        None without the native kernel, of any other inputs, and where the numbers need all segments, or
        something cannot be read: `read_recording` does it, or says it.
    """
    native, path = kernel(), _large_file(inputs)
    if native is None or path is None:
        return None
    recording = Recording(inputs)
    try:
        with recording.watched([path]):
            analysis = _analysis(native, path, progress)
    except UNREADABLE:
        return None
    if analysis is None:
        return None
    part = recording.add(inputs.points[0], analysis.capture)
    part.__dict__["analysis"] = analysis  # as cached_property keeps it
    return recording


def _large_file(inputs: Inputs) -> str | None:
    paths = [path for point in inputs.points for path in point.paths]
    if len(paths) != 1 or not Path(paths[0]).is_file():
        return None
    return paths[0] if Path(paths[0]).stat().st_size >= LARGE_BYTES else None


def _analysis(native: Kernel, path: str, progress: Progress | None) -> Analysis | None:
    """Count each piece while the next one is read; return None if that is not enough."""
    pieces = parsers.Pieces([path], rows=_ROWS, progress=progress, reads_ahead=True)
    running, files = RunningAnalysis(native), []
    with reading(path), ThreadPoolExecutor(1, "counts") as thread, closing(iter(pieces)) as each:
        counted = thread.submit(lambda: True)
        for piece in each:
            if not counted.result():
                return None
            files, counted = piece.files, thread.submit(running.add, piece)
        if not counted.result():
            return None
        flows, number = pieces.flows()
        return running.finish(Capture(files, flows=flows), number)
