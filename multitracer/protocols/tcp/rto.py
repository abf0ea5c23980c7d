"""The retransmission timeout: RFC 6298, with the coarse clock of 4.4BSD as an option."""

from __future__ import annotations

from collections import deque


class RtoEstimator:
    """SRTT, RTTVAR and RTO of one connection, with exponential back-off.

    Parameters
    ----------
    initial_ns, min_ns, max_ns : int
        RTO before a sample, and its bounds.
    tick_ns : int
        Clock granularity G: samples are differences of whole ticks and the RTO is a whole number of them.
    """

    def __init__(self, *, initial_ns: int, min_ns: int, max_ns: int, tick_ns: int) -> None:
        self._min_ns = min_ns
        self._max_ns = max_ns
        self._tick_ns = tick_ns
        self._base_ns = initial_ns
        self.srtt_ns: int | None = None
        self.rttvar_ns: int | None = None
        self.latest_ns: int | None = None
        """The last sample."""
        self.smallest_ns: int | None = None
        """The smallest sample."""
        self.backoff = 0
        """How often the timeout has been doubled."""

    @property
    def rto_ns(self) -> int:
        """The timeout to arm the timer with now, backed off and bounded."""
        return min(self._base_ns << self.backoff, self._max_ns)

    def sample(self, rtt_ns: int) -> None:
        """Take one measurement R of the round-trip time (equations 2.2 and 2.3); ends any back-off."""
        if self.srtt_ns is None or self.rttvar_ns is None:
            self.srtt_ns, self.rttvar_ns = rtt_ns, rtt_ns // 2
        else:
            self.rttvar_ns = (3 * self.rttvar_ns + abs(self.srtt_ns - rtt_ns)) // 4
            self.srtt_ns = (7 * self.srtt_ns + rtt_ns) // 8
        self.latest_ns = rtt_ns
        self.smallest_ns = rtt_ns if self.smallest_ns is None else min(rtt_ns, self.smallest_ns)
        self.backoff = 0
        rto_ns = self.srtt_ns + max(self._tick_ns, 4 * self.rttvar_ns)
        self._base_ns = min(max(self._whole_ticks(rto_ns), self._min_ns), self._max_ns)

    def sample_between(self, sent_ns: int, acked_ns: int) -> None:
        """Take a measurement from two readings of this coarse clock."""
        self.sample((acked_ns // self._tick_ns - sent_ns // self._tick_ns) * self._tick_ns)

    def back_off(self) -> None:
        """Double the timeout (equation 5.5)."""
        if self.rto_ns < self._max_ns:
            self.backoff += 1

    def restart_after_syn_timeout(self) -> None:
        """Use 3 s for data when the SYN timed out and less was in use (RFC 6298, section 5.7)."""
        self._base_ns = max(self._base_ns, 3_000_000_000)
        self.backoff = 0

    def deadline_ns(self, now_ns: int) -> int:
        """Return when a timer armed at `now_ns` expires: on a tick, never early."""
        return self._whole_ticks(now_ns + self.rto_ns)

    def _whole_ticks(self, duration_ns: int) -> int:
        return -(-duration_ns // self._tick_ns) * self._tick_ns


class TimedSegments:
    """Segments whose ACK will give a round-trip time: those that were never resent (Karn's rule).

    Parameters
    ----------
    every : bool
        Time every segment; otherwise one at a time, as before RFC 7323.
    """

    def __init__(self, *, every: bool) -> None:
        self._every = every
        self._sent: deque[tuple[int, int]] = deque()

    def note(self, end: int, now_ns: int) -> None:
        """Take in a new segment up to unit `end` that leaves now."""
        if self._every or not self._sent:
            self._sent.append((end, now_ns))

    def clear(self) -> None:
        """Forget all: something was resent, and an ACK can no longer be told apart."""
        self._sent.clear()

    def acknowledged(self, ack: int) -> int | None:
        """Return when the oldest timed segment that `ack` covers was sent, None without one."""
        sent_ns = None
        while self._sent and self._sent[0][0] <= ack:
            _, timed_ns = self._sent.popleft()
            sent_ns = timed_ns if sent_ns is None else sent_ns
        return sent_ns
