"""When sessions and peers need attention: one live entry each, regardless of how often it was re-armed."""

from __future__ import annotations

import heapq
from typing import Generic, Protocol, TypeVar

_SLACK = 64
"""Cancelled timers in the heap before it is made again: keeps small heaps from being remade often."""


class Timed(Protocol):
    """An object with a timer."""

    due_ns: int | None
    """When its entry fires, None if it has none."""


T = TypeVar("T", bound=Timed)


class Timers(Generic[T]):
    """A heap of timers."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, T]] = []
        self._count = 0
        self._dead = 0

    @property
    def next_ns(self) -> int | None:
        """When the next entry fires; it may be a dead one."""
        return self._heap[0][0] if self._heap else None

    def arm(self, timed: T, when_ns: int) -> None:
        """Fire no later than `when_ns`; an earlier entry stays and checks again when it fires."""
        if timed.due_ns is not None:
            if timed.due_ns <= when_ns:
                return
            self._dead += 1
        timed.due_ns = when_ns
        self._count += 1
        heapq.heappush(self._heap, (when_ns, self._count, timed))

    def disarm(self, timed: T) -> None:
        """Remove its timer."""
        if timed.due_ns is None:
            return
        timed.due_ns = None
        self._dead += 1
        if self._dead > len(self._heap) // 2 + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].due_ns == entry[0]]
            heapq.heapify(self._heap)
            self._dead = 0

    def pop(self, now_ns: int) -> T | None:
        """Return an object whose timer is due, None if there is none."""
        while self._heap and self._heap[0][0] <= now_ns:
            when_ns, _, timed = heapq.heappop(self._heap)
            if timed.due_ns == when_ns:
                timed.due_ns = None
                return timed
            self._dead -= 1
        return None
