"""Opens a log by its content: plain or compressed, from a file, a pipe or standard input.

Memory is bounded whatever the input says; see `_expand.py` for compressed input.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from typing import TYPE_CHECKING

from multitracer.errors import FormatError, InputError
from parsers._compression import compression_of
from parsers._format import HEAD_BYTES
from parsers._ranges import Ranges
from parsers._until import Until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from _typeshed import WriteableBuffer

    from multitracer.captured import SourceFile
    from parsers._compression import Source

STDIN = "-"
SUSPICIOUS_RATIO = 200.0
"""Decompressed over stored size from which on a warning is due; header-only captures reach about 50."""
SMALL_BYTES = 16 << 20
"""Longest text that is read at once: a scenario, a trace, a map."""


class _Stored:
    """The stored bytes, counted; the first few were read before, to find the compression."""

    def __init__(self, raw: io.RawIOBase, *, path: str, progress: Callable[[int], None] | None) -> None:
        self._raw = raw
        self._path = path
        self._progress = progress
        self.count = 0
        head = bytearray(6)
        view = memoryview(head)
        filled = 0
        self._head = b""
        while filled < len(head) and (n := self.readinto(view[filled:])):
            filled += n
        self._head = bytes(head[:filled])
        self.compression = compression_of(self._head)

    def readinto(self, view: memoryview) -> int:
        """Fill some of `view`; return how many bytes, 0 only at the end."""
        if self._head:
            piece, self._head = self._head[: len(view)], self._head[len(view) :]
            view[: len(piece)] = piece
            return len(piece)
        try:
            n = self._raw.readinto(view) or 0
        except OSError as error:
            raise InputError(f"{self._path}: {error.strerror or error}") from error
        self.count += n
        if self._progress:
            self._progress(self.count)
        return n


class Stream(io.RawIOBase):
    """The decompressed bytes of one input, read once from its start.

    Parameters
    ----------
    raw : io.RawIOBase
        The bytes as stored.
    path : str
        For messages.
    progress : callable, optional
        Called with the number of stored bytes read so far.

    Notes
    -----
    A damaged compression raises FormatError, but only after all bytes before the damage were delivered.
    """

    def __init__(
        self, raw: io.RawIOBase, *, path: str, progress: Callable[[int], None] | None = None
    ) -> None:
        self.path = path
        self.bytes_read = 0
        """Decompressed bytes handed out so far."""
        self._raw = raw
        self._stored = _Stored(raw, path=path, progress=progress)
        self.compression = self._stored.compression
        """gzip, zstd, xz, bzip2 or None."""
        self._source: Source = self._stored
        if self.compression:
            from parsers._expand import Members  # noqa: PLC0415  a plain file needs no library of compression

            self._source = Members(self._stored, self.compression, path=path)
        self._head = b""

    def peek_head(self, size: int = HEAD_BYTES) -> bytes:
        """Return the first `size` bytes without consuming them; only before anything was read."""
        piece = bytearray(size)
        while len(self._head) < size:
            try:
                n = self._source.readinto(memoryview(piece)[: size - len(self._head)])
            except FormatError:
                if not self._head:
                    raise
                break  # what precedes the damage is all there is to see; reading on meets it again
            if n == 0:
                break
            self._head += piece[:n]
        return self._head[:size]

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill some of `buffer`; return how many bytes, 0 only at the end."""
        view = memoryview(buffer).cast("B")
        n = min(len(self._head), len(view))
        if n:
            view[:n] = self._head[:n]
            self._head = self._head[n:]
        elif len(view):
            n = self._source.readinto(view)
        self.bytes_read += n
        return n

    @property
    def stopped(self) -> bool:
        """Whether the stream was ended before the file did."""
        return isinstance(self._raw, Until) and self._raw.stopped

    @property
    def stored_bytes(self) -> int:
        """Bytes taken from the file so far."""
        return self._stored.count

    def share_of(self, count: int) -> float | None:
        """Return how much of the file its first `count` decompressed bytes are, from 0 to 1; None for a pipe.

        Of a compressed file it is what the stored bytes tell that were taken so far.
        """
        try:
            status = os.fstat(self._raw.fileno())
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return None
        return min(self._stored.count / status.st_size, 1.0) * min(count / max(self.bytes_read, 1), 1.0)

    @property
    def expansion_ratio(self) -> float | None:
        """Decompressed over stored size so far; None if the input is not compressed."""
        return self.bytes_read / max(self._stored.count, 1) if self.compression else None

    def close(self) -> None:
        """Close the stored file, too."""
        if not self.closed:
            self._raw.close()
        super().close()


def open_stream(
    path: str | os.PathLike[str],
    *,
    progress: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    ranges: Sequence[tuple[int, int]] | None = None,
) -> Stream:
    """Open a log for one pass over its decompressed bytes.

    Parameters
    ----------
    path : str or path-like
        A file, a named pipe, or "-" for standard input.
    progress : callable, optional
        Called with the number of stored bytes read so far.
    stop : callable, optional
        When it returns True, the stream is taken to end.
    ranges : sequence of (int, int), optional
        Begin and end of those parts of a file that are read, ascending; by default all of it.

    Raises
    ------
    InputError
        If there is no such file or it cannot be read.
    """
    name = str(path)
    if name == STDIN and sys.stdin is None:
        raise InputError(f"{name}: standard input is closed; name a file")
    try:
        file = io.FileIO(sys.stdin.fileno(), closefd=False) if name == STDIN else io.FileIO(path)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}; check the name and permissions") from error
    raw: io.RawIOBase = file if ranges is None else Ranges(file, ranges)
    try:
        return Stream(raw if stop is None else Until(raw, stop), path=name, progress=progress)
    except InputError:
        raw.close()
        raise


def note_stream(stream: Stream, source: SourceFile) -> None:
    """Note how much was read of a file, and warn of a suspicious compression."""
    source.bytes = stream.bytes_read
    note_expansion(source, stream.expansion_ratio)


def note_expansion(source: SourceFile, ratio: float | None) -> None:
    """Note the decompressed over the stored size of a file, None of a plain one; warn if it is large."""
    source.expansion_ratio = ratio
    if ratio is not None and ratio > SUSPICIOUS_RATIO:
        source.warnings.append(
            f"expands {ratio:.0f} times: a compression bomb? --max-packets bounds the work"
        )


def small_text(path: Path, *, most_bytes: int = SMALL_BYTES) -> str:
    """Return the text of a file that is not too long, a device or a pipe included.

    Parameters
    ----------
    path : Path
    most_bytes : int
        By default 16 MiB.

    Raises
    ------
    InputError
        If it cannot be read, is longer, or is not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            octets = stream.read(most_bytes + 1)  # a device has no size
        if len(octets) > most_bytes:
            raise InputError(f"{path}: longer than {most_bytes >> 20} MiB; this is another kind of file")
        return octets.decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text") from error
