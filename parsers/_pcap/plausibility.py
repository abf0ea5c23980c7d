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
        """Return where lengths and fraction have values that a record may have."""
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
        """Return where a record holds the complete packet, or as much of it as the snap length allows."""
        intact: Mask = (self.captured == self.original) | (self.captured == dialect.snap_length)
        return intact

    def blank(self) -> Mask:
        """Return where a header is all zeros: zeros are frequent in a packet's payload."""
        empty: Mask = (self.original | self.captured | self.seconds | self.fraction) == 0
        return empty

    def hollow(self) -> Mask:
        """Return where a header is all zeros, or has no captured bytes and a time far from the previous."""
        empty: Mask = self.captured == 0
        empty[:1] = False
        empty[1:] &= np.abs(np.diff(self.seconds)) > NEAR_S
        hollow: Mask = empty | self.blank()
        return hollow


def flagged(fields: RecordHeaderFields, dialect: Dialect) -> Mask:
    """Return where a record is not sane, or far in time from the previous one.

    Returns
    -------
    ndarray of bool, shape (n_records,)
    """
    out = ~fields.sane(dialect)
    out[1:] |= np.abs(np.diff(fields.seconds)) > NEAR_S
    return out


def doubtful(fields: RecordHeaderFields, dialect: Dialect, *, ends_well: bool) -> tuple[Mask, Mask]:
    """Return which unexpected records the next ones do not confirm, and which have too few to decide.

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
    near = np.append(
        np.abs(np.diff(fields.seconds, prepend=fields.seconds[0])) <= NEAR_S, np.ones(CHAIN, bool)
    )
    held = good[1 : n + 1].copy()
    for ahead in range(2, CHAIN + 1):
        held &= (good & near)[ahead : n + ahead]
    held[1:] &= ~fields.hollow()[1:] | fields.complete(dialect)[:-1]
    open_end = np.arange(n) + CHAIN >= n
    return unexpected & ~held, unexpected & open_end & (not ends_well)


class Chains:
    """Finds the chains of plausible records in `data[begin:end]`.

    Parameters
    ----------
    final : bool
        The stream ends at `end`.
    near_s : int or None
        Seconds of a record that was believed; a chain is within ten years of it, one of fewer than three
        records, which must end exactly where the stream does, within a month.
    """

    def __init__(self, data: Bytes, end: int, dialect: Dialect, *, final: bool, near_s: int | None) -> None:
        self._data, self._end, self._dialect = data, end, dialect
        self._final, self._near_s = final, near_s

    def first(self, begin: int) -> int | None:
        """Return where the first chain at or after `begin` begins."""
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
        """Return how many chains begin at or after `begin`."""
        return len(self._followed(self._sane_places(begin, self._end - RECORD_HEADER_BYTES + 1), times=CHAIN))

    def begin_at(self, places: Numbers) -> Mask:
        """Return at which places (int64, shape (n,)) a chain begins: bool, shape (n,)."""
        inside = (places > 0) & (places + RECORD_HEADER_BYTES <= self._end)
        here = places[inside]
        sane = here[RecordHeaderFields.of(self._data, here, self._dialect).sane(self._dialect)]
        followed = self._followed(sane[self._is_within(sane, _FAR_S)], times=CHAIN)
        begins: Mask = np.isin(places, followed) & inside
        return begins

    def _sane_places(self, begin: int, end: int) -> Numbers:
        """Return positions in [`begin`, `end`) with lengths and fraction that a record may have."""
        if end <= begin:
            return np.empty(0, np.int64)
        fraction, captured, original = (
            np.ndarray(
                (end - begin,), self._dialect.order + "u4", self._data, offset=begin + skip, strides=(1,)
            )
            for skip in (4, 8, 12)
        )
        good = (captured <= LARGEST_PACKET) & (original - np.uint32(1) < LARGEST_PACKET)
        here = np.flatnonzero(good)
        here = here[fraction[here] < self._dialect.ticks_per_second]
        if not self._dialect.swapped:
            here = here[captured[here] <= original[here]]
        return here + begin

    def _followed(self, places: Numbers, *, times: int) -> Numbers:
        """Return the positions whose record is followed by the given number of plausible ones.

        A file that ends exactly after a record, near the expected time, confirms it as well.
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
        """Return which records are close enough to the expected time."""
        if self._near_s is None:
            return np.ones(len(at), bool)
        near: Mask = (
            np.abs(RecordHeaderFields.of(self._data, at, self._dialect).seconds - self._near_s) <= most_s
        )
        return near
