"""Ctrl-C, kill and a lost terminal: noted first, obeyed where the run can end without unfinished work."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What users, shells and lost terminals send."""


class InterruptedRunError(BaseException):
    """The user asked the run to end: not an error, so `except Exception` must not catch it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


class Interruption:
    """Notes signals while the context lasts; `wake` becomes readable when one comes."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        """The first one."""
        self.count = 0
        self.wake = -1

    def __enter__(self) -> Self:
        self.wake, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        obeyed = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = [(number, signal.signal(number, self._note)) for number in obeyed]
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before:
            signal.signal(number, handler)
        os.close(self.wake)
        os.close(self._write)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.signal = self.signal or signal.Signals(number)
        self.count += 1

    @property
    def reason(self) -> str:
        """Why the run is over, as the manifest says it; empty if no signal has come."""
        return f"interrupted by {self.signal.name}" if self.signal is not None else ""

    def check(self) -> None:
        """Raise InterruptedRunError if a signal has come."""
        if self.signal is not None:
            raise InterruptedRunError(self.signal)
