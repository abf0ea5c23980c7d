"""IEEE 802.11 data frames, and the headers that capture tools put before them.

Sources: IEEE 802.11-2020, 9.2 and 9.3; radiotap.org; the PPI specification of CACE; the tcpdump.org link-type
registry for Prism and AVS headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.chain import LLC, PADDED_80211, link
from parsers._packets.layers import rows, u32

if TYPE_CHECKING:
    from multitracer.tables import Numbers
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
