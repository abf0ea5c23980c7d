"""The packet blocks of a window of a pcapng file, all at once.

Source: draft-ietf-opsawg-pcapng, sections 4.3 (enhanced), 4.4 (simple) and A (obsolete packet block).

Comments: section 3.5; the option lists of all packets are walked in step. Time stamps: section 4.2
(if_tsresol, if_tsoffset), in nanoseconds, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from multitracer.native import kernel
from multitracer.protocols.pcap_file import BlockType, OptionCode
from multitracer.tables import NOT_A_TIME
from parsers._capture.bounds import largest_packet
from parsers._packets.layers import PacketRecords, rows
from parsers._pcapng.blocks import PACKET_AT
from parsers._pcapng.walk import is_spliced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.tables import Mask, Numbers
    from parsers._capture.window import StreamWindow
    from parsers._packets.layers import Bytes
    from parsers._pcapng.blocks import Resolution, Sections
    from parsers._pcapng.walk import WalkedBlocks

_MOST_OPTIONS = 64
_Value = TypeVar("_Value")


def comments(data: Bytes, at: Numbers, end: Numbers, *, big_endian: Mask) -> list[tuple[int, bytes]]:
    """Return index of the list and text for each comment in the option lists from `at` to `end`, in order.

    Parameters
    ----------
    data : ndarray of uint8, shape (n_bytes,)
    at, end : ndarray of int64, shape (n_lists,)
        Positions in `data` where each option list begins and ends.
    big_endian : ndarray of bool, shape (n_lists,)
    """
    texts: list[tuple[int, bytes]] = []
    index = np.flatnonzero(at + 4 <= end)
    at, end, big = at[index], end[index], big_endian[index]
    for _ in range(_MOST_OPTIONS):
        if not len(index):
            break
        code, length = _heads(data, at, big)
        fits = (code != 0) & (at + 4 + length <= end)
        for i in np.flatnonzero(fits & (code == OptionCode.COMMENT.value)).tolist():
            begin = int(at[i]) + 4
            texts.append((int(index[i]), data[begin : begin + int(length[i])].tobytes()))
        at = at + 4 + (length + 3 & ~3)
        on = fits & (at + 4 <= end)
        index, at, end, big = index[on], at[on], end[on], big[on]
    return sorted(texts, key=lambda comment: comment[0])


def _heads(data: Bytes, at: Numbers, big: Mask) -> tuple[Numbers, Numbers]:
    """Return code and length of the option at each position in `at`; `big` selects big-endian ones."""
    raw = rows(data, at, 4)
    little_words, big_words = (raw.view(sign + "u2").reshape(-1, 2).astype(np.int64) for sign in "<>")
    words = np.where(big[:, None], big_words, little_words)
    return words[:, 0], words[:, 1]


_SECOND = 1_000_000_000
_LARGEST = (1 << 63) - 1


def times_ns(ticks: Numbers, interface: Numbers, resolutions: list[Resolution]) -> Numbers:
    """Return each packet's time in ns since 1970, rounded down; NOT_A_TIME if int64 cannot hold it.

    Parameters
    ----------
    ticks : ndarray of int64, shape (n_packets,)
        Unsigned 64-bit counts (the bits of a uint64).
    interface : ndarray of int64, shape (n_packets,) or (1,)
        Position of each packet's interface in `resolutions`; one for all, or one each.

    Returns
    -------
    ndarray of int64, ns since 1970, shape (n_packets,)
    """
    if not len(ticks) or not resolutions:
        return np.full(len(ticks), NOT_A_TIME, np.int64)
    used = interface[:1] if (interface == interface[0]).all() else np.unique(interface)
    if len({resolutions[i].key for i in used.tolist()}) == 1:
        return _scaled(ticks, resolutions[used[0]])
    out = np.empty(len(ticks), np.int64)
    for i in used.tolist():
        here = interface == i
        out[here] = _scaled(ticks[here], resolutions[i])
    return out


def _scaled(ticks: Numbers, resolution: Resolution) -> Numbers:
    limit = (_LARGEST // _SECOND - abs(resolution.offset_s)) * _SECOND
    if not resolution.binary and resolution.exponent <= 9:
        factor = 10 ** (9 - resolution.exponent)
        if limit > 0 and ticks.min() >= 0 and ticks.max() <= limit // factor:
            scaled: Numbers = ticks * factor + resolution.offset_s * _SECOND
            return scaled
    return _exactly(ticks, resolution)


def _exactly(ticks: Numbers, resolution: Resolution) -> Numbers:
    """Return times in ns, computed with Python integers, for unusual resolutions and large values."""
    base = (2 if resolution.binary else 10) ** resolution.exponent
    offset = resolution.offset_s * _SECOND
    unsigned = ticks.astype(np.uint64).tolist()
    exact = [tick * _SECOND // base + offset for tick in unsigned]
    return np.array([t if -_LARGEST <= t <= _LARGEST else NOT_A_TIME for t in exact], np.int64)


_SIMPLE_PACKET_AT = 12
"""Position of the packet in a simple packet block."""
_NO_LIMIT = 0xFFFF_FFFF


@dataclass(slots=True)
class _Blocks:
    """Packet blocks; arrays of shape (n,)."""

    start: Numbers
    length: Numbers
    """Block length, padded to a multiple of four."""
    packet: Numbers
    """Position of the packet."""
    interface: Numbers
    """Position in `SourceFile.interfaces`."""
    captured: Numbers
    original: Numbers
    time_ns: Numbers
    link_type: Numbers
    simple: Mask
    """Whether it is a simple packet block, which has no time."""
    described: Mask
    """Whether the interface was described before the packet."""
    closed: Mask
    """Whether the lengths at both ends of the block agree."""
    fits: Mask
    """Whether the packet fits in its block and is not larger than any packet can be."""


def packet_records(
    window: StreamWindow, walked: WalkedBlocks, sections: Sections, packets_before: int
) -> tuple[PacketRecords, str | None]:
    """Return the packets of the blocks that a walk found, and a reason if some are missing (else None).

    A packet in a block whose closing length is wrong is returned if none of its bytes are missing;
    packets after it are not.
    """
    if (plain := _plain(window, walked, sections)) is not None:
        return plain, None
    blocks = _read(window.data, walked, sections)
    records = PacketRecords(
        window.data,
        blocks.packet,
        blocks.captured,
        blocks.original,
        blocks.time_ns,
        blocks.link_type,
        interface=blocks.interface,
    )
    bad = _first_false(blocks.fits & blocks.described)
    unclosed = _first_false(blocks.closed)
    if unclosed < bad and _is_spliced(window, blocks, unclosed, walked):
        bad = unclosed
    complete = records.first(min(bad, unclosed + 1))
    beyond = (complete.time_ns == NOT_A_TIME) & ~blocks.simple[: len(complete)]
    sections.source.no_time("a timestamp outside the range of 64-bit nanoseconds", int(np.count_nonzero(beyond)))
    if not sections.has_all_comments:
        options_end = blocks.start + blocks.length - 4
        _note_comments(complete, options_end, walked, sections, first=packets_before + 1)
    damage = None
    if min(bad, unclosed) < len(records):
        damage = _what_is_wrong(window, blocks, min(bad, unclosed))
        ends = blocks.packet + blocks.captured  # of a packet that is delivered
        walked.damaged_at = int(blocks.start[bad] if bad <= unclosed else ends[unclosed])
        walked.only_a_section = False
        last = min(bad, unclosed)
        if not blocks.described[last]:
            walked.damaged_until = _last_undescribed(blocks, last, walked, sections)
        sections.rewind(last, walked.section_of(last))
    return complete, damage


def _plain(window: StreamWindow, walked: WalkedBlocks, sections: Sections) -> PacketRecords | None:
    """Return the packets by the native kernel; None if it finds an unexpected packet block."""
    native, section = kernel(), walked.sections[0]
    if native is None or len(walked.sections) > 1 or not walked.count:
        return None
    known = sections.local[section.base :]
    packets = native.pcapng_packets(
        window.data,
        walked.starts(),
        big_endian=section.order == ">",
        since=sections.since[section.base :],
        largest=[largest_packet(sections.source.interfaces[i].link_type) for i in known],
        comments=not sections.has_all_comments,
    )
    if packets is None:
        return None
    number, start, captured, original, ticks = packets
    interface = np.array(known, np.int64)[number if len(known) > 1 else number[:1]]
    time_ns = times_ns(ticks, interface, sections.resolutions)
    if (time_ns == NOT_A_TIME).any():
        return None
    link_type: Numbers | int = sections.source.interfaces[interface[0]].link_type
    if len(known) > 1:
        link_type = _of_each(interface, sections.source.interfaces, lambda i: i.link_type)
    each = np.broadcast_to(interface, len(start))
    return PacketRecords(window.data, start, captured, original, time_ns, link_type, interface=each)


def _first_false(mask: Mask) -> int:
    """Return the index of the first False in the mask; without any, the length of the mask."""
    return len(mask) if mask.all() else int(np.argmin(mask))


def _is_spliced(window: StreamWindow, blocks: _Blocks, index: int, walked: WalkedBlocks) -> bool:
    extent = int(blocks.start[index]), int(blocks.length[index]), int(blocks.captured[index])
    return not blocks.simple[index] and is_spliced(window, *extent, walked.section_of(index).order)


def _last_undescribed(blocks: _Blocks, first: int, walked: WalkedBlocks, sections: Sections) -> int:
    """Return the position of the last of the packets from `first` on that no interface describes.

    They end at the next description, and at a block whose lengths differ, as inside it others may begin.
    """
    others = np.flatnonzero(blocks.described[first:] | ~blocks.closed[first:]) + first
    ends = [*others[:1].tolist(), *(since for since in sections.since if since > first)]
    ends += [section.first for section in walked.sections if section.first > first]
    return int(blocks.start[max(min(ends, default=len(blocks.start)) - 1, first)])


def _what_is_wrong(window: StreamWindow, blocks: _Blocks, index: int) -> str:
    where = f"the packet block at byte {window.offset_of(int(blocks.start[index]))}"
    if not blocks.described[index]:
        return f"{where} refers to an interface without a preceding description"
    if not blocks.fits[index]:
        return f"{where} has an invalid packet length of {blocks.captured[index]} bytes"
    return f"the two length fields of {where} differ"


def _read(data: Bytes, walked: WalkedBlocks, sections: Sections) -> _Blocks:
    start = walked.starts()
    words = _words(data, start, walked, 7)
    kind, length = words[:, 0], words[:, 1] + 3 & ~3
    interface, described = _interfaces(words, walked, sections)
    captured, original = words[:, 5], words[:, 6]
    time_ns = times_ns(words[:, 3] << 32 | words[:, 4], interface, sections.resolutions)
    interfaces = sections.source.interfaces
    packet_at = np.full(len(start), PACKET_AT)
    simple = kind == BlockType.SIMPLE_PACKET.value
    if simple.any():
        snap = _of_each(interface, interfaces, lambda i: i.snap_length or _NO_LIMIT)
        packet_at[simple] = _SIMPLE_PACKET_AT
        time_ns[simple] = NOT_A_TIME
        original = np.where(simple, words[:, 2], original)
        most = np.minimum(length - _SIMPLE_PACKET_AT - 4, snap)
        captured = np.where(simple, np.minimum(original, most), captured)
    link_type = _of_each(interface, interfaces, lambda i: i.link_type)
    largest = _of_each(interface, interfaces, lambda i: largest_packet(i.link_type))
    fits = (packet_at + captured + 4 <= length) & (captured <= largest)
    closed = _words(data, start + length - 4, walked, 1)[:, 0] == words[:, 1]
    packet = start + packet_at
    columns = (start, length, packet, interface, captured, original, time_ns, link_type)
    return _Blocks(*columns, simple, described, closed, fits)


def _of_each(index: Numbers, values: Sequence[_Value], of: Callable[[_Value], int]) -> Numbers:
    """Return `of(values[i])` for each index i; 0 for all if there are no values.

    A file may describe more interfaces than a window has packets; then those of the packets suffice.
    """
    if len(values) > len(index):
        return np.array([of(values[i]) for i in index.tolist()], np.int64)
    return np.array([of(value) for value in values] or [0], np.int64)[index]


def _words(data: Bytes, at: Numbers, walked: WalkedBlocks, count: int) -> Numbers:
    """Return the first `count` 32-bit words at each position, in the byte order of the packet's section."""
    raw = rows(data, at, 4 * count)
    words = raw.view("<u4").reshape(-1, count).astype(np.int64)
    big = _is_big_endian(walked)
    if big.any():
        words[big] = raw.view(">u4").reshape(-1, count)[big]
    return words


def _is_big_endian(walked: WalkedBlocks) -> Mask:
    big: Mask = walked.each([s.order == ">" for s in walked.sections]) != 0
    return big


def _interfaces(words: Numbers, walked: WalkedBlocks, sections: Sections) -> tuple[Numbers, Mask]:
    """Return the interface of each packet, and a mask: whether the file describes it before the packet."""
    number = np.where(words[:, 0] == BlockType.SIMPLE_PACKET.value, 0, words[:, 2])
    obsolete = words[:, 0] == BlockType.OBSOLETE_PACKET.value
    if obsolete.any():  # 16 bits of interface, then 16 bits of drop count
        first_half = np.where(_is_big_endian(walked), number >> 16, number & 0xFFFF)
        number = np.where(obsolete, first_half, number)
    bases = [s.base for s in walked.sections]
    place = number + walked.each(bases)
    known: Mask = place < walked.each([*bases[1:], len(sections.local)])
    if not sections.local:
        return np.zeros(len(number), np.int64), known
    place = np.where(known, place, 0)
    known &= _of_each(place, sections.since, int) <= np.arange(len(place))
    return _of_each(place, sections.local, int), known


def _note_comments(
    records: PacketRecords, end: Numbers, walked: WalkedBlocks, sections: Sections, *, first: int
) -> None:
    """Store the comments of the packets from index `first` on; the options of a packet end at `end`."""
    at = records.start + (records.captured + 3 & ~3)
    big = _is_big_endian(walked)[: len(records)]
    own = walked.each([s.is_pcapdroid for s in walked.sections])
    for index, value in comments(records.data, at, end[: len(records)], big_endian=big):
        sections.comment(first + index, value, is_pcapdroid=bool(own[index]))
