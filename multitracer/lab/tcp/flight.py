"""The outstanding segments as in Linux: which of them are SACKed, lost, or retransmitted.

Sources: net/ipv4/tcp_input.c and tcp_recovery.c of Linux 6.x, RFC 8985 (RACK). A segment is lost if a segment
that was sent later has arrived, and more time has passed than that one needed. The rule is the same for
retransmissions, so a lost retransmission is found, too.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

# What a sender keeps to undo a reduction of its window that proves needless (undo_marker of Linux).


def is_before(echoed_ns: int | None, sent_ns: int) -> bool:
    """Return whether an echoed timestamp is older than a sending time; its resolution is 1 ms."""
    return echoed_ns is not None and echoed_ns // NS_PER_MS < sent_ns // NS_PER_MS


class Undo:
    """State that is needed to undo a window reduction that was not necessary.

    Sources: tcp_init_undo, tcp_may_undo, tcp_packet_delayed and tcp_check_dsack of net/ipv4/tcp_input.c.
    """

    def __init__(self) -> None:
        self.since: int | None = None
        """`snd_una` at the start of the reduction; None if there is nothing to undo."""
        self.cwnd_bytes = self.ssthresh_bytes = 0
        self.resent_ns: int | None = None
        """Time of the first retransmission (retrans_stamp)."""
        self._copies = -1
        """Retransmissions that no D-SACK has reported as duplicates; -1 before the first one (undo_retrans)."""

    def remember(self, cwnd_bytes: int, ssthresh_bytes: int) -> None:
        """Store the window and ssthresh before a reduction, to restore them later."""
        self.cwnd_bytes, self.ssthresh_bytes = cwnd_bytes, ssthresh_bytes

    def forget_window(self) -> None:
        """Discard the stored window, because the same data have caused a reduction before."""
        self.cwnd_bytes = self.ssthresh_bytes = 0

    def begin(self, una: int, *, under_way: int) -> None:
        """Begin a reduction while `under_way` retransmissions are in transit."""
        self.since, self._copies = una, under_way or -1

    def end(self) -> None:
        """Record that the reduction is over and can no longer be undone."""
        self.since = None

    def resent(self, now_ns: int) -> None:
        """Count a retransmission."""
        self.resent_ns = now_ns if self.resent_ns is None else self.resent_ns
        self._copies = max(self._copies, 0) + 1

    def came_back(self, block: tuple[int, int], *, una: int) -> None:
        """Process a D-SACK block: it reports that a retransmission was not necessary."""
        if self.since is not None and self._copies > 0 and self.since < block[1] <= una:
            self._copies -= 1

    @property
    def came_all_back(self) -> bool:
        """Whether D-SACKs report that every retransmission was unnecessary."""
        return self.since is not None and self._copies == 0

    def is_delayed(self, echoed_ns: int | None) -> bool:
        """Return whether an ACK echoes a timestamp from before the first retransmission (Eifel, RFC 3522)."""
        if self.since is None or self.resent_ns is None:
            return False
        return is_before(echoed_ns, self.resent_ns)

    def is_needless(self, echoed_ns: int | None) -> bool:
        """Return whether an ACK shows that the reduction was unnecessary (tcp_may_undo)."""
        return self.came_all_back or self.is_delayed(echoed_ns)


@dataclass(slots=True)
class Sent:
    """One segment between `snd_una` and `snd_max`: the sequence numbers `[seq, end)`."""

    seq: int
    end: int
    sent_ns: int
    """Time of the last transmission."""
    is_sacked: bool = False
    is_lost: bool = False
    is_repairing: bool = False
    """Whether its retransmission is in transit (TCPCB_SACKED_RETRANS)."""
    was_resent: bool = False
    """Whether it was ever retransmitted (TCPCB_EVER_RETRANS)."""
    has_fin: bool = False
    """Whether its last unit is a FIN, which a receiver need not report in its blocks."""


@dataclass(slots=True)
class Arrived:
    """Summary of the segments that one ACK is the first to report as arrived."""

    segments: int = 0
    oldest_ns: int | None = None
    """Earliest sending time of those that were sent once; None if there are none."""
    newest_ns: int | None = None
    has_resent: bool = False
    """Whether one of them was sent more than once."""
    has_original: bool = False
    """Whether one that was outstanding at the last reduction was sent only once (FLAG_ORIG_SACK_ACKED)."""


class Flight:
    """The outstanding segments, in order of their sequence numbers."""

    def __init__(self) -> None:
        self._segments: deque[Sent] = deque()
        self.sacked = self.lost = self.repairing = 0
        """Number of segments that are SACKed, lost or retransmitted: sacked_out, lost_out, retrans_out."""
        self._newest = (0, 0)
        """Sending time and end of the arrived segment that was sent last (rack.mstamp, rack.end_seq)."""
        self._newest_rtt_ns = 0
        self._has_news = False

    def __len__(self) -> int:
        """Return the number of outstanding segments."""
        return len(self._segments)

    @property
    def in_network(self) -> int:
        """Number of segments estimated to be in the network (tcp_packets_in_flight)."""
        return len(self._segments) - self.sacked - self.lost + self.repairing

    @property
    def last(self) -> Sent | None:
        """The outstanding segment with the highest sequence number; None if there is none."""
        return self._segments[-1] if self._segments else None

    @property
    def any_resent(self) -> bool:
        """Whether the first outstanding segment was retransmitted (tcp_any_retrans_done)."""
        return self.repairing > 0 or bool(self._segments and self._segments[0].was_resent)

    # --- what leaves ---

    def add(self, seq: int, end: int, now_ns: int, *, fin: bool = False) -> None:
        """Add the segment `[seq, end)`, which is sent now for the first time."""
        self._segments.append(Sent(seq, end, now_ns, has_fin=fin))

    @property
    def has_news(self) -> bool:
        """Whether an ACK has reported an arrival since `detect_losses` was last called."""
        return self._has_news

    def take_back(self, seq: int) -> None:
        """Undo the last sending of the segment at `seq`, because the local interface refused it."""
        if self._segments and self._segments[-1].seq == seq and not self._segments[-1].was_resent:
            self._segments.pop()
            return
        for segment in self._segments:
            if segment.seq == seq and segment.is_repairing:
                segment.is_repairing = False
                self.repairing -= 1

    def next_lost(self) -> Sent | None:
        """Return the first segment that is marked lost and has no retransmission in transit.

        None if there is none.
        """
        if self.lost == self.repairing:
            return None
        return next((each for each in self._segments if each.is_lost and not each.is_repairing), None)

    def resend(self, segment: Sent, now_ns: int) -> bool:
        """Record the retransmission of a lost segment; return whether it is the first outstanding one."""
        segment.sent_ns, segment.was_resent, segment.is_repairing = now_ns, True, True
        self.repairing += 1
        return segment is self._segments[0]

    # --- what arrived ---

    def acknowledge(self, una: int, *, high: int, now_ns: int, min_rtt_ns: int, echoed_ns: int | None) -> Arrived:
        """Remove the segments below `una`; return a summary of those that no SACK had reported before.

        Parameters
        ----------
        una : int
        high : int
            `snd_max` at the last reduction.
        now_ns, min_rtt_ns : int
        echoed_ns : int or None
            Time of the timestamp that the ACK echoes: a retransmission that was sent later has not arrived.
        """
        news = Arrived()
        while self._segments and self._segments[0].end <= una:
            segment = self._segments.popleft()
            self._forget(segment)
            if not segment.is_sacked:
                needless = segment.was_resent and is_before(echoed_ns, segment.sent_ns)
                min_ns = now_ns if needless else min_rtt_ns
                self._note(news, segment, high=high, now_ns=now_ns, min_rtt_ns=min_ns)
        if self._segments:
            self._segments[0].seq = max(self._segments[0].seq, una)
        return news

    def take_blocks(self, blocks: Iterable[tuple[int, int]], *, high: int, now_ns: int, min_rtt_ns: int) -> Arrived:
        """Mark the segments in SACK blocks.

        Return a summary of those that are reported for the first time.
        """
        news, blocks = Arrived(), sorted(blocks)
        for segment in self._segments if blocks else ():
            first, end = segment.seq, segment.end - segment.has_fin
            if segment.is_sacked or not any(left <= first < end <= right for left, right in blocks):
                continue
            self._forget(segment)
            segment.is_sacked, segment.is_lost, segment.is_repairing = True, False, False
            self.sacked += 1
            self._note(news, segment, high=high, now_ns=now_ns, min_rtt_ns=min_rtt_ns)
        return news

    def _forget(self, segment: Sent) -> None:
        self.sacked -= segment.is_sacked
        self.lost -= segment.is_lost
        self.repairing -= segment.is_repairing

    def _note(self, news: Arrived, segment: Sent, *, high: int, now_ns: int, min_rtt_ns: int) -> None:
        """Add an arrived segment to `news`.

        Update the latest arrived segment by sending time (tcp_rack_advance).
        """
        news.segments += 1
        rtt_ns = now_ns - segment.sent_ns
        if segment.was_resent:
            news.has_resent = True
            if rtt_ns < min_rtt_ns:
                return  # it may be the first copy that has arrived
        else:
            news.oldest_ns = segment.sent_ns if news.oldest_ns is None else news.oldest_ns
            news.newest_ns = segment.sent_ns
            news.has_original = news.has_original or segment.end <= high
        self._has_news, self._newest_rtt_ns = True, rtt_ns
        self._newest = max(self._newest, (segment.sent_ns, segment.end))

    # --- what is lost ---

    def detect_losses(self, now_ns: int, *, window_ns: int, again: bool = False) -> tuple[bool, int | None]:
        """Mark segments as lost by RACK; return whether a retransmission was lost, and when to check again.

        A segment is lost if a segment that was sent later has arrived, and the reordering window has passed.

        Parameters
        ----------
        now_ns, window_ns : int
        again : bool
            Check even if nothing has arrived since the last call: the reordering window has expired.

        Returns
        -------
        bool
            Whether a retransmission was lost.
        int or None
            Time at which the next segment will count as lost; None if there is none.
        """
        if not self._has_news and not again:
            return False, None
        self._has_news = False
        lost_again, due_ns = False, None
        for segment in self._segments:
            if segment.is_sacked or (segment.is_lost and not segment.is_repairing):
                continue
            if (segment.sent_ns, segment.end) >= self._newest:
                continue
            late_ns = segment.sent_ns + self._newest_rtt_ns + window_ns
            if late_ns <= now_ns:
                lost_again = self._lose(segment) or lost_again
            else:
                due_ns = late_ns if due_ns is None else max(due_ns, late_ns)
        return lost_again, due_ns

    def _lose(self, segment: Sent) -> bool:
        """Mark a segment as lost; return whether it had a retransmission in transit, which is lost too."""
        was_repairing = segment.is_repairing
        self.repairing -= was_repairing
        self.lost += not segment.is_lost
        segment.is_lost, segment.is_repairing = True, False
        return was_repairing

    def time_out(self, now_ns: int) -> None:
        """Mark the first segment and all sent over a round trip ago as lost (tcp_timeout_mark_lost)."""
        reneged = self._segments[0].is_sacked
        for place, segment in enumerate(self._segments):
            if reneged and segment.is_sacked:
                segment.is_sacked = False
                self.sacked -= 1
            is_recent = segment.sent_ns + self._newest_rtt_ns > now_ns
            if segment.is_sacked or (is_recent and place > 0 and not reneged):
                continue
            self._lose(segment)

    def unmark_losses(self) -> None:
        """Remove the mark "lost" from all segments (tcp_undo_cwnd_reduction)."""
        for segment in self._segments:
            segment.is_lost = False
        self.lost = 0
        self._has_news = True
