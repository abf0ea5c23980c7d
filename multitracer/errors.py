"""The exceptions of MultiTracer.

A message has the form *where: what is wrong; what to do*. The command line prints it as one line and exits
with status 1. Any other exception is a bug of MultiTracer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_EXCERPT_BYTES = 60


class MultiTracerError(Exception):
    """Base class of all exceptions of MultiTracer."""


class FormatError(MultiTracerError, ValueError):
    """The content of a log violates the format of the log.

    Parameters
    ----------
    path : str or Path
        The file, as the user named it.
    reason : str
        Description of the error and, if possible, of the remedy.
    offset : int, optional
        Byte offset into the (decompressed) file.
    line : int, optional
        Line number, from 1, for text formats.
    excerpt : bytes, optional
        The offending bytes; at most 60 are shown.
    """

    def __init__(
        self, path: str | Path, reason: str, *, offset: int | None = None, line: int | None = None, excerpt: bytes = b""
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
    """The format of a file is unknown: no installed format recognizes it, or several do."""


class InputError(MultiTracerError, ValueError):
    """An input or an option is not usable, for example a missing file or an unknown connection."""


class WindowError(InputError):
    """The end of a requested interval is not after its begin: an error in the options, not in the input."""


class SchemaError(MultiTracerError, ValueError):
    """The columns, dtypes or lengths of a table violate its schema."""


class ClockError(MultiTracerError, ValueError):
    """The requested relation of clocks cannot be computed."""


class CollectorError(MultiTracerError, RuntimeError):
    """A collector failed; the message has its command, exit status and last error output."""


class PreflightError(CollectorError):
    """A tool or a permission is missing; the message has the command that corrects this."""


class ProtocolError(MultiTracerError):
    """A protocol rule was violated, by this program or by the peer (see the subclasses)."""


class LocalProtocolError(ProtocolError):
    """The calling code requested an action that the protocol forbids in its present state."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol."""


class PluginError(MultiTracerError):
    """A plug-in could not be loaded; the message has its name and the reason."""
