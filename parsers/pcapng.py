"""The capture file of Wireshark and dumpcap: sections, interfaces and blocks.

Source: draft-ietf-opsawg-pcapng. Blocks that are no packets (names, secrets, journal entries, custom and
unknown ones) are stepped over. `_pcapng_walk.py` finds the blocks, `_pcapng_blocks.py` reads those that
describe the others, `_pcapng_packets.py` reads the packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from multitracer.capture import Capture, SourceFile
from parsers._capture import decode_stream
from parsers._format import Format, Match
from parsers._pcapng_blocks import SECTION_BYTES, SECTION_HEADER, Sections, first_section
from parsers._pcapng_packets import packet_records
from parsers._pcapng_walk import skip_giant, walk
from parsers._window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers._packets.decode import Records
    from parsers._window import Readable


def sniff(head: bytes) -> Match:
    """Return "maybe" for a section header block: pcapng is also the container of other logs' formats."""
    return "maybe" if head[:4] == SECTION_HEADER else "no"


def blocks(stream: Readable, source: SourceFile) -> Iterator[Records]:
    """Yield the packet records of a file, one batch per window; note its facts in `source`.

    Raises
    ------
    FormatError
        If there is no section header.
    """
    window = Window(stream)
    window.refill()
    sections = Sections(source)
    sections.order = first_section(bytes(window.view[: min(len(window), SECTION_BYTES)]), source.path)
    source.variant = "little-endian" if sections.order == "<" else "big-endian"
    packets = 0
    more, damage = True, None
    while more and not damage:
        walked = walk(window, sections)
        records, damage = packet_records(window, walked, sections, packets)
        packets += len(records)
        yield records
        damage = damage or walked.damage
        giant = window.is_full and not damage
        if giant:
            damage = skip_giant(window, sections)
        more = window.refill() or giant
    source.damaged = damage or window.remains("block")


def parse(stream: BinaryIO, *, path: str) -> Capture:
    """Return the TCP segments of a pcapng file, and what else is in it."""
    return decode_stream(stream, SourceFile(path, "pcapng"), blocks)


FORMAT = Format(
    name="pcapng",
    layer="packet",
    description="packet capture of Wireshark, dumpcap and tcpdump, with interfaces and comments",
    source="draft-ietf-opsawg-pcapng",
    sniff=sniff,
    parse=parse,
)
