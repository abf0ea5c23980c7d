"""Decompression in bounded memory: gzip, Zstandard, xz and bzip2, any number of members in a row.

Stored bytes are taken in small pieces and no more output is made than was asked for; where the library
cannot limit its output (Zstandard), a piece is a block, of which the format allows 128 KiB. A window or
dictionary of over 64 MiB is refused. Sources: RFC 1952, RFC 8878, the xz file format 1.2.1, bzip2.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import TYPE_CHECKING, Protocol

from multitracer.errors import FormatError
from parsers._compression import ZSTD_SKIPPABLE

if TYPE_CHECKING:
    from parsers._compression import Source

_WINDOW_BYTES = 64 * 1024 * 1024
_XZ_MEMORY_BYTES = _WINDOW_BYTES + 16 * 1024 * 1024
_PIECE_BYTES = 64 * 1024
_BLOCK_HEADER_BYTES = 3
_REPEATED_BYTE = 1
"""The type of a block that is one byte, so many times."""


Bytes = bytes | memoryview


class _Decoder(Protocol):
    """One compressed member."""

    eof: bool
    hungry: bool

    def feed(self, data: Bytes, size: int) -> tuple[bytes, Bytes]:
        """Return some output, about `size` bytes at most, and the part of `data` that must be given again."""


class _Gzip:
    hungry = True

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.eof = False

    def feed(self, data: Bytes, size: int) -> tuple[bytes, Bytes]:
        out = self._inner.decompress(data, size)
        self.eof = self._inner.eof
        return out, self._inner.unused_data if self.eof else self._inner.unconsumed_tail


class _Buffering:
    """xz and bzip2: the library keeps input that it could not use yet."""

    def __init__(self, inner: lzma.LZMADecompressor | bz2.BZ2Decompressor) -> None:
        self._inner = inner
        self.eof = False
        self.hungry = True

    def feed(self, data: Bytes, size: int) -> tuple[bytes, Bytes]:
        out = self._inner.decompress(data, size)
        self.eof = self._inner.eof
        self.hungry = self._inner.needs_input
        return out, self._inner.unused_data if self.eof else b""


class _Zstd:
    hungry = True

    def __init__(self) -> None:
        import zstandard  # noqa: PLC0415 - 20 ms that only .zst files should cost

        self._inner = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
        self._error = zstandard.ZstdError
        self._blocks = _ZstdBlocks()
        self.eof = False

    def feed(self, data: Bytes, size: int) -> tuple[bytes, Bytes]:
        del size
        data = memoryview(data)  # to cut bytes would copy all that is left
        taken = self._blocks.step(data)
        try:
            out = self._inner.decompress(data[:taken])
        except self._error as error:
            raise ValueError(str(error)) from error
        self.eof = self._inner.eof
        left = data[taken:]
        return out, self._inner.unused_data + bytes(left) if self.eof else left


class _ZstdBlocks:
    """Cuts a frame into its headers, byte by byte, and what follows each (RFC 8878, section 3.1.1)."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._left = 0
        """Bytes that are still to come of what the last header told."""
        self._is_in_frame = False

    def step(self, data: memoryview) -> int:
        """Return how many of these bytes to unpack at once: one block's at most."""
        if not self._left:
            self._header.append(data[0])
            self._left = self._octets_left()
            return 1
        taken = min(self._left, len(data))
        self._left -= taken
        return taken

    def _octets_left(self) -> int:
        """Return how many bytes follow the header before the next one; 0 if it is not whole yet, too."""
        size = _BLOCK_HEADER_BYTES if self._is_in_frame else _frame_header_bytes(self._header)
        if len(self._header) < size:
            return 0
        header = bytes(self._header)
        self._header.clear()
        if self._is_in_frame:
            word = int.from_bytes(header, "little")
            return 1 if word >> 1 & 3 == _REPEATED_BYTE else word >> 3
        self._is_in_frame = True
        return int.from_bytes(header[4:], "little") if header[1:4] == ZSTD_SKIPPABLE else 0


def _frame_header_bytes(header: bytearray) -> int:
    """Return the size of a frame's header with its magic number, of which some bytes are known."""
    if header[1:4] == ZSTD_SKIPPABLE:
        return 4 + 4
    if len(header) <= 4:  # the magic number, and nothing of what follows
        return 5
    descriptor = header[4]
    is_single = descriptor >> 5 & 1
    return 5 + (1 - is_single) + (0, 1, 2, 4)[descriptor & 3] + (is_single, 2, 4, 8)[descriptor >> 6]


def _new_decoder(compression: str) -> _Decoder:
    if compression == "gzip":
        return _Gzip()
    if compression == "zstd":
        return _Zstd()
    if compression == "xz":
        return _Buffering(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES))
    return _Buffering(bz2.BZ2Decompressor())


class Members:
    """The decompressed bytes of one or more members, one after the other; padding with zeros is skipped."""

    def __init__(self, stored: Source, compression: str, *, path: str) -> None:
        self._stored = stored
        self._compression = compression
        self._path = path
        self._decoder: _Decoder | None = _new_decoder(compression)
        self._pending: Bytes = b""
        self._out = memoryview(b"")
        self._consumed = 0

    def readinto(self, view: memoryview, /) -> int:
        """Fill some of `view`; return how many bytes, 0 only at the end.

        Raises
        ------
        FormatError
            If the compressed data are damaged, once everything before the damage was delivered.
        """
        while not self._out:
            try:
                ended = not self._advance(len(view))
            except (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
                raise FormatError(
                    self._path,
                    f"damaged {self._compression} data: {error}",
                    offset=self._consumed - len(self._pending),
                ) from error
            if ended:
                return 0
        piece, self._out = self._out[: len(view)], self._out[len(view) :]
        view[: len(piece)] = piece
        return len(piece)

    def _advance(self, size: int) -> bool:
        """Do one step towards more output; return False at the end of the last member."""
        if self._decoder is None:
            self._pending = bytes(self._pending).lstrip(b"\0")
        if not self._pending and (self._decoder is None or self._decoder.hungry):
            self._pending = self._more()
            if not self._pending and self._decoder is not None:
                raise EOFError("it ends in the middle")
            return bool(self._pending)
        if self._decoder is None:
            self._decoder = _new_decoder(self._compression)
        out, self._pending = self._decoder.feed(self._pending, size)
        self._out = memoryview(out)
        if self._decoder.eof:
            self._decoder = None
        return True

    def _more(self) -> bytes:
        piece = bytearray(_PIECE_BYTES)
        n = self._stored.readinto(memoryview(piece))
        self._consumed += n
        return bytes(piece[:n])
