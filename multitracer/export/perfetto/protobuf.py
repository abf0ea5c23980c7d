"""Fields of a protobuf message as bytes: what a trace needs of the encoding, and no more.

Source: Protocol Buffers, "Encoding". Reading is left to the programs that the trace is for.
"""

from __future__ import annotations

import struct

_VARINT, _FIXED64, _BYTES = 0, 1, 2
"""Wire types: integers of any length, eight bytes, and bytes with their length before them."""
_DOUBLE, _LONG = struct.Struct("<d"), struct.Struct("<Q")
_UINT64 = (1 << 64) - 1


_GROUP = 1 << 14
_LAST = [bytes([n]) if n < 0x80 else bytes([n & 0x7F | 0x80, n >> 7]) for n in range(_GROUP)]
_MORE = [bytes([n & 0x7F | 0x80, n >> 7 | 0x80]) for n in range(_GROUP)]
"""Fourteen bits as two bytes, at the end of an integer and before it; they are looked up, not computed."""


def varint(number: int) -> bytes:
    """Return an integer, seven bits a byte, the lowest first; a negative one as its 64 bits."""
    rest, head = number & _UINT64, b""
    while rest >= _GROUP:
        head += _MORE[rest & _GROUP - 1]
        rest >>= 14
    return head + _LAST[rest]


def integer(field: int, number: int) -> bytes:
    """Return a field of an integer type, or of an enumeration."""
    return _LAST[field << 3 | _VARINT] + varint(number)


def fixed64(field: int, number: int) -> bytes:
    """Return a field of type fixed64."""
    return _LAST[field << 3 | _FIXED64] + _LONG.pack(number)


def double(field: int, number: float) -> bytes:
    """Return a field of type double."""
    return _LAST[field << 3 | _FIXED64] + _DOUBLE.pack(number)


def message(field: int, content: bytes) -> bytes:
    """Return a field that holds another message, or bytes."""
    return _LAST[field << 3 | _BYTES] + varint(len(content)) + content


def text(field: int, words: str) -> bytes:
    """Return a field of type string."""
    return message(field, words.encode())
