"""The blocks of a pcapng file that are not packets: sections, interfaces and their statistics.

Source: draft-ietf-opsawg-pcapng, section 4. Text of a file is stored unchanged, and escaped where it is shown.

If the native kernel reads the packets by itself, Python reads only these blocks.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.captured import CaptureInterface, SourceFile
from multitracer.errors import FormatError
from multitracer.protocols.pcap_file import BlockType, OptionCode
from multitracer.units import NS_PER_S
from parsers._capture.bounds import largest_packet
from parsers._capture.time_unit import forced_tick_ns
from parsers._packets.programs import is_pcapdroid, note_names, user_of_comment
from parsers._registry import has_plug_ins

if TYPE_CHECKING:
    from collections.abc import Iterator

_NS_DIGITS = 9
_LARGEST_OFFSET_S = 1 << 32
"""Maximum time offset of a section; with a larger one times need more than 64 bits. Most have none."""


def first_packet(head: bytes, sections: Sections) -> int | None:
    """Read all blocks before the first packet; return the position of the first packet block.

    None if there is no packet, or if an unexpected block is before it.

    Parameters
    ----------
    head : bytes
        The file's first bytes.
    sections : Sections
        Contains the section afterwards.

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
        is_complete = len(block) == length >= SMALLEST.get(kind, SMALLEST_BLOCK) and not length & 3
        if not is_complete or block[-4:] != block[4:8] or not _took_in(kind, block, sections):
            return None
        at += length
    return None


def _took_in(kind: int, block: bytes, sections: Sections) -> bool:
    """Read a block that is not a packet; return False if it is invalid or begins a second section."""
    if kind == BlockType.SECTION:
        return not sections.count and sections.begin_section(block, sections.order) is None
    if kind == BlockType.INTERFACE:
        return sections.other(kind, block, packets_before=0) is None
    return note_other(block, sections)


def note_other(block: bytes, sections: Sections) -> bool:
    """Read a block other than packet, section and interface.

    Return False if it is invalid, or may be a packet block whose type is damaged.
    """
    (kind,) = struct.unpack_from(sections.order + "I", block)
    if kind in (BlockType.STATISTICS, BlockType.SECRETS, BlockType.CUSTOM):
        return sections.other(kind, block, packets_before=0) is None
    return kind not in SMALLEST and not is_laid_out_as_packet(block, sections)


def form_of(sections: Sections) -> dict[str, bool | int | list[int]] | None:
    """Return the layout of a section's packets as parameters for the native kernel.

    None if its interfaces differ in link type or time resolution, or the kernel does not support the resolution.
    """
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


SECTION_HEADER = b"\n\r\r\n"
SECTION_BYTES = 28
"""Minimum length of a section header block, bytes."""
SMALLEST_BLOCK = 12
SMALLEST: dict[int, int] = {
    BlockType.OBSOLETE_PACKET: 32,
    BlockType.SIMPLE_PACKET: 16,
    BlockType.ENHANCED_PACKET: 32,
    BlockType.SECTION: SECTION_BYTES,
}
"""Minimum length by block type; for other types `SMALLEST_BLOCK`."""
PACKET_AT = 28
"""Position of the packet in an enhanced packet block."""
_END_OF_OPTIONS = bytes(4)
_RLPDUMP = b"rlpdump"
"""Mark in the section header of an rlpdump log, which is a pcapng file."""
_MAGIC = 0x1A2B3C4D
_MOST_INTERFACES = 65536
_MOST_SECTIONS = 65536
"""A recording in rotating files that were joined has a few thousand sections; each costs some microseconds."""
_MOST_COMMENTS = 10_000
_LONGEST_TEXT = 4096


def is_pcapng(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a pcapng capture that no other format claims."""
    return head[:4] == SECTION_HEADER and _RLPDUMP not in head and not has_plug_ins()


def byte_order(head: bytes) -> str:
    """Return `<` or `>` for the byte order of the section at `head`; "" without a magic number."""
    orders = [o for o in "<>" if head[8:12] == struct.pack(o + "I", _MAGIC)]
    return orders[0] if orders else ""


def options(body: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of each option in `body`; stop where an option does not fit."""
    at = 0
    while at + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, at)
        if code == OptionCode.END or at + 4 + length > len(body):
            return
        yield code, body[at + 4 : at + 4 + length]
        at += 4 + (length + 3 & ~3)


def text(value: bytes) -> str:
    """Return the text of an option; octets that are not UTF-8 are replaced, and long text is truncated."""
    return value[:_LONGEST_TEXT].decode("utf-8", "replace").rstrip("\0")


class Resolution:
    """Resolution of an interface's time stamps: units of 10^-n or 2^-n seconds, and an offset in seconds."""

    __slots__ = ("binary", "code", "exponent", "offset_s")

    def __init__(self, code: int = 6, offset_s: int = 0) -> None:
        self.code = code
        self.binary = code & 0x80 != 0
        self.exponent = code & 0x7F
        self.offset_s = offset_s

    @property
    def ns(self) -> float:
        """Length of a unit in ns."""
        return 1e9 * (2.0 if self.binary else 10.0) ** -self.exponent

    @property
    def key(self) -> tuple[bool, int, int]:
        """Tuple that is equal for equal resolutions."""
        return self.binary, self.exponent, self.offset_s


def resolution_of(block: bytes, order: str) -> Resolution:
    """Return the unit of time stamps that an interface description block states; µs by default."""
    code, offset_s = 6, 0
    for option, value in options(block[16:-4], order):
        if option == 9 and value:
            code = value[0]
        elif option == 14 and len(value) == 8:
            offset_s = struct.unpack(order + "q", value)[0]
    return Resolution(code, offset_s)


@dataclass(slots=True)
class Section:
    """A section in the window: its byte order, its first packet, and who wrote it."""

    first: int
    """Index of its first packet."""
    order: str
    base: int
    """Index of its first interface in `Sections.local`."""
    is_pcapdroid: bool


class Sections:
    """The sections and interfaces that were read.

    Interfaces with equal descriptions in several sections count as one. `local` lists interfaces by their number within
    each section of the current window; `base` is where the current section begins.
    """

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.order = "<"
        self.local: list[int] = []
        self.since: list[int] = []
        """Packets of the window before the description of each interface of `local`."""
        self.base = 0
        self.is_pcapdroid = False
        """Whether the current section is of PCAPdroid, whose comments of packets name programs."""
        self.count = 0
        """Section headers so far; one that is read again after damage counts twice."""
        self.units: dict[int, int] = {}
        """Exponents of guessed units, by number of the interface in its section."""
        self.links: dict[tuple[int, int], int] = {}
        """Link types that frames show, by number of the interface in its section and the type that it states."""
        self.resolutions: list[Resolution] = []
        """Clock resolutions by position in `source.interfaces`."""
        self._known: dict[tuple[object, ...], int] = {}
        self._dropped_before: dict[int, int] = {}
        """Packets dropped in the ended sections, by position in `source.interfaces`."""

    def forget(self) -> None:
        """Discard the sections that have ended; called at the start of each window."""
        self.local = self.local[self.base :]
        self.since = [0] * len(self.local)
        self.base = 0

    def rewind(self, packet: int, section: Section) -> None:
        """Discard the sections and interfaces of the window that come after packet number `packet` in `section`.

        The blocks there are read again after damage.
        """
        kept = bisect_right(self.since, packet)
        del self.local[kept:], self.since[kept:]
        self.base, self.order, self.is_pcapdroid = section.base, section.order, section.is_pcapdroid

    def begin_section(self, block: bytes, order: str) -> str | None:
        """Read a section header block; return a description of the error in it, or None."""
        major, minor = struct.unpack_from(order + "HH", block, 12)
        if (major, minor) not in ((1, 0), (1, 2)):
            return f"version {major}.{minor} of pcapng is not supported"
        if self.has_all_sections:
            return f"more than {_MOST_SECTIONS} sections; split the file"
        for known in self.local[self.base :]:
            self._dropped_before[known] = self.source.interfaces[known].dropped_packets or 0
        self.order = order
        self.count += 1
        self.base = len(self.local)
        self.is_pcapdroid = False
        source = self.source
        for code, value in options(block[24:-4], order):
            if code == OptionCode.COMMENT:
                self.comment(None, value)
            elif code == 2:
                source.hardware = source.hardware or text(value)
            elif code == 3:
                source.operating_system = source.operating_system or text(value)
            elif code == 4:
                source.application = source.application or text(value)
                self.is_pcapdroid = is_pcapdroid(value)
        return None

    def other(self, kind: int, block: bytes, *, packets_before: int) -> str | None:
        """Read any other block than packet and section; return a description of the error in it, or None."""
        if kind == BlockType.INTERFACE:
            return self._interface(block, packets_before)
        if kind == BlockType.STATISTICS and len(block) >= 24:
            self._statistics(block)
        elif kind == BlockType.SECRETS:
            self.source.secrets += 1
        elif kind == BlockType.CUSTOM:
            note_names(self.source, block, self.order)
        return None

    def _interface(self, block: bytes, packets_before: int) -> str | None:
        if len(block) < 20:
            return f"an interface description block of {len(block)} bytes is too short"
        link_type, _, snap_length = struct.unpack_from(self.order + "HHI", block, 8)
        used = self.links.get((len(self.local) - self.base, link_type), link_type)
        interface = CaptureInterface(used, snap_length or None)
        comments = []
        for option, value in options(block[16:-4], self.order):
            if option == OptionCode.COMMENT:
                comments.append(value)
            elif option == 2:
                interface.name = text(value)
            elif option == 3:
                interface.description = text(value)
            elif option == 11 and value:
                interface.filter = text(value[1:]) if value[0] == 0 else None
        return self._remember(interface, self._resolution(block), comments, packets_before)

    def _resolution(self, block: bytes) -> Resolution:
        """Return the unit of an interface's time stamps: forced, guessed, or as it states."""
        stated, forced_ns = resolution_of(block, self.order), forced_tick_ns()
        if forced_ns is not None:
            return Resolution(_NS_DIGITS - len(str(forced_ns)) + 1, stated.offset_s)
        return Resolution(self.units.get(len(self.local) - self.base, stated.code), stated.offset_s)

    def _remember(
        self, interface: CaptureInterface, resolution: Resolution, comments: list[bytes], packets_before: int
    ) -> str | None:
        interface.resolution_ns = resolution.ns
        number = len(self.local) - self.base
        words = (interface.link_type, interface.snap_length, interface.name, interface.description)
        key = (number, *words, interface.filter, resolution.key)
        known = self._known.get(key)
        if known is None:
            if len(self._known) == _MOST_INTERFACES:
                return f"more than {_MOST_INTERFACES} different interfaces"
            known = self._known[key] = len(self.resolutions)
            self.resolutions.append(resolution)
            self.source.interfaces.append(interface)
            for comment in comments:
                self.comment(None, comment)
        self.local.append(known)
        self.since.append(packets_before)
        return None

    def _statistics(self, block: bytes) -> None:
        """Read the drop counters of an interface.

        The last ones are valid, because they count from the start.
        """
        number = struct.unpack_from(self.order + "I", block, 8)[0]
        if self.base + number >= len(self.local):
            return
        known = self.local[self.base + number]
        drops = [
            struct.unpack(self.order + "Q", value)[0]
            for option, value in options(block[20:-4], self.order)
            if option in (5, 7) and len(value) == 8
        ]
        if drops:
            before = self._dropped_before.get(known, 0)
            self.source.interfaces[known].dropped_packets = before + sum(drops)

    @property
    def has_all_sections(self) -> bool:
        """Whether the maximum number of sections was read, so that the file ends at the next one."""
        return self.count >= _MOST_SECTIONS

    @property
    def has_all_comments(self) -> bool:
        """Whether the maximum number of comments is stored, so that further ones are ignored."""
        return len(self.source.comments) > _MOST_COMMENTS

    def comment(self, packet: int | None, value: bytes, *, is_pcapdroid: bool = False) -> None:
        """Store the comment of a packet (None: of the file), unless the maximum number is stored.

        One of PCAPdroid may name the user of a packet.
        """
        comments = self.source.comments
        if packet is not None and is_pcapdroid and (user := user_of_comment(value)) is not None:
            self.source.users[packet] = user
            return
        if len(comments) < _MOST_COMMENTS:
            comments.append((packet, text(value)))
        elif len(comments) == _MOST_COMMENTS:
            comments.append((None, f"(only the first {_MOST_COMMENTS} comments are shown)"))


def first_section(head: bytes, path: str) -> str:
    """Return the byte order of a file that begins with `head`.

    Raises
    ------
    FormatError
        If it does not begin with a section header.
    """
    order = byte_order(head)
    if head[:4] != SECTION_HEADER or not order:
        raise FormatError(path, "the file does not begin with a pcapng section header", offset=0, excerpt=head[:12])
    if len(head) < SECTION_BYTES:
        raise FormatError(path, "the section header is truncated", offset=len(head))
    return order


def is_laid_out_as_packet(block: bytes | memoryview, sections: Sections) -> bool:
    """Return whether a block has the layout of an enhanced packet block.

    If its type says otherwise, one bit of the type may be damaged.
    """
    if len(block) < SMALLEST[BlockType.ENHANCED_PACKET]:
        return False
    number, _, _, captured, original = struct.unpack_from(sections.order + "5I", block, 8)
    left = len(block) - PACKET_AT - (captured + 3 & ~3) - 4
    ends = left == 0 or (left >= 4 and block[-8:-4] == _END_OF_OPTIONS)
    return bool(ends and 0 < captured <= original and number < len(sections.local) - sections.base)
