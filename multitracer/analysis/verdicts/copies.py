"""The retransmissions of the judged directions: what was sent before each, and what answered it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct, places, span_minimum
from multitracer.analysis.kind import Kind
from multitracer.analysis.verdicts.grid import Cells, Grid
from multitracer.analysis.verdicts.reports import CROSSING_NS, Reports, reported
from multitracer.tables import NA

if TYPE_CHECKING:
    from typing import Self

    from multitracer.analysis.verdicts.talks import Talks
    from multitracer.tables import Array, Table

_NO_COPY = Kind.ZERO_WINDOW_PROBE | Kind.KEEP_ALIVE | Kind.CAPTURE_DUPLICATE


@dataclass(frozen=True, slots=True)
class Copies:
    """The retransmissions of talks; an array without a comment has shape (n_copies,).

    A *row* is an index into `segments`, int64; a row that does not exist in the talk is at or behind
    `nowhere`. A *unit* is a position on the axis of the talks, int64. Neither is ever NA.
    """

    talks: Talks
    sent: Array
    """Rows of everything of the judged directions that occupies sequence units, each copy."""
    row: Array
    talk: Array
    first: Array
    """The first row of its talk."""
    nowhere: Array
    """The row behind its talk."""
    zero: Array
    """Unit 0 of its talk."""
    earlier: Array
    """Row of the last copy before that begins at the same unit, else of the first with its first unit."""
    answer: Array
    """Row of the first ACK that covers it, cumulatively."""
    sacked: Array
    """Row of the first SACK that covers it, if the receiver kept what it reported."""
    reneged: Array
    """A SACK had reported it before, but the receiver threw it away (RFC 2018, section 8)."""
    unread: Array
    """Row of the first SACK that covers it in an ACK that the sender cannot have taken for good."""
    reached: Array
    """Per row of `segments`: the highest unit acknowledged so far."""
    highest: Array
    """Per row of `segments`: the highest unit sent so far."""
    sacked_up_to: Array
    """Per row of `segments`: the highest unit reported by a SACK so far."""
    grid: Grid
    first_copy: Array
    """Per cell of the grid, and for the cell -1: the first of `sent` that covers it."""
    first_again: Array
    """The same of `row`."""
    near: tuple[Array, Cells]
    """Indexes in `sent` of all that share a cell with a retransmission, and their cells."""
    min_rtt_ns: Array
    """The shortest round trip measured in its talk, by whatever means; NA if none was."""

    @classmethod
    def of(cls, talks: Talks, *, at_sender: bool = True) -> Self:
        """Return the retransmissions of talks.

        Parameters
        ----------
        talks : Talks
        at_sender : bool
            Whether they were captured at the data's sender; elsewhere it is unknown which ACKs came there
            damaged.
        """
        segments, own = talks.segments, talks.own
        kind = segments["kind"]
        occupies = own & (segments["end_bytes"] > segments["seq_bytes"])
        occupies &= (kind & np.uint32(_NO_COPY)) == 0
        sent = np.flatnonzero(occupies)
        row = sent[(kind[sent] & np.uint32(Kind.RETRANSMISSION | Kind.OUT_OF_ORDER)) != 0]
        begin, end = segments["seq_bytes"], segments["end_bytes"]
        edges = begin[sent], end[sent]
        grid = Grid(distinct(np.concatenate(edges)))
        over, again = grid.cells(*edges), grid.cells(begin[row], end[row])
        firsts = grid.first_over(sent, over, nobody=len(segments))
        agains = grid.first_over(row, again, nobody=len(segments))
        back = ~own & (segments["ack_bytes"] != NA)
        zero = talks.per_row(talks.zero)
        reached = np.where(back, segments["ack_bytes"], zero)
        np.maximum.accumulate(reached, out=reached)
        highest = np.where(occupies, end, zero)
        talk = talks.of(row)
        reports = Reports.of(talks)
        damaged = at_sender & _damaged(segments, back, row)[reports.row]
        nowhere = talks.bounds[1:][talk]
        sack = reported(reports.chosen(~damaged), row, begin[row], end[row], reached, nowhere=nowhere)
        unread = reports.chosen(damaged).covering(begin[row], end[row], nowhere=len(segments))
        return cls(
            talks, sent, row, talk, talks.bounds[:-1][talk], nowhere, talks.zero[talk],
            _earlier(sent, row, edges[0], firsts[grid.cell(begin[row])], nowhere=len(segments)),
            np.searchsorted(reached, end[row]),
            sack.row,
            sack.reneged,
            unread,
            reached,
            np.maximum.accumulate(highest, out=highest),
            reports.highest(zero),
            grid,
            firsts,
            agains,
            _near(over, again, len(grid.edges)),
            talks.shortest_ns(("rtt_ns", "rtt_timestamp_ns"), own)[talk],
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.row)

    def of_rows(self, name: str, row: Array) -> Array:
        """Return a column of `segments` at rows.

        Parameters
        ----------
        name : str
            A column of TCP_SEGMENTS.
        row : ndarray of int64, any shape
            Rows; where there is no such row, the value has no meaning.

        Returns
        -------
        ndarray, dtype of the column, shape of `row`
        """
        values: Array = self.segments[name][np.minimum(row, len(self.segments) - 1)]
        return values

    @property
    def segments(self) -> Table:
        """TCP_SEGMENTS of the talks."""
        return self.talks.segments

    @property
    def back(self) -> Array:
        """Whether the receiver of the judged data sent each row of `segments`: bool, shape (n_segments,)."""
        return ~self.talks.own

    @property
    def report(self) -> Array:
        """Row of the first ACK or SACK that covers each retransmission: int64, shape (n_copies,)."""
        first: Array = np.minimum(self.answer, self.sacked)
        return first

    @property
    def begin(self) -> Array:
        """First unit of each retransmission: int64, shape (n_copies,)."""
        column: Array = self.segments["seq_bytes"][self.row]
        return column

    @property
    def end(self) -> Array:
        """Unit after the last one of each retransmission: int64, shape (n_copies,)."""
        column: Array = self.segments["end_bytes"][self.row]
        return column

    def after_ns(self, row: Array) -> Array:
        """Return how long after each retransmission a row was captured.

        Parameters
        ----------
        row : ndarray of int64, shape (n_copies,)
            A row for each retransmission; where there is no such row, the time has no meaning.

        Returns
        -------
        ndarray of int64, ns, shape (n_copies,)
            Below 0 for a row captured earlier.
        """
        since: Array = self.of_rows("time_ns", row) - self.segments["time_ns"][self.row]
        return since

    def before(self, row: Array) -> Array:
        """Return the row before each row, but never one before the talk.

        Parameters
        ----------
        row : ndarray of int64, shape (n_copies,)

        Returns
        -------
        ndarray of int64, shape (n_copies,)
        """
        before: Array = np.maximum(np.minimum(row, self.nowhere) - 1, self.first)
        return before

    def reached_before(self, row: Array) -> Array:
        """Return the highest unit acknowledged before each row.

        Parameters
        ----------
        row : ndarray of int64, shape (n_copies,)

        Returns
        -------
        ndarray of int64, units, shape (n_copies,)
            Unit 0 of the talk before any ACK.
        """
        return np.where(row > self.first, self.reached[self.before(row)], self.zero)

    def in_talk(self, mask: Array) -> Array:
        """Return which retransmissions have one of the same talk in `mask`.

        Parameters
        ----------
        mask : ndarray of bool, shape (n_copies,)

        Returns
        -------
        ndarray of bool, shape (n_copies,)
        """
        marked: Array = np.bincount(self.talk[mask], minlength=len(self.talks))[self.talk] > 0
        return marked

    def covered_before(self, chosen: Array) -> Array:
        """Return which retransmissions carry only data that some of `sent` before them carried.

        Parameters
        ----------
        chosen : ndarray of bool, shape (n_sent,)
            Which of `sent`.

        Returns
        -------
        ndarray of bool, shape (n_copies,)
        """
        index, cells = self.near
        if not len(index):
            return np.zeros(len(self.row), dtype=bool)
        kept = chosen[index]
        low, high = cells[0][kept], cells[1][kept]
        first = self.grid.first_over(self.sent[index[kept]], (low, high), nobody=len(self.segments))[:-1]
        low, high = (np.searchsorted(self.grid.edges, unit) for unit in (self.begin, self.end))
        latest: Array = -span_minimum(-first, low, high)
        return latest < self.row


def _earlier(sent: Array, row: Array, begin: Array, first: Array, *, nowhere: int) -> Array:
    """Return the row of the copy before each retransmission; `first` is that of the first with its unit.

    `begin` is that of each of `sent`.
    """
    order, own = np.argsort(begin, kind="stable"), np.searchsorted(sent, row)
    place = np.empty(len(sent), dtype=np.int64)
    place[order] = np.arange(len(order))
    before = order[np.maximum(place[own] - 1, 0)]
    same = (place[own] > 0) & (begin[before] == begin[own])
    earlier = np.where(same, sent[before], first)
    return np.where(earlier < row, earlier, nowhere)


def _near(sent: Cells, row: Cells, edges: int) -> tuple[Array, Cells]:
    """Return which of what was sent shares a cell with a retransmission, and its cells."""
    change = np.zeros(edges + 1, dtype=np.int64)
    np.add.at(change, row[0], 1)
    np.add.at(change, row[1], -1)
    resent = np.append(0, np.cumsum(np.cumsum(change) > 0))
    index = np.flatnonzero(resent[sent[1]] > resent[sent[0]])
    return index, (sent[0][index], sent[1][index])


def _damaged(segments: Table, back: Array, row: Array) -> Array:
    """Return which ACKs the sender cannot have taken for good: long after, it sent what they cover again."""
    damaged = np.zeros(len(segments), dtype=bool)
    if not len(row):
        return damaged
    acks, begin = np.flatnonzero(back), segments["seq_bytes"][row]
    time_ns = segments["time_ns"]
    lowest = np.append(np.minimum.accumulate(begin[::-1])[::-1], np.iinfo(np.int64).max)
    latest_ns = np.maximum.accumulate(time_ns[row])
    after = places(latest_ns, time_ns[acks] + CROSSING_NS, "right")
    after = np.maximum(after, places(row, acks))
    damaged[acks] = lowest[after] < segments["ack_bytes"][acks]
    return damaged
