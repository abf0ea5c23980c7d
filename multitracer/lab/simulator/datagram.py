"""UDP datagrams in IPv4 packets, to bytes and back (RFC 768, RFC 791): a link carries real headers."""

from __future__ import annotations

import struct
from typing import NamedTuple

from multitracer.errors import RemoteProtocolError
from multitracer.lab.tcp.packet import IP_HEADER_BYTES, internet_checksum

_UDP_HEADER_BYTES = 8
_UDP_PROTOCOL = 17
_TTL = 64
_IP = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")


class Datagram(NamedTuple):
    """One UDP datagram; addresses are 4 bytes."""

    source: bytes
    source_port: int
    destination: bytes
    destination_port: int
    payload: bytes


def is_udp(data: bytes) -> bool:
    """Return whether a packet says that it is UDP over IPv4."""
    return len(data) >= IP_HEADER_BYTES and data[0] == 0x45 and data[9] == _UDP_PROTOCOL


def build_datagram(datagram: Datagram, *, identification: int) -> bytes:
    """Return the IPv4 packet of a datagram, lengths and both checksums filled in."""
    source, source_port, destination, destination_port, payload = datagram
    length = _UDP_HEADER_BYTES + len(payload)
    udp = _UDP.pack(source_port, destination_port, length, 0) + payload
    checksum = _udp_checksum(source, destination, udp) or 0xFFFF
    udp = udp[:6] + checksum.to_bytes(2, "big") + payload
    rest = (identification & 0xFFFF, 0, _TTL, _UDP_PROTOCOL)
    header = _IP.pack(0x45, 0, IP_HEADER_BYTES + length, *rest, 0, source, destination)
    return header[:10] + internet_checksum(header).to_bytes(2, "big") + header[12:] + udp


def parse_datagram(data: bytes) -> Datagram:
    """Return the datagram of an IPv4 packet.

    Raises
    ------
    RemoteProtocolError
        If it holds no whole datagram with correct checksums.
    """
    if len(data) < IP_HEADER_BYTES + _UDP_HEADER_BYTES or not is_udp(data):
        raise RemoteProtocolError("packet: no UDP over IPv4 without options")
    udp = data[IP_HEADER_BYTES : int.from_bytes(data[2:4], "big")]
    source, destination = data[12:16], data[16:20]
    if internet_checksum(data[:IP_HEADER_BYTES]) or len(udp) < _UDP_HEADER_BYTES:
        raise RemoteProtocolError("packet: wrong header checksum or length")
    source_port, destination_port, length, _ = _UDP.unpack_from(udp)
    if length != len(udp) or _udp_checksum(source, destination, udp):
        raise RemoteProtocolError("datagram: wrong length or checksum")
    return Datagram(source, source_port, destination, destination_port, udp[_UDP_HEADER_BYTES:])


def _udp_checksum(source: bytes, destination: bytes, udp: bytes) -> int:
    return internet_checksum(source + destination + struct.pack("!BBH", 0, _UDP_PROTOCOL, len(udp)) + udp)
