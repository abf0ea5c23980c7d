"""The blocks of CDPD's channel, and how link frames fill them.

Reed-Solomon (63,47) over symbols of 6 bits: a block of 378 coded bits holds 282, of which 8 are the colour
code (memory) and 274 are the data link's. With the busy/idle and decode-status flags a forward block has
420 bits, with the continuity indicator a reverse one 385. The rate of the channel, 19.2 kb/s of CDPD or
another, gives their times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.cdpd.block_radio import BlockRadio
    from multitracer.lab.channel.cdpd.mdlp import Frame, MdlpEntity
    from multitracer.lab.channel.cdpd.packet_end import PacketEnd
    from multitracer.lab.channel.shared.event_log import SideJournal
    from multitracer.lab.channel.shared.scheduler import Agenda

_MICROSLOT_BITS = 60
"""A busy/idle flag each 60 bits of the forward channel (Kunz' slides); the preamble of a reverse burst has as
many, 38 of dotting and 22 of synchronization (memory)."""
_FORWARD_BLOCK_BITS = 420
_REVERSE_BLOCK_BITS = 385
_CODED_PAYLOAD_BITS = 282 - 8
"""Bits of the data link in a block of Reed-Solomon (63,47)."""


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """How long a channel's parts last, and how many bits of frames its blocks carry."""

    microslot_ns: int
    forward_ns: int
    """Of a block; so is the next."""
    reverse_ns: int
    preamble_ns: int
    """Of a reverse burst."""
    forward_bits: int
    """Of frames in a block; so is the next."""
    reverse_bits: int


def block_times(bits_per_s: int, *, is_coded: bool) -> BlockTimes:
    """Return the times of a channel with that rate, rounded down to ns.

    Parameters
    ----------
    bits_per_s : int
        Raw rate. 19,200 gives microslots of 3.125 ms, forward blocks of 21.875 ms, reverse ones of 20.05 ms.
    is_coded : bool
        Whether a block holds the code and the flags of CDPD. Without them all its bits are those of frames: a
        channel that carries exactly its rate.
    """
    return BlockTimes(
        microslot_ns=_MICROSLOT_BITS * NS_PER_S // bits_per_s,
        forward_ns=_FORWARD_BLOCK_BITS * NS_PER_S // bits_per_s,
        reverse_ns=_REVERSE_BLOCK_BITS * NS_PER_S // bits_per_s,
        preamble_ns=_MICROSLOT_BITS * NS_PER_S // bits_per_s,
        forward_bits=_CODED_PAYLOAD_BITS if is_coded else _FORWARD_BLOCK_BITS,
        reverse_bits=_CODED_PAYLOAD_BITS if is_coded else _REVERSE_BLOCK_BITS,
    )


@dataclass(frozen=True, slots=True, eq=False)
class BlockPath:
    """One direction between a mobile and the base station: the end that sends, its radio and its journal."""

    agenda: Agenda
    end: MdlpEntity | PacketEnd
    radio: BlockRadio
    """What loses its blocks."""
    journal: SideJournal
    """Of the side that sends."""
    completed: Callable[[Carriage, int], None]
    """Called with each carriage that has ended, and when."""

    def next_carriage(self, now_ns: int) -> Carriage | None:
        """Return the transmission of the next frame, or None."""
        frame = self.end.next_frame(now_ns)
        return None if frame is None else Carriage(frame, self.end.frame_bits(frame), now_ns, self)


@dataclass(slots=True)
class Carriage:
    """One transmission of a frame, in as many blocks as it needs."""

    frame: Frame
    bits_left: int
    began_ns: int
    path: BlockPath
    is_damaged: bool = False
    """Whether a block with a part of it is lost."""


@dataclass(slots=True)
class Block:
    """The content of one block."""

    carriages: list[Carriage] = field(default_factory=list)
    """Frames of which a part is in it."""
    completed: list[Carriage] = field(default_factory=list)
    """Of these, the ones that end in it."""


class BlockFiller:
    """Packs frames into blocks without gaps, as a stream of bits is.

    Parameters
    ----------
    next_carriage : callable
        Returns the next frame's transmission at a time, or None.
    payload_bits : int
        Bits of frames in a block.
    """

    def __init__(self, next_carriage: Callable[[int], Carriage | None], payload_bits: int) -> None:
        self._next_carriage = next_carriage
        self._payload_bits = payload_bits
        self._open: Carriage | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no frame is partly sent."""
        return self._open is None

    def fill(self, now_ns: int) -> Block | None:
        """Return the next block, or None if nothing is to be sent."""
        carriage = self._open or self._next_carriage(now_ns)
        if carriage is None:
            return None
        block = Block()
        room = self._payload_bits
        while carriage is not None:
            block.carriages.append(carriage)
            if carriage.bits_left > room:
                carriage.bits_left -= room
                break
            room -= carriage.bits_left
            carriage.bits_left = 0
            block.completed.append(carriage)
            carriage = self._next_carriage(now_ns) if room > 0 else None
        self._open = carriage
        return block
