"""Headers that a capture tool adds: loopback, "cooked" Linux frames, firewall logs, and what precedes 802.11 frames.

Sources: the tcpdump.org link-type registry, one entry per function below, also for Prism and AVS headers; for 802.11
IEEE 802.11-2020, 9.2 and 9.3, radiotap.org, and the PPI specification of CACE. Each function is a step (`chain.py`
states the contract).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.chain import IPV4, IPV6, LLC, PADDED_80211, QMAP, RAW_IP, ethertypes, link
from parsers._packets.ethernet import raw_ip
from parsers._packets.ip import holds_ip
from parsers._packets.layers import UNTAGGED, joined, rows, u16, u32
from parsers._packets.qmap import NUMBER as QMAP_NUMBER
from parsers._packets.qmap import begins

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers
    from parsers._packets.layers import Bytes, LayerPackets, PacketCounts


_IEEE80211 = link(105)
_AVS_MAGIC = 0x80211000
_MOST_PRESENT_WORDS = 16
_TSFT, _FLAGS, _EXTENDED = 1 << 0, 1 << 1, 1 << 31
_DATA_PAD_FLAG = 0x20
_TYPES = {0: "802.11 management", 1: "802.11 control", 3: "802.11 extension"}


def _le16(data: Bytes, at: Numbers) -> Numbers:
    return rows(data, at, 2).view("<u2").astype(np.int64)


def _le32(data: Bytes, at: Numbers) -> Numbers:
    return rows(data, at, 4).view("<u4").astype(np.int64)


def _after(
    packets: LayerPackets, length: Numbers, kinds: Numbers, name: str, ledger: PacketCounts
) -> tuple[LayerPackets, Numbers]:
    """Skip headers whose lengths are given in `length`; return the remaining packets and their next kinds.

    `name` is the name of the header in the counts.
    """
    inside = packets.advanced(length)
    fits = (length > 0) & (inside.at <= inside.end)
    ledger.drop(~fits, f"{name} header cut short")
    return inside.keep(fits), kinds[fits]


def ieee80211(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the header of an 802.11 data frame.

    Encrypted, empty and aggregated frames are counted, not returned.

    Return the remaining packets, and the kind of each next header.
    """
    return _mac_header(packets, ledger, padded=False)


def padded_80211(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip an 802.11 header that is padded to a multiple of four bytes (radiotap flag 0x20).

    Return the remaining packets, and the kind of each next header.
    """
    return _mac_header(packets, ledger, padded=True)


def _mac_header(packets: LayerPackets, ledger: PacketCounts, *, padded: bool) -> tuple[LayerPackets, Numbers]:
    packets = packets.keep(ledger.complete(packets, 2, "802.11 header"))
    control = _le16(packets.data, packets.at)
    kind = control >> 2 & 3
    ledger.count_each(kind[kind != 2], _TYPES, "802.11 type {}")
    packets, control = packets.keep(kind == 2), control[kind == 2]
    quality = control & 0x80 != 0
    length = np.where(control & 0x300 == 0x300, 30, 24)
    quality_at = packets.at + length
    length = length + np.where(quality, 2, 0) + np.where(quality & (control & 0x8000 != 0), 4, 0)
    if padded:
        length = length + 3 & ~3
    fits = packets.at + length <= packets.end
    ledger.drop(~fits, "802.11 header cut short")
    empty = fits & (control & 0x40 != 0)
    ledger.count_protocol("802.11 null data", int(np.count_nonzero(empty)))
    protected = fits & ~empty & (control & 0x4000 != 0)
    ledger.drop(protected, "802.11 data is encrypted")
    rest = fits & ~empty & ~protected
    packets, length, quality, quality_at = (packets.keep(rest), length[rest], quality[rest], quality_at[rest])
    later = packets.data[packets.at + 22] & 0x0F != 0
    ledger.drop(later, "802.11 fragment not reassembled")
    aggregated = ~later & quality & (packets.data[quality_at] & 0x80 != 0)
    ledger.drop(aggregated, "802.11 A-MSDU not decoded")
    inside = packets.advanced(length).keep(~later & ~aggregated)
    return inside, np.full(len(inside), LLC)


def radiotap(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the radiotap header; of its fields only the padding flag is used.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 8, "radiotap header"))
    data, at = packets.data, packets.at
    present = _le32(data, at + 4)
    words, last = np.ones(len(packets), np.int64), present
    for _ in range(_MOST_PRESENT_WORDS):
        more = (last & _EXTENDED != 0) & (at + 8 + 4 * words <= packets.end)
        if not more.any():
            break
        last = np.where(more, _le32(data, np.where(more, at + 4 + 4 * words, at)), 0)
        words += more
    flags_at = 4 + 4 * words
    flags_at = np.where(present & _TSFT != 0, (flags_at + 7 & ~7) + 8, flags_at)
    has_flags = (present & _FLAGS != 0) & (at + flags_at < packets.end)
    flags = data[np.where(has_flags, at + flags_at, at)]
    padded = has_flags & (flags & _DATA_PAD_FLAG != 0)
    kinds = np.where(padded, PADDED_80211, _IEEE80211)
    return _after(packets, _le16(data, at + 2), kinds, "radiotap", ledger)


def prism(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip a Prism monitor header, or the AVS header that some drivers write instead.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 8, "Prism header"))
    data, at = packets.data, packets.at
    avs = u32(data, at) & 0xFFFFF000 == _AVS_MAGIC
    big, little = u32(data, at + 4), _le32(data, at + 4)
    length = np.where(avs, big, np.minimum(big, little))
    return _after(packets, length, np.full(len(packets), _IEEE80211), "Prism", ledger)


def per_packet_information(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip a PPI header, which names the link type of the frame after it.

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 8, "PPI header"))
    data, at = packets.data, packets.at
    kinds = link(0) + np.minimum(_le32(data, at + 4), 0xFFFF)
    return _after(packets, _le16(data, at + 2), kinds, "PPI", ledger)


_INET = 2
_INET6 = (10, 23, 24, 28, 30)
"""AF_INET6 of Linux, Windows, NetBSD and OpenBSD, FreeBSD, macOS."""
_ETHERNET = link(1)
_KINDS_BEHIND = (0x8100, 0x88A8, 0x9100, 0x9200, 0x8847, 0x8848, 0x8864, 0x893F, 0x8909, 0x880B, 0x883E, 0x6558,
                 0x22EB, 0x6400, 0x894F)  # fmt: skip
"""EtherTypes with a header of their own, behind which IP may begin four bytes later by right."""
_SHORTEST_PAYLOAD = 46
"""Shortest payload of an Ethernet frame, bytes (IEEE 802.3, 3.2.8)."""
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
    return _behind_cooked(packets, 16, ethertypes(packets, 14), 14)


def linux_cooked_2(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip the 20-byte header of Linux's device "any", version 2 (SLL2).

    Return the remaining packets, and the kind of each next header.
    """
    packets = packets.keep(ledger.complete(packets, 20, "SLL2 header"))
    return _behind_cooked(packets, 20, ethertypes(packets, 0), 0)


def _behind_cooked(packets: LayerPackets, length: int, kinds: Numbers, number_at: int) -> tuple[LayerPackets, Numbers]:
    """Return the packets behind a cooked header of `length` bytes with its protocol number at `number_at`.

    Not all is what the number says: below 1536 it is Linux's own (QMAP), and some drivers insert a VLAN tag of four
    bytes at the wrong place, so that IP begins four bytes later.
    """
    inside = packets.advanced(length)
    first = packets.data[np.minimum(inside.at, packets.end)] >> 4
    expected = (kinds == IPV4) & (first == 4) | (kinds == IPV6) & (first == 6)
    if expected.all():
        return inside, kinds
    is_qmap = u16(packets.data, packets.at + number_at) == QMAP_NUMBER
    shifted = ~expected & _is_shifted(inside, kinds) & ~(is_qmap & begins(inside, with_commands=True))
    kinds = np.where(is_qmap, QMAP, kinds)
    if shifted.any():
        # the tag is where the number would be, or behind it: the VLAN is the half that is no tag's EtherType
        tag_at = np.minimum(packets.at + 14, packets.end)
        one, two = u16(packets.data, tag_at), u16(packets.data, np.minimum(tag_at + 2, packets.end))
        vlan = np.where(np.isin(one, (0x8100, 0x88A8, 0x0800, 0x86DD)), two, one) & 0xFFF
        inside.at = np.where(shifted, inside.at + 4, inside.at)
        inside.vlan = np.where(shifted & (vlan != 0) & (inside.vlan == UNTAGGED), 1 << 12 | vlan, inside.vlan)
        kinds = np.where(shifted, RAW_IP, kinds)
    return inside, kinds


def _is_shifted(inside: LayerPackets, kinds: Numbers) -> Mask:
    """Return in which packets nothing fits where the header says, but IP does four bytes later: bool, shape (n,)."""
    at = inside.at
    doubtful = (kinds == LLC) | (kinds == IPV4) | (kinds == IPV6)
    known = np.array(sorted(_KINDS_BEHIND), np.int64)
    doubtful |= ~np.isin(kinds, known) & (kinds < RAW_IP)
    is_tag = np.isin(kinds, (0x8100, 0x88A8, 0x9100, 0x9200))
    is_regular = np.isin(u16(inside.data, np.minimum(at + 2, inside.end)), (0x0800, 0x86DD))
    doubtful |= is_tag & ~is_regular
    begin = at + 4
    fits = holds_ip(inside.data, begin, inside.end, inside.stop, exact=True)
    # a short packet may be padded, as Ethernet does
    padded = inside.stop - begin <= _SHORTEST_PAYLOAD
    fits |= padded & holds_ip(inside.data, begin, inside.end, inside.stop)
    return np.asarray(doubtful & fits)


def raw_ip_or_qmap(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
    """Skip nothing: the packet begins with IP, or with QMAP, as on the device rmnet_ipa0.

    Return the packets, and the kind of each next header.
    """
    first = packets.data[np.minimum(packets.at, packets.end)]
    is_ip = (first >> 4 == 6) | (first >= 0x45) & (first < 0x50)
    if is_ip.all():
        return raw_ip(packets, ledger)
    is_qmap = ~is_ip & begins(packets, with_commands=False)
    others, kinds = raw_ip(packets.keep(~is_qmap), ledger)
    if not is_qmap.any():
        return others, kinds
    parts = [others, packets.pick(is_qmap)]
    record = np.concatenate([part.record for part in parts])
    order = np.argsort(record, kind="stable")
    every = np.concatenate([kinds, np.full(len(parts[1]), QMAP)])
    return joined(parts, order), every[order]


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
