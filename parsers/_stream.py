"""Opens a log by its content: plain or compressed, from a file, a pipe or standard input.

Memory is bounded for any input; see `_expand.py` for compressed input.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import time
from os import fstat
from typing import TYPE_CHECKING

from multitracer.errors import FormatError, InputError
from parsers._format import HEAD_BYTES, compression_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from _typeshed import WriteableBuffer

    from multitracer.captured import SourceFile
    from parsers._format import ByteSource

# Some ranges of a file, one after the other, as if nothing lay between them.


class Ranges(io.RawIOBase):
    """The bytes of a file in ranges of begin and end.

    Parameters
    ----------
    raw : io.RawIOBase
        A file that can seek.
    ranges : sequence of (int, int)
        Ascending, none empty.
    """

    def __init__(self, raw: io.RawIOBase, ranges: Sequence[tuple[int, int]]) -> None:
        self._raw, self._ranges = raw, list(reversed(ranges))
        self._left = 0

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill a part of `buffer`; return the number of bytes, 0 only after the last range."""
        if not self._left and self._ranges:
            begin, end = self._ranges.pop()
            self._left = end - begin
            self._raw.seek(begin)
        count = self._raw.readinto(memoryview(buffer)[: self._left]) or 0 if self._left else 0
        self._left = self._left - count if count else 0
        return count

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._raw.fileno()

    def close(self) -> None:
        """Close the file, too."""
        if not self.closed:
            self._raw.close()
        super().close()


# An input that can be asked to end: a pipe that its writer never closes, or a file that is long.


_LOOK_S = 0.2
"""Interval at which `stop` is checked while a pipe is idle; users do not notice such a short delay."""
_GRACE_S = 2.0
"""Time for which the writer may continue: tcpdump gets the same Ctrl-C, flushes, and ends at once."""


class Until(io.RawIOBase):
    """The bytes of a file or pipe up to its end, or until `stop` returns True.

    A pipe is read on for up to two seconds then, so that what its writer still holds is not lost.
    """

    def __init__(self, raw: io.RawIOBase, stop: Callable[[], bool]) -> None:
        self.stopped = False
        """Whether it ended before the input did."""
        self._raw, self._stop = raw, stop
        self._is_file = stat.S_ISREG(fstat(raw.fileno()).st_mode)
        self._last_s: float | None = None

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill some of `buffer`; return how many bytes, 0 only at the end."""
        if self._is_file:
            self.stopped = self.stopped or self._stop()
        while not self.stopped and not self._is_file:
            self.stopped = self._is_over()
            if select.select([self._raw], [], [], 0 if self.stopped else _LOOK_S)[0]:
                break
        return 0 if self.stopped else self._raw.readinto(buffer) or 0

    def _is_over(self) -> bool:
        if self._last_s is None and self._stop():
            self._last_s = time.monotonic() + _GRACE_S
        return self._last_s is not None and time.monotonic() > self._last_s

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._raw.fileno()

    def close(self) -> None:
        """Close the file, too."""
        if not self.closed:
            self._raw.close()
        super().close()


STDIN = "-"
SUSPICIOUS_RATIO = 200.0
"""Ratio of decompressed to stored size above which a warning is given; header-only captures reach about 50."""
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
            chunk, self._head = self._head[: len(view)], self._head[len(view) :]
            view[: len(chunk)] = chunk
            return len(chunk)
        try:
            n = self._raw.readinto(view) or 0
        except OSError as error:
            raise InputError(f"{self._path}: cannot read this file: {error.strerror or error}") from error
        self.count += n
        if self._progress:
            self._progress(self.count)
        return n


class InputStream(io.RawIOBase):
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

    def __init__(self, raw: io.RawIOBase, *, path: str, progress: Callable[[int], None] | None = None) -> None:
        self.path = path
        self.bytes_read = 0
        """Decompressed bytes handed out so far."""
        self._raw = raw
        self._stored = _Stored(raw, path=path, progress=progress)
        self.compression = self._stored.compression
        """gzip, zstd, xz, bzip2 or None."""
        self._source: ByteSource = self._stored
        if self.compression:
            from parsers._expand import Members  # noqa: PLC0415  a plain file needs no library of compression

            self._source = Members(self._stored, self.compression, path=path)
        self._head = b""

    def peek_head(self, size: int = HEAD_BYTES) -> bytes:
        """Return the first `size` bytes without consuming them; only before anything was read."""
        chunk = bytearray(size)
        while len(self._head) < size:
            try:
                n = self._source.readinto(memoryview(chunk)[: size - len(self._head)])
            except FormatError:
                if not self._head:
                    raise
                break  # what precedes the damage is all there is to see; reading on meets it again
            if n == 0:
                break
            self._head += chunk[:n]
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
        """Return the fraction of the file, 0 to 1, that its first `count` decompressed bytes are.

        None for a pipe.

        Of a compressed file it is the fraction of the stored bytes that were read so far.
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
) -> InputStream:
    """Open a log for one pass over its decompressed bytes.

    Parameters
    ----------
    path : str or path-like
        A file, a named pipe, or "-" for standard input.
    progress : callable, optional
        Called with the number of stored bytes read so far.
    stop : callable, optional
        When it returns True, reading stops as at the end of the stream.
    ranges : sequence of (int, int), optional
        Begin and end of the byte ranges to read, ascending; by default the whole file.

    Raises
    ------
    InputError
        If there is no such file or it cannot be read.
    """
    name = str(path)
    if name == STDIN and sys.stdin is None:
        raise InputError(f"{name}: standard input is closed; give the name of a file")
    try:
        file = io.FileIO(sys.stdin.fileno(), closefd=False) if name == STDIN else io.FileIO(path)
    except OSError as error:
        raise InputError(
            f"{name}: cannot open this file: {error.strerror or error}; check the name and the permissions"
        ) from error
    raw: io.RawIOBase = file if ranges is None else Ranges(file, ranges)
    try:
        return InputStream(raw if stop is None else Until(raw, stop), path=name, progress=progress)
    except InputError:
        raw.close()
        raise


def note_stream(stream: InputStream, source: SourceFile) -> None:
    """Note how much was read of a file, and warn of a suspicious compression."""
    source.bytes = stream.bytes_read
    note_expansion(source, stream.expansion_ratio)


def note_expansion(source: SourceFile, ratio: float | None) -> None:
    """Note the decompressed over the stored size of a file, None of a plain one; warn if it is large."""
    source.expansion_ratio = ratio
    if ratio is not None and ratio > SUSPICIOUS_RATIO:
        source.warnings.append(
            f"expands {ratio:.0f} times, which may be a compression bomb; limit the work with --max-packets"
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
            raise InputError(
                f"{path}: the file is longer than {most_bytes >> 20} MiB, which is the maximum for "
                "this format; check the file"
            )
        return octets.decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot read this file: {error.strerror}; check the permissions") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: this file is not a text file") from error


# The map of columns next to a CSV log, `drive.csv.toml` (mapped_csv.py reads it).


def map_of(path: str | os.PathLike[str]) -> str:
    """Return the name of a file's map."""
    return f"{os.fspath(path)}.toml"


def has_map(path: str | os.PathLike[str]) -> bool:
    """Return whether a file has a map next to it."""
    try:
        return stat.S_ISREG(os.lstat(map_of(path)).st_mode)
    except (OSError, ValueError):
        return False


def is_map(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is the map of one that lies next to it."""
    name = os.fspath(path)
    log = name.removesuffix(".toml")
    return log != name and os.path.isfile(log) and has_map(log)  # noqa: PTH113  a name may hold NUL
