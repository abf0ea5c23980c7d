"""An error of the fixed host's clock, applied to its logs while they are written.

All hosts of a run share one kernel and its clocks. What a scenario says in `[clock]` is therefore added to
every time stamp of the fixed host before it reaches a file.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.scenario.model import HostClock

_PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class ClockError:
    """How a host's clocks differ from the kernel's.

    Parameters
    ----------
    offset_ns : int
        How far CLOCK_REALTIME is ahead at the origin.
    skew_ppm : float
        How much faster than the kernel's both clocks run.
    origin_realtime_ns, origin_monotonic_ns : int
        When the skew begins, in both of the kernel's clocks.
    """

    offset_ns: int = 0
    skew_ppm: float = 0.0
    origin_realtime_ns: int = 0
    origin_monotonic_ns: int = 0

    @classmethod
    def from_now(cls, clock: HostClock) -> ClockError:
        """Return the error that a scenario states, beginning now."""
        offset_ns = round(clock.offset_s * NS_PER_S)
        return cls(offset_ns, clock.skew_ppm, time.time_ns(), time.monotonic_ns())

    def __bool__(self) -> bool:
        return bool(self.offset_ns or self.skew_ppm)

    def realtime_ns(self, time_ns: int) -> int:
        """Return what the host's CLOCK_REALTIME reads when the kernel's reads `time_ns`."""
        return time_ns + self.offset_ns + self._gained_ns(time_ns - self.origin_realtime_ns)

    def monotonic_ns(self, time_ns: int) -> int:
        """Return what the host's CLOCK_MONOTONIC reads when the kernel's reads `time_ns`."""
        return time_ns + self._gained_ns(time_ns - self.origin_monotonic_ns)

    def _gained_ns(self, elapsed_ns: int) -> int:
        return round(elapsed_ns * self.skew_ppm / _PPM)
