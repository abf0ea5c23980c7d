"""CUBIC: the window is a cubic function of the time since the last reduction (RFC 9438)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.tcp.congestion.newreno import NewReno
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.tcp.congestion.base import Acked

C = 0.4
"""Constant C of the cubic function, in segments per second cubed (RFC 9438, section 5)."""
BETA = 0.7
"""Factor of the window after a loss (section 4.6)."""
ALPHA = 3 * (1 - BETA) / (1 + BETA)
"""Reno-friendly growth in segments per round trip (section 4.3)."""


class Cubic(NewReno):
    """CUBIC with NewReno's slow start and recovery; internally, windows are in segments."""

    name = "cubic"

    def __init__(self, *, mss_bytes: int, initial_window_bytes: int) -> None:
        super().__init__(mss_bytes=mss_bytes, initial_window_bytes=initial_window_bytes)
        self._w_max = 0.0
        self._w_est = 0.0
        self._k_s = 0.0
        self._epoch_ns: int | None = None

    def on_ack(self, ack: Acked) -> None:
        """Increase the window to the cubic target, or as Reno does if that is more (sections 4.2 to 4.5)."""
        if self.cwnd_bytes < self.ssthresh_bytes:
            super().on_ack(ack)
            return
        if self._epoch_ns is None:
            self._begin_epoch(ack.now_ns)
        segments = self.cwnd_bytes / self.mss_bytes
        acked = ack.acked_bytes / self.mss_bytes
        self._w_est += ALPHA * acked / segments
        target = min(max(self.window_at(ack.now_ns + (ack.srtt_ns or 0)), segments), 1.5 * segments)
        grown = max(segments + (target - segments) * acked / segments, self._w_est)
        self.cwnd_bytes = int(grown * self.mss_bytes)

    def window_at(self, now_ns: int) -> float:
        """Return the target W_cubic(t) in segments at a time (section 4.2)."""
        begun_ns = now_ns if self._epoch_ns is None else self._epoch_ns
        elapsed_s = (now_ns - begun_ns) / NS_PER_S
        return C * float((elapsed_s - self._k_s) ** 3) + self._w_max

    def _begin_epoch(self, now_ns: int) -> None:
        segments = self.cwnd_bytes / self.mss_bytes
        self._epoch_ns = now_ns
        self._w_est = segments
        self._w_max = max(self._w_max, segments)
        self._k_s = ((self._w_max - segments) / C) ** (1 / 3)

    def on_loss(self, *, flight_bytes: int, now_ns: int) -> None:
        """Reduce the window to 70 %; reduce W_max further if the last maximum was not reached (4.6, 4.7)."""
        del now_ns
        segments = self.cwnd_bytes / self.mss_bytes
        shrinking = segments < self._w_max
        self._w_max = segments * (1 + BETA) / 2 if shrinking else segments
        self._epoch_ns = None
        self.ssthresh_bytes = max(int(flight_bytes * BETA), 2 * self.mss_bytes)
        self.cwnd_bytes = self.ssthresh_bytes
