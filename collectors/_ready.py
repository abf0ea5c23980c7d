"""The schedule of a polling collector, and its report to the recorder that the source is open."""

from __future__ import annotations

import contextlib
import os
import random

from multitracer.units import NS_PER_S

VARIABLE = "MULTITRACER_READY_FD"
"""Environment variable with the descriptor of the pipe; the recorder has the same constant."""
_LINE = b"ready\n"


def ready() -> None:
    """Report once to the recorder that the source is open: all later data are recorded."""
    descriptor = os.environ.pop(VARIABLE, "")
    if not descriptor.isdecimal():
        return
    with contextlib.suppress(OSError):  # the recorder is gone: that is noticed elsewhere
        os.write(int(descriptor), _LINE)
        os.close(int(descriptor))


# When a polling collector reads.


class Schedule:
    """Absolute times of the rounds, so that one late round does not delay the next rounds."""

    def __init__(self, *, hz: float, poisson: bool, start_ns: int) -> None:
        self._mean_ns = NS_PER_S / hz
        self._poisson = poisson
        self._random = random.SystemRandom()
        self.due_ns: float = start_ns

    def advance(self, now_ns: int) -> int:
        """Advance to the next round after `now_ns`; return the number of skipped rounds."""
        passed = -1
        while passed < 0 or self.due_ns <= now_ns:
            self.due_ns += self._random.expovariate(1 / self._mean_ns) if self._poisson else self._mean_ns
            passed += 1
        return passed
