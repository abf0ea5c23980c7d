"""The relation of two clocks during one interval: offset, skew, uncertainty, and evidence.

The model is a straight line, ``to = from + offset + skew * (from - first)``. Nanoseconds since 1970 do not
fit into a float64 (its resolution is 256 ns today). So times are int64 throughout, and only differences from
`first_ns` are floats: exact to 1 ns over some months.

The uncertainty is that of a straight line with normal errors. It is smallest at `pivot_ns`, where the errors
of offset and skew are independent, and grows with the skew's uncertainty on both sides::

    bound(t)^2 = at_pivot^2 + (skew_uncertainty * (t - pivot))^2

`uncertainty_ns` is given at `first_ns`, because `offset_ns` is the offset there. An estimator that knows the
uncertainty at its pivot (usually the middle of its evidence) creates its estimate with `Estimate.around`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from multitracer.errors import ClockError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.tables import Array, Times

    Stamps = Times

PPM = 1e-6  # parts per million
MOST_SKEW_PPM = 500.0
"""Maximum skew of a clock, ppm (RFC 5905: MAXFREQ, 500 ppm)."""


class EventDirection(IntEnum):
    """Which of two clocks saw an event first."""

    BACKWARD = -1
    """`to` saw it first: a packet from `to` to `from`."""
    TOGETHER = 0
    """Both saw it at once, for example a bracketed reading."""
    FORWARD = 1
    """`from` saw it first: a packet from `from` to `to`."""


@dataclass(frozen=True, slots=True)
class ClockEvidence:
    """Events with times by both clocks: the observations behind an estimate, also drawn in its figure.

    Parameters
    ----------
    from_ns, to_ns : ndarray of int64, ns
        The times of each event by the two clocks.
    direction : ndarray of int8
        The `EventDirection` of each event. FORWARD: the event reached `from` first, so ``to - from`` is at
        least the offset; BACKWARD: at most the offset; TOGETHER: both at once.
    corrected_ns : ndarray of int64, ns, optional
        ``to - from`` minus the known part of the delay (serialization time); by default ``to - from``.
    """

    from_ns: Stamps
    to_ns: Stamps
    direction: NDArray[np.int8]
    corrected_ns: Stamps | None = None

    @property
    def difference_ns(self) -> Stamps:
        """``to - from`` of each event in ns, without the known part of the delay."""
        return self.to_ns - self.from_ns if self.corrected_ns is None else self.corrected_ns

    def __len__(self) -> int:
        return len(self.from_ns)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The relation of two clocks between two steps: ``to = from + offset + skew * (from - first)``.

    Parameters
    ----------
    first_ns, last_ns : int
        The first and last time of the evidence by the clock `from`, both included.
    offset_ns : int
        ``to - from`` at `first_ns`, nanoseconds; positive where `to` is ahead.
    skew_ppm : float
        Skew: how much faster `to` runs than `from`, parts per million.
    uncertainty_ns : float
        Half-width of the 95 % interval of the offset **at** `first_ns`.
    skew_uncertainty_ppm : float
        Half-width of the 95 % interval of the skew.
    method : str
        The method, in a few words: "two captures: lower envelope".
    evidence : int
        Number of independent observations (matched packets, snapshots, stalls).
    pivot_ns : int, optional
        The time by `from` at which the errors of offset and skew are independent; by default `first_ns`.
    lower_ns, upper_ns : int, optional
        Causality bounds: the offset at `first_ns` is certainly between them, even if the delays of the two
        directions differ.
    to_first_ns, to_last_ns : int, optional
        The same interval by the clock `to`, if it is known better than from the line: near a step, the side
        of a time must not depend on the offset.
    crossed_ns : int
        Maximum time by which packets arrive before they are sent on the best line, since a clock stopped or
        an undetected step exists; 0 if none does.
    notes : tuple of str
        Caveats: "the path's asymmetry is not observable", "2 packets left out".
    points : ClockEvidence, optional
        The observations, for figures.
    """

    first_ns: int
    last_ns: int
    offset_ns: int
    skew_ppm: float
    uncertainty_ns: float
    skew_uncertainty_ppm: float
    method: str
    evidence: int
    pivot_ns: int | None = None
    lower_ns: int | None = None
    upper_ns: int | None = None
    to_first_ns: int | None = None
    to_last_ns: int | None = None
    crossed_ns: int = 0
    notes: tuple[str, ...] = ()
    points: ClockEvidence | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = (self.skew_ppm, self.uncertainty_ns, self.skew_uncertainty_ppm)
        if not all(map(math.isfinite, numbers)) or min(numbers[1:]) < 0 or self.last_ns < self.first_ns:
            raise ClockError(
                f"{self.method}: cannot determine the clock offset, because the fit has no finite solution: {self}"
            )
        if self.skew_ppm * PPM <= -1:
            raise ClockError(
                f"{self.method}: cannot determine the clock offset, because one clock would stop or run backwards"
            )

    @classmethod
    def around(cls, pivot_ns: int, at_pivot_ns: float, **fields: Any) -> Estimate:
        """Return an estimate whose uncertainty is given at the pivot, not at `first_ns`.

        Parameters
        ----------
        pivot_ns : int
            The time by `from` at which the errors of offset and skew are independent.
        at_pivot_ns : float
            Half-width of the 95 % interval of the offset there.
        **fields
            All other fields of an estimate except `uncertainty_ns`; `offset_ns` is the offset at `first_ns`.
        """
        tilt = fields["skew_uncertainty_ppm"] * PPM * (fields["first_ns"] - pivot_ns)
        return cls(pivot_ns=pivot_ns, uncertainty_ns=math.hypot(at_pivot_ns, tilt), **fields)

    @property
    def pivot(self) -> int:
        """`pivot_ns`, or `first_ns` if that is None."""
        return self.first_ns if self.pivot_ns is None else self.pivot_ns

    @property
    def at_pivot_ns(self) -> float:
        """Half-width of the 95 % interval of the offset at the pivot, where it is smallest, ns."""
        tilt = self.skew_uncertainty_ppm * PPM * (self.first_ns - self.pivot)
        return math.sqrt(max(0.0, self.uncertainty_ns**2 - tilt**2))

    @overload
    def at(self, from_ns: int | np.int64) -> np.int64: ...
    @overload
    def at(self, from_ns: Array) -> Array: ...
    def at(self, from_ns: Array | int | np.int64) -> Array | np.int64:
        """Return times by `to` (int64, ns) for times by `from`, by the line also outside of the interval."""
        stamps = np.asarray(from_ns, dtype=np.int64)
        drift: Array = self.skew_ppm * PPM * (stamps - self.first_ns)
        moved = np.rint(drift, out=drift if drift.ndim else None).astype(np.int64)
        moved += stamps  # in place: tables have millions of them
        moved += self.offset_ns
        return moved

    @overload
    def offset_at(self, from_ns: int | np.int64) -> np.int64: ...
    @overload
    def offset_at(self, from_ns: Array) -> Array: ...
    def offset_at(self, from_ns: Array | int | np.int64) -> Array | np.int64:
        """Return ``to - from`` (int64, ns) at times by `from`."""
        return self.at(from_ns) - np.asarray(from_ns, dtype=np.int64)

    @overload
    def bound_ns(self, from_ns: int | np.int64) -> np.float64: ...
    @overload
    def bound_ns(self, from_ns: Array) -> Array: ...
    def bound_ns(self, from_ns: Array | int | np.int64) -> Array | np.float64:
        """Return the half-width (float64, ns) of the 95 % interval of the offset at times by `from`."""
        away = (np.asarray(from_ns, dtype=np.int64) - self.pivot).astype(np.float64)
        return np.hypot(self.at_pivot_ns, self.skew_uncertainty_ppm * PPM * away)

    @overload
    def covers(self, from_ns: int | np.int64) -> np.bool_: ...
    @overload
    def covers(self, from_ns: Array) -> Array: ...
    def covers(self, from_ns: Array | int | np.int64) -> Array | np.bool_:
        """Return whether times by `from` are in the interval."""
        stamps = np.asarray(from_ns, dtype=np.int64)
        return (stamps >= self.first_ns) & (stamps <= self.last_ns)

    def from_stamp(self, first_ns: int) -> Estimate:
        """Return the same line, described from another first time `first_ns` on.

        Offset and uncertainty are those at this time.
        """
        moved = int(self.offset_at(first_ns)) - self.offset_ns
        wider = self._drift_ns(abs(first_ns - self.first_ns))
        return replace(
            self,
            first_ns=first_ns,
            last_ns=max(self.last_ns, first_ns),
            offset_ns=self.offset_ns + moved,
            uncertainty_ns=float(self.bound_ns(first_ns)),
            pivot_ns=self.pivot,
            lower_ns=None if self.lower_ns is None else self.lower_ns + moved - wider,
            upper_ns=None if self.upper_ns is None else self.upper_ns + moved + wider,
        )

    def _drift_ns(self, elapsed_ns: int) -> int:
        """Return how far clocks may drift from the line within a time, ns; it widens the causality bounds."""
        exact = self.uncertainty_ns == 0 and self.skew_uncertainty_ppm == 0
        return 0 if exact else round((MOST_SKEW_PPM + abs(self.skew_ppm)) * PPM * elapsed_ns)

    def inverse(self) -> Estimate:
        """Return the relation from `to` to `from`; a conversion and its inverse agree to 1 ns."""
        slope = 1 + self.skew_ppm * PPM
        one_sided = self.lower_ns is None or self.upper_ns is None
        wider = 0 if one_sided else self._drift_ns((self.upper_ns or 0) - (self.lower_ns or 0))
        points = self.points
        turned = replace(
            self,
            first_ns=int(self.at(self.first_ns)),
            last_ns=int(self.at(self.last_ns)),
            to_first_ns=None,
            to_last_ns=None,
            offset_ns=-self.offset_ns,
            skew_ppm=-self.skew_ppm / slope,
            uncertainty_ns=self.uncertainty_ns / slope,
            skew_uncertainty_ppm=self.skew_uncertainty_ppm / slope**2,
            pivot_ns=int(self.at(self.pivot)),
            lower_ns=None if self.upper_ns is None else -self.upper_ns - wider,
            upper_ns=None if self.lower_ns is None else -self.lower_ns + wider,
            points=None if points is None else _inverse(points),
        )
        if self.to_first_ns is None or self.to_last_ns is None:
            return turned
        there = turned.from_stamp(self.to_first_ns)
        return replace(there, last_ns=self.to_last_ns, to_first_ns=self.first_ns, to_last_ns=self.last_ns)


def _inverse(points: ClockEvidence) -> ClockEvidence:
    corrected = None if points.corrected_ns is None else -points.corrected_ns
    return ClockEvidence(points.to_ns, points.from_ns, -points.direction, corrected)
