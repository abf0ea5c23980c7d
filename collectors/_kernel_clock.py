"""The kernel's clocks: three read together, how well they are disciplined, and whether one was set.

Source: clock_gettime(2), adjtimex(2), timerfd_create(2). Python 3.11 wraps neither of the last two.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time

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
    """Return realtime and boottime between two readings of monotonic, the tightest of three."""
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
    """Return what NTP, chrony or PTP stated to the kernel of its clock; empty where it cannot be read."""
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
    """Becomes readable when CLOCK_REALTIME is set; without timerfd it never does."""

    def __init__(self) -> None:
        self._descriptor = _LIBC.timerfd_create(time.CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC)
        self._arm()

    @property
    def descriptors(self) -> list[int]:
        """The descriptors to wait for."""
        return [self._descriptor] if self._descriptor >= 0 else []

    def take(self) -> bool:
        """Return whether the clock was set since the last time."""
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
