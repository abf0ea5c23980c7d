"""The signals that end a recording, in a form that a loop can wait for."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType, TracebackType
    from typing import Self

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Catches SIGINT, SIGTERM and, unless `nohup` ignores it, SIGHUP; wakes also when a child ends."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        """Names of the signals that came, in order."""

    def __enter__(self) -> Self:
        self._wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._pipe = (self._wake, wake)
        taken = [n for n in _ENDING if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
        self._handlers = [(number, signal.signal(number, self._take)) for number in taken]
        self._handlers.append((signal.SIGCHLD, signal.signal(signal.SIGCHLD, _nothing)))
        self._before = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers:
            signal.signal(number, handler)
        for descriptor in self._pipe:
            os.close(descriptor)

    def _take(self, number: int, _: FrameType | None) -> None:
        self.taken.append(signal.Signals(number).name)

    def wait(self, timeout_ns: int, sources: Sequence[int] = ()) -> list[int]:
        """Wait for a signal, a source that can be read, or the end of the time; return those sources."""
        ready, _, _ = select.select([self._wake, *sources], [], [], max(0, timeout_ns) / NS_PER_S)
        if self._wake in ready:
            while _drain(self._wake):
                pass
        return [source for source in ready if source != self._wake]


def _nothing(_: int, __: FrameType | None) -> None:
    """Do nothing: the handler only makes SIGCHLD write to the wake-up pipe."""


def _drain(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, 512))
    except BlockingIOError:
        return False
