"""IPv4 and IPv6 headers. Sources: RFC 791, RFC 8200, RFC 2675 (jumbograms), RFC 4302 (AH)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import CaptureMark, IpProtocol
from parsers._packets.layers import LayerPackets, headers, joined, members, u16, u32

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from multitracer.tables import Array, Mask, Numbers
    from parsers._packets.layers import PacketCounts

    Words = NDArray[np.uint64]
    from parsers._packets.layers import Bytes


_IPV4 = np.dtype(
    [
        ("version_ihl", "u1"),
        ("tos", "u1"),
        ("total_length", ">u2"),
        ("id", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("source", ">u4"),
        ("destination", ">u4"),
    ]
)
_IPV6 = np.dtype(
    [
        ("version_class_label", ">u4"),
        ("payload_length", ">u2"),
        ("next_header", "u1"),
        ("hop_limit", "u1"),
        ("source", ">u8", 2),
        ("destination", ">u8", 2),
    ]
)
_TCP = IpProtocol.TCP.value
_MORE_FRAGMENTS = 0x2000
_OFFSET = 0x1FFF
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_EXTENSIONS = members((_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION, 135, 139, 140))
_EXTENSION_OF_IPV4 = members((_AUTHENTICATION,))
_MOST_EXTENSIONS = 16
_LONGEST_BYTES = 1 << 24
"""Maximum size of a packet: offload delivers up to 512 KiB (BIG TCP); larger ones are damage."""
_NO_MARK, _IS_FRAGMENT, _BAD_LENGTH, _LENGTH_OVERWRITTEN, _LENGTH_FROM_CAPTURE = (
    np.uint16(mark)
    for mark in (
        0,
        CaptureMark.FRAGMENT,
        CaptureMark.BAD_LENGTH,
        CaptureMark.LENGTH_OVERWRITTEN,
        CaptureMark.LENGTH_FROM_CAPTURE,
    )
)
_JUMBO_OPTION = 0xC204
"""Type and length of the jumbo payload option (RFC 2675, section 2)."""


@dataclass(slots=True)
class Datagrams:
    """IP packets whose headers are already read; arrays of shape (n,)."""

    version: int
    packets: LayerPackets
    """`at` is where the transport header begins, `stop` where the IP length ends."""
    protocol: Numbers
    source: tuple[Words, Words]
    """Both halves of the address; the second is 0 for IPv4, the first then is the 32-bit address."""
    destination: tuple[Words, Words]
    identification: Numbers
    """Identification of IPv4, or of the IPv6 fragment header; 0 without one."""
    fragment_offset: Numbers
    """Bytes before this fragment in the datagram."""
    more_fragments: Mask

    def __len__(self) -> int:
        return len(self.protocol)

    def keep(self, mask: Mask) -> Datagrams:
        """Return the datagrams where `mask` (bool, shape (n,)) is set."""
        return self if mask.all() else self.keep_at(mask)

    def keep_at(self, which: Mask | Numbers) -> Datagrams:
        """Return a copy of the datagrams that a mask (bool, shape (n,)) or positions (int64) select."""
        return Datagrams(
            self.version,
            self.packets.pick(which),
            self.protocol[which],
            (self.source[0][which], self.source[1][which]),
            (self.destination[0][which], self.destination[1][which]),
            self.identification[which],
            self.fragment_offset[which],
            self.more_fragments[which],
        )


def in_capture_order(parts: list[Datagrams]) -> Datagrams:
    """Return the datagrams of several parts of a block in capture order; all have the same IP version."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([p.packets.record for p in parts]), kind="stable")

    def column(values: Iterable[Array]) -> Array:
        return np.concatenate(list(values))[order]

    return Datagrams(
        parts[0].version,
        joined([p.packets for p in parts], order),
        column(p.protocol for p in parts),
        (column(p.source[0] for p in parts), column(p.source[1] for p in parts)),
        (column(p.destination[0] for p in parts), column(p.destination[1] for p in parts)),
        column(p.identification for p in parts),
        column(p.fragment_offset for p in parts),
        column(p.more_fragments for p in parts),
    )


def ipv4(packets: LayerPackets, ledger: PacketCounts) -> Datagrams:
    """Read the IPv4 headers; packets with a cut or invalid header are counted in `ledger` and left out.

    `packets` has shape (n,), `at` is where IP begins; the result has shape (m,), m <= n, in the
    same order.
    """
    header = headers(packets.data, packets.at, _IPV4)
    header_bytes = (header["version_ihl"] & 0x0F).astype(np.int64) << 2
    total = header["total_length"].astype(np.int64)
    captured = packets.at + np.maximum(header_bytes, 20) <= packets.end
    valid = (header["version_ihl"] >> 4 == 4) & (header_bytes >= 20) & ((total >= header_bytes) | (total == 0))
    good = captured & valid
    if not good.all():
        ledger.drop(~captured, "IPv4 header cut short")
        ledger.drop(captured & ~valid, "IPv4 header not valid")
        return ipv4(packets.pick(good), ledger)
    fragment = header["fragment"].astype(np.int64)
    zeros = np.zeros(len(packets), np.uint64)
    datagrams = Datagrams(
        4,
        _bounded(packets, total).advanced(header_bytes),
        header["protocol"].astype(np.int64),
        (header["source"].astype(np.uint64), zeros),
        (header["destination"].astype(np.uint64), zeros),
        header["id"].astype(np.int64),
        (fragment & _OFFSET) << 3,
        fragment & _MORE_FRAGMENTS != 0,
    )
    return _without_extensions(datagrams, ledger, _EXTENSION_OF_IPV4)


def ipv6(packets: LayerPackets, ledger: PacketCounts) -> Datagrams:
    """Read the IPv6 headers and extension headers.

    Cut or invalid packets are counted in `ledger`, and left out.

    `packets` has shape (n,), `at` is where IP begins; the result has shape (m,), m <= n, in the
    same order.
    """
    header = headers(packets.data, packets.at, _IPV6)
    captured = packets.at + 40 <= packets.end
    valid = header["version_class_label"] >> 28 == 6
    good = captured & valid
    if not good.all():
        ledger.drop(~captured, "IPv6 header cut short")
        ledger.drop(captured & ~valid, "IPv6 header not valid")
        return ipv6(packets.pick(good), ledger)
    payload = header["payload_length"].astype(np.int64)
    next_header = header["next_header"].astype(np.int64)
    jumbo = (payload == 0) & (next_header == _HOP_BY_HOP)
    if jumbo.any():
        payload[jumbo] = _jumbo_length(packets.pick(jumbo).advanced(40))
    source, destination = header["source"].astype(np.uint64), header["destination"].astype(np.uint64)
    datagrams = Datagrams(
        6,
        _bounded(packets, np.where(payload == 0, 0, payload + 40)).advanced(40),
        next_header,
        (source[:, 0], source[:, 1]),
        (destination[:, 0], destination[:, 1]),
        np.zeros(len(packets), np.int64),
        np.zeros(len(packets), np.int64),
        np.zeros(len(packets), np.bool_),
    )
    return _without_extensions(datagrams, ledger, _EXTENSIONS)


def _bounded(packets: LayerPackets, length: Numbers) -> LayerPackets:
    """Return the packets with `end` and `stop` limited to their IP length.

    Length 0 (segmentation offload) changes nothing. Packets with an invalid length are marked.
    """
    stop = packets.at + length
    beyond = (stop > packets.stop) & (packets.marks & _IS_FRAGMENT == 0)
    marks = packets.marks
    unknown = length == 0
    if beyond.any():
        marks = marks | np.where(beyond, _BAD_LENGTH, _NO_MARK)
    believed = packets.marks & _LENGTH_OVERWRITTEN != 0
    if believed.any():
        marks = np.where(beyond, marks, marks & ~_LENGTH_OVERWRITTEN)
        packets = replace(packets, stop=np.where(believed & beyond, stop, packets.stop))
    if unknown.any():
        marks = marks | np.where(unknown, _LENGTH_FROM_CAPTURE, _NO_MARK)
        stop = np.where(unknown, packets.stop, stop)
    stop = np.minimum(stop, packets.stop)
    endless = stop - packets.at > _LONGEST_BYTES
    if endless.any():
        marks = marks | np.where(endless, _BAD_LENGTH, _NO_MARK)
        stop = np.where(endless, packets.end, stop)
    return replace(packets, stop=stop, end=np.minimum(packets.end, stop), marks=marks)


def _jumbo_length(options: LayerPackets) -> Numbers:
    """Return the jumbo payload length in each hop-by-hop header; 0 without one."""
    length = np.zeros(len(options), np.int64)
    for position in (2, 6, 10, 14):  # the option is aligned to 4 n + 2
        inside = options.at + position + 6 <= options.end
        is_jumbo = inside & (u16(options.data, options.at + position) == _JUMBO_OPTION) & (length == 0)
        length[is_jumbo] = u32(options.data, options.at[is_jumbo] + position + 2)
    return length


def _without_extensions(datagrams: Datagrams, ledger: PacketCounts, kinds: Mask) -> Datagrams:
    """Return the datagrams moved past the IPv6 extension headers of `kinds`, at their transport header.

    Datagrams with cut headers are counted in `ledger` and left out.
    """
    for _ in range(_MOST_EXTENSIONS):
        if (datagrams.protocol == _TCP).all():
            return datagrams
        extended = kinds[datagrams.protocol] & (datagrams.fragment_offset == 0)
        if not extended.any():
            return datagrams
        captured = datagrams.packets.at + 8 <= datagrams.packets.end
        if (extended & ~captured).any():
            ledger.drop(extended & ~captured, "IP extension header cut short")
            datagrams = datagrams.keep(captured | ~extended)
            extended = extended[captured | ~extended]
        _step_over(datagrams, extended)
        inside = datagrams.packets.at <= datagrams.packets.end
        ledger.drop(~inside, "IP extension header cut short")
        datagrams = datagrams.keep(inside)
    ledger.drop(extended := kinds[datagrams.protocol], "more than 16 IP extension headers")
    return datagrams.keep(~extended)


def _step_over(datagrams: Datagrams, extended: Mask) -> None:
    """Move the datagrams of the mask `extended` past one extension header, in place."""
    which = np.flatnonzero(extended)
    data, at, kind = datagrams.packets.data, datagrams.packets.at[which], datagrams.protocol[which]
    length = (data[at + 1].astype(np.int64) + 1) << 3
    length = np.where(kind == _AUTHENTICATION, (data[at + 1].astype(np.int64) + 2) << 2, length)
    fragment = kind == _FRAGMENT
    if fragment.any():
        length[fragment] = 8
        where, header = which[fragment], at[fragment]
        offset = u16(data, header + 2)
        datagrams.fragment_offset[where] = offset & ~0x7
        datagrams.more_fragments[where] = offset & 1 != 0
        datagrams.identification[where] = u32(data, header + 4)
    datagrams.protocol[which] = data[at]
    datagrams.packets.at[which] += length


# Whether an IP or Ethernet header at some place can be one: what a guess is verified with.


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
