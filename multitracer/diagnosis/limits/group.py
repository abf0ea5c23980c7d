"""Several connections as one group: what limited the time in which any of them was not finished.

Connections can fill a link together although none of them fills it alone. Packets in the queue of one link
arrive as far apart as the link needs for each packet, whatever connection they belong to. So if the packets
of all connections follow each other at this distance for a round trip or more, the link was busy all the
time. Captures at the receiver show this, and so do ACKs that were not delayed on the return path.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import BLOCK_ROWS, distinct, first_of_each, indexes, median
from multitracer.diagnosis.limits.limited import Limited, limited, of_both_directions
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitShare, LimitSubtype, Viewpoint, direction_of
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.packets.packet_delays import HEADERS_BYTES
from multitracer.recording.short_transfers import transfers_of
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.recording.capture import Capture
    from multitracer.recording.mptcp import MultipathConnection
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Document, Table

_APART_NS = 2 * NS_PER_S
"""Time without an unfinished transfer, in ns, that ends a group (limits.md)."""
_FOLLOWS_NS = NS_PER_S
"""Maximum time, in ns, after the end of one connection in which a connection that waited for it begins."""
MOST = 300
"""Maximum number of connections of a group that are diagnosed, the longest ones; a web page of 300 fetches fits."""
_OF_ONE = (Limit.SLOW_START, Limit.CONGESTION_WINDOW, Limit.RECOVERY)
_IS_OF_ONE = np.array([each in _OF_ONE for each in Limit])
"""For each limit by its number, whether it holds back one connection while others continue."""
_STAGES = {
    (Limit.HANDSHAKE, LimitSubtype.NONE): "handshake",
    (Limit.APPLICATION, LimitSubtype.PEER): "request",
    (Limit.APPLICATION, LimitSubtype.LATENCY): "request",
    (Limit.APPLICATION, LimitSubtype.REPAIR): "request",
    (Limit.APPLICATION, LimitSubtype.THINK): "think",
}


class Stage(NamedTuple):
    """A stage of one connection on the critical chain of the group."""

    connection: int
    stage: str
    """The stage: handshake, request, think or transfer."""
    begin_ns: int
    end_ns: int


class GroupConnection(NamedTuple):
    """A connection of a group with its limits."""

    number: int
    """Connection number in the recording, from 1."""
    begin_ns: int
    """Start of the connection on the clock of the group's capture."""
    limited: Limited

    @property
    def begin(self) -> Array:
        """Begin of each interval of the connection, on the clock of the group's capture: int64, ns."""
        return np.asarray(self.limited.cells.begin + (self.begin_ns - self.limited.begin_ns))

    @property
    def end(self) -> Array:
        """End of each interval of the connection, on the clock of the group's capture: int64, ns."""
        return np.asarray(self.limited.cells.end + (self.begin_ns - self.limited.begin_ns))

    @property
    def stages(self) -> list[Stage]:
        """The stages of the transfer in order; successive equal stages are merged."""
        cells = self.limited.cells
        stage = np.zeros(len(cells.begin), dtype=np.int64)
        for number, (limit, part) in enumerate(_STAGES, 1):
            stage[(cells.limit == limit.value) & (cells.part == part.value)] = number
        first = indexes(np.diff(stage, prepend=-1))
        last = np.append(first[1:], len(stage))[: len(first)] - 1
        names = ("transfer", *_STAGES.values())
        columns = (stage[first].tolist(), self.begin[first].tolist(), self.end[last].tolist())
        return [Stage(self.number, names[of], begin, end) for of, begin, end in zip(*columns, strict=True)]


@dataclass(frozen=True)
class ConnectionGroup:
    """Connections of one client to one peer, each begun at most 2 s after all earlier ones had finished.

    Subflows of one MPTCP connection belong together, whatever their addresses.

    Attributes
    ----------
    numbers : list of int
        Their numbers in the recording, ordered by begin.
    members : list of GroupConnection
        Those that were diagnosed, the longest transfer first; at least one.
    multipath : tuple of MultipathConnection
        The MPTCP connections with two subflows or more in the group.
    """

    numbers: list[int]
    members: list[GroupConnection]
    multipath: tuple[MultipathConnection, ...] = ()

    @property
    def is_one_connection(self) -> bool:
        """Whether the group is one MPTCP connection: its TCP connections are its subflows."""
        return len(self.multipath) == 1 and set(self.numbers) <= set(self.multipath[0].subflows)

    @property
    def longest(self) -> Limited:
        """The limits of the transfer that took longest."""
        return self.members[0].limited

    @cached_property
    def _share(self) -> tuple[Array, Array]:
        """Two arrays: times in ns, and the time counted for one transfer up to each of them.

        While n transfers are active at once, each is given 1 / n of the time.
        """
        begins = np.array([each.begin[0] for each in self.members if len(each.begin)], dtype=np.int64)
        ends = np.array([each.end[-1] for each in self.members if len(each.end)], dtype=np.int64)
        places = distinct(np.concatenate([begins, ends, [self.members[0].begin_ns]]))
        begun, ended = (np.searchsorted(np.sort(each), places, side="right") for each in (begins, ends))
        active = (begun - ended)[:-1]
        parts = np.diff(places) / np.maximum(active, 1) * (active > 0)
        return places, np.concatenate([[0.0], np.cumsum(parts)])

    def counted(self, times_ns: Array) -> Array:
        """Return the time counted for one transfer up to each of `times_ns`: float64, ns, shape (n,).

        While n transfers are active at once, each is given 1 / n of the time.
        """
        return np.asarray(np.interp(times_ns, *self._share))

    @cached_property
    def together(self) -> Spans:
        """The intervals in which the connections filled the link together, by the group's clock.

        In them, packets of at least two connections followed each other as from a queue. Empty unless the
        arrival times are known for all connections with data.
        """
        members = [each for each in self.members if each.limited.seen is not None]
        if len(members) < 2:
            return Spans.none()
        came = [_arrivals(each.limited, each.begin_ns - each.limited.begin_ns) for each in members]
        known = [each for each in came if each is not None]
        if len(known) < len(came):
            return Spans.none()
        owner = np.repeat(np.arange(len(known)), [len(each.time_ns) for each in known])
        time, size = (np.concatenate(column) for column in zip(*known, strict=True))
        order = np.argsort(time, kind="stable")
        floor_ns = max(each.limited.seen.floor_ns for each in members if each.limited.seen is not None)
        return _stretches(time[order], size[order], owner[order], floor_ns)

    @cached_property
    def shares(self) -> list[LimitShare]:
        """One row for each limit, subtype and direction in the group, with its most frequent confidence; largest first.

        While the connections filled the link together, the link is the limit of those that a window or recovery
        limited. The seconds sum to `total_s`.
        """
        sure, parts = len(Confidence), len(LimitSubtype)
        by_place: dict[int, None] = {}
        chunks = []  # of each connection: limit, part and direction as one code, confidence, and time that is counted
        for member in self.members:
            limited, begin = member.limited, member.begin
            edges = np.concatenate([*self.together, begin, member.end[-1:]])
            edges = distinct(edges[(edges >= begin[:1].sum()) & (edges <= member.end[-1:].sum())])
            for at in range(0, len(edges) - 1, BLOCK_ROWS):
                here = edges[at : at + BLOCK_ROWS + 1]
                cell = np.searchsorted(begin, here[:-1], side="right") - 1
                shared = self.together.holds(here[:-1]) & _IS_OF_ONE[limited.cells.limit[cell]]
                limit = np.where(shared, Limit.LINK, limited.cells.limit[cell])
                part = np.where(shared, LimitSubtype.NONE, limited.cells.part[cell])
                confidence = np.where(shared, Confidence.WEAK, limited.confidence[cell])
                passed = np.diff(self.counted(here)) * (limited.transfer.speed / NS_PER_S)
                code = ((limit * parts + part) * 2 + limited.is_reverse[cell]) * sure + confidence
                of, first = first_of_each(code)
                by_place |= dict.fromkeys((of[np.argsort(first)] // sure).tolist())
                chunks.append((code.astype(np.int16), passed))
        if not chunks:
            return []
        code, passed = (np.concatenate(column) for column in zip(*chunks, strict=True))
        del chunks
        bins: Array = np.zeros(2 * len(Limit) * parts * sure)
        np.add.at(bins, code, passed)  # in order: sums of blocks would differ in the last digit
        bins = bins.reshape(-1, sure)
        total = max(float(passed.sum()), 1e-12)
        rows = []
        for each in sorted(by_place, key=lambda each: -float(bins[each].sum())):
            limit_part, seconds, most = each // 2, float(bins[each].sum()), Confidence(int(bins[each].argmax()))
            named = Limit(limit_part // parts), LimitSubtype(limit_part % parts)
            share = seconds / total
            rows.append(LimitShare(*named, seconds, share, share, share, most, bool(each % 2)))
        return rows

    @property
    def total_s(self) -> float:
        """Wall time with at least one unfinished transfer, in seconds of link time."""
        return sum(row.seconds for row in self.shares)

    @cached_property
    def chain(self) -> list[Stage]:
        """The stages of the critical chain: connections that may each have waited for the one before."""
        order = sorted((each for each in self.members if len(each.end)), key=lambda each: -int(each.end[-1]))
        chain = order[:1]
        for each in order:  # only ever back in it: two that took no time would else wait for each other
            waited_ns = chain[-1].begin_ns - int(each.end[-1])
            if waited_ns >= 0 and each is not chain[-1]:
                if waited_ns > _FOLLOWS_NS:
                    break
                chain.append(each)
        return [stage for each in reversed(chain) for stage in each.stages]

    def document(self, *, stages: bool = True) -> Document:
        """Return the group as `diagnose --json` writes it; without `stages` its chain is empty.

        A connection of many small exchanges has a stage or two for each of them, 330 bytes each.
        """
        first = min(each.begin_ns for each in self.members)
        speed = self.longest.transfer.speed / NS_PER_S
        return {
            "connections": self.numbers,
            "multipath": [list(each.subflows) for each in self.multipath],
            "total_s": round(self.total_s, 6),
            "limits": [
                {"limit": row.limit.label, "part": row.part.label if row.part else None,
                 "direction": direction_of(reverse=row.reverse), "seconds": round(row.seconds, 6),
                 "share": round(row.share, 6), "confidence": row.confidence.label}
                for row in self.shares
            ],
            "chain": [
                {"connection": each.connection, "stage": each.stage,
                 "begin_s": round((each.begin_ns - first) * speed, 6),
                 "end_s": round((each.end_ns - first) * speed, 6)}
                for each in (self.chain if stages else ())
            ],
        }  # fmt: skip


def alone(limited: Limited) -> ConnectionGroup:
    """Return a group that contains only the given transfer."""
    number = limited.transfer.at_sender.number
    return ConnectionGroup([number], [GroupConnection(number, limited.begin_ns, limited)])


def group_of(recording: Recording) -> ConnectionGroup | None:
    """Return the group of connections with the longest duration, and the limits of each connection.

    The capture with the largest connection is used; connections without time stamps are left out. The result
    is None if no connection has time stamps.
    """
    capture, _ = recording.chosen(None)
    connections, directions = capture.analysis.connections, capture.analysis.directions

    # when each began, and when its last payload, or else segment, was seen
    begin, last = connections["start_ns"], directions["last_payload_ns"]
    unique, end = directions["unique_bytes"], connections["end_ns"]
    some = indexes((unique[::2] > 0) | (unique[1::2] > 0))
    if len(some):
        sides = [np.where(unique[way::2][some] > 0, last[way::2][some], np.iinfo(np.int64).min) for way in (0, 1)]
        end = end.copy()
        end[some] = np.maximum(*sides)
        del sides
    del some
    is_timed = (begin != NOT_A_TIME) & (end >= begin)
    timed = slice(None) if is_timed.all() else indexes(is_timed)

    # those of one client and peer
    pair, many = _client_and_peer(capture.tables.flows, connections["forward_flow"][timed])
    multipath = _multipath(capture) if directions["mptcp"].any() else []
    for each in multipath:  # subflows are one, whatever their addresses
        own = np.isin(np.arange(len(begin))[timed] + capture.offset + 1, each.subflows)
        pair[np.isin(pair, pair[own])] = pair[own].min(initial=many)
    longest = _longest_group(pair, begin[timed], end[timed])
    best = (longest if isinstance(timed, slice) else timed[longest]).tolist()
    ordered = sorted(best, key=lambda row: (begin[row] - end[row], row))
    members = []
    for row, transfer in zip(ordered[:MOST], transfers_of(recording, capture, ordered[:MOST]), strict=True):
        if not transfer.without_time:
            members.append(
                GroupConnection(capture.offset + row + 1, int(begin[row]), of_both_directions(limited(transfer)))
            )
    members.sort(key=lambda each: -each.limited.total_s)
    chosen = sorted(capture.offset + row + 1 for row in best)
    of_group = tuple(each for each in multipath if set(each.subflows) & set(chosen))
    return ConnectionGroup(chosen, members, of_group) if members else None


_BLOCK = 1 << 16
"""Number of connections whose addresses are Python's objects at a time: 120 bytes each."""


def _client_and_peer(flows: Table, forward: Array) -> tuple[Array, int]:
    """Return a number for the client and peer of each connection, by their addresses, and how many there are.

    Parameters
    ----------
    flows : Table
        FLOWS of a capture.
    forward : ndarray of int32, shape (n_connections,)
        The flow of the initiator, with its direction in the lowest bit.

    Returns
    -------
    ndarray of int32, shape (n_connections,)
        Ascending by the first connection of each pair.
    int
    """
    numbers: dict[tuple[bytes, bytes], int] = {}
    pair = np.empty(len(forward), dtype=np.int32)
    for begin in range(0, len(forward), _BLOCK):
        flow = forward[begin : begin + _BLOCK]
        turned = (flow & 1).astype(bool)
        ends = flows["address_a"][flow >> 1], flows["address_b"][flow >> 1]
        client, peer = np.where(turned, ends[1], ends[0]).tolist(), np.where(turned, ends[0], ends[1]).tolist()
        pair[begin : begin + _BLOCK] = [
            numbers.setdefault(each, len(numbers)) for each in zip(client, peer, strict=True)
        ]
    return pair, len(numbers)


def _multipath(capture: Capture) -> list[MultipathConnection]:
    from multitracer.recording.mptcp import multipath_connections  # noqa: PLC0415  # few captures hold any

    return multipath_connections(capture)


def _longest_group(pair: Array, begin_ns: Array, end_ns: Array) -> Array:
    """Return the rows of the group with the longest wall time, by begin; of equal ones, the first pair's.

    Parameters
    ----------
    pair : ndarray of int32, shape (n_connections,)
        Number of the client and peer of each connection, by their first connection.
    begin_ns, end_ns : ndarray of int64, ns, shape (n_connections,)
    """
    if not len(pair):
        return pair
    order = np.lexsort((begin_ns, pair))
    pair = pair[order]
    changes, firsts = indexes(pair[1:] != pair[:-1]) + 1, [0]  # of blocks of complete pairs
    while (at := int(np.searchsorted(changes, firsts[-1] + BLOCK_ROWS))) < len(changes):
        firsts.append(int(changes[at]))
    longest_ns, best = -1, order[:0]
    for first, behind in pairwise([*firsts, len(order)]):
        rows = order[first:behind]
        wall_ns, chosen = _longest_of_pairs(pair[first:behind], begin_ns[rows], end_ns[rows])
        if wall_ns > longest_ns:
            longest_ns, best = wall_ns, rows[chosen]
    return best


def _longest_of_pairs(pair: Array, begin_ns: Array, end_ns: Array) -> tuple[int, slice]:
    """Return the wall time of the longest group, in ns, and which rows it has; parameters as above, in order."""
    is_first = np.ones(len(pair), dtype=bool)
    is_first[1:] = (pair[1:] != pair[:-1]) | (begin_ns[1:] - _latest(end_ns, pair)[:-1] > _APART_NS)
    begins, group = indexes(is_first), pair
    if pair[0] != pair[-1]:
        group = np.cumsum(is_first)
    end_ns = np.maximum(end_ns, begin_ns + 1)
    new_ns = end_ns - begin_ns  # in each group only what is beyond those before
    new_ns[1:] -= np.where(is_first[1:], 0, np.maximum(_latest(end_ns, group)[:-1] - begin_ns[1:], 0))
    wall_ns = np.add.reduceat(np.maximum(new_ns, 0), begins)
    at = int(np.argmax(wall_ns))
    return int(wall_ns[at]), slice(begins[at], begins[at + 1] if at + 1 < len(begins) else None)


def _latest(end_ns: Array, group: Array) -> Array:
    """Return the latest end so far in each row's group; the groups are in ascending order.

    Of one group, that is the latest so far: so it is for all groups of a pair, as each begins after the ends before it.
    """
    if group[0] == group[-1]:
        return np.asarray(np.maximum.accumulate(end_ns))
    order = np.argsort(end_ns, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    highest = np.maximum.accumulate(group.astype(np.int64) * len(order) + rank) % len(order)
    return np.asarray(end_ns[order][highest])


_OWN = 0.25
"""Quantile of the time per byte between packets that is taken for the link's own, as in `service_times`."""
_BEHIND, _HELD_NS = 2.5, 2 * NS_PER_MS
"""A packet follows the one before if it arrives within `_BEHIND` times the time that the link needs for it,
or within `_HELD_NS`."""
_FULL = 0.85
"""Minimum part of an interval that the link needs for the packets in it; otherwise the senders made the gaps."""
_MIN = 16  # packets, as in a piece of `service_times`: of fewer the quantile is no rate. Not measured
_OTHERS = 0.1
"""Minimum share of the bytes that do not belong to the largest connection; otherwise one fills the link alone."""


class _Arrivals(NamedTuple):
    """Packets with data: the time at which each arrived at its receiver, and its bytes; shape (n,)."""

    time_ns: Array
    wire_bytes: Array


def _arrivals(limited: Limited, later_ns: int) -> _Arrivals | None:
    """Return the packets of a transfer that arrived at the receiver; None if arrival times are unknown.

    `later_ns` is added to all times, to convert them to the clock of the group.
    """
    transfer = limited.transfer
    if limited.view is Viewpoint.RECEIVER:
        rows = transfer.data
        time, payload = transfer.sender["time_ns"][rows], transfer.payload_bytes
    elif limited.view is Viewpoint.BOTH_ENDS and transfer.data_pairs is not None and transfer.receiver is not None:
        rows = np.unique(transfer.data_pairs.arrived[transfer.data_pairs.arrived != NA])
        rows = rows[transfer.receiver["payload_bytes"][rows] > 0]
        time, payload = transfer.came_ns[rows], transfer.receiver["payload_bytes"][rows]
    else:
        return _by_answers(limited.seen, later_ns)
    return _Arrivals(np.asarray(time) + later_ns, np.asarray(payload) + HEADERS_BYTES)


def _by_answers(seen: Observed | None, later_ns: int) -> _Arrivals | None:
    """Return the packets that arrived, by the ACKs; None if the ACKs themselves may have been delayed."""
    if seen is None or Limit.LINK in seen.weak or median(seen.answers.lag_ns) > _HELD_NS:
        return None
    delivered = seen.answers.delivered
    more = np.diff(delivered, prepend=delivered[:1])
    some = indexes(more > 0)
    segments = -(-more[some] // seen.mss_bytes)
    return _Arrivals(seen.answers.time_ns[some] + later_ns, more[some] + segments * HEADERS_BYTES)


def _stretches(time: Array, size: Array, owner: Array, floor_ns: int) -> Spans:
    """Return the intervals in which packets of several connections follow each other without a gap.

    An interval must be at least a round trip long. `owner` is the connection of each packet.
    """
    gap, size = np.diff(time), size[1:]
    if len(gap) < _MIN:
        return Spans.none()
    own = float(np.quantile(gap / size, _OWN))
    apart = indexes(gap > np.maximum(_BEHIND * own * size, _HELD_NS))
    first, last = np.append(0, apart + 1), np.append(apart, len(gap))
    work = np.append(0, np.cumsum(size)) * own
    took_ns = time[last] - time[first]
    full = (last - first >= _MIN) & (took_ns >= floor_ns) & (work[last] - work[first] >= _FULL * took_ns)
    shared = []
    for a, b in zip(first[full].tolist(), last[full].tolist(), strict=True):
        of_each = np.bincount(owner[a + 1 : b + 1], size[a:b])  # bytes of each owner
        if of_each.max() <= (1 - _OTHERS) * of_each.sum():
            shared.append((a, b))
    first, last = np.array(shared, dtype=np.int64).reshape(-1, 2).T
    return Spans.of(time[first], time[last])
