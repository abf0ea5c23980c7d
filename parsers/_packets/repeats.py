"""Whether packets of a capture seem to be captured more than once: a first test that each capture pays for.

A copy has the content of a segment that was captured shortly before. So a small table remembers the last segments by
a hash of their content, without addresses, ports and VLAN, which a copy may have different: a segment that finds its
own content there *repeats* it. That alone proves nothing: a duplicate ACK repeats the one before, and so does a
retransmission without timestamps and IP identification. If there are enough repeats, `duplicates.py` looks at the
whole capture. `native/core/src/repeats.rs` is the same test, and lets Python read a file that does not pass it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from multitracer.tables import Array, Mask

    Words = NDArray[np.uint64]

SPACING_NS = 200_000_000
"""Maximum time between two copies of a packet, ns: the minimum RTO of Linux, after which a sender may send a segment
again although nothing arrived. Copies at points in one host or switch are microseconds apart, but a queue
between the points may hold a packet for long."""
ALL_OF = 1 << 15
"""Number of segments of a capture that are all compared; of later ones one in 2^`_SAMPLE_BITS`, chosen by content, so
that copies are chosen together. Comparing takes 50 ns a segment, and a capture with copies has them from the start."""
_SAMPLE_BITS = 6
_SLOT_BITS = 10
"""Size of the table: some hundred segments may lie between two copies, and 64 times as many in the sample. The copies
of most packets of a capture are microseconds apart; those that are missed prove no less of the others."""
_CARRYING_SHARE = 1000
"""One segment with data, SYN or FIN in so many must be a repeat: fewer change no number by more than 0.1 %."""
_BARE_SHARE, _FEWEST_BARE = 10, 3
"""One ACK without data in so many, and at least so many: duplicate ACKs repeat one another, which is no reason to look
further unless they are many."""
_FACTORS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x270892D2C68F2B2D)))
"""Odd numbers without a pattern of bits, as in the hash functions of Fibonacci hashing and xxHash."""
_SAMPLE_FACTOR = np.uint32(0x9E3779B1)
"""The same for 32 bits."""
_CARRIES = np.uint16(Flag.SYN | Flag.FIN)
_RESET = np.uint16(Flag.RST)


def _mixed(value: Words, factor: int) -> Words:
    product = value * _FACTORS[factor]
    product ^= product >> np.uint64(29)
    return product


def _wide(column: Array, shift: int = 0) -> Words:
    return column.astype(np.uint64) << np.uint64(shift)


def content(columns: Mapping[str, Array]) -> Words:
    """Return a hash of what each segment holds, without its flow: uint64, shape (n_segments,)."""
    numbers = _wide(columns["seq"]) | _wide(columns["ack"], 32)
    stamps = _wide(columns["tsval"]) | _wide(columns["tsecr"], 32)
    payload = columns["payload_bytes"].astype(np.int32).view(np.uint32)
    rest = _wide(payload) | _wide(columns["flags"], 32) | _wide(columns["window"], 41)
    return _mixed(_mixed(_mixed(_mixed(numbers, 0) + stamps, 1) + rest, 2) + _wide(columns["ip_id"]), 3)


def _sample(columns: Mapping[str, Array]) -> Mask:
    """Return which segments are compared where not all are: by sequence and ACK number, which copies share."""
    numbers = columns["seq"].astype(np.uint32)
    numbers ^= columns["ack"].astype(np.uint32, copy=False)
    numbers *= _SAMPLE_FACTOR
    chosen: Mask = numbers < np.uint32(1 << (32 - _SAMPLE_BITS))
    return chosen


def carries(columns: Mapping[str, Array]) -> Mask:
    """Return a mask of the segments that a receiver must acknowledge: with data, SYN or FIN, and without RST."""
    flags = columns["flags"].astype(np.uint16)
    carrying: Mask = ((columns["payload_bytes"] > 0) | (flags & _CARRIES != 0)) & (flags & _RESET == 0)
    return carrying


class RepeatCounter:
    """Counts the segments of a capture whose content was captured shortly before."""

    def __init__(self) -> None:
        self._segments = 0
        self._key = np.zeros(1 << _SLOT_BITS, np.uint64)
        self._time_ns = np.full(1 << _SLOT_BITS, NOT_A_TIME, np.int64)
        self._compared, self._repeated = [0, 0], [0, 0]
        """Of segments with data, SYN or FIN, and of others."""

    @property
    def are_many(self) -> bool:
        """Whether copies may be among the segments so far."""
        (carrying, bare), (of_carrying, of_bare) = self._repeated, self._compared
        many = carrying > 0 and carrying * _CARRYING_SHARE >= of_carrying
        return many or (bare >= _FEWEST_BARE and bare * _BARE_SHARE >= of_bare)

    def note(self, columns: Mapping[str, Array]) -> None:
        """Compare the next segments, with columns of SEGMENTS."""
        before = self._segments
        self._segments += len(columns["seq"])
        if self._segments > ALL_OF:
            mask = _sample(columns)
            mask[: max(ALL_OF - before, 0)] = True
            chosen = np.flatnonzero(mask)
            part = {name: columns[name][chosen] for name in _USED}
        else:
            part = dict(columns)
        key, time_ns = content(part), part["time_ns"]
        again, carrying = self._recurring(key, time_ns), carries(part)
        for kind, mask in enumerate((carrying, ~carrying)):
            self._compared[kind] += int(np.count_nonzero(mask))
            self._repeated[kind] += int(np.count_nonzero(mask & again))

    def _recurring(self, key: Words, time_ns: Array) -> Mask:
        """Return which segments find their own content in their slot; each takes its slot over."""
        key, time_ns = np.concatenate([self._key, key]), np.concatenate([self._time_ns, time_ns])
        slot = (key >> np.uint64(64 - _SLOT_BITS)).astype(np.uint16)
        slot[: len(self._key)] = np.arange(len(self._key))
        order = np.argsort(slot, kind="stable")
        before, after = order[:-1], order[1:]
        is_same = (slot[before] == slot[after]) & (key[before] == key[after])
        is_same &= within(time_ns[after] - time_ns[before], SPACING_NS)
        again = np.zeros(len(key), np.bool_)
        again[after[is_same]] = True
        last = np.append(slot[before] != slot[after], True)
        self._key, self._time_ns = key[order[last]], time_ns[order[last]]
        return again[len(self._key) :]


_USED = ("seq", "ack", "tsval", "tsecr", "payload_bytes", "flags", "window", "ip_id", "time_ns")


def within(distance_ns: Array, bound_ns: int | Array) -> Mask:
    """Return which times between segments are at most a bound, whichever was first; both in ns."""
    near: Mask = (distance_ns <= bound_ns) & (distance_ns >= -bound_ns)
    return near
