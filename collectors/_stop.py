"""Decides when a collector ends: at a signal, after its duration, or with the process that started it.

The signals are SIGTERM, SIGINT and SIGHUP (a closed terminal; ignored if it was started by `nohup`). With
`--tags`, the collector also reads tags of sync probes from standard input, one in each line; all logs of a
recording contain the same tag at the same time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import select
import signal
import time
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType, TracebackType
    from typing import Self

# The kernel's clocks: three read together, how well they are disciplined, and whether one was set.
#
# Source: clock_gettime(2), adjtimex(2), timerfd_create(2). Python 3.11 wraps neither of the last two.


_LIBC = ctypes.CDLL(None, use_errno=True)
_STA_UNSYNC, _STA_NANO = 0x0040, 0x2000
_TIME_ERROR = 5
_NS_PER_US = 1000
_TFD_TIMER_ABSTIME, _TFD_TIMER_CANCEL_ON_SET = 1, 2
_NEVER_S = 1 << 40
_PPM = 65_536


class _Timeval(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("microseconds", ctypes.c_long)]


class _Timex(ctypes.Structure):
    """`struct timex` of linux/timex.h."""

    _fields_ = [
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long), ("esterror", ctypes.c_long), ("status", ctypes.c_int),
        ("constant", ctypes.c_long), ("precision", ctypes.c_long), ("tolerance", ctypes.c_long),
        ("time", _Timeval), ("tick", ctypes.c_long), ("ppsfreq", ctypes.c_long), ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int), ("stabil", ctypes.c_long), ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long), ("errcnt", ctypes.c_long), ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int), ("reserved", ctypes.c_int * 11),
    ]  # fmt: skip


class _Itimerspec(ctypes.Structure):
    _fields_ = [("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2)]


def read_together() -> dict[str, int]:
    """Return realtime and boottime between two readings of monotonic, in ns: the best of three attempts."""
    return min((_read_once() for _ in range(3)), key=_bracket_ns)


def _bracket_ns(reading: dict[str, int]) -> int:
    return reading["monotonic_after_ns"] - reading["monotonic_before_ns"]


def _read_once() -> dict[str, int]:
    before = time.monotonic_ns()
    realtime = time.time_ns()
    boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    after = time.monotonic_ns()
    return {
        "monotonic_before_ns": before,
        "realtime_ns": realtime,
        "monotonic_after_ns": after,
        "boottime_ns": boottime,
    }


def discipline() -> dict[str, object]:
    """Return the state of the clock as NTP, chrony or PTP set it in the kernel; empty if not available."""
    timex = _Timex()
    state = _LIBC.adjtimex(ctypes.byref(timex))
    if state < 0:
        return {}
    unit_ns = 1 if timex.status & _STA_NANO else _NS_PER_US
    return {
        "synchronized": int(state != _TIME_ERROR and not timex.status & _STA_UNSYNC),
        "offset_ns": timex.offset * unit_ns,
        "max_error_ns": timex.maxerror * _NS_PER_US,
        "est_error_ns": timex.esterror * _NS_PER_US,
        "frequency_ppm": timex.freq / _PPM,
        "tai_offset_s": timex.tai,
    }


class SetAlarm:
    """A descriptor that becomes readable when CLOCK_REALTIME is set; never without timerfd."""

    def __init__(self) -> None:
        self._descriptor = _LIBC.timerfd_create(time.CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC)
        self._arm()

    @property
    def descriptors(self) -> list[int]:
        """Return the file descriptors to wait for."""
        return [self._descriptor] if self._descriptor >= 0 else []

    def take(self) -> bool:
        """Return whether the clock was set since the last call."""
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
            self._arm()
            return True
        return False

    def close(self) -> None:
        """Close the descriptor."""
        for descriptor in self.descriptors:
            os.close(descriptor)

    def _arm(self) -> None:
        never = _Itimerspec((0, 0), (_NEVER_S, 0))
        flags = _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET
        if self._descriptor >= 0:
            _LIBC.timerfd_settime(self._descriptor, flags, ctypes.byref(never), None)


_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Make the kernel end this process with the one that started it (`preexec_fn` of a collector with one thread)."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STANDARD_INPUT = 0
PARENT_ENDED = "parent ended"
"""The reason when the process that started the collector has ended."""
_ORDERLY_S = 4.0
"""Maximum time in s to end in order after the end of the parent; the kernel then kills the collector (SIGALRM)."""
_READ_BYTES = 4096
_TAG = re.compile(rb"[0-9a-f]{1,32}")


class Stop:
    """Waits until a time of CLOCK_MONOTONIC, and detects when the collector must end.

    Parameters
    ----------
    duration_ns : int, optional
        End after this time.
    outlive_parent : bool
        Whether to continue when the parent process ends. By default its end is detected within a second by
        polling, because the signal of Linux also comes when only a *thread* of the parent ends.
    tags : bool
        Whether to read tags from standard input, and to end at the end of the input.
    """

    def __init__(self, *, duration_ns: int | None = None, outlive_parent: bool = False, tags: bool = False) -> None:
        self._end_ns = None if duration_ns is None else time.monotonic_ns() + duration_ns
        self._parent = None if outlive_parent else os.getppid()
        self._look_ns = 0
        self._tags = tags
        self._rest = b""
        self.on_tag: Callable[[str], None] = lambda tag: None
        """Function that `wait` calls with each tag."""
        self.on_set: Callable[[], None] = lambda: None
        """Function that `wait` calls as soon as CLOCK_REALTIME was set."""
        self.reason: str | None = None
        """Reason why the collector ends; None while it runs."""

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
        """Wait until a time or until a descriptor is readable; return False if the collector must end."""
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
            self._note_end_of_parent()

    def _note_end_of_parent(self) -> None:
        """Set the reason, and a timer of the kernel: nobody else would kill a collector that cannot end."""
        if self.reason is None:
            self.reason = PARENT_ENDED
            signal.setitimer(signal.ITIMER_REAL, _ORDERLY_S)

    def _goes_on(self) -> bool:
        now = time.monotonic_ns()
        if self.reason is None and self._end_ns is not None and now >= self._end_ns:
            self.reason = "duration"
        if now >= self._look_ns:
            self._look_ns = now + NS_PER_S
            if self._parent not in (None, os.getppid()):
                self._note_end_of_parent()
        return self.reason is None
