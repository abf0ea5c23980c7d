"""Opens tunnels: from the datagrams that carry them to the IP packets inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import CaptureMark, IpProtocol
from parsers._packets.chain import ip_packets
from parsers._packets.layers import members, u16
from parsers._packets.steps import STEPS
from parsers._packets.tunnel import INSIDE, L2TP_3
from parsers._packets.tunnel import NAMES as TUNNEL_NAMES
from parsers._packets.tunnels_seen import SeenTunnel
from parsers._packets.udp_tunnel import HEADER_BYTES, KINDS, PORTS, UdpPayloads, l2tp_3

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers
    from parsers._packets.ip import Datagrams
    from parsers._packets.layers import LayerPackets, PacketCounts
    from parsers._packets.udp_tunnel import OpenedPayloads

    IpPackets = list[tuple[LayerPackets, int]]

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
