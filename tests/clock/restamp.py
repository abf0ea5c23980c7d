"""The packets of a capture, stamped again: what another clock would have written into the file."""

from __future__ import annotations

import gzip
import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.tables import Times


S, MS = 1_000_000_000, 1_000_000
_RECORD = struct.Struct("<IIII")
_FILE_HEADER_BYTES = 24


def stamps_of(source: Path) -> Times:
    """Return the stamps of a little-endian nanosecond pcap."""
    return np.array([time_ns for time_ns, _, _ in _records(_bytes(source))], dtype=np.int64)


def restamp(
    source: Path, target: Path, change: Callable[[Times], Times], *, order: bool = False, most: int = 0
) -> Path:
    """Write a capture with other stamps.

    Parameters
    ----------
    source, target : Path
        Little-endian nanosecond pcap, plain or gzip; plain.
    change : callable
        From the stamps, in the order of the records, to the new ones.
    order : bool
        Sort the records by their new stamps, as mergecap would.
    most : int
        Keep only this many packets; 0 for all.
    """
    data = _bytes(source)
    records = list(_records(data))[: most or None]
    times = change(np.array([time_ns for time_ns, _, _ in records], dtype=np.int64))
    rows = np.argsort(times, kind="stable") if order else np.arange(len(times))
    with target.open("wb") as stream:
        stream.write(data[:_FILE_HEADER_BYTES])
        for row in rows:
            _, length, packet = records[row]
            seconds, ns = divmod(int(times[row]), S)
            stream.write(_RECORD.pack(seconds, ns, len(packet), length) + packet)
    return target


def _bytes(source: Path) -> bytes:
    data = source.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _records(data: bytes) -> list[tuple[int, int, bytes]]:
    assert data[:4] == b"\x4d\x3c\xb2\xa1", "a nanosecond pcap, little-endian"
    found, at = [], _FILE_HEADER_BYTES
    while at < len(data):
        seconds, ns, kept, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        found.append((seconds * S + ns, length, data[at : at + kept]))
        at += kept
    return found
