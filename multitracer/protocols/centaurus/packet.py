"""Level I's header, the same on every medium, and the HMAC after the message (our own definition).

A checksum tells a damaged packet, the session number a late one, and the sender's clock compares clocks.
On a serial line the station number counts as if it stood before the packet: a frame that noise readdressed
does not pass.
"""

from __future__ import annotations

import hmac
import struct
import zlib
from typing import NamedTuple

VERSION = 1  # of the wire format in docs/centauruscomm.md
_FROM_INITIATOR, _SEALED = 1, 2  # docs/centauruscomm.md: bits of the first octet
_FLAGS = _FROM_INITIATOR | _SEALED
_HEADER = struct.Struct("!BIQI")
_UNSUMMED = struct.Struct("!BIQ")
HEADER_BYTES = _HEADER.size
TAG_BYTES = 16  # HMAC-SHA-256 cut to 128 bits (RFC 2104, section 5: at least half)


class Packet(NamedTuple):
    """A packet of Level I: the fields of its header and one message of Level II as octets."""

    session: int
    clock_ns: int
    """The sender's clock when the packet was made."""
    from_initiator: bool
    """Whether the end that established the session sent it."""
    body: bytes


class Refusal(NamedTuple):
    """Why octets are not a packet: malformed, checksum, or authentication."""

    cause: str


def overhead_bytes(key: bytes | None) -> int:
    """Return how many octets a packet adds to a message."""
    return HEADER_BYTES + (TAG_BYTES if key else 0)


def seal(packet: Packet, *, key: bytes | None = None, station: bytes = b"") -> bytes:
    """Return a packet as octets."""
    flags = (_FROM_INITIATOR if packet.from_initiator else 0) | (_SEALED if key else 0)
    head = _UNSUMMED.pack(VERSION << 4 | flags, packet.session, packet.clock_ns)
    body = packet.body + (_tag(key, station + head + packet.body) if key else b"")
    checksum = zlib.crc32(station + head + body)
    return head + checksum.to_bytes(4, "big") + body


def unseal(octets: bytes, *, key: bytes | None = None, station: bytes = b"") -> Packet | Refusal:
    """Return the packet in these octets, or why they are not a packet."""
    if len(octets) < HEADER_BYTES or octets[0] & ~_FLAGS != VERSION << 4:
        return Refusal("malformed")
    mark, session, clock_ns, checksum = _HEADER.unpack_from(octets)
    head, body = octets[: _UNSUMMED.size], octets[HEADER_BYTES:]
    if zlib.crc32(station + head + body) != checksum:
        return Refusal("checksum")
    if bool(mark & _SEALED) is not bool(key):
        return Refusal("authentication")
    if key:
        body, tag = body[:-TAG_BYTES], body[-TAG_BYTES:]
        if not hmac.compare_digest(tag, _tag(key, station + head + body)):
            return Refusal("authentication")
    return Packet(session, clock_ns, bool(mark & _FROM_INITIATOR), body)


def _tag(key: bytes, octets: bytes) -> bytes:
    return hmac.digest(key, octets, "sha256")[:TAG_BYTES]
