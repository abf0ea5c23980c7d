"""The end of a channel without a data link: each packet is one frame, sent once, and nothing is recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.channel.cdpd.mdlp import Frame
from multitracer.lab.channel.shared.ip_fields import ip_facts
from multitracer.protocols.channel_events import PieceReceived

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.shared.event_log import SideJournal


class PacketEnd:
    """Has the methods of `MdlpEntity` that a channel calls.

    Parameters
    ----------
    take_packet : callable
        Returns the next packet of the interface queue at a time, or None.
    journal : SideJournal
        Where it writes what arrives.
    first_offset_bytes : int
        Where its stream of packets begins.
    """

    deadline_ns: int | None = None
    """It has no timer."""

    def __init__(
        self,
        take_packet: Callable[[int], bytes | None],
        journal: SideJournal,
        *,
        first_offset_bytes: int = 0,
    ) -> None:
        self._take_packet = take_packet
        self._journal = journal
        self._offset_bytes = first_offset_bytes
        self._under_way = 0

    def frame_octets(self, frame: Frame) -> int:
        """Return the length of a frame: that of its packet."""
        return len(frame.payload)

    def frame_bits(self, frame: Frame) -> int:
        """Return how many bits a frame takes on the channel."""
        return 8 * len(frame.payload)

    def next_frame(self, now_ns: int) -> Frame | None:
        """Return the next packet as a frame, or None."""
        packet = self._take_packet(now_ns)
        if packet is None:
            return None
        facts = ip_facts(packet)
        offset, self._offset_bytes = self._offset_bytes, self._offset_bytes + len(packet)
        self._under_way += 1
        return Frame("I", payload=packet, is_last=True, offset_bytes=offset, ip_id=facts.ip_id, seq=facts.seq)

    def sent(self, frame: Frame, now_ns: int) -> None:
        """Do nothing: no timer waits for an answer."""

    def settled(self) -> None:
        """Note that a frame of this end has arrived or is lost."""
        self._under_way -= 1

    def receive(self, frame: Frame, now_ns: int) -> list[bytes]:
        """Take a frame of the other end; return its packet."""
        about = len(frame.payload), frame.offset_bytes, frame.ip_id, frame.seq
        self._journal.add(PieceReceived, now_ns, *about, "")
        return [frame.payload]

    def expire(self, now_ns: int) -> None:
        """Do nothing."""

    @property
    def is_quiet(self) -> bool:
        """Whether no packet of this side is in transit."""
        return self._under_way == 0

    def has_work(self, now_ns: int, *, has_packet: bool) -> bool:
        """Return whether there is a frame to be sent."""
        del now_ns
        return has_packet
