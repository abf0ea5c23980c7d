"""Times at which a polling collector reads, and its report to the recorder that its source is open."""

from __future__ import annotations

import contextlib
import os
import random

from multitracer.units import NS_PER_S

VARIABLE = "MULTITRACER_READY_FD"
"""Names the descriptor of the pipe; the recorder, which imports no collector, has the same word."""
_LINE = b"ready\n"


def ready() -> None:
    """State, once, that the source is open: everything from now on is recorded."""
    descriptor = os.environ.pop(VARIABLE, "")
    if not descriptor.isdecimal():
        return
    with contextlib.suppress(OSError):  # the recorder is gone: that is noticed elsewhere
        os.write(int(descriptor), _LINE)
        os.close(int(descriptor))


# When a polling collector reads.


class Schedule:
    """Times of the rounds: absolute instants, so that one late round does not delay the next ones."""

    def __init__(self, *, hz: float, poisson: bool, start_ns: int) -> None:
        self._mean_ns = NS_PER_S / hz
        self._poisson = poisson
        self._random = random.SystemRandom()
        self.due_ns: float = start_ns

    def advance(self, now_ns: int) -> int:
        """Move on to the next instant after `now_ns`; return how many were passed over."""
        passed = -1
        while passed < 0 or self.due_ns <= now_ns:
            self.due_ns += self._random.expovariate(1 / self._mean_ns) if self._poisson else self._mean_ns
            passed += 1
        return passed
