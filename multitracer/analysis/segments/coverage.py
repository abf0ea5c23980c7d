"""Which sequence numbers of each segment were seen before: retransmissions, filled holes, remaining holes.

In this file a segment is one that occupies sequence numbers. A segment that begins at the highest end so far
is new. A segment that begins above it opens a hole. A segment that begins below it is *late*: its numbers
outside the holes were seen before, and its numbers inside a hole are new if no earlier late segment had them.
The result equals the byte ranges of tcptrace (rexmit.c), for all directions at once and without a list of
ranges: only late segments that touch a hole are compared with each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import distinct, first_painters
from multitracer.captured import Flag

if TYPE_CHECKING:
    from multitracer.analysis.group import SegmentGroup
    from multitracer.analysis.segments.axis import DataRanges
    from multitracer.tables import Array

_BELOW = -(1 << 62)
"""A value below every number on an axis, since late segments may lie before a direction's first number."""


@dataclass(slots=True)
class CoverageHoles:
    """Ranges of missing sequence numbers, ascending on the axis."""

    start: Array
    end: Array
    after: Array
    """For each hole the segment that begins at or behind its end and so created it."""

    def chosen(self, keep: Array) -> CoverageHoles:
        """Return the selected holes.

        Parameters
        ----------
        keep : ndarray of bool, shape (n_holes,), or of int64, shape (n_chosen,)
        """
        return CoverageHoles(self.start[keep], self.end[keep], self.after[keep])


@dataclass(slots=True)
class Coverage:
    """Which sequence numbers of each segment were new; a segment that is not late is completely new."""

    reach: Array
    """For each segment the highest end of its direction up to and including it, on the axis."""
    late: Array
    """Pieces that begin below the highest end before them."""
    new: Array
    """For each late segment the number of sequence numbers seen for the first time."""
    old_payload: Array
    """For each late segment the payload bytes seen before."""
    holes: CoverageHoles
    """The holes that were never filled, above the first segment of each direction."""


def cover(chunks: DataRanges, group: SegmentGroup) -> Coverage:
    """Return which sequence numbers of each segment were captured for the first time."""
    start, end = chunks.start, chunks.end
    reach = np.maximum.accumulate(end)
    moved = np.flatnonzero(start[1:] != reach[:-1]) + 1
    above = start[moved] > reach[moved - 1]
    jumps, late = np.append(np.arange(min(len(start), 1)), moved[above]), moved[~above]
    holes = CoverageHoles(reach[jumps - 1], start[jumps], jumps)
    holes.start[:1] = _BELOW
    before = reach[late - 1]
    new = np.maximum(end[late] - before, 0)
    syn_or_fin = np.zeros(len(late), dtype=np.int64)
    if len(late):
        fills = _fill(start[late], np.minimum(end[late], before), holes, new)
        syn_or_fin = _old_syn_and_fin(late, before, chunks, group, fills)
        holes = fills.left_of(holes)
    old_payload = end[late] - start[late] - new - syn_or_fin
    firsts = np.isin(holes.after, chunks.bounds[:-1])  # what lies before a direction's first piece is no hole
    return Coverage(reach, late, new, old_payload, holes.chosen(~firsts))


@dataclass(slots=True)
class _Fills:
    """Which late segment filled which part of the holes.

    The parts are cells: cell i has the sequence numbers from edges[i] to edges[i + 1] - 1.
    """

    edges: Array
    owner: Array
    """For each cell the late segment that filled it; -1 if the cell is still missing or is not in a hole."""
    inside: Array
    """For each cell whether it is in a hole."""
    touched: Array
    """The holes that have cells."""

    def owner_at(self, unit: Array) -> Array:
        """Return the late segment that filled each sequence number; -1 if none did."""
        if not len(self.owner):
            return np.full(len(unit), -1)
        cell = np.searchsorted(self.edges, unit, side="right") - 1
        inside = (cell >= 0) & (cell < len(self.owner))
        return np.where(inside, self.owner[np.where(inside, cell, 0)], -1)

    def left_of(self, holes: CoverageHoles) -> CoverageHoles:
        """Return the parts of `holes` that no segment filled."""
        if not len(self.owner):
            return holes
        cells = np.flatnonzero(self.inside & (self.owner < 0))
        hole = self.touched[np.searchsorted(holes.start[self.touched], self.edges[cells], side="right") - 1]
        complete = np.ones(len(holes.start), dtype=bool)
        complete[self.touched] = False
        start = np.concatenate([holes.start[complete], self.edges[cells]])
        end = np.concatenate([holes.end[complete], self.edges[cells + 1]])
        after = np.concatenate([holes.after[complete], holes.after[hole]])
        return CoverageHoles(start, end, after).chosen(np.argsort(start, kind="stable"))


def _fill(bottom: Array, top: Array, holes: CoverageHoles, new: Array) -> _Fills:
    """Return which late segment filled which part of the holes; add the filled lengths to `new`, in place.

    Late segment i reaches from bottom[i] to top[i] - 1.
    """
    first = np.searchsorted(holes.end, bottom, side="right")
    last = np.searchsorted(holes.start, top, side="left")
    fills = np.flatnonzero(first < last)
    touched = _touched(first[fills], last[fills], len(holes.start))
    hole_start, hole_end = holes.start[touched], holes.end[touched]
    edges = distinct(np.concatenate([bottom[fills], top[fills], hole_start, hole_end]))
    left, right = np.searchsorted(edges, bottom[fills]), np.searchsorted(edges, top[fills])
    painter = first_painters(left, right, max(len(edges) - 1, 0))
    inside = _inside(edges, hole_start, hole_end)
    owner = np.where(inside, np.append(fills, -1)[painter], -1)
    painted = np.flatnonzero(owner >= 0)
    np.add.at(new, owner[painted], np.diff(edges)[painted])
    return _Fills(edges, owner, inside, touched)


def _touched(first: Array, last: Array, holes: int) -> Array:
    """Return the numbers of the holes that are in at least one of the ranges first[i] to last[i] - 1."""
    depth = np.zeros(holes + 1, dtype=np.int64)
    np.add.at(depth, first, 1)
    np.subtract.at(depth, last, 1)
    return np.flatnonzero(np.cumsum(depth)[:-1] > 0)


def _inside(edges: Array, start: Array, end: Array) -> Array:
    """Return which cells are in a hole; cell i reaches from edges[i] to edges[i + 1] - 1.

    Holes do not overlap, but one may begin where another one ends.
    """
    depth = np.zeros(len(edges), dtype=np.int64)
    np.add.at(depth, np.searchsorted(edges, start), 1)
    np.subtract.at(depth, np.searchsorted(edges, end), 1)
    return np.cumsum(depth)[:-1] > 0


def _old_syn_and_fin(late: Array, before: Array, chunks: DataRanges, group: SegmentGroup, fills: _Fills) -> Array:
    """Return how many SYN and FIN flags of each late segment were captured before (0 to 2)."""
    flags = group.flags[chunks.position[late]]
    old = np.zeros(len(late), dtype=np.int64)
    syn, fin = np.flatnonzero(has(flags, Flag.SYN)), np.flatnonzero(has(flags, Flag.FIN))
    if len(syn):
        old[syn] += fills.owner_at(chunks.start[late[syn]]) != syn
    if len(fin):
        last = chunks.end[late[fin]] - 1
        old[fin] += (last < before[fin]) & (fills.owner_at(last) != fin)
    return old
