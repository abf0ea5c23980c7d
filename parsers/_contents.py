"""What the packets of a capture without TCP are: tunnels, QUIC and other protocols, with packets and bytes.

A capture that holds no segment leaves the question what it does hold. Its packets are looked at once more,
in Python only, up to a bound. UDP is named by what its datagrams contain, together for both directions of a
flow: a port alone proves nothing, so a protocol is named only if nearly all datagrams have its header.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import Content, IpProtocol, SourceFile
from parsers._packets.decode import Decoder, by_link_type
from parsers._packets.layers import PacketCounts, u16, u32
from parsers._read import format_of_capture
from parsers._stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from multitracer.tables import Mask, Numbers
    from parsers._packets.ip import Datagrams
    from parsers._packets.layers import Bytes, PacketRecords

MOST_PACKETS = 200_000
"""Maximum number of packets of a file that are looked at: about a second."""
_MOST_FLOWS = 50_000
"""Maximum number of flows of UDP that are told apart; others count by their port alone."""
_NEARLY_ALL = 0.9
"""Minimum share of the datagrams of a flow that have the header of a protocol. Not measured."""
_HEADER_BYTES, _PROBED_BYTES = 8, 22
"""Length of UDP's header, and how much behind it is compared; the padding of a block allows to read it."""
_NAMES = {
    IpProtocol.ESP.value: "ESP (IPsec)", 51: "AH (IPsec)", IpProtocol.SCTP.value: "SCTP",
    IpProtocol.GRE.value: "GRE", IpProtocol.ICMP.value: "ICMP", IpProtocol.ICMPV6.value: "ICMPv6",
    IpProtocol.IGMP.value: "IGMP", IpProtocol.OSPF.value: "OSPF", 103: "PIM", 112: "VRRP", 115: "L2TPv3",
}  # fmt: skip
"""IP protocols (IANA, Assigned Internet Protocol Numbers)."""
_PORTS = {
    53: "DNS", 67: "DHCP", 68: "DHCP", 123: "NTP", 137: "NetBIOS", 138: "NetBIOS", 161: "SNMP", 546: "DHCPv6",
    547: "DHCPv6", 1900: "SSDP", 4729: "GSMTAP", 5353: "mDNS", 5355: "LLMNR",
}  # fmt: skip
"""Ports of UDP that stand for a protocol (IANA, Service Name and Port Number Registry)."""


class _Payload(NamedTuple):
    """Begin of the datagrams of UDP; arrays of shape (n,)."""

    data: Bytes
    at: Numbers
    """Positions behind UDP's header."""
    length: Numbers
    """Number of bytes behind UDP's header, as it states."""
    present: Numbers
    """Number of captured bytes of them."""

    def byte(self, place: int) -> Numbers:
        """Return a byte of each payload: int64, shape (n,)."""
        return self.data[self.at + place].astype(np.int64)


def _quic_begin(p: _Payload) -> Mask:
    """Return which have a long header of QUIC in a known version (RFC 9000, 17.2; RFC 9369)."""
    version = u32(p.data, p.at + 1)
    known = (version <= 1) | (version == 0x6B3343CF) | (version & 0xFFFFFF00 == 0xFF000000)
    known |= (version & 0x0F0F0F0F == 0x0A0A0A0A) | (version >> 8 == 0x513034) | (version >> 8 == 0x513035)
    return np.asarray((p.byte(0) & 0xC0 >= 0xC0) & known & (p.byte(5) <= 20) & (p.length >= 20))


def _quic(p: _Payload) -> Mask:
    """Return which may be QUIC's: a long header, or the fixed bit of a short one (RFC 9000, 17.3)."""
    return np.asarray(_quic_begin(p) | (p.byte(0) & 0xC0 == 0x40))


_WIREGUARD_BYTES = {1: 148, 2: 92, 3: 64}
"""Length of messages by their type (wireguard.com/protocol)."""


def _wireguard_begin(p: _Payload) -> Mask:
    """Return which are the first message of a handshake of WireGuard or its answer."""
    kind = u32(p.data, p.at) >> 24
    fits = (kind == 1) & (p.length == _WIREGUARD_BYTES[1]) | (kind == 2) & (p.length == _WIREGUARD_BYTES[2])
    return np.asarray(fits & (u32(p.data, p.at) & 0xFFFFFF == 0))


def _wireguard(p: _Payload) -> Mask:
    """Return which are messages of WireGuard: data are padded to 16 bytes behind a header of 16."""
    word = u32(p.data, p.at)
    data = (word == 4 << 24) & (p.length >= 32) & (p.length % 16 == 0)
    cookie = (word == 3 << 24) & (p.length == _WIREGUARD_BYTES[3])
    return np.asarray(_wireguard_begin(p) | data | cookie)


def _gtpu(p: _Payload) -> Mask:
    """Return which are GTP-U: version 1, and the length behind its 8 bytes (3GPP TS 29.281, 5.1)."""
    return np.asarray((p.byte(0) & 0xF0 == 0x30) & (u16(p.data, p.at + 2) == p.length - 8))


def _vxlan(p: _Payload) -> Mask:
    """Return which are VXLAN: a known identifier, and reserved bits of 0 (RFC 7348, 5)."""
    return np.asarray((u32(p.data, p.at) == 0x08000000) & (p.byte(7) == 0))


def _geneve(p: _Payload) -> Mask:
    """Return which are Geneve, version 0, with an EtherType (RFC 8926, 3.4)."""
    return np.asarray((p.byte(0) & 0xC0 == 0) & np.isin(u16(p.data, p.at + 2), (0x6558, 0x0800, 0x86DD)))


def _l2tp(p: _Payload) -> Mask:
    """Return which are L2TP, version 2 or 3 (RFC 2661, 3.1; RFC 3931, 4.1.2)."""
    return np.asarray(np.isin(p.byte(1) & 0x0F, (2, 3)) & (p.byte(0) & 0x34 == 0))


def _esp(p: _Payload) -> Mask:
    """Return which are ESP in UDP: an index that is not 0 (RFC 3948, 2.1), or a keep-alive."""
    return np.asarray((u32(p.data, p.at) > 255) & (p.length >= 20) | (p.length == 1))


def _ike(p: _Payload) -> Mask:
    """Return which are IKE, perhaps behind the marker of four zeros (RFC 7296, 3.1)."""
    behind = np.where(u32(p.data, p.at) == 0, 4, 0)
    return np.asarray(np.isin(p.data[p.at + behind + 17], (0x10, 0x20)) & (p.length >= 28))


def _ipsec(p: _Payload) -> Mask:
    """Return which are ESP in UDP, a keep-alive of it, or IKE (RFC 3948, 2)."""
    return np.asarray(_esp(p) | (u32(p.data, p.at) == 0) & _ike(p))


def _openvpn(p: _Payload) -> Mask:
    """Return which begin with an operation of OpenVPN: 3 to 11, and a key from 0 to 7."""
    operation = p.byte(0) >> 3
    return np.asarray((operation >= 3) & (operation <= 11))


class _Kind(NamedTuple):
    """A protocol in UDP, as its datagrams show it."""

    name: str
    ports: frozenset[int]
    """Ports on which it is believed; empty: any, if a flow has datagrams that `proof` knows."""
    looks: Callable[[_Payload], Mask]
    proof: Callable[[_Payload], Mask] | None = None


_KINDS = (
    _Kind("GTP-U", frozenset({2152}), _gtpu),
    _Kind("VXLAN", frozenset({4789, 8472}), _vxlan),
    _Kind("Geneve", frozenset({6081}), _geneve),
    _Kind("L2TP", frozenset({1701}), _l2tp),
    _Kind("WireGuard", frozenset({51820}), _wireguard, _wireguard_begin),
    _Kind("OpenVPN", frozenset({1194}), _openvpn),
    _Kind("ESP in UDP (IPsec)", frozenset({4500}), _ipsec),
    _Kind("IKE (IPsec)", frozenset({500}), _ike),
    _Kind("QUIC", frozenset(), _quic, _quic_begin),
)
"""In order: of several that fit, the first one is it."""
_TCP = "TCP with cut or impossible headers"
_MAYBE_QUIC = "UDP port 443, as QUIC uses it (no handshake was captured)"
_QUIC = len(_KINDS) - 1


@dataclass(slots=True)
class _Flow:
    """The datagrams of UDP between two endpoints."""

    packets: int = 0
    bytes: int = 0
    looks: list[int] = field(default_factory=lambda: [0] * len(_KINDS))
    """How many look like each of the kinds."""
    proofs: list[int] = field(default_factory=lambda: [0] * len(_KINDS))


class ContentCounter(Decoder):
    """Counts packets and bytes by what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.packets = 0
        """Number of packets so far."""
        self._counts: dict[str, tuple[int, int]] = {}
        self._udp: dict[tuple[int, ...], _Flow] = {}

    def count(self, records: PacketRecords) -> None:
        """Count the packets of a block."""
        if not self.files:
            self.files.append(SourceFile("", ""))
        ledger = PacketCounts({}, {})
        is_other = np.ones(len(records), bool)
        for datagrams in self._datagrams(by_link_type(records), ledger):
            if len(datagrams):
                is_other[datagrams.packets.record] = False
                self._count_datagrams(datagrams, records)
        names = {**ledger.protocols, **{f"not decoded, {why}": n for why, n in ledger.not_decoded.items()}}
        for protocol in set(names) & {"ip fragment"}:
            names["IP fragments"] = names.pop(protocol)
        if is_other.any():
            name = " and ".join(sorted(names, key=lambda each: -names[each])[:3]) or "not IP"
            self._add(name, int(is_other.sum()), int(records.original[is_other].sum()))
        self.packets += len(records)
        self._records += len(records)

    def _count_datagrams(self, datagrams: Datagrams, records: PacketRecords) -> None:
        size = records.original[datagrams.packets.record]
        is_udp = datagrams.protocol == IpProtocol.UDP
        for protocol in np.unique(datagrams.protocol[~is_udp]).tolist():
            here = datagrams.protocol == protocol
            name = _TCP if protocol == IpProtocol.TCP else _NAMES.get(protocol, f"IP protocol {protocol}")
            self._add(name, int(here.sum()), int(size[here].sum()))
        packets = datagrams.packets
        complete = is_udp & (packets.end - packets.at >= _HEADER_BYTES)
        cut = is_udp & ~complete
        if cut.any():
            self._add("UDP", int(cut.sum()), int(size[cut].sum()))
        if complete.any():
            self._count_udp(datagrams.keep(complete), size[complete])

    def _count_udp(self, datagrams: Datagrams, size: Numbers) -> None:
        packets = datagrams.packets
        ports = u16(packets.data, packets.at), u16(packets.data, packets.at + 2)
        present = packets.end - packets.at - _HEADER_BYTES
        stated = u16(packets.data, packets.at + 4) - _HEADER_BYTES
        payload = _Payload(packets.data, packets.at + _HEADER_BYTES, stated, present)
        enough = present >= np.minimum(_PROBED_BYTES, stated)
        looks = [each.looks(payload) & enough for each in _KINDS]
        proofs = [np.asarray(each.proof(payload) & enough) if each.proof else each.looks(payload) & False
                  for each in _KINDS]  # fmt: skip
        ends = [
            np.stack([*(half.astype(np.int64) for half in address), port])
            for address, port in zip((datagrams.source, datagrams.destination), ports, strict=True)
        ]
        key, of = np.unique(_unordered(*ends), axis=1, return_inverse=True)
        columns = [np.ones(len(size)), size, *looks, *proofs]
        sums = [np.bincount(of.ravel(), each, minlength=key.shape[1]).astype(int).tolist() for each in columns]
        for number, ends_of in enumerate(key.T.tolist()):
            known = tuple(ends_of)
            if known not in self._udp and len(self._udp) >= _MOST_FLOWS:
                known = (0, 0, min(known[2], known[5]), 0, 0, 0)
            flow = self._udp.setdefault(known, _Flow())
            flow.packets += sums[0][number]
            flow.bytes += sums[1][number]
            for kind in range(len(_KINDS)):
                flow.looks[kind] += sums[2 + kind][number]
                flow.proofs[kind] += sums[2 + len(_KINDS) + kind][number]

    def _add(self, name: str, packets: int, size: int) -> None:
        before = self._counts.get(name, (0, 0))
        self._counts[name] = before[0] + packets, before[1] + size

    def contents(self) -> list[Content]:
        """Return what was found, the most bytes first."""
        for (_, _, port, _, _, other), flow in self._udp.items():
            self._add(_name_of(flow, {port, other}), flow.packets, flow.bytes)
        self._udp.clear()
        ordered = sorted(self._counts.items(), key=lambda each: (-each[1][1], each[0]))
        return [Content(name, packets, size) for name, (packets, size) in ordered]


def _unordered(one: Numbers, two: Numbers) -> Numbers:
    """Return the columns of two endpoints, int64, shape (6, n), the one that sorts first above."""
    swap = np.zeros(one.shape[1], bool)
    tied = ~swap
    for a, b in zip(one, two, strict=True):
        swap |= tied & (a > b)
        tied &= a == b
    return np.concatenate([np.where(swap, two, one), np.where(swap, one, two)])


def _name_of(flow: _Flow, ports: set[int]) -> str:
    """Return the name of what a flow of UDP carries."""
    for number, kind in enumerate(_KINDS):
        if flow.looks[number] < _NEARLY_ALL * flow.packets:
            continue
        if kind.ports & ports or flow.proofs[number]:
            return kind.name if number != _QUIC else f"QUIC (UDP port {min(ports - {0}, default=0)})"
    if 443 in ports and flow.looks[_QUIC] >= _NEARLY_ALL * flow.packets:
        return _MAYBE_QUIC
    named = next((_PORTS[port] for port in sorted(ports) if port in _PORTS), None)
    return named or f"UDP port {min(ports - {0}, default=0)}"


def contents_of(path: str, *, most_packets: int = MOST_PACKETS) -> list[Content]:
    """Return what the packets of a capture file are, of the first `most_packets`; the most bytes first.

    Raises
    ------
    InputError, FormatError
        If the file cannot be read.
    """
    counter = ContentCounter()
    with open_stream(path) as stream:
        blocks = format_of_capture(stream).blocks
        each: Iterable[PacketRecords] = () if blocks is None else blocks(stream, SourceFile(path, ""))
        for records in each:
            if len(records):
                counter.count(records.first(most_packets - counter.packets))
            if counter.packets >= most_packets:
                break
    return counter.contents()
