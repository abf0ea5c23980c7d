"""DSMA/CD, digital sense multiple access with collision detection: how mobiles share CDPD's reverse channel.

The base station tells on the forward channel, each microslot, whether the reverse channel is busy. Who has
a burst looks at that flag: idle, he sends; busy, he looks again after a random time (non-persistent). The
flag is a few microslots old, so two may start together: both hear "not decoded", stop, and back off for a
random time whose bound doubles. Here is what any station does; the others are in `other_users.py`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from multitracer.lab.channel.cdpd.blocks import BlockTimes
    from multitracer.lab.channel.cdpd.config import AccessConfig
    from multitracer.lab.channel.shared.scheduler import Agenda


@dataclass(slots=True, eq=False)
class Burst:
    """A station's use of the channel."""

    began_ns: int
    owner: int = 0
    """Number of the mobile whose it is, from 1; 0 of the other users."""
    has_collided: bool = False


class Span(NamedTuple):
    """A time in which a station held the channel."""

    begin_ns: int
    end_ns: int
    owner: int


class ReverseChannel:
    """Which stations transmit, and what the busy/idle flag shows of it.

    Parameters
    ----------
    config : AccessConfig
    times : BlockTimes
    remembers_ns : int
        How far back `busy_percent` may look.
    """

    def __init__(self, config: AccessConfig, times: BlockTimes, *, remembers_ns: int) -> None:
        self.times = times
        self.flag_delay_ns = config.flag_delay_microslots * times.microslot_ns
        self._remembers_ns = remembers_ns
        self._on_air: list[Burst] = []
        """In the order in which they began."""
        self._busy_until_ns = 0
        self._past: deque[Span] = deque()

    def is_busy(self, now_ns: int) -> bool:
        """Return what the flag shows now: the state of the channel a short time ago."""
        if now_ns < self._busy_until_ns:
            return True
        return bool(self._on_air) and self._on_air[0].began_ns <= now_ns - self.flag_delay_ns

    def begin(self, burst: Burst) -> None:
        """Start a station's burst; a station that transmits already collides with it."""
        self._on_air.append(burst)
        if len(self._on_air) > 1:
            for each in self._on_air:
                each.has_collided = True

    def end(self, burst: Burst, now_ns: int) -> None:
        """End a station's burst."""
        self._on_air.remove(burst)
        self._busy_until_ns = max(self._busy_until_ns, now_ns + self.flag_delay_ns)
        self._past.append(Span(burst.began_ns, now_ns, burst.owner))
        while self._past[0].end_ns < now_ns - self._remembers_ns:
            self._past.popleft()

    def busy_percent(self, since_ns: int, now_ns: int, *, owner: int) -> float | None:
        """Return the share of time in which others held the channel, among the time that `owner` did not.

        What ended before `since_ns` is forgotten.
        """
        while self._past and self._past[0].end_ns < since_ns:
            self._past.popleft()
        spans = [*self._past, *(Span(b.began_ns, now_ns, b.owner) for b in self._on_air)]
        free_ns = now_ns - since_ns - _covered_ns([s for s in spans if s.owner == owner], since_ns)
        others_ns = _covered_ns([s for s in spans if s.owner != owner], since_ns)
        return 100 * others_ns / free_ns if free_ns > 0 else None


def _covered_ns(spans: list[Span], since_ns: int) -> int:
    """Return the length of the union of spans."""
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
        For deferrals and back-off.
    begin : callable
        Called with the time when the station may send.
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
        """Of this wait."""
        self.failures = 0
        """In a row."""

    def want(self, now_ns: int) -> None:
        """Start to wait for the channel."""
        self.is_wanting = True
        self.deferrals = 0
        self._look_at(max(now_ns, self._may_at_ns))

    def give_up(self) -> None:
        """Stop waiting."""
        self.is_wanting = False
        self._wanted += 1

    def succeeded(self, now_ns: int) -> None:
        """Note that a burst is over: there is a pause before the next one."""
        self.failures = 0
        self._may_at_ns = now_ns + self._config.min_idle_microslots * self._microslot_ns

    def failed(self, now_ns: int) -> None:
        """Note a collision or a block that was not decoded, and back off."""
        count = min(self._config.min_count + self.failures, self._config.max_count)
        self.failures += 1
        self._may_at_ns = now_ns + (1 + self._luck.randrange(2**count)) * self._microslot_ns

    @property
    def is_hopeless(self) -> bool:
        """Whether the largest number of failures in a row is reached."""
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
