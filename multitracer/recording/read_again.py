"""A few packets of a capture, read again from its file: for what the tables do not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import parsers
from multitracer.recording.inputs import STANDARD_INPUT, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.captured import SourceFile
    from multitracer.tables import Array, Table
    from parsers import IpPacket

MOST_BYTES = 64 << 20
"""Maximum size of a file, unpacked, that is read again: a tenth of a second. Of a larger one an answer would wait."""


def packets_of_rows(files: Sequence[SourceFile], segments: Table, rows: Array) -> dict[int, IpPacket]:
    """Return the IP packets of some segments by their rows.

    Those of standard input, of large files, and of files that cannot be read again are left out.

    Parameters
    ----------
    files : sequence of SourceFile
        The files of the capture.
    segments : Table
        SEGMENTS or TCP_SEGMENTS of the capture.
    rows : ndarray of int64, shape (n,)
        Rows of `segments`, in any order.
    """
    packets: dict[int, IpPacket] = {}
    for number in np.unique(segments["file"][rows]).tolist():
        file, own = files[number], rows[segments["file"][rows] == number]
        if file.path == STANDARD_INPUT or file.bytes > MOST_BYTES:
            continue
        frames = segments["frame"][own].astype(np.int64)
        row_of = dict(zip(frames.tolist(), own.tolist(), strict=True))
        try:
            for packet in parsers.read_packets_of_frames(file.path, np.unique(frames)):
                packets[row_of[packet.frame]] = packet
        except UNREADABLE:
            continue
    return packets


def hop_limit(packet: IpPacket) -> int | None:
    """Return the TTL (IPv4) or the hop limit (IPv6) of a packet; None if its header is cut."""
    at = 8 if packet.version == 4 else 7
    return packet.data[at] if len(packet.data) > at else None
