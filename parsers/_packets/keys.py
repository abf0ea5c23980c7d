"""Numbers keys of several 64-bit words: equal keys get the same number, new ones the next.

A hash table in NumPy arrays with linear probing, looked up for a whole block at once. Keys are compared
whole, so that a collision costs time, never a wrong number; the multipliers of the hash are random, so that
nobody can prepare collisions. The cost stays linear for millions of keys.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.columns import GrowingArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from multitracer.tables import Mask, Numbers

    Words = NDArray[np.uint64]

_FIRST_SLOTS = 1 << 12
_EMPTY = -1


class KeyIndex:
    """Numbers distinct keys of `width` words, from 0 on, in the order in which they are first seen."""

    def __init__(self, width: int) -> None:
        self._multipliers: list[np.uint64] = list(
            np.frombuffer(os.urandom(8 * width + 8), np.uint64) | np.uint64(1)
        )
        self._keys = [GrowingArray("u8") for _ in range(width)]
        self._number = np.full(_FIRST_SLOTS, _EMPTY, np.int32)

    def __len__(self) -> int:
        return len(self._keys[0])

    def numbers(self, words: Sequence[Words]) -> tuple[NDArray[np.int32], Numbers]:
        """Return the number of each key, and the positions at which a new key is seen first.

        Parameters
        ----------
        words : sequence of ndarray of uint64, shape (n,)
            Word i of each key.

        Returns
        -------
        number : ndarray of int32, shape (n,)
            From 0; never NA.
        first : ndarray of int64, shape (n_new,), ascending
        """
        number = np.full(len(words[0]), _EMPTY, np.int32)
        unknown = self._look_up(words, number)
        if not len(unknown):
            return number, unknown
        words = [word[unknown] for word in words]
        first = _first_of_each(words)
        self._add([word[first] for word in words])
        numbers = np.empty(len(unknown), np.int32)
        self._look_up(words, numbers)
        number[unknown] = numbers
        return number, unknown[first]

    def _slots(self, words: Sequence[Words]) -> Numbers:
        """Return the slot in which to look for each key first."""
        mixed = words[0] * self._multipliers[0]
        for word, multiplier in zip(words[1:], self._multipliers[1:], strict=False):
            mixed ^= mixed >> np.uint64(29)
            mixed += word
            mixed *= multiplier
        mixed ^= mixed >> np.uint64(32)
        mixed *= self._multipliers[-1]
        bits = len(self._number).bit_length() - 1
        return (mixed >> np.uint64(64 - bits)).astype(np.int64)

    def _is_key(self, number: NDArray[np.int32], words: Sequence[Words]) -> Mask:
        """Return where the key with a number equals the given one."""
        same: Mask = number != _EMPTY
        if len(self):
            for key, word in zip(self._keys, words, strict=True):
                same &= key.values[number] == word
        return same

    def _look_up(self, words: Sequence[Words], numbers: NDArray[np.int32]) -> Numbers:
        """Fill in the numbers of the known keys; return the positions of the others, ascending."""
        slot = self._slots(words)
        number = self._number[slot]
        same = self._is_key(number, words)
        if same.all():
            numbers[:] = number
            return np.empty(0, np.int64)
        np.copyto(numbers, number, where=same)
        ended = number == _EMPTY
        further = np.flatnonzero(~(same | ended))
        unknown = [np.flatnonzero(ended), self._look_further(words, numbers, further, slot[further])]
        return np.sort(np.concatenate(unknown))

    def _look_further(
        self, words: Sequence[Words], numbers: NDArray[np.int32], todo: Numbers, slot: Numbers
    ) -> Numbers:
        """Probe the following slots for the keys at `todo`; return the unknown ones."""
        unknown = [todo[:0]]
        while len(todo):
            slot = (slot + 1) & (len(self._number) - 1)
            number = self._number[slot]
            same = self._is_key(number, [word[todo] for word in words])
            ended = number == _EMPTY
            numbers[todo[same]] = number[same]
            unknown.append(todo[ended])
            on = ~(same | ended)
            todo, slot = todo[on], slot[on]
        return np.concatenate(unknown)

    def _add(self, words: Sequence[Words]) -> None:
        """Add distinct keys that are not there yet; at most half of the slots are taken afterwards."""
        before = len(self)
        for key, word in zip(self._keys, words, strict=True):
            key.append(word)
        if 2 * len(self) > len(self._number):
            self._number = np.full(1 << (2 * len(self) - 1).bit_length() + 1, _EMPTY, np.int32)
            before = 0
        self._place([key.values[before:] for key in self._keys], before)

    def _place(self, words: Sequence[Words], first: int) -> None:
        """Put the keys with the numbers from `first` on into their slots."""
        slot = self._slots(words)
        todo = np.arange(first, len(self), dtype=np.int32)
        while len(todo):
            free = self._number[slot] == _EMPTY
            self._number[slot[free]] = todo[free]  # of several keys one stays
            missed = self._number[slot] != todo
            todo, slot = todo[missed], (slot[missed] + 1) & (len(self._number) - 1)


def _first_of_each(words: Sequence[Words]) -> Numbers:
    """Return the positions at which each distinct key occurs first, ascending."""
    order = np.lexsort(words)
    differs = np.zeros(len(order), bool)
    differs[0] = True
    for word in words:
        ordered = word[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    first: Numbers = np.minimum.reduceat(order, np.flatnonzero(differs))
    first.sort()
    return first
