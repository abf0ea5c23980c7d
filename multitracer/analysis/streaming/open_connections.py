"""Open connections: their segments are stored until the connection closes, or until there are too many.

Rules of the file
-----------------
- A connection leaves in three cases: it is closed (FIN in both directions, or RST) or was never answered, and
  has had no segment for `closed_ns`; it has had no segment for `idle_ns`; or a new connection begins between
  the same endpoints. The current time is the median time of the latest segments.
- A connection is folded if more than `rows` segments are stored in total and it has more than `own_rows` of
  them (more than `closed_rows` if it is closed).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.connections import Partition, answering, assumed, bounds_of, partition, servers
from multitracer.analysis.streaming import StreamLimits
from multitracer.analysis.streaming.aggregated import Aggregated, finish, fold
from multitracer.analysis.streaming.folding import Folding
from multitracer.analysis.tcp import finished_tables, tables_of
from multitracer.analysis.trust import SegmentFacts, busiest_sender, oversized, steps_of
from multitracer.capture import CaptureTables, joined
from multitracer.captured import Flag
from multitracer.schemas.tcp import CONNECTIONS, DIRECTIONS, Initiator
from multitracer.tables import FLOWS, NOT_A_TIME, Table

if TYPE_CHECKING:
    from multitracer.tables import Array

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
