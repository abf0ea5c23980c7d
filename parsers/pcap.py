"""The classic capture file, as tcpdump, Wireshark and their relatives write it.

Source: draft-ietf-opsawg-pcap; the old and modified variants are told apart in `_pcap_dialect.py`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.capture import Capture, Interface, SourceFile
from parsers._capture import decode_stream
from parsers._format import Format, Match
from parsers._lanes import walk_lanes
from parsers._packets.decode import Records
from parsers._packets.layers import rows
from parsers._pcap_dialect import PROBE_BYTES, Dialect, dialect_of, is_magic
from parsers._window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers._packets.layers import Ints
    from parsers._window import Readable

_SAMPLE = 64
"""Records that are walked over one by one before lanes are tried."""
_ALL = 1 << 60


def sniff(head: bytes) -> Match:
    """Return "yes" for a known magic number in either byte order."""
    return "yes" if is_magic(head) else "no"


def blocks(stream: Readable, source: SourceFile) -> Iterator[Records]:
    """Yield the records of a file, one batch per window; note its facts in `source`.

    Raises
    ------
    FormatError
        If not even the file header is there.
    """
    window = Window(stream)
    window.refill()
    dialect = dialect_of(bytes(window.view[: min(len(window), PROBE_BYTES)]), path=source.path)
    source.variant = dialect.description
    tick_ns = float(dialect.magic.tick_ns)
    source.interfaces.append(Interface(dialect.link_type, dialect.snap_length, resolution_ns=tick_ns))
    window.skip(dialect.first_record)
    more, damage = True, None
    while more and not damage:
        records, damage = _records(window, _walk(window, dialect), dialect)
        giant = window.is_full and not damage
        if giant:
            records, damage = _skip_giant(window, dialect)
        yield records
        more = window.refill() or giant
    source.damaged = damage or window.remains("record")


def _walk(window: Window, dialect: Dialect) -> Ints:
    """Return where the whole records in the window begin, and move the window past them."""
    if dialect.swapped:
        return np.array(_step_by_step(window, dialect, most=_ALL), np.int64)
    sample = _step_by_step(window, dialect, most=_SAMPLE)
    starts, window.begin = walk_lanes(window.data, window.begin, window.end, dialect, sample=sample)
    rest = _step_by_step(window, dialect, most=_ALL)
    return np.concatenate([np.array(sample, np.int64), starts, np.array(rest, np.int64)])


def _step_by_step(window: Window, dialect: Dialect, *, most: int) -> list[int]:
    """Return where up to `most` whole records begin, and move the window past them."""
    lengths = struct.Struct(dialect.order + "II").unpack_from
    view, at, end, header = window.view, window.begin, window.end, dialect.header_bytes
    swapped = dialect.swapped
    starts: list[int] = []
    append = starts.append
    while at + header <= end and len(starts) < most:
        captured, original = lengths(view, at + 8)
        following = at + header + (min(captured, original) if swapped else captured)
        if following > end:
            break
        append(at)
        at = following
    window.begin = at
    return starts


def _records(window: Window, starts: Ints, dialect: Dialect) -> tuple[Records, str | None]:
    """Return the records at `starts`, and why there are fewer if one lies about its length."""
    words = rows(window.data, starts, 16).view(dialect.order + "u4").reshape(-1, 4).astype(np.int64)
    captured, original = words[:, 2], words[:, 3]
    if dialect.swapped:
        captured, original = np.minimum(captured, original), np.maximum(captured, original)
    records = Records(
        window.data,
        starts + dialect.header_bytes,
        captured,
        original,
        words[:, 0] * 1_000_000_000 + words[:, 1] * dialect.magic.tick_ns,
        dialect.link_type,
    )
    too_long = np.flatnonzero(captured > dialect.largest)
    if not len(too_long):
        return records, None
    bad = int(too_long[0])
    return records.first(bad), _lie(window.offset_of(int(starts[bad])), int(captured[bad]))


def _lie(offset: int, captured: int) -> str:
    return f"the record at byte {offset} says it holds {captured} bytes, more than any packet has"


def _skip_giant(window: Window, dialect: Dialect) -> tuple[Records, str | None]:
    """Step over a record larger than the window; return it without its bytes, or what is wrong with it."""
    records, damage = _records(window, np.array([window.begin]), dialect)
    length = dialect.header_bytes + dialect.lengths(window.view, window.begin)[0]
    offset = window.offset
    if damage is None and window.skip(length) < length:
        damage = f"the record at byte {offset} is cut off"
    records.captured[:] = 0
    return records.first(0 if damage else 1), damage


def parse(stream: BinaryIO, *, path: str) -> Capture:
    """Return the TCP segments of a pcap file, and what else is in it."""
    return decode_stream(stream, SourceFile(path, "pcap"), blocks)


FORMAT = Format(
    name="pcap",
    layer="packet",
    description="packet capture of tcpdump and many others",
    source="draft-ietf-opsawg-pcap, pcap-savefile(5)",
    sniff=sniff,
    parse=parse,
)
