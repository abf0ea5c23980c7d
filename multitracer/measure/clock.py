"""The clock of a measurement: nanoseconds since 1970 that never run backwards."""

from __future__ import annotations

import time


class SteadyClock:
    """Counts on from the time of day at its creation; later changes of that clock have no effect."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        """Return the time now, ns since 1970."""
        return time.monotonic_ns() + self._offset_ns
