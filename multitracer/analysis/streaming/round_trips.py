"""Round-trip times of a direction that runs for long: how often each value was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array

MOST_VALUES = 4096
"""Distinct values that are kept as they are: 64 kB. Not measured."""
_BITS = 10
"""Of more values so many binary digits stay: an error of at most 1 in 2,048."""


def _nothing() -> Array:
    return np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class RoundTripCounts:
    """Distinct values, ascending, and how often each came; a few thousand at most, whatever was added."""

    value: Array = field(default_factory=_nothing)
    """Int64, ns."""
    count: Array = field(default_factory=_nothing)
    """Int64."""
    sum_ns: int = 0
    least_ns: int = 0
    most_ns: int = 0
    is_rounded: bool = False
    """Whether there were too many values to keep each as it is."""

    def __len__(self) -> int:
        return int(self.count.sum())

    def add(self, rtt_ns: Array) -> None:
        """Add measured values: int64, ns, 0 and more, shape (n,)."""
        if not len(rtt_ns):
            return
        least, most = int(rtt_ns.min()), int(rtt_ns.max())
        self.least_ns = min(self.least_ns, least) if len(self.value) else least
        self.most_ns = max(self.most_ns, most)
        self.sum_ns += int(rtt_ns.sum())
        self._merge(rtt_ns, np.ones(len(rtt_ns), dtype=np.int64))
        if len(self.value) > MOST_VALUES:
            self.is_rounded = True
            self._merge(_nothing(), _nothing())

    def _merge(self, value: Array, count: Array) -> None:
        value, count = np.concatenate([self.value, value]), np.concatenate([self.count, count])
        self.value, place = np.unique(_rounded(value) if self.is_rounded else value, return_inverse=True)
        self.count = np.bincount(place, weights=count, minlength=len(self.value)).astype(np.int64)

    def quantile(self, share: float) -> float:
        """Return a quantile in ns, linear between the nearest ranks; there is at least one value."""
        place = (len(self) - 1) * share
        low = int(place)
        ranks = np.array([low, min(low + 1, len(self) - 1)])
        one, other = self.value[np.searchsorted(np.cumsum(self.count), ranks, side="right")].tolist()
        return float(one + (other - one) * (place - low))


def _rounded(value: Array) -> Array:
    """Return values to so many binary digits: int64, ns, shape of `value`."""
    shift = np.maximum(np.frexp(value.astype(np.float64))[1] - _BITS, 0)
    half = (np.int64(1) << shift) >> 1
    rounded: Array = (value + half) >> shift << shift
    return rounded
