"""The retransmissions of the judged directions: what was sent before each, and what acknowledged it.

The code calls a judged direction of a connection a *talk*. Several of them are processed together, one behind
the other on one axis of sequence numbers and one axis of time: rows, sequence numbers and times of each are
higher than those of all before it. So cumulative maxima and searches run over many of them at once. A search
without a result in its own judged direction gives a position at or behind its end.

A `SequenceGrid` divides sequence numbers into cells, so that each range is examined once.

SACKs: a receiver may discard data that it has reported (RFC 2018, section 8, reneging); its ACK number then
stops within the reported range. A sender may also not have received a report: if it resends data that an ACK
covers, the ACK was damaged, and the sender did not read its SACK blocks either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import SegmentKind
from multitracer.analysis.intervals import (
    distinct,
    first_painters,
    places,
    reduce_groups,
    repeated,
    span_minimum,
    spans,
)
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from multitracer.tables import Array

Cells = tuple["Array", "Array"]
"""For each row its first cell, and the cell behind its last one: int64, shape (n,)."""


@dataclass(frozen=True, slots=True)
class SequenceGrid:
    """Sequence numbers divided into cells at the begin and the end of each segment.

    Cell i is the range from edges[i] to edges[i + 1] - 1.
    """

    edges: Array

    def cell(self, unit: Array) -> Array:
        """Return the cell that contains each sequence number; -1 for one that no segment carried.

        Parameters
        ----------
        unit : ndarray of int64, any shape

        Returns
        -------
        ndarray of int64, shape of `unit`
        """
        cell = np.searchsorted(self.edges, unit, side="right") - 1
        return np.where((cell >= 0) & (cell < len(self.edges) - 1), cell, -1)

    def first(self, rows: Array, begin: Array, end: Array, *, nobody: int) -> Array:
        """Return for each cell, and for the cell -1, the first of `rows` that covers it, else `nobody`.

        Parameters
        ----------
        rows : ndarray of int64, shape (n,), ascending
        begin, end : ndarray of int64, units, shape (n,)
            Range of each row; all values are edges of the grid.
        nobody : int
            Value for a cell that no row covers.

        Returns
        -------
        ndarray of int64, shape (n_cells + 1,)
        """
        return self.first_over(rows, self.cells(begin, end), nobody=nobody)

    def cells(self, begin: Array, end: Array) -> Cells:
        """Return the first cell of each range, and the cell after its last one; ranges end at edges."""
        return places(self.edges, begin), places(self.edges, end)

    def first_over(self, rows: Array, cells: Cells, *, nobody: int) -> Array:
        """Return the result of `first`, for rows whose cells are already known."""
        painter = first_painters(*cells, max(len(self.edges) - 1, 0))
        first = np.full(len(painter) + 1, nobody, dtype=np.int64)
        np.take(np.append(rows, nobody), painter, out=first[:-1], mode="clip")
        return first


_MOST_ROWS = 1 << 18
"""Maximum number of rows that are processed together, unless one judged direction has more; it bounds the memory."""
_MOST_UNITS = 1 << 42  # 1,024 sequence spaces of 2^32
_MOST_NS = 1 << 60
"""Maximum length of the axes: all sums stay within 64 bits. A longer judged direction is processed alone."""
_APART = 2
"""Sequence numbers between two judged directions."""
_APART_NS = 60 * NS_PER_S
"""Time between two judged directions, ns, in addition to the duration of each; no rule uses a longer time."""
_UNITS = ("seq_bytes", "end_bytes", "ack_bytes")


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Judged directions: for each connection, the direction whose retransmissions are examined."""

    segments: Table
    """TCP_SEGMENTS, one judged direction after the other."""
    sacks: Table
    """TCP_SACK_BLOCKS; `row` is the row of `segments`."""
    own: Array
    """For each row whether the sender of the judged data sent it."""
    bounds: Array
    """Judged direction t has rows bounds[t]:bounds[t + 1]."""
    zero: Array
    """For each judged direction the axis position of its relative sequence number 0."""

    @classmethod
    def one(cls, segments: Table, sacks: Table, *, reverse: bool) -> Exchanges:
        """Return one judged direction of one connection, with unchanged sequence numbers and times."""
        bounds = np.array([0, len(segments)])
        return cls(segments, sacks, segments["reverse"] == reverse, bounds, np.zeros(1, dtype=np.int64))

    @classmethod
    def side_by_side(
        cls, segments: Table, sacks: Table, bounds: Array, side: Array
    ) -> Iterator[tuple[Array, Exchanges]]:
        """Yield groups of judged directions, with as many directions as fit into the axes and the memory.

        Parameters
        ----------
        segments, sacks : Table
            TCP_SEGMENTS and TCP_SACK_BLOCKS of connections, one after the other.
        bounds : ndarray of int64, shape (n_connections + 1,)
            Connection c has rows bounds[c]:bounds[c + 1].
        side : ndarray of int64, shape (n_directions,)
            The judged directions: 2 c for the data of the initiator of c, 2 c + 1 for those of the responder.

        Yields
        ------
        rows : ndarray of int64, shape (n_rows,)
            The rows of `segments` in these judged directions.
        exchanges : Exchanges
        """
        blocks = np.searchsorted(sacks["row"], bounds)
        stretches = [_units_of(segments, sacks, bounds, blocks), _times_of(segments, bounds)]
        connection = side >> 1
        shares = [each.length / most for each, most in zip(stretches, (_MOST_UNITS, _MOST_NS), strict=True)]
        for cut in _cuts(np.stack([np.diff(bounds) / _MOST_ROWS, *shares])[:, connection]):
            chosen, reverse = connection[cut], (side[cut] & 1).astype(bool)
            rows, ends = spans(bounds, chosen)
            if len(chosen) == 1:
                own_blocks = sacks.take(slice(*blocks[chosen[0] :][:2]))
                own_blocks.columns["row"] = own_blocks["row"] - rows[0]
                own = segments.take(slice(rows[0], rows[-1] + 1))
                yield rows, cls.one(own, own_blocks, reverse=bool(reverse[0]))
                continue
            units, times_ns = (each.shifts(chosen) for each in stretches)
            moved = _moved(segments.take(rows), units, times_ns, np.diff(ends))
            own_blocks = _moved_blocks(sacks, blocks, chosen, ends[:-1] - bounds[chosen], units)
            yield (rows, cls(moved, own_blocks, moved["reverse"] == np.repeat(reverse, np.diff(ends)), ends, units))

    def __len__(self) -> int:
        return len(self.zero)

    def of(self, row: Array) -> Array:
        """Return the judged direction of each row.

        Parameters
        ----------
        row : ndarray of int64, any shape
            Rows of `segments`.

        Returns
        -------
        ndarray of int64, shape of `row`
        """
        exchange: Array = np.searchsorted(self.bounds, row, side="right") - 1
        return exchange

    def per_row(self, values: Array) -> Array:
        """Return for each row the value of its judged direction.

        Parameters
        ----------
        values : ndarray of any dtype, shape (n_exchanges,)

        Returns
        -------
        ndarray of the same dtype, shape (n_segments,)
        """
        if len(values) == 1:
            return np.broadcast_to(values, len(self.segments))
        return np.repeat(values, np.diff(self.bounds))

    def have(self, rows: Array) -> Array:
        """Return which judged directions have at least one of the given rows.

        Parameters
        ----------
        rows : ndarray of int64, shape (n,)

        Returns
        -------
        ndarray of bool, shape (n_exchanges,)
        """
        return np.bincount(self.of(rows), minlength=len(self)) > 0

    def shortest_ns(self, names: tuple[str, ...], rows: Array) -> Array:
        """Return for each judged direction the shortest time above 0 in some columns; NA without one.

        Parameters
        ----------
        names : tuple of str
            Columns of TCP_SEGMENTS in ns.
        rows : ndarray of bool, shape (n_segments,)
            The rows to use.

        Returns
        -------
        ndarray of int64, ns, shape (n_exchanges,)
        """
        never = np.iinfo(np.int64).max
        shortest = np.full(len(self), never)
        for name in names:
            times = self.segments[name]
            known = np.where(rows & (times > 0), times, never)
            shortest = np.minimum(shortest, reduce_groups(np.minimum, known, self.bounds, empty=never))
        return np.where(shortest == never, NA, shortest)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """For each connection, the range of an axis (sequence numbers or time) that it needs, with a margin."""

    first: Array
    length: Array

    def shifts(self, chosen: Array) -> Array:
        """Return the number to add to each chosen connection, so that it begins where the one before ends.

        The first one begins at 0.
        """
        length = self.length[chosen]
        shifts: Array = np.cumsum(length) - length - self.first[chosen]
        return shifts


def _units_of(segments: Table, sacks: Table, bounds: Array, of_blocks: Array) -> _Stretches:
    """Return for each connection the range of sequence numbers that it needs on the common axis."""
    lowest, highest = np.zeros((2, len(bounds) - 1), dtype=np.int64)
    for name in _UNITS:
        lowest = np.minimum(lowest, reduce_groups(np.minimum, segments[name], bounds, empty=0))
        highest = np.maximum(highest, reduce_groups(np.maximum, segments[name], bounds, empty=0))
    for name in ("left_bytes", "right_bytes"):
        lowest = np.minimum(lowest, reduce_groups(np.minimum, sacks[name], of_blocks, empty=0))
        highest = np.maximum(highest, reduce_groups(np.maximum, sacks[name], of_blocks, empty=0))
    return _Stretches(lowest - _APART, highest - lowest + 2 * _APART)


def _times_of(segments: Table, bounds: Array) -> _Stretches:
    """Return for each connection the time range that it needs on the common axis.

    A connection with unknown times gets a range that is too long to share the axis.
    """
    first, last = (reduce_groups(ufunc, segments["time_ns"], bounds, empty=0) for ufunc in (np.minimum, np.maximum))
    half_ns = last // 2 - first // 2  # the whole may be beyond 64 bits
    sane = (first != NOT_A_TIME) & (half_ns < _MOST_NS // 8)
    clearance_ns = np.where(sane, 2 * half_ns + 1, 0) + _APART_NS
    return _Stretches(first - clearance_ns, np.where(sane, 3 * clearance_ns, 2 * _MOST_NS))


def _cuts(sizes: Array) -> Iterator[slice]:
    """Yield slices of the columns of `sizes`: the sum over the columns of a slice is at most 1 in each row.

    A slice has at least one column, even if that is larger than 1.
    """
    total = np.cumsum(np.column_stack([np.zeros(len(sizes)), sizes]), axis=1)
    begin, n = 0, sizes.shape[1]
    while begin < n:
        ends = [int(np.searchsorted(row, row[begin] + 1, side="right")) - 1 for row in total]
        end = max(min(ends), begin + 1)
        yield slice(begin, end)
        begin = end


def _moved(table: Table, units: Array, times_ns: Array, sizes: Array) -> Table:
    """Return the segments with sequence numbers and times shifted by a constant for each judged direction."""
    shift = np.repeat(units, sizes)
    columns = table.columns | {name: table[name] + shift for name in _UNITS}
    columns["ack_bytes"][table["ack_bytes"] == NA] = NA
    columns["time_ns"] = table["time_ns"] + np.repeat(times_ns, sizes)
    return Table(table.schema, columns)


def _moved_blocks(sacks: Table, bounds: Array, chosen: Array, rows: Array, units: Array) -> Table:
    """Return the SACK blocks of the chosen connections, with rows and sequence numbers shifted."""
    index, ends = spans(bounds, chosen)
    table, sizes = sacks.take(index), np.diff(ends)
    shifts = {"row": rows, "left_bytes": units, "right_bytes": units}
    columns = {name: table[name] + np.repeat(shift, sizes) for name, shift in shifts.items()}
    return Table(table.schema, table.columns | columns)


CROSSING_NS = 10 * NS_PER_MS
"""Maximum time from the interface to TCP for an ACK, and back for a retransmission, ns."""


@dataclass(frozen=True, slots=True)
class SackReports:
    """SACK blocks that report the judged data, without D-SACKs, sorted by `row`."""

    row: Array
    left: Array
    right: Array

    @classmethod
    def of(cls, exchanges: Exchanges) -> Self:
        """Return the SACK blocks of the judged directions."""
        sacks = exchanges.sacks
        real = ~sacks["dsack"] & (sacks["left_bytes"] < sacks["right_bytes"])
        real &= ~exchanges.own[sacks["row"]]
        return cls(sacks["row"][real], sacks["left_bytes"][real], sacks["right_bytes"][real])

    def chosen(self, mask: Array) -> SackReports:
        """Return the reports that the mask selects.

        Parameters
        ----------
        mask : ndarray of bool, shape (n_reports,)
        """
        return SackReports(self.row[mask], self.left[mask], self.right[mask])

    def covering(self, begin: Array, end: Array, *, nowhere: int) -> Array:
        """Return for each range the row at which SACK blocks had reported both its first and its last byte.

        Parameters
        ----------
        begin, end : ndarray of int64, units, shape (n_ranges,)
        nowhere : int
            Value for a range that was never covered.

        Returns
        -------
        ndarray of int64, shape (n_ranges,)
        """
        grid = SequenceGrid(distinct(np.concatenate([self.left, self.right])))
        first = grid.first(self.row, self.left, self.right, nobody=nowhere)
        return np.maximum(first[grid.cell(begin)], first[grid.cell(end - 1)])

    def highest(self, zero: Array) -> Array:
        """Return for each row of `segments` the highest byte reported so far; `zero` before any report.

        Parameters
        ----------
        zero : ndarray of int64, units, shape (n_segments,)
            For each row the position of relative sequence number 0.

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
    """SACK reports of each retransmission."""

    row: Array
    """The row up to which SACKs had reported it, if the receiver kept it; `nowhere` without such reports."""
    reneged: Array
    """Whether SACKs had reported it before it was sent, and the receiver then discarded it."""


def reported(reports: SackReports, row: Array, begin: Array, end: Array, reached: Array, *, nowhere: Array) -> Reported:
    """Return the SACK reports of retransmissions, and whether the receiver discarded reported data.

    Parameters
    ----------
    row, begin, end : ndarray of int64, shape (n_copies,)
        Row and sequence numbers of each retransmission.
    reached : ndarray of int64, shape (n_segments,)
        For each row of `segments`, the highest byte acknowledged so far.
    nowhere : ndarray of int64, shape (n_copies,)
        The row behind the judged direction of each retransmission.
    """
    rows, answer = len(reached), np.searchsorted(reached, end)
    stops = _stops(reports, reached)
    ever = reports.covering(begin, end, nowhere=rows)
    anew = _within_epochs(reports, stops, np.minimum(row, answer), begin, end, nowhere=rows)
    by = np.where((anew < row) | (ever < row), anew, ever)
    next_stop = np.append(stops, rows)[np.searchsorted(stops, row)]
    gone = (by < row) & (next_stop < answer)
    doubtful = (by < row) & (next_stop == answer) & (answer < nowhere)  # it may have come before that ACK left
    reneged = gone | ((ever < row) & (anew > row))
    return Reported(np.where(gone | doubtful, nowhere, by), reneged)


def _within_epochs(reports: SackReports, stops: Array, row: Array, begin: Array, end: Array, *, nowhere: int) -> Array:
    """Return the row at which SACK blocks had reported both the first and the last byte of each range.

    Only blocks since the last stop before `row` count. A stop is an ACK that shows that the receiver
    discarded reported data (`_stops`).
    """
    lowest = min(reports.left.min(initial=0), begin.min(initial=0))
    span = max(reports.right.max(initial=0), end.max(initial=0)) - lowest + 1
    theirs = span * np.searchsorted(stops, reports.row, side="right") - lowest
    mine = span * np.searchsorted(stops, row) - lowest
    apart = SackReports(reports.row, reports.left + theirs, reports.right + theirs)
    return apart.covering(begin + mine, end + mine, nowhere=nowhere)


def _stops(reports: SackReports, reached: Array) -> Array:
    """Return the rows of ACKs that show that the receiver discarded reported data.

    The number of such an ACK ends within a range that a SACK block had reported before.
    """
    moved = 1 + np.flatnonzero(np.diff(reached) > 0)
    if not len(reports.row) or not len(moved):
        return moved[:0]
    grid = SequenceGrid(distinct(np.concatenate([reports.left, reports.right])))
    first = grid.first(reports.row, reports.left, reports.right, nobody=len(reached))
    return moved[first[grid.cell(reached[moved])] < moved]


_NO_COPY = SegmentKind.ZERO_WINDOW_PROBE | SegmentKind.KEEP_ALIVE | SegmentKind.CAPTURE_DUPLICATE


@dataclass(frozen=True, slots=True)
class Retransmissions:
    """The retransmissions of the judged directions; arrays have shape (n_copies,) if not stated otherwise.

    A *row* is an index into `segments`, int64; a row that does not exist in the judged direction is at or
    behind `nowhere`. A *unit* is a sequence number on the common axis, int64. Neither is ever NA.
    """

    exchanges: Exchanges
    sent: Array
    """Rows of all segments of the judged directions that occupy sequence numbers, with retransmissions."""
    row: Array
    exchange: Array
    first: Array
    """The first row of its judged direction."""
    nowhere: Array
    """The row behind its judged direction."""
    zero: Array
    """Axis position of relative sequence number 0 of its judged direction."""
    earlier: Array
    """Row of the last earlier transmission that begins at the same sequence number, else of the first one that contains
    it."""
    answer: Array
    """Row of the first ACK that covers it cumulatively."""
    sacked: Array
    """Row of the first SACK that covers it, if the receiver kept the data."""
    reneged: Array
    """Whether a SACK had reported it before, but the receiver discarded it (RFC 2018, section 8)."""
    unread: Array
    """Row of the first SACK that covers it in an ACK that the sender must have discarded."""
    reached: Array
    """For each row of `segments`: the highest byte acknowledged so far."""
    highest: Array
    """For each row of `segments`: the highest byte sent so far."""
    sacked_up_to: Array
    """For each row of `segments`: the highest byte reported by a SACK so far."""
    grid: SequenceGrid
    first_copy: Array
    """For each cell of the grid, and for the cell -1: the first of `sent` that covers it."""
    first_again: Array
    """For each cell of the grid, and for the cell -1: the first of `row` that covers it."""
    min_rtt_ns: Array
    """The minimum RTT measured in its judged direction, by any method, ns; NA without a sample."""

    @classmethod
    def of(cls, exchanges: Exchanges, *, at_sender: bool = True) -> Self:
        """Return the retransmissions of the judged directions.

        Parameters
        ----------
        exchanges : Exchanges
        at_sender : bool
            Whether they were captured at the data's sender; elsewhere it is unknown which ACKs arrived damaged.
        """
        segments, own = exchanges.segments, exchanges.own
        kind = segments["kind"]
        occupies = own & (segments["end_bytes"] > segments["seq_bytes"])
        occupies &= (kind & np.uint32(_NO_COPY)) == 0
        sent = np.flatnonzero(occupies)
        row = sent[(kind[sent] & np.uint32(SegmentKind.RETRANSMISSION | SegmentKind.OUT_OF_ORDER)) != 0]
        begin, end = segments["seq_bytes"], segments["end_bytes"]
        edges = begin[sent], end[sent]
        grid = SequenceGrid(distinct(np.concatenate(edges)))
        over, again = grid.cells(*edges), grid.cells(begin[row], end[row])
        firsts = grid.first_over(sent, over, nobody=len(segments))
        agains = grid.first_over(row, again, nobody=len(segments))
        del over, again
        back = ~own & (segments["ack_bytes"] != NA)
        zero = exchanges.per_row(exchanges.zero)
        reached = np.where(back, segments["ack_bytes"], zero)
        np.maximum.accumulate(reached, out=reached)
        highest = np.where(occupies, end, zero)
        exchange = exchanges.of(row) if len(exchanges) > 1 else repeated(0, len(row))
        reports = SackReports.of(exchanges)
        damaged = at_sender & _damaged(segments, back, row)[reports.row]

        def of_each(values: Array) -> Array:
            return values[exchange] if len(exchanges) > 1 else np.broadcast_to(values, len(row))

        nowhere = of_each(exchanges.bounds[1:])
        sack = reported(reports.chosen(~damaged), row, begin[row], end[row], reached, nowhere=nowhere)
        unread = reports.chosen(damaged).covering(begin[row], end[row], nowhere=len(segments))
        return cls(
            exchanges, sent, row, exchange, of_each(exchanges.bounds[:-1]), nowhere,
            of_each(exchanges.zero),
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
            of_each(exchanges.shortest_ns(("rtt_ns", "rtt_timestamp_ns"), own)),
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
            Rows; the value is undefined where the row does not exist.

        Returns
        -------
        ndarray, dtype of the column, shape of `row`
        """
        values: Array = self.segments[name][np.minimum(row, len(self.segments) - 1)]
        return values

    @property
    def segments(self) -> Table:
        """TCP_SEGMENTS of the judged directions."""
        return self.exchanges.segments

    @property
    def back(self) -> Array:
        """Whether the receiver of the judged data sent each row of `segments`: bool, shape (n_segments,)."""
        return ~self.exchanges.own

    @property
    def report(self) -> Array:
        """Row of the first ACK or SACK that covers each retransmission: int64, shape (n_copies,)."""
        return self.report_of(slice(None))

    def report_of(self, chosen: slice) -> Array:
        """Return `report` of some of the retransmissions."""
        first: Array = np.minimum(self.answer[chosen], self.sacked[chosen])
        return first

    @property
    def begin(self) -> Array:
        """First sequence number of each retransmission: int64, shape (n_copies,)."""
        column: Array = self.segments["seq_bytes"][self.row]
        return column

    @property
    def end(self) -> Array:
        """The sequence number after the last one of each retransmission: int64, shape (n_copies,)."""
        column: Array = self.segments["end_bytes"][self.row]
        return column

    def after_ns(self, row: Array) -> Array:
        """Return the time from each retransmission to the capture of a row.

        Parameters
        ----------
        row : ndarray of int64, shape (n_copies,)
            A row for each retransmission; the time is undefined where the row does not exist.

        Returns
        -------
        ndarray of int64, ns, shape (n_copies,)
            Below 0 for a row captured earlier.
        """
        since: Array = self.of_rows("time_ns", row) - self.segments["time_ns"][self.row]
        return since

    def before(self, row: Array) -> Array:
        """Return the row number minus 1, but at least the first row of the judged direction.

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
        """Return the highest byte acknowledged before each row.

        Parameters
        ----------
        row : ndarray of int64, shape (n_copies,)

        Returns
        -------
        ndarray of int64, units, shape (n_copies,)
            Before any ACK the position of relative sequence number 0.
        """
        return np.where(row > self.first, self.reached[self.before(row)], self.zero)

    def in_exchange(self, mask: Array) -> Array:
        """Return which retransmissions have at least one True element of `mask` in their judged direction.

        Parameters
        ----------
        mask : ndarray of bool, shape (n_copies,)

        Returns
        -------
        ndarray of bool, shape (n_copies,)
        """
        marked: Array = np.bincount(self.exchange[mask], minlength=len(self.exchanges))[self.exchange] > 0
        return marked

    def near(self) -> tuple[Array, Cells]:
        """Return the indexes in `sent` of all segments that share a cell with a retransmission, and their cells."""
        begin, end = self.segments["seq_bytes"], self.segments["end_bytes"]
        over = self.grid.cells(begin[self.sent], end[self.sent])
        return _near(over, self.grid.cells(self.begin, self.end), len(self.grid.edges))

    def covered_before(self, chosen: Array, near: tuple[Array, Cells]) -> Array:
        """Return which retransmissions carry only data that chosen earlier segments carried.

        Parameters
        ----------
        chosen : ndarray of bool, shape (n_sent,)
            The chosen items of `sent`.
        near : tuple
            What the method of this name returns.

        Returns
        -------
        ndarray of bool, shape (n_copies,)
        """
        index, cells = near
        if not len(index):
            return np.zeros(len(self.row), dtype=bool)
        kept = chosen[index]
        low, high = cells[0][kept], cells[1][kept]
        first = self.grid.first_over(self.sent[index[kept]], (low, high), nobody=len(self.segments))[:-1]
        low, high = (np.searchsorted(self.grid.edges, unit) for unit in (self.begin, self.end))
        latest: Array = -span_minimum(-first, low, high)
        return latest < self.row


def _earlier(sent: Array, row: Array, begin: Array, first: Array, *, nowhere: int) -> Array:
    """Return for each retransmission the row of the last earlier transmission of the same data.

    It is the last one that begins at the same sequence number; without one, it is `first`, the first segment
    that contains the data. `begin` has a value for each item of `sent`.
    """
    order, own = np.argsort(begin, kind="stable"), np.searchsorted(sent, row)
    place = np.empty(len(sent), dtype=np.int64)
    place[order] = np.arange(len(order))
    before = order[np.maximum(place[own] - 1, 0)]
    same = (place[own] > 0) & (begin[before] == begin[own])
    earlier = np.where(same, sent[before], first)
    return np.where(earlier < row, earlier, nowhere)


def _near(sent: Cells, row: Cells, edges: int) -> tuple[Array, Cells]:
    """Return the indexes of sent segments that share a grid cell with a retransmission, and their cells."""
    change = np.zeros(edges + 1, dtype=np.int64)
    np.add.at(change, row[0], 1)
    np.add.at(change, row[1], -1)
    resent = np.append(0, np.cumsum(np.cumsum(change) > 0))
    index = np.flatnonzero(resent[sent[1]] > resent[sent[0]])
    return index, (sent[0][index], sent[1][index])


def _damaged(segments: Table, back: Array, row: Array) -> Array:
    """Return which ACKs the sender must have discarded (they were probably damaged): bool.

    Long after such an ACK, the sender resent data that the ACK covers.
    """
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
