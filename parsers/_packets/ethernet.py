"""Headers between Ethernet and IP: VLAN tags, MPLS labels, LLC; and IP without any header before it.

Sources: IEEE 802.3, 802.1Q, 802.1ad; RFC 1042 (LLC and SNAP), RFC 2684 (bridged frames in SNAP), RFC 3032 and
RFC 4448 (MPLS and Ethernet in it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.chain import BRIDGED, CONTROL_WORD, IPV4, IPV6, MPLS_PAYLOAD, SNAP, ethertypes, link
from parsers._packets.layers import UNTAGGED, u16, u32

if TYPE_CHECKING:
    from multitracer.tables import Numbers
    from parsers._packets.layers import LayerPackets, PacketCounts

_ETHERNET = link(1)
_INSIDE_MPLS = np.array([{0: CONTROL_WORD, 4: IPV4, 6: IPV6}.get(nibble, _ETHERNET) for nibble in range(16)])
_MOST_VLANS = 5
"""VLAN ids that fit the 64 bits of the column."""
_BRIDGED_ORGANISATION = 0x0080C2


def raw_ip(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip nothing: the packet begins with an IP header, whose first four bits are the version.

    Return the packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 1, "IP header"))
    version = packets.data[packets.at] >> 4
    good = (version == 4) | (version == 6)
    ledger.drop(~good, "neither IP version 4 nor 6")
    return packets.keep(good), np.where(version[good] == 4, IPV4, IPV6)


def vlan_tag(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip one VLAN tag and store its id; id 0 is only a priority, not a VLAN (IEEE 802.1Q, 6.9).

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 4, "VLAN tag"))
    room = packets.vlan < 1 << 12 * _MOST_VLANS
    ledger.drop(~room, f"more than {_MOST_VLANS} VLAN tags")
    packets = packets.keep(room)
    vlan = u16(packets.data, packets.at) & 0xFFF
    outer = np.where(packets.vlan == UNTAGGED, 1, packets.vlan)
    inside = packets.advanced(4)
    inside.vlan = np.where(vlan == 0, packets.vlan, outer << 12 | vlan)
    return inside, ethertypes(packets, 2)


def mpls_label(kind: int, packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip one MPLS label; the payload follows the label with the bottom-of-stack bit.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 4, "MPLS label"))
    bottom = packets.data[packets.at + 2] & 1 == 1
    return packets.advanced(4), np.where(bottom, MPLS_PAYLOAD, kind)


def mpls_payload(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Guess the protocol after MPLS by the first four bits, as other tools do, because no field names it.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 1, "MPLS payload"))
    return packets, _INSIDE_MPLS[packets.data[packets.at] >> 4]


def llc(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the LLC header; SNAP follows, or IP with an SAP of its own.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 3, "LLC header"))
    saps = u16(packets.data, packets.at)
    known = (saps == 0xAAAA) | (saps == 0x0606)
    ledger.count_protocol("llc", int(np.count_nonzero(~known)))
    return packets.advanced(3).keep(known), np.where(saps[known] == 0x0606, IPV4, SNAP)


def snap(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the SNAP header (organisation and protocol); a bridged frame is an Ethernet frame again.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 5, "SNAP header"))
    organisation = u32(packets.data, packets.at) >> 8
    bridged = organisation == _BRIDGED_ORGANISATION
    known = (organisation == 0) | (organisation == 0xF8) | bridged
    ledger.count_protocol("snap", int(np.count_nonzero(~known)))
    kinds = np.where(bridged, BRIDGED, ethertypes(packets, 3))
    return packets.advanced(5).keep(known), kinds[known]
