"""One connection's segments with what the analysis says of each: TCP_SEGMENTS, by the one kernel."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.directions import LARGEST_SHIFT, is_dsack
from multitracer.analysis.group import Group, groups, has
from multitracer.analysis.kernel import examine
from multitracer.analysis.kind import Kind
from multitracer.analysis.outstanding import Blocks, outstanding
from multitracer.analysis.probes import window_is_closed
from multitracer.analysis.timestamps import echoes
from multitracer.capture import Flag
from multitracer.tables import NA, NOT_A_TIME, SEGMENTS, Table, between_ns
from multitracer.tcp import TCP_SACK_BLOCKS, TCP_SEGMENTS

if TYPE_CHECKING:
    from multitracer.analysis.connections import Partition
    from multitracer.analysis.intervals import Array
    from multitracer.analysis.kernel import Findings
    from multitracer.capture import Capture


class Connection:
    """The segments of one connection, examined; every column below is computed from it.

    Parameters
    ----------
    capture : Capture
    partition : Partition
    index : int
        Connection, from 0.
    shift : sequence of int
        Window shift of the two directions.
    """

    def __init__(self, capture: Capture, partition: Partition, index: int, shift: Array) -> None:
        self.capture = capture
        self.shift = shift
        self.group = Group.of(capture, partition, 2 * index, 2 * index + 2)
        self.found = examine(self.group, capture)
        self.order = np.argsort(self.group.rows, kind="stable")
        self.rows = self.group.rows[self.order]
        self.ack = _acks_on_axis(self.found)

    def segments(self) -> Table:
        """Return TCP_SEGMENTS; computed once, however many ask for it."""
        return Table(TCP_SEGMENTS, dict(self._columns))

    @cached_property
    def _columns(self) -> dict[str, Array]:
        group, origin = self.group, self.found.axis.origin
        side = np.repeat(np.array([0, 1]), np.diff(group.bounds))
        start = _starts_on_axis(self.found, side) - origin[side]
        acknowledged = np.where(has(group.flags, Flag.ACK), self.ack - origin[1 - side], NA)
        flight, flight_sack = outstanding(self.found, self.order, self.blocks())
        in_order = {
            "reverse": side == 1,
            "seq_bytes": start,
            "end_bytes": start + np.where(has(group.flags, Flag.RST), 0, group.units),
            "ack_bytes": acknowledged,
            "window_bytes": self._windows(side),
            "new_bytes": _new_bytes(self.found),
            "kind": _kinds(self.found, self.capture),
            "rtt_ns": self._delay(*self.found.exact_pairs()),
            "rtt_timestamp_ns": self._delay(*echoes(self.found, self.capture)),
        }
        columns = {name: self.capture.segments[name][self.rows] for name in SEGMENTS.names}
        columns |= {name: values[self.order] for name, values in in_order.items()}
        return columns | {"flight_bytes": flight, "flight_sack_bytes": flight_sack}

    def sack_blocks(self) -> Table:
        """Return TCP_SACK_BLOCKS."""
        own, _ = self._own_blocks()
        blocks = self.blocks()
        origin = self.found.axis.origin[blocks.direction]
        columns = {
            "row": blocks.moment,
            "left": own["left"],
            "right": own["right"],
            "left_bytes": blocks.left - origin,
            "right_bytes": blocks.right - origin,
            "dsack": blocks.dsack,
        }
        return Table(TCP_SACK_BLOCKS, columns)

    def blocks(self) -> Blocks:
        """Return the SACK blocks on the axis."""
        own, moment = self._own_blocks()
        position = self.order[moment]
        ack, raw = self.ack[position], self.group.ack[position]
        left, right = (ack + (own[edge] - raw).view(np.int32) for edge in ("left", "right"))
        dsack = is_dsack(own, self.capture.segments["ack"]) & (np.diff(own["row"], prepend=-1) != 0)
        return Blocks(moment, (position < self.group.bounds[1]).astype(np.int64), left, right, dsack)

    def _own_blocks(self) -> tuple[Table, Array]:
        """Return this connection's SACK blocks, and the index of their segment in capture order."""
        row = self.capture.sack_blocks["row"]
        index = np.searchsorted(self.rows, row)
        mine = np.flatnonzero(self.rows[np.minimum(index, len(self.rows) - 1)] == row)
        return self.capture.sack_blocks.take(mine), index[mine]

    def _windows(self, side: Array) -> Array:
        scaled = self.group.window.astype(np.int64) << np.minimum(self.shift, LARGEST_SHIFT)[side]
        return np.where(has(self.group.flags, Flag.SYN), self.group.window, scaled)

    def _delay(self, sent: Array, answer: Array) -> Array:
        """Return the time from each segment to its answer, NOT_A_TIME where one of the two is not known."""
        time_ns, delay = self.capture.segments["time_ns"], np.full(len(self.group), NOT_A_TIME)
        delay[sent] = between_ns(time_ns[self.group.rows[sent]], time_ns[self.group.rows[answer]])
        return delay


def outline(capture: Capture, partition: Partition) -> dict[str, Array]:
    """Return what the segments of all connections are, many connections at once.

    Returns
    -------
    dict of str to ndarray, each of shape (n_segments,)
        The columns flags, payload_bytes, reverse, seq_bytes and kind as TCP_SEGMENTS has them, in capture
        order.
    """
    segments = capture.segments
    columns = {
        "flags": segments["flags"],
        "payload_bytes": segments["payload_bytes"],
        "reverse": (partition.direction & 1).astype(bool),
        "seq_bytes": np.zeros(len(segments), dtype=np.int64),
        "kind": np.zeros(len(segments), dtype=np.uint32),
    }
    for group in groups(capture, partition):
        found = examine(group, capture)
        direction = np.repeat(np.arange(group.directions), np.diff(group.bounds))
        columns["seq_bytes"][group.rows] = _starts_on_axis(found, direction) - found.axis.origin[direction]
        columns["kind"][group.rows] = _kinds(found, capture)
    return columns


def _starts_on_axis(found: Findings, direction: Array) -> Array:
    """Return where each segment begins, relative to the piece at or before it, else to the reference."""
    group, pieces, axis = found.group, found.axis.pieces, found.axis
    last = np.searchsorted(pieces.position, np.arange(len(group)), side="right") - 1
    known = last >= pieces.bounds[direction]
    near, seq = axis.reference[direction], axis.reference_seq[direction]
    near[known] = pieces.start[last[known]]
    seq[known] = group.seq[pieces.position[last[known]]]
    return near + (group.seq - seq).view(np.int32)


def _acks_on_axis(found: Findings) -> Array:
    """Return where each segment's ACK number lies; any number for a segment without one."""
    group, acks = found.group, found.axis.acks
    value = np.zeros(len(group), dtype=np.int64)
    for acknowledged in (0, 1):
        events = slice(acks.bounds[acknowledged], acks.bounds[acknowledged + 1])
        begin, end = group.bounds[1 - acknowledged], group.bounds[2 - acknowledged]
        last = np.searchsorted(acks.position[events], np.arange(begin, end), side="right") - 1
        known = last >= 0
        value[begin:end][known] = acks.value[events][last[known]]
    return value


def _new_bytes(found: Findings) -> Array:
    coverage, pieces = found.coverage, found.axis.pieces
    new = found.group.payload.copy()
    new[pieces.position[coverage.late]] -= coverage.old_payload.astype(np.int32)
    new[np.setdiff1d(found.probes, pieces.position, assume_unique=True)] = 0
    return new


def _kinds(found: Findings, capture: Capture) -> Array:
    group, coverage, repeats = found.group, found.coverage, found.repeats
    late = found.axis.pieces.position[coverage.late]
    rows = group.rows
    sacks = np.isin(rows, capture.sack_blocks["row"], kind="table")
    closed = window_is_closed(group, found.empty_alive)
    again = found.repeats_late & ~found.twice_late
    unseen = found.axis.acks.position[found.axis.acks.advancing[found.met.unseen]]
    kind = np.zeros(len(group), dtype=np.uint32)
    for bit, position in (
        (Kind.DATA, group.payload > 0),
        (Kind.RETRANSMISSION, late[again]),
        (Kind.PARTIAL_RETRANSMISSION, late[again & (coverage.new > 0)]),
        (Kind.OUT_OF_ORDER, late[found.fills_late]),
        (Kind.CAPTURE_DUPLICATE, np.concatenate([late[found.twice_late], repeats.captured_twice])),
        (Kind.DUPLICATE_ACK, repeats.duplicate),
        (Kind.ZERO_WINDOW, found.closed),
        (Kind.ZERO_WINDOW_PROBE, np.concatenate([found.probes, found.empty_alive[closed]])),
        (Kind.KEEP_ALIVE, np.concatenate([late[found.alive_late], found.empty_alive[~closed]])),
        (Kind.WINDOW_UPDATE, repeats.window_update),
        (Kind.SACK, sacks),
        (Kind.DSACK, np.isin(rows, _dsack_rows(capture))),
        (Kind.ACK_OF_UNSEEN, unseen),
    ):
        kind[position] |= np.uint32(bit)
    return kind


def _dsack_rows(capture: Capture) -> Array:
    blocks = capture.sack_blocks
    first = np.diff(blocks["row"], prepend=-1) != 0
    row: Array = blocks["row"][first & is_dsack(blocks, capture.segments["ack"])]
    return row
