"""The IP packets of a capture as bytes, whatever link they were captured on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.capture import SourceFile
from multitracer.errors import InputError
from multitracer.tables import NOT_A_TIME
from parsers._packets.chain import ip_packets, link
from parsers._packets.decode import by_link_type
from parsers._packets.layers import Ledger
from parsers._packets.steps import STEPS
from parsers._read import BLOCKS, format_of_capture
from parsers._stream import open_stream

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from parsers._packets.decode import Records


class IpPacket(NamedTuple):
    """An IP packet as captured."""

    time_ns: int | None
    """Nanoseconds since 1970; None without a time."""
    data: bytes
    """From its IP header to where the capture cut it."""
    version: int
    """4 or 6, as the layer before said."""
    frame: int
    """Number of the packet in its file, from 1."""


def read_ip_packets(path: str | os.PathLike[str]) -> Iterator[IpPacket]:
    """Yield the outermost IP packets of a capture, in its order; all others are skipped.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        As `read_capture`.
    """
    with open_stream(path) as stream:
        fmt = format_of_capture(stream)
        if fmt.name not in BLOCKS:
            raise InputError(f"{stream.path}: this is {fmt.name}, not pcap or pcapng")
        before = 0
        for records in BLOCKS[fmt.name](stream, SourceFile(stream.path, fmt.name)):
            yield from packets_of(records, before + 1)
            before += len(records)


def packets_of(records: Records, first_frame: int) -> Iterator[IpPacket]:
    """Yield the outermost IP packets of a block, whose first record has the number `first_frame`."""
    if not len(records):
        return
    parts = []
    for link_type, packets in by_link_type(records):
        for part, version in ip_packets(packets, link(link_type), STEPS, Ledger({}, {})):
            begins, ends = part.at.tolist(), part.end.tolist()
            parts += [(*row, version) for row in zip(part.record.tolist(), begins, ends, strict=True)]
    times = records.time_ns.tolist()
    for record, begin, end, version in sorted(parts):
        time_ns = times[record]
        data = records.data[begin:end].tobytes()
        yield IpPacket(None if time_ns == NOT_A_TIME else time_ns, data, version, first_frame + record)
