"""PPP in its framings, and frame relay.

Sources: RFC 1661 and 1662 (PPP, compressed fields), RFC 2516 (PPPoE), RFC 2427 (frame relay), Cisco HDLC as
tcpdump.org's registry describes it (LINKTYPE_C_HDLC).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.protocols.l2r import PppProtocol
from parsers._packets.chain import IPV4, IPV6, PPP, SNAP, ethertypes
from parsers._packets.layers import u16

if TYPE_CHECKING:
    from multitracer.tables import Numbers
    from parsers._packets.layers import LayerPackets, PacketCounts

_MPLS = 0x8847
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
    kinds = np.where(protocol == _IP, IPV4, np.where(protocol == _IPV6, IPV6, _MPLS))
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
