"""CUBIC as in Linux: a loss leaves seven tenths of the window, not of what is outstanding.

Sources: net/ipv4/tcp_cubic.c (cubictcp_recalc_ssthresh) and tcp_input.c (tcp_enter_loss) of Linux 6.x; both
ways are named in RFC 9438, section 4.6. With SACK what is outstanding in recovery can be twice the window:
its seven tenths, at a timeout, would be more than the path carries, and the next slow start would lose again.
Not here: HyStart, with which Linux leaves slow start before the first loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.tcp.congestion.cubic import Cubic

if TYPE_CHECKING:
    from multitracer.protocols.tcp.congestion.base import Acked


class LinuxCubic(Cubic):
    """CUBIC that reduces by its window, and once for a recovery and the timeout that ends it."""

    name = "linux-cubic"

    def __init__(self, *, mss_bytes: int, initial_window_bytes: int) -> None:
        super().__init__(mss_bytes=mss_bytes, initial_window_bytes=initial_window_bytes)
        self._is_reduced = False
        """Whether the window was reduced for what is outstanding."""

    def on_ack(self, ack: Acked) -> None:
        """Grow as CUBIC; the next loss is another one."""
        self._is_reduced = False
        super().on_ack(ack)

    def on_loss(self, *, flight_bytes: int, now_ns: int) -> None:
        """Fall to seven tenths of the window."""
        del flight_bytes
        super().on_loss(flight_bytes=self.cwnd_bytes, now_ns=now_ns)
        self._is_reduced = True

    def leave_fast_recovery(self) -> None:
        """Note that the next loss is another one."""
        super().leave_fast_recovery()
        self._is_reduced = False

    def on_timeout(self, *, flight_bytes: int, first: bool, now_ns: int) -> None:
        """Fall to one segment; a window that is being reduced is not reduced a second time."""
        super().on_timeout(flight_bytes=flight_bytes, first=first and not self._is_reduced, now_ns=now_ns)
        self._is_reduced = False
