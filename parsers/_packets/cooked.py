"""Headers that a capture tool adds: loopback, "cooked" Linux frames, firewall and packet-filter logs.

Source: the tcpdump.org link-type registry, one entry per function below. Each function is a step
(`chain.py` states the contract).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.chain import IPV4, IPV6, LLC, RAW_IP, ethertypes, link
from parsers._packets.layers import rows, u16, u32

if TYPE_CHECKING:
    from multitracer.tables import Numbers
    from parsers._packets.layers import Bytes, LayerPackets, PacketCounts

_INET = 2
_INET6 = (10, 23, 24, 28, 30)
"""AF_INET6 of Linux, Windows, NetBSD and OpenBSD, FreeBSD, macOS."""
_ETHERNET = link(1)
_LINUX_802_2 = 0x0004
_NFULA_PAYLOAD = 9
_MOST_ATTRIBUTES = 24


def _by_family(family: Numbers, packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    ipv4, ipv6 = family == _INET, np.isin(family, _INET6)
    known = ipv4 | ipv6
    ledger.count_each(family[~known], {}, "address family {}")
    return packets.keep(known), np.where(ipv4, IPV4, IPV6)[known]


def _little(data: Bytes, at: Numbers, size: int) -> Numbers:
    return rows(data, at, size).view(f"<u{size}").astype(np.int64)


def null(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip BSD's header (NULL and LOOP): an address family in the byte order of the capturing host.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 4, "loopback header"))
    family = np.minimum(u32(packets.data, packets.at), _little(packets.data, packets.at, 4))
    return _by_family(family, packets.advanced(4), ledger)


def encapsulating(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip OpenBSD's header of encapsulating interfaces (ENC): address family, SPI, flags.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 12, "ENC header"))
    family = np.minimum(u32(packets.data, packets.at), _little(packets.data, packets.at, 4))
    return _by_family(family, packets.advanced(12), ledger)


def packet_filter_log(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the header of pf's log (PFLOG), whose length is padded to a multiple of four bytes.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 2, "PFLOG header"))
    length = packets.data[packets.at].astype(np.int64) + 3 & ~3
    packets = packets.keep(ledger.complete(packets, length, "PFLOG header"))
    length = packets.data[packets.at].astype(np.int64) + 3 & ~3
    family = packets.data[packets.at + 1].astype(np.int64)
    return _by_family(family, packets.advanced(length), ledger)


def solaris_ipnet(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the header of Solaris's IP observability (IPNET); its address family is 2 or 26.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 24, "IPNET header"))
    return packets.advanced(24), np.full(len(packets), RAW_IP)


def linux_cooked(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the 16-byte header of Linux's device "any" (SLL).

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 16, "SLL header"))
    return packets.advanced(16), ethertypes(packets, 14)


def linux_cooked_2(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the 20-byte header of Linux's device "any", version 2 (SLL2).

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 20, "SLL2 header"))
    return packets.advanced(20), ethertypes(packets, 0)


def netfilter_log(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the attributes of a netfilter log record (NFLOG) up to the packet in it.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 4, "NFLOG header"))
    family = packets.data[packets.at].astype(np.int64)
    at = packets.at + 4
    for _ in range(_MOST_ATTRIBUTES):
        inside = at + 4 <= packets.end
        here = np.where(inside, at, packets.at)
        wanted = _little(packets.data, here + 2, 2) & 0x7FFF == _NFULA_PAYLOAD
        length = np.maximum(_little(packets.data, here, 2), 4)
        on = inside & ~wanted
        if not on.any():
            break
        at = np.where(on, at + (length + 3 & ~3), at)
    has_packet = inside & wanted
    ledger.drop(~has_packet, "NFLOG without a packet")
    packets = packets.keep(has_packet)
    return _by_family(family[has_packet], packets.advanced(at[has_packet] + 4 - packets.at), ledger)


def apple_packet_tap(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip Apple's PKTAP header, which names the link type of the frame after it.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 12, "PKTAP header"))
    length = _little(packets.data, packets.at, 4)
    kinds = link(0) + np.minimum(_little(packets.data, packets.at + 8, 4), 0xFFFF)
    inside = packets.advanced(length)
    fits = (length >= 12) & (inside.at <= inside.end)
    ledger.drop(~fits, "PKTAP header cut short")
    return inside.keep(fits), kinds[fits]


def token_ring(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip a token ring header with its source route; the next header is LLC.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 16, "token ring header"))
    routed = packets.data[packets.at + 8] & 0x80 != 0
    length = 14 + np.where(routed, packets.data[packets.at + 14] & 0x1F, 0).astype(np.int64)
    inside = packets.advanced(length)
    fits = inside.at <= inside.end
    ledger.drop(~fits, "token ring header cut short")
    return inside.keep(fits), np.full(int(np.count_nonzero(fits)), LLC)


def classical_ip_over_atm(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the LLC header of IP over ATM (ATM_CLIP); a packet without LLC begins with IP.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 3, "ATM CLIP header"))
    is_llc = u16(packets.data, packets.at) == 0xAAAA
    return packets, np.where(is_llc, LLC, RAW_IP)
