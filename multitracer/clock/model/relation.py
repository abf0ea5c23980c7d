"""The relation of two clocks over a complete recording: estimates between steps, and their validity.

A clock that steps forwards leaves a gap between two estimates. A clock that steps backwards shows some times
twice; then only the order of the records determines which estimate a time belongs to.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.clock.model.estimate import PPM
from multitracer.errors import ClockError, InputError
from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from multitracer.clock.model.estimate import Estimate
    from multitracer.tables import Array, Times

DOMAINS = ("realtime", "monotonic", "boottime", "tracefs", "modem", "gps", "utc", "tsval")
"""The domains of a clock of a host; utc belongs to no host."""

WANDER_PPM = 1.0
"""Maximum change of a quartz's rate outside of the evidence, ppm: temperature changes it by some ppm (an assumption).
"""
_FARTHEST_NS = 1 << 61
"""Maximum distance of a time from the evidence, ns: 73 years. Larger distances would overflow, and come from damaged
data."""


class Clock(NamedTuple):
    """A clock: its host or file, and its domain."""

    host: str
    domain: str = "realtime"

    def __str__(self) -> str:
        return f"{self.host}:{self.domain}" if self.host else self.domain

    @classmethod
    def parse(cls, text: str) -> Clock:
        """Return the clock that a user gives as HOST or HOST:DOMAIN."""
        host, _, domain = text.rpartition(":")
        if domain in DOMAINS:
            return cls(host, domain)
        return cls(text)


class PlacementStatus(IntEnum):
    """How a time was converted; a higher value is worse."""

    PLACED = 0
    EXTRAPOLATED = 1
    """Before or after the evidence; the uncertainty grows with the distance."""
    AMBIGUOUS = 2
    """At a step of the clock whose time is uncertain; the uncertainty includes both possibilities."""
    UNPLACED = 3
    """Not converted; `Placement.reason` gives the reason."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Times converted to another clock; none is dropped.

    Parameters
    ----------
    time_ns : ndarray of int64
        NOT_A_TIME where a time cannot be converted.
    bound_ns : ndarray of float64
        Half-width of the 95 % interval of each; NaN where it cannot be converted.
    status : ndarray of uint8
        Values of `PlacementStatus`.
    reason : str
        Why some are not converted; "" if all are.
    """

    time_ns: Times
    bound_ns: NDArray[np.float64]
    status: NDArray[np.uint8]
    reason: str = ""

    @classmethod
    def nowhere(cls, length: int, reason: str) -> Placement:
        """Return a result for times of which none can be converted."""
        return cls(
            np.full(length, NOT_A_TIME, dtype=np.int64),
            np.full(length, np.nan),
            np.full(length, PlacementStatus.UNPLACED, dtype=np.uint8),
            reason,
        )


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation of two clocks by one method: an estimate for each interval between steps, by time."""

    source: Clock
    target: Clock
    estimates: tuple[Estimate, ...]

    def __post_init__(self) -> None:
        if not self.estimates:
            raise InputError(
                f"{self.source} and {self.target}: a relation of two clocks must have at least one estimate"
            )

    @property
    def method(self) -> str:
        """The method of the relation."""
        return self.estimates[0].method

    @property
    def evidence(self) -> int:
        """Number of observations."""
        return sum(estimate.evidence for estimate in self.estimates)

    def inverse(self) -> Relation:
        """Return the relation with source and target exchanged."""
        return Relation(self.target, self.source, tuple(e.inverse() for e in self.estimates))

    def steps_ns(self) -> list[int]:
        """Return by how much `target` stepped relative to `source` between each two estimates, ns."""
        steps = []
        for earlier, later in zip(self.estimates, self.estimates[1:], strict=False):
            middle = (earlier.last_ns + later.first_ns) // 2
            steps.append(int(later.at(middle)) - int(earlier.at(middle)))
        return steps

    def place(self, stamps: Array, *, with_bounds: bool = True) -> Placement:
        """Return times of `source`, in the order of their records, converted to the clock `target`.

        Parameters
        ----------
        stamps : ndarray of int64, ns since 1970, shape (n,)
            NOT_A_TIME, and times far outside of the evidence, are not converted.
        with_bounds : bool
            Whether to compute the uncertainties, which takes most of the time; otherwise they are NaN.
        """
        stamps = np.asarray(stamps, dtype=np.int64)
        known = stamps != NOT_A_TIME
        near = self._within_reach(stamps) & known
        if near.all() and len(near):
            return Placement(*self._placed(stamps, with_bounds=with_bounds), "")
        placed = Placement.nowhere(len(stamps), _reason(known, near))
        if near.any():
            time_ns, bound_ns, status = self._placed(stamps[near], with_bounds=with_bounds)
            placed.time_ns[near], placed.bound_ns[near], placed.status[near] = time_ns, bound_ns, status
        return placed

    def _within_reach(self, stamps: Array) -> Array:
        first, last = self.estimates[0].first_ns, self.estimates[-1].last_ns
        low, high = max(first - _FARTHEST_NS, NOT_A_TIME), min(last + _FARTHEST_NS, -(NOT_A_TIME + 1))
        return np.asarray((stamps >= low) & (stamps <= high))

    def _placed(self, stamps: Array, *, with_bounds: bool) -> tuple[Array, Array, Array]:
        index, doubtful = self._intervals(stamps)
        time_ns = np.empty(len(stamps), dtype=np.int64)
        bound_ns = np.empty(len(stamps)) if with_bounds else np.broadcast_to(np.nan, len(stamps))
        status = np.zeros(len(stamps), dtype=np.uint8)
        for i, estimate in enumerate(self.estimates):
            here = index == i if len(self.estimates) > 1 else slice(None)
            own = stamps[here]
            time_ns[here] = estimate.at(own)
            is_outside = (own < estimate.first_ns) | (own > estimate.last_ns)
            status[here] = np.where(
                is_outside, np.uint8(PlacementStatus.EXTRAPOLATED), np.uint8(PlacementStatus.PLACED)
            )
            if with_bounds:
                outside = np.maximum(np.maximum(estimate.first_ns - own, own - estimate.last_ns), 0)
                bound_ns[here] = estimate.bound_ns(own) + _wander(estimate) * outside
        for i, other in enumerate(doubtful):
            if with_bounds:
                one, following = self.estimates[i : i + 2]
                bound_ns[other] += np.abs(following.at(stamps[other]) - one.at(stamps[other]))
            status[other] = PlacementStatus.AMBIGUOUS
        return time_ns, bound_ns, status

    def intervals(self, stamps: Array) -> Array:
        """Return the index of the estimate that is valid for each time of `source`.

        Times must be in the order of their records, since a clock that stepped backwards shows a time twice.

        Parameters
        ----------
        stamps : ndarray of int64, ns since 1970, shape (n,)

        Returns
        -------
        ndarray of int64, shape (n,)
            Indices of `estimates`.
        """
        return self._intervals(np.asarray(stamps, dtype=np.int64))[0]

    def _intervals(self, stamps: Array) -> tuple[Array, list[Array]]:
        """Return the index of the valid estimate for each time, and for each step the uncertain times.

        A time is uncertain if it may lie before or after the step.
        """
        index = np.zeros(len(stamps), dtype=np.int64)
        doubtful = []
        for earlier, later in zip(self.estimates, self.estimates[1:], strict=False):
            after, caveat = _after_step(stamps, earlier.last_ns, later.first_ns)
            index += after
            doubtful.append(caveat)
        return index, doubtful


def _after_step(stamps: Array, last_ns: int, first_ns: int) -> tuple[Array, Array]:
    """Return two masks: times after a step, and times that may be on either side of it.

    The evidence before the step ends at `last_ns`; that after it begins at `first_ns`.
    """
    if first_ns > last_ns:
        after = stamps > last_ns + (first_ns - last_ns) // 2
        return after, (stamps > last_ns) & (stamps < first_ns)
    again = last_ns - first_ns
    back = np.flatnonzero(np.diff(stamps) < -max(again // 2, 1))
    back = back[(stamps[back] >= first_ns) & (stamps[back + 1] <= last_ns)]
    if len(back):
        at = back[np.argmin(np.diff(stamps)[back])]
        return np.arange(len(stamps)) > at, np.zeros(len(stamps), dtype=bool)
    return stamps > last_ns, (stamps >= first_ns) & (stamps <= last_ns)


def _wander(estimate: Estimate) -> float:
    """Return by how many ns the uncertainty grows for each ns outside of the evidence.

    It is 0 for an exact relation.
    """
    return 0.0 if estimate.uncertainty_ns == 0 and estimate.skew_uncertainty_ppm == 0 else WANDER_PPM * PPM


def _reason(known: Array, near: Array) -> str:
    reasons: list[str] = []
    if not known.all():
        reasons.append(f"{np.count_nonzero(~known):,} without a stamp")
    if np.any(known & ~near):
        reasons.append(f"{np.count_nonzero(known & ~near):,} stamped over 73 years away from all evidence")
    return "; ".join(reasons)


# The graph of clocks: nodes are clocks, edges relations; the path with the least uncertainty maps a stamp.
#
# Errors of relations are independent, so their squares add along a path. Which path is the least uncertain
# may depend on when: what is to be mapped decides (a relation is exact where its evidence lies).


ClockPath = tuple[Relation, ...]

_MOST_ENDS = 32  # bounds the time: of many intervals the first show whether a path holds
_FOR_EVER_NS = 1 << 59
"""Minimum duration of a relation that always holds (one kernel), ns: 18 years."""


@dataclass(slots=True)
class ClockGraph:
    """Clocks and their relations.

    Attributes
    ----------
    relations : list of Relation
        The relations, in any direction.
    refused : list of str
        A sentence for each relation that could not be determined.
    """

    relations: list[Relation] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def clocks(self) -> list[Clock]:
        """All clocks that have a relation, in the order of their first relation."""
        both = (clock for relation in self.relations for clock in (relation.source, relation.target))
        return list(dict.fromkeys(both))

    def from_clock(self, clock: Clock) -> Iterator[Relation]:
        """Yield the relations of a clock, each with this clock as its source."""
        for relation in self.relations:
            if relation.source == clock:
                yield relation
            elif relation.target == clock:
                yield relation.inverse()

    def path(self, source: Clock, target: Clock, *, at_ns: Iterable[int] = ()) -> ClockPath:
        """Return the path of relations from one clock to another with the smallest uncertainty.

        Parameters
        ----------
        source, target : Clock
        at_ns : iterable of int
            Times of `source` to be converted, or the first and last of them; by default the times of its evidence.

        Raises
        ------
        ClockError
            If nothing connects the two.
        """
        if source == target:
            return ()
        stamps = np.array(list(at_ns) or self._when(source), dtype=np.int64)
        waiting: list[tuple[float, int, Clock, Array, ClockPath]] = [(0.0, 0, source, stamps, ())]
        done: set[Clock] = set()
        tie = 0
        while waiting:
            cost, _, clock, here, path = heapq.heappop(waiting)
            if clock == target:
                return path
            if clock in done:
                continue
            done.add(clock)
            for relation in self.from_clock(clock):
                placed = relation.place(here)
                if relation.target not in done and bool((placed.status != PlacementStatus.UNPLACED).all()):
                    tie += 1
                    more = float(np.sum(placed.bound_ns**2))
                    step = (cost + more, tie, relation.target, placed.time_ns, (*path, relation))
                    heapq.heappush(waiting, step)
        raise ClockError(self.why_apart(source, target))

    def _when(self, clock: Clock) -> list[int]:
        """Return the first and last times of the evidence for a clock, ns.

        A relation that always holds has no such times.
        """
        every = [estimate for relation in self.from_clock(clock) for estimate in relation.estimates]
        brief = [estimate for estimate in every if estimate.last_ns - estimate.first_ns < _FOR_EVER_NS]
        return [ns for e in (brief or every)[:_MOST_ENDS] for ns in (e.first_ns, e.last_ns)]

    def why_apart(self, source: Clock, target: Clock) -> str:
        """Return a text: why times of one clock cannot be converted to the other, and what would help."""
        own = [sentence for sentence in self.refused if source.host in sentence or target.host in sentence]
        because = "; ".join(own or self.refused) or "nothing in this recording was stamped by both"
        if "cannot determine" in because:
            return f"{source} and {target}: {because}"
        return (
            f"{source} and {target}: cannot determine the clock offset, because {because}; "
            "what would help: captures of the same packets at both hosts, or "
            "clocks.jsonl with readings of both clocks"
        )

    def place(self, stamps: Array, source: Clock, target: Clock, *, with_bounds: bool = True) -> Placement:
        """Return times converted from one clock to another; a time that cannot be converted has a reason.

        Parameters
        ----------
        stamps : ndarray of int64, ns since 1970, shape (n,)
            In the order of their records; NOT_A_TIME is not converted.
        source, target : Clock
        with_bounds : bool
            Whether to compute the uncertainties, which takes most of the time; otherwise they are NaN.
        """
        stamps = np.asarray(stamps, dtype=np.int64)
        is_known = stamps != NOT_A_TIME
        known = stamps if is_known.all() else stamps[is_known]
        ends = (int(known.min()), int(np.median(_middle(known))), int(known.max())) if len(known) else ()
        try:
            path = self.path(source, target, at_ns=ends)
        except ClockError as error:
            return Placement.nowhere(len(stamps), str(error))
        return along(path, stamps, with_bounds=with_bounds)


def _middle(stamps: Array) -> Array:
    """Return the one or two times in the middle of sorted times; all times if they are not sorted."""
    if not (stamps[1:] >= stamps[:-1]).all():
        return stamps
    return stamps[(len(stamps) - 1) // 2 : len(stamps) // 2 + 1]


def along(path: ClockPath, stamps: Array, *, with_bounds: bool = True) -> Placement:
    """Return times of the first clock of a path, converted to its last clock.

    The uncertainties of the relations are added as squares.

    Parameters
    ----------
    path : ClockPath
    stamps : ndarray of int64, ns, shape (n,)
        NOT_A_TIME where missing; the status of such a time is UNPLACED.
    with_bounds : bool
        Whether to compute the uncertainties; otherwise they are NaN.
    """
    time_ns = np.asarray(stamps, dtype=np.int64)
    squares = np.where(time_ns == NOT_A_TIME, np.nan, 0.0) if with_bounds else None
    status = np.full(len(time_ns), PlacementStatus.PLACED, dtype=np.uint8)
    status[time_ns == NOT_A_TIME] = PlacementStatus.UNPLACED
    reasons = []
    for relation in path:
        placed = relation.place(time_ns, with_bounds=with_bounds)
        time_ns = placed.time_ns
        if squares is not None:
            squares += placed.bound_ns**2
        np.maximum(status, placed.status, out=status)
        reasons.append(placed.reason)
    bound_ns = np.broadcast_to(np.nan, len(time_ns)) if squares is None else np.sqrt(squares)
    return Placement(time_ns, bound_ns, status, "; ".join(filter(None, dict.fromkeys(reasons))))
