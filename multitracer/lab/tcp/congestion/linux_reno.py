"""Reno as in Linux without SACK: windows in segments, and a reduction that ACKs pace.

Sources: net/ipv4/tcp_cong.c and tcp_input.c of Linux 6.x (tcp_reno_cong_avoid, tcp_cwnd_reduction,
tcp_add_reno_sack, tcp_remove_reno_sacks), RFC 6937 (proportional rate reduction). What differs from RFC 5681:

- ssthresh is half of cwnd, not of what is in flight.
- An ACK of n segments opens the window by n in slow start.
- In slow start the window grows up to twice what is outstanding, even where the peer's window limits it.
- In recovery cwnd is not inflated: each duplicate ACK counts as a segment that arrived, and how many
  may leave follows from how many have arrived since the loss.
- Recovery is left when something above what was outstanding at its begin is acknowledged, not all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.tcp.congestion.newreno import NewReno

if TYPE_CHECKING:
    from multitracer.lab.tcp.congestion.base import Acked

_LEAST_SEGMENTS = 2  # net/ipv4/tcp_cong.c: tcp_reno_ssthresh returns at least 2
_DUPLICATES = 3
"""Duplicate ACKs that begin a recovery (net.ipv4.tcp_reordering)."""


class LinuxReno(NewReno):
    """Linux' reno; `cwnd_bytes` during recovery admits as much as Linux would send."""

    name = "linux-reno"
    leaves_above = True

    def __init__(self, *, mss_bytes: int, initial_window_bytes: int) -> None:
        super().__init__(mss_bytes=mss_bytes, initial_window_bytes=initial_window_bytes)
        self._counted = 0
        """Segments acknowledged towards the next one of the window (snd_cwnd_cnt)."""
        self._before = 0
        """The window when the reduction began, in segments; 0 outside (prior_cwnd)."""
        self._arrived = self._left = self._held = 0
        """prr_delivered, prr_out, sacked_out."""
        self._outstanding_bytes = 0
        """As the last call left it."""

    # --- growth ---

    def may_grow(self, ack: Acked) -> bool:
        """Return whether the window limited the data sent, or soon would (tcp_is_cwnd_limited)."""
        slow_start = self.cwnd_bytes < self.ssthresh_bytes
        return ack.limited or (slow_start and self.cwnd_bytes < 2 * ack.flight_bytes)

    def on_ack(self, ack: Acked) -> None:
        """Grow by slow start up to ssthresh, then with the rest of the ACK by one segment per window."""
        acked = self._segments(ack.acked_bytes)
        if self.cwnd_bytes < self.ssthresh_bytes:
            grown = min(acked, self._segments(self.ssthresh_bytes - self.cwnd_bytes))
            self.cwnd_bytes += grown * self.mss_bytes
            acked -= grown
        window = self.cwnd_bytes // self.mss_bytes
        if self._counted >= window:
            self._counted = 0
            self.cwnd_bytes += self.mss_bytes
        self._counted += acked
        if self._counted >= window:
            self.cwnd_bytes += self._counted // window * self.mss_bytes
            self._counted %= window

    # --- reduction ---

    def on_loss(self, *, flight_bytes: int, now_ns: int) -> None:
        """Halve the window."""
        del flight_bytes, now_ns
        window = max(self.cwnd_bytes // self.mss_bytes // 2, _LEAST_SEGMENTS)
        self.ssthresh_bytes = self.cwnd_bytes = window * self.mss_bytes

    def enter_fast_recovery(self, *, flight_bytes: int, now_ns: int) -> bool:
        """Begin the reduction; the first segment is sent again in any case."""
        self._before = self.cwnd_bytes // self.mss_bytes
        self.on_loss(flight_bytes=flight_bytes, now_ns=now_ns)
        self._arrived = self._left = 0
        self._held = _DUPLICATES
        self._outstanding_bytes = flight_bytes
        self._reduce(flight_bytes, arrived=1, lost=1)
        return True

    def on_duplicate_ack(self, *, flight_bytes: int) -> None:
        """Count one more segment that has arrived."""
        outstanding = self._segments(flight_bytes)
        self._held = min(self._held + 1, max(outstanding - 1, 0))
        self._reduce(flight_bytes, arrived=1, lost=0)

    def on_partial_ack(self, acked_bytes: int, *, flight_bytes: int) -> bool:
        """Stay in recovery; the duplicate ACKs have already counted the data beyond the hole."""
        arrived = self._take_held(acked_bytes)
        self._outstanding_bytes -= acked_bytes
        self._reduce(flight_bytes, arrived=arrived, lost=1, advanced=True)
        return True

    def on_full_ack(self, acked_bytes: int, *, flight_bytes: int) -> None:
        """Count no segment as lost any more; the reduction goes on."""
        arrived = self._take_held(acked_bytes)
        self._held = 0
        self._outstanding_bytes -= acked_bytes
        self._reduce(flight_bytes, arrived=arrived, lost=0, advanced=True)

    def leave_fast_recovery(self) -> None:
        """End the reduction at its goal."""
        super().leave_fast_recovery()
        self._before = self._counted = 0

    def on_timeout(self, *, flight_bytes: int, first: bool, now_ns: int) -> None:
        """Fall to one segment; a window that is being reduced is not halved a second time."""
        super().on_timeout(flight_bytes=flight_bytes, first=first and not self._before, now_ns=now_ns)
        self._before = self._counted = 0

    def _take_held(self, acked_bytes: int) -> int:
        """Return how many segments this ACK is the first to report (tcp_remove_reno_sacks)."""
        acked = self._segments(acked_bytes)
        arrived = max(acked - self._held, 1)
        self._held = max(self._held - (acked - 1), 0)
        return arrived

    def _reduce(self, flight_bytes: int, *, arrived: int, lost: int, advanced: bool = False) -> None:
        """Admit as much as tcp_cwnd_reduction would; a segment marked `lost` uses one of it."""
        self._left += self._segments(flight_bytes - self._outstanding_bytes)
        self._outstanding_bytes = flight_bytes
        self._arrived += arrived
        goal = self.ssthresh_bytes // self.mss_bytes
        in_flight = self._segments(flight_bytes) - self._held - lost
        if in_flight > goal:
            more = -(-goal * self._arrived // self._before) - self._left
        else:
            more = max(self._arrived - self._left, arrived) + (advanced and not lost)
            more = min(goal - in_flight, more)
        more = max(more, int(self._left == 0))
        self._left += lost
        self.cwnd_bytes = flight_bytes + (more - lost) * self.mss_bytes

    def _segments(self, size_bytes: int) -> int:
        return -(-size_bytes // self.mss_bytes)
