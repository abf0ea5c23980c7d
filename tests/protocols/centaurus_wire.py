"""A second decoder of CentaurusComm, written from the tables of docs/centauruscomm.md alone.

It shares no line with `multitracer.protocols.centaurus`: it takes octets one field at a time, has its own
CRC, and answers with plain dictionaries.
"""

from __future__ import annotations

import hashlib
from typing import Any

_PLAIN_FIELDS = {
    b"PL": [("extensions", 1), ("longest", 2)],
    b"OB": [("class", 2), ("stamp", 8), ("size", 4), ("lifetime_ms", 4), ("segment", 2), ("token", 4),
            ("extensions", 1), ("longest", 2)],
    b"RJ": [("class", 2), ("stamp", 8), ("reason", 1)],
    b"PR": [("class", 2), ("stamp", 8), ("nonce", 4), ("round", 1), ("extensions", 1), ("longest", 2)],
    b"PK": [("slot", 2), ("nonce", 4)],
    b"DN": [("nonce", 4), ("round", 1)],
    b"AK": [("class", 2), ("stamp", 8)],
    b"NO": [("turn", 1), ("extensions", 1), ("longest", 2)],
}  # fmt: skip
_NAMES = {b"PL": "POLL", b"OB": "OBJ", b"RJ": "REJ", b"PR": "PROCEED", b"PK": "PK", b"DN": "DONE",
          b"AK": "ACK", b"NO": "NOPE"}  # fmt: skip
_TAILS = {b"OB": "zeros", b"PR": "bitmap", b"PK": "data"}


def _divided(octet: int) -> int:
    for _ in range(8):
        octet = octet >> 1 ^ (0xEDB88320 if octet & 1 else 0)
    return octet


_DIVIDED = [_divided(octet) for octet in range(256)]


def crc32(octets: bytes) -> int:
    register = 0xFFFFFFFF
    for octet in octets:
        register = register >> 8 ^ _DIVIDED[(register ^ octet) & 0xFF]
    return register ^ 0xFFFFFFFF


def hmac_sha256(key: bytes, octets: bytes) -> bytes:
    key = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(k ^ 0x36 for k in key) + octets).digest()
    return hashlib.sha256(bytes(k ^ 0x5C for k in key) + inner).digest()


def read_packet(octets: bytes, *, key: bytes = b"", station: bytes = b"") -> dict[str, Any]:
    """Return the fields of a packet; raise ValueError if it follows no table."""
    if len(octets) < 17:
        raise ValueError("short")
    first = octets[0]
    if first >> 4 != 1 or first & 0x0C:
        raise ValueError("version")
    if crc32(station + octets[:13] + octets[17:]) != int.from_bytes(octets[13:17], "big"):
        raise ValueError("checksum")
    message = octets[17:]
    if first & 2:
        message, tag = message[:-16], message[-16:]
        if hmac_sha256(key, station + octets[:13] + message)[:16] != tag:
            raise ValueError("tag")
    return {
        "initiator": bool(first & 1),
        "sealed": bool(first & 2),
        "session": int.from_bytes(octets[1:5], "big"),
        "clock": int.from_bytes(octets[5:13], "big"),
        **read_message(message),
    }


def read_message(octets: bytes) -> dict[str, Any]:
    """Return the fields of a message of Level II."""
    letters, rest = octets[:2], octets[2:]
    if letters not in _PLAIN_FIELDS:
        raise ValueError("letters")
    found: dict[str, Any] = {"message": _NAMES[letters]}
    for name, length in _PLAIN_FIELDS[letters]:
        if len(rest) < length:
            raise ValueError("short")
        found[name], rest = int.from_bytes(rest[:length], "big"), rest[length:]
    if letters in _TAILS:
        found[_TAILS[letters]] = rest
        _check_tail(found)
    elif rest:
        raise ValueError("long")
    return found


def _check_tail(found: dict[str, Any]) -> None:
    if found["message"] == "OBJ":
        if any(found["zeros"]) or len(found["zeros"]) > 256 or not 64 <= found["segment"] <= 1400:
            raise ValueError("OBJ")
        if slots(found) > 4096:
            raise ValueError("slots")
    if found["message"] == "PROCEED" and len(found["bitmap"]) > 512:
        raise ValueError("bitmap")
    if found["message"] == "PK" and not 1 <= len(found["data"]) <= 1400:
        raise ValueError("data")


def slots(obj: dict[str, Any]) -> int:
    return -(-obj["size"] // obj["segment"])


def bits(bitmap: bytes, count: int) -> list[int]:
    """Return the bits of a bitmap, slot 0 first."""
    return [bitmap[slot // 8] >> slot % 8 & 1 for slot in range(count)]


def read_frames(octets: bytes) -> list[tuple[int, bytes]]:
    """Return (station, packet) of the frames on a serial line, octet by octet."""
    found, inside, escaped = [], bytearray(), False
    for octet in octets:
        if octet == 0x7E:
            if inside:
                found.append((inside[0], bytes(inside[1:])))
            inside, escaped = bytearray(), False
        elif octet == 0x7D:
            escaped = True
        else:
            inside.append(octet ^ 0x20 if escaped else octet)
            escaped = False
    return found
