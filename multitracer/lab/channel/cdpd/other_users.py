"""The other users of a CDPD cell: bursts at random times that contend for the reverse channel."""

from __future__ import annotations

from collections import deque
from math import log
from random import Random
from typing import TYPE_CHECKING

from multitracer.lab.channel.cdpd.dsma import Access, Burst

_MOST_WAITING = 50
"""Bursts that wait at a station of the cell, as packets at a mobile by default (ours)."""

if TYPE_CHECKING:
    from multitracer.lab.channel.cdpd.config import AccessConfig, CellConfig
    from multitracer.lab.channel.cdpd.dsma import ReverseChannel
    from multitracer.lab.channel.shared.scheduler import Agenda


class Cell:
    """Starts other users' bursts at a rate that varies slowly.

    Each burst is one of a new user's, or, with `stations`, of one of so many users: he contends with all
    others but never with himself, and what he cannot send yet waits for his turn.

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
        self._times = channel.times
        self._stations = [_Station(self) for _ in range(config.stations)]
        self._share = 0.0
        self._holds_until_ns = 0
        if config.busy_percent > 0:
            self._plan_next(0)

    def _plan_next(self, now_ns: int) -> None:
        if now_ns >= self._holds_until_ns:
            spread = self._config.spread_percent
            self._share = (self._config.busy_percent + self._arrivals.uniform(-spread, spread)) / 100
            self._holds_until_ns = now_ns + 1 + round(self._arrivals.expovariate(1 / self._config.holds_ns))
        burst_ns = self._times.preamble_ns + self._config.mean_blocks * self._times.reverse_ns
        if self._share <= 0:
            self.agenda.at(self._holds_until_ns, self._plan_next)
            return
        pause_ns = round(self._arrivals.expovariate(self._share / burst_ns))
        if now_ns + pause_ns >= self._holds_until_ns:  # exponential: what is left may be drawn anew then
            self.agenda.at(self._holds_until_ns, self._plan_next)
        else:
            self.agenda.at(now_ns + pause_ns, self._arrive)

    def _arrive(self, now_ns: int) -> None:
        blocks = self._blocks()
        station = self._arrivals.choice(self._stations) if self._stations else _Station(self)
        station.take(blocks, now_ns)
        self._plan_next(now_ns)

    def _blocks(self) -> int:
        """Draw a geometric length with the mean of the configuration."""
        mean = self._config.mean_blocks
        if mean <= 1:
            return 1
        drawn = 1 + int(log(1 - self._arrivals.random()) / log(1 - 1 / mean))
        return min(drawn, self.access.max_blocks)


class _Station:
    """Another mobile and its bursts, one after another; their blocks are never lost by bad radio."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._times = cell.channel.times
        self._waiting: deque[int] = deque()
        """Lengths in blocks; the first is the one that is being sent."""
        self._burst = Burst(0)
        self._access = Access(
            cell.channel, cell.access, agenda=cell.agenda, luck=cell.luck, begin=self._begin
        )

    def take(self, blocks: int, now_ns: int) -> None:
        """Send a burst now, or when those before it are sent; a full queue refuses it."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(blocks)
            if len(self._waiting) == 1:
                self._access.want(now_ns)

    def _begin(self, now_ns: int) -> None:
        self._burst = Burst(now_ns)
        self._cell.channel.begin(self._burst)
        first_ns = self._times.preamble_ns + self._times.reverse_ns + self._cell.channel.flag_delay_ns
        self._cell.agenda.at(now_ns + first_ns, self._first_block_told)

    def _first_block_told(self, now_ns: int) -> None:
        if self._burst.has_collided:
            self._end(now_ns)
            self._access.failed(now_ns)
            if self._access.is_hopeless:
                self._access.failures = 0
                self._next(now_ns)
            else:
                self._access.want(now_ns)
            return
        sent_ns = now_ns - self._cell.channel.flag_delay_ns + (self._waiting[0] - 1) * self._times.reverse_ns
        self._cell.agenda.at(max(now_ns, sent_ns), self._done)

    def _done(self, now_ns: int) -> None:
        self._end(now_ns)
        self._access.succeeded(now_ns)
        self._next(now_ns)

    def _end(self, now_ns: int) -> None:
        self._cell.channel.end(self._burst, now_ns)

    def _next(self, now_ns: int) -> None:
        """Go on to the next burst; the pause and the back-off of the one before hold for it."""
        self._waiting.popleft()
        if self._waiting:
            self._access.want(now_ns)
