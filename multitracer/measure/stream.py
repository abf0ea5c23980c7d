"""A TCP connection as the client uses it, the messages in its stream, and the kernel's variables of it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

from multitracer.measure.exchange import HEADER_BYTES, Words, decode, length_of
from multitracer.protocols.sock_diag.tcp_info import TCP_INFO_BYTES, decode_tcp_info

if TYPE_CHECKING:
    from collections.abc import Mapping


class Connected(Protocol):
    """A connection; its methods have the meaning and the errors of a socket's methods."""

    def settimeout(self, seconds: float, /) -> None:
        """Set how long `sendall` and `recv` wait before they raise TimeoutError."""

    def sendall(self, octets: bytes, /) -> None:
        """Return when TCP has accepted all octets."""

    def recv(self, most: int, /) -> bytes:
        """Return the octets that arrived; empty at the end of the stream."""

    def close(self) -> None:
        """Close the connection."""

    def info(self) -> Mapping[str, int]:
        """Return TCP's variables under the names of `struct tcp_info`."""


class KernelConnection(socket.socket):
    """A connection of the kernel's TCP without Nagle's algorithm: small messages leave at once."""

    @classmethod
    def dial(cls, address: tuple[str, int], timeout_s: float) -> KernelConnection:
        """Return a connection to a server; an OSError says why there is none."""
        connected = socket.create_connection(address, timeout_s)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(fileno=connected.detach())

    def info(self) -> Mapping[str, int]:
        """Return the kernel's `struct tcp_info`."""
        return tcp_info(self)


class MessageReader:
    """Finds messages in a stream that arrives in pieces of any size; its memory is bounded by one message."""

    def __init__(self) -> None:
        self._gathered = bytearray()

    def feed(self, octets: bytes) -> list[Words]:
        """Return the messages that these octets complete.

        Raises
        ------
        RemoteProtocolError
            If the stream holds something else.
        """
        self._gathered += octets
        messages = []
        while (length := length_of(bytes(self._gathered[:HEADER_BYTES]))) is not None and len(
            self._gathered
        ) >= length:
            messages.append(decode(bytes(self._gathered[:length])))
            del self._gathered[:length]
        return messages


def tcp_info(connection: socket.socket) -> dict[str, int]:
    """Return the kernel's `struct tcp_info` of a connection; empty where the system has none."""
    if not hasattr(socket, "TCP_INFO"):
        return {}
    return decode_tcp_info(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES))


def grown(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int | None:
    """Return by how much a counter grew, None if the kernel does not keep it."""
    return after[name] - before[name] if name in before and name in after else None
