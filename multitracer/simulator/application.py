"""Applications on a host above TCP: one object per socket, which writes, reads and closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from multitracer.errors import LocalProtocolError
from multitracer.protocols.tcp import State
from multitracer.scenario.payload import payload
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.protocols.tcp import Connection

_READ_EVERY_NS = 100 * NS_PER_MS


class Application(ABC):
    """Uses one connection; called after every event that may have changed the connection."""

    @abstractmethod
    def advance(self, connection: Connection, now_ns: int) -> None:
        """Write, read or close, as far as is possible now."""

    def next_timer_ns(self) -> int | None:
        """Return when `advance` wants to be called without anything else happening, or None."""
        return None


class BulkSender(Application):
    """Writes as much as the send buffer takes, closes when all is written, ignores what comes back.

    Parameters
    ----------
    size_bytes : int
        How much to send.
    bytes_per_s : int
        How much to write at once each second; 0 as much as the buffer takes.
    """

    def __init__(self, *, size_bytes: int, bytes_per_s: int = 0) -> None:
        self._size = size_bytes
        self._bytes_per_s = bytes_per_s
        self._due_ns: int | None = None
        self._allowed_bytes = 0 if bytes_per_s else size_bytes
        self.written_bytes = 0

    def advance(self, connection: Connection, now_ns: int) -> None:
        """Fill the send buffer, as far as the application has data."""
        connection.read()
        if connection.state is State.ESTABLISHED and now_ns >= (self._due_ns or 0):
            self._allow_more(now_ns)
        while self.written_bytes < self._allowed_bytes and connection.sender.stream.free_bytes:
            end = min(self._allowed_bytes, self.written_bytes + connection.sender.stream.free_bytes)
            self.written_bytes += connection.write(payload(self.written_bytes, end))
        if self.written_bytes == self._size and not connection.sender.stream.closed:
            connection.close()

    def _allow_more(self, now_ns: int) -> None:
        """Add the bytes that the application may write in its next second."""
        self._allowed_bytes = min(self._size, self._allowed_bytes + self._bytes_per_s)
        self._due_ns = now_ns + NS_PER_S if self._allowed_bytes < self._size else None

    def next_timer_ns(self) -> int | None:
        """Return the time of the next write, if writing has a rate."""
        return self._due_ns


class Reader(Application):
    """Reads to the end, then closes; compares each byte with the one that was sent.

    Parameters
    ----------
    bytes_per_s : int
        How fast to read; 0 as fast as it comes.
    """

    def __init__(self, *, bytes_per_s: int = 0) -> None:
        self._bytes_per_s = bytes_per_s
        self._due_ns: int | None = None
        self.read_bytes = 0

    def advance(self, connection: Connection, now_ns: int) -> None:
        """Read as much as the configured rate allows now."""
        if self._bytes_per_s == 0:
            self._take(connection.read())
        elif self._due_ns is None or now_ns >= self._due_ns:
            self._take(connection.read(self._bytes_per_s * _READ_EVERY_NS // NS_PER_S))
            waiting = connection.receiver.readable_bytes > 0 or connection.state is State.ESTABLISHED
            self._due_ns = now_ns + _READ_EVERY_NS if waiting else None
        if connection.at_end and not connection.sender.stream.closed:
            connection.close()

    def _take(self, data: bytes) -> None:
        if data != payload(self.read_bytes, self.read_bytes + len(data)):
            raise LocalProtocolError(f"TCP delivered other bytes than were sent, after {self.read_bytes}")
        self.read_bytes += len(data)

    def next_timer_ns(self) -> int | None:
        """Return the time of the next read, if reading has a rate."""
        return self._due_ns
