"""The exceptions of MultiTracer.

A message has the form *where: what is wrong; what to do*. The command line prints it as one line and exits
with status 1. Any other exception is a bug of MultiTracer.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_EXCERPT_BYTES = 60


class MultiTracerError(Exception):
    """Base class of all exceptions of MultiTracer.

    Examples
    --------
    >>> try:
    ...     mt.open("missing.pcap")
    ... except mt.MultiTracerError as error:
    ...     print(error)
    missing.pcap: ...
    """


class MultiTracerDeprecationWarning(DeprecationWarning):
    """A name, an argument, a column or an option goes in a later version; the text says what takes its place.

    docs/contributing/releases.md has the rule. A filter for this class concerns no other package.

    Examples
    --------
    >>> import warnings
    >>> warnings.filterwarnings("error", category=mt.MultiTracerDeprecationWarning)  # find all uses
    >>> warnings.filterwarnings("default", category=mt.MultiTracerDeprecationWarning)
    """


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


# What plug-ins do wrong.


def right_name(name: str, known: Iterable[str]) -> str:
    """Return the advice to write the known name that is most like a misspelt one; empty if none is like it."""
    from difflib import get_close_matches  # noqa: PLC0415  # only for errors

    return "".join(f"; write {each}" for each in get_close_matches(name, list(known), 1))


def right_argument(error: BaseException, known: Iterable[str]) -> str:
    """Return the advice for an error of a plug-in that misspelt a keyword argument; empty for other errors."""
    misspelt = re.search(r"unexpected keyword argument '(\w{1,60})'", str(error))
    return right_name(misspelt[1], known) if misspelt and isinstance(error, TypeError) else ""


def bound_elsewhere(module: object, wanted: str, kind: type) -> str:
    """Return the advice for an entry point whose module binds nothing of this type to the name `wanted`."""
    if isinstance(module, kind):
        return f"let the entry point name the module, without :{wanted}"
    names = [name for name, value in getattr(module, "__dict__", {}).items() if isinstance(value, kind)]
    return f"rename {names[0]} to {wanted}" if names else f"add {wanted} as its last line"


@contextmanager
def answering_within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if the code of a plug-in in the `with` block takes longer; only in the main thread.

    The timer of another program (SIGALRM) goes on afterwards.
    """
    import signal  # noqa: PLC0415  # only for plug-ins
    import threading  # noqa: PLC0415
    import time  # noqa: PLC0415

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):  # Windows
        yield
        return

    def end(*_: object) -> NoReturn:
        raise TimeoutError(f"no answer within {seconds:g} s")

    before, began_s = signal.signal(signal.SIGALRM, end), time.monotonic()
    rest_s, interval_s = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if rest_s:
            left_s = rest_s - (time.monotonic() - began_s)
            signal.setitimer(signal.ITIMER_REAL, max(left_s, 1e-3), interval_s)


class PluginError(MultiTracerError):
    """A plug-in could not be loaded; the message has its name and the reason."""
