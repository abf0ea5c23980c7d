"""What one limit held of a transfer, for the findings that tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.names import Limit, Part
    from multitracer.tables import Array

WORTH = 0.1
"""Share of T from which on a limit is a finding, as in the sentence at the top."""
_LEAST_S = 0.05
"""Nobody notices less."""


class Held(NamedTuple):
    """The time that a limit, or one part of it, held."""

    begin_ns: int
    end_ns: int
    seconds: float
    share: float
    lengths_s: Array
    """Of each stretch."""
    rows: tuple[int, ...]
    """Rows of `sender` at the begin of the longest stretches."""

    @property
    def numbers(self) -> dict[str, float]:
        """Number, median and largest of the stretches, and the share of T."""
        return {
            "stretches": len(self.lengths_s),
            "median_s": float(np.median(self.lengths_s)),
            "largest_s": float(self.lengths_s.max()),
            "share": self.share,
        }


_MOST_ROWS = 4


def held(found: Limited, limit: Limit, part: Part | None = None, *, least: float = WORTH) -> Held | None:
    """Return what a limit held; None if that was less than a `least` share of T, or not noticeable."""
    cells = found.cells
    mine = cells.limit == limit
    if part is not None:
        mine &= cells.part == part
    seconds = found.seconds[mine]
    total = float(seconds.sum())
    if total < _LEAST_S or total < least * found.total_s:
        return None
    begin, end = _stretches(cells.begin[mine], cells.end[mine])
    lengths = (end - begin) * found.transfer.speed / NS_PER_S
    longest = np.sort(begin[np.argsort(-lengths, kind="stable")[:_MOST_ROWS]])
    time = np.maximum.accumulate(found.transfer.sender["time_ns"])
    rows = np.minimum(np.searchsorted(time, longest), len(time) - 1)
    return Held(int(begin[0]), int(end[-1]), total, total / found.total_s, lengths, tuple(rows.tolist()))


def _stretches(begin: Array, end: Array) -> tuple[Array, Array]:
    """Return neighbours that touch as one."""
    opens = np.concatenate([[True], begin[1:] > end[:-1]])
    return begin[opens], end[np.concatenate([opens[1:], [True]])]
