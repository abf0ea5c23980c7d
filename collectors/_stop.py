"""When a collector ends: a signal, the end of its time, or the end of the process that started it."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Waits for instants of CLOCK_MONOTONIC, and knows when there is nothing more to wait for.

    Parameters
    ----------
    duration_ns : int, optional
        End after this time.
    outlive_parent : bool
        Go on when the process that started this one ends. Its end is noticed within a second; the parent is
        asked after, because the signal that Linux offers for it comes when a *thread* of the parent ends.
    """

    def __init__(self, *, duration_ns: int | None = None, outlive_parent: bool = False) -> None:
        self._end_ns = None if duration_ns is None else time.monotonic_ns() + duration_ns
        self._parent = None if outlive_parent else os.getppid()
        self._look_ns = 0
        self.reason: str | None = None
        """Why the collector ends; None while it goes on."""

    def __enter__(self) -> Self:
        self._wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakers = (self._wake, wake)
        self._handlers = [(number, signal.signal(number, self._on_signal)) for number in _SIGNALS]
        self._wakeup = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers:
            signal.signal(number, handler)
        for descriptor in self._wakers:
            os.close(descriptor)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.reason = signal.Signals(number).name

    def wait(self, until_ns: int) -> bool:
        """Wait until an instant, which may have passed; return whether to go on."""
        while self._goes_on():
            left_ns = min(until_ns, self._look_ns, self._end_ns or until_ns) - time.monotonic_ns()
            select.select([self._wake], [], [], max(0, left_ns) / NS_PER_S)
            if time.monotonic_ns() >= until_ns:
                return self._goes_on()
        return False

    def _goes_on(self) -> bool:
        now = time.monotonic_ns()
        if self.reason is None and self._end_ns is not None and now >= self._end_ns:
            self.reason = "duration"
        if now >= self._look_ns:
            self._look_ns = now + NS_PER_S
            if self.reason is None and self._parent not in (None, os.getppid()):
                self.reason = "parent ended"
        return self.reason is None
