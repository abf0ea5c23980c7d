"""A file that appears whole under its name or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import InputError, MultiTracerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def replacing(target: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Give the path of a new file beside `target`, which takes its place when all went well.

    A target that is no regular file (a pipe, a device) is given as it is.

    Raises
    ------
    InputError
        If it is a folder or cannot be written.
    """
    final = Path(os.path.realpath(os.fspath(target or "")))
    if final.is_dir():
        raise InputError(f"{shown(final)}: is a folder; name a file")
    if final.exists() and not final.is_file():
        with named(target or "", final):
            yield final
        return
    beside = place_beside(final)
    try:
        with named(target or "", beside):
            yield beside
            beside.replace(final)
    finally:
        beside.unlink(missing_ok=True)


def place_beside(final: Path) -> Path:
    """Return where to write what will become `final`: hidden, in the same folder, this process's own."""
    return final.with_name(f".{final.name}.{os.getpid()}.tmp")


@contextlib.contextmanager
def named(target: str | os.PathLike[str], beside: Path) -> Iterator[None]:
    """Turn a failure to write into an error that names the target, not the file beside it."""
    try:
        yield
    except (MultiTracerError, BrokenPipeError):
        raise
    except OSError as error:
        if error.filename and not os.fsdecode(error.filename).startswith(str(beside)):
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        advice = "make room there or choose another place" if error.errno in _FULL else "choose another place"
        raise InputError(f"{shown(target)}: cannot be written: {reason}; {advice}") from error


def shown(path: str | os.PathLike[str]) -> str:
    r"""Return a file name that any UTF-8 writer takes: bytes that are not UTF-8 become `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
