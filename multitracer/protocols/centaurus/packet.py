"""Level I's header, the same on every medium, and the HMAC after the message (our own definition).

The checksum detects damaged packets, the session number late ones; the sender's time stamp is for clock
comparison. On a serial line the checksum also covers the station number, so that a frame whose address was
changed by noise is dropped.
"""

from __future__ import annotations

import hmac
import re
import struct
import zlib
from typing import NamedTuple

from multitracer.protocols.centaurus.messages import MAX_SEGMENT_BYTES, PK_OVERHEAD

VERSION = 1  # of the wire format in docs/centauruscomm.md
_FROM_INITIATOR, _SEALED = 1, 2  # docs/centauruscomm.md: bits of the first octet
_FLAGS = _FROM_INITIATOR | _SEALED
_HEADER = struct.Struct("!BIQI")
_UNSUMMED = struct.Struct("!BIQ")
HEADER_BYTES = _HEADER.size
TAG_BYTES = 16  # HMAC-SHA-256 cut to 128 bits (RFC 2104, section 5: at least half)


class CentaurusPacket(NamedTuple):
    """A packet of Level I: the fields of its header and one message of Level II as octets."""

    session: int
    clock_ns: int
    """Time of the sender's clock when the packet was made, in ns."""
    from_initiator: bool
    """Whether the initiator of the session sent it."""
    body: bytes


class Refusal(NamedTuple):
    """Reason why octets are not a packet: malformed, checksum, or authentication."""

    cause: str


def overhead_bytes(key: bytes | None) -> int:
    """Return the number of octets of a packet in addition to its message; a `key` adds the HMAC."""
    return HEADER_BYTES + (TAG_BYTES if key else 0)


def seal(packet: CentaurusPacket, *, key: bytes | None = None, station: bytes = b"") -> bytes:
    """Return a packet as octets, with checksum, and with an HMAC if there is a `key`.

    On a serial line `station` is the station octet, which the checksum also covers.
    """
    flags = (_FROM_INITIATOR if packet.from_initiator else 0) | (_SEALED if key else 0)
    head = _UNSUMMED.pack(VERSION << 4 | flags, packet.session, packet.clock_ns)
    body = packet.body + (_tag(key, station + head + packet.body) if key else b"")
    checksum = zlib.crc32(station + head + body)
    return head + checksum.to_bytes(4, "big") + body


def unseal(octets: bytes, *, key: bytes | None = None, station: bytes = b"") -> CentaurusPacket | Refusal:
    """Return the packet in these octets, or the reason why they are not a packet."""
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
    return CentaurusPacket(session, clock_ns, bool(mark & _FROM_INITIATOR), body)


def _tag(key: bytes, octets: bytes) -> bytes:
    return hmac.digest(key, octets, "sha256")[:TAG_BYTES]


# Frames on a serial line: byte stuffing as in HDLC-like framing (RFC 1662, 4.2), one station octet in front.
#
#     7e  station  packet …  7e        7e and 7d inside are sent as 7d and the octet exclusive-or 20
#
# The packet's own checksum covers the station octet, so a frame needs none. A flag opens and closes; two in a
# row are nothing. Noise costs the frame that it hits, and what is gathered is bounded.


_FLAG, _ESCAPE, _XOR = b"\x7e", b"\x7d", 0x20  # as in PPP: RFC 1662, 4.2
_SPECIAL = re.compile(rb"[\x7d\x7e]")
_ESCAPED = re.compile(rb"\x7d(.)", re.DOTALL)
MAX_FRAME_BYTES = 1 + HEADER_BYTES + PK_OVERHEAD + MAX_SEGMENT_BYTES + TAG_BYTES
"""Maximum length of a frame: station, header, and the longest message with its tag."""


class CentaurusFrame(NamedTuple):
    """The station number and the packet of a frame on a serial line."""

    station: int
    packet: bytes


def frame(station: int, packet: bytes) -> bytes:
    r"""Return a packet as a frame for the line, with flags and escape octets.

    Examples
    --------
    >>> frame(3, b"\x01\x7e\x7d").hex()
    '7e03017d5e7d5d7e'
    """
    inside = bytes((station,)) + packet
    return _FLAG + _SPECIAL.sub(lambda match: _ESCAPE + bytes((match[0][0] ^ _XOR,)), inside) + _FLAG


class CentaurusFrameReader:
    r"""Finds frames in the octets of a line, which arrive in chunks of any size.

    Examples
    --------
    >>> reader = CentaurusFrameReader()
    >>> reader.feed(b"noise\x7e\x03\x01\x7d")
    [CentaurusFrame(station=110, packet=b'oise')]
    >>> reader.feed(b"\x5e\x7e")
    [CentaurusFrame(station=3, packet=b'\x01~')]
    """

    def __init__(self) -> None:
        self._gathered = bytearray()
        self._overlong = False
        self.discarded = 0
        """Number of frames that were too long or incomplete."""

    def feed(self, octets: bytes) -> list[CentaurusFrame]:
        """Return the frames that these octets complete.

        Noise can also look like a frame; its checksum is then wrong.
        """
        *closed, rest = octets.split(_FLAG)
        frames = [frame for part in closed if (frame := self._close(part)) is not None]
        self._gather(rest)
        return frames

    def _gather(self, part: bytes) -> None:
        self._overlong |= len(self._gathered) + len(part) > 2 * MAX_FRAME_BYTES
        self._gathered += b"" if self._overlong else part

    def _close(self, part: bytes) -> CentaurusFrame | None:
        self._gather(part)
        inside, overlong = bytes(self._gathered), self._overlong
        self._gathered.clear()
        self._overlong = False
        if not inside and not overlong:
            return None
        plain = _ESCAPED.sub(lambda match: bytes((match[1][0] ^ _XOR,)), inside)
        if overlong or inside.endswith(_ESCAPE) or len(plain) > MAX_FRAME_BYTES:
            self.discarded += 1
            return None
        return CentaurusFrame(plain[0], plain[1:])
