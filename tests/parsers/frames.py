"""Builds capture files byte by byte, so that tests do not read with what they write."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parsers import pcap, pcapng

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.capture import CaptureTables

EPOCH_S = 1_700_000_000
"""Seconds of the first packet unless a test says otherwise."""


@dataclass(frozen=True)
class Packet:
    """One record: its bytes, its time in ticks of the file, its length on the wire."""

    data: bytes
    ticks: int | None = None
    original: int | None = None


class Record(NamedTuple):
    """A packet of which all is said."""

    data: bytes
    ticks: int
    original: int


def as_packets(packets: Iterable[bytes | Packet], ticks_per_second: int) -> list[Record]:
    """Give packets without a time one, a millisecond apart."""
    complete = [p if isinstance(p, Packet) else Packet(p) for p in packets]
    step = max(ticks_per_second // 1000, 1)
    return [
        Record(
            p.data,
            EPOCH_S * ticks_per_second + i * step if p.ticks is None else p.ticks,
            len(p.data) if p.original is None else p.original,
        )
        for i, p in enumerate(complete)
    ]


def pcap_file(
    packets: Iterable[bytes | Packet],
    *,
    link_type: int = 1,
    order: str = "<",
    magic: int = 0xA1B2C3D4,
    version: tuple[int, int] = (2, 4),
    extra: bytes = b"",
    record_extra: bytes = b"",
    swapped: bool = False,
) -> bytes:
    """Return a pcap file; `extra` follows its header, `record_extra` each record's."""
    per_second = 10**9 if magic in (0xA1B23C4D, 0x1C0001AC) else 10**6
    out = [struct.pack(order + "IHHiIII", magic, *version, 0, 0, 262144, link_type), extra]
    for p in as_packets(packets, per_second):
        lengths = (p.original, len(p.data)) if swapped else (len(p.data), p.original)
        out.append(struct.pack(order + "IIII", *divmod(p.ticks, per_second), *lengths))
        out += [record_extra, p.data]
    return b"".join(out)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """Return a pcapng option, padded."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Return a pcapng block, padded."""
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<", options: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    """Return a section header block."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, *version, -1) + options, order)


def interface(link_type: int = 1, snap_length: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    """Return an interface description block."""
    return block(1, struct.pack(order + "HHI", link_type, 0, snap_length) + options, order)


def enhanced(
    data: bytes,
    ticks: int = EPOCH_S * 10**6,
    *,
    original: int | None = None,
    number: int = 0,
    options: bytes = b"",
    order: str = "<",
) -> bytes:
    """Return an enhanced packet block."""
    words = (number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data) if original is None else original)
    return block(6, struct.pack(order + "IIIII", *words) + padded(data) + options, order)


def obsolete(data: bytes, ticks: int = EPOCH_S * 10**6, *, number: int = 0, order: str = "<") -> bytes:
    """Return an obsolete packet block; its drop counter is not zero, to be in the way."""
    words = (number, 7, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(2, struct.pack(order + "HHIIII", *words) + padded(data), order)


def simple(data: bytes, *, original: int | None = None, order: str = "<") -> bytes:
    """Return a simple packet block."""
    length = struct.pack(order + "I", len(data) if original is None else original)
    return block(3, length + data, order)


def padded(data: bytes) -> bytes:
    """Return data with zeros up to a multiple of four."""
    return data + bytes(-len(data) % 4)


def read(data: bytes) -> CaptureTables:
    """Return what a file of either format holds."""
    fmt = pcapng if data[:4] == b"\n\r\r\n" else pcap
    return fmt.parse(io.BytesIO(data), path="test")


def tcp(
    *,
    sport: int = 1000,
    dport: int = 80,
    seq: int = 1,
    ack: int = 2,
    flags: int = 0x10,
    window: int = 500,
    options: bytes = b"",
    payload: bytes = b"",
) -> bytes:
    """Return a TCP segment; options are padded with zeros to a multiple of four bytes."""
    options = padded(options)
    offset_flags = (5 + len(options) // 4) << 12 | flags
    head = struct.pack(">HHIIHHHH", sport, dport, seq, ack, offset_flags, window, 0, 0)
    return head + options + payload


def ipv4(
    payload: bytes,
    *,
    source: str = "10.0.0.1",
    destination: str = "10.0.0.2",
    protocol: int = 6,
    total: int | None = None,
    identification: int = 7,
    fragment: int = 0,
    options: bytes = b"",
) -> bytes:
    """Return an IPv4 packet; `fragment` is the field with flags and offset."""
    options = padded(options)
    ihl = 5 + len(options) // 4
    length = ihl * 4 + len(payload) if total is None else total
    addresses = bytes(int(part) for part in f"{source}.{destination}".split("."))
    head = struct.pack(">BBHHHBBH", 0x40 | ihl, 0, length, identification, fragment, 64, protocol, 0)
    return head + addresses + options + payload


def ipv6(
    payload: bytes, *, source: int = 1, destination: int = 2, next_header: int = 6, length: int | None = None
) -> bytes:
    """Return an IPv6 packet between fd00::source and fd00::destination."""
    head = struct.pack(">IHBB", 6 << 28, len(payload) if length is None else length, next_header, 64)
    ends = [b"\xfd" + bytes(13) + end.to_bytes(2, "big") for end in (source, destination)]
    return head + b"".join(ends) + payload


def ethernet(payload: bytes, ethertype: int | None = None) -> bytes:
    """Return an Ethernet frame; the EtherType is that of the IP packet unless given."""
    if ethertype is None:
        ethertype = 0x0800 if payload[0] >> 4 == 4 else 0x86DD
    return b"\x02" * 6 + b"\x04" * 6 + struct.pack(">H", ethertype) + payload


def frame(**fields: object) -> bytes:
    """Return a TCP segment in IPv4 in Ethernet."""
    return ethernet(ipv4(tcp(**fields)))  # type: ignore[arg-type]


def same(one: CaptureTables, other: CaptureTables) -> bool:
    """Return whether two captures hold the same tables and facts."""
    tables = ("segments", "flows", "sack_blocks", "syn_options")
    for name in tables:
        a, b = getattr(one, name), getattr(other, name)
        if len(a) != len(b) or not all(np.array_equal(a[c], b[c]) for c in a.schema.names):
            return False
    return one.files == other.files
