"""Where the segments of a capture were seen, as soon as packets seem to be captured more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._forced import FORCED
from parsers._packets.repeats import RepeatCounter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.capture import CaptureTables
    from multitracer.tables import Array, Numbers
    from parsers._packets.layers import PacketRecords

_ALWAYS = 1 << 11
"""Number of segments at the begin of a capture whose points are noted in any case: a pipe gives few packets at a time,
and the first copies may be in another block. It takes 0.1 ms."""


class Sights:
    """Notes where each segment was seen: of all that come after the first copies, at least."""

    def __init__(self) -> None:
        self._repeats = RepeatCounter()
        self._seen: list[tuple[int, Numbers | None]] = []
        """Of the segments that are in the tables, by block: their number, and where they were seen; None if unknown."""
        self._segments = 0
        self._keeps_duplicates = bool(FORCED) and FORCED[-1].get("keep_duplicates") is True
        self.has_repeats = False
        """Whether there were many repeats after any block so far; False if copies are to be kept."""

    def note(self, columns: Mapping[str, Array], records: PacketRecords, record: Numbers) -> None:
        """Take the next segments: their columns, and the indexes of their records in a block."""
        self._repeats.note(columns)
        self._segments += len(record)
        self.has_repeats = self.has_repeats or (self._repeats.are_many and not self._keeps_duplicates)
        if self.has_repeats or self._segments <= _ALWAYS:
            from parsers._packets.places import sights  # noqa: PLC0415  # most captures need it not

            self._seen.append((len(record), sights(records, record)))
        else:
            self._seen.append((len(record), None))

    def _all_seen(self) -> Numbers:
        """Return where each segment in the tables was seen; 0 if unknown."""
        parts = [np.zeros(size, np.int64) if seen is None else seen for size, seen in self._seen]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def without_duplicates(self, capture: CaptureTables) -> CaptureTables:
        """Return a complete capture without the copies of packets."""
        if self._keeps_duplicates or not self._repeats.are_many:
            return capture
        from parsers._packets.duplicates import without_duplicates  # noqa: PLC0415  # as above

        return without_duplicates(capture, self._all_seen())

    def next_without_duplicates(
        self, chunk: CaptureTables, *, is_last: bool
    ) -> tuple[CaptureTables, CaptureTables | None]:
        """Return the next segments of a stream without copies of packets, and those whose copies may still come.

        Flows are not joined. At most half of the segments are held back, so that memory is bounded: those after
        the longest time without a segment, where no copies lie on both sides.
        """
        if not self.has_repeats:
            self._seen.clear()
            return chunk, None
        from parsers._packets.duplicates import without_duplicates  # noqa: PLC0415  # as above

        seen, time_ns, later = self._all_seen(), chunk.segments["time_ns"], None
        self._seen.clear()
        if not is_last and len(time_ns) > 1:
            middle = len(time_ns) // 2
            is_late = np.arange(len(time_ns)) > middle + int(np.argmax(np.diff(time_ns[middle - 1 :]))) - 1
            later, chunk = chunk.where(is_late), chunk.where(~is_late)
            self._seen.append((int(np.count_nonzero(is_late)), seen[is_late]))
            seen = seen[~is_late]
        return without_duplicates(chunk, seen, joins=False), later
