"""Communication with one modem over one port: commands, answers and unsolicited lines."""

from __future__ import annotations

import errno
import fcntl
import glob
import math
import os
import select
import struct
import time
from typing import TYPE_CHECKING

from multitracer.errors import CollectorError, PreflightError
from multitracer.protocols.modem.conversation import CommandAnswer, Conversation, Unsolicited
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from serial import Serial

    from collectors._stop import Stop

# Serial ports: list them, open one exclusively, and explain why one cannot be opened.
#
# A modem that is plugged in again may come back under another name. So a port is given as what stays the
# same: a name in /dev/serial/by-id, a pattern, or the serial number of its USB device.


ANYWHERE = ("/dev/serial/by-id/*", "/dev/ttyUSB*", "/dev/ttyACM*")
"""Path patterns of USB modems and receivers on Linux."""
BAUD = 115_200
_TIOCGEXCL = 0x8004_5440
"""ioctl that returns whether a terminal is in exclusive mode (asm-generic/ioctls.h); in termios from Python 3.13."""
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
    """The port is not usable now; `why` is the reason for the gap in the log."""

    def __init__(self, path: str, why: str, hint: str = "") -> None:
        super().__init__(f"{path}: {why}; {hint or 'waiting for it'}")
        self.path = path
        self.why = why


class Port:
    """An open serial port, locked for this process.

    Raises
    ------
    NoPortError
        If the port does not exist, is in use by another process, or disappears.
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
        """Write a command; if the port does not accept it, discard it, so that no answer follows."""
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
    """Return the existing paths that match names: a path, a pattern, or `usb:SERIALNUMBER`.

    A path without a pattern is returned even if it does not exist, so that an error can name it.
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
        raise PreflightError("pyserial is not installed; run `pip install multitracer[field]`") from None


def _open(path: str, baud: int) -> Serial:
    check_pyserial()
    import serial  # noqa: PLC0415

    try:
        if _is_taken(path):
            raise NoPortError(path, "port busy", "close the program that uses the port, or give another --device")
        port = serial.Serial(path, baud, timeout=0, write_timeout=0, exclusive=True)
    except (OSError, ValueError) as error:  # SerialException is an OSError
        raise NoPortError(
            path, _reason(error), "close the program that uses the port, or give another --device"
        ) from error
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


_IDLE_NS = 200 * NS_PER_MS
_PROBE_S = 1.0
_LONGEST_SETTLING_NS = 3 * NS_PER_S
_IDENTITY = ("ATI", "AT+CGMI", "AT+CGMM")


class CommandPort:
    """One open port with one command at a time.

    Parameters
    ----------
    port : Port
    stop : Stop
        Ends the wait for an answer when the collector must end.
    on_unsolicited : callable
        Takes lines that arrived while no command was pending.
    patience_s : float
        Maximum time to wait for an answer, s.
    """

    def __init__(
        self, port: Port, stop: Stop, *, on_unsolicited: Callable[[Unsolicited], None], patience_s: float = math.inf
    ) -> None:
        self.port = port
        self._patience_s = patience_s
        self._stop = stop
        self._on_unsolicited = on_unsolicited
        self._conversation = Conversation()
        self.is_settled = False
        """Whether no part of an earlier answer can still arrive."""

    def ask(self, command: str, *, timeout_s: float) -> CommandAnswer:
        """Send a command and return the answer; after the timeout, the partial answer with an empty `result`.

        Raises
        ------
        NoPortError
            If the port disappeared.
        """
        began_ns = time.monotonic_ns()
        self.port.write(self._conversation.ask(command, began_ns))
        for answer in self._events(began_ns + round(min(timeout_s, self._patience_s) * NS_PER_S)):
            return answer
        self.is_settled = False
        return self._conversation.give_up(time.monotonic_ns())

    def listen(self, until_ns: int) -> bool:
        """Read unsolicited lines until a time; return False if the collector must end."""
        for _ in self._events(until_ns):
            pass
        return self._stop.reason is None

    def settle(self) -> bool:
        """Wait until no more octets arrive, send AT, and return whether the modem answered."""
        give_up_ns = time.monotonic_ns() + _LONGEST_SETTLING_NS
        while not self._conversation.is_drained(time.monotonic_ns(), for_ns=_IDLE_NS):
            if time.monotonic_ns() >= give_up_ns or not self.listen(time.monotonic_ns() + _IDLE_NS):
                return False
        self.is_settled = self.ask("AT", timeout_s=_PROBE_S).result == "OK"
        return self.is_settled

    def introduce(self) -> Iterator[CommandAnswer]:
        """Turn off the echo, and yield the answers that identify the modem."""
        for command in ("ATE0", *_IDENTITY):
            yield self.ask(command, timeout_s=_PROBE_S)

    def _events(self, until_ns: int) -> Iterator[CommandAnswer]:
        """Yield answers until a time, and pass unsolicited lines to `on_unsolicited`."""
        while self._stop.wait(until_ns, readable=[self.port.fileno()]):
            data = self.port.read()
            events = self._conversation.receive(data, time.monotonic_ns())
            for event in events:
                if isinstance(event, Unsolicited):  # before the answer is taken: nobody looks behind it
                    self._on_unsolicited(event)
            yield from (event for event in events if not isinstance(event, Unsolicited))
            if time.monotonic_ns() >= until_ns:
                return
