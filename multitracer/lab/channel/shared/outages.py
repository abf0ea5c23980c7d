"""Received power over time, and outages of the channel."""

from __future__ import annotations

from math import exp, log, sqrt
from random import Random
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.lab.channel.shared.scheduler import Agenda

OutageKind = Literal["hop", "ejection", "blackout", "handoff"]
STATES: dict[OutageKind, str] = {
    "blackout": "blackout", "ejection": "scanning", "hop": "hopping", "handoff": "handoff",
}  # fmt: skip
"""State that a modem reports during an outage; with several outages, the first key that is active counts."""


class Chance(NamedTuple):
    """Mean interval and range of durations of one kind of random outage."""

    kind: OutageKind
    every_ns: int
    """Mean interval, exponentially distributed; 0 means never."""
    min_ns: int
    max_ns: int
    is_log: bool = False
    """Whether the logarithm of the duration is uniform, instead of the duration."""
    is_planned: bool = False
    """Whether the interval is always the same, from the end of an outage on, instead of random."""


class OutageProcess:
    """Begins and ends random and scripted outages of several kinds; outages may overlap.

    Parameters
    ----------
    chances : sequence of Chance
    agenda : Agenda
    seed : str
        Each kind of outage has its own random numbers.
    changed : callable
        Called with the time, the kind, and whether the outage begins (or ends).
    """

    def __init__(
        self, chances: Sequence[Chance], *, agenda: Agenda, seed: str, changed: Callable[[int, OutageKind, bool], None]
    ) -> None:
        self._agenda = agenda
        self._changed = changed
        self._active: list[OutageKind] = []
        for chance in chances:
            if chance.every_ns > 0:
                planned = " planned" * chance.is_planned  # two kinds of hops do not share random numbers
                self._plan(0, chance, Random(f"{seed} {chance.kind}{planned}"))

    def _plan(self, now_ns: int, chance: Chance, luck: Random) -> None:
        def come(then_ns: int) -> None:
            lasts_ns = _duration_ns(chance, luck)
            self.begin(then_ns, chance.kind, lasts_ns)
            self._plan(then_ns + lasts_ns, chance, luck)

        wait_ns = chance.every_ns if chance.is_planned else round(luck.expovariate(1 / chance.every_ns))
        self._agenda.at(now_ns + wait_ns, come)

    def begin(self, now_ns: int, kind: OutageKind, lasts_ns: int) -> None:
        """Begin an outage of this kind now; it ends after `lasts_ns`."""
        self._active.append(kind)
        self._changed(now_ns, kind, True)
        self._agenda.at(now_ns + lasts_ns, lambda then_ns: self._end(then_ns, kind))

    def _end(self, now_ns: int, kind: OutageKind) -> None:
        self._active.remove(kind)
        self._changed(now_ns, kind, False)

    def __bool__(self) -> bool:
        """Return whether an outage is active."""
        return bool(self._active)

    @property
    def kind(self) -> OutageKind | None:
        """Kind of the worst active outage; None without an outage."""
        return next((kind for kind in STATES if kind in self._active), None)


def _duration_ns(chance: Chance, luck: Random) -> int:
    if chance.is_log:
        return round(exp(luck.uniform(log(chance.min_ns), log(chance.max_ns))))
    return round(luck.uniform(chance.min_ns, chance.max_ns))


# Received power over time: a mean and slow fading whose value in dB is Gaussian and correlated in time.


class SignalParameters(Protocol):
    """The parameters of the received power."""

    @property
    def mean_dbm(self) -> float: ...  # noqa: D102
    @property
    def deviation_db(self) -> float: ...  # noqa: D102
    @property
    def correlation_ns(self) -> int: ...  # noqa: D102
    @property
    def zero_dbm(self) -> float: ...  # noqa: D102


class Signal:
    """Received power that changes once a second (Gudmundson 1991: a first-order autoregression).

    Parameters
    ----------
    config : SignalParameters
        Mean, deviation, correlation time and minimum.
    luck : Random
        Random generator.
    """

    def __init__(self, config: SignalParameters, *, luck: Random) -> None:
        self._config = config
        self._gauss = luck.gauss
        self._keep = exp(-NS_PER_S / config.correlation_ns)
        self._renew = config.deviation_db * sqrt(1 - self._keep**2)
        self._fading_db = self._gauss(0.0, config.deviation_db)
        self.until_ns = NS_PER_S
        """Time up to which the power of the last call is valid."""

    def dbm(self, now_ns: int) -> float:
        """Return the received power in dBm; times must not decrease from call to call."""
        while now_ns >= self.until_ns:
            self._fading_db = self._keep * self._fading_db + self._gauss(0.0, self._renew)
            self.until_ns += NS_PER_S
        return max(self._config.zero_dbm, self._config.mean_dbm + self._fading_db)

    def is_zero(self, now_ns: int) -> bool:
        """Return whether the mobile receives no signal at a time: the power is at its minimum."""
        return self.dbm(now_ns) <= self._config.zero_dbm
