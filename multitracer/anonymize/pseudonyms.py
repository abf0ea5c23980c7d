"""Maps identifiers to pseudonyms; an address has the same pseudonym in all logs of a session.

IP addresses keep their common prefixes (Xu, Fan, Ammar, Moon: "Prefix-Preserving IP Address Anonymization",
ICNP 2002), with HMAC-SHA-256 in place of the paper's block cipher. The key is random and never stored.

An anonymous packet has pseudonymous addresses and ends after the TCP or UDP header. Its checksums are updated
for the new addresses (RFC 1624), so that a wrong checksum stays wrong. A packet with another protocol has
only the IP header, a tunnelled packet only the outer one.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import re
import secrets
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from multitracer.captured import IpProtocol
from multitracer.recorder.supervisor import MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable

_IPV4 = r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
_MAC = r"(?<![\w:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?![\w:])"
_IPV6 = r"(?<![\w:.])(?=[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*:)[0-9A-Fa-f:]*(?:\d{1,3}(?:\.\d{1,3}){3})?(?![\w:]|\.\d)"
_PTP_CLOCK = r"(?<![\w.])[0-9A-Fa-f]{6}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{6}(?![\w.])"
"""Pattern of an EUI-64 that contains a MAC address, in the format of linuxptp: 3a7f98.fffe.8138a6."""
_ADDRESS = re.compile(f"{_MAC}|{_PTP_CLOCK}|{_IPV6}|{_IPV4}")
_IDENTITY = re.compile(r"(?<!\d)\d{14,20}(?!\d)")
"""Pattern of IMEI, IMSI, ICCID and MEID: 14 to 20 digits (TS 23.003; ITU-T E.118)."""
_KEY_BYTES = 32
_PHYSICAL_CELLS = 1008  # TS 38.211, 7.4.2.1; LTE has 504, UMTS 512 scrambling codes


class Pseudonyms:
    """The mapping of one session.

    Parameters
    ----------
    key : bytes, optional
        Key of the mapping; by default a random one, so that two copies of one session differ.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(_KEY_BYTES)
        self.ip: Callable[[bytes], bytes] = functools.lru_cache(maxsize=1 << 16)(self._ip)
        """Maps an IPv4 or IPv6 address (4 or 16 bytes); loopback, multicast and unspecified addresses do not change."""
        self.hardware: Callable[[bytes], bytes] = functools.lru_cache(maxsize=1 << 16)(self._hardware)
        """Maps a link-layer address of any length; broadcast and multicast addresses do not change."""

    def _hash(self, what: bytes, data: bytes) -> bytes:
        return hmac.digest(self._key, what + b"\0" + data, hashlib.sha256)

    def _ip(self, address: bytes) -> bytes:
        known = ip_address(address)
        mapped = known.ipv4_mapped if isinstance(known, IPv6Address) else None
        if mapped is not None:
            return address[:12] + self.ip(mapped.packed)
        if known.is_loopback or known.is_multicast or known.is_unspecified or set(address) == {0xFF}:
            return address
        bits = len(address) * 8
        number, result = int.from_bytes(address), 0
        for bit in range(bits):
            prefix = number >> (bits - bit)
            flip = self._hash(b"ip%d" % bit, prefix.to_bytes(16))[0] & 1
            result = result << 1 | ((number >> (bits - 1 - bit) & 1) ^ flip)
        return result.to_bytes(len(address))

    def _hardware(self, address: bytes) -> bytes:
        if not address or not any(address) or address[0] & 1:
            return address
        return bytes([0x02]) + self._hash(b"hardware", address)[: len(address) - 1]

    def digits(self, text: str) -> str:
        """Return a pseudonym with as many digits as `text`."""
        number = int.from_bytes(self._hash(b"digits", text.encode()))
        return str(number)[-len(text) :].rjust(len(text), "0")

    def name(self, text: str, *, kind: str) -> str:
        """Return the pseudonym of a name, such as `host-4f1c` for `kind` "host"."""
        return f"{kind}-{self._hash(kind.encode(), text.encode()).hex()[:4]}"

    def cell(self, number: int) -> int:
        """Return the pseudonym of a cell or area identity: a number of 28 bits."""
        return int.from_bytes(self._hash(b"cell", str(number).encode())[:4]) >> 4

    def of_cell(self, column: str, number: int) -> int:
        """Return the pseudonym of a value in a cell column of RADIO, within the valid range of the column."""
        if column == "physical_cell_id":
            return self.physical_cell(number)
        return self.cell(number) >> 4 if column == "area_code" else self.cell(number)

    def physical_cell(self, number: int) -> int:
        """Return the pseudonym of a physical cell identity.

        For a value outside the standard range, that of `cell`.
        """
        return self._physical_cells[number] if 0 <= number < _PHYSICAL_CELLS else self.cell(number)

    @functools.cached_property
    def _physical_cells(self) -> list[int]:
        """A random permutation of all physical cell identities, so that different cells remain different."""
        return sorted(range(_PHYSICAL_CELLS), key=lambda n: self._hash(b"physical cell", str(n).encode()))

    def in_addresses(self, text: str) -> str:
        """Return the text with all addresses replaced by pseudonyms."""
        return _ADDRESS.sub(lambda match: self._address_text(match[0]), text)

    def in_words(self, text: str) -> str:
        """Return the text with all addresses and all long numbers replaced by pseudonyms."""
        return _IDENTITY.sub(lambda match: self.digits(match[0]), self.in_addresses(text))

    def _address_text(self, text: str) -> str:
        try:
            mapped = ip_address(self.ip(ip_address(text).packed))
        except ValueError:
            pass
        else:
            inner = getattr(mapped, "ipv4_mapped", None)
            return f"::ffff:{inner}" if inner is not None else str(mapped)
        if ":" not in text and text.count(".") == 2:
            octets = self.hardware(bytes.fromhex(text.replace(".", ""))).hex()
            return f"{octets[:6]}.{octets[6:10]}.{octets[10:]}"
        if text.count(":") == 5 and "::" not in text:
            return self.hardware(bytes.fromhex(text.replace(":", ""))).hex(":")
        return text  # digits and colons that are no address: a time of day


_CHECKSUM: dict[int, int] = {IpProtocol.TCP: 16, IpProtocol.UDP: 6}
"""Offset of the checksum in the transport header, by IP protocol number."""
_UDP_BYTES = 8
_IPV6_BYTES = 40
_LONGEST_SYNC_PROBE = 64
_EXTENSIONS = frozenset({0, 43, 60})
"""IPv6 extension headers before the transport header: hop-by-hop, routing and destination options."""


def anonymous(packet: bytes, pseudonyms: Pseudonyms) -> bytes | None:
    """Return an IP packet with pseudonymous addresses, cut after its last header.

    Returns
    -------
    bytes or None
        The packet; None if its IP header was not captured completely.
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
    """Update the checksum of the transport header at offset `at`; return the end of the anonymous packet."""
    checksum = _CHECKSUM.get(protocol)
    if checksum is None:
        return at
    place = at + checksum
    is_absent = protocol == IpProtocol.UDP and made[place : place + 2] == b"\0\0"
    if place + 2 <= len(made) and not is_absent:
        _update(made, place, before, after)
    if protocol == IpProtocol.UDP:
        payload = bytes(made[at + _UDP_BYTES : at + _UDP_BYTES + _LONGEST_SYNC_PROBE])
        is_sync_probe = payload.startswith(MAGIC)
        return min(len(made), at + _UDP_BYTES + (len(payload) if is_sync_probe else 0))
    length = (made[at + 12] >> 4) * 4 if len(made) > at + 12 else 0
    return min(len(made), at + max(length, 20))


def _update(made: bytearray, place: int, before: bytes, after: bytes) -> None:
    """Update a checksum in place: HC' = ~(~HC + ~m + m') (RFC 1624, equation 3)."""
    total = ~int.from_bytes(made[place : place + 2]) & 0xFFFF
    for old, new in zip(_words(before), _words(after), strict=True):
        total += (~old & 0xFFFF) + new
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    made[place : place + 2] = (~total & 0xFFFF).to_bytes(2)


def _words(data: bytes) -> list[int]:
    return [int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)]
