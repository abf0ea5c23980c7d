"""Reads complete JSON documents from a log in bounded memory, and checks numbers and texts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from parsers._text.times import parsed_int, parsed_json

if TYPE_CHECKING:
    from multitracer.tables import Document

_MOST_BYTES = 32 << 20
"""Maximum size of a log: 7 hours of 4 iperf3 streams at 1 s, with about 300 bytes for an interval."""
_DEEPEST = 100
"""Maximum depth of a damaged document; iperf3's is 6 deep."""
_NO_NUMBER = re.compile(r"(?<=[:\[,\s])[-+]?(?:nan|inf(?:inity)?)(?:\([^)\s]{0,20}\))?(?=\s*[,}\]])", re.IGNORECASE)
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
"""A text, which is passed over, the begin of one without an end, or the begin or end of an object or list."""
_CLOSERS = {"{": "}", "[": "]"}


def documents(stream: BinaryIO, path: str) -> tuple[list[Document], str | None]:
    """Return the JSON objects of a log, and the reason if the end of the log is not readable (else None).

    Raises
    ------
    FormatError
        If the log has no complete object, or is too large.
    """
    octets, damage = _all(stream, path)
    text = octets.decode("utf-8-sig", "replace")
    decoder, at, objects = json.JSONDecoder(parse_int=parsed_int), 0, []
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            place = getattr(error, "pos", at)
            damage = damage or f"not valid JSON at character {place:,}: {error}"[:200]
            objects += _objects(salvaged(text[at:]))
            break
        objects += _objects(document)
    if not objects:
        raise FormatError(path, damage or "the file has no JSON object")
    return objects, damage


def _objects(document: object) -> list[Document]:
    """Return a document if it is an object, and the objects of a list."""
    return [each for each in (document if isinstance(document, list) else [document]) if isinstance(each, dict)]


def salvaged(text: str) -> object:
    """Return the value of a JSON text that is damaged, up to its last complete list or object; else None.

    `nan` and `inf`, which C programs write for numbers, are not JSON; they become null.
    """
    text = _NO_NUMBER.sub("null", text)
    closers: list[str] = []
    best, best_closers = 0, ""
    for match in _STRUCTURE.finditer(text):
        mark = match[0]
        if mark in _CLOSERS:
            closers.append(_CLOSERS[mark])
            if len(closers) > _DEEPEST:
                break
        elif mark in _CLOSERS.values():
            if not closers or closers.pop() != mark:
                break
            best, best_closers = match.end(), "".join(reversed(closers))
            if not closers:
                break
        elif mark == '"':
            break
    return parsed_json(text[:best] + best_closers) if best else None


def _all(stream: BinaryIO, path: str) -> tuple[bytes, str | None]:
    octets, damage = bytearray(), None
    while len(octets) <= _MOST_BYTES:
        try:
            chunk = stream.read(1 << 20)
        except FormatError as error:  # of what unpacks the file
            if not octets:
                raise
            damage = error.reason
            break
        if not chunk:
            break
        octets += chunk
    if len(octets) > _MOST_BYTES:
        raise FormatError(path, f"the file is longer than {_MOST_BYTES >> 20} MiB; split the test into several files")
    return bytes(octets), damage


def section(document: object, key: str) -> Document:
    """Return the JSON object at `key`; an empty object if there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}


def members(document: object, key: str) -> list[Document]:
    """Return the JSON objects in the list at `key`; an empty list if there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def words(value: object, most: int) -> str:
    """Return a text as printable text of at most `most` characters; "" if the value is not text."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
    return "".join(c for c in text[:most] if c.isprintable())
