"""Several large captures read and analysed beside each other: the kernel computes without the interpreter."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from multitracer.native import kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.logs import Point
    from multitracer.recording.part import Part

    Count = Callable[[int], None]
    Read = TypeVar("Read")

_LEAST_BYTES, _MOST_BYTES = 4 << 20, 1 << 30
"""Of a file: less is read before a thread has begun, and who interrupts more would wait for the thread. Not
measured."""
_LEAST_ROWS = 1 << 16
"""Of a capture, to be analysed beside another one. Not measured."""


def begun(
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


def analyse_all(parts: Sequence[Part]) -> None:
    """Analyse all captures; large ones two at a time."""
    if len(parts) < 2 or min(len(part.capture.segments) for part in parts) < _LEAST_ROWS or kernel() is None:
        for part in parts:
            part.analysis  # noqa: B018  # it is kept there
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # as above

    with ThreadPoolExecutor(2) as executor:
        list(executor.map(lambda part: part.analysis, parts))


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
