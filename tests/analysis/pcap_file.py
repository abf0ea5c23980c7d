"""Hand-made segments as a capture file, for the tools that only read files."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.analysis.traffic import MS, START_NS, SYN, Segment

if TYPE_CHECKING:
    from pathlib import Path

_ENDS = (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))


def write_pcap(path: Path, segments: list[Segment]) -> Path:
    """Write the segments as raw IP packets (nanoseconds, little-endian) and return the path."""
    records = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 101)]
    for i, segment in enumerate(segments):
        time_ns = START_NS + i * MS if segment.time_ns is None else segment.time_ns
        packet = _packet(segment)
        records.append(struct.pack("<IIII", time_ns // 10**9, time_ns % 10**9, len(packet), len(packet)) + packet)
    path.write_bytes(b"".join(records))
    return path


def _packet(s: Segment) -> bytes:
    options = _options(s)
    header = struct.pack(
        "!HHIIHHHH",
        *((40000 + s.pair, 80) if s.side == 0 else (80, 40000 + s.pair)),
        s.seq % 2**32,
        s.ack % 2**32,
        (20 + len(options)) // 4 << 12 | s.flags,
        s.window,
        0,
        0,
    )
    length = 40 + len(options) + s.payload
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, s.ip_id, 0, s.ttl, 6, 0)
    return ip + _ENDS[s.side] + _ENDS[1 - s.side] + header + options + bytes(s.payload)


def _options(s: Segment) -> bytes:
    options = b""
    if s.flags & SYN and "mss" in s.options:
        options += struct.pack("!BBH", 2, 4, s.options["mss"])
    if s.flags & SYN and "scale" in s.options:
        options += struct.pack("!BBBB", 1, 3, 3, s.options["scale"])
    if s.stamp:
        options += struct.pack("!BBBBII", 1, 1, 8, 10, *(value % 2**32 for value in s.stamp))
    if s.sack:
        edges = [edge % 2**32 for block in s.sack for edge in block]
        options += struct.pack(f"!BBBB{len(edges)}I", 1, 1, 5, 2 + 4 * len(edges), *edges)
    return options + s.more
