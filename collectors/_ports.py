"""Serial ports: list them, open one exclusively, and explain why one cannot be opened.

A modem that is plugged in again may come back under another name. So a port is given as what stays the
same: a name in /dev/serial/by-id, a pattern, or the serial number of its USB device.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import select
import struct
from typing import TYPE_CHECKING

from multitracer.errors import CollectorError, PreflightError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from serial import Serial

ANYWHERE = ("/dev/serial/by-id/*", "/dev/ttyUSB*", "/dev/ttyACM*")
"""Where USB modems and receivers appear on Linux."""
BAUD = 115_200
_TIOCGEXCL = 0x8004_5440
"""asm-generic/ioctls.h: whether somebody took a terminal for himself; termios has it from Python 3.13 on."""
_READ_BYTES = 4096
_REASONS = {
    errno.ENOENT: "unplugged",
    errno.ENODEV: "unplugged",
    errno.ENXIO: "unplugged",
    errno.EIO: "unplugged",
    errno.EBUSY: "port busy",
    errno.EAGAIN: "port busy",
    errno.EACCES: "port not permitted",
    errno.EPERM: "port not permitted",
}


class NoPortError(CollectorError):
    """A port that cannot be used now; `why` is the reason that the gap in the log states."""

    def __init__(self, path: str, why: str, hint: str = "") -> None:
        super().__init__(f"{path}: {why}; {hint or 'waiting for it'}")
        self.path = path
        self.why = why


class Port:
    """An open serial port, locked for this process.

    Raises
    ------
    NoPortError
        If it is not there, is used by another process, or goes away.
    PreflightError
        If pyserial is not installed.
    """

    def __init__(self, path: str, *, baud: int = BAUD) -> None:
        self.path = path
        self._serial = _open(path, baud)

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return int(self._serial.fileno())

    def read(self) -> bytes:
        """Return the octets that have arrived; empty if none have."""
        try:
            if not select.select([self.fileno()], [], [], 0)[0]:
                return b""
            data = os.read(self.fileno(), _READ_BYTES)
        except OSError as error:
            raise NoPortError(self.path, "unplugged", error.strerror or "") from error
        if not data:  # something to read, and nothing there: the device is gone
            raise NoPortError(self.path, "unplugged")
        return data

    def write(self, data: bytes) -> None:
        """Write a command; if the modem does not take it, drop it: its answer will not come."""
        try:
            os.write(self.fileno(), data)
        except BlockingIOError:
            return
        except OSError as error:
            raise NoPortError(self.path, "unplugged", error.strerror or "") from error

    def close(self) -> None:
        """Close the port, so that other programs can use it."""
        self._serial.close()


def candidates(names: Sequence[str]) -> list[str]:
    """Return the paths that names match now: a path, a pattern, or `usb:SERIALNUMBER`.

    A path that does not exist is among them, so that its absence is told; a pattern without a match is not.
    """
    paths: list[str] = []
    for name in names:
        if name.startswith("usb:"):
            paths += _by_usb_number(name.removeprefix("usb:"))
        elif set("*?[") & set(name):
            paths += sorted(glob.glob(name))  # noqa: PTH207  # Path.glob refuses absolute patterns
        else:
            paths.append(name)
    real: dict[str, str] = {}
    for path in paths:
        real.setdefault(os.path.realpath(path), path)
    return list(real.values())


def _by_usb_number(number: str) -> list[str]:
    from serial.tools.list_ports import comports  # noqa: PLC0415  # pyserial may be absent

    return sorted(port.device for port in comports() if port.serial_number == number)


def check_pyserial() -> None:
    """Raise PreflightError if pyserial is not installed."""
    try:
        import serial  # noqa: F401, PLC0415
    except ImportError:
        raise PreflightError("pyserial is not installed; `pip install multitracer[field]`") from None


def _open(path: str, baud: int) -> Serial:
    check_pyserial()
    import serial  # noqa: PLC0415

    try:
        if _is_taken(path):
            raise NoPortError(path, "port busy", "close what uses it, or give another --device")
        port = serial.Serial(path, baud, timeout=0, write_timeout=0, exclusive=True)
    except (OSError, ValueError) as error:  # SerialException is an OSError
        raise NoPortError(path, _reason(error), "close what uses it, or give another --device") from error
    os.set_blocking(port.fileno(), False)
    return port


def _is_taken(path: str) -> bool:
    """Return whether another program such as ModemManager locks a port; root could open it regardless."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        return struct.unpack("i", fcntl.ioctl(descriptor, _TIOCGEXCL, bytes(4))) != (0,)
    except OSError:  # no terminal, or a system that does not tell
        return False
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    return _REASONS.get(getattr(error, "errno", None) or 0, "no serial port")
