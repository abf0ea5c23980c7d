"""Reads captures of any size: as a whole, or as a stream, which Ctrl-C ends with what it has seen."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from multitracer.cli._output import warn
from multitracer.cli._reading import checked_inputs, load, shown_progress, tell_all_warnings
from multitracer.recording.streaming.memory import is_too_large, memory_bytes, stored_bytes
from multitracer.recording.window import EVERYTHING
from multitracer.words import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.cli._reading import Reading
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.recording import Recording


def load_any_size(reading: Reading, *, output: str | None, stream: bool | None, segments: bool) -> Recording:
    """Read and analyse the inputs; as a stream if the user says so, or if they are too large.

    Parameters
    ----------
    reading : Reading
        Inputs and options.
    output : str, optional
        Where the command will write.
    stream : bool, optional
        Whether to read a stream; None: only what is larger than a share of the memory.
    segments : bool
        Whether the command needs every segment; otherwise the recording may be without them.

    Raises
    ------
    MultiTracerError
        As `load`.
    """
    inputs = checked_inputs(reading, output=output)
    if stream is None and not segments:
        stream = _must_be_stream(inputs)
    if stream:
        return _load_stream(reading, inputs)
    if not segments and (recording := _counted(reading, inputs)) is not None:
        return recording
    return load(reading, inputs=inputs)


def _counted(reading: Reading, inputs: Inputs) -> Recording | None:
    """Return a recording whose segments were counted and not kept, where that is enough."""
    from multitracer.recording.running import running_recording

    if reading.window != EVERYTHING or reading.max_packets is not None:
        return None
    with shown_progress(inputs) as shown:
        recording = running_recording(inputs, progress=shown)
    if recording is not None:
        tell_all_warnings(recording)
    return recording


def _must_be_stream(inputs: Inputs) -> bool:
    paths = [path for point in inputs.points for path in point.paths]
    if not is_too_large(paths):
        return False
    warn(
        f"{inputs.name}: {size(stored_bytes(paths))} are more than half of the memory "
        f"({size(memory_bytes() or 0)}), so they are analysed as a stream (docs/large_captures.md says what "
        "differs); --no-stream analyses them as a whole"
    )
    return True


def _load_stream(reading: Reading, inputs: Inputs) -> Recording:
    from multitracer.recording.streaming.read import stream_recording

    with _first_interrupt() as stop, shown_progress(inputs) as shown:
        recording = stream_recording(
            inputs,
            window=reading.window,
            max_packets=reading.max_packets,
            progress=shown,
            stop=stop,
        )
    tell_all_warnings(recording)
    return recording


@contextlib.contextmanager
def _first_interrupt() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C only be noted, for whom it is asked; the second one interrupts."""
    stopped = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(*_: object) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield stopped.is_set
    finally:
        signal.signal(signal.SIGINT, before)
