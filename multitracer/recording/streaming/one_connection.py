"""From a large capture to its numbers, and the segments of one connection alone: for the figure of it.

The native kernel counts the capture as for a summary (`running.py`). Then it is known which connection is
meant, and the file is read once more for its segments: the others never lie in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import parsers
from multitracer.errors import InputError
from multitracer.native import kernel
from multitracer.recording.inputs import UNREADABLE
from multitracer.recording.open import read_recording
from multitracer.recording.recording import Recording
from multitracer.recording.streaming.running import numbers_of
from multitracer.recording.window import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.analysis import Analysis
    from multitracer.native import Kernel
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.open import Progress
    from multitracer.recording.part import Part
    from multitracer.recording.window import Window

    Choose = Callable[[Recording], tuple[Part, int]]


def read_one(
    inputs: Inputs,
    *,
    choose: Choose,
    window: Window = EVERYTHING,
    max_packets: int | None = None,
    progress: Progress | None = None,
) -> Recording:
    """Return the recording of inputs; of one large capture file, perhaps with one connection's segments only.

    Parameters
    ----------
    choose : callable
        Takes the recording, and returns the one connection whose segments will be asked for, with its part.

    Other parameters and errors are those of `read_recording`, which reads all other inputs, parts of a file,
    and what the kernel does not read alone.
    """
    native = kernel()
    if native is not None and inputs.large_file and window == EVERYTHING and max_packets is None:
        recording = _with_one(native, inputs, choose, progress)
        if recording is not None:
            return recording
    return read_recording(inputs, window=window, max_packets=max_packets, progress=progress)


def _with_one(native: Kernel, inputs: Inputs, choose: Choose, progress: Progress | None) -> Recording | None:
    recording, path = Recording(inputs), inputs.large_file
    try:
        with recording.watched([path]):
            analysis = numbers_of(native, path, progress) if parsers.is_plain(path) else None
            if analysis is None:
                return None
            _add(recording, analysis)
            try:
                _, number = choose(recording)
            except InputError:
                return recording  # who asks again is told the same
            if progress is not None:
                progress.phase = "analysing"
            alone = with_segments(native, analysis, number)
    except UNREADABLE:
        return None
    if alone is None:
        return None
    recording.parts.clear()
    _add(recording, alone)
    return recording


def _add(recording: Recording, analysis: Analysis) -> None:
    part = recording.add(recording.inputs.points[0], analysis.capture)
    part.__dict__["analysis"] = analysis  # as cached_property keeps it


def with_segments(native: Kernel, analysis: Analysis, connection: int) -> Analysis | None:
    """Return the analysis of one file, which is without segments, with those of a connection (from 1).

    None if the kernel alone does not find them again.
    """
    flow, rows = analysis.flow_of(connection)
    capture = parsers.read_flow(native, analysis.capture, flow, rows=rows)
    return None if capture is None else analysis.with_flow(connection, capture)
