"""Vegas: keeps two to four segments in the queue (Brakmo, O'Malley, Peterson, SIGCOMM 1994).

Once per round trip the minimum RTT of the round is compared with the minimum of the connection; the constants
and the order of the steps are those of Linux, net/ipv4/tcp_vegas.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.tcp.congestion.reno import NewReno

if TYPE_CHECKING:
    from multitracer.lab.tcp.congestion.base import Acked

ALPHA_SEGMENTS, BETA_SEGMENTS, GAMMA_SEGMENTS = 2, 4, 1  # net/ipv4/tcp_vegas.c: alpha, beta, gamma
_MIN_SAMPLES = 3  # net/ipv4/tcp_vegas.c: cntRTT must exceed 2, a delayed ACK may be one of them


class Vegas(NewReno):
    """TCP Vegas with NewReno's recovery."""

    name = "vegas"

    def __init__(self, *, mss_bytes: int, initial_window_bytes: int) -> None:
        super().__init__(mss_bytes=mss_bytes, initial_window_bytes=initial_window_bytes)
        self._base_rtt_ns: int | None = None
        self._round_end: int | None = 0
        """Unit at which the present round ends; None after a loss: the next ACK begins a round."""
        self._round_rtts_ns: list[int] = []

    def on_loss(self, *, flight_bytes: int, now_ns: int) -> None:
        """Set ssthresh to half of FlightSize; discard the RTT samples, which belong to the old window."""
        super().on_loss(flight_bytes=flight_bytes, now_ns=now_ns)
        self._round_end = None

    def on_ack(self, ack: Acked) -> None:
        """Collect RTT samples; adjust the window once per round trip."""
        if self._round_end is None:
            self._round_end, self._round_rtts_ns = ack.snd_max, []
        if ack.rtt_ns:
            self._round_rtts_ns.append(ack.rtt_ns)
            self._base_rtt_ns = min(ack.rtt_ns, self._base_rtt_ns or ack.rtt_ns)
        if ack.snd_una < self._round_end:
            if self.cwnd_bytes < self.ssthresh_bytes:
                super().on_ack(ack)
            return
        rtts_ns, self._round_rtts_ns = self._round_rtts_ns, []
        self._round_end = ack.snd_max
        if len(rtts_ns) < _MIN_SAMPLES or self._base_rtt_ns is None:
            super().on_ack(ack)
            return
        self._adjust(ack, rtt_ns=min(rtts_ns), base_ns=self._base_rtt_ns)

    def _adjust(self, ack: Acked, *, rtt_ns: int, base_ns: int) -> None:
        target_bytes = self.cwnd_bytes * base_ns // rtt_ns
        queued_segments = self.cwnd_bytes * (rtt_ns - base_ns) // base_ns // self.mss_bytes
        if self.cwnd_bytes < self.ssthresh_bytes:
            if queued_segments > GAMMA_SEGMENTS:
                self.cwnd_bytes = min(self.cwnd_bytes, target_bytes + self.mss_bytes)
                self.ssthresh_bytes = min(self.ssthresh_bytes, self.cwnd_bytes - self.mss_bytes)
            else:
                super().on_ack(ack)
        elif queued_segments > BETA_SEGMENTS:
            self.cwnd_bytes -= self.mss_bytes
        elif queued_segments < ALPHA_SEGMENTS:
            self.cwnd_bytes += self.mss_bytes
        self.cwnd_bytes = max(self.cwnd_bytes, 2 * self.mss_bytes)
        self.ssthresh_bytes = max(self.ssthresh_bytes, 2 * self.mss_bytes)
