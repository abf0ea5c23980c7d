"""When a polling collector reads."""

from __future__ import annotations

import random

from multitracer.units import NS_PER_S


class Schedule:
    """When rounds are due: absolute instants, so that one late round does not shift the next ones."""

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
