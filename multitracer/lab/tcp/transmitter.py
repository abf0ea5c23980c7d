"""The sending part of the sender: windows, segments, and the choice of the next one.

Rules of the file:

- Units are unwrapped sequence numbers, ends exclusive: `snd_una <= snd_nxt <= snd_max`. `snd_nxt` goes back
  to
  `snd_una` after a timeout.
- Only the congestion control decides how much may be outstanding.
- This module sends nothing: the caller must call `next_transmission` until it returns None.

The retransmission timeout is that of RFC 6298, optionally with the coarse clock of 4.4BSD.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.lab.tcp.congestion import congestion_control
from multitracer.lab.tcp.state import CongestionState, SenderCounters
from multitracer.protocols.ranges import RangeSet
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


# The part of the outgoing stream that the send buffer holds, and the segments cut from it.
#
# Units are unwrapped: 0 is the SYN, 1 the first byte of data, the FIN follows the last byte; ends are
# exclusive.


@dataclass(slots=True, kw_only=True)  # made of every segment: frozen it takes 2.6 times as long
class Transmission:
    """A segment of the stream that is sent now."""

    seq: int
    payload: bytes = b""
    syn: bool = False
    fin: bool = False
    retransmission: bool = False
    """Whether one of its units was sent before, other than by a window probe."""
    cwr: bool = False
    """Whether to set CWR: the window was reduced after an ECN echo (RFC 3168)."""

    @property
    def end(self) -> int:
        """Sequence number after the last byte of this transmission."""
        return self.seq + len(self.payload) + self.syn + self.fin

    @property
    def may_be_marked(self) -> bool:
        """Whether the packet may be ECN-capable: only with new data (RFC 3168, section 6.1.5)."""
        return bool(self.payload) and not self.retransmission


class SendStream:
    """Bytes that the application has written and the peer has not acknowledged.

    Parameters
    ----------
    capacity_bytes : int
        Size of the send buffer.
    """

    def __init__(self, *, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._first = 1
        self._data = bytearray()
        self.end = 1
        """Unit after the last byte that was written."""
        self.closed = False
        """Whether the application has closed the stream: a FIN follows the data."""
        self.fin_acknowledged = False

    def __len__(self) -> int:
        """Return the number of stored bytes: the value of SIOCOUTQ."""
        return len(self._data)

    @property
    def free_bytes(self) -> int:
        """Number of bytes that `write` would accept."""
        return 0 if self.closed else max(0, self.capacity_bytes - len(self._data))

    def write(self, data: bytes) -> int:
        """Append bytes; return how many the buffer accepted."""
        taken = data[: self.free_bytes]
        self._data += taken
        self.end += len(taken)
        return len(taken)

    def fin_due(self, seq: int) -> bool:
        """Return whether the sequence number `seq` is that of a FIN which the peer has not acknowledged."""
        return self.closed and seq == self.end and not self.fin_acknowledged

    def cut(self, seq: int, end: int) -> tuple[bytes, bool]:
        """Return the payload at the sequence numbers `[seq, end)`, and whether they include the FIN."""
        fin = end > self.end
        return bytes(self._data[seq - self._first : end - fin - self._first]), fin

    def acknowledge(self, ack: int) -> None:
        """Discard the bytes below the sequence number `ack`."""
        if self.closed and ack > self.end:
            self.fin_acknowledged = True
        gone = min(max(0, ack - self._first), len(self._data))
        del self._data[:gone]
        self._first += gone


# The sender's knowledge from SACK blocks: the procedures of RFC 6675, section 4.
#
# Words of the RFC map to names here: HighACK + 1 is `una`, HighData + 1 is `end`, HighRxt + 1 is `high_rxt`.
# All are unwrapped units, ends are exclusive.


DUP_THRESH = 3
"""Number of duplicate ACKs, or of SACKed ranges above a unit, that mean that it is lost."""


class Scoreboard:
    """SACKed ranges of the data in flight, and the progress of retransmissions in a recovery."""

    def __init__(self, *, mss_bytes: int) -> None:
        self.mss_bytes = mss_bytes
        self.sacked = RangeSet()
        self.high_rxt = 0
        """Unit after the last one that this recovery retransmitted."""
        self.rescued = False
        """Whether this recovery has used its rescue retransmission."""
        self._lost_below = self._late_below = 0

    def update(self, blocks: list[tuple[int, int]], *, una: int, end: int) -> int:
        """Add the SACK blocks of one ACK; return how many sequence numbers are SACKed for the first time."""
        before = self.sacked.total
        for left, right in blocks:
            if una <= left < right <= end:
                self.sacked.add(left, right)
        gained = self.sacked.total - before
        self.advance(una)
        return gained

    def advance(self, una: int) -> None:
        """Remove the ranges that the cumulative ACK covers."""
        self.sacked.remove_below(una)
        self._lost_below = self._loss_boundary()

    def begin_recovery(self, una: int) -> None:
        """Start a recovery at `una`; no segment counts as retransmitted in it yet."""
        self.high_rxt = una
        self.rescued = False

    def clear(self) -> None:
        """Remove all ranges, because the receiver has reneged (RFC 2018, section 8)."""
        self.sacked.clear()
        self._lost_below = self._late_below = 0

    def _loss_boundary(self) -> int:
        """Return the sequence number below which all data that are not SACKed count as lost.

        They are lost by IsLost() of RFC 6675, or because they were sent long before SACKed data.
        """
        if not self.sacked:  # as after nearly every ACK
            return self._late_below
        held = 0
        for ranges, (left, right) in enumerate(reversed(self.sacked), start=1):
            held += right - left
            if ranges >= DUP_THRESH or held > (DUP_THRESH - 1) * self.mss_bytes:
                return max(left, self._late_below)
        return self._late_below

    def arrived_later(self, unit: int) -> None:
        """Record that the data at sequence number `unit` are SACKed and were sent last.

        Data below it that are not SACKed are lost (RFC 8985).
        """
        held = self.sacked.holding(unit)
        if held is not None:
            self._late_below = held[0]
            self._lost_below = self._loss_boundary()

    def is_lost(self, unit: int) -> bool:
        """Return whether the data at a sequence number are lost, because enough is SACKed above it.

        This is IsLost() of RFC 6675.
        """
        return unit < self._lost_below

    def sacked_between(self, left: int, right: int) -> int:
        """Return how many sequence numbers of `[left, right)` are SACKed."""
        return sum(max(0, min(end, right) - max(begin, left)) for begin, end in self.sacked)

    def pipe(self, *, una: int, end: int) -> int:
        """Return the number of bytes estimated to be in the network: SetPipe() of RFC 6675."""
        intact = max(self._lost_below, una)
        not_lost = end - intact - self.sacked_between(intact, end)
        resent = max(self.high_rxt, una) - una - self.sacked_between(una, self.high_rxt)
        return not_lost + resent

    def next_hole(self, *, una: int, lost_only: bool) -> tuple[int, int] | None:
        """Return the first range of data that is neither SACKed nor retransmitted; None if there is none.

        Only data below the highest SACKed sequence number are considered. These are rules 1 and 3
        of NextSeg() in RFC 6675.
        """
        highest = self.sacked.highest
        start = self._skip_sacked(max(self.high_rxt, una))
        if highest is None or start >= highest or (lost_only and not self.is_lost(start)):
            return None
        above = self.sacked.above(start)
        end = above[0] if above is not None else highest
        return start, min(end, start + self.mss_bytes)

    def rescue(self, *, una: int, end: int, fin: int) -> tuple[int, int] | None:
        """Return the range of the last outstanding segment, once per recovery; None if it is SACKed.

        This is rule 4 of NextSeg() in RFC 6675. `fin` is 1 if a FIN is before `end`, else 0.
        """
        begin = self.sacked.highest or una
        if self.rescued or begin >= end:
            return None
        self.rescued = True
        return max(begin, end - fin - self.mss_bytes), end

    def _skip_sacked(self, unit: int) -> int:
        holder = self.sacked.holding(unit)
        return holder[1] if holder is not None else unit


def is_dsack(blocks: list[tuple[int, int]], *, ack: int) -> bool:
    """Return whether the first SACK block reports data that arrived twice (RFC 2883, section 4)."""
    if not blocks:
        return False
    left, right = blocks[0]
    return left < ack or (len(blocks) > 1 and blocks[1][0] <= left and right <= blocks[1][1])


_LONGEST_DELAYED_ACK_NS = 200 * NS_PER_MS
"""WCDelAckT of RFC 8985: allowance for a delayed ACK in the probe of a single segment."""


class Transmitter:
    """State of a sender (RFC 9293, section 3.3.1), and its outgoing segments."""

    def __init__(self, profile: TcpProfile, *, mss_bytes: int, sack: bool) -> None:
        self.profile = profile
        self.stream = SendStream(capacity_bytes=profile.send_buffer_bytes)
        self.rto = rto_estimator(profile)
        self.counters = SenderCounters()
        self.snd_una = self.snd_nxt = self.snd_max = 0
        self.snd_wnd_bytes = 0
        self.ca_state = CongestionState.OPEN
        self.dup_acks = 0
        self.retries = 0
        """Number of timeouts of the unit at `snd_una`."""
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
        """Expiry time of the retransmission timer; None if it does not run."""
        self._expires_early = False
        """Whether the timer expires early, for a tail loss probe."""
        self._tail_due = False
        self._tail_probe: tuple[int, bool] | None = None
        """Unit after the last one at the probe, and whether the probe was a retransmission.

        None without a probe."""
        self.persist_ns: int | None = None
        """Time of the next window probe; None if none is scheduled."""
        self._persist_backoff = 0
        self._last: tuple[Transmission, int, int] | None = None
        """The last segment, with snd_nxt and snd_max before it."""
        self._copies: list[Transmission] = []
        """Copies of the last segment; they are sent first, and are not counted."""
        self._waits = False
        """Whether the local interface refuses packets: nothing is sent before an ACK or a timer."""

    def negotiate(self, *, mss_bytes: int, sack: bool) -> None:
        """Store the results of the handshake: bytes of a full segment's payload, and whether SACK is used."""
        self.mss_bytes = mss_bytes
        self.sack = sack
        self.scoreboard = Scoreboard(mss_bytes=mss_bytes)
        self.congestion = congestion_control(
            self.profile.congestion,
            mss_bytes=mss_bytes,
            initial_window_bytes=self.profile.initial_window_segments * mss_bytes,
        )
        if self.profile.initial_ssthresh_segments:
            self.congestion.ssthresh_bytes = self.profile.initial_ssthresh_segments * mss_bytes

    @property
    def ack_seq(self) -> int:
        """Sequence number of a segment without data: `snd_max`, or `snd_nxt` with a closed window."""
        return self.snd_max if self.persist_ns is None else self.snd_nxt

    # --- what leaves ---

    @property
    def flight_bytes(self) -> int:
        """FlightSize: bytes that are sent and not cumulatively acknowledged (RFC 5681)."""
        return self.snd_max - self.snd_una

    @property
    def pipe_bytes(self) -> int:
        """Bytes estimated to be in the network, which cwnd limits."""
        if not self.sack:
            return self.snd_nxt - self.snd_una
        if self.ca_state is CongestionState.RECOVERY:
            return self.scoreboard.pipe(una=self.snd_una, end=self.snd_max)
        return self.snd_nxt - self.snd_una - self.scoreboard.sacked_between(self.snd_una, self.snd_nxt)

    def next_transmission(self, now_ns: int) -> Transmission | None:
        """Return the next segment to send at `now_ns`; None if there is none."""
        self._last = None  # what leaves instead is an ACK alone: if it is refused nothing is taken back
        if self._copies:
            return self._copies.pop()
        if self.snd_nxt == 0:
            return self._sent(Transmission(seq=0, syn=True, retransmission=self.snd_max > 0), now_ns)
        if self.snd_una == 0 or self._waits:
            return None
        if self._resend_first:
            self._resend_first = False
            return self._resend(self.snd_una, self._first_hole_end(), now_ns)
        if self._probe_due:
            self._probe_due = False
            return self._probe(now_ns)
        if self._tail_due:
            self._tail_due = False
            return self._probe_tail(now_ns)
        if self.snd_max == self.snd_una:
            self._restart_after_idle(now_ns)
        if self.sack and self.ca_state is CongestionState.RECOVERY:
            return self._next_in_sack_recovery(now_ns)
        return self._next_in_window(now_ns)

    def _restart_after_idle(self, now_ns: int) -> None:
        if self.flight_bytes == 0 and now_ns - self._last_sent_ns > self.rto.rto_ns:
            self.congestion.on_idle()

    def _first_hole_end(self) -> int:
        above = self.scoreboard.sacked.above(self.snd_una)
        end = min(self.snd_una + self.mss_bytes, self.snd_max)
        return min(end, above[0]) if above is not None else end

    def _next_in_sack_recovery(self, now_ns: int) -> Transmission | None:
        """Return the next segment in recovery, by NextSeg() of RFC 6675; None if there is none.

        The order is lost ranges, new data, other missing ranges, and one rescue segment.
        """
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
        if self.snd_nxt >= self.stream.end and not self.stream.closed:
            return None  # all is sent, as always at the end that only receives
        while self.scoreboard.sacked.total and (held := self.scoreboard.sacked.holding(self.snd_nxt)) is not None:
            self.snd_nxt = held[1]
        segment = self._segment_at(self.snd_nxt, room=self._cwnd_with_limited_transmit() - self.pipe_bytes)
        if segment is None:
            self._consider_persisting(now_ns)
            return None
        return self._sent(segment, now_ns)

    def _cwnd_with_limited_transmit(self) -> int:
        """Return cwnd, plus two segments while the first duplicate ACKs arrive (RFC 3042)."""
        if self.ca_state is not CongestionState.DISORDER or not self.profile.limited_transmit:
            return self.congestion.cwnd_bytes
        return self.congestion.cwnd_bytes + min(self.dup_acks, DUP_THRESH - 1) * self.mss_bytes

    def _segment_at(self, seq: int, *, room: int) -> Transmission | None:
        """Return the segment at sequence number `seq`.

        None if a window, Nagle's algorithm or silly window avoidance forbids it.
        """
        if room <= 0:
            return None
        unsent = self.stream.end - seq
        if unsent <= 0:
            return self._transmission(seq, seq + 1) if self.stream.fin_due(seq) else None
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
        """Return whether a short last segment must wait until all is acknowledged (RFC 9293, 3.7.4)."""
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
        """Return a probe of a window that is too small: at least one byte (RFC 9293, section 3.8.6.1)."""
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
        """Update the state for a segment that is sent now, and return the segment."""
        end = segment.end
        self.counters.note_sent(len(segment.payload), again=segment.retransmission)
        self._cwr_due = self._cwr_due and not segment.cwr
        if segment.retransmission:
            self._timed.resent(segment.seq, end)
        else:
            self._timed.note(end, now_ns)
        self._last = segment, self.snd_nxt, self.snd_max
        self._copies = [segment] * (self.profile.copies - 1 if segment.payload else 0)
        self.snd_nxt = max(self.snd_nxt, end)
        self.snd_max = max(self.snd_max, end)
        self._last_sent_ns = now_ns
        self.persist_ns = None
        if self.retransmit_ns is None or (self._probes_tails and not segment.retransmission):
            self._arm(now_ns, oldest_ns=self._timed.oldest_ns)
        return segment

    # --- the retransmission timer, and what it may do early ---

    @property
    def _probes_tails(self) -> bool:
        if not (self.profile.tail_loss_probe and self.sack) or self._tail_probe is not None:
            return False
        return self.ca_state in {CongestionState.OPEN, CongestionState.CWR} and self.rto.srtt_ns is not None

    def _arm(self, now_ns: int, *, oldest_ns: int | None = None) -> None:
        """Start the retransmission timer, or an earlier timer for a tail loss probe (RFC 8985, section 7.2).

        With `oldest_ns`, the sending time of the oldest segment, the probe is sent at the latest
        when that segment times out (tcp_schedule_loss_probe of Linux).
        """
        self.retransmit_ns = self.rto.deadline_ns(now_ns)
        self._expires_early = self._probes_tails
        if self._expires_early:
            alone_ns = _LONGEST_DELAYED_ACK_NS if self.flight_bytes <= self.mss_bytes else 0
            soon_ns = now_ns + 2 * (self.rto.srtt_ns or 0) + alone_ns
            due_ns = self.retransmit_ns if oldest_ns is None else oldest_ns + self.rto.rto_ns
            self.retransmit_ns = max(now_ns, min(soon_ns, due_ns))

    def _probe_tail(self, now_ns: int) -> Transmission:
        """Return a tail loss probe: new data, or else the last segment again (RFC 8985, section 7.3)."""
        new = self._segment_at(self.snd_nxt, room=self.mss_bytes)
        last = self._transmission(max(self.snd_una, self.snd_max - self.mss_bytes), self.snd_max)
        self._tail_probe = max(self.snd_max, (new or last).end), new is None
        return self._sent(new or last, now_ns)

    def _take_back(self, now_ns: int) -> None:
        """Restore the state before the last segment, because the local interface refused the segment."""
        if self._last is None or not self._last[0].payload:
            return
        segment, self.snd_nxt, self.snd_max = self._last
        self._copies = []
        self.counters.note_sent(-len(segment.payload), again=segment.retransmission, copies=-1)
        self._timed.take_back(segment.end)
        self._resend_first = segment.retransmission and self.ca_state is CongestionState.RECOVERY
        self._waits = True
        if self.flight_bytes == 0:
            self.retransmit_ns = None
            self._arm_persist(now_ns)

    # --- a closed window ---

    def _consider_persisting(self, now_ns: int) -> None:
        """Start the persist timer if the peer's small window alone prevents sending."""
        waiting = self.persist_ns is None and self.snd_nxt == self.snd_una < self.stream.end
        if waiting and self.snd_wnd_bytes < min(self.mss_bytes, self.stream.end - self.snd_una):
            self.retransmit_ns = None
            self._arm_persist(now_ns)

    def _arm_persist(self, now_ns: int) -> None:
        self.persist_ns = now_ns + min(self.rto.rto_ns << self._persist_backoff, self.profile.max_rto_ns)
        self._persist_backoff = min(self._persist_backoff + 1, 10)
