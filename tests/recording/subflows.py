"""Packets that open subflows of MPTCP connections, as bytes."""

from __future__ import annotations

import struct


def capable(version: int, *keys: int) -> bytes:
    """Return MP_CAPABLE with so many keys, filled up to whole words."""
    option = bytes([30, 4 + 8 * len(keys), version, 0x81 if not version else 0x01])
    return option + b"".join(key.to_bytes(8, "big") for key in keys)


def join(token: int) -> bytes:
    """Return MP_JOIN of a SYN."""
    return bytes([30, 12, 0x10, 1]) + token.to_bytes(4, "big") + bytes(4)


def tcp_header(options: bytes, *, ports: tuple[int, int] = (1, 2), seq: int = 0, ack: int = 0, flags: int = 2) -> bytes:
    """Return a TCP header with these options, of whole words."""
    words = (20 + len(options)) // 4
    return struct.pack("!HHIIHHHH", *ports, seq, ack, words << 12 | flags, 60_000, 0, 0) + options


def ip_packet(source: str, destination: str, segment: bytes) -> bytes:
    """Return an IPv4 packet."""
    ends = (bytes(int(part) for part in host.split(".")) for host in (source, destination))
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, 6, 0) + b"".join(ends) + segment
