"""rlpdump's log of one side of a GSM radio link: a pcapng file of frames, with events between them.

multitracer/protocols/rlpdump.py describes the format, and writes it. Frames with a truncated information
field are read like complete frames. At an incomplete record the log ends; all records before it are read.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, cast

from multitracer.errors import FormatError
from multitracer.protocols.pcap_file import BlockType
from multitracer.protocols.rlpdump import MARK
from parsers._capture.window import StreamWindow
from parsers._format import Format, Match
from parsers._pcapng.blocks import SECTION_HEADER, byte_order
from parsers._rlpdump import bulk
from parsers._rlpdump.log import RlpTotals

if TYPE_CHECKING:
    from multitracer.tables import Table
    from parsers._format import Readable

_MARK = MARK.encode() + b" "
_SMALLEST_BLOCK_BYTES, _SMALLEST_PACKET_BYTES = 12, 32
_LONGEST_BLOCK_BYTES = 1 << 16
_WINDOW_BYTES = 1 << 20


def sniff(head: bytes) -> Match:
    """Return "yes" for a pcapng section whose comment names rlpdump."""
    if head[:4] != SECTION_HEADER or len(head) < 28 or not byte_order(head):
        return "no"
    length = struct.unpack_from(byte_order(head) + "I", head, 4)[0]
    return "yes" if _MARK in head[: min(length, len(head))] else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the tables `link_frames` and `link_events` of one side.

    Raises
    ------
    FormatError
        If the stream does not begin with the section header of rlpdump.
    """
    log, window, damaged = RlpTotals(path), StreamWindow(cast("Readable", stream), size=_WINDOW_BYTES), None
    while damaged is None and window.refill():
        damaged = _take_blocks(window, log)
    if "side" not in log.header:
        raise FormatError(
            path,
            "the file is not a log of rlpdump, because the section header does not name the mobile or the fixed side",
            offset=0,
        )
    if damaged is None and (window.damage or len(window)):
        damaged = window.damage or f"the last record is truncated at byte {window.offset}"
    return log.tables(damaged, name=FORMAT.name)


def _take_blocks(window: StreamWindow, log: RlpTotals) -> str | None:
    """Read all complete blocks in the window, in order.

    Return the reason if the log ends there, else None.
    """
    while True:
        packets = _step_over_packets(window, log.order) if log.order else []
        if packets:
            bulk.take(log, window.data, packets, log.packets + 1)
            log.packets += len(packets)
        if len(window) < _SMALLEST_BLOCK_BYTES:
            return None
        kind, length, order = _head(window, log)
        if damaged := _damage(window, length, order):
            return damaged
        if length > len(window):
            return None
        body = bytes(window.view[window.begin + 8 : window.begin + length - 4])
        window.begin += length
        if kind == BlockType.SECTION:
            log.section(body)
        elif kind == BlockType.INTERFACE:
            log.interface(body)
        if "side" not in log.header:
            return "the section header does not name a side"


def _step_over_packets(window: StreamWindow, order: str) -> list[int]:
    """Return the offsets of the complete and valid packet blocks at the begin of the window."""
    head, closing = (struct.Struct(order + form).unpack_from for form in ("II", "I"))
    view, end, at = window.view, window.end, window.begin
    packet = BlockType.ENHANCED_PACKET.value
    starts: list[int] = []
    while at + _SMALLEST_PACKET_BYTES <= end:
        kind, length = head(view, at)
        following = at + length
        sane = _SMALLEST_PACKET_BYTES <= length <= _LONGEST_BLOCK_BYTES and not length & 3
        if kind != packet or not sane or following > end or closing(view, following - 4)[0] != length:
            break
        starts.append(at)
        at = following
    window.begin = at
    return starts


def _head(window: StreamWindow, log: RlpTotals) -> tuple[int, int, str]:
    """Return type, length and byte order ("" if unknown) of the block at the begin of the window."""
    head = bytes(window.view[window.begin : window.begin + _SMALLEST_BLOCK_BYTES])
    order = (byte_order(head) if head.startswith(SECTION_HEADER) else "") or log.order
    return *struct.unpack_from((order or "<") + "II", head), order


def _damage(window: StreamWindow, length: int, order: str) -> str | None:
    """Return a text on the damage of the block at the begin of the window; None if it is intact."""
    if not order:
        return "the file does not begin with a section header"
    if length % 4 or not _SMALLEST_BLOCK_BYTES <= length <= _LONGEST_BLOCK_BYTES:
        return f"a block of {length} bytes at byte {window.offset} makes no sense"
    end = window.begin + length
    if end <= window.end and struct.unpack_from(order + "I", window.view, end - 4)[0] != length:
        return f"the two length fields of the block at byte {window.offset} differ"
    return None


FORMAT = Format(
    name="rlpdump",
    layer="link",
    description="frames and events of one side of a GSM radio link (RLP), from MultiTracer",
    source="multitracer/protocols/rlpdump.py; GSMTAP of libosmocore in pcapng",
    sniff=sniff,
    parse=parse,
)
