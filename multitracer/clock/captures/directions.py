"""The two directions between two capture points: direction, length and delay of each packet.

Clock A is that of the first capture, B that of the second. A packet from A to B gives ``B - A = offset +
delay``, a packet in the other direction ``B - A = offset - delay``. Which hosts are on A's side is not known
before: it is inferred from the condition that delays are positive.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.matching import ip_lengths, match
from multitracer.clock.model.estimate import ClockEvidence, EventDirection
from multitracer.clock.model.relation import Clock, Relation
from multitracer.errors import ClockError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.capture import CaptureTables
    from multitracer.clock.model.estimate import Estimate
    from multitracer.tables import Array

MIN_PACKETS = 3
"""Minimum number of packets in each direction; with fewer, no relation of the clocks is stated."""
_MOST_PAIRS_OF_HOSTS = 512
"""Maximum number of pairs of hosts, to bound the time for a port scan; pairs with most packets come first."""


@dataclass(frozen=True, slots=True)
class MatchedDirection:
    """The matched packets of one direction, in the order of capture A.

    Parameters
    ----------
    sign : int
        +1: from A's side to B's; -1: the other direction.
    row : ndarray of int64
        Row in capture A: the true order of events, also if the clocks stepped.
    other_row : ndarray of int64
        Row in capture B.
    time_ns : ndarray of float64, ns
        Time at A, relative to `Ways.first_ns`.
    delay_ns : ndarray of float64, ns
        Receiving minus sending clock, minus ``sign * Ways.base_ns``: delay plus the offset of the clocks.
    size_bytes : ndarray of float64
        Length of the IP packet, options included.
    payload_bytes : ndarray of int32
    seq : ndarray of uint32
    flow : ndarray of int32
        As in capture A's segments.
    """

    sign: int
    row: Array
    other_row: Array
    time_ns: Array
    delay_ns: Array
    size_bytes: Array
    payload_bytes: Array
    seq: Array
    flow: Array

    def __len__(self) -> int:
        return len(self.row)

    @property
    def sent_ns(self) -> Array:
        """Send time of each packet by the clock of the sending side: float64, ns, shape (n_packets,)."""
        return self.time_ns if self.sign > 0 else self.time_ns - self.delay_ns

    def take(self, chosen: Array) -> MatchedDirection:
        """Return the packets selected by a mask (bool, shape (n_packets,)) or by positions (int64)."""
        columns = (getattr(self, f.name)[chosen] for f in fields(self)[1:])
        return MatchedDirection(self.sign, *columns)

    def shifted(self, delay_ns: Array, time_ns: Array | None = None) -> MatchedDirection:
        """Return the packets with new delays and optionally new times: float64, ns, shape (n_packets,)."""
        return replace(self, delay_ns=delay_ns, time_ns=self.time_ns if time_ns is None else time_ns)


@dataclass(frozen=True, slots=True)
class Ways:
    """The packets of both directions, and constants subtracted from their times: float64 is then exact to 1 ns."""

    out: MatchedDirection
    back: MatchedDirection
    first_ns: int
    """The time of clock A that counts as 0."""
    base_ns: int
    """B - A of the first matched packet."""


def both_ways(a: CaptureTables, b: CaptureTables, *, complete: bool = False) -> Ways:
    """Return the packets that both captures contain, by direction.

    In long captures only runs of packets are used; with `complete` all of them.

    Raises
    ------
    ClockError
        If they share too few packets, or only packets of one direction.
    """
    rows_a, rows_b = match(a, b, complete=complete)
    if len(rows_a) < 2 * MIN_PACKETS:
        raise ClockError(
            "two captures: cannot determine the clock offset, because the captures share "
            f"{len(rows_a)} packets; what would help: captures of the same connections at the same "
            "time"
        )
    time_a, time_b = a.segments["time_ns"][rows_a], b.segments["time_ns"][rows_b]
    first_ns, base_ns = int(time_a.min()), int(time_b[0] - time_a[0])
    elapsed = (time_a - first_ns).astype(np.float64)
    difference = (time_b - time_a - base_ns).astype(np.float64)
    sign = _signs(a, rows_a, difference)
    size = ip_lengths(a, rows_a)
    columns = [a.segments[name][rows_a] for name in ("payload_bytes", "seq", "flow")]
    out, back = (
        MatchedDirection(
            s, rows_a[m], rows_b[m], elapsed[m], s * difference[m], size[m], *(column[m] for column in columns)
        )
        for s in (1, -1)
        for m in [sign == s]
    )
    if min(len(out), len(back)) < MIN_PACKETS:
        raise ClockError(
            "two captures: cannot determine the clock offset, because the captures share packets of "
            "one direction only, whose delay cannot be separated from the clock offset; what would "
            "help: captures of both directions"
        )
    return Ways(out, back, first_ns, base_ns)


def _signs(a: CaptureTables, rows: Array, difference: Array) -> Array:
    """Return +1 for packets from A's side, -1 for packets to it, 0 if unknown.

    For each pair of hosts the direction is chosen so that a packet and the next one in the other direction
    both have positive delays. Only neighbours are compared, so a clock step has no influence.
    """
    flow = a.segments["flow"][rows]
    pair, reverse = _pairs_of_hosts(a)
    pair_of, back = pair[flow >> 1], reverse[flow >> 1] ^ (flow & 1).astype(bool)
    sign = np.zeros(len(rows), dtype=np.int8)
    for one in np.argsort(-np.bincount(pair_of))[:_MOST_PAIRS_OF_HOSTS]:
        chosen = np.flatnonzero(pair_of == one)
        there, here = difference[chosen[~back[chosen]]], difference[chosen[back[chosen]]]
        if len(there) and len(here):
            turn = np.searchsorted(chosen[back[chosen]], chosen[~back[chosen]]).clip(max=len(here) - 1)
            round_trip = np.median(there - here[turn])
            sign[chosen] = np.where(back[chosen], -1, 1) * int(np.sign(round_trip))
    return sign


def _pairs_of_hosts(a: CaptureTables) -> tuple[Array, Array]:
    """Return for each flow the number of its pair of hosts, and whether its endpoint a is the second host.

    Several connections of the same two hosts agree on the direction; for equal addresses, the ports decide.
    """
    flows = a.flows
    low, high = flows["address_a"], flows["address_b"]
    texts = [[bytes(x) for x in column.tolist()] for column in (low, high)]
    keys: dict[tuple[bytes, bytes], int] = {}
    pair = np.empty(len(flows), dtype=np.int64)
    reverse = np.zeros(len(flows), dtype=bool)
    for i, (x, y) in enumerate(zip(*texts, strict=True)):
        one, other = x, y
        if x == y:
            ports = int(flows["port_a"][i]), int(flows["port_b"][i])
            one, other = x + ports[0].to_bytes(2), y + ports[1].to_bytes(2)
        reverse[i] = one > other
        pair[i] = keys.setdefault((min(one, other), max(one, other)), len(keys))
    return pair, reverse


# The packets behind an estimate, for a figure: each with its two stamps and the way it went.


_LONGEST_DELAY_NS = 10 * NS_PER_S
"""Maximum delay of a packet, ns; after a longer one it may be drawn in the wrong interval, but no number depends on
this."""


def with_packets(estimates: Sequence[Estimate], near: CaptureTables, far: CaptureTables) -> list[Estimate]:
    """Return the estimates with the packets that they were computed from, for a figure."""
    if all(estimate.points is not None for estimate in estimates):
        return list(estimates)
    ways = both_ways(near, far)
    rows = np.concatenate([ways.out.row, ways.back.row])
    order = np.argsort(rows, kind="stable")  # as captured: a clock that was set back repeats its stamps
    others = np.concatenate([ways.out.other_row, ways.back.other_row])
    direction = np.repeat(
        np.array([EventDirection.FORWARD, EventDirection.BACKWARD], dtype=np.int8), [len(ways.out), len(ways.back)]
    )
    start, end = near.segments["time_ns"][rows[order]], far.segments["time_ns"][others[order]]
    index = _intervals(estimates, start, end, direction[order])
    parts = [np.flatnonzero(index == i) for i in range(len(estimates))]
    return [
        replace(e, points=ClockEvidence(start[part], end[part], direction[order][part]))
        for e, part in zip(estimates, parts, strict=True)
    ]


def _intervals(estimates: Sequence[Estimate], start: Array, end: Array, direction: Array) -> Array:
    """Return for each packet the index of the estimate (interval between clock steps) that it belongs to.

    The time of the packet decides. Near a step, its delay decides: of two estimates, the one with the smaller
    non-negative delay is used.
    """
    relation = Relation(Clock("near"), Clock("far"), tuple(estimates))
    index = relation.intervals(start)
    for i, (earlier, later) in enumerate(pairwise(estimates)):
        left = earlier.last_ns, int(earlier.at(earlier.last_ns))
        away = np.minimum(np.abs(start - left[0]), np.abs(end - left[1]))
        near = np.flatnonzero(((index == i) | (index == i + 1)) & (away < _LONGEST_DELAY_NS))
        took = [direction[near] * (end[near] - e.at(start[near])) for e in (earlier, later)]
        slack = [e.bound_ns(start[near]) for e in (earlier, later)]
        cost = [np.where(t < -s, np.inf, np.abs(t)) for t, s in zip(took, slack, strict=True)]
        index[near] = np.where(cost[1] < cost[0], i + 1, i)
    return index
