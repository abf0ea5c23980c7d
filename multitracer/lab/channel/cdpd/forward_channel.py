"""CDPD's forward channel: blocks from the base station, its only sender, with the frames of all mobiles.

The mobiles that have frames take turns, a frame each (round robin), as a router that serves one queue after
another; paper 001 does not say in which order its base station sends. Frames follow each other without gaps,
so a block may hold parts of several mobiles' frames; each mobile decodes it, or not, with its own radio.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from multitracer.lab.channel.cdpd.blocks import BlockFiller
from multitracer.protocols.channel_events import BurstSent
from multitracer.units import NS_PER_US

if TYPE_CHECKING:
    from multitracer.lab.channel.cdpd.blocks import Block, BlockPath, BlockTimes, Carriage
    from multitracer.lab.channel.shared.event_log import SideJournal
    from multitracer.lab.channel.shared.scheduler import Agenda


class ForwardChannel:
    """Sends a block whenever there is data for it.

    Parameters
    ----------
    times : BlockTimes
    agenda : Agenda
    journal : SideJournal
        Of the fixed side.
    """

    def __init__(self, times: BlockTimes, agenda: Agenda, journal: SideJournal) -> None:
        self._block_ns = times.forward_ns
        self._agenda = agenda
        self._journal = journal
        self._filler = BlockFiller(self._next_carriage, times.forward_bits)
        self._turns: deque[BlockPath] = deque()
        """The paths that may have a frame; the first is asked first."""
        self._is_sending = False
        self._blocks = 0

    def kick(self, path: BlockPath, now_ns: int) -> None:
        """Note that a path may have a frame; start at the next block, if no block is being sent."""
        if path not in self._turns:
            self._turns.append(path)
        if not self._is_sending:
            self._is_sending = True
            self._agenda.at(-(-now_ns // self._block_ns) * self._block_ns, self._send)

    def _next_carriage(self, now_ns: int) -> Carriage | None:
        while self._turns:
            path = self._turns.popleft()
            carriage = path.next_carriage(now_ns)
            if carriage is not None:
                self._turns.append(path)
                return carriage
        return None

    def _send(self, now_ns: int) -> None:
        block = self._filler.fill(now_ns)
        if block is not None:
            self._agenda.at(now_ns + self._block_ns, lambda then_ns: self._ended(block, then_ns))
            return
        self._is_sending = False
        if self._blocks:
            air_us = self._blocks * self._block_ns // NS_PER_US
            self._journal.add(BurstSent, now_ns, air_us, self._blocks, "done")
        self._blocks = 0

    def _ended(self, block: Block, now_ns: int) -> None:
        self._blocks += 1
        number = now_ns // self._block_ns - 1
        for carriage in block.carriages:
            if carriage.path.radio.is_lost(number):
                carriage.is_damaged = True
        for carriage in block.completed:
            carriage.path.completed(carriage, now_ns)
        self._send(now_ns)
