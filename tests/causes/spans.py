"""Sets of time spans, and values that hold until the next: what truths are made of.

Spans are int64 arrays of shape (n, 2), begin and end in ns, sorted and disjoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from multitracer.tables import Mask, Times

    Spans = NDArray[np.int64]

NONE = np.zeros((0, 2), np.int64)


def spans(pairs: Iterable[tuple[int, int]] | Spans, *, bridge_ns: int = 0) -> Spans:
    """Return the union of spans in any order; gaps of at most `bridge_ns` are closed."""
    given = np.asarray(list(pairs), np.int64).reshape(-1, 2)
    given = given[given[:, 1] > given[:, 0]]
    if not len(given):
        return NONE
    given = given[np.argsort(given[:, 0], kind="stable")]
    reach = np.maximum.accumulate(given[:, 1])
    opens = np.concatenate(([True], given[1:, 0] > reach[:-1] + bridge_ns))
    first = np.flatnonzero(opens)
    last = np.append(first[1:] - 1, len(given) - 1)
    return np.column_stack((given[first, 0], reach[last]))


def inside(of: Spans, times: Times) -> Mask:
    """Return which instants lie in a span; its end does not."""
    if not len(of):
        return np.zeros(len(times), bool)
    index = np.searchsorted(of[:, 0], times, "right") - 1
    found: Mask = (index >= 0) & (times < of[index, 1])
    return found


def longer(of: Spans, min_ns: float) -> Spans:
    """Return the spans that last at least so long."""
    return of[of[:, 1] - of[:, 0] >= min_ns]


def overlap_ns(of: Spans, begin_ns: int, end_ns: int) -> int:
    """Return how much of an interval the spans cover."""
    clipped = np.clip(of, begin_ns, end_ns)
    return int((clipped[:, 1] - clipped[:, 0]).sum())


@dataclass(frozen=True)
class Steps:
    """A value that changes at some instants; `start` holds before the first."""

    times: Times
    values: Times
    start: int = 0

    def at(self, times: Times) -> Times:
        """Return the values that hold at some instants."""
        index = np.searchsorted(self.times, times, "right")
        return np.concatenate(([self.start], self.values))[index]

    def before(self, times: Times) -> Times:
        """Return the values just before some instants."""
        index = np.searchsorted(self.times, times, "left")
        return np.concatenate(([self.start], self.values))[index]

    def first_ns(self, minimum: int) -> int | None:
        """Return when a value that only grows first reached `minimum`."""
        if minimum <= self.start:
            return None if not len(self.times) else int(self.times[0])
        index = int(np.searchsorted(self.values, minimum, "left"))
        return int(self.times[index]) if index < len(self.times) else None

    @classmethod
    def growing(cls, times: Times, values: Times, start: int = 0) -> Steps:
        """Return the largest value so far."""
        order = np.argsort(times, kind="stable")
        return cls(times[order], np.maximum.accumulate(values[order]), start)
