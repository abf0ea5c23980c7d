"""Which segments belong to which connection, who began it, and the order the analysis works in.

Rules of the file
-----------------
- A flow (two endpoints in one VLAN) holds one connection until a segment begins another one there:
  a SYN whose sequence number is not the one that its sender's numbers began with, or a SYN-ACK of which
  that is true while no SYN of the other endpoint is known. A SYN with the same number is a retransmission.
- A sender's numbers began with its SYN; else one before its first segment; else one before what the other
  endpoint acknowledged first. These are the rules of tshark 4.0 (packet-tcp.c), which FIN and RST do not
  change; a SYN-ACK alone never begins a connection there.
- A SYN together with RST or FIN begins nothing: no stack answers one.
- The initiator is the sender of the first SYN, else the receiver of the first SYN-ACK, else assumed
  (`initiator.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.initiator import assumed, servers
from multitracer.analysis.intervals import spans
from multitracer.captured import Flag

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.tables import Array

_BEGIN, _BEGIN_AND_END = np.uint16(Flag.SYN), np.uint16(Flag.SYN | Flag.RST | Flag.FIN)
_BLOCK_ROWS = 1 << 16
"""Rows that are looked at together: what is made of them stays in the processor's cache."""


_SORTED_ROWS = 1 << 18
"""Rows that are sorted together: NumPy takes 18 bytes a row for it, the result 8. Not measured."""
_LARGE_SHARE = 8
"""One in so many segments make a connection large: there are few of them, so few looks through all."""


@dataclass(slots=True)
class Partition:
    """The segments of a capture, distinguished by connection and direction.

    Direction 2 c is what the initiator of connection c (from 0) sent, 2 c + 1 what came back.
    """

    direction: Array
    """int32, shape (n_segments,): the direction of each segment."""
    _order: Array | None
    """`order` once it was asked for; a summary by the native kernel needs none."""
    bounds: Array
    """int64, shape (2 n_connections + 1,): direction d is order[bounds[d]:bounds[d + 1]]."""
    first_row: Array
    """int64, shape (n_connections,): where each connection begins in the capture."""
    forward_flow: Array
    """int32, shape (n_connections,): directed flow of what the initiator sends."""
    initiator_by: Array
    """uint8, shape (n_connections,): what tells who that is (Initiator)."""

    @classmethod
    def empty(cls) -> Partition:
        """Return that of no segments: they were counted, and not kept."""
        return cls(*(np.empty(0, dtype=np.int64) for _ in range(6)))

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return len(self.first_row)

    @property
    def order(self) -> Array:
        """The segments direction after direction, each in capture order: int64, shape (n_segments,)."""
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

        Of one large connection they are looked for, if nothing has asked for the order of all yet.
        """
        begin, end = self.bounds[[first, last]].tolist()
        is_large = last - first == 2 and (end - begin) * _LARGE_SHARE > len(self.direction)
        if self._order is None and is_large:
            return np.concatenate([self.rows_sent(direction) for direction in range(first, last)])
        return self.order[begin:end]

    def rows_of(self, connection: int) -> Array:
        """Return the rows of a connection (from 0) in capture order."""
        return np.sort(self.order[self.bounds[2 * connection] : self.bounds[2 * connection + 2]])

    def chosen(self, connections: Array) -> Partition:
        """Return the partition of some of the connections; its `direction` still covers all segments.

        Parameters
        ----------
        connections : ndarray of int64, shape (n_chosen,)
            Numbers of connections, from 0, in the order that the result has.
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


def partition(
    capture: Capture, *, servers_before: Array | None = None, begun: Array | None = None
) -> Partition:
    """Return the connections of a capture, numbered in the order of their first segments.

    Parameters
    ----------
    capture : Capture
    servers_before : ndarray of uint64, shape (n,), optional
        Names, as of `initiator.servers`, of endpoints that answered a SYN in what came before the capture.
    begun : ndarray of bool, shape (n_segments,), optional
        Which segments are known to belong to the first connection of their flow, and begin no other.
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
    """Return the bounds of each direction in the order of `Partition`: int64, shape (directions + 1,)."""
    bounds = np.zeros(directions + 1, dtype=np.int64)
    np.cumsum(np.bincount(direction, minlength=directions), out=bounds[1:])
    return bounds


def _connections(pair: Array, capture: Capture, begun: Array | None) -> tuple[Array, Array]:
    """Return the first row of each connection, ascending, and each row's connection as int32."""
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
    """Return each pair's first row, the number of rows for a pair without one."""
    first = np.full(pairs, len(pair), dtype=np.int64)
    for end in range(len(pair), 0, -_BLOCK_ROWS):
        begin = max(end - _BLOCK_ROWS, 0)
        first[pair[begin:end][::-1]] = np.arange(end - 1, begin - 1, -1)
    return first


def _renumber(connection: Array, pair: Array, again: Array, begins: Array) -> None:
    """Give the rows of pairs that were used again the number of the last beginning at or before them."""
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
    """Turn `forward_flow` by the first SYN of each connection, or else by its first SYN-ACK, in place."""
    answer = (flags & Flag.ACK) != 0
    for rows, turn in ((np.flatnonzero(answer), 1), (np.flatnonzero(~answer), 0)):
        backwards = rows[::-1]
        forward_flow[connection[backwards]] = flow[backwards] ^ turn


def _assume_the_others(
    forward_flow: Array, connection: Array, syn_rows: Array, capture: Capture, servers_before: Array | None
) -> Array:
    """Turn `forward_flow` of connections without SYN and SYN-ACK, in place; return what each one rests on."""
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
    """Return the directed flows of SYN-ACKs: of the dtype of `flow`, one for each of these segments."""
    rows = np.flatnonzero(opens(flags))
    answers: Array = flow[rows][(flags[rows] & np.uint16(Flag.ACK)) != 0]
    return answers


def _grouped(key: Array, bounds: Array) -> Array:
    """Return the rows sorted by `key`, equal keys in their order; key k gets the places from bounds[k] on."""
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


def _later_beginnings(pair: Array, first_of_pair: Array, capture: Capture) -> Array:
    """Return the rows that begin a connection on a flow that was in use before, ascending."""
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


def _doubtful(by_pair: Array, pair: Array, capture: Capture) -> Array:
    """Return False for a SYN that repeats the SYN before it or is a SYN-ACK after the other side's SYN."""
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
    """The segments of one pair of endpoints in capture order."""

    rows: Array
    side: Array
    seq: Array
    ack: Array
    flags: Array

    @classmethod
    def of(cls, rows: Array, capture: Capture) -> _Pair:
        flow, seq, ack, flags = (capture.segments[n][rows] for n in ("flow", "seq", "ack", "flags"))
        return cls(rows, flow & 1, seq, ack, flags)

    def origins(self, side: int, begins: Array) -> tuple[list[int], list[int]]:
        """Return for each beginning where the origin of a side's numbers shows first, and the origin."""
        tells = (self.side == side) | ((self.flags & Flag.ACK) != 0)
        number = np.where(self.side == side, self.seq, self.ack) - np.uint32(1)
        number += (self.side == side) & ((self.flags & Flag.SYN) != 0)
        where = np.append(np.flatnonzero(tells), len(self.rows))
        first = where[np.searchsorted(where, begins)]
        return first.tolist(), np.append(number, 0)[first].tolist()


def _walk(pair: _Pair) -> Array:
    """Return the rows of one pair of endpoints that begin a further connection, by the rules of the file."""
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
