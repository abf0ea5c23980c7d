"""NewReno: a partial ACK in fast recovery retransmits the next hole (RFC 6582)."""

from __future__ import annotations

from multitracer.lab.tcp.congestion.base import CongestionControl
from multitracer.lab.tcp.congestion.reno import Reno


class NewReno(Reno):
    """Reno that stays in recovery until everything sent before the loss is acknowledged."""

    name = "newreno"

    def on_partial_ack(self, acked_bytes: int, *, flight_bytes: int) -> bool:
        """Stay in recovery, and retransmit the next hole."""
        return CongestionControl.on_partial_ack(self, acked_bytes, flight_bytes=flight_bytes)
