"""Future events: calls in the order of their time and, at one time, in the order of scheduling."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from multitracer.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[int], None]


class Agenda:
    """A queue of calls; `advance` makes those that are due, each with its own time."""

    def __init__(self) -> None:
        self.now_ns = 0
        """Time of the call that is being made, or up to which all were."""
        self.next_ns: int | None = None
        """When the next call is due."""
        self._calls: list[tuple[int, int, Call]] = []
        self._scheduled = 0

    def at(self, time_ns: int, call: Call) -> None:
        """Make `call` at `time_ns`, which is not in the past."""
        if time_ns < self.now_ns:
            raise LocalProtocolError(f"agenda: {time_ns} ns is over, it is {self.now_ns} ns")
        heapq.heappush(self._calls, (time_ns, self._scheduled, call))
        self._scheduled += 1
        self.next_ns = self._calls[0][0]

    def advance(self, now_ns: int) -> None:
        """Make all calls up to `now_ns`; a time before that of the last call changes nothing."""
        calls = self._calls
        while calls and calls[0][0] <= now_ns:
            self.now_ns, _, call = heapq.heappop(calls)
            self.next_ns = calls[0][0] if calls else None
            call(self.now_ns)
        self.now_ns = max(self.now_ns, now_ns)
