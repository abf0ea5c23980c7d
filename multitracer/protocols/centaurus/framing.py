"""Frames on a serial line: byte stuffing as in HDLC-like framing (RFC 1662, 4.2), one station octet in front.

    7e  station  packet …  7e        7e and 7d inside are sent as 7d and the octet exclusive-or 20

The packet's own checksum covers the station octet, so a frame needs none. A flag opens and closes; two in a
row are nothing. Noise costs the frame that it hits, and what is gathered is bounded.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from multitracer.protocols.centaurus.config import MAX_SEGMENT_BYTES
from multitracer.protocols.centaurus.messages import PK_OVERHEAD
from multitracer.protocols.centaurus.packet import HEADER_BYTES, TAG_BYTES

_FLAG, _ESCAPE, _XOR = b"\x7e", b"\x7d", 0x20  # as in PPP: RFC 1662, 4.2
_SPECIAL = re.compile(rb"[\x7d\x7e]")
_ESCAPED = re.compile(rb"\x7d(.)", re.DOTALL)
MAX_FRAME_BYTES = 1 + HEADER_BYTES + PK_OVERHEAD + MAX_SEGMENT_BYTES + TAG_BYTES
"""Station, header and the longest body with its tag."""


class Frame(NamedTuple):
    """The content between two flags."""

    station: int
    packet: bytes


def frame(station: int, packet: bytes) -> bytes:
    r"""Return a frame as octets for the line.

    Examples
    --------
    >>> frame(3, b"\x01\x7e\x7d").hex()
    '7e03017d5e7d5d7e'
    """
    inside = bytes((station,)) + packet
    return _FLAG + _SPECIAL.sub(lambda match: _ESCAPE + bytes((match[0][0] ^ _XOR,)), inside) + _FLAG


class FrameReader:
    r"""Finds frames in the octets of a line, which arrive in pieces of any size.

    Examples
    --------
    >>> reader = FrameReader()
    >>> reader.feed(b"noise\x7e\x03\x01\x7d")
    [Frame(station=110, packet=b'oise')]
    >>> reader.feed(b"\x5e\x7e")
    [Frame(station=3, packet=b'\x01~')]
    """

    def __init__(self) -> None:
        self._gathered = bytearray()
        self._overlong = False
        self.discarded = 0
        """Frames that were too long or broken off."""

    def feed(self, octets: bytes) -> list[Frame]:
        """Return the frames that these octets complete; what is not ours fails the checksum."""
        *closed, rest = octets.split(_FLAG)
        frames = [frame for part in closed if (frame := self._close(part)) is not None]
        self._gather(rest)
        return frames

    def _gather(self, part: bytes) -> None:
        self._overlong |= len(self._gathered) + len(part) > 2 * MAX_FRAME_BYTES
        self._gathered += b"" if self._overlong else part

    def _close(self, part: bytes) -> Frame | None:
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
        return Frame(plain[0], plain[1:])
