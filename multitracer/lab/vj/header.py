"""The fields of a TCP/IP header that compression uses, and the change mask (RFC 1144, section 3.2)."""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple

from multitracer.captured import Flag, IpProtocol

PUSHED_OR_URGENT = int(Flag.PSH | Flag.URG)
IP_OCTETS = 20  # RFC 791, 3.1, without options
TCP_OCTETS = 20  # RFC 9293, 3.1, without options
SLOTS = 16
"""MAX_STATES of the reference implementation."""
MOST_SLOTS = 256  # RFC 1144: the connection number has 8 bits


class Change(IntFlag):
    """The change mask, first octet of a compressed packet."""

    NONE = 0x00
    U = 0x01
    """Urgent pointer follows, URG is set."""
    W = 0x02
    """Window changed."""
    A = 0x04
    """Acknowledgment advanced."""
    S = 0x08
    """Sequence number advanced."""
    P = 0x10
    """PSH is set."""
    I = 0x20  # noqa: E741 - the letter that the RFC gives the bit
    """IP identification changed by other than 1."""
    C = 0x40
    """Connection number (slot id) follows."""


DELTAS = Change.S | Change.A | Change.W | Change.U
SPECIAL_I = Change.S | Change.W | Change.U
"""Echoed interactive traffic: sequence number and acknowledgment advance by the previous data."""
SPECIAL_D = DELTAS
"""One-way transfer: the sequence number advances by the previous data."""


class Fields(NamedTuple):
    """The fields of one packet that change from one packet to the next."""

    header_octets: int
    """IP and TCP header, options included."""
    data_octets: int
    ip_id: int
    seq: int
    ack: int
    flags: int
    window: int
    checksum: bytes
    urgent: int


def header_octets(packet: bytes) -> int | None:
    """Return the length of the TCP/IP header; None if the packet is not a complete IPv4 packet with TCP."""
    if len(packet) < IP_OCTETS + TCP_OCTETS or packet[0] >> 4 != 4 or packet[9] != IpProtocol.TCP:
        return None
    ip = (packet[0] & 0x0F) * 4
    if ip < IP_OCTETS or len(packet) < ip + TCP_OCTETS:
        return None
    tcp = (packet[ip + 12] >> 4) * 4
    fits = tcp >= TCP_OCTETS and ip + tcp <= len(packet) == int.from_bytes(packet[2:4])
    return ip + tcp if fits else None


def read_fields(packet: bytes, header: int) -> Fields:
    """Return the changing fields of a packet whose TCP/IP header has `header` octets."""
    tcp = (packet[0] & 0x0F) * 4
    return Fields(
        header_octets=header,
        data_octets=int.from_bytes(packet[2:4]) - header,
        ip_id=int.from_bytes(packet[4:6]),
        seq=int.from_bytes(packet[tcp + 4 : tcp + 8]),
        ack=int.from_bytes(packet[tcp + 8 : tcp + 12]),
        flags=packet[tcp + 13],
        window=int.from_bytes(packet[tcp + 14 : tcp + 16]),
        checksum=bytes(packet[tcp + 16 : tcp + 18]),
        urgent=int.from_bytes(packet[tcp + 18 : tcp + 20]),
    )
