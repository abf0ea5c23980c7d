"""Reads files that consist only of records, each with its own length."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from parsers._capture.bounds import LARGEST_PACKET

if TYPE_CHECKING:
    import struct
    from collections.abc import Callable, Generator

    from multitracer.captured import SourceFile
    from multitracer.tables import Numbers
    from parsers._capture.window import StreamWindow
    from parsers._packets.layers import Bytes, PacketRecords


class RecordLength(NamedTuple):
    """Where a record has its length, and in which form; the length includes the header."""

    header_bytes: int
    length: struct.Struct
    length_at: int


def batches(
    window: StreamWindow, source: SourceFile, layout: RecordLength, records: Callable[[Bytes, Numbers], PacketRecords]
) -> Generator[PacketRecords]:
    """Yield the records of a file from the window's begin on, one batch per window; note damage in `source`.

    Parameters
    ----------
    records : callable
        Takes the data (uint8) and the positions of complete records (int64, ascending); returns the records.
    """
    more, damage = True, None
    while more and damage is None:
        starts, damage = _walk(window, layout)
        yield records(window.data, np.array(starts, np.int64))
        more = window.refill()
    source.damaged = damage or window.remains("record")


def _walk(window: StreamWindow, layout: RecordLength) -> tuple[list[int], str | None]:
    """Return the positions of complete records and why they end (else None); move the window past them."""
    starts: list[int] = []
    while len(window) >= layout.header_bytes:
        length = layout.length.unpack_from(window.view, window.begin + layout.length_at)[0]
        if not layout.header_bytes <= length <= LARGEST_PACKET:
            return starts, f"the record at byte {window.offset} has an invalid length of {length} bytes"
        if length > len(window):
            break
        starts.append(window.begin)
        window.begin += length
    return starts, None
