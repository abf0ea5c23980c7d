"""The messages of a measurement: request, reply, good-bye, and the server's receipt.

Every message begins with 26 octets: two letters, its whole length (4), the run (8), the transaction's number
in it (4), the length of the reply that is wanted (4), and the client's patience in ms (4). Filler follows up
to the length that is measured; a good-bye holds the client's recorded values as JSON, a receipt what only the
server knows. The receipt is ours, sent after everything that is measured.
"""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

from multitracer.errors import RemoteProtocolError
from multitracer.measure.payload import payload

_HEADER = struct.Struct("!2sIQIII")
_RECEIPT = struct.Struct("!qqqq")
HEADER_BYTES = _HEADER.size
MAX_MESSAGE_BYTES = 256 << 10
"""The largest message of a measurement, as of CentaurusComm by default."""
_MAX_GOODBYE_BYTES = 4096
REQUEST, REPLY, GOODBYE, RECEIPT, HELLO = b"MQ", b"MR", b"MG", b"MC", b"MH"
LETTERS = (REQUEST, REPLY, GOODBYE, RECEIPT, HELLO)


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
    """From the reply's first byte out to the good-bye's first byte in."""
    retransmitted_segments: int | None
    """Of the reply."""
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


def is_whole(words: Words) -> bool:
    """Return whether a reply has the requested length and every octet of it is right."""
    return words.body == payload(0, words.reply_bytes - HEADER_BYTES)


def decode(octets: bytes) -> Words:
    """Return the message that octets hold.

    Raises
    ------
    RemoteProtocolError
        If they hold none.
    """
    if length_of(octets) != len(octets):
        raise RemoteProtocolError(f"a message of {len(octets)} octets says that it has another length")
    letters, _, run, number, reply_bytes, timeout_ms = _HEADER.unpack_from(octets)
    return Words(letters, run, number, reply_bytes, timeout_ms, octets[HEADER_BYTES:])


def length_of(octets: bytes) -> int | None:
    """Return the length of the message that begins here; None if too few octets are there.

    Raises
    ------
    RemoteProtocolError
        If no message begins so.
    """
    if len(octets) < HEADER_BYTES:
        return None
    letters, length, *_, reply_bytes, _ = _HEADER.unpack_from(octets)
    if letters not in LETTERS or not HEADER_BYTES <= length <= MAX_MESSAGE_BYTES:
        raise RemoteProtocolError(f"{letters!r} of {length} octets is no message of a measurement")
    if reply_bytes > MAX_MESSAGE_BYTES or (letters == REQUEST and reply_bytes < HEADER_BYTES):
        raise RemoteProtocolError(f"a reply of {reply_bytes} octets is asked for")
    return int(length)


def recorded_values(body: bytes) -> dict[str, object]:
    """Return the client's recorded values of a good-bye.

    Raises
    ------
    RemoteProtocolError
        If they are no JSON object, or too long.
    """
    if len(body) > _MAX_GOODBYE_BYTES:
        raise RemoteProtocolError(f"a good-bye of {len(body)} octets")
    try:
        values = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError("a good-bye without values") from error
    if not isinstance(values, dict):
        raise RemoteProtocolError("a good-bye without values")
    return values


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def encode_receipt(receipt: Receipt) -> bytes:
    """Return a receipt's body; an unknown value is -1."""
    return _RECEIPT.pack(*(-1 if value is None else value for value in receipt))


def decode_receipt(body: bytes) -> Receipt:
    """Return the receipt that a body holds.

    Raises
    ------
    RemoteProtocolError
        If it holds none.
    """
    if len(body) != _RECEIPT.size:
        raise RemoteProtocolError(f"a receipt of {len(body)} octets")
    return Receipt(*(None if value < 0 else value for value in _RECEIPT.unpack(body)))
