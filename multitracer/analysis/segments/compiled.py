"""The numbers of each direction by the native kernel, in one pass over the rows: those of `directions.py`.

What the kernel leaves to Python: connections with probes of one byte, of which only later segments tell what
they were; those without times; and those with copies whose sender gives all packets one IP identification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import Group
from multitracer.analysis.segments import goodput
from multitracer.analysis.segments.directions import (
    OF_PAYLOAD,
    OF_ROUND_TRIPS,
    own,
    put,
    put_absent_round_trips,
    put_vantage,
    put_windows,
    round_to_clock,
    without_vantage,
)
from multitracer.analysis.segments.stamp_spread import vantage_by_stamps
from multitracer.analysis.segments.window_scale import least_shift, put_announced_shift
from multitracer.native import kernel, reading
from multitracer.tcp import GoodputBy, Vantage, WindowScaleBy

if TYPE_CHECKING:
    from multitracer.analysis.connections import Partition
    from multitracer.capture import Capture
    from multitracer.tables import Array

    Columns = dict[str, Array]

_AT_ONCE = 1 << 13
"""Connections that are counted together, each a kilobyte of the kernel's memory. Not measured."""
_READS = ("time_ns", "seq", "ack", "payload_bytes", "flags", "window", "ip_id", "marks")
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
    reads = {name: np.ascontiguousarray(capture.segments[name]) for name in _READS}
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
        _own(columns, counted)
        rows = {name: values[sides] for name, values in columns.items()}
        _put(rows, counted, first, capture, parts)
        for name in ("window_shift", "rtt_absent"):  # of what was not counted they say too much
            rows[name][np.repeat(~known, 2)] = 0
        acknowledged[sides] = counted["beginning_acknowledged"]
    return np.concatenate(left)


def _own(columns: Columns, counted: Columns) -> None:
    if counted["data_segments"].any():
        own(columns, *OF_PAYLOAD, *goodput.COLUMNS)
    if counted["rtt_count"].any():
        own(columns, *OF_ROUND_TRIPS)


def _put(rows: Columns, counted: Columns, first: int, capture: Capture, parts: Partition) -> None:
    """Write the rows of connections from number `first` (from 0) on, in place."""
    for name in _COUNTS:
        put(rows[name], counted[name])
    _put_times(rows, counted)
    for direction in put_announced_shift(rows, counted["whole_syn"] > 0).tolist():
        begin = 2 * first + (direction & ~1)
        group = Group.of(capture, parts, begin, begin + 2)
        shift = least_shift(group, np.flatnonzero(group.units), capture, direction & 1)
        rows["window_shift"][direction], rows["window_shift_by"][direction] = shift, WindowScaleBy.SENT
    put_windows(rows, counted["max_window"], counted["max_window_syn"])
    if len(measured := np.flatnonzero(counted["rtt_count"])):
        round_to_clock(rows, measured, capture)
    put_vantage(rows)
    for connection in without_vantage(rows).tolist():
        sides = [2 * connection, 2 * connection + 1]
        bounds = parts.bounds[2 * first :]
        place = vantage_by_stamps([parts.order[bounds[s] : bounds[s + 1]] for s in sides], capture)
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
            goodput.put_rates(rows, there, by, goodput.Delivered(*moments))
