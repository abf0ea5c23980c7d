"""The numbers of each direction by the native kernel, in one pass over the rows: those of `directions.py`.

What the kernel leaves to Python: connections with probes of one byte, of which only later segments tell what
they were; those without times; and those with copies whose sender gives all packets one IP identification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from multitracer.analysis.group import SegmentGroup
from multitracer.analysis.segments import goodput
from multitracer.analysis.segments.directions import (
    OF_PAYLOAD,
    OF_ROUND_TRIPS,
    own,
    put,
    put_absent_round_trips,
    put_vantage,
    put_windows,
    resolution_ns_of,
    round_to_clock,
    without_vantage,
)
from multitracer.analysis.segments.stamp_spread import stamps_of, vantage_by_stamps
from multitracer.analysis.segments.window_scale import least_shift, put_announced_shift
from multitracer.native import kernel, reading
from multitracer.schemas.tcp import GoodputBy, Vantage, WindowScaleBy

if TYPE_CHECKING:
    from multitracer.analysis.connections import Partition
    from multitracer.analysis.segments.stamp_spread import Stamped
    from multitracer.capture import Capture
    from multitracer.tables import Array

    Columns = dict[str, Array]

_AT_ONCE = 1 << 13
"""Connections that are counted together, each a kilobyte of the kernel's memory. Not measured."""
READS = ("time_ns", "seq", "ack", "payload_bytes", "flags", "window", "ip_id", "marks")
"""Columns of SEGMENTS that the kernel counts by, beside the flow."""
_COUNTS = (
    "packets", "payload_bytes", "data_segments", "syn", "fin", "rst", "unique_bytes",
    "retransmitted_segments", "retransmitted_bytes", "partial_retransmissions", "out_of_order",
    "capture_duplicates", "keep_alives", "zero_window_probes", "zero_window_segments", "duplicate_acks",
    "triple_duplicate_acks", "window_updates", "max_flight_bytes", "missing_bytes", "acks_of_unseen",
    "acks_before_data", "rtt_count", "negative_rtts",
)  # fmt: skip
"""Columns of DIRECTIONS that are the kernel's as they are."""


def summarise(columns: Columns, acknowledged: Array, capture: Capture, parts: Partition) -> Array | None:
    """Write what the kernel counts of each direction into its row, in place.

    Parameters
    ----------
    columns : dict of str to ndarray, each of shape (n_directions,)
        The columns of DIRECTIONS, as of `blank` and `announce`.
    acknowledged : ndarray of bool, shape (n_directions,)
        Whether the beginning of each direction was acknowledged.
    capture : Capture
    parts : Partition

    Returns
    -------
    ndarray of int64, shape (n_left,), or None
        Numbers, from 0, of the connections left to Python, whose rows are as they were; None for all.
    """
    native = kernel()
    if native is None:
        return None
    reads = {name: np.ascontiguousarray(capture.segments[name]) for name in READS}
    packets, left = np.diff(parts.bounds[::2]), [np.empty(0, dtype=np.int64)]
    own(columns, "first_ns", "last_ns")
    for first in range(0, parts.connections, _AT_ONCE):
        own_packets = packets[first : first + _AT_ONCE]
        begin = int(parts.first_row[first : first + _AT_ONCE].min())
        with reading(capture.files[0].path):
            counted = native.summarise(begin, first, own_packets, direction=parts.direction, **reads)
        sides = slice(2 * first, 2 * (first + len(own_packets)))
        known = counted["is_known"].reshape(-1, 2).all(axis=1)
        if not known.all():
            counted = {name: np.where(np.repeat(known, 2), column, 0) for name, column in counted.items()}
            left.append(first + np.flatnonzero(~known))
        own_counted(columns, counted)
        rows = {name: values[sides] for name, values in columns.items()}
        put_counted(rows, counted, _Segments(first, capture, parts), resolution_ns_of(capture))
        for name in ("window_shift", "rtt_absent"):  # of what was not counted they say too much
            rows[name][np.repeat(~known, 2)] = 0
        acknowledged[sides] = counted["beginning_acknowledged"]
    return np.concatenate(left)


class Rare(Protocol):
    """What the counts of a direction do not tell, but its segments; directions are those of the rows."""

    def stamped(self, direction: int) -> Stamped:
        """Return the times and timestamps of its segments."""

    def least_shift(self, direction: int) -> int:
        """Return the least shift of its windows at which all that the other side sent fitted them."""


class _Segments(NamedTuple):
    """Of connections from number `first` (from 0) on, whose segments are all there."""

    first: int
    capture: Capture
    parts: Partition

    def stamped(self, direction: int) -> Stamped:
        bounds = self.parts.bounds[2 * self.first :]
        return stamps_of(self.parts.order[bounds[direction] : bounds[direction + 1]], self.capture)

    def least_shift(self, direction: int) -> int:
        begin = 2 * self.first + (direction & ~1)
        group = SegmentGroup.of(self.capture, self.parts, begin, begin + 2)
        return least_shift(group, np.flatnonzero(group.units), self.capture, direction & 1)


def own_counted(columns: Columns, counted: Columns) -> None:
    """Make those columns of DIRECTIONS writable that the kernel's counts have values for."""
    if counted["data_segments"].any():
        own(columns, *OF_PAYLOAD, *goodput.COLUMNS)
    if counted["rtt_count"].any():
        own(columns, *OF_ROUND_TRIPS)


def put_counted(rows: Columns, counted: Columns, rare: Rare, resolution_ns: float) -> None:
    """Write what the kernel counted of directions, and what follows from it, in place.

    Parameters
    ----------
    rows : dict of str to ndarray, each of shape (n_directions,)
        Columns of DIRECTIONS; those of `own_counted` can be written.
    counted : dict of str to ndarray, each of shape (n_directions,)
        The kernel's answer.
    rare : Rare
    resolution_ns : float
        The tick of the capture's clock.
    """
    for name in _COUNTS:
        put(rows[name], counted[name])
    _put_times(rows, counted)
    for direction in put_announced_shift(rows, counted["whole_syn"] > 0).tolist():
        rows["window_shift"][direction] = rare.least_shift(direction)
        rows["window_shift_by"][direction] = WindowScaleBy.SENT
    put_windows(rows, counted["max_window"], counted["max_window_syn"])
    if len(measured := np.flatnonzero(counted["rtt_count"])):
        round_to_clock(rows, measured, resolution_ns)
    put_vantage(rows)
    for connection in without_vantage(rows).tolist():
        sides = [2 * connection, 2 * connection + 1]
        place = vantage_by_stamps(*map(rare.stamped, sides))
        rows["vantage"][sides] = place, place.opposite
    put_absent_round_trips(counted["acks"] > 0, rows)
    _put_goodput(rows, counted)


def _put_times(rows: Columns, counted: Columns) -> None:
    for names, there in (
        (("first_ns", "last_ns"), counted["packets"]),
        (OF_PAYLOAD, counted["data_segments"]),
        (OF_ROUND_TRIPS, counted["rtt_count"]),
    ):
        chosen = np.flatnonzero(there)
        for name in names if len(chosen) else ():
            rows[name][chosen] = counted[name][chosen]


def _put_goodput(rows: Columns, counted: Columns) -> None:
    sends = rows["data_segments"] > 0
    arrived = sends & (rows["vantage"] == Vantage.NEAR_RECEIVER)
    for chosen, by in ((arrived, GoodputBy.ARRIVED), (sends & ~arrived, GoodputBy.ACKNOWLEDGED)):
        rows["goodput_by"][chosen] = GoodputBy.NOTHING_CAME_THROUGH
        name = by.name.lower()
        there = np.flatnonzero(chosen & (counted[f"{name}_bytes"] >= 0))
        if len(there):
            moments = (counted[f"{name}_{each}"][there] for each in ("first_ns", "last_ns", "bytes"))
            goodput.put_rates(rows, there, by, goodput.DeliveryBounds(*moments))
