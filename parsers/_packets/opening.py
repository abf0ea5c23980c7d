"""Opens tunnels: from the datagrams that carry them to the IP packets inside.

In UDP a port proves nothing: a datagram is opened only if the headers of the tunnel are valid, its lengths agree, and
an IP or Ethernet header follows that fits. All others stay datagrams of UDP.

Sources: 3GPP TS 29.281, 5 (GTP-U) and TS 38.415 (its PDU session container); RFC 7348 (VXLAN),
draft-ietf-nvo3-vxlan-gpe; RFC 8926 (Geneve); RFC 2661 and RFC 3931 (L2TP, versions 2 and 3); RFC 4380 (Teredo);
RFC 8086 (GRE in UDP).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import CaptureMark, IpProtocol
from parsers._packets.chain import GRE, IPV4, IPV6, RAW_IP, ip_packets, link
from parsers._packets.ip import holds_ethernet, holds_ip
from parsers._packets.layers import members, u16, u32
from parsers._packets.steps import STEPS
from parsers._packets.tunnel import INSIDE, L2TP_3
from parsers._packets.tunnel import NAMES as TUNNEL_NAMES
from parsers._packets.tunnels_seen import SeenTunnel

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers
    from parsers._packets.ip import Datagrams
    from parsers._packets.layers import LayerPackets, PacketCounts

    IpPackets = list[tuple[LayerPackets, int]]
    from collections.abc import Callable, Sequence

    from parsers._packets.layers import Bytes


_ETHERNET, _PPP = link(1), link(9)
_MPLS, _NSH, _BRIDGED = 0x8847, 0x894F, 0x6558
HEADER_BYTES = 8
"""Length of UDP's header."""
_MOST_EXTENSIONS = 8
"""Maximum number of extension headers of GTP-U; TS 29.281 defines six, each of which occurs once."""


class UdpPayloads(NamedTuple):
    """What datagrams carry behind UDP's header; arrays of shape (n,)."""

    data: Bytes
    at: Numbers
    """Where the payload begins."""
    end: Numbers
    """Where its captured part ends."""
    stop: Numbers
    """Where it ended on the wire, by UDP's length; of a fragment that of the whole datagram."""

    def byte(self, place: int) -> Numbers:
        """Return a byte of each payload: int64, shape (n,)."""
        return self.data[self.at + place].astype(np.int64)


class OpenedPayloads(NamedTuple):
    """What of some payloads is in a tunnel; arrays of shape (n,)."""

    good: Mask
    """Which hold a packet that can be read."""
    at: Numbers
    """Where the packet inside begins."""
    kind: Numbers
    """Kind of its first header, see `chain.py`."""
    identifier: Numbers
    """Number of the tunnel; -1 for kinds without one."""
    control: Mask
    """Which are messages of the tunnel's own ends, without a packet inside."""


def _at(p: UdpPayloads, at: Numbers) -> Numbers:
    """Return positions that may be read: none lies behind the captured end."""
    return np.minimum(at, p.end)


def gtpu(p: UdpPayloads) -> OpenedPayloads:
    """Open GTP-U version 1: the optional fields, the chain of extension headers, and IP in a G-PDU."""
    flags, message = p.byte(0), p.byte(1)
    valid = (flags & 0xF8 == 0x30) & (u16(p.data, p.at + 2) == p.stop - p.at - 8) & (p.at + 8 <= p.end)
    identifier = u32(p.data, p.at + 4)
    optional = flags & 0x07 != 0
    at = p.at + np.where(optional, 12, 8)
    following = np.where(flags & 0x04 != 0, p.data[_at(p, p.at + 11)].astype(np.int64), 0)
    for _ in range(_MOST_EXTENSIONS):
        more = valid & (following != 0)
        if not more.any():
            break
        length = p.data[_at(p, at)].astype(np.int64) << 2
        valid &= ~more | (length > 0) & (at + length <= p.end)
        more &= valid
        at = np.where(more, at + length, at)
        following = np.where(more, p.data[_at(p, at - 1)].astype(np.int64), following)
    is_data = message == 0xFF
    good = valid & is_data & (following == 0) & holds_ip(p.data, at, p.end, p.stop, exact=True)
    # Echo, error indication, supported extension headers, tunnel status, end marker (TS 29.281, table 6.1-1)
    control = valid & np.isin(message, (1, 2, 26, 31, 253, 254))
    return OpenedPayloads(good, at, np.full(len(at), RAW_IP), identifier, control)


def vxlan(p: UdpPayloads) -> OpenedPayloads:
    """Open VXLAN, perhaps with a group policy, and its generic protocol extension (GPE)."""
    flags, reserved = p.byte(0), u32(p.data, p.at) & 0xFFFFFF
    plain = (flags == 0x08) & (reserved == 0) | (flags == 0x88) & (reserved & 0xB70000 == 0)
    generic = (flags & 0xFC == 0x0C) & (reserved & 0xFFFF00 == 0)
    inside = np.where(generic, reserved & 0xFF, 3)
    kinds = np.array([-1, IPV4, IPV6, _ETHERNET, _NSH, _MPLS])[np.where(inside <= 5, inside, 0)]
    at = p.at + 8
    valid = (plain | generic) & (p.byte(7) == 0) & (at <= p.end)
    good = valid & _holds(p, at, kinds)
    return OpenedPayloads(good, at, kinds, u32(p.data, p.at + 4) >> 8, np.zeros(len(at), bool))


def geneve(p: UdpPayloads) -> OpenedPayloads:
    """Open Geneve, with options whose lengths add up to that of its header."""
    version_length, kinds = p.byte(0), u16(p.data, p.at + 2)
    at = p.at + 8 + ((version_length & 0x3F) << 2)
    valid = (version_length & 0xC0 == 0) & (p.byte(1) & 0x3F == 0) & (p.byte(7) == 0) & (at <= p.end)
    option = p.at + 8
    for _ in range(63):  # the shortest option has 4 bytes, all of them 252
        more = valid & (option < at)
        if not more.any():
            break
        option = np.where(more, option + 4 + ((p.data[_at(p, option + 3)].astype(np.int64) & 0x1F) << 2), option)
        valid &= option <= at
    good = valid & _holds(p, at, np.where(kinds == _BRIDGED, _ETHERNET, kinds))
    return OpenedPayloads(good, at, kinds, u32(p.data, p.at + 4) >> 8, np.zeros(len(at), bool))


def l2tp(p: UdpPayloads) -> OpenedPayloads:
    """Open L2TP in UDP: PPP in version 2; in version 3 what its session carries."""
    flags = u16(p.data, p.at)
    version = flags & 0x0F
    second, third = _l2tp_2(p, flags), l2tp_3(p._replace(at=np.minimum(p.at + 4, p.end)))
    is_third = (version == 3) & (flags & 0xFFF0 == 0) & (u16(p.data, p.at + 2) == 0)
    is_second = version == 2
    third_control = (version == 3) & (flags & 0xFFF0 == 0xC800) & (u16(p.data, p.at + 2) == p.stop - p.at)
    return OpenedPayloads(
        second.good & is_second | third.good & is_third,
        np.where(is_third, third.at, second.at),
        np.where(is_third, third.kind, second.kind),
        np.where(is_third, third.identifier, second.identifier),
        second.control & is_second | third_control,
    )


def _l2tp_2(p: UdpPayloads, flags: Numbers) -> OpenedPayloads:
    has_length, has_numbers, has_offset = (flags & bit != 0 for bit in (0x4000, 0x0800, 0x0200))
    valid = (flags & 0x34F0 == 0) & (p.at + 6 <= p.end)
    stated = u16(p.data, p.at + 2)
    valid &= ~has_length | (stated == p.stop - p.at)
    at = p.at + 2 + np.where(has_length, 2, 0)
    identifier = u32(p.data, _at(p, at))
    at = at + 4 + np.where(has_numbers, 4, 0)
    at = at + np.where(has_offset, 2 + u16(p.data, _at(p, at)), 0)
    is_control = flags & 0x8000 != 0
    control = valid & is_control & has_length & has_numbers
    framed = u16(p.data, _at(p, at)) == 0xFF03
    ppp = at + np.where(framed, 2, 0)
    number = u16(p.data, _at(p, ppp))
    ip = ppp + np.where(number >> 8 & 1 == 1, 1, 2)
    number = np.where(number >> 8 & 1 == 1, number >> 8, number)
    inside = np.isin(number, (0x21, 0x57)) & holds_ip(p.data, ip, p.end, p.stop)
    # Negotiation of PPP: identified by its protocol and a length that fits (RFC 1661, 5)
    negotiates = np.isin(number, (0xC021, 0xC023, 0xC223, 0x8021, 0x8057, 0x80FD))
    negotiates &= (u16(p.data, _at(p, ip + 2)) >= 4) & (ip + u16(p.data, _at(p, ip + 2)) <= p.stop)
    good = valid & ~is_control & (inside | negotiates) & (ip <= p.end)
    return OpenedPayloads(good, at, np.full(len(at), _PPP), identifier, control)


_L2TP_3_OFFSETS = (4, 8, 12, 16)
"""Behind the session's number: a cookie of 0, 4 or 8 bytes, and a sublayer of 0 or 4; no field tells which."""


def l2tp_3(p: UdpPayloads) -> OpenedPayloads:
    """Open data of L2TP version 3, which begin with the number of the session.

    What is behind, and where, is known to both ends only: the first place is taken at which IP, or Ethernet with IP,
    fits.
    """
    session = u32(p.data, p.at)
    good = np.zeros(len(p.at), bool)
    at, kind = p.at + 4, np.full(len(p.at), RAW_IP)
    for offset in _L2TP_3_OFFSETS:
        here = p.at + offset
        for number, fits in (
            (RAW_IP, holds_ip(p.data, here, p.end, p.stop, exact=True)),
            (_ETHERNET, holds_ethernet(p.data, here, p.end, p.stop)),
            (_PPP, (u32(p.data, _at(p, here)) == 0xFF030021) & holds_ip(p.data, here + 4, p.end, p.stop, exact=True)),
        ):
            new = fits & ~good
            at, kind, good = np.where(new, here, at), np.where(new, number, kind), good | new
    return OpenedPayloads(good & (session != 0), at, kind, session, np.zeros(len(at), bool))


def teredo(p: UdpPayloads) -> OpenedPayloads:
    """Open Teredo: IPv6, perhaps behind an authentication and an origin, with an address of Teredo (2001::/32)."""
    at = p.at
    has_key = u16(p.data, _at(p, at)) == 1
    lengths = p.data[_at(p, at + 2)].astype(np.int64) + p.data[_at(p, at + 3)]
    at = at + np.where(has_key, 13 + lengths, 0)
    at = at + np.where(u16(p.data, _at(p, at)) == 0, 8, 0)
    is_six = p.data[_at(p, at)] >> 4 == 6
    of_teredo = (u32(p.data, _at(p, at + 8)) == 0x20010000) | (u32(p.data, _at(p, at + 24)) == 0x20010000)
    good = is_six & of_teredo & holds_ip(p.data, at, p.end, p.stop, exact=True)
    return OpenedPayloads(good, at, np.full(len(at), IPV6), np.full(len(at), -1), np.zeros(len(at), bool))


def gre(p: UdpPayloads) -> OpenedPayloads:
    """Open GRE in UDP: version 0 with a checksum, a key or a number, and IP or Ethernet behind it."""
    flags, kinds = u16(p.data, p.at), u16(p.data, p.at + 2)
    at = p.at + 4 + sum(np.where(flags & bit != 0, 4, 0) for bit in (0x8000, 0x2000, 0x1000))
    key = u32(p.data, _at(p, p.at + 4 + np.where(flags & 0x8000 != 0, 4, 0)))
    inside = np.where(kinds == _BRIDGED, _ETHERNET, kinds)
    good = (flags & 0x4FFF == 0) & _holds(p, at, inside) & ~np.isin(inside, (_MPLS, _NSH))
    identifier = np.where(flags & 0x2000 != 0, key, -1)
    return OpenedPayloads(good, p.at, np.full(len(at), GRE), identifier, np.zeros(len(at), bool))


def _holds(p: UdpPayloads, at: Numbers, kinds: Numbers) -> Mask:
    """Return which payloads hold a packet of their kind at `at`."""
    is_ip = (kinds == IPV4) | (kinds == IPV6)
    fits = is_ip & holds_ip(p.data, at, p.end, p.stop)
    fits |= (kinds == _ETHERNET) & holds_ethernet(p.data, at, p.end, p.stop)
    return np.asarray(fits | np.isin(kinds, (_MPLS, _NSH)) & (at + 4 <= p.end))


class _Kind(NamedTuple):
    name: str
    ports: Sequence[int]
    opened: Callable[[UdpPayloads], OpenedPayloads]


KINDS = (
    _Kind("GTP-U", (2152,), gtpu),
    _Kind("VXLAN", (4789, 8472, 4790), vxlan),
    _Kind("Geneve", (6081,), geneve),
    _Kind("L2TP", (1701,), l2tp),
    _Kind("Teredo", (3544,), teredo),
    _Kind("GRE in UDP", (4754,), gre),
)
"""Tunnels in UDP by their ports (IANA); 8472 is what Linux used for VXLAN before it had one. `native/core/src/udp.rs`
has the same ports: it leaves such datagrams to Python."""
PORTS = np.zeros(1 << 16, np.uint8)
"""Number of the kind in `KINDS`, from 1 on, by port; 0 for all other ports."""
for _number, _kind in enumerate(KINDS):
    PORTS[list(_kind.ports)] = _number + 1


_TCP, _UDP, _GRE = IpProtocol.TCP.value, IpProtocol.UDP.value, IpProtocol.GRE.value
_ERSPANS = (0x88BE, 0x22EB)
IS_TUNNEL = members((*INSIDE, _UDP, L2TP_3))
"""Whether datagrams of an IP protocol may hold a tunnel: bool, shape (256,)."""


def opened(datagrams: Datagrams, ledger: PacketCounts) -> tuple[Datagrams, IpPackets]:
    """Return the datagrams that are not tunnels, and the IP packets in the tunnels with their versions.

    Messages of the tunnels themselves are counted in `ledger`, and so is each tunnel.
    """
    if (datagrams.protocol == _TCP).all():
        return datagrams, []
    possible = IS_TUNNEL[datagrams.protocol]
    if not possible.any():
        return datagrams, []
    protocols = np.unique(datagrams.protocol[possible]).tolist()
    taken = np.zeros(len(datagrams), np.bool_)
    inner: IpPackets = []
    for protocol in protocols:
        here = datagrams.protocol == protocol
        if protocol == _UDP:
            inner += _in_udp(datagrams, here, taken, ledger)
        elif protocol == L2TP_3:
            inner += _in_l2tp_3(datagrams, here, taken, ledger)
        else:
            taken |= here
            inner += _in_ip(datagrams.keep(here), protocol, ledger)
    return datagrams.keep(~taken), inner


def _in_ip(datagrams: Datagrams, protocol: int, ledger: PacketCounts) -> IpPackets:
    """Return the IP packets in tunnels that follow IP's header directly."""
    packets = _marked(datagrams)
    name, erspan = TUNNEL_NAMES[protocol], np.zeros(len(packets), bool)
    if protocol == _GRE:
        erspan = (packets.at + 4 <= packets.end) & np.isin(u16(packets.data, packets.at + 2), _ERSPANS)
    for which, named in ((~erspan, name), (erspan, "ERSPAN")):
        if which.any():
            _note(datagrams.keep(which), named, None, ledger)
    return ip_packets(packets, INSIDE[protocol], STEPS, ledger)


def _in_udp(datagrams: Datagrams, here: Mask, taken: Mask, ledger: PacketCounts) -> IpPackets:
    """Return the IP packets in tunnels in UDP, and add to `taken` the datagrams of which nothing else is to be told."""
    packets = datagrams.packets
    inner: IpPackets = []
    which = np.flatnonzero(here & (packets.at + HEADER_BYTES <= packets.end))
    at = packets.at[which]
    ports = PORTS[u16(packets.data, at + 2)]
    ports = np.where(ports == 0, PORTS[u16(packets.data, at)], ports)
    for number in np.unique(ports[ports > 0]).tolist():
        kind, places = KINDS[number - 1], which[ports == number]
        inner += _of_kind(datagrams, places, kind.name, kind.opened(_payloads(datagrams, places)), taken, ledger)
    return inner


def _payloads(datagrams: Datagrams, places: Numbers) -> UdpPayloads:
    packets = datagrams.packets.pick(places)
    length = u16(packets.data, packets.at + 4)
    stop = np.where(length == 0, packets.stop, packets.at + length)
    at = packets.at + HEADER_BYTES
    return UdpPayloads(packets.data, at, np.minimum(packets.end, np.maximum(stop, at)), stop)


def _in_l2tp_3(datagrams: Datagrams, here: Mask, taken: Mask, ledger: PacketCounts) -> IpPackets:
    """Return the IP packets in L2TP version 3 directly in IP (RFC 3931, 4.1.1)."""
    packets = datagrams.packets
    places = np.flatnonzero(here & (packets.at + 4 <= packets.end))
    part = packets.pick(places)
    result = l2tp_3(UdpPayloads(part.data, part.at, part.end, part.stop))
    control = (u16(part.data, part.at) == 0) & (u16(part.data, part.at + 2) == 0)
    return _of_kind(datagrams, places, "L2TP", result._replace(control=control), taken, ledger)


def _of_kind(
    datagrams: Datagrams, places: Numbers, name: str, result: OpenedPayloads, taken: Mask, ledger: PacketCounts
) -> IpPackets:
    """Return the IP packets that tunnels of one kind hold at some places of `datagrams`, and take these out."""
    ledger.count_protocol(f"{name.lower()} signalling", int(np.count_nonzero(result.control)))
    taken[places[result.control]] = True
    good = places[result.good]
    if not len(good):
        return []
    taken[good] = True
    outer = datagrams.keep_at(good)
    identifier = result.identifier[result.good]
    _note(outer, name, identifier if (identifier >= 0).any() else None, ledger)
    packets = _marked(outer).advanced(result.at[result.good] - outer.packets.at)
    kinds = result.kind[result.good]
    inner: IpPackets = []
    for kind in np.unique(kinds).tolist():
        inner += ip_packets(packets.keep(kinds == kind), kind, STEPS, ledger)
    return inner


def _marked(outer: Datagrams) -> LayerPackets:
    """Return a copy of the packets of a tunnel with the marks that what is inside them gets."""
    packets = outer.packets.advanced(0)  # a copy, whose marks may be replaced
    fragment = outer.more_fragments.astype(np.uint16) * np.uint16(CaptureMark.FRAGMENT)
    packets.marks = packets.marks | np.uint16(CaptureMark.TUNNELLED) | fragment
    return packets


def _note(outer: Datagrams, name: str, identifier: Numbers | None, ledger: PacketCounts) -> None:
    ledger.tunnels.append(SeenTunnel(name, outer.packets.record, outer.source, outer.destination, identifier))
