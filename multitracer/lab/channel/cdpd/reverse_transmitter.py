"""A mobile's bursts on CDPD's reverse channel, for which it contends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.channel.cdpd.blocks import BlockFiller
from multitracer.lab.channel.cdpd.dsma import Access, Burst
from multitracer.protocols.channel_events import AccessWaitEnded, AccessWaitStarted, BurstSent
from multitracer.units import NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from multitracer.lab.channel.cdpd.blocks import Block, BlockPath
    from multitracer.lab.channel.cdpd.config import AccessConfig
    from multitracer.lab.channel.cdpd.dsma import ReverseChannel


class ReverseTransmitter:
    """Contends for the channel, sends a burst of blocks, and repeats from the first block not decoded.

    Parameters
    ----------
    channel : ReverseChannel
    config : AccessConfig
    path : BlockPath
        What it sends, and what loses it.
    owner : int
        Number of the mobile, from 1.
    has_work : callable
        Tells whether there is something to send at a time.
    luck : Random
        For deferrals and back-off.
    """

    def __init__(
        self,
        channel: ReverseChannel,
        config: AccessConfig,
        path: BlockPath,
        *,
        owner: int,
        has_work: Callable[[int], bool],
        luck: Random,
    ) -> None:
        self._channel = channel
        self._config = config
        self._agenda = path.agenda
        self._owner = owner
        self._times = channel.times
        self._filler = BlockFiller(path.next_carriage, channel.times.reverse_bits)
        self._radio = path.radio
        self._journal = path.journal
        self._completed = path.completed
        self._has_work = has_work
        self._access = Access(channel, config, agenda=path.agenda, luck=luck, begin=self._begin)
        self._burst: Burst | None = None
        self._block: Block | None = None
        self._blocks = 0
        self._waits_since_ns = 0
        self._is_away = False

    def kick(self, now_ns: int) -> None:
        """Start to wait for the channel if there is data and no burst is in progress."""
        self._wait(now_ns, "new")

    @property
    def _is_idle(self) -> bool:
        return self._burst is None and not self._access.is_wanting and not self._is_away

    def _wait(self, now_ns: int, cause: str) -> None:
        has_some = self._block is not None or not self._filler.is_empty
        if self._is_idle and (has_some or self._has_work(now_ns)):
            self._waits_since_ns = now_ns
            self._journal.add(AccessWaitStarted, now_ns, cause)
            self._access.want(now_ns)

    def _waited(self, now_ns: int, cause: str) -> None:
        waited_us = (now_ns - self._waits_since_ns) // NS_PER_US
        self._journal.add(AccessWaitEnded, now_ns, waited_us, self._access.deferrals, cause)

    # --- a burst ---

    def _begin(self, now_ns: int) -> None:
        self._block = self._block or self._filler.fill(now_ns)
        self._waited(now_ns, "burst" if self._block else "given-up")
        if self._block is None:  # what waited was thrown away by a reset of the data link
            return
        self._burst = Burst(now_ns, self._owner)
        self._blocks = 0
        self._channel.begin(self._burst)
        self._send_block(self._burst, now_ns + self._times.preamble_ns)

    def _send_block(self, burst: Burst, now_ns: int) -> None:
        self._agenda.at(now_ns + self._times.reverse_ns, lambda then_ns: self._block_ended(burst, then_ns))

    def _block_ended(self, burst: Burst, now_ns: int) -> None:
        block = self._block
        if burst is not self._burst or block is None:
            return  # an outage ended the burst
        self._blocks += 1
        if burst.has_collided or self._radio.is_lost(now_ns // self._times.reverse_ns):
            cause = "collision" if burst.has_collided else "undecoded"
            told_ns = now_ns + self._channel.flag_delay_ns
            self._agenda.at(told_ns, lambda then_ns: self._failed(burst, cause, then_ns))
            return
        self._access.failures = 0
        for carriage in block.completed:
            self._completed(carriage, now_ns)
        is_full = self._blocks >= self._config.max_blocks
        self._block = None if is_full else self._filler.fill(now_ns)
        if self._block is None:
            self._over(now_ns, "full" if is_full else "done")
            self._access.succeeded(now_ns)
            self._wait(now_ns, "full" if is_full else "new")
        else:
            self._send_block(burst, now_ns)

    def _failed(self, burst: Burst, cause: str, now_ns: int) -> None:
        if burst is not self._burst:
            return
        self._over(now_ns, cause)
        self._access.failed(now_ns)
        if self._access.is_hopeless:
            self._abandon(now_ns)
        self._wait(now_ns, cause)

    def _abandon(self, now_ns: int) -> None:
        """Stop repeating a block; the data link recovers its frames."""
        block, self._block = self._block, None
        self._access.failures = 0
        for carriage in block.carriages if block else []:
            carriage.is_damaged = True
        for carriage in block.completed if block else []:
            self._completed(carriage, now_ns)

    def _over(self, now_ns: int, cause: str) -> None:
        burst, self._burst = self._burst, None
        if burst is not None:
            self._channel.end(burst, now_ns)
            air_us = (now_ns - burst.began_ns) // NS_PER_US
            self._journal.add(BurstSent, now_ns, air_us, self._blocks, cause)

    # --- outages ---

    def set_away(self, now_ns: int, *, is_away: bool) -> None:
        """Note that there is no channel, or that it is back; a frame that is partly sent stays."""
        if is_away and self._access.is_wanting:
            self._access.give_up()
            self._waited(now_ns, "outage")
        if is_away:
            self._over(now_ns, "outage")
            self._access.failures = 0
        self._is_away = is_away
        self._wait(now_ns, "outage")
