"""The same packets at two capture points: what was lost between them, what was doubled, how long it took.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.two_points.alike import Copies, arrivals
from multitracer.analysis.two_points.recut import recut
from multitracer.clock.captures.matching import EXACT, RENUMBERED, among, copy_numbers, identities, join
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.tcp import PACKET_PAIRS

if TYPE_CHECKING:
    from multitracer.analysis.tcp import Analysis
    from multitracer.tables import Array


class Outcome(IntEnum):
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

    def count(self, outcome: Outcome) -> int:
        """Return how many packets came to this."""
        return int(np.count_nonzero(self.pairs["outcome"] == outcome))

    @property
    def duplicates(self) -> int:
        """How many packets the far point saw more often than the near one."""
        extra = (self.pairs["outcome"] == Outcome.ONLY_FAR) & (self.pairs["copy"] > 0)
        return int(np.count_nonzero(extra))

    @property
    def delays_ns(self) -> Array:
        """Raw one-way delays of the matched packets, in the order of the near point.

        Int64, ns, shape (n_matched,), by two clocks: of any sign; never NA.
        """
        delays: Array = self.pairs["delay_ns"][self.pairs["outcome"] == Outcome.MATCHED]
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
        Number of the connection in each; see `multitracer.analysis.two_points.counterpart`.
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
    outcome[(outcome == Outcome.LOST) & _outside(left, near_index)] = Outcome.NOT_COVERED
    outcome[(outcome == Outcome.ONLY_FAR) & _outside(right, far_index)] = Outcome.NOT_COVERED
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
    outcome = np.full(len(left), Outcome.ONLY_FAR, dtype=np.uint8)
    outcome[: len(order)] = np.where(right[: len(order)] == NA, Outcome.LOST, Outcome.MATCHED)
    return left, right, outcome


def _mark_recut(near: _Side, far: _Side, left: Array, right: Array, outcome: Array) -> None:
    """Mark, in place, packets that were neither lost nor added, but cut or joined."""
    lost, added = np.flatnonzero(outcome == Outcome.LOST), np.flatnonzero(outcome == Outcome.ONLY_FAR)
    if not len(lost) or not len(added):
        return
    recut_rows = recut(near[0].capture.segments, near[1], far[0].capture.segments, far[1])
    outcome[lost[recut_rows.near[left[lost]]]] = Outcome.RECUT
    outcome[added[recut_rows.far[right[added]]]] = Outcome.RECUT


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
    left, arrived = arrivals(Copies(sent, times[0]), Copies(far[0][came], times[1]))
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
    return key, copy_numbers(key)
