"""Outputs: written under a temporary name and renamed, so that incomplete files are never visible.

One guard for all outputs: a log is never replaced, and a link to another folder is not followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import FormatError, InputError, MultiTracerError
from multitracer.words import portable

if TYPE_CHECKING:
    from collections.abc import Iterator

_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags of `os.open`: no link is followed, and no child gets the descriptor. Windows has neither."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SECTION_HEADER, _LITTLE_ENDIAN = b"\n\r\r\n", b"\x4d\x3c\x2b\x1a"
_EXPORTED = b"What MultiTracer "
"""Begin of the comment in files of `export wireshark`, which may be replaced; its writer is also that of recordings."""
_OWN_GPX = re.compile(rb'\A<\?xml [^>]*>\s*<gpx [^>]*creator="MultiTracer ')


def check_replaceable(target: str | os.PathLike[str]) -> Path:
    """Return the path that an output to `target` will replace or create.

    Raises
    ------
    InputError
        If it is a link to another folder, or a log that this program did not export.
    """
    path = Path(os.path.abspath(target))  # noqa: PTH100  # `absolute` keeps the dots
    final = Path(os.path.realpath(path))
    if _is_descriptor(path):
        return path
    leads_out = path.is_symlink() and final.parent != Path(os.path.realpath(path.parent))
    if leads_out and (final.is_file() or final.is_dir() or not final.exists()):  # pipes and devices are written to
        raise InputError(
            f"{portable(os.fspath(target))}: this is a link to {portable(str(final))}; name that path itself, "
            "or remove the link"
        )
    if final.is_file() and (kind := _kind_of_log(final)):
        raise InputError(f"{portable(os.fspath(target))}: this file is {kind}; choose another name for the output")
    return final


def _is_descriptor(path: Path) -> bool:
    """Return whether a path is a link to an open file, such as /dev/stdout: it is written to, not replaced."""
    place = os.path.realpath(path.parent)
    return place == "/dev" or place.startswith("/proc/")


def _kind_of_log(path: Path) -> str | None:
    """Return what kind of log a file is, judged by its content; None if it is none, or an export of this program.

    If the user forgets the name after -o, the second log would become the output and be overwritten.
    """
    from parsers._complete import is_capture  # noqa: PLC0415  # only where the output exists
    from parsers._registry import formats  # noqa: PLC0415
    from parsers._stream import has_map, open_stream  # noqa: PLC0415

    try:
        with open_stream(str(path)) as stream:
            head = stream.peek_head()
    except (FormatError, InputError, OSError, ValueError):  # nothing that can be read
        return None
    if _OWN_GPX.match(head) or _EXPORTED in head[: _section_header_bytes(head)]:
        return None
    if has_map(path):
        return "a log with a column map"
    if is_capture(str(path)):
        return "a capture"
    return next((f"a log ({fmt.name})" for fmt in formats() if fmt.sniff(head) != "no"), None)


def _section_header_bytes(head: bytes) -> int:
    """Return the length of the first block of a pcapng file; 0 for files that this program does not write.

    Only this block is searched for our comment, because packets may contain any text.
    """
    is_ours = head[:4] == _SECTION_HEADER and head[8:12] == _LITTLE_ENDIAN
    return int.from_bytes(head[4:8], "little") if is_ours else 0


@contextlib.contextmanager
def replacing(target: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Yield the path of a new file beside `target`; at the end of the `with` block it replaces `target`.

    After an error `target` remains unchanged. If the target is not a regular file (a pipe, a
    device), its own path is yielded.

    Raises
    ------
    InputError
        If the target is a folder, a log or a link to another folder, or cannot be written.
    """
    final = check_replaceable(target or "")
    if final.is_dir():
        raise InputError(f"{portable(str(final))}: this output is a folder; name a file")
    if (final.exists() and not final.is_file()) or _is_descriptor(final):
        with named(target or "", final):
            yield final
        return
    with _hidden(final, target or "", is_folder=False) as temporary:
        yield temporary
        temporary.replace(final)


@contextlib.contextmanager
def replacing_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a new folder beside `target`.

    At the end of the `with` block, without an error, it becomes `target`; if `target` exists, its files are
    moved into `target`.

    Raises
    ------
    InputError
        If the target is a link to another folder, would lose a log, or cannot be written.
    """
    final = check_replaceable(target)
    with _hidden(final, target, is_folder=True) as temporary:
        yield temporary
        for made in temporary.iterdir():
            check_replaceable(final / made.name)
        if not final.exists():
            temporary.rename(final)  # at once: a kill leaves all of it or nothing
            return
        for made in temporary.iterdir():
            made.replace(final / made.name)


# --- temporary files and folders ---


@contextlib.contextmanager
def _hidden(final: Path, target: str | os.PathLike[str], *, is_folder: bool) -> Iterator[Path]:
    """Yield a new file or folder with a hidden name beside `final`; what remains under this name is removed.

    This process holds a lock on it, which the kernel releases when the process ends, however it ends. What
    another process left here for the same target, and nobody holds, is removed first.
    """
    _remove_left(final)
    temporary = final.with_name(f".{final.name}.{os.getpid()}-{os.urandom(3).hex()}.tmp")
    with named(target, temporary):
        lock = _locked(temporary, is_folder=is_folder)
        try:
            yield temporary
        finally:
            _remove(temporary)
            if lock is not None:
                os.close(lock)


def _locked(temporary: Path, *, is_folder: bool) -> int | None:
    """Make a file or folder and lock it; return the descriptor with the lock, or None where nothing can be locked."""
    while True:
        if is_folder:
            temporary.mkdir()
        if is_folder and not hasattr(os, "O_DIRECTORY"):
            return None
        flags = os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR | os.O_CREAT | os.O_EXCL
        lock = os.open(temporary, flags | _AS_IT_IS, 0o666)
        if not _hold(lock, is_patient=True):
            os.close(lock)  # nobody else removes it either, and Windows renames no open file
            return None
        if temporary.exists():
            return lock
        os.close(lock)  # another process took it for one of a dead process before it was locked


def _hold(descriptor: int, *, is_patient: bool) -> bool:
    """Lock a file or folder until it is closed, and return whether that was possible.

    Without `is_patient` it is not, if another process holds it.
    """
    try:
        import fcntl  # noqa: PLC0415  # Windows has none, and so no locks

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
    except (ImportError, OSError):
        return False
    return True


def _remove_left(final: Path) -> None:
    """Remove the temporary files and folders for `final` of dead processes: nobody holds their locks."""
    pattern = re.compile(rf"\.{re.escape(final.name)}\.\d+(-[0-9a-f]+)?\.tmp")
    with contextlib.suppress(OSError):
        for path in [each for each in final.parent.iterdir() if pattern.fullmatch(each.name)]:
            with contextlib.suppress(OSError):  # in use, somebody else's, or removed just now
                lock = os.open(path, os.O_RDONLY | _AS_IT_IS | getattr(os, "O_NONBLOCK", 0))
                try:
                    mode, user = (status := os.fstat(lock)).st_mode, status.st_uid
                    is_ours = _hold(lock, is_patient=False) and user == os.geteuid()
                    if is_ours and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                        _remove(path)
                finally:
                    os.close(lock)


def _remove(path: Path) -> None:
    if path.is_dir():
        import shutil  # noqa: PLC0415  # its packers take 2 ms to import, and a single file needs none

        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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
