"""Tunnels: GRE, and IP packets inside IP packets.

Sources: RFC 2003 (IP-in-IP), RFC 4213 (6in4), RFC 2473 (in IPv6), RFC 2784 and 2890 (GRE), RFC 2637 (enhanced
GRE of PPTP), RFC 3378 (EtherIP), RFC 4023 (MPLS), draft-foschiano-erspan; RFC 8300 (NSH).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.chain import ERSPAN_2, ETHERIP, GRE, IPV4, IPV6, RAW_IP, link
from parsers._packets.layers import u16

if TYPE_CHECKING:
    from multitracer.tables import Numbers
    from parsers._packets.layers import LayerPackets, PacketCounts

INSIDE = {4: IPV4, 41: IPV6, 47: GRE, 97: ETHERIP, 137: 0x8847}
"""Kind of the next header, by the IP protocol of the tunnel."""
NAMES = {4: "IP in IP", 41: "IPv6 in IP", 47: "GRE", 97: "EtherIP", 137: "MPLS in IP"}
"""How these tunnels are called."""
L2TP_3 = 115
"""IP protocol of L2TP version 3; `opening.l2tp_3` finds what its packets hold."""
_CHECKSUM, _ROUTING, _KEY, _SEQUENCE, _ACKNOWLEDGMENT = 0x8000, 0x4000, 0x2000, 0x1000, 0x0080
_ERSPAN = 0x88BE
_ERSPAN_3_IP = 2
"""Frame type of ERSPAN III for IP without Ethernet (draft-foschiano-erspan, 4.3)."""
_ETHERNET = link(1)
_BEHIND_NSH = np.array([IPV4, IPV6, _ETHERNET, 0x894F, 0x8847])
"""Kinds of headers behind NSH, by its next protocol from 1 on (RFC 8300, 2.2)."""


def gre(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip a GRE header of version 0, or of version 1 (PPTP).

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 4, "GRE header"))
    flags = u16(packets.data, packets.at)
    length = np.full(len(packets), 4)
    for flag in (_CHECKSUM, _KEY, _SEQUENCE):
        length += np.where(flags & flag != 0, 4, 0)
    length += np.where((flags & 7 == 1) & (flags & _ACKNOWLEDGMENT != 0), 4, 0)
    routed = flags & _ROUTING != 0
    ledger.drop(routed, "GRE with source routing")
    fits = packets.at + length <= packets.end
    ledger.drop(~fits & ~routed, "GRE header cut short")
    kinds = u16(packets.data, packets.at + 2)
    erspan = kinds == _ERSPAN  # with a sequence number it has a header of its own (type II)
    kinds = np.where(erspan, np.where(flags & _SEQUENCE != 0, ERSPAN_2, link(1)), kinds)
    good = fits & ~routed
    return packets.advanced(length).keep(good), kinds[good]


def erspan_3(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the header of ERSPAN III, and the subheader of the platform that its last bit announces.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 12, "ERSPAN III header"))
    length = 12 + ((packets.data[packets.at + 11].astype(np.int64) & 1) << 3)
    frame_type = packets.data[packets.at + 10] >> 2 & 0x1F
    fits = ledger.complete(packets, length, "ERSPAN III header")
    kinds = np.where(frame_type == _ERSPAN_3_IP, RAW_IP, _ETHERNET)
    return packets.advanced(length).keep(fits), kinds[fits]


def nsh(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip a network service header (NSH, RFC 8300).

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 8, "NSH"))
    length = (u16(packets.data, packets.at) & 0x3F) << 2
    following = packets.data[packets.at + 3].astype(np.int64)
    known = (following >= 1) & (following <= len(_BEHIND_NSH)) & (length >= 8)
    ledger.drop(~known, "NSH with an unknown next header")
    packets, length, following = packets.keep(known), length[known], following[known]
    fits = ledger.complete(packets, length, "NSH")
    return packets.advanced(length).keep(fits), _BEHIND_NSH[following[fits] - 1]


def redirected(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip WCCP's redirect header of four bytes before IP, if there is one.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 5, "WCCP header"))
    bare = packets.data[packets.at] >> 4 == 4
    return packets.advanced(np.where(bare, 0, 4)), np.full(len(packets), IPV4)
