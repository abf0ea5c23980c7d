"""CUBIC: the window is a cubic function of the time since the last reduction (RFC 9438)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.tcp.congestion.linux_reno import LinuxReno
from multitracer.lab.tcp.congestion.reno import NewReno
from multitracer.units import NS_PER_MS, NS_PER_S

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


# CUBIC as in Linux: its own arithmetic, and HyStart, which leaves slow start before the first loss.


_C = 410 / 1024  # tcp_cubic.c: bic_scale * 10 / 1024
_BETA = 717 / 1024  # beta
_FRIENDLY = 15 / 8  # beta_scale >> 3: segments acknowledged for one more of Reno's window, of each of it
_MIN_SEGMENTS = 2  # bictcp_recalc_ssthresh
_NO_MAXIMUM_ACKS = 20  # bictcp_update: 5 % in a round trip
_FEWEST_ACKS = 2  # bictcp_update: half a window in a round trip
_HYSTART_SEGMENTS, _HYSTART_SAMPLES = 16, 8  # hystart_low_window, HYSTART_MIN_SAMPLES
_TRAIN_NS = 2 * NS_PER_MS  # hystart_ack_delta_us
_MIN_RISE_NS, _MOST_RISE_NS = 4 * NS_PER_MS, 16 * NS_PER_MS  # HYSTART_DELAY_MIN, HYSTART_DELAY_MAX


class LinuxCubic(NewReno):
    """CUBIC of Linux; internally, windows are in segments."""

    name = "linux-cubic"

    def __init__(self, *, mss_bytes: int, initial_window_bytes: int) -> None:
        super().__init__(mss_bytes=mss_bytes, initial_window_bytes=initial_window_bytes)
        self._is_reduced = False
        """Whether the window was reduced, without SACK, for the data that are outstanding now."""
        self._counted = 0
        """Acknowledged segments since the window last grew in congestion avoidance (snd_cwnd_cnt)."""
        self._reset()

    def _reset(self) -> None:
        """Reset all state (bictcp_reset, bictcp_hystart_reset)."""
        self._maximum = 0
        self._epoch_ns: int | None = None
        self._origin, self._k_s = 0, 0.0
        self._reno, self._reno_acked = 0, 0.0
        self._min_delay_ns: int | None = None
        self._has_left_slow_start = False
        self._round_end: int | None = None
        self._round_began_ns = self._train_ns = 0
        self._round_delay_ns, self._samples = 0, 0

    # --- growth ---

    may_grow = LinuxReno.may_grow

    def on_ack(self, ack: Acked) -> None:
        """Increase the window by slow start, above ssthresh by the cubic function."""
        self._is_reduced = False
        if ack.rtt_ns is not None:
            self._take_delay(ack, ack.rtt_ns)
        acked = -(-ack.acked_bytes // self.mss_bytes)
        if self.cwnd_bytes < self.ssthresh_bytes:
            grown = min(acked, -(-(self.ssthresh_bytes - self.cwnd_bytes) // self.mss_bytes))
            self.cwnd_bytes += grown * self.mss_bytes
            acked -= grown
        if acked > 0:
            self._avoid_congestion(acked, self._acks_for_one(acked, ack.now_ns))

    def _avoid_congestion(self, acked: int, needed: int) -> None:
        """Increase the window by one segment for each `needed` acknowledged segments (tcp_cong_avoid_ai)."""
        if self._counted >= needed:
            self._counted = 0
            self.cwnd_bytes += self.mss_bytes
        self._counted += acked
        if self._counted >= needed:
            self.cwnd_bytes += self._counted // needed * self.mss_bytes
            self._counted %= needed

    def _acks_for_one(self, acked: int, now_ns: int) -> int:
        """Return the number of acknowledged segments after which the window grows by one (bictcp_update)."""
        window = self.cwnd_bytes // self.mss_bytes
        self._reno_acked += acked
        if self._epoch_ns is None:
            self._begin_epoch(window, acked, now_ns)
        elapsed_s = (now_ns - (self._epoch_ns or 0) + (self._min_delay_ns or 0)) / NS_PER_S
        target = self._origin + int(_C * (elapsed_s - self._k_s) ** 3)
        needed = window // (target - window) if target > window else 100 * window
        if self._maximum == 0:
            needed = min(needed, _NO_MAXIMUM_ACKS)
        return max(min(needed, self._reno_needs(window)), _FEWEST_ACKS)

    def _begin_epoch(self, window: int, acked: int, now_ns: int) -> None:
        self._epoch_ns = now_ns
        self._reno, self._reno_acked = window, acked
        self._origin = max(self._maximum, window)
        self._k_s = ((self._origin - window) / _C) ** (1 / 3)

    def _reno_needs(self, window: int) -> int:
        """Return the number of acknowledged segments after which Reno's window would grow by one."""
        steps = int(self._reno_acked / (window * _FRIENDLY))
        self._reno += steps
        self._reno_acked -= steps * window * _FRIENDLY
        return window // (self._reno - window) if self._reno > window else 100 * window

    # --- HyStart ---

    def _take_delay(self, ack: Acked, delay_ns: int) -> None:
        """Use an RTT sample in ns for the minimum delay and for HyStart (cubictcp_acked).

        Samples in the first second after a reduction are not used.
        """
        if self._epoch_ns is not None and ack.now_ns - self._epoch_ns < NS_PER_S:
            return
        self._min_delay_ns = min(delay_ns, self._min_delay_ns or delay_ns)
        window = self.cwnd_bytes // self.mss_bytes
        is_slow_start = self.cwnd_bytes < self.ssthresh_bytes
        if is_slow_start and window >= _HYSTART_SEGMENTS and not self._has_left_slow_start:
            self._look_for_a_queue(ack, delay_ns, self._min_delay_ns)

    def _look_for_a_queue(self, ack: Acked, delay_ns: int, min_ns: int) -> None:
        """End slow start if the delay or the spacing of the ACKs shows a queue (hystart_update)."""
        if self._round_end is None or ack.snd_una > self._round_end:
            self._round_end = ack.snd_max
            self._round_began_ns = self._train_ns = ack.now_ns
            self._round_delay_ns, self._samples = delay_ns, 0
        is_full = False
        if ack.now_ns - self._train_ns <= _TRAIN_NS:
            self._train_ns = ack.now_ns
            is_full = ack.now_ns - self._round_began_ns > min_ns // 2
        self._round_delay_ns = min(self._round_delay_ns, delay_ns)
        if self._samples < _HYSTART_SAMPLES:
            self._samples += 1
        else:
            rise_ns = min(max(min_ns // 8, _MIN_RISE_NS), _MOST_RISE_NS)
            is_full = is_full or self._round_delay_ns > min_ns + rise_ns
        if is_full:
            self._has_left_slow_start = True
            self.ssthresh_bytes = self.cwnd_bytes

    # --- reduction ---

    def on_loss(self, *, flight_bytes: int, now_ns: int) -> None:
        """Set ssthresh to 70 % of the window (cubictcp_recalc_ssthresh)."""
        del flight_bytes, now_ns
        window = self.cwnd_bytes // self.mss_bytes
        self._maximum = int(window * (1 + _BETA) / 2) if window < self._maximum else window
        self._epoch_ns = None
        self.ssthresh_bytes = max(int(window * _BETA), _MIN_SEGMENTS) * self.mss_bytes
        self.cwnd_bytes = self.ssthresh_bytes
        self._counted = 0
        self._is_reduced = True

    def leave_fast_recovery(self) -> None:
        """Record the end of the reduction: the next loss reduces the window again."""
        super().leave_fast_recovery()
        self._is_reduced = False

    def on_timeout(self, *, flight_bytes: int, first: bool, now_ns: int) -> None:
        """Set cwnd to one segment and reset all state.

        A reduction in progress does not lower ssthresh again.
        """
        super().on_timeout(flight_bytes=flight_bytes, first=first and not self._is_reduced, now_ns=now_ns)
        self._is_reduced = False
        self._counted = 0
        self._reset()
