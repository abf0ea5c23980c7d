"""Reno: slow start, congestion avoidance, fast recovery that ends at the first new ACK (RFC 5681)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.tcp.congestion.base import CongestionControl

if TYPE_CHECKING:
    from multitracer.lab.tcp.congestion.base import Acked


class Reno(CongestionControl):
    """4.3BSD Reno: a second loss in the same window needs another fast retransmit or a timeout."""

    name = "reno"

    def on_ack(self, ack: Acked) -> None:
        """Increase the window by slow start, above ssthresh by one segment per window (equations 2 and 3)."""
        if self.cwnd_bytes < self.ssthresh_bytes:
            self.cwnd_bytes += min(ack.acked_bytes, self.mss_bytes)
        else:
            self.cwnd_bytes += max(self.mss_bytes * self.mss_bytes // self.cwnd_bytes, 1)

    def on_loss(self, *, flight_bytes: int, now_ns: int) -> None:
        """Set ssthresh to half of FlightSize (equation 4)."""
        del now_ns
        self.ssthresh_bytes = max(flight_bytes // 2, 2 * self.mss_bytes)
        self.cwnd_bytes = self.ssthresh_bytes

    def on_partial_ack(self, acked_bytes: int, *, flight_bytes: int) -> bool:
        """End recovery at the first ACK of new data."""
        del acked_bytes, flight_bytes
        return False


class NewReno(Reno):
    """Reno that stays in recovery until everything sent before the loss is acknowledged."""

    name = "newreno"

    def on_partial_ack(self, acked_bytes: int, *, flight_bytes: int) -> bool:
        """Stay in recovery, and retransmit the next hole."""
        return CongestionControl.on_partial_ack(self, acked_bytes, flight_bytes=flight_bytes)


class Tahoe(Reno):
    """Reno without fast recovery."""

    name = "tahoe"

    def enter_fast_recovery(self, *, flight_bytes: int, now_ns: int) -> bool:
        """Begin slow start, as after a timeout."""
        self.on_timeout(flight_bytes=flight_bytes, first=True, now_ns=now_ns)
        return False
