"""Decompression in bounded memory: gzip, Zstandard, xz and bzip2, any number of members in a row.

Stored bytes are read in small chunks, and no more output is produced than was requested. If the library
cannot limit its output (Zstandard), a chunk is one block, which the format limits to 128 KiB. A window or
dictionary of over 64 MiB is refused. Sources: RFC 1952, RFC 8878, the xz file format 1.2.1, bzip2.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import IO, TYPE_CHECKING, Protocol, cast

from multitracer.errors import FormatError
from parsers._format import ZSTD_SKIPPABLE

if TYPE_CHECKING:
    from parsers._format import ByteSource

_WINDOW_BYTES = 64 * 1024 * 1024
_XZ_MEMORY_BYTES = _WINDOW_BYTES + 16 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
_BLOCK_HEADER_BYTES = 3
_LARGEST_BLOCK_BYTES = 128 * 1024
"""Maximum unpacked size of a block: with a smaller buffer, the library keeps the rest, and loses it if the following
data are damaged."""
_REPEATED_BYTE = 1
"""The type of a block that repeats one byte."""


Bytes = bytes | memoryview


class _Chunks(Protocol):
    """A source of stored bytes."""

    def next_chunk(self, size: int, /) -> Bytes:
        """Return the next stored bytes, at most `size`; the bytes returned before are no longer valid."""


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
    """A Zstandard frame, which is unpacked straight into the buffer that is to be filled."""

    def __init__(self, chunks: _Chunks) -> None:
        import zstandard  # noqa: PLC0415 - 20 ms that only .zst files should cost

        inner = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        blocks = cast("IO[bytes]", _ZstdBlocks(chunks))  # all that it needs is to read
        self._reader = inner.stream_reader(blocks, closefd=False)
        self._error = zstandard.ZstdError

    def readinto(self, view: memoryview) -> int:
        """Fill some of `view`; return how many bytes, 0 only at the end of the frame."""
        try:
            return self._reader.readinto1(view)
        except self._error as error:
            raise ValueError(str(error)) from error


class _ZstdBlocks:
    """Hands out a frame: its headers, and what follows each (RFC 8878, section 3.1.1); nothing behind it."""

    def __init__(self, chunks: _Chunks) -> None:
        self._chunks = chunks
        self._header = bytearray()
        self._left = 0
        """Remaining bytes of the length in the last header."""
        self._is_in_frame = self._is_last = False
        self._checksum_bytes = 0

    def read(self, size: int, /) -> Bytes:
        """Return some bytes, one block's at most; none at the end of the frame."""
        del size
        if not self._left and self._is_last:
            self._checksum_bytes -= 1
            return self._chunks.next_chunk(1) if self._checksum_bytes >= 0 else b""
        if self._left:
            chunk = self._chunks.next_chunk(self._left)
            self._left -= len(chunk)
            return chunk
        if self._is_in_frame and not self._header:
            chunk = self._chunks.next_chunk(_BLOCK_HEADER_BYTES)
            if len(chunk) == _BLOCK_HEADER_BYTES:
                self._left = self._begun(chunk)
            else:
                self._header += chunk
            return chunk
        chunk = self._chunks.next_chunk(1)
        self._header += chunk
        self._left = self._octets_left()
        return chunk

    def _octets_left(self) -> int:
        """Return how many bytes follow the header before the next one; 0 if it is not whole yet, too."""
        size = _BLOCK_HEADER_BYTES if self._is_in_frame else _frame_header_bytes(self._header)
        if len(self._header) < size:
            return 0
        header = bytes(self._header)
        self._header.clear()
        if self._is_in_frame:
            return self._begun(header)
        self._is_in_frame, self._is_last = True, header[1:4] == ZSTD_SKIPPABLE
        if self._is_last:
            return int.from_bytes(header[4:], "little")
        self._checksum_bytes = header[4] & 4  # bit 2 says that there is one, and it has four bytes
        return 0

    def _begun(self, header: Bytes) -> int:
        """Return how many bytes of a block follow its header."""
        self._is_last = header[0] & 1 == 1
        octets = (header[0] | header[1] << 8 | header[2] << 16) >> 3
        return 1 if header[0] >> 1 & 3 == _REPEATED_BYTE else octets


def _frame_header_bytes(header: bytearray) -> int:
    """Return the size of a frame's header with its magic number, of which some bytes are known."""
    if header[1:4] == ZSTD_SKIPPABLE:
        return 4 + 4
    if len(header) <= 4:  # the magic number, and nothing of what follows
        return 5
    descriptor = header[4]
    is_single = descriptor >> 5 & 1
    return 5 + (1 - is_single) + (0, 1, 2, 4)[descriptor & 3] + (is_single, 2, 4, 8)[descriptor >> 6]


def _new_decoder(compression: str, chunks: _Chunks) -> _Decoder | _Zstd:
    if compression == "gzip":
        return _Gzip()
    if compression == "zstd":
        return _Zstd(chunks)
    if compression == "xz":
        return _Buffering(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES))
    return _Buffering(bz2.BZ2Decompressor())


class Members:
    """The decompressed bytes of one or more members, one after the other; padding with zeros is skipped."""

    def __init__(self, stored: ByteSource, compression: str, *, path: str) -> None:
        self._stored = stored
        self._compression = compression
        self._path = path
        self._decoder: _Decoder | _Zstd | None = _new_decoder(compression, self)
        self._pending: Bytes = b""
        self._chunk = memoryview(bytearray(_CHUNK_BYTES))
        """What was read last: nothing of it is pending when more is read."""
        self._out = memoryview(b"")
        self._consumed = 0
        self._chunk_bytes = 0
        """How many of the pending bytes are being unpacked."""

    def readinto(self, view: memoryview, /) -> int:
        """Fill some of `view`; return how many bytes, 0 only at the end.

        Raises
        ------
        FormatError
            If the compressed data are damaged, once everything before the damage was delivered.
        """
        while not self._out:
            try:
                decoder = self._decoder
                if isinstance(decoder, _Zstd):
                    if n := self._unpack(decoder, view):
                        return n
                    continue
                ended = not self._advance(decoder, len(view))
            except (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
                raise FormatError(
                    self._path, f"damaged {self._compression} data: {error}", offset=self._consumed - len(self._pending)
                ) from error
            if ended:
                return 0
        chunk, self._out = self._out[: len(view)], self._out[len(view) :]
        view[: len(chunk)] = chunk
        return len(chunk)

    def _unpack(self, frame: _Zstd, view: memoryview) -> int:
        """Fill some of `view`, or what is handed out later; return how many bytes of `view`."""
        is_large = len(view) >= _LARGEST_BLOCK_BYTES
        room = view if is_large else memoryview(bytearray(_LARGEST_BLOCK_BYTES))
        n = frame.readinto(room)
        if n == 0:
            self.next_chunk(0)  # the last one is unpacked
            self._decoder = None
        self._out = room[: 0 if is_large else n]
        return n if is_large else 0

    def next_chunk(self, size: int, /) -> Bytes:
        """Return the next stored bytes, `size` at most; until then the ones before are being unpacked.

        Raises
        ------
        EOFError
            If there are no more.
        """
        self._pending = memoryview(self._pending)[self._chunk_bytes :]  # bytes would copy all that is left
        if size and not self._pending:
            self._pending = self._more_of_a_member()
        self._chunk_bytes = min(size, len(self._pending))
        return self._pending[: self._chunk_bytes]

    def _advance(self, decoder: _Decoder | None, size: int) -> bool:
        """Do one step towards more output; return False at the end of the last member."""
        if decoder is None:
            self._pending = bytes(self._pending).lstrip(b"\0")
            if self._pending:
                self._decoder = _new_decoder(self._compression, self)
            else:
                self._pending = self._more()
            return bool(self._pending)
        if not self._pending and decoder.hungry:
            self._pending = self._more_of_a_member()
        out, self._pending = decoder.feed(self._pending, size)
        self._out = memoryview(out)
        if decoder.eof:
            self._decoder = None
        return True

    def _more_of_a_member(self) -> Bytes:
        if more := self._more():
            return more
        raise EOFError("the file is truncated")

    def _more(self) -> Bytes:
        n = self._stored.readinto(self._chunk)
        self._consumed += n
        return self._chunk[:n]
