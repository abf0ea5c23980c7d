"""The sender of Linux with SACK: RACK finds losses, ACKs pace reductions, needless ones are undone.

Sources: net/ipv4/tcp_input.c, tcp_recovery.c and tcp_timer.c of Linux 6.x (tcp_fastretrans_alert,
tcp_process_loss, tcp_enter_loss, tcp_cwnd_reduction), RFC 8985 (RACK), RFC 6937 (proportional rate
reduction), RFC 5682 (F-RTO), RFC 3522 (Eifel). Rules of the file:

- Windows are counted in segments, and `snd_nxt` never goes back: losses are recorded for each segment.
- A reduction is undone if an ACK shows that nothing was lost: it echoes a timestamp from before the first
  retransmission, or every retransmission came back as a duplicate, or after a timeout a segment that was sent
  only once is reported as arrived.
- Without SACK the sender is `TcpSender`, with `linux-reno` or `linux-cubic`: fast recovery (RFC 5681, 6582) or slow
  start after a timeout. It is the sender of other profiles, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.tcp.congestion.base import Acked
from multitracer.lab.tcp.flight import Arrived, Flight, Undo
from multitracer.lab.tcp.state import CongestionState, earlier
from multitracer.lab.tcp.transmitter import DUP_THRESH, Transmitter, is_dsack

if TYPE_CHECKING:
    from multitracer.lab.tcp.flight import Sent
    from multitracer.lab.tcp.profile import TcpProfile
    from multitracer.lab.tcp.state import AckInfo
    from multitracer.lab.tcp.transmitter import Transmission


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
        if self.ca_state is not CongestionState.CWR:
            self._grow(acked, flight_bytes, rtt_ns, limited=limited, now_ns=now_ns)

    def _grow(self, acked_bytes: int, flight_bytes: int, rtt_ns: int | None, *, limited: bool, now_ns: int) -> None:
        """Let the window grow by an ACK, if the congestion control allows it."""
        ack = Acked(
            now_ns=now_ns,
            acked_bytes=acked_bytes,
            flight_bytes=flight_bytes,
            snd_una=self.snd_una,
            snd_max=self.snd_max,
            rtt_ns=rtt_ns,
            srtt_ns=self.rto.srtt_ns,
            limited=limited,
        )
        if self.congestion.may_grow(ack):
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


_REDUCING = frozenset({CongestionState.RECOVERY, CongestionState.LOSS})


class LinuxSender(TcpSender):
    """The sender of Linux, for connections with SACK."""

    def __init__(self, profile: TcpProfile, *, mss_bytes: int, sack: bool) -> None:
        super().__init__(profile, mss_bytes=mss_bytes, sack=sack)
        self._flight = Flight()
        self._undo = Undo()
        self._before = self._delivered = self._left = 0
        """Window at the start of the reduction; segments delivered and sent since then.

        Linux: prior_cwnd, prr_delivered, prr_out."""
        self._is_frto = False
        self._tries_new = False
        """Whether new data are sent before any retransmission: F-RTO waits for their ACKs (RFC 5682, 2.b)."""
        self._reorder_ns: int | None = None
        """Time at which the next late segment exceeds the reordering window; None if there is none."""

    # --- what leaves ---

    @property
    def _window(self) -> int:
        return self.congestion.cwnd_bytes // self.mss_bytes

    def _limit(self, segments: int) -> None:
        self.congestion.cwnd_bytes = max(segments, 1) * self.mss_bytes

    def next_transmission(self, now_ns: int) -> Transmission | None:
        """Return the next segment to send at `now_ns`; None if there is none."""
        if not self.sack or self.snd_una == 0 or self._copies or self._waits:
            return super().next_transmission(now_ns)
        if self._probe_due or self._tail_due:
            return super().next_transmission(now_ns)
        self._last = None
        self._restart_after_idle(now_ns)
        room = self._window - self._flight.in_network
        if room > 0 and not self._tries_new and (lost := self._flight.next_lost()) is not None:
            return self._repair(lost, now_ns)
        segment = self._segment_at(self.snd_nxt, room=room * self.mss_bytes)
        if segment is not None:
            return self._sent(segment, now_ns)
        if self._tries_new and self.snd_max <= self._recover:  # there is nothing new to try
            self._tries_new = self._is_frto = False
            return self.next_transmission(now_ns)
        self._consider_persisting(now_ns)
        return None

    def _repair(self, segment: Sent, now_ns: int) -> Transmission:
        self._undo.resent(now_ns)
        is_first = self._flight.resend(segment, now_ns)
        sent = self._sent(self._transmission(segment.seq, segment.end), now_ns)
        if is_first:
            self._arm(now_ns)
        return sent

    def _sent(self, segment: Transmission, now_ns: int) -> Transmission:
        if self.sack and segment.seq >= self.snd_nxt and not segment.syn:
            self._flight.add(segment.seq, segment.end, now_ns, fin=segment.fin)
        if self.ca_state is CongestionState.RECOVERY:
            self._left += 1
        return super()._sent(segment, now_ns)

    def _probe_tail(self, now_ns: int) -> Transmission:
        last = self._flight.last
        probe = super()._probe_tail(now_ns)
        if self._tail_probe is not None and self._tail_probe[1] and last is not None:
            last.sent_ns, last.was_resent = now_ns, True
        return probe

    def _take_back(self, now_ns: int) -> None:
        if self.sack and self._last is not None and self._last[0].payload:
            self._flight.take_back(self._last[0].seq)
        super()._take_back(now_ns)
        self._resend_first = self._resend_first and not self.sack

    # --- what comes back ---

    def acknowledge(self, info: AckInfo, *, now_ns: int) -> None:
        """Process an ACK that is not above `snd_max`; an old one changes nothing."""
        if not self.sack or self.snd_una == 0:
            super().acknowledge(info, now_ns=now_ns)
            return
        if info.ack < self.snd_una:
            return
        self._waits = self._tries_new = False
        limited = self._flight.in_network >= self._window
        flight_bytes, acked_bytes = self.flight_bytes, info.ack - self.snd_una
        same_window = info.window_bytes == self.snd_wnd_bytes
        self._take_window(info)
        lost_before = self._flight.lost
        acked, sacked = self._take_news(info, now_ns)
        rtt_ns = self._sample(info, acked, sacked, now_ns)
        if info.ece:
            self._heed_ecn(now_ns)
        if acked_bytes:
            self._drop_acknowledged(info.ack, now_ns)
            self._end_tail_probe(info.ack, now_ns)
        repeated = not acked_bytes and info.pure and same_window
        if repeated or info.blocks or self.ca_state is not CongestionState.OPEN:
            reported = repeated or sacked.segments > 0
            original = sacked.has_original or acked.has_original
            self._react(info, advanced=acked_bytes > 0, reported=reported, original=original, now_ns=now_ns)
        if acked_bytes and self.flight_bytes:
            self._arm(now_ns)  # once more: whether the tail may be probed depends on the state
        if self.ca_state is CongestionState.RECOVERY:
            clean = acked_bytes > 0 and self._flight.lost <= lost_before
            self._reduce(sacked.segments + acked.segments, clean=clean)
        elif acked_bytes and self.ca_state is not CongestionState.CWR:
            self._grow(acked_bytes, flight_bytes, rtt_ns, limited=limited, now_ns=now_ns)

    def _take_news(self, info: AckInfo, now_ns: int) -> tuple[Arrived, Arrived]:
        """Return two summaries of the segments that this ACK is the first to report.

        The first is of those that its number acknowledges, the second of those in its SACK blocks.
        """
        if is_dsack(list(info.blocks), ack=info.ack):
            self._undo.came_back(info.blocks[0], una=self.snd_una)
        self._take_blocks(info)
        high, min_ns = self._recover, self.rto.smallest_ns or 0
        blocks = [block for block in info.blocks if block[0] >= info.ack]
        sacked = self._flight.take_blocks(blocks, high=high, now_ns=now_ns, min_rtt_ns=min_ns)
        acked = self._flight.acknowledge(
            info.ack, high=high, now_ns=now_ns, min_rtt_ns=min_ns, echoed_ns=info.echoed_ns
        )
        return acked, sacked

    def _sample(self, info: AckInfo, acked: Arrived, sacked: Arrived, now_ns: int) -> int | None:
        """Return the RTT in ns of the newest segment that this ACK reports, and update the RTT estimate.

        Only segments that were sent once are used, else the echoed timestamp; None without a sample.
        """
        self._timed.acknowledged(info.ack)
        oldest_ns, newest_ns = (acked.oldest_ns, acked.newest_ns) if not acked.has_resent else (None, None)
        if oldest_ns is None:
            oldest_ns, newest_ns = sacked.oldest_ns, sacked.newest_ns
        if oldest_ns is None and info.ack > self.snd_una:
            oldest_ns = newest_ns = info.echoed_ns
        if oldest_ns is None or newest_ns is None:
            return None
        self.rto.sample(now_ns - oldest_ns, snd_una=info.ack, snd_nxt=self.snd_nxt)
        return now_ns - newest_ns

    def _end_tail_probe(self, ack: int, now_ns: int) -> None:
        """End a tail loss probe when it is acknowledged; reduce the window if the probe repaired a loss."""
        if self._tail_probe is None or ack < self._tail_probe[0] + self._tail_probe[1]:
            return
        repaired, self._tail_probe = self._tail_probe[1], None
        if repaired and self.ca_state not in _REDUCING:
            self.congestion.on_loss(flight_bytes=self.flight_bytes, now_ns=now_ns)

    # --- tcp_fastretrans_alert ---

    def _react(self, info: AckInfo, *, advanced: bool, reported: bool, original: bool, now_ns: int) -> None:
        """Begin, continue or end a recovery, for an ACK that is more than an ACK of new data in order.

        Parameters
        ----------
        info : AckInfo
        advanced : bool
            Whether the ACK acknowledges new units.
        reported : bool
            Whether it is a duplicate, or its blocks report an arrival.
        original : bool
            Whether it reports a segment that was sent only once, before the last reduction.
        now_ns : int
        """
        self._end_what_is_over(info)
        if self._undoes_partly(info, advanced=advanced):
            return
        if self.ca_state is CongestionState.LOSS:
            self._process_loss(info, advanced=advanced, reported=reported, original=original)
        elif self.ca_state is not CongestionState.CWR and self._undo.came_all_back:
            self._take_back_reduction(unmark=False)
            self._keep_open()
        lost_again = self._detect(now_ns)
        if self.ca_state is CongestionState.RECOVERY or (self.ca_state is CongestionState.LOSS and not lost_again):
            return
        if self._flight.lost:
            self._begin_recovery(now_ns)
        elif self.ca_state is not CongestionState.CWR:
            self._keep_open()

    def _end_what_is_over(self, info: AckInfo) -> None:
        """End the recovery state if all its data are acknowledged."""
        if self.ca_state is CongestionState.OPEN:
            self._undo.resent_ns = None
        elif self.ca_state is CongestionState.CWR and self.snd_una >= self._ecn_recover:
            self.ca_state = CongestionState.OPEN
        elif self.ca_state is CongestionState.RECOVERY and self.snd_una >= self._recover:
            self._leave_recovery_of(info)

    def _undoes_partly(self, info: AckInfo, *, advanced: bool) -> bool:
        """Undo a recovery whose first segments were delayed, not lost (tcp_try_undo_partial).

        Return whether it was undone.
        """
        is_recovery = self.ca_state is CongestionState.RECOVERY
        if not (is_recovery and advanced and self._undo.is_delayed(info.echoed_ns)):
            return False
        if not self._flight.repairing:
            self._take_back_reduction(unmark=True)
            self._keep_open()
        return True

    def _leave_recovery_of(self, info: AckInfo) -> None:
        """End a recovery when all its data are acknowledged.

        Undo its reduction if it was unnecessary (tcp_try_undo_recovery).
        """
        if self._undo.is_needless(info.echoed_ns):
            self._take_back_reduction(unmark=False)
        elif self._undo.since is not None:
            self.congestion.cwnd_bytes = self.congestion.ssthresh_bytes
        self.ca_state = CongestionState.OPEN

    def _keep_open(self) -> None:
        """Set the state to Open, or to Disorder while segments are missing (tcp_try_keep_open)."""
        if not self._flight.any_resent:
            self._undo.resent_ns = None
        missing = self._flight.sacked or self._flight.lost or self._flight.any_resent
        state = CongestionState.DISORDER if missing else CongestionState.OPEN
        if state is not self.ca_state:
            self.ca_state, self._recover = state, self.snd_max

    def _begin_recovery(self, now_ns: int) -> None:
        self.counters.fast_retransmits += 1
        self._recover, self._tail_probe = self.snd_max, None
        self._before, self._delivered, self._left = self._window, 0, 0
        if self.ca_state is CongestionState.CWR:
            self._undo.forget_window()  # it was reduced for these data before
        else:
            self._note_before()
            self.congestion.on_loss(flight_bytes=self.flight_bytes, now_ns=now_ns)
        self._undo.begin(self.snd_una, under_way=self._flight.repairing)
        self.ca_state = CongestionState.RECOVERY

    def _note_before(self) -> None:
        """Store window and ssthresh before a reduction (tcp_current_ssthresh)."""
        cwnd, ssthresh = self.congestion.cwnd_bytes, self.congestion.ssthresh_bytes
        self._undo.remember(cwnd, max(ssthresh, cwnd * 3 // 4))

    def _reduce(self, arrived: int, *, clean: bool) -> None:
        """Set cwnd during a reduction, paced by the `arrived` segments (tcp_cwnd_reduction; RFC 6937).

        `clean` means that the ACK reports no new loss.
        """
        if arrived <= 0 or not self._before:
            return
        self._delivered += arrived
        goal, in_network = self.congestion.ssthresh_bytes // self.mss_bytes, self._flight.in_network
        if in_network > goal:
            more = -(-goal * self._delivered // self._before) - self._left
        else:
            more = min(goal - in_network, max(self._delivered - self._left, arrived) + clean)
        self._limit(in_network + max(more, int(self._left == 0)))

    # --- losses ---

    def _detect(self, now_ns: int, *, again: bool = False) -> bool:
        """Mark the segments that RACK finds lost; return whether a retransmission was lost."""
        if not (again or self._flight.has_news):
            return False
        is_aggressive = self.ca_state in _REDUCING or self._flight.sacked >= DUP_THRESH
        window_ns = min((self.rto.smallest_ns or 0) // 4, (self.rto.srtt_ns or 0) // 8)
        lost_again, self._reorder_ns = self._flight.detect_losses(
            now_ns, window_ns=0 if is_aggressive else window_ns, again=again
        )
        return lost_again

    def _process_loss(self, info: AckInfo, *, advanced: bool, reported: bool, original: bool) -> None:
        """Decide by F-RTO whether the timeout was unnecessary (tcp_process_loss; RFC 5682, section 3.1)."""
        if (advanced and self._undo.is_needless(info.echoed_ns)) or (self._is_frto and original):
            self._reopen()
            return
        recovered = self.snd_una >= self._recover
        if self._is_frto and self.snd_max > self._recover:
            self._is_frto = not reported
        elif self._is_frto and advanced and not recovered:
            self._recover, self._tries_new = self.snd_max, True
            return
        if recovered:
            if self._undo.is_needless(info.echoed_ns):
                self._take_back_reduction(unmark=False)
            self.ca_state = CongestionState.OPEN

    def _reopen(self) -> None:
        """Restore the state before an unnecessary timeout (tcp_try_undo_loss)."""
        self._take_back_reduction(unmark=True)
        self.retries = 0
        self.ca_state = CongestionState.OPEN

    def _take_back_reduction(self, *, unmark: bool) -> None:
        """Restore window and ssthresh; with `unmark`, mark no segment as lost (tcp_undo_cwnd_reduction)."""
        if unmark:
            self._flight.unmark_losses()
        window, undo = self.congestion, self._undo
        window.cwnd_bytes = max(window.cwnd_bytes, undo.cwnd_bytes)
        window.ssthresh_bytes = max(window.ssthresh_bytes, undo.ssthresh_bytes)
        self._undo.end()
        self.counters.undone += 1

    # --- timers ---

    def next_timer_ns(self) -> int | None:
        """Return the time at which `on_timer` must be called; None if no timer runs."""
        return earlier(super().next_timer_ns(), self._reorder_ns)

    def on_timer(self, now_ns: int) -> bool:
        """Run the timers that have expired; return False if the connection must be given up."""
        if self._reorder_ns is not None and self._reorder_ns <= now_ns:
            self._reorder_ns = None
            self._detect(now_ns, again=True)
            if self._flight.lost and self.ca_state not in _REDUCING:
                self._begin_recovery(now_ns)
                self._reduce(1, clean=False)
        return super().on_timer(now_ns)

    def _time_out(self, now_ns: int) -> bool:
        """Mark segments as lost and continue with a window of one segment.

        Return False to end the connection (tcp_retransmit_timer, tcp_enter_loss).
        """
        if not self.sack or not len(self._flight):
            return super()._time_out(now_ns)
        if self.retries >= self.profile.max_retransmissions:
            return False
        self.counters.timeouts += 1
        is_new = self.ca_state not in _REDUCING
        reduces = (
            is_new or self.snd_una >= self._recover or (self.ca_state is CongestionState.LOSS and self.retries == 0)
        )
        self._flight.time_out(now_ns)
        if reduces:
            self._note_before()
        self.congestion.on_timeout(flight_bytes=self.flight_bytes, first=reduces, now_ns=now_ns)
        if reduces:
            self._undo.begin(self.snd_una, under_way=self._flight.repairing)
        self._limit(self._flight.in_network + 1)
        self._is_frto = is_new or self.retries > 0
        self._tries_new = self._tail_due = False
        self._tail_probe = self._reorder_ns = None
        self._recover, self.ca_state = self.snd_max, CongestionState.LOSS
        self.retries += 1
        self.rto.back_off()
        self._arm(now_ns)
        return True


def sender_of(profile: TcpProfile, *, mss_bytes: int) -> TcpSender:
    """Return a new sender for a profile, as it is before the handshake has agreed on SACK."""
    kind = LinuxSender if profile.recovery == "linux" else TcpSender
    return kind(profile, mss_bytes=mss_bytes, sack=False)
