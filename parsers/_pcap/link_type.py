"""The link type of a pcap file, where its first frames show another one than its header names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers._capture.link_type import HEAD_BYTES, likely_link_type
from parsers._pcap.time_unit import first_records

if TYPE_CHECKING:
    from parsers._pcap.dialect import Dialect


def with_link_type(dialect: Dialect, head: bytes) -> Dialect:
    """Return the dialect with the link type that its first frames show; `head` are the first bytes of the file."""
    frames = ((head[r.at : r.at + min(r.captured, HEAD_BYTES)], r.original) for r in first_records(dialect, head))
    used = likely_link_type(dialect.link_type, frames)
    return dialect if used == dialect.link_type else dialect._replace(link_type=used, declared_link=dialect.link_type)
