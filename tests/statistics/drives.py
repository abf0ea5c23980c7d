"""Sides of many sessions that nothing tells apart, or a known factor does; as real ones are.

Sessions last from seconds to an hour; their seconds resemble their neighbours and have heavy tails; places
differ, and so do sessions at one place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.comparison.sides import Sides, Sums
from tests.statistics.planted import autoregressive

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask

_LONGEST_S = 3_600


@dataclass(frozen=True, slots=True)
class Network:
    """How sessions are made: how many, at how many places, and the spread of what they differ by.

    A session visits `visited` places one after the other, at one of `hours`; 0 places: none is known.
    """

    sessions: int
    places: int = 0
    visited: int = 1
    hours: int = 4
    spread: float = 0.3
    """Of sessions at one place, in the logarithm."""
    of_places: float = 0.5
    tail: float = 0.8
    """Of seconds, in the logarithm."""
    correlation: float = 0.95
    """Of neighbouring seconds."""


def half(sessions: int, chance: np.random.Generator) -> Mask:
    """Return a random half of the sessions."""
    return chance.permutation(np.arange(sessions) < sessions // 2)


def drives(network: Network, chance: np.random.Generator) -> Sides:
    """Return sessions that differ by chance alone, half of them on the second side."""
    level = network.of_places * chance.standard_normal(max(network.places, 1))
    rows = [row for number in range(network.sessions) for row in _session(network, level, number, chance)]
    columns = np.array([(number, place, hour, seconds) for number, place, hour, seconds, _ in rows])
    session, place, hour = columns[:, :3].astype(np.int64).T
    names = rows[0][-1]
    sums = {name: Sums(*np.array([values[name] for *_, values in rows], dtype=np.float64).T) for name in names}
    return Sides(half(network.sessions, chance), session, place, hour, columns[:, 3], sums)


def _session(
    network: Network, level: Array, number: int, chance: np.random.Generator
) -> list[tuple[int, int, int, int, dict[str, tuple[float, float]]]]:
    length = int(np.clip(60 * np.exp(1.2 * chance.standard_normal()), 4, _LONGEST_S))
    hour = int(chance.integers(network.hours))
    first = int(chance.integers(max(network.places, 1)))
    own = network.spread * chance.standard_normal()
    slow = autoregressive(chance, length, network.correlation)
    place = (first + np.arange(length) * network.visited // length) % max(network.places, 1)
    log_rate = level[place] + own + network.tail * slow
    rate = 1e6 * np.exp(log_rate)
    rtt = 5e7 * np.exp(-0.5 * log_rate + 0.3 * autoregressive(chance, length, 0.8))
    sent = np.maximum(1, rate / 12_000).astype(np.int64)
    lost = chance.binomial(sent, np.clip(0.01 * np.exp(-2 * log_rate), 0, 0.5))
    return [
        (number, int(each) if network.places else -1, hour, int(here.sum()), {
            "throughput": (here.sum(), rate[here].sum()),
            "RTT": (here.sum(), rtt[here].sum()),
            "loss": (sent[here].sum(), lost[here].sum()),
            "limited by link": (here.sum(), (log_rate[here] > 0).sum()),
            "limited by outage": (here.sum(), (log_rate[here] < -1.5).sum()),
            "limited by recovery": (here.sum(), (lost[here] > 0.05 * sent[here]).sum()),
        })
        for each in np.unique(place)
        for here in [place == each]
    ]  # fmt: skip


def slower(sides: Sides, factor: float) -> Sides:
    """Return the sides with the throughput of the second one times a factor."""
    weight, total = sides.sums["throughput"]
    planted = np.where(sides.side[sides.session], total * factor, total)
    return replace(sides, sums={**sides.sums, "throughput": Sums(weight, planted)})
