"""What SACK blocks reported of each retransmission, and which of them no longer held.

A receiver may throw away what it has reported (RFC 2018, section 8); then its acknowledgment comes to a stop
within what it had reported. A sender may have been unable to read a report: it sends what an ACK covers again
only if that ACK was damaged, and then it read none of its blocks either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.analysis.verdicts.grid import Grid
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from typing import Self

    from multitracer.analysis.verdicts.talks import Talks
    from multitracer.tables import Array

CROSSING_NS = 10 * NS_PER_MS
"""So long an ACK may take from the interface to TCP, and a retransmission the other way."""


@dataclass(frozen=True, slots=True)
class Reports:
    """SACK blocks of the judged data, D-SACKs left out, in order of `row`."""

    row: Array
    left: Array
    right: Array

    @classmethod
    def of(cls, talks: Talks) -> Self:
        """Return those of talks."""
        sacks = talks.sacks
        real = ~sacks["dsack"] & (sacks["left_bytes"] < sacks["right_bytes"])
        real &= ~talks.own[sacks["row"]]
        return cls(sacks["row"][real], sacks["left_bytes"][real], sacks["right_bytes"][real])

    def chosen(self, mask: Array) -> Reports:
        """Return the reports that a mask keeps.

        Parameters
        ----------
        mask : ndarray of bool, shape (n_reports,)
        """
        return Reports(self.row[mask], self.left[mask], self.right[mask])

    def covering(self, begin: Array, end: Array, *, nowhere: int) -> Array:
        """Return the row by which reports had covered both the first and the last unit of each range.

        Parameters
        ----------
        begin, end : ndarray of int64, units, shape (n_ranges,)
        nowhere : int
            The row of a range that was never covered so.

        Returns
        -------
        ndarray of int64, shape (n_ranges,)
        """
        grid = Grid(distinct(np.concatenate([self.left, self.right])))
        first = grid.first(self.row, self.left, self.right, nobody=nowhere)
        return np.maximum(first[grid.cell(begin)], first[grid.cell(end - 1)])

    def highest(self, zero: Array) -> Array:
        """Return per row of `segments` the highest unit reported so far; `zero` of its talk before any.

        Parameters
        ----------
        zero : ndarray of int64, units, shape (n_segments,)
            Per row, unit 0 of its talk.

        Returns
        -------
        ndarray of int64, units, shape (n_segments,)
        """
        if not len(self.row):
            return zero
        highest = zero.copy()
        np.maximum.at(highest, self.row, self.right)
        return np.maximum.accumulate(highest)


@dataclass(frozen=True, slots=True)
class Reported:
    """What SACKs report of each retransmission."""

    row: Array
    """By which row they had reported it, and the receiver kept it; `nowhere` if they did not."""
    reneged: Array
    """They had before it was sent, and then the receiver threw it away."""


def reported(
    reports: Reports, row: Array, begin: Array, end: Array, reached: Array, *, nowhere: Array
) -> Reported:
    """Return what is reported of retransmissions by SACKs that held.

    Parameters
    ----------
    row, begin, end : ndarray of int64, shape (n_copies,)
        Row and units of each retransmission.
    reached : ndarray of int64, shape (n_segments,)
        Per row of `segments`, the highest unit acknowledged so far.
    nowhere : ndarray of int64, shape (n_copies,)
        The row behind the talk of each retransmission.
    """
    rows, answer = len(reached), np.searchsorted(reached, end)
    stops = _stops(reports, reached)
    ever = reports.covering(begin, end, nowhere=rows)
    anew = _within_epochs(reports, stops, np.minimum(row, answer), begin, end, nowhere=rows)
    by = np.where((anew < row) | (ever < row), anew, ever)
    next_stop = np.append(stops, rows)[np.searchsorted(stops, row)]
    gone = (by < row) & (next_stop < answer)
    doubtful = (
        (by < row) & (next_stop == answer) & (answer < nowhere)
    )  # it may have come before that ACK left
    reneged = gone | ((ever < row) & (anew > row))
    return Reported(np.where(gone | doubtful, nowhere, by), reneged)


def _within_epochs(
    reports: Reports, stops: Array, row: Array, begin: Array, end: Array, *, nowhere: int
) -> Array:
    """Return the row by which they had reported each range since the last stop before `row`.

    Each epoch, from one stop to the next, gets a stretch of sequence space of its own.
    """
    lowest = min(reports.left.min(initial=0), begin.min(initial=0))
    span = max(reports.right.max(initial=0), end.max(initial=0)) - lowest + 1
    theirs = span * np.searchsorted(stops, reports.row, side="right") - lowest
    mine = span * np.searchsorted(stops, row) - lowest
    apart = Reports(reports.row, reports.left + theirs, reports.right + theirs)
    return apart.covering(begin + mine, end + mine, nowhere=nowhere)


def _stops(reports: Reports, reached: Array) -> Array:
    """Return the rows of the ACKs that came to a stop within what had been reported before."""
    moved = 1 + np.flatnonzero(np.diff(reached) > 0)
    if not len(reports.row) or not len(moved):
        return moved[:0]
    grid = Grid(distinct(np.concatenate([reports.left, reports.right])))
    first = grid.first(reports.row, reports.left, reports.right, nobody=len(reached))
    return moved[first[grid.cell(reached[moved])] < moved]
