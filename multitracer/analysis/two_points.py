"""The same connection at two capture points: which packets are the same, and what happened in between.

The same packets at two capture points: what was lost between them, what was doubled, how long it took.
Rules of the file
-----------------
- A packet is told by its endpoints, IPv4 identification, sequence and ACK number, payload length, flags and
  timestamp value; VLAN tags and link headers may differ, addresses may not (no NAT between the points).
- The n-th packet with an identity at one point is the n-th with it at the other: a copy beyond the other
  point's count was made (or captured twice) on the way, or lost there.
- Without an identification (IPv6) the copies of a segment look alike: `alike.py` says which arrived.
- A packet that only one point shows is *lost between* (or *only far*) if it lies among packets of its
  direction that both show; before the first and after the last of those, one point did not listen.
- Payload that segmentation offload cut or joined between the points is told by its bytes (`recut.py`).
- Delays are raw: far clock less near clock. They hold the one-way delay plus the clocks' difference.

Which of several copies that look alike arrived: the latest that left early enough.
Nothing in them tells the copies of a segment apart (no IP identification in IPv6, no timestamps; bytes that a
device cut or joined). TCP repeats what was lost, so of more copies than arrived the first were lost, unless
the last left too late to be what arrived: then it was not needed, or was lost itself.

Which packets that only one point shows arrived all the same, cut or joined otherwise.
A device with segmentation offload hands segments of up to 64 kB to the capture and cuts them behind it, and
joins what arrives before the other capture sees it (GSO, TSO, GRO, LRO). Such packets have no partner, but
their bytes have: a byte arrived if the far point saw it as often as the near one. Of a byte that it saw less
often the copies that left first were lost, for TCP repeats what was lost.

The same connection at another capture point: the one rule by which it is found.
Rules of the file
-----------------
- It is the connection that shares most packets with it. Times do not count: clocks may be hours apart. Nor
  does who was seen first: a capture that began late may call the responder the initiator.
- Connections with the same addresses and ports are tried first. If none of these shares a packet, an address
  may have been translated on the way (NAT): then every connection of the other capture is tried.
- A packet is told as `multitracer.clock.captures.matching` tells it, without addresses. Where that finds
  nothing, a router may have written IP identifications of its own (a NAT, "scrub random-id"): it is tried
  without.
- Tools that send one packet to many ports (scanners) give many connections the same packet: a translated one
  counts only if it shares most of its packets, and more than any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import distinct, unwrapped
from multitracer.captured import Flag
from multitracer.clock.captures.matching import (
    EXACT,
    RENUMBERED,
    among,
    copies,
    identities,
    join,
    shared,
)
from multitracer.schemas.tcp import PACKET_PAIRS
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.analysis.tcp import Analysis
    from multitracer.tables import Array


class PacketOutcome(IntEnum):
    """What became of a packet between two points."""

    MATCHED = 0
    LOST = 1
    ONLY_FAR = 2
    NOT_COVERED = 3
    """Before the first or after the last packet that both points show."""
    RECUT = 4
    """Its bytes are at the other point in other packets: a device cut or joined them (offload)."""


@dataclass(frozen=True, slots=True)
class TwoPoints:
    """The packets of one direction of one connection at two capture points.

    Attributes
    ----------
    pairs : Table
        PACKET_PAIRS.
    near, far : Analysis
        Of the two captures.
    near_connection, far_connection : int
        The connection's number in each.
    reverse : bool
        Direction: False for what the near capture's initiator sent.
    """

    pairs: Table
    near: Analysis
    far: Analysis
    near_connection: int
    far_connection: int
    reverse: bool

    def count(self, outcome: PacketOutcome) -> int:
        """Return how many packets came to this."""
        return int(np.count_nonzero(self.pairs["outcome"] == outcome))

    @property
    def duplicates(self) -> int:
        """How many packets the far point saw more often than the near one."""
        extra = (self.pairs["outcome"] == PacketOutcome.ONLY_FAR) & (self.pairs["copy"] > 0)
        return int(np.count_nonzero(extra))

    @property
    def delays_ns(self) -> Array:
        """Raw one-way delays of the matched packets, in the order of the near point.

        Int64, ns, shape (n_matched,), by two clocks: of any sign; never NA.
        """
        delays: Array = self.pairs["delay_ns"][self.pairs["outcome"] == PacketOutcome.MATCHED]
        return delays


def compare(
    near: Analysis,
    near_connection: int,
    far: Analysis,
    far_connection: int,
    *,
    reverse: bool,
    is_turned: bool = False,
) -> TwoPoints:
    """Return the packets of one direction of a connection at both points, matched.

    Parameters
    ----------
    near : Analysis
        Capture nearer to the sender of the direction.
    far : Analysis
        Capture nearer to its receiver.
    near_connection, far_connection : int
        Number of the connection in each; see `multitracer.analysis.two_points`.
    reverse : bool
        False for what the near capture's initiator sent.
    is_turned : bool
        Whether the far capture calls that initiator the responder.
    """
    near_rows = _rows(near, near_connection, reverse=reverse)
    far_rows = _rows(far, far_connection, reverse=reverse != is_turned)
    sides = (near.capture.segments, near_rows, far.capture.segments, far_rows)
    near_named, far_named, (near_index, far_index) = _matched(sides)
    pairs = _pairs((near, near_rows, near_named[1]), (far, far_rows, far_named[1]), near_index, far_index)
    return TwoPoints(pairs, near, far, near_connection, far_connection, reverse)


_Side = tuple["Analysis", "Array", "Array"]


def _pairs(near: _Side, far: _Side, near_index: Array, far_index: Array) -> Table:
    near_time, far_time = (side[0].capture.segments["time_ns"][side[1]] for side in (near, far))
    left, right, outcome = _in_order(len(near[1]), len(far[1]), near_index, far_index)
    outcome[(outcome == PacketOutcome.LOST) & _outside(left, near_index)] = PacketOutcome.NOT_COVERED
    outcome[(outcome == PacketOutcome.ONLY_FAR) & _outside(right, far_index)] = PacketOutcome.NOT_COVERED
    _mark_recut(near, far, left, right, outcome)
    only_far, only_near = np.flatnonzero(left == NA), np.flatnonzero(right == NA)
    near_ns = _picked(near_time, left, only_far, NOT_A_TIME)
    far_ns = _picked(far_time, right, only_near, NOT_A_TIME)
    delay_ns = far_ns - near_ns
    delay_ns[only_far] = delay_ns[only_near] = NOT_A_TIME
    copy = _picked(near[2], left, only_far, NA)
    copy[only_far] = far[2][right[only_far]]
    columns = {
        "near_row": _picked(near[1], left, only_far, NA),
        "far_row": _picked(far[1], right, only_near, NA),
        "near_ns": near_ns,
        "far_ns": far_ns,
        "delay_ns": delay_ns,
        "copy": copy,
        "outcome": outcome,
    }
    return Table(PACKET_PAIRS, columns)


def _in_order(
    near_count: int, far_count: int, near_index: Array, far_index: Array
) -> tuple[Array, Array, Array]:
    """Return index at the near point, at the far one, and outcome of each packet, in order of the near one.

    Packets of the far point alone come last.
    """
    alone, added = _others(near_count, near_index), _others(far_count, far_index)
    left = np.concatenate([near_index, alone])
    order = np.argsort(left, kind="stable")
    left = np.concatenate([left[order], np.full(len(added), NA)])
    right = np.concatenate([far_index, np.full(len(alone), NA)])
    right = np.concatenate([right[order], added])
    outcome = np.full(len(left), PacketOutcome.ONLY_FAR, dtype=np.uint8)
    outcome[: len(order)] = np.where(right[: len(order)] == NA, PacketOutcome.LOST, PacketOutcome.MATCHED)
    return left, right, outcome


def _mark_recut(near: _Side, far: _Side, left: Array, right: Array, outcome: Array) -> None:
    """Mark, in place, packets that were neither lost nor added, but cut or joined."""
    lost, added = (
        np.flatnonzero(outcome == PacketOutcome.LOST),
        np.flatnonzero(outcome == PacketOutcome.ONLY_FAR),
    )
    if not len(lost) or not len(added):
        return
    recut_rows = recut(near[0].capture.segments, near[1], far[0].capture.segments, far[1])
    outcome[lost[recut_rows.near[left[lost]]]] = PacketOutcome.RECUT
    outcome[added[recut_rows.far[right[added]]]] = PacketOutcome.RECUT


def _others(count: int, index: Array) -> Array:
    """Return the numbers below `count` that are not in `index`, ascending."""
    left_out = np.ones(count, dtype=bool)
    left_out[index] = False
    return np.flatnonzero(left_out)


def _picked(values: Array, index: Array, without: Array, missing: int) -> Array:
    """Return values[index], `missing` at the places that are without, where the index is NA."""
    if not len(values):
        return np.full(len(index), missing, dtype=np.int64)
    result: Array = values[index]  # NA picks the last one
    result[without] = missing
    return result


def _outside(index: Array, matched: Array) -> Array:
    """Return which indexes lie before the first or after the last matched one."""
    if not len(matched):
        return np.ones(len(index), dtype=bool)
    outside: Array = (index < matched.min()) | (index > matched.max())
    return outside


def match(near: Table, near_rows: Array, far: Table, far_rows: Array) -> tuple[Array, Array]:
    """Return the indexes into both rows of the packets that are the same, in order of the near point.

    Parameters
    ----------
    near, far : Table
        SEGMENTS or TCP_SEGMENTS of both points.
    near_rows, far_rows : ndarray of int64, shapes (n_near,), (n_far,)
        Rows in them, of one direction of one connection.

    Returns
    -------
    near, far : ndarray of int64, shape (n_matched,)
        Positions in `near_rows` and `far_rows`.
    """
    return _matched((near, near_rows, far, far_rows))[2]


_Sides = tuple["Table", "Array", "Table", "Array"]
_Named = tuple["Array", "Array"]
"""What tells each packet, and how many with the same identity came before it."""


def _matched(sides: _Sides) -> tuple[_Named, _Named, tuple[Array, Array]]:
    """Return the names of the packets of both sides, and the indexes of those that are the same.

    They are told without the IP identification only if the path rewrites it.
    """
    near, far, pairs = _joined(sides, EXACT)
    if 2 * len(pairs[0]) < min(len(sides[1]), len(sides[3])):
        renumbered = _joined(sides, RENUMBERED)
        if len(renumbered[2][0]) > 2 * len(pairs[0]):
            near, far, pairs = renumbered
    return near, far, _with_alike(sides, near, far, pairs)


def _joined(sides: _Sides, fields: tuple[str, ...]) -> tuple[_Named, _Named, tuple[Array, Array]]:
    near, far = (_identities(*side, fields) for side in (sides[:2], sides[2:]))
    return near, far, join(*near, *far)


def _with_alike(sides: _Sides, near: _Named, far: _Named, pairs: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return pairs with those corrected of which the copies have no identification: only times tell them."""
    near_table, near_rows, far_table, far_rows = sides
    is_alike = near_table["ip_id"][near_rows] <= 0
    if not is_alike.any():
        return pairs
    alike, doubted = np.flatnonzero(is_alike), is_alike[pairs[0]]
    sent, came = near[0][alike], _with_key(far[0], near[0][alike])
    times = near_table["time_ns"][near_rows[alike]], far_table["time_ns"][far_rows[came]]
    left, arrived = arrivals(PointPackets(sent, times[0]), PointPackets(far[0][came], times[1]))
    left, arrived = alike[left], came[arrived]
    if np.array_equal(pairs[0][doubted], left) and np.array_equal(pairs[1][doubted], arrived):
        return pairs
    both = np.concatenate([pairs[0][~doubted], left])
    order = np.argsort(both, kind="stable")
    return both[order], np.concatenate([pairs[1][~doubted], arrived])[order]


def _with_key(keys: Array, wanted: Array) -> Array:
    """Return the indexes of the keys that can be among some wanted ones; all if these are many."""
    return np.arange(len(keys)) if 2 * len(wanted) > len(keys) else among(keys, wanted)


def _rows(analysis: Analysis, number: int, *, reverse: bool) -> Array:
    direction = 2 * (number - 1) + reverse
    bounds = analysis.partition.bounds
    rows: Array = analysis.partition.order[bounds[direction] : bounds[direction + 1]]
    return rows


def _identities(segments: Table, rows: Array, fields: tuple[str, ...]) -> tuple[Array, Array]:
    """Return what identifies each packet, and how many with the same identity came before it."""
    key = identities(segments, rows, fields)
    return key, copies(key)[0]


_GRAIN_NS = NS_PER_MS
"""By so much a delay may fall short of the least that is certain: clocks drift and are stepped."""


class PointPackets(NamedTuple):
    """Packets, or pieces of them, at one point in the order of its capture.

    Attributes
    ----------
    key : ndarray of int64 or uint64, shape (n,)
        What each holds: copies of one have the same.
    time_ns : ndarray of int64, shape (n,)
        When it left, or arrived, by the clock of that point.
    """

    key: Array
    time_ns: Array


def arrivals(sent: PointPackets, came: PointPackets) -> tuple[Array, Array]:
    """Return the indexes into both of the copies that are the same one, in order of `sent`.

    A packet that was sent once and arrived once is certain: these give the least delay, and no other may be
    shorter.

    Returns
    -------
    left, arrived : ndarray of int64, shape (n_pairs,)
    """
    (left, arrived), repeated = _certain(sent, came)
    delays_ns = came.time_ns[arrived] - sent.time_ns[left]
    soonest_ns = sent.time_ns + int(delays_ns.min()) - _GRAIN_NS if len(left) else None
    groups = _groups(sent, came, repeated)
    pairs = [pair for group in groups for pair in _latest(*group, soonest_ns, came.time_ns)]
    more = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    left, arrived = np.concatenate([left, more[:, 0]]), np.concatenate([arrived, more[:, 1]])
    order = np.argsort(left, kind="stable")
    return left[order], arrived[order]


def _certain(sent: PointPackets, came: PointPackets) -> tuple[tuple[Array, Array], Array]:
    """Return the indexes of what was sent once and arrived once, and the other keys that both have."""
    keys, first, many = np.unique(sent.key, return_index=True, return_counts=True)
    keys_came, first_came, many_came = np.unique(came.key, return_index=True, return_counts=True)
    _, at, at_came = np.intersect1d(keys, keys_came, assume_unique=True, return_indices=True)
    once = (many[at] == 1) & (many_came[at_came] == 1)
    return (first[at[once]], first_came[at_came[once]]), keys[at[~once]]


def _groups(sent: PointPackets, came: PointPackets, keys: Array) -> list[tuple[list[int], list[int]]]:
    """Return for each key the indexes of its copies at both points, in order."""
    sides = []
    for key in (sent.key, came.key):
        order = np.argsort(key, kind="stable")
        begin, end = (np.searchsorted(key[order], keys, side=side) for side in ("left", "right"))
        bounds = zip(begin.tolist(), end.tolist(), strict=True)
        sides.append([order[a:b].tolist() for a, b in bounds])
    return list(zip(*sides, strict=True))


def _latest(of: list[int], at: list[int], soonest_ns: Array | None, came_ns: Array) -> list[tuple[int, int]]:
    """Return for each arrival, the last first, the latest copy left that could be it."""
    left, pairs = list(of), []
    for arrival in reversed(at):
        while left and soonest_ns is not None and soonest_ns[left[-1]] > came_ns[arrival]:
            left.pop()
        if left:
            pairs.append((left.pop(), arrival))
    return pairs


_WRAP = 1 << 32  # RFC 9293, 3.4: sequence numbers have 32 bits


class Bytes(NamedTuple):
    """The payload of packets of one direction: its place in the stream, up to a constant."""

    begin: Array
    end: Array


class Recut(NamedTuple):
    """Which packets of each point have all of their bytes at the other, though in other packets."""

    near: Array
    far: Array


def recut(near: Table, near_rows: Array, far: Table, far_rows: Array) -> Recut:
    """Return which packets with payload arrived, by their bytes; masks over the rows of both points.

    Parameters
    ----------
    near, far : Table
        SEGMENTS of both points.
    near_rows, far_rows : ndarray of int64, shapes (n_near,), (n_far,)
        Rows in them, of one direction of one connection, at least one each.
    """
    first = int(near["seq"][near_rows[0]])
    sent, came = _bytes(near, near_rows, first), _bytes(far, far_rows, first)
    edges = distinct(np.concatenate([*sent, *came]))
    times_sent, times_came = _depth(sent, edges), _depth(came, edges)
    missing, extra = np.maximum(times_sent - times_came, 0), np.maximum(times_came - times_sent, 0)
    return Recut(~_among_first(sent, edges, missing), ~_among_first(came, edges, extra))


def _bytes(table: Table, rows: Array, first: int) -> Bytes:
    sequence, flags = table["seq"][rows], table["flags"][rows]
    away = (int(sequence[0]) - first + _WRAP // 2) % _WRAP - _WRAP // 2
    begin = away + unwrapped(sequence, np.array([0, len(rows)])) + has(flags, Flag.SYN)
    return Bytes(begin, begin + np.maximum(table["payload_bytes"][rows], 0))


def _depth(stretches: Bytes, edges: Array) -> Array:
    """Return how many of the stretches hold each piece between two edges."""
    change = np.zeros(len(edges) + 1, dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, stretches.begin), 1)
    np.add.at(change, np.searchsorted(edges, stretches.end), -1)
    return np.cumsum(change)[: max(len(edges) - 1, 0)]


def _among_first(stretches: Bytes, edges: Array, most: Array) -> Array:
    """Return which stretches are empty or hold a piece as one of the first `most` that hold it."""
    begin, end = np.searchsorted(edges, stretches.begin), np.searchsorted(edges, stretches.end)
    many = end - begin
    of = np.repeat(np.arange(len(many)), many)
    piece = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(begin, many)
    order = np.argsort(piece, kind="stable")
    ordered = piece[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    is_first = many == 0
    is_first[of[order[rank < most[ordered]]]] = True
    return np.asarray(is_first)


_FIRST_ROWS = 1 << 12
"""Packets of a connection that settle whether it is the same, where only one comes into question."""
_MOST_OF = 0.5
"""Share of the fewer packets of the two that a translated connection must have in common."""
_LEAST_PACKETS = 3
"""And so many at least: a connection of a scanner has two, SYN and RST."""


class Counterpart(NamedTuple):
    """A connection at another capture point."""

    connection: int
    """Its number there, from 1."""
    is_turned: bool
    """Whether that capture calls the initiator of the first one the responder."""


@dataclass(frozen=True)
class Counterparts:
    """The connections of one capture in another one.

    Parameters
    ----------
    near, far : Analysis
        Any two captures; their clocks do not matter.
    fields : tuple of str
        By which a packet is told.
    """

    near: Analysis
    far: Analysis
    fields: tuple[str, ...] = EXACT

    def of(self, connection: int) -> Counterpart | None:
        """Return a connection of the near capture (from 1) in the far one, None if it is not there."""
        candidates = self._by_endpoints.get(_endpoints(self.near, connection), [])
        other = self._most_alike(connection, candidates)
        if other is None:
            other = self._translated(connection)
        if other is not None:
            return Counterpart(other, self._is_turned(connection, other))
        return self._renumbered.of(connection) if self.fields == EXACT else None

    def all(self) -> list[tuple[int, Counterpart]]:
        """Return every connection that both captures hold, as numbered in the near one."""
        pairs = ((n, self.of(n)) for n in range(1, len(self.near.connections) + 1))
        return [(n, there) for n, there in pairs if there is not None]

    @cached_property
    def _renumbered(self) -> Counterparts:
        return Counterparts(self.near, self.far, RENUMBERED)

    @cached_property
    def _by_endpoints(self) -> dict[bytes, list[int]]:
        numbers: dict[bytes, list[int]] = {}
        for number in range(1, len(self.far.connections) + 1):
            numbers.setdefault(_endpoints(self.far, number), []).append(number)
        return numbers

    def _most_alike(self, connection: int, candidates: list[int]) -> int | None:
        """Return the candidate that shares the most packets, None if none shares any.

        Where there is one alone, some of the first packets settle it in most cases.
        """
        if len(candidates) == 1 and self._shared(connection, candidates[0], first=_FIRST_ROWS):
            return candidates[0]
        shared = [(self._shared(connection, other), -other) for other in candidates]
        most = max(shared, default=(0, 0))
        return -most[1] if most[0] else None

    def _shared(self, connection: int, other: int, *, first: int | None = None) -> int:
        """Return how many packets two connections share, both ways; of all, or of the first ones."""
        mine, theirs = (
            _keys(self.near, connection, self.fields, first),
            _keys(self.far, other, self.fields, first),
        )
        return len(join(mine, copies(mine)[0], theirs, copies(theirs)[0])[0])

    @cached_property
    def _far_keys(self) -> tuple[Array, Array]:
        """Return the identities of all packets of the far capture, sorted, and the connection of each."""
        keys = identities(self.far.capture.segments, None, self.fields)
        order = np.argsort(keys, kind="stable")
        return keys[order], (self.far.partition.direction >> 1)[order]

    def _translated(self, connection: int) -> int | None:
        """Return the connection, whatever its ends, that shares most of its packets with this one."""
        mine = distinct(_keys(self.near, connection, self.fields, _FIRST_ROWS))
        keys, connections = self._far_keys
        begin, end = np.searchsorted(keys, mine), np.searchsorted(keys, mine, side="right")
        rows = np.concatenate([np.arange(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True)])
        if not len(rows):
            return None
        shared = np.bincount(connections[rows.astype(np.int64)])
        best = int(shared.argmax())
        rows_there = len(_keys(self.far, best + 1, self.fields, _FIRST_ROWS))
        enough = max(_LEAST_PACKETS, _MOST_OF * min(len(mine), rows_there))
        is_alone = np.count_nonzero(shared == shared[best]) == 1
        return best + 1 if shared[best] >= enough and is_alone else None

    def _is_turned(self, connection: int, other: int) -> bool:
        """Return whether what one capture calls forward is reverse in the other."""
        for first in (_FIRST_ROWS, None):  # of one way alone the first packets settle it
            sent = _keys_one_way(self.near, connection, self.fields, reverse=False, first=first)
            ways = (False, True)
            there = [_keys_one_way(self.far, other, self.fields, reverse=way, first=first) for way in ways]
            forward, back = shared(sent, there)
            if (forward == 0) != (back == 0):
                break
        if forward or back:
            return back > forward
        answers = _keys_one_way(self.near, connection, self.fields, reverse=True)
        return shared(answers, there[:1])[0] > 0


def _endpoints(analysis: Analysis, number: int) -> bytes:
    """Return the endpoints of a connection without their VLAN, the same whoever was seen first."""
    pair = int(analysis.connections["forward_flow"][number - 1]) >> 1
    flows = analysis.capture.flows
    ends = sorted(
        bytes(flows[f"address_{e}"][pair]) + int(flows[f"port_{e}"][pair]).to_bytes(2) for e in "ab"
    )
    return bytes([int(flows["ip_version"][pair])]) + b"".join(ends)


def _keys(analysis: Analysis, connection: int, fields: tuple[str, ...], first: int | None = None) -> Array:
    """Return the identities of a connection's packets, of all or of the first ones each way."""
    ways = (False, True)
    return np.concatenate(
        [_keys_one_way(analysis, connection, fields, reverse=way, first=first) for way in ways]
    )


def _keys_one_way(
    analysis: Analysis,
    connection: int,
    fields: tuple[str, ...],
    *,
    reverse: bool,
    first: int | None = None,
) -> Array:
    bounds, direction = analysis.partition.bounds, 2 * (connection - 1) + reverse
    rows = analysis.partition.order[bounds[direction] : bounds[direction + 1]][:first]
    return identities(analysis.capture.segments, rows, fields)
