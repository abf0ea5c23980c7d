"""Reno as in Linux without SACK: windows in segments, and a reduction paced by ACKs.

Sources: net/ipv4/tcp_cong.c and tcp_input.c of Linux 6.x (tcp_reno_cong_avoid, tcp_cwnd_reduction,
tcp_add_reno_sack, tcp_remove_reno_sacks), RFC 6937 (proportional rate reduction). Differences from RFC 5681:

- ssthresh is half of cwnd, not half of FlightSize.
- An ACK of n segments opens the window by n in slow start.
- In slow start the window grows up to twice FlightSize, even if the peer's window limits the sender.
- In recovery cwnd is not inflated: each duplicate ACK counts as a segment that arrived, and the number
  of segments that may be sent follows from the number that arrived since the loss.
- Recovery ends with an ACK above `snd_max` at its start; an ACK of exactly that unit does not end it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.tcp.congestion.reno import NewReno

if TYPE_CHECKING:
    from multitracer.lab.tcp.congestion.base import Acked

_MIN_SEGMENTS = 2  # net/ipv4/tcp_cong.c: tcp_reno_ssthresh returns at least 2
_DUPLICATES = 3
"""Duplicate ACKs that begin a recovery (net.ipv4.tcp_reordering)."""


class LinuxReno(NewReno):
    """Reno of Linux; during recovery `cwnd_bytes` is the number of bytes that Linux would allow."""

    name = "linux-reno"
    leaves_above = True

    def __init__(self, *, mss_bytes: int, initial_window_bytes: int) -> None:
        super().__init__(mss_bytes=mss_bytes, initial_window_bytes=initial_window_bytes)
        self._counted = 0
        """Acknowledged segments since the window last grew in congestion avoidance (snd_cwnd_cnt)."""
        self._before = 0
        """Window at the start of the reduction, in segments; 0 outside a reduction (prior_cwnd)."""
        self._arrived = self._left = self._held = 0
        """Linux' prr_delivered, prr_out and sacked_out, in segments."""
        self._outstanding_bytes = 0
        """FlightSize at the end of the last call."""

    # --- growth ---

    def may_grow(self, ack: Acked) -> bool:
        """Return whether the window limits the sender, or almost does (tcp_is_cwnd_limited)."""
        slow_start = self.cwnd_bytes < self.ssthresh_bytes
        return ack.limited or (slow_start and self.cwnd_bytes < 2 * ack.flight_bytes)

    def on_ack(self, ack: Acked) -> None:
        """Increase the window by slow start up to ssthresh, above it by one segment per window."""
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
        """Set ssthresh to half of the window."""
        del flight_bytes, now_ns
        window = max(self.cwnd_bytes // self.mss_bytes // 2, _MIN_SEGMENTS)
        self.ssthresh_bytes = self.cwnd_bytes = window * self.mss_bytes

    def enter_fast_recovery(self, *, flight_bytes: int, now_ns: int) -> bool:
        """Begin the reduction; the first lost segment may be retransmitted at once."""
        self._before = self.cwnd_bytes // self.mss_bytes
        self.on_loss(flight_bytes=flight_bytes, now_ns=now_ns)
        self._arrived = self._left = 0
        self._held = _DUPLICATES
        self._outstanding_bytes = flight_bytes
        self._reduce(flight_bytes, arrived=1, lost=1)
        return True

    def on_duplicate_ack(self, *, flight_bytes: int) -> None:
        """Count one more segment as arrived."""
        outstanding = self._segments(flight_bytes)
        self._held = min(self._held + 1, max(outstanding - 1, 0))
        self._reduce(flight_bytes, arrived=1, lost=0)

    def on_partial_ack(self, acked_bytes: int, *, flight_bytes: int) -> bool:
        """Stay in recovery; the data after the missing segment are already counted by the duplicate ACKs."""
        arrived = self._take_held(acked_bytes)
        self._outstanding_bytes -= acked_bytes
        self._reduce(flight_bytes, arrived=arrived, lost=1, advanced=True)
        return True

    def on_full_ack(self, acked_bytes: int, *, flight_bytes: int) -> None:
        """Count no segment as lost any longer; the reduction continues."""
        arrived = self._take_held(acked_bytes)
        self._held = 0
        self._outstanding_bytes -= acked_bytes
        self._reduce(flight_bytes, arrived=arrived, lost=0, advanced=True)

    def leave_fast_recovery(self) -> None:
        """End the reduction: set the window to ssthresh."""
        super().leave_fast_recovery()
        self._before = self._counted = 0

    def on_timeout(self, *, flight_bytes: int, first: bool, now_ns: int) -> None:
        """Set cwnd to one segment; a reduction in progress does not halve ssthresh again."""
        super().on_timeout(flight_bytes=flight_bytes, first=first and not self._before, now_ns=now_ns)
        self._before = self._counted = 0

    def _take_held(self, acked_bytes: int) -> int:
        """Return how many segments this ACK is the first to report as arrived (tcp_remove_reno_sacks)."""
        acked = self._segments(acked_bytes)
        arrived = max(acked - self._held, 1)
        self._held = max(self._held - (acked - 1), 0)
        return arrived

    def _reduce(self, flight_bytes: int, *, arrived: int, lost: int, advanced: bool = False) -> None:
        """Set the window during a reduction as tcp_cwnd_reduction does, from the segments that arrived.

        A segment that is marked `lost` now may be retransmitted at once.
        """
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
