"""How probable it is that chance alone makes what is seen."""

from __future__ import annotations

import numpy as np


def chance(many: int, of: int, by_chance: float) -> float:
    """Return Chernoff's bound: with no higher probability chance makes so many of so many.

    Parameters
    ----------
    many, of : int
        What was seen, and how often it could have been.
    by_chance : float
        The probability of each.
    """
    part = many / of if of else 0.0
    if part <= by_chance:
        return 1.0
    if not by_chance:
        return 0.0
    other = (1 - part) * np.log((1 - part) / (1 - by_chance)) if part < 1 else 0.0
    return float(np.exp(-of * (part * np.log(part / by_chance) + other)))
