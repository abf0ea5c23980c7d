"""Finds packets that a capture holds more than once, and leaves all but the first of each out.

The device "any" of a host with containers sees a packet at the veth, at the bridge and at eth0; a mirror port sees it
going into the switch and out of it; a trunk, before and after the router, in two VLANs; a router, with the addresses
before and after NAT. `docs/duplicates.md` has the rules in words. They use evidence over a whole direction of a
connection, not over one packet, because one packet proves nothing: without IP identification and timestamps, as in
IPv6, a retransmission equals the packet octet by octet, and duplicate ACKs are equal by definition.

1. Flows with different VLANs or addresses are joined if nearly all packets of one recur in the other (`_joined`).
2. Segments with equal content that were seen at different points within `SPACING_NS` are one packet
   (`_at_other_points`): the n-th at one point belongs to the n-th at the other, so that duplicate ACKs and
   retransmissions keep their number.
3. What is left, seen at one point, is one packet by its IP identification, or if nearly every packet of the direction
   comes the same number of times, or within a small part of a round trip (`_at_one_point`). A receiver that
   reports such packets as duplicates (D-SACK) got them twice: the network duplicated them, and they stay.

Of the copies of a packet the first stays, wherever it was seen: then a packet that was lost between two points
counts, and each ACK comes after the data that it acknowledges. Where the points are far apart, one of them stays, as
far as it saw the packets (`_staying`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.capture import CaptureTables
from multitracer.captured import CaptureDuplicates, CaptureMark, Flag
from multitracer.tables import NOT_A_TIME
from parsers._packets.layers import UNTAGGED
from parsers._packets.places import INTERFACE_AT, place_of
from parsers._packets.repeats import SPACING_NS, carries, content, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from multitracer.captured import SourceFile
    from multitracer.tables import Array, Mask, Numbers, Table

    Words = NDArray[np.uint64]

_SHARE = 0.9
"""Share of the packets of one flow, or of one point, that must recur at the other; the capture may have dropped the
rest. A retransmission of nearly every packet is no transfer."""
_MOSTLY = 0.5
"""Share of the packets of a direction that must be seen at several points, so that all of them are taken for copies. Of
packets sent again over another path far fewer recur."""
_FEWEST_SHARED = 2
"""Minimum number of packets that must be seen at several points; one SYN is enough, because it is not sent again within
a second (RFC 6298). Not measured."""
_FEWEST = 3
"""Minimum number of packets in common with a flow of other addresses: a handshake has three."""
_FEWEST_ONE_WAY = 10
"""The same if only one direction was captured. Not measured."""
_NEAR_NS = 1_000_000
"""Maximum time between copies that nothing else tells from packets sent again, ns: the delay of a switch or host
without a queue. Copies at one point were up to 0.4 ms apart in all captures at hand."""
_ADJACENT_NS = 100_000
"""The same without any number that tells a copy from a retransmission (timestamps, identification). Not measured."""
_FAR_PART = 10
"""Points are far apart if a packet takes more than this part of a round trip between them: round trips would be wrong
by so much. Not measured."""
_PART_OF_ROUND_TRIP = 4
"""Such copies are at most this part of a round trip apart: a segment is sent again after one, at the earliest (RFC
6298, RFC 8985)."""
_EVERY = 0.95
"""Share of a direction's packets that must come the same number of times; the capture may have dropped some."""
_FEWEST_PACKETS, _FEWEST_ACKS = 3, 10
"""Minimum number of packets for that, and of ACKs alone, which may be duplicate ACKs. Not measured."""
_MOST_COPIES = 4
"""Largest number of times at one point: a packet goes into a switch and out of it, and two mirror ports see it."""
_SAME_IDENTITY = 0.05
"""Share of packets with the IP identification of the packet before, above which a sender's identifications tell nothing
(RFC 6864 lets it use one for all)."""
_MAC_BITS = np.uint64(31)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_CONTENT = ("seq", "ack", "flags", "payload_bytes", "window", "ip_id", "tsval", "tsecr", "sack_blocks")


class _Segments(NamedTuple):
    """Segments of a capture, in capture order; arrays of shape (n,)."""

    columns: dict[str, Array]
    key: Words
    """Hash of the content, with the SACK blocks."""
    time_ns: Numbers
    directed: Numbers
    """2 x flow, + 1 if sent by endpoint b."""
    sight: Words


def without_duplicates(capture: CaptureTables, sight: Numbers, *, joins: bool = True) -> CaptureTables:
    """Return a capture without the copies of packets; its files say how many there were, and where.

    Parameters
    ----------
    capture : CaptureTables
    sight : ndarray of int64, shape (n_segments,)
        Where each segment was seen, see `places.py`.
    joins : bool
        Whether flows with different VLANs or addresses may be one.
    """
    if not len(sight):
        return capture
    segments = _segments(capture, sight.view(np.uint64))
    flows, directed = _joined(capture.flows, segments) if joins else (capture.flows, segments.directed)
    point = (segments.sight + (segments.directed >> 1).astype(np.uint64)) * _FACTOR
    joined = segments._replace(directed=directed)
    owner = _at_other_points(joined, point)
    single = np.flatnonzero(owner < 0)
    size = int(directed.max()) + 1
    elsewhere, here = (np.bincount(directed[mask], minlength=size) for mask in (owner >= 0, owner < 0))
    at_one = _at_one_point(_picked(joined, single), capture, single, elsewhere >= _MOSTLY * here)
    owner[single[at_one >= 0]] = single[at_one[at_one >= 0]]
    owner = _first_owner(owner)
    _note(capture, segments, joined, owner)
    capture.segments.columns["flow"] = directed.astype(np.int32)
    kept = CaptureTables(capture.files, capture.segments, flows, capture.sack_blocks, capture.syn_options)
    return kept if (owner < 0).all() else kept.where(owner < 0)


def _segments(capture: CaptureTables, sight: Words) -> _Segments:
    columns = capture.segments.columns
    key, sack = content(columns), capture.sack_blocks
    key += _runs(capture.files)[columns["file"]] * _FACTOR
    edges = sack["left"].astype(np.uint64) | sack["right"].astype(np.uint64) << np.uint64(32)
    np.add.at(key, sack["row"], (edges + np.uint64(1)) * _FACTOR)
    return _Segments(columns, key, columns["time_ns"], columns["flow"].astype(np.int64), sight)


def _runs(files: list[SourceFile]) -> Words:
    """Return a number for each file: equal for files that follow each other in time.

    Files that overlap are different captures, which stay apart.
    """
    number, last_ns, numbers = 0, NOT_A_TIME, []
    for file in files:
        if file.first_ns is not None and file.last_ns is not None:
            number += file.first_ns < last_ns
            last_ns = max(last_ns, file.last_ns)
        numbers.append(number)
    return np.array(numbers, np.uint64)


def _picked(segments: _Segments, rows: Numbers) -> _Segments:
    columns = {name: segments.columns[name][rows] for name in (*_CONTENT, "marks", "time_ns")}
    _, key, time_ns, directed, sight = segments
    return _Segments(columns, key[rows], time_ns[rows], directed[rows], sight[rows])


# --- flows that are one ---


def _joined(flows: Table, segments: _Segments) -> tuple[Table, Numbers]:
    """Return the flows after joining those that hold the same packets, and each segment's directed flow."""
    pairs = _pairs(flows, segments)
    root, turned = np.arange(len(flows)), np.zeros(len(flows), np.int64)
    for one, two, is_turned in pairs:
        top_one, turn_one = _top(root, turned, one)
        top_two, turn_two = _top(root, turned, two)
        if top_one != top_two:
            low, high = min(top_one, top_two), max(top_one, top_two)
            root[high], turned[high] = low, turn_one ^ turn_two ^ is_turned
    if not len(pairs):
        return flows, segments.directed
    tops = [_top(root, turned, flow) for flow in range(len(flows))]
    top, turn = (np.array(part, np.int64) for part in zip(*tops, strict=True))
    kept = top == np.arange(len(flows))
    row = (np.cumsum(kept) - 1)[top]
    flow = segments.directed >> 1
    return flows.take(kept), row[flow] << 1 | (segments.directed & 1) ^ turn[flow]


def _top(root: Numbers, turned: Numbers, flow: int) -> tuple[int, int]:
    """Return the flow that a flow was joined to, and 1 if its endpoints are swapped there."""
    turn = 0
    while root[flow] != flow:
        turn ^= int(turned[flow])
        flow = int(root[flow])
    return flow, turn


def _pairs(flows: Table, segments: _Segments) -> list[tuple[int, int, int]]:
    """Return pairs of flows that hold the same packets, each with 1 if their endpoints are swapped."""
    flow, side = segments.directed >> 1, segments.directed & 1
    first, second, size = _same_in_flows(segments)
    turned = side[first] ^ side[second]
    pair, index = np.unique(np.stack([flow[first], flow[second], turned], axis=1), axis=0, return_inverse=True)
    if not len(pair):
        return []
    count = np.bincount(index, minlength=len(pair))
    recurs = count >= _SHARE * np.minimum(size[pair[:, 0]], size[pair[:, 1]])
    ends = _common_endpoints(flows, pair)
    are_apart = segments.sight[first] >> _MAC_BITS != segments.sight[second] >> _MAC_BITS
    is_translated = _is_translated(index, count, first < second, side[first], are_apart)
    is_translated &= (ends >= 1) | (np.bincount(index, segments.columns["payload_bytes"][first] > 0) > 0)
    chosen = recurs & (((ends == 2) & (count >= _FEWEST_SHARED)) | is_translated)
    return [(int(low), int(high), int(turn)) for low, high, turn in pair[chosen]]


def _same_in_flows(segments: _Segments) -> tuple[Numbers, Numbers, Numbers]:
    """Return rows of packets in the first flow that holds each, rows of the same in other flows, and flow sizes.

    Copies in a flow are one packet; the size is the number of packets. The copies of a packet are at most a
    round trip apart: no point between the hosts is further from another one.
    """
    order = np.argsort(segments.key, kind="stable")
    before, after = order[:-1], order[1:]
    flow, trip_ns = segments.directed >> 1, _round_trips_ns(segments)
    bound_ns = np.minimum(np.minimum(trip_ns[flow[before]], trip_ns[flow[after]]), SPACING_NS)
    goes_on = (segments.key[before] == segments.key[after]) & _are_equal(segments, before, after)
    goes_on &= within(segments.time_ns[after] - segments.time_ns[before], bound_ns)
    packet = np.cumsum(np.concatenate([[True], ~goes_on])) - 1
    by_flow = np.lexsort((order, flow[order], packet))
    rows, packet = order[by_flow], packet[by_flow]
    _, place = _places(packet, flow[rows])
    rows, packet = rows[place == 0], packet[place == 0]
    number, place = _places(packet)
    anchor = rows[np.flatnonzero(place == 0)[number]]
    return anchor[place > 0], rows[place > 0], np.bincount(flow[rows])


def _is_translated(index: Numbers, count: Numbers, led_by_low: Mask, side: Numbers, are_apart: Mask) -> Mask:
    """Return for each pair of flows whether the same packets were seen before and after a translation of addresses.

    The points lie on two sides of a router: what goes one way is seen at one of them first, what comes back at
    the other, and interface or hop limit differ. Connections that were only made alike do not pass.
    """
    led = [np.bincount(index, led_by_low & (side == way), minlength=len(count)) for way in (0, 1)]
    sent = [np.bincount(index, side == way, minlength=len(count)) for way in (0, 1)]
    ahead, behind = (
        [(part[way] >= _SHARE * sent[way]) & (sent[way] > 0) for way in (0, 1)]
        for part in (led, [sent[way] - led[way] for way in (0, 1)])
    )
    there_and_back = (ahead[0] & behind[1]) | (behind[0] & ahead[1])
    one_way = ((sent[0] == 0) | (sent[1] == 0)) & (ahead[0] | ahead[1] | behind[0] | behind[1])
    enough = (there_and_back & (count >= _FEWEST)) | (one_way & (count >= _FEWEST_ONE_WAY))
    return np.asarray(enough & (np.bincount(index, are_apart, minlength=len(count)) >= _SHARE * count))


def _common_endpoints(flows: Table, pair: Numbers) -> Numbers:
    """Return how many endpoints the flows of each pair have in common, 0 to 2."""
    shared = np.zeros(len(pair), np.int64)
    same_version = flows["ip_version"][pair[:, 0]] == flows["ip_version"][pair[:, 1]]
    for side, other in (("a", "b"), ("b", "a")):
        ends = [
            np.where(pair[:, 2] == 0, flows[f"{name}_{side}"][pair[:, 1]], flows[f"{name}_{other}"][pair[:, 1]])
            for name in ("port", "address")
        ]
        mine = [flows[f"{name}_{side}"][pair[:, 0]] for name in ("port", "address")]
        shared += same_version & (ends[0] == mine[0]) & (ends[1] == mine[1])
    return shared


def _round_trips_ns(segments: _Segments) -> Numbers:
    """Return the duration of each flow's handshake, from the first SYN to its ACK; the largest value if unknown."""
    flow, side = segments.directed >> 1, segments.directed & 1
    handshake = segments.columns["flags"] & np.uint16(Flag.SYN | Flag.ACK)
    flows = int(flow.max(initial=-1)) + 1
    first = _first_of(flow, np.flatnonzero(handshake == Flag.SYN), flows)
    begun = first[flow]
    is_answer = (handshake == Flag.ACK) & (begun >= 0) & (begun < np.arange(len(flow))) & (side == side[begun])
    answer = _first_of(flow, np.flatnonzero(is_answer), flows)
    trip_ns = segments.time_ns[answer] - segments.time_ns[first]
    known = (answer >= 0) & (segments.time_ns[answer] != NOT_A_TIME) & (segments.time_ns[first] != NOT_A_TIME)
    return np.where(known, np.maximum(trip_ns, 0), np.iinfo(np.int64).max)


def _first_of(flow: Numbers, rows: Numbers, flows: int) -> Numbers:
    """Return the first of the rows (ascending) of each flow; -1 without one."""
    first = np.full(flows, -1)
    first[flow[rows[::-1]]] = rows[::-1]
    return first


# --- copies ---


def _are_equal(segments: _Segments, rows: Numbers, others: Numbers) -> Mask:
    """Return whether the segments of two lists of rows hold the same: the hash alone may be made equal."""
    equal = np.ones(len(rows), np.bool_)
    for name in _CONTENT:
        equal &= segments.columns[name][rows] == segments.columns[name][others]
    return equal


def _clusters(segments: _Segments, apart_ns: Numbers | int) -> tuple[Numbers, Numbers]:
    """Return rows so that those with equal content in one direction follow each other, and each one's cluster.

    Within a cluster, successive rows are at most `apart_ns` apart: one bound, or one of each segment. Rows of a
    cluster ascend.
    """
    key = segments.key + segments.directed.astype(np.uint64) * _FACTOR
    order = np.argsort(key, kind="stable")
    before, after = order[:-1], order[1:]
    goes_on = (key[before] == key[after]) & (segments.directed[before] == segments.directed[after])
    bound_ns = apart_ns if isinstance(apart_ns, int) else apart_ns[after]
    goes_on &= within(segments.time_ns[after] - segments.time_ns[before], bound_ns)
    goes_on &= _are_equal(segments, before, after)
    return order, np.cumsum(np.concatenate([[True], ~goes_on])[: len(order)]) - 1


def _places(*sorted_columns: Array) -> tuple[Numbers, Numbers]:
    """Return for each row the number of its run of equal values, and its place in the run, from 0."""
    begins = np.ones(len(sorted_columns[0]), np.bool_)
    begins[1:] = np.any([column[1:] != column[:-1] for column in sorted_columns], axis=0)
    run = np.cumsum(begins) - 1
    return run, np.arange(len(begins)) - np.flatnonzero(begins)[run]


def _at_other_points(segments: _Segments, point: Words) -> Numbers:
    """Return for each segment the row of the same packet that was seen before, at another point; -1 without one."""
    owner = np.full(len(point), -1)
    order, cluster = _clusters(segments, SPACING_NS)
    several = np.bincount(cluster)[cluster] > 1
    rows, number = order[several], cluster[several]
    if not len(rows):
        return owner
    seldom, before = _seldom(segments, point, rows, number)
    by_point = np.lexsort((rows, point[rows], number))
    rows, number = rows[by_point], number[by_point]
    _, time = _places(number, point[rows])
    by_packet = np.lexsort((rows, time, number))
    rows, number = rows[by_packet], number[by_packet]
    run, place = _places(number, time[by_packet])
    first = np.flatnonzero(place == 0)
    is_doubled = _doubled_directions(segments, order, cluster, number[place > 0])
    original = _staying(segments, rows, run, first)
    chosen = (rows != original[run]) & is_doubled[segments.directed[rows]]
    owner[rows[chosen]] = original[run[chosen]]
    is_left = ~is_doubled[segments.directed[seldom]]
    owner[seldom[is_left]] = before[is_left]
    return _first_owner(owner)


def _staying(segments: _Segments, rows: Numbers, run: Numbers, first: Numbers) -> Numbers:
    """Return for each packet the row that stays: the first, or the one at the interface nearest to the sender of data.

    The latter holds for connections whose points are far apart, as in a merged capture of both hosts: the first
    of all would mix the times of both. `rows` are the copies of one packet after the other, `run` is the number of
    each one's packet, and `first` where each packet begins.
    """
    original = rows[first].copy()
    last = np.append(first[1:], len(rows)) - 1
    flow = segments.directed[rows] >> 1
    flows = int(segments.directed.max()) // 2 + 1
    interface = (segments.sight[rows] >> np.uint64(INTERFACE_AT)).astype(np.int64)
    several = last > first
    lag_ns = segments.time_ns[rows[last[several]]] - segments.time_ns[rows[first[several]]]
    count = np.bincount(flow[first[several]], minlength=flows)
    mean_ns = np.bincount(flow[first[several]], lag_ns, minlength=flows) / np.maximum(count, 1)
    trip_ns = np.zeros(flows, np.int64)
    known_ns = _round_trips_ns(segments)
    trip_ns[: len(known_ns)] = known_ns
    begins = first[several & (segments.columns["payload_bytes"][rows[first]] > 0)]
    nearest = np.zeros(flows, np.int64)
    nearest[flow[begins[::-1]]] = interface[begins[::-1]]
    nearest[mean_ns * _FAR_PART <= trip_ns] = 0
    at_nearest = np.flatnonzero((nearest[flow] > 0) & (interface == nearest[flow]))
    original[run[at_nearest[::-1]]] = rows[at_nearest[::-1]]
    return original


def _doubled_directions(segments: _Segments, order: Numbers, cluster: Numbers, shared: Numbers) -> Mask:
    """Return for each direction whether at least half of its packets were seen at several points.

    `shared` are the clusters that were; duplicate ACKs of one burst are one cluster, and so prove no more than
    one packet. One packet proves nothing, unless other directions of the capture do.
    """
    first = order[np.flatnonzero(np.diff(cluster, prepend=-1))]
    direction = segments.directed[first]
    is_shared = np.zeros(len(direction), np.bool_)
    is_shared[shared] = True
    size = int(segments.directed.max()) + 1
    count = np.bincount(direction[is_shared], minlength=size)
    doubled: Mask = (count > 0) & (count >= _MOSTLY * np.bincount(direction, minlength=size))
    is_syn = (segments.columns["flags"][first] & np.uint16(Flag.SYN) != 0) & is_shared
    proven = doubled & ((count >= _FEWEST_SHARED) | (np.bincount(direction[is_syn], minlength=size) > 0))
    return doubled if proven.any() else proven


def _seldom(segments: _Segments, point: Words, rows: Numbers, cluster: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows of segments at points that add nearly only copies, and the row of which each is a copy.

    Each comes at once after the same segment at another point. `rows` are in the order of their clusters.
    """
    before = np.concatenate([rows[:1], rows[:-1]])
    copy = np.concatenate([[False], cluster[1:] == cluster[:-1]]) & (point[rows] != point[before])
    copy &= within(segments.time_ns[rows] - segments.time_ns[before], _NEAR_NS)
    where = (point + np.uint64(1)) * _FACTOR ^ segments.directed.astype(np.uint64)
    known, number = np.unique(where, return_inverse=True)
    copies, seen = np.bincount(number[rows[copy]], minlength=len(known)), np.bincount(number)
    copy &= ((copies >= _FEWEST_SHARED) & (copies >= _SHARE * seen))[number[rows]]
    return rows[copy], before[copy]


# --- copies at one point ---


def _at_one_point(segments: _Segments, capture: CaptureTables, row: Numbers, settled: Mask) -> Numbers:
    """Return for each segment the index of the same packet that was seen before; -1 without one.

    `row` is the row of each segment in the capture, `settled` the directions of which other points showed the
    copies: there, what comes again soon was sent again.
    """
    if not len(row):
        return np.full(0, -1)
    owner, times = _by_number(segments)
    order, cluster = _clusters(segments, SPACING_NS)
    _, place = _places(cluster)
    before = np.concatenate([order[:1], order[:-1]])
    left = (place > 0) & (owner[order] < 0)
    by_identity = left & (segments.columns["ip_id"][order] != 0) & _telling(segments)[segments.directed[order]]
    near = left & ~(settled | (times > 1))[segments.directed[order]] & _is_near(segments, order, before)
    chosen = by_identity | near
    chosen |= left & _is_soon_syn(segments, order, before, order[chosen])
    owner[order[chosen]] = before[chosen]
    owner[_is_duplicated(segments, capture, row, owner)[segments.directed]] = -1
    return _first_owner(owner)


def _first_owner(owner: Numbers) -> Numbers:
    """Return the owners, of which none has an owner itself."""
    while True:
        further = np.where(owner >= 0, owner[owner], -1)
        if (further < 0).all():
            return owner
        owner = np.where(further >= 0, further, owner)


def _telling(segments: _Segments) -> Mask:
    """Return for each direction whether its sender gives different IP identifications to its packets."""
    order = np.argsort(segments.directed, kind="stable")
    before, after = order[:-1], order[1:]
    direction, identity = segments.directed, segments.columns["ip_id"]
    counted = (direction[before] == direction[after]) & (segments.key[before] != segments.key[after])
    same = counted & (identity[before] == identity[after])
    size = int(direction.max()) + 1
    seen, alike = (np.bincount(direction[after[mask]], minlength=size) for mask in (counted, same))
    telling: Mask = (seen > 0) & (alike <= _SAME_IDENTITY * seen)
    return telling


def _by_number(segments: _Segments) -> tuple[Numbers, Numbers]:
    """Return copies where nearly every packet of a direction, or of the capture, comes the same number of times.

    Returns
    -------
    owner : ndarray of int64, shape (n_segments,)
        The first of the copies; -1 if it is no copy.
    times : ndarray of int64, shape (n_directions,)
        How many times each packet of a direction comes; 1 if there is no such number.
    """
    trip_ns = _round_trips_ns(segments)[segments.directed >> 1]
    bound_ns = np.where(trip_ns < np.iinfo(np.int64).max, trip_ns // _PART_OF_ROUND_TRIP, 0)
    order, cluster = _clusters(segments, np.clip(bound_ns, _NEAR_NS, SPACING_NS))
    begin = np.flatnonzero(np.diff(cluster, prepend=-1))
    direction = segments.directed[order[begin]]
    times = _times_each(np.bincount(cluster), direction, carries(segments.columns)[order[begin]])
    _, place = _places(cluster)
    of_packet = place % times[segments.directed[order]]
    owner = np.full(len(order), -1)
    owner[order] = np.where(of_packet > 0, order[np.arange(len(order)) - of_packet], -1)
    return owner, times


def _times_each(size: Numbers, direction: Numbers, carrying: Mask) -> Numbers:
    """Return for each direction how many times each of its packets comes: 1 if there is no such number."""
    directions = int(direction.max()) + 1
    times = np.ones(directions, np.int64)
    packets = np.bincount(direction, minlength=directions)
    with_data = np.bincount(direction[carrying], minlength=directions)
    enough = ((packets >= _FEWEST_PACKETS) & (with_data > 0)) | (packets >= _FEWEST_ACKS)
    for number in range(2, _MOST_COPIES + 1):
        fits = size % number == 0
        each = np.bincount(direction[fits], minlength=directions) >= _EVERY * packets
        everywhere = len(size) >= _FEWEST_ACKS and fits.mean() >= _EVERY
        times[(each & enough) | everywhere] = number
    return times


def _is_near(segments: _Segments, rows: Numbers, before: Numbers) -> Mask:
    """Return which repeated segments come so soon that no sender can have sent them again.

    They carry data, SYN or FIN. Without timestamps and identification they must follow at once, several times:
    a queue may hold a segment until its retransmission comes.
    """
    trip_ns = _round_trips_ns(segments)[segments.directed[rows] >> 1]
    lag_ns = segments.time_ns[rows] - segments.time_ns[before]
    is_known = trip_ns < np.iinfo(np.int64).max
    bound_ns = np.where(is_known, np.minimum(trip_ns // _PART_OF_ROUND_TRIP, _NEAR_NS), _ADJACENT_NS)
    stamped = segments.columns["marks"][rows] & np.uint16(CaptureMark.HAS_TIMESTAMPS) != 0
    bound_ns = np.where(stamped, bound_ns, np.minimum(bound_ns, _ADJACENT_NS))
    is_fine = _is_fine(segments.time_ns)
    near: Mask = carries(segments.columns)[rows] & within(lag_ns, bound_ns) & (rows != before) & is_fine
    follows = _repeats_last(segments)[rows]
    several = np.bincount(segments.directed[rows[near & follows]], minlength=int(segments.directed.max()) + 1)
    near &= stamped | (follows & (several[segments.directed[rows]] >= _FEWEST))
    return near


def _is_soon_syn(segments: _Segments, rows: Numbers, before: Numbers, known: Numbers) -> Mask:
    """Return which rows are a SYN that comes again soon, in a connection with copies in the rows `known`.

    A SYN is not sent again within a second (RFC 6298); Linux gives a SYN-ACK no identification.
    """
    flow = segments.directed >> 1
    has_copies = np.bincount(flow[known], minlength=int(flow.max()) + 1) > 0
    soon: Mask = within(segments.time_ns[rows] - segments.time_ns[before], _NEAR_NS) & has_copies[flow[rows]]
    soon &= segments.columns["flags"][rows] & np.uint16(Flag.SYN | Flag.RST) == Flag.SYN
    return soon


def _is_fine(time_ns: Numbers) -> bool:
    """Return whether the times are finer than the time between copies: with coarse ones, all is near."""
    known = np.unique(time_ns[time_ns != NOT_A_TIME])
    return len(known) > 1 and int(np.gcd.reduce(np.diff(known))) < _ADJACENT_NS


def _repeats_last(segments: _Segments) -> Mask:
    """Return which segments have the content of the segment before in their direction."""
    order = np.argsort(segments.directed, kind="stable")
    before, after = order[:-1], order[1:]
    follows = np.zeros(len(order), np.bool_)
    follows[after] = (segments.directed[before] == segments.directed[after]) & (
        segments.key[before] == segments.key[after]
    )
    return follows


def _is_duplicated(segments: _Segments, capture: CaptureTables, row: Numbers, owner: Numbers) -> Mask:
    """Return for each direction whether its receiver reports most of its copies as duplicates (RFC 2883).

    Then the network duplicated the packets.
    """
    size = int(segments.directed.max()) + 2
    copy = np.flatnonzero((owner >= 0) & (segments.columns["payload_bytes"] > 0))
    reported, sack = np.zeros(size, np.bool_), capture.sack_blocks
    if not len(copy) or not len(sack):
        return reported
    index = np.full(len(capture.segments), -1)
    index[row] = np.arange(len(row))
    first = np.flatnonzero(np.diff(sack["row"], prepend=-1))
    at = index[sack["row"][first]]
    first, at = first[at >= 0], at[at >= 0]
    left, right = (sack[name][first].astype(np.uint32) for name in ("left", "right"))
    is_below = (left - segments.columns["ack"][at].astype(np.uint32)).view(np.int32) < 0
    ranges = _ranges(segments.directed[at[is_below]] ^ 1, left[is_below], right[is_below])
    begin = segments.columns["seq"][copy].astype(np.uint32)
    end = begin + segments.columns["payload_bytes"][copy].astype(np.uint32)
    is_reported = np.isin(_ranges(segments.directed[copy], begin, end), ranges)
    copies, of_reported = (np.bincount(segments.directed[part], minlength=size) for part in (copy, copy[is_reported]))
    reported = (copies > 0) & (of_reported >= _MOSTLY * copies)
    return reported


def _ranges(directed: Numbers, left: Array, right: Array) -> Words:
    """Return a hash of each range of a direction."""
    edges = left.astype(np.uint64) | right.astype(np.uint64) << np.uint64(32)
    return (edges * _FACTOR ^ directed.astype(np.uint64)) * _FACTOR


# --- what the files say of it ---


def _note(capture: CaptureTables, before: _Segments, joined: _Segments, owner: Numbers) -> None:
    """Write into the facts of each file how many copies it holds, and where they were seen."""
    copies = np.flatnonzero(owner >= 0)
    file = capture.segments["file"]
    for number in np.unique(file[copies]).tolist():
        here = copies[file[copies] == number]
        times, each = _times(joined, owner, here, file == number)
        where = _where(capture, before, here, owner[here], capture.files[number])
        known = capture.files[number].duplicates
        if known is None:
            capture.files[number].duplicates = CaptureDuplicates(len(here), times, each, where)
        else:  # from an earlier chunk
            capture.files[number].duplicates = replace(known, packets=known.packets + len(here))


def _times(joined: _Segments, owner: Numbers, copies: Numbers, of_file: Mask) -> tuple[int, bool]:
    """Return how often most packets with copies were captured, and whether nearly all packets of the file were."""
    number = np.bincount(owner[copies]) + 1
    times = Counter(number[number > 1].tolist()).most_common(1)[0][0]
    originals = np.count_nonzero(of_file & (owner < 0))
    return int(times), bool(np.count_nonzero(number == times) >= _SHARE * originals)


def _where(capture: CaptureTables, segments: _Segments, copies: Numbers, originals: Numbers, file: SourceFile) -> str:
    """Return in words at which points packets and their copies were seen."""
    flow, flows = segments.directed >> 1, capture.flows
    rows = np.sort(np.concatenate([copies, originals]))
    vlans = flows["vlan"][flow[rows]]
    different = flow[copies] != flow[originals]
    translated = different & (flows["vlan"][flow[copies]] == flows["vlan"][flow[originals]])
    nat = ", before and after a translation of addresses" if translated.any() else ""
    places = [place_of(int(sight)) for sight in _in_order(segments.sight[rows])]

    def named(values: list[int | None], name: Callable[[int], str]) -> str:
        known = list(dict.fromkeys(value for value in values if value is not None))
        return _listed([name(value) for value in known]) if len(known) > 1 else ""

    interfaces = named([place.interface for place in places], lambda index: _interface(file, index))
    if interfaces:
        return f"interfaces {interfaces}{nat}"
    if len(set(vlans.tolist())) > 1:
        return f"VLANs {_listed([_vlan(vlan) for vlan in _in_order(vlans)])}{nat}"
    hops = [place.hops for place in places]
    if (named_hops := named(hops, str)) and len(set(hops)) <= _MOST_NAMED and _hops_differ(segments, copies, originals):
        return f"with a TTL or hop limit of {named_hops}{nat}"
    if kinds := named([place.kind for place in places], lambda kind: _KINDS.get(kind, f"type {kind}")):
        return f"{kinds} at the interfaces{nat}"
    if (segments.sight[copies] != segments.sight[originals]).any():
        return f"with different MAC addresses{nat}"
    return f"at the same point{nat}"


_MOST_NAMED = 8
"""Maximum number of points that are named."""
_KINDS = {0: "inbound", 1: "inbound", 2: "inbound", 3: "passing by", 4: "outbound"}


def _hops_differ(segments: _Segments, copies: Numbers, originals: Numbers) -> bool:
    pairs = zip(segments.sight[copies].tolist(), segments.sight[originals].tolist(), strict=True)
    return any(place_of(one).hops != place_of(two).hops for one, two in set(pairs))


def _in_order(values: Array) -> list[int]:
    """Return the different values in the order in which each occurs first."""
    _, first = np.unique(values, return_index=True)
    return [int(value) for value in values[np.sort(first)]]


def _interface(file: SourceFile, index: int) -> str:
    named = file.interfaces[index].name if file.format == "pcapng" and index < len(file.interfaces) else None
    return named or str(index)


def _vlan(vlan: int) -> str:
    """Return a VLAN column's value as text: `300`, or `300/7` for a tag in a tag."""
    if vlan == UNTAGGED:
        return "none"
    ids = []
    while vlan > 1:
        ids.append(str(vlan & 0xFFF))
        vlan >>= 12
    return "/".join(reversed(ids))


def _listed(names: list[str]) -> str:
    if len(names) > _MOST_NAMED:
        return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"
