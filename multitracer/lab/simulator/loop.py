"""Virtual time: one queue of events, run in order of time and, at one time, of scheduling."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from multitracer.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], None]


class EventLoop:
    """Calls functions at their time; no clock is read, `now_ns` jumps from event to event."""

    def __init__(self) -> None:
        self.now_ns = 0
        """Time since the start of the run."""
        self._events: list[tuple[int, bool, int, Call]] = []
        self._scheduled = 0

    @property
    def next_ns(self) -> int | None:
        """Time of the next event, None if there is none."""
        return self._events[0][0] if self._events else None

    def at(self, time_ns: int, call: Call, *, first: bool = False) -> None:
        """Call `call` at `time_ns`, which is not in the past; with `first` before the others of that time."""
        if time_ns < self.now_ns:
            raise LocalProtocolError(f"event loop: {time_ns} ns is over, it is {self.now_ns} ns")
        heapq.heappush(self._events, (time_ns, not first, self._scheduled, call))
        self._scheduled += 1

    def run(self, *, until_ns: int, stop: Callable[[], bool]) -> None:
        """Run events until `stop` holds before one, none is left, or the next one is after `until_ns`."""
        while self._events and self._events[0][0] <= until_ns and not stop():
            self.now_ns, _, _, call = heapq.heappop(self._events)
            call()
