"""Packets captured twice, which are not retransmissions, found by the IPv4 identification.

The method is that of tcptrace: a TCP retransmission is a new IP packet with a new identification, while a packet that
passes two capture points, or one point twice, keeps its identification. An identification is ignored if it is 0 (RFC
6864 lets senders always use 0) or if a sender gives the same one to every packet. IPv6 has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import reduce_groups

if TYPE_CHECKING:
    from multitracer.analysis.group import SegmentGroup
    from multitracer.analysis.segments.axis import DataRanges
    from multitracer.analysis.segments.coverage import Coverage
    from multitracer.tables import Array


def captured_twice(chunks: DataRanges, coverage: Coverage, group: SegmentGroup, ip_id: Array) -> Array:
    """Return which late segments are the same IP packet as an earlier segment.

    A late segment is the same packet if it has the IP identification of the last segment that began at the
    same sequence number.

    Parameters
    ----------
    chunks, coverage : DataRanges, Coverage
        Data segments and coverage of `group`.
    group : SegmentGroup
    ip_id : ndarray of uint16, shape (n_segments,)
        IPv4 identification of the capture's segments, by row; 0 is ignored.

    Returns
    -------
    ndarray of bool, shape (n_late,)
        One value for each item of `coverage.late`.
    """
    late = coverage.late
    if not len(late):
        return np.zeros(0, dtype=bool)
    earlier = _copy_before(chunks, coverage)
    identity, other = (ip_id[group.rows[chunks.position[p]]] for p in (late, earlier))
    same = (chunks.start[late] == chunks.start[earlier]) & (chunks.end[late] == chunks.end[earlier])
    twice: Array = same & (identity == other) & (identity != 0) & (earlier < late)
    return twice & telling(group, ip_id, chunks.position[late]) if twice.any() else twice


def telling(group: SegmentGroup, ip_id: Array, position: Array) -> Array:
    """Return for each position whether its sender gives different IP identifications to its packets.

    Otherwise the identification does not help to find packets captured twice.

    Parameters
    ----------
    group : SegmentGroup
    ip_id : ndarray of uint16, shape (n_segments,)
        IPv4 identification of the capture's segments, by row; 0 is ignored.
    position : ndarray of int64, shape (n,)
        Positions in the group.

    Returns
    -------
    ndarray of bool, shape of `position`
    """
    identity = ip_id[group.rows]
    lowest = reduce_groups(np.minimum, identity, group.bounds, empty=0)
    highest = reduce_groups(np.maximum, identity, group.bounds, empty=0)
    varies: Array = (lowest != highest)[group.direction_of(position)]
    return varies


def _copy_before(chunks: DataRanges, coverage: Coverage) -> Array:
    """Return for each late segment an earlier segment that contains its first sequence number.

    It is the last earlier late segment with the same begin; without one, the segment that was on time.
    """
    late, start = coverage.late, chunks.start[coverage.late]
    on_time = np.searchsorted(coverage.reach, start, side="right")
    earlier = np.minimum(on_time, len(coverage.reach) - 1)
    order = np.argsort(start, kind="stable")
    again = np.flatnonzero(np.diff(start[order]) == 0) + 1
    earlier[order[again]] = late[order[again - 1]]
    return earlier
