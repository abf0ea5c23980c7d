"""What the packets of a capture without TCP are: tunnels, QUIC and other protocols, with packets and bytes.

A capture that holds no segment leaves the question what it does hold. Its packets are looked at once more,
in Python only, up to a bound. UDP is named by what its datagrams contain, together for both directions of a
flow: a port alone proves nothing, so a protocol is named only if nearly all datagrams have its header. Of
what is in IP, the bytes of each second are counted for each direction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import Content, ContentWay, IpProtocol, SourceFile
from multitracer.endpoints import address_text
from multitracer.units import NOT_A_TIME, NS_PER_S
from parsers._packets.decode import Decoder, by_link_type
from parsers._packets.layers import PacketCounts, u16, u32
from parsers._read import format_of_capture
from parsers._stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from multitracer.tables import Mask, Numbers
    from parsers._packets.ip import Datagrams
    from parsers._packets.layers import Bytes, PacketRecords
    from parsers._packets.tunnels_seen import SeenTunnel

MOST_PACKETS, MOST_BESIDE_TCP = 200_000, 20_000
"""Maximum number of packets of a file that are looked at: about a second; a tenth of it beside TCP."""
_MOST_FLOWS = 50_000
"""Maximum number of flows of UDP that are told apart; others count by their port alone."""
_NEARLY_ALL = 0.9
"""Minimum share of the datagrams of a flow that have the header of a protocol. Not measured."""
_MOST_STEPS = 3600
"""Maximum steps of a rate over time: an hour of seconds; longer captures have longer steps."""
_FARTHEST_S = 100 * 366 * 86_400
"""Time behind the first packet that is believed, s: a century; what is farther is damage."""
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


def _openvpn_begin(p: _Payload) -> Mask:
    """Return which are a reset that opens OpenVPN: its session, perhaps a signature, no acknowledgement, packet 0.

    Without a signature it has 14 bytes; with one (tls-auth) 8 bytes and that of SHA-1, SHA-256 or SHA-512 more.
    """
    resets = np.isin(p.byte(0), (0x38, 0x40, 0x50))
    signed = np.isin(p.length, (14 + 28, 14 + 40, 14 + 72)) & (p.present >= p.length)
    signed &= u32(p.data, p.at + np.where(signed, p.length - 4, 0)) == 0
    plain = (p.length == 14) & (p.byte(9) == 0) & (u32(p.data, p.at + 10) == 0)
    return np.asarray(resets & (plain | signed))


def _dtls(p: _Payload) -> Mask:
    """Return which begin with a record of DTLS that fits (RFC 6347, 4.1)."""
    version = u16(p.data, p.at + 1)
    is_record = (p.byte(0) >= 20) & (p.byte(0) <= 25) & np.isin(version, (0xFEFF, 0xFEFD))
    return np.asarray(is_record & (u16(p.data, p.at + 11) + 13 <= p.length))


def _dtls_begin(p: _Payload) -> Mask:
    """Return which are a handshake of DTLS before its keys: content type 22 in epoch 0."""
    return np.asarray(_dtls(p) & (p.byte(0) == 22) & (u16(p.data, p.at + 3) == 0))


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
    _Kind("DTLS", frozenset({4433, 5684}), _dtls, _dtls_begin),
    _Kind("OpenVPN", frozenset({1194}), _openvpn, _openvpn_begin),
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


_Key = tuple[int | str, ...]
"""Of a flow: the tunnel that it is in, the protocol, then high half, low half and port of both ends."""


@dataclass(slots=True)
class _OneWay:
    """The packets of a direction of a flow, or of all flows between two hosts."""

    packets: int = 0
    bytes: int = 0
    first_ns: int = NOT_A_TIME
    last_ns: int = NOT_A_TIME
    by_second: dict[int, int] = field(default_factory=dict)
    """Bytes by second since the first packet of the file."""

    def add(self, other: _OneWay) -> None:
        """Add the packets of another one."""
        self.packets += other.packets
        self.bytes += other.bytes
        self.note(other.first_ns, other.last_ns)
        for second, size in other.by_second.items():
            self.by_second[second] = self.by_second.get(second, 0) + size

    def note(self, first_ns: int, last_ns: int) -> None:
        """Extend the time to that of further packets."""
        if first_ns != NOT_A_TIME:
            self.first_ns = first_ns if self.first_ns == NOT_A_TIME else min(self.first_ns, first_ns)
            self.last_ns = max(self.last_ns, last_ns)

    def way(self, source: str, destination: str) -> ContentWay:
        """Return it as a part of a content."""
        last = max(self.by_second, default=-1)
        step_s = max(1, -(-(last + 1) // _MOST_STEPS))
        steps = [0] * (last // step_s + 1)
        for second, size in self.by_second.items():
            steps[second // step_s] += size
        duration_ns = self.last_ns - self.first_ns
        peak = max(self.by_second.values(), default=0) if duration_ns >= 2 * NS_PER_S else None
        return ContentWay(source, destination, self.packets, self.bytes, duration_ns, peak, step_s, tuple(steps))


class ContentCounter(Decoder):
    """Counts packets and bytes by what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.packets = 0
        """Number of packets so far."""
        self._counts: dict[str, tuple[int, int]] = {}
        self._udp: dict[_Key, _Flow] = {}
        self._ways: dict[tuple[_Key, bool], _OneWay] = {}
        """Packets of each direction of a flow; True: from the second end."""
        self._begin_ns = NOT_A_TIME
        """Time of the first packet with one."""

    def count(self, records: PacketRecords) -> None:
        """Count the packets of a block."""
        if not self.files:
            self.files.append(SourceFile("", ""))
        if self._begin_ns == NOT_A_TIME and (timed := records.time_ns[records.time_ns != NOT_A_TIME]).size:
            self._begin_ns = int(timed[0])
        ledger = PacketCounts({}, {})
        is_other = np.ones(len(records), bool)
        parts = [each for each in self._datagrams(by_link_type(records), ledger) if len(each)]
        inside = _names_inside(ledger.tunnels)
        for datagrams in parts:
            is_other[datagrams.packets.record] = False
            for tunnel, within in _apart(datagrams, inside):
                self._count_datagrams(within, records, tunnel)
        names = {**ledger.protocols, **{f"not decoded, {why}": n for why, n in ledger.not_decoded.items()}}
        for protocol in set(names) & {"ip fragment"}:
            names["IP fragments"] = names.pop(protocol)
        if is_other.any():
            name = " and ".join(sorted(names, key=lambda each: -names[each])[:3]) or "not IP"
            self._add(name, int(is_other.sum()), int(records.original[is_other].sum()))
        self.packets += len(records)
        self._records += len(records)

    def _count_datagrams(self, datagrams: Datagrams, records: PacketRecords, tunnel: str) -> None:
        packets = datagrams.packets
        is_udp = datagrams.protocol == IpProtocol.UDP
        complete = is_udp & (packets.end - packets.at >= _HEADER_BYTES)
        for protocol in np.unique(datagrams.protocol[~complete]).tolist():
            here = datagrams.keep(~complete & (datagrams.protocol == protocol))
            size = records.original[here.packets.record]
            self._add(f"{_protocol_name(protocol)}{tunnel}", len(here), int(size.sum()))
            ports = np.zeros(len(here), np.int64)
            self._count_ways(EndPairs.of(here, (ports, ports)), here, records, (tunnel, protocol))
        if complete.any():
            self._count_udp(datagrams.keep(complete), records, tunnel)

    def _count_udp(self, datagrams: Datagrams, records: PacketRecords, tunnel: str) -> None:
        packets = datagrams.packets
        size = records.original[packets.record]
        ports = u16(packets.data, packets.at), u16(packets.data, packets.at + 2)
        present = packets.end - packets.at - _HEADER_BYTES
        stated = u16(packets.data, packets.at + 4) - _HEADER_BYTES
        payload = _Payload(packets.data, packets.at + _HEADER_BYTES, stated, present)
        enough = present >= np.minimum(_PROBED_BYTES, stated)
        looks = [each.looks(payload) & enough for each in _KINDS]
        none = np.zeros(len(size), bool)
        proofs = [np.asarray(each.proof(payload) & enough) if each.proof else none for each in _KINDS]
        pairs = EndPairs.of(datagrams, ports)
        columns = [np.ones(len(size)), size, *looks, *proofs]
        sums = [np.bincount(pairs.of_each, each, minlength=len(pairs.keys)).astype(int).tolist() for each in columns]
        known = self._count_ways(pairs, datagrams, records, (tunnel, IpProtocol.UDP.value))
        for number, key in enumerate(known):
            flow = self._udp.setdefault(key, _Flow())
            flow.packets += sums[0][number]
            flow.bytes += sums[1][number]
            for kind in range(len(_KINDS)):
                flow.looks[kind] += sums[2 + kind][number]
                flow.proofs[kind] += sums[2 + len(_KINDS) + kind][number]

    def _count_ways(
        self, pairs: EndPairs, datagrams: Datagrams, records: PacketRecords, prefix: tuple[str, int]
    ) -> list[_Key]:
        """Count the bytes of each direction and second; return the key of each pair of ends."""
        record = datagrams.packets.record
        size, time_ns = records.original[record], records.time_ns[record]
        second = np.where(time_ns == NOT_A_TIME, -1, (time_ns - self._begin_ns) // NS_PER_S)
        second = np.where(np.abs(second) <= _FARTHEST_S, second, -1)
        keys = [self._key((*prefix, *ends)) for ends in pairs.keys]
        cells, of = np.unique(
            np.stack([pairs.of_each, pairs.swapped.astype(np.int64), second]), axis=1, return_inverse=True
        )
        of = of.ravel()
        packets, sizes = (np.bincount(of, weights=each).astype(np.int64) for each in (np.ones(len(size)), size))
        times = np.argsort(of, kind="stable")
        bounds = np.searchsorted(of[times], np.arange(cells.shape[1] + 1))
        for number, (pair, swapped, at) in enumerate(cells.T.tolist()):
            within = time_ns[times[bounds[number] : bounds[number + 1]]]
            way = self._ways.setdefault((keys[pair], bool(swapped)), _OneWay())
            way.packets += int(packets[number])
            way.bytes += int(sizes[number])
            if at >= 0:
                way.by_second[at] = way.by_second.get(at, 0) + int(sizes[number])
                way.note(int(within.min()), int(within.max()))
        return keys

    def _key(self, key: _Key) -> _Key:
        """Return the key under which a flow is counted: one for all further flows of a port, if there are many."""
        if (key, False) in self._ways or (key, True) in self._ways or len(self._ways) < 2 * _MOST_FLOWS:
            return key
        return (*key[:2], 0, 0, min(key[4], key[7]), 0, 0, 0)

    def _add(self, name: str, packets: int, size: int) -> None:
        before = self._counts.get(name, (0, 0))
        self._counts[name] = before[0] + packets, before[1] + size

    def contents(self) -> list[Content]:
        """Return what was found, the most bytes first."""
        names = {}
        for key, flow in self._udp.items():
            names[key] = f"{_name_of(flow, {int(key[4]), int(key[7])})}{key[0]}"
            self._add(names[key], flow.packets, flow.bytes)
        self._udp.clear()
        between: dict[str, dict[tuple[str, str], _OneWay]] = {}
        for (key, swapped), way in self._ways.items():
            name = names.get(key) or f"{_protocol_name(int(key[1]))}{key[0]}"
            ends = (address_text((int(key[2]), int(key[3]))), address_text((int(key[5]), int(key[6]))))
            if any(key[2:]):
                hosts = ends[::-1] if swapped else ends
                between.setdefault(name, {}).setdefault(hosts, _OneWay()).add(way)
        ordered = sorted(self._counts.items(), key=lambda each: (-each[1][1], each[0]))
        return [Content(name, packets, size, _largest(between.get(name, {}))) for name, (packets, size) in ordered]


def _largest(ways: dict[tuple[str, str], _OneWay]) -> tuple[ContentWay, ...]:
    """Return both directions between the two hosts with the most bytes, that with more bytes first."""
    pairs: dict[frozenset[str], int] = {}
    for hosts, way in ways.items():
        pairs[frozenset(hosts)] = pairs.get(frozenset(hosts), 0) + way.bytes
    largest = max(pairs, key=pairs.__getitem__, default=frozenset())
    both = [(hosts, way) for hosts, way in ways.items() if frozenset(hosts) == largest]
    return tuple(way.way(*hosts) for hosts, way in sorted(both, key=lambda each: -each[1].bytes))


class EndPairs(NamedTuple):
    """The pairs of ends of some datagrams."""

    keys: list[tuple[int, ...]]
    """High half, low half and port of both ends, the one that sorts first before the other."""
    of_each: Numbers
    """Index in `keys` of each datagram."""
    swapped: Mask
    """Whether a datagram comes from the second end."""

    @classmethod
    def of(cls, datagrams: Datagrams, ports: tuple[Numbers, Numbers]) -> EndPairs:
        """Return the pairs of datagrams with these source and destination ports: int64, shape (n,)."""
        one, two = (
            np.stack([*address, port.astype(np.uint64)])
            for address, port in zip((datagrams.source, datagrams.destination), ports, strict=True)
        )
        swap = np.zeros(one.shape[1], bool)
        tied = ~swap
        for a, b in zip(one, two, strict=True):
            swap |= tied & (a > b)
            tied &= a == b
        both = np.concatenate([np.where(swap, two, one), np.where(swap, one, two)])
        if both.shape[1] and (both == both[:, :1]).all():  # one pair, as most captures of QUIC have, needs no sorting
            return cls([tuple(both[:, 0].tolist())], np.zeros(both.shape[1], np.int64), swap)
        distinct, of = np.unique(both, axis=1, return_inverse=True)
        return cls([tuple(each) for each in distinct.T.tolist()], of.ravel(), swap)


def _names_inside(seen: list[SeenTunnel]) -> dict[int, str]:
    """Return the tunnels that each record of a block is in, the inner one first: " in VXLAN in GTP-U"."""
    names: dict[int, str] = {}
    for each in seen:
        for record in each.record.tolist():
            names[record] = f" in {each.name}{names.get(record, '')}"
    return names


def _apart(datagrams: Datagrams, inside: dict[int, str]) -> Iterator[tuple[str, Datagrams]]:
    """Yield the datagrams by the tunnel that they are in; "" for those in none."""
    if not inside:
        yield "", datagrams
        return
    names = np.array([inside.get(record, "") for record in datagrams.packets.record.tolist()])
    for name in np.unique(names).tolist():
        yield name, datagrams.keep(names == name)


def _protocol_name(protocol: int) -> str:
    if protocol == IpProtocol.TCP:
        return _TCP
    return "UDP" if protocol == IpProtocol.UDP else _NAMES.get(protocol, f"IP protocol {protocol}")


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


def contents_of(path: str, *, most_packets: int | None = None, has_tcp: bool = False) -> list[Content]:
    """Return what the packets of a capture file are, the most bytes first.

    Parameters
    ----------
    path : str
    most_packets : int, optional
        Number of packets that are looked at; MOST_PACKETS, or MOST_BESIDE_TCP.
    has_tcp : bool
        Leave out TCP, because its segments are analysed; otherwise none of it could be.

    Raises
    ------
    InputError, FormatError
        If the file cannot be read.
    """
    counter = ContentCounter()
    most_packets = most_packets or (MOST_BESIDE_TCP if has_tcp else MOST_PACKETS)
    with open_stream(path) as stream:
        blocks = format_of_capture(stream).blocks
        each: Iterable[PacketRecords] = () if blocks is None else blocks(stream, SourceFile(path, ""))
        for records in each:
            if len(records):
                counter.count(records.first(most_packets - counter.packets))
            if counter.packets >= most_packets:
                break
    contents = counter.contents()
    return [each for each in contents if not each.name.startswith(_TCP)] if has_tcp else contents
