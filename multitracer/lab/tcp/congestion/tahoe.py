"""Tahoe: a fast retransmit is followed by slow start (4.3BSD Tahoe, 1988)."""

from __future__ import annotations

from multitracer.lab.tcp.congestion.reno import Reno


class Tahoe(Reno):
    """Reno without fast recovery."""

    name = "tahoe"

    def enter_fast_recovery(self, *, flight_bytes: int, now_ns: int) -> bool:
        """Begin slow start, as after a timeout."""
        self.on_timeout(flight_bytes=flight_bytes, first=True, now_ns=now_ns)
        return False
