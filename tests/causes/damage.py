"""Captures as they are sometimes handed in: with packets that were never captured, cut short, or ended amid one.

Each function rewrites one capture in place (pcap, ns, little-endian); what was recorded is whole.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEADER_BYTES, _PACKET_BYTES, _SNAP_AT = 24, 16, 16
_S = 1_000_000_000


class _Packet(NamedTuple):
    begin: int
    end: int
    seen_ns: int


def _packets(data: bytes) -> Iterator[_Packet]:
    at = _HEADER_BYTES
    while at < len(data):
        seconds, fraction, length = struct.unpack_from("<III", data, at)
        end = at + _PACKET_BYTES + length
        yield _Packet(at, end, seconds * _S + fraction)
        at = end


def lose(capture: Path, share: float, *, run: float, seed: int) -> int:
    """Leave out a share of the packets, in runs as of a buffer that was full; return how many."""
    chance = random.Random(f"damage {seed}")
    data = capture.read_bytes()
    kept, lost, losing = [data[:_HEADER_BYTES]], 0, False
    begins = share / (1 - share) / run
    for packet in _packets(data):
        losing = chance.random() >= 1 / run if losing else chance.random() < begins
        lost += losing
        if not losing:
            kept.append(data[packet.begin : packet.end])
    capture.write_bytes(b"".join(kept))
    return lost


def snap(capture: Path, most: int) -> None:
    """Keep so many bytes of each packet."""
    data = capture.read_bytes()
    head = bytearray(data[:_HEADER_BYTES])
    struct.pack_into("<I", head, _SNAP_AT, most)
    kept = [bytes(head)]
    for packet in _packets(data):
        length = min(most, packet.end - packet.begin - _PACKET_BYTES)
        one = bytearray(data[packet.begin : packet.begin + _PACKET_BYTES + length])
        struct.pack_into("<I", one, 8, length)
        kept.append(bytes(one))
    capture.write_bytes(b"".join(kept))


def cut(capture: Path, share: float) -> int:
    """Let the file end in the middle of a packet, at a share of its time; return when the last whole one was seen."""
    data = capture.read_bytes()
    packets = list(_packets(data))
    end_ns = packets[0].seen_ns + share * (packets[-1].seen_ns - packets[0].seen_ns)
    whole = [packet for packet in packets if packet.seen_ns <= end_ns]
    ends = (whole[-1].end + packets[min(len(whole), len(packets) - 1)].end) // 2
    capture.write_bytes(data[:ends])
    return whole[-1].seen_ns
