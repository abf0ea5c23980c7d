"""Whether an IP or Ethernet header at some place can be one: what a guess is verified with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.layers import u16

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers
    from parsers._packets.layers import Bytes

_SHORTEST_ETHERNET = 46
"""Shortest payload of an Ethernet frame, bytes: shorter packets are padded to it (IEEE 802.3, 3.2.8)."""
_TRAILER_BYTES = 8
"""Maximum bytes behind an IP packet in an Ethernet frame that are no padding: a checksum, or a switch's tag."""
_VLAN_TAGS = (0x8100, 0x88A8)
_OTHER_TYPES = (0x0806, 0x8035, 0x8847, 0x8848, 0x8863, 0x8864, 0x8809, 0x88CC, 0x888E, 0x894F, 0x6558)
"""EtherTypes that are believed without a look behind them."""
_BPDU = 0x4242
"""Both service access points of the spanning tree protocol (IEEE 802.1D, 7.12.3)."""


def holds_ip(data: Bytes, at: Numbers, end: Numbers, stop: Numbers, *, exact: bool = False) -> Mask:
    """Return at which positions an IP packet can begin: version, header length, and a length that fits.

    Parameters
    ----------
    data : ndarray of uint8
    at, end, stop : ndarray of int64, shape (n,)
        Where the packet would begin, where the captured bytes end, and where it would end on the wire.
    exact : bool
        The packet ends at `stop`; otherwise it may end before.
    """
    room = stop - at
    here = np.minimum(at, end)
    version, header_bytes = data[here] >> 4, (data[here].astype(np.int64) & 0x0F) << 2
    total, payload = u16(data, here + 2), u16(data, here + 4)
    four = (version == 4) & (at + 20 <= end) & (header_bytes >= 20) & (total >= header_bytes)
    six = (version == 6) & (at + 40 <= end)
    length = np.where(four, total, payload + 40)
    return np.asarray((four | six) & ((length == room) if exact else (length <= room)))


def holds_ethernet(data: Bytes, at: Numbers, end: Numbers, stop: Numbers) -> Mask:
    """Return at which positions an Ethernet frame can begin: a known EtherType, and IP that fills the frame."""
    behind = np.minimum(at + 12, end)
    kind = u16(data, behind)
    for _ in range(2):
        tagged = np.isin(kind, _VLAN_TAGS)
        if not tagged.any():
            break
        behind = np.minimum(np.where(tagged, behind + 4, behind), end)
        kind = u16(data, behind)
    behind = behind + 2
    ip = (kind == 0x0800) & holds_ip(data, behind, end, stop) & (data[np.minimum(behind, end)] >> 4 == 4)
    ip |= (kind == 0x86DD) & holds_ip(data, behind, end, stop) & (data[np.minimum(behind, end)] >> 4 == 6)
    here = np.minimum(behind, end)
    length = np.where(kind == 0x0800, u16(data, here + 2), u16(data, here + 4) + 40)
    left = stop - behind - length
    ip &= (left <= _TRAILER_BYTES) | (stop - behind <= _SHORTEST_ETHERNET + _TRAILER_BYTES)
    spanning = (kind <= 1500) & (kind >= 3) & (behind + kind <= stop) & (u16(data, here) == _BPDU)
    return np.asarray((ip | np.isin(kind, _OTHER_TYPES) | spanning) & (behind <= end))
