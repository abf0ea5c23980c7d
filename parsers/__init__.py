"""Raw logs become tables: one format, one module that ends in `FORMAT = Format(...)`.

Read first: `_format.py` (the contract), `_registry.py` (how formats are found), then `pcap.py`. A file is
recognised by its content, never by its name; see docs/formats.md for what is read and how to add a format.
"""

from parsers._format import HEAD_BYTES, Format, Match
from parsers._ip_packets import IpPacket, read_ip_packets
from parsers._read import detect, read, read_capture, read_lines
from parsers._registry import formats, installed, recognise

__all__ = [
    "HEAD_BYTES",
    "Format",
    "IpPacket",
    "Match",
    "detect",
    "formats",
    "installed",
    "read",
    "read_capture",
    "read_ip_packets",
    "read_lines",
    "recognise",
]
