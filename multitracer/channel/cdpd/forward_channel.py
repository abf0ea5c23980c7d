"""CDPD's forward channel: blocks from the base station, which is its only sender."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.channel.cdpd.blocks import FORWARD_BLOCK_NS
from multitracer.protocols.channel_events import BurstSent
from multitracer.units import NS_PER_US

if TYPE_CHECKING:
    from multitracer.channel.cdpd.blocks import Block, BlockPath


class ForwardChannel:
    """Sends a block whenever there is data for it.

    Parameters
    ----------
    path : BlockPath
        What it works with.
    """

    def __init__(self, path: BlockPath) -> None:
        self._agenda = path.agenda
        self._filler = path.filler
        self._radio = path.radio
        self._journal = path.journal
        self._completed = path.completed
        self._is_sending = False
        self._blocks = 0

    def kick(self, now_ns: int) -> None:
        """Start at the next block, if no block is being sent."""
        if not self._is_sending:
            self._is_sending = True
            self._agenda.at(-(-now_ns // FORWARD_BLOCK_NS) * FORWARD_BLOCK_NS, self._send)

    def _send(self, now_ns: int) -> None:
        block = self._filler.fill(now_ns)
        if block is not None:
            self._agenda.at(now_ns + FORWARD_BLOCK_NS, lambda then_ns: self._ended(block, then_ns))
            return
        self._is_sending = False
        if self._blocks:
            air_us = self._blocks * FORWARD_BLOCK_NS // NS_PER_US
            self._journal.add(BurstSent, now_ns, air_us, self._blocks, "done")
        self._blocks = 0

    def _ended(self, block: Block, now_ns: int) -> None:
        self._blocks += 1
        if self._radio.is_lost(now_ns // FORWARD_BLOCK_NS - 1):
            for carriage in block.carriages:
                carriage.is_damaged = True
        for carriage in block.completed:
            self._completed(carriage, now_ns)
        self._send(now_ns)
