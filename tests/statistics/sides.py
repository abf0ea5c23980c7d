"""How often `compare` finds a difference that is not there, and one that was planted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.comparison.sides import compare
from multitracer.campaign.compared_sides import quantities_of
from tests.statistics.drives import Network, drives, half, slower

if TYPE_CHECKING:
    from multitracer.analysis.comparison.sides import SideDifferences

WORLDS = {
    "6 and 6, no place known": Network(12),
    "6 and 6, 4 places": Network(12, places=4),
    "6 and 6, drives, no place in common": Network(12, places=1000, visited=4),
    "20 and 20, drives over 10 places": Network(40, places=10, visited=3),
    "100 and 100, no place known": Network(200),
    "100 and 100, 30 places": Network(200, places=30),
    "100 and 100, 2 sessions a place": Network(200, places=100),
    "100 and 100, drives over 30 places": Network(200, places=30, visited=6),
}
ALIKE = Network(200, of_places=0.0, spread=0.198, tail=0.0)
"""Sessions whose means have a coefficient of variation of 0.2: sqrt(exp(0.198 ** 2) - 1)."""
_SPLITS_A_WORLD = 10
"""Of the same sessions; drawing new ones takes longer than comparing them."""


class Alarms(NamedTuple):
    """Comparisons, those with any claim, and those whose interval of the throughput leaves out 0."""

    splits: int
    any_claim: int
    throughput: int


def false_alarms(network: Network, splits: int, *, draws: int | None = None) -> Alarms:
    """Compare random halves of sessions that nothing but chance tells apart."""
    counts = np.zeros(3, dtype=int)
    chance = np.random.default_rng([network.sessions, network.places, network.visited])
    for number in range(splits):
        if number % _SPLITS_A_WORLD == 0:
            sides = drives(network, chance)
        split = replace(sides, side=half(network.sessions, chance))
        result = compare(split, quantities_of(split), draws=draws, seed=number)
        counts += (1, any(each.is_shown for each in result.judged), _p_value(result) <= 0.05)
    return Alarms(*counts.tolist())


def power(factor: float, comparisons: int, *, draws: int | None = None) -> float:
    """Return how often a throughput that is `factor` times that of the first side is claimed to differ."""
    chance = np.random.default_rng(round(1000 * factor))
    shown = 0
    for number in range(comparisons):
        sides = slower(drives(ALIKE, chance), factor)
        shown += compare(sides, quantities_of(sides), draws=draws, seed=number).of("throughput").is_shown
    return shown / comparisons


def _p_value(result: SideDifferences) -> float:
    return result.of("throughput").difference.p_value
