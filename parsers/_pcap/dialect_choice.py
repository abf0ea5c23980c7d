"""Finds the dialect of a pcap file: by its magic number; where dialects share it, by the first records.

The first records also show what the header states wrongly: unit of the fractions, link type.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import FormatError
from parsers._capture.link_type import HEAD_BYTES, likely_link_type
from parsers._capture.time_unit import FEWEST_RECORDS, forced_tick_ns
from parsers._capture.time_unit import PROBE_BYTES as UNIT_BYTES
from parsers._pcap.dialect import FILE_HEADER_BYTES, MAGICS, PROBE_BYTES, Dialect, is_magic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


# --- what the first records show ---

_FACTOR = 1000
"""Ratio between two units in use."""
_MOST_RECORDS = 4096
_FEWEST_IMPOSSIBLE = 2


class _FirstRecord(NamedTuple):
    """A record at the begin of a file: its packet's position, and what its header says."""

    at: int
    seconds: int
    fraction: int
    captured: int
    original: int


def with_time_unit(dialect: Dialect, head: bytes, more: Callable[[int], bytes]) -> Dialect:
    """Return the dialect with the unit of its time stamps: forced, or guessed from the first records.

    Parameters
    ----------
    dialect : Dialect
    head : bytes
        First bytes of the file.
    more : callable
        Returns more of the first bytes, up to a number, for a file that leaves a doubt.
    """
    declared = dialect.magic.tick_ns
    forced = forced_tick_ns()
    if forced is not None:
        return dialect.with_tick(forced)
    records = list(_first_records(dialect, head))
    if _too_large(dialect, records):
        return dialect.with_tick(declared // _FACTOR, declared)
    if declared * _FACTOR < 10**9 and _small(dialect, records):
        head = more(UNIT_BYTES)
        records = list(_first_records(dialect, head))
        if _small(dialect, records) and (_spread(dialect, records) or _too_fast(dialect, records, head)):
            return dialect.with_tick(declared * _FACTOR, declared)
    return dialect


def with_link_type(dialect: Dialect, head: bytes) -> Dialect:
    """Return the dialect with the link type that its first frames show; `head` are the first bytes of the file."""
    frames = ((head[r.at : r.at + min(r.captured, HEAD_BYTES)], r.original) for r in _first_records(dialect, head))
    used = likely_link_type(dialect.link_type, frames)
    return dialect if used == dialect.link_type else dialect._replace(link_type=used, declared_link=dialect.link_type)


def _first_records(dialect: Dialect, head: bytes) -> Iterator[_FirstRecord]:
    """Yield the complete records at the begin of a file, up to one that cannot be."""
    at, records = dialect.first_record, 0
    while at + dialect.header_bytes <= len(head) and records < _MOST_RECORDS:
        seconds, fraction = struct.unpack_from(dialect.order + "II", head, at)
        captured, original = dialect.lengths(head, at)
        if captured > min(dialect.largest, original):
            break
        at += dialect.header_bytes
        if at + captured <= len(head):
            yield _FirstRecord(at, seconds, fraction, captured, original)
            records += 1
        at += captured


def _too_large(dialect: Dialect, records: list[_FirstRecord]) -> bool:
    """Return whether most fractions are a second or more, but less in the next smaller unit."""
    one = dialect.ticks_per_second
    impossible = sum(record.fraction >= one for record in records)
    return (
        dialect.magic.tick_ns >= _FACTOR
        and impossible >= max(_FEWEST_IMPOSSIBLE, len(records) / 2)
        and all(record.fraction < _FACTOR * one for record in records)
    )


def _small(dialect: Dialect, records: list[_FirstRecord]) -> bool:
    """Return whether all fractions are below a thousandth of a second, and not all are 0."""
    thousandth = dialect.ticks_per_second // _FACTOR
    few = len(records) < FEWEST_RECORDS
    return not few and 0 < max(record.fraction for record in records) < thousandth


def _spread(dialect: Dialect, records: list[_FirstRecord]) -> bool:
    """Return whether small fractions fill several seconds as times do in the next larger unit.

    A clock that is read at whole seconds gives small ones only.
    """
    of_second = dict[int, list[int]]()
    for record in records:
        of_second.setdefault(record.seconds, []).append(record.fraction)
    thousandth = dialect.ticks_per_second // _FACTOR
    widths = [max(fractions) - min(fractions) for fractions in of_second.values()]
    return len(widths) > 1 and max(widths) > thousandth / 2


def _too_fast(dialect: Dialect, records: list[_FirstRecord], head: bytes) -> bool:
    import numpy as np  # noqa: PLC0415  # few files leave a doubt

    from parsers._capture.time_unit import ticks_too_fast  # noqa: PLC0415
    from parsers._packets.layers import PAD_BYTES, PacketRecords  # noqa: PLC0415

    columns = np.array(records, np.int64).T
    time_ns = columns[1] * 10**9 + columns[2] * dialect.magic.tick_ns
    data = np.frombuffer(head + bytes(PAD_BYTES), np.uint8)
    packet_records = PacketRecords(data, columns[0], columns[3], columns[4], time_ns, dialect.link_type)
    return ticks_too_fast(packet_records, _FACTOR)
