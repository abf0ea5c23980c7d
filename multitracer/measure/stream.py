"""Messages of a measurement on a TCP connection, and what the kernel says of that connection."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from multitracer.measure.exchange import HEADER_BYTES, Words, decode, length_of
from multitracer.protocols.sock_diag.tcp_info import TCP_INFO_BYTES, decode_tcp_info

if TYPE_CHECKING:
    from collections.abc import Mapping


class MessageReader:
    """Finds messages in a stream, in whatever pieces it comes; what it gathers is bounded by one message."""

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
        found = []
        while (length := length_of(bytes(self._gathered[:HEADER_BYTES]))) is not None and len(
            self._gathered
        ) >= length:
            found.append(decode(bytes(self._gathered[:length])))
            del self._gathered[:length]
        return found


def tcp_info(connection: socket.socket) -> dict[str, int]:
    """Return the kernel's `struct tcp_info` of a connection, empty where the system has none."""
    if not hasattr(socket, "TCP_INFO"):
        return {}
    return decode_tcp_info(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES))


def grown(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int | None:
    """Return by how much a counter grew, None if the kernel does not keep it."""
    return after[name] - before[name] if name in before and name in after else None
