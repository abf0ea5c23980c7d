"""The few fields of an IPv4 packet that the link's log names; the packet is not checked."""

from __future__ import annotations

import struct
from typing import NamedTuple

from multitracer.capture import IpProtocol

_TCP = IpProtocol.TCP.value


class IpFacts(NamedTuple):
    """The fields of a packet that a link reads; None where the packet is too short or of another kind."""

    ip_id: int | None = None
    flow: bytes = b""
    """Addresses and ports, as they stand in the packet."""
    seq: int | None = None
    """TCP sequence number."""
    payload_bytes: int = 0
    """TCP payload."""


def ip_facts(packet: bytes) -> IpFacts:
    """Return the facts of any bytes; never raises."""
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return IpFacts()
    ip_id = int.from_bytes(packet[4:6], "big")
    header = (packet[0] & 0x0F) * 4
    if packet[9] != _TCP or len(packet) < header + 20:
        return IpFacts(ip_id)
    (seq,) = struct.unpack_from("!I", packet, header + 4)
    flow = packet[12:20] + packet[header : header + 4]
    return IpFacts(ip_id, flow, seq, len(packet) - header - (packet[header + 12] >> 4) * 4)
