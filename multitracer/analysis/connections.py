"""Assignment of segments to connections, and the initiator of each connection.

Rules of the file
-----------------
- A flow (two endpoints in one VLAN) holds one connection until a segment begins a new one. Such a segment is
  a SYN whose sequence number differs from its sender's initial sequence number, or such a SYN-ACK while no
  SYN of the other endpoint is known. A SYN with the same number is a retransmission.
- A sender's initial sequence number is that of its SYN; without a SYN, its first sequence number minus 1;
  without any segment, the first acknowledgment number of the other endpoint minus 1. These are the rules of
  tshark 4.0 (packet-tcp.c), which FIN and RST do not change; a SYN-ACK alone never begins a connection there.
- A SYN with RST or FIN begins no connection: no stack answers such a segment.
- The initiator is the sender of the first SYN, else the receiver of the first SYN-ACK. Without both it is
  assumed, by the first rule below that distinguishes the two endpoints.

Rules of an assumed initiator
-----------------------------
- An endpoint (address, port, VLAN) that sent a SYN-ACK in another connection of the capture is a server.
- The port with the lower rank is the server's: well-known (below 1024, RFC 6335), then those above that
  servers are known to listen on, then the others below 32768, then the ephemeral ports of clients: formerly
  1024 to 5000 (BSD, Windows XP, Linux 2.2), today from 32768 (Linux) or 49152 (RFC 6335). From port 20 a
  server opens connections itself (RFC 959, 3.2).
- The endpoint that sent less payload is the client.
- The sender of the first segment is the initiator.

TCP options do not help: those that only one side sends first (MSS, window scale, SACK permitted) are in SYN
and SYN-ACK only, and both sides send timestamps and SACK blocks alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct, spans
from multitracer.captured import Flag
from multitracer.schemas.tcp import Initiator

if TYPE_CHECKING:
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array, Table

_FTP_DATA = 20  # RFC 959, 3.2
_WELL_KNOWN, _LAST_OLD_EPHEMERAL, _FIRST_EPHEMERAL = 1024, 5000, 32768
"""End of the well-known ports (RFC 6335, section 6), end of the ephemeral range of old BSD, and start of that of Linux
(ip_local_port_range)."""
_LISTENED_ON = (
    1080, 1194, 1433, 1521, 1723, 1883, 1935, 2049, 2181, 3128, 3268, 3306, 3389, 3478, 4433, 5000,
    5001, 5060, 5201, 5222, 5223, 5228, 5432, 5555, 5671, 5672, 5900, 5984, 6379, 6443, 6667, 7000,
    8000, 8008, 8009, 8080, 8081, 8086, 8088, 8333, 8443, 8883, 8888, 9000, 9001, 9042, 9090, 9092,
    9100, 9200, 9418, 9999, 10_000, 11_211, 25_565, 27_017,
)  # fmt: skip
"""Ports above 1023 that IANA registers for a service, or that services typically use: proxies, databases, mail of
phones, measurements."""
_UNTOLD = np.int8(-1)  # neither side: both have the same rank
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, the multiplier of a hash: it spreads neighbouring numbers (Knuth, TAOCP 3, 6.4)."""


def _ranks() -> Array:
    """Return a rank for each of the 65536 ports: the higher it is, the less likely a server listens there."""
    rank = np.full(1 << 16, 4, dtype=np.int8)
    rank[:_FIRST_EPHEMERAL] = 2
    rank[: _LAST_OLD_EPHEMERAL + 1] = 3
    rank[list(_LISTENED_ON)] = 1
    rank[:_WELL_KNOWN] = 0
    rank[_FTP_DATA] = 5
    return rank


_RANK = _ranks()


def assumed(capture: CaptureTables, forward_flow: Array, sent_bytes: Array, answered: Array) -> tuple[Array, Array]:
    """Return the initiator of each connection whose beginning was not captured, and the rule that decided.

    The initiator is given as the directed flow of the segments that it sent.

    Parameters
    ----------
    capture : CaptureTables
    forward_flow : int32, shape (n,)
        Of each connection whose beginning was not captured, the directed flow of its first segment.
    sent_bytes : float64, shape (n, 2)
        Payload that endpoints a and b of the connection sent.
    answered : uint64, shape (k,)
        Hashes of the endpoints that sent a SYN-ACK, as returned by `servers`.

    Returns
    -------
    flow : int32, shape (n,)
    basis : uint8, shape (n,)
        The rule, a value of `Initiator`.
    """
    pair = forward_flow >> 1
    flow, basis = forward_flow.copy(), np.full(len(pair), Initiator.FIRST_SENDER, dtype=np.uint8)
    rules = (
        (Initiator.DATA, _less(sent_bytes[:, 0], sent_bytes[:, 1])),
        (Initiator.PORTS, _by_ports(capture.flows, pair)),
        (Initiator.OTHER_CONNECTIONS, _by_answers(capture.flows, pair, answered)),
    )
    for rule, side in rules:  # the strongest last
        tells = side != _UNTOLD
        flow[tells] = 2 * pair[tells] + side[tells]
        basis[tells] = rule
    return flow, basis


def _less(of_a: Array, of_b: Array) -> Array:
    """Return which endpoint has the smaller value: 0 for a, 1 for b, -1 if they are equal."""
    return np.where(of_a == of_b, _UNTOLD, (of_b < of_a).astype(np.int8))


def _by_ports(flows: Table, pair: Array) -> Array:
    return _less(-_RANK[flows["port_a"][pair]], -_RANK[flows["port_b"][pair]])


def servers(flows: Table, answering: Array) -> Array:
    """Return the hashes of the endpoints that sent the directed flows `answering`.

    Returns
    -------
    ndarray of uint64, shape (n_servers,), ascending
    """
    return distinct(np.where(answering & 1, *(_names(flows, answering >> 1, end) for end in "ba")))


def _by_answers(flows: Table, pair: Array, names: Array) -> Array:
    """Return the client of each pair if exactly one endpoint is a server: 0 for a, 1 for b, -1 otherwise.

    A server is an endpoint that sent a SYN-ACK in another connection.
    """
    is_server = [np.isin(_names(flows, pair, end), names) for end in "ab"]
    return _less(*is_server)


def _names(flows: Table, pair: Array, end: str) -> Array:
    """Return a 64-bit hash of the address, port and VLAN of an endpoint of each flow: uint64."""
    address = np.ascontiguousarray(flows[f"address_{end}"][pair]).view(np.uint64).reshape(-1, 2)
    name = flows[f"port_{end}"][pair].astype(np.uint64)
    for part in (address[:, 0], address[:, 1], flows["vlan"][pair].astype(np.uint64)):
        name = (name ^ part) * _MIX
        name ^= name >> np.uint64(29)
    return name


_BEGIN, _BEGIN_AND_END = np.uint16(Flag.SYN), np.uint16(Flag.SYN | Flag.RST | Flag.FIN)
_BLOCK_ROWS = 1 << 16
"""Number of rows that are processed together, so that temporary arrays stay in the processor's cache."""


_SORTED_ROWS = 1 << 18
"""Number of rows that are sorted together: NumPy needs 18 bytes a row for it, the result 8. Not measured."""
_LARGE_SHARE = 8
"""A connection is large if it has at least 1/8 of all segments: there are at most eight such connections."""


@dataclass(slots=True)
class Partition:
    """The segments of a capture, grouped by connection and direction.

    Direction 2 c has the segments that the initiator of connection c (from 0) sent, direction 2 c + 1 those
    of the responder.
    """

    direction: Array
    """int32, shape (n_segments,): the direction of each segment."""
    _order: Array | None
    """The cached result of `order`; a summary by the native kernel does not need it."""
    bounds: Array
    """int64, shape (2 n_connections + 1,): direction d is order[bounds[d]:bounds[d + 1]]."""
    first_row: Array
    """int64, shape (n_connections,): the first row of each connection."""
    forward_flow: Array
    """int32, shape (n_connections,): the directed flow of the initiator's segments."""
    initiator_by: Array
    """uint8, shape (n_connections,): how the initiator was determined (`Initiator`)."""

    @classmethod
    def empty(cls) -> Partition:
        """Return a partition without segments, for segments that were counted but not stored."""
        return cls(*(np.empty(0, dtype=np.int64) for _ in range(6)))

    @property
    def connections(self) -> int:
        """The number of connections."""
        return len(self.first_row)

    @property
    def order(self) -> Array:
        """The rows sorted by direction, each direction in capture order: int64, shape (n_segments,)."""
        if self._order is None:
            self._order = _grouped(self.direction, self.bounds)
        return self._order

    def rows_sent(self, direction: int) -> Array:
        """Return the rows of one direction in capture order: int64, shape (n_segments_of_it,)."""
        if self._order is None:
            return np.flatnonzero(self.direction == direction)
        return self._order[self.bounds[direction] : self.bounds[direction + 1]]

    def rows_between(self, first: int, last: int) -> Array:
        """Return the rows of directions `first` to `last` - 1, direction after direction.

        For one large connection or direction the rows are searched directly, unless `order` was already computed.
        """
        begin, end = self.bounds[[first, last]].tolist()
        is_large = last - first <= 2 and (end - begin) * _LARGE_SHARE > len(self.direction)
        if self._order is None and is_large:
            return np.concatenate([self.rows_sent(direction) for direction in range(first, last)])
        return self.order[begin:end]

    def rows_of(self, connection: int) -> Array:
        """Return the rows of a connection (from 0) in capture order."""
        return np.sort(self.order[self.bounds[2 * connection] : self.bounds[2 * connection + 2]])

    def chosen(self, connections: Array) -> Partition:
        """Return a partition with only the given connections.

        Its array `direction` still has an element for each segment of the capture.

        Parameters
        ----------
        connections : ndarray of int64, shape (n_chosen,)
            Numbers of connections, from 0, in the order of the result.
        """
        if np.array_equal(connections, np.arange(self.connections)):
            return self
        sides = np.stack([2 * connections, 2 * connections + 1], axis=1).ravel()
        index, bounds = spans(self.bounds, sides)
        columns = (self.first_row, self.forward_flow, self.initiator_by)
        return Partition(self.direction, self.order[index], bounds, *(each[connections] for each in columns))


def opens(flags: Array) -> Array:
    """Return which segments may open a connection: those with SYN, and neither RST nor FIN.

    Parameters
    ----------
    flags : ndarray of uint16, shape (n_segments,)
        Bits of `Flag`; never NA.

    Returns
    -------
    ndarray of bool, shape (n_segments,)
    """
    opening: Array = (flags & _BEGIN_AND_END) == _BEGIN
    return opening


def partition(capture: CaptureTables, *, servers_before: Array | None = None, begun: Array | None = None) -> Partition:
    """Return the segments of a capture grouped by connection and direction.

    Connections are numbered in the order of their first segments.

    Parameters
    ----------
    capture : CaptureTables
    servers_before : ndarray of uint64, shape (n,), optional
        Hashes, as returned by `servers`, of endpoints that answered a SYN before this capture.
    begun : ndarray of bool, shape (n_segments,), optional
        Segments that are known to belong to the first connection of their flow; they begin no other connection.
    """
    flow, flags = capture.segments["flow"], capture.segments["flags"]
    begins, connection = _connections(flow >> 1, capture, begun)
    forward_flow = flow[begins].copy()
    syn_rows = np.flatnonzero(opens(flags))
    _turn_to_initiator(forward_flow, connection[syn_rows], flow[syn_rows], flags[syn_rows])
    initiator_by = _assume_the_others(forward_flow, connection, syn_rows, capture, servers_before)
    direction = connection
    direction *= 2
    direction += flow != forward_flow[connection >> 1]
    bounds = bounds_of(direction, 2 * len(begins))
    return Partition(direction, None, bounds, begins, forward_flow, initiator_by)


def bounds_of(direction: Array, directions: int) -> Array:
    """Return each direction's first index in `Partition.order`: int64, shape (directions + 1,)."""
    bounds = np.zeros(directions + 1, dtype=np.int64)
    np.cumsum(np.bincount(direction, minlength=directions), out=bounds[1:])
    return bounds


def _connections(pair: Array, capture: CaptureTables, begun: Array | None) -> tuple[Array, Array]:
    """Return the first row of each connection, ascending, and the connection number of each row."""
    first_of_pair = _first_rows(pair, len(capture.flows))
    again = _later_beginnings(pair, first_of_pair, capture)
    if begun is not None:
        again = again[~begun[again]]
    seen = np.flatnonzero(first_of_pair < len(pair))
    begins = np.sort(np.concatenate([first_of_pair[seen], again]))
    number_of_pair = np.zeros(len(capture.flows), dtype=np.int32)
    number_of_pair[seen] = np.searchsorted(begins, first_of_pair[seen])
    connection = number_of_pair[pair]
    if len(again):
        _renumber(connection, pair, again, begins)
    return begins, connection


def _first_rows(pair: Array, pairs: int) -> Array:
    """Return the first row of each pair of endpoints; for a pair without rows, the number of all rows."""
    first = np.full(pairs, len(pair), dtype=np.int64)
    for end in range(len(pair), 0, -_BLOCK_ROWS):
        begin = max(end - _BLOCK_ROWS, 0)
        first[pair[begin:end][::-1]] = np.arange(end - 1, begin - 1, -1)
    return first


def _renumber(connection: Array, pair: Array, again: Array, begins: Array) -> None:
    """Renumber the rows of endpoint pairs that had several connections, in place.

    Each row gets the number of the last connection that began at or before this row.
    """
    used_again = np.zeros(int(pair.max()) + 1, dtype=bool)
    used_again[pair[again]] = True
    rows = np.flatnonzero(used_again[pair])
    starts = begins[used_again[pair[begins]]]
    span = len(pair) + 1
    key = pair[starts].astype(np.int64) * span + starts
    by_key = np.argsort(key, kind="stable")
    nearest = np.searchsorted(key[by_key], pair[rows].astype(np.int64) * span + rows, side="right") - 1
    connection[rows] = np.searchsorted(begins, starts[by_key[nearest]])


def _turn_to_initiator(forward_flow: Array, connection: Array, flow: Array, flags: Array) -> None:
    """Set `forward_flow`, in place, to the directed flow of each initiator, where a SYN or SYN-ACK shows it.

    The first SYN of a connection decides; without a SYN, the first SYN-ACK does.
    """
    answer = (flags & Flag.ACK) != 0
    for rows, turn in ((np.flatnonzero(answer), 1), (np.flatnonzero(~answer), 0)):
        backwards = rows[::-1]
        forward_flow[connection[backwards]] = flow[backwards] ^ turn


def _assume_the_others(
    forward_flow: Array, connection: Array, syn_rows: Array, capture: CaptureTables, servers_before: Array | None
) -> Array:
    """Set `forward_flow`, in place, for connections without SYN and SYN-ACK.

    Return how each connection's initiator was determined: uint8, values of `Initiator`.
    """
    basis = np.zeros(len(forward_flow), dtype=np.uint8)
    late = np.ones(len(forward_flow), dtype=bool)
    late[connection[syn_rows]] = False
    chosen = np.flatnonzero(late)
    if len(chosen):
        flow, flags, payload = (capture.segments[name] for name in ("flow", "flags", "payload_bytes"))
        rows = np.flatnonzero(late[connection])
        sender = 2 * (np.cumsum(late) - 1)[connection[rows]] + (flow[rows] & 1)
        sent_bytes = np.bincount(sender, payload[rows], minlength=2 * len(chosen)).reshape(-1, 2)
        answered = servers(capture.flows, answering(flow, flags))
        if servers_before is not None:
            answered = np.union1d(answered, servers_before)
        forward_flow[chosen], basis[chosen] = assumed(capture, forward_flow[chosen], sent_bytes, answered)
    return basis


def answering(flow: Array, flags: Array) -> Array:
    """Return the directed flow of each SYN-ACK, with the dtype of `flow`."""
    rows = np.flatnonzero(opens(flags))
    answers: Array = flow[rows][(flags[rows] & np.uint16(Flag.ACK)) != 0]
    return answers


def _grouped(key: Array, bounds: Array) -> Array:
    """Return the row numbers sorted by `key`, rows of one key in their order.

    The rows of key k begin at index bounds[k] of the result.
    """
    groups = len(bounds) - 1
    if groups <= 2:
        return np.concatenate([np.flatnonzero(key == 0), np.flatnonzero(key)])
    at_once = max(_SORTED_ROWS, groups)
    if len(key) <= at_once:
        return _sorted(key, groups)
    order, free = np.empty(len(key), dtype=np.int64), bounds[:-1].copy()
    for begin in range(0, len(key), at_once):
        block = key[begin : begin + at_once]
        rows, counts = _sorted(block, groups), np.bincount(block, minlength=groups)
        shift = free - (np.cumsum(counts) - counts)
        order[np.arange(len(block)) + shift[block[rows]]] = rows + begin
        free += counts
    return order


def _sorted(key: Array, groups: int) -> Array:
    if groups <= 1 << 16:  # NumPy's stable sort of 16-bit numbers is a radix sort
        return np.argsort(key.astype(np.uint16), kind="stable")
    low = np.argsort(key.astype(np.uint16), kind="stable")
    return low[np.argsort((key >> 16).astype(np.uint16)[low], kind="stable")]


def _later_beginnings(pair: Array, first_of_pair: Array, capture: CaptureTables) -> Array:
    """Return the rows, ascending, that begin a connection on a flow that was already in use."""
    syn_rows = np.flatnonzero(opens(capture.segments["flags"]))
    by_pair = syn_rows[np.argsort(pair[syn_rows], kind="stable")]
    doubtful: Array = by_pair[_doubtful(by_pair, pair, capture)]
    doubtful = doubtful[doubtful != first_of_pair[pair[doubtful]]]
    if not len(doubtful):
        return doubtful
    chosen = np.zeros(len(first_of_pair), dtype=bool)
    chosen[pair[doubtful]] = True
    rows = np.flatnonzero(chosen[pair])
    rows = rows[np.argsort(pair[rows], kind="stable")]
    cuts = np.flatnonzero(np.diff(pair[rows])) + 1
    begun = [_walk(_Pair.of(part, capture)) for part in np.split(rows, cuts)]
    return np.sort(np.concatenate(begun))


def _doubtful(by_pair: Array, pair: Array, capture: CaptureTables) -> Array:
    """Return which SYN and SYN-ACK segments may begin a further connection of their pair: bool.

    It is False for a SYN that repeats the previous SYN, and for a SYN-ACK after a SYN of the other endpoint.
    """
    flow, seq, flags = (capture.segments[name][by_pair] for name in ("flow", "seq", "flags"))
    answer = (flags & Flag.ACK) != 0
    same_flow = flow[1:] == flow[:-1]
    repeats = same_flow & (seq[1:] == seq[:-1]) & (answer[1:] == answer[:-1])
    expected = ~same_flow & (flow[1:] >> 1 == flow[:-1] >> 1) & answer[1:] & ~answer[:-1]
    doubtful = np.ones(len(by_pair), dtype=bool)
    doubtful[1:] = ~(repeats | expected)
    return doubtful


@dataclass(slots=True)
class _Pair:
    """The segments of one pair of endpoints, in capture order."""

    rows: Array
    side: Array
    seq: Array
    ack: Array
    flags: Array

    @classmethod
    def of(cls, rows: Array, capture: CaptureTables) -> _Pair:
        flow, seq, ack, flags = (capture.segments[n][rows] for n in ("flow", "seq", "ack", "flags"))
        return cls(rows, flow & 1, seq, ack, flags)

    def origins(self, side: int, begins: Array) -> tuple[list[int], list[int]]:
        """Return two lists with an element for each connection of the pair.

        The first list has the first row that shows the initial sequence number (ISN) of `side`, the second
        one has that ISN.
        """
        tells = (self.side == side) | ((self.flags & Flag.ACK) != 0)
        number = np.where(self.side == side, self.seq, self.ack) - np.uint32(1)
        number += (self.side == side) & ((self.flags & Flag.SYN) != 0)
        where = np.append(np.flatnonzero(tells), len(self.rows))
        first = where[np.searchsorted(where, begins)]
        return first.tolist(), np.append(number, 0)[first].tolist()


def _walk(pair: _Pair) -> Array:
    """Return the rows at which a further connection begins between the same two endpoints.

    The rules are those at the top of this file.
    """
    syn = np.flatnonzero(opens(pair.flags))
    begins = np.append(0, syn)
    shows, origin = zip(*(pair.origins(side, begins) for side in (0, 1)), strict=True)
    sides, numbers = pair.side[syn].tolist(), pair.seq[syn].tolist()
    answers = ((pair.flags[syn] & Flag.ACK) != 0).tolist()
    begun, current, last_syn = [], 0, [-1, -1]
    begin_of = begins.tolist()
    for i, position in enumerate(syn.tolist()):
        side = sides[i]
        known = shows[side][current] < position
        awaited = answers[i] and last_syn[1 - side] >= begin_of[current]
        if known and not awaited and origin[side][current] != numbers[i]:
            current = i + 1
            begun.append(position)
        if not answers[i]:
            last_syn[side] = position
    return pair.rows[begun]
