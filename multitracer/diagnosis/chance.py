"""The probability that chance alone explains an observation."""

from __future__ import annotations

import numpy as np


def chance(many: int, of: int, by_chance: float) -> float:
    """Return Chernoff's upper bound of the probability that chance causes `many` events in `of` trials.

    Parameters
    ----------
    many, of : int
        Number of events, and number of trials.
    by_chance : float
        The probability of the event in each trial.
    """
    part = many / of if of else 0.0
    if part <= by_chance:
        return 1.0
    if not by_chance:
        return 0.0
    other = (1 - part) * np.log((1 - part) / (1 - by_chance)) if part < 1 else 0.0
    return float(np.exp(-of * (part * np.log(part / by_chance) + other)))
