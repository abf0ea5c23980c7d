"""Statistics of every connection, counted by the native kernel without storing the segments.

Rules of the file
-----------------
- Each segment is counted in capture order and then discarded; the result is that of `tcp.py`.
- For a connection that does not begin with a complete SYN, the segments are stored, because the scale of its
  windows is known only from all of them.
- Where a later step needs all segments (`add` or `finish` reports it), the capture is read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.connections import Partition, assumed, bounds_of, servers
from multitracer.analysis.segments.compiled import Rare, own_counted, put_counted, rare_of, source_of, syn_options_of
from multitracer.analysis.segments.directions import blank, own, resolution_ns_of
from multitracer.analysis.tcp import Analysis, Began, counted_columns, tables_by
from multitracer.analysis.trust import SMALLEST_STEP_NS, SegmentFacts, SegmentGaps, oversized, steps_by
from multitracer.capture import CaptureTables, joined, of_kernel
from multitracer.captured import CaptureMark
from multitracer.native import LIMITS
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.analysis.segments.stamp_spread import Stamped
    from multitracer.analysis.trust import StampedGaps
    from multitracer.native import CountingPass, KeptSegments, Kernel
    from multitracer.tables import Array, Table

    Columns = dict[str, Array]


class _NotKeptError(Exception):
    """Raised if segments are needed that were counted but not stored."""


class RunningAnalysis:
    """An analysis of a capture that arrives in blocks."""

    def __init__(self, native: Kernel, counts: CountingPass | None = None, kept: Iterable[KeptSegments] = ()) -> None:
        self._pass = counts or native.CountingPass()
        self._kept = [of_kernel(time_ns, part, CaptureTables([])) for _, time_ns, part in kept]
        """Segments of connections whose beginning was not captured."""
        self._kept_direction = [direction for direction, *_ in kept]
        self._kept_rows = sum(map(len, self._kept_direction))

    def add(self, chunk: CaptureTables) -> bool:
        """Count the segments of the next block; return False if the capture must be read completely."""
        if (chunk.flows["vlan"] != NA).any():
            return False  # flows may be joined later
        source = source_of(chunk, chunk.segments["flow"])
        rows, direction = self._pass.add(source, syn_options_of(chunk), 0)
        if len(rows):
            chosen = np.zeros(len(chunk.segments), dtype=bool)
            chosen[rows] = True
            self._kept.append(chunk.where(chosen))
            self._kept_direction.append(direction)
            self._kept_rows += len(rows)
        return not self._pass.is_odd and not self._is_in_vain()

    def _is_in_vain(self) -> bool:
        """Return whether so many segments had to be stored that counting without storage saves no memory."""
        return LIMITS.exceeds(self._pass.connections, self._kept_rows, self._pass.segments)

    def finish(self, capture: CaptureTables, number: Array) -> Analysis | None:
        """Return the analysis; None if the capture must be read completely instead.

        Parameters
        ----------
        capture : CaptureTables
            The files and flows of the capture, without segments.
        number : ndarray of int64, shape (n_flows,)
            The row in `capture.flows` of each flow of the blocks.
        """
        counted, sides, begun = self._pass.finish()
        known, is_kept = counted["is_known"].reshape(-1, 2).all(axis=1), begun["is_kept"] > 0
        if not (known | is_kept).all() or any(file.without_time for file in capture.files):
            return None
        forward, initiator_by = _initiators(capture, begun, sides, number)
        turned = np.stack([forward & 1, (forward & 1) ^ 1], axis=1).astype(np.int64)
        order = (2 * np.arange(len(forward))[:, None] + turned).ravel()
        counted, sides = ({name: v[order] for name, v in each.items()} for each in (counted, sides))
        columns, acknowledged = blank(2 * len(forward)), counted["beginning_acknowledged"] > 0
        late = self._late(capture, number, forward, initiator_by, is_kept)
        stamps = _Stamps(self._pass, order)
        own_counted(columns, counted, sides)
        try:
            rare = Rare(stamps.of, late.min_shift)
            put_counted(columns, counted, sides, rare, resolution_ns_of(capture))
        except _NotKeptError:
            return None
        if not known.all():
            late.put(columns, acknowledged)
        file = np.zeros(len(forward), dtype=np.uint16)
        began = Began(file, forward, initiator_by, sides["has_syn"], sides["has_answer"])
        connections, directions = tables_by(began, columns, acknowledged)
        marked = {mark: self._pass.marked[mark.bit_length() - 1] for mark in CaptureMark}
        oversized = self._pass.oversized + late.oversized(directions)
        facts = SegmentFacts(self._pass.segments, marked, oversized, steps_by(directions, stamps.idle_gaps))
        return Analysis(capture, Partition.empty(), connections, directions, facts)

    def _late(
        self, capture: CaptureTables, number: Array, forward: Array, initiator_by: Array, is_kept: Array
    ) -> _Late:
        """Return the connections whose segments were stored, because their beginning was not captured."""
        chosen = np.flatnonzero(is_kept)
        kept = joined([*self._kept, CaptureTables(capture.files, flows=capture.flows)])
        flow = kept.segments["flow"]
        kept.segments.columns["flow"] = (2 * number[flow >> 1] + (flow & 1)).astype(np.int32)
        raw = np.concatenate([np.empty(0, dtype=np.int32), *self._kept_direction])
        connection = np.searchsorted(chosen, raw >> 1)
        direction = (2 * connection + (raw & 1 ^ forward[raw >> 1] & 1)).astype(np.int32)
        first_row = np.unique(connection, return_index=True)[1]
        bounds = bounds_of(direction, 2 * len(chosen))
        parts = Partition(direction, None, bounds, first_row, forward[chosen], initiator_by[chosen])
        return _Late(kept, parts, np.stack([2 * chosen, 2 * chosen + 1], axis=1).ravel())


@dataclass
class _Late:
    """Connections whose beginning was not captured, with all of their segments."""

    capture: CaptureTables
    parts: Partition
    sides: Array
    """Numbers of their directions in the complete capture, ascending."""

    def put(self, columns: Columns, acknowledged: Array) -> None:
        """Write the statistics of these connections into their rows of DIRECTIONS (`columns`), in place."""
        own(columns, *columns)
        counted, acknowledged[self.sides] = counted_columns(self.capture, self.parts)
        for name, values in counted.items():
            columns[name][self.sides] = values

    def min_shift(self, direction: int) -> int:
        """Return `Rare.min_shift` of a direction of the complete capture.

        Raises
        ------
        _NotKeptError
            If the segments of the direction were not stored: a SYN of the other side was captured, but none of its own.
        """
        place = int(np.searchsorted(self.sides, direction))
        if place == len(self.sides) or self.sides[place] != direction:
            raise _NotKeptError
        return rare_of(self.capture, self.parts, 0).min_shift(place)

    def oversized(self, directions: Table) -> int:
        """Return the number of segments that are larger than their receiver accepts."""
        payload, mss_bytes = self.capture.segments["payload_bytes"], directions["mss_bytes"]
        return oversized(payload, self.parts.direction, mss_bytes[self.sides])


@dataclass
class _Stamps:
    """Capture times and TCP timestamps of the segments that were stored, found by row of DIRECTIONS."""

    running: CountingPass
    order: Array
    """The directed flow of each direction, in the numbering of the kernel."""

    def of(self, direction: int) -> Stamped:
        return self.running.stamps(int(self.order[direction]))

    def idle_gaps(self, direction: int) -> StampedGaps:
        return _IdleGaps(self.running, int(self.order[direction]))


@dataclass
class _IdleGaps:
    """The gaps between segments of one directed flow, counted by the native kernel; see `StampedGaps`."""

    running: CountingPass
    flow: int

    def calm(self) -> tuple[int, int, int]:
        return self.running.calm_stamps(self.flow, SMALLEST_STEP_NS)

    def unexpected(self, limits: dict[str, float]) -> Array:
        return self.running.stamp_disagreements(self.flow, **limits)

    def each(self) -> Iterator[tuple[Array, Array]]:
        return SegmentGaps(*self.running.stamps(self.flow)).each()


def _initiators(capture: CaptureTables, begun: Columns, sides: Columns, number: Array) -> tuple[Array, Array]:
    """Return the directed flow of each connection's initiator, and the rule used (`Initiator`)."""
    flow = 2 * number[begun["flow"]]
    by_answer = np.where(begun["first_answer"] >= 0, begun["first_answer"] ^ 1, begun["first"])
    side = np.where(begun["first_syn"] >= 0, begun["first_syn"], by_answer)
    forward, initiator_by = (flow + side).astype(np.int32), np.zeros(len(flow), dtype=np.uint8)
    late = np.flatnonzero((begun["first_syn"] < 0) & (begun["first_answer"] < 0))
    if len(late):
        sent_bytes = sides["payload_bytes"].reshape(-1, 2)[late].astype(np.float64)
        answering = np.flatnonzero(sides["has_answer"])
        answered = servers(capture.flows, (flow[answering >> 1] + (answering & 1)).astype(np.int32))
        forward[late], initiator_by[late] = assumed(capture, forward[late], sent_bytes, answered)
    return forward, initiator_by
