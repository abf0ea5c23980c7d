"""Writes a capture of any size to standard output: long downloads beside short requests, at line rate.

`python -m tests.benchmarks.endless 5000 | multitracer analyze --stream -` is 5 GB; without a number it never
ends.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAYLOAD_BYTES = 1446
DOWNLOADS = 4
_TURNS = 500
"""Of a block: two segments and an ACK each, one download after the other."""
_BEHIND = 50
"""Turns of its own after which a download's segments are acknowledged."""
_APART = 1 << 30
"""Between the sequence numbers of two downloads: with equal ones, the packets of one would look like copies."""
_TURN_NS = 40_000
"""Some 600 Mbit/s."""
_START_S = 1_700_000_000
_CLIENT, _SERVER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
_SYN, _ACK, _FIN = 2, 16, 17


def _packet(payload_bytes: int) -> np.dtype[Any]:
    return np.dtype(
        [
            ("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("original", "<u4"),
            ("ethernet", "V12"), ("type", ">u2"), ("version", ">u2"), ("length", ">u2"), ("id", ">u2"),
            ("fragment", ">u2"), ("protocol", ">u2"), ("sum", ">u2"), ("source", "V4"), ("destination", "V4"),
            ("sport", ">u2"), ("dport", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("flags", ">u2"),
            ("window", ">u2"), ("rest", ">u4"), ("payload", f"V{payload_bytes}"),
        ]
    )  # fmt: skip


_DATA, _BARE = _packet(PAYLOAD_BYTES), _packet(0)
_TURN = np.dtype([("one", _DATA), ("two", _DATA), ("ack", _BARE)])
BLOCK_BYTES = _TURNS * _TURN.itemsize


def _fill(packets: NDArray[Any], time_ns: NDArray[np.int64], *, to_client: bool, ports: Any) -> None:
    """Write all that is the same in every packet, its time and its ports (the client's, shape (n,))."""
    size = packets.dtype.itemsize
    ends = (_SERVER, _CLIENT) if to_client else (_CLIENT, _SERVER)
    packets["s"], packets["ns"] = _START_S + time_ns // 10**9, time_ns % 10**9
    packets["captured"] = packets["original"] = size - 16
    packets["type"], packets["version"], packets["length"], packets["protocol"] = (0x800, 0x4500, size - 30, 0x4006)
    packets["source"], packets["destination"] = (np.array(end, "V4") for end in ends)
    packets["sport"], packets["dport"] = (80, ports) if to_client else (ports, 80)
    packets["flags"], packets["window"] = 0x5000 | _ACK, 60_000


def block(number: int) -> bytes:
    """Return the packets of a stretch of time, from 0 on."""
    turn = number * _TURNS + np.arange(_TURNS)
    packets = np.zeros(_TURNS, _TURN)
    own, isn = turn // DOWNLOADS, turn % DOWNLOADS * _APART
    for i, name in enumerate(("one", "two")):
        _fill(packets[name], turn * _TURN_NS + i * 1000, to_client=True, ports=20_000 + turn % DOWNLOADS)
        packets[name]["seq"] = (isn + 1 + (2 * own + i) * PAYLOAD_BYTES) % 2**32
        packets[name]["ack"], packets[name]["id"] = 1, (2 * own + i) % 2**16
    _fill(packets["ack"], turn * _TURN_NS + 2000, to_client=False, ports=20_000 + turn % DOWNLOADS)
    packets["ack"]["seq"] = 1
    packets["ack"]["ack"] = (isn + 1 + 2 * np.maximum(own - _BEHIND, 0) * PAYLOAD_BYTES) % 2**32
    return packets.tobytes() + _request(number)


def _request(number: int) -> bytes:
    """Return a short connection, handshake to FIN, after the block's other packets."""
    steps = (  # sent to the client, flags, seq, ack
        (False, _SYN, 0, 0), (True, _SYN | _ACK, 0, 1), (False, _ACK, 1, 1),
        (False, _FIN, 1, 1), (True, _FIN, 1, 2), (False, _ACK, 2, 2),
    )  # fmt: skip
    packets = np.zeros(len(steps), _BARE)
    time_ns = (number + 1) * _TURNS * _TURN_NS - 10_000 + np.arange(len(steps)) * 1000
    port = np.full(1, 21_000 + number % 40_000)
    for i, (to_client, flags, seq, ack) in enumerate(steps):
        each = packets[i : i + 1]
        _fill(each, time_ns[i : i + 1], to_client=to_client, ports=port)
        each["flags"], each["seq"], each["ack"] = 0x5000 | flags, seq + number, (ack and ack + number)
    return packets.tobytes()


def write(stream: BinaryIO, most_bytes: float) -> None:
    """Write a capture of about so many bytes."""
    stream.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))
    number = written = 0
    while written < most_bytes:
        written += stream.write(block(number))
        number += 1


if __name__ == "__main__":
    write(sys.stdout.buffer, float(sys.argv[1]) * 1e6 if len(sys.argv) > 1 else float("inf"))
