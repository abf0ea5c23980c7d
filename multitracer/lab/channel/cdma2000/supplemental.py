"""Who gets a supplemental channel, of which rate and when: one direction of a sector.

Rules of the file:

- A mobile wants a channel when its backlog is `request_bytes` or more: the lowest rate that carries the
  backlog within a burst. It may ask when it has none, and from `delay` before its present burst ends on.
- Who has the largest backlog is served first. It gets the highest rate up to the wanted one for which there
  are power (`pilot.power_share`, at the Ec/Io of that time) and codes; others keep what they have or were
  promised.
- A burst begins `delay` after the decision, and not before the present one is over. It is never cut short,
  and what it leaves unused is lost. Who finds no room asks again in the next frame.

That backlog decides is paper 003's finding ("highly dependent on the transport data rate"); all numbers and
the order are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from multitracer.lab.channel.cdma2000.pilot import power_share
from multitracer.lab.channel.cdma2000.rates import FRAME_NS, SUPPLEMENTAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.lab.channel.cdma2000.config import AssignmentConfig, ErrorMapConfig
    from multitracer.lab.channel.cdma2000.rates import Rate


class Burst(NamedTuple):
    """An assignment; frames are counted from the link's begin."""

    rate: Rate
    begin: int
    end: int
    """The first frame behind it."""
    power: float
    """Share of the power for supplemental channels."""


class Assigned:
    """What one mobile has in one direction."""

    def __init__(self) -> None:
        self.present: Burst | None = None
        self.promised: Burst | None = None

    @property
    def power(self) -> float:
        """Share of the power that it takes, now or then."""
        return max((burst.power for burst in (self.present, self.promised) if burst), default=0.0)

    @property
    def walsh(self) -> float:
        """Share of the codes that it takes, now or then."""
        return max((burst.rate.walsh for burst in (self.present, self.promised) if burst), default=0.0)

    def step(self, frame: int) -> None:
        """Begin a frame."""
        if self.present is not None and frame >= self.present.end:
            self.present = None
        if self.promised is not None and frame >= self.promised.begin:
            self.present, self.promised = self.promised, None


class User(Protocol):
    """A mobile in one direction, as the scheduler sees it."""

    assigned: Assigned

    @property
    def backlog_bytes(self) -> int:
        """What waits to be sent."""

    def ecio_db(self, now_ns: int) -> float:
        """Ec/Io that the mobile reports now."""


class Scheduler:
    """Assigns the supplemental channels of one direction.

    Parameters
    ----------
    config : AssignmentConfig
    errors : ErrorMapConfig
        What a rate needs.
    has_codes : bool
        Whether codes limit it, which they do in the forward direction only.
    """

    def __init__(self, config: AssignmentConfig, errors: ErrorMapConfig, *, has_codes: bool) -> None:
        self._config = config
        self._errors = errors
        self._delay = -(-config.delay_ns // FRAME_NS)
        self._power = 1 - config.load_percent / 100
        self._codes = config.codes_percent / 100 if has_codes else float("inf")
        self._rates = [rate for rate in SUPPLEMENTAL if rate.bits_per_s <= config.most_bits_per_s]

    def decide(self, frame: int, users: Sequence[User]) -> None:
        """Promise bursts to those who want one in this frame."""
        asking = [(-user.backlog_bytes, place) for place, user in enumerate(users) if self._may(user, frame)]
        for backlog, place in sorted(asking):
            if -backlog >= self._config.request_bytes:
                self._serve(users[place], -backlog, frame, users)

    def _may(self, user: User, frame: int) -> bool:
        present = user.assigned.present
        is_free = present is None or frame >= present.end - self._delay
        return is_free and user.assigned.promised is None

    def _serve(self, user: User, backlog: int, frame: int, users: Sequence[User]) -> None:
        others = [each.assigned for each in users if each is not user]
        power = self._power - sum(each.power for each in others)
        codes = self._codes - sum(each.walsh for each in others)
        ecio_db = user.ecio_db(frame * FRAME_NS)
        for rate in reversed(self._wanted(backlog)):
            share = power_share(rate, ecio_db, self._errors)
            if share <= power and rate.walsh <= codes:
                present = user.assigned.present
                begin = max(frame + self._delay, present.end if present else 0)
                user.assigned.promised = Burst(rate, begin, begin + self._config.burst_frames, share)
                return

    def _wanted(self, backlog: int) -> list[Rate]:
        """Return the rates up to the lowest that carries the backlog in a burst."""
        frames = self._config.burst_frames
        enough = sum(rate.octets * frames < backlog for rate in self._rates)
        return self._rates[: enough + 1]
