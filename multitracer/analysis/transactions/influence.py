"""How much the RTT went with what the radio was like: rank correlations within the sizes of an arm.

Spearman's: it asks only whether the longer ones are those with the higher value, so that one peak of a minute
does not decide. Ranks are taken within each size, for between sizes the RTT differs anyway. A dropped
transaction is the longest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from multitracer.analysis.transactions.arms import Arm
    from multitracer.tables import Array

RADIO = ("rssi_dbm", "bler_percent", "cell_busy_percent")
_FEWEST = 10
"""Of one size with the value known; of fewer, ranks say nothing."""


class Influence(NamedTuple):
    """A rank correlation and how many transactions it rests on."""

    correlation: float
    """-1 to 1; NaN where too little is known, or where the value never changed."""
    transactions: int


def influence(arm: Arm, name: str) -> Influence:
    """Return how the RTT of an arm goes with a column of the radio."""
    ranks: list[tuple[Array, Array]] = []
    for size in arm.sizes:
        table = arm.at(size)
        known = np.isfinite(table[name])
        if np.count_nonzero(known) >= _FEWEST:
            ranks.append((_ranks(arm.rtt_s(table)[known]), _ranks(table[name][known])))
    if not ranks:
        return Influence(float("nan"), 0)
    rtt, value = (np.concatenate(column) for column in zip(*ranks, strict=True))
    if not rtt.any() or not value.any():
        return Influence(float("nan"), len(rtt))
    both = np.sqrt(np.sum(rtt**2) * np.sum(value**2))
    return Influence(float(np.sum(rtt * value) / both), len(rtt))


def _ranks(values: Array) -> Array:
    """Return ranks around 0, between -0.5 and 0.5 however many there are; equals share their mean."""
    ordered = np.sort(values)
    middle = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1) / 2
    ranks: Array = (middle - (len(values) - 1) / 2) / len(values)
    return ranks
