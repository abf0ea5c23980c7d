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
    """The data of one ACK that acknowledges new data, for the congestion control."""

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
        """Increase the window for an ACK of new data outside recovery, if `may_grow` allows it."""

    @abstractmethod
    def on_loss(self, *, flight_bytes: int, now_ns: int) -> None:
        """Set ssthresh after a loss or an ECN echo.

        The sender calls this once per reduction, then sets cwnd.
        """

    def enter_fast_recovery(self, *, flight_bytes: int, now_ns: int) -> bool:
        """Set ssthresh and cwnd at the third duplicate ACK (RFC 5681, section 3.2, steps 2 and 3).

        The three duplicate ACKs show that three segments have left the network.

        Returns
        -------
        bool
            False if the algorithm has no fast recovery: the sender slow-starts.
        """
        self.on_loss(flight_bytes=flight_bytes, now_ns=now_ns)
        self.cwnd_bytes = self.ssthresh_bytes + 3 * self.mss_bytes
        return True

    def on_duplicate_ack(self, *, flight_bytes: int) -> None:
        """Increase cwnd in fast recovery, because a segment has left the network (RFC 5681, 3.2, step 4)."""
        del flight_bytes
        self.cwnd_bytes += self.mss_bytes

    def on_partial_ack(self, acked_bytes: int, *, flight_bytes: int) -> bool:
        """Reduce cwnd at a partial ACK (RFC 6582, section 3.2).

        A partial ACK covers only a part of the data that were outstanding when recovery began.

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
        """Process an ACK of exactly all data that were sent before recovery began.

        Such an ACK ends recovery, unless the algorithm sets `leaves_above`.
        """
        del acked_bytes, flight_bytes

    def leave_fast_recovery(self) -> None:
        """Set cwnd when recovery ends (RFC 5681, 3.2, step 6; RFC 6582, full acknowledgment, option 2)."""
        self.cwnd_bytes = self.ssthresh_bytes

    def on_timeout(self, *, flight_bytes: int, first: bool, now_ns: int) -> None:
        """Set cwnd to one segment; at the `first` timeout of a segment, also ssthresh (RFC 5681, eq. 4)."""
        if first:
            self.on_loss(flight_bytes=flight_bytes, now_ns=now_ns)
        self.cwnd_bytes = self.mss_bytes

    def on_local_drop(self) -> None:
        """Set cwnd to one segment, because the local interface refused a packet (4.4BSD tcp_quench)."""
        self.cwnd_bytes = self.mss_bytes

    def on_idle(self) -> None:
        """Set cwnd to the initial window after an idle time of one RTO (RFC 5681, section 4.1)."""
        self.cwnd_bytes = min(self.cwnd_bytes, self.initial_window_bytes)
