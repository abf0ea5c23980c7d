"""From CLOCK_MONOTONIC to wall-clock time, by a collector's readings of both at the same time.

On Linux the two differ by an offset that changes only when the wall clock is set; slewing moves both. Between
two pairs the offset is interpolated, and its error is bounded by their brackets and by how much it moved.
Where it moved faster than a clock is slewed, the clock was set: the offset stays as it was until the second
pair, which collectors write as soon as they are told, so that nothing is spread over the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Times


LATEST_NS = 1 << 62
"""Year 2116: a time stamp beyond it is damage, and may not overflow a sum."""
_FASTEST_SLEW = 0.1
"""Of the time that passes: chrony slews by 8.3 % at most (`maxslewrate`), adjtimex by its `tick` of 10 %."""


@dataclass(slots=True)
class ClockPairs:
    """Pairs of readings, in the order of their log."""

    _middles: list[int] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)
    _errors: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._middles)

    def add(self, record: Mapping[str, object]) -> bool:
        """Take a clock record of a collector; return whether it is valid."""
        keys = ("monotonic_before_ns", "realtime_ns", "monotonic_after_ns")
        before, realtime, after = (record.get(key) for key in keys)
        if not (is_time(before) and is_time(realtime) and is_time(after)) or before > after:
            return False
        if self._middles and before < self._middles[-1]:
            return False
        middle = (before + after) // 2
        self._middles.append(middle)
        self._offsets.append(realtime - middle)
        self._errors.append(after - middle)
        return True

    def place(self, monotonic_ns: Times) -> Times:
        """Return the wall-clock times of instants: int64, ns, same shape; unchanged without a pair."""
        if not self._middles:
            return monotonic_ns
        base = self._offsets[0]
        at, offsets = self._knots()
        moved = [offset - base for offset in offsets]
        return monotonic_ns + base + np.rint(np.interp(monotonic_ns, at, moved)).astype(np.int64)

    def _knots(self) -> tuple[list[int], list[int]]:
        """Return the pairs, with one more just before each that follows a step of the wall clock."""
        at: list[int] = []
        offsets: list[int] = []
        before = 0
        for middle, offset, error in zip(self._middles, self._offsets, self._errors, strict=True):
            if at and abs(offset - offsets[-1]) > _FASTEST_SLEW * (middle - at[-1]) + error + before:
                at.append(max(at[-1], middle - 1))
                offsets.append(offsets[-1])
            at.append(middle)
            offsets.append(offset)
            before = error
        return at, offsets

    def facts(self) -> dict[str, object]:
        """Return remarks on the mapping for the provenance."""
        if not self._middles:
            return {"from": "monotonic", "to": None, "pairs": 0}
        moves = [abs(b - a) for a, b in zip(self._offsets, self._offsets[1:], strict=False)]
        return {
            "from": "monotonic",
            "to": "realtime",
            "pairs": len(self._middles),
            "uncertainty_ns": max(self._errors) + max(moves, default=0),
        }


def is_time(value: object) -> TypeGuard[int]:
    """Return whether a value of a record is a possible time in nanoseconds."""
    return type(value) is int and 0 <= value < LATEST_NS
