"""Encoding and decoding of WTCP packets. The format is our own, as the paper has none (docs/wtcp.md).

Every packet begins with version and type, flags, and the identity that its receiver chose: 64 random bits, so that only
an observer of the path can forge a packet. Numbers are big-endian. The UDP checksum protects the complete packet.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from typing import NamedTuple

VERSION = 1  # of the wire format in docs/wtcp.md
IDENTITY_BYTES = 8
"""Octets of an identity: 64 bits, as RFC 9000 requires for a token that cannot be guessed (section 8.1.4)."""
MAX_RANGES = 16
"""Maximum number of ranges in one acknowledgment: 128 octets (not measured)."""
MODULUS = 1 << 32  # docs/wtcp.md: numbers and times have 32 bits
MAX_OFFSET = (1 << 48) - 1
"""Maximum position in a stream: 48 bits are more than any connection carries."""
NO_IDENTITY = bytes(IDENTITY_BYTES)
"""Identity in a SYN: its receiver has not chosen one yet."""

_HEAD = struct.Struct("!BB8s")
_HELLO = struct.Struct("!8sI")
_DATA = struct.Struct("!IIIHHHI")
_ACK = struct.Struct("!IIIIHIIB")
_RANGE = struct.Struct("!II")

HEAD_BYTES, HELLO_BYTES, DATA_BYTES = _HEAD.size, _HELLO.size, _DATA.size
MAX_ACK_BYTES = HEAD_BYTES + _ACK.size + MAX_RANGES * _RANGE.size
"""Length of the longest acknowledgment."""


class WtcpPacketType(IntEnum):
    """Packet type: the low four bits of the first octet."""

    SYN = 1
    SYN_ACK = 2
    CONFIRM = 3
    DATA = 4
    PROBE = 5
    ACK = 6
    RESET = 7


class PacketFlag(IntFlag):
    """Flags in the second octet."""

    NONE = 0
    HELLO = 1
    """DATA and PROBE: the sender's identity and window follow; set until a packet of the peer arrives."""
    FIN = 2
    """DATA: the stream ends after these bytes."""
    PAIR = 4
    """DATA: the previous packet was sent immediately before this one, to measure the path."""
    LIMITED = 8
    """DATA: the application or the window delayed the packet, not the rate."""
    STARTING = 16
    """ACK: no packet pair has arrived yet."""
    DONE = 32
    """ACK: everything that this end sent is acknowledged, its FIN included."""


class Hello(NamedTuple):
    """Identity and window of an end, in SYN, SYN-ACK, CONFIRM, and its first packets."""

    identity: bytes
    """Identity that packets to this end must carry."""
    window_bytes: int


class WtcpOpening(NamedTuple):
    """A SYN, SYN-ACK or CONFIRM."""

    kind: WtcpPacketType
    hello: Hello


class Data(NamedTuple):
    """Content of a data packet: a segment of the stream; without payload it is a probe."""

    number: int
    """Number of the transmission from 0, the same counter for data and probes; 32 bits."""
    time_us: int
    """Time of the sender's clock in µs; 32 bits."""
    separation_us: int
    """Time since the previous transmission in µs; 0 for the first."""
    ack_interval_ms: int
    """Interval of acknowledgments that the sender requests, in ms."""
    rate_serial: int
    """Low 16 bits of the serial of the acknowledgment whose rate the sender uses."""
    offset: int
    """Position of the first byte in the stream."""
    payload: bytes = b""
    flags: PacketFlag = PacketFlag.NONE
    hello: Hello | None = None
    is_probe: bool = False

    @property
    def end(self) -> int:
        """Stream position after the last unit of the packet; a FIN takes one unit."""
        return self.offset + len(self.payload) + bool(self.flags & PacketFlag.FIN)


class WtcpAck(NamedTuple):
    """Acknowledgment: the data that the receiver has, and the rate that it computed."""

    serial: int
    """Number of the acknowledgment from 0; 32 bits."""
    number: int
    """Number after the highest transmission that arrived; 0 before any; 32 bits."""
    hold_us: int
    """Time since that transmission arrived, in µs."""
    rate_bps: int
    cumulative: int
    """Stream position below which everything has arrived."""
    window_bytes: int
    """Bytes that may be sent beyond `cumulative`."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Byte ranges beyond `cumulative` that have arrived: ascending, ends exclusive."""
    flags: PacketFlag = PacketFlag.NONE


class Reset(NamedTuple):
    """The sender has ended the connection."""


Body = WtcpOpening | Data | WtcpAck | Reset


class WtcpPacket(NamedTuple):
    """A packet: the identity that its receiver has chosen, and the content."""

    identity: bytes
    body: Body


def encode(identity: bytes, body: Body) -> bytes:
    """Return a packet as octets; numbers, times and rates are limited to their fields."""
    match body:
        case WtcpOpening(kind, hello):
            return _head(kind, PacketFlag.NONE, identity) + _HELLO.pack(*hello)
        case Data():
            return _encode_data(identity, body)
        case WtcpAck():
            return _encode_ack(identity, body)
    return _head(WtcpPacketType.RESET, PacketFlag.NONE, identity)


def decode(octets: bytes) -> WtcpPacket | None:
    """Return the packet in these octets; None if they are not a packet."""
    if len(octets) < HEAD_BYTES or octets[0] >> 4 != VERSION:
        return None
    first, mark, identity = _HEAD.unpack_from(octets)
    try:
        kind, flags = WtcpPacketType(first & 15), PacketFlag(mark & 63)
    except ValueError:
        return None
    body = _decode_body(kind, flags, octets[HEAD_BYTES:])
    return None if body is None or mark >> 6 else WtcpPacket(identity, body)


def _head(kind: WtcpPacketType, flags: PacketFlag, identity: bytes) -> bytes:
    return _HEAD.pack(VERSION << 4 | kind, flags, identity)


def _encode_data(identity: bytes, data: Data) -> bytes:
    kind = WtcpPacketType.PROBE if data.is_probe else WtcpPacketType.DATA
    flags = data.flags | (PacketFlag.HELLO if data.hello else PacketFlag.NONE)
    times = data.time_us % MODULUS, min(data.separation_us, MODULUS - 1)
    tuned = min(data.ack_interval_ms, 0xFFFF), data.rate_serial & 0xFFFF
    place = data.offset >> 32, data.offset % MODULUS
    fixed = _DATA.pack(data.number % MODULUS, *times, *tuned, *place)
    hello = _HELLO.pack(*data.hello) if data.hello else b""
    return _head(kind, flags, identity) + hello + fixed + data.payload


def _encode_ack(identity: bytes, ack: WtcpAck) -> bytes:
    ranges = ack.ranges[:MAX_RANGES]
    numbers = ack.serial % MODULUS, ack.number % MODULUS, min(ack.hold_us, MODULUS - 1)
    place = ack.cumulative >> 32, ack.cumulative % MODULUS
    fixed = _ACK.pack(*numbers, min(ack.rate_bps, MODULUS - 1), *place, ack.window_bytes, len(ranges))
    tail = b"".join(_RANGE.pack(left - ack.cumulative, right - left) for left, right in ranges)
    return _head(WtcpPacketType.ACK, ack.flags, identity) + fixed + tail


def _decode_body(kind: WtcpPacketType, flags: PacketFlag, rest: bytes) -> Body | None:
    if kind is WtcpPacketType.RESET:
        return None if rest else Reset()
    if kind is WtcpPacketType.ACK:
        return _decode_ack(flags, rest)
    if kind in (WtcpPacketType.DATA, WtcpPacketType.PROBE):
        return _decode_data(kind, flags, rest)
    if len(rest) != HELLO_BYTES:
        return None
    return WtcpOpening(kind, Hello(*_HELLO.unpack(rest)))


def _decode_data(kind: WtcpPacketType, flags: PacketFlag, rest: bytes) -> Data | None:
    hello = None
    if flags & PacketFlag.HELLO and len(rest) >= HELLO_BYTES:
        hello = Hello(*_HELLO.unpack_from(rest))
        rest = rest[HELLO_BYTES:]
        flags &= ~PacketFlag.HELLO
    if len(rest) < DATA_BYTES or flags & PacketFlag.HELLO:
        return None
    number, time_us, separation_us, interval_ms, serial, high, low = _DATA.unpack_from(rest)
    payload, is_probe = rest[DATA_BYTES:], kind is WtcpPacketType.PROBE
    if is_probe is bool(payload or flags & PacketFlag.FIN):  # a probe carries nothing, data something
        return None
    place = high << 32 | low
    if place + len(payload) >= MAX_OFFSET:
        return None
    return Data(number, time_us, separation_us, interval_ms, serial, place, payload, flags, hello, is_probe)


def _decode_ack(flags: PacketFlag, rest: bytes) -> WtcpAck | None:
    if len(rest) < _ACK.size:
        return None
    serial, number, hold_us, rate_bps, high, low, window_bytes, count = _ACK.unpack_from(rest)
    tail = rest[_ACK.size :]
    if count > MAX_RANGES or len(tail) != count * _RANGE.size:
        return None
    cumulative = high << 32 | low
    ranges = tuple((cumulative + gap, cumulative + gap + length) for gap, length in _RANGE.iter_unpack(tail))
    return WtcpAck(serial, number, hold_us, rate_bps, cumulative, window_bytes, ranges, flags)
