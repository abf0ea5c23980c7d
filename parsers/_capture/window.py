"""A window of a stream in memory: its size is bounded for any file and pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import FormatError
from parsers._capture.ahead import AheadStream
from parsers._capture.bounds import WINDOW_BYTES as WINDOW_BYTES  # noqa: PLC0414
from parsers._capture.bounds import cut_off
from parsers._packets.layers import PAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from parsers._format import Readable
    from parsers._packets.layers import Bytes


class StreamWindow:
    """The bytes `data[begin:end]` of a stream; bytes before `begin` are discarded."""

    def __init__(self, stream: Readable, *, size: int = WINDOW_BYTES) -> None:
        self.data: Bytes = np.empty(size + PAD_BYTES, np.uint8)
        self.view = memoryview(self.data)  # type: ignore[arg-type]
        """The same bytes as `data`. Each `refill` creates a new buffer, so a block does not change while the next one
        is read."""
        self.begin = 0
        self.end = 0
        self.damage: str | None = None
        """Why the stream ended early, if it did."""
        self.ended = False
        """Whether the stream has no more bytes."""
        # A buffered reader must not loop: what it had read when it met damage would be lost.
        self._read_once: Callable[[memoryview], int | None] = getattr(stream, "readinto1", stream.readinto)
        self._size = size
        self._first_offset = 0
        self._ahead = stream if isinstance(stream, AheadStream) else None

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def offset(self) -> int:
        """Position of `begin` in the stream."""
        return self.offset_of(self.begin)

    def offset_of(self, position: int) -> int:
        """Return the position of `data[position]` in the stream."""
        return self._first_offset + position

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full, so that `begin` must be moved before more bytes can be read."""
        return len(self) == self._size

    def remains(self, what: str) -> str | None:
        """Return a message if the stream ends inside a record or block (`what`).

        None if it ends after one.
        """
        if self.damage or not len(self):
            return self.damage
        return cut_off(what, self.offset, len(self))

    def refill(self) -> bool:
        """Read until the buffer is full or the stream ends; return whether there are new bytes."""
        kept = len(self)
        known, begin = self.data[self.begin : self.end], self.begin
        taken = None if self._ahead is None else self._ahead.take(known)
        if taken is None:
            self.data = np.empty(self._size + PAD_BYTES, np.uint8)
            self.data[:kept] = known
            self.begin, self.end = 0, kept
        else:
            self.data, self.begin, self.end = taken
        self._first_offset += begin - self.begin
        self.view = memoryview(self.data)  # type: ignore[arg-type]
        while len(self) < self._size and not self.ended:
            n = self._read()
            self.end += n
            self.ended = n == 0
        self.data[self.end : self.end + PAD_BYTES] = 0
        if self._ahead is not None and not self.ended:
            self._ahead.read_on(self._size)
        return len(self) > kept

    def _read(self) -> int:
        try:
            return self._read_once(self.view[self.end : self.begin + self._size]) or 0
        except FormatError as error:
            self.damage = f"{error.reason} at byte {error.offset}"
            return 0

    def skip(self, count: int) -> int:
        """Skip up to `count` bytes, also more than the buffer has; return how many were skipped."""
        skipped = 0
        while True:
            step = min(count - skipped, len(self))
            self.begin += step
            skipped += step
            if skipped == count or not self.refill():
                return skipped
