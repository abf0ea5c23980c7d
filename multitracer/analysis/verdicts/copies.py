"""The retransmissions of the judged directions: what was sent before each, and what answered it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct, places, span_minimum
from multitracer.analysis.kind import Kind
from multitracer.analysis.verdicts.grid import Grid
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
    """Per cell of the grid, and for the cell -1: the first of `sent` that covers it, as of `first_sent`."""
    first_again: Array
    """The same of `row`."""
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
        grid = Grid(distinct(np.concatenate([begin[sent], end[sent]])))
        firsts, agains = (
            grid.first(each, begin[each], end[each], nobody=len(segments)) for each in (sent, row)
        )
        back = ~own & (segments["ack_bytes"] != NA)
        zero = talks.per_row(talks.zero)
        reached = np.maximum.accumulate(np.where(back, segments["ack_bytes"], zero))
        talk = talks.of(row)
        reports = Reports.of(talks)
        damaged = at_sender & _damaged(segments, back, row)[reports.row]
        nowhere = talks.bounds[1:][talk]
        sack = reported(reports.chosen(~damaged), row, begin[row], end[row], reached, nowhere=nowhere)
        unread = reports.chosen(damaged).covering(begin[row], end[row], nowhere=len(segments))
        return cls(
            talks, sent, row, talk, talks.bounds[:-1][talk], nowhere, talks.zero[talk],
            _earlier(sent, row, begin, firsts[grid.cell(begin[row])], nowhere=len(segments)),
            np.searchsorted(reached, end[row]),
            sack.row,
            sack.reneged,
            unread,
            reached,
            np.maximum.accumulate(np.where(occupies, end, zero)),
            reports.highest(zero),
            grid,
            firsts,
            agains,
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

    def first_sent(self, rows: Array) -> Array:
        """Return for each cell of the grid, and for the cell -1, the first of `rows` that covers it.

        Parameters
        ----------
        rows : ndarray of int64, shape (n,), ascending
            Rows of the judged directions.

        Returns
        -------
        ndarray of int64, shape (n_cells + 1,)
            Rows; the number of segments for a cell that none covers.
        """
        begin, end = (self.segments[f"{edge}_bytes"][rows] for edge in ("seq", "end"))
        return self.grid.first(rows, begin, end, nobody=len(self.segments))

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

    def covered_before(self, rows: Array) -> Array:
        """Return which retransmissions carry only data that `rows` before them carried.

        Parameters
        ----------
        rows : ndarray of int64, shape (n,), ascending
            Rows of the judged directions.

        Returns
        -------
        ndarray of bool, shape (n_copies,)
        """
        first = self.first_sent(rows)[:-1]
        if not len(first) or not len(self.row):
            return np.zeros(len(self.row), dtype=bool)
        low, high = (np.searchsorted(self.grid.edges, unit) for unit in (self.begin, self.end))
        latest: Array = -span_minimum(-first, low, high)
        return latest < self.row


def _earlier(sent: Array, row: Array, begin: Array, first: Array, *, nowhere: int) -> Array:
    """Return the row of the copy before each retransmission; `first` is that of the first with its unit."""
    order = sent[np.argsort(begin[sent], kind="stable")]
    place = np.empty(nowhere, dtype=np.int64)
    place[order] = np.arange(len(order))
    before = order[np.maximum(place[row] - 1, 0)]
    same = (place[row] > 0) & (begin[before] == begin[row])
    earlier = np.where(same, before, first)
    return np.where(earlier < row, earlier, nowhere)


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
