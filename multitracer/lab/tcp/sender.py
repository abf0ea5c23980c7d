"""The sender's reaction to an ACK, a timeout or a refused packet.

There are three kinds of recovery: fast recovery (RFC 5681, 6582), SACK (RFC 6675), or slow start after a
timeout. `transmitter.py` chooses the segments that are sent meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.tcp.congestion.base import Acked
from multitracer.lab.tcp.state import CongestionState, earlier
from multitracer.lab.tcp.transmitter import DUP_THRESH, Transmitter, is_dsack

if TYPE_CHECKING:
    from multitracer.lab.tcp.state import AckInfo


class TcpSender(Transmitter):
    """The sender: the reactions to ACKs and timeouts (RFC 9293, 3.10.7.4, and the RFCs of each method)."""

    # --- what comes back ---

    def acknowledge(self, info: AckInfo, *, now_ns: int) -> None:
        """Process an ACK that is not above `snd_max`; an old one changes nothing."""
        if info.ack < self.snd_una:
            return
        self._waits = False
        same_window = info.window_bytes == self.snd_wnd_bytes
        self._take_window(info)
        gained = self._take_blocks(info) if self.sack or info.blocks else 0
        if info.ece:
            self._heed_ecn(now_ns)
        if info.ack > self.snd_una:
            self._advance(info, now_ns=now_ns)
        elif gained if self.sack else (info.pure and same_window and self.retransmit_ns is not None):
            self._count_duplicate(now_ns)  # with no timer running only a window probe is out

    def _take_window(self, info: AckInfo) -> None:
        """Store the window of an ACK, unless a newer segment has set it (SND.WL1, SND.WL2 of RFC 9293)."""
        if (info.seq, info.ack) < self._window_told_by:
            return
        self._window_told_by, self.snd_wnd_bytes = (info.seq, info.ack), info.window_bytes
        self._max_window_bytes = max(self._max_window_bytes, info.window_bytes)
        if info.window_bytes > 0:
            self._probe_due = False
            self.persist_ns = None
            self._persist_backoff = 0

    def _take_blocks(self, info: AckInfo) -> int:
        """Update the SACK scoreboard; return how many sequence numbers are SACKed for the first time.

        A D-SACK block is only counted (RFC 2883).
        """
        blocks = list(info.blocks)
        if is_dsack(blocks, ack=info.ack):
            self.counters.dsacks += 1
            self._tail_probe = None  # it was needless
            del blocks[0]
        una = max(info.ack, self.snd_una)
        if not self.sack:
            return 0
        gained = self.scoreboard.update(blocks, una=una, end=self.snd_max)
        if self._tail_probe is not None and self._tail_probe[1]:
            self.scoreboard.arrived_later(self._tail_probe[0] - 1)
        return gained

    def _heed_ecn(self, now_ns: int) -> None:
        """Reduce the window for an ECN echo, once per window of data (RFC 3168, section 6.1.2)."""
        if self._reduce_once(now_ns):
            self.counters.ecn_reductions += 1
            self._cwr_due = True

    def _reduce_once(self, now_ns: int) -> bool:
        """Reduce the window without a loss, once per window of data; return whether it was reduced."""
        if self.snd_una < self._ecn_recover or self.ca_state in {CongestionState.RECOVERY, CongestionState.LOSS}:
            return False
        self.congestion.on_loss(flight_bytes=self.flight_bytes, now_ns=now_ns)
        self._ecn_recover = self.snd_max
        self.ca_state = CongestionState.CWR
        return True

    def _advance(self, info: AckInfo, *, now_ns: int) -> None:
        """Process an ACK that acknowledges new data."""
        limited = self.snd_una > 0 and self.pipe_bytes + self.mss_bytes > self.congestion.cwnd_bytes
        flight_bytes, acked = self.flight_bytes, info.ack - self.snd_una
        rtt_ns = self._sample_rtt(info, now_ns)
        if self.snd_una == 0 and self.retries > 0 and rtt_ns is None:
            self.rto.restart_after_syn_timeout()
        self._drop_acknowledged(info.ack, now_ns)
        if self._tail_probe is not None:
            self._end_tail_probe(info.ack, now_ns)
        if self.ca_state is CongestionState.RECOVERY:
            self._advance_in_recovery(acked)
            return
        if self.ca_state is CongestionState.DISORDER or self.snd_una >= max(self._recover, self._ecn_recover):
            self.ca_state = CongestionState.OPEN
        ack = Acked(
            now_ns=now_ns,
            acked_bytes=acked,
            flight_bytes=flight_bytes,
            snd_una=self.snd_una,
            snd_max=self.snd_max,
            rtt_ns=rtt_ns,
            srtt_ns=self.rto.srtt_ns,
            limited=limited,
        )
        if self.ca_state is not CongestionState.CWR and self.congestion.may_grow(ack):
            self.congestion.on_ack(ack)

    def _end_tail_probe(self, ack: int, now_ns: int) -> None:
        """End a tail loss probe; reduce the window if the probe repaired a loss (RFC 8985, section 7.4.2)."""
        if self._tail_probe is None or ack < self._tail_probe[0]:
            return
        repaired, self._tail_probe = self._tail_probe[1], None
        if repaired:
            self._reduce_once(now_ns)

    def _sample_rtt(self, info: AckInfo, now_ns: int) -> int | None:
        """Return an RTT sample in ns, or None; the RTO estimate is updated.

        It is from the echoed timestamp, or from a segment that was sent only once (Karn's rule).
        """
        timed_ns = self._timed.acknowledged(info.ack)
        sent_ns = timed_ns if info.echoed_ns is None else info.echoed_ns
        if sent_ns is None:
            return None
        self.rto.sample_between(sent_ns, now_ns, snd_una=info.ack, snd_nxt=self.snd_nxt)
        return self.rto.latest_ns

    def _drop_acknowledged(self, ack: int, now_ns: int) -> None:
        """Move `snd_una`; stop the timer if nothing is outstanding (RFC 6298, 5.2 and 5.3)."""
        self.stream.acknowledge(ack)
        self.snd_una = ack
        self.snd_nxt = max(self.snd_nxt, ack)
        self.scoreboard.advance(ack)
        self.retries = 0
        self.dup_acks = 0
        self.retransmit_ns = None
        if self.snd_max > ack:
            self._arm(now_ns)

    def _advance_in_recovery(self, acked: int) -> None:
        held = self.congestion.leaves_above and not self.sack
        if self.snd_una >= self._recover + held:
            self._leave_recovery()
        elif self.sack:
            return
        elif self.snd_una == self._recover:
            self.congestion.on_full_ack(acked, flight_bytes=self.flight_bytes)
        elif self.congestion.on_partial_ack(acked, flight_bytes=self.flight_bytes):
            self._resend_first = True
        else:
            self._leave_recovery()
            self._recover = self.snd_una - 1

    def _leave_recovery(self) -> None:
        self.ca_state = CongestionState.OPEN
        if not self.sack:
            self.congestion.leave_fast_recovery()

    def _count_duplicate(self, now_ns: int) -> None:
        self.dup_acks += 1
        if self.ca_state is CongestionState.RECOVERY:
            if not self.sack and self.snd_una < self._recover:
                self.congestion.on_duplicate_ack(flight_bytes=self.flight_bytes)
            return
        lost = self.dup_acks >= DUP_THRESH or (self.sack and self.scoreboard.is_lost(self.snd_una))
        if lost and self.snd_una > self._recover:
            self._enter_recovery(now_ns)
        elif self.ca_state is CongestionState.OPEN:
            self.ca_state = CongestionState.DISORDER

    def _enter_recovery(self, now_ns: int) -> None:
        """Start a fast retransmit (RFC 5681, section 3.2; RFC 6675, section 5, step 4)."""
        self.counters.fast_retransmits += 1
        self._recover = self.snd_max
        self._resend_first = True
        self.scoreboard.begin_recovery(self.snd_una)
        self.ca_state = CongestionState.RECOVERY
        if self.sack:
            self.congestion.on_loss(flight_bytes=self.flight_bytes, now_ns=now_ns)
        elif not self.congestion.enter_fast_recovery(flight_bytes=self.flight_bytes, now_ns=now_ns):
            self._go_back()
        self._arm(now_ns)

    def _go_back(self) -> None:
        """Set `snd_nxt` to `snd_una`; set the window to one segment or to half, as the profile says."""
        if self.profile.timeout_window == "half":
            self.congestion.cwnd_bytes = max(self.congestion.cwnd_bytes, self.congestion.ssthresh_bytes)
        self.snd_nxt = self.snd_una
        self.ca_state = CongestionState.LOSS
        self._resend_first = self._tail_due = False
        self._tail_probe = None
        self.dup_acks = 0

    # --- timers ---

    def next_timer_ns(self) -> int | None:
        """Return the time at which `on_timer` must be called; None if no timer runs."""
        if self.persist_ns is None:
            return self.retransmit_ns
        return earlier(self.retransmit_ns, self.persist_ns)

    def on_timer(self, now_ns: int) -> bool:
        """Run the timers that have expired; return False if the connection must be given up."""
        self._waits = False
        if self.persist_ns is not None and self.persist_ns <= now_ns:
            self.persist_ns = None
            self._probe_due = True
        if self.retransmit_ns is None or self.retransmit_ns > now_ns:
            return True
        if not self._expires_early:
            return self._time_out(now_ns)
        self._tail_due, self._expires_early = True, False
        self.retransmit_ns = self.rto.deadline_ns(now_ns)
        return True

    def _time_out(self, now_ns: int) -> bool:
        """Double the RTO and go back to the oldest outstanding byte; return False to end the connection.

        Sources: RFC 6298, 5.4 to 5.6; RFC 5681, 3.1.
        """
        if self.retries >= self.profile.max_retransmissions:
            return False
        self.counters.timeouts += 1
        first = self.retries == 0 and self.snd_una > 0
        self.congestion.on_timeout(flight_bytes=self.flight_bytes, first=first, now_ns=now_ns)
        self.retries += 1
        if self.snd_una > 0 or self.retries > self.profile.syn_linear_timeouts:
            self.rto.back_off()
        self._recover = self.snd_max
        self._go_back()
        if self.scoreboard.sacked.holding(self.snd_una) is not None:
            self.scoreboard.clear()
        self._arm(now_ns)
        return True

    # --- the own interface ---

    def on_link_up(self, now_ns: int) -> None:
        """Let a running retransmission timer expire now, without back-off: the link was down, and is up again."""
        if self.profile.resume_when_up and self.retransmit_ns is not None and not self._expires_early:
            self.rto.end_back_off()
            self.retransmit_ns = now_ns

    def on_local_drop(self, now_ns: int) -> None:
        """React to a packet that the local interface refused."""
        self.counters.local_drops += 1
        if self.profile.quench_on_local_drop:
            self.congestion.on_local_drop()
        elif self.profile.keep_on_local_drop:
            self._take_back(now_ns)
            self._reduce_once(now_ns)
