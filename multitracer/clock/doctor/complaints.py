"""What the clock doctor hands over, and what it looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.capture import Capture
    from multitracer.tables import Array, Times


@dataclass(frozen=True, slots=True)
class Stamps:
    """The stamps of one log, in the order of its records."""

    name: str
    """The file or host, as the user knows it."""
    time_ns: Times
    capture: Capture | None = None
    """Where they come from, if that is a capture: its directions and ACKs tell more."""

    @classmethod
    def of_capture(cls, name: str, capture: Capture) -> Stamps:
        """Return the stamps of a capture's TCP segments."""
        return cls(name, capture.segments["time_ns"], capture)

    @property
    def known_ns(self) -> Array:
        """Those that are known: int64, ns since 1970, shape (n_known,), in the order of the records."""
        known: Array = self.time_ns[self.time_ns != NOT_A_TIME]
        return known


@dataclass(frozen=True, slots=True)
class Complaint:
    """A fault of a clock, with the repair that is proposed; the raw stamps stay as they are."""

    code: str
    """Stable name: tai, gps, gps-epoch, time-zone, day-month, year, no-overlap, no-service, rate,
    effect-first; whole-seconds, coarse-stamps, steps-back, saw-tooth, direction-clocks."""
    source: str
    """The log whose stamps are at fault."""
    sentence: str
    """What is wrong and how that is known."""
    repair: str
    """What is proposed, in words."""
    shift_ns: int | None = None
    """Add this to every stamp of the log that `concerns` chooses, where that is the repair."""
    proposed_ns: Times | None = None
    """The stamps after a repair that is no mere shift, in the order of the records."""
    concerns: Callable[[Array], Array] | None = None
    """From all stamps, in the order of the records, to a mask of those that are at fault; None: all are."""

    def repaired(self, time_ns: Array) -> Array:
        """Return stamps of the log after the proposed repair; those given are left alone.

        Parameters
        ----------
        time_ns : ndarray of int64
            All stamps of the log, in the order of its records.
        """
        if self.proposed_ns is not None:
            return self.proposed_ns.copy()
        right = time_ns == NOT_A_TIME
        if self.concerns is not None:
            right = right | ~self.concerns(time_ns)
        return np.where(right, time_ns, time_ns + np.int64(self.shift_ns or 0))
