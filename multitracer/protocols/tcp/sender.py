"""The sending half of a connection: what to send next, and what an ACK or a timeout changes.

Rules of the file:

- Units are unwrapped, ends exclusive: `snd_una <= snd_nxt <= snd_max`. `snd_nxt` goes back to `snd_una`
  after a timeout.
- Recovery is one of three: fast recovery (RFC 5681, 6582), SACK (RFC 6675), or slow start after a
  timeout. How much may be outstanding is the congestion control's word alone.
- Nothing is sent from here: `next_transmission` is asked until it returns None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.tcp.congestion import Acked, congestion_control
from multitracer.protocols.tcp.rto import RtoEstimator, TimedSegments
from multitracer.protocols.tcp.scoreboard import DUP_THRESH, Scoreboard, is_dsack
from multitracer.protocols.tcp.send_stream import SendStream, Transmission
from multitracer.protocols.tcp.state import CaState, SenderCounters

if TYPE_CHECKING:
    from multitracer.protocols.tcp.profile import TcpProfile
    from multitracer.protocols.tcp.state import AckInfo


class Sender:
    """Send state of one connection (RFC 9293, section 3.3.1, and the RFCs of each mechanism)."""

    def __init__(self, profile: TcpProfile, *, mss_bytes: int, sack: bool) -> None:
        self.profile = profile
        self.stream = SendStream(capacity_bytes=profile.send_buffer_bytes)
        self.rto = RtoEstimator(
            initial_ns=profile.initial_rto_ns,
            min_ns=profile.min_rto_ns,
            max_ns=profile.max_rto_ns,
            tick_ns=profile.timer_tick_ns,
        )
        self.counters = SenderCounters()
        self.snd_una = self.snd_nxt = self.snd_max = 0
        self.snd_wnd_bytes = 0
        self.ca_state = CaState.OPEN
        self.dup_acks = 0
        self.retries = 0
        """Timeouts of the unit at `snd_una`."""
        self.negotiate(mss_bytes=mss_bytes, sack=sack)
        self._recover = 0
        self._ecn_recover = 0
        self._cwr_due = False
        self._resend_first = self._probe_due = False
        self._probed_end = 0
        self._window_told_by = (0, 0)
        self._max_window_bytes = 0
        self._timed = TimedSegments(every=profile.sample_every_ack)
        self._last_sent_ns = 0
        self.retransmit_ns: int | None = None
        """When the retransmission timer expires."""
        self.persist_ns: int | None = None
        """When the next window probe is due."""
        self._persist_backoff = 0

    def negotiate(self, *, mss_bytes: int, sack: bool) -> None:
        """Settle what the handshake has decided: payload of a full segment, and SACK."""
        self.mss_bytes = mss_bytes
        self.sack = sack
        self.scoreboard = Scoreboard(mss_bytes=mss_bytes)
        self.congestion = congestion_control(
            self.profile.congestion,
            mss_bytes=mss_bytes,
            initial_window_bytes=self.profile.initial_window_segments * mss_bytes,
        )

    @property
    def ack_seq(self) -> int:
        """Sequence number of a segment without data: the next new unit, unless a window is closed."""
        return self.snd_max if self.persist_ns is None else self.snd_nxt

    # --- what leaves ---

    @property
    def flight_bytes(self) -> int:
        """FlightSize: sent but not cumulatively acknowledged (RFC 5681)."""
        return self.snd_max - self.snd_una

    @property
    def pipe_bytes(self) -> int:
        """Units thought to be in the network: what cwnd limits."""
        if not self.sack:
            return self.snd_nxt - self.snd_una
        if self.ca_state is CaState.RECOVERY:
            return self.scoreboard.pipe(una=self.snd_una, end=self.snd_max)
        return self.snd_nxt - self.snd_una - self.scoreboard.sacked_between(self.snd_una, self.snd_nxt)

    def next_transmission(self, now_ns: int) -> Transmission | None:
        """Return the next segment that may leave at `now_ns`, or None."""
        if self.snd_nxt == 0:
            return self._sent(Transmission(seq=0, syn=True, retransmission=self.snd_max > 0), now_ns)
        if self.snd_una == 0:
            return None
        if self._resend_first:
            self._resend_first = False
            return self._resend(self.snd_una, self._first_hole_end(), now_ns)
        if self._probe_due:
            self._probe_due = False
            return self._probe(now_ns)
        self._restart_after_idle(now_ns)
        if self.sack and self.ca_state is CaState.RECOVERY:
            return self._next_in_sack_recovery(now_ns)
        return self._next_in_window(now_ns)

    def _first_hole_end(self) -> int:
        above = self.scoreboard.sacked.above(self.snd_una)
        end = min(self.snd_una + self.mss_bytes, self.snd_max)
        return min(end, above[0]) if above is not None else end

    def _restart_after_idle(self, now_ns: int) -> None:
        if self.flight_bytes == 0 and now_ns - self._last_sent_ns > self.rto.rto_ns:
            self.congestion.on_idle()

    def _next_in_sack_recovery(self, now_ns: int) -> Transmission | None:
        """NextSeg() of RFC 6675: lost holes, new data, other holes, one rescue."""
        board = self.scoreboard
        if self.congestion.cwnd_bytes - self.pipe_bytes < self.mss_bytes:
            return None
        hole = board.next_hole(una=self.snd_una, lost_only=True)
        if hole is None:
            new = self._segment_at(self.snd_nxt, room=self.mss_bytes)
            if new is not None:
                return self._sent(new, now_ns)
            hole = board.next_hole(una=self.snd_una, lost_only=False)
        fin = int(self.snd_max > self.stream.end)
        hole = hole or board.rescue(una=self.snd_una, end=self.snd_max, fin=fin)
        return None if hole is None else self._resend(*hole, now_ns)

    def _resend(self, seq: int, end: int, now_ns: int) -> Transmission:
        self.scoreboard.high_rxt = max(self.scoreboard.high_rxt, end)
        return self._sent(self._transmission(seq, end), now_ns)

    def _next_in_window(self, now_ns: int) -> Transmission | None:
        while (held := self.scoreboard.sacked.holding(self.snd_nxt)) is not None:
            self.snd_nxt = held[1]
        segment = self._segment_at(self.snd_nxt, room=self._cwnd_with_limited_transmit() - self.pipe_bytes)
        if segment is None:
            self._consider_persisting(now_ns)
            return None
        return self._sent(segment, now_ns)

    def _cwnd_with_limited_transmit(self) -> int:
        """Return cwnd, two segments wider while the first duplicate ACKs come in (RFC 3042)."""
        limited = self.profile.limited_transmit and self.ca_state is CaState.DISORDER
        extra = min(self.dup_acks, DUP_THRESH - 1) if limited else 0
        return self.congestion.cwnd_bytes + extra * self.mss_bytes

    def _segment_at(self, seq: int, *, room: int) -> Transmission | None:
        """Return the segment to send from `seq` if windows, Nagle and silly-window rules let it go."""
        unsent = self.stream.end - seq
        if unsent <= 0:
            return self._transmission(seq, seq + 1) if self.stream.fin_due(seq) and room > 0 else None
        above = self.scoreboard.sacked.above(seq)
        wanted = min(self.mss_bytes, unsent, self.mss_bytes if above is None else above[0] - seq)
        size = min(wanted, room, self.snd_una + self.snd_wnd_bytes - seq)
        # Cut by a window, it must not be silly (RFC 9293, section 3.8.6.2.1).
        worth = size >= wanted or (self.snd_nxt == self.snd_una and size >= self._max_window_bytes // 2)
        if size <= 0 or not worth:
            return None
        if size == unsent and self._nagle_holds(seq, size):
            return None
        return self._transmission(seq, seq + size + self.stream.fin_due(seq + size))

    def _nagle_holds(self, seq: int, size: int) -> bool:
        """Return whether a short last segment waits until all is acknowledged (RFC 9293, 3.7.4)."""
        new_and_short = seq >= self.snd_max and size < self.mss_bytes
        return self.profile.nagle and new_and_short and not self.stream.closed and self.flight_bytes > 0

    def _transmission(self, seq: int, end: int) -> Transmission:
        payload, fin = self.stream.cut(seq, end)
        only_probed = self.snd_max == self._probed_end == seq + 1
        return Transmission(
            seq=seq,
            payload=payload,
            fin=fin,
            retransmission=seq < self.snd_max and not only_probed,
            cwr=self._cwr_due and seq >= self.snd_max and len(payload) > 0,
        )

    def _probe(self, now_ns: int) -> Transmission:
        """Send what fits, at least one byte, into a window too small (RFC 9293, section 3.8.6.1)."""
        size = max(1, min(self.snd_wnd_bytes, self.mss_bytes, self.stream.end - self.snd_una))
        probe = self._transmission(self.snd_una, self.snd_una + size)
        self.counters.note_sent(size, again=False)
        self.counters.zero_window_probes += self.snd_wnd_bytes == 0
        self.snd_max = max(self.snd_max, probe.end)
        self._probed_end = probe.end
        self._timed.clear()
        self._arm_persist(now_ns)
        return probe

    def _sent(self, segment: Transmission, now_ns: int) -> Transmission:
        """Account for a segment that leaves now."""
        self.counters.note_sent(len(segment.payload), again=segment.retransmission)
        self._cwr_due = self._cwr_due and not segment.cwr
        if segment.retransmission:
            self._timed.clear()
        else:
            self._timed.note(segment.end, now_ns)
        self.snd_nxt = max(self.snd_nxt, segment.end)
        self.snd_max = max(self.snd_max, segment.end)
        self._last_sent_ns = now_ns
        self.persist_ns = None
        if self.retransmit_ns is None:
            self.retransmit_ns = self.rto.deadline_ns(now_ns)
        return segment

    # --- what comes back ---

    def acknowledge(self, info: AckInfo, *, now_ns: int) -> None:
        """Take an ACK that is not above `snd_max`; an old one changes nothing."""
        if info.ack < self.snd_una:
            return
        same_window = info.window_bytes == self.snd_wnd_bytes
        self._take_window(info)
        gained = self._take_blocks(info)
        if info.ece:
            self._heed_ecn(now_ns)
        if info.ack > self.snd_una:
            self._advance(info, now_ns=now_ns)
        elif gained if self.sack else (info.pure and same_window and self.retransmit_ns is not None):
            self._count_duplicate(now_ns)  # with no timer running only a window probe is out

    def _take_window(self, info: AckInfo) -> None:
        """Take the window unless a newer segment has told it (SND.WL1, SND.WL2 of RFC 9293)."""
        if (info.seq, info.ack) < self._window_told_by:
            return
        self._window_told_by, self.snd_wnd_bytes = (info.seq, info.ack), info.window_bytes
        self._max_window_bytes = max(self._max_window_bytes, info.window_bytes)
        if info.window_bytes > 0:
            self._probe_due = False
            self.persist_ns = None
            self._persist_backoff = 0

    def _take_blocks(self, info: AckInfo) -> int:
        """Update the scoreboard, a D-SACK counted apart (RFC 2883); return the units first SACKed."""
        blocks = list(info.blocks)
        if is_dsack(blocks, ack=info.ack):
            self.counters.dsacks += 1
            del blocks[0]
        una = max(info.ack, self.snd_una)
        return self.scoreboard.update(blocks, una=una, end=self.snd_max) if self.sack else 0

    def _heed_ecn(self, now_ns: int) -> None:
        """Reduce once for the data in flight (RFC 3168, section 6.1.2)."""
        if self.snd_una < self._ecn_recover or self.ca_state in {CaState.RECOVERY, CaState.LOSS}:
            return
        self.congestion.on_loss(flight_bytes=self.flight_bytes, now_ns=now_ns)
        self.counters.ecn_reductions += 1
        self._ecn_recover = self.snd_max
        self._cwr_due = True
        self.ca_state = CaState.CWR

    def _advance(self, info: AckInfo, *, now_ns: int) -> None:
        """Take an ACK of new units."""
        limited = self.snd_una > 0 and self.pipe_bytes + self.mss_bytes > self.congestion.cwnd_bytes
        flight_bytes, acked = self.flight_bytes, info.ack - self.snd_una
        rtt_ns = self._sample_rtt(info, now_ns)
        if self.snd_una == 0 and self.retries > 0 and rtt_ns is None:
            self.rto.restart_after_syn_timeout()
        self._drop_acknowledged(info.ack, now_ns)
        if self.ca_state is CaState.RECOVERY:
            self._advance_in_recovery(acked)
            return
        if self.ca_state is CaState.DISORDER or self.snd_una >= max(self._recover, self._ecn_recover):
            self.ca_state = CaState.OPEN
        if limited and self.ca_state is not CaState.CWR:
            self.congestion.on_ack(
                Acked(
                    now_ns=now_ns,
                    acked_bytes=acked,
                    flight_bytes=flight_bytes,
                    snd_una=self.snd_una,
                    snd_max=self.snd_max,
                    rtt_ns=rtt_ns,
                    srtt_ns=self.rto.srtt_ns,
                )
            )

    def _sample_rtt(self, info: AckInfo, now_ns: int) -> int | None:
        """Sample the RTT from the echoed timestamp, or from a segment never resent (Karn's rule)."""
        timed_ns = self._timed.acknowledged(info.ack)
        sent_ns = timed_ns if info.echoed_ns is None else info.echoed_ns
        if sent_ns is None:
            return None
        self.rto.sample_between(sent_ns, now_ns)
        return self.rto.latest_ns

    def _drop_acknowledged(self, ack: int, now_ns: int) -> None:
        """Move `snd_una`; the timer stops with nothing outstanding (RFC 6298, 5.2 and 5.3)."""
        self.stream.acknowledge(ack)
        self.snd_una = ack
        self.snd_nxt = max(self.snd_nxt, ack)
        self.scoreboard.advance(ack)
        self.retries = 0
        self.dup_acks = 0
        self.retransmit_ns = self.rto.deadline_ns(now_ns) if self.flight_bytes else None

    def _advance_in_recovery(self, acked: int) -> None:
        if self.snd_una >= self._recover:
            self._leave_recovery()
        elif self.sack:
            return
        elif self.congestion.on_partial_ack(acked):
            self._resend_first = True
        else:
            self._leave_recovery()
            self._recover = self.snd_una - 1

    def _leave_recovery(self) -> None:
        self.ca_state = CaState.OPEN
        if not self.sack:
            self.congestion.leave_fast_recovery()

    def _count_duplicate(self, now_ns: int) -> None:
        self.dup_acks += 1
        if self.ca_state is CaState.RECOVERY:
            if not self.sack:
                self.congestion.on_duplicate_ack()
            return
        lost = self.dup_acks >= DUP_THRESH or (self.sack and self.scoreboard.is_lost(self.snd_una))
        if lost and self.snd_una > self._recover:
            self._enter_recovery(now_ns)
        elif self.ca_state is CaState.OPEN:
            self.ca_state = CaState.DISORDER

    def _enter_recovery(self, now_ns: int) -> None:
        """Fast retransmit (RFC 5681, section 3.2; RFC 6675, section 5, step 4)."""
        self.counters.fast_retransmits += 1
        self._recover = self.snd_max
        self._resend_first = True
        self.scoreboard.begin_recovery(self.snd_una)
        self.ca_state = CaState.RECOVERY
        if self.sack:
            self.congestion.on_loss(flight_bytes=self.flight_bytes, now_ns=now_ns)
        elif not self.congestion.enter_fast_recovery(flight_bytes=self.flight_bytes, now_ns=now_ns):
            self._go_back()
        self.retransmit_ns = self.rto.deadline_ns(now_ns)

    def _go_back(self) -> None:
        """Slow-start from `snd_una` again."""
        self.snd_nxt = self.snd_una
        self.ca_state = CaState.LOSS
        self._resend_first = False
        self.dup_acks = 0

    # --- timers ---

    def next_timer_ns(self) -> int | None:
        """Return when `on_timer` wants to be called, or None."""
        return min((t for t in (self.retransmit_ns, self.persist_ns) if t is not None), default=None)

    def on_timer(self, now_ns: int) -> bool:
        """Run what has expired; return False when the connection has to be given up."""
        if self.persist_ns is not None and self.persist_ns <= now_ns:
            self.persist_ns = None
            self._probe_due = True
        if self.retransmit_ns is not None and self.retransmit_ns <= now_ns:
            return self._time_out(now_ns)
        return True

    def _time_out(self, now_ns: int) -> bool:
        """Back off and go back to the oldest unit (RFC 6298, 5.4 to 5.6; RFC 5681, section 3.1)."""
        if self.retries >= self.profile.max_retransmissions:
            return False
        self.counters.timeouts += 1
        first = self.retries == 0 and self.snd_una > 0
        self.congestion.on_timeout(flight_bytes=self.flight_bytes, first=first, now_ns=now_ns)
        self.retries += 1
        self.rto.back_off()
        self._recover = self.snd_max
        self._go_back()
        self._timed.clear()
        if self.scoreboard.sacked.holding(self.snd_una) is not None:
            self.scoreboard.clear()
        self.retransmit_ns = self.rto.deadline_ns(now_ns)
        return True

    def _consider_persisting(self, now_ns: int) -> None:
        """Arm the persist timer when a small window alone keeps data back."""
        waiting = self.persist_ns is None and self.snd_nxt == self.snd_una < self.stream.end
        if waiting and self.snd_wnd_bytes < min(self.mss_bytes, self.stream.end - self.snd_una):
            self.retransmit_ns = None
            self._arm_persist(now_ns)

    def _arm_persist(self, now_ns: int) -> None:
        self.persist_ns = now_ns + min(self.rto.rto_ns << self._persist_backoff, self.profile.max_rto_ns)
        self._persist_backoff = min(self._persist_backoff + 1, 10)

    def on_local_drop(self) -> None:
        """Take the word of the own interface that it refused the last packet."""
        self.counters.local_drops += 1
        if self.profile.quench_on_local_drop:
            self.congestion.on_local_drop()
