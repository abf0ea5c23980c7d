"""Disjoint, half-open intervals of time in order: the result type of the rules of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import BLOCK_ROWS, distinct
from multitracer.analysis.ranges import merged, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Array


class Spans(NamedTuple):
    """Disjoint intervals [begin, end) in order, int64 ns."""

    begin: Array
    end: Array

    @classmethod
    def none(cls) -> Spans:
        """Return an empty set of intervals."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, begin: Array, end: Array) -> Spans:
        """Return the union of intervals that may overlap, in any order; empty ones are left out.

        Parameters
        ----------
        begin, end : ndarray of int64, ns, shape (n,)
        """
        return cls(*merged(np.asarray(begin, dtype=np.int64), np.asarray(end, dtype=np.int64)))

    @classmethod
    def all_of(cls, parts: Sequence[Spans]) -> Spans:
        """Return the union of several sets of intervals."""
        if len(parts) < 2:
            return parts[0] if parts else cls.none()
        return cls.of(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def holds(self, points: Array) -> Array:
        """Return which points (int64, ns, shape (n,)) lie in an interval: bool, shape (n,)."""
        if not len(self.begin):
            return np.zeros(len(points), dtype=bool)
        mask: Array = within(points, self.begin, self.end) >= 0
        return mask

    def which(self, points: Array) -> Array:
        """Return the index of the interval that contains each point, -1 for none: int64."""
        return within(points, self.begin, self.end)

    def where(self, mask: Array) -> Spans:
        """Return the intervals that a mask (bool, shape (n_intervals,)) selects."""
        return Spans(self.begin[mask], self.end[mask])

    @property
    def length_ns(self) -> Array:
        """Length of each interval: int64, ns, shape (n_intervals,)."""
        lengths: Array = self.end - self.begin
        return lengths

    @property
    def total_ns(self) -> int:
        """Sum of the lengths of all intervals, in ns."""
        return int(self.length_ns.sum())

    def bridged(self, gap_ns: float) -> Spans:
        """Return the intervals with gaps of at most `gap_ns` between them filled."""
        if len(self.begin) < 2:
            return self
        wide = self.begin[1:] - self.end[:-1] > gap_ns
        first = np.concatenate([[True], wide])
        last = np.concatenate([wide, [True]])
        return Spans(self.begin[first], self.end[last])

    def union(self, other: Spans) -> Spans:
        """Return the union of both sets of intervals."""
        return Spans.of(np.concatenate([self.begin, other.begin]), np.concatenate([self.end, other.end]))

    def without(self, other: Spans) -> Spans:
        """Return the parts of the intervals that are not covered by `other`."""
        edges = distinct(np.concatenate([*self, *other]))
        begin, end = edges[:-1], edges[1:]
        kept = self.holds(begin) & ~other.holds(begin)
        return Spans.of(begin[kept], end[kept])

    def overlap_ns(self, begin: Array, end: Array) -> Array:
        """Return how much of each given interval [begin, end) is covered by these intervals: int64, ns."""
        if not len(self.begin):
            return np.zeros(len(begin), dtype=np.int64)
        length_ns, overlap_ns = self.length_ns, np.empty(len(begin), dtype=np.int64)
        passed = np.cumsum(length_ns) - length_ns
        for first in range(0, len(begin), BLOCK_ROWS):
            here = slice(first, first + BLOCK_ROWS)
            points, many = np.concatenate([begin[here], end[here]]), len(begin[here])
            at = np.searchsorted(self.begin, points, side="right") - 1
            place = np.maximum(at, 0)
            inside = np.minimum(np.maximum(points - self.begin[place], 0), length_ns[place])
            before = np.where(at < 0, 0, passed[place] + inside)  # how much of them lies before each point
            np.subtract(before[many:], before[:many], out=overlap_ns[here])
        return overlap_ns
