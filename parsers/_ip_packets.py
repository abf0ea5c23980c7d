"""The IP packets of a capture as bytes, whatever link they were captured on."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import Flag, IpProtocol, OptionKind, SourceFile
from multitracer.errors import InputError
from multitracer.tables import NOT_A_TIME
from parsers._packets.chain import ip_packets, link
from parsers._packets.decode import by_link_type
from parsers._packets.layers import PacketCounts
from parsers._packets.steps import STEPS
from parsers._read import format_of_capture
from parsers._stream import open_stream

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from multitracer.tables import Mask, Numbers
    from parsers._packets.layers import LayerPackets, PacketRecords

    Choose = Callable[[LayerPackets, int], Mask]
    """Returns which packets to use: bool, shape (n,); the second argument is their IP version."""


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


class UdpDatagram(NamedTuple):
    """A UDP datagram in an IP packet."""

    ports: tuple[int, int]
    """Ports of source and destination."""
    payload: bytes
    """Captured part of the payload."""
    length: int
    """Bytes of the payload, by UDP's header; with what is cut off."""


_UDP_HEADER = Struct(">HHH2x")  # RFC 768: ports of source and destination, length, checksum
_UDP_BYTES = _UDP_HEADER.size


def udp_datagram(packet: IpPacket) -> UdpDatagram | None:
    """Return the UDP datagram of a packet; None of any other, a later fragment, or a cut header."""
    data = packet.data
    if packet.version == 4:
        if len(data) < 28 or data[9] != IpProtocol.UDP or data[6] & 0x1F or data[7]:
            return None
        at, end = (data[0] & 0x0F) * 4, int.from_bytes(data[2:4], "big")
    elif len(data) >= 48 and data[6] == IpProtocol.UDP:
        at, end = 40, 40 + int.from_bytes(data[4:6], "big")
    else:
        return None
    if len(data) < at + _UDP_BYTES:
        return None
    source, destination, length = _UDP_HEADER.unpack_from(data, at)
    payload = data[at + _UDP_BYTES : min(end, len(data)) if end > at else len(data)]
    return UdpDatagram((source, destination), payload, max(length - _UDP_BYTES, 0))


def addresses(packet: IpPacket) -> tuple[bytes, bytes]:
    """Return source and destination address of a packet with a complete header: 4 or 16 bytes each."""
    if packet.version == 4:
        return packet.data[12:16], packet.data[16:20]
    return packet.data[8:24], packet.data[24:40]


def read_ip_packets(path: str | os.PathLike[str], keep: Choose | None = None) -> Iterator[IpPacket]:
    """Yield the outermost IP packets of a capture, in its order; all others are skipped.

    `keep` chooses among the packets of an IP version, as in `packets_of`.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        As `read_capture`.
    """
    before = 0
    for records in read_records(path):
        yield from packets_of(records, before + 1, keep=keep)
        before += len(records)


def read_packets_of_frames(path: str | os.PathLike[str], frames: Numbers) -> Iterator[IpPacket]:
    """Yield the outermost IP packets of some frames of a capture; reading stops behind the last one.

    Parameters
    ----------
    path : str or path-like
    frames : ndarray of int64, shape (n,)
        Numbers of packets in the file, from 1, ascending.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        As `read_capture`.
    """
    before = 0
    for records in read_records(path):
        first, behind = np.searchsorted(frames, (before + 1, before + len(records) + 1))
        if first < behind:
            yield from packets_of(records, before + 1, frames[first:behind] - before - 1)
        before += len(records)
        if behind == len(frames):
            return


def read_multipath_openings(path: str | os.PathLike[str]) -> Iterator[IpPacket]:
    """Return the TCP packets of a capture that may open a subflow of Multipath TCP (RFC 8684).

    They are SYNs, and segments whose option MP_CAPABLE lies first, behind two NOPs or behind timestamps. Others are
    not looked at one by one.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        As `read_capture`.
    """
    return read_ip_packets(path, keep=_may_open)


_CAPABLE_AT = (20, 22, 32)
"""Where Linux and others place the option, bytes from the TCP header."""


def _may_open(packets: LayerPackets, version: int) -> Mask:
    data, at = packets.data, packets.at
    protocol = data[at + (9 if version == 4 else 6)]
    tcp_at = at + (4 * (data[at] & 0x0F).astype(np.int64) if version == 4 else 40)
    opens = (data[tcp_at + 13] & np.uint8(Flag.SYN)) != 0
    options_end = 4 * (data[tcp_at + 12] >> 4).astype(np.int64)
    for place in _CAPABLE_AT:
        is_capable = (data[tcp_at + place] == OptionKind.MPTCP) & (data[tcp_at + place + 2] >> 4 == 0)
        opens |= is_capable & (options_end > place)
    return np.asarray((protocol == IpProtocol.TCP) & opens & (tcp_at + 14 <= packets.end))


def read_records(path: str | os.PathLike[str], source: SourceFile | None = None) -> Iterator[PacketRecords]:
    """Yield the packet records of a capture, many at a time; their bytes stay valid until the next ones.

    The facts of the file are stored in `source`, if there is one.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        As `read_capture`.
    """
    with open_stream(path) as stream:
        fmt = format_of_capture(stream)
        if fmt.blocks is None:
            raise InputError(f"{stream.path}: this is {fmt.name}, but the file must be pcap or pcapng")
        yield from fmt.blocks(stream, source or SourceFile(stream.path, fmt.name))


def packets_of(
    records: PacketRecords, first_frame: int, chosen: Numbers | None = None, keep: Choose | None = None
) -> Iterator[IpPacket]:
    """Yield the outermost IP packets of a block, whose first record has the number `first_frame`.

    `chosen` are the indexes of the records to use, as in `by_link_type`; `keep` says which packets of a version of IP
    to use.
    """
    if not len(records):
        return
    parts = []
    for link_type, packets in by_link_type(records, chosen):
        for part, version in ip_packets(packets, link(link_type), STEPS, PacketCounts({}, {})):
            own = part if keep is None else part.keep(keep(part, version))
            begins, ends = own.at.tolist(), own.end.tolist()
            parts += [(*row, version) for row in zip(own.record.tolist(), begins, ends, strict=True)]
    times = records.time_ns.tolist()
    for record, begin, end, version in sorted(parts):
        time_ns = times[record]
        data = records.data[begin:end].tobytes()
        yield IpPacket(None if time_ns == NOT_A_TIME else time_ns, data, version, first_frame + record)
