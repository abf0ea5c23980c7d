"""The clocks of the two hosts, made from virtual time."""

from __future__ import annotations

from dataclasses import dataclass

from multitracer.units import NS_PER_S

EPOCH_NS = 946_684_800 * NS_PER_S
"""When every run in virtual time begins: 2000-01-01T00:00:00Z. A constant, so that the same seed writes the
same bytes."""


@dataclass(frozen=True, slots=True)
class HostClock:
    """CLOCK_MONOTONIC and CLOCK_REALTIME of one host.

    Parameters
    ----------
    booted_ns : int
        What CLOCK_MONOTONIC reads when the run begins.
    offset_ns : int
        How far CLOCK_REALTIME is ahead of the truth then.
    skew_ppm : float
        How much faster than the truth both run.
    """

    booted_ns: int
    offset_ns: int = 0
    skew_ppm: float = 0.0

    def _elapsed_ns(self, now_ns: int) -> int:
        return now_ns + round(now_ns * self.skew_ppm / 1e6)

    def monotonic_ns(self, now_ns: int) -> int:
        """Return CLOCK_MONOTONIC at a time of the run."""
        return self.booted_ns + (self._elapsed_ns(now_ns) if self.skew_ppm else now_ns)

    def realtime_ns(self, now_ns: int) -> int:
        """Return CLOCK_REALTIME at a time of the run."""
        elapsed_ns = self._elapsed_ns(now_ns) if self.skew_ppm else now_ns
        return EPOCH_NS + self.offset_ns + elapsed_ns

    def reading(self, now_ns: int) -> dict[str, int]:
        """Return both clocks as a collector reads them together."""
        monotonic_ns = self.monotonic_ns(now_ns)
        return {
            "monotonic_before_ns": monotonic_ns,
            "realtime_ns": self.realtime_ns(now_ns),
            "monotonic_after_ns": monotonic_ns,
        }
