"""The sources of `capture --rehearse`: a modem, a GPS receiver and some traffic."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.cli._output import warn
from multitracer.cli._rehearsed_drive import RehearsedDrive, own_network, stop, why_not
from multitracer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Document

_DEVICES = ("modem", "gps")
_PREFIX = "multitracer-rehearsal-"
TRAFFIC = (sys.executable, "-m", "collectors._rehearsal.traffic", "--tags")
"""What makes the traffic: begun when the collectors are ready; the end of its standard input ends it."""
DOWNLOAD = (*TRAFFIC, "--server")
"""What makes it on a drawn drive."""
FIRST_SEED = 1
"""The drive of who names none."""
_MODEM = ("--profile", "quectel")
"""An LTE modem on a drawn drive."""


@contextlib.contextmanager
def rehearsal(*, wanted: bool, drive: RehearsedDrive | None = None) -> Iterator[Document]:
    """Run a modem and a GPS receiver during the body, if wanted; yield the options that lead to them.

    With a drive they are on it, and the body has a network of its own.
    """
    if not wanted:
        yield {}
        return
    with contextlib.ExitStack() as stack:
        ports = stack.enter_context(_folder())
        links = {name: str(ports / name) for name in _DEVICES}
        for name, link in links.items():
            words = () if drive is None else (*drive.options, *(_MODEM if name == "modem" else ()))
            stack.callback(stop, _started(f"collectors._rehearsal.{name}", "--link", link, *words))
        if drive is not None:
            stack.enter_context(own_network())
        yield links


def drawn_drive(
    *, wanted: bool, seed: int | None, has_command: bool, interface: str | None, clap: str | None
) -> RehearsedDrive | None:
    """Return the drive that a rehearsal takes, None without one; warn why a rehearsal has none.

    Raises
    ------
    InputError
        If a seed is given without a rehearsal.
    """
    if not wanted:
        if seed is not None:
            raise InputError("--seed: chooses the drive of a rehearsal; give --rehearse, too")
        return None
    why = why_not(has_command=has_command, interface=interface, clap=clap)
    if why:
        warn(f"the rehearsal sends over the loopback, whatever the radio is like: {why}")
        return None
    return RehearsedDrive.now(FIRST_SEED if seed is None else seed)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for the names of the ports, and remove those of rehearsals that were killed.

    Who lives holds a lock on its folder; the kernel takes it from the dead.
    """
    _remove_stale(Path(tempfile.gettempdir()))
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        _remove(path, descriptor)
        os.close(descriptor)


def _remove_stale(place: Path) -> None:
    for path in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # a link, somebody else's, in use, or removed just now
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(path, descriptor)
            finally:
                os.close(descriptor)


def _remove(path: Path, descriptor: int) -> None:
    """Remove the names of the ports and the folder; the folder stays if it holds other files."""
    for name in _DEVICES:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=descriptor)
    path.rmdir()


def _started(module: str, *options: str) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", module, *options]
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
