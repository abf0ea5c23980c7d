"""The table of all steps: which function takes off which kind of header; PPP in its framings, and frame relay.

Sources: RFC 1661 and 1662 (PPP, compressed fields), RFC 2516 (PPPoE), RFC 2427 (frame relay), Cisco HDLC as
tcpdump.org's registry describes it (LINKTYPE_C_HDLC).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multitracer.protocols.l2r import PppProtocol
from parsers._packets import ethernet, qmap, tool_headers, tunnel
from parsers._packets.chain import (
    BRIDGED,
    CONTROL_WORD,
    ERSPAN_2,
    ETHERIP,
    GRE,
    IPV4,
    IPV6,
    LLC,
    MPLS_PAYLOAD,
    PADDED_80211,
    PPP,
    QMAP,
    RAW_IP,
    SNAP,
    Step,
    ethertype_step,
    ethertypes,
    fixed_step,
    link,
)
from parsers._packets.layers import u16

if TYPE_CHECKING:
    from multitracer.tables import Numbers
    from parsers._packets.layers import LayerPackets, PacketCounts

_ETHERNET = link(1)
_MPLS_UNICAST, _MPLS_MULTICAST = 0x8847, 0x8848

_MPLS_IN_PPP = 0x0281
_IP, _IPV6 = PppProtocol.IP.value, PppProtocol.IPV6.value
_NAMES: dict[int, str] = {
    PppProtocol.VJ_COMPRESSED: "vj-compressed tcp",
    PppProtocol.VJ_UNCOMPRESSED: "vj-uncompressed tcp",
    0x003D: "ppp multilink",
    0x00FD: "ppp ccp",
}
_NLPID_SNAP, _NLPID_IPV4, _NLPID_IPV6 = 0x80, 0xCC, 0x8E


def framed_ppp(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip address and control (FF 03, unless compressed) of PPP in HDLC; Cisco HDLC has other values there.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 2, "PPP header"))
    first = packets.data[packets.at]
    cisco = (first == 0x0F) | (first == 0x8F)
    framed = u16(packets.data, packets.at) == 0xFF03
    complete = ~cisco | (packets.at + 4 <= packets.end)
    ledger.drop(~complete, "Cisco HDLC header cut short")
    kinds = np.where(cisco, ethertypes(packets, 2), PPP)
    inside = packets.advanced(np.where(cisco, 4, np.where(framed, 2, 0)))
    return inside.keep(complete), kinds[complete]


def ppp(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the protocol field of PPP: two bytes, or one if it is compressed.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 2, "PPP protocol"))
    first = packets.data[packets.at].astype(np.int64)
    short = first & 1 == 1
    protocol = np.where(short, first, u16(packets.data, packets.at))
    known = (protocol == _IP) | (protocol == _IPV6) | (protocol == _MPLS_IN_PPP)
    ledger.count_each(protocol[~known], _NAMES, "ppp protocol 0x{:04x}")
    kinds = np.where(protocol == _IP, IPV4, np.where(protocol == _IPV6, IPV6, _MPLS_UNICAST))
    return packets.advanced(np.where(short, 1, 2)).keep(known), kinds[known]


def pppd(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the direction byte of Linux pppd (LINKTYPE_PPP_PPPD).

    PPP follows, with or without address and control.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 2, "PPP header"))
    control = packets.data[packets.at + 1] == 0x03
    return packets.advanced(np.where(control, 2, 1)), np.full(len(packets), PPP)


def frame_relay(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the two-byte address of frame relay.

    The payload is that of RFC 2427, or Cisco's with an EtherType.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 5, "frame relay header"))
    data, at = packets.data, packets.at
    standard = data[at + 2] == 0x03
    pad = standard & (data[at + 3] == 0)
    nlpid = np.where(pad, data[at + 4], data[at + 3])
    known = ~standard | np.isin(nlpid, (_NLPID_SNAP, _NLPID_IPV4, _NLPID_IPV6))
    ledger.count_each(nlpid[~known].astype(np.int64), {}, "frame relay nlpid 0x{:02x}")
    by_nlpid = np.select([nlpid == _NLPID_IPV4, nlpid == _NLPID_IPV6], [IPV4, IPV6], SNAP)
    kinds = np.where(standard, by_nlpid, ethertypes(packets, 2))
    return packets.advanced(np.where(pad, 5, 4)).keep(known), kinds[known]


STEPS: dict[int, Step] = {
    RAW_IP: ethernet.raw_ip,
    LLC: ethernet.llc,
    SNAP: ethernet.snap,
    PPP: ppp,
    MPLS_PAYLOAD: ethernet.mpls_payload,
    PADDED_80211: tool_headers.padded_80211,
    BRIDGED: fixed_step("bridged Ethernet", length=2, following=_ETHERNET),
    CONTROL_WORD: fixed_step("MPLS control word", length=4, following=_ETHERNET),
    QMAP: qmap.qmap,
    GRE: tunnel.gre,
    ERSPAN_2: fixed_step("ERSPAN", length=8, following=_ETHERNET),
    ETHERIP: fixed_step("EtherIP", length=2, following=_ETHERNET),
    # EtherTypes
    0x8100: ethernet.vlan_tag,
    0x88A8: ethernet.vlan_tag,
    0x9100: ethernet.vlan_tag,
    0x9200: ethernet.vlan_tag,
    0x6558: fixed_step("bridged Ethernet", length=0, following=_ETHERNET),
    0x22EB: tunnel.erspan_3,
    0x6400: fixed_step("EoIP", length=0, following=_ETHERNET),  # MikroTik's, in GRE
    0x894F: tunnel.nsh,
    0x880B: framed_ppp,
    0x883E: tunnel.redirected,
    0x8864: fixed_step("PPPoE", length=6, following=PPP),
    0x893F: ethertype_step("802.1BR tag", length=8, at=6),
    0x8909: ethertype_step("Cisco metadata", length=8, at=6),
    _MPLS_UNICAST: partial(ethernet.mpls_label, _MPLS_UNICAST),
    _MPLS_MULTICAST: partial(ethernet.mpls_label, _MPLS_MULTICAST),
    # link types
    link(0): tool_headers.null,
    link(1): ethertype_step("Ethernet", length=14, at=12),
    link(6): tool_headers.token_ring,
    link(8): fixed_step("SLIP", length=16, following=RAW_IP),
    link(9): framed_ppp,
    link(10): fixed_step("FDDI", length=13, following=LLC),
    link(11): fixed_step("RFC 2684", length=0, following=LLC),
    link(12): tool_headers.raw_ip_or_qmap,
    link(14): tool_headers.raw_ip_or_qmap,
    link(19): tool_headers.classical_ip_over_atm,
    link(50): framed_ppp,
    link(51): fixed_step("PPPoE", length=6, following=PPP),
    link(101): tool_headers.raw_ip_or_qmap,
    link(104): framed_ppp,
    link(105): tool_headers.ieee80211,
    link(106): tool_headers.classical_ip_over_atm,
    link(107): frame_relay,
    link(108): tool_headers.null,
    link(109): tool_headers.encapsulating,
    link(113): tool_headers.linux_cooked,
    link(117): tool_headers.packet_filter_log,
    link(119): tool_headers.prism,
    link(122): fixed_step("IP over Fibre Channel", length=16, following=LLC),
    link(123): fixed_step("SunATM", length=4, following=LLC),
    link(127): tool_headers.radiotap,
    link(149): tool_headers.apple_packet_tap,
    link(163): tool_headers.prism,
    link(166): pppd,
    link(192): tool_headers.per_packet_information,
    link(204): fixed_step("PPP with direction", length=1, following=link(9)),
    link(205): fixed_step("Cisco HDLC with direction", length=1, following=link(104)),
    link(206): fixed_step("frame relay with direction", length=1, following=link(107)),
    link(219): partial(ethernet.mpls_label, _MPLS_UNICAST),
    link(226): tool_headers.solaris_ipnet,
    link(228): ethernet.raw_ip,
    link(229): ethernet.raw_ip,
    link(239): tool_headers.netfilter_log,
    link(240): fixed_step("netANALYZER", length=4, following=_ETHERNET),
    link(241): fixed_step("netANALYZER", length=12, following=_ETHERNET),
    link(242): ethertype_step("IP over InfiniBand", length=44, at=40),
    link(258): tool_headers.apple_packet_tap,
    link(274): fixed_step("Ethernet preamble", length=8, following=_ETHERNET),
    link(276): tool_headers.linux_cooked_2,
    link(281): ethertype_step("Broadcom tag", length=18, at=16),
    link(282): fixed_step("Broadcom tag", length=4, following=_ETHERNET),
    link(284): ethertype_step("Marvell DSA tag", length=18, at=16),
    link(285): ethertype_step("Marvell EDSA tag", length=22, at=20),
}
"""Step by kind of header (see `chain.py`)."""
