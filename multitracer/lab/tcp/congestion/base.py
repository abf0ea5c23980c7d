"""The interface between the TCP sender and a congestion control.

The sender finds losses and decides which segment is sent next; a congestion control only decides how many
bytes may be outstanding. All numbers are bytes and nanoseconds; no clock is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

UNLIMITED_BYTES = 1 << 30
"""Slow-start threshold before any loss: "arbitrarily high" (RFC 5681, section 3.1)."""


@dataclass(slots=True, kw_only=True)  # made of every ACK: frozen it takes 2.6 times as long
class Acked:
    """The information of one ACK of new data, for the congestion control."""

    now_ns: int
    acked_bytes: int
    """Units that this ACK acknowledges for the first time."""
    flight_bytes: int
    """FlightSize before the ACK, in bytes."""
    snd_una: int
    """First unacknowledged unit."""
    snd_max: int
    """Unit after the last one that was ever sent."""
    rtt_ns: int | None
    """Round-trip sample of the ACK in ns; None if it gave none."""
    srtt_ns: int | None
    limited: bool = True
    """Whether cwnd limited the sender."""


class CongestionControl(ABC):
    """The congestion window of one connection.

    Parameters
    ----------
    mss_bytes : int
        Sender maximum segment size (SMSS), options not counted.
    initial_window_bytes : int
        The window before the first ACK (RFC 5681, section 3.1; RFC 6928).
    """

    name: ClassVar[str]
    """Name of the algorithm in a profile."""
    leaves_above: ClassVar[bool] = False
    """Whether recovery ends only with an ACK above `snd_max` at its start."""

    def __init__(self, *, mss_bytes: int, initial_window_bytes: int) -> None:
        self.mss_bytes = mss_bytes
        self.initial_window_bytes = initial_window_bytes
        self.cwnd_bytes = initial_window_bytes
        self.ssthresh_bytes = UNLIMITED_BYTES

    def may_grow(self, ack: Acked) -> bool:
        """Return whether an ACK of new data outside recovery opens the window."""
        return ack.limited

    @abstractmethod
    def on_ack(self, ack: Acked) -> None:
        """Grow on an ACK of new data outside recovery, if it `may_grow`."""

    @abstractmethod
    def on_loss(self, *, flight_bytes: int, now_ns: int) -> None:
        """Reduce the window once for a loss or an ECN echo: set ssthresh; the sender sets cwnd after it."""

    def enter_fast_recovery(self, *, flight_bytes: int, now_ns: int) -> bool:
        """Reduce on the third duplicate ACK; three segments have left the network (RFC 5681, 3.2, steps 2-3).

        Returns
        -------
        bool
            False if the algorithm has no fast recovery: the sender slow-starts.
        """
        self.on_loss(flight_bytes=flight_bytes, now_ns=now_ns)
        self.cwnd_bytes = self.ssthresh_bytes + 3 * self.mss_bytes
        return True

    def on_duplicate_ack(self, *, flight_bytes: int) -> None:
        """Inflate in fast recovery: another segment has left the network (RFC 5681, step 4)."""
        del flight_bytes
        self.cwnd_bytes += self.mss_bytes

    def on_partial_ack(self, acked_bytes: int, *, flight_bytes: int) -> bool:
        """Deflate on an ACK of part of the data outstanding when recovery began (RFC 6582, section 3.2).

        Returns
        -------
        bool
            True to stay in recovery and retransmit the next hole.
        """
        del flight_bytes
        self.cwnd_bytes = max(self.cwnd_bytes - acked_bytes, self.mss_bytes)
        if acked_bytes >= self.mss_bytes:
            self.cwnd_bytes += self.mss_bytes
        return True

    def on_full_ack(self, acked_bytes: int, *, flight_bytes: int) -> None:
        """Handle an ACK of exactly the data sent before recovery; it ends recovery unless `leaves_above`."""
        del acked_bytes, flight_bytes

    def leave_fast_recovery(self) -> None:
        """Deflate when recovery ends (RFC 5681, step 6; RFC 6582, full acknowledgment, option 2)."""
        self.cwnd_bytes = self.ssthresh_bytes

    def on_timeout(self, *, flight_bytes: int, first: bool, now_ns: int) -> None:
        """Reduce to one segment; set ssthresh only at the `first` timeout of a segment (RFC 5681, eq. 4)."""
        if first:
            self.on_loss(flight_bytes=flight_bytes, now_ns=now_ns)
        self.cwnd_bytes = self.mss_bytes

    def on_local_drop(self) -> None:
        """Reduce to one segment because the local interface refused a packet (4.4BSD tcp_quench)."""
        self.cwnd_bytes = self.mss_bytes

    def on_idle(self) -> None:
        """Restart from the initial window after an idle time of one RTO (RFC 5681, section 4.1)."""
        self.cwnd_bytes = min(self.cwnd_bytes, self.initial_window_bytes)
