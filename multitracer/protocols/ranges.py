"""A set of integers, stored as disjoint half-open ranges: the units that arrived or were SACKed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class RangeSet:
    """A set of integers as sorted, disjoint ranges `[left, right)`; ranges that touch are joined."""

    def __init__(self) -> None:
        self._lefts: list[int] = []
        self._rights: list[int] = []
        self.total = 0
        """Number of integers in the set."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._lefts, self._rights, strict=True))

    def __reversed__(self) -> Iterator[tuple[int, int]]:
        return zip(reversed(self._lefts), reversed(self._rights), strict=True)

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._lefts)

    @property
    def highest(self) -> int | None:
        """End (exclusive) of the last range; None if the set is empty."""
        return self._rights[-1] if self._rights else None

    def add(self, left: int, right: int) -> None:
        """Add `[left, right)`; an empty range changes nothing."""
        if left >= right:
            return
        first = bisect_left(self._rights, left)
        last = bisect_right(self._lefts, right)
        if first < last:
            left = min(left, self._lefts[first])
            right = max(right, self._rights[last - 1])
            self.total -= sum(self._rights[first:last]) - sum(self._lefts[first:last])
        self._lefts[first:last] = [left]
        self._rights[first:last] = [right]
        self.total += right - left

    def remove_below(self, bound: int) -> None:
        """Remove all integers below `bound`."""
        if not self._lefts or self._lefts[0] >= bound:  # as after nearly every segment
            return
        gone = bisect_right(self._rights, bound)
        self.total -= sum(self._rights[:gone]) - sum(self._lefts[:gone])
        del self._lefts[:gone], self._rights[:gone]
        if self._lefts and self._lefts[0] < bound:
            self.total -= bound - self._lefts[0]
            self._lefts[0] = bound

    def clear(self) -> None:
        """Remove all integers."""
        self._lefts.clear()
        self._rights.clear()
        self.total = 0

    def holding(self, value: int) -> tuple[int, int] | None:
        """Return the range that contains `value`; None if the set does not contain it."""
        i = bisect_right(self._lefts, value) - 1
        if i >= 0 and value < self._rights[i]:
            return self._lefts[i], self._rights[i]
        return None

    def covers(self, left: int, right: int) -> bool:
        """Return whether the set contains all of `[left, right)`; always True for an empty range."""
        if left >= right:
            return True
        holder = self.holding(left)
        return holder is not None and right <= holder[1]

    def above(self, value: int) -> tuple[int, int] | None:
        """Return the first range that begins above `value`; None if there is none."""
        i = bisect_right(self._lefts, value)
        return (self._lefts[i], self._rights[i]) if i < len(self._lefts) else None
