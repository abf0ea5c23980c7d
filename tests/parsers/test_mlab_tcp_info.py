"""Snapshots of M-Lab's tcp-info."""

from __future__ import annotations

import base64
import json
import struct

from hypothesis import given

import parsers
from parsers import mlab_tcp_info
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

SNAPSHOT = {
    "Timestamp": "2026-02-03T10:11:12.5Z",
    "RawIDM": base64.b64encode(
        struct.pack(
            "<BBBB2s2s16s16sIQIIIII", 10, 1, 1, 0, b"\x01\xbb", b"\x9c\x40",
            bytes(10) + b"\xff\xff\x0a\0\0\1", bytes(10) + b"\xff\xff\x0a\0\0\2", 0, 77, 300, 0, 5000, 0, 12,
        )
    ).decode(),
    "Attributes": [
        None, None, base64.b64encode(bytes(24) + struct.pack("<I", 3) + bytes(200)).decode(), None,
        "Y3ViaWMA",
    ],
}  # fmt: skip


def test_snapshots_of_tcp_info_are_states_of_the_sender() -> None:
    head = b'{"Timestamp":"0001-01-01T00:00:00Z","Metadata":{"UUID":"x","Sequence":0}}\n'
    data = head + json.dumps(SNAPSHOT, separators=(",", ":")).encode() + b"\n{\n"
    assert parsers.recognise(data, path="x").name == "mlab-tcp-info"
    table = parsed(mlab_tcp_info.FORMAT, data)["tcp_state"]
    (row,) = table.rows()
    assert (row["ip_version"], row["port_local"], row["port_remote"], row["congestion_control"]) == (
        4,
        443,
        40000,
        "cubic",
    )
    assert (row["unacked_segments"], row["send_queue_bytes"], row["timer_expires_ns"]) == (3, 5000, 300_000_000)
    assert row["time_ns"] == 1_770_113_472_500_000_000
    assert table.provenance["skipped"] == {"not a JSON object": 1}


@given(data=damaged(json.dumps(SNAPSHOT).encode()))
def test_damaged_mlab_tcp_info_gives_tables_or_an_error(data: bytes) -> None:
    survives(mlab_tcp_info.parse, data)
