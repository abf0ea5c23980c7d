"""The capture file of Solaris' snoop.

Source: RFC 1761; further link type numbers are those of Solaris' sys/dlpi.h.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.captured import CaptureInterface, SourceFile
from multitracer.errors import FormatError
from multitracer.tables import NOT_A_TIME
from parsers._capture.capture_file import decode_stream
from parsers._capture.window import RecordLength, StreamWindow, batches
from parsers._format import Format, Match
from parsers._packets.layers import PacketRecords, rows

if TYPE_CHECKING:
    from collections.abc import Generator

    from multitracer.capture import CaptureTables
    from multitracer.tables import Numbers
    from parsers._format import Readable
    from parsers._packets.layers import Bytes

_MAGIC = b"snoop\0\0\0"
_HEADER_BYTES = 16
_LAYOUT = RecordLength(24, struct.Struct(">I"), 8)
_LINK_TYPES = {0: 1, 2: 6, 4: 1, 8: 10, 18: 123}
"""LINKTYPE by snoop's data link type: 802.3 and Ethernet, token ring, FDDI, Sun's ATM."""
_UNKNOWN = 0x10000
"""Offset added to a data link type without a known LINKTYPE."""
_NO_FRACTION = "the fraction of the timestamp is not below one second"


def sniff(head: bytes) -> Match:
    """Return "yes" for the magic number."""
    return "yes" if head.startswith(_MAGIC) else "no"


def blocks(stream: Readable, source: SourceFile) -> Generator[PacketRecords]:
    """Yield the records of a file in batches, and store the properties of the file in `source`.

    Raises
    ------
    FormatError
        If the file header is incomplete, or its version is unknown.
    """
    window = StreamWindow(stream)
    window.refill()
    head = bytes(window.view[: min(len(window), _HEADER_BYTES)])
    if not head.startswith(_MAGIC):
        raise FormatError(
            source.path, "the file does not begin with the snoop magic number", offset=0, excerpt=head[:8]
        )
    if len(head) < _HEADER_BYTES:
        raise FormatError(source.path, "the file header is truncated", offset=len(head))
    version, data_link = struct.unpack(">II", head[8:])
    if version != 2:
        raise FormatError(source.path, f"the version {version} of the snoop format is not supported", offset=8)
    link_type = _LINK_TYPES.get(data_link, _UNKNOWN + data_link)
    interface = CaptureInterface(link_type, description=f"snoop data link type {data_link}")
    source.interfaces.append(interface)
    source.variant = "version 2, µs"
    window.skip(_HEADER_BYTES)

    def records(data: Bytes, at: Numbers) -> PacketRecords:
        words = rows(data, at, 24).view(">u4").reshape(-1, 6).astype(np.int64)
        if len(words):  # drops are counted from the start
            interface.dropped_packets = int(words[-1, 3])
        wrong = words[:, 5] >= 1_000_000
        source.no_time(_NO_FRACTION, int(np.count_nonzero(wrong)))
        time_ns = np.where(wrong, NOT_A_TIME, words[:, 4] * 1_000_000_000 + words[:, 5] * 1000)
        captured = np.minimum(words[:, 1], words[:, 2] - 24)
        return PacketRecords(data, at + 24, captured, words[:, 0], time_ns, link_type)

    return batches(window, source, _LAYOUT, records)


def parse(stream: BinaryIO, *, path: str) -> CaptureTables:
    """Return the TCP segments of a snoop file, and the counts of all other packets."""
    return decode_stream(stream, SourceFile(path, "snoop"), blocks)


FORMAT = Format(
    name="snoop",
    layer="packet",
    description="packet capture of Solaris' snoop",
    source="RFC 1761",
    sniff=sniff,
    parse=parse,
    blocks=blocks,
)
