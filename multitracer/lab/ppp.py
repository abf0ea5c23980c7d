"""PPP in HDLC-like framing on an asynchronous line (RFC 1662), with FCS-16.

A frame is `7e ff 03 protocol information FCS-16 7e`, octets 7e, 7d and those of the control character map
escaped as `7d` and the octet exclusive-or 20. The framer begins with a flag after idle time or a reset: an
incomplete frame in the receiver's buffer then ends there, and the next frame is not lost.
"""

from __future__ import annotations

import binascii
import re
from typing import Literal, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.protocols.l2r import PppProtocol

_FLAG, _ESCAPE, _XOR = 0x7E, 0x7D, 0x20  # RFC 1662, 4.2
_ALL_CONTROLS = 0xFFFFFFFF  # RFC 1662, 7.1: the default ACCM
_ADDRESS_CONTROL = b"\xff\x03"
_GOOD_FCS = 0xF0B8  # RFC 1662, C.2
_SHORTEST = 4  # RFC 1662, 4.3: shorter frames are invalid
_MRU = 1500  # RFC 1661, 6.1
_OVERHEAD = 6
"""Octets of address, control, protocol and FCS around the information."""

_MIRRORED = bytes(int(f"{octet:08b}"[::-1], 2) for octet in range(256))
"""Each octet with its bits reversed: PPP's FCS takes the lowest bit first, CPython's CRC the highest."""


def fcs16(data: bytes) -> int:
    """Return the FCS register after `data` (RFC 1662, appendix C.2), before the final complement.

    The sender appends the complement, low octet first; over a complete intact frame the result is 0xf0b8.

    Examples
    --------
    >>> hex(fcs16(b"123456789") ^ 0xFFFF)
    '0x906e'
    """
    register = binascii.crc_hqx(data.translate(_MIRRORED), 0xFFFF)  # the same polynomial, bits reversed
    return _MIRRORED[register & 0xFF] << 8 | _MIRRORED[register >> 8]


class PppPacket(NamedTuple):
    """The content of a frame whose FCS was correct."""

    protocol: int
    information: bytes
    wire_bytes: int
    """Octets on the line from the flag before the frame (excluded) to the flag after it (included)."""


class PppDamage(NamedTuple):
    """A frame that the receiver discarded, with the reason."""

    cause: Literal["fcs", "short", "abort", "long"]
    wire_bytes: int


def _escape_pattern(accm: int) -> re.Pattern[bytes]:
    octets = [_FLAG, _ESCAPE, *(octet for octet in range(32) if accm >> octet & 1)]
    return re.compile(b"[" + b"".join(b"\\x%02x" % octet for octet in octets) + b"]")


_ESCAPED = {bytes((octet,)): bytes((_ESCAPE, octet ^ _XOR)) for octet in (*range(32), _FLAG, _ESCAPE)}
"""Escape sequence of each octet (RFC 1662, section 4.2)."""
_ESCAPE_SEQUENCE = re.compile(b"\\x7d(.)", re.DOTALL)
_DEFAULT_PATTERN = _escape_pattern(_ALL_CONTROLS)


class PppFramer:
    """Turns packets into octets for an asynchronous line.

    Parameters
    ----------
    accm : int
        Control characters to escape, bit n for octet n, as negotiated; 0 escapes none.
    compress_address, compress_protocol : bool
        Leave out `ff 03`, and the first octet of protocols below 256, as negotiated.
    """

    def __init__(self, *, accm: int = 0, compress_address: bool = False, compress_protocol: bool = False) -> None:
        if not 0 <= accm <= _ALL_CONTROLS:
            raise LocalProtocolError(f"PPP: the ACCM must be 0 to 0xffffffff, but is {accm:#x}")
        self._pattern = _escape_pattern(accm)
        self._compress_address = compress_address
        self._compress_protocol = compress_protocol
        self._open = True

    def idle(self) -> None:
        """Record that the line was idle or was reset, so that the next frame starts with a flag."""
        self._open = True

    def frame(self, protocol: int, information: bytes) -> bytes:
        """Return the octets of one frame, closing flag included.

        Raises
        ------
        LocalProtocolError
            If the protocol number is not an assigned form: 16 bits, low octet odd, high octet even.
        """
        if protocol & ~0xFFFF or not protocol & 1 or protocol & 0x100:
            raise LocalProtocolError(f"PPP: {protocol:#x} is not a valid protocol number (RFC 1661, section 2)")
        is_lcp = protocol == PppProtocol.LCP
        head = b"" if self._compress_address and not is_lcp else _ADDRESS_CONTROL
        short = self._compress_protocol and protocol < 0x100
        body = head + protocol.to_bytes(1 if short else 2) + information
        body += (fcs16(body) ^ 0xFFFF).to_bytes(2, "little")
        pattern = _DEFAULT_PATTERN if is_lcp else self._pattern
        escaped = pattern.sub(lambda match: _ESCAPED[match[0]], body)
        opening, self._open = (b"~" if self._open else b""), False
        return opening + escaped + b"~"


class PppDeframer:
    """Finds packets in the octets of an asynchronous line.

    Parameters
    ----------
    accm : int
        Control characters that the line may insert; they are removed if they are not escaped.
    mru_bytes : int
        Longest information field; a longer frame is discarded, so that memory stays bounded.
    """

    def __init__(self, *, accm: int = 0, mru_bytes: int = _MRU) -> None:
        self._inserted = bytes(octet for octet in range(32) if accm >> octet & 1)
        self._longest = mru_bytes + _OVERHEAD
        self._raw = bytearray()
        self._too_long = 0

    def feed(self, data: bytes) -> list[PppPacket | PppDamage]:
        """Return the packets that `data` completes, in order; empty frames are not reported."""
        packets: list[PppPacket | PppDamage] = []
        *ended, rest = data.split(b"~")
        for part in ended:
            self._append(part)
            outcome = self._end_of_frame()
            if outcome is not None:
                packets.append(outcome)
        self._append(rest)
        return packets

    @property
    def pending_bytes(self) -> int:
        """Number of octets received since the last flag."""
        return len(self._raw) + self._too_long

    def _append(self, part: bytes) -> None:
        if self._too_long or len(self._raw) + len(part) > 2 * self._longest + len(self._inserted):
            self._too_long += len(self._raw) + len(part)
            self._raw.clear()
        else:
            self._raw += part

    def _end_of_frame(self) -> PppPacket | PppDamage | None:
        raw, self._raw = bytes(self._raw), bytearray()
        skipped, self._too_long = self._too_long, 0
        wire = len(raw) + skipped + 1
        if skipped:
            return PppDamage("long", wire)
        octets = raw.translate(None, self._inserted) if self._inserted else raw
        if octets.endswith(b"}"):
            return PppDamage("abort", wire)
        body = _ESCAPE_SEQUENCE.sub(lambda match: bytes((match[1][0] ^ _XOR,)), octets)
        return self._checked(body, wire) if body else None

    def _checked(self, body: bytes, wire: int) -> PppPacket | PppDamage:
        if len(body) < _SHORTEST:
            return PppDamage("short", wire)
        if fcs16(body) != _GOOD_FCS:
            return PppDamage("fcs", wire)
        content = body[:-2].removeprefix(_ADDRESS_CONTROL)
        octets = 1 if content[:1] and content[0] & 1 else 2
        if len(content) < octets:
            return PppDamage("short", wire)
        if len(content) - octets > self._longest - _OVERHEAD:
            return PppDamage("long", wire)
        return PppPacket(int.from_bytes(content[:octets]), content[octets:], wire)
