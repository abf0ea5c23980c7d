"""GSMTAP: frames of a GSM radio, and lines of a log, in UDP packets that any capture tool can record.

Source: libosmocore `gsmtap.h`. UDP port 4729, a header of 16 octets in network byte order. Type 0x14 is an RLP frame
(Wireshark dissects it from 4.2 on), type 0x10 a line of a log with its time, process, level and subsystem.
"""

from __future__ import annotations

import functools
import struct
from enum import IntEnum
from typing import NamedTuple

from multitracer.errors import RemoteProtocolError
from multitracer.units import NS_PER_S, NS_PER_US

PORT = 4729  # IANA: gsmtap, 4729/udp
_VERSION = 2  # gsmtap.h of libosmocore: GSMTAP_VERSION
_HEADER = struct.Struct("!BBBBHbbLBBBB")
_IP_UDP = struct.Struct("!BBHHHBBH4s4sHHHH")
_LOG = struct.Struct("!LL16sLB3x16s32sL")
FRAME_NUMBER_AT = _IP_UDP.size + 8  # gsmtap.h of libosmocore
"""Offset of the frame number in an encoded packet; the header ends 8 octets later."""
LOG_TEXT_AT = _IP_UDP.size + _HEADER.size + _LOG.size
"""Offset of the text in an encoded log line; the first 8 octets of the text part are the time."""
_UPLINK, _ARFCN = 0x4000, 0x3FFF  # gsmtap.h: GSMTAP_ARFCN_F_UPLINK and GSMTAP_ARFCN_MASK
_LEVEL_NOTICE = 5  # libosmocore, logging.h: LOGL_NOTICE
_MOBILE, _FIXED = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
"""Addresses of the documentation range (RFC 5737), which show the direction in a packet list."""


class GsmtapError(RemoteProtocolError):
    """Octets that are not a GSMTAP packet."""


class GsmtapType(IntEnum):
    """The payload types that MultiTracer writes."""

    LOG = 0x10
    GSM_RLP = 0x14


class Gsmtap(NamedTuple):
    """A GSMTAP packet: the header fields that are used here, and the payload."""

    type: int
    uplink: bool
    frame_number: int
    payload: bytes


def _ip_udp(length: int, uplink: bool) -> bytes:
    source, target = (_MOBILE, _FIXED) if uplink else (_FIXED, _MOBILE)
    return ip_udp_header(length, source=(source, PORT), target=(target, PORT))


@functools.lru_cache(maxsize=1024)
def ip_udp_header(length: int, *, source: tuple[bytes, int], target: tuple[bytes, int]) -> bytes:
    """Return an IPv4 and UDP header for `length` octets of payload, UDP without checksum (RFC 768).

    `source` and `target` are an IPv4 address, 4 octets, and a port.
    """
    total = _IP_UDP.size + length

    def header(checksum: int) -> bytes:
        ip = 0x45, 0, total, 0, 0x4000, 64, 17, checksum, source[0], target[0]
        return _IP_UDP.pack(*ip, source[1], target[1], 8 + length, 0)

    words = sum(struct.unpack("!10H", header(0)[:20]))
    return header(~((words & 0xFFFF) + (words >> 16)) & 0xFFFF)


def encode(kind: GsmtapType, payload: bytes, *, uplink: bool, frame_number: int) -> bytes:
    """Return an IPv4 packet with UDP and GSMTAP around `payload`.

    Parameters
    ----------
    kind : GsmtapType
        Type of the payload.
    payload : bytes
        An RLP frame, or the result of `log_line`.
    uplink : bool
        Whether the mobile sent it.
    frame_number : int
        32 bits of the header; MultiTracer writes the number of the 20 ms slot.
    """
    arfcn = _UPLINK if uplink else 0
    header = _HEADER.pack(_VERSION, _HEADER.size // 4, kind, 0, arfcn, 0, 0, frame_number & 0xFFFFFFFF, 0, 0, 0, 0)
    return _ip_udp(_HEADER.size + len(payload), uplink) + header + payload


def decode(datagram: bytes) -> Gsmtap:
    """Return the content of a GSMTAP datagram (the payload of a UDP packet to port 4729).

    Raises
    ------
    GsmtapError
        If it is truncated, or its version is not 2.
    """
    if len(datagram) < _HEADER.size or datagram[0] != _VERSION or datagram[1] * 4 < _HEADER.size:
        raise GsmtapError(
            f"GSMTAP: the datagram of {len(datagram)} octets has no header of GSMTAP version 2; skip the packet"
        )
    fields = _HEADER.unpack_from(datagram)
    return Gsmtap(fields[2], bool(fields[4] & _UPLINK), fields[7], datagram[fields[1] * 4 :])


def log_line(text: str, *, time_ns: int, process: str, subsystem: str) -> bytes:
    """Return the payload of a LOG packet: one line, ASCII, with its time in microseconds."""
    seconds, rest = divmod(time_ns, NS_PER_S)
    head = (seconds & 0xFFFFFFFF, rest // NS_PER_US, process.encode(), 0, _LEVEL_NOTICE, subsystem.encode(), b"", 0)
    return _LOG.pack(*head) + text.encode("ascii", "backslashreplace")


def log_text(payload: bytes) -> str:
    """Return the text in the payload of a LOG packet.

    Raises
    ------
    GsmtapError
        If the payload is truncated.
    """
    if len(payload) < _LOG.size:
        raise GsmtapError(f"GSMTAP: the log line of {len(payload)} octets is truncated; skip the packet")
    return payload[_LOG.size :].split(b"\0")[0].decode("ascii", "backslashreplace")
