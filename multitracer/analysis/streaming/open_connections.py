"""Open connections: their segments are stored until the connection closes, or until there are too many.

Rules of the file
-----------------
- A connection leaves in three cases: it is closed (FIN in both directions, or RST) or was never answered, and
  has had no segment for `closed_ns`; it has had no segment for `idle_ns`; or a new connection begins between
  the same endpoints. The current time is the median time of the latest segments.
- A connection is folded if more than `rows` segments are stored in total and it has more than `own_rows` of
  them (more than `closed_rows` if it is closed).

Connections are folded: their segments are counted and then replaced by a short history, a few artificial segments that
represent the discarded ones. It contains, in this order: what each direction has covered, without the holes that are
still open; the highest ACK that it sent; its SYN with the options; and its last segment, without payload. None of them
has a time. The steps of the analysis treat them like the past:

- A retransmission lies in the covered ranges; a segment that fills a hole lies between them.
- The ACK comes before these ranges, so it measures no flight; the next ACK measures the flight correctly.
- A round trip needs two times, so none begins or ends in a history.
- The windows are the largest and the timestamps the last ones, so no larger window scale is inferred.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.connections import Partition, answering, assumed, bounds_of, opens, partition, servers
from multitracer.analysis.group import groups, has
from multitracer.analysis.segments.directions import blank
from multitracer.analysis.segments.examination import examine
from multitracer.analysis.streaming import StreamLimits
from multitracer.analysis.streaming.aggregated import Aggregated, Count, count, finish, fold
from multitracer.analysis.tcp import finished_tables, tables_of
from multitracer.analysis.trust import MIN_SEGMENTS, SegmentFacts, busiest_sender, oversized, steps_of
from multitracer.capture import CaptureTables, joined
from multitracer.captured import CaptureMark, Flag, SourceFile
from multitracer.schemas.tcp import CONNECTIONS, DIRECTIONS, Initiator
from multitracer.tables import FLOWS, NOT_A_TIME, SACK_BLOCKS, SEGMENTS, Table

if TYPE_CHECKING:
    from multitracer.analysis.segments.examination import Examination
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


_LATEST = 101
"""Number of latest segments whose median time is the current time: fifty consecutive wrong times do not change it. Not
measured."""
_MOST_SERVERS = 1 << 20
"""Maximum number of endpoints remembered as servers, 8 MB; a scan of a network can produce as many. Not measured."""


class Ended(NamedTuple):
    """The results of connections that ended, with their numbers in the capture.

    Connection i has row i of each table, and rows 2 i and 2 i + 1 of DIRECTIONS.
    """

    connections: Table
    directions: Table
    flows: Table
    """One flow for each connection; `forward_flow` of the connections still shows the initiator."""


@dataclass
class OpenConnections:
    """Reads a capture block by block, and returns the connections that have ended."""

    limits: StreamLimits = field(default_factory=StreamLimits)
    facts: SegmentFacts = field(default_factory=SegmentFacts)
    count: int = 0
    """Number of connections so far."""
    rounded: int = 0
    """Number of connections that left with rounded quantiles of round-trip times."""
    _capture: CaptureTables | None = None
    _number: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _fresh: Array = field(default_factory=lambda: np.empty(0, dtype=bool))
    """Which segments are not counted yet; bool, shape (n_segments,)."""
    _aggregated: dict[int, Aggregated] = field(default_factory=dict)
    _servers: Array = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    _now_ns: int = NOT_A_TIME
    _busiest: int = 0
    """Number of segments of the sender whose timestamps showed the clock steps."""

    def __len__(self) -> int:
        return 0 if self._capture is None else len(self._capture.segments)

    def flows(self) -> Array:
        """Return the flow pairs of which segments are still stored: int64, ascending."""
        return np.unique(self._capture.segments["flow"] >> 1) if self._capture is not None else self._number

    def renumber(self, flows: Table, kept: Array, number: Array) -> None:
        """Change the numbers of flow pairs: pair kept[i] (ascending) becomes pair number[i] of `flows`."""
        if self._capture is not None:
            flow = self._capture.segments["flow"]
            pair = number[np.searchsorted(kept, flow >> 1)]
            self._capture.segments.columns["flow"] = (pair << 1 | flow & 1).astype(np.int32)
            self._capture.flows = flows

    def take_in(self, chunk: CaptureTables) -> Ended:
        """Add the next block of the capture; return the results of the connections that ended."""
        self.facts.add(chunk.segments["marks"])
        known = chunk.segments["time_ns"][-_LATEST:]
        known = known[known != NOT_A_TIME]
        if len(known):
            self._now_ns = max(self._now_ns, int(np.median(known)))
        new = len(chunk.segments)
        if self._capture is not None:
            chunk = joined([self._capture, chunk])
        self._number = np.append(self._number, np.zeros(new, dtype=np.int64))
        self._fresh = np.append(self._fresh, np.ones(new, dtype=bool))
        self._capture = chunk
        return self._sweep(new, last=False)

    def end(self) -> Ended:
        """Return the results of all connections that are still open, at the end of the capture."""
        return self._sweep(0, last=True)

    def _sweep(self, new: int, *, last: bool) -> Ended:
        capture = self._capture
        if capture is None or not len(capture.segments):
            return _nothing()
        self._note_servers(capture, new)
        parts = partition(capture, servers_before=self._servers, begun=self._number > 0)
        connection = parts.direction >> 1
        numbers = self._numbers(parts)
        self._number = numbers[connection]
        goes, closed = self._leaving(capture, parts, numbers, new, last=last)
        aggregated = np.array([n in self._aggregated for n in numbers.tolist()], dtype=bool)
        rows = np.bincount(connection, minlength=parts.connections)
        fold_now = goes & aggregated
        if rows[~goes].sum() > self.limits.rows:
            many = (rows > self.limits.own_rows) | (closed & (rows > self.limits.closed_rows))
            fold_now |= ~goes & many
        ended = [self._ended(capture, parts, numbers, np.flatnonzero(goes & ~aggregated))]
        cell_visits = ~goes & ~fold_now
        held, kept = [], cell_visits[connection]
        if fold_now.any():
            folding = self._fold(capture, parts, numbers, np.flatnonzero(fold_now), closed)
            ended.append(self._finish(folding, goes))
            held.append(folding.pasts(np.flatnonzero(goes[folding.chosen])))
            kept |= folding.context
            self._fresh &= ~folding.context
        self._hold(capture, kept, held)
        return _together(ended)

    def _hold(self, capture: CaptureTables, kept: Array, histories: list[tuple[CaptureTables, Array]]) -> None:
        """Store the `kept` segments, after the artificial segments that represent discarded ones."""
        before = [len(history.segments) for history, _ in histories]
        self._capture = joined([*(history for history, _ in histories), capture.where(kept)])
        self._number = np.concatenate([*(number for _, number in histories), self._number[kept]])
        self._fresh = np.append(np.zeros(sum(before), dtype=bool), self._fresh[kept])

    def _numbers(self, parts: Partition) -> Array:
        """Return the number of each connection, from 1, in the order of their first segments."""
        numbers = self._number[parts.first_row]
        new = np.flatnonzero(numbers == 0)
        numbers[new] = self.count + 1 + np.arange(len(new))
        self.count += len(new)
        return numbers

    def _note_servers(self, capture: CaptureTables, new: int) -> None:
        flow, flags = (capture.segments[name][len(capture.segments) - new :] for name in ("flow", "flags"))
        if len(self._servers) < _MOST_SERVERS:
            self._servers = np.union1d(self._servers, servers(capture.flows, answering(flow, flags)))

    def _leaving(
        self, capture: CaptureTables, parts: Partition, numbers: Array, new: int, *, last: bool
    ) -> tuple[Array, Array]:
        """Return two masks over the connections: which of them are removed now, and which are closed.

        "Closed" includes connections that were never answered.
        """
        time_ns, flags = capture.segments["time_ns"], capture.segments["flags"]
        connection = parts.direction >> 1
        latest = np.full(parts.connections, NOT_A_TIME)
        np.maximum.at(latest, connection, time_ns)
        ends = np.zeros((2 * parts.connections, 2), dtype=bool)
        for i, flag in enumerate((Flag.FIN, Flag.RST)):
            ends[parts.direction[np.flatnonzero(flags & np.uint16(flag))], i] = True
        for c, number in enumerate(numbers.tolist()):
            if aggregated := self._aggregated.get(number):
                turn = int(parts.forward_flow[c]) & 1
                for i, name in enumerate(("fin", "rst")):
                    ends[2 * c : 2 * c + 2, i] |= (aggregated.columns[name] > 0)[[turn, turn ^ 1]]
        fin, rst = (ends[:, i].reshape(-1, 2) for i in (0, 1))
        closed = fin.all(axis=1) | rst.any(axis=1) | _attempts(flags, parts)
        if last:
            return np.ones(parts.connections, dtype=bool), closed
        timed = latest != NOT_A_TIME
        idle_ns = np.where(timed, self._now_ns - np.where(timed, latest, 0), 0)
        seen_now = np.zeros(parts.connections, dtype=bool)
        seen_now[connection[len(time_ns) - new :]] = True
        over = (idle_ns > self.limits.idle_ns) | (closed & (idle_ns > self.limits.closed_ns))
        return _followed(parts) | (~seen_now & (over | ~timed)), closed

    def _ended(self, capture: CaptureTables, parts: Partition, numbers: Array, chosen: Array) -> Ended:
        """Return the results of connections whose segments are all stored."""
        if not len(chosen):
            return _nothing()
        part, own, _ = part_of(capture, parts, chosen)
        connections, directions = tables_of(part, own)
        self.facts.oversized += oversized(part.segments["payload_bytes"], own.direction, directions["mss_bytes"])
        busiest, packets = busiest_sender(directions)
        if packets > self._busiest:
            self._busiest = packets
            self.facts.steps = steps_of(part, own, directions, busiest)
        return _of(connections, directions, part, numbers[chosen])

    def _fold(self, capture: CaptureTables, parts: Partition, numbers: Array, chosen: Array, closed: Array) -> Folding:
        """Count the segments of the chosen connections that were not counted before.

        After this, these segments can be discarded.
        """
        part, own, mask = part_of(capture, parts, chosen)
        folding = Folding(part, own, mask, self._fresh[mask], chosen, numbers[chosen], closed[chosen], self.limits)
        now = folding.now
        aggregated = [self._aggregated.setdefault(n, Aggregated.empty()) for n in folding.numbers.tolist()]
        fold(aggregated, now, folding.before, folding.capture, own, folding.fresh)
        fresh = np.flatnonzero(folding.fresh)
        payload = part.segments["payload_bytes"][fresh]
        self.facts.oversized += oversized(payload, own.direction[fresh], now.columns["mss_bytes"])
        for each, steps in zip(aggregated, folding.steps(self.limits.own_rows), strict=True):
            each.steps_ns += steps
        return folding

    def _finish(self, folding: Folding, goes: Array) -> Ended:
        """Return the results of those connections of `folding` that are removed now (`goes`)."""
        chosen = np.flatnonzero(goes[folding.chosen])
        if not len(chosen):
            return _nothing()
        part, own, _ = part_of(folding.capture, folding.parts, chosen)
        aggregated = [self._aggregated.pop(n) for n in folding.numbers[chosen].tolist()]
        self._assume(part, own, aggregated)
        each = [finish(f, int(own.forward_flow[c]) & 1, part) for c, f in enumerate(aggregated)]
        columns = {name: np.concatenate([c[name] for c, _ in each]) for name in DIRECTIONS.names}
        acknowledged = np.concatenate([a for _, a in each])
        connections, directions = finished_tables(part, own, columns, acknowledged)
        self.rounded += sum(any(way.round_trips.is_rounded for way in f.ways) for f in aggregated)
        for c, f in enumerate(aggregated):
            packets = busiest_sender(directions.take(slice(2 * c, 2 * c + 2)))[1]
            if packets > self._busiest:
                self._busiest, self.facts.steps = packets, np.array(f.steps_ns, dtype=np.int64).reshape(-1, 2)
        return _of(connections, directions, part, folding.numbers[chosen])

    def _assume(self, capture: CaptureTables, own: Partition, aggregated: list[Aggregated]) -> None:
        """Determine the initiator of connections without SYN again, in place.

        The statistics are used, since the artificial segments do not show how much payload was sent.
        """
        late = np.flatnonzero(own.initiator_by != Initiator.HANDSHAKE)
        if len(late):
            first = capture.segments["flow"][own.first_row[late]]
            sent = np.array([aggregated[c].columns["payload_bytes"] for c in late.tolist()], dtype=np.float64)
            own.forward_flow[late], own.initiator_by[late] = assumed(capture, first, sent, self._servers)


def _followed(parts: Partition) -> Array:
    """Return which connections are followed by a later connection between the same endpoints: bool."""
    pair = parts.forward_flow >> 1
    last = np.zeros(int(pair.max()) + 1, dtype=np.int64)
    last[pair] = np.arange(len(pair))  # of several the last one is written last
    followed: Array = last[pair] > np.arange(len(pair))
    return followed


def _attempts(flags: Array, parts: Partition) -> Array:
    """Return which connections consist only of SYNs from one endpoint: they were never answered."""
    syn = np.bincount(parts.direction[np.flatnonzero(flags & np.uint16(Flag.SYN))], minlength=2 * parts.connections)
    packets = np.diff(parts.bounds)
    one_sided = packets.reshape(-1, 2).min(axis=1) == 0
    attempts: Array = one_sided & (syn == packets).reshape(-1, 2).all(axis=1)
    return attempts


def part_of(capture: CaptureTables, parts: Partition, chosen: Array) -> tuple[CaptureTables, Partition, Array]:
    """Return the segments of some connections, their partition, and their rows in the capture.

    Parameters
    ----------
    capture, parts : Capture, Partition
    chosen : ndarray of int64, shape (n_chosen,), ascending
        Numbers of connections, from 0.
    """
    place = np.full(parts.connections, -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    connection = place[parts.direction >> 1]
    mask = connection >= 0
    direction = (2 * connection[mask] + (parts.direction[mask] & 1)).astype(np.int32)
    row = np.cumsum(mask) - 1
    columns = (parts.forward_flow[chosen], parts.initiator_by[chosen])
    bounds = bounds_of(direction, 2 * len(chosen))
    own = Partition(direction, None, bounds, row[parts.first_row[chosen]], *columns)
    return capture.where(mask), own, mask


def _nothing() -> Ended:
    return Ended(Table.empty(CONNECTIONS), Table.empty(DIRECTIONS), Table.empty(FLOWS))


def _of(connections: Table, directions: Table, capture: CaptureTables, numbers: Array) -> Ended:
    connections.columns["connection"] = numbers.astype(np.int32)
    directions.columns["connection"] = np.repeat(numbers, 2).astype(np.int32)
    return Ended(connections, directions, capture.flows.take(connections["forward_flow"] >> 1))


def _together(ended: list[Ended]) -> Ended:
    """Return the results of several `Ended` in one, sorted by the number of the connection."""
    tables = [
        Table.concatenate(schema, list(each))
        for schema, each in zip((CONNECTIONS, DIRECTIONS, FLOWS), zip(*ended, strict=True), strict=True)
    ]
    order = np.argsort(tables[0]["connection"], kind="stable")
    ways = np.stack([2 * order, 2 * order + 1], axis=1).ravel()
    return Ended(tables[0].take(order), tables[1].take(ways), tables[2].take(order))
