"""Some connections of which the segments are to go: what is counted of them now, and what stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.connections import Partition, bounds_of
from multitracer.analysis.group import groups, has
from multitracer.analysis.segments.directions import blank
from multitracer.analysis.segments.examination import examine
from multitracer.analysis.streaming.folded import Count, count
from multitracer.analysis.streaming.history import History
from multitracer.analysis.trust.clock_steps import steps_of
from multitracer.analysis.trust.stamp_rate import LEAST_SEGMENTS
from multitracer.capture import Capture
from multitracer.captured import Mark, SourceFile
from multitracer.tables import Table
from multitracer.tcp import DIRECTIONS

if TYPE_CHECKING:
    from multitracer.analysis.streaming.limits import Limits
    from multitracer.tables import Array


@dataclass
class Folding:
    """The segments of these connections, their partition, and which are fresh."""

    capture: Capture
    parts: Partition
    rows: Array
    """Bool, of all segments of the capture that they are a part of: which they are."""
    fresh: Array
    chosen: Array
    """Which connections of that capture they are."""
    numbers: Array
    closed: Array
    limits: Limits
    _context: Array = field(init=False)

    def __post_init__(self) -> None:
        self.capture = _with_untimed(self.capture)
        self._context = np.zeros(len(self.capture.segments), dtype=bool)

    @cached_property
    def now(self) -> Count:
        """What all of the segments tell."""
        return count(self.capture, self.parts, self.fresh)

    @cached_property
    def before(self) -> Count:
        """What was counted before."""
        old, parts = self._rows_alone(~self.fresh)
        return count(old, parts, np.zeros(len(old.segments), dtype=bool))

    @property
    def context(self) -> Array:
        """Which segments of the whole capture stay as they are; bool, of all its rows."""
        stay = np.zeros(len(self.rows), dtype=bool)
        stay[np.flatnonzero(self.rows)[self._context]] = True
        return stay

    def pasts(self, leaving: Array) -> tuple[Capture, Array]:
        """Return what stands for the past of those that stay, with their numbers; note what stays as it is.

        Parameters
        ----------
        leaving : ndarray of int64, shape (n,)
            Which of these connections leave; of them nothing stays.
        """
        past = np.zeros(len(self.capture.segments), dtype=bool)
        stays = np.ones(self.parts.connections, dtype=bool)
        stays[leaving] = False
        for connection in np.flatnonzero(stays).tolist():
            rows = self.parts.rows_of(connection)
            begin = np.searchsorted(rows, self._first_needed(connection, rows))
            past[rows[:begin]] = True
            self._context[rows[begin:]] = True
        history = History()
        old, parts = self._rows_alone(past)
        for group in groups(old, parts):
            examination = examine(group, old)
            first = group.first_direction >> 1
            for c in range(group.directions >> 1):
                if group.bounds[2 * c] < group.bounds[2 * c + 2]:
                    history.add(examination, c, old, int(self.numbers[first + c]))
        return history.capture(old), np.array(history.number, dtype=np.int64)

    def _first_needed(self, connection: int, rows: Array) -> int:
        """Return the first of a connection's rows that has to stay."""
        latest = self.limits.closed_rows // 2 if self.closed[connection] else self.limits.context_rows
        awaited = int(self.now.awaited[2 * connection : 2 * connection + 2].min())
        needed = min(awaited, int(rows[-min(latest, len(rows))]))
        return max(needed, int(rows[-min(self.limits.most_context_rows, len(rows))]))

    def steps(self, from_rows: int) -> list[list[int]]:
        """Return the steps of the clock in the fresh segments of each connection that has so many of them."""
        alone = self.parts.order[self.fresh[self.parts.order]]
        bounds = np.searchsorted(np.flatnonzero(self.fresh[self.parts.order]), self.parts.bounds)
        stamped = has(self.capture.segments["marks"], Mark.HAS_TIMESTAMPS)
        columns = blank(2 * self.parts.connections)
        columns["packets"] = np.diff(bounds)
        columns["timestamps"] = np.array(
            [bool(stamped[alone[b:e]].any()) for b, e in pairwise(bounds.tolist())],
            dtype=bool,
        )
        parts = Partition(
            self.parts.direction, alone, bounds, *(getattr(self.parts, n) for n in _OF_CONNECTION)
        )
        directions, least = Table(DIRECTIONS, columns), max(from_rows, LEAST_SEGMENTS)
        return [
            steps_of(self.capture, parts, directions, 2 * c).tolist()
            if bounds[2 * c + 2] - bounds[2 * c] > least
            else []
            for c in range(parts.connections)
        ]

    def _rows_alone(self, chosen: Array) -> tuple[Capture, Partition]:
        """Return some rows of all connections, which may have none of them; `first_row` is not theirs."""
        direction = self.parts.direction[chosen]
        bounds = bounds_of(direction, 2 * self.parts.connections)
        columns = (getattr(self.parts, name) for name in _OF_CONNECTION)
        return self.capture.where(chosen), Partition(direction, None, bounds, *columns)


_OF_CONNECTION = ("first_row", "forward_flow", "initiator_by")


def _with_untimed(capture: Capture) -> Capture:
    """Return the capture with a further file, whose segments carry no time: those of a history do not."""
    files = [*capture.files, SourceFile("", "", without_time=1)]
    return Capture(files, capture.segments, capture.flows, capture.sack_blocks, capture.syn_options)
