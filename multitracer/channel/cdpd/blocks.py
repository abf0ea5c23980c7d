"""The blocks of CDPD's channel, and how link frames fill them.

Reed-Solomon (63,47) over symbols of 6 bits: a block of 378 coded bits holds 282, of which 8 are the colour
code (memory) and 274 are the data link's. With the busy/idle and decode-status flags a forward block has
420 bits, with the continuity indicator a reverse one 385, at 19.2 kb/s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.channel.cdpd.block_radio import BlockRadio
    from multitracer.channel.cdpd.mdlp import Frame
    from multitracer.channel.shared.event_log import SideJournal
    from multitracer.channel.shared.scheduler import Agenda

BITS_PER_S = 19_200
MICROSLOT_NS = 60 * NS_PER_S // BITS_PER_S
"""3.125 ms: a busy/idle flag each 60 bits of the forward channel."""
FORWARD_BLOCK_NS = 420 * NS_PER_S // BITS_PER_S
"""21.875 ms."""
REVERSE_BLOCK_NS = 385 * NS_PER_S // BITS_PER_S
"""20.05 ms."""
PREAMBLE_NS = MICROSLOT_NS
"""Of a reverse burst: 38 bits dotting and 22 bits synchronization (memory)."""
BLOCK_PAYLOAD_BITS = 282 - 8
"""Bits of the data link in a block."""


@dataclass(slots=True)
class Carriage:
    """One transmission of a frame, in as many blocks as it needs."""

    frame: Frame
    bits_left: int
    began_ns: int
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
    next_frame : callable
        Returns the next frame to be sent now, or None.
    frame_bits : callable
        Returns how many bits it takes.
    """

    def __init__(self, next_frame: Callable[[int], Frame | None], frame_bits: Callable[[Frame], int]) -> None:
        self._next_frame = next_frame
        self._frame_bits = frame_bits
        self._open: Carriage | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no frame is partly sent."""
        return self._open is None

    def fill(self, now_ns: int) -> Block | None:
        """Return the next block, or None if nothing is to be sent."""
        block = Block()
        room = BLOCK_PAYLOAD_BITS
        while room > 0 and (carriage := self._current(now_ns)) is not None:
            taken = min(room, carriage.bits_left)
            carriage.bits_left -= taken
            room -= taken
            block.carriages.append(carriage)
            if carriage.bits_left == 0:
                block.completed.append(carriage)
                self._open = None
        return block if block.carriages else None

    def _current(self, now_ns: int) -> Carriage | None:
        if self._open is None:
            frame = self._next_frame(now_ns)
            if frame is not None:
                self._open = Carriage(frame, self._frame_bits(frame), now_ns)
        return self._open


@dataclass(frozen=True, slots=True)
class BlockPath:
    """What a transmitter of blocks works with: agenda, filler, radio and journal."""

    agenda: Agenda
    filler: BlockFiller
    radio: BlockRadio
    """What loses its blocks."""
    journal: SideJournal
    """Of the side that sends."""
    completed: Callable[[Carriage, int], None]
    """Called with each carriage that has ended, and when."""
