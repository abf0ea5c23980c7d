"""The capture file of Endace DAG cards: records of the Extensible Record Format, one after the other.

The format has no magic number: a file is taken for it where five records chain. Sources: Endace, "ERF types
reference guide" (EDM11-01); the LINKTYPE_ERF page of tcpdump.org.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.captured import CaptureInterface, SourceFile
from multitracer.errors import FormatError
from parsers._capture.capture_file import decode_stream
from parsers._capture.window import RecordLength, StreamWindow, batches
from parsers._format import Format, Match
from parsers._packets.layers import PacketRecords, members, rows

if TYPE_CHECKING:
    from collections.abc import Generator

    from multitracer.capture import CaptureTables
    from multitracer.tables import Numbers
    from parsers._format import Readable
    from parsers._packets.layers import Bytes

_LAYOUT = RecordLength(16, struct.Struct(">H"), 10)
_HEADER = struct.Struct("<QBB")
_LENGTHS = struct.Struct(">HHH")
_CHAIN, _FEWEST = 5, 2
_DAY = 86_400 << 32
_EARLIEST, _LATEST = 631_152_000 << 32, 4_102_444_800 << 32
"""Range of plausible times, 1990 to 2100: there were no DAG cards before."""
_MORE_HEADERS = 0x80
_MOST_HEADERS = 16
_IS_ETHERNET, _IS_HDLC = members((2, 11, 16, 20)), members((1, 10, 15, 17, 19))
_IS_RAW_IP = members((22, 23))
_NO_PACKETS = (27, 48)
"""Types of records that are not packets: information about the card, and padding."""
_IS_NO_PACKET = members(_NO_PACKETS)
_KNOWN = frozenset(range(1, 28)) | {48}
_PPP, _CISCO, _RAW, _OTHER = 9, 104, 101, 197
"""LINKTYPEs; the last one is ERF's own, for records that are not taken apart."""
_LINK_TYPE = np.where(_IS_ETHERNET, 1, np.where(_IS_RAW_IP, _RAW, _OTHER))
"""Link type of each record type, except HDLC."""


def sniff(head: bytes) -> Match:
    """Return "yes" where five records follow each other, "maybe" where `head` ends before the fifth."""
    count, broken = _chained(head)
    if count >= _CHAIN:
        return "yes"
    return "maybe" if count >= _FEWEST and not broken and len(head) >= 4096 else "no"


def _chained(data: bytes) -> tuple[int, bool]:
    """Return how many plausible records follow from the start (at most five), and whether the next is not."""
    at, count, before = 0, 0, None
    while count < _CHAIN and at + 16 <= len(data):
        stamp, kind, _ = _HEADER.unpack_from(data, at)
        length, _, wire = _LENGTHS.unpack_from(data, at + 10)
        sane = kind & 0x7F in _KNOWN and length >= 16
        if sane and kind & 0x7F not in _NO_PACKETS:
            sane = wire > 0 and _EARLIEST < stamp < _LATEST and abs(stamp - (before or stamp)) < _DAY
            before = stamp
        if not sane:
            return count, True
        at, count = at + length, count + 1
    return count, False


def blocks(stream: Readable, source: SourceFile) -> Generator[PacketRecords]:
    """Yield the records of a file, one batch per window; note its facts in `source`.

    Raises
    ------
    FormatError
        If no five records chain.
    """
    window = StreamWindow(stream)
    window.refill()
    if _chained(bytes(window.view[: min(len(window), _CHAIN * 65_536)]))[0] < _CHAIN:
        raise FormatError(source.path, f"the file does not begin with {_CHAIN} valid ERF records", offset=0)
    source.variant = "little-endian stamps, 2^-32 s"
    source.interfaces.append(CaptureInterface(1, resolution_ns=1e9 / (1 << 32)))
    return batches(window, source, _LAYOUT, _records)


def _records(data: Bytes, at: Numbers) -> PacketRecords:
    at = at[~_IS_NO_PACKET[data[at + 8] & 0x7F]]
    stamps = rows(data, at, 8).view("<u8")
    seconds, fraction = stamps >> np.uint64(32), stamps & np.uint64(0xFFFF_FFFF)
    time_ns = seconds * np.uint64(1_000_000_000) + (fraction * np.uint64(1_000_000_000) >> np.uint64(32))
    lengths = rows(data, at + 10, 6).view(">u2").reshape(-1, 3).astype(np.int64)
    kind = data[at + 8] & 0x7F
    start = np.minimum(_behind_headers(data, at, at + lengths[:, 0]), at + lengths[:, 0])
    captured = np.minimum(at + lengths[:, 0] - start, np.maximum(lengths[:, 2], 0))
    hdlc = np.where(data[start] & 0x7F == 0x0F, _CISCO, _PPP)
    link_type = np.where(_IS_HDLC[kind], hdlc, _LINK_TYPE[kind])
    return PacketRecords(data, start, captured, lengths[:, 2], time_ns.astype(np.int64), link_type.astype(np.int64))


def _behind_headers(data: Bytes, at: Numbers, end: Numbers) -> Numbers:
    """Return where the packets begin, after extension headers and the two bytes before Ethernet."""
    start, more = at + 16, data[at + 8] & _MORE_HEADERS != 0
    for _ in range(_MOST_HEADERS):
        more &= start + 8 <= end
        if not more.any():
            break
        following = data[start] & _MORE_HEADERS != 0
        start = np.where(more, start + 8, start)
        more &= following
    behind: Numbers = start + 2 * _IS_ETHERNET[data[at + 8] & 0x7F]
    return behind


def parse(stream: BinaryIO, *, path: str) -> CaptureTables:
    """Return the TCP segments of an ERF file, and its other content."""
    return decode_stream(stream, SourceFile(path, "erf"), blocks)


FORMAT = Format(
    name="erf",
    layer="packet",
    description="packet capture of Endace DAG cards (Extensible Record Format)",
    source="Endace, ERF types reference guide, EDM11-01",
    sniff=sniff,
    parse=parse,
    blocks=blocks,
)
