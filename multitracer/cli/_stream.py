"""Reads captures as a stream, which Ctrl-C ends with what it has seen."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

from multitracer.recording.streaming.read import stream_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.cli._progress import Progress
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Window


def read_stream(
    inputs: Inputs, *, window: Window, max_packets: int | None, progress: Progress | None
) -> Recording:
    """Return the recording of inputs as `stream_recording` does, to their end or to the first Ctrl-C."""
    with _first_interrupt() as stop:
        return stream_recording(inputs, window=window, max_packets=max_packets, progress=progress, stop=stop)


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
