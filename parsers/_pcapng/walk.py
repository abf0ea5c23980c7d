"""Reads the blocks of a pcapng file, a window at a time: packets in bulk, other blocks one by one.

Source: draft-ietf-opsawg-pcapng, section 3.1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.native import kernel
from multitracer.protocols.pcap_file import BlockType
from parsers._capture.lanes import walk_lanes
from parsers._packets.layers import rows
from parsers._pcapng.blocks import (
    PACKET_AT,
    SECTION_HEADER,
    SMALLEST,
    SMALLEST_BLOCK,
    Section,
    byte_order,
    is_laid_out_as_packet,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.native import Kernel
    from multitracer.tables import Mask, Numbers
    from parsers._capture.lanes import Following
    from parsers._capture.window import StreamWindow
    from parsers._packets.layers import Bytes
    from parsers._pcapng.blocks import Sections

_PACKET_BLOCKS = (BlockType.OBSOLETE_PACKET, BlockType.SIMPLE_PACKET, BlockType.ENHANCED_PACKET)
_TAKEN_IN = frozenset((*SMALLEST, BlockType.INTERFACE, BlockType.STATISTICS, BlockType.SECRETS, BlockType.CUSTOM))
_FOUND_AGAIN = (*_PACKET_BLOCKS, BlockType.INTERFACE)
"""Block types at which reading can continue after damage, besides sections."""
_ENHANCED = BlockType.ENHANCED_PACKET.value
"""A plain int: NumPy compares a column with it some ten times faster than with a member."""
_LARGEST_METADATA = 1 << 20
"""Maximum number of bytes that are read of an interface or section block with its options."""
_LARGEST_SPECULATED = 65_600
_LARGEST_BLOCK = 128 * 1024 * 1024
"""Maximum block size: that of the largest packet (USB); larger blocks are damage."""
_FAR = np.int64(1 << 40)
_SAMPLE = 64
_FIRST_SEARCHED_BYTES = 4096
"""Where a block is searched after damage: most begin near, and a file may be damaged in each of its blocks."""


class WalkedBlocks:
    """Positions of the packet blocks that a walk found in a window, and their sections."""

    def __init__(self, sections: Sections) -> None:
        self.sections: list[Section] = []
        self.count = 0
        """Number of packet blocks so far."""
        self.damage: str | None = None
        """Why the walk cannot continue; None if it can."""
        self.damaged_at = 0
        """Position of the block at which the walk ended."""
        self.damaged_until = 0
        """Position of the last block after it that cannot be read for the same reason; 0 without any."""
        self.only_a_section = False
        """Whether the following blocks cannot be read until a section begins."""
        self.is_partial = False
        """Whether the walk ended at its reach: the window has more blocks."""
        self.unexpected: list[tuple[int, int, int]] = []
        """Begin, end and type of blocks with the layout of packets but another type."""
        self._chunks: list[Numbers] = []
        self.begin_section(sections)

    def begin_section(self, sections: Sections) -> None:
        """Record that all packets added from now on belong to the current section."""
        self.sections.append(Section(self.count, sections.order, sections.base, sections.is_pcapdroid))

    def add(self, starts: Numbers | list[int]) -> None:
        """Add positions of packet blocks in the window: int64, ascending."""
        self._chunks.append(np.asarray(starts, np.int64))
        self.count += len(starts)

    def section_of(self, packet: int) -> Section:
        """Return the section to which the packet with this index belongs."""
        return next(section for section in reversed(self.sections) if section.first <= packet)

    def starts(self) -> Numbers:
        """Return the positions of all packet blocks: int64, shape (count,), ascending."""
        return np.concatenate([*self._chunks, np.empty(0, np.int64)])

    def each(self, values: list[int]) -> Numbers:
        """Return for each packet the value of its section: int64, shape (count,).

        `values` has a value for each section.
        """
        firsts = [s.first for s in self.sections]
        return np.repeat(np.array(values, np.int64), np.diff([*firsts, self.count]))


@dataclass(frozen=True, slots=True)
class _EnhancedPackets:
    """The layout of enhanced packet blocks in one byte order."""

    order: str

    def following(self, data: Bytes) -> Following:
        """Return a function that converts positions of packet blocks to positions of the next blocks.

        For other blocks than enhanced packet blocks the result is far behind the data.
        """
        kinds = np.ndarray((len(data) - 3,), self.order + "u4", data, strides=(1,))
        lengths = np.ndarray((len(data) - 7,), self.order + "u4", data, offset=4, strides=(1,))

        def following(at: Numbers) -> Numbers:
            length = lengths[at]
            packet = (kinds[at] == _ENHANCED) & (length >= 32) & (length & 3 == 0)
            return at + np.where(packet, length, _FAR)

        return following

    def plausible(self, data: Bytes, at: Numbers) -> Mask:
        """Return a mask of the positions where a block may begin.

        It has equal lengths at both ends, and they are plausible.
        """
        following = self.following(data)(at)
        inside = (following - at <= _LARGEST_SPECULATED) & (following <= len(data))
        end = np.where(inside, following, at + 8)
        closing = rows(data, end - 4, 4).view(self.order + "u4")
        same: Mask = inside & (closing == following - at)
        return same

    def likely(self, chunks: NDArray[np.uint8]) -> Mask:
        """Return a mask of the bytes where the type of an enhanced packet block (four bytes) begins."""
        width = chunks.shape[1] - 8
        wanted = _ENHANCED.to_bytes(4, "little" if self.order == "<" else "big")
        likely: Mask = np.ones((len(chunks), width), np.bool_)
        for i, byte in enumerate(wanted):
            likely &= chunks[:, i : i + width] == byte
        return likely


def next_block(
    window: StreamWindow, begin: int, order: str, *, only_a_section: bool = False, stop: int | None = None
) -> int | None:
    """Return the first position in [`begin`, `stop`) of a packet, interface or section block.

    Its two lengths must agree; None if there is no such block. With `only_a_section`, only section blocks count.
    """
    end = window.end if stop is None else min(stop + SMALLEST_BLOCK - 1, window.end)
    last, span = end - SMALLEST_BLOCK, _FIRST_SEARCHED_BYTES
    while begin <= last:
        for at in _of_types(window.data, begin, min(begin + span, last + 1), order, only_a_section=only_a_section):
            head = bytes(window.view[at : at + SMALLEST_BLOCK])
            its_order = byte_order(head) if head[:4] == SECTION_HEADER else order
            if its_order and _is_closed(window, at, its_order):
                return int(at)
        begin, span = begin + span, 4 * span
    return None


def _of_types(data: Bytes, begin: int, stop: int, order: str, *, only_a_section: bool) -> list[int]:
    """Return the positions in [`begin`, `stop`) with the type of a packet, interface or section block."""
    kinds = np.ndarray((stop - begin,), order + "u4", data, offset=begin, strides=(1,))
    wanted = kinds == BlockType.SECTION.value
    if not only_a_section:
        for kind in _FOUND_AGAIN:
            wanted |= kinds == kind.value
    return (np.flatnonzero(wanted) + begin).tolist()


def _is_closed(window: StreamWindow, at: int, order: str) -> bool:
    kind, length = struct.unpack_from(order + "II", window.view, at)
    if length & 3 or length < SMALLEST.get(kind, SMALLEST_BLOCK) or at + length > window.end:
        return False
    return bool(struct.unpack_from(order + "I", window.view, at + length - 4)[0] == length)


def is_spliced(window: StreamWindow, start: int, length: int, captured: int, order: str) -> bool:
    """Return whether bytes are missing in a packet block whose two lengths differ.

    Bytes are missing if another block begins inside it. If a block begins exactly at its end, by
    its own length or by that of the packet, only a length is wrong.
    """
    packet_end = start + PACKET_AT + captured
    for end in (start + length, start + PACKET_AT + (captured + 3 & ~3) + 4):
        if end == window.end or (end + SMALLEST_BLOCK <= window.end and _is_closed(window, end, order)):
            return False
    return next_block(window, start + 4, order, stop=packet_end) is not None


def walk(window: StreamWindow, sections: Sections, reach: int | None = None) -> WalkedBlocks:
    """Return the complete packet blocks of the window, and move the window past them.

    Parameters
    ----------
    window : StreamWindow
    sections : Sections
    reach : int, optional
        Number of bytes after which the walk may end, for where damage is likely: each damaged place costs the walk that
        found it.
    """
    sections.forget()
    walked = WalkedBlocks(sections)
    stop = window.end if reach is None else min(window.begin + reach, window.end)
    while True:
        _enhanced_packets(window, sections, walked, stop)
        if stop <= window.begin < window.end:
            walked.is_partial = True
            return walked
        if not _other_block(window, sections, walked):
            return walked


def _enhanced_packets(window: StreamWindow, sections: Sections, walked: WalkedBlocks, stop: int) -> None:
    """Add enhanced packet blocks that begin before `stop`, many at once; skip blocks that do not concern packets."""
    if (native := kernel()) is not None:
        _by_kernel(native, window, sections, walked, stop)
        return
    starts = _step_by_step(window, sections, walked, stop, most=_SAMPLE)
    walked.add(starts)
    while len(starts) == _SAMPLE and window.begin < stop:
        before, layout = stop - window.begin, _EnhancedPackets(sections.order)
        many, window.begin = walk_lanes(window.data, window.begin, stop, layout, sample=starts)
        walked.add(many)
        paid = stop - window.begin < before // 2
        starts = _step_by_step(window, sections, walked, stop, most=_SAMPLE if paid else 1 << 60)
        walked.add(starts)


def _by_kernel(native: Kernel, window: StreamWindow, sections: Sections, walked: WalkedBlocks, stop: int) -> None:
    is_ended = False
    while not is_ended:
        is_big = sections.order == ">"
        many, window.begin = native.walk_pcapng(window.data, window.begin, stop, big_endian=is_big)
        few = _step_by_step(window, sections, walked, stop, most=_SAMPLE)
        is_ended = len(few) < _SAMPLE or window.begin >= stop
        walked.add(many)
        walked.add(few)


def _step_by_step(window: StreamWindow, sections: Sections, walked: WalkedBlocks, stop: int, *, most: int) -> list[int]:
    """Return the positions of up to `most` enhanced packet blocks that begin before `stop`.

    Skip blocks that do not concern packets.
    """
    unpack = struct.Struct(sections.order + "II").unpack_from
    closing = struct.Struct(sections.order + "I").unpack_from
    view, end, at = window.view, window.end, window.begin
    starts: list[int] = []
    append = starts.append
    while at + SMALLEST_BLOCK <= end and at < stop and len(starts) < most:
        kind, length = unpack(view, at)
        following = at + length
        if following > end or length & 3 or length < SMALLEST_BLOCK:
            break
        if kind == _ENHANCED and length >= 32:
            append(at)
        elif kind in _TAKEN_IN or closing(view, following - 4)[0] != length:
            break
        elif is_laid_out_as_packet(view[at:following], sections):
            walked.unexpected.append((at, following, kind))
        at = following
    window.begin = at
    return starts


def _other_block(window: StreamWindow, sections: Sections, walked: WalkedBlocks) -> bool:
    """Read the block at the start of the window; return whether the walk can continue after it."""
    if len(window) < SMALLEST_BLOCK:
        return False
    at = walked.damaged_at = window.begin
    kind, length, order = _block_head(window, sections.order)
    if not order:
        walked.damage = f"the section header at byte {window.offset} has no byte-order magic"
    elif not SMALLEST.get(kind, SMALLEST_BLOCK) <= length <= _LARGEST_BLOCK:
        walked.damage = f"the block at byte {window.offset} of type {kind} has an invalid length of {length} bytes"
    padded = length + 3 & ~3
    if walked.damage or at + padded > window.end:
        return False
    if length & 3:
        walked.damage = f"the length {length} of the block at byte {window.offset} is not a multiple of 4"
    if kind in _PACKET_BLOCKS:
        walked.add([at])
    elif not walked.damage:
        walked.damage = _take_in(kind, window.view[at : at + length], order, sections, walked)
        if walked.damage:
            walked.damage = f"the block at byte {window.offset} of type {kind}: {walked.damage}"
    window.begin = at + padded
    return walked.damage is None


def _block_head(window: StreamWindow, order: str) -> tuple[int, int, str]:
    """Return type, length and byte order of the block at the start of the window.

    The byte order is "" for a section block without a valid magic number.
    """
    head = bytes(window.view[window.begin : window.begin + SMALLEST_BLOCK])
    if head[:4] == SECTION_HEADER:
        order = byte_order(head)
    kind, length = struct.unpack_from((order or "<") + "II", head)
    return kind, length, order


def _take_in(kind: int, block: memoryview, order: str, sections: Sections, walked: WalkedBlocks) -> str | None:
    """Read a block that is not a packet; return a description of the error in it, or None."""
    if block[-4:] != block[4:8]:
        return "its two length fields differ"
    head = bytes(block[:_LARGEST_METADATA])
    if kind != BlockType.SECTION:
        return sections.other(kind, head, packets_before=walked.count)
    flaw = sections.begin_section(head, order)
    walked.only_a_section = flaw is not None
    if flaw is None:  # or else what was found so far stays the section before's
        walked.begin_section(sections)
    return flaw


def skip_oversized(window: StreamWindow, sections: Sections) -> str | None:
    """Skip a block that is larger than the window; return a description of the error in it, or None."""
    offset = window.offset
    kind, length, order = _block_head(window, sections.order)
    if not order or kind in SMALLEST:
        return f"the block at byte {offset} of type {kind} has an invalid length of {length} bytes"
    head = bytes(window.view[window.begin : window.begin + _LARGEST_METADATA])
    if window.skip(length) < length:
        return f"the block at byte {offset} of type {kind} is truncated: its length field is {length} bytes"
    return sections.other(kind, head, packets_before=0)
