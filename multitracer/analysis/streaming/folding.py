"""Folding of connections: their segments are counted and then replaced by a short history.

A history is a few artificial segments that represent the discarded ones. It contains, in this order: what each
direction has covered, without the holes that are still open; the highest ACK that it sent; its SYN with the options;
and its last segment, without payload. None of them has a time. The steps of the analysis treat them like the past:

- A retransmission lies in the covered ranges; a segment that fills a hole lies between them.
- The ACK comes before these ranges, so it measures no flight; the next ACK measures the flight correctly.
- A round trip needs two times, so none begins or ends in a history.
- The windows are the largest and the timestamps the last ones, so no larger window scale is inferred.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.connections import Partition, bounds_of, opens
from multitracer.analysis.group import groups, has
from multitracer.analysis.segments.directions import blank
from multitracer.analysis.segments.examination import examine
from multitracer.analysis.streaming.aggregated import Count, count
from multitracer.analysis.trust import MIN_SEGMENTS, steps_of
from multitracer.capture import CaptureTables
from multitracer.captured import CaptureMark, Flag, SourceFile
from multitracer.schemas.tcp import DIRECTIONS
from multitracer.tables import NOT_A_TIME, SACK_BLOCKS, SEGMENTS, Table

if TYPE_CHECKING:
    from multitracer.analysis.segments.examination import Examination
    from multitracer.analysis.streaming import StreamLimits
    from multitracer.tables import Array, Row

SPAN = 1 << 29
"""Range of sequence numbers below the highest one that is remembered: half the largest window (RFC 7323, 2.3), so that
the distance of any two segments of a history is unambiguous."""
MOST_HOLES = 256
"""Maximum number of open holes that are remembered in a direction; older ones count as filled. Not measured."""

_NOT_PLAIN = Flag.SYN | Flag.FIN | Flag.RST
_BLANK: Row = dict.fromkeys(SEGMENTS.names, 0) | {"time_ns": NOT_A_TIME, "window": 0xFFFF}
"""Default values of an artificial segment; 0xFFFF is the largest window in a TCP header (RFC 9293, 3.1)."""


@dataclass(slots=True)
class History:
    """Artificial segments that represent the past of several connections, connection after connection."""

    rows: list[Row] = field(default_factory=list)
    options: list[tuple[int, int]] = field(default_factory=list)
    """Index in `rows` of a SYN, and the row of the capture that has its options."""
    number: list[int] = field(default_factory=list)
    """The number of the connection of each row."""

    def capture(self, source: CaptureTables) -> CaptureTables:
        """Return the history as a capture with the files and flows of `source`."""
        columns = {c.name: np.array([row[c.name] for row in self.rows], dtype=c.dtype) for c in SEGMENTS}
        options = source.syn_options
        place = np.searchsorted(options["row"], [row for _, row in self.options])
        taken = options.take(place.astype(np.int64))
        taken.columns["row"] = np.array([index for index, _ in self.options], dtype=np.int64)
        return CaptureTables(source.files, Table(SEGMENTS, columns), source.flows, Table.empty(SACK_BLOCKS), taken)

    def add(self, past: Examination, connection: int, capture: CaptureTables, number: int) -> None:
        """Add the artificial segments of one connection.

        `connection` is its number in the examined group, from 0; `number` is its number in the result.
        """
        group = past.group
        sides = [2 * connection, 2 * connection + 1]
        filled = [side for side in sides if group.bounds[side] < group.bounds[side + 1]]
        filled.sort(key=lambda side: int(group.rows[group.bounds[side]]))
        each = [_Side(past, side, capture) for side in filled]
        before = len(self.rows)
        for side in each:
            other = next((o for o in each if o is not side), None)
            for row, source in side.beginning(other):
                if source is not None:
                    self.options.append((len(self.rows), source))
                self.rows.append(row)
        self.rows += [row for side in each for row in side.covered()]
        self.rows += [side.last() for side in each]
        file = int(capture.segments["file"][min(int(group.rows[group.bounds[side]]) for side in filled)])
        for row in self.rows[before:]:
            row["file"] = file
        self.number += [number] * (len(self.rows) - before)


class _Side:
    """One direction of a connection, whose old segments are replaced by artificial ones."""

    def __init__(self, past: Examination, side: int, capture: CaptureTables) -> None:
        group, axis, coverage = past.group, past.axis, past.coverage
        self._past, self._side, self._capture = past, side, capture
        self._begin, self._end = group.bounds[side : side + 2].tolist()
        self._rows = group.rows[self._begin : self._end]
        self._flow = int(capture.segments["flow"][self._rows[0]])
        first, behind = axis.chunks.bounds[side : side + 2].tolist()
        self._chunks = first, behind
        self.low = self.reach = 0
        if first < behind:
            self.reach = int(coverage.reach[behind - 1])
            self.low = max(int(axis.chunks.start[first:behind].min()), self.reach - SPAN)
        identities = capture.segments["ip_id"][self._rows]
        self._identities = int(identities.min()), int(identities.max())
        self._ack = self._highest_ack()
        last = int(self._rows[-1])
        self._stamps = {name: int(capture.segments[name][last]) for name in ("tsval", "tsecr", "marks")}
        self._stamps["marks"] &= int(CaptureMark.HAS_TIMESTAMPS)
        flags = capture.segments["flags"][self._rows]
        self._syns = _first_syns(flags)
        self._begins_with_syn = bool(opens(flags[self._syns]).any())

    def _row(self, **values: int) -> Row:
        return {**_BLANK, **self._stamps, "flow": self._flow, **values}

    def _sequence(self, unit: int, side: int) -> int:
        axis = self._past.axis
        return (unit - int(axis.reference[side]) + int(axis.reference_seq[side])) & 0xFFFFFFFF

    def _highest_ack(self) -> int | None:
        """Return the highest ACK number that this side sent, as the 32-bit number in the header.

        It is None if no segment has an ACK.
        """
        acks, other = self._past.axis.acks, self._side ^ 1
        first, behind = acks.bounds[other : other + 2].tolist()
        return self._sequence(int(acks.highest[behind - 1]), other) if first < behind else None

    @property
    def first_sequence(self) -> int | None:
        """Return the 32-bit sequence number for the SYN of this side; None if it sent no data, SYN or FIN."""
        return self._sequence(self.low, self._side) if self._chunks[0] < self._chunks[1] else None

    def beginning(self, other: _Side | None) -> list[tuple[Row, int | None]]:
        """Return the artificial SYNs and the highest ACK of this side; `other` is the peer.

        Each item is an artificial segment, and the row of the capture that it represents, or None.
        """
        begins = self._ack or 0
        if other is not None and other.first_sequence is not None:
            begins = (other.first_sequence + 1) & 0xFFFFFFFF
        rows: list[tuple[Row, int | None]] = []
        segments = self._capture.segments
        for place in self._syns:
            source = int(self._rows[place])
            flags = int(segments["flags"][source])
            marks, window = int(segments["marks"][source]), int(segments["window"][source])
            ack = begins if flags & Flag.ACK else 0
            row = self._row(seq=self._sequence(self.low, self._side), ack=ack, flags=flags, marks=marks, window=window)
            rows.append((row, source))
        if self._ack is not None:
            seq = self._sequence(self.reach, self._side)
            row = self._row(seq=seq, ack=self._ack, flags=int(Flag.ACK), ip_id=self._identities[0])
            rows.append((row, None))
        return rows

    def covered(self) -> list[Row]:
        """Return one artificial segment for each range of sequence numbers that this side sent."""
        begin = self.low + self._begins_with_syn
        holes, (first, behind) = self._past.coverage.holes, self._chunks
        own = np.flatnonzero((holes.after >= first) & (holes.after < behind) & (holes.start >= begin))
        own = own[-MOST_HOLES:]
        starts = [begin, *holes.end[own].tolist()]
        ends = [*holes.start[own].tolist(), self.reach]
        flags, ack = (int(Flag.ACK), self._ack) if self._ack is not None else (0, 0)
        return [
            self._row(
                seq=self._sequence(start, self._side),
                ack=ack,
                flags=flags,
                payload_bytes=end - start,
                ip_id=self._identities[1],
            )
            for start, end in zip(starts, ends, strict=True)
            if start < end
        ]

    def last(self) -> Row:
        """Return an artificial copy of the last segment of this side, without payload."""
        group, segments = self._past.group, self._capture.segments
        row, place = int(self._rows[-1]), self._end - 1
        flags, window = int(segments["flags"][row]), int(segments["window"][row])
        seq = (int(segments["seq"][row]) + int(group.units[place])) & 0xFFFFFFFF
        if flags & _NOT_PLAIN:  # it does not tell the window
            window = max(window, 1)
        return self._row(
            seq=seq,
            ack=int(segments["ack"][row]),
            flags=flags & ~int(_NOT_PLAIN),
            window=window,
            ip_id=int(segments["ip_id"][row]),
        )


def _first_syns(flags: Array) -> list[int]:
    """Return up to three indexes: the first segment with a SYN flag, the first SYN, the first SYN-ACK."""
    syn = np.flatnonzero(flags & np.uint16(Flag.SYN))
    begins = syn[opens(flags[syn])]
    answers = (flags[begins] & np.uint16(Flag.ACK)) != 0
    return sorted({int(place[0]) for place in (syn, begins[answers], begins[~answers]) if len(place)})


@dataclass
class Folding:
    """Connections whose segments are counted and then replaced by a few artificial segments.

    `fresh` marks the segments that were not counted before.
    """

    capture: CaptureTables
    parts: Partition
    rows: Array
    """Bool, for all segments of the complete capture: which of them belong to these connections."""
    fresh: Array
    chosen: Array
    """Numbers of these connections in the complete capture."""
    numbers: Array
    closed: Array
    limits: StreamLimits
    _context: Array = field(init=False)

    def __post_init__(self) -> None:
        self.capture = _with_untimed(self.capture)
        self._context = np.zeros(len(self.capture.segments), dtype=bool)

    @cached_property
    def now(self) -> Count:
        """Return the statistics of all stored segments of these connections."""
        return count(self.capture, self.parts, self.fresh)

    @cached_property
    def before(self) -> Count:
        """Return the statistics of those stored segments that were counted before."""
        old, parts = self._rows_alone(~self.fresh)
        return count(old, parts, np.zeros(len(old.segments), dtype=bool))

    @property
    def context(self) -> Array:
        """Which segments of the complete capture stay stored, because later segments may need them: bool."""
        stay = np.zeros(len(self.rows), dtype=bool)
        stay[np.flatnonzero(self.rows)[self._context]] = True
        return stay

    def pasts(self, leaving: Array) -> tuple[CaptureTables, Array]:
        """Return the artificial segments of the connections that stay, and the connection of each segment.

        The real segments that must stay stored are marked in `context`.

        Parameters
        ----------
        leaving : ndarray of int64, shape (n,)
            The connections that leave; none of their segments are kept.
        """
        past = np.zeros(len(self.capture.segments), dtype=bool)
        cell_visits = np.ones(self.parts.connections, dtype=bool)
        cell_visits[leaving] = False
        for connection in np.flatnonzero(cell_visits).tolist():
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
        """Return the row of a connection's first segment that later segments may need."""
        latest = self.limits.closed_rows // 2 if self.closed[connection] else self.limits.context_rows
        awaited = int(self.now.awaited[2 * connection : 2 * connection + 2].min())
        needed = min(awaited, int(rows[-min(latest, len(rows))]))
        return max(needed, int(rows[-min(self.limits.most_context_rows, len(rows))]))

    def steps(self, from_rows: int) -> list[list[list[int]]]:
        """Return the clock steps of each connection, found in its segments that were not counted before.

        Only connections with at least `from_rows` such segments are examined.
        """
        alone = self.parts.order[self.fresh[self.parts.order]]
        bounds = np.searchsorted(np.flatnonzero(self.fresh[self.parts.order]), self.parts.bounds)
        stamped = has(self.capture.segments["marks"], CaptureMark.HAS_TIMESTAMPS)
        columns = blank(2 * self.parts.connections)
        columns["packets"] = np.diff(bounds)
        columns["timestamps"] = np.array(
            [bool(stamped[alone[b:e]].any()) for b, e in pairwise(bounds.tolist())], dtype=bool
        )
        parts = Partition(self.parts.direction, alone, bounds, *(getattr(self.parts, n) for n in _OF_CONNECTION))
        directions, minimum = Table(DIRECTIONS, columns), max(from_rows, MIN_SEGMENTS)
        return [
            steps_of(self.capture, parts, directions, 2 * c).tolist()
            if bounds[2 * c + 2] - bounds[2 * c] > minimum
            else []
            for c in range(parts.connections)
        ]

    def _rows_alone(self, chosen: Array) -> tuple[CaptureTables, Partition]:
        """Return a capture with only the chosen rows, and its partition.

        The partition has all connections, also those without a chosen row; its `first_row` is not adjusted.
        """
        direction = self.parts.direction[chosen]
        bounds = bounds_of(direction, 2 * self.parts.connections)
        columns = (getattr(self.parts, name) for name in _OF_CONNECTION)
        return self.capture.where(chosen), Partition(direction, None, bounds, *columns)


_OF_CONNECTION = ("first_row", "forward_flow", "initiator_by")


def _with_untimed(capture: CaptureTables) -> CaptureTables:
    """Return the capture with an additional file without time stamps, to which artificial segments belong."""
    files = [*capture.files, SourceFile("", "", without_time=1)]
    return CaptureTables(files, capture.segments, capture.flows, capture.sack_blocks, capture.syn_options)
