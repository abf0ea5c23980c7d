"""The messages of a measurement: request, reply, good-bye, and the server's receipt.

Every message begins with 26 octets: two letters, the length of the message (4), the run (8), the number of the
transaction in the run (4), the requested length of the reply (4), and the client's timeout in ms (4). Filler follows up
to the length that is measured. A good-bye holds the client's recorded values as JSON. A receipt holds the values that
only the server knows; it is not part of paper 000, and it is sent after everything that is measured.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from multitracer.errors import RemoteProtocolError
from multitracer.protocols.sock_diag import TCP_INFO_BYTES, decode_tcp_info

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEADER = struct.Struct("!2sIQIII")
_RECEIPT = struct.Struct("!qqqq")
HEADER_BYTES = _HEADER.size
MAX_MESSAGE_BYTES = 256 << 10
"""The largest message of a measurement, as of CentaurusComm by default."""
_MAX_GOODBYE_BYTES = 4096
REQUEST, REPLY, GOODBYE, RECEIPT, HELLO = b"MQ", b"MR", b"MG", b"MC", b"MH"
LOAD, FILL, PROBE, ECHO = b"ML", b"MF", b"MP", b"ME"
"""Of a test of latency under load: asks for a load without end, a part of a load, a question, and its answer."""
LETTERS = (REQUEST, REPLY, GOODBYE, RECEIPT, HELLO, LOAD, FILL, PROBE, ECHO)


class Words(NamedTuple):
    """One message."""

    letters: bytes
    run: int
    number: int
    reply_bytes: int
    timeout_ms: int
    body: bytes


class Receipt(NamedTuple):
    """The server's values of a transaction; None where its transport does not provide one."""

    rtt_ns: int | None
    """Time from the first byte of the reply sent to the first byte of the good-bye received."""
    retransmitted_segments: int | None
    """Segments of the reply that were sent again."""
    sent_bytes: int | None
    """Bytes that the server's transport sent since the request, repetitions included."""
    request_payload_bytes: int | None
    """Payload bytes that arrived for the request, duplicates included."""


def encode(words: Words) -> bytes:
    """Return a message as octets."""
    letters, run, number, reply_bytes, timeout_ms, body = words
    return _HEADER.pack(letters, HEADER_BYTES + len(body), run, number, reply_bytes, timeout_ms) + body


def filled(words: Words, size_bytes: int) -> bytes:
    """Return a message of exactly the given number of octets."""
    return encode(words._replace(body=payload(0, size_bytes - HEADER_BYTES)))


def is_complete(words: Words) -> bool:
    """Return whether a reply has the requested length and every octet of it is right."""
    return words.body == payload(0, words.reply_bytes - HEADER_BYTES)


def decode(octets: bytes) -> Words:
    """Return the message that octets hold.

    Raises
    ------
    RemoteProtocolError
        If the octets contain no valid message.
    """
    if length_of(octets) != len(octets):
        raise RemoteProtocolError(f"the length field of the message does not match its size of {len(octets)} octets")
    letters, _, run, number, reply_bytes, timeout_ms = _HEADER.unpack_from(octets)
    return Words(letters, run, number, reply_bytes, timeout_ms, octets[HEADER_BYTES:])


def length_of(octets: bytes) -> int | None:
    """Return the length of the message that begins here; None if too few octets are there.

    Raises
    ------
    RemoteProtocolError
        If the octets are not the begin of a message.
    """
    if len(octets) < HEADER_BYTES:
        return None
    letters, length, *_, reply_bytes, _ = _HEADER.unpack_from(octets)
    if letters not in LETTERS or not HEADER_BYTES <= length <= MAX_MESSAGE_BYTES:
        raise RemoteProtocolError(f"{letters!r} of {length} octets is not a message of this protocol")
    if reply_bytes > MAX_MESSAGE_BYTES or (letters == REQUEST and reply_bytes < HEADER_BYTES):
        raise RemoteProtocolError(
            f"the request asks for a reply of {reply_bytes} octets, which is outside the valid range"
        )
    return int(length)


def recorded_values(body: bytes) -> dict[str, object]:
    """Return the client's recorded values of a good-bye.

    Raises
    ------
    RemoteProtocolError
        If they are not a JSON object, are too long, or hold a number that is not finite or has more than 64 bits.
    """
    if len(body) > _MAX_GOODBYE_BYTES:
        raise RemoteProtocolError(f"a good-bye of {len(body)} octets is too long")
    try:
        values = json.loads(body, parse_constant=_no_constant, parse_float=_finite, parse_int=_of_64_bits)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError("a good-bye message must hold a JSON object with finite numbers") from error
    if not isinstance(values, dict):
        raise RemoteProtocolError("a good-bye message must hold a JSON object")
    return values


def _no_constant(name: str) -> None:
    raise ValueError(f"the number {name} is not allowed in JSON")


def _finite(digits: str) -> float:
    if not math.isfinite(value := float(digits)):  # 1e400 is infinite, and would be written as Infinity
        raise ValueError(f"the number {digits} is too large")
    return value


def _of_64_bits(digits: str) -> int:
    if not -(1 << 63) <= (value := int(digits)) < 1 << 64:  # readers of the log keep numbers in 64 bits
        raise ValueError("the number has more than 64 bits")
    return value


def encode_receipt(receipt: Receipt) -> bytes:
    """Return a receipt's body; an unknown value is -1."""
    return _RECEIPT.pack(*(-1 if value is None else value for value in receipt))


def decode_receipt(body: bytes) -> Receipt:
    """Return the receipt that a body holds.

    Raises
    ------
    RemoteProtocolError
        If the body contains no valid receipt.
    """
    if len(body) != _RECEIPT.size:
        raise RemoteProtocolError(f"a receipt of {len(body)} octets has the wrong length")
    return Receipt(*(None if value < 0 else value for value in _RECEIPT.unpack(body)))


# The bytes that every transfer sends, in virtual time and by real kernels.


_LINE = b"%07d the quick brown fox jumps over the lazy dog and runs away\n"
_BLOCK_LINES = 1024  # not measured: 64 KB at once, a window
_BLOCK = _LINE * _BLOCK_LINES
_BLOCK_BYTES = _BLOCK_LINES * len(_LINE % 0)


def payload(begin: int, end: int) -> bytes:
    """Return bytes `[begin, end)` of the stream that every transfer sends: numbered lines of text.

    The payload is text, because PPP escapes control characters; line numbers allow checking each byte.
    """
    first, last = begin // _BLOCK_BYTES, -(-end // _BLOCK_BYTES)
    blocks = _block(first) if last == first + 1 else b"".join(map(_block, range(first, last)))
    return blocks[begin - first * _BLOCK_BYTES : end - first * _BLOCK_BYTES]


@lru_cache(maxsize=32)  # the bytes from where reading is to where writing is: a send buffer of 1 MB is 16
def _block(number: int) -> bytes:
    return _BLOCK % tuple(range(number * _BLOCK_LINES, (number + 1) * _BLOCK_LINES))


# A TCP connection as the client uses it, the messages in its stream, and the kernel's variables of it.


class TransportConnection(Protocol):
    """A connection; its methods have the meaning and the errors of a socket's methods."""

    def settimeout(self, seconds: float, /) -> None:
        """Set how long `sendall` and `recv` wait before they raise TimeoutError."""

    def sendall(self, octets: bytes, /) -> None:
        """Send octets; return when TCP has accepted all of them."""

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
        """Return a connection to a server; raise OSError with the reason if it cannot be made."""
        connected = socket.create_connection(address, timeout_s)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(fileno=connected.detach())

    def info(self) -> Mapping[str, int]:
        """Return the kernel's `struct tcp_info`."""
        return tcp_info(self)


class MessageReader:
    """Finds messages in a stream that arrives in chunks of any size; it stores at most one message."""

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
        while (length := length_of(bytes(self._gathered[:HEADER_BYTES]))) is not None and len(self._gathered) >= length:
            messages.append(decode(bytes(self._gathered[:length])))
            del self._gathered[:length]
        return messages


def tcp_info(connection: socket.socket) -> dict[str, int]:
    """Return the kernel's `struct tcp_info` of a connection; empty where the system has none."""
    if not hasattr(socket, "TCP_INFO"):
        return {}
    return decode_tcp_info(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES))


def grown(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int | None:
    """Return the increase of a counter; None if the kernel does not have the counter."""
    return after[name] - before[name] if name in before and name in after else None
