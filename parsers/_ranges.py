"""Some ranges of a file, one after the other, as if nothing lay between them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Ranges(io.RawIOBase):
    """The bytes of a file in ranges of begin and end.

    Parameters
    ----------
    raw : io.RawIOBase
        A file that can seek.
    ranges : sequence of (int, int)
        Ascending, none empty.
    """

    def __init__(self, raw: io.RawIOBase, ranges: Sequence[tuple[int, int]]) -> None:
        self._raw, self._ranges = raw, list(reversed(ranges))
        self._left = 0

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill some of `buffer`; return how many bytes, 0 only behind the last range."""
        if not self._left and self._ranges:
            begin, end = self._ranges.pop()
            self._left = end - begin
            self._raw.seek(begin)
        count = self._raw.readinto(memoryview(buffer)[: self._left]) or 0 if self._left else 0
        self._left = self._left - count if count else 0
        return count

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._raw.fileno()

    def close(self) -> None:
        """Close the file, too."""
        if not self.closed:
            self._raw.close()
        super().close()
