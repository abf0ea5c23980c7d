"""The segments of connections with the results of the analysis for each: TCP_SEGMENTS.

The native kernel computes the axis position of each segment and the data outstanding after it in one pass.

Round-trip times from the timestamps option (RFC 7323, section 4.1): an ACK that acknowledges new data and
echoes a timestamp measures the first segment with that timestamp. Unlike an exact ACK, this is not ambiguous
after a retransmission: the echo identifies the transmission that was answered.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import SegmentKind, groups, has
from multitracer.analysis.intervals import add_to_groups, carried_on, places, repeated
from multitracer.analysis.segments.acknowledgments import first_units
from multitracer.analysis.segments.axis import partners
from multitracer.analysis.segments.directions import is_dsack
from multitracer.analysis.segments.examination import examine
from multitracer.analysis.segments.goodput import new_bytes
from multitracer.analysis.segments.outstanding import SackBlocks, less_sacked, outstanding
from multitracer.analysis.segments.probes import window_is_closed
from multitracer.analysis.segments.untranslated import FEWEST, naming_unsent, with_growing_dsacks
from multitracer.analysis.segments.window_scale import LARGEST_SHIFT
from multitracer.captured import CaptureMark, Flag
from multitracer.native import kernel
from multitracer.schemas.tcp import TCP_SACK_BLOCKS, TCP_SEGMENTS
from multitracer.tables import NA, NOT_A_TIME, SACK_BLOCKS, SEGMENTS, Table, between_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis.connections import Partition
    from multitracer.analysis.group import SegmentGroup
    from multitracer.analysis.segments.examination import Examination
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array


def placed(examination: Examination, order: Array, shift: Array, *, with_acked: bool) -> dict[str, Array] | None:
    """Return columns of TCP_SEGMENTS that the native kernel computes; None without the kernel.

    Parameters
    ----------
    examination : Examination
    order : ndarray of int64, shape (n_segments,)
        Positions, connection after connection, each in capture order.
    shift : ndarray of int64, shape (n_directions,)
        Window shift of each direction, in bits.
    with_acked : bool
        Whether the highest ACK of both sides at each row is also needed.

    Returns
    -------
    dict of str to ndarray, each of shape (n_segments,), or None
        reverse, seq_bytes, end_bytes, ack_bytes, window_bytes and flight_bytes; with `with_acked` also
        acked_0 and acked_1. Those are axis positions; before any ACK of a direction they are less than its
        `lowest`.
    """
    native = kernel()
    if native is None:
        return None
    group, axis = examination.group, examination.axis
    chunks, acks, reach = axis.chunks, axis.acks, examination.coverage.reach
    return native.place_segments(
        _contiguous(group.bounds, group.seq, group.flags, group.window, group.units),
        _contiguous(chunks.position, chunks.bounds, chunks.start, reach),
        _contiguous(acks.position, acks.bounds, acks.value, acks.highest),
        _contiguous(axis.reference, axis.reference_seq, axis.origin, axis.lowest, first_units(axis), shift),
        np.ascontiguousarray(order),
        missing=NA,
        with_acked=with_acked,
    )


def _contiguous(*columns: Array) -> tuple[Array, ...]:
    return tuple(map(np.ascontiguousarray, columns))


def echoes(examination: Examination, capture: CaptureTables) -> tuple[Array, Array]:
    """Return the positions of segments whose timestamp was echoed, and of the first ACK that echoes it.

    If several segments have the same timestamp, only the first one that occupies sequence numbers is used,
    and only if the ACK covers it.

    Returns
    -------
    segment, ack : ndarray of int64, shape (n_samples,)
    """
    group, axis, segments = examination.group, examination.axis, capture.segments
    chunks, acks = axis.chunks, axis.acks
    stamped = has(segments["marks"][group.rows], CaptureMark.HAS_TIMESTAMPS)
    chunk = np.flatnonzero(stamped[chunks.position])
    advancing = acks.advancing[stamped[acks.position[acks.advancing]]]
    if not len(chunk):
        return chunk, chunk
    sent, answer = group.rows[chunks.position[chunk]], group.rows[acks.position[advancing]]
    value, first = _firsts(segments["tsval"][sent], group.direction_of(chunks.position[chunk]))
    echoed, earliest = _firsts(segments["tsecr"][answer], acks.direction[advancing])
    slot = np.minimum(np.searchsorted(value, echoed), len(value) - 1)
    known = value[slot] == echoed
    first, earliest = first[slot[known]], earliest[known]
    covered = (sent[first] < answer[earliest]) & (acks.value[advancing[earliest]] >= chunks.end[chunk[first]])
    return chunks.position[chunk[first[covered]]], acks.position[advancing[earliest[covered]]]


def _firsts(stamp: Array, direction: Array) -> tuple[Array, Array]:
    """Return the distinct timestamps of each direction, ascending, and the first index of each of them."""
    value, first = np.unique((direction << 32) + stamp, return_index=True)
    return value, first


_MANY = 10_000
"""Minimum number of rows for a check whether they are contiguous. Not measured."""


class Connections:
    """The segments of complete connections, examined; all columns below are computed from it.

    Parameters
    ----------
    capture : CaptureTables
    group : SegmentGroup
    shift : ndarray of int64
        Window shift of each direction of the group.
    """

    def __init__(self, capture: CaptureTables, group: SegmentGroup, shift: Array) -> None:
        self.capture = capture
        self.group = group
        self.shift = shift
        self.order = _in_capture_order(group)
        """Position of each row of `segments()`."""
        self.rows = group.rows[self.order]
        """Row in the capture of each row of `segments()`."""
        self.bounds = group.bounds[::2]
        """Connection c of the group has rows bounds[c]:bounds[c + 1] of `segments()`."""

    @cached_property
    def examination(self) -> Examination:
        """The results for the segments, computed at each access: about 70 bytes for each segment."""
        return examine(self.group, self.capture)

    @cached_property
    def exact_pairs(self) -> tuple[Array, Array]:
        """Positions of segments with an exact ACK (it ends at the segment's end), and of these ACKs."""
        return self.examination.exact_pairs()

    @cached_property
    def ack(self) -> Array:
        """Axis position of each segment's ACK number, in the order of the group."""
        return _acks_on_axis(self.examination)

    def segments(self) -> Table:
        """Return TCP_SEGMENTS, connection after connection; the table is computed once and cached."""
        return Table(TCP_SEGMENTS, dict(self._columns))

    @cached_property
    def _columns(self) -> dict[str, Array]:
        by_position, by_row = self._derived_columns()
        taken = rows_of(self.rows, len(self.capture.segments), is_one=len(self.bounds) == 2)
        columns = {name: taken(self.capture.segments[name]) for name in SEGMENTS.names}
        for name in tuple(by_position):
            columns[name] = by_position.pop(name).take(self.order)
        if not len(self.blocks.left):  # what else is asked for is known by now
            with suppress(AttributeError):  # nobody asked for it
                del self.examination
        return columns | by_row

    def chunks(self, rows: int) -> Iterator[Table]:
        """Yield `segments()` in blocks of `rows` rows, which takes less memory than the complete table."""
        by_position, by_row = self._derived_columns()
        for begin in range(0, len(self.rows), rows):
            here = slice(begin, begin + rows)
            columns = {name: self.capture.segments[name].take(self.rows[here]) for name in SEGMENTS.names}
            columns |= {name: values.take(self.order[here]) for name, values in by_position.items()}
            columns |= {name: values[here] for name, values in by_row.items()}
            yield Table(TCP_SEGMENTS, columns)

    def _derived_columns(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the columns of TCP_SEGMENTS that are computed, as two dicts.

        The columns of the first dict are in the order of the group, those of the second one in the order of
        `rows`.
        """
        in_order = {
            "new_bytes": new_bytes(self.examination),
            "kind": _kinds(
                self.examination, self.order[self._own_blocks[1]], self.order[self.blocks.moment[self.blocks.dsack]]
            ),
            "rtt_ns": self._delays(*self.exact_pairs),
            "rtt_timestamp_ns": self._delays(*self.echoes),
        }
        shift, is_sacked = np.minimum(self.shift, LARGEST_SHIFT), len(self.blocks.left) > 0
        by_row = placed(self.examination, self.order, shift, with_acked=is_sacked)
        if by_row is None:
            in_order |= self._on_axis()
            flight, flight_sack = outstanding(self.examination, self.order, self.blocks)
            return in_order, {"flight_bytes": flight, "flight_sack_bytes": flight_sack}
        flight = by_row["flight_bytes"]
        acked = [by_row.pop(side) for side in ("acked_0", "acked_1") if is_sacked]
        less = less_sacked(self.examination, self.order, self.blocks, flight, acked)
        return in_order, by_row | {"flight_sack_bytes": less}

    def _on_axis(self) -> dict[str, Array]:
        """Return the columns of TCP_SEGMENTS that follow from axis positions, in the order of the group."""
        group, origin = self.group, self.examination.axis.origin
        direction = group.direction
        start = _starts_on_axis(self.examination) - origin[direction]
        return {
            "reverse": direction & 1 == 1,
            "seq_bytes": start,
            "end_bytes": start + np.where(has(group.flags, Flag.RST), 0, group.units),
            "ack_bytes": np.where(has(group.flags, Flag.ACK), self.ack - origin[direction ^ 1], NA),
            "window_bytes": scaled_windows(group.window, group.flags, self.shift[direction]),
        }

    def sack_blocks(self) -> Table:
        """Return TCP_SACK_BLOCKS, in the order of `segments()`; without untranslated blocks."""
        blocks = self.blocks
        if not len(blocks.left):
            return Table.empty(TCP_SACK_BLOCKS)
        own = self._judged_blocks[0]
        origin = self.examination.axis.origin[blocks.direction]
        columns = {
            "row": blocks.moment,
            "left": own["left"],
            "right": own["right"],
            "left_bytes": blocks.left - origin,
            "right_bytes": blocks.right - origin,
            "dsack": blocks.dsack,
        }
        return Table(TCP_SACK_BLOCKS, columns)

    @property
    def blocks(self) -> SackBlocks:
        """The SACK blocks on the axis, without untranslated ones."""
        return self._judged_blocks[1]

    @property
    def untranslated(self) -> Array:
        """Rows of `segments()` with SACK blocks that a middlebox did not translate: int64, ascending."""
        return self._judged_blocks[2]

    @cached_property
    def _judged_blocks(self) -> tuple[Table, SackBlocks, Array]:
        """Return the usable SACK blocks, the same on the axis, and the segments of the others."""
        own, moment = self._own_blocks
        none = np.empty(0, dtype=np.int64)
        if not len(own):
            return own, SackBlocks(none, none, none, none, none > 0), none
        position = self.order[moment]
        ack, raw, sender = self.ack[position], self.group.ack[position], self.group.direction_of(position)
        left, right = (ack + (own[edge] - raw).view(np.int32) for edge in ("left", "right"))
        dsack = first_dsacks(own, self.capture)
        blocks = SackBlocks(moment, sender ^ 1, left, right, dsack)
        bad = naming_unsent(self.examination, blocks, ack) ^ 1
        if np.count_nonzero(dsack) >= FEWEST:
            by_position = Table(SACK_BLOCKS, {**own.columns, "row": moment})
            direction = self.group.direction_of(self.order)
            bad = np.union1d(bad, with_growing_dsacks(by_position, self.group.ack[self.order], direction))
        if not len(bad):
            return own, blocks, none
        usable = ~np.isin(sender, bad)
        return own.take(usable), blocks.chosen(usable), np.unique(moment[~usable])

    @cached_property
    def _own_blocks(self) -> tuple[Table, Array]:
        """Return the SACK blocks of these connections, and the index in `rows` of each block's segment."""
        place = np.argsort(self.rows, kind="stable") if len(self.bounds) > 2 else None
        rows = self.rows if place is None else self.rows[place]  # those of one connection ascend
        index, moment = sack_blocks_of(self.capture, rows)
        if place is not None:
            moment = place[moment]
        in_order = np.argsort(moment, kind="stable")
        return self.capture.sack_blocks.take(index[in_order]), moment[in_order]

    @cached_property
    def echoes(self) -> tuple[Array, Array]:
        """Positions of segments whose timestamp was echoed, and of the first ACK that echoes it."""
        return echoes(self.examination, self.capture)

    def _delays(self, sent: Array, answer: Array) -> Array:
        rows = self.group.rows
        return answered_after(self.capture, len(rows), sent, rows[sent], rows[answer])


def scaled_windows(window: Array, flags: Array, shift: Array) -> Array:
    """Return the windows in bytes; the window of a SYN is never scaled (RFC 7323, 2.2).

    Parameters
    ----------
    window, flags : ndarray of uint16, shape (n_segments,)
        As in the TCP header.
    shift : ndarray of int64, shape (n_segments,)
        Window shift of the segment's direction.

    Returns
    -------
    ndarray of int64, bytes, shape (n_segments,)
    """
    scaled = window.astype(np.int64)
    return np.left_shift(scaled, np.minimum(shift, LARGEST_SHIFT), out=scaled, where=~has(flags, Flag.SYN))


def answered_after(capture: CaptureTables, count: int, place: Array, sent: Array, answer: Array) -> Array:
    """Return for each segment the time until its answer (an ACK).

    Parameters
    ----------
    capture : CaptureTables
    count : int
        Number of all segments.
    place : ndarray of int64, shape (n_answered,)
        The segments with an answer.
    sent, answer : ndarray of int, shape (n_answered,)
        Rows in the capture of these segments, and of their answers.

    Returns
    -------
    ndarray of int64, ns, shape (count,)
        NOT_A_TIME without an answer, or where one of the two times is not known. Read-only if there is no answer.
    """
    if not len(place):
        return repeated(NOT_A_TIME, count)
    time_ns, delay = capture.segments["time_ns"], np.full(count, NOT_A_TIME)
    delay[place] = between_ns(time_ns[sent], time_ns[answer])
    return delay


def outline(capture: CaptureTables, partition: Partition) -> dict[str, Array]:
    """Return the basic columns of all segments of a capture.

    Returns
    -------
    dict of str to ndarray, each of shape (n_segments,)
        The columns flags, payload_bytes, reverse, seq_bytes and kind, of the dtypes of TCP_SEGMENTS, in capture order.
    """
    segments = capture.segments
    columns = {
        "flags": segments["flags"],
        "payload_bytes": segments["payload_bytes"],
        "reverse": (partition.direction & 1).astype(bool),
        "seq_bytes": np.zeros(len(segments), dtype=np.int64),
        "kind": np.zeros(len(segments), dtype=np.uint32),
    }
    dsacks = capture.sack_blocks["row"][first_dsacks(capture.sack_blocks, capture)]
    if len(dsacks) >= FEWEST:
        grown = with_growing_dsacks(capture.sack_blocks, capture.segments["ack"], partition.direction)
        dsacks = dsacks[~np.isin(partition.direction[dsacks], grown)]
    for group in groups(capture, partition):
        examination = examine(group, capture)
        direction = group.direction
        columns["seq_bytes"][group.rows] = _starts_on_axis(examination) - examination.axis.origin[direction]
        rows = group.rows
        sacks = np.isin(rows, capture.sack_blocks["row"], kind="table")
        columns["kind"][rows] = _kinds(examination, sacks, np.isin(rows, dsacks))
    return columns


def _starts_on_axis(examination: Examination) -> Array:
    """Return for each segment where it begins, relative to the last segment that occupies sequence numbers.

    Before the first such segment, it is relative to the direction's reference number.
    """
    group, chunks, axis = examination.group, examination.axis.chunks, examination.axis
    near = carried_on(chunks.start, chunks.position, group.bounds, axis.reference)
    seq = carried_on(group.seq[chunks.position], chunks.position, group.bounds, axis.reference_seq)
    near += np.subtract(group.seq, seq, out=seq).view(np.int32)
    return near


def rows_of(rows: Array, among: int, *, is_one: bool) -> Callable[[Array], Array]:
    """Return a function that returns the elements `rows` of a column of length `among`.

    Contiguous rows are copied ten times as fast as others. With `is_one` the rows belong to one connection
    and ascend. If they are all rows, the function returns the column itself, read-only.
    """
    first, count = int(rows[0]) if len(rows) else 0, len(rows)
    if count < _MANY or int(rows[-1]) - first != count - 1 or not (is_one or (np.diff(rows) == 1).all()):
        index = rows.astype(np.intp, copy=False)
        return lambda column: column[index]
    return _unwritable if count == among else lambda column: column[first : first + count].copy()


def _unwritable(column: Array) -> Array:
    same = column.view()
    same.flags.writeable = False
    return same


def _in_capture_order(group: SegmentGroup) -> Array:
    """Return the positions of a group in the order: connection after connection, each in capture order."""
    key = group.rows.copy()
    span = int(key.max(initial=0)) + 1
    add_to_groups(key, (np.arange(group.directions) >> 1) * span, group.bounds)
    return np.argsort(key, kind="stable")


def _acks_on_axis(examination: Examination) -> Array:
    """Return the axis position of each segment's ACK number; undefined for a segment without ACK."""
    group, acks = examination.group, examination.axis.acks
    value, _ = partners(acks.value, acks.bounds)
    position, _ = partners(acks.position, acks.bounds)
    return carried_on(value, position, group.bounds, np.zeros(group.directions, dtype=np.int64))


def _kinds(examination: Examination, sacks: Array, dsacks: Array) -> Array:
    """Return the bits of SegmentKind of each segment.

    `sacks` and `dsacks` are the positions of segments with SACK blocks and with a D-SACK.
    """
    group, coverage, repeats = examination.group, examination.coverage, examination.repeats
    late = examination.axis.chunks.position[coverage.late]
    closed = window_is_closed(group, examination.empty_alive)
    again = examination.repeats_late & ~examination.twice_late
    unseen = examination.axis.acks.position[examination.axis.acks.advancing[examination.ack_progress.unseen]]
    kind = np.zeros(len(group), dtype=np.uint32)
    for bit, position in (
        (SegmentKind.DATA, group.payload > 0),
        (SegmentKind.RETRANSMISSION, late[again]),
        (SegmentKind.PARTIAL_RETRANSMISSION, late[again & (coverage.new > 0)]),
        (SegmentKind.OUT_OF_ORDER, late[examination.fills_late]),
        (SegmentKind.CAPTURE_DUPLICATE, np.concatenate([late[examination.twice_late], repeats.captured_twice])),
        (SegmentKind.DUPLICATE_ACK, repeats.duplicate),
        (SegmentKind.ZERO_WINDOW, examination.closed),
        (SegmentKind.ZERO_WINDOW_PROBE, np.concatenate([examination.probes, examination.empty_alive[closed]])),
        (SegmentKind.KEEP_ALIVE, np.concatenate([late[examination.alive_late], examination.empty_alive[~closed]])),
        (SegmentKind.WINDOW_UPDATE, repeats.window_update),
        (SegmentKind.SACK, sacks),
        (SegmentKind.DSACK, dsacks),
        (SegmentKind.ACK_OF_UNSEEN, unseen),
    ):
        kind[position] |= np.uint32(bit)
    return kind


def sack_blocks_of(capture: CaptureTables, rows: Array) -> tuple[Array, Array]:
    """Return the SACK blocks of a capture that the given segments carry.

    Parameters
    ----------
    capture : CaptureTables
    rows : ndarray of int64, shape (n_segments,)
        Ascending.

    Returns
    -------
    index, place : ndarray of int64, shape (n_blocks,)
        Rows of SACK_BLOCKS, and places in `rows`.
    """
    row = capture.sack_blocks["row"]
    if len(row) < len(rows):
        place = places(rows, row)
        index = np.flatnonzero(np.append(rows, -1)[place] == row)
        return index, place[index]
    begin = np.searchsorted(row, rows)  # those of all other segments are not looked at
    counts = np.searchsorted(row, rows, side="right") - begin
    place = np.repeat(np.arange(len(rows)), counts)
    return np.arange(len(place)) + (begin - (np.cumsum(counts) - counts))[place], place


def first_dsacks(blocks: Table, capture: CaptureTables) -> Array:
    """Return which blocks are D-SACKs (only a segment's first block can be): bool, shape (n_blocks,)."""
    first: Array = np.diff(blocks["row"], prepend=-1) != 0
    return first & is_dsack(blocks, capture.segments["ack"])
