"""The other users of a CDPD cell: bursts at random times that contend for the reverse channel."""

from __future__ import annotations

from math import log
from random import Random
from typing import TYPE_CHECKING

from multitracer.channel.cdpd.blocks import PREAMBLE_NS, REVERSE_BLOCK_NS
from multitracer.channel.cdpd.dsma import Access, Burst

if TYPE_CHECKING:
    from multitracer.channel.cdpd.config import AccessConfig, CellConfig
    from multitracer.channel.cdpd.dsma import ReverseChannel
    from multitracer.channel.shared.scheduler import Agenda


class Cell:
    """Starts other users' bursts at a rate that varies slowly.

    Parameters
    ----------
    channel : ReverseChannel
    config : CellConfig
    access : AccessConfig
    agenda : Agenda
    seed : str
        The bursts that arrive depend on it alone; how they contend, on what is on the channel too.
    """

    def __init__(
        self,
        channel: ReverseChannel,
        config: CellConfig,
        access: AccessConfig,
        *,
        agenda: Agenda,
        seed: str,
    ) -> None:
        self.channel = channel
        self.access = access
        self.agenda = agenda
        self.luck = Random(f"{seed} cell access")
        self._arrivals = Random(f"{seed} cell arrivals")
        self._config = config
        self._share = 0.0
        self._holds_until_ns = 0
        if config.busy_percent > 0:
            self._plan_next(0)

    def _plan_next(self, now_ns: int) -> None:
        if now_ns >= self._holds_until_ns:
            spread = self._config.spread_percent
            self._share = (self._config.busy_percent + self._arrivals.uniform(-spread, spread)) / 100
            self._holds_until_ns = now_ns + 1 + round(self._arrivals.expovariate(1 / self._config.holds_ns))
        burst_ns = PREAMBLE_NS + self._config.mean_blocks * REVERSE_BLOCK_NS
        if self._share <= 0:
            self.agenda.at(self._holds_until_ns, self._plan_next)
            return
        pause_ns = round(self._arrivals.expovariate(self._share / burst_ns))
        if now_ns + pause_ns >= self._holds_until_ns:  # exponential: what is left may be drawn anew then
            self.agenda.at(self._holds_until_ns, self._plan_next)
        else:
            self.agenda.at(now_ns + pause_ns, self._arrive)

    def _arrive(self, now_ns: int) -> None:
        _Other(self, self._blocks()).want(now_ns)
        self._plan_next(now_ns)

    def _blocks(self) -> int:
        """Draw a geometric length with the mean of the configuration."""
        mean = self._config.mean_blocks
        if mean <= 1:
            return 1
        drawn = 1 + int(log(1 - self._arrivals.random()) / log(1 - 1 / mean))
        return min(drawn, self.access.max_blocks)


class _Other:
    """A burst of another mobile; its blocks are never lost by bad radio."""

    def __init__(self, cell: Cell, blocks: int) -> None:
        self._cell = cell
        self._blocks = blocks
        self._burst = Burst(0)
        self._access = Access(
            cell.channel, cell.access, agenda=cell.agenda, luck=cell.luck, begin=self._begin
        )

    def want(self, now_ns: int) -> None:
        self._access.want(now_ns)

    def _begin(self, now_ns: int) -> None:
        self._burst = Burst(now_ns)
        self._cell.channel.begin(self._burst)
        first_ns = PREAMBLE_NS + REVERSE_BLOCK_NS + self._cell.channel.flag_delay_ns
        self._cell.agenda.at(now_ns + first_ns, self._first_block_told)

    def _first_block_told(self, now_ns: int) -> None:
        if not self._burst.has_collided:
            told_ns = self._cell.channel.flag_delay_ns
            self._cell.agenda.at(
                max(now_ns, now_ns - told_ns + (self._blocks - 1) * REVERSE_BLOCK_NS), self._end
            )
            return
        self._end(now_ns)
        self._access.failed(now_ns)
        if not self._access.is_hopeless:
            self._access.want(now_ns)

    def _end(self, now_ns: int) -> None:
        self._cell.channel.end(self._burst, now_ns)
