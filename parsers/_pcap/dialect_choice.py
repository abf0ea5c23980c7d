"""Finds the dialect of a pcap file: by its magic number; where dialects share it, by the first records."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from multitracer.errors import FormatError
from parsers._pcap.dialect import FILE_HEADER_BYTES, MAGICS, PROBE_BYTES, Dialect, is_magic
from parsers._pcap.first_records import with_link_type, with_time_unit

if TYPE_CHECKING:
    from collections.abc import Callable

_CLEAR_RECORDS = 16
"""Number of plausible records at the start that settle the choice."""
_FEWEST_CHAINS = 2
_RARE_FACTOR = 2
"""Factor by which the evidence for a rare header must exceed that for the standard one."""


def dialect_of(head: bytes, *, path: str, more: Callable[[int], bytes] | None = None) -> Dialect:
    """Return the dialect of the file whose first bytes are `head`; `more` returns more of them, if needed.

    Raises
    ------
    FormatError
        If the file header is not complete.
    """
    if not is_magic(head):
        raise FormatError(path, "the file does not begin with a pcap magic number", offset=0, excerpt=head[:4])
    if len(head) < FILE_HEADER_BYTES:
        raise FormatError(path, "the file header is truncated", offset=len(head))
    order = "<" if int.from_bytes(head[:4], "little") in MAGICS else ">"
    number, major, minor, _, _, snap_length, network = struct.unpack(order + "IHHIIII", head[:24])
    magic = MAGICS[number]
    swapped = (major == 2 and minor < 4) or major == 543
    dialect = Dialect(order, magic, magic.headers[0], swapped, network & 0x03FF_FFFF, snap_length)
    first = head[dialect.first_record : dialect.first_record + 4]
    seconds = int.from_bytes(first, "little" if order == "<" else "big")
    dialect = _likeliest([dialect._replace(header_bytes=n, high_seconds=seconds >> 16) for n in magic.headers], head)
    return with_link_type(with_time_unit(dialect, head, more or (lambda _: head)), head)


def _likeliest(candidates: list[Dialect], head: bytes) -> Dialect:
    """Return the dialect with most plausible records in `head`; if it is unclear, the standard dialect."""
    typical, *rare = candidates
    if not rare or _is_clear(typical, head):
        return typical
    import numpy as np  # noqa: PLC0415  # few files leave a doubt

    from parsers._packets.layers import PAD_BYTES  # noqa: PLC0415
    from parsers._pcap.plausibility import Chains  # noqa: PLC0415

    padded = np.frombuffer(head + bytes(PAD_BYTES), np.uint8)
    complete = len(head) < PROBE_BYTES
    chains = [
        Chains(padded, len(head), each, final=complete, near_s=None).count(each.first_record) for each in candidates
    ]
    best = max(range(len(candidates)), key=chains.__getitem__)
    return candidates[best] if chains[best] >= max(_FEWEST_CHAINS, _RARE_FACTOR * chains[0] + 1) else typical


def _is_clear(dialect: Dialect, head: bytes) -> bool:
    """Return whether all records in `head` are plausible in a dialect."""
    at = dialect.first_record
    for _ in range(_CLEAR_RECORDS):
        if at + 16 > len(head):
            break
        fraction = struct.unpack_from(dialect.order + "I", head, at + 4)[0]
        captured, original = dialect.lengths(head, at)
        if captured > min(dialect.largest, original) or fraction >= dialect.ticks_per_second:
            return False
        at += dialect.header_bytes + captured
    return True
