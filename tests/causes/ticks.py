"""Gives captures the timestamps of hosts whose clock ticks every 4 or 10 ms, as in older and smaller kernels; or
the clock of a host that nobody synchronised (`shift`).

The kernel that recorded them ticks every millisecond (RFC 7323, section 5.4, allows 1 ms to 1 s). So each
host's TSval is divided by its tick afterwards, in both captures and where the peer echoes it (TSecr), and the
checksums of TCP follow. What the kernels did is what they do with ticks of 1 ms: they measure round trips by
the times of their packets, and use timestamps to tell needless repetitions and old packets.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_HEADER_BYTES, _PACKET_BYTES = 24, 16
_LINK_BYTES = {1: 14, 12: 0, 101: 0}
"""Link type -> bytes before the IP header: Ethernet, raw IP."""
_ETHERNET, _TCP, _TIMESTAMPS = 1, 6, 8
_NOP, _ACK = 1, 16
_S = 1_000_000_000

Flow = tuple[bytes, bytes]


def shift(capture: Path, *, offset_ns: int, ppm: float) -> None:
    """Rewrite when the packets of a capture (pcap, ns, little-endian) were seen, by a clock that is off and drifts."""
    data = bytearray(capture.read_bytes())
    at, first_ns = _HEADER_BYTES, 0
    while at < len(data):
        seconds, fraction, length = struct.unpack_from("<III", data, at)
        seen_ns = seconds * _S + fraction
        first_ns = first_ns or seen_ns
        seen_ns += offset_ns + round((seen_ns - first_ns) * ppm / 1e6)
        struct.pack_into("<II", data, at, *divmod(seen_ns, _S))
        at += _PACKET_BYTES + length
    capture.write_bytes(data)


class Stamp(NamedTuple):
    """Where a packet has its timestamps."""

    source: bytes
    """Address and port."""
    target: bytes
    tcp: int
    """Offset of the TCP header."""
    at: int
    """Offset of TSval; TSecr follows."""


def coarsen(captures: Mapping[str, Path], addresses: Mapping[bytes, str], ticks_ms: Mapping[str, int]) -> None:
    """Rewrite captures in place.

    Parameters
    ----------
    captures : mapping of host to path
        In pcap, little-endian, of the hosts themselves.
    addresses : mapping of bytes to host
        Packed IP addresses.
    ticks_ms : mapping of host to int
        Those left out keep a tick of 1 ms.
    """
    first: dict[Flow, int] = {}
    for host, path in captures.items():
        data = bytearray(path.read_bytes())
        ethernet = struct.unpack_from("<I", data, 20)[0] == _ETHERNET
        for stamp in stamps(data):
            sender = addresses[stamp.source[:-2]]
            partial = ethernet and sender == host  # the device would have completed the checksum
            hosts = {end: addresses.get(end[:-2], "") for end in stamp[:2]}  # a SYN may be for nobody
            ticks = {end: ticks_ms.get(name, 1) for end, name in hosts.items()}
            _rewrite(data, stamp, first, ticks, with_sum=not partial)
        path.write_bytes(data)


def stamps(data: bytes | bytearray) -> Iterator[Stamp]:
    """Yield where each packet of a capture has its timestamps."""
    link_bytes = _LINK_BYTES[struct.unpack_from("<I", data, 20)[0]]
    at = _HEADER_BYTES
    while at < len(data):
        begin = at + _PACKET_BYTES
        at = begin + struct.unpack_from("<I", data, at + 8)[0]
        ip = begin + link_bytes
        is6 = data[ip] >> 4 == 6
        tcp = ip + (40 if is6 else (data[ip] & 15) * 4)
        if data[ip + (6 if is6 else 9)] != _TCP:
            continue
        option = _timestamps(data, tcp + 20, tcp + (data[tcp + 12] >> 4) * 4)
        if option is not None:
            a, b, size = (ip + 8, ip + 24, 16) if is6 else (ip + 12, ip + 16, 4)
            source = bytes(data[a : a + size] + data[tcp : tcp + 2])
            target = bytes(data[b : b + size] + data[tcp + 2 : tcp + 4])
            yield Stamp(source, target, tcp, option + 2)


def _timestamps(data: bytes | bytearray, at: int, end: int) -> int | None:
    while at < end and data[at]:
        if data[at] == _TIMESTAMPS:
            return at
        at += 1 if data[at] == _NOP else max(2, data[at + 1])
    return None


def _rewrite(
    data: bytearray, stamp: Stamp, first: dict[Flow, int], ticks: Mapping[bytes, int], *, with_sum: bool
) -> None:
    """Divide TSval by its host's tick and TSecr by the peer's; the first value seen unwraps the rest."""
    old = bytes(data[stamp.at : stamp.at + 8])
    value, echo = struct.unpack(">II", old)
    mine, peers = (stamp.source, stamp.target), (stamp.target, stamp.source)
    value = _ticked(value, first.setdefault(mine, value), ticks[stamp.source])
    if data[stamp.tcp + 13] & _ACK:
        echo = _ticked(echo, first.setdefault(peers, echo), ticks[stamp.target])
    new = struct.pack(">II", value, echo)
    data[stamp.at : stamp.at + 8] = new
    if with_sum:
        data[stamp.tcp + 16 : stamp.tcp + 18] = _sum(data[stamp.tcp + 16 : stamp.tcp + 18], old, new)


def _ticked(value: int, first: int, tick: int) -> int:
    since = (value - first + 2**31) % 2**32 - 2**31
    return (first + since) // tick % 2**32


def _sum(before: bytes | bytearray, old: bytes, new: bytes) -> bytes:
    """Return a checksum after some words changed (RFC 1624, equation 3)."""
    total = ~int.from_bytes(before, "big") & 0xFFFF
    total += sum(~word & 0xFFFF for word in struct.unpack(">4H", old)) + sum(struct.unpack(">4H", new))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")
