"""Analysis of every TCP connection of a capture: the entry point of this package."""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.connections import Partition, bounds_of, opens, partition
from multitracer.analysis.group import SegmentGroup, groups, has
from multitracer.analysis.segments import compiled
from multitracer.analysis.segments.directions import announce, blank, count_groups, own
from multitracer.analysis.segments.in_chunks import WalkedConnection, chunks, walked
from multitracer.analysis.segments.segment_rows import Connections
from multitracer.analysis.series.rtt import rtt_samples, rtt_samples_of, rtts_ns_of
from multitracer.analysis.trust import facts_of, trust_of
from multitracer.captured import Flag
from multitracer.endpoints import Endpoints, endpoint_columns, endpoints_of, flows_with, vlan_text
from multitracer.errors import InputError
from multitracer.schemas.tcp import CONNECTIONS, DIRECTIONS, TCP_SACK_BLOCKS, Close, Vantage
from multitracer.tables import NOT_A_TIME, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.analysis.trust import SegmentFacts, Trust
    from multitracer.capture import CaptureTables
    from multitracer.endpoints import EndpointColumns
    from multitracer.tables import Array


class PreparedConnection(NamedTuple):
    """The results for one of many connections that were computed together."""

    segments: Table
    """TCP_SEGMENTS."""
    samples: Table | None
    """RTT_SAMPLES, wherever the capture was made; None with SACK blocks, which measure, too."""


@dataclass
class Analysis:
    """The connections of a capture, and the results for each of their segments.

    Attributes
    ----------
    capture : CaptureTables
    partition : Partition
        Partition of the segments; empty if these were counted but not stored.
    connections : Table
        CONNECTIONS; row n - 1 is connection n.
    directions : Table
        DIRECTIONS; rows 2 (n - 1) and 2 (n - 1) + 1 are those of connection n.
    facts : SegmentFacts, optional
        Facts that were counted from the segments; by default they are computed on demand.
    """

    capture: CaptureTables
    partition: Partition
    connections: Table
    directions: Table
    facts: SegmentFacts | None = None
    _last: tuple[int, Connections] | None = field(default=None, init=False, repr=False)
    _last_walked: tuple[int, WalkedConnection | None] | None = field(default=None, init=False, repr=False)
    _prepared: dict[int, PreparedConnection] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def trust(self) -> Trust:
        """How far the capture can be trusted (`Trust`): a verdict with its reasons."""
        facts = self.facts
        if facts is None:
            facts = facts_of(self.capture, self.partition, self.directions)
        return trust_of(self.capture.files, facts, self.connections, self.directions)

    def endpoints(self, begin: int = 0, end: int | None = None) -> list[Endpoints]:
        """Return the endpoints of the connections in rows `begin` to `end` - 1 (from 0), by default all."""
        return endpoints_of(self.capture.flows, self.connections["forward_flow"][begin:end])

    def endpoint_columns(self, begin: int, end: int) -> EndpointColumns:
        """Return the endpoints of the connections in rows `begin` to `end` - 1 (from 0) as columns."""
        return endpoint_columns(self.capture.flows, self.connections["forward_flow"][begin:end])

    def ends(self, connection: int) -> Endpoints:
        """Return the endpoints of connection `connection` (from 1)."""
        index = self._index(connection)
        return self.endpoints(index, index + 1)[0]

    def vlan(self, connection: int) -> str | None:
        """Return the VLAN ids of connection `connection` (from 1), joined by dots; None if untagged."""
        flow = int(self.connections["forward_flow"][self._index(connection)])
        return vlan_text(int(self.capture.flows["vlan"][flow >> 1]))

    def with_endpoint(self, host: str, port: int) -> list[int]:
        """Return the numbers of the connections that have this endpoint, on either side."""
        fitting = flows_with(self.capture.flows, host, port)
        rows = np.flatnonzero(fitting[self.connections["forward_flow"] >> 1])
        return [int(row) + 1 for row in rows]

    def unique_bytes(self) -> Array:
        """Return the unique bytes of each connection, both directions together; int64, shape (n,)."""
        unique = self.directions["unique_bytes"]
        both: Array = unique[0::2] + unique[1::2]
        return both

    def bulk_direction(self, connection: int) -> bool:
        """Return whether the responder of a connection (from 1) sent more bytes than the initiator.

        Bytes that were sent several times count once.
        """
        return bool(self.connections["bulk_direction"][self._index(connection)])

    def tcp_segments(self, connection: int) -> Table:
        """Return TCP_SEGMENTS of connection `connection` (from 1): the results for each segment."""
        if connection in self._prepared:
            return self._prepared[connection].segments
        own = self._walked(connection)
        return self._examined(connection).segments() if own is None else own.segments

    def sack_blocks(self, connection: int) -> Table:
        """Return TCP_SACK_BLOCKS of connection `connection` (from 1); `row` is the row in `tcp_segments`."""
        if connection in self._prepared and self._prepared[connection].samples is not None:
            return Table.empty(TCP_SACK_BLOCKS)
        is_without = self._walked(connection) is not None  # of a connection that has some it is None
        return Table.empty(TCP_SACK_BLOCKS) if is_without else self._examined(connection).sack_blocks()

    def untranslated(self, connection: int) -> Array:
        """Return the rows in `tcp_segments` whose SACK blocks a middlebox did not translate (int64)."""
        is_without = self._walked(connection) is not None
        return np.empty(0, dtype=np.int64) if is_without else self._examined(connection).untranslated

    def rtt_samples(self, connection: int) -> Table:
        """Return RTT_SAMPLES of connection `connection` (from 1): exact ACKs, timestamp echoes and SACKs.

        A direction has no samples if the capture was made near its receiver: they would not be round trips.
        """
        prepared = self._prepared.get(connection)
        samples = None if prepared is None else prepared.samples
        if samples is None:
            own = self._walked(connection)
            samples = rtt_samples(self._examined(connection)) if own is None else rtt_samples_of(own)
        ways = self.directions["vantage"][2 * connection - 2 : 2 * connection]
        here = ways == Vantage.NEAR_RECEIVER
        return samples.take(~here[samples["reverse"].astype(np.int64)]) if here.any() else samples

    def shortest_rtt_ns(self, connection: int, *, reverse: bool) -> int | None:
        """Return the minimum RTT above 0 of a direction in `rtt_samples`, ns; None without a sample."""
        own, way = self._walked(connection), 2 * (connection - 1) + reverse
        if own is None:
            samples = self.rtt_samples(connection)
            rtt = samples["rtt_ns"][samples["reverse"] == reverse]
        elif self.directions["vantage"][way] == Vantage.NEAR_RECEIVER:
            return None
        else:
            rtt = rtts_ns_of(own, reverse=reverse)
        rtt = rtt[rtt > 0]
        return int(rtt.min()) if len(rtt) else None

    def forget(self) -> None:
        """Free the memory of the results cached for the last connection, and of those that were prepared."""
        self._last = self._last_walked = None
        self._prepared = {}

    def flow_of(self, connection: int) -> tuple[int, int]:
        """Return the flow (pair of endpoints) of connection `connection` (from 1), and its segment count."""
        flows = self.connections["forward_flow"] >> 1
        flow = int(flows[self._index(connection)])
        return flow, int(self.connections["segments"][flows == flow].sum())

    def with_flow(self, connection: int, capture: CaptureTables) -> Analysis:
        """Return an analysis in which the segments of one connection are available.

        It is this analysis itself if the segments are already stored.

        Parameters
        ----------
        connection : int
            Number of the connection; the segments of other connections are not available.
        capture : CaptureTables
            All segments of its flow.
        """
        index, forward_flow = self._index(connection), self.connections["forward_flow"]
        same = np.flatnonzero(forward_flow >> 1 == forward_flow[index] >> 1)
        if len(same) > 1:
            number = partition(capture).direction >> 1
            capture = capture.where(number == np.searchsorted(same, index))
        direction = 2 * np.int32(index) + (capture.segments["flow"] ^ forward_flow[index])
        bounds = bounds_of(direction, 2 * len(self.connections))
        first_row = np.zeros(len(self.connections), dtype=np.int64)  # the others have none
        parts = Partition(direction, None, bounds, first_row, forward_flow, self.connections["initiator_by"])
        analysis = copy(self)
        analysis.capture, analysis.partition = capture, parts
        analysis.forget()
        return analysis

    def examined(self, index: Array) -> Iterator[tuple[Array, Connections]]:
        """Yield connections in groups, with the results for their segments.

        Parameters
        ----------
        index : ndarray of int64, shape (n_chosen,)
            Numbers of connections, from 0.

        Yields
        ------
        own : ndarray of int64, shape (n_group,)
            The numbers of these connections: the next items of `index`.
        connections : Connections
        """
        chosen = self.partition.chosen(index)
        for group in groups(self.capture, chosen):
            begin = group.first_direction >> 1
            own = index[begin : begin + (group.directions >> 1)]
            shift = self._shift.reshape(-1, 2)[own].ravel()
            yield own, Connections(self.capture, group, shift)

    def prepare(self, index: Array) -> Iterator[tuple[Array, Table, Table, Array]]:
        """Compute `tcp_segments` and `rtt_samples` of many short connections together, and keep them.

        Round trips of a connection with SACK blocks are left out.
        Computed alone, a connection of ten segments takes as long as one of a thousand.

        Parameters
        ----------
        index : ndarray of int64, shape (n_chosen,)
            Numbers of connections, from 0, ascending.

        Yields
        ------
        chosen : ndarray of int64, shape (n_group,)
            The numbers of some of these connections.
        segments, sacks : Table
            TCP_SEGMENTS and TCP_SACK_BLOCKS of these, one after the other.
        bounds : ndarray of int64, shape (n_group + 1,)
            Connection chosen[i] has rows bounds[i]:bounds[i + 1] of `segments`.
        """
        for chosen, examined in self.examined(index):
            segments, sacks, bounds = examined.segments(), examined.sack_blocks(), examined.bounds
            samples, ends = rtt_samples(examined), bounds.tolist()
            blocks, parts = (np.searchsorted(each, bounds) for each in (sacks["row"], samples["answer_row"]))
            has_blocks, parts = (np.diff(blocks) > 0).tolist(), parts.tolist()
            for i, number in enumerate(chosen.tolist()):
                mine = samples.take(slice(*parts[i : i + 2]))
                mine.columns |= {name: mine[name] - ends[i] for name in ("row", "answer_row")}
                known = None if has_blocks[i] else mine
                self._prepared[number + 1] = PreparedConnection(segments.take(slice(*ends[i : i + 2])), known)
            yield chosen, segments, sacks, bounds

    def segments_in_chunks(self, index: Array, rows: int) -> Iterator[tuple[Array, Table]]:
        """Yield TCP_SEGMENTS of connections in blocks of about `rows` rows.

        Parameters
        ----------
        index : ndarray of int64, shape (n_chosen,)
            Numbers of connections, from 0.
        rows : int

        Yields
        ------
        own : ndarray of int64, shape (n_rows,)
            Number of the connection of each row, from 0.
        segments : Table
        """
        shift = self._shift.reshape(-1, 2)[index].ravel()
        for place, table in chunks(self.capture, self.partition.chosen(index), shift, rows):
            yield index[place], table

    def _walked(self, connection: int) -> WalkedConnection | None:
        """Return the results of a long connection that the native kernel computes without Python.

        They are cached. The result is None if the kernel leaves the connection to Python.
        """
        index = self._index(connection)
        if self._last_walked is None or self._last_walked[0] != index:
            shift = self._shift[2 * index : 2 * index + 2]
            self._last_walked = index, walked(self.capture, self.partition, index, shift)
        return self._last_walked[1]

    def _examined(self, connection: int) -> Connections:
        index = self._index(connection)
        if self._last is None or self._last[0] != index:
            sides = 2 * index, 2 * index + 2
            group = SegmentGroup.of(self.capture, self.partition, *sides)
            self._last = index, Connections(self.capture, group, self._shift[slice(*sides)])
        return self._last[1]

    @cached_property
    def _shift(self) -> Array:
        """Window shift of each direction, bits."""
        return np.asarray(self.directions["window_shift"], dtype=np.int64)

    def _index(self, connection: int) -> int:
        if not 1 <= connection <= len(self.connections):
            raise InputError(
                f"connection {connection} does not exist; the number of connections in this capture "
                f"is {len(self.connections)}"
            )
        return connection - 1


def analyse(capture: CaptureTables) -> Analysis:
    """Return the analysis of every TCP connection of a capture.

    A capture in memory is counted like a stream of one block: `streaming.OpenConnections` also uses
    `tables_of` for its closed connections.

    Parameters
    ----------
    capture : CaptureTables
        The segments of one capture point, in capture order.

    Returns
    -------
    Analysis
    """
    parts = partition(capture)
    return Analysis(capture, parts, *tables_of(capture, parts))


def tables_of(capture: CaptureTables, parts: Partition) -> tuple[Table, Table]:
    """Return CONNECTIONS and DIRECTIONS of the connections of a partition, numbered from 1.

    All segments of the connections must be present.
    """
    return finished_tables(capture, parts, *counted_columns(capture, parts))


def counted_columns(capture: CaptureTables, parts: Partition) -> tuple[dict[str, Array], Array]:
    """Return the columns of DIRECTIONS, and which directions had their first sequence number acknowledged."""
    columns, acknowledged = blank(2 * parts.connections), np.zeros(2 * parts.connections, dtype=bool)
    left = compiled.count(columns, acknowledged, capture, parts)
    if left is not None and not len(left):
        return columns, acknowledged
    announced = blank(2 * parts.connections)
    announce(announced, capture, parts)
    if left is None or len(left) == parts.connections:
        deque(count_groups(announced, acknowledged, capture, parts), maxlen=0)  # to the end
        return announced, acknowledged
    sides = np.stack([2 * left, 2 * left + 1], axis=1).ravel()
    some, answered = {name: values[sides] for name, values in announced.items()}, acknowledged[sides]
    deque(count_groups(some, answered, capture, parts.chosen(left)), maxlen=0)  # as above
    own(columns, *columns)
    acknowledged[sides] = answered
    for name, values in some.items():
        columns[name][sides] = values
    return columns, acknowledged


def finished_tables(
    capture: CaptureTables, parts: Partition, columns: dict[str, Array], acknowledged: Array
) -> tuple[Table, Table]:
    """Return CONNECTIONS and DIRECTIONS from the counts of each direction.

    Parameters
    ----------
    capture : CaptureTables
    parts : Partition
    columns : dict of str to ndarray, each of shape (2 n_connections,)
        The columns of DIRECTIONS; `connection` and `reverse` are written here.
    acknowledged : ndarray of bool, shape (2 n_connections,)
        Directions whose first sequence number was acknowledged.
    """
    rows = np.flatnonzero(opens(capture.segments["flags"]))
    is_answer = has(capture.segments["flags"][rows], Flag.ACK)
    sent = np.zeros((2, 2 * parts.connections), dtype=bool)
    for answers in (False, True):
        sent[int(answers), parts.direction[rows[is_answer == answers]]] = True
    file = capture.segments["file"][parts.first_row]
    began = Began(file, parts.forward_flow, parts.initiator_by, sent[0], sent[1])
    return tables_by(began, columns, acknowledged)


class Began(NamedTuple):
    """How connections began; arrays of shape (n,), the last two of shape (2 n,)."""

    file: Array
    forward_flow: Array
    initiator_by: Array
    syn_sent: Array
    """Which directions have a SYN that is not a SYN-ACK."""
    answer_sent: Array


def tables_by(began: Began, columns: dict[str, Array], acknowledged: Array) -> tuple[Table, Table]:
    """Return CONNECTIONS and DIRECTIONS from counts; parameters are those of `finished_tables`."""
    connections = len(began.forward_flow)
    columns["connection"].reshape(-1, 2)[:] = np.arange(1, connections + 1, dtype=np.int32)[:, None]
    columns["reverse"][1::2] = True
    directions = Table(DIRECTIONS, columns)
    return _connections(began, directions, acknowledged), directions


def _connections(began: Began, directions: Table, acknowledged: Array) -> Table:
    packets = directions["packets"].reshape(-1, 2)
    last, unique = (directions[name].reshape(-1, 2) for name in ("last_ns", "unique_bytes"))
    opened, answered = began.syn_sent[0::2], began.answer_sent[1::2]
    columns = {
        "connection": np.arange(1, len(packets) + 1, dtype=np.int32),
        "file": began.file,
        "forward_flow": began.forward_flow,
        "start_ns": _starts(directions["first_ns"].reshape(-1, 2)),
        "end_ns": last.max(axis=1),
        "segments": packets[:, 0] + packets[:, 1],
        "syn_seen": opened,
        "initiator_by": began.initiator_by,
        "handshake_seen": opened & answered & acknowledged.reshape(-1, 2).all(axis=1),
        "close": _closes(directions),
        "bulk_direction": (unique[:, 1] > unique[:, 0]).astype(np.uint8),
    }
    return Table(CONNECTIONS, columns)


def _starts(first_ns: Array) -> Array:
    """Return the earlier of the two times of each connection; the known one if the other is unknown."""
    forward, reverse = first_ns[:, 0], first_ns[:, 1]
    starts = forward.copy()
    np.minimum(forward, reverse, out=starts, where=reverse != NOT_A_TIME)
    np.copyto(starts, reverse, where=forward == NOT_A_TIME)
    return starts


def _closes(directions: Table) -> Array:
    fin, rst = (directions[name].reshape(-1, 2) > 0 for name in ("fin", "rst"))
    ways = np.array([Close.OPEN, Close.FIN_ONE_WAY, Close.FIN_BOTH_WAYS], dtype=np.uint8)[fin.sum(axis=1)]
    return np.where(rst.any(axis=1), np.uint8(Close.RESET), ways)
