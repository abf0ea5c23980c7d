"""Applications on a host above a transport: one object per connection, which writes, reads and closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

from multitracer.errors import LocalProtocolError
from multitracer.lab.tcp import State
from multitracer.measure.payload import payload
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.tcp import Connection

_READ_EVERY_NS = 100 * NS_PER_MS


class Application(ABC):
    """Uses one connection; called after every event that may have changed the connection."""

    @abstractmethod
    def advance(self, connection: Connection, now_ns: int) -> None:
        """Write, read or close, as far as is possible now."""

    def next_timer_ns(self) -> int | None:
        """Return when `advance` wants to be called without anything else happening, or None."""
        return None


class Stream(Protocol):
    """What every transport gives the application on it."""

    @property
    def is_established(self) -> bool:
        """Whether both ends know each other, and neither has closed."""

    @property
    def free_bytes(self) -> int:
        """How many bytes `write` would take now."""

    @property
    def readable_bytes(self) -> int:
        """How many bytes wait to be read."""

    @property
    def at_end(self) -> bool:
        """Whether everything that the peer sent was read, its end of the stream included."""

    def write(self, data: bytes) -> int:
        """Give data to send; return how many bytes were taken."""

    def read(self, max_bytes: int = ..., /) -> bytes:
        """Return what arrived in order."""

    def close(self) -> None:
        """Send what is written, then the end of the stream."""


class TcpStream:
    """TCP as a `Stream`."""

    __slots__ = ("close", "connection", "read", "write")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.close, self.read, self.write = connection.close, connection.read, connection.write

    @property
    def is_established(self) -> bool:
        """Whether the state is ESTABLISHED."""
        return self.connection.state is State.ESTABLISHED

    @property
    def free_bytes(self) -> int:
        """How much of the send buffer is free."""
        return self.connection.sender.stream.free_bytes

    @property
    def readable_bytes(self) -> int:
        """How many bytes wait in order."""
        return self.connection.receiver.readable_bytes

    @property
    def at_end(self) -> bool:
        """Whether the peer's FIN and all before it was read."""
        return self.connection.at_end


class StreamApplication(Application):
    """An application that any transport can carry."""

    _tcp: TcpStream | None = None
    """The stream over the connection that was used last."""

    @abstractmethod
    def use(self, stream: Stream, now_ns: int) -> None:
        """Write, read or close, as far as is possible now."""

    def advance(self, connection: Connection, now_ns: int) -> None:
        """Do so over TCP."""
        if self._tcp is None or self._tcp.connection is not connection:
            self._tcp = TcpStream(connection)
        self.use(self._tcp, now_ns)


class BulkSender(StreamApplication):
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
        self._has_closed = False
        self.written_bytes = 0

    def use(self, stream: Stream, now_ns: int) -> None:
        """Fill the send buffer, as far as the application has data."""
        stream.read()
        if self._bytes_per_s and stream.is_established and now_ns >= (self._due_ns or 0):
            self._allow_more(now_ns)
        if self.written_bytes < self._allowed_bytes and (free_bytes := stream.free_bytes):
            end = min(self._allowed_bytes, self.written_bytes + free_bytes)
            self.written_bytes += stream.write(payload(self.written_bytes, end))
        if self.written_bytes == self._size and not self._has_closed:
            self._has_closed = True
            stream.close()

    def _allow_more(self, now_ns: int) -> None:
        """Add the bytes that the application may write in its next second."""
        self._allowed_bytes = min(self._size, self._allowed_bytes + self._bytes_per_s)
        self._due_ns = now_ns + NS_PER_S if self._allowed_bytes < self._size else None

    def next_timer_ns(self) -> int | None:
        """Return the time of the next write, if writing has a rate."""
        return self._due_ns


class Reader(StreamApplication):
    """Reads to the end, then closes; compares each byte with the one that was sent.

    Parameters
    ----------
    bytes_per_s : int
        How fast to read; 0 as fast as it comes.
    """

    def __init__(self, *, bytes_per_s: int = 0) -> None:
        self._bytes_per_s = bytes_per_s
        self._due_ns: int | None = None
        self._has_closed = False
        self.read_bytes = 0

    def use(self, stream: Stream, now_ns: int) -> None:
        """Read as much as the configured rate allows now."""
        if self._bytes_per_s == 0:
            self._take(stream.read())
        elif self._due_ns is None or now_ns >= self._due_ns:
            self._take(stream.read(self._bytes_per_s * _READ_EVERY_NS // NS_PER_S))
            waiting = stream.readable_bytes > 0 or stream.is_established
            self._due_ns = now_ns + _READ_EVERY_NS if waiting else None
        if stream.at_end and not self._has_closed:
            self._has_closed = True
            stream.close()

    def _take(self, data: bytes) -> None:
        if not data:
            return
        if data != payload(self.read_bytes, self.read_bytes + len(data)):
            raise LocalProtocolError(f"other bytes were delivered than were sent, after {self.read_bytes}")
        self.read_bytes += len(data)

    def next_timer_ns(self) -> int | None:
        """Return the time of the next read, if reading has a rate."""
        return self._due_ns
