"""The classic capture file of tcpdump, Wireshark and related tools.

Source: draft-ietf-opsawg-pcap. `_pcap/dialect_choice.py` distinguishes old and modified variants, and
`_pcap/walk.py` finds the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from multitracer.captured import CaptureInterface, SourceFile
from parsers._capture.capture_file import FileDamage, decode_stream
from parsers._capture.link_type import note_link_type
from parsers._capture.time_unit import note_guess
from parsers._capture.window import StreamWindow
from parsers._format import Format, Match
from parsers._pcap.dialect import PROBE_BYTES, is_magic
from parsers._pcap.dialect_choice import dialect_of
from parsers._pcap.walk import RecordBatches

if TYPE_CHECKING:
    from collections.abc import Generator

    from multitracer.capture import CaptureTables
    from parsers._format import Readable
    from parsers._packets.layers import PacketRecords


_NO_FRACTION = "the fraction of the timestamp is not below one second"


def sniff(head: bytes) -> Match:
    """Return "yes" for a known magic number in either byte order."""
    return "yes" if is_magic(head) else "no"


def blocks(stream: Readable, source: SourceFile) -> Generator[PacketRecords]:
    """Yield the records of a file in batches, and store the properties of the file in `source`.

    Raises
    ------
    FormatError
        If the file header is incomplete.
    """
    window = StreamWindow(stream)
    window.refill()

    def head(size: int) -> bytes:
        return bytes(window.view[: min(len(window), size)])

    dialect = dialect_of(head(PROBE_BYTES), path=source.path, more=head)
    source.variant = dialect.description
    if dialect.declared_ns:
        note_guess(source, dialect.magic.tick_ns, dialect.declared_ns)
    if dialect.declared_link >= 0:
        note_link_type(source, dialect.declared_link, dialect.link_type)
    tick_ns = float(dialect.magic.tick_ns)
    source.interfaces.append(CaptureInterface(dialect.link_type, dialect.snap_length, resolution_ns=tick_ns))
    window.skip(dialect.first_record)
    reading = RecordBatches(window, dialect, FileDamage(source))
    while not reading.done:
        records = reading.batch()
        records.offset = reading.offset
        source.no_time(_NO_FRACTION, reading.without_time)
        yield records
        reading.advance()
    reading.finish()


def parse(stream: BinaryIO, *, path: str) -> CaptureTables:
    """Return the TCP segments of a pcap file, and the counts of all other packets."""
    return decode_stream(stream, SourceFile(path, "pcap"), blocks)


FORMAT = Format(
    name="pcap",
    layer="packet",
    description="packet capture of tcpdump and many others",
    source="draft-ietf-opsawg-pcap, pcap-savefile(5)",
    sniff=sniff,
    parse=parse,
    blocks=blocks,
)
