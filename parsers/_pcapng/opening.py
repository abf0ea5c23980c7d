"""What stands beside the packets of a pcapng file that the native kernel reads by itself: without NumPy."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from multitracer.protocols.pcap_file import BlockType
from multitracer.units import NS_PER_S
from parsers._capture.bounds import largest_packet
from parsers._pcapng.blocks import SMALLEST, SMALLEST_BLOCK, first_section, is_laid_out_as_packet

if TYPE_CHECKING:
    from parsers._pcapng.blocks import Sections

_NS_DIGITS = 9
_LARGEST_OFFSET_S = 1 << 32
"""Sections of today have none; beyond it times need more than 64 bits."""


def first_packet(head: bytes, sections: Sections) -> int | None:
    """Read the section and its interfaces; return where the first packet begins.

    None if there is none, or anything strange before it.

    Parameters
    ----------
    head : bytes
        The file's first bytes.
    sections : Sections
        Knows the section afterwards.

    Raises
    ------
    FormatError
        If it does not begin with a section header.
    """
    sections.order, at = first_section(head, sections.source.path), 0
    while at + SMALLEST_BLOCK <= len(head):
        kind, length = struct.unpack_from(sections.order + "II", head, at)
        if kind == BlockType.ENHANCED_PACKET:
            return at if sections.local else None
        block = head[at : at + length]
        is_whole = len(block) == length >= SMALLEST.get(kind, SMALLEST_BLOCK) and not length & 3
        if not is_whole or block[-4:] != block[4:8] or not _took_in(kind, block, sections):
            return None
        at += length
    return None


def _took_in(kind: int, block: bytes, sections: Sections) -> bool:
    """Read a block that is no packet; return False if it is strange, or begins another section."""
    if kind == BlockType.SECTION:
        return not sections.count and sections.begin_section(block, sections.order) is None
    if kind == BlockType.INTERFACE:
        return sections.other(kind, block, packets_before=0) is None
    return note_other(block, sections)


def note_other(block: bytes, sections: Sections) -> bool:
    """Take in a block that is no packet, section or interface; return False if it may have been a packet."""
    (kind,) = struct.unpack_from(sections.order + "I", block)
    if kind == BlockType.STATISTICS:
        return sections.other(kind, block, packets_before=0) is None
    return kind not in SMALLEST and not is_laid_out_as_packet(block, sections)


def form_of(sections: Sections) -> dict[str, bool | int | list[int]] | None:
    """Return how the packets of a section lie in the file; None if its interfaces are not alike."""
    interfaces = [sections.source.interfaces[known] for known in sections.local]
    resolutions = {sections.resolutions[known].key for known in sections.local}
    if len({interface.link_type for interface in interfaces}) > 1 or len(resolutions) > 1:
        return None
    ((is_binary, exponent, offset_s),) = resolutions
    if is_binary or exponent > _NS_DIGITS or abs(offset_s) > _LARGEST_OFFSET_S:
        return None
    return {
        "big_endian": sections.order == ">",
        "tick_ns": 10 ** (_NS_DIGITS - exponent),
        "offset_ns": offset_s * NS_PER_S,
        "most_captured": [largest_packet(interface.link_type) for interface in interfaces],
    }
