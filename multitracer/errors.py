"""Every error that MultiTracer raises on purpose.

A message reads *where: what is wrong; what to do*. The command line prints it as one line and exits
with status 1. Anything else that escapes is a bug of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_EXCERPT_BYTES = 60


class MultiTracerError(Exception):
    """The root of all sanctioned errors."""


class FormatError(MultiTracerError, ValueError):
    """Bytes of a log that do not follow its format.

    Parameters
    ----------
    path : str or Path
        The file, as the user named it.
    reason : str
        What is wrong and, where that helps, what to do.
    offset : int, optional
        Byte offset into the (decompressed) file.
    line : int, optional
        Line number, from 1, for text formats.
    excerpt : bytes, optional
        The offending bytes; at most 60 are shown.
    """

    def __init__(
        self,
        path: str | Path,
        reason: str,
        *,
        offset: int | None = None,
        line: int | None = None,
        excerpt: bytes = b"",
    ) -> None:
        self.path = str(path)
        self.reason = reason
        self.offset = offset
        self.line = line
        where = self.path
        if line is not None:
            where += f":{line}"
        if offset is not None:
            where += f" at byte {offset}"
        shown = f": {excerpt[:_EXCERPT_BYTES]!r}" if excerpt else ""
        super().__init__(f"{where}: {reason}{shown}")


class UnknownFormatError(MultiTracerError, ValueError):
    """A file whose bytes no installed format claims, or that several claim."""


class InputError(MultiTracerError, ValueError):
    """An input or an option that cannot be used as asked: a missing file, no such connection."""


class WindowError(InputError):
    """A stretch of time whose end is not after its begin; a mistake in the options, not in the input."""


class SchemaError(MultiTracerError, ValueError):
    """A table whose columns, dtypes or lengths are not those of its schema."""


class ClockError(MultiTracerError, ValueError):
    """Clocks that cannot be related as asked."""


class CollectorError(MultiTracerError, RuntimeError):
    """A collector that failed: its command, return code and last words."""


class PreflightError(CollectorError):
    """A missing tool or permission, with the command that fixes it."""


class ProtocolError(MultiTracerError):
    """A protocol was broken; see the two subclasses for by whom."""


class LocalProtocolError(ProtocolError):
    """Our own caller asked for something that the protocol forbids now."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol forbids."""


class PluginError(MultiTracerError):
    """A plug-in that could not be loaded: which one and why."""
