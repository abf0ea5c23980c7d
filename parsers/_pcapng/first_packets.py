"""What an interface of a pcapng file names wrongly, or not at all: the unit of its time stamps, its link type.

Without a resolution the unit is µs. A program that writes ns then states times 50,000 years ahead; one that
writes µs under a resolution of ns states times some weeks after 1970, as a device would that counts from its
start: then TCP timestamps decide.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from multitracer.protocols.pcap_file import BlockType
from parsers._capture.link_type import HEAD_BYTES, likely_link_type, note_link_type
from parsers._capture.time_unit import FEWEST_RECORDS, PROBE_BYTES, forced_tick_ns, note_guess
from parsers._pcapng.blocks import PACKET_AT, SMALLEST_BLOCK, byte_order, resolution_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.captured import SourceFile
    from parsers._pcapng.blocks import Resolution, Sections

_EARLIEST_S, _LATEST_S = 631_152_000, 4_102_444_800
"""1990 and 2100: a capture was made between them."""
_MOST_PACKETS = 4096
UNIT_PROBE_BYTES = 64 * 1024
"""Bytes of a file that are looked at for impossible times."""
_FACTOR, _DIGITS = 1000, 3
"""Ratio between two units in use, and its digits."""
_NS_DIGITS = 9


class _Packet(NamedTuple):
    at: int
    ticks: int
    captured: int
    original: int


class _Interface(NamedTuple):
    link_type: int
    resolution: Resolution
    packets: list[_Packet]


def guess(head: bytes, sections: Sections, more: Callable[[int], bytes]) -> None:
    """Guess what the interfaces of the first section state wrongly: units of time stamps, and link types.

    Parameters
    ----------
    head : bytes
        First bytes of the file.
    sections : Sections
        Gets the guesses, and its file notes on them.
    more : callable
        Returns more of the first bytes, up to a number, for a file that leaves a doubt.
    """
    described = _interfaces(head)
    for number, each in enumerate(described):
        frames = ((head[p.at : p.at + min(p.captured, HEAD_BYTES)], p.original) for p in each.packets)
        used = likely_link_type(each.link_type, frames)
        if used != each.link_type:
            sections.links[number, each.link_type] = used
            note_link_type(sections.source, each.link_type, used)
    if forced_tick_ns() is None:
        sections.units = _units(head, described, sections.source, more)


def _units(
    head: bytes, described: list[_Interface], source: SourceFile, more: Callable[[int], bytes]
) -> dict[int, int]:
    """Return the exponents of the units that differ from the stated ones, by number of the interface."""
    if any(_too_early(each) for each in described):
        head = more(PROBE_BYTES)
        described = _interfaces(head)
    units = {}
    for number, each in enumerate(described):
        exponent = each.resolution.exponent
        if _too_late(each):
            units[number] = exponent + _DIGITS
        elif _too_early(each) and len(each.packets) >= FEWEST_RECORDS and _too_fast(each, head):
            units[number] = exponent - _DIGITS
    for number, exponent in units.items():
        declared = described[number].resolution.exponent
        note_guess(source, 10 ** (_NS_DIGITS - exponent), 10 ** (_NS_DIGITS - declared))
    return units


def _interfaces(head: bytes) -> list[_Interface]:
    """Return the interfaces of the first section with their first packets."""
    order, at = byte_order(head), 0
    interfaces: list[_Interface] = []
    packets = 0
    while order and at + SMALLEST_BLOCK <= len(head) and packets < _MOST_PACKETS:
        kind, length = struct.unpack_from(order + "II", head, at)
        block = head[at : at + length]
        if length < SMALLEST_BLOCK or length & 3 or len(block) < length:
            break
        if kind == BlockType.SECTION and at:
            break
        if kind == BlockType.INTERFACE and length >= 20:
            (link_type,) = struct.unpack_from(order + "H", block, 8)
            interfaces.append(_Interface(link_type, resolution_of(block, order), []))
        elif kind == BlockType.ENHANCED_PACKET and length >= PACKET_AT + 4:
            number, high, low, captured, original = struct.unpack_from(order + "5I", block, 8)
            if number < len(interfaces) and captured <= length - PACKET_AT - 4:
                packet = _Packet(at + PACKET_AT, high << 32 | low, captured, original)
                interfaces[number].packets.append(packet)
                packets += 1
        at += length
    return interfaces


def _times_s(interface: _Interface, exponent: int) -> list[float]:
    offset_s = interface.resolution.offset_s
    return [packet.ticks / 10**exponent + offset_s for packet in interface.packets]


def _is_decimal(interface: _Interface) -> bool:
    return not interface.resolution.binary and bool(interface.packets)


def _all_possible(times_s: list[float]) -> bool:
    return all(_EARLIEST_S <= each <= _LATEST_S for each in times_s)


def _too_late(interface: _Interface) -> bool:
    """Return whether all times are after 2100, but possible in the next smaller unit."""
    exponent = interface.resolution.exponent
    if not _is_decimal(interface) or exponent + _DIGITS > _NS_DIGITS:
        return False
    late = all(each > _LATEST_S for each in _times_s(interface, exponent))
    return late and _all_possible(_times_s(interface, exponent + _DIGITS))


def _too_early(interface: _Interface) -> bool:
    """Return whether all times are before 1990, but possible in the next larger unit."""
    exponent = interface.resolution.exponent
    if not _is_decimal(interface) or exponent < _DIGITS:
        return False
    early = all(each < _EARLIEST_S for each in _times_s(interface, exponent))
    return early and _all_possible(_times_s(interface, exponent - _DIGITS))


def _too_fast(interface: _Interface, head: bytes) -> bool:
    import numpy as np  # noqa: PLC0415  # few files leave a doubt

    from parsers._capture.time_unit import ticks_too_fast  # noqa: PLC0415
    from parsers._packets.layers import PAD_BYTES, PacketRecords  # noqa: PLC0415

    columns = np.array(interface.packets, np.int64).T
    time_ns = columns[1] * 10 ** (_NS_DIGITS - interface.resolution.exponent)
    data = np.frombuffer(head + bytes(PAD_BYTES), np.uint8)
    packet_records = PacketRecords(data, columns[0], columns[2], columns[3], time_ns, interface.link_type)
    return ticks_too_fast(packet_records, _FACTOR)
