"""Hand-made captures: segments noted one by one, without a file in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from multitracer.capture import CaptureTables
from multitracer.captured import CaptureMark, Flag, SourceFile
from multitracer.tables import FLOWS, SACK_BLOCKS, SEGMENTS, SYN_OPTIONS, Table

MS = 1_000_000
START_NS = 1_700_000_000_000_000_000
SYN, FIN, RST, ACK = int(Flag.SYN), int(Flag.FIN), int(Flag.RST), int(Flag.ACK)


@dataclass(frozen=True)
class Segment:
    """One segment; `side` 0 was seen first in its pair of endpoints."""

    side: int
    seq: int
    payload: int = 0
    flags: int = ACK
    ack: int = 0
    window: int = 1000
    ip_id: int = 0
    pair: int = 0
    time_ns: int | None = None
    stamp: tuple[int, int] | None = None
    sack: tuple[tuple[int, int], ...] = ()
    options: dict[str, Any] = field(default_factory=dict, hash=False, compare=False)
    marks: int = 0
    ttl: int = 64
    more: bytes = b""
    """Further options, as they stand in the header: whole words."""


def capture(segments: list[Segment], *, vlan: dict[int, int] | None = None, **facts: Any) -> CaptureTables:
    """Return a capture of the segments, 1 ms apart unless they say when."""
    n = len(segments)
    pairs = max((s.pair for s in segments), default=0) + 1
    columns = {
        "time_ns": [START_NS + i * MS if s.time_ns is None else s.time_ns for i, s in enumerate(segments)],
        "frame": range(1, n + 1),
        "file": [0] * n,
        "flow": [2 * s.pair + s.side for s in segments],
        "seq": [s.seq % 2**32 for s in segments],
        "ack": [s.ack % 2**32 for s in segments],
        "payload_bytes": [s.payload for s in segments],
        "flags": [s.flags for s in segments],
        "window": [s.window for s in segments],
        "ip_id": [s.ip_id for s in segments],
        "tsval": [s.stamp[0] % 2**32 if s.stamp else 0 for s in segments],
        "tsecr": [s.stamp[1] % 2**32 if s.stamp else 0 for s in segments],
        "sack_blocks": [len(s.sack) for s in segments],
        "marks": [s.marks | (int(CaptureMark.HAS_TIMESTAMPS) if s.stamp else 0) for s in segments],
    }
    source = SourceFile("made.pcap", "pcap", packets=n, **facts)
    return CaptureTables(
        [source],
        _table(SEGMENTS, columns),
        _flows(pairs, vlan or {}),
        _table(SACK_BLOCKS, _sack(segments)),
        _table(SYN_OPTIONS, _syn_options(segments)),
    )


def _table(schema: Any, columns: dict[str, Any]) -> Table:
    return Table(schema, {c.name: np.array(columns[c.name], dtype=c.dtype) for c in schema})


def _flows(pairs: int, vlan: dict[int, int]) -> Table:
    client, server = bytes([10, 0, 0, 1]) + bytes(12), bytes([10, 0, 0, 2]) + bytes(12)
    columns = {
        "ip_version": np.full(pairs, 4, np.uint8),
        "address_a": np.array([client] * pairs, "V16"),
        "address_b": np.array([server] * pairs, "V16"),
        "port_a": np.arange(40000, 40000 + pairs).astype(np.uint16),
        "port_b": np.full(pairs, 80, np.uint16),
        "vlan": np.array([vlan.get(pair, -1) for pair in range(pairs)], np.int64),
    }
    return Table(FLOWS, columns)


def _sack(segments: list[Segment]) -> dict[str, list[int]]:
    blocks = [(row, left, right) for row, s in enumerate(segments) for left, right in s.sack]
    return {
        "row": [b[0] for b in blocks],
        "left": [b[1] % 2**32 for b in blocks],
        "right": [b[2] % 2**32 for b in blocks],
    }


def _syn_options(segments: list[Segment]) -> dict[str, list[Any]]:
    syns = [(row, s.options) for row, s in enumerate(segments) if s.flags & SYN]
    return {
        "row": [row for row, _ in syns],
        "mss_bytes": [options.get("mss", -1) for _, options in syns],
        "window_scale": [options.get("scale", -1) for _, options in syns],
        "sack_permitted": [options.get("sack", False) for _, options in syns],
        "mptcp": [options.get("mptcp", False) for _, options in syns],
        "fast_open": [False for _ in syns],
    }


def handshake(client: int = 1000, server: int = 5000, **how: Any) -> list[Segment]:
    """Return the three segments that open a connection with these initial sequence numbers."""
    return [
        Segment(0, client, flags=SYN, **how),
        Segment(1, server, flags=SYN | ACK, ack=client + 1, **how),
        Segment(0, client + 1, ack=server + 1, **how),
    ]
