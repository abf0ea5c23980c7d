"""TCP segments in IPv4 packets: encoding and decoding (RFC 791; RFC 9293, 3.1; RFC 2018; RFC 7323).

Rules of the file:

- `parse_packet` accepts any bytes and raises only RemoteProtocolError.
- A wrong TCP checksum raises no error: the packet is returned with `checksum_ok` False, because
  the receiving host counts such packets.
- Numbers are as in the packet: 32-bit sequence numbers, a window that is not scaled.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

from multitracer.captured import Flag, IpProtocol, OptionKind
from multitracer.errors import RemoteProtocolError

IP_HEADER_BYTES = 20  # RFC 791, 3.1, without options
TCP_HEADER_BYTES = 20  # RFC 9293, 3.1, without options


_IP = struct.Struct("!BBHHHBBH4s4s")
_TCP = struct.Struct("!HHIIHHHH")
_TIMESTAMPS, _PSEUDO = struct.Struct("!4sII"), struct.Struct("!BBH")
_TCP_NUMBER = IpProtocol.TCP.value
_FIN, _SYN = Flag.FIN.value, Flag.SYN.value
_DONT_FRAGMENT = 0x4000  # RFC 791, 3.1
_TTL = 64  # RFC 1700: the default; Linux' too


class Ecn(IntEnum):
    """The ECN field of the IP header (RFC 3168, section 5)."""

    NOT_ECT = 0
    ECT_1 = 1
    ECT_0 = 2
    CE = 3
    """Congestion experienced: the packet was marked instead of dropped."""


_END, _NOP = OptionKind.END.value, OptionKind.NOP.value  # plain: looked for at every octet of padding
_PADDED_TIMESTAMPS = bytes([_NOP, _NOP, OptionKind.TIMESTAMPS, 10])  # RFC 7323, appendix A


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An IPv4 address, 4 bytes, and a TCP port."""

    address: bytes
    port: int


@dataclass(slots=True)
class Segment:
    """One TCP segment; every number is as in the packet."""

    source_port: int
    destination_port: int
    seq: int
    ack: int
    flags: int
    """TCP flags: bits of `multitracer.captured.Flag`."""
    window: int
    payload: bytes = b""
    mss_bytes: int | None = None
    window_scale: int | None = None
    sack_permitted: bool = False
    timestamps: tuple[int, int] | None = None
    """TSval and TSecr (RFC 7323); None without the option."""
    sack_blocks: tuple[tuple[int, int], ...] = ()
    """Left and right edge of each block, in the order of the option."""


@dataclass(slots=True)
class TcpPacket:
    """An IPv4 packet that carries a TCP segment."""

    source: bytes
    """IPv4 address, 4 bytes."""
    destination: bytes
    segment: Segment
    identification: int = 0
    ecn: int = Ecn.NOT_ECT
    checksum_ok: bool = field(default=True, compare=False)


def internet_checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071; the result is 0 over data that contain their correct checksum."""
    if len(data) & 1:
        data += b"\0"
    number = int.from_bytes(data, "big")  # 2^16 is 1 modulo 0xFFFF: its digits are added up
    return 0xFFFF - (number % 0xFFFF or 0xFFFF * (number > 0))


def build_packet(packet: TcpPacket) -> bytes:
    """Return `packet` as bytes with lengths and both checksums.

    Raises
    ------
    struct.error
        If a field does not fit its width: an error of the caller.
    """
    tcp = _build_segment(packet.segment)
    pseudo = packet.source + packet.destination + _PSEUDO.pack(0, _TCP_NUMBER, len(tcp))
    checksum = internet_checksum(pseudo + tcp).to_bytes(2, "big")
    header = _ip_header(packet, IP_HEADER_BYTES + len(tcp))
    return b"".join((header, tcp[:16], checksum, tcp[18:]))


def _ip_header(packet: TcpPacket, total_bytes: int) -> bytes:
    header = _IP.pack(
        *(0x45, packet.ecn, total_bytes, packet.identification, _DONT_FRAGMENT, _TTL),
        *(_TCP_NUMBER, 0, packet.source, packet.destination),
    )
    return header[:10] + internet_checksum(header).to_bytes(2, "big") + header[12:]


def _build_segment(segment: Segment) -> bytes:
    options = _build_options(segment)
    words = (TCP_HEADER_BYTES + len(options)) // 4
    header = _TCP.pack(
        *(segment.source_port, segment.destination_port, segment.seq, segment.ack),
        *(words << 12 | segment.flags, segment.window, 0, 0),
    )
    return header + options + segment.payload


def _build_options(segment: Segment) -> bytes:
    options = b""
    if segment.mss_bytes is not None:
        options += struct.pack("!BBH", OptionKind.MSS, 4, segment.mss_bytes)
    if segment.sack_permitted:
        options += bytes([OptionKind.NOP, OptionKind.NOP, OptionKind.SACK_PERMITTED, 2])
    if segment.timestamps is not None:
        options += _TIMESTAMPS.pack(_PADDED_TIMESTAMPS, *segment.timestamps)
    if segment.window_scale is not None:
        options += bytes([OptionKind.NOP, OptionKind.WINDOW_SCALE, 3, segment.window_scale])
    if segment.sack_blocks:
        blocks = b"".join(struct.pack("!II", *block) for block in segment.sack_blocks)
        options += bytes([OptionKind.NOP, OptionKind.NOP, OptionKind.SACK, 2 + len(blocks)]) + blocks
    return options


def sack_blocks_that_fit(*, timestamps: bool) -> int:
    """Return how many SACK blocks the 40 bytes of options hold (RFC 2018, section 3)."""
    return 3 if timestamps else 4


def parse_packet(data: bytes) -> TcpPacket:
    """Return the packet in `data`; bytes after its total length are ignored.

    Raises
    ------
    RemoteProtocolError
        If `data` is not an unfragmented IPv4 packet with a correct header checksum and a complete
        TCP header with well-formed options.
    """
    header_bytes, total_bytes = _checked_ip_lengths(data)
    _, ecn, _, identification, _, _, _, _, source, destination = _IP.unpack_from(data)
    tcp = data[header_bytes:total_bytes]
    if len(tcp) < TCP_HEADER_BYTES:
        raise RemoteProtocolError(f"IPv4 packet: the payload has {len(tcp)} bytes, which is shorter than a TCP header")
    pseudo = source + destination + _PSEUDO.pack(0, _TCP_NUMBER, len(tcp))
    return TcpPacket(
        source=source,
        destination=destination,
        segment=_parse_segment(tcp),
        identification=identification,
        ecn=ecn & 3,
        checksum_ok=internet_checksum(pseudo + tcp) == 0,
    )


def _checked_ip_lengths(data: bytes) -> tuple[int, int]:
    if len(data) < IP_HEADER_BYTES or data[0] >> 4 != 4:
        raise RemoteProtocolError("the packet is not an IPv4 packet")
    header_bytes = (data[0] & 0x0F) * 4
    total_bytes = int.from_bytes(data[2:4], "big")
    if not IP_HEADER_BYTES <= header_bytes <= total_bytes <= len(data):
        raise RemoteProtocolError(
            f"IPv4 packet: the lengths do not match: header {header_bytes} bytes, total length "
            f"{total_bytes} bytes, present {len(data)} bytes"
        )
    if internet_checksum(data[:header_bytes]) != 0:
        raise RemoteProtocolError("IPv4 packet: the header checksum is wrong")
    if int.from_bytes(data[6:8], "big") & 0x3FFF:
        raise RemoteProtocolError("IPv4 packet: the packet is a fragment, but fragments are not supported")
    if data[9] != _TCP_NUMBER:
        raise RemoteProtocolError(f"IPv4 packet: the protocol is {data[9]}, but must be 6 (TCP)")
    return header_bytes, total_bytes


def _parse_segment(tcp: bytes) -> Segment:
    source, destination, seq, ack, offset_flags, window, _, _ = _TCP.unpack_from(tcp)
    header_bytes = (offset_flags >> 12) * 4
    if not TCP_HEADER_BYTES <= header_bytes <= len(tcp):
        raise RemoteProtocolError(
            f"TCP segment: the header length is {header_bytes} bytes, but the segment has {len(tcp)} bytes"
        )
    segment = Segment(
        source_port=source,
        destination_port=destination,
        seq=seq,
        ack=ack,
        flags=offset_flags & 0x1FF,
        window=window,
        payload=tcp[header_bytes:],
    )
    _parse_options(tcp[TCP_HEADER_BYTES:header_bytes], segment)
    return segment


def _parse_options(options: bytes, segment: Segment) -> None:
    if len(options) == _TIMESTAMPS.size and options.startswith(_PADDED_TIMESTAMPS):
        _, tsval, tsecr = _TIMESTAMPS.unpack(options)  # all that most segments have
        segment.timestamps = (tsval, tsecr)
        return
    position = 0
    while position < len(options) and options[position] != _END:
        kind = options[position]
        if kind == _NOP:
            position += 1
            continue
        length = options[position + 1] if position + 1 < len(options) else 0
        if length < 2 or position + length > len(options):
            raise RemoteProtocolError(f"TCP option {kind}: the length {length} does not fit into the TCP header")
        _take_option(kind, options[position + 2 : position + length], segment)
        position += length


def _take_option(kind: int, body: bytes, segment: Segment) -> None:
    """Store an option of known kind and correct length in the segment; ignore any other (RFC 9293, 3.2)."""
    if kind == OptionKind.TIMESTAMPS and len(body) == 8:  # in every segment; the others are rarer
        tsval, tsecr = struct.unpack("!II", body)
        segment.timestamps = (tsval, tsecr)
    elif kind == OptionKind.SACK and body and len(body) % 8 == 0:
        numbers = struct.unpack(f"!{len(body) // 4}I", body)
        segment.sack_blocks = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    elif kind == OptionKind.MSS and len(body) == 2:
        segment.mss_bytes = int.from_bytes(body, "big")
    elif kind == OptionKind.WINDOW_SCALE and len(body) == 1:
        segment.window_scale = body[0]
    elif kind == OptionKind.SACK_PERMITTED and not body:
        segment.sack_permitted = True


def has_flags(segment: Segment, flags: int) -> bool:
    """Return whether all bits of `flags` are set in the segment."""
    return segment.flags & flags == flags


def sequence_length(segment: Segment) -> int:
    """Return the length of the segment in sequence space: payload, SYN and FIN."""
    return len(segment.payload) + bool(segment.flags & _SYN) + bool(segment.flags & _FIN)


def is_ecn_capable(data: bytes) -> bool:
    """Return whether the IPv4 packet `data` may be marked instead of dropped (RFC 3168, section 5)."""
    return len(data) >= IP_HEADER_BYTES and data[0] >> 4 == 4 and data[1] & 3 in (Ecn.ECT_0, Ecn.ECT_1)


def congestion_marked(data: bytes) -> bytes:
    """Return an ECN-capable IPv4 packet with CE and an updated header checksum."""
    header_bytes = (data[0] & 0x0F) * 4
    header = data[:1] + bytes([data[1] | Ecn.CE]) + data[2:10] + b"\0\0" + data[12:header_bytes]
    checksum = internet_checksum(header).to_bytes(2, "big")
    return header[:10] + checksum + header[12:] + data[header_bytes:]


# Sequence numbers: 32 bits on the wire, unbounded integers inside.
#
# The cores count the units of one direction of a connection from 0 (the SYN) without wrapping; only the
# codec's border knows the initial sequence number and the modulus (RFC 9293, section 3.4).


MODULUS = 1 << 32  # RFC 9293, 3.4


def unwrap(number: int, *, near: int) -> int:
    """Return the integer congruent to `number` modulo 2^32 that is closest to `near`.

    It may be negative if `near` is small: the number is then before the initial one.
    """
    distance = (number - near) % MODULUS
    return near + distance - (MODULUS if distance >= MODULUS // 2 else 0)
