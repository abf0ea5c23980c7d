"""When a collector ends: at a signal, after its time, or with the process that started it.

The signals are SIGTERM, SIGINT and SIGHUP (a closed terminal; ignored if it was started by `nohup`).
It may also be told tags on standard input, a line each (`--tags`): those of the clapperboard, which every log
of a recording holds at one instant.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from typing import TYPE_CHECKING

from collectors._kernel_clock import SetAlarm
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType, TracebackType
    from typing import Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STANDARD_INPUT = 0
_READ_BYTES = 4096
_TAG = re.compile(rb"[0-9a-f]{1,32}")


class Stop:
    """Waits for instants of CLOCK_MONOTONIC, and knows when the collector must end.

    Parameters
    ----------
    duration_ns : int, optional
        End after this time.
    outlive_parent : bool
        Go on when the process that started this one ends. Its end is noticed within a second; the parent is
        asked after, because the signal that Linux offers for it comes when a *thread* of the parent ends.
    tags : bool
        Take tags on standard input, and end when it ends: then the parent is gone.
    """

    def __init__(
        self, *, duration_ns: int | None = None, outlive_parent: bool = False, tags: bool = False
    ) -> None:
        self._end_ns = None if duration_ns is None else time.monotonic_ns() + duration_ns
        self._parent = None if outlive_parent else os.getppid()
        self._look_ns = 0
        self._tags = tags
        self._rest = b""
        self.on_tag: Callable[[str], None] = lambda tag: None
        """Called with each tag while waiting."""
        self.on_set: Callable[[], None] = lambda: None
        """Called while waiting as soon as somebody has set CLOCK_REALTIME."""
        self.reason: str | None = None
        """Why the collector ends; None while it goes on."""

    def __enter__(self) -> Self:
        self._wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakers = (self._wake, wake)
        self._alarm = SetAlarm()
        taken = [n for n in _SIGNALS if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
        self._handlers = [(number, signal.signal(number, self._on_signal)) for number in taken]
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
        self._alarm.close()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.reason = self.reason or signal.Signals(number).name

    def wait(self, until_ns: int, *, readable: Sequence[int] = ()) -> bool:
        """Wait until an instant, which may have passed, or for a descriptor; return whether to go on."""
        while self._goes_on():
            left_ns = min(until_ns, self._look_ns, self._end_ns or until_ns) - time.monotonic_ns()
            sources = [self._wake, *readable, *self._alarm.descriptors]
            sources += [_STANDARD_INPUT] if self._tags else []
            ready, _, _ = select.select(sources, [], [], max(0, left_ns) / NS_PER_S)
            if set(self._alarm.descriptors).intersection(ready) and self._alarm.take():
                self.on_set()
            if self._tags and _STANDARD_INPUT in ready:
                self._take_tags()
            if time.monotonic_ns() >= until_ns or set(readable).intersection(ready):
                return self._goes_on()
        return False

    def _take_tags(self) -> None:
        """Read the lines of the parent process; the end of its pipe ends the collector."""
        control = os.read(_STANDARD_INPUT, _READ_BYTES)
        *lines, rest = (self._rest + control).split(b"\n")
        self._rest = rest[-_READ_BYTES:]
        for line in lines:
            if _TAG.fullmatch(line):
                self.on_tag(line.decode())
        if not control:
            self._tags = False
            self.reason = self.reason or "parent ended"

    def _goes_on(self) -> bool:
        now = time.monotonic_ns()
        if self.reason is None and self._end_ns is not None and now >= self._end_ns:
            self.reason = "duration"
        if now >= self._look_ns:
            self._look_ns = now + NS_PER_S
            if self.reason is None and self._parent not in (None, os.getppid()):
                self.reason = "parent ended"
        return self.reason is None
