"""An idle phone: after a time without packets it loses its connection, and the next packet waits for a promotion.

Both directions of the link share one gate. It also says which states the modem reports, and when the next request of
the traffic is due. Everything is drawn from the seed of the drive; times are ns since the drive began.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.schemas.schema import Document

_TIMER_S = (3.0, 6.0)
"""Range of the inactivity timer; networks use some 5 to 20 s, which would make rehearsals long."""
_PROMOTION_S = (0.15, 1.5)
"""Range of the time of a promotion: from 0.1 s in LTE to some seconds in UMTS."""
_SHORT_IDLE_S = (0.2, 1.5)
_LONG_IDLE_S = (1.0, 4.0)
"""Time by which a long pause exceeds the timer, which a phone sleeps."""
_LONG = 0.5
"""Share of long pauses."""


def timer_s(seed: int) -> float:
    """Return the inactivity timer of a drive, s."""
    return round(random.Random(f"timer {seed}").uniform(*_TIMER_S), 3)  # noqa: S311


def idle_times_s(seed: int) -> Iterator[float]:
    """Yield the pauses between requests, s: shorter than the timer, or longer."""
    draw = random.Random(f"idle {seed}")  # noqa: S311
    while True:
        is_long = draw.random() < _LONG
        yield timer_s(seed) + draw.uniform(*_LONG_IDLE_S) if is_long else draw.uniform(*_SHORT_IDLE_S)


class IdleGate:
    """The state of RRC behind a link: idle, in promotion, or connected.

    Parameters
    ----------
    seed : int
        Of the drive.
    say : callable
        Called with each event: its name `rrc` ("connected" or "idle"), and `began_ns` and `ended_ns` of a promotion
        or the time `at_ns` of a release, in ns since the drive began.
    """

    def __init__(self, seed: int, say: Callable[[Document], None]) -> None:
        self._draw = random.Random(f"promotions {seed}")  # noqa: S311
        self._timer_ns = round(timer_s(seed) * NS_PER_S)
        self._say = say
        self._is_connected = False
        self._promotion_ns: tuple[int, int] | None = None
        self._last_ns = 0

    def ready_ns(self, now_ns: int) -> int:
        """Return when a packet of this moment can be sent; the first one of an idle phone begins a promotion."""
        self.tick(now_ns)
        if not self._is_connected and self._promotion_ns is None:
            self._promotion_ns = now_ns, now_ns + round(self._draw.uniform(*_PROMOTION_S) * NS_PER_S)
        return now_ns if self._promotion_ns is None else self._promotion_ns[1]

    def used(self, until_ns: int) -> None:
        """Note that a packet is on the air until a time: the inactivity timer begins again."""
        self._last_ns = max(self._last_ns, until_ns)

    @property
    def next_ns(self) -> int | None:
        """When the state changes next if no packet comes; None if it does not."""
        if self._promotion_ns is not None:
            return self._promotion_ns[1]
        return self._last_ns + self._timer_ns if self._is_connected else None

    def tick(self, now_ns: int) -> None:
        """Change the state if it is due."""
        if self._promotion_ns is not None and now_ns >= self._promotion_ns[1]:
            began_ns, ended_ns = self._promotion_ns
            self._promotion_ns, self._is_connected = None, True
            self.used(ended_ns)
            self._say({"rrc": "connected", "began_ns": began_ns, "ended_ns": ended_ns})
        elif self._is_connected and now_ns >= self._last_ns + self._timer_ns:
            self._is_connected = False
            self._say({"rrc": "idle", "at_ns": self._last_ns + self._timer_ns})
