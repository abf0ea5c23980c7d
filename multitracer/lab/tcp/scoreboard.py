"""The sender's knowledge from SACK blocks: the procedures of RFC 6675, section 4.

Words of the RFC map to names here: HighACK + 1 is `una`, HighData + 1 is `end`, HighRxt + 1 is
`high_rxt`. All are unwrapped units, ends are exclusive.
"""

from __future__ import annotations

from multitracer.protocols.ranges import RangeSet

DUP_THRESH = 3
"""Duplicate ACKs, or SACKed ranges above a unit, that mean it is lost."""


class Scoreboard:
    """SACKed ranges of the data in flight, and how far recovery has sent them again."""

    def __init__(self, *, mss_bytes: int) -> None:
        self.mss_bytes = mss_bytes
        self.sacked = RangeSet()
        self.high_rxt = 0
        """Unit after the last that this recovery retransmitted."""
        self.rescued = False
        """Whether this recovery has used its rescue retransmission."""
        self._lost_below = self._late_below = 0

    def update(self, blocks: list[tuple[int, int]], *, una: int, end: int) -> int:
        """Take the blocks of one ACK; return how many units they SACK for the first time."""
        before = self.sacked.total
        for left, right in blocks:
            if una <= left < right <= end:
                self.sacked.add(left, right)
        gained = self.sacked.total - before
        self.advance(una)
        return gained

    def advance(self, una: int) -> None:
        """Remove what the cumulative ACK covers."""
        self.sacked.remove_below(una)
        self._lost_below = self._loss_boundary()

    def begin_recovery(self, una: int) -> None:
        """Start a recovery in which nothing was retransmitted yet."""
        self.high_rxt = una
        self.rescued = False

    def clear(self) -> None:
        """Remove all ranges, when the receiver has reneged (RFC 2018, section 8)."""
        self.sacked.clear()
        self._lost_below = self._late_below = 0

    def _loss_boundary(self) -> int:
        """Return the unit below which every un-SACKed one IsLost(), or was sent long before one SACKed."""
        if not self.sacked:  # as after nearly every ACK
            return self._late_below
        held = 0
        for ranges, (left, right) in enumerate(reversed(self.sacked), start=1):
            held += right - left
            if ranges >= DUP_THRESH or held > (DUP_THRESH - 1) * self.mss_bytes:
                return max(left, self._late_below)
        return self._late_below

    def arrived_later(self, unit: int) -> None:
        """Note that `unit` was sent last: once it is SACKed, what is below is lost (RFC 8985)."""
        held = self.sacked.holding(unit)
        if held is not None:
            self._late_below = held[0]
            self._lost_below = self._loss_boundary()

    def is_lost(self, unit: int) -> bool:
        """IsLost(): enough is SACKed above `unit` to think it lost."""
        return unit < self._lost_below

    def sacked_between(self, left: int, right: int) -> int:
        """Return how many units of `[left, right)` are SACKed."""
        return sum(max(0, min(end, right) - max(begin, left)) for begin, end in self.sacked)

    def pipe(self, *, una: int, end: int) -> int:
        """SetPipe(): units thought to be in the network."""
        intact = max(self._lost_below, una)
        not_lost = end - intact - self.sacked_between(intact, end)
        resent = max(self.high_rxt, una) - una - self.sacked_between(una, self.high_rxt)
        return not_lost + resent

    def next_hole(self, *, una: int, lost_only: bool) -> tuple[int, int] | None:
        """NextSeg() rules 1 and 3: the first hole below the highest SACKed unit that was not sent again."""
        highest = self.sacked.highest
        start = self._skip_sacked(max(self.high_rxt, una))
        if highest is None or start >= highest or (lost_only and not self.is_lost(start)):
            return None
        above = self.sacked.above(start)
        end = above[0] if above is not None else highest
        return start, min(end, start + self.mss_bytes)

    def rescue(self, *, una: int, end: int, fin: int) -> tuple[int, int] | None:
        """NextSeg() rule 4: once per recovery, the highest outstanding segment, if not SACKed.

        `fin` is how many of the units before `end` are a FIN, 0 or 1.
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
    """Return whether the first block reports a duplicate (RFC 2883, section 4)."""
    if not blocks:
        return False
    left, right = blocks[0]
    return left < ack or (len(blocks) > 1 and blocks[1][0] <= left and right <= blocks[1][1])
