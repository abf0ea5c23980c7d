"""Reading ahead: while one block is decoded, other threads read the next one and find its records.

Pipes are not read ahead, because their next bytes may not come for a long time.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parsers._packets.layers import PAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from concurrent.futures import Future, ThreadPoolExecutor
    from types import TracebackType

    from parsers._format import Readable
    from parsers._packets.layers import Bytes, PacketRecords

_ALONE = 2
"""Number of blocks that are read without a thread: most captures have no more, and start as fast as without reading
ahead."""
_ROOM_BYTES = 64 * 1024
"""Space before each window for the rest of the previous one, which is a part of a packet."""


def ahead(blocks: Iterable[PacketRecords]) -> Generator[PacketRecords]:
    """Yield blocks in order; while the caller uses a block, a thread reads the next one.

    The generator must be closed before the file, so that the thread has stopped reading.

    Raises
    ------
    MultiTracerError
        The errors of `blocks`, after all earlier blocks.
    """
    remaining = iter(blocks)
    yield from islice(remaining, _ALONE)
    block = next(remaining, None)
    if block is None:
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "reads ahead") as thread:
        while block is not None:
            following = thread.submit(next, remaining, None)
            yield block
            block = following.result()


class _Chunk(NamedTuple):
    """Bytes that the thread has read: `data[_ROOM_BYTES:end]`."""

    data: Bytes
    end: int
    error: Exception | None
    """The error that ended reading; None if there was none."""


class AheadStream:
    """A stream whose next window is read by a thread while the present one is used.

    Notes
    -----
    The bytes and the sizes of the reads are the same as without reading ahead.
    """

    def __init__(self, stream: Readable) -> None:
        # as in `StreamWindow`: a buffered reader must not loop
        self._read_once: Callable[[memoryview], int | None] = getattr(stream, "readinto1", stream.readinto)
        self._windows = 0
        self._thread: ThreadPoolExecutor | None = None
        self._next: Future[_Chunk] | None = None
        self._left = memoryview(b"")
        """Bytes that the thread has read and that are not yet in a window."""
        self._error: Exception | None = None
        """Error of the thread, raised after all bytes before it were taken."""

    def __enter__(self) -> AheadStream:
        """Return this stream."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the thread to finish reading; after that the file may be closed."""
        if self._thread is not None:
            self._thread.shutdown()

    def readinto(self, buffer: memoryview, /) -> int:
        """Read bytes into `buffer`; return their number, 0 only at the end of the stream."""
        if self._left:
            chunk, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
            buffer[: len(chunk)] = chunk
            return len(chunk)
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._read_once(buffer) or 0

    def read_on(self, size: int) -> None:
        """Let the thread read the next `size` bytes while the current window is used."""
        self._windows += 1
        if self._windows <= _ALONE or self._left or self._error:
            return
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor

            self._thread = ThreadPoolExecutor(1, "reads ahead")
        self._next = self._thread.submit(self._chunk, size)

    def take(self, known: Bytes) -> tuple[Bytes, int, int] | None:
        """Return the window that the thread has read, with the bytes `known` before its bytes.

        The result is a tuple of data, begin and end; None if the thread has read nothing, and the caller must read.
        """
        if self._next is None:
            return None
        (data, end, self._error), self._next = self._next.result(), None
        begin = _ROOM_BYTES - len(known)
        if begin < 0:
            self._left = memoryview(data)[_ROOM_BYTES:end]  # type: ignore[arg-type]
            return None
        data[begin:_ROOM_BYTES] = known
        return data, begin, end

    def _chunk(self, size: int) -> _Chunk:
        data = np.empty(_ROOM_BYTES + size + PAD_BYTES, np.uint8)
        view, end = memoryview(data), _ROOM_BYTES  # type: ignore[arg-type]
        try:
            while end < size:
                n = self._read_once(view[end:size]) or 0
                end += n
                if n == 0:
                    break
        except Exception as error:  # noqa: BLE001  # handed on, in its place
            return _Chunk(data, end, error)
        return _Chunk(data, end, None)
