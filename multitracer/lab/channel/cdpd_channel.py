"""CDPD's channel: blocks, block errors, and access to the channel.

Input: link frames, a `CdpdConfig`, and a seed. Output: blocks at their times. Only the base station
sends on the forward channel, to one mobile after another; on the reverse channel the mobiles contend by the
rules of DSMA/CD with each other and with the other users of the cell.

What must hold: for every block it is decided whether the radio destroys it, even if the block is not sent;
so the radio is the same under any load.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import log
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from multitracer.protocols.error_trace import LostRuns
from multitracer.protocols.link_events import AccessWaitEnded, AccessWaitStarted, BurstSent
from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.cdpd_config import AccessConfig
    from multitracer.lab.channel.cdpd_mdlp import MdlpEntity, MdlpTransmission, PacketEnd
    from multitracer.lab.channel.shared.frame_errors import ErrorProcess
    from multitracer.lab.channel.shared.interface import SideJournal
    from multitracer.lab.channel.shared.outages import Signal
    from multitracer.lab.channel.shared.scheduler import Agenda

# One direction of a radio that carries blocks: which blocks are lost, and their share of late.
#
# Every block is decided, sent or not, so that the radio is the same whatever is sent over it, and a modem
# that listens to a channel which never pauses measures the very blocks that shaped the traffic.


class BlockRadio:
    """Destroys blocks by an error process; without signal or channel all blocks are lost.

    Parameters
    ----------
    errors : ErrorProcess
        Called once for each block.
    signal : Signal, optional
        Received power; without signal no block is decoded. None: the channel does not depend on power.
    block_ns : int
        Duration of a block.
    report_ns : int
        Interval over which `bler_percent` is computed.
    """

    def __init__(self, errors: ErrorProcess, signal: Signal | None, *, block_ns: int, report_ns: int) -> None:
        self._errors = errors
        self._signal = signal
        self._block_ns = block_ns
        self._next = 0
        self._last_lost = False
        self._is_deaf = self._is_dead = False
        self._lately: deque[bool | None] = deque(maxlen=max(1, report_ns // block_ns))
        self.lost = LostRuns()
        """All blocks that were destroyed, for any reason."""

    def set_outage(self, now_ns: int, *, deaf: bool, dead: bool) -> None:
        """Set the state of the channel. `dead`: no block can be decoded.

        `deaf`: the modem does not receive at all.
        """
        self._pass(now_ns // self._block_ns)
        self._is_deaf, self._is_dead = deaf, dead

    def is_lost(self, block: int) -> bool:
        """Return whether the radio destroys a block; block numbers must increase from call to call."""
        self._pass(block + 1)
        return self._last_lost

    def bler_percent(self, now_ns: int) -> float | None:
        """Return the block error rate of the last report interval in percent.

        None if no block was received in it.
        """
        self._pass(now_ns // self._block_ns)
        received = len(self._lately) - self._lately.count(None)
        return 100 * self._lately.count(True) / received if received else None

    def _pass(self, until: int) -> None:
        """Decide for every block with a number below `until` whether the radio destroys it.

        The blocks within one second, while the received power is constant, are decided together.
        """
        while self._next < until:
            is_zero, end = False, until
            if self._signal is not None:
                is_zero = self._signal.is_zero(self._next * self._block_ns)
                end = min(until, -(-self._signal.until_ns // self._block_ns))
            # asked always: an outage does not shift its chance
            lost = self._errors.lost_slots(self._next, end)
            if is_zero or self._is_dead or self._is_deaf:
                lost = [True] * len(lost)
            self._last_lost = lost[-1]
            if True in lost:
                for place, is_lost in enumerate(lost):
                    if is_lost:
                        self.lost.add(self._next + place)
            self._lately.extend([None] * len(lost) if self._is_deaf else lost)
            self._next = end


# The blocks of CDPD's channel, and how link frames fill them.
#
# Reed-Solomon (63,47) over symbols of 6 bits: a block of 378 coded bits holds 282, of which 8 are the colour
# code (memory) and 274 are the data link's. With the busy/idle and decode-status flags a forward block has
# 420 bits, with the continuity indicator a reverse one 385. The rate of the channel, 19.2 kb/s of CDPD or
# another, gives their times.


_MICROSLOT_BITS = 60
"""Bits of a microslot.

The forward channel has a busy/idle flag every 60 bits (Kunz' slides); the preamble of a reverse burst has as
many, 38 of dotting and 22 of synchronization (from memory)."""
_FORWARD_BLOCK_BITS = 420
_REVERSE_BLOCK_BITS = 385
_CODED_PAYLOAD_BITS = 282 - 8
"""Data link bits in a block of Reed-Solomon (63,47)."""


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """Durations of blocks and microslots on a channel, and the number of frame bits in a block."""

    microslot_ns: int
    forward_ns: int
    """Duration of a forward block."""
    reverse_ns: int
    preamble_ns: int
    """Duration of the preamble of a reverse burst."""
    forward_bits: int
    """Frame bits in a forward block."""
    reverse_bits: int


def block_times(bits_per_s: int, *, is_coded: bool) -> BlockTimes:
    """Return the times of a channel with that rate, rounded down to ns.

    Parameters
    ----------
    bits_per_s : int
        Raw rate. 19,200 gives microslots of 3.125 ms, forward blocks of 21.875 ms, reverse ones of 20.05 ms.
    is_coded : bool
        Whether a block contains the code and the flags of CDPD. Without them all its bits carry frames: the
        channel then carries exactly its rate.
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
    """The radio that may destroy the blocks."""
    journal: SideJournal
    """Journal of the sending side."""
    completed: Callable[[Carriage, int], None]
    """Called with each carriage that has ended, and the time of its end."""

    def next_carriage(self, now_ns: int) -> Carriage | None:
        """Return the transmission of the next frame; None if there is no frame."""
        frame = self.end.next_frame(now_ns)
        return None if frame is None else Carriage(frame, self.end.frame_bits(frame), now_ns, self)


@dataclass(slots=True)
class Carriage:
    """One transmission of a frame, in as many blocks as it needs."""

    frame: MdlpTransmission
    bits_left: int
    began_ns: int
    path: BlockPath
    is_damaged: bool = False
    """Whether one of the blocks that carry it is lost."""


@dataclass(slots=True)
class BlockContent:
    """The frames, or parts of frames, in one block."""

    carriages: list[Carriage] = field(default_factory=list)
    """Frames that are in the block, completely or partly."""
    completed: list[Carriage] = field(default_factory=list)
    """Frames that end in the block."""


class BlockFiller:
    """Packs frames into blocks without gaps, as a stream of bits.

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
        """Whether no frame is partly in a block and partly still to be sent."""
        return self._open is None

    def fill(self, now_ns: int) -> BlockContent | None:
        """Return the content of the next block; None if there is nothing to send."""
        carriage = self._open or self._next_carriage(now_ns)
        if carriage is None:
            return None
        block = BlockContent()
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


# CDPD's forward channel: blocks from the base station, its only sender, with the frames of all mobiles.
#
# The mobiles that have frames take turns, a frame each (round robin), as a router that serves one queue after
# another; paper 001 does not say in which order its base station sends. Frames follow each other without
# gaps, so a block may hold parts of several mobiles' frames; each mobile decodes it, or not, with its own
# radio.


class ForwardChannel:
    """The forward channel: it sends a block whenever there is data for one.

    Parameters
    ----------
    times : BlockTimes
    agenda : Agenda
    journal : SideJournal
        Journal of the fixed side.
    """

    def __init__(self, times: BlockTimes, agenda: Agenda, journal: SideJournal) -> None:
        self._block_ns = times.forward_ns
        self._agenda = agenda
        self._journal = journal
        self._filler = BlockFiller(self._next_carriage, times.forward_bits)
        self._turns: deque[BlockPath] = deque()
        """Paths that may have a frame, in the order in which they are served."""
        self._is_sending = False
        self._blocks = 0

    def kick(self, path: BlockPath, now_ns: int) -> None:
        """Add a path to those that may send; if the channel is idle, start with the next block."""
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

    def _ended(self, block: BlockContent, now_ns: int) -> None:
        self._blocks += 1
        number = now_ns // self._block_ns - 1
        for carriage in block.carriages:
            if carriage.path.radio.is_lost(number):
                carriage.is_damaged = True
        for carriage in block.completed:
            carriage.path.completed(carriage, now_ns)
        self._send(now_ns)


# DSMA/CD, digital sense multiple access with collision detection: how mobiles share CDPD's reverse channel.
#
# The base station tells on the forward channel, each microslot, whether the reverse channel is busy. Who has
# a burst looks at that flag: idle, he sends; busy, he looks again after a random time (non-persistent). The
# flag is a few microslots old, so two may start together: both hear "not decoded", stop, and back off for a
# random time whose bound doubles.


@dataclass(slots=True, eq=False)
class StationBurst:
    """One transmission of a station on the reverse channel."""

    began_ns: int
    owner: int = 0
    """Number of the mobile that sends it, from 1; 0 for other users."""
    has_collided: bool = False


class StationSpan(NamedTuple):
    """An interval in which a station used the channel."""

    begin_ns: int
    end_ns: int
    owner: int


class ReverseChannel:
    """The transmitting stations, and the busy/idle flag.

    Parameters
    ----------
    config : AccessConfig
    times : BlockTimes
    remembers_ns : int
        Maximum interval of `busy_percent`, for which bursts are stored.
    """

    def __init__(self, config: AccessConfig, times: BlockTimes, *, remembers_ns: int) -> None:
        self.times = times
        self.flag_delay_ns = config.flag_delay_microslots * times.microslot_ns
        self._remembers_ns = remembers_ns
        self._on_air: list[StationBurst] = []
        """Present bursts, in order of their start."""
        self._busy_until_ns = 0
        self._past: deque[StationSpan] = deque()

    def is_busy(self, now_ns: int) -> bool:
        """Return whether the busy/idle flag shows busy; the flag shows the channel with a short delay."""
        if now_ns < self._busy_until_ns:
            return True
        return bool(self._on_air) and self._on_air[0].began_ns <= now_ns - self.flag_delay_ns

    def begin(self, burst: StationBurst) -> None:
        """Start a station's burst; it collides with any station that is already transmitting."""
        self._on_air.append(burst)
        if len(self._on_air) > 1:
            for each in self._on_air:
                each.has_collided = True

    def end(self, burst: StationBurst, now_ns: int) -> None:
        """End a station's burst."""
        self._on_air.remove(burst)
        self._busy_until_ns = max(self._busy_until_ns, now_ns + self.flag_delay_ns)
        self._past.append(StationSpan(burst.began_ns, now_ns, burst.owner))
        while self._past[0].end_ns < now_ns - self._remembers_ns:
            self._past.popleft()

    def busy_percent(self, since_ns: int, now_ns: int, *, owner: int) -> float | None:
        """Return the percentage of time from `since_ns` to `now_ns` in which other stations used the channel.

        The time in which `owner` used the channel is excluded; None if no time remains. Bursts that
        ended before `since_ns` are removed from memory.
        """
        while self._past and self._past[0].end_ns < since_ns:
            self._past.popleft()
        spans = [*self._past, *(StationSpan(b.began_ns, now_ns, b.owner) for b in self._on_air)]
        free_ns = now_ns - since_ns - _covered_ns([s for s in spans if s.owner == owner], since_ns)
        others_ns = _covered_ns([s for s in spans if s.owner != owner], since_ns)
        return 100 * others_ns / free_ns if free_ns > 0 else None


def _covered_ns(spans: list[StationSpan], since_ns: int) -> int:
    """Return the total time in ns after `since_ns` that at least one of the intervals covers."""
    covered, reached = 0, since_ns
    for begin, end, _ in sorted(spans):
        if end > reached:
            covered += end - (begin if begin > reached else reached)  # without max: millions of times
            reached = end
    return covered


class Access:
    """The procedure by which one station gets the channel.

    Parameters
    ----------
    channel : ReverseChannel
    config : AccessConfig
    agenda : Agenda
    luck : Random
        Random generator for deferrals and back-off.
    begin : callable
        Called with the time at which the station may send.
    """

    def __init__(
        self,
        channel: ReverseChannel,
        config: AccessConfig,
        *,
        agenda: Agenda,
        luck: Random,
        begin: Callable[[int], None],
    ) -> None:
        self._channel = channel
        self._config = config
        self._microslot_ns = channel.times.microslot_ns
        self._agenda = agenda
        self._luck = luck
        self._begin = begin
        self._wanted = 0  # counts wishes: a look that was planned for an earlier one does nothing
        self._may_at_ns = 0
        self.is_wanting = False
        """Whether the station waits for the channel."""
        self.deferrals = 0
        """Number of deferrals in the present wait."""
        self.failures = 0
        """Number of consecutive failures."""

    def want(self, now_ns: int) -> None:
        """Start to contend for the channel: wait until it is idle."""
        self.is_wanting = True
        self.deferrals = 0
        self._look_at(max(now_ns, self._may_at_ns))

    def give_up(self) -> None:
        """Stop waiting."""
        self.is_wanting = False
        self._wanted += 1

    def succeeded(self, now_ns: int) -> None:
        """Record the end of a burst; the next one must wait for the minimum idle time."""
        self.failures = 0
        self._may_at_ns = now_ns + self._config.min_idle_microslots * self._microslot_ns

    def failed(self, now_ns: int) -> None:
        """Record a collision or a block that was not decoded, and back off."""
        count = min(self._config.min_count + self.failures, self._config.max_count)
        self.failures += 1
        self._may_at_ns = now_ns + (1 + self._luck.randrange(2**count)) * self._microslot_ns

    @property
    def is_hopeless(self) -> bool:
        """Whether so many attempts in a row have failed that the station must stop."""
        return self.failures >= self._config.max_attempts

    def _look_at(self, time_ns: int) -> None:
        self._wanted += 1
        wish = self._wanted
        on_grid_ns = -(-time_ns // self._microslot_ns) * self._microslot_ns
        self._agenda.at(on_grid_ns, lambda now_ns: self._look(now_ns, wish))

    def _look(self, now_ns: int, wish: int) -> None:
        if wish != self._wanted:
            return
        if self._channel.is_busy(now_ns):
            self.deferrals += 1
            pause = 1 + self._luck.randrange(self._config.max_entrance_delay_microslots + 1)
            self._look_at(now_ns + pause * self._microslot_ns)
            return
        self.is_wanting = False
        self._begin(now_ns)


# A mobile's bursts on CDPD's reverse channel, for which it contends.


class ReverseTransmitter:
    """Contends for the channel, sends a burst, and sends again from the first block that was not decoded.

    Parameters
    ----------
    channel : ReverseChannel
    config : AccessConfig
    path : BlockPath
        Frames to send, and the radio.
    owner : int
        Number of the mobile, from 1.
    has_work : callable
        Returns whether there is something to send at a time.
    luck : Random
        Random generator for deferrals and back-off.
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
        self._burst: StationBurst | None = None
        self._block: BlockContent | None = None
        self._blocks = 0
        self._waits_since_ns = 0
        self._is_away = False

    def kick(self, now_ns: int) -> None:
        """Start to wait for the channel if there are data and no burst is in progress."""
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
        self._burst = StationBurst(now_ns, self._owner)
        self._blocks = 0
        self._channel.begin(self._burst)
        self._send_block(self._burst, now_ns + self._times.preamble_ns)

    def _send_block(self, burst: StationBurst, now_ns: int) -> None:
        self._agenda.at(now_ns + self._times.reverse_ns, lambda then_ns: self._block_ended(burst, then_ns))

    def _block_ended(self, burst: StationBurst, now_ns: int) -> None:
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

    def _failed(self, burst: StationBurst, cause: str, now_ns: int) -> None:
        if burst is not self._burst:
            return
        self._over(now_ns, cause)
        self._access.failed(now_ns)
        if self._access.is_hopeless:
            self._abandon(now_ns)
        self._wait(now_ns, cause)

    def _abandon(self, now_ns: int) -> None:
        """Stop repeating a burst; the data link retransmits its frames."""
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
        """Record that the channel is lost (True) or is available again (False).

        A partly sent frame remains.
        """
        if is_away and self._access.is_wanting:
            self._access.give_up()
            self._waited(now_ns, "outage")
        if is_away:
            self._over(now_ns, "outage")
            self._access.failures = 0
        self._is_away = is_away
        self._wait(now_ns, "outage")


# The other users of a CDPD cell: bursts at random times that contend for the reverse channel.


_MOST_WAITING = 50
"""Maximum number of bursts that wait at another station, as for packets at a mobile by default (our choice)."""

if TYPE_CHECKING:
    from multitracer.lab.channel.cdpd_config import AccessConfig, CellConfig
    from multitracer.lab.channel.shared.scheduler import Agenda


class CdpdCell:
    """Starts other users' bursts at a rate that varies slowly.

    Each burst belongs to a new user or, with `stations`, to one of a fixed number of users. A user contends
    with all other users; his own bursts wait for each other.

    Parameters
    ----------
    channel : ReverseChannel
    config : CellConfig
    access : AccessConfig
    agenda : Agenda
    seed : str
        Random seed. Arrivals of bursts depend only on the seed; contention also depends on the traffic.
    """

    def __init__(
        self, channel: ReverseChannel, config: CellConfig, access: AccessConfig, *, agenda: Agenda, seed: str
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
        """Return a random length of a burst in blocks, geometrically distributed with the configured mean."""
        mean = self._config.mean_blocks
        if mean <= 1:
            return 1
        drawn = 1 + int(log(1 - self._arrivals.random()) / log(1 - 1 / mean))
        return min(drawn, self.access.max_blocks)


class _Station:
    """Another mobile of the cell, and its bursts; the radio destroys none of their blocks."""

    def __init__(self, cell: CdpdCell) -> None:
        self._cell = cell
        self._times = cell.channel.times
        self._waiting: deque[int] = deque()
        """Lengths of the waiting bursts in blocks; the first one is being sent."""
        self._burst = StationBurst(0)
        self._access = Access(cell.channel, cell.access, agenda=cell.agenda, luck=cell.luck, begin=self._begin)

    def take(self, blocks: int, now_ns: int) -> None:
        """Send a burst of `blocks` blocks now or after the waiting bursts.

        Discard it if the queue is full.
        """
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(blocks)
            if len(self._waiting) == 1:
                self._access.want(now_ns)

    def _begin(self, now_ns: int) -> None:
        self._burst = StationBurst(now_ns)
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
        """Send the next waiting burst, after the idle time and the back-off that follow a burst."""
        self._waiting.popleft()
        if self._waiting:
            self._access.want(now_ns)
