"""Writes files under a temporary name and renames them, so that incomplete files are never visible."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import InputError, MultiTracerError
from multitracer.words import portable

if TYPE_CHECKING:
    from collections.abc import Iterator

_HIDDEN = ".{}.{}.tmp"
"""Format of the name of an incomplete file or folder: hidden, beside the target, with the process ID."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def replacing(target: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Yield the path of a new file beside `target`; at the end of the `with` block it replaces `target`.

    After an error `target` remains unchanged. If the target is not a regular file (a pipe, a
    device), its own path is yielded.

    Raises
    ------
    InputError
        If the target is a folder or cannot be written.
    """
    final = Path(os.path.realpath(os.fspath(target or "")))
    if final.is_dir():
        raise InputError(f"{portable(str(final))}: this output is a folder; name a file")
    if final.exists() and not final.is_file():
        with named(target or "", final):
            yield final
        return
    temporary = final.with_name(_HIDDEN.format(final.name, os.getpid()))
    try:
        with named(target or "", temporary):
            yield temporary
            temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a new folder beside `target`.

    At the end of the `with` block, without an error, its files are moved into `target`.
    """
    final = Path(os.path.realpath(os.fspath(target)))
    temporary = final.with_name(_HIDDEN.format(final.name, os.getpid()))
    try:
        with named(target, temporary):
            temporary.mkdir()
            yield temporary
            final.mkdir(exist_ok=True)
            for made in temporary.iterdir():
                made.replace(final / made.name)
    finally:
        import shutil  # noqa: PLC0415  # its packers take 2 ms to import, and a single file needs none

        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def named(target: str | os.PathLike[str], temporary: Path) -> Iterator[None]:
    """Convert an OSError in the `with` block to an InputError that names the target.

    The error itself names the temporary file.
    """
    try:
        yield
    except (MultiTracerError, BrokenPipeError):
        raise
    except OSError as error:
        if error.filename and not os.fsdecode(error.filename).startswith(str(temporary)):
            raise
        reason = os.strerror(error.errno) if error.errno else str(error)
        advice = "make room there or choose another place" if error.errno in _FULL else "choose another place"
        raise InputError(f"{portable(os.fspath(target))}: cannot write this file: {reason}; {advice}") from error
