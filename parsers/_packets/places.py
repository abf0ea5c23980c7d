"""Where each packet of a block was seen: interface, direction there, hop limit and MAC addresses, in one number.

Two copies of a packet that were captured at different points, or before and after a router, have different numbers;
all packets of one direction of a connection that pass one point have the same, as long as their route does not
change. What a link type does not show is 0. Read here is only the outermost link header and the IP header directly
behind it, so that the number does not depend on what is decoded further inside.

=======  =================================================================================
bits     content
=======  =================================================================================
0 - 30   hash of the MAC addresses, or of the one that a cooked header holds
31 - 38  TTL, or hop limit
39 - 42  1 + type of a cooked header's packet: 0 to this host, 3 to another, 4 outgoing
43 - 62  1 + interface: number in a pcapng file, or the index in SLL2
=======  =================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parsers._packets.layers import rows, u16

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.tables import Array, Numbers
    from parsers._packets.layers import PacketRecords

    Words = NDArray[np.uint64]

_ETHERNET, _SLL, _SLL2 = 1, 113, 276
_IP_AT = {0: 4, 108: 4, 12: 0, 14: 0, 101: 0, 228: 0, 229: 0, _ETHERNET: 14, _SLL: 16, _SLL2: 20}
"""Where IP begins, by link type: NULL and LOOP, raw IP, and those above."""
_TYPE_AT = {_ETHERNET: 12, _SLL: 14}
_TAGS = (0x8100, 0x88A8, 0x9100)
_MOST_TAGS = 2
"""Of IEEE 802.1ad; behind more of them the hop limit is not read."""
_MAC_BITS, _TTL_AT, _KIND_AT = 31, 31, 39
INTERFACE_AT = 43
"""Lowest bit of the interface."""
_MOST_INTERFACES = (1 << 20) - 2
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Place(NamedTuple):
    """What a number says of where packets were seen; None: it is not known."""

    interface: int | None
    kind: int | None
    """Type of a cooked header's packet."""
    hops: int | None
    """TTL or hop limit."""


def place_of(sight: int) -> Place:
    """Return what the number of a sight says."""
    interface = (sight >> INTERFACE_AT) - 1
    kind, hops = (sight >> _KIND_AT & 0xF) - 1, sight >> _TTL_AT & 0xFF
    return Place(interface if interface >= 0 else None, kind if kind >= 0 else None, hops or None)


def sights(records: PacketRecords, record: Numbers) -> Numbers:
    """Return where each of some packets of a block was seen.

    Parameters
    ----------
    records : PacketRecords
    record : ndarray of int64, shape (n,)
        Indexes of the packets.

    Returns
    -------
    ndarray of int64, shape (n,)
        0 where the link type says nothing.
    """
    sight = np.zeros(len(record), np.uint64)
    link_type = np.broadcast_to(records.link_type, len(records))[record]
    for kind in np.unique(link_type).tolist():
        if kind in _IP_AT:
            here = np.flatnonzero(link_type == kind)
            sight[here] = _of_link(records, record[here], kind)
    if records.interface is not None:
        known = np.minimum(records.interface[record], _MOST_INTERFACES).astype(np.uint64) + np.uint64(1)
        sight |= known << np.uint64(INTERFACE_AT)
    return sight.view(np.int64)


def _of_link(records: PacketRecords, record: Numbers, link_type: int) -> Words:
    data, at = records.data, records.start[record]
    end = at + records.captured[record]
    ip_at = at + _IP_AT[link_type]
    is_complete = ip_at <= end
    sight = np.zeros(len(record), np.uint64)
    if link_type == _ETHERNET:
        sight = _hash(rows(data, at, 8).view("<u8").astype(np.uint64) ^ _word(rows(data, at + 4, 8).view("<u8")))
    elif link_type == _SLL:
        sight = _hash(rows(data, at + 6, 8).view("<u8").astype(np.uint64)) | _kind(u16(data, at))
    elif link_type == _SLL2:
        sight = _hash(rows(data, at + 12, 8).view("<u8").astype(np.uint64)) | _kind(data[at + 10])
        index = np.minimum(rows(data, at + 4, 4).view(">u4").astype(np.int64), _MOST_INTERFACES)
        sight |= (index.astype(np.uint64) + np.uint64(1)) << np.uint64(INTERFACE_AT)
    if link_type in _TYPE_AT:
        ip_at = _behind_tags(data, at + _TYPE_AT[link_type], end)
    return np.where(is_complete, sight | _hops(data, ip_at, end) << np.uint64(_TTL_AT), np.uint64(0))


def _word(values: Array) -> Words:
    """Return the upper halves of values again multiplied, so that swapped halves do not cancel out."""
    return (values.astype(np.uint64) >> np.uint64(32)) * _FACTOR


def _hash(values: Words) -> Words:
    return values * _FACTOR >> np.uint64(64 - _MAC_BITS)


def _kind(values: Array) -> Words:
    return (np.minimum(values.astype(np.uint64), np.uint64(14)) + np.uint64(1)) << np.uint64(_KIND_AT)


def _behind_tags(data: Array, type_at: Numbers, end: Numbers) -> Numbers:
    """Return where the header behind the VLAN tags begins; `type_at` is where the first EtherType is."""
    for _ in range(_MOST_TAGS):
        tagged = (type_at + 6 <= end) & np.isin(u16(data, np.minimum(type_at, len(data) - 2)), _TAGS)
        if not tagged.any():
            break
        type_at = type_at + np.where(tagged, 4, 0)
    return type_at + 2


def _hops(data: Array, ip_at: Numbers, end: Numbers) -> Words:
    """Return TTL or hop limit; 0 where neither version of IP begins, or its header is cut."""
    is_there = ip_at + 9 <= end
    at = np.where(is_there, ip_at, 0)
    version = np.where(is_there, data[at] >> 4, 0)
    hops = np.where(version == 4, data[at + 8], np.where(version == 6, data[at + 7], 0))
    return hops.astype(np.uint64)
