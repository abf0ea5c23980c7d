"""Joins flows whose packets were captured twice, on two VLANs of one trunk.

A mirror port of a router sees each packet in the VLAN that it came from and in the one that it goes to. Equal
endpoints alone prove nothing, there are many networks 192.168.0.0; but the same identifications and sequence
numbers within a round trip are the same packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import Flag
from multitracer.tables import NOT_A_TIME
from parsers._packets.layers import UNTAGGED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from multitracer.tables import Numbers, Table

_SHARE = 0.9
"""So much of one flow has to recur in the other; the rest the capture may have dropped."""
_FEWEST = 3
"""Packets, as of a handshake: fewer prove nothing."""
_USUAL_NS = 200_000_000
"""For a round trip where no handshake tells: the shortest timer of Linux; a retransmission comes later."""
_KEY = ("ip_id", "seq", "ack", "flags", "payload_bytes")


class _Flow(NamedTuple):
    """The packets of one flow, in capture order."""

    key: Numbers
    """Side, and the columns of _KEY; shape (n, 6)."""
    time_ns: Numbers


def joined_on_trunk(
    flows: Table, segments: Table, ends: NDArray[np.bytes_]
) -> tuple[Table, Numbers, Numbers]:
    """Return the flows, the directed flow of each segment, and for each flow joined to another its first row.

    Parameters
    ----------
    flows : Table
        In order of first sight.
    segments : Table
        SEGMENTS of these flows.
    ends : ndarray of bytes, shape (n_flows, 2)
        What sorts by the endpoints of each flow, a and b.

    Returns
    -------
    flows : Table
        Without those that were joined to another.
    directed : ndarray of int32, shape (n_segments,)
        Twice the row in `flows`, plus 1 from b to a.
    first_row : ndarray of int64, shape (n_joined,)
        Rows of `segments`.
    """
    directed = segments["flow"]
    target, swapped = np.arange(len(flows)), np.zeros(len(flows), np.bool_)
    order = np.argsort(directed >> 1, kind="stable")
    bounds = np.searchsorted((directed >> 1)[order], np.arange(len(flows) + 1))
    for first, second, turned in _candidates(flows, ends, np.diff(bounds)):
        if target[first] == first:
            one, two = (order[bounds[row] : bounds[row + 1]] for row in (first, second))
            if _recurs(_flow(segments, one, turned=False), _flow(segments, two, turned=turned)):
                target[second], swapped[second] = first, turned
    kept = target == np.arange(len(flows))
    if kept.all():
        return flows, directed, np.empty(0, np.int64)
    number = (np.cumsum(kept) - 1)[target]
    row = directed >> 1
    renumbered = (number[row] << 1 | (directed & 1) ^ swapped[row]).astype(np.int32)
    return flows.take(kept), renumbered, order[bounds[:-1][~kept]]


def _candidates(flows: Table, ends: NDArray[np.bytes_], packets: Numbers) -> Iterator[tuple[int, int, bool]]:
    """Yield two flows with equal endpoints in different VLANs, and whether their endpoints are swapped."""
    if (flows["vlan"] == UNTAGGED).all():
        return
    turned = ends[:, 0] > ends[:, 1]
    low, high = np.sort(ends, axis=1).T
    order = np.lexsort((np.arange(len(flows)), high, low))
    one, two = order[:-1], order[1:]
    same = (low[one] == low[two]) & (high[one] == high[two]) & (flows["vlan"][one] != flows["vlan"][two])
    same &= np.minimum(packets[one], packets[two]) >= _FEWEST
    for i in np.flatnonzero(same).tolist():
        yield int(one[i]), int(two[i]), bool(turned[one[i]] != turned[two[i]])


def _flow(segments: Table, rows: Numbers, *, turned: bool) -> _Flow:
    side = (segments["flow"][rows] & 1).astype(np.int64) ^ int(turned)
    columns = [side, *(segments[name][rows].astype(np.int64) for name in _KEY)]
    return _Flow(np.stack(columns, axis=1), segments["time_ns"][rows])


def _recurs(one: _Flow, two: _Flow) -> bool:
    """Return whether nearly all packets of one of two flows are also in the other, within a round trip."""
    key = np.concatenate([one.key, two.key])
    time_ns = np.concatenate([one.time_ns, two.time_ns])
    of_two = np.repeat([False, True], [len(one.key), len(two.key)])
    order = np.lexsort((time_ns, *key.T))
    same = (key[order[1:]] == key[order[:-1]]).all(axis=1) & (of_two[order[1:]] != of_two[order[:-1]])
    same &= (time_ns[order[:-1]] != NOT_A_TIME) & (np.diff(time_ns[order]) <= _round_trip_ns(one))
    again = np.zeros(len(order), np.bool_)
    again[order[1:][same]] = again[order[:-1][same]] = True
    return max(float(again[~of_two].mean()), float(again[of_two].mean())) >= _SHARE


def _round_trip_ns(flow: _Flow) -> int:
    """Return the time from the first SYN to the ACK that ends the handshake; a usual one without them."""
    side, flags = flow.key[:, 0], flow.key[:, 1 + _KEY.index("flags")]
    syn = np.flatnonzero((flags & (Flag.SYN | Flag.ACK)) == Flag.SYN)
    if not len(syn):
        return _USUAL_NS
    ends = np.flatnonzero((side == side[syn[0]]) & ((flags & (Flag.SYN | Flag.ACK)) == Flag.ACK))
    ends = ends[ends > syn[0]]
    if not len(ends) or NOT_A_TIME in (flow.time_ns[syn[0]], flow.time_ns[ends[0]]):
        return _USUAL_NS
    return max(int(flow.time_ns[ends[0]] - flow.time_ns[syn[0]]), 0)
