"""Complete JSON documents of a log, in bounded memory, and checks of their numbers and texts."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError

if TYPE_CHECKING:
    from multitracer.tables import Document

_MOST_BYTES = 32 << 20
"""About 300 bytes for each interval of a stream in iperf3: 7 hours of 4 streams at 1 s."""
_MOST = 1 << 53


def documents(stream: BinaryIO, path: str) -> tuple[list[Document], str | None]:
    """Return the JSON objects that follow each other in a log, and the reason if the rest is not read.

    Raises
    ------
    FormatError
        If no object is complete, or the log is too large.
    """
    octets, damage = _all(stream, path)
    text = octets.decode("utf-8-sig", "replace")
    decoder, at, objects = json.JSONDecoder(), 0, []
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            damage = damage or f"not valid JSON at character {at:,}: {error}"[:200]
            break
        if isinstance(document, dict):
            objects.append(document)
    if not objects:
        raise FormatError(path, damage or "the file has no JSON object")
    return objects, damage


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
        raise FormatError(
            path, f"the file is longer than {_MOST_BYTES >> 20} MiB; split the test into several files"
        )
    return bytes(octets), damage


def section(document: object, key: str) -> Document:
    """Return an object inside another; an empty one if there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}


def members(document: object, key: str) -> list[Document]:
    """Return the objects of a list inside an object."""
    value = document.get(key) if isinstance(document, dict) else None
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def real(value: object, *, most: float = _MOST) -> float | None:
    """Return a number from 0 to `most`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= most else None


def complete(value: object) -> int | None:
    """Return a whole number of 0 or more; None for anything else."""
    number = real(value)
    return None if number is None else int(number)


def words(value: object, most: int) -> str:
    """Return printable text, shortened; empty for anything else."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else ""
    return "".join(c for c in text[:most] if c.isprintable())
