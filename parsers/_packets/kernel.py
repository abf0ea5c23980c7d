"""Decoding of a block by the native kernel: plain segments; all other records are left to Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.native import kernel
from parsers._packets.parts import of_kernel

if TYPE_CHECKING:
    from multitracer.tables import Numbers
    from parsers._packets.layers import PacketRecords
    from parsers._packets.parts import BlockSegments


class DecodedBlock(NamedTuple):
    """The result of the native kernel for one block."""

    parts: list[BlockSegments]
    rest: Numbers
    """Indexes of the records that are left to Python, ascending."""
    segments: dict[int, int]
    """Number of segments by IP version."""
    udp: int = 0
    """Number of UDP datagrams, which are only counted."""


def decoded(records: PacketRecords) -> DecodedBlock | None:
    """Return the segments that the native kernel decodes in a block, and the indexes of the other records.

    None without a kernel, or if the kernel can decode no record of the block.
    """
    native = kernel()
    if native is None or not len(records):
        return None
    answer = native.decode(records.data, *record_columns(records))
    rest = np.concatenate([part["rest"] for part in answer])
    if len(rest) == len(records):
        return None
    ipv4, udp = (sum(part[what] for part in answer) for what in ("in_ipv4", "udp"))
    segments = {4: ipv4, 6: len(records) - len(rest) - udp - ipv4}
    return DecodedBlock([of_kernel(part) for part in answer], rest, segments, udp)


def record_columns(records: PacketRecords) -> list[Numbers]:
    """Return start, captured and original length, and link type of records, as the kernel takes them."""
    columns = (records.start, records.captured, records.original, np.atleast_1d(records.link_type))
    return [np.ascontiguousarray(column, np.int64) for column in columns]
