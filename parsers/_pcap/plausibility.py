"""How plausible it is that bytes are a pcap record, and where reading continues after damage.

A record has no magic number. But its lengths and its fraction of a second are small numbers, its time is near
that of its neighbours, and it ends where the next one begins: three such records in a row do not occur by
chance (each has some 40 bits with expected values).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import NOT_A_TIME
from parsers._capture.bounds import LARGEST_PACKET
from parsers._packets.layers import rows
from parsers._pcap.dialect import NEAR_S, RECORD_HEADER_BYTES

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers
    from parsers._packets.layers import Bytes
    from parsers._pcap.dialect import Dialect

_FAR_S = 10 * 365 * 86_400
"""Nor is what follows damage further from what precedes it: else it is a pattern in the damage."""
CHAIN = 3
"""Number of consecutive plausible records that are accepted at any position."""
OVERLAP_BYTES = (CHAIN + 1) * (LARGEST_PACKET + 64)
"""A chain that begins at least this far before the end of a window is completely inside it."""
_FIRST_CHUNK_BYTES, _LARGEST_CHUNK_BYTES = 2048, 256 * 1024


class RecordHeaderFields(NamedTuple):
    """Header fields of n records; int64, shape (n,). Masks of its methods are bool, shape (n,)."""

    seconds: Numbers
    fraction: Numbers
    captured: Numbers
    original: Numbers

    @classmethod
    def of(cls, data: Bytes, at: Numbers, dialect: Dialect) -> RecordHeaderFields:
        """Return the fields of the records that begin at `at`: int64, positions in `data`, shape (n,)."""
        words = rows(data, at, RECORD_HEADER_BYTES).view(dialect.order + "u4").reshape(-1, 4).astype(np.int64)
        captured, original = words[:, 2], words[:, 3]
        if dialect.swapped:
            captured, original = np.minimum(captured, original), np.maximum(captured, original)
        return cls(words[:, 0], words[:, 1], captured, original)

    def sane(self, dialect: Dialect) -> Mask:
        """Return a mask of the records whose lengths and fraction of a second have possible values."""
        good: Mask = (self.captured <= self.original) & (self.original > 0)
        good &= self.original <= LARGEST_PACKET
        good &= self.fraction < dialect.ticks_per_second
        return good

    def times_ns(self, dialect: Dialect) -> Numbers:
        """Return the times in ns since 1970; NOT_A_TIME where the fraction is a second or more."""
        times = self.seconds * 1_000_000_000 + self.fraction * dialect.magic.tick_ns
        wrong = self.fraction >= dialect.ticks_per_second
        if wrong.any():
            times[wrong] = NOT_A_TIME
        return times

    def complete(self, dialect: Dialect) -> Mask:
        """Return a mask of the records that have the complete packet, or all that the snap length allows."""
        intact: Mask = (self.captured == self.original) | (self.captured == dialect.snap_length)
        return intact

    def blank(self) -> Mask:
        """Return a mask of the headers that consist of zeros; zeros are frequent in packets."""
        empty: Mask = (self.original | self.captured | self.seconds | self.fraction) == 0
        return empty

    def hollow(self) -> Mask:
        """Return a mask of the headers that prove nothing.

        They consist of zeros, or have no captured bytes and a time far from that of the previous record.
        """
        empty: Mask = self.captured == 0
        empty[:1] = False
        empty[1:] &= np.abs(np.diff(self.seconds)) > NEAR_S
        hollow: Mask = empty | self.blank()
        return hollow


def flagged(fields: RecordHeaderFields, dialect: Dialect) -> Mask:
    """Return a mask of the unexpected records: impossible values, or a time far from the previous record.

    Returns
    -------
    ndarray of bool, shape (n_records,)
    """
    out = ~fields.sane(dialect)
    out[1:] |= np.abs(np.diff(fields.seconds)) > NEAR_S
    return out


def doubtful(fields: RecordHeaderFields, dialect: Dialect, *, ends_well: bool) -> tuple[Mask, Mask]:
    """Return two masks of unexpected records (see `flagged`).

    The first has those that the next records do not confirm, the second those with too few next records to decide.
    `ends_well`: the last record ends exactly at the end of the file, which confirms it.

    Returns
    -------
    doubtful, undecided : ndarray of bool, shape (n_records,)
    """
    unexpected = flagged(fields, dialect)
    if not unexpected.any():
        return unexpected, unexpected
    n = len(unexpected)
    good = np.append(fields.sane(dialect), np.full(CHAIN, ends_well))
    near = np.append(np.abs(np.diff(fields.seconds, prepend=fields.seconds[0])) <= NEAR_S, np.ones(CHAIN, bool))
    held = good[1 : n + 1].copy()
    for ahead in range(2, CHAIN + 1):
        held &= (good & near)[ahead : n + ahead]
    held[1:] &= ~fields.hollow()[1:] | fields.complete(dialect)[:-1]
    open_end = np.arange(n) + CHAIN >= n
    return unexpected & ~held, unexpected & open_end & (not ends_well)


class Chains:
    """Finds chains (several plausible records, one directly after the other) in `data[begin:end]`.

    Parameters
    ----------
    final : bool
        The stream ends at `end`.
    near_s : int or None
        Time in seconds of an accepted record. A chain must be within ten years of it. A chain of fewer than
        three records must end exactly at the end of the stream, and be within a month.
    """

    def __init__(self, data: Bytes, end: int, dialect: Dialect, *, final: bool, near_s: int | None) -> None:
        self._data, self._end, self._dialect = data, end, dialect
        self._final, self._near_s = final, near_s

    def first(self, begin: int) -> int | None:
        """Return the position of the first chain at or after `begin`; None if there is none."""
        chunk = _FIRST_CHUNK_BYTES  # first small: most damage is, and a file may have much of it
        last = self._end - RECORD_HEADER_BYTES + 1
        while begin < last:
            upto = min(begin + chunk, last)
            places = self._sane_places(begin, upto)
            begins = self._followed(places[self._is_within(places, _FAR_S)], times=CHAIN)
            if len(begins):
                return int(begins[0])
            begin, chunk = upto, min(4 * chunk, _LARGEST_CHUNK_BYTES)
        return None

    def count(self, begin: int) -> int:
        """Return the number of positions from `begin` on at which a chain begins."""
        return len(self._followed(self._sane_places(begin, self._end - RECORD_HEADER_BYTES + 1), times=CHAIN))

    def begin_at(self, places: Numbers) -> Mask:
        """Return a mask of the positions (int64, shape (n,)) at which a chain begins: bool, shape (n,)."""
        inside = (places > 0) & (places + RECORD_HEADER_BYTES <= self._end)
        here = places[inside]
        sane = here[RecordHeaderFields.of(self._data, here, self._dialect).sane(self._dialect)]
        followed = self._followed(sane[self._is_within(sane, _FAR_S)], times=CHAIN)
        begins: Mask = np.isin(places, followed) & inside
        return begins

    def _sane_places(self, begin: int, end: int) -> Numbers:
        """Return the positions in [`begin`, `end`) at which lengths and fraction of a record are possible."""
        if end <= begin:
            return np.empty(0, np.int64)
        fraction, captured, original = (
            np.ndarray((end - begin,), self._dialect.order + "u4", self._data, offset=begin + skip, strides=(1,))
            for skip in (4, 8, 12)
        )
        good = (captured <= LARGEST_PACKET) & (original - np.uint32(1) < LARGEST_PACKET)
        here = np.flatnonzero(good)
        here = here[fraction[here] < self._dialect.ticks_per_second]
        if not self._dialect.swapped:
            here = here[captured[here] <= original[here]]
        return here + begin

    def _followed(self, places: Numbers, *, times: int) -> Numbers:
        """Return those positions whose record is followed by `times` plausible records.

        A record near the expected time that ends exactly at the end of the file needs none after it.
        """
        begin, at = places, places
        ended = np.empty(0, np.int64)
        for _ in range(times):
            here = RecordHeaderFields.of(self._data, at, self._dialect)
            following = at + self._dialect.header_bytes + here.captured
            ends = (following == self._end) & self._final & self._is_within(at, NEAR_S)
            ended = np.append(ended, begin[ends])
            intact = following + RECORD_HEADER_BYTES <= self._end
            begin, at, seconds = begin[intact], following[intact], here.seconds[intact]
            behind = RecordHeaderFields.of(self._data, at, self._dialect)
            good = behind.sane(self._dialect) & (np.abs(behind.seconds - seconds) <= NEAR_S)
            begin, at = begin[good], at[good]
        return np.sort(np.append(ended, begin))

    def _is_within(self, at: Numbers, most_s: int) -> Mask:
        """Return a mask of the records whose time is at most `most_s` seconds from the expected time."""
        if self._near_s is None:
            return np.ones(len(at), bool)
        near: Mask = np.abs(RecordHeaderFields.of(self._data, at, self._dialect).seconds - self._near_s) <= most_s
        return near
