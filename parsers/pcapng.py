"""The capture file of Wireshark and dumpcap: sections, interfaces and blocks.

Source: draft-ietf-opsawg-pcapng. Blocks that are not packets (names, secrets, journal entries, custom and
unknown ones) are skipped. `_pcapng/walk.py` finds the blocks, `_pcapng/blocks.py` reads sections, interfaces
and statistics, `_pcapng/packets.py` reads the packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from multitracer.captured import SourceFile
from parsers._capture.bounds import LARGEST_PACKET
from parsers._capture.capture_file import FileDamage, decode_stream
from parsers._capture.window import StreamWindow
from parsers._format import Format, Match
from parsers._pcapng.blocks import SECTION_BYTES, SECTION_HEADER, Sections, first_section
from parsers._pcapng.first_packets import UNIT_PROBE_BYTES, guess
from parsers._pcapng.packets import packet_records
from parsers._pcapng.walk import WalkedBlocks, next_block, skip_oversized, walk

if TYPE_CHECKING:
    from collections.abc import Generator

    from multitracer.capture import CaptureTables
    from parsers._format import Readable
    from parsers._packets.layers import PacketRecords

OVERLAP_BYTES = LARGEST_PACKET + 4096
"""A packet block that begins at least this far before the end of a window is completely inside it."""


def sniff(head: bytes) -> Match:
    """Return "maybe" for a section header block, because other log formats also use pcapng files."""
    return "maybe" if head[:4] == SECTION_HEADER else "no"


def blocks(stream: Readable, source: SourceFile) -> Generator[PacketRecords]:
    """Yield the packet records of a file in batches, and store the properties of the file in `source`.

    Raises
    ------
    FormatError
        If the file has no section header.
    """
    window = StreamWindow(stream)
    window.refill()
    sections = Sections(source)
    sections.order = first_section(bytes(window.view[: min(len(window), SECTION_BYTES)]), source.path)

    def head(size: int) -> bytes:
        return bytes(window.view[: min(len(window), size)])

    guess(head(UNIT_PROBE_BYTES), sections, head)
    source.variant = "little-endian" if sections.order == "<" else "big-endian"
    reading = _Reading(window, sections, FileDamage(source))
    while not reading.done:
        yield reading.batch()
        reading.advance()
    reading.finish()


_REACH_BYTES = 1 << 16
"""How far the first walk after damage goes; each without damage goes four times as far."""


class _Reading:
    """Reads the packets of one file in windows; after damage, it continues at the next complete block."""

    def __init__(self, window: StreamWindow, sections: Sections, damage: FileDamage) -> None:
        self.done = False
        """Whether all of the file was read."""
        self._window, self._sections, self._damage = window, sections, damage
        self._packets = 0
        self._reason: str | None = None
        """Reason why reading ended before the end of the stream; None if it did not."""
        self._reach: int | None = None
        """Bytes that the next walk goes; None: to the end of the window."""
        self._walked = WalkedBlocks(sections)

    def batch(self) -> PacketRecords:
        """Return the packets of the current window."""
        offset = self._window.offset
        self._walked = walk(self._window, self._sections, self._reach)
        records, damage = packet_records(self._window, self._walked, self._sections, self._packets)
        records.offset = offset if self._sections.count == 1 else None
        self._packets += len(records)
        self._reason = damage or self._walked.damage
        self._note_unexpected()
        return records

    def _note_unexpected(self) -> None:
        """Count a block of unknown type with the layout of a packet as lost: its content is unknown."""
        for begin, end, kind in self._walked.unexpected:
            where = self._window.offset_of(begin)
            is_before = self._reason is None or begin < self._walked.damaged_at
            if is_before and not self._damage.is_too_much:
                reason = (
                    f"the block at byte {where} of type {kind} has an unknown type, but the layout of a packet block"
                )
                self._damage.lost(where, self._window.offset_of(end), reason)

    def advance(self) -> None:
        """Continue after damaged or too large blocks."""
        window, walked = self._window, self._walked
        if self._reason is None and self._reach is not None:
            self._reach = 4 * self._reach if walked.is_partial else None
        if self._reason is None and walked.is_partial:
            return
        if self._reason is None and window.is_full:
            walked.damaged_at = window.begin
            self._reason = skip_oversized(window, self._sections)
            window.refill()
        elif self._reason is None and not window.refill():
            walked.damaged_at = window.begin
            self._reason = window.remains("block")
            self.done = self._reason is None
        if self._reason is not None:
            self._resume(walked)

    def _resume(self, walked: WalkedBlocks) -> None:
        """Continue at the next valid block, at any distance; if there is none, end the reading."""
        window, begin = self._window, max(walked.damaged_at, walked.damaged_until) + 1
        lost = window.offset_of(walked.damaged_at)
        block = None
        while not self._damage.is_too_much and not self._sections.has_all_sections:
            block = next_block(window, begin, self._sections.order, only_a_section=walked.only_a_section)
            if block is not None or window.ended:
                break
            window.begin = max(begin, window.end - OVERLAP_BYTES)
            window.refill()
            begin = window.begin
        if block is None:
            self.done = True
        else:
            self._damage.lost(lost, window.offset_of(block), self._reason or "")
            self._reason, window.begin, self._reach = None, block, _REACH_BYTES

    def finish(self) -> None:
        """Store the damage of the file in its `SourceFile`."""
        self._damage.ended(self._reason or self._window.remains("block"))


def parse(stream: BinaryIO, *, path: str) -> CaptureTables:
    """Return the TCP segments of a pcapng file, and the counts of all other packets."""
    return decode_stream(stream, SourceFile(path, "pcapng"), blocks)


FORMAT = Format(
    name="pcapng",
    layer="packet",
    description="packet capture of Wireshark, dumpcap and tcpdump, with interfaces and comments",
    source="draft-ietf-opsawg-pcapng",
    sniff=sniff,
    parse=parse,
    blocks=blocks,
)
