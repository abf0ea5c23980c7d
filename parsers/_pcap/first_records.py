"""What the first records of a pcap file show that its header states wrongly: unit of the fractions, link type."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from parsers._capture.link_type import HEAD_BYTES, likely_link_type
from parsers._capture.time_unit import FEWEST_RECORDS, PROBE_BYTES, forced_tick_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parsers._pcap.dialect import Dialect

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
        head = more(PROBE_BYTES)
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
