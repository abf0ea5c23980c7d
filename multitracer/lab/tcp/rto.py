"""The retransmission timeout: RFC 6298, optionally with the coarse clock of 4.4BSD."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.lab.tcp.profile import TcpProfile


_WHEEL_STEPS_NS = tuple(4 * NS_PER_MS << 3 * level for level in range(9))
"""Step of each level of Linux' timer wheel at 250 Hz: a level serves times up to 63 steps."""


class RtoEstimator:
    """SRTT, RTTVAR and RTO of one connection, with exponential back-off.

    Parameters
    ----------
    initial_ns, min_ns, max_ns : int
        RTO before the first sample, and its bounds.
    tick_ns : int
        Clock granularity G: samples and the RTO are multiples of it.
    """

    def __init__(self, *, initial_ns: int, min_ns: int, max_ns: int, tick_ns: int) -> None:
        self._min_ns = min_ns
        self._max_ns = max_ns
        self._tick_ns = tick_ns
        self._base_ns = initial_ns
        self.rto_ns = min(initial_ns, max_ns)
        """Present timeout for the timer, with back-off and within its bounds."""
        self.srtt_ns: int | None = None
        self.rttvar_ns: int | None = None
        self.latest_ns: int | None = None
        """The last sample; None before."""
        self.smallest_ns: int | None = None
        """The minimum sample; None before."""
        self.backoff = 0
        """Number of times that the timeout has been doubled."""

    def sample(self, rtt_ns: int, *, snd_una: int = 0, snd_nxt: int = 0) -> None:
        """Add a round-trip sample R (equations 2.2 and 2.3); this ends any back-off."""
        del snd_una, snd_nxt
        if self.srtt_ns is None or self.rttvar_ns is None:
            self.srtt_ns, self.rttvar_ns = rtt_ns, rtt_ns // 2
        else:
            self.rttvar_ns = (3 * self.rttvar_ns + abs(self.srtt_ns - rtt_ns)) // 4
            self.srtt_ns = (7 * self.srtt_ns + rtt_ns) // 8
        self._took(rtt_ns, self.srtt_ns + max(self._tick_ns, 4 * self.rttvar_ns))

    def _took(self, rtt_ns: int, rto_ns: int) -> None:
        """Store an RTT sample, and the timeout that results from it."""
        self.latest_ns = rtt_ns
        self.smallest_ns = rtt_ns if self.smallest_ns is None else min(rtt_ns, self.smallest_ns)
        self._start(min(max(self._complete_ticks(rto_ns), self._min_ns), self._max_ns))

    def _start(self, base_ns: int) -> None:
        """Set the timeout to `base_ns` within its bounds, without back-off."""
        self.backoff = 0
        self._base_ns = base_ns
        self.rto_ns = min(base_ns, self._max_ns)

    def sample_between(self, sent_ns: int, acked_ns: int, *, snd_una: int = 0, snd_nxt: int = 0) -> None:
        """Add an RTT sample from two readings of this coarse clock, with the sender's window at that time."""
        rtt_ns = (acked_ns // self._tick_ns - sent_ns // self._tick_ns) * self._tick_ns
        self.sample(rtt_ns, snd_una=snd_una, snd_nxt=snd_nxt)

    def back_off(self) -> None:
        """Double the timeout (equation 5.5)."""
        if self.rto_ns < self._max_ns:
            self.backoff += 1
            self.rto_ns = min(self._base_ns << self.backoff, self._max_ns)

    def end_back_off(self) -> None:
        """Use the timeout without back-off again."""
        self._start(self._base_ns)

    def restart_after_syn_timeout(self) -> None:
        """Use 3 s for data if the SYN timed out and the timeout was shorter (RFC 6298, section 5.7)."""
        self._start(max(self._base_ns, 3_000_000_000))

    def deadline_ns(self, now_ns: int) -> int:
        """Return the time at which a timer that starts at `now_ns` expires: a clock tick, never too early."""
        return self._complete_ticks(now_ns + self.rto_ns)

    def _complete_ticks(self, duration_ns: int) -> int:
        return -(-duration_ns // self._tick_ns) * self._tick_ns


class LinuxRtoEstimator(RtoEstimator):
    """The estimator of Linux (tcp_rtt_estimator in net/ipv4/tcp_input.c).

    The RTO is SRTT plus four mean deviations. This fourfold deviation rises at once to the maximum of a round
    trip, falls once per round trip by a quarter of the difference, and is never below the minimum RTO. A
    sample that is below the mean by more than the deviation has only an eighth of the weight, so that a queue
    that empties does not lengthen the timeout.
    """

    def __init__(self, *, initial_ns: int, min_ns: int, max_ns: int, tick_ns: int) -> None:
        super().__init__(initial_ns=initial_ns, min_ns=min_ns, max_ns=max_ns, tick_ns=tick_ns)
        self._deviation4_ns = self._round_max_ns = self._bound_ns = 0
        """Linux' mdev_us, mdev_max_us and rttvar_us in ns: all are four times a deviation."""
        self._round_end = 0

    def sample(self, rtt_ns: int, *, snd_una: int = 0, snd_nxt: int = 0) -> None:
        """Add an RTT sample; a round trip of the estimator ends when `snd_una` reaches the old `snd_nxt`."""
        if self.srtt_ns is None:
            self.srtt_ns, self._deviation4_ns = rtt_ns, 2 * rtt_ns
            self._bound_ns = self._round_max_ns = max(2 * rtt_ns, self._min_ns)
            self._round_end = snd_nxt
        else:
            self._follow(rtt_ns - self.srtt_ns)
            self.srtt_ns += (rtt_ns - self.srtt_ns) // 8
            if snd_una > self._round_end:
                self._bound_ns -= max(0, self._bound_ns - self._round_max_ns) // 4
                self._round_end, self._round_max_ns = snd_nxt, self._min_ns
        self.rttvar_ns = self._deviation4_ns // 4
        self._took(rtt_ns, self.srtt_ns + self._bound_ns)

    def deadline_ns(self, now_ns: int) -> int:
        """Return the time at which the timer expires.

        It can be late by a step of the timer wheel (kernel/time/timer.c).
        """
        step_ns = next(step for step in _WHEEL_STEPS_NS if self.rto_ns < 63 * step)
        return ((now_ns + self.rto_ns) // step_ns + 1) * step_ns

    def _follow(self, error_ns: int) -> None:
        change_ns = abs(error_ns) - self._deviation4_ns // 4
        if error_ns < 0 < change_ns:
            change_ns //= 8
        self._deviation4_ns += change_ns
        self._round_max_ns = max(self._round_max_ns, self._deviation4_ns)
        self._bound_ns = max(self._bound_ns, self._round_max_ns)


class TimedSegments:
    """Segments whose ACK gives a round-trip time: those that were not retransmitted (Karn's rule).

    Parameters
    ----------
    every : bool
        Time every segment; otherwise one at a time, as before RFC 7323, and none that was in transit at a
        retransmission.
    """

    def __init__(self, *, every: bool) -> None:
        self._every = every
        self._sent: deque[tuple[int, int | None]] = deque()

    def note(self, end: int, now_ns: int) -> None:
        """Add a segment that is sent now for the first time; it ends at sequence number `end`."""
        if self._every or not self._sent:
            self._sent.append((end, now_ns))

    @property
    def oldest_ns(self) -> int | None:
        """Sending time of the oldest segment; None if there is none, or it was retransmitted."""
        return self._sent[0][1] if self._sent else None

    def clear(self) -> None:
        """Remove all segments, because an ACK can no longer be attributed to one transmission."""
        self._sent.clear()

    def resent(self, begin: int, end: int) -> None:
        """Record that the sequence numbers `[begin, end)` were retransmitted."""
        if not self._every:
            self.clear()
        self._sent = deque((last, None if begin < last <= end else ns) for last, ns in self._sent)

    def take_back(self, end: int) -> None:
        """Remove the last segment, which ends at sequence number `end`, because it was not sent."""
        if self._sent and self._sent[-1][0] == end:
            self._sent.pop()

    def acknowledged(self, ack: int) -> int | None:
        """Return the sending time of the oldest segment that `ack` covers; remove the covered segments.

        None if there is none, or if one of them was retransmitted.
        """
        sent_ns: list[int | None] = []
        while self._sent and self._sent[0][0] <= ack:
            sent_ns.append(self._sent.popleft()[1])
        return None if not sent_ns or None in sent_ns else sent_ns[0]


def rto_estimator(profile: TcpProfile) -> RtoEstimator:
    """Return a new RTO estimator for a profile."""
    kind = LinuxRtoEstimator if profile.rto == "linux" else RtoEstimator
    return kind(
        initial_ns=profile.initial_rto_ns,
        min_ns=profile.min_rto_ns,
        max_ns=profile.max_rto_ns,
        tick_ns=profile.timer_tick_ns,
    )
