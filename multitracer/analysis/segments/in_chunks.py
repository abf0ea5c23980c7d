"""TCP_SEGMENTS in blocks of rows: almost no temporary array is as long as a connection.

The kernel passes over each long connection twice (`native/core/src/pass/each.rs`), and needs 12 bytes for
each of its segments. It leaves the same connections to Python as `compiled`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import GROUP_ROWS, SegmentKind, groups
from multitracer.analysis.segments.compiled import source_of
from multitracer.analysis.segments.segment_rows import (
    Connections,
    answered_after,
    first_dsacks,
    rows_of,
    sack_blocks_of,
    scaled_windows,
)
from multitracer.analysis.segments.untranslated import may_hold_some
from multitracer.native import kernel, reading
from multitracer.schemas.tcp import TCP_SEGMENTS
from multitracer.tables import SEGMENTS, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.analysis.connections import Partition
    from multitracer.capture import CaptureTables
    from multitracer.native import EachSegment
    from multitracer.tables import Array

LONG = 1 << 12
"""Minimum number of segments of a connection that the kernel processes alone: a call costs as much as some hundred
segments. Not measured."""
NEVER = np.uint32(0xFFFFFFFF)
"""The kernel's row number of a missing answer."""


def chunks(capture: CaptureTables, parts: Partition, shift: Array, rows: int) -> Iterator[tuple[Array, Table]]:
    """Yield the segments of all connections of a partition in blocks of about `rows` rows.

    Parameters
    ----------
    capture : CaptureTables
    parts : Partition
    shift : ndarray of int64, shape (2 n_connections,)
        Window shift of each direction.
    rows : int

    Yields
    ------
    connection : ndarray of int64, shape (n_rows,)
        Number of the connection in the partition, from 0, for each row.
    segments : Table
        The next rows of TCP_SEGMENTS, connection after connection.
    """
    at_once = GROUP_ROWS if kernel() is None else 2 * rows
    lone = np.flatnonzero(np.diff(parts.bounds[::2]) >= LONG).tolist() if kernel() else []
    for before, connection in pairwise([-1, *lone, parts.connections]):
        for group in groups(capture, parts, at_once, between=(before + 1, connection)):
            sides = slice(group.first_direction, group.first_direction + group.directions)
            yield from _examined(Connections(capture, group, shift[sides]), group.first_direction >> 1, rows)
        if connection < parts.connections:
            yield from _alone(capture, parts, connection, shift[2 * connection : 2 * connection + 2], rows)


def _examined(connections: Connections, first: int, rows: int) -> Iterator[tuple[Array, Table]]:
    numbers = np.repeat(np.arange(first, first + len(connections.bounds) - 1), np.diff(connections.bounds))
    begin = 0
    for table in connections.chunks(rows):
        yield numbers[begin : begin + len(table)], table
        begin += len(table)


def _alone(
    capture: CaptureTables, parts: Partition, connection: int, shift: Array, rows: int
) -> Iterator[tuple[Array, Table]]:
    """Yield the segments of one long connection in blocks.

    The native kernel computes them. If it leaves the connection to Python, the general method is used.
    """
    native = kernel()
    assert native is not None
    own = rows_in_order(parts, connection)
    columns = source_of(capture, parts.direction)
    index, _ = sack_blocks_of(capture, own.astype(np.int64))
    is_left = may_hold_some(capture.sack_blocks.take(index), capture.segments, own, parts.direction[own] & 1)
    with reading(capture.files[0].path):
        each = None if is_left else native.EachSegment(own, columns)
    if each is None or not each.is_known:
        (group,) = groups(capture, parts, rows, between=(connection, connection + 1))
        yield from _examined(Connections(capture, group, shift), connection, rows)
        return
    for begin in range(0, len(own), rows):
        here = own[begin : begin + rows]
        yield np.full(len(here), connection), _chunk(each, here, columns, shift, capture)[0]


def rows_in_order(parts: Partition, connection: int) -> Array:
    """Return the rows of a connection (from 0) in capture order: uint32, shape (n_segments,)."""
    begin, end = parts.bounds[[2 * connection, 2 * connection + 2]].tolist()
    if end - begin == len(parts.direction):
        return np.arange(end - begin, dtype=np.uint32)
    own = parts.rows_between(2 * connection, 2 * connection + 2)
    return np.sort(own, kind="stable").astype(np.uint32)  # two directions, each in order


class WalkedConnection(NamedTuple):
    """All segments of a connection, as the native kernel alone computes them."""

    segments: Table
    """TCP_SEGMENTS; columns may be shared with SEGMENTS of the capture, and are then read-only."""
    rows: Array | None
    """Row in the capture of each segment: uint32, shape (n_segments,). None if the capture has no other segments."""
    answers: tuple[Array, Array]
    """Rows in the capture of the exact ACK of each segment and of its first timestamp echo; `NEVER` without one."""


def walked(capture: CaptureTables, parts: Partition, connection: int, shift: Array) -> WalkedConnection | None:
    """Return the segments of a long connection without SACK blocks, processed by the kernel.

    The result is None for a connection with SACK blocks, or without the kernel.

    Parameters
    ----------
    capture : CaptureTables
    parts : Partition
    connection : int
        From 0.
    shift : ndarray of int64, shape (2,)
        Window shift of its directions.
    """
    begin, end = parts.bounds[[2 * connection, 2 * connection + 2]].tolist()
    if (native := kernel()) is None or end - begin < LONG:
        return None
    own = rows_in_order(parts, connection)
    if len(capture.sack_blocks) and len(sack_blocks_of(capture, own.astype(np.int64))[0]):
        return None
    columns = source_of(capture, parts.direction)
    with reading(capture.files[0].path):
        each = native.EachSegment(own, columns)
    if not each.is_known:
        return None
    segments, answers = _chunk(each, own, columns, shift, capture)
    return WalkedConnection(segments, own if len(own) < len(parts.direction) else None, answers)


def _chunk(
    each: EachSegment, own: Array, columns: dict[str, Array], shift: Array, capture: CaptureTables
) -> tuple[Table, tuple[Array, Array]]:
    with reading(capture.files[0].path):
        known = each.next(own, columns)
    taken = rows_of(own, len(capture.segments), is_one=True)
    segments = {name: taken(capture.segments[name]) for name in SEGMENTS.names}
    side = taken(columns["direction"]) & 1
    answers, delays = [], {}
    for name, of in (("rtt_ns", "exact"), ("rtt_timestamp_ns", "echo")):
        answer = known.pop(of)
        sent = np.flatnonzero(answer != NEVER)
        delays[name] = answered_after(capture, len(own), sent, own[sent], answer[sent])
        answers.append(answer if len(sent) else np.broadcast_to(NEVER, len(own)))
    if not len(capture.sack_blocks):
        known["flight_sack_bytes"] = known["flight_bytes"]  # one column less in memory
    sacks = np.flatnonzero(known["kind"] & np.uint32(SegmentKind.SACK))
    index, place = sack_blocks_of(capture, own[sacks].astype(np.int64))
    dsacks = first_dsacks(capture.sack_blocks.take(index), capture)
    known["kind"][sacks[place[dsacks]]] |= np.uint32(SegmentKind.DSACK)
    further = {"reverse": side == 1, "window_bytes": scaled_windows(segments["window"], segments["flags"], shift[side])}
    return Table(TCP_SEGMENTS, segments | known | delays | further), (answers[0], answers[1])
