"""The same connection at two capture points: matched packets, losses, duplicates and delays between them.

Rules for packets
-----------------
- A packet is identified by its endpoints, IPv4 identification, sequence and ACK number, payload length, flags
  and timestamp value. VLAN tags and link headers may differ, addresses may not (no NAT between the points).
- The n-th packet with an identity at one point is matched with the n-th at the other. If one point has more
  packets with an identity, the surplus was duplicated (or captured twice) or lost between the points.
- Without an identification (IPv6), all transmissions of a segment look alike; `arrivals` decides which
  arrived.
- A packet at only one point is *lost between* (or *only far*) if it lies among matched packets of its
  direction. Before the first and after the last matched packet, one of the points did not capture.
- Payload that offload split or joined between the points is matched by its bytes (`resegmented`).
- Delays are raw: far clock minus near clock. They are the one-way delay plus the offset of the clocks.

Transmissions that look alike
-----------------------------
Without IP identification (IPv6) and timestamps, or after bytes were split or joined, nothing distinguishes the
transmissions of a segment. TCP repeats lost data. So if more transmissions were sent than arrived, the first ones were
lost, unless the last one was sent too late to be the one that arrived: then it was not needed, or was itself lost.

Resegmented packets
-------------------
A device with segmentation offload (GSO, TSO, GRO, LRO) passes segments of up to 64 kB to the capture and
splits them afterwards, or joins arriving segments before the capture. Such packets have no partner, but their
bytes have: a byte arrived if the far point saw it as often as the near one. If it saw a byte less often, the
transmissions that were sent first were lost, because TCP repeats lost data.

Rules for connections
---------------------
- The counterpart of a connection at the other point is the one that shares most packets with it. Times are
  not used, since clocks may differ by hours. The initiator is not used either: a capture that began late may
  call the responder the initiator.
- Connections with the same addresses and ports are tried first. If none of these shares a packet, an address
  may have been translated on the path (NAT): then every connection of the other capture is tried.
- A packet is identified as in `multitracer.clock.captures.matching`, without addresses. If that finds
  nothing, a router may have rewritten IP identifications (a NAT, "scrub random-id"): then they are not used.
  Timestamp values are not used where a snap length cut the options of one capture.
- Scanners send one packet to many ports, so many connections have the same packet. A translated connection
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
from multitracer.captured import CaptureMark, Flag
from multitracer.clock.captures.matching import EXACT, RENUMBERED, UNSTAMPED, among, copies, identities, join, shared
from multitracer.schemas.tcp import PACKET_PAIRS
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.analysis.tcp import Analysis
    from multitracer.tables import Array


class PacketOutcome(IntEnum):
    """Whether a packet was captured at both points, lost between them, or seen at one point only."""

    MATCHED = 0
    LOST = 1
    ONLY_FAR = 2
    NOT_COVERED = 3
    """It lies before the first or after the last packet that both points captured."""
    RESEGMENTED = 4
    """Its bytes are at the other point in other packets: a device split or joined them (offload)."""


@dataclass(frozen=True, slots=True)
class TwoPoints:
    """The packets of one direction of one connection at two capture points.

    Attributes
    ----------
    pairs : Table
        PACKET_PAIRS.
    near, far : Analysis
        Analyses of the two captures.
    near_connection, far_connection : int
        Number of the connection in each capture, from 1.
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
        """Return the number of packets with this outcome."""
        return int(np.count_nonzero(self.pairs["outcome"] == outcome))

    @property
    def duplicates(self) -> int:
        """The number of packets that the far point captured more often than the near one."""
        extra = (self.pairs["outcome"] == PacketOutcome.ONLY_FAR) & (self.pairs["copy"] > 0)
        return int(np.count_nonzero(extra))

    @property
    def delays_ns(self) -> Array:
        """Far time minus near time of each matched packet, in ns, in the order of the near point.

        int64, shape (n_matched,); never NA. The values contain the offset of the two clocks, so they may be negative.
        """
        delays: Array = self.pairs["delay_ns"][self.pairs["outcome"] == PacketOutcome.MATCHED]
        return delays


def compare(
    near: Analysis, near_connection: int, far: Analysis, far_connection: int, *, reverse: bool, is_turned: bool = False
) -> TwoPoints:
    """Match the packets of one direction of a connection at two capture points.

    Parameters
    ----------
    near : Analysis
        Capture nearer to the sender of the direction.
    far : Analysis
        Capture nearer to its receiver.
    near_connection, far_connection : int
        Number of the connection in each capture, from 1; see `Counterparts`.
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
    _mark_resegmented(near, far, left, right, outcome)
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


def _in_order(near_count: int, far_count: int, near_index: Array, far_index: Array) -> tuple[Array, Array, Array]:
    """Return three arrays: near index, far index and outcome of each packet, in order of the near point.

    Packets that only the far point captured come last.
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


def _mark_resegmented(near: _Side, far: _Side, left: Array, right: Array, outcome: Array) -> None:
    """Mark packets whose bytes were split or joined between the points as resegmented, in place."""
    lost, added = (np.flatnonzero(outcome == PacketOutcome.LOST), np.flatnonzero(outcome == PacketOutcome.ONLY_FAR))
    if not len(lost) or not len(added):
        return
    resegmented_rows = resegmented(near[0].capture.segments, near[1], far[0].capture.segments, far[1])
    outcome[lost[resegmented_rows.near[left[lost]]]] = PacketOutcome.RESEGMENTED
    outcome[added[resegmented_rows.far[right[added]]]] = PacketOutcome.RESEGMENTED


def _others(count: int, index: Array) -> Array:
    """Return the numbers below `count` that are not in `index`, ascending."""
    left_out = np.ones(count, dtype=bool)
    left_out[index] = False
    return np.flatnonzero(left_out)


def _picked(values: Array, index: Array, without: Array, missing: int) -> Array:
    """Return values[index]; `missing` where the mask `without` is True (the index is NA there)."""
    if not len(values):
        return np.full(len(index), missing, dtype=np.int64)
    result: Array = values[index]  # NA picks the last one
    result[without] = missing
    return result


def _outside(index: Array, matched: Array) -> Array:
    """Return which indexes lie before the first or after the last matched index."""
    if not len(matched):
        return np.ones(len(index), dtype=bool)
    outside: Array = (index < matched.min()) | (index > matched.max())
    return outside


def match(near: Table, near_rows: Array, far: Table, far_rows: Array) -> tuple[Array, Array]:
    """Return two arrays: the position of each matched packet in `near_rows`, and in `far_rows`.

    They are in the order of the near point.

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
"""The identity of each packet, and the number of earlier packets with the same identity."""


def _matched(sides: _Sides) -> tuple[_Named, _Named, tuple[Array, Array]]:
    """Return the identities of the near packets, those of the far packets, and the index pairs of matches.

    The IP identification is ignored only if the path rewrites it, timestamps only if a capture lacks them.
    """
    near, far, pairs = _joined(sides, EXACT)
    for fields in (RENUMBERED, UNSTAMPED):
        if 2 * len(pairs[0]) >= min(len(sides[1]), len(sides[3])):
            break
        weaker = _joined(sides, fields)
        if len(weaker[2][0]) > 2 * len(pairs[0]):
            near, far, pairs = weaker
    return near, far, _with_alike(sides, near, far, pairs)


def _joined(sides: _Sides, fields: tuple[str, ...]) -> tuple[_Named, _Named, tuple[Array, Array]]:
    near, far = (_identities(*side, fields) for side in (sides[:2], sides[2:]))
    return near, far, join(*near, *far)


def _with_alike(sides: _Sides, near: _Named, far: _Named, pairs: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the index pairs of matches; packets without IP identification are matched again by time."""
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
    """Return the indexes of `keys` that may be equal to one of `wanted`; the result may contain others.

    If `wanted` has many values, all indexes are returned.
    """
    return np.arange(len(keys)) if 2 * len(wanted) > len(keys) else among(keys, wanted)


def _rows(analysis: Analysis, number: int, *, reverse: bool) -> Array:
    direction = 2 * (number - 1) + reverse
    bounds = analysis.partition.bounds
    rows: Array = analysis.partition.order[bounds[direction] : bounds[direction + 1]]
    return rows


def _identities(segments: Table, rows: Array, fields: tuple[str, ...]) -> tuple[Array, Array]:
    """Return the identity of each packet, and the number of earlier packets with the same identity."""
    key = identities(segments, rows, fields)
    return key, copies(key)[0]


_GRAIN_NS = NS_PER_MS
"""Tolerance of the minimum certain delay, ns: clocks drift and step."""


class PointPackets(NamedTuple):
    """Packets, or parts of packets, at one point in capture order.

    Attributes
    ----------
    key : ndarray of int64 or uint64, shape (n,)
        Content of each packet: transmissions of the same data have equal keys.
    time_ns : ndarray of int64, shape (n,)
        Time at which it left or arrived, by the clock of that point.
    """

    key: Array
    time_ns: Array


def arrivals(sent: PointPackets, came: PointPackets) -> tuple[Array, Array]:
    """Return two arrays of indexes: which transmission in `sent` is which packet in `came`.

    Pairs are in the order of `sent`. A packet that was sent once and arrived once is a certain match. The
    minimum delay of certain matches is the lower bound for the delay of all others.

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
    """Return the index pairs of packets that were sent once and arrived once, and the other common keys."""
    keys, first, many = np.unique(sent.key, return_index=True, return_counts=True)
    keys_came, first_came, many_came = np.unique(came.key, return_index=True, return_counts=True)
    _, at, at_came = np.intersect1d(keys, keys_came, assume_unique=True, return_indices=True)
    once = (many[at] == 1) & (many_came[at_came] == 1)
    return (first[at[once]], first_came[at_came[once]]), keys[at[~once]]


def _groups(sent: PointPackets, came: PointPackets, keys: Array) -> list[tuple[list[int], list[int]]]:
    """Return for each key two lists: the indexes of its transmissions in `sent`, and in `came`."""
    sides = []
    for key in (sent.key, came.key):
        order = np.argsort(key, kind="stable")
        begin, end = (np.searchsorted(key[order], keys, side=side) for side in ("left", "right"))
        bounds = zip(begin.tolist(), end.tolist(), strict=True)
        sides.append([order[a:b].tolist() for a, b in bounds])
    return list(zip(*sides, strict=True))


def _latest(of: list[int], at: list[int], soonest_ns: Array | None, came_ns: Array) -> list[tuple[int, int]]:
    """Return (transmission, arrival) pairs of indexes, the last arrival first.

    Each arrival is matched with the latest transmission that is not used yet and was sent early enough.
    `soonest_ns` has the earliest arrival time of each transmission; None accepts all.
    """
    left, pairs = list(of), []
    for arrival in reversed(at):
        while left and soonest_ns is not None and soonest_ns[left[-1]] > came_ns[arrival]:
            left.pop()
        if left:
            pairs.append((left.pop(), arrival))
    return pairs


_WRAP = 1 << 32  # RFC 9293, 3.4: sequence numbers have 32 bits


class Bytes(NamedTuple):
    """Begin and end of each packet's payload in the byte stream, relative to a common number."""

    begin: Array
    end: Array


class Resegmented(NamedTuple):
    """Two masks, near and far: packets whose bytes are all at the other point, but in other packets."""

    near: Array
    far: Array


def resegmented(near: Table, near_rows: Array, far: Table, far_rows: Array) -> Resegmented:
    """Return which packets have all of their bytes at the other point: two masks over the given rows.

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
    return Resegmented(~_among_first(sent, edges, missing), ~_among_first(came, edges, extra))


def _bytes(table: Table, rows: Array, first: int) -> Bytes:
    sequence, flags = table["seq"][rows], table["flags"][rows]
    away = (int(sequence[0]) - first + _WRAP // 2) % _WRAP - _WRAP // 2
    begin = away + unwrapped(sequence, np.array([0, len(rows)])) + has(flags, Flag.SYN)
    return Bytes(begin, begin + np.maximum(table["payload_bytes"][rows], 0))


def _depth(stretches: Bytes, edges: Array) -> Array:
    """Return for each interval between neighbouring `edges` how many ranges contain it."""
    change = np.zeros(len(edges) + 1, dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, stretches.begin), 1)
    np.add.at(change, np.searchsorted(edges, stretches.end), -1)
    return np.cumsum(change)[: max(len(edges) - 1, 0)]


def _among_first(stretches: Bytes, edges: Array, most: Array) -> Array:
    """Return for each range whether it is one of the first ranges that contain some interval.

    Intervals lie between neighbouring `edges`; for interval i, the first most[i] ranges are accepted. Empty
    ranges are always accepted.
    """
    begin, end = np.searchsorted(edges, stretches.begin), np.searchsorted(edges, stretches.end)
    many = end - begin
    of = np.repeat(np.arange(len(many)), many)
    chunk = np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(begin, many)
    order = np.argsort(chunk, kind="stable")
    ordered = chunk[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    is_first = many == 0
    is_first[of[order[rank < most[ordered]]]] = True
    return np.asarray(is_first)


_FIRST_ROWS = 1 << 12
"""Number of packets that suffice to identify a connection if there is only one candidate."""
_MOST_OF = 0.5
"""Minimum share of common packets, relative to the connection with fewer packets, for a translated connection."""
_MIN_PACKETS = 3
"""Minimum number of common packets: a connection of a scanner has two, SYN and RST."""


class Counterpart(NamedTuple):
    """The same connection in the capture of another point."""

    connection: int
    """Number of the connection there, from 1."""
    is_turned: bool
    """Whether that capture calls the initiator of the near capture the responder."""


@dataclass(frozen=True)
class Counterparts:
    """Finds the connections of one capture in another capture.

    Parameters
    ----------
    near, far : Analysis
        Analyses of any two captures; their clocks are not used.
    fields : tuple of str
        Fields that identify a packet.
    """

    near: Analysis
    far: Analysis
    fields: tuple[str, ...] = EXACT

    def of(self, connection: int) -> Counterpart | None:
        """Return the connection of the far capture that is connection `connection` (from 1) of the near one.

        It is None if there is no such connection.
        """
        candidates = self._by_endpoints.get(_endpoints(self.near, connection), [])
        other = self._most_alike(connection, candidates)
        if other is None:
            other = self._translated(connection)
        if other is not None:
            return Counterpart(other, self._is_turned(connection, other))
        weaker = (each.of(connection) for each in self._weaker)
        return next((there for there in weaker if there is not None), None)

    def all(self) -> list[tuple[int, Counterpart]]:
        """Return (number in the near capture, counterpart) for each connection that both captures contain."""
        pairs = ((n, self.of(n)) for n in range(1, len(self.near.connections) + 1))
        return [(n, there) for n, there in pairs if there is not None]

    @cached_property
    def _weaker(self) -> list[Counterparts]:
        """Return the same with weaker identities, if this one has the strongest."""
        if self.fields != EXACT:
            return []
        is_cut = any(has(of.capture.segments["marks"], CaptureMark.HEADER_CUT).any() for of in (self.near, self.far))
        return [Counterparts(self.near, self.far, each) for each in (RENUMBERED, *([UNSTAMPED] if is_cut else []))]

    @cached_property
    def _by_endpoints(self) -> dict[bytes, list[int]]:
        numbers: dict[bytes, list[int]] = {}
        for number in range(1, len(self.far.connections) + 1):
            numbers.setdefault(_endpoints(self.far, number), []).append(number)
        return numbers

    def _most_alike(self, connection: int, candidates: list[int]) -> int | None:
        """Return the candidate with the most packets in common; None if none has a packet in common.

        If there is only one candidate, its first packets are compared first, which is enough in most cases.
        """
        if len(candidates) == 1 and self._shared(connection, candidates[0], first=_FIRST_ROWS):
            return candidates[0]
        shared = [(self._shared(connection, other), -other) for other in candidates]
        most = max(shared, default=(0, 0))
        return -most[1] if most[0] else None

    def _shared(self, connection: int, other: int, *, first: int | None = None) -> int:
        """Return how many packets two connections have in common, both directions together.

        `first` limits the comparison to the first packets of each direction; None means all.
        """
        mine, theirs = (_keys(self.near, connection, self.fields, first), _keys(self.far, other, self.fields, first))
        return len(join(mine, copies(mine)[0], theirs, copies(theirs)[0])[0])

    @cached_property
    def _far_keys(self) -> tuple[Array, Array]:
        """Return the identities of all packets of the far capture, sorted, and the connection of each."""
        keys = identities(self.far.capture.segments, None, self.fields)
        order = np.argsort(keys, kind="stable")
        return keys[order], (self.far.partition.direction >> 1)[order]

    def _translated(self, connection: int) -> int | None:
        """Return the connection, with any endpoints, that has most packets of this one; None without one."""
        mine = distinct(_keys(self.near, connection, self.fields, _FIRST_ROWS))
        keys, connections = self._far_keys
        begin, end = np.searchsorted(keys, mine), np.searchsorted(keys, mine, side="right")
        rows = np.concatenate([np.arange(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True)])
        if not len(rows):
            return None
        shared = np.bincount(connections[rows.astype(np.int64)])
        best = int(shared.argmax())
        rows_there = len(_keys(self.far, best + 1, self.fields, _FIRST_ROWS))
        enough = max(_MIN_PACKETS, _MOST_OF * min(len(mine), rows_there))
        is_alone = np.count_nonzero(shared == shared[best]) == 1
        return best + 1 if shared[best] >= enough and is_alone else None

    def _is_turned(self, connection: int, other: int) -> bool:
        """Return whether the initiator in the near capture is the responder in the far capture."""
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
    """Return both endpoints of a connection as bytes, without VLAN, in an order independent of direction."""
    pair = int(analysis.connections["forward_flow"][number - 1]) >> 1
    flows = analysis.capture.flows
    ends = sorted(bytes(flows[f"address_{e}"][pair]) + int(flows[f"port_{e}"][pair]).to_bytes(2) for e in "ab")
    return bytes([int(flows["ip_version"][pair])]) + b"".join(ends)


def _keys(analysis: Analysis, connection: int, fields: tuple[str, ...], first: int | None = None) -> Array:
    """Return the identities of the packets of a connection, both directions together.

    `first` limits them to the first packets of each direction; None means all.
    """
    ways = (False, True)
    return np.concatenate([_keys_one_way(analysis, connection, fields, reverse=way, first=first) for way in ways])


def _keys_one_way(
    analysis: Analysis, connection: int, fields: tuple[str, ...], *, reverse: bool, first: int | None = None
) -> Array:
    bounds, direction = analysis.partition.bounds, 2 * (connection - 1) + reverse
    rows = analysis.partition.order[bounds[direction] : bounds[direction + 1]][:first]
    return identities(analysis.capture.segments, rows, fields)
