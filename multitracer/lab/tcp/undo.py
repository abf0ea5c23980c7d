"""What a sender keeps to undo a reduction of its window that proves needless (undo_marker of Linux)."""

from __future__ import annotations

from multitracer.units import NS_PER_MS


def is_before(echoed_ns: int | None, sent_ns: int) -> bool:
    """Return whether an echoed timestamp is older than what left then; its clock ticks each ms."""
    return echoed_ns is not None and echoed_ns // NS_PER_MS < sent_ns // NS_PER_MS


class Undo:
    """The window before a reduction, and what has been sent again since.

    Sources: tcp_init_undo, tcp_may_undo, tcp_packet_delayed and tcp_check_dsack of net/ipv4/tcp_input.c.
    """

    def __init__(self) -> None:
        self.since: int | None = None
        """`snd_una` when the reduction began; None if there is nothing to undo."""
        self.cwnd_bytes = self.ssthresh_bytes = 0
        self.resent_ns: int | None = None
        """When the first retransmission left (retrans_stamp)."""
        self._copies = -1
        """Retransmissions that did not come back as duplicates; -1 before any left (undo_retrans)."""

    def remember(self, cwnd_bytes: int, ssthresh_bytes: int) -> None:
        """Note the window and the threshold to return to."""
        self.cwnd_bytes, self.ssthresh_bytes = cwnd_bytes, ssthresh_bytes

    def forget_window(self) -> None:
        """Have nothing to return to: the window was reduced for the same data before."""
        self.cwnd_bytes = self.ssthresh_bytes = 0

    def begin(self, una: int, *, under_way: int) -> None:
        """Begin a reduction while so many retransmissions are under way."""
        self.since, self._copies = una, under_way or -1

    def end(self) -> None:
        """Have nothing to undo."""
        self.since = None

    def resent(self, now_ns: int) -> None:
        """Note that a segment leaves again."""
        self.resent_ns = now_ns if self.resent_ns is None else self.resent_ns
        self._copies = max(self._copies, 0) + 1

    def came_back(self, block: tuple[int, int], *, una: int) -> None:
        """Take a D-SACK: a copy arrived that was not needed."""
        if self.since is not None and self._copies > 0 and self.since < block[1] <= una:
            self._copies -= 1

    @property
    def came_all_back(self) -> bool:
        """Whether every retransmission was needless."""
        return self.since is not None and self._copies == 0

    def is_delayed(self, echoed_ns: int | None) -> bool:
        """Return whether an ACK echoes a timestamp from before the first retransmission (Eifel, RFC 3522)."""
        if self.since is None or self.resent_ns is None:
            return False
        return is_before(echoed_ns, self.resent_ns)

    def is_needless(self, echoed_ns: int | None) -> bool:
        """Return whether the reduction was (tcp_may_undo)."""
        return self.came_all_back or self.is_delayed(echoed_ns)
