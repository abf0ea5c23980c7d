"""One packet without addresses and payload: headers to the end of TCP or UDP, checksums as right as before.

A checksum is brought up to date for the new addresses (RFC 1624), so that one that was wrong stays wrong. Of
everything else than TCP and UDP only the IP header stays, of a tunnel the outer one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.captured import IpProtocol
from multitracer.recorder.clapperboard import MAGIC

if TYPE_CHECKING:
    from multitracer.anonymize.pseudonyms import Pseudonyms

_CHECKSUM: dict[int, int] = {IpProtocol.TCP: 16, IpProtocol.UDP: 6}
"""Where a transport header has its checksum."""
_UDP_BYTES = 8
_IPV6_BYTES = 40
_LONGEST_CLAP = 64
_EXTENSIONS = frozenset({0, 43, 60})
"""Hop-by-hop, routing and destination options: what follows them is still the transport header."""


def anonymous(packet: bytes, pseudonyms: Pseudonyms) -> bytes | None:
    """Return an IP packet without what identifies anyone, cut behind its last header.

    Returns
    -------
    bytes or None
        None if not even its IP header was captured.
    """
    version = packet[0] >> 4 if packet else 0
    if version == 4:
        return _ipv4(packet, pseudonyms)
    return _ipv6(packet, pseudonyms) if version == 6 else None


def _ipv4(packet: bytes, pseudonyms: Pseudonyms) -> bytes | None:
    header = (packet[0] & 0x0F) * 4
    if header < 20 or len(packet) < header:
        return None
    before, after = packet[12:20], pseudonyms.ip(packet[12:16]) + pseudonyms.ip(packet[16:20])
    made = bytearray(packet)
    made[12:20] = after
    made[20:header] = bytes([1]) * (header - 20)  # IP options may hold addresses; 1 is "no operation"
    _update(made, 10, packet[12:header], bytes(made[12:header]))
    is_later_fragment = int.from_bytes(packet[6:8]) & 0x1FFF != 0
    end = header if is_later_fragment else _transport(made, header, packet[9], before, after)
    return bytes(made[:end])


def _ipv6(packet: bytes, pseudonyms: Pseudonyms) -> bytes | None:
    if len(packet) < _IPV6_BYTES:
        return None
    before, after = packet[8:40], pseudonyms.ip(packet[8:24]) + pseudonyms.ip(packet[24:40])
    made = bytearray(packet)
    made[8:40] = after
    if packet[6] in _EXTENSIONS:  # they may hold addresses
        return bytes(made[:_IPV6_BYTES])
    return bytes(made[: _transport(made, _IPV6_BYTES, packet[6], before, after)])


def _transport(made: bytearray, at: int, protocol: int, before: bytes, after: bytes) -> int:
    """Bring the checksum of the header at `at` up to date; return where the copy ends."""
    checksum = _CHECKSUM.get(protocol)
    if checksum is None:
        return at
    place = at + checksum
    is_absent = protocol == IpProtocol.UDP and made[place : place + 2] == b"\0\0"
    if place + 2 <= len(made) and not is_absent:
        _update(made, place, before, after)
    if protocol == IpProtocol.UDP:
        payload = bytes(made[at + _UDP_BYTES : at + _UDP_BYTES + _LONGEST_CLAP])
        is_clap = payload.startswith(MAGIC)
        return min(len(made), at + _UDP_BYTES + (len(payload) if is_clap else 0))
    length = (made[at + 12] >> 4) * 4 if len(made) > at + 12 else 0
    return min(len(made), at + max(length, 20))


def _update(made: bytearray, place: int, before: bytes, after: bytes) -> None:
    """Bring a checksum up to date: HC' = ~(~HC + ~m + m') (RFC 1624, equation 3)."""
    total = ~int.from_bytes(made[place : place + 2]) & 0xFFFF
    for old, new in zip(_words(before), _words(after), strict=True):
        total += (~old & 0xFFFF) + new
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    made[place : place + 2] = (~total & 0xFFFF).to_bytes(2)


def _words(data: bytes) -> list[int]:
    return [int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)]
