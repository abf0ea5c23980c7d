"""CentaurusComm on a stream socket: the octets of the serial Level I, carried by RFCOMM or a Unix socket.

A stream is a line with one slave at its end. The kernel hands octets on in order, and an octet has left when the
socket's send queue is empty (`SIOCOUTQ`). The master listens, and its line is without a slave until one connects; who
connects when another is there waits for its end. Only Unix sockets were tested: no Bluetooth was at hand.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
from pathlib import Path
from typing import NamedTuple

from multitracer.errors import InputError, PreflightError
from multitracer.measure.endpoint import BAUD, LineGoneError, OctetLine
from multitracer.measure.outcome import REACH_S

_RFCOMM = re.compile(r"rfcomm:(?:(?P<device>(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2})/)?(?P<channel>[1-9]\d?)")
_ANY_DEVICE = "00:00:00:00:00:00"
_MOST_CHANNEL = 30
"""Largest channel of RFCOMM: five bits, of which 0 and 31 are reserved (TS 07.10)."""
_UNIX = "unix:"


class StreamAddress(NamedTuple):
    """Where a stream begins: a socket's family, its protocol, and the address there."""

    text: str
    family: int
    protocol: int
    address: str | tuple[str, int]


def stream_address(text: str) -> StreamAddress | None:
    """Return the address of a stream, `rfcomm:DEVICE/CHANNEL`, `rfcomm:CHANNEL` or `unix:PATH`; None for any other.

    Raises
    ------
    InputError
        If it begins as one of these and is none.
    PreflightError
        If this system has no Bluetooth.
    """
    if text.startswith(_UNIX):
        return StreamAddress(text, socket.AF_UNIX, 0, text.removeprefix(_UNIX))
    if not text.startswith("rfcomm:"):
        return None
    match = _RFCOMM.fullmatch(text)
    if match is None or int(match["channel"]) > _MOST_CHANNEL:
        raise InputError(
            f"{text}: the address must be rfcomm:DEVICE/CHANNEL with a channel of 1 to {_MOST_CHANNEL}, for example "
            "rfcomm:00:11:22:33:44:55/1; for `--listen` rfcomm:CHANNEL"
        )
    if not hasattr(socket, "AF_BLUETOOTH"):
        raise PreflightError(f"{text}: this Python has no Bluetooth sockets; use one that was built with them")
    address = (match["device"] or _ANY_DEVICE, int(match["channel"]))
    return StreamAddress(text, socket.AF_BLUETOOTH, socket.BTPROTO_RFCOMM, address)


def connected_line(where: StreamAddress, baud: int = BAUD) -> StreamLine:
    """Return the line to a master that listens.

    Raises
    ------
    InputError
        If nobody listens there.
    """
    stream = _socket(where)
    try:
        stream.settimeout(REACH_S)
        stream.connect(where.address)
    except OSError as error:
        stream.close()
        reason = error.strerror or "timed out"
        raise InputError(f"{where.text}: cannot connect ({reason}); check that the server is running") from error
    return StreamLine(stream, where.text, baud)


def _socket(where: StreamAddress) -> socket.socket:
    try:
        return socket.socket(where.family, socket.SOCK_STREAM, where.protocol)
    except OSError as error:  # a kernel without Bluetooth
        raise PreflightError(f"{where.text}: this system has no such sockets ({error.strerror})") from error


def _bind(listener: socket.socket, where: StreamAddress) -> None:
    """Bind a listening socket; the file of a Unix socket that a killed server left is replaced."""
    try:
        listener.bind(where.address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE or not isinstance(where.address, str) or not _is_left(where):
            raise
        Path(where.address).unlink()
        listener.bind(where.address)


def _is_left(where: StreamAddress) -> bool:
    """Return whether the file of a Unix socket is there, and nobody listens at it."""
    with _socket(where) as probe:
        probe.setblocking(False)
        is_refused = probe.connect_ex(where.address) == errno.ECONNREFUSED  # as at a file that is no socket
    return is_refused and stat.S_ISSOCK(os.lstat(str(where.address)).st_mode)


class StreamLine(OctetLine):
    """A connected stream socket as a line.

    Parameters
    ----------
    stream : socket.socket
        The socket; the line closes it.
    path : str
        Its name, for messages.
    baud : int
        Assumed bits per second, at ten for each octet; it decides only how often the driver looks whether all left.
    """

    def __init__(self, stream: socket.socket, path: str, baud: int = BAUD) -> None:
        super().__init__(path, baud)
        stream.setblocking(False)
        self._stream = stream

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._stream.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._stream.close()

    def _has_ended(self) -> bool:
        return True

    def _gone(self, error: OSError) -> LineGoneError:
        reason = "the other end closed it" if error.errno in (errno.EIO, errno.EPIPE) else error.strerror
        return LineGoneError(f"{self.path}: the stream has ended ({reason}); start the other end again")


class ListeningLine:
    """The line of a master, at whose other end one slave at a time may be.

    What is written while there is none is lost, as on a cable that leads nowhere.

    Parameters
    ----------
    where : StreamAddress
        Where to listen.
    baud : int
        As of `StreamLine`.

    Raises
    ------
    InputError
        If it cannot listen there.
    """

    def __init__(self, where: StreamAddress, baud: int = BAUD) -> None:
        self.path = where.text
        self.baud = baud
        self._slave: StreamLine | None = None
        self._listener = _socket(where)
        try:
            _bind(self._listener, where)
            self._listener.listen(1)
        except OSError as error:
            self._listener.close()
            raise InputError(f"{where.text}: cannot listen there ({error.strerror}); choose another") from error
        self._listener.setblocking(False)
        self._file = where.address if isinstance(where.address, str) else None

    def fileno(self) -> int:
        """Return the descriptor of the slave's socket, or of the listening one."""
        return (self._slave or self._listener).fileno()

    def close(self) -> None:
        """Close both sockets; a Unix socket's file is removed."""
        self._part()
        self._listener.close()
        if self._file is not None:
            with contextlib.suppress(OSError):
                Path(self._file).unlink()

    def write(self, octets: bytes) -> None:
        """Begin to send octets."""
        try:
            if self._slave is not None:
                self._slave.write(octets)
        except LineGoneError:
            self._part()

    def flush(self) -> None:
        """Pass to the kernel as many octets as it accepts."""
        try:
            if self._slave is not None:
                self._slave.flush()
        except LineGoneError:
            self._part()

    @property
    def waiting_bytes(self) -> int:
        """Number of octets that are not sent yet."""
        return 0 if self._slave is None else self._slave.waiting_bytes

    def read(self) -> bytes:
        """Return the octets that arrived; empty if none did, or if a slave came or went."""
        try:
            return self._accepted() if self._slave is None else self._slave.read()
        except LineGoneError:
            self._part()
            return b""

    def _accepted(self) -> bytes:
        try:
            stream, _ = self._listener.accept()
        except OSError:  # nobody is there, or is no more
            return b""
        self._slave = StreamLine(stream, self.path, self.baud)
        return self._slave.read()

    def _part(self) -> None:
        if self._slave is not None:
            self._slave.close()
            self._slave = None
