"""One direction of a NAK-based radio link protocol, as RLP type 3 (C.S0017): an octet stream with recovery.

Octets are numbered. The receiver finds missing octets (a hole) when later octets arrive, or when an idle
frame states the position of the sender. It requests a hole in rounds of NAKs; for each NAK copy that arrives,
the sender sends the hole once more. A round ends when no octet of the hole has arrived for a time after its
last copy; after the last round the receiver gives up the hole, and PPP's check sequence then discards the
damaged packet. Differences from RLP type 3: frames are objects, numbers do not wrap, and RLP is never reset.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from multitracer.lab.channel.shared.interface import ip_facts
from multitracer.protocols.link_events import NakGivenUp, NakSent, PieceReceived, PppDamaged

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.cdma2000_radio import Rlp3Config
    from multitracer.lab.channel.shared.interface import SideJournal

_MOST_HOLES_IN_NAK = 4
"""Maximum number of holes in one NAK; further ones wait for the next frame (our choice)."""


class FrameOctets(NamedTuple):
    """Consecutive octets of the stream that one frame carries."""

    begin: int
    octets: int
    attempt: int
    ip_id: int | None
    seq: int | None
    """TCP sequence number of the packet in which the octets begin; None if it has none."""

    @property
    def end(self) -> int:
        """Stream position after the last of these octets."""
        return self.begin + self.octets


class Nak(NamedTuple):
    """A request to retransmit ranges of octets; each range has the number of its round."""

    ranges: tuple[tuple[int, int, int], ...]


@dataclass(slots=True)
class _Packet:
    begin: int
    end: int
    data: bytes
    ip_id: int | None
    seq: int | None
    is_damaged: bool = False


@dataclass(slots=True)
class _Hole:
    missing: list[tuple[int, int]]
    round: int = 0
    """Index of the present round."""
    copies_due: int = 0
    """NAK copies of this round that are not sent yet."""
    attempts: int = 1
    """Number of transmissions so far, if every NAK arrived."""
    due_ns: int = 0
    """End of the round in ns, set when all its copies are sent."""

    def fill(self, begin: int, end: int) -> int:
        """Remove the octets `begin` to `end` from the hole, because they arrived.

        Return how many were missing.
        """
        left: list[tuple[int, int]] = []
        for first, last in self.missing:
            if end <= first or last <= begin:
                left.append((first, last))
                continue
            left += [(a, b) for a, b in ((first, begin), (end, last)) if a < b]
        filled = _size(self.missing) - _size(left)
        self.missing = left
        return filled


def _size(ranges: list[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in ranges)


@dataclass(slots=True)
class _Sender:
    next: int
    """Position of the first octet that was never sent."""
    end: int
    """Position after the last octet that was taken from the queue."""
    resend: deque[tuple[int, int, int]] = field(default_factory=deque)


class RlpPath:
    """One direction of the radio link protocol, with its sender and its receiver.

    Parameters
    ----------
    config : Rlp3Config
    take_packet : callable
        Returns the next packet of the sender's queue at a time, or None.
    journal : SideJournal
        Journal of the receiver's side.
    first_offset_bytes : int
        Stream position of the first octet.
    """

    def __init__(
        self,
        config: Rlp3Config,
        take_packet: Callable[[int], bytes | None],
        journal: SideJournal,
        *,
        first_offset_bytes: int = 0,
    ) -> None:
        self._rounds = config.rounds
        self._timer_ns = config.timer_ns
        self._overhead_bytes = config.overhead_bytes
        self._take_packet = take_packet
        self._journal = journal
        self._packets: deque[_Packet] = deque()
        """Packets that were taken from the queue and are neither delivered nor given up."""
        self._sender = _Sender(first_offset_bytes, first_offset_bytes)
        self._expected = first_offset_bytes
        """Position after the last octet that was received or is known to be missing."""
        self._holes: list[_Hole] = []

    # --- the sender ---

    @property
    def unsent_bytes(self) -> int:
        """Octets that wait in the sender, for the first transmission or for another one."""
        sender = self._sender
        return sender.end - sender.next + sum(end - begin for begin, end, _ in sender.resend)

    @property
    def is_settled(self) -> bool:
        """Whether no octet waits or is missing, and the receiver has received everything that was sent."""
        sender = self._sender
        is_sent = sender.next == sender.end and not sender.resend
        return is_sent and not self._holes and self._expected == sender.next

    @property
    def sent_up_to(self) -> int:
        """Position after the last octet that was sent; an idle frame states it."""
        return self._sender.next

    def fill(self, octets: int, now_ns: int) -> list[FrameOctets]:
        """Return the content of the next frame of `octets` octets: requested octets first."""
        sender = self._sender
        chunks: list[FrameOctets] = []
        while octets and sender.resend:
            begin, end, attempt = sender.resend[0]
            if any(begin < chunk.end and chunk.begin < end for chunk in chunks):
                break  # a second copy goes into another frame
            taken = min(octets, end - begin)
            chunks.append(self._chunk(begin, taken, attempt))
            octets -= taken
            if begin + taken == end:
                sender.resend.popleft()
            else:
                sender.resend[0] = begin + taken, end, attempt
        while sender.end - sender.next < octets and self._take(now_ns):
            pass
        taken = min(octets, sender.end - sender.next)
        if taken:
            chunks.append(self._chunk(sender.next, taken, 1))
            sender.next += taken
        return chunks

    def _take(self, now_ns: int) -> bool:
        """Append the next packet of the sender's queue to the stream; return False if the queue is empty."""
        data = self._take_packet(now_ns)
        if data is None:
            return False
        facts, begin = ip_facts(data), self._sender.end
        self._sender.end = end = begin + len(data) + self._overhead_bytes
        self._packets.append(_Packet(begin, end, data, facts.ip_id, facts.seq))
        return True

    def _chunk(self, begin: int, octets: int, attempt: int) -> FrameOctets:
        for packet in self._packets:
            if begin < packet.end:
                return FrameOctets(begin, octets, attempt, packet.ip_id, packet.seq)
        return FrameOctets(begin, octets, attempt, None, None)  # a copy that is not needed any more

    def requested(self, nak: Nak) -> None:
        """Process a NAK that arrived at the sender: its octets are sent again."""
        self._sender.resend.extend(nak.ranges)

    # --- the receiver ---

    def receive(self, chunks: list[FrameOctets], now_ns: int) -> list[bytes]:
        """Process the octets of a frame that arrived.

        Return the packets that are now complete and in order.
        """
        for chunk in chunks:
            is_new = chunk.begin >= self._expected
            if is_new:
                self.known(chunk.begin, now_ns)
                self._expected = chunk.end
            filled = 0 if is_new else self._fill_holes(chunk, now_ns)
            cause = "" if is_new or filled else "duplicate"
            about = chunk.octets, chunk.begin, chunk.ip_id, chunk.seq, cause
            self._journal.add(PieceReceived, now_ns, *about)
        return self._in_order(now_ns)

    def known(self, sent_up_to: int, now_ns: int) -> None:
        """Process the sender's position from an idle frame.

        Octets before this position that have not arrived are missing.
        """
        if sent_up_to <= self._expected:
            return
        hole = _Hole([(self._expected, sent_up_to)])
        self._expected = sent_up_to
        self._holes.append(hole)
        if self._rounds:
            hole.copies_due = self._rounds[0]
        else:
            self._give_up(hole, now_ns)

    def _fill_holes(self, chunk: FrameOctets, now_ns: int) -> int:
        filled = 0
        for hole in self._holes:
            octets = hole.fill(chunk.begin, chunk.end)
            if octets:
                filled += octets
                hole.due_ns = now_ns + self._timer_ns
        if filled:
            self._holes = [hole for hole in self._holes if hole.missing]
        return filled

    def nak(self, journal: SideJournal, now_ns: int) -> Nak | None:
        """Return the NAK that the receiver sends in this frame; None if it requests nothing."""
        due = [hole for hole in self._holes if hole.copies_due][:_MOST_HOLES_IN_NAK]
        if not due:
            return None
        ranges: list[tuple[int, int, int]] = []
        for hole in due:
            hole.copies_due -= 1
            hole.attempts += 1
            hole.due_ns = now_ns + self._timer_ns
            ranges += [(begin, end, hole.attempts) for begin, end in hole.missing]
            journal.add(NakSent, now_ns, hole.round + 1, _size(hole.missing), hole.missing[0][0])
        return Nak(tuple(ranges))

    def expire(self, now_ns: int) -> list[bytes]:
        """End the NAK rounds that have timed out; return the packets that can be delivered now."""
        for hole in [each for each in self._holes if not each.copies_due and each.due_ns <= now_ns]:
            hole.round += 1
            if hole.round < len(self._rounds):
                hole.copies_due = self._rounds[hole.round]
            else:
                self._give_up(hole, now_ns)
        return self._in_order(now_ns) if self._packets else []

    def _give_up(self, hole: _Hole, now_ns: int) -> None:
        """Give up a hole, so that the octets after it can be delivered."""
        self._holes.remove(hole)
        about = len(self._rounds), _size(hole.missing), hole.missing[0][0]
        self._journal.add(NakGivenUp, now_ns, *about)
        for packet in self._packets:
            if any(begin < packet.end and packet.begin < end for begin, end in hole.missing):
                packet.is_damaged = True

    def _in_order(self, now_ns: int) -> list[bytes]:
        """Return the packets that are now complete, in order; discard those with missing octets."""
        done = min((hole.missing[0][0] for hole in self._holes), default=self._expected)
        packets = []
        while self._packets and self._packets[0].end <= done:
            packet = self._packets.popleft()
            if packet.is_damaged:
                self._journal.add(PppDamaged, now_ns, "fcs", packet.end - packet.begin)
            else:
                packets.append(packet.data)
        return packets
