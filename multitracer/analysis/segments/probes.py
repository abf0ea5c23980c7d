"""Zero-window probes and keep-alives, which look like retransmissions but are not.

Rules of the file
-----------------
- A zero-window probe is a plain segment (no SYN, FIN, RST) of 1 payload byte, sent while the last window of
  the other direction is 0 (RFC 9293, section 3.8.6.1). Its byte counts as sent if the next data of the sender begin
  behind it, or if the sender never sends data at or behind it again. Otherwise the receiver did not accept the byte.
- A keep-alive is a plain segment of 0 or 1 payload byte whose sequence number is that of the last byte sent,
  while all data are acknowledged (RFC 9293, section 3.8.4). If the window is closed, such a segment of 0
  bytes is a window probe of Linux.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import BEGIN_OR_END, Timeline

if TYPE_CHECKING:
    from multitracer.analysis.group import SegmentGroup
    from multitracer.analysis.segments.axis import Acks, DataRanges, SequenceAxis
    from multitracer.analysis.segments.coverage import Coverage
    from multitracer.tables import Array


def zero_windows(group: SegmentGroup) -> Array:
    """Return the positions of plain segments that advertise a window of 0.

    Returns
    -------
    ndarray of int64, shape (n_closed,), ascending
    """
    closed = np.flatnonzero(group.window == 0)
    return closed[group.plain(closed)]


def window_probes(group: SegmentGroup, closed: Array) -> Array:
    """Return the positions of 1-byte probes of a closed window.

    Parameters
    ----------
    group : SegmentGroup
    closed : ndarray of int64, shape (n_closed,)
        Positions that advertise a window of 0, as returned by `zero_windows`.

    Returns
    -------
    ndarray of int64, shape (n_probes,), ascending
    """
    candidates = np.flatnonzero(group.payload == 1) if len(closed) else closed
    asks_closed = np.zeros(group.directions, dtype=bool)
    asks_closed[group.direction_of(closed) ^ 1] = True
    candidates = candidates[group.plain(candidates) & asks_closed[group.direction_of(candidates)]]
    probes: Array = candidates[window_is_closed(group, candidates)]
    return probes


def window_is_closed(group: SegmentGroup, position: Array) -> Array:
    """Return whether the other direction's last segment before each position advertises a window of 0.

    Parameters
    ----------
    group : SegmentGroup
    position : ndarray of int64, shape (n,)
        Positions in the group.

    Returns
    -------
    ndarray of bool, shape of `position`
        False where there is no such segment.
    """
    if not len(position):
        return np.zeros(0, dtype=bool)
    timeline = Timeline.of(group.rows, group.bounds)
    answer = timeline.last_before(group.direction_of(position) ^ 1, group.rows[position])
    plain = (group.flags[answer] & BEGIN_OR_END) == 0
    closed: Array = (answer >= 0) & (group.window[answer] == 0) & plain
    return closed


def without_refused(chunks: DataRanges, probes: Array, group: SegmentGroup) -> DataRanges:
    """Return the data segments without repeated probes, and without probes whose byte was not accepted.

    Parameters
    ----------
    chunks : DataRanges
    probes : ndarray of int64, shape (n_probes,)
        Positions in the group, ascending, as returned by `window_probes`.
    group : SegmentGroup
    """
    keep = np.ones(len(chunks.position), dtype=bool)
    keep[np.searchsorted(chunks.position, probes)] = False
    start = chunks.start[~keep]
    data = chunks.chosen(keep, group)
    reach = np.maximum.accumulate(data.end)
    above = np.searchsorted(reach, start, side="right")
    next_start = np.append(data.start, np.iinfo(np.int64).max)[above]
    _, firsts = np.unique(start, return_index=True)
    taken = np.zeros(len(start), dtype=bool)
    taken[firsts] = True
    keep[np.flatnonzero(~keep)] = taken & (next_start > start)
    return chunks.chosen(keep, group)


def keep_alives_with_byte(axis: SequenceAxis, coverage: Coverage, group: SegmentGroup) -> Array:
    """Return which late segments are keep-alives of 1 byte.

    Returns
    -------
    ndarray of bool, shape (n_late,)
        One value for each item of `coverage.late`.
    """
    late, position = coverage.late, axis.chunks.position[coverage.late]
    before = coverage.reach[late - 1]
    alive: Array = group.plain(position) & (axis.chunks.start[late] == before - 1)
    alive &= group.payload[position] == 1
    chosen = np.flatnonzero(alive)
    alive[chosen] = _all_acknowledged(axis.acks, group, position[chosen], before[chosen])
    return alive


def _all_acknowledged(acks: Acks, group: SegmentGroup, position: Array, reach: Array) -> Array:
    """Return for each position whether all data up to `reach` were acknowledged before it.

    It is also True if the direction has no ACK at all.
    """
    direction = group.direction_of(position)
    last = acks.timeline.last_before(direction, group.rows[position])
    unanswered = np.diff(acks.bounds)[direction] == 0
    return np.where(last >= 0, acks.highest[last] >= reach, unanswered) if len(acks.highest) else unanswered


def empty_keep_alives(axis: SequenceAxis, coverage: Coverage, group: SegmentGroup) -> Array:
    """Return the positions of keep-alives (or Linux window probes) without payload.

    Returns
    -------
    ndarray of int64, shape (n_keep_alives,), ascending
    """
    empty = np.flatnonzero(group.units == 0)
    chunks = axis.chunks
    last = np.searchsorted(chunks.position, empty) - 1
    direction = group.direction_of(empty)
    known = last >= chunks.bounds[direction]
    empty, last, direction = empty[known], last[known], direction[known]
    offset = (axis.reference_seq.astype(np.int64) - axis.reference)[direction]
    expected = (coverage.reach[last] + offset - 1).astype(np.uint32)
    alive = np.flatnonzero((group.seq[empty] == expected) & group.plain(empty))
    reach = coverage.reach[last[alive]]
    return empty[alive][_all_acknowledged(axis.acks, group, empty[alive], reach)]
