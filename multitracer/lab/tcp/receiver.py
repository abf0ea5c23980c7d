"""The receiving half of a connection: reassembly, the window, and when to acknowledge.

Units are unwrapped sequence numbers: 0 is the peer's SYN, 1 the first byte, the FIN follows the last byte;
ends are exclusive.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from multitracer.protocols.ranges import RangeSet

if TYPE_CHECKING:
    from multitracer.lab.tcp.profile import TcpProfile

_ACK_EVERY_SEGMENTS = 2
"""At least every second full segment is acknowledged (RFC 5681, section 4.2)."""
_REMEMBERED_ARRIVALS = 31
"""Out-of-order arrivals from which SACK blocks are chosen; a header contains at most four blocks."""


class TcpReceiver:
    """Receive state of one connection.

    Parameters
    ----------
    profile : TcpProfile
        Size of the receive buffer and the ACK delay.
    """

    def __init__(self, profile: TcpProfile) -> None:
        self.profile = profile
        self.rcv_nxt = 0
        self.peer_mss_bytes = 536
        """Payload bytes of a full segment of the peer."""
        self.fin_received = False
        """Whether everything up to and including the peer's FIN has arrived."""
        self.duplicate_bytes = 0
        """Payload bytes that arrived although they had been received before."""
        self._readable = bytearray()
        self._early: list[tuple[int, bytes]] = []
        self._ranges = RangeSet()
        self._recent: list[int] = []
        self._dsack: tuple[int, int] | None = None
        self._fin_at: int | None = None
        self._right_edge = 0
        self._unacknowledged_bytes = 0
        self.acks_due = 0
        """Number of ACKs that must be sent now, with data or without."""
        self.delayed_ack_ns: int | None = None
        """Time at which a delayed ACK must be sent; None if none waits."""
        self._wait_ns = profile.delayed_ack_ns
        self._quick_acks_left: int | None = None

    # --- the window ---

    @property
    def readable_bytes(self) -> int:
        """Number of bytes that `read` would return."""
        return len(self._readable)

    @property
    def window_bytes(self) -> int:
        """Receive window in bytes: the free buffer, or the rest of the advertised window.

        The window grows to the free buffer only if it grows by enough (RFC 9293, section 3.8.6.2.2).
        """
        buffer_bytes, offered = self.profile.receive_buffer_bytes, self._right_edge - self.rcv_nxt
        free = buffer_bytes - len(self._readable)
        gain = free - offered
        if free > 0 and (gain >= self.peer_mss_bytes or gain >= buffer_bytes // 2):
            return free  # it grows by enough to advertise it (RFC 9293, section 3.8.6.2.2)
        return offered if offered > 0 else 0

    def window_field(self, shift: int) -> int:
        """Return the header's window field; the advertised window is recorded, because it must not shrink."""
        field = min(-(-self.window_bytes >> shift), 0xFFFF)
        edge = self.rcv_nxt + (field << shift)
        self._right_edge = max(self._right_edge, edge)
        return field

    def acceptable(self, seq: int, end: int) -> bool:
        """Return whether any sequence number of `[seq, end)` is in the receive window (RFC 9293, 3.4)."""
        edge = max(self._right_edge, self.rcv_nxt)
        if seq == end:
            return self.rcv_nxt <= seq <= edge
        return seq < edge and end > self.rcv_nxt

    # --- what arrives ---

    def take(self, seq: int, payload: bytes, *, fin: bool, now_ns: int) -> None:
        """Process the payload and the FIN of a segment; data that arrived before are ignored."""
        if seq < self.rcv_nxt or self._early:
            self.note_duplicate(seq, seq + len(payload))
        if fin:
            self._fin_at = seq + len(payload)
        in_order = seq <= self.rcv_nxt
        first = max(seq, self.rcv_nxt)
        kept = payload[first - seq : max(0, self._right_edge - seq)]
        had_holes = bool(self._early)
        if kept and in_order:
            self._deliver(kept)
        elif kept:
            self._keep_early(first, kept)
        if self._fin_at is not None:
            self._take_fin()
        prompt = had_holes or bool(self._early) or len(kept) < len(payload) or not in_order or fin
        self._plan_ack(len(kept), prompt=prompt, now_ns=now_ns)

    def note_duplicate(self, seq: int, end: int) -> None:
        """Record that the data `[seq, end)` arrived again, for the D-SACK of the next ACK (RFC 2883)."""
        if seq < self.rcv_nxt and seq < end:
            self._dsack = (seq, min(end, self.rcv_nxt))
        elif (held := self._ranges.holding(seq)) is not None and seq < end:
            self._dsack = (seq, min(end, held[1]))
        else:
            return
        self.duplicate_bytes += self._dsack[1] - self._dsack[0]

    def _deliver(self, payload: bytes) -> None:
        self._readable += payload
        self.rcv_nxt += len(payload)
        if not self._early:
            return
        while self._early and self._early[0][0] <= self.rcv_nxt:
            seq, early = self._early.pop(0)
            rest = early[self.rcv_nxt - seq :]
            self._readable += rest
            self.rcv_nxt += len(rest)
        self._ranges.remove_below(self.rcv_nxt)

    def _keep_early(self, seq: int, payload: bytes) -> None:
        """Store the parts of an out-of-order segment that are not stored yet."""
        at, end = seq, seq + len(payload)
        while at < end:
            held = self._ranges.holding(at)
            if held is not None:
                at = held[1]
                continue
            above = self._ranges.above(at)
            stop = end if above is None else min(end, above[0])
            insort(self._early, (at, payload[at - seq : stop - seq]))
            self._ranges.add(at, stop)
            at = stop
        self._recent = [*self._recent[-_REMEMBERED_ARRIVALS:], seq]

    def _take_fin(self) -> None:
        if self._fin_at == self.rcv_nxt and not self.fin_received:
            self.fin_received = True
            self.rcv_nxt += 1

    def read(self, max_bytes: int) -> bytes:
        """Return up to `max_bytes` of the stream; advertise the window if it opens by enough."""
        if not self._readable:
            return b""
        data = bytes(self._readable[:max_bytes] if max_bytes < len(self._readable) else self._readable)
        del self._readable[:max_bytes]
        gain = self.window_bytes - (self._right_edge - self.rcv_nxt)
        enough = min(2 * self.peer_mss_bytes, self.profile.receive_buffer_bytes // 2)
        if not self.fin_received and gain >= enough:
            self.acks_due = max(self.acks_due, 1)
        return data

    # --- acknowledgments ---

    def _plan_ack(self, new_bytes: int, *, prompt: bool, now_ns: int) -> None:
        self._unacknowledged_bytes += new_bytes
        full = self._unacknowledged_bytes >= _ACK_EVERY_SEGMENTS * self.peer_mss_bytes
        if prompt or full or self._wait_ns == 0 or self._quick():
            self.acks_due += 1
        elif self.delayed_ack_ns is None:
            self.delayed_ack_ns = now_ns + self._wait_ns

    def _quick(self) -> bool:
        """Return whether the segment is acknowledged at once, as one of the connection's first segments.

        The profile says whether this is done.
        """
        if self._quick_acks_left is None:
            window = self.profile.receive_buffer_bytes // self.peer_mss_bytes
            self._quick_acks_left = window // 2 + 1 if self.profile.quick_acks else 0
        self._quick_acks_left -= 1
        return self._quick_acks_left >= 0

    def demand_ack(self) -> None:
        """Request an ACK that must be sent now."""
        self.acks_due += 1

    def acknowledged(self, *, pure: bool) -> None:
        """Record that an ACK was sent; a `pure` ACK has no data.

        An ACK with data also answers all requests for ACKs, except those for duplicate ACKs.
        """
        self.acks_due = max(0, self.acks_due - 1) if pure else 0
        self._unacknowledged_bytes = 0
        self.delayed_ack_ns = None

    def sack_blocks(self, limit: int) -> tuple[tuple[int, int], ...]:
        """Return up to `limit` SACK blocks: a D-SACK, then the most recent first (RFC 2018, section 4)."""
        if self._dsack is None and not self._ranges:
            return ()
        duplicate = [self._dsack] if self._dsack is not None else []
        self._dsack = None
        held: dict[tuple[int, int], None] = {}
        for seq in reversed(self._recent):
            holder = self._ranges.holding(seq)
            if holder is not None:
                held[holder] = None
        return tuple([*duplicate, *held][:limit])

    def on_timer(self, now_ns: int) -> None:
        """Request the delayed ACK if its time has come."""
        if self.delayed_ack_ns is not None and self.delayed_ack_ns <= now_ns:
            self.delayed_ack_ns = None
            self.acks_due += 1
            self._wait_ns = max(self._wait_ns, min(2 * self._wait_ns, self.profile.longest_delayed_ack_ns))
