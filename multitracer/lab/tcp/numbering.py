"""Converts the wire's 32-bit numbers to a connection's unwrapped units and back; its timestamps clock.

This is the only place that knows the initial sequence numbers, the modulus and the TSval clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.tcp.sequence import MODULUS, unwrap

if TYPE_CHECKING:
    from multitracer.lab.tcp.packet import Segment

Blocks = tuple[tuple[int, int], ...]


class Numbering:
    """Initial sequence numbers and timestamps of one end.

    Parameters
    ----------
    isn : int
        Initial send sequence number.
    tick_ns : int
        What one unit of TSval lasts.
    """

    def __init__(self, *, isn: int, tick_ns: int) -> None:
        self.isn = isn % MODULUS
        self.irs = 0
        """Initial receive sequence number, once the peer's SYN is here."""
        self.ts_recent = 0
        """TSval to echo (RFC 7323, section 4.3)."""
        self._tick_ns = tick_ns

    def wire_seq(self, unit: int) -> int:
        """Return the wire's number of one of our units."""
        return (self.isn + unit) % MODULUS

    def wire_ack(self, unit: int) -> int:
        """Return the wire's number of one of the peer's units."""
        return (self.irs + unit) % MODULUS

    def wire_blocks(self, blocks: Blocks) -> Blocks:
        """Return SACK blocks of the peer's units as the option carries them."""
        return tuple((self.wire_ack(left), self.wire_ack(right)) for left, right in blocks)

    def seq(self, segment: Segment, *, near: int) -> int:
        """Return the peer's unit that the segment begins with."""
        return unwrap(segment.seq - self.irs, near=near)

    def ack(self, segment: Segment, *, near: int) -> int:
        """Return our unit that the segment acknowledges up to."""
        return unwrap(segment.ack - self.isn, near=near)

    def blocks(self, segment: Segment, *, near: int) -> Blocks:
        """Return the segment's SACK blocks in our units."""
        return tuple(
            (unwrap(left - self.isn, near=near), unwrap(right - self.isn, near=near))
            for left, right in segment.sack_blocks
        )

    def tsval(self, now_ns: int) -> int:
        """Return the timestamps clock; its start differs on each connection."""
        return (self.isn + now_ns // self._tick_ns) % MODULUS

    def echoed_ns(self, segment: Segment, *, now_ns: int) -> int | None:
        """Return when the TSval that the segment echoes was created; None without one."""
        if segment.timestamps is None:
            return None
        age_ticks = (self.tsval(now_ns) - segment.timestamps[1]) % MODULUS
        made_ns = (now_ns // self._tick_ns - age_ticks) * self._tick_ns
        return made_ns if made_ns >= 0 else None

    def is_old(self, segment: Segment) -> bool:
        """Return whether PAWS rejects the segment (RFC 7323, section 5)."""
        if segment.timestamps is None:
            return False
        return (segment.timestamps[0] - self.ts_recent) % MODULUS >= MODULUS // 2
