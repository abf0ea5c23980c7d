"""Joins the two directions of a flow that lie in different VLANs.

A switch that mirrors a port often tags one direction and not the other, or each with its own VLAN. Two flows
between the same endpoints, each seen one way only and in opposite directions, are then one. Flows that are
seen both ways within their VLAN stay apart: they are different hosts with equal addresses, or one flow before
and behind a router.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.layers import UNTAGGED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.tables import Mask, Numbers, Table

    Flow = NDArray[np.int32]

_ENDPOINT_BYTES = 19


def joined_across_vlans(flows: Table, directed: Flow) -> tuple[Table, Flow]:
    """Return the flows, and the directed flow of each segment, with such pairs joined.

    Parameters
    ----------
    flows : Table
        In order of first sight.
    directed : ndarray of int32, shape (n_segments,)
        2 x row in `flows`, + 1 if sent by endpoint b.
    """
    if (flows["vlan"] == UNTAGGED).all():
        return flows, directed
    sent = np.bincount(directed, minlength=2 * len(flows)).reshape(-1, 2)
    first, second = _opposite_pairs(flows, np.flatnonzero(sent[:, 1] == 0))
    if not len(first):
        return flows, directed
    kept = np.ones(len(flows), np.bool_)
    kept[second] = False
    row = np.cumsum(kept) - 1
    renumbered = np.stack([2 * row, 2 * row + 1], axis=1)
    renumbered[second, 0] = 2 * row[first] + 1  # the second is what the first's endpoint b sent
    return flows.take(kept), renumbered.ravel().astype(np.int32)[directed]


def _opposite_pairs(flows: Table, one_way: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows of flows that are the only two directions of the same endpoints."""
    a, b = (endpoints_that_sort(flows, side)[one_way] for side in "ab")
    swapped: Mask = a > b
    low, high = np.where(swapped, b, a), np.where(swapped, a, b)
    order = np.lexsort((one_way, high, low))
    low, high = low[order], high[order]
    same = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    group = np.concatenate([[0], np.cumsum(~same)]) if len(order) else order
    alone = np.bincount(group)[group] == 2
    pair = np.flatnonzero(same & alone[1:])
    opposite = swapped[order[pair]] != swapped[order[pair + 1]]
    return one_way[order[pair[opposite]]], one_way[order[pair[opposite] + 1]]


def endpoints_that_sort(flows: Table, side: str) -> NDArray[np.bytes_]:
    """Return IP version, port and address of one side as bytes that sort.

    Returns
    -------
    ndarray of bytes (S19), shape (n_flows,)
    """
    joined = np.empty((len(flows), _ENDPOINT_BYTES), np.uint8)
    joined[:, 0] = flows["ip_version"]
    joined[:, 1:3] = flows[f"port_{side}"].astype(">u2").view(np.uint8).reshape(-1, 2)
    joined[:, 3:] = np.ascontiguousarray(flows[f"address_{side}"]).view(np.uint8).reshape(-1, 16)
    return joined.view(f"S{_ENDPOINT_BYTES}")[:, 0]
