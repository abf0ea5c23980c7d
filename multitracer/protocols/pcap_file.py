"""Writes capture files as bytes: pcap and pcapng.

Source: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. Times are nanoseconds since 1970. Every
function returns one complete header, record or block. So records can be appended to a file, and a truncated
file remains readable up to its last complete record.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_S

LINKTYPE_RAW = 101
"""Packets begin with the IPv4 or IPv6 header."""
LINKTYPE_ETHERNET = 1  # IANA link types (draft-ietf-opsawg-pcaplinktype)
_PCAP_NS = 0xA1B23C4D  # draft-ietf-opsawg-pcap, section 4: nanoseconds
_SNAP_BYTES = 262_144
"""The largest snap length that tcpdump and Wireshark accept."""
_BYTE_ORDER = 0x1A2B3C4D  # draft-ietf-opsawg-pcapng, section 4.1
_UNKNOWN_LENGTH = -1  # the same, section 4.1
_LONGEST_OPTION = 0xFFFF  # the length field has 16 bits


class BlockType(IntEnum):
    """Types of pcapng blocks (draft-ietf-opsawg-pcapng, section 4)."""

    INTERFACE = 1
    OBSOLETE_PACKET = 2
    SIMPLE_PACKET = 3
    STATISTICS = 5
    ENHANCED_PACKET = 6
    SECRETS = 10
    CUSTOM = 0xBAD
    SECTION = 0x0A0D0D0A
    """Type of a section header; it is the same in both byte orders."""


_ENHANCED_PACKET = BlockType.ENHANCED_PACKET.value  # plain: packed for every packet
BLOCK_TIME_AT, BLOCK_PACKET_AT = 12, 28
"""Offsets of the time and of the packet in an Enhanced Packet Block (the same draft, section 4.3)."""
_PACKET_BLOCK, _LENGTH, _PCAP_RECORD = struct.Struct("<7I"), struct.Struct("<I"), struct.Struct("<4I")


class OptionCode(IntEnum):
    """Options that every pcapng block may have (draft-ietf-opsawg-pcapng, section 3.5)."""

    END = 0
    COMMENT = 1


def pcap_header(*, link_type: int = LINKTYPE_RAW, snap_bytes: int = _SNAP_BYTES) -> bytes:
    """Return the file header of a pcap file with nanosecond time stamps."""
    return struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, snap_bytes, link_type)


def pcap_record(
    packet: bytes, *, time_ns: int, snap_bytes: int = _SNAP_BYTES, original_bytes: int | None = None
) -> bytes:
    """Return the record of one packet, truncated to `snap_bytes`.

    `original_bytes` is the length on the wire, if `packet` is already truncated.

    Raises
    ------
    LocalProtocolError
        If the time is before 1970 or after February 2106.
    """
    seconds, rest = divmod(time_ns, NS_PER_S)
    if seconds >> 32:
        raise LocalProtocolError(f"pcap: time {time_ns} ns is outside the range of pcap (32 bits of seconds)")
    kept = packet[:snap_bytes]
    length = len(packet) if original_bytes is None else original_bytes
    return _PCAP_RECORD.pack(seconds, rest, len(kept), length) + kept


def section_header(*, application: str = "", hardware: str = "", system: str = "", comment: str = "") -> bytes:
    """Return the section header block, which begins a pcapng file or another section."""
    fixed = struct.pack("<IHHq", _BYTE_ORDER, 1, 0, _UNKNOWN_LENGTH)
    texts = (OptionCode.COMMENT, comment), (2, hardware), (3, system), (4, application)
    return _block(BlockType.SECTION, fixed + _options([(code, text.encode()) for code, text in texts if text]))


LARGEST_LINK_TYPE = 0xFFFF
"""Of an interface of pcapng (draft-ietf-opsawg-pcapng, 4.2: 16 bits); the header of pcap has room for more."""


def interface_block(
    *,
    link_type: int = LINKTYPE_RAW,
    name: str = "",
    description: str = "",
    capture_filter: str = "",
    snap_bytes: int = 0,
) -> bytes:
    """Return the block that describes the section's next interface.

    Its packets have nanosecond time stamps.
    """
    options = [(2, name.encode()), (3, description.encode()), (9, b"\x09")]
    if capture_filter:
        options.append((11, b"\0" + capture_filter.encode()))
    fixed = struct.pack("<HHI", link_type, 0, snap_bytes)
    return _block(BlockType.INTERFACE, fixed + _options([(code, value) for code, value in options if value]))


def packet_block(
    packet: bytes, *, time_ns: int, interface: int = 0, comment: str = "", original_bytes: int | None = None
) -> bytes:
    """Return the block of one packet.

    Parameters
    ----------
    packet : bytes
        The captured octets.
    time_ns : int
        Time of capture, ns since 1970.
    interface : int
        Number of the interface in its section, from 0.
    comment : str
        Shown by Wireshark with the packet.
    original_bytes : int, optional
        Length on the wire, if less was captured.
    """
    length = len(packet) if original_bytes is None else original_bytes
    padding = bytes(-len(packet) % 4)
    options = _options([(OptionCode.COMMENT, comment.encode())]) if comment else b""
    block_bytes = _PACKET_BLOCK.size + len(packet) + len(padding) + len(options) + 4
    fixed = _PACKET_BLOCK.pack(
        *(_ENHANCED_PACKET, block_bytes, interface, time_ns >> 32 & 0xFFFFFFFF, time_ns & 0xFFFFFFFF),
        *(len(packet), length),
    )
    return b"".join((fixed, packet, padding, options, _LENGTH.pack(block_bytes)))


def statistics_block(*, time_ns: int, interface: int = 0, received: int, dropped: int) -> bytes:
    """Return an interface's counts up to `time_ns`: received packets, and how many of them were dropped."""
    fixed = struct.pack("<III", interface, time_ns >> 32 & 0xFFFFFFFF, time_ns & 0xFFFFFFFF)
    counts = [(4, struct.pack("<Q", received)), (5, struct.pack("<Q", dropped))]
    return _block(BlockType.STATISTICS, fixed + _options(counts))


def _options(options: list[tuple[int, bytes]]) -> bytes:
    if not options:
        return b""
    parts = []
    for code, value in options:
        if len(value) > _LONGEST_OPTION:
            raise LocalProtocolError(
                f"pcapng: an option must have at most {_LONGEST_OPTION} bytes, but has {len(value)} bytes"
            )
        parts.append(struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4))
    return b"".join(parts) + bytes(4)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length
