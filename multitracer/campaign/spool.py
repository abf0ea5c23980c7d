"""A spool: all rows of one session in one file, as a worker hands them to the committer.

Layout: 8 bytes that name the format, the SHA-256 of the rest, then an Arrow IPC stream for each table of the
catalogue in its order. A spool whose sum is wrong was cut by a crash: its session is analysed again.
"""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING

import pyarrow as pa

from multitracer.campaign.schemas import ARROW, VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    Tables = dict[str, pa.Table]

_MAGIC = b"MTSPOOL" + bytes([VERSION])
_SUM_BYTES = 32
"""Of a SHA-256."""


def packed(tables: Mapping[str, pa.Table]) -> bytes:
    """Return a spool's bytes; a table that is not there has no row."""
    rest = io.BytesIO()
    for name, schema in ARROW.items():
        with pa.ipc.new_stream(rest, schema) as writer:
            if name in tables:
                writer.write_table(tables[name])
    return _MAGIC + hashlib.sha256(rest.getbuffer()).digest() + rest.getvalue()


def unpacked(content: bytes) -> Tables | None:
    """Return the tables of a spool by name; None if it is damaged, or of another version."""
    head = len(_MAGIC) + _SUM_BYTES
    rest = memoryview(content)[head:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(rest).digest() != content[len(_MAGIC) : head]:
        return None
    source = pa.BufferReader(pa.py_buffer(rest))
    tables: Tables = {}
    try:
        for name, schema in ARROW.items():
            with pa.ipc.open_stream(source) as stream:
                tables[name] = stream.read_all()
            if not tables[name].schema.equals(schema):
                return None
    except pa.ArrowInvalid:
        return None
    return tables
