"""How long packets waited: the delay of each beyond the least, and which of them were lost.

Rules of the file
-----------------
- With a capture at both ends the delay is that of the way of the data, by the clocks as they are related; an
  error that is constant cancels. Without, it is the round trip by exact ACKs (Karn's rule).
- Only segments of (nearly) full size count: a small one takes less time to be sent, and would make all others
  look as if they had waited.
- The least delay is that of a path: where the delay jumps faster than any queue of ours can grow or drain and
  never comes back, another path begins, with a least of its own.
- Packets that were lost in a dead time, or never left the host, say nothing of a queue and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import in_order
from multitracer.analysis.two_points.packets import Outcome
from multitracer.diagnosis.once import Once, kept
from multitracer.tables import NA
from multitracer.tcp import Vantage
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.diagnosis.join.recorded_transfer import Pairs
    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.diagnosis.packets.wire_segments import WireSegments
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array, Table

_FULL = 0.9
"""Part of the largest payload from which on a segment is of full size."""
_JUMP_NS = 10 * NS_PER_MS
"""Least step of the path's own delay that is told from noise, as in limits: Wi-Fi makes steps of 9 ms."""
_ONE_MORE, _NEAREST = 1.5, 0.05
"""Times the link's own time for a segment, by the nearest arrivals: one that is sent right behind another
waits for it, and where a window grew by it that queue stays. On a slow link that is a large step."""
_LASTS = 0.8
"""Part of a step by which the least delay after it must exceed (or fall short of) the least before."""
_EMPTY = 0.2
"""Part of a step by which the delays at it may exceed the least before and after it."""
_AROUND = 8
"""Samples on both sides of a step that must be even ..."""
_EVEN = 0.3
"""... up to this part of it."""


@dataclass(frozen=True)
class PacketDelays(Once):
    """Delays of one direction in order of sending."""

    row: Array
    """Rows of the table of the end that sent them."""
    place: Array
    """Places in the wire segments, of data; of ACKs the rows."""
    time_ns: Array
    """When each left, by that end's clock."""
    queue_ns: Array
    """Delay beyond the least of its path."""
    least_ns: int
    """The least of all: a round trip, or one way up to the error of the clocks."""
    changes: Array
    """Places in `row` where another path begins ..."""
    steps_ns: Array
    """... and by how much the least delay grew there."""
    is_one_way: bool

    @kept
    def ordered_ns(self) -> Array:
        """The queues of all in ascending order."""
        return in_order(self.queue_ns)


def data_delays(transfer: Transfer, segments: WireSegments) -> PacketDelays | None:
    """Return the delays of full segments; None if no capture shows them."""
    if transfer.data_pairs is not None and transfer.receiver is not None:
        full = segments.payload_bytes >= _FULL * segments.payload_bytes.max(initial=0)
        return _of_segments(transfer, segments, full)
    if transfer.layers.vantage is Vantage.NEAR_RECEIVER:
        return None
    table, own = transfer.sender, transfer.data
    payload = table["payload_bytes"][own]
    place = np.flatnonzero((payload >= _FULL * payload.max(initial=0)) & (table["rtt_ns"][own] > 0))
    rows = own[place]
    return _delays(rows, place, table["time_ns"][rows], table["rtt_ns"][rows], is_one_way=False)


def all_delays(transfer: Transfer, segments: WireSegments) -> PacketDelays | None:
    """Return the delays of data of any size; None without a capture at both ends.

    A small one before a large one makes this look as if it had waited for up to the time of one segment.
    """
    if transfer.data_pairs is None or transfer.receiver is None:
        return None
    return _of_segments(transfer, segments, segments.payload_bytes > 0)


def ack_delays(transfer: Transfer) -> PacketDelays | None:
    """Return the delays of the way back; None without a capture at both ends."""
    if transfer.ack_pairs is None or transfer.receiver is None:
        return None
    return _of_acks(transfer, transfer.ack_pairs, transfer.receiver)


def _of_segments(transfer: Transfer, segments: WireSegments, chosen: Array) -> PacketDelays | None:
    """Return the delays one way of the chosen segments whose arrival is known."""
    assert transfer.receiver is not None
    place = np.flatnonzero(segments.closes & chosen)
    rows, arrived = segments.row[place], segments.arrived[place]
    left_ns = transfer.sender["time_ns"][rows]
    came_ns = transfer.came_ns[arrived]
    return _delays(rows, place, left_ns, came_ns - left_ns, is_one_way=True)


def _of_acks(transfer: Transfer, pairs: Pairs, receiver: Table) -> PacketDelays | None:
    """Return the delays of the receiver's segments without payload."""
    both = (pairs.table["outcome"] == Outcome.MATCHED) & (pairs.sent != NA) & (pairs.arrived != NA)
    both &= receiver["payload_bytes"][pairs.sent] == 0
    sent, arrived = pairs.sent[both], pairs.arrived[both]
    left_ns = transfer.came_ns[sent]
    came_ns = transfer.sender["time_ns"][arrived]
    return _delays(sent, sent, left_ns, came_ns - left_ns, is_one_way=True)


def _delays(
    rows: Array, place: Array, time_ns: Array, delay_ns: Array, *, is_one_way: bool
) -> PacketDelays | None:
    if not len(rows):
        return None
    changes = path_changes(time_ns, delay_ns)
    starts = np.concatenate([[0], changes])
    least = np.minimum.reduceat(delay_ns, starts)
    floor = np.repeat(least, np.diff(np.append(starts, len(rows))))
    steps_ns = np.diff(least)
    return PacketDelays(
        rows, place, time_ns, delay_ns - floor, int(least.min()), changes, steps_ns, is_one_way
    )


def path_changes(time_ns: Array, delay_ns: Array) -> Array:
    """Return where the delay jumps for good: by more between two packets than their distance in time.

    The queue must have been empty: the delays around the jump are (nearly) the least of all before and of all
    after it. A queue that grows fast, and then stays, is no jump, nor is one segment more in it.
    """
    if len(delay_ns) < 2 * _AROUND:
        return np.empty(0, dtype=np.int64)
    step = np.diff(delay_ns)
    size = np.abs(step)
    if not (size > _JUMP_NS).any():
        return np.empty(0, dtype=np.int64)
    before = np.minimum.accumulate(delay_ns)[:-1]
    after = np.minimum.accumulate(delay_ns[::-1])[::-1][1:]
    lasts = np.sign(step) * (after - before) >= _LASTS * size
    empty = np.maximum(delay_ns[:-1] - before, delay_ns[1:] - after) <= _EMPTY * size
    came_ns = np.diff(time_ns + delay_ns)
    one_ns = _ONE_MORE * np.quantile(came_ns[came_ns > 0], _NEAREST) if (came_ns > 0).any() else 0.0
    apart_ns = np.diff(time_ns)
    least_ns = np.maximum(np.maximum(apart_ns, one_ns - apart_ns), _JUMP_NS)
    jumps = np.flatnonzero((size > least_ns) & lasts & empty) + 1
    return np.array([at for at in jumps if _is_even(delay_ns, int(at), size[at - 1])], dtype=np.int64)


def _is_even(delay_ns: Array, at: int, jump_ns: int) -> bool:
    """Return whether the samples on both sides of a jump differ little from each other."""
    sides = delay_ns[max(at - _AROUND, 0) : at], delay_ns[at : at + _AROUND]
    return all(len(side) == _AROUND and np.ptp(side) <= _EVEN * jump_ns for side in sides)


def lost_places(transfer: Transfer, segments: WireSegments, dead_times: list[DeadTime]) -> Array:
    """Return the places of the segments that were lost on their way, but for those of a dead time.

    They are indexes in `segments`: int64, ascending.
    """
    lost = np.flatnonzero(segments.lost)
    stamps = transfer.sender["time_ns"][segments.row[lost]]
    round_trip_ns = int(transfer.rtt_ns.max(initial=0))
    failed = [(each.begin_ns - round_trip_ns, each.end_ns) for each in dead_times if each.failed]
    begin, end = np.array([each for each in failed if each[0] <= each[1]], dtype=np.int64).reshape(-1, 2).T
    begun, over = np.searchsorted(np.sort(begin), stamps, "right"), np.searchsorted(np.sort(end), stamps)
    dead = begun > over  # in one of them, at least
    return np.asarray(lost[~dead])
