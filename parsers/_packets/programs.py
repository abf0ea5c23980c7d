"""Which program of a phone a connection belongs to, and whether a VPN inside the phone made its packets: PCAPdroid.

PCAPdroid writes a trailer of 32 bytes behind a packet: a magic number, the user number of the program (an Android
program has one of its own), its name, and a checksum. In pcapng the user number is a comment of the packet
("u-10123", only where the section's header names PCAPdroid), and a custom block names the programs. In its VPN mode
the phone's address is always the same.

Source: PCAPdroid, docs/app_api.md; app/src/main/jni/core/pcap_dump.h (trailer, custom block) and CaptureService.java
(addresses).
"""

from __future__ import annotations

import re
import struct
from ipaddress import ip_address
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import IpProtocol
from parsers._packets.layers import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.captured import SourceFile
    from multitracer.tables import Numbers
    from parsers._packets.layers import PacketRecords

_ETHERNET = 1
_RAW_IP = (12, 14, 101)
_TRAILER_BYTES = 32
_MAGIC = b"\x01\x07\x20\x21"
_VPN_ADDRESSES = (bytes((10, 215, 173, 1)), ip_address("fd00:2:fd00:1:fd00:1:fd00:1").packed)
_PROBED = 100
"""Packets that are looked at: PCAPdroid adds its trailer to each that has room for it."""
_ADDRESSES = {4: (12, 4), 6: (8, 16)}
"""Position and length of an IP header's addresses."""
_SHORTEST, _HEAD_BYTES = 28, 64
"""Octets of an IP packet that are looked at: with the ports of UDP, and behind most options of IPv4."""
_MOST_FLOWS = 100_000
_MOST_PROGRAMS = 10_000
_COMMENT = re.compile(rb"u-(-?\d{1,10})")
_ENTERPRISE, _UID_MAP = 62652, 1
"""PCAPdroid's private enterprise number, and the type of its custom block with names."""
_UNKNOWN = -1
_LONGEST_NAME = 64


def is_pcapdroid(application: bytes) -> bool:
    """Return whether the application that a section (pcapng) names as its writer is PCAPdroid."""
    return application.startswith(b"PCAPdroid")


def user_of_comment(value: bytes) -> int | None:
    """Return the user number of a packet's comment; None if it is another comment."""
    match = _COMMENT.fullmatch(value)
    return int(match[1]) if match else None


def note_names(source: SourceFile, block: bytes, order: str) -> None:
    """Take the name of a program from a custom block (pcapng) of PCAPdroid; ignore other blocks."""
    if len(block) < 26 or len(source.programs) >= _MOST_PROGRAMS:
        return
    enterprise, _, kind, _, user, package, name = struct.unpack_from(f"{order}IHBBiBB", block, 8)
    text = block[22 : 22 + package + name]
    if (enterprise, kind) == (_ENTERPRISE, _UID_MAP) and len(text) == package + name:
        source.programs[user] = _printable(text[package:] or text)


def note_programs(records: PacketRecords, source: SourceFile) -> None:
    """Note the programs of the packets of a block, and in the first block whether they are of PCAPdroid's VPN."""
    if not source.packets:
        first = records.first(_PROBED)
        source.vpn = "PCAPdroid" if _are_of_vpn(first) else ""
        source.has_trailers = bool(len(_trailers(first)))
    if source.has_trailers:
        index = _first_of_each_flow(records, _trailers(records))
        behind = records.start[index] + records.captured[index]
        for row, trailer in zip(index.tolist(), rows(records.data, behind - _TRAILER_BYTES, 32).tolist(), strict=True):
            _note(source, records, row, trailer)
    if source.users:
        first_frame = source.packets + 1
        for frame, user in source.users.items():
            if 0 <= frame - first_frame < len(records):
                _note_flow(source, _flow_of(records, frame - first_frame), user)
        source.users.clear()


def _note(source: SourceFile, records: PacketRecords, row: int, trailer: bytes) -> None:
    (user,) = struct.unpack_from(">i", trailer, 4)
    if user not in source.programs and len(source.programs) < _MOST_PROGRAMS:
        source.programs[user] = _printable(trailer[8:28].split(b"\0")[0])
    _note_flow(source, _flow_of(records, row), user)


def _note_flow(source: SourceFile, flow: tuple[str, int, str, int] | None, user: int) -> None:
    if flow is not None and user != _UNKNOWN and len(source.users_of_flows) < _MOST_FLOWS:
        source.users_of_flows.setdefault(flow, user)


def _printable(name: bytes) -> str:
    text = name[:_LONGEST_NAME].decode("utf-8", "replace")
    return "".join(c for c in text if c.isprintable())


def _trailers(records: PacketRecords) -> Numbers:
    """Return the indexes of the records with a trailer."""
    is_ethernet = np.atleast_1d(np.equal(records.link_type, _ETHERNET))
    index = np.flatnonzero((records.captured >= 14 + 20 + _TRAILER_BYTES) & is_ethernet)
    at = records.start[index] + records.captured[index] - _TRAILER_BYTES
    return index[rows(records.data, at, 4) == np.frombuffer(_MAGIC, "V4")[0]] if len(index) else index


def _first_of_each_flow(records: PacketRecords, index: Numbers) -> Numbers:
    """Return the indexes of one packet of each direction of a flow, and all with IP options; Ethernet only."""
    at = records.start[index] + 14
    first_octet = records.data[at]
    is_4, is_6 = first_octet == 0x45, first_octet >> 4 == 6
    chosen = [index[~(is_4 | is_6)]]
    for is_its, begin, size in ((is_4, 12, 12), (is_6, 8, 36)):  # addresses, and the ports behind them
        _, first = np.unique(rows(records.data, at[is_its] + begin, size), return_index=True)
        chosen.append(index[is_its][first])
    return np.sort(np.concatenate(chosen))


def _head_of(records: PacketRecords, row: int) -> bytes:
    """Return the first bytes of an IP packet; empty if the link is another one, or they were not captured."""
    link_type = records.link_type if isinstance(records.link_type, int) else int(records.link_type[row])
    offset = 14 if link_type == _ETHERNET else 0
    at, end = int(records.start[row]) + offset, int(records.start[row] + records.captured[row])
    is_read = (link_type == _ETHERNET or link_type in _RAW_IP) and end - at >= _SHORTEST
    return records.data[at : min(at + _HEAD_BYTES, end)].tobytes() if is_read else b""


def _addresses(data: bytes) -> Iterator[bytes]:
    """Yield source and destination of an IP packet, by its first bytes."""
    begin, size = _ADDRESSES.get(data[0] >> 4, (0, 0)) if data else (0, 0)
    if size and len(data) >= begin + 2 * size:
        yield from (data[begin : begin + size], data[begin + size : begin + 2 * size])


def _are_of_vpn(records: PacketRecords) -> bool:
    """Return whether most packets have the address that a phone has in PCAPdroid's VPN."""
    heads = [_head_of(records, row) for row in range(len(records))]
    ours = sum(any(address in _VPN_ADDRESSES for address in _addresses(head)) for head in heads)
    return 2 * ours > len(records)


def _flow_of(records: PacketRecords, row: int) -> tuple[str, int, str, int] | None:
    """Return source, port, destination and port of a TCP segment or UDP datagram; None for others."""
    head = _head_of(records, row)
    if not (addresses := [str(ip_address(address)) for address in _addresses(head)]):
        return None
    protocol, ports = (head[9], (head[0] & 15) * 4) if head[0] >> 4 == 4 else (head[6], 40)
    if protocol not in (IpProtocol.TCP, IpProtocol.UDP) or len(head) < ports + 4:
        return None
    sport, dport = struct.unpack_from(">2H", head, ports)
    return (addresses[0], sport, addresses[1], dport)
