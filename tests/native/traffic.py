"""Frames of connections, and of all else that a capture holds."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.analysis.traffic import ACK, FIN, SYN
from tests.parsers.frames import ethernet, ipv4, ipv6, tcp

if TYPE_CHECKING:
    import random


def some_connections(rng: random.Random, *, others: float = 0.0) -> list[bytes]:
    """Return frames of connections, some of which share ports, and now and then of anything else."""
    frames: list[bytes] = []
    for _ in range(rng.randrange(2, 9)):
        version, port = rng.choice((4, 4, 6)), 1000 + rng.randrange(5)
        ends = [rng.getrandbits(32), rng.getrandbits(32)]
        for step in range(rng.randrange(1, 30)):
            side = (0, 1, 0)[step] if step < 3 else rng.randrange(2)
            flags, size = {0: (SYN, 0), 1: (SYN | ACK, 0)}.get(step, (ACK, rng.randrange(1400)))
            source, destination = (80, port) if side else (port, 80)
            flags |= FIN * (step > 2 and rng.random() < 0.02)
            ack = ends[1 - side] if step else 0
            numbers = {"seq": ends[side] % 2**32, "ack": ack % 2**32, "flags": flags}
            segment = tcp(sport=source, dport=destination, payload=bytes(size), **numbers)  # type: ignore[arg-type]
            ends[side] += rng.choice((1, 1, 1, 0, 2)) * (size + (step < 2))
            frames.append(frame(segment, version, side, len(frames)))
            if rng.random() < others:
                frames.append(rng.choice((arp, datagram, fragment))(rng))
    return frames


def frame(segment: bytes, version: int, side: int, number: int) -> bytes:
    """Return a segment in a packet of its own."""
    if version == 6:
        return ethernet(ipv6(segment, source=1 + side, destination=2 - side))
    hosts = ("10.0.0.1", "10.0.0.2")
    packet = ipv4(segment, source=hosts[side], destination=hosts[1 - side], identification=number + 1)
    return ethernet(packet)


def arp(rng: random.Random) -> bytes:
    """Return a request of ARP."""
    return ethernet(rng.randbytes(28), ethertype=0x0806)


def datagram(rng: random.Random) -> bytes:
    """Return a datagram."""
    return ethernet(ipv4(bytes(4) + bytes((0, 12, 0, 0)) + rng.randbytes(4), protocol=17))


def any_datagram(rng: random.Random) -> bytes:
    """Return a datagram of UDP: as QUIC, of GSMTAP, as the SYN of WTCP, damaged, or cut."""
    port, payload = rng.choice((443, 443, 4729)), rng.randbytes(rng.choice((0, 22, 22, 300)))
    if rng.random() < 0.3:
        payload = bytes((0x11, 0, *bytes(8))) + payload[10:]
    length = len(payload) + 8 if rng.random() < 0.9 else rng.randrange(40)
    udp = struct.pack(">4H", 5000, port, length, 0) + payload
    complete = ethernet(ipv4(udp, protocol=17) if rng.random() < 0.5 else ipv6(udp, next_header=17))
    return complete if rng.random() < 0.9 else complete[: rng.randrange(14, len(complete))]


def fragment(rng: random.Random) -> bytes:
    """Return a later fragment of a datagram."""
    return ethernet(ipv4(rng.randbytes(24), protocol=17, fragment=8))
