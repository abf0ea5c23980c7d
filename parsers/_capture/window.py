"""A window of a stream in memory: its size is bounded for any file and pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.errors import FormatError
from parsers._capture.ahead import AheadStream
from parsers._capture.bounds import LARGEST_PACKET, cut_off
from parsers._capture.bounds import WINDOW_BYTES as WINDOW_BYTES  # noqa: PLC0414
from parsers._packets.layers import PAD_BYTES

if TYPE_CHECKING:
    import struct
    from collections.abc import Callable, Generator

    from multitracer.captured import SourceFile
    from multitracer.tables import Numbers
    from parsers._format import Readable
    from parsers._packets.layers import Bytes, PacketRecords


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


# Reads files that consist only of records, each with its own length.


class RecordLength(NamedTuple):
    """Where a record has its length, and in which form; the length includes the header."""

    header_bytes: int
    length: struct.Struct
    length_at: int


def batches(
    window: StreamWindow, source: SourceFile, layout: RecordLength, records: Callable[[Bytes, Numbers], PacketRecords]
) -> Generator[PacketRecords]:
    """Yield the records of a file from the window's begin on, one batch per window; note damage in `source`.

    Parameters
    ----------
    records : callable
        Takes the data (uint8) and the positions of complete records (int64, ascending); returns the records.
    """
    more, damage = True, None
    while more and damage is None:
        starts, damage = _walk(window, layout)
        yield records(window.data, np.array(starts, np.int64))
        more = window.refill()
    source.damaged = damage or window.remains("record")


def _walk(window: StreamWindow, layout: RecordLength) -> tuple[list[int], str | None]:
    """Return the positions of complete records and why they end (else None); move the window past them."""
    starts: list[int] = []
    while len(window) >= layout.header_bytes:
        length = layout.length.unpack_from(window.view, window.begin + layout.length_at)[0]
        if not layout.header_bytes <= length <= LARGEST_PACKET:
            return starts, f"the record at byte {window.offset} has an invalid length of {length} bytes"
        if length > len(window):
            break
        starts.append(window.begin)
        window.begin += length
    return starts, None
