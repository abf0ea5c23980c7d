"""The contract of a log format, which every public module of this room keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator

    from multitracer.capture import CaptureTables
    from multitracer.captured import SourceFile
    from multitracer.tables import Table
    from parsers._packets.layers import PacketRecords

    Parsed = CaptureTables | dict[str, Table]

Match = Literal["no", "maybe", "yes"]
"""How sure a format is that bytes are its own."""

HEAD_BYTES = 4096
"""How much of the (decompressed) start of a file `sniff` is shown."""


class Parser(Protocol):
    """The function that turns a stream into tables."""

    def __call__(self, stream: BinaryIO, *, path: str) -> Parsed:
        """Return what the stream holds; `path` is only for messages and provenance."""


class Readable(Protocol):
    """A source of bytes: an `InputStream`, or any binary file object."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill some of `buffer`; return how many bytes, 0 only at the end."""


class FindsPackets(Protocol):
    """The function that finds the packets of a capture."""

    def __call__(self, stream: Readable, source: SourceFile, /) -> Generator[PacketRecords]:
        """Yield the packet records of a file, one batch per window; note its facts in `source`."""


class Sniffer(Protocol):
    """The function that recognises a format."""

    def __call__(self, head: bytes, /) -> Match:
        """Return whether `head`, the first 4096 bytes or the whole of a shorter file, is this format."""


@dataclass(frozen=True, slots=True)
class Format:
    """One log format: bound to the name `FORMAT` at the end of one module of `parsers`.

    `sniff` sees bytes only, never raises, and never answers "yes" to empty input. `parse` reads the stream
    once from its start, in bounded pieces, without seeking; bad input raises only `FormatError`, and a log
    that is cut or damaged in the middle gives what precedes the damage, with the reason in its provenance.
    """

    name: str
    """Kebab case, unique: `pcapng`, `mahimahi-link`."""
    layer: str
    """The layer of the stack its records belong to: packet, tcp, link, radio, position, clock."""
    description: str
    """One line, for `multitracer formats`."""
    source: str
    """Where the format is defined: specification and section, manual page, kernel file."""
    sniff: Sniffer
    """Recognises the format."""
    parse: Parser
    """A `CaptureTables` for the layer "packet", otherwise tables by name."""
    blocks: FindsPackets | None = None
    """Of a capture of ours, which is read in windows; what another package gives is not used."""


# What a file is packed with, by its first bytes; `_expand.py`, with its libraries, unpacks it.

_MAGICS = (("gzip", b"\x1f\x8b\x08"), ("zstd", b"\x28\xb5\x2f\xfd"), ("xz", b"\xfd7zXZ\0"), ("bzip2", b"BZh"))
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
"""Bytes 2 to 4 of a skippable frame; the first is 0x50 to 0x5f."""


class ByteSource(Protocol):
    """A source of bytes."""

    def readinto(self, view: memoryview, /) -> int:
        """Fill some of `view`; return how many bytes, 0 only at the end."""


def compression_of(head: bytes) -> str | None:
    """Return the name of the compression that `head` begins with, or None."""
    if head[1:4] == ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50:
        return "zstd"
    return next((name for name, magic in _MAGICS if head.startswith(magic)), None)
