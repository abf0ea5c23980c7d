"""A pseudo-terminal with its own name: the port of a device that can be unplugged and plugged in."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import sys
import tty
from typing import TYPE_CHECKING

from multitracer.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


class Terminal:
    """The device's side of a port; `link` is the name that programs open.

    Raises
    ------
    InputError
        If the name exists and is not an old link of a terminal.
    """

    def __init__(self, link: Path) -> None:
        self.link = link
        self._device, self._port = pty.openpty()
        tty.setraw(self._device)
        tty.setraw(self._port)  # held open, or reading would fail while nobody has the port open
        os.set_blocking(self._device, False)
        try:
            link.symlink_to(os.ttyname(self._port))
        except OSError as error:
            self._close()
            raise InputError(
                f"{link}: cannot create this symbolic link: {error.strerror}; give another name with --link"
            ) from error

    def fileno(self) -> int:
        """Return the file descriptor to wait for."""
        return self._device

    def read(self) -> bytes:
        """Return the octets that a program has written to the port."""
        try:
            return os.read(self._device, 4096)
        except BlockingIOError:
            return b""

    def write(self, data: bytes) -> None:
        """Write octets; a program that does not read in time loses them, as on a serial line."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._device, data)

    def unplug(self) -> None:
        """Remove the port, as if the device was unplugged."""
        with contextlib.suppress(FileNotFoundError):
            self.link.unlink()
        self._close()

    def _close(self) -> None:
        os.close(self._device)
        os.close(self._port)


def remove_folder(link: Path) -> None:
    """Remove the folder of a port, unless another port or file is still in it."""
    with contextlib.suppress(OSError):
        link.parent.rmdir()


def say_back(**fields: object) -> None:
    """Write one JSON object to standard output for the controlling program; no error if it has ended."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()
