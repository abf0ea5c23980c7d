"""Statistics of each direction by the native kernel, which reads each segment once.

The kernel processes a capture while it is read (`analysis/running.py`), or the segments of known connections (`count`).
It leaves three kinds of connections to Python: those with probes of one byte, which only later segments identify; those
without times; and those with packets captured twice whose sender gives all packets the same IP identification.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import SegmentGroup
from multitracer.analysis.ranges import spread
from multitracer.analysis.segments import goodput
from multitracer.analysis.segments.directions import (
    OF_PAYLOAD,
    OF_ROUND_TRIPS,
    OF_SYN,
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
from multitracer.analysis.segments.window_scale import min_shift, put_announced_shift
from multitracer.native import kernel, reading
from multitracer.schemas.tcp import GoodputBy, Vantage, WindowScaleBy
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis.connections import Partition
    from multitracer.analysis.segments.stamp_spread import Stamped
    from multitracer.capture import CaptureTables
    from multitracer.native import Kernel
    from multitracer.tables import Array

    Columns = dict[str, Array]

_AT_ONCE = 1 << 13
"""Number of connections that are counted together; each needs a kilobyte in the kernel. Not measured."""
_READS = (
    "time_ns", "seq", "ack", "payload_bytes", "flags", "window", "ip_id", "marks", "tsval", "tsecr",
)  # fmt: skip
"""Columns of SEGMENTS that the kernel reads, in addition to the flow."""
_COUNTS = (
    "packets", "payload_bytes", "data_segments", "syn", "fin", "rst", "unique_bytes",
    "retransmitted_segments", "retransmitted_bytes", "partial_retransmissions", "out_of_order",
    "capture_duplicates", "keep_alives", "zero_window_probes", "zero_window_segments", "duplicate_acks",
    "triple_duplicate_acks", "window_updates", "max_flight_bytes", "missing_bytes", "acks_of_unseen",
    "acks_before_data", "rtt_count", "negative_rtts",
)  # fmt: skip
"""Columns of DIRECTIONS that the kernel fills directly."""


def source_of(capture: CaptureTables, direction: Array) -> Columns:
    """Return the columns of a capture that the kernel reads, with the direction of each segment."""
    columns = {"direction": direction}
    columns |= {name: capture.segments[name] for name in _READS}
    columns |= {name: capture.sack_blocks[name] for name in ("row", "left", "right")}
    return {name: np.ascontiguousarray(column) for name, column in columns.items()}


def syn_options_of(capture: CaptureTables) -> Columns:
    """Return the columns of SYN_OPTIONS in the form that the kernel reads."""
    return {name: np.ascontiguousarray(column) for name, column in capture.syn_options.columns.items()}


class Rare(NamedTuple):
    """Functions that compute data of one direction from its segments; few directions need these data.

    The argument of each function is the row of the direction in DIRECTIONS.
    """

    stamped: Callable[[int], Stamped]
    """Return the times and timestamps of the direction's segments."""
    min_shift: Callable[[int], int]
    """Return the minimum window shift at which everything that the other side sent fits the windows."""


def count(columns: Columns, acknowledged: Array, capture: CaptureTables, parts: Partition) -> Array | None:
    """Count the segments with the native kernel, and write each direction's counts into its row, in place.

    Parameters
    ----------
    columns : dict of str to ndarray, each of shape (n_directions,)
        The columns of DIRECTIONS, as returned by `blank`.
    acknowledged : ndarray of bool, shape (n_directions,)
        Whether the beginning of each direction was acknowledged.
    capture : CaptureTables
    parts : Partition

    Returns
    -------
    ndarray of int64, shape (n_left,), or None
        Numbers, from 0, of the connections left to Python, whose rows are not valid; None if all are left.
    """
    native = kernel()
    if native is None:
        return None
    left = [np.empty(0, dtype=np.int64)]
    for first, all_counted, sides in _passes(native, capture, parts):
        known: Array = np.asarray(all_counted["is_known"].reshape(-1, 2).all(axis=1))
        counted = all_counted
        if not known.all():
            counted = {name: np.where(np.repeat(known, 2), each, 0) for name, each in all_counted.items()}
            left.append(first + np.flatnonzero(~known))
        own_counted(columns, counted, sides)
        here = slice(2 * first, 2 * (first + len(known)))
        rows = {name: values[here] for name, values in columns.items()}
        put_counted(rows, counted, sides, rare_of(capture, parts, first), resolution_ns_of(capture))
        acknowledged[here] = counted["beginning_acknowledged"]
    return np.concatenate(left)


def _passes(native: Kernel, capture: CaptureTables, parts: Partition) -> Iterator[tuple[int, Columns, Columns]]:
    """Yield the results of the kernel in blocks of connections.

    Each item has the number of the first connection of the block, the counts of its directions, and other
    data of its directions.
    """
    from multitracer.analysis.parallel import in_parallel  # noqa: PLC0415  # a pass over a file needs none

    source, options = source_of(capture, parts.direction), syn_options_of(capture)
    ends = parts.bounds[::2]
    is_divided = parts.connections > _AT_ONCE

    def counted(first: int, last: int) -> tuple[int, Columns, Columns]:
        run = native.CountingPass((first, last))
        if is_divided:  # a pass reads all rows it gets: with all rows the time were the product of both
            rows = np.sort(parts.order[ends[first] : ends[last]])
            run.add(*_taken(source, options, rows), 0)
        else:
            run.add(source, options, int(parts.first_row[first:last].min()))
        return first, *run.finish()[:2]

    for first in range(0, parts.connections, _AT_ONCE):
        last = min(first + _AT_ONCE, parts.connections)
        middle = int(np.searchsorted(ends, (ends[first] + ends[last]) // 2))
        halves = [(first, middle), (middle, last)] if first < middle < last else [(first, last)]
        with reading(capture.files[0].path):
            jobs = [partial(counted, *each) for each in halves]
            yield from in_parallel(jobs, rows=int(ends[last] - ends[first]) if len(halves) > 1 else 0)


def _taken(source: Columns, options: Columns, rows: Array) -> tuple[Columns, Columns]:
    """Return what the kernel reads, of these rows alone (ascending), which are numbered from 0."""
    taken = {name: source[name][rows] for name in ("direction", *_READS)}
    first, end = (np.searchsorted(source["row"], rows, side) for side in ("left", "right"))
    which, blocks = spread(first, end)
    taken |= {"row": which, "left": source["left"][blocks], "right": source["right"][blocks]}
    first, end = (np.searchsorted(options["row"], rows, side) for side in ("left", "right"))
    which, syns = spread(first, end)
    return taken, {name: column[syns] for name, column in options.items()} | {"row": which}


def rare_of(capture: CaptureTables, parts: Partition, first: int) -> Rare:
    """Return the functions of `Rare` for connections whose segments are all in `parts`.

    Connection 0 of `parts` has the number `first` in DIRECTIONS.
    """

    def stamped(direction: int) -> Stamped:
        own = 2 * first + direction
        return stamps_of(parts.rows_between(own, own + 1), capture)

    def shift(direction: int) -> int:
        begin = 2 * first + (direction & ~1)
        group = SegmentGroup.of(capture, parts, begin, begin + 2)
        return min_shift(group, np.flatnonzero(group.units), capture, direction & 1)

    return Rare(stamped, shift)


def own_counted(columns: Columns, counted: Columns, sides: Columns) -> None:
    """Make those columns of DIRECTIONS writable that the kernel has values for, in place."""
    own(columns, "first_ns", "last_ns")
    if any((sides[name] != NA).any() for name in OF_SYN):
        own(columns, *OF_SYN)
    if counted["data_segments"].any():
        own(columns, *OF_PAYLOAD, *goodput.COLUMNS)
    if counted["rtt_count"].any():
        own(columns, *OF_ROUND_TRIPS)


def put_counted(rows: Columns, counted: Columns, sides: Columns, rare: Rare, resolution_ns: float) -> None:
    """Write the kernel's counts of directions, and the columns derived from them, in place.

    Parameters
    ----------
    rows : dict of str to ndarray, each of shape (n_directions,)
        Columns of DIRECTIONS, made writable by `own_counted`.
    counted, sides : dict of str to ndarray, each of shape (n_directions,)
        The kernel's answer.
    rare : Rare
    resolution_ns : float
        Resolution of the capture's clock, ns.
    """
    _put_announced(rows, counted, sides)
    for name in _COUNTS:
        put(rows[name], counted[name])
    _put_times(rows, counted)
    for direction in put_announced_shift(rows, counted["whole_syn"] > 0).tolist():
        rows["window_shift"][direction] = rare.min_shift(direction)
        rows["window_shift_by"][direction] = WindowScaleBy.SENT
    put_windows(rows, counted["max_window"], counted["max_window_syn"])
    if len(measured := np.flatnonzero(counted["rtt_count"])):
        round_to_clock(rows, measured, resolution_ns)
    put_vantage(rows)
    for connection in without_vantage(rows).tolist():
        both = [2 * connection, 2 * connection + 1]
        place = vantage_by_stamps(*map(rare.stamped, both))
        rows["vantage"][both] = place, place.opposite
    put_absent_round_trips(counted["acks"] > 0, rows)
    _put_goodput(rows, counted)


def _put_announced(rows: Columns, counted: Columns, sides: Columns) -> None:
    """Write the values that each direction announces in its TCP options into `rows`, in place."""
    if rows[OF_SYN[0]].flags.writeable:
        for name in OF_SYN:
            rows[name][:] = sides[name]
    stamped = ~(counted["syn"] > 0) & (2 * sides["stamped"] > counted["packets"])
    for name, values in (
        ("sack_permitted", sides["sack_permitted"]),
        ("mptcp", sides["has_mptcp"]),
        ("timestamps", sides["has_stamped_syn"] | stamped),
        ("sack_segments", sides["sack_segments"]),
        ("dsack_segments", sides["dsack_segments"]),
    ):
        put(rows[name], values)


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
