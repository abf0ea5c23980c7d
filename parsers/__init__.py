"""Raw logs become tables: one format, one module that ends in `FORMAT = Format(...)`.

The input is a stream, the output is tables or a `Capture`. Read first: `_format.py` (the contract),
`_registry.py` (how formats are found: modules here without an underscore, and entry points), `_read.py` (from
paths to tables), then `pcap.py`. A file is recognised by its content, never by its name; see docs/formats.md for what
is read and how to add a format. What formats share lies below them: `_capture/` (records of a file) above `_packets/`
(headers to segments), `_text/` (lines to rows); `_pcap/`, `_pcapng/` and `_rlpdump/` are one format's each.

Rules: input may be malicious. Memory is bounded, invalid bytes raise only `FormatError`, a missing value is
NA, and unusable input is counted with its reason.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsers._chunks import (
        Chunks,
        PacketBlock,
        check_memory,
        first_packet_ns,
        is_plain,
        packets_about,
        read_capture,
        read_flow,
    )
    from parsers._contents import contents_of
    from parsers._forced import date_of, force_reading, forced_reading, forced_times, zone_of
    from parsers._format import HEAD_BYTES, Format, Match
    from parsers._ip_packets import (
        IpPacket,
        read_ip_packets,
        read_multipath_openings,
        read_packets_of_frames,
        read_records,
    )
    from parsers._memory import limit_memory, usable_memory_bytes
    from parsers._new_format import new_format
    from parsers._read import detect, read, read_lines
    from parsers._registry import bundled_maps, formats, installed, left_out, recognise
    from parsers._stream import is_map
    from parsers._text.proposal import propose_map

__all__ = [
    "HEAD_BYTES",
    "Chunks",
    "Format",
    "IpPacket",
    "Match",
    "PacketBlock",
    "bundled_maps",
    "check_memory",
    "contents_of",
    "date_of",
    "detect",
    "first_packet_ns",
    "force_reading",
    "forced_reading",
    "forced_times",
    "formats",
    "installed",
    "is_map",
    "is_plain",
    "left_out",
    "limit_memory",
    "new_format",
    "packets_about",
    "propose_map",
    "read",
    "read_capture",
    "read_flow",
    "read_ip_packets",
    "read_lines",
    "read_multipath_openings",
    "read_packets_of_frames",
    "read_records",
    "recognise",
    "usable_memory_bytes",
    "zone_of",
]

_LAZY = {
    "PacketBlock": "parsers._chunks",
    "Format": "parsers._format",
    "HEAD_BYTES": "parsers._format",
    "IpPacket": "parsers._ip_packets",
    "Match": "parsers._format",
    "Chunks": "parsers._chunks",
    "bundled_maps": "parsers._registry",
    "check_memory": "parsers._chunks",
    "contents_of": "parsers._contents",
    "detect": "parsers._read",
    "first_packet_ns": "parsers._chunks",
    "force_reading": "parsers._forced",
    "date_of": "parsers._forced",
    "forced_reading": "parsers._forced",
    "forced_times": "parsers._forced",
    "formats": "parsers._registry",
    "installed": "parsers._registry",
    "is_map": "parsers._stream",
    "is_plain": "parsers._chunks",
    "left_out": "parsers._registry",
    "limit_memory": "parsers._memory",
    "new_format": "parsers._new_format",
    "packets_about": "parsers._chunks",
    "propose_map": "parsers._text.proposal",
    "read": "parsers._read",
    "read_capture": "parsers._chunks",
    "read_flow": "parsers._chunks",
    "read_ip_packets": "parsers._ip_packets",
    "read_lines": "parsers._read",
    "read_multipath_openings": "parsers._ip_packets",
    "read_packets_of_frames": "parsers._ip_packets",
    "read_records": "parsers._ip_packets",
    "recognise": "parsers._registry",
    "usable_memory_bytes": "parsers._memory",
    "zone_of": "parsers._forced",
}
"""Names of this package and their modules; a module is imported when its name is first used."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
