"""Counts of connections whose segments are partly discarded, and the final statistics from them.

Each fold adds the difference of two counts: the count of all stored segments (history, context, fresh ones) minus the
count of those that were counted before (history, context). So it adds the fresh segments, and corrects verdicts on the
context. Extremes need no difference; round trips and deliveries are collected from fresh segments only.

Round-trip times are stored as distinct values with their counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.segments.directions import announce, blank, count_groups, put_vantage, resolution_ns_of
from multitracer.analysis.segments.goodput import moments_by
from multitracer.analysis.segments.window_scale import FEWEST_DATA, announced_shift
from multitracer.captured import CaptureMark, Flag
from multitracer.schemas.tcp import GoodputBy, RoundTrips, Vantage, WindowScaleBy
from multitracer.tables import NOT_A_TIME, between_ns
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.connections import Partition
    from multitracer.analysis.segments.examination import Examination
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array

MOST_VALUES = 4096
"""Maximum number of distinct values that are stored exactly: 64 kB. Not measured."""
_BITS = 10
"""Number of binary digits that remain if there are more values: the error is at most 1 in 2,048."""


def _nothing() -> Array:
    return np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class RoundTripCounts:
    """Distinct round-trip times, ascending, with their counts; at most a few thousand values."""

    value: Array = field(default_factory=_nothing)
    """int64, ns, shape (n_values,)."""
    count: Array = field(default_factory=_nothing)
    """int64, shape (n_values,)."""
    sum_ns: int = 0
    min_ns: int = 0
    most_ns: int = 0
    is_rounded: bool = False
    """Whether values were rounded because there were too many distinct ones."""

    def __len__(self) -> int:
        return int(self.count.sum())

    def add(self, rtt_ns: Array) -> None:
        """Add measured values: int64, ns, at least 0, shape (n,)."""
        if not len(rtt_ns):
            return
        minimum, most = int(rtt_ns.min()), int(rtt_ns.max())
        self.min_ns = min(self.min_ns, minimum) if len(self.value) else minimum
        self.most_ns = max(self.most_ns, most)
        self.sum_ns += int(rtt_ns.sum())
        self._merge(rtt_ns, np.ones(len(rtt_ns), dtype=np.int64))
        if len(self.value) > MOST_VALUES:
            self.is_rounded = True
            self._merge(_nothing(), _nothing())

    def _merge(self, value: Array, count: Array) -> None:
        value, count = np.concatenate([self.value, value]), np.concatenate([self.count, count])
        self.value, place = np.unique(_rounded(value) if self.is_rounded else value, return_inverse=True)
        self.count = np.bincount(place, weights=count, minlength=len(self.value)).astype(np.int64)

    def quantile(self, share: float) -> float:
        """Return a quantile in ns, interpolated linearly between ranks; at least one value is needed."""
        place = (len(self) - 1) * share
        low = int(place)
        ranks = np.array([low, min(low + 1, len(self) - 1)])
        one, other = self.value[np.searchsorted(np.cumsum(self.count), ranks, side="right")].tolist()
        return float(one + (other - one) * (place - low))


def _rounded(value: Array) -> Array:
    """Return the values rounded to `_BITS` significant binary digits: int64, ns, shape of `value`."""
    shift = np.maximum(np.frexp(value.astype(np.float64))[1] - _BITS, 0)
    half = (np.int64(1) << shift) >> 1
    rounded: Array = (value + half) >> shift << shift
    return rounded


SUMS = (
    "packets", "data_segments", "payload_bytes", "unique_bytes", "retransmitted_segments",
    "retransmitted_bytes", "partial_retransmissions", "out_of_order", "capture_duplicates",
    "duplicate_acks", "triple_duplicate_acks", "dsack_segments", "sack_segments", "zero_window_segments",
    "zero_window_probes", "keep_alives", "window_updates", "acks_of_unseen", "acks_before_data",
    "missing_bytes", "syn", "fin", "rst", "negative_rtts",
)  # fmt: skip
_FIRSTS = ("first_ns", "first_payload_ns")
_LASTS = ("last_ns", "last_payload_ns")
_LATEST = ("mss_bytes", "window_scale")
"""Columns that are overwritten by each fold; they belong to the first SYN, which the history keeps."""
_EVER = ("sack_permitted", "mptcp")
_DELIVERED = (GoodputBy.ACKNOWLEDGED, GoodputBy.ARRIVED)


@dataclass(slots=True)
class Deliveries:
    """First and last time and number of bytes of the deliveries of data in one direction."""

    first_ns: int | None = None
    last_ns: int = 0
    carried_bytes: int = 0
    """Payload bytes of all deliveries with a time except the first."""

    def add(self, time_ns: Array, new_bytes: Array, more_bytes: int) -> None:
        """Add deliveries that were not counted before, in capture order.

        The arrays have shape (n,): times in ns (NOT_A_TIME if unknown) and bytes. `more_bytes` is the sum of
        their bytes plus corrections of earlier deliveries.
        """
        timed = np.flatnonzero(time_ns != NOT_A_TIME)
        self.carried_bytes += more_bytes - int(new_bytes.sum()) + int(new_bytes[timed].sum())
        if not len(timed):
            return
        if self.first_ns is None:
            self.first_ns = int(time_ns[timed[0]])
            self.carried_bytes -= int(new_bytes[timed[0]])
        self.last_ns = int(time_ns[timed[-1]])


@dataclass(slots=True)
class AggregatedDirection:
    """Data of one direction that DIRECTIONS has no column for, but that the final statistics need."""

    round_trips: RoundTripCounts = field(default_factory=RoundTripCounts)
    deliveries: dict[GoodputBy, Deliveries] = field(default_factory=lambda: {by: Deliveries() for by in _DELIVERED})
    stamped: int = 0
    """Number of segments with timestamps."""
    stamped_syn: bool = False
    answered: bool = False
    acknowledged: bool = False
    """Whether its first sequence number was acknowledged."""
    largest_window: int = 0
    """Largest window, unscaled as in the TCP header."""
    largest_of_syn: int = 0
    vantage: int = Vantage.UNKNOWN.value
    """Capture point by timestamps, from the first block."""


@dataclass(slots=True)
class Aggregated:
    """The statistics of a connection of which some segments were discarded.

    Its two directions are those of its flow; the initiator is determined at the end.
    """

    columns: dict[str, Array]
    """Columns of DIRECTIONS, as returned by `blank`, writable."""
    ways: tuple[AggregatedDirection, AggregatedDirection] = field(
        default_factory=lambda: (AggregatedDirection(), AggregatedDirection())
    )
    folds: int = 0
    steps_ns: list[list[int]] = field(default_factory=list)
    """Steps of the capture's clock that timestamps show, and the error of each, ns."""

    @classmethod
    def empty(cls) -> Aggregated:
        """Return a connection with all counts 0."""
        return cls({name: column.copy() for name, column in blank(2).items()})


@dataclass(slots=True)
class Count:
    """Statistics of the stored segments of some connections.

    Row 2 c + s of each array is that direction of `Partition`: connection c, side s.
    """

    columns: dict[str, Array]
    direction_of_rtt: Array
    rtt_ns: Array
    moments: dict[GoodputBy, list[tuple[Array, Array, Array]]]
    """Direction, time and new bytes of fresh deliveries."""
    delivered: dict[GoodputBy, Array]
    """New bytes of each direction, total of all deliveries."""
    answered: Array
    acknowledged: Array
    awaited: Array
    """The row of the first segment that is not acknowledged yet; the number of rows if all are."""


def count(capture: CaptureTables, parts: Partition, fresh: Array) -> Count:
    """Return the statistics of all segments of a partition, and the RTTs and deliveries of fresh segments.

    `fresh` is bool, shape (n_segments,): True for a segment that was not counted before.
    """
    columns = blank(2 * parts.connections)
    announce(columns, capture, parts)
    directions = 2 * parts.connections
    there = Count(
        columns,
        np.empty(0, dtype=np.int64),
        np.empty(0, dtype=np.int64),
        {by: [] for by in _DELIVERED},
        {by: np.zeros(directions, dtype=np.int64) for by in _DELIVERED},
        answered=np.zeros(directions, dtype=bool),
        acknowledged=np.zeros(directions, dtype=bool),
        awaited=np.full(directions, len(capture.segments), dtype=np.int64),
    )
    for examination in count_groups(columns, there.acknowledged, capture, parts):
        group = examination.group
        own = slice(group.first_direction, group.first_direction + group.directions)
        there.answered[own] = np.diff(examination.axis.acks.bounds) > 0
        _without_history(columns, examination, capture)
        _await(there.awaited[own], examination)
        _gather(there, examination, capture, fresh)
    return there


def _without_history(columns: dict[str, Array], examination: Examination, capture: CaptureTables) -> None:
    """Subtract the counts of ACKs of the history (artificial segments) from `columns`, in place.

    One artificial ACK may represent many real ones, so its class is not valid.
    """
    group, acks, acked = examination.group, examination.axis.acks, examination.ack_progress
    rows = group.rows[acks.position[acks.advancing]]
    stands = capture.segments["frame"][rows] == 0
    for name, what in (("acks_of_unseen", acked.unseen), ("acks_before_data", acked.early)):
        sender = group.first_direction + (acked.direction[what & stands] ^ 1)
        np.subtract.at(columns[name], sender, 1)


def _await(awaited: Array, examination: Examination) -> None:
    """Write the row of the first segment of each direction that no ACK covers into `awaited`, in place."""
    chunks, acks = examination.axis.chunks, examination.axis.acks
    highest = np.full(len(awaited), np.iinfo(np.int64).min)
    answered = np.flatnonzero(np.diff(acks.bounds))
    highest[answered] = acks.highest[acks.bounds[1:][answered] - 1]
    direction = examination.group.direction_of(chunks.position)
    out = np.flatnonzero(chunks.end > highest[direction])
    np.minimum.at(awaited, direction[out], examination.group.rows[chunks.position[out]])


def _gather(there: Count, examination: Examination, capture: CaptureTables, fresh: Array) -> None:
    """Add the RTTs and deliveries of a group's fresh (not yet counted) segments to `there`, in place."""
    group, axis, samples = examination.group, examination.axis, examination.samples
    time_ns = capture.segments["time_ns"]
    answer = group.rows[axis.acks.position[samples.ack]]
    rtt = between_ns(time_ns[group.rows[axis.chunks.position[samples.chunk]]], time_ns[answer])
    known = fresh[answer] & (rtt >= 0)
    first = group.first_direction
    there.direction_of_rtt = np.concatenate([there.direction_of_rtt, first + samples.direction[known]])
    there.rtt_ns = np.concatenate([there.rtt_ns, rtt[known]])
    for by in _DELIVERED:
        moments = moments_by(examination, by)
        np.add.at(there.delivered[by], first + moments.direction, moments.new_bytes.astype(np.int64))
        rows = group.rows[moments.position]
        new = np.flatnonzero(fresh[rows])
        there.moments[by].append(
            (first + moments.direction[new], time_ns[rows[new]], moments.new_bytes[new].astype(np.int64))
        )


def fold(
    aggregated: list[Aggregated], now: Count, before: Count, capture: CaptureTables, parts: Partition, fresh: Array
) -> None:
    """Add the statistics of the fresh segments to each connection of a partition, in place.

    Fresh segments are those that were not counted before.

    Parameters
    ----------
    aggregated : list of Aggregated
        One item for each connection of `parts`.
    now : Count
        Counts of all stored segments.
    before : Count
        Counts of the segments that are not fresh.
    capture, parts : Capture, Partition
    fresh : ndarray of bool, shape (n_segments,)
    """
    order = np.argsort(now.direction_of_rtt, kind="stable")
    rtt = now.rtt_ns[order]
    bounds = np.searchsorted(now.direction_of_rtt[order], np.arange(2 * parts.connections + 1))
    moments = {by: _in_order(each, 2 * parts.connections) for by, each in now.moments.items()}
    for c, each in enumerate(aggregated):
        turn = int(parts.forward_flow[c]) & 1
        for side in (0, 1):
            direction = 2 * c + (side ^ turn)
            _add_columns(each, side, direction, now.columns, before.columns)
            way = each.ways[side]
            way.round_trips.add(rtt[bounds[direction] : bounds[direction + 1]])
            for by, (ends, time_ns, new_bytes) in moments.items():
                own = slice(ends[direction], ends[direction + 1])
                more = int(now.delivered[by][direction] - before.delivered[by][direction])
                way.deliveries[by].add(time_ns[own], new_bytes[own], more)
            way.answered |= bool(now.answered[direction])
            way.acknowledged |= bool(now.acknowledged[direction])
            rows = parts.order[parts.bounds[direction] : parts.bounds[direction + 1]]
            _add_rows(way, rows[fresh[rows]], capture)
        each.folds += 1


def _in_order(moments: list[tuple[Array, Array, Array]], directions: int) -> tuple[Array, Array, Array]:
    direction, time_ns, new_bytes = (np.concatenate(column) for column in zip(*moments, strict=True))
    order = np.argsort(direction, kind="stable")
    return np.searchsorted(direction[order], np.arange(directions + 1)), time_ns[order], new_bytes[order]


def _add_columns(
    aggregated: Aggregated, side: int, direction: int, there: dict[str, Array], before: dict[str, Array]
) -> None:
    total = aggregated.columns
    for name in SUMS:
        total[name][side] += there[name][direction] - before[name][direction]
    for name in _FIRSTS:
        known = [t for t in (int(total[name][side]), int(there[name][direction])) if t != NOT_A_TIME]
        total[name][side] = min(known, default=NOT_A_TIME)
    for name in (*_LASTS, "max_flight_bytes"):  # a missing time is the lowest number
        total[name][side] = max(total[name][side], there[name][direction])
    for name in _LATEST:
        total[name][side] = there[name][direction]
    for name in _EVER:
        total[name][side] |= there[name][direction]
    _scale(aggregated, side, direction, there)
    if not aggregated.folds:
        aggregated.ways[side].vantage = int(there["vantage"][direction])


def _scale(aggregated: Aggregated, side: int, direction: int, there: dict[str, Array]) -> None:
    """Update the window shift, in place: the announced one, else the maximum that was inferred so far."""
    total, shift = aggregated.columns, int(there["window_shift"][direction])
    announced = there["window_shift_by"][direction] == WindowScaleBy.SYN
    total["window_shift"][side] = shift if announced else max(shift, int(total["window_shift"][side]))
    total["window_shift_by"][side] = WindowScaleBy.SYN if announced else WindowScaleBy.UNKNOWN


def _add_rows(way: AggregatedDirection, rows: Array, capture: CaptureTables) -> None:
    """Add the counts that depend only on the fresh (not yet counted) segments of a direction, in place."""
    flags, marks, window = (capture.segments[name][rows] for name in ("flags", "marks", "window"))
    stamped, syn = has(marks, CaptureMark.HAS_TIMESTAMPS), has(flags, Flag.SYN)
    way.stamped += int(np.count_nonzero(stamped))
    way.stamped_syn |= bool((stamped & syn).any())
    way.largest_window = max(way.largest_window, int(window[~syn].max(initial=0)))
    way.largest_of_syn = max(way.largest_of_syn, int(window[syn].max(initial=0)))


def finish(aggregated: Aggregated, turn: int, capture: CaptureTables) -> tuple[dict[str, Array], Array]:
    """Return the columns of DIRECTIONS of a connection, and whether each first byte was acknowledged.

    Parameters
    ----------
    aggregated : Aggregated
    turn : int
        1 if the initiator sends the odd directed flow, else 0.
    capture : CaptureTables
        The capture, for the resolution of its clock.
    """
    sides = [turn, turn ^ 1]
    columns = {name: column[sides].copy() for name, column in aggregated.columns.items()}
    ways = [aggregated.ways[side] for side in sides]
    _finish_round_trips(columns, ways, resolution_ns_of(capture))
    _finish_windows(columns, ways)
    syn_seen = columns["syn"] > 0
    most = 2 * np.array([way.stamped for way in ways]) > columns["packets"]
    columns["timestamps"] = np.array([way.stamped_syn for way in ways]) | (~syn_seen & most)
    columns["vantage"] = np.array([way.vantage for way in ways], dtype=np.uint8)
    put_vantage(columns)
    columns["rtt_absent"] = np.array([_absent(columns, i, way) for i, way in enumerate(ways)], dtype=np.uint8)
    for i, way in enumerate(ways):
        _finish_goodput(columns, i, way)
    return columns, np.array([way.acknowledged for way in ways])


def _finish_round_trips(columns: dict[str, Array], ways: list[AggregatedDirection], resolution_ns: float) -> None:
    for i, trips in enumerate(way.round_trips for way in ways):
        columns["rtt_count"][i] = samples = len(trips)
        if not samples:
            continue
        columns["rtt_min_ns"][i], columns["rtt_max_ns"][i] = trips.min_ns, trips.most_ns
        numbers = {"mean": float(trips.sum_ns) / samples, "p50": trips.quantile(0.50), "p95": trips.quantile(0.95)}
        for name, value in numbers.items():
            columns[f"rtt_{name}_ns"][i] = np.round(value / resolution_ns) * resolution_ns


def _finish_windows(columns: dict[str, Array], ways: list[AggregatedDirection]) -> None:
    """Multiply the largest windows by the window scale, in place.

    This is done at the end, because the scale may become known only after the windows were stored.
    """
    announced = columns["window_shift_by"] == WindowScaleBy.SYN
    shift = np.where(announced, announced_shift(columns), columns["window_shift"])
    columns["window_shift"] = shift.astype(np.int8)
    sent = ~announced & (columns["data_segments"][::-1] >= FEWEST_DATA)
    columns["window_shift_by"][sent] = WindowScaleBy.SENT
    for i, way in enumerate(ways):
        columns["max_window_bytes"][i] = max(way.largest_window << int(shift[i]), way.largest_of_syn)


def _absent(columns: dict[str, Array], i: int, way: AggregatedDirection) -> RoundTrips:
    if columns["vantage"][i] == Vantage.NEAR_RECEIVER:
        return RoundTrips.NEAR_RECEIVER
    if columns["rtt_count"][i]:
        return RoundTrips.BELOW_GRAIN if columns["rtt_p50_ns"][i] == 0 else RoundTrips.MEASURED
    if not way.answered:
        return RoundTrips.NO_ACK
    return RoundTrips.NO_TIME if columns["first_ns"][i] == NOT_A_TIME else RoundTrips.NO_EXACT_ACK


def _finish_goodput(columns: dict[str, Array], i: int, way: AggregatedDirection) -> None:
    if not columns["data_segments"][i]:
        return
    arrived = columns["vantage"][i] == Vantage.NEAR_RECEIVER
    by = GoodputBy.ARRIVED if arrived else GoodputBy.ACKNOWLEDGED
    known = way.deliveries[by]
    columns["goodput_by"][i] = GoodputBy.NOTHING_CAME_THROUGH
    if known.first_ns is None:
        return
    took_ns = known.last_ns - known.first_ns
    columns["goodput_by"][i] = by if took_ns > 0 else GoodputBy.ONE_MOMENT
    if took_ns > 0:
        columns["goodput_ns"][i] = took_ns
        columns["goodput_bytes_per_s"][i] = float(known.carried_bytes * NS_PER_S) / took_ns
