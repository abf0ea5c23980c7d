"""The few fields of an IPv4 packet that the link's log names; the packet is not checked."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from multitracer.captured import IpProtocol
from multitracer.lab.channel.shared.named import named

_TCP = IpProtocol.TCP.value
_IP, _TCP_HEADER = struct.Struct("!B3xH3xB2x8s"), struct.Struct("!4sI4xB")
"""First octet, identification, protocol and both addresses; ports, sequence number and data offset."""


class IpFacts(NamedTuple):
    """The fields of a packet that a link reads; None where the packet is too short or of another kind."""

    ip_id: int | None = None
    flow: bytes = b""
    """Addresses and ports, as they stand in the packet."""
    seq: int | None = None
    """TCP sequence number."""
    payload_bytes: int = 0
    """TCP payload."""


@lru_cache(maxsize=256)  # of the packets on a link, each of which is asked two or three times
def ip_facts(packet: bytes) -> IpFacts:
    """Return the facts of any bytes; never raises."""
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return IpFacts()
    first, ip_id, protocol, addresses = _IP.unpack_from(packet)
    header = (first & 0x0F) * 4
    if protocol != _TCP or len(packet) < header + 20:
        return IpFacts(ip_id)
    ports, seq, offset = _TCP_HEADER.unpack_from(packet, header)
    return named(IpFacts, (ip_id, addresses + ports, seq, len(packet) - header - (offset >> 4) * 4))
