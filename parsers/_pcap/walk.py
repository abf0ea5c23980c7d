"""Reads the records of a pcap file, a window at a time, and the damage between them.

Reading follows the lengths that the records state. One wrong bit in a length leads into the bytes of a
packet, where nothing looks like a record: an unexpected record that the next ones do not confirm marks the
damage. Reading continues at the next chain of plausible records.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.native import kernel
from multitracer.tables import NOT_A_TIME
from parsers._capture.lanes import walk_lanes
from parsers._packets.layers import PacketRecords
from parsers._pcap.dialect import RECORD_HEADER_BYTES
from parsers._pcap.plausibility import CHAIN, OVERLAP_BYTES, Chains, RecordHeaderFields, doubtful, flagged

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers
    from parsers._capture.capture_file import FileDamage
    from parsers._capture.window import StreamWindow
    from parsers._pcap.dialect import Dialect

_SAMPLE = 64
"""Number of records that are read one by one before lanes are tried."""
_ALL = 1 << 60


class _Seen(NamedTuple):
    """The records of a window."""

    at: Numbers
    """Positions of the records."""
    fields: RecordHeaderFields
    complete: int
    """Number of complete records; the last record may be incomplete."""


class RecordBatches:
    """Reads the records of one file; each window is a batch."""

    def __init__(self, window: StreamWindow, dialect: Dialect, damage: FileDamage) -> None:
        self.done = False
        """Whether the end of the file is reached."""
        self._window = window
        self._dialect = dialect
        self._damage = damage
        self.offset = 0
        """Position of the last batch in the file."""
        self.without_time = 0
        """Number of packets of the last batch without a time."""
        self._reason: str | None = None
        """Why reading ended before the stream did."""
        self._near_s: int | None = None
        """Time of the last accepted record, s."""
        self._lost: tuple[int, str] | None = None
        """Position from which no record has been found yet, and the damage there."""

    def batch(self) -> PacketRecords:
        """Return the records of the current window."""
        self.offset, self.without_time = self._window.offset, 0
        if not self._lost:
            return self._next()
        self._seek(*self._lost)
        return self._records(self._seen(np.empty(0, np.int64)), 0)

    def advance(self) -> None:
        """Move on to the next window of the file."""
        more = self._window.refill()
        self.done = self.done or not (more or self._window.offset > self.offset)

    def finish(self) -> None:
        """Write the damage that was found into the facts of the file."""
        reason = self._reason or (self._lost and self._lost[1])
        self._damage.ended(reason or self._window.remains("record"))

    def _next(self) -> PacketRecords:
        if (plain := self._plain()) is not None:
            return plain
        window = self._window
        starts = _walk(window, self._dialect)
        seen = self._seen(starts)
        if window.is_full and len(seen.at) and not self._too_long(seen).any():
            return self._skip_oversized(seen)
        kept = self._judge(seen)
        if kept:
            self._near_s = int(seen.fields.seconds[kept - 1])
        return self._records(seen, kept)

    def _plain(self) -> PacketRecords | None:
        """Return the records of the window by the native kernel; None if it finds an unexpected record."""
        window, dialect, native = self._window, self._dialect, kernel()
        walked = native and native.walk_pcap(window.data, window.begin, window.end, dialect.layout)
        if not walked:
            return None
        start, captured, original, time_ns, last_s, following = walked
        is_cut = window.ended and window.end - following >= RECORD_HEADER_BYTES
        if is_cut or not len(start):
            return None
        window.begin, self._near_s = following, last_s
        return PacketRecords(window.data, start, captured, original, time_ns, dialect.link_type)

    def _seen(self, starts: Numbers) -> _Seen:
        """Return the header fields of the complete records, and of the next one if its header is present."""
        window = self._window
        at = starts
        if len(window) >= RECORD_HEADER_BYTES:
            at = np.append(starts, window.begin)
        return _Seen(at, RecordHeaderFields.of(window.data, at, self._dialect), len(starts))

    def _records(self, seen: _Seen, count: int) -> PacketRecords:
        """Return the first `count` records in the form for the decoder."""
        fields, dialect = seen.fields, self._dialect
        time_ns = fields.times_ns(dialect)[:count]
        self.without_time = int(np.count_nonzero(time_ns == NOT_A_TIME))
        return PacketRecords(
            self._window.data,
            seen.at[:count] + dialect.header_bytes,
            fields.captured[:count],
            fields.original[:count],
            time_ns,
            dialect.link_type,
        )

    def _too_long(self, seen: _Seen) -> Mask:
        mask: Mask = seen.fields.captured > self._dialect.largest
        return mask

    def _judge(self, seen: _Seen) -> int:
        """Return how many records to accept; move the window to the position where reading continues."""
        window = self._window
        too_long = self._too_long(seen)
        ends_well = window.ended and not len(window)
        caveat, early = doubtful(seen.fields, self._dialect, ends_well=ends_well)
        caveat |= self._swallows(seen)
        if window.ended and len(seen.at) > seen.complete:
            caveat[seen.complete] = not self._is_complete(seen, seen.complete)  # or else it is only cut off
        faults = np.flatnonzero(caveat | too_long)
        accepted = 0
        for fault in faults.tolist():
            if fault < accepted:
                continue
            if early[fault] and not too_long.any() and not window.ended:
                return self._wait(seen, fault)
            position = self._chains(seen, fault).first(self._search_from(seen, fault))
            if position is None:
                return self._nothing_behind(seen, fault, too_long)
            accepted = self._arrival(seen, fault, position)
            if not accepted:
                return self._resume(seen, fault, position)
        return seen.complete

    def _swallows(self, seen: _Seen) -> Mask:
        """Return a mask of the records that are longer than their packet and have other records after it."""
        fields, dialect = seen.fields, self._dialect
        swallows: Mask = (fields.captured > fields.original) & (fields.original > 0)
        if swallows.any():
            held = np.minimum(fields.original, dialect.snap_length or fields.original)
            ends = (seen.at + dialect.header_bytes + held)[swallows]
            swallows[swallows] = self._chains(seen, 0).begin_at(ends)
        return swallows

    def _wait(self, seen: _Seen, fault: int) -> int:
        """Leave the record `fault` and the record before it for the next window; return how many to accept.

        The record cannot be judged yet, because too few records follow it in this window.
        """
        if fault < 2:
            return seen.complete  # nothing would change
        self._window.begin = int(seen.at[fault - 1])
        return fault - 1

    def _chains(self, seen: _Seen, fault: int) -> Chains:
        window = self._window
        near_s = int(seen.fields.seconds[fault - 1]) if fault else self._near_s
        return Chains(window.data, window.end, self._dialect, final=window.ended, near_s=near_s)

    @staticmethod
    def _search_from(seen: _Seen, fault: int) -> int:
        """Return the position at which the search after a fault begins.

        It is behind the header of the record before the fault, because the length of that record may be wrong.
        """
        return int(seen.at[fault - 1]) + RECORD_HEADER_BYTES if fault else int(seen.at[fault]) + 1

    @staticmethod
    def _arrival(seen: _Seen, fault: int, position: int) -> int:
        """Return the index of the record at `position`, if the lengths of records lead there; otherwise 0.

        Headers of zeros are each followed by the next header, so they prove nothing.
        """
        index = int(np.searchsorted(seen.at, position))
        there = index < len(seen.at) and int(seen.at[index]) == position and index > fault
        return index if there and not seen.fields.hollow()[fault:index].any() else 0

    def _resume(self, seen: _Seen, fault: int, position: int) -> int:
        """Continue reading at `position` after a fault; return the number of records to accept before it."""
        kept = fault
        if fault and not (position >= seen.at[fault] and self._is_complete(seen, fault - 1)):
            kept = fault - 1
        window = self._window
        reason = self._what_is_wrong(seen, fault if self._too_long(seen)[fault] else kept)
        if self._damage.is_too_much:
            self._reason, self.done = reason, True
        elif position > seen.at[kept]:
            self._damage.lost(window.offset_of(int(seen.at[kept])), window.offset_of(position), reason)
        window.begin = position
        return kept

    def _is_complete(self, seen: _Seen, index: int) -> bool:
        """Return whether the record with this index is plausible and has its expected captured length."""
        as_expected = seen.fields.complete(self._dialect) & ~flagged(seen.fields, self._dialect)
        return bool(as_expected[index])

    def _nothing_behind(self, seen: _Seen, fault: int, too_long: Mask) -> int:
        """Return how many records to accept if the window has no chain after the fault."""
        if self._only_zeros(seen, fault):
            too_long[fault] = True
        if not too_long[fault:].any():
            return seen.complete  # they are strange, and no others are better
        if (flagged(seen.fields, self._dialect) & ~seen.fields.blank()).mean() > 0.5:
            fault = int(np.argmax(too_long))  # the whole file is strange
        self._lost = self._window.offset_of(int(seen.at[fault])), self._what_is_wrong(seen, fault)
        self._leave_searched()
        return fault

    @staticmethod
    def _only_zeros(seen: _Seen, fault: int) -> bool:
        """Return whether only zeros follow the fault.

        An interrupted write leaves zeros, also within a header.
        """
        blank = seen.fields.blank()[fault:]
        return bool(blank[1:].all()) and (bool(blank[0]) or len(blank) > CHAIN)

    def _seek(self, begin: int, reason: str) -> None:
        """Move the window to the next chain in it; the bytes before the chain are lost for `reason`."""
        window = self._window
        chains = Chains(window.data, window.end, self._dialect, final=window.ended, near_s=self._near_s)
        position = chains.first(window.begin)
        if position is None:
            self._leave_searched()
        else:
            self._damage.lost(begin, window.offset_of(position), reason)
            self._lost, window.begin = None, position

    def _leave_searched(self) -> None:
        """Discard the searched part of the window, except its end, where a chain may begin."""
        window = self._window
        window.begin = window.end if window.ended else max(window.begin, window.end - OVERLAP_BYTES)

    def _what_is_wrong(self, seen: _Seen, index: int) -> str:
        offset = self._window.offset_of(int(seen.at[index]))
        where = f"the record at byte {offset}"
        if seen.fields.blank()[index]:
            return f"the file contains only zeros from byte {offset}"
        if not self._too_long(seen)[index]:
            return f"{where} is damaged"
        return f"{where} has an invalid length of {seen.fields.captured[index]} bytes, longer than any packet"

    def _skip_oversized(self, seen: _Seen) -> PacketRecords:
        """Skip a record that is larger than the window.

        Return its header fields as a record without bytes.
        """
        window, offset = self._window, self._window.offset
        length = self._dialect.header_bytes + int(seen.fields.captured[0])
        records = self._records(seen, 1)
        records.captured[:] = 0
        if window.skip(length) < length:
            self._reason, self.done = f"the record at byte {offset} is cut off", True
            self.without_time = 0
            return records.first(0)
        return records


def _walk(window: StreamWindow, dialect: Dialect) -> Numbers:
    """Return the positions of the complete records in the window, and move the window past them."""
    if dialect.swapped:
        return np.array(_step_by_step(window, dialect, most=_ALL), np.int64)
    sample = _step_by_step(window, dialect, most=_SAMPLE)
    starts, window.begin = walk_lanes(window.data, window.begin, window.end, dialect, sample=sample)
    rest = _step_by_step(window, dialect, most=_ALL)
    return np.concatenate([np.array(sample, np.int64), starts, np.array(rest, np.int64)])


def _step_by_step(window: StreamWindow, dialect: Dialect, *, most: int) -> list[int]:
    """Return the positions of up to `most` complete records, and move the window past them."""
    lengths = struct.Struct(dialect.order + "II").unpack_from
    view, at, end, header = window.view, window.begin, window.end, dialect.header_bytes
    swapped = dialect.swapped
    starts: list[int] = []
    append = starts.append
    while at + header <= end and len(starts) < most:
        captured, original = lengths(view, at + 8)
        following = at + header + (min(captured, original) if swapped else captured)
        if following > end:
            break
        append(at)
        at = following
    window.begin = at
    return starts
