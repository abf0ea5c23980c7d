"""The retransmissions of one direction: what was sent before each, and what answered it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct, span_minimum
from multitracer.analysis.kind import Kind
from multitracer.analysis.verdicts.grid import Grid
from multitracer.analysis.verdicts.reports import CROSSING_NS, Reports, reported
from multitracer.tables import NA

if TYPE_CHECKING:
    from typing import Self

    from multitracer.tables import Array, Table

_NO_COPY = Kind.ZERO_WINDOW_PROBE | Kind.KEEP_ALIVE | Kind.CAPTURE_DUPLICATE


@dataclass(frozen=True, slots=True)
class Copies:
    """The retransmissions of one direction; columns without a comment have a value for each of them.

    A *row* is an index into `segments`; one that there is not is `nowhere`.
    """

    segments: Table
    """TCP_SEGMENTS of the connection."""
    reverse: bool
    sent: Array
    """Rows of everything of the direction that occupies sequence units, each copy."""
    row: Array
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
    min_rtt_ns: int
    """The shortest round trip measured, by whatever means; NA if none was."""

    @classmethod
    def of(cls, segments: Table, sacks: Table, *, reverse: bool, at_sender: bool = True) -> Self:
        """Return the retransmissions of a direction.

        Parameters
        ----------
        segments, sacks : Table
            TCP_SEGMENTS and TCP_SACK_BLOCKS of one connection.
        reverse : bool
            Whose data.
        at_sender : bool
            Whether they were captured at its sender; elsewhere nothing tells which ACKs came there damaged.
        """
        own = segments["reverse"] == reverse
        kind = segments["kind"]
        occupies = own & (segments["end_bytes"] > segments["seq_bytes"])
        occupies &= (kind & np.uint32(_NO_COPY)) == 0
        sent = np.flatnonzero(occupies)
        row = sent[(kind[sent] & np.uint32(Kind.RETRANSMISSION | Kind.OUT_OF_ORDER)) != 0]
        begin, end = segments["seq_bytes"], segments["end_bytes"]
        grid = Grid(distinct(np.concatenate([begin[sent], end[sent]])))
        back = ~own & (segments["ack_bytes"] != NA)
        reached = np.maximum.accumulate(np.where(back, segments["ack_bytes"], 0))
        answer = np.searchsorted(reached, end[row])
        reports = Reports.of(segments, sacks, reverse=reverse)
        damaged = at_sender & _damaged(segments, back, row)[reports.row]
        said = reported(reports.chosen(~damaged), row, begin[row], end[row], reached)
        unread = reports.chosen(damaged).covering(begin[row], end[row], nowhere=len(segments))
        return cls(
            segments, reverse, sent, row,
            _earlier(sent, row, begin, end, grid, nowhere=len(segments)),
            answer,
            said.row,
            said.reneged,
            unread,
            reached,
            np.maximum.accumulate(np.where(occupies, end, 0)),
            reports.highest(len(segments)),
            grid,
            _shortest(segments, own),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.row)

    def of_rows(self, name: str, row: Array) -> Array:
        """Return a column of `segments` at rows, whatever value where there is no row."""
        values: Array = self.segments[name][np.minimum(row, len(self.segments) - 1)]
        return values

    @property
    def nowhere(self) -> int:
        """The row that there is not."""
        return len(self.segments)

    @property
    def report(self) -> Array:
        """Row of the first ACK or SACK that covers each."""
        first: Array = np.minimum(self.answer, self.sacked)
        return first

    @property
    def begin(self) -> Array:
        """First unit of each retransmission."""
        column: Array = self.segments["seq_bytes"][self.row]
        return column

    @property
    def end(self) -> Array:
        """Unit after the last of each retransmission."""
        column: Array = self.segments["end_bytes"][self.row]
        return column

    def after_ns(self, row: Array) -> Array:
        """Return how long after each retransmission a row was captured."""
        since: Array = self.of_rows("time_ns", row) - self.segments["time_ns"][self.row]
        return since

    def first_sent(self, rows: Array) -> Array:
        """Return for each cell of the grid, and for the cell -1, the first of `rows` that covers it."""
        begin, end = (self.segments[f"{edge}_bytes"][rows] for edge in ("seq", "end"))
        return self.grid.first(rows, begin, end, nobody=self.nowhere)

    def covered_before(self, rows: Array) -> Array:
        """Return which retransmissions carry nothing that one of `rows` before them did not."""
        first = self.first_sent(rows)[:-1]
        if not len(first) or not len(self.row):
            return np.zeros(len(self.row), dtype=bool)
        low, high = (np.searchsorted(self.grid.edges, unit) for unit in (self.begin, self.end))
        latest: Array = -span_minimum(-first, low, high)
        return latest < self.row


def _earlier(sent: Array, row: Array, begin: Array, end: Array, grid: Grid, *, nowhere: int) -> Array:
    """Return the row of the copy before each retransmission."""
    order = sent[np.lexsort((sent, begin[sent]))]
    place = np.empty(nowhere, dtype=np.int64)
    place[order] = np.arange(len(order))
    before = order[np.maximum(place[row] - 1, 0)]
    same = (place[row] > 0) & (begin[before] == begin[row])
    first = grid.first(sent, begin[sent], end[sent], nobody=nowhere)[grid.cell(begin[row])]
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
    after = np.searchsorted(latest_ns, time_ns[acks] + CROSSING_NS, side="right")
    after = np.maximum(after, np.searchsorted(row, acks))
    damaged[acks] = lowest[after] < segments["ack_bytes"][acks]
    return damaged


def _shortest(segments: Table, own: Array) -> int:
    measured = [segments[name][own] for name in ("rtt_ns", "rtt_timestamp_ns")]
    known = np.concatenate([times[times > 0] for times in measured])
    return int(known.min()) if len(known) else NA
