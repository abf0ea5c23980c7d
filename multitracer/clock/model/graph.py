"""The graph of clocks: nodes are clocks, edges relations; the path with the least uncertainty maps a stamp.

Errors of relations are independent, so their squares add along a path. Which path is the least uncertain may
depend on when: what is to be mapped decides (a relation is exact where its evidence lies).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.relation import Clock, Placement, Relation, Status
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.tables import Array


Path = tuple[Relation, ...]

_MOST_ENDS = 32  # bounds the time: of many intervals the first show whether a path holds
_FOR_EVER_NS = 1 << 59
"""18 years: relations that always hold (one kernel) say that they last longer."""


@dataclass(slots=True)
class ClockGraph:
    """Clocks and how they relate.

    Attributes
    ----------
    relations : list of Relation
        In any direction.
    refused : list of str
        Why relations that were looked for could not be found, a sentence each.
    """

    relations: list[Relation] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def clocks(self) -> list[Clock]:
        """Every clock that a relation names, in order of its first relation."""
        both = (clock for relation in self.relations for clock in (relation.source, relation.target))
        return list(dict.fromkeys(both))

    def from_clock(self, clock: Clock) -> Iterator[Relation]:
        """Yield the relations of a clock, each as seen from it."""
        for relation in self.relations:
            if relation.source == clock:
                yield relation
            elif relation.target == clock:
                yield relation.inverse()

    def path(self, source: Clock, target: Clock, *, at_ns: Iterable[int] = ()) -> Path:
        """Return the relations that lead from one clock to another with the least uncertainty.

        Parameters
        ----------
        source, target : Clock
        at_ns : iterable of int
            Stamps of `source` that are to be mapped, or their ends; by default where its evidence lies.

        Raises
        ------
        ClockError
            If nothing connects the two.
        """
        if source == target:
            return ()
        stamps = np.array(list(at_ns) or self._when(source), dtype=np.int64)
        waiting: list[tuple[float, int, Clock, Array, Path]] = [(0.0, 0, source, stamps, ())]
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
                if relation.target not in done and bool((placed.status != Status.UNPLACED).all()):
                    tie += 1
                    more = float(np.sum(placed.bound_ns**2))
                    step = (cost + more, tie, relation.target, placed.time_ns, (*path, relation))
                    heapq.heappush(waiting, step)
        raise ClockError(self.why_apart(source, target))

    def _when(self, clock: Clock) -> list[int]:
        """Return the time of the evidence for a clock; a relation that always holds has none."""
        every = [estimate for relation in self.from_clock(clock) for estimate in relation.estimates]
        brief = [estimate for estimate in every if estimate.last_ns - estimate.first_ns < _FOR_EVER_NS]
        return [ns for e in (brief or every)[:_MOST_ENDS] for ns in (e.first_ns, e.last_ns)]

    def why_apart(self, source: Clock, target: Clock) -> str:
        """Return why one clock cannot be mapped onto another, and what would help."""
        own = [sentence for sentence in self.refused if source.host in sentence or target.host in sentence]
        because = "; ".join(own or self.refused) or "nothing in this recording was stamped by both"
        if "not determinable" in because:
            return f"{source} and {target}: {because}"
        return (
            f"{source} and {target}: not determinable, because {because}; what would help: captures of the "
            "same packets at both hosts, or clocks.jsonl with readings of both clocks"
        )

    def place(self, stamps: Array, source: Clock, target: Clock, *, with_bounds: bool = True) -> Placement:
        """Return stamps of a clock on another; where that is impossible they are marked, with the reason.

        Parameters
        ----------
        stamps : ndarray of int64, ns since 1970, shape (n,)
            In the order of their records; NOT_A_TIME stays unplaced.
        source, target : Clock
        with_bounds : bool
            Whether the errors are needed, which take most of the time; otherwise they are NaN.
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
    """Return the one or two stamps that have the median of all; all of them if they are not in order."""
    if not (stamps[1:] >= stamps[:-1]).all():
        return stamps
    return stamps[(len(stamps) - 1) // 2 : len(stamps) // 2 + 1]


def along(path: Path, stamps: Array, *, with_bounds: bool = True) -> Placement:
    """Return stamps of the first clock of a path on its last one, errors added as squares.

    Parameters
    ----------
    path : Path
    stamps : ndarray of int64, ns, shape (n,)
        NOT_A_TIME where missing: such a stamp is UNPLACED.
    with_bounds : bool
        Whether the errors are needed; otherwise they are NaN.
    """
    time_ns = np.asarray(stamps, dtype=np.int64)
    squares = np.where(time_ns == NOT_A_TIME, np.nan, 0.0) if with_bounds else None
    status = np.full(len(time_ns), Status.PLACED, dtype=np.uint8)
    status[time_ns == NOT_A_TIME] = Status.UNPLACED
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
